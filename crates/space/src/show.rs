//! A table's definition as the SQL that makes it.

use crate::dimensions::{show, show_names};
use crate::keywords::quoted;
use crate::ladder::Ladder;
use crate::schema::{Column, Curve, OnConflict, TableDef};
use std::fmt::Write;

impl TableDef {
    /// The CREATE TABLE statement that makes such a table.
    pub fn show_create(&self) -> String {
        let key = self.key_columns().unwrap_or_default();
        let column = |(at, column): (usize, &Column)| {
            let constraint = match column.nullable {
                _ if key == [at] => " PRIMARY KEY",
                true => "",
                false => " NOT NULL",
            };
            format!("  {} {}{constraint}", quoted(&column.name), column.sql_type())
        };
        let mut columns: Vec<String> = self.columns.iter().enumerate().map(column).collect();
        if key.len() > 1 {
            let names: Vec<_> = key.iter().map(|&at| quoted(&self.columns[at].name)).collect();
            columns.push(format!("  PRIMARY KEY ({})", names.join(", ")));
        }
        let mut text = format!("CREATE TABLE {} (\n{}\n)", quoted(&self.name), columns.join(",\n"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_type::CHARS_MAX;
    use crate::dimensions;
    use crate::schema::{DataType, PrimaryKey, TableOptions};
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
            name: "sales".into(),
            columns: names.iter().enumerate().map(column).collect(),
            next_column_id: names.len() as u32,
            key: None,
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
        def.options = TableOptions { freshness: Some("5s".into()), curve: Curve::Z, ladder: Ladder::Half };
        def.validate().unwrap();
        let with = " WITH (\n  dimensions = 'shop(order, \"It''s\"); time(sold_at: year, month)',\n  measures   = 'price',\n  \
                    curve      = 'z',\n  freshness  = '5s',\n  ladder     = '1/2'\n)";
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
