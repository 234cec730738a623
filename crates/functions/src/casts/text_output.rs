//! The function that writes values as text.
//!
//! Invariants:
//! - It writes PostgreSQL's form, which is what is put into a TEXT column, too, and which readers take back ([`alluvia_values::convert::texts_of`]).
//! - It is called what it stands for, a cast: a column keeps its name.

use crate::arrays::{is_list, texts_of_lists};
use crate::codec::{StateReader, StateWriter, Stateful};
use crate::columnar::by_arrays;
use crate::delegate::in_place_of_a_cast;
use alluvia_values::convert::texts_of;
use alluvia_values::errors::wrap;
use arrow::array::{Array, ArrayRef};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion_common::Result;
use datafusion_common::utils::take_function_args;
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// Whether DataFusion 55.2 casts values of this type to texts that PostgreSQL would not write: `2026-11-21T10:11:12`, `10:00:00.750`, `inf`,
/// `1.0`, `1 days 2 hours`, `[1, ]`. Of the time `24:00:00` it has no text.
pub fn is_written_otherwise(data_type: &DataType) -> bool {
    use DataType::{Duration, Float32, Float64, Interval, Time32, Time64, Timestamp};
    matches!(data_type, Timestamp(..) | Time32(_) | Time64(_) | Float32 | Float64 | Interval(_) | Duration(_))
        || is_list(data_type)
}

/// Texts of type `to` for values.
pub fn written(of: Expr, to: DataType) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(Written::new(to))), vec![of]))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Written {
    to: DataType,
    signature: Signature,
}

impl Stateful for Written {
    const CODE: &'static str = "text_of_value";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.data_type(&self.to)
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        Ok(Written::new(state.data_type()?))
    }
}

impl Written {
    fn new(to: DataType) -> Written {
        Written { to, signature: Signature::any(1, Volatility::Immutable) }
    }

    fn array(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let texts =
            if is_list(values.data_type()) { texts_of_lists(values)? } else { texts_of(values).map_err(wrap)? };
        Ok(cast(&texts, &self.to)?)
    }
}

impl ScalarUDFImpl for Written {
    fn name(&self) -> &str {
        // Another name with every other form: the predicate cache knows predicates by it, also after a restart.
        "text_as_postgresql"
    }

    in_place_of_a_cast!();

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_arrays(&args.args, |values| {
            let [values] = take_function_args(self.name(), values)?;
            self.array(&values)
        })
    }
}
