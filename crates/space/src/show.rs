//! A table's definition as the SQL that makes it.

use crate::dimensions::show::identifier;
use crate::dimensions::{show, show_names};
use crate::schema::{Curve, TableDef};
use std::fmt::Write;

/// Words that the SQL parser does not take as a column's name, or that readers would stumble over.
const RESERVED: &str = " all analyze and any array as asc asymmetric begin between both by case cast check collate column \
    commit constraint create cross current current_date current_time current_timestamp current_user default deferrable \
    delete desc distinct do drop else end except exists explain false fetch filter for foreign from full grant group having \
    ilike in inner insert intersect interval into is isnull join lateral leading left like limit localtime localtimestamp \
    natural not notnull null offset on only or order outer over partition placing primary qualify references returning right \
    rollback select session_user set similar some symmetric table tablesample then to trailing true union unique unnest \
    update user using values variadic view when where window with ";

/// A name in SQL text: in double quotes unless it is plain and not a reserved word.
pub fn sql_identifier(name: &str) -> String {
    let written = identifier(name);
    if written == name && RESERVED.split(' ').any(|word| word == name) { format!("\"{name}\"") } else { written }
}

impl TableDef {
    /// The CREATE TABLE statement that makes such a table.
    pub fn show_create(&self) -> String {
        let columns: Vec<String> = self
            .columns
            .iter()
            .map(|column| {
                let constraint = if column.nullable { "" } else { " NOT NULL" };
                format!("  {} {}{constraint}", sql_identifier(&column.name), column.data_type.sql_name())
            })
            .collect();
        let mut text = format!("CREATE TABLE {} (\n{}\n)", sql_identifier(&self.name), columns.join(",\n"));
        let mut options = Vec::new();
        if !self.dimensions.is_empty() {
            options.push(("dimensions", show(&self.dimensions, &self.columns)));
        }
        if !self.measures.is_empty() {
            options.push(("measures", show_names(&self.measures, &self.columns)));
        }
        if self.options.curve == Curve::Z {
            options.push(("curve", "z".to_owned()));
        }
        if let Some(freshness) = &self.options.freshness {
            options.push(("freshness", freshness.clone()));
        }
        if !options.is_empty() {
            let width = options.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
            let options: Vec<String> = options
                .iter()
                .map(|(name, value)| format!("  {name:width$} = '{}'", value.replace('\'', "''")))
                .collect();
            // Writing to a String cannot fail.
            let _ = write!(text, " WITH (\n{}\n)", options.join(",\n"));
        }
        text
    }
}
