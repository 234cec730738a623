//! `a || b` of texts and of bytes, which is counted before it is made as functions are: of 20 levels of `s || s` a million times the text
//! comes.
//!
//! Mends apache/datafusion#5415 (in 55.2).
//! Held by `slt/errors.slt` (`length(s || s)`).

use super::within_limit;
use crate::codec::{StateReader, StateWriter, Stateful};
use crate::operators::name_of;
use crate::output_size::estimate::constant_bytes;
use alluvia_values::widths::Widths;
use arrow::compute::kernels::concat_elements::concat_elements_dyn;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, ScalarValue, exec_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// What the function is called. No other is: it is none that a statement could name.
pub(crate) const JOINED: &str = "joined";

/// The operator on two values of this type.
pub fn joined(left: Expr, right: Expr, shares: usize) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(Joined::new(shares))), vec![left, right]))
}

/// Whether the operator's values have this type.
pub fn is_joined(of: &DataType) -> bool {
    use DataType::{Binary, BinaryView, LargeBinary, LargeUtf8, Utf8, Utf8View};
    matches!(of, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

/// `||`, by the kernel of DataFusion's operator.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Joined {
    shares: usize,
    signature: Signature,
}

impl Joined {
    fn new(shares: usize) -> Joined {
        Joined { shares, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl Stateful for Joined {
    const CODE: &'static str = "joined";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.number(self.shares as i64);
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        match usize::try_from(state.number()?) {
            Ok(shares) => Ok(Joined::new(shares)),
            Err(_) => exec_err!("a number of shares is negative"),
        }
    }
}

impl ScalarUDFImpl for Joined {
    fn name(&self) -> &str {
        JOINED
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        // As the operator's own.
        name_of(Some("||"), args)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
        Ok(Arc::new(Field::new(self.name(), args.arg_fields[0].data_type().clone(), is_nullable)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let bytes = |arg: &ColumnarValue| match arg {
            ColumnarValue::Array(array) => u128::from(Widths::of(array.as_ref()).sum()),
            ColumnarValue::Scalar(scalar) => u128::from(constant_bytes(scalar)) * rows as u128,
        };
        within_limit("||", args.args.iter().map(bytes).sum(), self.shares, &args.config_options)?;
        let [left, right] = take_function_args(self.name(), args.args)?;
        let joined = concat_elements_dyn(left.into_array(rows)?.as_ref(), right.into_array(rows)?.as_ref())?;
        if is_constant {
            ScalarValue::try_from_array(&joined, 0).map(ColumnarValue::Scalar)
        } else {
            Ok(ColumnarValue::Array(joined))
        }
    }
}
