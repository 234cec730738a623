//! `concat` and `concat_ws`, in which booleans are `t` and `f`, as in PostgreSQL. (A cast of a boolean to TEXT, and `||`, write `true`.)
//!
//! Invariant: they have DataFusion's types, and do with everything else what DataFusion's do.

use crate::delegate::delegate_scalar;
use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::DataType;
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use std::sync::Arc;

/// DataFusion's function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ShortTruths {
    inner: Arc<ScalarUDF>,
}

impl ShortTruths {
    /// Around DataFusion's `concat` or `concat_ws`.
    pub fn new(inner: Arc<ScalarUDF>) -> ShortTruths {
        ShortTruths { inner }
    }
}

/// A boolean as it is written among others.
pub fn short(truth: bool) -> &'static str {
    if truth { "t" } else { "f" }
}

/// Types with those of texts for booleans.
fn as_texts(types: &[DataType]) -> Vec<DataType> {
    types.iter().map(|of| if *of == DataType::Boolean { DataType::Utf8 } else { of.clone() }).collect()
}

/// A boolean as a text of this type; all else as it is.
fn text(arg: ColumnarValue, of: &DataType) -> Result<ColumnarValue> {
    let texts = match &arg {
        ColumnarValue::Scalar(ScalarValue::Boolean(truth)) => {
            ColumnarValue::Scalar(ScalarValue::Utf8(truth.map(|truth| short(truth).to_owned())))
        }
        ColumnarValue::Array(truths) if *truths.data_type() == DataType::Boolean => {
            let texts: StringArray = truths.as_boolean().iter().map(|truth| truth.map(short)).collect();
            ColumnarValue::Array(Arc::new(texts) as ArrayRef)
        }
        _ => return Ok(arg),
    };
    texts.cast_to(of, None)
}

impl ScalarUDFImpl for ShortTruths {
    delegate_scalar!(name, aliases, signature, documentation);

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let coerced = self.inner.coerce_types(&as_texts(types))?;
        let kept = |(of, text): (&DataType, DataType)| if *of == DataType::Boolean { of.clone() } else { text };
        Ok(types.iter().zip(coerced).map(kept).collect())
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        if !arg_types.contains(&DataType::Boolean) {
            return self.inner.return_type(arg_types);
        }
        self.inner.return_type(&self.inner.coerce_types(&as_texts(arg_types))?)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        if !types.contains(&DataType::Boolean) {
            return self.inner.inner().invoke_with_args(args);
        }
        let coerced = self.inner.coerce_types(&as_texts(&types))?;
        let texts = args.args.into_iter().zip(&coerced).map(|(arg, of)| text(arg, of));
        let texts = texts.collect::<Result<Vec<ColumnarValue>>>()?;
        self.inner.inner().invoke_with_args(ScalarFunctionArgs { args: texts, ..args })
    }
}
