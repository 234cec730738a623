//! A table's definition as the SQL that makes it.

use crate::constraint::ForeignKey;
use crate::dimensions::{show, show_names};
use crate::keywords::quoted;
use crate::ladder::Ladder;
use crate::rules::{Check, Identity, IdentityKind};
use crate::schema::{Column, Curve, DataType, OnConflict, TableDef};
use alluvia_types::TableId;
use std::fmt::Write;

impl TableDef {
    /// The CREATE TABLE statement that makes such a table, without what its rows refer to.
    pub fn show_create(&self) -> String {
        self.show_create_with(Vec::new())
    }

    /// The same, and behind it what makes its indexes that are no constraints. `parent` gives a table that its rows refer to.
    pub fn show_create_whole<'a>(&self, parent: impl Fn(TableId) -> Option<&'a TableDef>) -> String {
        let line = |key: &ForeignKey| {
            let text = self.foreign_key_sql(key, parent(key.parent)?);
            Some(format!("  CONSTRAINT {} {text}", quoted(&key.name)))
        };
        let mut text = self.show_create_with(self.foreign_keys.iter().filter_map(line).collect());
        for index in self.indexes.iter().filter(|index| !index.is_constraint) {
            text.push_str(";\n");
            text.push_str(&self.index_sql(index));
        }
        text
    }

    fn show_create_with(&self, foreign_keys: Vec<String>) -> String {
        let key = self.key_columns().unwrap_or_default();
        let column = |(at, column): (usize, &Column)| {
            let identity = self.identity_of(column.id);
            let constraint = match self.takes_null(column) {
                _ if key == [at] => " PRIMARY KEY",
                _ if identity.is_some() => "",
                true => "",
                false => " NOT NULL",
            };
            let (name, sql_type) = (quoted(&column.name), column.sql_type());
            match (identity, self.default_of(column.id)) {
                (Some(identity), _) => format!("  {name} {}{constraint}", numbered(column, identity)),
                (None, Some(sql)) => format!("  {name} {sql_type} DEFAULT {sql}{constraint}"),
                (None, None) => format!("  {name} {sql_type}{constraint}"),
            }
        };
        let mut columns: Vec<String> = self.columns.iter().enumerate().map(column).collect();
        if key.len() > 1 {
            let names: Vec<_> = key.iter().map(|&at| quoted(&self.columns[at].name)).collect();
            columns.push(format!("  PRIMARY KEY ({})", names.join(", ")));
        }
        let check = |check: &Check| format!("  CONSTRAINT {} CHECK ({})", quoted(&check.name), check.sql);
        columns.extend(self.rules.checks.iter().map(check));
        columns.extend(self.unique_lines());
        columns.extend(foreign_keys);
        let mut text = format!("CREATE TABLE {} (\n{}\n)", self.shown(), columns.join(",\n"));
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
        if let Some(key) = self.key.as_ref().filter(|key| key.on_conflict != OnConflict::default()) {
            options.push(("on_conflict", key.on_conflict.name().to_owned()));
        }
        if self.options.ladder != Ladder::default() {
            options.push(("ladder", self.options.ladder.name().to_owned()));
        }
        if let Some(after) = self.options.purge_after {
            options.push(("purge_after", after.name()));
        }
        if let Some(rows) = self.options.rows {
            options.push(("rows", rows.name().to_owned()));
        }
        if let Some(placement) = &self.options.placement {
            options.extend(placement.shown(self));
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

/// A numbered column's type, and how it is numbered.
fn numbered(column: &Column, identity: &Identity) -> String {
    let how = match identity.kind {
        IdentityKind::Always => "ALWAYS",
        IdentityKind::ByDefault => "BY DEFAULT",
        IdentityKind::Serial => {
            return match column.data_type {
                DataType::Int16 => "SMALLSERIAL",
                DataType::Int32 => "SERIAL",
                _ => "BIGSERIAL",
            }
            .to_owned();
        }
    };
    format!("{} GENERATED {how} AS IDENTITY{}", column.sql_type(), identity.options(column.data_type))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_type::CHARS_MAX;
    use crate::dimensions;
    use crate::purge_after::PurgeAfter;
    use crate::rules::{ColumnDefault, TableRules};
    use crate::schema::{PrimaryKey, TableOptions};
    use alluvia_types::{ColumnId, ErrorKind, TableId};

    fn table(names: &[(&str, DataType, bool)]) -> TableDef {
        let column = |(id, &(name, data_type, nullable)): (usize, &(&str, DataType, bool))| Column {
            id: ColumnId(id as u32),
            name: name.into(),
            storage_name: name.into(),
            data_type,
            nullable,
            chars_max: None,
        };
        TableDef {
            id: TableId(1),
            schema: "public".to_owned(),
            name: "sales".into(),
            columns: names.iter().enumerate().map(column).collect(),
            next_column_id: names.len() as u32,
            key: None,
            rules: crate::rules::TableRules::default(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            dimensions: Vec::new(),
            measures: Vec::new(),
            seed: 0,
            options: TableOptions::default(),
        }
    }

    #[test]
    fn the_statement_names_everything_that_was_declared() {
        let mut def = table(&[
            ("sold_at", DataType::TimestampTz, false),
            ("order", DataType::Text, true),
            ("It's", DataType::Text, true),
            ("price", DataType::Decimal { precision: 18, scale: 2 }, true),
        ]);
        let plain = "CREATE TABLE sales (\n  sold_at TIMESTAMP WITH TIME ZONE NOT NULL,\n  \"order\" TEXT,\n  \"It's\" TEXT,\n  price DECIMAL(18, 2)\n)";
        assert_eq!(def.show_create(), plain);
        let declared = "shop(order, \"It's\"); time(sold_at: year, month)";
        def.dimensions = dimensions::parse(declared, &def.columns).unwrap();
        def.measures = vec![ColumnId(3)];
        def.options = TableOptions {
            freshness: Some("5s".into()),
            curve: Curve::Z,
            ladder: Ladder::Half,
            purge_after: Some(PurgeAfter::Seconds(86_400)),
            ..TableOptions::default()
        };
        def.validate().unwrap();
        let with = " WITH (\n  dimensions  = 'shop(order, \"It''s\"); time(sold_at: year, month)',\n  measures    = 'price',\n  \
                    curve       = 'z',\n  freshness   = '5s',\n  ladder      = '1/2',\n  purge_after = '1d'\n)";
        assert_eq!(def.show_create(), format!("{plain}{with}"));
        def.columns[1].chars_max = Some(255);
        def.validate().unwrap();
        assert!(def.show_create().contains("  \"order\" VARCHAR(255),\n"), "{}", def.show_create());
    }

    #[test]
    fn keys_are_shown_beside_their_column_or_behind_all_columns() {
        let mut def = table(&[("Id", DataType::Int64, false), ("b", DataType::Text, false)]);
        let key = |columns: &[u32], on_conflict| {
            let columns = columns.iter().copied().map(ColumnId).collect();
            Some(PrimaryKey { columns, secret: [1, 2], on_conflict })
        };
        def.key = key(&[0], OnConflict::Error);
        def.validate().unwrap();
        assert_eq!(def.show_create(), "CREATE TABLE sales (\n  \"Id\" BIGINT PRIMARY KEY,\n  b TEXT NOT NULL\n)");
        def.key = key(&[1, 0], OnConflict::Replace);
        def.validate().unwrap();
        let of_two =
            "CREATE TABLE sales (\n  \"Id\" BIGINT NOT NULL,\n  b TEXT NOT NULL,\n  PRIMARY KEY (b, \"Id\")\n)";
        assert_eq!(def.show_create(), format!("{of_two} WITH (\n  on_conflict = 'replace'\n)"));
    }

    #[test]
    fn rules_are_shown_as_they_are_declared() {
        let mut def = table(&[
            ("id", DataType::Int64, false),
            ("n", DataType::Int32, false),
            ("Price", DataType::Int32, true),
            ("s", DataType::Text, false),
        ]);
        let identity = |column, data_type, kind| {
            Identity::of_type(ColumnId(column), data_type, kind, "q".to_owned()).expect("a whole number")
        };
        let always = identity(0, DataType::Int64, IdentityKind::Always);
        def.rules = TableRules {
            defaults: vec![ColumnDefault { column: ColumnId(3), sql: "'it''s'".to_owned() }],
            identities: vec![
                Identity { start: 10, increment: 5, ..always },
                identity(1, DataType::Int32, IdentityKind::Serial),
            ],
            checks: vec![Check {
                name: "dear".to_owned(),
                sql: "\"Price\" > 0".to_owned(),
                columns: vec![ColumnId(2)],
            }],
            not_null: Vec::new(),
        };
        def.validate().unwrap();
        let shown = "CREATE TABLE sales (\n  id BIGINT GENERATED ALWAYS AS IDENTITY (INCREMENT BY 5 START WITH 10),\n  \
                     n SERIAL,\n  \"Price\" INT,\n  s TEXT DEFAULT 'it''s' NOT NULL,\n  CONSTRAINT dear CHECK \
                     (\"Price\" > 0)\n)";
        assert_eq!(def.show_create(), shown);
        let refused = |change: fn(&mut TableRules)| {
            let mut def = def.clone();
            change(&mut def.rules);
            def.validate().unwrap_err().kind()
        };
        assert_eq!(refused(|rules| rules.identities[0].increment = 0), ErrorKind::InvalidSetting);
        assert_eq!(refused(|rules| rules.identities[0].start = 0), ErrorKind::InvalidSetting);
        assert_eq!(refused(|rules| rules.identities[0].cache = 0), ErrorKind::InvalidSetting);
        assert_eq!(refused(|rules| rules.identities[1].maximum = 1 << 40), ErrorKind::InvalidSetting);
        assert_eq!(refused(|rules| rules.identities[1].column = ColumnId(3)), ErrorKind::InvalidDefinition);
        assert_eq!(refused(|rules| rules.identities[1].column = ColumnId(2)), ErrorKind::InvalidDefinition);
        assert_eq!(refused(|rules| rules.checks.push(rules.checks[0].clone())), ErrorKind::DuplicateObject);
        assert_eq!(refused(|rules| rules.checks[0].columns.push(ColumnId(9))), ErrorKind::Internal);
    }

    #[test]
    fn definitions_are_checked_by_name() {
        let good = table(&[("a", DataType::Int32, true), ("b", DataType::Text, true)]);
        good.validate().unwrap();
        assert_eq!(good.column("c").unwrap_err().kind(), ErrorKind::UndefinedColumn);
        let refused = |change: fn(&mut TableDef)| {
            let mut def = good.clone();
            change(&mut def);
            let error = def.validate().unwrap_err();
            (error.kind(), error.message().to_owned())
        };
        let (kind, message) = refused(|def| def.columns[1].name = "a".into());
        assert_eq!((kind, message.as_str()), (ErrorKind::DuplicateColumn, "table sales: column a is declared twice"));
        let (kind, message) = refused(|def| def.columns[1].name = "_version".into());
        assert_eq!(kind, ErrorKind::InvalidDefinition);
        assert!(message.contains("column _version has a name that the database uses itself"));
        let (kind, message) = refused(|def| def.columns[1].name = "_op".into());
        assert_eq!(kind, ErrorKind::InvalidDefinition);
        assert!(message.contains("column _op has a name that the database uses itself"));
        assert!(refused(|def| def.measures = vec![ColumnId(1)]).1.contains("measure b is TEXT"));
        assert!(refused(|def| def.columns.clear()).1.contains("at least one column"));
        assert!(
            refused(|def| def.columns[0].data_type = DataType::Decimal { precision: 3, scale: 4 })
                .1
                .contains("DECIMAL(3, 4)")
        );
        for chars_max in [0, CHARS_MAX + 1] {
            let mut def = good.clone();
            def.columns[1].chars_max = Some(chars_max);
            let error = def.validate().unwrap_err();
            assert!(
                error.message().contains(&format!("column b: VARCHAR({chars_max}) has no possible length")),
                "{error}"
            );
        }
        assert_eq!(refused(|def| def.columns[0].chars_max = Some(5)).0, ErrorKind::Internal);
        assert_eq!(refused(|def| def.next_column_id = 1).0, ErrorKind::Internal);
    }
}
