//! CSV files into rows.
//!
//! Invariants:
//! - An unquoted field that equals the `NULL` text is NULL; a quoted one never is, except that `""` is NULL in a column that
//!   cannot hold an empty text (writers that quote everything mean that).
//! - A record has exactly as many fields as are expected; a line with nothing on it is passed over, unless one field is expected.
//! - A header is taken only for what it is: with `HEADER auto`, a first record all of whose fields are names of columns. One that is
//!   partly that, and whose other fields could be names, is refused.
//!
//! One thread cuts the file into blocks of whole records; several parse them.

use crate::copy::bind::Wanted;
use crate::copy::options::{Dialect, Header, OnError};
use crate::copy::parallel;
use crate::copy::records::{
    BLOCK_BYTES, Block, Blocks, Cut, Malformed, Record, Scanner, check_header, check_line_ends, line_ends,
};
use crate::copy::rows::{Part, Place, TextRows};
use crate::session::progress::CancelToken;
use alluvia_space::{DataType, TableDef};
use alluvia_types::{Error, ErrorKind, Result};
use std::io::Read;
use std::sync::Arc;

/// How CSV files become rows of one table.
pub(crate) struct CsvInput {
    pub(crate) table: Arc<TableDef>,
    pub(crate) wanted: Wanted,
    pub(crate) dialect: Dialect,
    pub(crate) header: Header,
    pub(crate) on_error: OnError,
}

impl CsvInput {
    /// Reads one file, handing on its parts in order.
    pub(crate) fn read(
        &self,
        text: impl Read + Send,
        name: &str,
        cancel: &CancelToken,
        emit: impl FnMut(Part) -> Result<()>,
    ) -> Result<()> {
        let mut blocks = Blocks::new(text, name, self.dialect.cut(), BLOCK_BYTES);
        let Some(mut first) = blocks.next()? else { return Ok(()) };
        check_line_ends(&first.bytes, self.dialect.cut(), name)?;
        let columns = self.take_header(&mut first, name)?;
        let columns = &columns;
        let mut first = Some(first);
        let produce = move || first.take().map_or_else(|| blocks.next(), |block| Ok(Some(block)));
        let worker = || {
            let mut parser = Parser {
                input: self,
                columns,
                scanner: self.dialect.scanner(),
                rows: TextRows::new(&self.table, self.on_error, 8192),
            };
            move |block: Block| parser.parse(&block)
        };
        parallel::in_order(parallel::workers(), cancel, produce, worker, emit)
    }

    /// Decides whether the file has a header, cuts it off, and says which column each field goes to.
    fn take_header(&self, first: &mut Block, name: &str) -> Result<Vec<usize>> {
        if self.header == Header::No {
            return Ok(self.wanted.columns.clone());
        }
        let mut scanner = self.dialect.scanner();
        let Some(record) = scanner.next(&first.bytes, 0) else { return Ok(self.wanted.columns.clone()) };
        let names: Vec<String> = (0..scanner.len())
            .map(|at| String::from_utf8_lossy(scanner.field(&first.bytes, at).0).trim().to_owned())
            .collect();
        if self.header == Header::Auto {
            let all = Wanted::new(&self.table, &[])?;
            let known = all.names(&self.table);
            let (named, others): (Vec<&String>, Vec<&String>) =
                names.iter().partition(|name| known.find(name).is_some());
            if let (Some(one), Some(other), true) = (named.first(), others.first(), others.iter().all(may_be_name)) {
                let message = format!("{name}, line {}: {one} is a column, and {other} is none", first.line);
                return Err(Error::new(ErrorKind::InvalidValue, message).with_hint(
                    "is this a header? then mend its names and say HEADER true; if it is a row, say HEADER false",
                ));
            }
            if !others.is_empty() {
                return Ok(self.wanted.columns.clone());
            }
        }
        check_header(&first.bytes[..record.content_end], self.dialect.cut(), name)?;
        let columns = if self.wanted.listed {
            self.wanted.columns.clone()
        } else {
            let found = self.wanted.by_name(&self.table, names.iter().map(String::as_str), name)?;
            found.into_iter().flatten().collect()
        };
        first.line += line_ends(&first.bytes[..record.end]);
        first.bytes.drain(..record.end);
        Ok(columns)
    }
}

/// Whether a field looks like a column's name: a letter, and then letters, digits, and what joins them.
fn may_be_name(field: &&String) -> bool {
    field.starts_with(|first: char| first.is_alphabetic() || first == '_')
        && field.chars().all(|each| each.is_alphanumeric() || matches!(each, '_' | '-' | '.' | ' '))
}

impl Dialect {
    /// How files of this dialect are cut.
    pub(crate) fn cut(&self) -> Cut {
        Cut::Csv { delimiter: self.delimiter, quote: self.quote, escape: self.escape }
    }

    /// A scanner for records of this dialect.
    pub(crate) fn scanner(&self) -> Scanner {
        Scanner::new(self.delimiter, self.quote, self.escape)
    }
}

struct Parser<'a> {
    input: &'a CsvInput,
    columns: &'a [usize],
    scanner: Scanner,
    rows: TextRows,
}

impl Parser<'_> {
    fn parse(&mut self, block: &Block) -> Result<Part> {
        let bytes = block.bytes.as_slice();
        let (mut at, mut line) = (0, block.line);
        while let Some(record) = self.scanner.next(bytes, at) {
            let go_on = self.record(bytes, at, &record, Place::Line(line));
            line += line_ends(&bytes[at..record.end]);
            at = record.end;
            if !go_on {
                break;
            }
        }
        self.rows.finish()
    }

    #[inline]
    fn record(&mut self, bytes: &[u8], start: usize, record: &Record, place: Place) -> bool {
        let raw = &bytes[start..record.content_end];
        let (found, expected) = (self.scanner.len(), self.columns.len());
        if raw.is_empty() && expected != 1 {
            return true;
        }
        if let Some((what, field)) = record.malformed {
            let reason = match what {
                Malformed::Unclosed => format!("field {} opens a quote that is never closed", field + 1),
                Malformed::TextAfterQuote => format!("field {} has text after its closing quote", field + 1),
            };
            return self.rows.end_malformed(place, reason, raw);
        }
        if found != expected {
            let fields = |count: usize| if count == 1 { "1 field".to_owned() } else { format!("{count} fields") };
            let reason = format!("{} where {expected} are expected", fields(found));
            return self.rows.end_malformed(place, reason, raw);
        }
        for (at, &column) in self.columns.iter().enumerate() {
            let (text, quoted) = self.scanner.field(bytes, at);
            let null = if quoted {
                text.is_empty()
                    && !matches!(self.input.table.columns[column].data_type, DataType::Text | DataType::Binary)
            } else {
                text == self.input.dialect.null
            };
            self.rows.set(column, if null { None } else { Some(text) });
        }
        self.rows.end_row(place, raw)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::options::CopyOptions;
    use crate::copy::rows::Reject;
    use crate::copy::testing::{row_texts, table};

    fn input(columns: &str, listed: &[&str], options: &CopyOptions) -> CsvInput {
        let table = table(columns);
        let listed: Vec<String> = listed.iter().map(|name| (*name).to_owned()).collect();
        CsvInput {
            wanted: Wanted::new(&table, &listed).unwrap(),
            table,
            dialect: options.dialect(None),
            header: options.header,
            on_error: options.on_error,
        }
    }

    fn read(input: &CsvInput, text: &str) -> Result<(Vec<Vec<String>>, Vec<Reject>)> {
        let (mut rows, mut rejects) = (Vec::new(), Vec::new());
        let text = std::io::Cursor::new(text.as_bytes().to_vec());
        input.read(text, "f.csv", &CancelToken::new(), |part| {
            rows.extend(row_texts(&part.rows));
            rejects.extend(part.rejects);
            Ok(())
        })?;
        Ok((rows, rejects))
    }

    fn skip() -> CopyOptions {
        CopyOptions { on_error: OnError::Skip, ..CopyOptions::default() }
    }

    #[test]
    fn headers_are_taken_for_what_they_are() {
        let auto = input("a INT, b TEXT", &[], &CopyOptions::default());
        assert_eq!(read(&auto, "b,A\nx,1\n").unwrap().0, [["1", "x"]]);
        assert_eq!(read(&auto, "1,a\n").unwrap().0, [["1", "a"]]);
        assert_eq!(read(&auto, "b\nx\n").unwrap().0, [["NULL", "x"]]);
        let error = read(&auto, "a,bee\n1,x\n").unwrap_err();
        assert!(error.message().contains("line 1: a is a column, and bee is none"), "{error}");
        assert_eq!(read(&auto, "").unwrap().0.len(), 0);
        assert_eq!(read(&auto, "a,b").unwrap().0.len(), 0);
        let yes = input("a INT, b TEXT", &[], &CopyOptions { header: Header::Yes, ..CopyOptions::default() });
        assert!(read(&yes, "a,c\n1,x\n").unwrap_err().message().contains("no column c, which f.csv names"));
        let listed =
            input("a INT, b TEXT", &["b", "a"], &CopyOptions { header: Header::Yes, ..CopyOptions::default() });
        assert_eq!(read(&listed, "whatever,it is\nx,1\n").unwrap().0, [["1", "x"]]);
        let none = input("a TEXT, b TEXT", &[], &CopyOptions { header: Header::No, ..CopyOptions::default() });
        assert_eq!(read(&none, "a,b\n").unwrap().0, [["a", "b"]]);
    }

    #[test]
    fn null_and_empty_text_are_two_things() {
        let csv = input("a INT, b TEXT", &[], &CopyOptions::default());
        assert_eq!(read(&csv, ",\n1,\"\"\n\"\",x\n").unwrap().0, [["NULL", "NULL"], ["1", "''"], ["NULL", "x"]]);
        let na = CopyOptions { null: Some("NA".into()), ..CopyOptions::default() };
        let csv = input("a INT, b TEXT", &[], &na);
        assert_eq!(read(&csv, "NA,\n1,NA\n2,\"NA\"\n").unwrap().0, [["NULL", "''"], ["1", "NULL"], ["2", "NA"]]);
        let one = input("a INT", &[], &CopyOptions::default());
        assert_eq!(read(&one, "1\n\n2\n").unwrap().0, [["1"], ["NULL"], ["2"]]);
        let two = input("a INT, b INT", &[], &CopyOptions::default());
        assert_eq!(read(&two, "\n1,2\n\r\n3,4\n\n").unwrap().0, [["1", "2"], ["3", "4"]]);
    }

    #[test]
    fn every_bad_row_has_line_column_and_value() {
        let csv = input("a SMALLINT NOT NULL, b DOUBLE, c TEXT, d DATE", &[], &skip());
        let text = "1,2,ok,2026-01-01\n\
                    40000,2,range,2026-01-01\n\
                    1,two,form,2026-01-01\n\
                    ,2,null,2026-01-01\n\
                    1,2,\"two\nlines\",2026-02-30\n\
                    1,2,few\n\
                    1,2,many,2026-01-01,5\n\
                    1,2,\"after\"x,2026-01-01\n\
                    2,,last ok,\n\
                    1,2,\"unclosed\n";
        let (rows, rejects) = read(&csv, text).unwrap();
        assert_eq!(rows, [["1", "2.0", "ok", "2026-01-01"], ["2", "NULL", "last ok", "NULL"]]);
        let found: Vec<String> = rejects.iter().map(|reject| reject.refuse("f.csv").message().to_owned()).collect();
        assert_eq!(
            found,
            [
                "f.csv, line 2, column a: '40000' is out of range for SMALLINT",
                "f.csv, line 3, column b: 'two' is not a valid DOUBLE",
                "f.csv, line 4, column a: NULL in a NOT NULL column",
                "f.csv, line 5, column d: '2026-02-30' is out of range for DATE",
                "f.csv, line 7: 3 fields where 4 are expected",
                "f.csv, line 8: 5 fields where 4 are expected",
                "f.csv, line 9: field 3 has text after its closing quote",
                "f.csv, line 11: field 3 opens a quote that is never closed",
            ]
        );
        assert_eq!(rejects[3].raw, b"1,2,\"two\nlines\",2026-02-30");

        let mut bytes = b"1,2,".to_vec();
        bytes.extend([0xff, b'x', b',', b'\n']);
        let mut reasons = Vec::new();
        let collect = |part: Part| {
            reasons.extend(part.rejects.into_iter().map(|reject| (reject.place, reject.column, reject.reason)));
            Ok(())
        };
        csv.read(std::io::Cursor::new(bytes), "f.csv", &CancelToken::new(), collect).unwrap();
        let want = (Place::Line(1), Some("c".to_owned()), "'\u{fffd}x' is not valid UTF-8".to_owned());
        assert_eq!(reasons, [want]);
    }

    #[test]
    fn lines_that_end_with_carriage_returns_alone_are_refused() {
        let csv = input("a INT, b TEXT", &[], &skip());
        let error = read(&csv, "a,b\r1,x\r2,y\r").unwrap_err();
        assert!(error.message().starts_with("f.csv: its lines end with carriage returns alone"), "{error}");
        assert_eq!(error.hint(), Some(r"turn them into line feeds first, for example with tr '\r' '\n'"));
        assert_eq!(read(&csv, "1,\"x\ry\"").unwrap().0, [["1", "x\ry"]]);
        assert_eq!(read(&csv, "a,b\r\n1,x\r\n2,y").unwrap().0, [["1", "x"], ["2", "y"]]);
    }

    #[test]
    fn a_bad_row_ends_its_block_when_it_refuses() {
        let csv = input("a INT", &[], &CopyOptions::default());
        let (rows, rejects) = read(&csv, "1\nx\n2\ny\n").unwrap();
        assert_eq!((rows.len(), rejects.len(), rejects[0].place), (1, 1, Place::Line(2)));
    }

    #[test]
    fn lines_are_counted_across_blocks() {
        let csv = input("a INT, b TEXT", &[], &skip());
        let mut text = String::new();
        for row in 0..60_000 {
            text.push_str(&format!("{row},\"{}\n{}\"\n", "x".repeat(30), "y".repeat(30)));
        }
        text.push_str("bad,z\n");
        assert!(text.len() > 3 * BLOCK_BYTES);
        let (rows, rejects) = read(&csv, &text).unwrap();
        assert_eq!(rows.len(), 60_000);
        assert!(rows.iter().enumerate().all(|(at, row)| row[0] == at.to_string()));
        assert_eq!(rejects[0].place, Place::Line(120_001));
    }
}
