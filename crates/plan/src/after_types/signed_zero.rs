//! The two zeros of floats, which are one number.
//!
//! Invariants:
//! - Whatever is looked for among floats is found where it is zero and the list has a zero, whichever sign either has: a list with one of
//!   the zeros has both, and so has a CASE that compares one value with several. `NOT IN` is false where `IN` is true.
//! - `nullif(a, b)` of floats is NULL where `a = b` is true.
//! - Windows over floats have one partition for both, and rows with either are peers.
//! - What aggregates DISTINCT floats has one of both; not where they are in lists or structs.
//!
//! `=`, groups and joins of DataFusion 55.2 take the zeros for equal. Its lists that stay lists, its CASE of one
//! value, its `nullif`, its windows and its DISTINCT beside other aggregates look at bits. Since the simplifier makes lists of `x = 0 OR x = 1 OR ...`, and zeros of other
//! constants, lists are looked at when types are known, and again at the end.
//!
//! Mends apache/datafusion#25186 (in 55.2).

use crate::expressions::{changed, each_named};
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, Cast, InList, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Case, Expr, ExprSchemable, LogicalPlan, lit};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::scalar::ScalarValue;

/// Puts both zeros where one is written, and takes the sign off zeros where others are compared. Types must have been coerced.
#[derive(Debug)]
pub struct EqualZeros;

impl AnalyzerRule for EqualZeros {
    fn name(&self) -> &str {
        "equal_zeros"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        changed(plan, tells_zeros, |expr, schema| {
            let expr = compared(expr, schema)?;
            if expr.transformed { Ok(expr) } else { Ok(with_both(expr.data)) }
        })
    }
}

impl OptimizerRule for EqualZeros {
    fn name(&self) -> &str {
        "equal_zeros"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let names = NamePreserver::new(&plan);
        let change = |expr: Expr| expr.transform_up(|expr| Ok(with_both(expr)));
        plan.map_expressions(|expr| {
            if expr.exists(|expr| Ok(lacks_zero(expr)))? {
                each_named(&names, expr, &change)
            } else {
                Ok(Transformed::no(expr))
            }
        })
    }
}

fn tells_zeros(expr: &Expr) -> bool {
    let compares = match expr {
        Expr::ScalarFunction(function) => function.name() == "nullif",
        Expr::InList(InList { list, .. }) => list.iter().any(reads_a_column),
        Expr::Case(Case { expr: Some(_), when_then_expr, .. }) => {
            when_then_expr.iter().any(|(when, _)| reads_a_column(when))
        }
        Expr::WindowFunction(window) => {
            let keys = window.params.partition_by.iter();
            let is_told = keys.chain(window.params.order_by.iter().map(|key| &key.expr)).any(reads_a_column);
            is_told || window.params.distinct && window.params.args.iter().any(reads_a_column)
        }
        Expr::AggregateFunction(AggregateFunction { params, .. }) => {
            params.distinct && params.args.iter().any(reads_a_column)
        }
        _ => false,
    };
    compares || lacks_zero(expr)
}

/// `nullif(a, b)` of floats, lists and CASE whose floats are of columns, keys of windows, and what is aggregated DISTINCT: zero is added to all that is compared, which is nothing but the
/// one zero for both. What is compared stays in its one place, so that nesting does not multiply it.
fn compared(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let float_of = |of: &Expr| match of.get_type(schema) {
        Ok(float @ (DataType::Float32 | DataType::Float64)) => Some(float),
        _ => None,
    };
    let each_unsigned = |exprs: &mut dyn Iterator<Item = &mut Expr>| -> Result<bool> {
        let mut is_changed = false;
        for expr in exprs {
            if let Some(float) = float_of(expr).filter(|_| reads_a_column(expr)) {
                *expr = unsigned(std::mem::take(expr), &float)?;
                is_changed = true;
            }
        }
        Ok(is_changed)
    };
    Ok(match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() == "nullif" => {
            let floats: Option<Vec<DataType>> = args.iter().map(float_of).collect();
            match floats {
                Some(floats) => {
                    let args = args.into_iter().zip(&floats).map(|(arg, float)| unsigned(arg, float));
                    let args = args.collect::<Result<_>>()?;
                    Transformed::yes(Expr::ScalarFunction(ScalarFunction { func, args }))
                }
                None => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
            }
        }
        Expr::InList(InList { expr: of, list, negated }) if list.iter().any(reads_a_column) => match float_of(&of) {
            Some(float) => {
                let list = list.into_iter().map(|item| unsigned(item, &float)).collect::<Result<_>>()?;
                Transformed::yes(Expr::InList(InList { expr: Box::new(unsigned(*of, &float)?), list, negated }))
            }
            None => Transformed::no(Expr::InList(InList { expr: of, list, negated })),
        },
        Expr::Case(Case { expr: Some(of), when_then_expr, else_expr })
            if when_then_expr.iter().any(|(when, _)| reads_a_column(when)) =>
        {
            match float_of(&of) {
                Some(float) => {
                    let when = |(when, then): (Box<Expr>, Box<Expr>)| Ok((Box::new(unsigned(*when, &float)?), then));
                    let whens = when_then_expr.into_iter().map(when).collect::<Result<_>>()?;
                    Transformed::yes(Expr::Case(Case::new(Some(Box::new(unsigned(*of, &float)?)), whens, else_expr)))
                }
                None => Transformed::no(Expr::Case(Case { expr: Some(of), when_then_expr, else_expr })),
            }
        }
        Expr::WindowFunction(mut window) => {
            let params = &mut window.params;
            let keys = params.partition_by.iter_mut().chain(params.order_by.iter_mut().map(|key| &mut key.expr));
            let is_changed = each_unsigned(&mut keys.chain(params.args.iter_mut().filter(|_| params.distinct)))?;
            Transformed::new_transformed(Expr::WindowFunction(window), is_changed)
        }
        Expr::AggregateFunction(mut aggregate) if aggregate.params.distinct => {
            let AggregateFunctionParams { args, order_by, .. } = &mut aggregate.params;
            // What array_agg(DISTINCT x ORDER BY x) is ordered by must be what it has.
            let is_changed = each_unsigned(&mut args.iter_mut().chain(order_by.iter_mut().map(|key| &mut key.expr)))?;
            Transformed::new_transformed(Expr::AggregateFunction(aggregate), is_changed)
        }
        other => Transformed::no(other),
    })
}

/// A float without the sign of its zero.
fn unsigned(expr: Expr, float: &DataType) -> Result<Expr> {
    Ok(expr + lit(ScalarValue::new_zero(float)?))
}

fn reads_a_column(expr: &Expr) -> bool {
    !expr.column_refs().is_empty()
}

/// A list or a CASE with the zeros that it lacks.
pub fn with_both(mut expr: Expr) -> Transformed<Expr> {
    let is_changed = match &mut expr {
        Expr::InList(InList { list, .. }) => {
            let lacking = lacking(list.iter());
            let is_lacking = !lacking.is_empty();
            list.extend(lacking.into_iter().map(lit));
            is_lacking
        }
        Expr::Case(Case { expr: Some(_), when_then_expr, .. }) => {
            let lacking = lacking(when_then_expr.iter().map(|(when, _)| &**when));
            let first = when_then_expr.iter().position(|(when, _)| zero_of(when).is_some());
            match first {
                Some(first) if !lacking.is_empty() => {
                    // Before what comes behind the first zero, since the first that matches counts.
                    let then = when_then_expr[first].1.clone();
                    let whens = lacking.into_iter().map(|zero| (Box::new(lit(zero)), then.clone()));
                    when_then_expr.splice(first + 1..first + 1, whens);
                    true
                }
                _ => false,
            }
        }
        _ => false,
    };
    if is_changed { Transformed::yes(expr) } else { Transformed::no(expr) }
}

fn lacks_zero(expr: &Expr) -> bool {
    match expr {
        Expr::InList(InList { list, .. }) => !lacking(list.iter()).is_empty(),
        Expr::Case(Case { expr: Some(_), when_then_expr, .. }) => {
            !lacking(when_then_expr.iter().map(|(when, _)| &**when)).is_empty()
        }
        _ => false,
    }
}

/// The zeros that are not written among values of which one is a zero.
fn lacking<'a>(values: impl Iterator<Item = &'a Expr> + Clone) -> Vec<ScalarValue> {
    let Some(float) = values.clone().find_map(zero_of) else { return Vec::new() };
    let zeros = match float {
        DataType::Float32 => [0.0, -0.0].map(|zero| ScalarValue::Float32(Some(zero))),
        _ => [0.0, -0.0].map(|zero| ScalarValue::Float64(Some(zero))),
    };
    // Scalars of floats are equal where their bits are.
    let is_written = |zero: &ScalarValue| values.clone().any(|of| matches!(of, Expr::Literal(of, _) if of == zero));
    zeros.into_iter().filter(|zero| !is_written(zero)).collect()
}

/// The type of a float that is zero, written or cast from what is.
fn zero_of(expr: &Expr) -> Option<DataType> {
    let float = match expr {
        Expr::Literal(value @ (ScalarValue::Float32(_) | ScalarValue::Float64(_)), _) => value.data_type(),
        Expr::Cast(Cast { field, .. }) if matches!(field.data_type(), DataType::Float32 | DataType::Float64) => {
            field.data_type().clone()
        }
        Expr::Negative(inner) => return zero_of(inner),
        _ => return None,
    };
    is_zero(expr).then_some(float)
}

fn is_zero(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => match value.cast_to(&DataType::Float64) {
            Ok(ScalarValue::Float64(Some(value))) => value == 0.0,
            _ => false,
        },
        Expr::Cast(cast) => is_zero(&cast.expr),
        Expr::Negative(inner) => is_zero(inner),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::{Field, Schema};
    use datafusion::common::ToDFSchema;
    use datafusion::functions::core::expr_fn::nullif;
    use datafusion::logical_expr::{cast, col};

    #[test]
    fn nesting_does_not_multiply_what_is_compared() {
        let schema = Schema::new(vec![Field::new("x", DataType::Float64, true)]).to_dfschema().expect("a schema");
        let nested = (0..200).fold(col("x"), |expr, n| nullif(expr, lit(f64::from(n))));
        let changed = nested.transform_up(|expr| compared(expr, &schema)).expect("floats");
        let mut nodes = 0;
        changed
            .data
            .apply(|_| {
                nodes += 1;
                Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
            })
            .expect("counts");
        assert!(changed.transformed && nodes < 2_000, "{nodes}");
    }

    #[test]
    fn lists_with_a_zero_have_both() {
        let double = |value: f64| lit(value);
        let listed = |list: Vec<Expr>| match with_both(col("x").in_list(list, false)).data {
            Expr::InList(InList { list, .. }) => list,
            other => panic!("{other} is no list"),
        };
        assert_eq!(listed(vec![double(1.0), double(0.0)]), [double(1.0), double(0.0), double(-0.0)]);
        assert_eq!(listed(vec![double(-0.0)]), [double(-0.0), double(0.0)]);
        assert_eq!(listed(vec![double(1.0)]), [double(1.0)]);
        assert_eq!(listed(vec![lit(0_i64)]), [lit(0_i64)]);
        let written = cast(lit(0_i64), DataType::Float32);
        assert_eq!(listed(vec![written.clone()]), [written, lit(0.0_f32), lit(-0.0_f32)]);
        let both = col("x").in_list(vec![double(0.0), double(-0.0)], true);
        assert!(!with_both(both).transformed);
    }

    #[test]
    fn the_other_zero_comes_right_behind_the_first() {
        let when = |when: f64, then: i64| (Box::new(lit(when)), Box::new(lit(then)));
        let case = |whens| Expr::Case(Case::new(Some(Box::new(col("x"))), whens, None));
        let given = case(vec![when(1.0, 1), when(-0.0, 2), when(2.0, 3)]);
        let expected = case(vec![when(1.0, 1), when(-0.0, 2), when(0.0, 2), when(2.0, 3)]);
        let changed = with_both(given);
        assert_eq!(changed.data, expected);
        assert!(!with_both(changed.data).transformed);
    }
}
