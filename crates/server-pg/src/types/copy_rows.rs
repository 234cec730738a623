//! Rows in PostgreSQL's own COPY formats and in CSV: written from batches, and binary ones read as text ones.

use crate::types::datetime::{
    EPOCH_DAYS, EPOCH_MICROS, put_date, put_double, put_interval, put_real, put_time, put_timestamp,
};
use crate::types::encode::{Column, Rows};
use crate::types::{numeric, of_field, oid};
use crate::wire::Out;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::time_zone::Zone;
use alluvia_values::uuid::write_uuid;
use arrow::datatypes::{Field, Schema};
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// What begins a binary COPY; flags and the length of an extension follow.
const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// The longest value of a binary COPY, as of a record of text.
const VALUE_BYTES_MAX: usize = 64 << 20;

/// How rows are written.
pub(crate) enum RowForm {
    Text {
        delimiter: u8,
        null: Vec<u8>,
    },
    Csv {
        delimiter: u8,
        quote: u8,
        escape: u8,
        null: Vec<u8>,
    },
    /// `begun` once the signature was written. It comes in one message with what follows: clients take a message for a row.
    Binary {
        begun: bool,
    },
}

fn put_signature(out: &mut BytesMut) {
    out.put_slice(SIGNATURE);
    out.put_u64(0);
}

impl RowForm {
    /// What comes before the rows, as a message of its own.
    pub(crate) fn begin(&self, schema: &Schema, header: bool, out: &mut Out) {
        match self {
            RowForm::Binary { .. } => {}
            _ if header => out.message(b'd', |out| {
                for (at, field) in schema.fields().iter().enumerate() {
                    self.separate(at, out);
                    self.put_value(field.name().as_bytes(), out);
                }
                out.put_u8(b'\n');
            }),
            _ => {}
        }
    }

    /// What comes after them.
    pub(crate) fn end(&self, out: &mut Out) {
        if let RowForm::Binary { begun } = self {
            out.message(b'd', |out| {
                if !begun {
                    put_signature(out);
                }
                out.put_i16(-1);
            });
        }
    }

    fn separate(&self, at: usize, out: &mut BytesMut) {
        if let (RowForm::Text { delimiter, .. } | RowForm::Csv { delimiter, .. }, 1..) = (self, at) {
            out.put_u8(*delimiter);
        }
    }

    fn put_value(&self, value: &[u8], out: &mut BytesMut) {
        match self {
            RowForm::Text { delimiter, .. } => put_escaped(value, *delimiter, out),
            RowForm::Csv { delimiter, quote, escape, null } => {
                let special = |byte: &u8| *byte == *delimiter || *byte == *quote || matches!(byte, b'\n' | b'\r');
                if value != null.as_slice() && value != b"\\." && !value.iter().any(special) {
                    return out.put_slice(value);
                }
                out.put_u8(*quote);
                for byte in value {
                    if byte == quote || byte == escape {
                        out.put_u8(*escape);
                    }
                    out.put_u8(*byte);
                }
                out.put_u8(*quote);
            }
            RowForm::Binary { .. } => out.put_slice(value),
        }
    }
}

/// A value of the text format.
fn put_escaped(value: &[u8], delimiter: u8, out: &mut BytesMut) {
    for byte in value {
        match byte {
            b'\\' => out.put_slice(b"\\\\"),
            b'\n' => out.put_slice(b"\\n"),
            b'\r' => out.put_slice(b"\\r"),
            b'\t' => out.put_slice(b"\\t"),
            8 => out.put_slice(b"\\b"),
            11 => out.put_slice(b"\\v"),
            12 => out.put_slice(b"\\f"),
            byte if *byte == delimiter => out.put_slice(&[b'\\', *byte]),
            byte => out.put_u8(*byte),
        }
    }
}

impl Rows {
    /// Appends rows `from..to`, each as a message of its own. Of an error's row nothing is appended; those before it are.
    pub(crate) fn copy(&self, from: usize, to: usize, form: &mut RowForm, out: &mut Out) -> Result<()> {
        let binary = matches!(form, RowForm::Binary { .. });
        let columns: Vec<Column<'_>> = self.columns(binary)?;
        let mut value = BytesMut::new();
        for row in from..to {
            let begin = out.bytes.len();
            let mut written = Ok(());
            let is_first = match form {
                RowForm::Binary { begun } => !std::mem::replace(begun, true),
                _ => false,
            };
            out.message(b'd', |out| {
                if is_first {
                    put_signature(out);
                }
                written = (|| {
                    if binary {
                        out.put_u16(columns.len() as u16);
                        return columns.iter().try_for_each(|column| column.put(row, out));
                    }
                    for (at, column) in columns.iter().enumerate() {
                        form.separate(at, out);
                        if column.is_null(row) {
                            if let RowForm::Text { null, .. } | RowForm::Csv { null, .. } = form {
                                out.put_slice(null);
                            }
                            continue;
                        }
                        value.clear();
                        column.put_text(row, &mut value)?;
                        form.put_value(&value, out);
                    }
                    out.put_u8(b'\n');
                    Ok(())
                })();
            });
            if let Err(error) = written {
                // Half a row is no data.
                out.bytes.truncate(begin);
                return Err(error);
            }
        }
        Ok(())
    }
}

/// Reads a binary COPY, and gives the same rows as lines of text.
pub(crate) struct BinaryAsText {
    types: Vec<u32>,
    pending: BytesMut,
    begun: bool,
    ended: bool,
    rows: u64,
}

impl BinaryAsText {
    /// For these columns.
    pub(crate) fn new(columns: &[Field]) -> BinaryAsText {
        let types = columns.iter().map(|field| of_field(field).0).collect();
        BinaryAsText { types, pending: BytesMut::new(), begun: false, ended: false, rows: 0 }
    }

    /// Takes more input; gives the lines of the rows that are whole.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Result<Bytes> {
        self.pending.put_slice(bytes);
        let mut lines = BytesMut::new();
        if !self.begun && !self.begin()? {
            return Ok(Bytes::new());
        }
        while !self.ended {
            let Some(length) = self.tuple_length()? else { break };
            let mut tuple = self.pending.split_to(length).freeze();
            tuple.advance(2);
            self.rows += 1;
            for at in 0..self.types.len() {
                if at > 0 {
                    lines.put_u8(b'\t');
                }
                let length = tuple.get_i32();
                match usize::try_from(length) {
                    Err(_) => lines.put_slice(b"\\N"),
                    Ok(length) => {
                        let mut text = BytesMut::new();
                        let value = tuple.split_to(length);
                        put_as_text(self.types[at], value, &mut text)
                            .map_err(|error| error.at(format_args!("row {}, column {}", self.rows, at + 1)))?;
                        put_escaped(&text, b'\t', &mut lines);
                    }
                }
            }
            lines.put_u8(b'\n');
        }
        Ok(lines.freeze())
    }

    /// There is no more input. As in PostgreSQL it may end after any row: pgx, for one, sends no trailer.
    pub(crate) fn finish(&self) -> Result<()> {
        match (self.begun, self.ended || self.pending.is_empty()) {
            (true, true) => Ok(()),
            (true, false) => Err(broken(&format!("it ends in the middle of row {}", self.rows + 1))),
            (false, _) => Err(broken("it ends before its header does")),
        }
    }

    fn begin(&mut self) -> Result<bool> {
        let known = self.pending.len().min(SIGNATURE.len());
        if self.pending[..known] != SIGNATURE[..known] {
            return Err(broken("it does not begin with the signature of that format"));
        }
        let fixed = SIGNATURE.len() + 8;
        if self.pending.len() < fixed {
            return Ok(false);
        }
        let number = |at: usize| u32::from_be_bytes(self.pending[at..at + 4].try_into().unwrap_or_default());
        let (flags, extension) = (number(SIGNATURE.len()), number(SIGNATURE.len() + 4) as usize);
        if flags != 0 || extension > 1 << 16 {
            return Err(broken("it has flags or an extension that are not known"));
        }
        if self.pending.len() < fixed + extension {
            return Ok(false);
        }
        self.pending.advance(fixed + extension);
        self.begun = true;
        Ok(true)
    }

    /// The bytes of the next tuple, if all of it is here.
    fn tuple_length(&mut self) -> Result<Option<usize>> {
        let bytes = &self.pending;
        if bytes.len() < 2 {
            return Ok(None);
        }
        let fields = i16::from_be_bytes([bytes[0], bytes[1]]);
        if fields == -1 {
            self.ended = true;
            return Ok(None);
        }
        if fields as usize != self.types.len() {
            let row = self.rows + 1;
            return Err(broken(&format!("row {row} has {fields} fields where {} are expected", self.types.len())));
        }
        let mut at = 2;
        for _ in 0..fields {
            if bytes.len() < at + 4 {
                return Ok(None);
            }
            let length = i32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
            at += 4;
            match usize::try_from(length) {
                Ok(length) if length > VALUE_BYTES_MAX => return Err(broken("a value is longer than 64 MiB")),
                Ok(length) => at += length,
                Err(_) if length == -1 => {}
                Err(_) => return Err(broken("a value has a length below zero")),
            }
        }
        Ok((bytes.len() >= at).then_some(at))
    }
}

fn broken(why: &str) -> Error {
    Error::new(ErrorKind::InvalidValue, format!("the binary COPY cannot be read: {why}"))
}

fn put_as_text(type_oid: u32, mut value: Bytes, out: &mut BytesMut) -> Result<()> {
    let length = value.len();
    let wanted = match type_oid {
        oid::BOOL => 1,
        oid::INT2 => 2,
        oid::INT4 | oid::FLOAT4 | oid::DATE => 4,
        oid::INT8 | oid::FLOAT8 | oid::TIME | oid::TIMESTAMP | oid::TIMESTAMPTZ => 8,
        oid::UUID | oid::INTERVAL => 16,
        _ => length,
    };
    if length != wanted {
        let message =
            format!("the binary COPY cannot be read: a value has {length} bytes where its column's type has {wanted}");
        return Err(Error::new(ErrorKind::InvalidBinary, message)
            .with_hint("in the binary format values must be of exactly the columns' types"));
    }
    let mut digits = itoa::Buffer::new();
    match type_oid {
        oid::BOOL => out.put_u8(if value.get_u8() != 0 { b't' } else { b'f' }),
        oid::INT2 => out.put_slice(digits.format(value.get_i16()).as_bytes()),
        oid::INT4 => out.put_slice(digits.format(value.get_i32()).as_bytes()),
        oid::INT8 => out.put_slice(digits.format(value.get_i64()).as_bytes()),
        oid::FLOAT4 => put_real(out, value.get_f32()),
        oid::FLOAT8 => put_double(out, value.get_f64()),
        oid::NUMERIC => {
            let (value, scale) = numeric::read_binary(value)?;
            numeric::put_text(out, value, scale);
        }
        oid::DATE => put_date(out, i64::from(value.get_i32()) + i64::from(EPOCH_DAYS)),
        oid::TIMESTAMP | oid::TIMESTAMPTZ => {
            let micros = value.get_i64().checked_add(EPOCH_MICROS).ok_or_else(|| broken("a time is infinite"))?;
            put_timestamp(out, micros, (type_oid == oid::TIMESTAMPTZ).then(Zone::utc).as_ref());
        }
        oid::TIME => put_time(out, value.get_i64()),
        oid::INTERVAL => {
            let (micros, days, months) = (value.get_i64(), value.get_i32(), value.get_i32());
            put_interval(out, months, days, micros);
        }
        oid::UUID => {
            // A buffer takes every text.
            let _ = write_uuid(out, &value);
        }
        oid::JSONB => match value.split_first() {
            Some((1, text)) => out.put_slice(text),
            _ => return Err(Error::new(ErrorKind::InvalidBinary, "unsupported jsonb version number")),
        },
        oid::BYTEA => {
            out.put_slice(b"\\x");
            for byte in value {
                out.put_slice(format!("{byte:02x}").as_bytes());
            }
        }
        _ => out.put_slice(&value),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Float64Array, Int32Array, RecordBatch, StringArray};
    use arrow::datatypes::DataType;
    use std::sync::Arc;

    fn written(mut form: RowForm) -> Vec<u8> {
        let fields = [("a", DataType::Int32), ("b", DataType::Utf8), ("c", DataType::Float64)];
        let schema: Arc<Schema> =
            Arc::new(Schema::new(fields.map(|(name, data_type)| Field::new(name, data_type, true)).to_vec()));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from(vec![Some(1), None])),
            Arc::new(StringArray::from(vec![Some("a\tb\\\n\"c\""), Some("")])),
            Arc::new(Float64Array::from(vec![Some(1.0), None])),
        ];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        let rows = Rows::new(&batch, &schema, &[0; 3]).unwrap();
        let mut out = Out::default();
        form.begin(&schema, true, &mut out);
        rows.copy(0, 1, &mut form, &mut out).unwrap();
        rows.copy(1, 2, &mut form, &mut out).unwrap();
        form.end(&mut out);
        let mut data = Vec::new();
        let mut bytes = out.bytes;
        while !bytes.is_empty() {
            let length = u32::from_be_bytes(bytes[1..5].try_into().unwrap()) as usize;
            data.extend_from_slice(&bytes.split_to(length + 1)[5..]);
        }
        data
    }

    #[test]
    fn rows_are_written_as_postgresql_writes_them() {
        let text = written(RowForm::Text { delimiter: b'\t', null: b"\\N".to_vec() });
        assert_eq!(String::from_utf8(text).unwrap(), "a\tb\tc\n1\ta\\tb\\\\\\n\"c\"\t1\n\\N\t\t\\N\n");
        let csv = written(RowForm::Csv { delimiter: b',', quote: b'"', escape: b'"', null: Vec::new() });
        assert_eq!(String::from_utf8(csv).unwrap(), "a,b,c\n1,\"a\tb\\\n\"\"c\"\"\",1\n,\"\",\n");
    }

    #[test]
    fn binary_rows_are_read_however_they_are_cut() {
        let bytes = written(RowForm::Binary { begun: false });
        let field = |data_type: DataType| Field::new("a", data_type, true);
        let types = [DataType::Int32, DataType::Utf8, DataType::Float64].map(field);
        let mut ends = Vec::new();
        for cut in 0..bytes.len() {
            let mut reader = BinaryAsText::new(&types);
            let mut lines = reader.take(&bytes[..cut]).unwrap().to_vec();
            ends.extend(reader.finish().is_ok().then_some(cut));
            lines.extend_from_slice(&reader.take(&bytes[cut..]).unwrap());
            reader.finish().unwrap();
            assert_eq!(String::from_utf8(lines).unwrap(), "1\ta\\tb\\\\\\n\"c\"\t1\n\\N\t\t\\N\n");
        }
        // After the header and after each row.
        assert_eq!(ends, [19, 53, 67]);
        assert!(BinaryAsText::new(&types[..2]).take(&bytes).is_err());
        let wider = [DataType::Int64, DataType::Utf8, DataType::Float64].map(field);
        assert_eq!(BinaryAsText::new(&wider).take(&bytes).unwrap_err().kind(), ErrorKind::InvalidBinary);
        assert!(BinaryAsText::new(&types).take(b"1\tx\n").is_err());
    }
}
