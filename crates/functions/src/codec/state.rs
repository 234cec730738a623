//! A function's state as bytes: numbers in little-endian order, texts and functions with their length before them, types in Arrow's
//! IPC form.

use super::{decode_aggregate, decode_scalar, encode_aggregate, encode_scalar};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::ipc::convert::{IpcSchemaEncoder, fb_to_schema};
use arrow::ipc::root_as_schema;
use datafusion_common::{Result, exec_err};
use datafusion_expr::{AggregateUDF, ScalarUDF};
use std::sync::Arc;

/// Writes a state.
#[derive(Debug, Default)]
pub struct StateWriter(Vec<u8>);

impl StateWriter {
    /// A flag, or a variant's number.
    pub fn byte(&mut self, value: u8) {
        self.0.push(value);
    }

    /// A number.
    pub fn number(&mut self, value: i64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// A number that may be missing.
    pub fn optional(&mut self, value: Option<i64>) {
        self.byte(u8::from(value.is_some()));
        self.number(value.unwrap_or_default());
    }

    /// Bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as i64);
        self.0.extend_from_slice(bytes);
    }

    /// A text.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// A type.
    pub fn data_type(&mut self, data_type: &DataType) {
        let schema = Schema::new(vec![Field::new("", data_type.clone(), true)]);
        let encoded = IpcSchemaEncoder::new().schema_to_fb(&schema);
        self.bytes(encoded.finished_data());
    }

    /// A scalar function within this one.
    pub fn scalar(&mut self, function: &ScalarUDF) -> Result<()> {
        self.bytes(&encode_scalar(function)?);
        Ok(())
    }

    /// An aggregate within this one.
    pub fn aggregate(&mut self, function: &AggregateUDF) -> Result<()> {
        self.bytes(&encode_aggregate(function)?);
        Ok(())
    }

    /// What was written.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

/// Reads a state. Every call fails where the bytes end too early or say what cannot be.
#[derive(Debug)]
pub struct StateReader<'a>(&'a [u8]);

impl<'a> StateReader<'a> {
    /// Of these bytes.
    pub fn new(bytes: &'a [u8]) -> StateReader<'a> {
        StateReader(bytes)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        match self.0.split_at_checked(length) {
            Some((taken, rest)) => {
                self.0 = rest;
                Ok(taken)
            }
            None => exec_err!("the state of a function ends too early"),
        }
    }

    /// As [`StateWriter::byte`] wrote it.
    pub fn byte(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }

    /// A flag.
    pub fn flag(&mut self) -> Result<bool> {
        match self.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            other => exec_err!("{other} is no flag of a function's state"),
        }
    }

    /// The variant of an enum whose number was written.
    pub fn variant<T: Copy>(&mut self, variants: &[T]) -> Result<T> {
        let number = self.byte()?;
        match variants.get(usize::from(number)) {
            Some(variant) => Ok(*variant),
            None => exec_err!("{number} is no variant of a function's state"),
        }
    }

    /// As [`StateWriter::number`] wrote it.
    pub fn number(&mut self) -> Result<i64> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(i64::from_le_bytes(bytes))
    }

    /// As [`StateWriter::optional`] wrote it.
    pub fn optional(&mut self) -> Result<Option<i64>> {
        let is_there = self.flag()?;
        let number = self.number()?;
        Ok(is_there.then_some(number))
    }

    /// As [`StateWriter::bytes`] wrote them.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        match usize::try_from(self.number()?) {
            Ok(length) => self.take(length),
            Err(_) => exec_err!("a length in the state of a function is negative"),
        }
    }

    /// As [`StateWriter::text`] wrote it.
    pub fn text(&mut self) -> Result<&'a str> {
        match std::str::from_utf8(self.bytes()?) {
            Ok(text) => Ok(text),
            Err(_) => exec_err!("a text in the state of a function is no UTF-8"),
        }
    }

    /// As [`StateWriter::data_type`] wrote it.
    pub fn data_type(&mut self) -> Result<DataType> {
        let schema = match root_as_schema(self.bytes()?) {
            Ok(schema) => fb_to_schema(schema),
            Err(error) => return exec_err!("a type in the state of a function cannot be read: {error}"),
        };
        match schema.fields().first() {
            Some(field) => Ok(field.data_type().clone()),
            None => exec_err!("a type in the state of a function is missing"),
        }
    }

    /// As [`StateWriter::scalar`] wrote it.
    pub fn scalar(&mut self) -> Result<Arc<ScalarUDF>> {
        decode_scalar(self.bytes()?)
    }

    /// As [`StateWriter::aggregate`] wrote it.
    pub fn aggregate(&mut self) -> Result<Arc<AggregateUDF>> {
        decode_aggregate(self.bytes()?)
    }

    /// Nothing may be left.
    pub fn finish(self) -> Result<()> {
        if self.0.is_empty() {
            Ok(())
        } else {
            exec_err!("the state of a function has {} bytes too many", self.0.len())
        }
    }
}

/// The number of a variant, for [`StateReader::variant`] with the same list.
pub fn number_of<T: PartialEq>(variant: &T, variants: &[T]) -> u8 {
    variants.iter().position(|known| known == variant).map_or(u8::MAX, |at| at as u8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{Fields, TimeUnit};

    #[test]
    fn states_are_read_as_they_were_written() {
        let list = DataType::List(Arc::new(Field::new("item", DataType::Utf8View, true)));
        let types = [
            DataType::Decimal128(38, 10),
            DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            DataType::Struct(Fields::from(vec![Field::new("a", list, false)])),
        ];
        let mut state = StateWriter::default();
        state.byte(1);
        state.optional(Some(-7));
        state.optional(None);
        state.text("ä");
        types.iter().for_each(|data_type| state.data_type(data_type));
        let bytes = state.finish();
        let read = |bytes: &[u8]| -> Result<Vec<DataType>> {
            let mut state = StateReader::new(bytes);
            assert_eq!(
                (state.flag()?, state.optional()?, state.optional()?, state.text()?),
                (true, Some(-7), None, "ä")
            );
            let types = (0..3).map(|_| state.data_type()).collect::<Result<Vec<_>>>()?;
            state.finish()?;
            Ok(types)
        };
        assert_eq!(read(&bytes).unwrap(), types);
        for end in 50..bytes.len() {
            assert!(read(&bytes[..end]).is_err(), "{end}");
        }
        assert!(read(&[bytes, vec![0]].concat()).is_err());
    }
}
