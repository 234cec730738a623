//! Text cut into records: the CSV state machine, and blocks of whole records for parallel parsing.
//!
//! Invariants:
//! - A quote means something only as the first byte of a field; elsewhere it is a character. So is a lone carriage return; a CSV
//!   file that has no other line ends is refused.
//! - Cutting and parsing use the same scanner: a block never ends inside a record.
//! - A record longer than [`RECORD_BYTES_MAX`] is refused with its line: otherwise one unclosed quote would read a whole file
//!   into memory.
//! - Whether a field was quoted is kept, because an empty field is NULL and `""` is an empty text.
//!
//! Lines without a quote, most lines of most files, are found by `memchr` alone.

use alluvia_types::{Error, ErrorKind, Result};
use memchr::{memchr, memchr_iter, memchr2, memrchr};
use std::io::Read;
use std::ops::Range;

/// Bytes of a block, more only where one record is longer.
pub const BLOCK_BYTES: usize = 1 << 20;
/// The longest record.
pub(crate) const RECORD_BYTES_MAX: usize = 64 << 20;

/// How bytes are cut into records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cut {
    /// At every line end.
    Lines,
    /// As CSV: line ends within quotes belong to the field.
    Csv {
        /// The byte between fields.
        delimiter: u8,
        /// The byte around a quoted field.
        quote: u8,
        /// The byte that makes a following quote, or escape, part of a quoted field; may be the quote.
        escape: u8,
    },
}

/// Whole records, and where they are in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Block {
    /// The records, with their line ends.
    pub bytes: Vec<u8>,
    /// The line of the first byte, from 1.
    pub line: u64,
}

/// Cuts a reader into blocks.
pub struct Blocks<R> {
    source: R,
    name: String,
    cut: Cut,
    block_bytes: usize,
    kept: Vec<u8>,
    line: u64,
    ended: bool,
}

impl<R: Read> Blocks<R> {
    /// Blocks of about `block_bytes`; `name` is the file in messages.
    pub fn new(source: R, name: &str, cut: Cut, block_bytes: usize) -> Blocks<R> {
        Blocks { source, name: name.to_owned(), cut, block_bytes, kept: Vec::new(), line: 1, ended: false }
    }

    /// The next block; `None` at the end.
    pub fn next(&mut self) -> Result<Option<Block>> {
        let mut want = self.block_bytes;
        loop {
            self.fill(want)?;
            let end = if self.ended { self.kept.len() } else { last_record_end(&self.kept, self.cut) };
            if end > 0 {
                let rest = self.kept.split_off(end);
                let bytes = std::mem::replace(&mut self.kept, rest);
                let line = self.line;
                self.line += line_ends(&bytes);
                return Ok(Some(Block { bytes, line }));
            }
            if self.ended {
                return Ok(None);
            }
            if self.kept.len() >= RECORD_BYTES_MAX {
                if ends_in_returns(&self.kept, self.cut, false) {
                    return Err(returns_alone(&self.name));
                }
                let message = format!(
                    "{}, line {}: a record of more than {} MiB begins here",
                    self.name,
                    self.line,
                    RECORD_BYTES_MAX >> 20
                );
                return Err(Error::new(ErrorKind::InvalidValue, message)
                    .with_hint("is a quote unclosed, or is the quote another character?"));
            }
            // Doubling keeps the work of looking again for the end linear in the record's length.
            want = 2 * self.kept.len();
        }
    }

    fn fill(&mut self, want: usize) -> Result<()> {
        let missing = want.saturating_sub(self.kept.len());
        let read = (&mut self.source).take(missing as u64).read_to_end(&mut self.kept);
        self.ended |= read.map_err(|error| Error::io(&self.name, "reading", &error))? < missing;
        Ok(())
    }
}

/// Refuses a CSV file of which `first` are the first records, all of them one, as its lines end with carriage returns alone: it would be
/// read as one row.
pub(crate) fn check_line_ends(first: &[u8], cut: Cut, name: &str) -> Result<()> {
    match cut {
        Cut::Csv { .. } if ends_in_returns(first, cut, true) => Err(returns_alone(name)),
        _ => Ok(()),
    }
}

/// Refuses a header, the bytes of one record, that has carriage returns: it would swallow the rows of a file whose lines end with them, and
/// are not all of as many fields.
pub fn check_header(header: &[u8], cut: Cut, name: &str) -> Result<()> {
    if ends_in_returns(header, cut, false) { Err(returns_alone(name)) } else { Ok(()) }
}

fn returns_alone(name: &str) -> Error {
    let message = format!("{name}: its lines end with carriage returns alone (as of an old Mac), which are not read");
    Error::new(ErrorKind::InvalidValue, message)
        .with_hint(r"turn them into line feeds first, for example with tr '\r' '\n'")
}

/// Whether, outside of quotes, carriage returns cut a text without line feeds into lines of as many fields each, but for empty ones; of a
/// text that is too long for one record (`is_whole` is false), into any.
fn ends_in_returns(bytes: &[u8], cut: Cut, is_whole: bool) -> bool {
    let Cut::Csv { delimiter, quote, escape } = cut else {
        return memchr(b'\n', bytes).is_none() && memchr(b'\r', bytes).is_some_and(|at| at + 1 < bytes.len());
    };
    let mut scanner = Scanner::new(delimiter, quote, escape);
    let (mut at, mut begins_field) = (0, true);
    // Where the line begins, its delimiters, and those of the lines before.
    let (mut line, mut delimiters, mut before) = (0, 0, None);
    let mut has_returns = false;
    while let Some(&byte) = bytes.get(at) {
        if begins_field && byte == quote {
            let Some(after) = scanner.quoted_field(bytes, at + 1) else { return false };
            // Where fields are is not asked here.
            scanner.fields.clear();
            scanner.scratch.clear();
            (at, begins_field) = (after, false);
            continue;
        }
        if byte == b'\n' {
            return false;
        }
        delimiters += usize::from(byte == delimiter);
        if byte == b'\r' {
            has_returns |= at + 1 < bytes.len();
            // One that cuts lines of other numbers of fields is a character of its own.
            if is_whole && at > line && before.is_some_and(|before| before != delimiters) {
                return false;
            }
            before = if at > line { Some(delimiters) } else { before };
            (line, delimiters) = (at + 1, 0);
        }
        begins_field = byte == delimiter || byte == b'\r';
        at += 1;
    }
    has_returns && (!is_whole || at == line || before == Some(delimiters))
}

/// Line ends in `bytes`.
pub(crate) fn line_ends(bytes: &[u8]) -> u64 {
    memchr_iter(b'\n', bytes).count() as u64
}

/// The end of the last whole record that begins within `bytes`; 0 when there is none.
fn last_record_end(bytes: &[u8], cut: Cut) -> usize {
    let Cut::Csv { delimiter, quote, escape } = cut else {
        return memrchr(b'\n', bytes).map_or(0, |at| at + 1);
    };
    // Up to the line of the first quote, line ends are record ends.
    let Some(first_quote) = memchr(quote, bytes) else {
        return memrchr(b'\n', bytes).map_or(0, |at| at + 1);
    };
    let mut end = memrchr(b'\n', &bytes[..first_quote]).map_or(0, |at| at + 1);
    let mut scanner = Scanner::new(delimiter, quote, escape);
    while let Some(record) = scanner.next(bytes, end) {
        if !record.complete {
            break;
        }
        end = record.end;
    }
    end
}

/// What is wrong with a record's form.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// The file ends within quotes.
    Unclosed,
    /// Something other than a delimiter or a line end follows a closing quote.
    TextAfterQuote,
}

/// One scanned record; its fields are in the scanner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// Where the next record begins.
    pub end: usize,
    /// Where the record's own bytes end, without the line end.
    pub(crate) content_end: usize,
    /// Whether a line end closed it, rather than the end of the bytes.
    pub complete: bool,
    /// What is wrong, and in which field.
    pub malformed: Option<(Malformed, usize)>,
}

#[derive(Clone, Debug)]
struct Field {
    range: Range<usize>,
    quoted: bool,
    /// The range is in the scratch, where escapes are resolved, rather than in the input.
    resolved: bool,
}

/// Finds the fields of one CSV record at a time.
#[derive(Debug)]
pub(crate) struct Scanner {
    delimiter: u8,
    quote: u8,
    escape: u8,
    fields: Vec<Field>,
    scratch: Vec<u8>,
}

impl Scanner {
    pub fn new(delimiter: u8, quote: u8, escape: u8) -> Scanner {
        Scanner { delimiter, quote, escape, fields: Vec::new(), scratch: Vec::new() }
    }

    /// Fields of the last record.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// A field of the last record: its bytes, and whether they were quoted. `bytes` is what was scanned.
    #[inline]
    pub fn field<'a>(&'a self, bytes: &'a [u8], at: usize) -> (&'a [u8], bool) {
        let field = &self.fields[at];
        let from = if field.resolved { self.scratch.as_slice() } else { bytes };
        (&from[field.range.clone()], field.quoted)
    }

    /// Scans the record that begins at `start`; `None` at the end of the bytes.
    pub fn next(&mut self, bytes: &[u8], start: usize) -> Option<Record> {
        self.fields.clear();
        self.scratch.clear();
        if start >= bytes.len() {
            return None;
        }
        let line_end = memchr(b'\n', &bytes[start..]).map(|length| start + length);
        let line = start..line_end.unwrap_or(bytes.len());
        if memchr(self.quote, &bytes[line.clone()]).is_some() {
            return Some(self.next_quoted(bytes, start));
        }
        let content_end = without_return(bytes, line.clone());
        let mut from = start;
        for delimiter in memchr_iter(self.delimiter, &bytes[start..content_end]) {
            self.push(from..start + delimiter);
            from = start + delimiter + 1;
        }
        self.push(from..content_end);
        let end = line_end.map_or(bytes.len(), |at| at + 1);
        Some(Record { end, content_end, complete: line_end.is_some(), malformed: None })
    }

    fn push(&mut self, range: Range<usize>) {
        self.fields.push(Field { range, quoted: false, resolved: false });
    }

    fn next_quoted(&mut self, bytes: &[u8], start: usize) -> Record {
        let mut at = start;
        let mut malformed = None;
        loop {
            let after = if bytes.get(at) == Some(&self.quote) {
                match self.quoted_field(bytes, at + 1) {
                    Some(after) => after,
                    None => {
                        malformed = malformed.or(Some((Malformed::Unclosed, self.fields.len())));
                        self.push(at..bytes.len());
                        return Record { end: bytes.len(), content_end: bytes.len(), complete: false, malformed };
                    }
                }
            } else {
                let after = memchr2(self.delimiter, b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length);
                let range = if bytes.get(after) == Some(&self.delimiter) {
                    at..after
                } else {
                    at..without_return(bytes, at..after)
                };
                self.push(range);
                after
            };
            let clean = match &bytes[after..] {
                [byte, ..] if *byte == self.delimiter => {
                    at = after + 1;
                    continue;
                }
                [] | [b'\n', ..] | [b'\r'] | [b'\r', b'\n', ..] => true,
                _ => false,
            };
            if !clean {
                malformed = malformed.or(Some((Malformed::TextAfterQuote, self.fields.len() - 1)));
            }
            let line_end = memchr(b'\n', &bytes[after..]).map(|length| after + length);
            let content_end = without_return(bytes, start..line_end.unwrap_or(bytes.len()));
            let end = line_end.map_or(bytes.len(), |at| at + 1);
            return Record { end, content_end, complete: line_end.is_some(), malformed };
        }
    }

    /// Takes the field whose content begins at `content`; where its closing quote ends, or `None` if it has none.
    fn quoted_field(&mut self, bytes: &[u8], content: usize) -> Option<usize> {
        let scratch_start = self.scratch.len();
        let mut copied = content;
        let mut at = content;
        let mut resolved = false;
        loop {
            at += memchr2(self.quote, self.escape, &bytes[at..])?;
            let next = bytes.get(at + 1).copied();
            let escapes =
                bytes[at] == self.escape && next.is_some_and(|next| next == self.quote || next == self.escape);
            if escapes {
                self.scratch.extend_from_slice(&bytes[copied..at]);
                resolved = true;
                copied = at + 1;
                at += 2;
            } else if bytes[at] == self.quote {
                break;
            } else {
                at += 1;
            }
        }
        let range = if resolved {
            self.scratch.extend_from_slice(&bytes[copied..at]);
            scratch_start..self.scratch.len()
        } else {
            content..at
        };
        self.fields.push(Field { range, quoted: true, resolved });
        Some(at + 1)
    }
}

/// The end of `line` without a carriage return before its line end.
fn without_return(bytes: &[u8], line: Range<usize>) -> usize {
    if line.end > line.start && bytes[line.end - 1] == b'\r' { line.end - 1 } else { line.end }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A record's fields, each with whether it was quoted, and what is wrong with it.
    type Scanned = (Vec<(String, bool)>, Option<Malformed>);

    fn scan(text: &str) -> Vec<Scanned> {
        let mut scanner = Scanner::new(b',', b'"', b'"');
        let (mut at, mut out) = (0, Vec::new());
        while let Some(record) = scanner.next(text.as_bytes(), at) {
            let field = |index| {
                let (bytes, quoted) = scanner.field(text.as_bytes(), index);
                (String::from_utf8_lossy(bytes).into_owned(), quoted)
            };
            out.push(((0..scanner.len()).map(field).collect(), record.malformed.map(|(what, _)| what)));
            assert!(record.end > at, "every record makes progress");
            at = record.end;
        }
        out
    }

    fn plain(fields: &[&str]) -> (Vec<(String, bool)>, Option<Malformed>) {
        (fields.iter().map(|field| ((*field).to_owned(), false)).collect(), None)
    }

    #[test]
    fn quotes_mean_something_only_at_the_start_of_a_field() {
        assert_eq!(scan("a,5\" pipe,\r\n"), [plain(&["a", "5\" pipe", ""])]);
        assert_eq!(scan("a\rb,c"), [plain(&["a\rb", "c"])]);
        let quoted = scan("\"a,\"\"b\"\"\nc\",\"\"\r\nx,\"y\"");
        assert_eq!(quoted[0].0, [("a,\"b\"\nc".to_owned(), true), (String::new(), true)]);
        assert_eq!(quoted[1].0, [("x".to_owned(), false), ("y".to_owned(), true)]);
        assert_eq!(scan("\n\n").len(), 2);
    }

    #[test]
    fn malformed_records_end_where_one_expects() {
        let after = scan("\"a\"b,c\nd,e\n");
        assert_eq!((after[0].1, &after[1]), (Some(Malformed::TextAfterQuote), &plain(&["d", "e"])));
        let unclosed = scan("a,b\n\"c,d\ne,f\n");
        assert_eq!((unclosed.len(), unclosed[1].1), (2, Some(Malformed::Unclosed)));
    }

    #[test]
    fn a_backslash_may_escape() {
        let mut scanner = Scanner::new(b';', b'\'', b'\\');
        let text = br"'it\'s \\ \n';b";
        scanner.next(text, 0).unwrap();
        assert_eq!(scanner.field(text, 0), (br"it's \ \n".as_slice(), true));
    }

    #[test]
    fn a_record_without_end_is_refused_with_its_line() {
        let endless = std::io::repeat(b'x');
        let text = std::io::Read::chain(&b"a,b\nc,\"d\n"[..], endless);
        let mut blocks = Blocks::new(text, "f.csv", Cut::Csv { delimiter: b',', quote: b'"', escape: b'"' }, 1 << 20);
        assert_eq!(blocks.next().unwrap().unwrap().bytes, b"a,b\n");
        let error = blocks.next().unwrap_err();
        assert!(error.message().starts_with("f.csv, line 2:"), "{error}");
    }

    #[test]
    fn line_ends_of_old_macs_are_told_from_others() {
        let refused = |text: &str| {
            let cut = Cut::Csv { delimiter: b',', quote: b'"', escape: b'"' };
            check_line_ends(text.as_bytes(), cut, "f.csv").err().map(|error| error.message().to_owned())
        };
        let message = "f.csv: its lines end with carriage returns alone (as of an old Mac), which are not read";
        for text in ["a,b,c\r1,x,1\r2,y,2\r", "a\r1", "\"a\",\"x\ny\"\r\"1\",\"2\"\r", "a,b\r1,2\r\r", "\ra,b\r\r1,2"] {
            assert_eq!(refused(text).as_deref(), Some(message), "{text:?}");
        }
        for text in [
            "",
            "a,b",
            "a,b\r",
            "a,b\r\n1,2\r\n",
            "a,b\r\n1,2",
            "a\rb,c\n1,2",
            "\"a\rb\",c",
            "a,\"b\rc",
            "\r\n",
            "1,x\ry",
            "1,x\ry\r",
            "1,2\r3\r4,5\r",
        ] {
            assert_eq!(refused(text), None, "{text:?}");
        }
        for cut in [Cut::Lines, Cut::Csv { delimiter: b',', quote: b'"', escape: b'"' }] {
            let endless = std::io::Read::chain(&b"a,b"[..], std::io::repeat(b'\r'));
            let mut blocks = Blocks::new(endless, "f.csv", cut, 1 << 20);
            assert_eq!(blocks.next().unwrap_err().message(), message);
        }
        let cut = Cut::Csv { delimiter: b',', quote: b'"', escape: b'"' };
        let unclosed = std::io::Read::chain(&b"x\ry,\""[..], std::io::repeat(b'a'));
        let error = Blocks::new(unclosed, "f.csv", cut, 1 << 20).next().unwrap_err();
        assert_eq!(error.hint(), Some("is a quote unclosed, or is the quote another character?"));
    }

    proptest! {
        /// The csv crate is the model: same fields, whatever the block size.
        #[test]
        fn blocks_and_fields_agree_with_the_csv_crate(
            rows in proptest::collection::vec(proptest::collection::vec("[a\"\n\r, é]{0,6}", 1..4), 0..20),
            block_bytes in 1usize..40,
            crlf in any::<bool>(),
        ) {
            let terminator = if crlf { csv::Terminator::CRLF } else { csv::Terminator::Any(b'\n') };
            let mut writer = csv::WriterBuilder::new().flexible(true).terminator(terminator)
                .quote_style(csv::QuoteStyle::Always).from_writer(Vec::new());
            for row in &rows {
                writer.write_record(row).unwrap();
            }
            let text = writer.into_inner().unwrap();
            let mut blocks = Blocks::new(text.as_slice(), "x", Cut::Csv { delimiter: b',', quote: b'"', escape: b'"' }, block_bytes);
            let (mut joined, mut found) = (Vec::new(), Vec::new());
            let mut scanner = Scanner::new(b',', b'"', b'"');
            while let Some(block) = blocks.next().unwrap() {
                prop_assert_eq!(block.line, 1 + line_ends(&joined));
                let mut at = 0;
                while let Some(record) = scanner.next(&block.bytes, at) {
                    prop_assert_eq!(record.malformed, None);
                    let field = |index| String::from_utf8(scanner.field(&block.bytes, index).0.to_vec()).unwrap();
                    found.push((0..scanner.len()).map(field).collect::<Vec<String>>());
                    at = record.end;
                }
                joined.extend_from_slice(&block.bytes);
            }
            prop_assert_eq!(joined, text);
            prop_assert_eq!(found, rows);
        }

        #[test]
        fn any_bytes_are_cut_without_loss(bytes in proptest::collection::vec(prop_oneof![Just(b'"'), Just(b'\n'), Just(b','), Just(b'\\'), any::<u8>()], 0..200), block_bytes in 1usize..40) {
            for cut in [Cut::Lines, Cut::Csv { delimiter: b',', quote: b'"', escape: b'"' }, Cut::Csv { delimiter: b',', quote: b'"', escape: b'\\' }] {
                let mut blocks = Blocks::new(bytes.as_slice(), "x", cut, block_bytes);
                let mut joined = Vec::new();
                while let Some(block) = blocks.next().unwrap() {
                    joined.extend_from_slice(&block.bytes);
                }
                prop_assert_eq!(&joined, &bytes);
            }
        }
    }
}
