//! The moment at which a statement began.
//!
//! Invariant: the moment is the one that the statement's planning was told (`query::Engine::statement_state`, by the
//! store's clock). Moments have microseconds, as in PostgreSQL and as they are stored. DataFusion 55.2's `now()` has
//! nanoseconds, which texts made of it show (`now()::text`), and which no column holds.

use alluvia_space::DataType as Stored;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion_common::{Result, ScalarValue, internal_err};
use datafusion_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion_expr::{ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// `now()` and `current_timestamp`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Now {
    signature: Signature,
    aliases: Vec<String>,
}

impl Default for Now {
    fn default() -> Now {
        Now { signature: Signature::nullary(Volatility::Stable), aliases: vec!["current_timestamp".to_owned()] }
    }
}

impl ScalarUDFImpl for Now {
    fn name(&self) -> &str {
        "now"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(Stored::TimestampTz.to_arrow())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), Stored::TimestampTz.to_arrow(), false)))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("now() is a constant of its statement")
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let Some(began) = info.query_execution_start_time() else { return Ok(ExprSimplifyResult::Original(args)) };
        let zone = match Stored::TimestampTz.to_arrow() {
            DataType::Timestamp(_, zone) => zone,
            _ => None,
        };
        let moment = ScalarValue::TimestampMicrosecond(Some(began.timestamp_micros()), zone);
        Ok(ExprSimplifyResult::Simplified(Expr::Literal(moment, None)))
    }
}
