//! The operators of integers, and the rule that puts them and those of floats and decimals in place.

use super::expressions::changed;
use super::operators::{self, Operation, type_of};
use super::{floats, quotients};
use arrow::array::{Array, ArrayRef, Datum};
use arrow::compute::kernels::numeric::{add, mul, neg, sub};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{ExprSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, ScalarUDF};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::sync::{Arc, LazyLock};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum OfIntegers {
    Add,
    Subtract,
    Multiply,
    Negate,
}

impl OfIntegers {
    fn of(operator: Operator) -> Option<OfIntegers> {
        match operator {
            Operator::Plus => Some(OfIntegers::Add),
            Operator::Minus => Some(OfIntegers::Subtract),
            Operator::Multiply => Some(OfIntegers::Multiply),
            _ => None,
        }
    }

    fn function(self) -> Arc<ScalarUDF> {
        static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 4]> = LazyLock::new(|| {
            use OfIntegers::{Add, Multiply, Negate, Subtract};
            [Add, Subtract, Multiply, Negate].map(|of| Arc::new(ScalarUDF::from(Operation::new(of))))
        });
        Arc::clone(&FUNCTIONS[self as usize])
    }
}

impl operators::Operator for OfIntegers {
    fn name(self) -> &'static str {
        match self {
            OfIntegers::Add => "int_add",
            OfIntegers::Subtract => "int_subtract",
            OfIntegers::Multiply => "int_multiply",
            OfIntegers::Negate => "int_negate",
        }
    }

    fn sign(self) -> Option<&'static str> {
        match self {
            OfIntegers::Add => Some("+"),
            OfIntegers::Subtract => Some("-"),
            OfIntegers::Multiply => Some("*"),
            OfIntegers::Negate => None,
        }
    }

    fn of_arrays(self, left: &dyn Datum, right: &dyn Datum) -> std::result::Result<ArrayRef, ArrowError> {
        match self {
            OfIntegers::Add => add(left, right),
            OfIntegers::Subtract => sub(left, right),
            _ => mul(left, right),
        }
    }

    fn of_array(self, values: &dyn Array) -> std::result::Result<ArrayRef, ArrowError> {
        neg(values)
    }
}

/// Puts checked operators where integers are added, subtracted, multiplied or negated, where floats are, or are divided, and where decimals
/// are divided. Types must have been coerced.
#[derive(Debug)]
pub(crate) struct CheckedArithmetic;

impl AnalyzerRule for CheckedArithmetic {
    fn name(&self) -> &str {
        "checked_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        changed(plan, is_arithmetic, |expr, schema| Ok(checked_expr(expr, schema)))
    }
}

fn is_arithmetic(expr: &Expr) -> bool {
    match expr {
        Expr::Negative(_) => true,
        Expr::BinaryExpr(binary) => floats::operation(binary.op).is_some(),
        _ => false,
    }
}

fn checked_expr(expr: Expr, schema: &dyn ExprSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let of = type_of(&left, schema).ok();
            let function = match (of, type_of(&right, schema).ok()) {
                (Some(of), Some(beside)) if of == beside && of.is_integer() => {
                    OfIntegers::of(op).map(OfIntegers::function)
                }
                (Some(of), Some(beside)) if of == beside && is_float(&of) => floats::operation(op),
                (Some(of), Some(beside)) if op == Operator::Divide => quotients::quotient(&of, &beside),
                _ => None,
            };
            match function {
                Some(function) => {
                    Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![*left, *right])))
                }
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        Expr::Negative(inner) => match type_of(&inner, schema) {
            Ok(of) if of.is_signed_integer() => {
                let function = ScalarFunction::new_udf(OfIntegers::Negate.function(), vec![*inner]);
                Transformed::yes(Expr::ScalarFunction(function))
            }
            Ok(of) if is_float(&of) => Transformed::yes(floats::negated(*inner)),
            _ => Transformed::no(Expr::Negative(inner)),
        },
        other => Transformed::no(other),
    }
}

fn is_float(of: &DataType) -> bool {
    matches!(of, DataType::Float32 | DataType::Float64)
}
