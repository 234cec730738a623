//! CSV files into rows.
//!
//! Invariants:
//! - An unquoted field that equals the `NULL` text is NULL; a quoted one never is, except that `""` is NULL in a column that
//!   cannot hold an empty text (writers that quote everything mean that).
//! - A record has exactly as many fields as are expected; a line with nothing on it is passed over, unless one field is expected.
//! - A header is taken only for what it is: with `HEADER auto`, a first record all of whose fields are names of columns. One that is
//!   partly that, and whose other fields could be names, is refused; with `HEADER match`, so is one that is not the wanted columns in
//!   their order. Lines with nothing on them before it are passed over.
//! - A field of a header that has no name is called by its place, as inference calls it ([`name_at`]): it is found by name as others are,
//!   wherever the other columns are in the next file.
//!
//! One thread cuts the file into blocks of whole records; several parse them.

use crate::bind::Wanted;
use crate::parallel;
use crate::progress::CancelToken;
use crate::records::{
    BLOCK_BYTES, Block, Blocks, Cut, Malformed, Record, Scanner, check_header, check_line_ends, line_ends,
};
use crate::rows::{Part, RowLocation, TextRows, Wrong};
use alluvia_space::{DataType, OP_COLUMN, TableDef, without_key};
use alluvia_syntax::copy::options::{Dialect, Header, OnError};
use alluvia_types::{Error, ErrorKind, Result};
use std::io::Read;
use std::sync::Arc;

/// How CSV files become rows of one table.
pub(crate) struct CsvInput {
    pub table: Arc<TableDef>,
    pub wanted: Wanted,
    pub dialect: Dialect,
    pub header: Header,
    pub on_error: OnError,
}

impl CsvInput {
    /// Reads one file, handing on its parts in order.
    pub fn read(
        &self,
        text: impl Read + Send,
        name: &str,
        cancel: &CancelToken,
        emit: impl FnMut(Part) -> Result<()>,
    ) -> Result<()> {
        let mut blocks = Blocks::new(text, name, cut_of(&self.dialect), BLOCK_BYTES);
        let Some(mut first) = blocks.next()? else { return Ok(()) };
        // Where an empty line is no row, and cannot be the header, the file begins after it.
        let begins_later = self.wanted.columns.len() != 1 || (self.header.is_stated() && !self.wanted.listed);
        while begins_later && empty_lines(&first.bytes) == first.bytes.len() {
            let Some(next) = blocks.next()? else { return Ok(()) };
            first = next;
        }
        check_line_ends(&first.bytes[empty_lines(&first.bytes)..], cut_of(&self.dialect), name)?;
        let columns = self.take_header(&mut first, name)?;
        let columns = &columns;
        let mut first = Some(first);
        let produce = move || first.take().map_or_else(|| blocks.next(), |block| Ok(Some(block)));
        let worker = || {
            let mut parser = Parser {
                input: self,
                columns,
                scanner: scanner_of(&self.dialect),
                rows: TextRows::new(&self.table, self.on_error, 8192)
                    .exactly(self.wanted.is_exact)
                    .in_zone(&self.wanted.time_zone)
                    .doing(self.wanted.operations.clone()),
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
        let mut scanner = scanner_of(&self.dialect);
        // In a file of one listed column the header itself may be empty.
        let is_first = self.wanted.listed && self.wanted.columns.len() == 1;
        let start = if is_first { 0 } else { empty_lines(&first.bytes) };
        let Some(record) = scanner.next(&first.bytes, start) else { return Ok(self.wanted.columns.clone()) };
        let texts = field_texts(&scanner, &first.bytes);
        let names: Vec<String> = texts.iter().enumerate().map(|(at, text)| name_at(at, text)).collect();
        if self.header == Header::Auto {
            let all = Wanted::new(&self.table, &[])?;
            let known = all.names(&self.table);
            let (found, others): (Vec<usize>, Vec<usize>) =
                (0..names.len()).partition(|at| known.find(&names[*at]).is_some());
            // Fields with nothing in them are in rows, too: they make no header.
            let named = found.iter().map(|at| &texts[*at]).find(|text| !text.is_empty());
            let may_be_names = others.iter().all(|at| may_be_name(&texts[*at]));
            if let (Some(one), Some(other), true) = (named, others.first(), may_be_names) {
                if texts[*other] == OP_COLUMN && self.table.key.is_none() {
                    return Err(without_key(&self.table.name, &format!("{OP_COLUMN} in {name}")));
                }
                let (line, other) = (first.line + line_ends(&first.bytes[..start]), &texts[*other]);
                let message = format!("{name}, line {line}: {one} is a column, and {other} is none");
                return Err(Error::new(ErrorKind::InvalidValue, message).with_hint(
                    "is this a header? then mend its names and say HEADER true; if it is a row, say HEADER false",
                ));
            }
            if !others.is_empty() || named.is_none() {
                return Ok(self.wanted.columns.clone());
            }
        }
        check_header(&first.bytes[start..record.content_end], cut_of(&self.dialect), name)?;
        let columns = if self.header == Header::Match {
            let line = first.line + line_ends(&first.bytes[..start]);
            self.wanted.check_header(&self.table, &names, &format!("{name}, line {line}"))?;
            self.wanted.columns.clone()
        } else if self.wanted.listed {
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

/// The bytes of the lines with nothing on them that a file begins with.
pub(crate) fn empty_lines(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        at += match &bytes[at..] {
            [b'\n', ..] | [b'\r'] => 1,
            [b'\r', b'\n', ..] => 2,
            _ => return at,
        };
    }
}

/// The fields of the record that was scanned last, without the white space around them.
pub(crate) fn field_texts(scanner: &Scanner, bytes: &[u8]) -> Vec<String> {
    (0..scanner.len()).map(|at| String::from_utf8_lossy(scanner.field(bytes, at).0).trim().to_owned()).collect()
}

/// What a column is called whose field of a header is this text: one without a name, as the index that pandas writes, by its place.
pub(crate) fn name_at(at: usize, text: &str) -> String {
    if text.is_empty() { format!("column{}", at + 1) } else { text.to_owned() }
}

/// Whether a field looks like a column's name: a letter, and then letters, digits, and what joins them.
pub(crate) fn may_be_name(field: &str) -> bool {
    field.starts_with(|first: char| first.is_alphabetic() || first == '_')
        && field.chars().all(|each| each.is_alphanumeric() || matches!(each, '_' | '-' | '.' | ' '))
}

/// How files of this dialect are cut.
pub(crate) fn cut_of(dialect: &Dialect) -> Cut {
    Cut::Csv { delimiter: dialect.delimiter, quote: dialect.quote, escape: dialect.escape }
}

/// A scanner for records of this dialect.
pub(crate) fn scanner_of(dialect: &Dialect) -> Scanner {
    Scanner::new(dialect.delimiter, dialect.quote, dialect.escape)
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
            let go_on = self.record(bytes, at, &record, RowLocation::Line(line));
            line += line_ends(&bytes[at..record.end]);
            at = record.end;
            if !go_on {
                break;
            }
        }
        self.rows.finish()
    }

    #[inline]
    fn record(&mut self, bytes: &[u8], start: usize, record: &Record, place: RowLocation) -> bool {
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
            let lines = line_ends(raw) + u64::from(!raw.ends_with(b"\n"));
            return self.rows.end_malformed(place, Wrong { lines, ..Wrong::from(reason) }, raw);
        }
        if found != expected {
            let fields = |count: usize| if count == 1 { "1 field".to_owned() } else { format!("{count} fields") };
            let reason = format!("{} where {expected} are expected", fields(found));
            return self.rows.end_malformed(place, Wrong { hint: self.hint(raw), ..Wrong::from(reason) }, raw);
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

    /// What to do if another delimiter makes as many fields of a record as are expected.
    fn hint(&self, raw: &[u8]) -> Option<String> {
        let delimits = |other: &&u8| {
            let count = raw.iter().filter(|byte| byte == other).count();
            **other != self.input.dialect.delimiter && count > 0 && count + 1 == self.columns.len()
        };
        let other = char::from(*b";|,".iter().find(delimits)?);
        Some(format!("fields look delimited by '{other}': COPY ... (FORMAT csv, DELIMITER '{other}') takes them"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Reject;
    use crate::testing::{row_texts, table};
    use alluvia_syntax::copy::options::CopyOptions;

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
        assert_eq!(read(&listed, "\r\n\nwhatever,it is\nx,1\n").unwrap().0, [["1", "x"]]);
        let none = input("a TEXT, b TEXT", &[], &CopyOptions { header: Header::No, ..CopyOptions::default() });
        assert_eq!(read(&none, "a,b\n").unwrap().0, [["a", "b"]]);
    }

    #[test]
    fn a_header_that_is_to_match_names_the_columns_in_their_order() {
        let matching = CopyOptions { header: Header::Match, ..CopyOptions::default() };
        let all = input("a INT, b TEXT", &[], &matching);
        assert_eq!(read(&all, "\na,b\n1,x\n").unwrap().0, [["1", "x"]]);
        assert_eq!(read(&all, "").unwrap().0.len(), 0);
        let listed = input("a INT, b TEXT", &["b", "a"], &matching);
        assert_eq!(read(&listed, "b,a\nx,1\n").unwrap().0, [["1", "x"]]);
        for (csv, text, words) in [
            (&all, "b,a\nx,1\n", "f.csv, line 1: field 1 of the header is b, and not a"),
            (&all, "\na,B\n1,x\n", "f.csv, line 2: field 2 of the header is B, and not b"),
            (&all, "a\n1\n", "f.csv, line 1: the header has 1 field, and 2 are wanted"),
            (&all, "1,x\n", "f.csv, line 1: field 1 of the header is 1, and not a"),
            (&listed, "a,b\n1,x\n", "f.csv, line 1: field 1 of the header is a, and not b"),
        ] {
            let error = read(csv, text).unwrap_err();
            assert!(error.message() == words && error.hint().is_some(), "{error}");
        }
    }

    #[test]
    fn a_bad_row_of_several_lines_says_how_many() {
        let csv = input("a TEXT, b TEXT", &[], &CopyOptions { header: Header::No, ..skip() });
        for (text, lines) in [
            ("1,x\n2,\"y\n3,z\n4,w\n", 3),
            ("1,x\n2,\"y\n3,z\n4,w", 3),
            ("1,x\n2,\"y\n", 1),
            ("1,x\n\"2\"y,z\n3,w\n", 1),
            ("1,x\n2,\"y\n3,\"z\",\n", 2),
            ("1,x\n2\n", 1),
        ] {
            let (_, rejects) = read(&csv, text).unwrap();
            assert_eq!((rejects.len(), rejects[0].place, rejects[0].lines), (1, RowLocation::Line(2), lines), "{text}");
        }
    }

    #[test]
    fn values_that_would_be_changed_are_bad_where_they_must_be_exact() {
        let table = "a BIGINT, d DATE";
        let text = "007,2026-01-03\n-07,2026-01-03\n+7,\n0,2026-01-03 23:59:59\n-7, 2026-01-03 \n";
        let lenient = input(table, &[], &skip());
        assert_eq!(read(&lenient, text).unwrap().1, []);
        let exact = CsvInput { wanted: lenient.wanted.clone().exactly(true), ..lenient };
        let (rows, rejects) = read(&exact, text).unwrap();
        assert_eq!(rows, [["-7", "2026-01-03"]]);
        let reasons: Vec<String> = rejects.iter().map(|reject| reject.refuse("f").message().to_owned()).collect();
        assert_eq!(
            reasons,
            [
                "f, line 1, column a: '007' would be changed to be a BIGINT",
                "f, line 2, column a: '-07' would be changed to be a BIGINT",
                "f, line 3, column a: '+7' would be changed to be a BIGINT",
                "f, line 4, column d: '2026-01-03 23:59:59' would be changed to be a DATE",
            ]
        );
        assert!(rejects[0].hint.as_deref().unwrap().contains("create the table"), "{rejects:?}");
    }

    #[test]
    fn a_field_of_a_header_without_a_name_is_called_by_its_place() {
        let auto = input("column1 INT, a TEXT, b TEXT", &[], &CopyOptions::default());
        let yes = CopyOptions { header: Header::Yes, ..CopyOptions::default() };
        for csv in [&auto, &input("column1 INT, a TEXT, b TEXT", &[], &yes)] {
            assert_eq!(read(csv, ",b,A\n0,y,x\n").unwrap().0, [["0", "x", "y"]]);
        }
        let unknown = read(&input("column1 INT, a TEXT, b TEXT", &[], &yes), "b,\ny\n").unwrap_err();
        assert!(unknown.message().contains("no column column2, which f.csv names"), "{unknown}");
        // Rows may have nothing in fields, or in all of them.
        let texts = input("column1 TEXT, column2 TEXT", &[], &CopyOptions::default());
        assert_eq!(read(&texts, ",\n,x\n").unwrap().0, [["NULL", "NULL"], ["NULL", "x"]]);
        assert_eq!(read(&texts, ",x\n").unwrap().0, [["NULL", "x"]]);
        let texts = input("a TEXT, b TEXT", &[], &CopyOptions::default());
        assert_eq!(read(&texts, ",a\n").unwrap().0, [["NULL", "a"]]);
    }

    #[test]
    fn empty_lines_before_a_header_are_passed_over_and_counted() {
        let yes = CopyOptions { header: Header::Yes, ..skip() };
        for options in [skip(), yes.clone()] {
            let csv = input("a INT, b TEXT", &[], &options);
            let (rows, rejects) = read(&csv, "\n\r\nb,a\nx,1\ny,z\n").unwrap();
            assert_eq!((rows, rejects[0].place), (vec![vec!["1".to_owned(), "x".to_owned()]], RowLocation::Line(5)));
            // More of them than a block holds.
            assert_eq!(read(&csv, &("\n".repeat(BLOCK_BYTES + 5) + "b,a\nx,1\n")).unwrap().0, [["1", "x"]]);
            assert_eq!(read(&csv, "\n\n").unwrap().0.len(), 0);
            assert_eq!(read(&input("a TEXT", &[], &options), "\na\nx\n").unwrap().0, [["x"]]);
        }
        // An empty line may be a row of one column, and where that is listed its header.
        assert_eq!(read(&input("a INT", &[], &skip()), "\n5\n").unwrap().0, [["NULL"], ["5"]]);
        assert_eq!(read(&input("a INT", &["a"], &yes), "\n5\n").unwrap().0, [["5"]]);
        let error = read(&input("a INT, b TEXT", &[], &CopyOptions::default()), "\n\na,bee\n1,x\n").unwrap_err();
        assert!(error.message().contains("line 3: a is a column, and bee is none"), "{error}");
        let error = read(&input("a INT, b TEXT", &[], &skip()), "\na,b\r1,x\r2,y\r").unwrap_err();
        assert!(error.message().starts_with("f.csv: its lines end with carriage returns alone"), "{error}");
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
        let want = (RowLocation::Line(1), Some("c".to_owned()), "'\u{fffd}x' is not valid UTF-8".to_owned());
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
        assert_eq!((rows.len(), rejects.len(), rejects[0].place), (1, 1, RowLocation::Line(2)));
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
        assert_eq!(rejects[0].place, RowLocation::Line(120_001));
    }
}
