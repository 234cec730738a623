//! Functions that stand where operators do.
//!
//! Invariants:
//! - Columns are called what they would be called by the operator itself.
//! - All operands have values, or there is NULL.
//! - What a chain of them is called is written once from left to right: `ScalarUDFImpl::schema_name` gives a text of its own, and DataFusion asks
//!   it at every level of a chain, so planning would take time by the cube of the chain's length, or worse. For the same reason
//!   [`type_of`] finds a chain's type without names, which `ExprSchemable::get_type` makes of every level of functions.

pub mod decimal_quotients;
pub mod durations;
pub mod floats;
pub mod integers;
pub mod interval_scaling;
pub mod numerics;

use crate::casts::kinds::{Kind, NUMERIC, field_of};
use crate::operators::decimal_quotients::Quotient;
use crate::operators::floats::FloatOperator as OfFloats;
use crate::operators::integers::OfIntegers;
use crate::operators::numerics::OfNumerics;
use crate::output_size::JOINED;
use arrow::array::{Array, ArrayRef, Datum};
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::error::ArrowError;
use datafusion_common::tree_node::TreeNode;
use datafusion_common::utils::take_function_args;
use datafusion_common::{Column, ExprSchema, Result, ScalarValue, TableReference};
use datafusion_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion_physical_expr_common::datum::apply;
use std::fmt::{self, Debug, Write};
use std::hash::Hash;
use std::sync::Arc;

/// What an operator makes of its operands.
pub trait Operator: Copy + Debug + Eq + Hash + Send + Sync + 'static {
    /// As EXPLAIN shows it.
    fn name(self) -> &'static str;

    /// How it is written between its operands; `None` of the sign before a single one.
    fn sign(self) -> Option<&'static str>;

    /// The type of what it makes.
    fn type_of(self, operands: &[DataType]) -> DataType {
        operands[0].clone()
    }

    /// The kind of what it makes.
    fn kind(self) -> Kind {
        Kind::Other
    }

    /// Of two operands.
    fn of_arrays(self, left: &dyn Datum, right: &dyn Datum) -> std::result::Result<ArrayRef, ArrowError>;

    /// Of a single one.
    fn of_array(self, _values: &dyn Array) -> std::result::Result<ArrayRef, ArrowError> {
        Err(ArrowError::NotYetImplemented(format!("{} of one operand", self.name())))
    }
}

/// The function of an operator.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Operation<O> {
    of: O,
    signature: Signature,
}

impl<O: Operator> Operation<O> {
    /// A function of two operands, or of one where the operator has no sign between operands.
    pub fn new(of: O) -> Operation<O> {
        let operands = if of.sign().is_some() { 2 } else { 1 };
        Operation { of, signature: Signature::any(operands, Volatility::Immutable) }
    }

    #[cfg(test)]
    pub(crate) fn of_arrays(&self, left: &dyn Datum, right: &dyn Datum) -> std::result::Result<ArrayRef, ArrowError> {
        self.of.of_arrays(left, right)
    }
}

impl<O: Operator> ScalarUDFImpl for Operation<O> {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        name_of(self.of.sign(), args)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(self.of.type_of(arg_types))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        if self.of.kind() != Kind::Other {
            return Ok(field_of(self.of.kind(), self.name()));
        }
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        Ok(Arc::new(Field::new(self.name(), self.return_type(&types)?, true)))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.of.sign().is_some() {
            let [left, right] = take_function_args(self.name(), args.args)?;
            return apply(&left, &right, |left, right| self.of.of_arrays(left, right));
        }
        let [value] = take_function_args(self.name(), args.args)?;
        Ok(match value {
            ColumnarValue::Array(values) => ColumnarValue::Array(self.of.of_array(values.as_ref())?),
            ColumnarValue::Scalar(value) => {
                let made = self.of.of_array(value.to_array()?.as_ref())?;
                ColumnarValue::Scalar(ScalarValue::try_from_array(&made, 0)?)
            }
        })
    }
}

/// What an operator with these operands is called; one without a sign between them is the sign before a single one.
pub fn name_of(sign: Option<&str>, operands: &[Expr]) -> Result<String> {
    let mut name = String::new();
    write_operation(&mut name, sign, operands)?;
    Ok(name)
}

fn write_operation(name: &mut String, sign: Option<&str>, operands: &[Expr]) -> fmt::Result {
    if let (Some(sign), [left, right]) = (sign, operands) {
        write_name(name, left)?;
        write!(name, " {sign} ")?;
        return write_name(name, right);
    }
    name.push_str("(- ");
    for operand in operands {
        write_name(name, operand)?;
    }
    name.push(')');
    Ok(())
}

/// Writes an expression's name behind what there is, as `Expr::schema_name` has it.
fn write_name(name: &mut String, expr: &Expr) -> fmt::Result {
    match expr {
        Expr::Column(Column { relation: None, name: column, .. }) => name.push_str(column),
        Expr::Column(Column { relation: Some(TableReference::Bare { table }), name: column, .. }) => {
            name.push_str(table);
            name.push('.');
            name.push_str(column);
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            write_name(name, left)?;
            write!(name, " {op} ")?;
            write_name(name, right)?;
        }
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => write_name(name, expr)?,
        Expr::ScalarFunction(ScalarFunction { func, args }) => match sign_of(func) {
            Some(sign) => write_operation(name, sign, args)?,
            None => write!(name, "{}", expr.schema_name())?,
        },
        other => write!(name, "{}", other.schema_name())?,
    }
    Ok(())
}

/// The sign of a function that stands where an operator does, which is `None` of the sign before a single operand; `None` of all others.
fn sign_of(function: &ScalarUDF) -> Option<Option<&'static str>> {
    fn of<O: Operator>(function: &ScalarUDF) -> Option<Option<&'static str>> {
        function.inner().downcast_ref::<Operation<O>>().map(|operation| operation.of.sign())
    }
    of::<OfIntegers>(function)
        .or_else(|| of::<OfFloats>(function))
        .or_else(|| of::<Quotient>(function))
        .or_else(|| of::<OfNumerics>(function))
        .or_else(|| (function.name() == JOINED).then_some(Some("||")))
}

/// Whether a rule has put operators of ours into an expression: its types are known, then.
pub fn has_operator(expr: &Expr) -> bool {
    let is_one = |expr: &Expr| matches!(expr, Expr::ScalarFunction(function) if sign_of(&function.func).is_some());
    expr.exists(|expr| Ok(is_one(expr))).unwrap_or(false)
}

/// The type of an expression, as `ExprSchemable::get_type` has it.
pub fn type_of(expr: &Expr, schema: &dyn ExprSchema) -> Result<DataType> {
    let mut expr = expr;
    while let Expr::ScalarFunction(ScalarFunction { func, args }) = expr {
        if let Some(quotient) = func.inner().downcast_ref::<Operation<Quotient>>() {
            return Ok(quotient.of.type_of(&[]));
        }
        if func.inner().downcast_ref::<Operation<OfNumerics>>().is_some() {
            return Ok(NUMERIC);
        }
        // All others make what their first operand is.
        match args.first().filter(|_| sign_of(func).is_some()) {
            Some(first) => expr = first,
            None => break,
        }
    }
    expr.get_type(schema)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::decimal_quotients::quotient;
    use datafusion_common::DFSchema;
    use datafusion_expr::{binary_expr, cast, col, lit};

    fn operation<O: Operator>(of: O, operands: Vec<Expr>) -> Expr {
        let function = Arc::new(ScalarUDF::from(Operation::new(of)));
        Expr::ScalarFunction(ScalarFunction::new_udf(function, operands))
    }

    #[test]
    fn names_and_types_are_those_of_the_operators_themselves() {
        use datafusion_expr::Operator::{Divide, Minus, Multiply, Plus};
        let of_operators = |left: Expr, right: Expr| {
            let sum = binary_expr(left, Plus, lit(1_i64));
            let negated = Expr::Negative(Box::new(binary_expr(cast(sum, DataType::Int64), Minus, right.clone())));
            binary_expr(right, Multiply, negated)
        };
        let of_functions = |left: Expr, right: Expr| {
            let sum = operation(OfIntegers::Add, vec![left, lit(1_i64)]);
            let less = operation(OfIntegers::Subtract, vec![cast(sum, DataType::Int64), right.clone()]);
            operation(OfIntegers::Multiply, vec![right, operation(OfIntegers::Negate, vec![less])])
        };
        let mut plain = col("t.a");
        let mut ours = plain.clone();
        for at in 0_i64..4 {
            let right = if at % 2 == 0 { lit(at) } else { col("\"B\"") };
            plain = of_operators(plain, right.clone());
            ours = of_functions(ours, right);
        }
        assert_eq!(ours.schema_name().to_string(), plain.schema_name().to_string());
        let divide = quotient(&DataType::Decimal128(10, 2), &DataType::Decimal128(10, 0)).unwrap();
        let divided = Expr::ScalarFunction(ScalarFunction::new_udf(divide, vec![col("s.t.a"), ours.clone()]));
        let plainly = binary_expr(col("s.t.a"), Divide, plain);
        assert_eq!(divided.schema_name().to_string(), plainly.schema_name().to_string());
        let schema = DFSchema::empty();
        assert_eq!(type_of(&divided, &schema).unwrap(), DataType::Decimal128(14, 6));
        let sum = operation(OfIntegers::Add, vec![operation(OfIntegers::Negate, vec![lit(1_i32)]), lit(2_i32)]);
        assert_eq!(type_of(&sum, &schema).unwrap(), sum.get_type(&schema).unwrap());
        assert!(type_of(&ours, &schema).is_err());
    }

    /// The chain is named and typed at each of its levels, which takes no time to speak of.
    #[test]
    fn long_chains_are_named_once_from_left_to_right() {
        let mut chain = lit(1_i64);
        for level in 0..400 {
            chain = operation(OfIntegers::Add, vec![chain, lit(1_i64)]);
            assert_eq!(chain.schema_name().to_string().len(), "Int64(1)".len() * (level + 2) + 3 * (level + 1));
            assert_eq!(type_of(&chain, &DFSchema::empty()).unwrap(), DataType::Int64);
        }
    }
}
