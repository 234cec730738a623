//! What table would hold these files: columns and types for `alluvia load` into a new table.
//!
//! Invariants:
//! - Files and standard input are sampled, not read through: what the sample does not show, the load still checks, and refuses with its place.
//!   A table that was made so is loaded EXACT: what would be changed to fit is refused, too.
//! - Files that hold nothing are passed over, and are no part of the sample.
//! - What gives its bytes once, standard input or a pipe, is opened once: what looks at it takes nothing from the load (`peeked`).
//! - A type is taken only if every sampled value of the column has it, the narrowest first: boolean, BIGINT, DECIMAL(38, 0), DOUBLE, DATE,
//!   TIMESTAMP with or without zone, else TEXT. Whole numbers are BIGINT because later ones may be larger; numbers with leading
//!   zeros are codes, so TEXT. Of files that say their types, the type is one that holds those of all (`schemas`).
//! - What was found out about a CSV file's dialect goes into the options, so that the load reads the file the same way; but not
//!   where there are files of several formats, which would not take it.

mod csv;
mod json;
mod schemas;
mod seen;

pub(crate) use schemas::check_holds;
pub(crate) use seen::stays_as_written;

use crate::body::Bound;
use crate::columnar::{arrow_stream, parquet_schema};
use crate::csv_in::empty_lines;
use crate::files::{InputFile, open_text, open_unpacked, resolve};
use crate::peeked::Sampled;
use crate::progress::Progress;
use crate::records::{Blocks, Cut, check_line_ends};
use crate::roots::Roots;
use alluvia_catalog::RelationName;
use alluvia_space::{Column, DataType, PUBLIC_SCHEMA, TableDef, TableOptions};
use alluvia_syntax::copy::options::{CopyOptions, Direction, Format};
use alluvia_syntax::copy::statement::Source;
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId};
use arrow::datatypes::{Schema, SchemaRef};
use csv::infer_csv;
use json::infer_json;
use schemas::from_schemas;
use std::io::{BufReader, Read};
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
    /// A CSV file and the name that its first line has twice, where that is a header, or would be one but for this.
    pub repeated_name: Option<(String, String)>,
}

impl Inferred {
    fn new(columns: Vec<InferredColumn>, options: CopyOptions) -> Inferred {
        Inferred { columns, options, row_at_first: None, repeated_name: None }
    }

    /// The CREATE TABLE statement, without a semicolon.
    pub fn create_table(&self, table: &RelationName) -> String {
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
            schema: table.schema().unwrap_or(PUBLIC_SCHEMA).to_owned(),
            name: table.name.clone(),
            columns: self.columns.iter().enumerate().map(column).collect(),
            next_column_id: self.columns.len() as u32,
            key: None,
            rules: alluvia_space::TableRules::default(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            dimensions: Vec::new(),
            measures: Vec::new(),
            seed: 0,
            options: TableOptions::default(),
        };
        definition.show_create()
    }

    /// The COPY statement that loads the files into that table, without a semicolon: a value that would be changed to be of a type
    /// that was found is a bad row.
    pub fn copy_from(&self, table: &RelationName, source: &Source) -> String {
        let options = CopyOptions { is_exact: true, ..self.options.clone() };
        copy_statement(table, source, &options)
    }

    /// As [`Inferred::copy_from`], into a table that somebody else made: values become what its types are, as PostgreSQL assigns.
    pub fn copy_into_existing(&self, table: &RelationName, source: &Source) -> String {
        copy_statement(table, source, &self.options)
    }

    /// Refuses to make a table of a header that has a name twice.
    pub fn check_names(&self) -> Result<()> {
        let Some((file, name)) = &self.repeated_name else { return Ok(()) };
        let message = format!("{file}: the first line has the name {name} twice");
        Err(Error::new(ErrorKind::DuplicateColumn, message).with_hint(
            "rename one in the file; or create the table, and list its columns: COPY table (a, b, ...) FROM ... (HEADER true); \
             if the line is a row, load with --header false",
        ))
    }
}

fn copy_statement(table: &RelationName, source: &Source, options: &CopyOptions) -> String {
    let exactly = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let schema = table.schema().map(|schema| exactly(schema) + ".").unwrap_or_default();
    format!("COPY {schema}{} FROM {}{}", exactly(&table.name), source.to_sql(), options.to_sql())
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
    let all_alike = like_first.len() == files.len();
    let mut samples = Vec::new();
    for sample in like_first {
        if samples.len() == SAMPLE_FILES {
            break;
        }
        if !sample.is_plain() {
            let message =
                format!("{} is a pipe or a device, which gives its bytes once: it cannot be looked at", sample.name());
            return Err(Error::new(ErrorKind::NotSupported, message)
                .with_hint("load it by itself, create the table first, or save what comes to a file"));
        }
        if holds_something(&sample, format, options)? {
            samples.push(sample);
        }
    }
    if samples.is_empty() {
        return Err(nothing_in(&first.name(), files.len()));
    }
    let mut inferred = infer_from(&samples, format, options)?;
    if !all_alike {
        inferred.options = options.clone();
    }
    Ok(inferred)
}

/// Whether there is more than line ends in it. Files that say their types say something without a row, too.
fn holds_something(sample: &Sampled<'_>, format: Format, options: &CopyOptions) -> Result<bool> {
    if !matches!(format, Format::Csv | Format::JsonLines) {
        return Ok(true);
    }
    let name = sample.name();
    let text = open_text(sample.open()?, &name, options.compression, &Arc::new(Progress::default()), &Bound::None)?;
    for byte in BufReader::new(text).bytes() {
        if !matches!(byte.map_err(|error| Error::io(&name, "reading", &error))?, b'\n' | b'\r') {
            return Ok(true);
        }
    }
    Ok(false)
}

fn nothing_in(first: &str, files: usize) -> Error {
    let message = match files {
        1 => format!("{first} holds nothing to infer columns from"),
        _ => format!("{files} files hold nothing to infer columns from, {first} the first of them"),
    };
    Error::new(ErrorKind::InvalidValue, message)
}

/// The first of `samples` is there; all are of one format.
pub(crate) fn infer_from(samples: &[Sampled<'_>], format: Format, options: &CopyOptions) -> Result<Inferred> {
    let inferred = match format {
        Format::Csv => infer_csv(samples, options)?,
        Format::JsonLines => infer_json(samples, options)?,
        Format::Parquet | Format::Arrow => {
            let schemas = samples.iter().map(|sample| Ok((sample.name(), schema_of(sample, format, options)?)));
            from_schemas(&schemas.collect::<Result<Vec<(String, SchemaRef)>>>()?, options)?
        }
        Format::Text | Format::Binary => {
            return Err(Error::new(ErrorKind::NotSupported, "no table can be inferred from PostgreSQL's own formats")
                .with_hint("create the table first"));
        }
        Format::JsonArray => return Err(Error::internal("the options let a JSON array through")),
    };
    if inferred.columns.is_empty() {
        return Err(nothing_in(&samples[0].name(), samples.len()));
    }
    Ok(inferred)
}

/// The schema of a Parquet or an Arrow file.
fn schema_of(sample: &Sampled<'_>, format: Format, options: &CopyOptions) -> Result<SchemaRef> {
    match (format, sample) {
        (Format::Parquet, Sampled::File(file)) => parquet_schema(file),
        (Format::Parquet, Sampled::Stream(..)) => {
            Err(Error::new(ErrorKind::NotSupported, "Parquet cannot be read from standard input")
                .with_hint("its index is at the end of the file: save it to a file first"))
        }
        _ => {
            let (name, silent) = (sample.name(), Arc::new(Progress::default()));
            let bytes = open_unpacked(sample.open()?, &name, options.compression, &silent, &Bound::None)?;
            Ok(arrow_stream(bytes, &name)?.schema())
        }
    }
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

/// The table that would hold rows of a schema that a program has; errors name `source`.
pub fn infer_schema(schema: &Schema, source: &str) -> Result<Inferred> {
    let rows = [(source.to_owned(), Arc::new(schema.clone()))];
    from_schemas(&rows, &CopyOptions::default())
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
    use alluvia_syntax::copy::options::Header;
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
        let (none, mode) = (arrow::datatypes::UnionFields::empty(), arrow::datatypes::UnionMode::Sparse);
        let union = arrow::datatypes::Field::new("l", arrow::datatypes::DataType::Union(none, mode), true);
        let error = infer_schema(&Schema::new(vec![union]), "the data").err().unwrap();
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
            ("99999999999999999999,1", "DECIMAL(38, 0)"),
            ("18446744073709551615,-1,", "DECIMAL(38, 0)"),
            ("99999999999999999999,1.5", "DOUBLE"),
            ("099999999999999999999,1", "TEXT"),
            ("999999999999999999999999999999999999999,1", "DOUBLE"),
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
        let create = inferred.create_table(&"t".into());
        assert!(create.starts_with("CREATE TABLE t (") && create.contains("\"order\" BIGINT"), "{create}");
        assert!(create.contains("column3 TEXT"), "{create}");
        let copy = inferred.copy_from(&"t".into(), &Source::Files("it's.csv".into()));
        assert_eq!(copy, "COPY \"t\" FROM 'it''s.csv' (FORMAT csv, HEADER true, DELIMITER ';', EXACT true)");
        let existing = inferred.copy_into_existing(&"t".into(), &Source::Files("f.csv".into()));
        assert_eq!(existing, "COPY \"t\" FROM 'f.csv' (FORMAT csv, HEADER true, DELIMITER ';')");
        let plain = inferred_with(&[("f.json", b"{\"a\": 1}\n")], &CopyOptions::default()).unwrap();
        assert_eq!(
            plain.copy_from(&"t".into(), &Source::Files("x".into())),
            "COPY \"t\" FROM 'x' (FORMAT ndjson, EXACT true)"
        );
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
    fn files_that_hold_nothing_are_passed_over() {
        fn of(files: &[(&str, &[u8])]) -> Result<Inferred> {
            inferred_with(files, &CopyOptions::default())
        }
        let mut files: Vec<(String, &[u8])> = (0..10).map(|at| (format!("a{at}.csv"), &b"\n\r\n"[..])).collect();
        for (name, bytes) in [("b.csv", &b""[..]), ("c.csv", &b"v;w\n1;x\n"[..]), ("d.csv", &b""[..])] {
            files.push((name.to_owned(), bytes));
        }
        let files: Vec<(&str, &[u8])> = files.iter().map(|(name, bytes)| (name.as_str(), *bytes)).collect();
        let inferred = of(&files).unwrap();
        let found = (inferred.columns.len(), inferred.columns[0].data_type, inferred.options.delimiter);
        assert_eq!(found, (2, DataType::Int64, Some(b';')));
        assert_eq!(of(&[("a.ndjson", b""), ("b.ndjson", b"{\"a\": 1}\n")]).unwrap().columns.len(), 1);
        let nothing = of(&[("a.csv", b""), ("b.csv", b"\n")]).unwrap_err();
        assert!(nothing.message().starts_with("2 files hold nothing to infer columns from"), "{nothing}");
        assert!(of(&[("a.csv", b"")]).unwrap_err().message().ends_with("a.csv holds nothing to infer columns from"));
    }

    #[test]
    fn a_name_that_a_header_has_twice_is_told() {
        let repeated = |text: &str, header: Header| {
            let options = CopyOptions { header, ..CopyOptions::default() };
            let inferred = inferred_with(&[("f.csv", text.as_bytes())], &options).unwrap();
            assert_eq!(inferred.check_names().is_err(), inferred.repeated_name.is_some());
            inferred.repeated_name.map(|(file, name)| (file.ends_with("f.csv"), name))
        };
        let twice = |name: &str| Some((true, name.to_owned()));
        assert_eq!(repeated("a,b,a\n1,2,3\n", Header::Auto), twice("a"));
        assert_eq!(repeated("a,b,a\n1,2,3\n", Header::Yes), twice("a"));
        assert_eq!(repeated("x;x;y z\nz;w;v\n", Header::Auto), twice("x"));
        for (text, header) in [
            ("a,b,a\n1,2,3\n", Header::No),
            ("a,b,A\n1,2,3\n", Header::Auto),
            (",,b\n1,2,3\n", Header::Auto),
            ("a,2019,a\n1,2,3\n", Header::Auto),
            ("<p>,<p>\n1,2\n", Header::Auto),
        ] {
            assert_eq!(repeated(text, header), None, "{text}");
        }
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
