//! `array_to_string`: the elements of a list as PostgreSQL writes them, with a text between.
//!
//! Invariant: an element is the text that a cast to TEXT gives, also of lists in lists. What has no such text is DataFusion's to write.
//!
//! DataFusion 55.2 writes elements in Arrow's form: `2026-11-21T10:11:12`, `1.0`, `inf`.
//!
//! Mends DataFusion (in 55.2): no issue upstream known.
//! Held by `slt/arrays.slt` (`array_to_string(ARRAY[1.0::float8, 'Infinity'::float8], ',')`).

use crate::columnar::{as_columnar, is_constant};
use crate::delegate::delegate_scalar;
use alluvia_values::convert::texts_of;
use alluvia_values::errors::wrap;
use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::datatypes::{DataType, Field};
use datafusion_common::Result;
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use std::sync::Arc;

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Joined {
    inner: Arc<ScalarUDF>,
}

impl Joined {
    /// In the place of DataFusion's.
    pub(crate) fn new(inner: Arc<ScalarUDF>) -> Joined {
        Joined { inner }
    }
}

/// A list of texts; of whole numbers it is itself.
fn with_texts(values: &ArrayRef) -> Result<ArrayRef> {
    Ok(match values.data_type() {
        DataType::List(_) => {
            let lists = values.as_list::<i32>();
            let elements = with_texts(lists.values())?;
            let field = Arc::new(Field::new_list_field(elements.data_type().clone(), true));
            Arc::new(ListArray::try_new(field, lists.offsets().clone(), elements, lists.nulls().cloned())?)
        }
        of if of.is_nested() || of.is_string() || of.is_integer() || of.is_null() => Arc::clone(values),
        _ => texts_of(values).map_err(wrap)?,
    })
}

impl ScalarUDFImpl for Joined {
    delegate_scalar!(name, aliases, signature, return_type, documentation);

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let Some(list) = args.args.first_mut() {
            let texts = with_texts(&list.to_array(1)?)?;
            *list = as_columnar(texts, is_constant(std::slice::from_ref(list)))?;
        }
        self.inner.invoke_with_args(args)
    }
}
