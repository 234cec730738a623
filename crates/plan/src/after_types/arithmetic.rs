//! Puts checked operators of integers, floats and decimals in the place of DataFusion's ([`alluvia_functions::operators`]).
//!
//! Mends apache/datafusion#3520, #21318 (in 55.2).

use crate::expressions::changed;
use alluvia_functions::operators::integers::OfIntegers;
use alluvia_functions::operators::{decimal_quotients, floats, type_of};
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{ExprSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use datafusion::optimizer::analyzer::AnalyzerRule;

/// Puts checked operators where integers are added, subtracted, multiplied or negated, where floats are, or are divided, and where decimals
/// are divided. Types must have been coerced.
#[derive(Debug)]
pub struct CheckedArithmetic;

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
                (Some(of), Some(beside)) if op == Operator::Divide => decimal_quotients::quotient(&of, &beside),
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
