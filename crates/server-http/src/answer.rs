//! Answers: rows on their way into a body.
//!
//! Invariants:
//! - An answer is not held whole: a batch is written when the client has taken what was written before it.
//! - A failure before the first rows is a status; one after them ends the body without its end. What each format looks like then is in
//!   docs/OPERATIONS.md.
//! - JSON objects have no column twice.

use crate::failure::Failure;
use crate::media::Answer;
use alluvia_copy::ResultWriter;
use alluvia_query::Outcome;
use alluvia_syntax::copy::options::{CopyOptions, Format};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::sql_type::sql_type_of;
use alluvia_values::time_zone::Zone;
use alluvia_values::unique_names::unique_names;
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::io::{self, Write};
use std::sync::Arc;

/// What a writer of some format has written and nobody has sent yet.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn push(&self, text: &str) {
        self.0.lock().extend_from_slice(text.as_bytes());
    }

    /// What there is, if it is worth a piece of its own.
    pub(crate) fn take_if_long(&self) -> Option<Bytes> {
        const PIECE_BYTES: usize = 64 << 10;
        let mut bytes = self.0.lock();
        (bytes.len() >= PIECE_BYTES).then(|| std::mem::take(&mut *bytes).into())
    }

    /// All there is.
    pub(crate) fn take(&self) -> Bytes {
        std::mem::take(&mut *self.0.lock()).into()
    }
}

/// Writes one answer.
pub(crate) struct Encoder {
    writer: ResultWriter<Written>,
    pub(crate) written: Written,
    is_json: bool,
}

impl Encoder {
    /// An answer with these columns begins; texts of moments are as clocks of a zone show them.
    pub(crate) fn new(answer: Answer, schema: &SchemaRef, zone: Zone) -> Result<Encoder> {
        let written = Written::default();
        let (format, is_json) = match answer {
            Answer::Rows(format) => (format, false),
            Answer::Json | Answer::Events => (Format::JsonArray, true),
        };
        if matches!(format, Format::JsonArray | Format::JsonLines) {
            refuse_repeated(schema)?;
        }
        if answer == Answer::Json {
            written.push(&format!("{{\"columns\":{},\"rows\":", columns(schema)));
        }
        let options = CopyOptions { time_zone: zone, ..CopyOptions::default() };
        let writer = ResultWriter::new(format, Arc::clone(schema), &options, written.clone())?;
        Ok(Encoder { writer, written, is_json })
    }

    /// Writes rows.
    pub(crate) fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.writer.write(batch)
    }

    /// Writes what comes after the last row; gives the last bytes.
    pub(crate) fn finish(self, outcome: &Outcome) -> Result<Bytes> {
        let (rows, written) = self.writer.finish()?;
        if self.is_json {
            let rest = ending(outcome, rows).to_string();
            written.push(&format!(",{}\n", rest.trim_start_matches('{')));
        }
        Ok(written.take())
    }

    /// Only the rows, as text.
    pub(crate) fn into_text(self) -> Result<String> {
        let (_, written) = self.writer.finish()?;
        String::from_utf8(written.take().into()).map_err(|_| Error::internal("a result in JSON is not UTF-8"))
    }

    /// What tells a reader of the body that it failed; the body ends after it, without its end.
    pub(crate) fn fail(self, failure: &Failure) -> Bytes {
        if self.is_json {
            self.written.push(&format!("],\"error\":{}", failure.to_json()));
        }
        self.written.take()
    }
}

fn refuse_repeated(schema: &SchemaRef) -> Result<()> {
    for (at, field) in schema.fields().iter().enumerate() {
        if schema.fields()[..at].iter().any(|other| other.name() == field.name()) {
            let message = format!("two columns are named {}, and a JSON object has a name once", field.name());
            return Err(Error::new(ErrorKind::DuplicateColumn, message)
                .with_hint("give one of them another name with AS, or ask for CSV or Arrow"));
        }
    }
    Ok(())
}

/// Names and SQL types.
pub(crate) fn columns(schema: &SchemaRef) -> Value {
    let column = |field: &Arc<arrow::datatypes::Field>| json!({ "name": field.name(), "type": sql_type_of(field) });
    Value::Array(unique_names(schema).fields().iter().map(column).collect())
}

/// What is told of an answer after its rows.
pub(crate) fn ending(outcome: &Outcome, rows: u64) -> Value {
    json!({ "row_count": rows, "tag": outcome.tag, "notices": outcome.notices(), "used": outcome.used().map(|used| used.to_json()) })
}

/// What is known of an answer before its rows, for formats that have no place for it.
pub(crate) fn headers(outcome: &Outcome, headers: &mut HeaderMap) {
    let mut put = |name: &'static str, value: String| {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    };
    put("alluvia-tag", outcome.tag.clone());
    if let Some(used) = outcome.used() {
        put("alluvia-version", used.version.0.to_string());
        put("alluvia-lag-seconds", format!("{:.6}", used.lag.as_secs_f64()));
        put("alluvia-stage", used.stage.to_string());
    }
}
