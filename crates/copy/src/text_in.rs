//! PostgreSQL's text format into rows: what `COPY ... FROM STDIN` is to its clients.
//!
//! Invariants:
//! - A line is a row. A line end within a value is written `\n`; the older form, a backslash before a real line end, is refused.
//! - A field that equals the NULL text before its backslashes are read is NULL.
//! - `\.` alone on the last line ends the input, as clients of old protocols send it; anywhere else it is a bad row.
//!
//! One thread cuts the input into blocks of whole lines; several parse them.

use crate::bind::Wanted;
use crate::parallel;
use crate::progress::CancelToken;
use crate::records::{BLOCK_BYTES, Block, Blocks, Cut};
use crate::rows::{Part, RowLocation, TextRows};
use alluvia_space::TableDef;
use alluvia_syntax::copy::options::{Dialect, Header, OnError};
use alluvia_types::Result;
use memchr::{memchr, memchr2};
use std::io::Read;
use std::sync::Arc;

/// How text in PostgreSQL's format becomes rows of one table.
pub(crate) struct TextInput {
    pub table: Arc<TableDef>,
    pub wanted: Wanted,
    pub dialect: Dialect,
    /// Whether the first line is a header, which is passed over, or must name the wanted columns.
    pub header: Header,
    pub on_error: OnError,
}

impl TextInput {
    /// Reads one input, handing on its parts in order.
    pub fn read(
        &self,
        text: impl Read + Send,
        name: &str,
        cancel: &CancelToken,
        emit: impl FnMut(Part) -> Result<()>,
    ) -> Result<()> {
        let mut blocks = Blocks::new(text, name, Cut::Lines, BLOCK_BYTES);
        let mut is_header = self.header.is_stated();
        let produce = move || {
            let mut block = blocks.next()?;
            if let (true, Some(block)) = (std::mem::take(&mut is_header), &mut block) {
                let end = memchr(b'\n', &block.bytes).map_or(block.bytes.len(), |at| at + 1);
                if self.header == Header::Match {
                    let line = block.bytes[..end].strip_suffix(b"\n").unwrap_or(&block.bytes[..end]);
                    self.check_header(line.strip_suffix(b"\r").unwrap_or(line), name)?;
                }
                block.bytes.drain(..end);
                block.line += 1;
            }
            Ok(block)
        };
        let worker = || {
            let rows = TextRows::new(&self.table, self.on_error, 8192)
                .exactly(self.wanted.is_exact)
                .in_zone(&self.wanted.time_zone)
                .doing(self.wanted.operations.clone());
            let mut parser = Parser { input: self, rows, value: Vec::new() };
            move |block: Block| parser.parse(&block)
        };
        parallel::in_order(parallel::workers(), cancel, produce, worker, emit)
    }

    fn check_header(&self, line: &[u8], name: &str) -> Result<()> {
        let (mut names, mut rest, mut value) = (Vec::new(), line, Vec::new());
        // A backslash at the end is in no name.
        while let Ok(end) = field_end(rest, self.dialect.delimiter) {
            unescape(&rest[..end], &mut value);
            names.push(String::from_utf8_lossy(&value).into_owned());
            match rest.get(end + 1..) {
                Some(after) => rest = after,
                None => break,
            }
        }
        self.wanted.check_header(&self.table, &names, &format!("{name}, line 1"))
    }
}

struct Parser<'a> {
    input: &'a TextInput,
    rows: TextRows,
    /// A value whose backslashes were read.
    value: Vec<u8>,
}

impl Parser<'_> {
    fn parse(&mut self, block: &Block) -> Result<Part> {
        let (mut at, mut line) = (0, block.line);
        while at < block.bytes.len() {
            let rest = &block.bytes[at..];
            let end = memchr(b'\n', rest).unwrap_or(rest.len());
            let text = rest[..end].strip_suffix(b"\r").unwrap_or(&rest[..end]);
            let is_last = end + 1 >= rest.len();
            let is_end_mark = is_last && text == b"\\.";
            if !is_end_mark && !self.line(text, RowLocation::Line(line)) {
                break;
            }
            at += end + 1;
            line += 1;
        }
        self.rows.finish()
    }

    fn line(&mut self, text: &[u8], place: RowLocation) -> bool {
        let columns = &self.input.wanted.columns;
        let dialect = &self.input.dialect;
        let mut rest = text;
        for (at, &column) in columns.iter().enumerate() {
            let end = match field_end(rest, dialect.delimiter) {
                Ok(end) => end,
                Err(reason) => return self.rows.end_malformed(place, reason.to_owned(), text),
            };
            let field = &rest[..end];
            if field == dialect.null {
                self.rows.set(column, None);
            } else if memchr(b'\\', field).is_none() {
                self.rows.set(column, Some(field));
            } else {
                unescape(field, &mut self.value);
                self.rows.set(column, Some(&self.value));
            }
            match (rest.get(end), at + 1 == columns.len()) {
                (None, true) => return self.rows.end_row(place, text),
                (Some(_), false) => rest = &rest[end + 1..],
                (None, false) => {
                    let reason = format!("{} fields where {} are expected", at + 1, columns.len());
                    return self.rows.end_malformed(place, reason, text);
                }
                (Some(_), true) => {
                    let reason = format!("more than the {} fields that are expected", columns.len());
                    return self.rows.end_malformed(place, reason, text);
                }
            }
        }
        // A table of which no column is wanted.
        self.rows.end_row(place, text)
    }
}

/// Where a field ends: at the next delimiter without a backslash, or at the end.
#[inline]
fn field_end(text: &[u8], delimiter: u8) -> Result<usize, &'static str> {
    let mut at = 0;
    loop {
        match memchr2(delimiter, b'\\', &text[at..]) {
            None => return Ok(text.len()),
            Some(found) if text[at + found] == delimiter => return Ok(at + found),
            Some(found) if at + found + 1 == text.len() => {
                return Err("the line ends with a backslash; a line end within a value is written \\n");
            }
            Some(found) => at += found + 2,
        }
    }
}

/// Reads backslashes as PostgreSQL does.
fn unescape(field: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first != b'\\' {
            out.push(first);
            continue;
        }
        let Some((&code, after)) = rest.split_first() else { break };
        rest = after;
        match code {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'v' => out.push(11),
            b'0'..=b'7' => {
                let mut value = u32::from(code - b'0');
                for _ in 0..2 {
                    match rest.split_first() {
                        Some((&digit @ b'0'..=b'7', after)) => {
                            value = value * 8 + u32::from(digit - b'0');
                            rest = after;
                        }
                        _ => break,
                    }
                }
                out.push(value as u8);
            }
            b'x' if rest.first().is_some_and(u8::is_ascii_hexdigit) => {
                let mut value = 0;
                for _ in 0..2 {
                    match rest.split_first() {
                        Some((&digit, after)) if digit.is_ascii_hexdigit() => {
                            value = value * 16 + char::from(digit).to_digit(16).unwrap_or(0);
                            rest = after;
                        }
                        _ => break,
                    }
                }
                out.push(value as u8);
            }
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::Reject;
    use crate::testing::{row_texts, table};
    use alluvia_syntax::copy::options::{CopyOptions, Format};

    fn read(columns: &str, text: &[u8]) -> (Vec<Vec<String>>, Vec<Reject>) {
        let table = table(columns);
        let options = CopyOptions { format: Some(Format::Text), ..CopyOptions::default() };
        let input = TextInput {
            wanted: Wanted::new(&table, &[]).unwrap(),
            table,
            dialect: options.dialect(None),
            header: Header::No,
            on_error: OnError::Skip,
        };
        let (mut rows, mut rejects) = (Vec::new(), Vec::new());
        let take = |part: Part| {
            rows.extend(row_texts(&part.rows));
            rejects.extend(part.rejects);
            Ok(())
        };
        input.read(std::io::Cursor::new(text.to_vec()), "f", &CancelToken::new(), take).unwrap();
        (rows, rejects)
    }

    #[test]
    fn values_are_read_as_postgresql_writes_them() {
        let text = b"1\ta\\tb\\\\\\n\n2\t\\N\n3\t\n4\t\\x41\\102\\q\r\n\\N\t\\\\N\n\\.\n";
        let (rows, rejects) = read("a INT, b TEXT", text);
        assert_eq!(rejects, []);
        assert_eq!(
            rows,
            [["1", "a\tb\\\n"], ["2", "NULL"], ["3", "''"], ["4", "ABq"], ["NULL", "\\N"]]
                .map(|row| row.map(str::to_owned))
        );
        assert_eq!(read("a BYTEA", b"\\\\x00ff\n").0.len(), 1);
    }

    #[test]
    fn a_header_that_is_to_match_names_the_columns_in_their_order() {
        let table = table("a INT, \"b\tc\" TEXT");
        let dialect = CopyOptions { format: Some(Format::Text), ..CopyOptions::default() }.dialect(None);
        let wanted = Wanted::new(&table, &[]).unwrap();
        let input = TextInput { wanted, table, dialect, header: Header::Match, on_error: OnError::Refuse };
        let read = |text: &str| {
            let mut rows = Vec::new();
            let take = |part: Part| {
                rows.extend(row_texts(&part.rows));
                Ok(())
            };
            let read = input.read(std::io::Cursor::new(text.as_bytes().to_vec()), "f", &CancelToken::new(), take);
            read.map(|()| rows).map_err(|error| error.message().to_owned())
        };
        assert_eq!(read("a\tb\\tc\r\n1\tx\n").unwrap(), [["1", "x"]]);
        assert_eq!(read("a\n1\tx\n").unwrap_err(), "f, line 1: the header has 1 field, and 2 are wanted");
        assert_eq!(read("b\ta\n1\tx\n").unwrap_err(), "f, line 1: field 1 of the header is b, and not a");
    }

    #[test]
    fn bad_lines_have_their_number_and_reason() {
        let (rows, rejects) = read("a INT, b TEXT", b"1\tx\n2\n3\ty\tz\nfour\tw\n\\.\n5\tx\\\n6\tlast");
        assert_eq!(rows.len(), 2);
        let found: Vec<String> = rejects.iter().map(|reject| reject.refuse("f").message().to_owned()).collect();
        assert_eq!(
            found,
            [
                "f, line 2: 1 fields where 2 are expected",
                "f, line 3: more than the 2 fields that are expected",
                "f, line 4, column a: 'four' is not a valid INT",
                "f, line 5: 1 fields where 2 are expected",
                "f, line 6: the line ends with a backslash; a line end within a value is written \\n",
            ]
        );
    }
}
