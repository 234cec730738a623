//! UUIDs: their texts, and such as are drawn.
//!
//! Invariants:
//! - Read as PostgreSQL reads them: 32 hexadecimal digits of either case, a hyphen behind any group of four, braces around all; written in
//!   small letters with hyphens behind 8, 12, 16 and 20 digits.
//! - `gen_random_uuid()` is another one for each row, of version 4.

use super::kinds::UUID;
use crate::delegate::delegate_scalar;
use alluvia_types::{Error, ErrorKind};
use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryBuilder, StringViewArray, StringViewBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature};
use std::sync::Arc;

/// The bytes of a text that is one.
pub fn uuid_of(text: &str) -> Option<[u8; 16]> {
    let text = text.as_bytes();
    let digits = match text {
        [b'{', digits @ .., b'}'] => digits,
        [b'{', ..] => return None,
        digits => digits,
    };
    let mut bytes = [0; 16];
    let mut at = 0;
    for (place, byte) in bytes.iter_mut().enumerate() {
        let digit = |at: usize| char::from(*digits.get(at)?).to_digit(16);
        *byte = (digit(at)? << 4 | digit(at + 1)?) as u8;
        at += 2;
        if place % 2 == 1 && place < 15 && digits.get(at) == Some(&b'-') {
            at += 1;
        }
    }
    (at == digits.len()).then_some(bytes)
}

/// A UUID as it is written.
pub fn uuid_text(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// The texts of a column of them.
pub fn texts(uuids: &ArrayRef) -> Result<StringViewArray> {
    let Some(uuids) = uuids.as_fixed_size_binary_opt() else {
        return exec_err!("a value of type {} is no UUID", uuids.data_type());
    };
    let mut texts = StringViewBuilder::with_capacity(uuids.len());
    for uuid in uuids {
        texts.append_option(uuid.map(uuid_text));
    }
    Ok(texts.finish())
}

/// UUIDs of texts; one that is none is an error, or NULL if it is only tried.
pub fn read(texts: &ArrayRef, is_tried: bool) -> Result<ArrayRef> {
    let texts = cast(texts, &DataType::Utf8View)?;
    let mut uuids = FixedSizeBinaryBuilder::with_capacity(texts.len(), 16);
    for text in texts.as_string_view() {
        match text.map(|text| (uuid_of(text), text)) {
            Some((Some(bytes), _)) => uuids.append_value(bytes)?,
            Some((None, text)) if !is_tried => return Err(alluvia_values::errors::wrap(no_uuid(text))),
            _ => uuids.append_null(),
        }
    }
    Ok(Arc::new(uuids.finish()))
}

/// What is told of a text that is none.
pub fn no_uuid(text: &str) -> Error {
    Error::new(ErrorKind::InvalidText, format!("invalid input syntax for type uuid: \"{text}\""))
}

/// `gen_random_uuid()`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Drawn {
    /// DataFusion's, which gives texts.
    inner: Arc<ScalarUDF>,
}

impl Drawn {
    /// By DataFusion's function of texts.
    pub fn new() -> Drawn {
        Drawn { inner: datafusion_functions::string::uuid() }
    }
}

impl Default for Drawn {
    fn default() -> Drawn {
        Drawn::new()
    }
}

impl ScalarUDFImpl for Drawn {
    delegate_scalar!(signature);

    fn name(&self) -> &str {
        "gen_random_uuid"
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(UUID)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_tried = false;
        match self.inner.invoke_with_args(args)? {
            ColumnarValue::Array(texts) => Ok(ColumnarValue::Array(read(&texts, is_tried)?)),
            ColumnarValue::Scalar(text) => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&read(&text.to_array()?, is_tried)?, 0)?))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn forms_are_postgresqls() {
        let uuid = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for text in [
            uuid,
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
            "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
        ] {
            assert_eq!(uuid_of(text).map(|bytes| uuid_text(&bytes)).as_deref(), Some(uuid), "{text}");
        }
        for text in
            ["", "a", "{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a1g", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11 ", "a0e-ebc999c0b4ef8bb6d6bb9bd380a11", "ä"]
        {
            assert_eq!(uuid_of(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(bytes in any::<[u8; 16]>()) {
            prop_assert_eq!(uuid_of(&uuid_text(&bytes)), Some(bytes));
        }
    }
}
