//! UUIDs of texts, and such as are drawn.
//!
//! Invariant: `gen_random_uuid()` is another one for each row, of version 4.

use super::kinds::UUID;
use super::typed::bad_value;
use crate::delegate::delegate_scalar;
use alluvia_values::uuid::parse_uuid;
use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryBuilder};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use std::sync::Arc;

/// UUIDs of texts; one that is none is an error, or NULL if it is only tried.
pub fn read(texts: &ArrayRef, is_tried: bool) -> Result<ArrayRef> {
    let texts = cast(texts, &DataType::Utf8View)?;
    let mut uuids = FixedSizeBinaryBuilder::with_capacity(texts.len(), 16);
    for text in texts.as_string_view() {
        match text.map(|text| parse_uuid(text.as_bytes()).map_err(|bad| bad_value(text, bad, "UUID"))) {
            Some(Ok(bytes)) => uuids.append_value(bytes)?,
            Some(Err(error)) if !is_tried => return Err(error),
            _ => uuids.append_null(),
        }
    }
    Ok(Arc::new(uuids.finish()))
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
