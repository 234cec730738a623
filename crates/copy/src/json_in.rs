//! NDJSON files into rows: one object a line.
//!
//! Invariants:
//! - A key that is absent is NULL. A key that no column has, or that comes twice, makes the row bad; with a column list, keys
//!   outside it are passed over.
//! - A value is stored as the text it is in the file would be: numbers keep their digits. Objects and arrays go into TEXT
//!   columns as they are written, and nowhere else.

use crate::bind::{Names, Wanted};
use crate::parallel;
use crate::progress::CancelToken;
use crate::records::{BLOCK_BYTES, Block, Blocks, Cut};
use crate::rows::{Part, RowLocation, TextRows, Wrong};
use alluvia_space::{DataType, OP_COLUMN, TableDef, without_key};
use alluvia_syntax::copy::compatibility::ARRAY_HINT;
use alluvia_syntax::copy::options::OnError;
use alluvia_types::Result;
use alluvia_values::json::{Members, NotJson, Value, resolve};
use alluvia_values::parse::{Bad, shown, shown_around};
use memchr::memchr;
use std::io::Read;
use std::sync::Arc;

/// How NDJSON files become rows of one table.
pub(crate) struct JsonInput {
    pub table: Arc<TableDef>,
    pub wanted: Wanted,
    pub on_error: OnError,
}

impl JsonInput {
    /// Reads one file, handing on its parts in order.
    pub fn read(
        &self,
        text: impl Read + Send,
        name: &str,
        cancel: &CancelToken,
        emit: impl FnMut(Part) -> Result<()>,
    ) -> Result<()> {
        let mut blocks = Blocks::new(text, name, Cut::Lines, BLOCK_BYTES);
        let worker = || {
            let mut parser = Parser {
                input: self,
                names: self.wanted.names(&self.table),
                order: Vec::new(),
                rows: TextRows::new(&self.table, self.on_error, 8192)
                    .exactly(self.wanted.is_exact)
                    .in_zone(&self.wanted.time_zone)
                    .doing(self.wanted.operations.clone()),
            };
            move |block: Block| parser.parse(&block)
        };
        parallel::in_order(parallel::workers(), cancel, move || blocks.next(), worker, emit)
    }
}

struct Parser<'a> {
    input: &'a JsonInput,
    names: Names<'a>,
    /// Keys in the order of the last row, with their columns: most rows have the same, and need no look-up.
    order: Vec<(Vec<u8>, Option<usize>)>,
    rows: TextRows,
}

impl Parser<'_> {
    fn parse(&mut self, block: &Block) -> Result<Part> {
        let bytes = block.bytes.as_slice();
        let (mut at, mut line) = (0, block.line);
        while at < bytes.len() {
            let end = memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |length| at + length);
            let text = &bytes[at..end];
            let text = text.strip_suffix(b"\r").unwrap_or(text);
            let place = RowLocation::Line(line);
            let go_on = match text.trim_ascii().is_empty() {
                true => true,
                false => match self.object(text) {
                    Ok(()) => self.rows.end_row(place, text),
                    Err(wrong) => self.rows.end_malformed(place, wrong, text),
                },
            };
            if !go_on {
                break;
            }
            at = end + 1;
            line += 1;
        }
        self.rows.finish()
    }

    /// Sets the columns of one row, or says why the line is bad as a whole.
    fn object(&mut self, text: &[u8]) -> Result<(), Wrong> {
        if let Err(bad) = std::str::from_utf8(text) {
            return Err(self.not_utf8(text, bad.valid_up_to()));
        }
        let mut members = Members::new(text);
        let mut position = 0;
        while let Some((key, value)) = members.next_member().map_err(|wrong| not_json(text, wrong))? {
            let column = self.column_of(position, key);
            position += 1;
            match column {
                Some(column) if self.rows.is_set(column) => {
                    return Err(format!("key {} comes twice", shown(key)).into());
                }
                Some(column) => self.set(column, value),
                None if self.input.wanted.listed => {}
                None => {
                    let (table, key) = (&self.input.table, resolve(key));
                    if key.as_ref() == OP_COLUMN.as_bytes() && table.key.is_none() {
                        let error = without_key(&table.name, OP_COLUMN);
                        let hint = error.hint().map(str::to_owned);
                        return Err(Wrong { kind: error.kind(), hint, ..Wrong::from(error.message().to_owned()) });
                    }
                    let reason = format!("key {} is no column of table {}", shown(&key), table.name);
                    let hint = self.input.wanted.unknown_hint(table, &String::from_utf8_lossy(&key));
                    return Err(Wrong { hint: Some(hint), ..Wrong::from(reason) });
                }
            }
        }
        Ok(())
    }

    /// What is wrong with a line that is UTF-8 up to the byte `at` alone: which key's value, or what else it is in.
    fn not_utf8(&self, text: &[u8], at: usize) -> Wrong {
        let wrong = |reason: String| Wrong { kind: Bad::Utf8.kind(), ..Wrong::from(reason) };
        let first_bad = |bytes: &[u8]| std::str::from_utf8(bytes).err().map(|bad| bad.valid_up_to());
        let mut members = Members::new(text);
        // Everything before the byte is sound: the first part that is not has it.
        while let Ok(Some((key, value))) = members.next_member() {
            if let Some(at) = first_bad(key) {
                return wrong(format!("key {} is not valid UTF-8", shown_around(key, at)));
            }
            let (Value::Plain(bytes) | Value::String(bytes) | Value::Nested(bytes)) = value else { continue };
            if let Some(at) = first_bad(bytes) {
                let reason = format!("{} is not valid UTF-8", shown_around(bytes, at));
                let column = std::str::from_utf8(&resolve(key)).ok().and_then(|name| self.names.find(name));
                return match column {
                    Some(_) => Wrong { column, ..wrong(reason) },
                    None => wrong(format!("key {}: {reason}", shown(&resolve(key)))),
                };
            }
        }
        wrong(format!("{} is not valid UTF-8 at byte {}", shown_around(text, at), at + 1))
    }

    fn column_of(&mut self, position: usize, key: &[u8]) -> Option<usize> {
        if let Some((known, column)) = self.order.get(position)
            && known == key
        {
            return *column;
        }
        let column = std::str::from_utf8(&resolve(key)).ok().and_then(|name| self.names.find(name));
        self.order.truncate(position);
        // Rows with ever new keys must not grow this.
        if position < 4096 {
            self.order.push((key.to_vec(), column));
        }
        column
    }

    fn is_json(&self, column: usize) -> bool {
        matches!(self.input.table.columns[column].data_type, DataType::Json | DataType::Jsonb)
    }

    fn set(&mut self, column: usize, value: Value<'_>) {
        match value {
            Value::Null => self.rows.set(column, None),
            Value::Plain(text) | Value::Nested(text) => {
                let data_type = self.input.table.columns[column].data_type;
                let whole = matches!(data_type, DataType::Int16 | DataType::Int32 | DataType::Int64);
                match if whole { whole_number(text) } else { None } {
                    Some(number) => self.rows.set(column, Some(number.to_string().as_bytes())),
                    None => self.rows.set(column, Some(text)),
                }
            }
            // A string of JSON is one, and not what it says.
            Value::String(text) if self.is_json(column) => {
                self.rows.set(column, Some(&[b"\"", text, b"\""].concat()));
            }
            Value::String(text) => self.rows.set(column, Some(&resolve(text))),
        }
    }
}

/// `1.0` and `1e3` are whole numbers in JSON; `None` when the text is one anyway, or is not one.
fn whole_number(text: &[u8]) -> Option<i64> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if !text.iter().any(|byte| matches!(byte, b'.' | b'e' | b'E')) {
        return None;
    }
    let number: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (number.fract() == 0.0 && number.abs() <= EXACT).then_some(number as i64)
}

fn not_json(text: &[u8], wrong: NotJson) -> Wrong {
    if text.trim_ascii_start().starts_with(b"[") {
        let reason = "a JSON array begins, and each line is to be an object".to_owned();
        return Wrong { hint: Some(ARRAY_HINT.to_owned()), ..Wrong::from(reason) };
    }
    let reason = format!("not JSON: expected {} at character {}", wrong.expected, wrong.at);
    let trimmed = text.trim_ascii();
    let goes_on = trimmed.starts_with(b"{") && !trimmed.ends_with(b"}");
    let hint = goes_on.then(|| "an object ends on its line: write one a line, for example with jq -c '.'".to_owned());
    Wrong { hint, ..Wrong::from(reason) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::Incoming;
    use crate::testing::{row_texts, table};
    use alluvia_space::{OnConflict, PrimaryKey, RowOp, RowPolicy};
    use alluvia_types::{ColumnId, Error, ErrorKind};

    fn read(columns: &str, listed: &[&str], text: &str) -> (Vec<Vec<String>>, Vec<String>) {
        let (rows, rejects) = read_bytes(columns, listed, text.as_bytes());
        (rows, rejects.iter().map(|error| error.message().to_owned()).collect())
    }

    fn read_bytes(columns: &str, listed: &[&str], text: &[u8]) -> (Vec<Vec<String>>, Vec<Error>) {
        let table = table(columns);
        let listed: Vec<String> = listed.iter().map(|name| (*name).to_owned()).collect();
        let wanted = Wanted::new(&table, &listed).unwrap();
        let input = JsonInput { table, wanted, on_error: OnError::Skip };
        let (mut rows, mut rejects) = (Vec::new(), Vec::new());
        let text = std::io::Cursor::new(text.to_vec());
        let collect = |part: Part| {
            rows.extend(row_texts(&part.rows));
            rejects.extend(part.rejects.iter().map(|reject| reject.refuse("f.json")));
            Ok(())
        };
        input.read(text, "f.json", &CancelToken::new(), collect).unwrap();
        (rows, rejects)
    }

    #[test]
    fn values_go_to_their_columns_by_name() {
        let text = "{\"a\": 1, \"b\": \"x\\ny\", \"c\": 12345678901234567890.25}\n\n\
                    {\"b\": {\"n\": [1, 2]}, \"a\": 2.0}\r\n\
                    {\"C\": 1e2, \"b\": 7, \"a\": null}\n{}";
        let (rows, rejects) = read("a INT, b TEXT, c TEXT", &[], text);
        assert_eq!(rejects, Vec::<String>::new());
        assert_eq!(
            rows,
            [
                ["1", "x\ny", "12345678901234567890.25"],
                ["2", "{\"n\": [1, 2]}", "NULL"],
                ["NULL", "7", "1e2"],
                ["NULL", "NULL", "NULL"]
            ]
        );
        let (rows, rejects) = read("a INT, b TEXT", &["a"], "{\"a\": 1, \"b\": 5, \"zzz\": 1}");
        assert_eq!((rows, rejects.len()), (vec![vec!["1".to_owned(), "NULL".to_owned()]], 0));
    }

    #[test]
    fn every_bad_line_says_what_is_wrong() {
        let text = "{\"a\": 1.5}\n{\"a\": \"x\"}\n{\"a\": 1, \"q\": 2}\n{\"a\": 1, \"a\": 2}\n[1]\n{\"a\": 1\n\
                    {\"b\": \"x\"}\n{\"a\": true}\n{\"a\": [1]}\n{\"a\": 4}\n";
        let (rows, rejects) = read("a INT NOT NULL, b TEXT", &[], text);
        assert_eq!(rows, [["4", "NULL"]]);
        assert_eq!(
            rejects,
            [
                "f.json, line 1, column a: '1.5' is not a valid INT",
                "f.json, line 2, column a: 'x' is not a valid INT",
                "f.json, line 3: key 'q' is no column of table t",
                "f.json, line 4: key 'a' comes twice",
                "f.json, line 5: a JSON array begins, and each line is to be an object",
                "f.json, line 6: not JSON: expected a comma or } at character 8",
                "f.json, line 7, column a: NULL in a NOT NULL column",
                "f.json, line 8, column a: 'true' is not a valid INT",
                "f.json, line 9, column a: '[1]' is not a valid INT",
            ]
        );
    }

    #[test]
    fn bytes_that_are_not_utf8_are_shown_with_their_column_or_place() {
        let mut text = format!("{{\"a\": 1, \"b\": \"{}\u{1}end\"}}\n", "x".repeat(90)).into_bytes();
        text.extend(
            b"{\"q\": [\"\x01\"], \"a\": 1}\n{\"\x01b\": 1}\n{\"a\": \x01}\n{\"b\": {\"c\": \"\x01\"}}\n{\"a\": 4}\n",
        );
        let bad: Vec<u8> = text.iter().map(|byte| if *byte == 1 { 0xff } else { *byte }).collect();
        let (rows, rejects) = read_bytes("a INT, b TEXT", &[], &bad);
        assert_eq!(rows, [["4", "NULL"]]);
        assert!(rejects.iter().all(|error| error.kind() == ErrorKind::Encoding), "{rejects:?}");
        let found: Vec<&str> = rejects.iter().map(|error| error.message()).collect();
        assert_eq!(
            found,
            [
                "f.json, line 1, column b: '…xxxxxxxxxxxxxxxxxxxx\u{fffd}end' is not valid UTF-8",
                "f.json, line 2: key 'q': '[\"\u{fffd}\"]' is not valid UTF-8",
                "f.json, line 3: key '\u{fffd}b' is not valid UTF-8",
                "f.json, line 4: '{\"a\": \u{fffd}}' is not valid UTF-8 at byte 7",
                "f.json, line 5, column b: '{\"c\": \"\u{fffd}\"}' is not valid UTF-8",
            ]
        );
    }

    #[test]
    fn a_row_gives_the_keys_of_its_line_and_needs_what_its_operation_does() {
        let mut def = table("id INT NOT NULL, a INT, b TEXT NOT NULL").as_ref().clone();
        let columns = vec![ColumnId(0)];
        def.key = Some(PrimaryKey { columns, secret: [1, 2], on_conflict: OnConflict::default() });
        let policy = RowPolicy { op: Some(RowOp::Patch), on_conflict: None };
        let Incoming { def, operations } = Incoming::new(&Arc::new(def), policy).unwrap();
        let wanted = Wanted::new(&def, &[]).unwrap().doing(operations);
        let input = JsonInput { table: def, wanted, on_error: OnError::Skip };
        let text = "{\"id\": 1, \"b\": \"x\"}\n{\"_op\": \"d\", \"id\": 2}\n{\"id\": 3, \"b\": null}\n{\"_op\": \"u\", \"id\": 4}\n\
                    {\"_op\": \"merge\", \"id\": 5}\n{\"a\": 6}\n{\"a\": null, \"id\": 7}\n";
        let (mut rows, mut rejects, mut places) = (Vec::new(), Vec::new(), Vec::new());
        let collect = |part: Part| {
            rows.extend(row_texts(&part.rows));
            rejects.extend(part.rejects.iter().map(|reject| reject.refuse("f").message().to_owned()));
            places.extend(part.places);
            Ok(())
        };
        input.read(std::io::Cursor::new(text), "f", &CancelToken::new(), collect).unwrap();
        assert_eq!(
            rows,
            [
                ["1", "NULL", "x", "NULL", "101"],
                ["2", "NULL", "NULL", "d", "NULL"],
                ["7", "NULL", "NULL", "NULL", "110"]
            ]
        );
        assert_eq!(places, [1, 2, 7].map(RowLocation::Line));
        assert_eq!(
            rejects,
            [
                "f, line 3, column b: NULL in a NOT NULL column",
                "f, line 4, column b: NULL in a NOT NULL column",
                "f, line 5, column _op: 'merge' is not a valid operation (insert, upsert, patch, delete)",
                "f, line 6, column id: NULL in a NOT NULL column",
            ]
        );
    }

    #[test]
    fn an_unknown_key_has_near_names() {
        let hint = |text: &str| read_bytes("a INT, b TEXT", &[], text.as_bytes()).1[0].hint().map(str::to_owned);
        let list = "COPY table (a, b, ...) FROM ...";
        let near = format!("did you mean b? Or list the columns to load: {list}");
        assert_eq!(hint("{\"bb\": \"x\"}"), Some(near));
        assert_eq!(hint("{\"xyzzy\": 1}"), Some(format!("list the columns to load: {list}")));
        assert_eq!(hint("{\"a\": \"x\"}"), None, "to correct the file is the load's to say");
    }
}
