//! Functions that give what they are given, and let nobody look through them.
//!
//! Invariants:
//! - Their values are their argument's, untouched and not copied.
//! - No bound, order or key of the argument is known of them: DataFusion carries these through columns, aliases and casts, and through no
//!   function.
//! - They are called what their argument is called.

use crate::codec::{StateReader, StateWriter, Stateful, number_of};
use crate::delegate::name_of_arguments;
use arrow::datatypes::{DataType, FieldRef};
use datafusion_common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion_common::utils::take_function_args;
use datafusion_common::{Result, internal_err};
use datafusion_expr::expr::ScalarFunction;
use datafusion_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::{Arc, LazyLock};

/// What is cast out of order: of the values nothing is known but their type and whether there are NULLs.
pub fn opaque(of: Expr) -> Expr {
    static CAST: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| of_name(CAST_OUT_OF_ORDER));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&CAST), vec![of]))
}

/// What was a key, of which nobody is to know that it was.
pub fn no_key(of: Expr) -> Expr {
    static KEY: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| of_name(NO_KEY));
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&KEY), vec![of]))
}

/// Whether it is of [`opaque`].
pub fn is_opaque(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(function) if function.name() == CAST_OUT_OF_ORDER)
}

/// Takes the function off what is not cast any more: a comparison of the cast may have become one of what was cast.
pub fn seen(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_down(|expr| {
        let is_cast = match &expr {
            Expr::Cast(cast) => is_opaque(&cast.expr),
            Expr::TryCast(cast) => is_opaque(&cast.expr),
            _ => false,
        };
        Ok(match expr {
            expr if is_cast => Transformed::new(expr, false, TreeNodeRecursion::Jump),
            Expr::ScalarFunction(mut function) if function.name() == CAST_OUT_OF_ORDER && function.args.len() == 1 => {
                Transformed::yes(function.args.remove(0))
            }
            expr => Transformed::no(expr),
        })
    })
}

const CAST_OUT_OF_ORDER: &str = "as_it_comes";
const NO_KEY: &str = "as_no_key";
const NAMES: [&str; 2] = [CAST_OUT_OF_ORDER, NO_KEY];

fn of_name(name: &'static str) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(Opaque::new(name)))
}

#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Opaque {
    name: &'static str,
    signature: Signature,
}

impl Opaque {
    fn new(name: &'static str) -> Opaque {
        Opaque { name, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl Stateful for Opaque {
    const CODE: &'static str = "opaque";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.byte(number_of(&self.name, &NAMES));
        Ok(())
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        Ok(Opaque::new(state.variant(&NAMES)?))
    }
}

impl ScalarUDFImpl for Opaque {
    fn name(&self) -> &str {
        self.name
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(name_of_arguments(args))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        internal_err!("{} returns its argument's field", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let [of] = take_function_args(self.name(), args.arg_fields)?;
        Ok(Arc::clone(of))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = take_function_args(self.name(), args.args)?;
        Ok(value)
    }
}
