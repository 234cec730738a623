//! What table would hold these files: columns and types for `alluvia load` into a new table.
//!
//! Invariants:
//! - Files and standard input are sampled, not read through: what the sample does not show, the load still checks, and refuses with its place.
//! - What gives its bytes once, standard input or a pipe, is opened once: what looks at it takes nothing from the load (`peeked`).
//! - A type is taken only if every sampled value of the column has it, the narrowest first: boolean, BIGINT, DOUBLE, DATE,
//!   TIMESTAMP with or without zone, else TEXT. Whole numbers are BIGINT because later ones may be larger; numbers with leading
//!   zeros are codes, so TEXT.
//! - What was found out about a CSV file's dialect goes into the options, so that the load reads the file the same way; but not
//!   where there are files of several formats, which would not take it.

mod csv;
mod json;
mod seen;

use crate::copy::body::Bound;
use crate::copy::columnar::{arrow_stream, parquet_schema};
use crate::copy::csv_in::empty_lines;
use crate::copy::files::{InputFile, open_text, open_unpacked, resolve};
use crate::copy::options::{CopyOptions, Direction, Format};
use crate::copy::peeked::Sampled;
use crate::copy::records::{Blocks, Cut, check_line_ends};
use crate::copy::roots::Roots;
use crate::copy::statement::Source;
use crate::session::progress::Progress;
use alluvia_space::{Column, DataType, TableDef, TableOptions};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId};
use arrow::datatypes::Schema;
use csv::infer_csv;
use json::infer_json;
use std::sync::Arc;

/// Bytes that are looked at in each of the first files.
pub(crate) const SAMPLE_BYTES: usize = 4 << 20;
/// Files that are looked at.
const SAMPLE_FILES: usize = 8;

/// A column that a file suggests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InferredColumn {
    /// Lower case, unless two names would become one.
    pub name: String,
    /// The narrowest type that holds the sample.
    pub data_type: DataType,
    /// Whether NULL is allowed; only Parquet and Arrow files say that it is not.
    pub nullable: bool,
}

/// A table that would hold some files, and how to read them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inferred {
    /// In the files' order.
    pub columns: Vec<InferredColumn>,
    /// The options given, with what was found out.
    pub options: CopyOptions,
    /// The beginning of a CSV file's first line, where that was taken for a row and nobody said that it is one.
    pub row_at_first: Option<String>,
}

impl Inferred {
    fn new(columns: Vec<InferredColumn>, options: CopyOptions) -> Inferred {
        Inferred { columns, options, row_at_first: None }
    }

    /// The CREATE TABLE statement, without a semicolon.
    pub fn create_table(&self, table: &str) -> String {
        let column = |(at, column): (usize, &InferredColumn)| Column {
            id: ColumnId(at as u32),
            name: column.name.clone(),
            storage_name: column.name.clone(),
            data_type: column.data_type,
            nullable: column.nullable,
            chars_max: None,
        };
        let definition = TableDef {
            id: TableId(0),
            name: table.to_owned(),
            columns: self.columns.iter().enumerate().map(column).collect(),
            next_column_id: self.columns.len() as u32,
            dimensions: Vec::new(),
            measures: Vec::new(),
            seed: 0,
            options: TableOptions::default(),
        };
        definition.show_create()
    }

    /// The COPY statement that loads the files into that table, without a semicolon.
    pub fn copy_from(&self, table: &str, source: &Source) -> String {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        format!("COPY {} FROM {}{}", quoted(table), source.to_sql(), self.options.to_sql())
    }
}

/// Looks at the files of `source`, wherever the process may. Blocks.
pub fn infer(source: &Source, options: &CopyOptions) -> Result<Inferred> {
    if *source == Source::Stdin {
        return Err(Error::new(ErrorKind::NotSupported, "columns cannot be inferred from standard input by its name")
            .with_hint("hand it to infer_stream"));
    }
    if source.urls().next().is_some() {
        return Err(Error::new(ErrorKind::NotSupported, "columns cannot be inferred from a URL")
            .with_hint("create the table first, or save what is there to a file"));
    }
    let files = resolve(source, &Roots::Anywhere)?;
    let first = &files[0];
    options.check(Direction::From, Some(&first.name()))?;
    let format = options.format_of(Some(&first.name()))?;
    let is_like_first = |file: &&InputFile| options.format_of(Some(&file.name())).is_ok_and(|other| other == format);
    let like_first: Vec<Sampled<'_>> = files.iter().filter(is_like_first).map(Sampled::File).collect();
    let samples = &like_first[..like_first.len().min(SAMPLE_FILES)];
    if let Some(once) = samples.iter().find(|sample| !sample.is_plain()) {
        let message =
            format!("{} is a pipe or a device, which gives its bytes once: it cannot be looked at", once.name());
        return Err(Error::new(ErrorKind::NotSupported, message)
            .with_hint("load it by itself, create the table first, or save what comes to a file"));
    }
    let mut inferred = infer_from(samples, format, options)?;
    if like_first.len() < files.len() {
        inferred.options = options.clone();
    }
    Ok(inferred)
}

/// The first of `samples` is there; all are of one format.
pub(crate) fn infer_from(samples: &[Sampled<'_>], format: Format, options: &CopyOptions) -> Result<Inferred> {
    let (first, name) = (&samples[0], samples[0].name());
    let inferred = match (format, first) {
        (Format::Csv, _) => infer_csv(samples, options)?,
        (Format::JsonLines, _) => infer_json(samples, options)?,
        (Format::Parquet, Sampled::File(file)) => from_schema(parquet_schema(file)?.as_ref(), &name, options)?,
        (Format::Parquet, Sampled::Stream(..)) => {
            return Err(Error::new(ErrorKind::NotSupported, "Parquet cannot be read from standard input")
                .with_hint("its index is at the end of the file: save it to a file first"));
        }
        (Format::Arrow, _) => {
            let bytes =
                open_unpacked(first.open()?, &name, options.compression, &Arc::new(Progress::default()), &Bound::None)?;
            from_schema(arrow_stream(bytes, &name)?.schema().as_ref(), &name, options)?
        }
        (Format::Text | Format::Binary, _) => {
            return Err(Error::new(ErrorKind::NotSupported, "no table can be inferred from PostgreSQL's own formats")
                .with_hint("create the table first"));
        }
        (Format::JsonArray, _) => return Err(Error::internal("the options let a JSON array through")),
    };
    if inferred.columns.is_empty() {
        return Err(Error::new(ErrorKind::InvalidValue, format!("{name} holds nothing to infer columns from")));
    }
    Ok(inferred)
}

/// The first whole records of one.
fn sample_of(sampled: &Sampled<'_>, options: &CopyOptions, cut: Cut) -> Result<Vec<u8>> {
    let name = sampled.name();
    let text = open_text(sampled.open()?, &name, options.compression, &Arc::new(Progress::default()), &Bound::None)?;
    let sample = Blocks::new(text, &name, cut, SAMPLE_BYTES).next()?.map(|block| block.bytes).unwrap_or_default();
    // A header may come after lines with nothing on them.
    let sample = sample[empty_lines(&sample)..].to_vec();
    check_line_ends(&sample, cut, &name)?;
    Ok(sample)
}

/// The table that would hold rows of a schema; errors name `source`.
pub fn infer_schema(schema: &Schema, source: &str) -> Result<Inferred> {
    from_schema(schema, source, &CopyOptions::default())
}

fn from_schema(schema: &Schema, name: &str, options: &CopyOptions) -> Result<Inferred> {
    let names = folded(schema.fields().iter().map(|field| field.name().clone()).collect());
    let column = |(field, column): (&Arc<arrow::datatypes::Field>, String)| {
        let data_type = DataType::from_arrow(field.data_type())
            .or_else(|| field.data_type().is_temporal().then_some(DataType::Text));
        let data_type = data_type.ok_or_else(|| {
            Error::new(
                ErrorKind::NotSupported,
                format!("{name}: column {} is {}, which no column type holds", field.name(), field.data_type()),
            )
            .with_hint("create the table without it, and load the other columns alone")
        })?;
        Ok(InferredColumn { name: column, data_type, nullable: field.is_nullable() })
    };
    let columns = schema.fields().iter().zip(names).map(column).collect::<Result<Vec<InferredColumn>>>()?;
    Ok(Inferred::new(columns, options.clone()))
}

/// Names in lower case, if they stay distinct.
fn folded(names: Vec<String>) -> Vec<String> {
    let lower: Vec<String> = names.iter().map(|name| name.to_lowercase()).collect();
    let clash = |at: usize| lower.iter().enumerate().any(|(other, name)| other != at && *name == lower[at]);
    names.into_iter().enumerate().map(|(at, name)| if clash(at) { name } else { lower[at].clone() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::options::Header;
    use std::io::Write;

    #[allow(clippy::disallowed_methods)] // a user's file
    fn inferred_with(files: &[(&str, &[u8])], options: &CopyOptions) -> Result<Inferred> {
        let dir = tempfile::tempdir().unwrap();
        for (name, bytes) in files {
            std::fs::File::create(dir.path().join(name)).unwrap().write_all(bytes).unwrap();
        }
        let pattern = if files.len() == 1 { files[0].0 } else { "*" };
        infer(&Source::Files(dir.path().join(pattern).display().to_string()), options)
    }

    fn columns(name: &str, text: &str) -> String {
        let inferred = inferred_with(&[(name, text.as_bytes())], &CopyOptions::default()).unwrap();
        let column = |column: &InferredColumn| format!("{} {}", column.name, column.data_type.sql_name());
        inferred.columns.iter().map(column).collect::<Vec<String>>().join(", ")
    }

    /// Rows come in other ways than COPY, too.
    #[test]
    fn what_no_column_holds_is_named_and_the_hint_is_of_no_statement() {
        let element = Arc::new(arrow::datatypes::Field::new("item", arrow::datatypes::DataType::Int64, true));
        let list = arrow::datatypes::Field::new("l", arrow::datatypes::DataType::List(element), true);
        let error = infer_schema(&Schema::new(vec![list]), "the data").err().unwrap();
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        assert!(error.message().starts_with("the data: column l is "), "{error}");
        assert_eq!(error.hint(), Some("create the table without it, and load the other columns alone"));
    }

    #[test]
    fn types_are_the_narrowest_that_hold_every_value() {
        for (values, want) in [
            ("1,-2,", "BIGINT"),
            ("1,2.5", "DOUBLE"),
            ("1e5,NaN", "DOUBLE"),
            ("007,008", "TEXT"),
            ("true,FALSE", "BOOLEAN"),
            ("true,1", "TEXT"),
            ("2026-11-21,1999-01-01", "DATE"),
            ("2026-11-21,1999-01-01 10:00:00", "TIMESTAMP"),
            ("2026-11-21 10:00:00Z,1999-01-01 10:00:00+01", "TIMESTAMP WITH TIME ZONE"),
            ("2026-11-21,never", "TEXT"),
            ("99999999999999999999,1", "DOUBLE"),
            (",", "TEXT"),
            ("1/2/2026,", "TEXT"),
        ] {
            let rows: String = values.split(',').map(|value| format!("{value},x\n")).collect();
            assert_eq!(
                columns("f.csv", &format!("Value,other\n{rows}")),
                format!("value {want}, other TEXT"),
                "{values}"
            );
        }
    }

    #[test]
    fn separators_and_headers_are_found() {
        let found = |text: &str| {
            let inferred = inferred_with(&[("f.csv", text.as_bytes())], &CopyOptions::default()).unwrap();
            let names: Vec<String> = inferred.columns.iter().map(|column| column.name.clone()).collect();
            (names.join(" "), inferred.options.delimiter.map(char::from), inferred.options.header)
        };
        assert_eq!(found("a;b\n1;\"x,y\"\n"), ("a b".into(), Some(';'), Header::Yes));
        assert_eq!(found("a\tb\tc\n1\t2\t3,4\n"), ("a b c".into(), Some('\t'), Header::Yes));
        assert_eq!(found("1,2\n3,4\n"), ("column1 column2".into(), Some(','), Header::No));
        assert_eq!(found("x,1\ny,2\n"), ("column1 column2".into(), Some(','), Header::No));
        assert_eq!(found("A,a\n1,2\n"), ("A a".into(), Some(','), Header::Yes), "names that differ by case keep it");
        assert_eq!(found("only\n5\n"), ("only".into(), Some(','), Header::Yes));
        assert_eq!(found("\n\r\na;b\n1;2\n"), ("a b".into(), Some(';'), Header::Yes));
        let tsv = inferred_with(&[("f.tsv", b"a\tb,c\n1\t2\n")], &CopyOptions::default()).unwrap();
        assert_eq!(tsv.columns.len(), 2);
    }

    #[test]
    fn a_first_line_that_was_taken_for_a_row_is_told() {
        let told = |text: &str, header: Header| {
            let options = CopyOptions { header, ..CopyOptions::default() };
            inferred_with(&[("f.csv", text.as_bytes())], &options).unwrap().row_at_first
        };
        assert_eq!(told("country,2019\nAustria,5\n", Header::Auto), Some("country,2019".to_owned()));
        assert_eq!(told("country,2019\nAustria,5\n", Header::No), None);
        assert_eq!(told("country,2019\nAustria,5\n", Header::Yes), None);
        assert_eq!(told("country,year\nAustria,5\n", Header::Auto), None);
        let long = format!("1,{}\n", "ü".repeat(90));
        assert_eq!(told(&long, Header::Auto), Some(format!("1,{}...", "ü".repeat(58))));
    }

    #[test]
    fn the_statements_that_go_with_it_are_complete() {
        let inferred = inferred_with(&[("f.csv", b"Order;when;\n1;2026-01-01;x\n")], &CopyOptions::default()).unwrap();
        let create = inferred.create_table("t");
        assert!(create.starts_with("CREATE TABLE t (") && create.contains("\"order\" BIGINT"), "{create}");
        assert!(create.contains("column3 TEXT"), "{create}");
        let copy = inferred.copy_from("t", &Source::Files("it's.csv".into()));
        assert_eq!(copy, "COPY \"t\" FROM 'it''s.csv' (FORMAT csv, HEADER true, DELIMITER ';')");
        let plain = inferred_with(&[("f.json", b"{\"a\": 1}\n")], &CopyOptions::default()).unwrap();
        assert_eq!(plain.copy_from("t", &Source::Files("x".into())), "COPY \"t\" FROM 'x' (FORMAT ndjson)");
    }

    #[test]
    fn json_columns_come_from_all_keys() {
        let text = "{\"Id\": 1, \"at\": \"2026-11-21T10:00:00Z\", \"tags\": [1]}\n{\"Id\": 2.5, \"ok\": true, \"n\": null, \"s\": \"5\"}\n\
                    not json\n{\"mixed\": 1}\n{\"mixed\": \"x\"}\n";
        let want = "id DOUBLE, at TIMESTAMP WITH TIME ZONE, tags TEXT, ok BOOLEAN, n TEXT, s TEXT, mixed TEXT";
        assert_eq!(columns("f.ndjson", text), want);
    }

    #[test]
    fn all_files_of_a_pattern_are_looked_at() {
        let files: [(&str, &[u8]); 2] = [("a.csv", b"v\n1\n"), ("b.csv", b"v\nx\n")];
        let inferred = inferred_with(&files, &CopyOptions::default()).unwrap();
        assert_eq!((inferred.columns.len(), inferred.columns[0].data_type), (1, DataType::Text));
    }

    #[test]
    fn files_of_several_formats_share_no_dialect() {
        let files: [(&str, &[u8]); 2] = [("a.csv", b"v;w\n1;2\n"), ("b.ndjson", b"{\"v\": 1}\n")];
        let inferred = inferred_with(&files, &CopyOptions::default()).unwrap();
        assert_eq!((inferred.columns.len(), inferred.options), (2, CopyOptions::default()));
    }

    #[test]
    fn nothing_to_look_at_is_an_error() {
        assert!(inferred_with(&[("f.csv", b"")], &CopyOptions::default()).is_err());
        assert!(inferred_with(&[("f.json", b"[1]\n")], &CopyOptions::default()).is_err());
        let returns = inferred_with(&[("f.csv", b"a,b\r1,x\r2,y\r")], &CopyOptions::default()).unwrap_err();
        assert!(returns.message().contains("carriage returns alone"), "{returns}");
        assert_eq!(infer(&Source::Stdin, &CopyOptions::default()).unwrap_err().kind(), ErrorKind::NotSupported);
    }
}
