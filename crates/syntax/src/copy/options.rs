//! What COPY's options mean.
//!
//! Invariants:
//! - An option that is unknown, that does not go with the direction or the format, or that would be ignored, is refused by name.
//! - A set of options is checked as a whole before any file is opened.

use alluvia_space::{OnConflict, RowOp, RowPolicy};
use alluvia_types::{Error, ErrorKind, Result, near_names};
use alluvia_values::time_zone::Zone;
use std::path::PathBuf;

/// File formats, and formats of results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Comma-separated values (RFC 4180), with dialect options.
    Csv,
    /// One JSON object a line.
    JsonLines,
    /// One JSON array of objects; only written.
    JsonArray,
    /// Apache Parquet.
    Parquet,
    /// PostgreSQL's text format: a line a row, tabs, backslashes. Read anywhere; written to PostgreSQL's clients alone.
    Text,
    /// PostgreSQL's binary format, to and from its clients alone.
    Binary,
    /// Arrow IPC: the file or the stream format is read, the file format is written (the stream format to a pipe).
    Arrow,
}

impl Format {
    /// By its name, as `FORMAT` takes it.
    pub fn from_name(name: &str) -> Result<Format> {
        const NAMES: [&str; 7] = ["csv", "ndjson", "parquet", "arrow", "json", "text", "binary"];
        match name.to_ascii_lowercase().as_str() {
            "csv" => Ok(Format::Csv),
            "ndjson" | "jsonl" | "json" => Ok(Format::JsonLines),
            "parquet" => Ok(Format::Parquet),
            "arrow" | "ipc" | "feather" => Ok(Format::Arrow),
            "text" => Ok(Format::Text),
            "binary" => Ok(Format::Binary),
            _ => {
                let error = bad_value("FORMAT", name, &NAMES.join(", "));
                Err(match near_names(name, NAMES).as_slice() {
                    [] => error,
                    near => error.with_hint(format!("did you mean {}?", near.join(" or "))),
                })
            }
        }
    }

    /// By a file's name: `sales.csv`, `sales.tsv.gz`, `events.ndjson.zst`, ...
    pub fn from_file_name(name: &str) -> Option<Format> {
        let lower = name.to_ascii_lowercase();
        let stem = lower.strip_suffix(".gz").or_else(|| lower.strip_suffix(".zst")).unwrap_or(&lower);
        match stem.rsplit_once('.')?.1 {
            "csv" | "tsv" | "txt" => Some(Format::Csv),
            "ndjson" | "jsonl" | "json" => Some(Format::JsonLines),
            "parquet" | "pq" => Some(Format::Parquet),
            "arrow" | "arrows" | "ipc" | "feather" => Some(Format::Arrow),
            _ => None,
        }
    }

    /// What messages call the format, in small letters: `csv`.
    pub fn name(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::JsonLines => "ndjson",
            Format::JsonArray => "json",
            Format::Parquet => "parquet",
            Format::Arrow => "arrow",
            Format::Text => "text",
            Format::Binary => "binary",
        }
    }
}

/// How files are packed. In Parquet and Arrow files it is the codec of their pages and buffers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Compression {
    /// Reading: by the file's first bytes. Writing: by its name; `zstd` in Parquet.
    #[default]
    Auto,
    /// None.
    None,
    /// gzip
    Gzip,
    /// Zstandard
    Zstd,
}

/// Whether a CSV file's first record names the columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Header {
    /// Reading: yes, if all its fields are names of the table's columns. Writing: yes.
    #[default]
    Auto,
    /// Yes: fields go to the columns of these names, unless the statement lists columns.
    Yes,
    /// No: fields go to columns by position.
    No,
    /// Reading: yes, and its names must be those of the wanted columns, in their order.
    Match,
}

impl Header {
    /// Whether the first record is a header for certain.
    pub fn is_stated(self) -> bool {
        matches!(self, Header::Yes | Header::Match)
    }
}

/// What becomes of bad rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OnError {
    /// The whole COPY is refused, and nothing is applied.
    #[default]
    Refuse,
    /// Good rows are loaded, bad ones go to the rejects file.
    Skip,
    /// As `Skip`, and bad ones are only counted: of standard input, where no file is stated for them. It writes none, and needs no right to.
    Count,
}

/// Options of one COPY. `Default` is what no options mean.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CopyOptions {
    /// `FORMAT`; when absent, from the file's name, else CSV for standard input and output.
    pub format: Option<Format>,
    /// `COMPRESSION auto | none | gzip | zstd`
    pub compression: Compression,
    /// `HEADER [true | false | match]`
    pub header: Header,
    /// `DELIMITER`, one byte; a comma, or a tab for `.tsv`.
    pub delimiter: Option<u8>,
    /// `QUOTE`, one byte; a double quote.
    pub quote: Option<u8>,
    /// `ESCAPE`, one byte; what goes before a quote within quotes; the quote itself.
    pub escape: Option<u8>,
    /// `NULL`: the unquoted text that means NULL; nothing at all when absent.
    pub null: Option<String>,
    /// `ON_ERROR refuse | skip`
    pub on_error: OnError,
    /// `REJECTS 'file'`: where `ON_ERROR skip` writes bad rows.
    pub rejects: Option<PathBuf>,
    /// `BATCH_ROWS n`: commit every n rows, so that a load that was interrupted can be resumed.
    pub batch_rows: Option<u64>,
    /// `EXACT [true | false]`: a value that is not written as inference reads the column's type, and would be changed, makes its row bad.
    pub is_exact: bool,
    /// `ON_CONFLICT error | nothing | replace`, `OP insert | upsert | patch | delete`: what rows do to those that have their keys.
    pub policy: RowPolicy,
    /// The session's: of moments in text that say none, and in which moments are written as text. No option says it.
    pub time_zone: Zone,
}

/// Options one after the other, none twice: one of two would be ignored.
#[derive(Default)]
pub struct Written {
    options: CopyOptions,
    names: Vec<String>,
}

impl Written {
    /// Takes the next option; see [`CopyOptions::set`].
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let name = name.to_ascii_uppercase();
        self.options.set(&name, value)?;
        if self.names.contains(&name) {
            return Err(invalid(format!("COPY option {name} is given twice")).with_hint("leave one of them out"));
        }
        self.names.push(name);
        Ok(())
    }

    /// All of them.
    pub fn options(self) -> CopyOptions {
        self.options
    }
}

/// Which way a COPY goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Into a table.
    From,
    /// Out of one.
    To,
}

const NAMES: [&str; 14] = [
    "FORMAT",
    "COMPRESSION",
    "HEADER",
    "DELIMITER",
    "QUOTE",
    "ESCAPE",
    "NULL",
    "ENCODING",
    "ON_ERROR",
    "REJECTS",
    "BATCH_ROWS",
    "EXACT",
    "ON_CONFLICT",
    "OP",
];

impl CopyOptions {
    /// Options as they are written, set in order and checked together; `file` is `None` for standard input and output.
    pub fn from_pairs(
        pairs: &[(String, Option<String>)],
        direction: Direction,
        file: Option<&str>,
    ) -> Result<CopyOptions> {
        let mut written = Written::default();
        for (name, value) in pairs {
            written.set(name, value.as_deref())?;
        }
        let options = written.options();
        options.check(direction, file)?;
        Ok(options)
    }

    /// Sets one option by its SQL name, in the place of what it was. `None` is an option without a value, as in `HEADER`.
    pub fn set(&mut self, name: &str, value: Option<&str>) -> Result<()> {
        let name = name.to_ascii_uppercase();
        let text = || value.ok_or_else(|| invalid(format!("COPY option {name} needs a value")));
        match name.as_str() {
            "FORMAT" => self.format = Some(Format::from_name(text()?)?),
            "COMPRESSION" => {
                self.compression = match text()?.to_ascii_lowercase().as_str() {
                    "auto" => Compression::Auto,
                    "none" => Compression::None,
                    "gzip" | "gz" => Compression::Gzip,
                    "zstd" | "zst" => Compression::Zstd,
                    other => return Err(bad_value("COMPRESSION", other, "auto, none, gzip, zstd")),
                }
            }
            "HEADER" => {
                self.header = match value.map(|value| value.to_ascii_lowercase()).as_deref() {
                    None | Some("true" | "on" | "yes" | "1") => Header::Yes,
                    Some("false" | "off" | "no" | "0") => Header::No,
                    Some("auto") => Header::Auto,
                    Some("match") => Header::Match,
                    Some(other) => return Err(bad_value("HEADER", other, "true, false, match, auto")),
                }
            }
            "DELIMITER" => self.delimiter = Some(one_byte("DELIMITER", text()?)?),
            "QUOTE" => self.quote = Some(one_byte("QUOTE", text()?)?),
            "ESCAPE" => self.escape = Some(one_byte("ESCAPE", text()?)?),
            "NULL" => self.null = Some(text()?.to_owned()),
            "ENCODING" => {
                if !matches!(text()?.to_ascii_lowercase().as_str(), "utf8" | "utf-8") {
                    return Err(Error::new(ErrorKind::NotSupported, format!("ENCODING {} is not supported", text()?))
                        .with_hint("convert the file to UTF-8 first, for example with iconv"));
                }
            }
            "ON_ERROR" => {
                self.on_error = match text()?.to_ascii_lowercase().as_str() {
                    "refuse" | "stop" => OnError::Refuse,
                    "skip" | "ignore" => OnError::Skip,
                    other => return Err(bad_value("ON_ERROR", other, "refuse, skip")),
                }
            }
            "REJECTS" => self.rejects = Some(PathBuf::from(text()?)),
            "BATCH_ROWS" => {
                self.batch_rows = match text()?.parse() {
                    Ok(0) | Err(_) => return Err(bad_value("BATCH_ROWS", text()?, "a whole number from 1 on")),
                    Ok(rows) => Some(rows),
                }
            }
            "EXACT" => {
                self.is_exact = match value.map(|value| value.to_ascii_lowercase()).as_deref() {
                    None | Some("true" | "on" | "yes" | "1") => true,
                    Some("false" | "off" | "no" | "0") => false,
                    Some(other) => return Err(bad_value("EXACT", other, "true, false")),
                }
            }
            "ON_CONFLICT" => {
                let found = OnConflict::named(&text()?.to_ascii_lowercase());
                let found =
                    found.ok_or_else(|| bad_value("ON_CONFLICT", value.unwrap_or(""), "error, nothing, replace"));
                self.policy.on_conflict = Some(found?);
            }
            "OP" => {
                let found = RowOp::named(text()?);
                self.policy.op = Some(found.ok_or_else(|| bad_value("OP", value.unwrap_or(""), RowOp::takes()))?);
            }
            // What it would spare PostgreSQL, nobody does here.
            "FREEZE" => match value.map(|value| value.to_ascii_lowercase()).as_deref() {
                None | Some("true" | "on" | "yes" | "1" | "false" | "off" | "no" | "0") => {}
                Some(other) => return Err(bad_value("FREEZE", other, "true, false")),
            },
            "FORCE_QUOTE" | "FORCE_NULL" | "FORCE_NOT_NULL" | "DEFAULT" | "LOG_VERBOSITY" | "REJECT_LIMIT" => {
                return Err(Error::new(ErrorKind::NotSupported, format!("COPY option {name} is not supported")));
            }
            _ => {
                return Err(invalid(format!("COPY has no option {name}")).with_hint(did_you_mean(&name, &NAMES)));
            }
        }
        Ok(())
    }

    /// As SQL, to append to a COPY: ` (FORMAT csv, DELIMITER ';')`, or nothing.
    pub fn to_sql(&self) -> String {
        let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
        let byte = |byte: u8| if byte == b'\t' { "'tab'".to_owned() } else { quoted(&char::from(byte).to_string()) };
        let options = [
            self.format.map(|format| format!("FORMAT {}", format.name())),
            match self.compression {
                Compression::Auto => None,
                Compression::None => Some("COMPRESSION none".to_owned()),
                Compression::Gzip => Some("COMPRESSION gzip".to_owned()),
                Compression::Zstd => Some("COMPRESSION zstd".to_owned()),
            },
            match self.header {
                Header::Auto => None,
                Header::Yes => Some("HEADER true".to_owned()),
                Header::No => Some("HEADER false".to_owned()),
                Header::Match => Some("HEADER match".to_owned()),
            },
            self.delimiter.map(|delimiter| format!("DELIMITER {}", byte(delimiter))),
            self.quote.map(|quote| format!("QUOTE {}", byte(quote))),
            self.escape.map(|escape| format!("ESCAPE {}", byte(escape))),
            self.null.as_ref().map(|null| format!("NULL {}", quoted(null))),
            (self.on_error != OnError::Refuse).then(|| "ON_ERROR skip".to_owned()),
            self.rejects.as_ref().map(|path| format!("REJECTS {}", quoted(&path.display().to_string()))),
            self.batch_rows.map(|rows| format!("BATCH_ROWS {rows}")),
            self.is_exact.then(|| "EXACT true".to_owned()),
            self.policy.on_conflict.map(|on_conflict| format!("ON_CONFLICT {}", on_conflict.name())),
            self.policy.op.map(|op| format!("OP {}", op.name())),
        ];
        let options: Vec<String> = options.into_iter().flatten().collect();
        if options.is_empty() { String::new() } else { format!(" ({})", options.join(", ")) }
    }

    /// The format: as stated, else by the file's name; standard input and output (`None`) default to CSV.
    pub fn format_of(&self, file: Option<&str>) -> Result<Format> {
        match (self.format, file) {
            (Some(format), _) => Ok(format),
            (None, None) => Ok(Format::Csv),
            (None, Some(name)) => Format::from_file_name(name).ok_or_else(|| {
                invalid(format!("the format of {name} is not clear from its name")).with_hint(
                    "add FORMAT csv, ndjson, parquet or arrow; of a directory name the files in it: 'directory/*.csv'",
                )
            }),
        }
    }

    /// The CSV dialect, with defaults filled in.
    pub fn dialect(&self, file: Option<&str>) -> Dialect {
        let tabs = file.is_some_and(|name| {
            let lower = name.to_ascii_lowercase();
            lower.strip_suffix(".gz").or_else(|| lower.strip_suffix(".zst")).unwrap_or(&lower).ends_with(".tsv")
        });
        let quote = self.quote.unwrap_or(b'"');
        let time_zone = self.time_zone.clone();
        if self.format == Some(Format::Text) {
            let null = self.null.clone().unwrap_or_else(|| "\\N".to_owned()).into_bytes();
            return Dialect { delimiter: self.delimiter.unwrap_or(b'\t'), quote, escape: quote, null, time_zone };
        }
        Dialect {
            delimiter: self.delimiter.unwrap_or(if tabs { b'\t' } else { b',' }),
            quote,
            escape: self.escape.unwrap_or(quote),
            null: self.null.clone().unwrap_or_default().into_bytes(),
            time_zone,
        }
    }
}

impl CopyOptions {
    /// The options as PostgreSQL's clients mean them: text where no format is stated, and a header only where one is asked for.
    pub(crate) fn of_client(&self, direction: Direction) -> Result<CopyOptions> {
        let format = self.format.unwrap_or(Format::Text);
        let plain = matches!(format, Format::Text | Format::Csv) && self.header == Header::Auto;
        let header = if plain { Header::No } else { self.header };
        let options = CopyOptions { format: Some(format), header, ..self.clone() };
        options.check(direction, None)?;
        Ok(options)
    }
}

/// A CSV dialect, complete.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dialect {
    /// The byte between fields.
    pub delimiter: u8,
    /// The byte around a quoted field.
    pub quote: u8,
    /// The byte that makes a following quote, or escape, part of a quoted field; may be the quote.
    pub escape: u8,
    /// The unquoted text that means NULL.
    pub null: Vec<u8>,
    /// In which moments are written.
    pub time_zone: Zone,
}

fn one_byte(name: &str, text: &str) -> Result<u8> {
    let byte = match text.as_bytes() {
        [byte] => *byte,
        b"\\t" | b"tab" | b"TAB" => b'\t',
        _ => return Err(bad_value(name, text, "one ASCII character, or 'tab'")),
    };
    if !byte.is_ascii() || byte == b'\n' || byte == b'\r' {
        return Err(bad_value(name, text, "one ASCII character that is not a line end"));
    }
    Ok(byte)
}

/// The error for options that are wrong, or do not go together.
pub fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidSetting, message)
}

fn bad_value(name: &str, value: &str, takes: &str) -> Error {
    invalid(format!("COPY option {name} cannot be '{value}': it takes {takes}"))
}

fn did_you_mean(name: &str, known: &[&str]) -> String {
    match near_names(name, known.iter().copied()).as_slice() {
        [] => format!("it takes {}", known.join(", ")),
        near => format!("did you mean {}?", near.join(" or ")),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn options(pairs: &[(&str, Option<&str>)]) -> Result<CopyOptions> {
        let mut options = CopyOptions::default();
        for (name, value) in pairs {
            options.set(name, *value)?;
        }
        Ok(options)
    }

    #[test]
    fn options_are_set_by_name_and_unknown_ones_list_near_names() {
        let set =
            options(&[("format", Some("NDJSON")), ("on_error", Some("skip")), ("batch_rows", Some("5"))]).unwrap();
        assert_eq!((set.format, set.on_error, set.batch_rows), (Some(Format::JsonLines), OnError::Skip, Some(5)));
        let unknown = options(&[("DELIMETER", Some(","))]).unwrap_err();
        assert_eq!(unknown.kind(), ErrorKind::InvalidSetting);
        assert_eq!(unknown.hint(), Some("did you mean DELIMITER?"));
        let twice = |other| {
            let pairs = [("FORMAT".to_owned(), Some("csv".to_owned())), ("format".to_owned(), Some(other))];
            CopyOptions::from_pairs(&pairs, Direction::From, None).unwrap_err().message().to_owned()
        };
        assert_eq!(twice("parquet".to_owned()), "COPY option FORMAT is given twice");
        assert_eq!(twice("csv".to_owned()), "COPY option FORMAT is given twice");
        assert_eq!(options(&[("FORCE_NULL", None)]).unwrap_err().kind(), ErrorKind::NotSupported);
        let text = options(&[("FORMAT", Some("text"))]).unwrap();
        assert_eq!(text.check(Direction::To, Some("a.txt")).unwrap_err().kind(), ErrorKind::NotSupported);
        for (name, value) in [
            ("FORMAT", "exel"),
            ("COMPRESSION", "lzma"),
            ("HEADER", "maybe"),
            ("DELIMITER", "ab"),
            ("DELIMITER", "ä"),
            ("QUOTE", "\n"),
            ("ON_ERROR", "panic"),
            ("BATCH_ROWS", "0"),
            ("BATCH_ROWS", "many"),
            ("EXACT", "roughly"),
            ("ON_CONFLICT", "update"),
            ("OP", "merge"),
        ] {
            assert_eq!(options(&[(name, Some(value))]).unwrap_err().kind(), ErrorKind::InvalidSetting, "{name}");
        }
        let xml = options(&[("FORMAT", Some("xml"))]).unwrap_err();
        let takes = "COPY option FORMAT cannot be 'xml': it takes csv, ndjson, parquet, arrow, json, text, binary";
        assert_eq!((xml.message(), xml.hint()), (takes, None));
        let header = |value| options(&[("HEADER", Some(value))]).unwrap().header;
        assert_eq!((header("Yes"), header("no"), header("MATCH")), (Header::Yes, Header::No, Header::Match));
        assert!(options(&[("EXACT", None)]).unwrap().is_exact && !options(&[("EXACT", Some("off"))]).unwrap().is_exact);
        assert!(options(&[("DELIMITER", None)]).is_err());
        let policy = options(&[("on_conflict", Some("Replace")), ("op", Some("p"))]).unwrap().policy;
        assert_eq!((policy.on_conflict, policy.op), (Some(OnConflict::Replace), Some(RowOp::Patch)));
        assert_eq!(options(&[("DELIMITER", Some("\\t"))]).unwrap().delimiter, Some(b'\t'));
    }

    #[test]
    fn file_names_tell_format_and_delimiter() {
        assert_eq!(Format::from_file_name("a/b.CSV.gz"), Some(Format::Csv));
        assert_eq!(Format::from_file_name("b.jsonl.zst"), Some(Format::JsonLines));
        assert_eq!(Format::from_file_name("b.parquet"), Some(Format::Parquet));
        assert_eq!(Format::from_file_name("b.feather"), Some(Format::Arrow));
        assert_eq!(Format::from_file_name("b"), None);
        assert_eq!(CopyOptions::default().dialect(Some("x.tsv.zst")).delimiter, b'\t');
    }
}
