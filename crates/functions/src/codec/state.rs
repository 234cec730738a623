//! A function's state as bytes: numbers in little-endian order, texts and functions with their length before them.

use super::types::{read_type, write_type};
use super::{decode_aggregate_within, decode_scalar_within, encode_aggregate, encode_scalar};
use arrow::datatypes::DataType;
use datafusion_common::{Result, exec_err};
use datafusion_expr::{AggregateUDF, ScalarUDF};
use std::sync::Arc;

/// The most functions that one lies within. Rules put two or three around one another.
const DEPTH_MAX: usize = 16;

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
    pub fn data_type(&mut self, data_type: &DataType) -> Result<()> {
        write_type(data_type, self)
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
pub struct StateReader<'a> {
    bytes: &'a [u8],
    /// How many functions the bytes lie within.
    depth: usize,
}

impl<'a> StateReader<'a> {
    /// Of these bytes.
    pub fn new(bytes: &'a [u8]) -> StateReader<'a> {
        StateReader { bytes, depth: 0 }
    }

    /// Of bytes that lie within so many functions.
    pub(super) fn within(bytes: &'a [u8], depth: usize) -> Result<StateReader<'a>> {
        if depth > DEPTH_MAX {
            return exec_err!("functions lie within more than {DEPTH_MAX} others");
        }
        Ok(StateReader { bytes, depth })
    }

    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        match self.bytes.split_at_checked(length) {
            Some((taken, rest)) => {
                self.bytes = rest;
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
        read_type(self, 0)
    }

    /// As [`StateWriter::scalar`] wrote it.
    pub fn scalar(&mut self) -> Result<Arc<ScalarUDF>> {
        decode_scalar_within(self.bytes()?, self.depth + 1)
    }

    /// As [`StateWriter::aggregate`] wrote it.
    pub fn aggregate(&mut self) -> Result<Arc<AggregateUDF>> {
        decode_aggregate_within(self.bytes()?, self.depth + 1)
    }

    /// Nothing may be left.
    pub fn finish(self) -> Result<()> {
        match self.bytes.len() {
            0 => Ok(()),
            left => exec_err!("the state of a function has {left} bytes too many"),
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
    use arrow::datatypes::{Field, Fields, TimeUnit};

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
        types.iter().try_for_each(|data_type| state.data_type(data_type)).unwrap();
        let bytes = state.finish();
        let mut first = StateReader::new(&bytes);
        assert_eq!((first.flag().unwrap(), first.optional().unwrap()), (true, Some(-7)));
        assert_eq!((first.optional().unwrap(), first.text().unwrap()), (None, "ä"));
        let read = |bytes: &[u8]| -> Result<Vec<DataType>> {
            let mut state = StateReader::new(bytes);
            let _ = (state.flag()?, state.optional()?, state.optional()?, state.text()?);
            let types = (0..3).map(|_| state.data_type()).collect::<Result<Vec<_>>>()?;
            state.finish()?;
            Ok(types)
        };
        assert_eq!(read(&bytes).unwrap(), types);
        for end in 0..bytes.len() {
            assert!(read(&bytes[..end]).is_err(), "{end}");
        }
        // Damaged bytes are an error, or another state; they panic nobody.
        for at in 0..bytes.len() {
            for value in 0..=u8::MAX {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                let _ = read(&damaged);
            }
        }
        assert!(read(&[bytes, vec![0]].concat()).is_err());
    }
}
