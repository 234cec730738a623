//! Aggregate functions in two steps: below a join and above it.
//!
//! Invariant: the upper step over the lower ones of any parts gives what the function gives of the whole, floats up to the order of
//! their additions. Functions for which that is not so are refused.
//!
//! A BIGINT is summed as a decimal below and above, and narrowed once at the end: rows that the join drops, and sums of parts that cancel
//! each other, may have sums that no BIGINT holds where the whole has one.

use super::super::aggregate::plain_function;
use super::super::source::without_alias;
use super::is_plain;
use crate::answer::Aggregate as Function;
use alluvia_functions::aggregates::sum::{WIDE, narrowed_sum};
use arrow::datatypes::DataType as ArrowType;
use datafusion::common::Column;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, AggregateUDF, Expr, ExprSchemable, cast, lit, when};
use std::sync::Arc;

/// An aggregate's functions in two steps.
pub(super) struct Split {
    /// What is asked below, over the aggregate's input.
    pub(super) partials: Vec<Expr>,
    /// One for each of the aggregate's functions.
    functions: Vec<Whole>,
}

/// How a function comes from partial ones, which are named by their places.
enum Whole {
    Count(usize),
    /// By the statement's own `sum`, which fails where its result does not fit.
    Sum(usize, Arc<AggregateUDF>),
    /// Of BIGINT, by the same.
    WideSum(usize, Arc<AggregateUDF>),
    Extreme(usize, AggregateFunction),
    /// Of a sum of floats and a count.
    Mean(usize, usize),
}

impl Split {
    /// `None` if a function has no two steps.
    pub(super) fn of(aggregate: &Aggregate) -> Option<Split> {
        let mut split = Split { partials: Vec::new(), functions: Vec::new() };
        for expr in &aggregate.aggr_expr {
            let expr = without_alias(expr);
            let (call, function) = plain_function(expr)?;
            let [argument] = call.params.args.as_slice() else { return None };
            if !is_plain(argument) {
                return None;
            }
            let whole = match function {
                Function::Count => Whole::Count(split.partial(expr.clone())),
                Function::Sum if is_bigint(argument, aggregate) => {
                    let wide = call.func.call(vec![cast(argument.clone(), WIDE)]);
                    Whole::WideSum(split.partial(wide), Arc::clone(&call.func))
                }
                // A partial sum of so many digits may have too many where the whole has not.
                Function::Sum if is_long_decimal(argument, aggregate) => return None,
                Function::Sum => Whole::Sum(split.partial(expr.clone()), Arc::clone(&call.func)),
                Function::Min | Function::Max => Whole::Extreme(split.partial(expr.clone()), call.clone()),
                Function::Avg => {
                    let widened = match argument.get_type(aggregate.input.schema()).ok()? {
                        ArrowType::Float64 => argument.clone(),
                        // What `alluvia_plan::after_types::exact_aggregates` left as it is.
                        ArrowType::Int64 => cast(argument.clone(), ArrowType::Float64),
                        _ => return None,
                    };
                    let sum = split.partial(sum_udaf().call(vec![widened]));
                    // A value that is widened is NULL where the value is.
                    let counted = if let Expr::Cast(cast) = argument { cast.expr.as_ref() } else { argument };
                    Whole::Mean(sum, split.partial(count_udaf().call(vec![counted.clone()])))
                }
                _ => return None,
            };
            split.functions.push(whole);
        }
        Some(split)
    }

    fn partial(&mut self, expr: Expr) -> usize {
        self.partials.iter().position(|known| *known == expr).unwrap_or_else(|| {
            self.partials.push(expr);
            self.partials.len() - 1
        })
    }

    /// What is asked above, given what the partial functions are called there: one for each function, two for a mean.
    pub(super) fn totals(&self, partials: &[Column]) -> Option<Vec<Expr>> {
        let column = |place: usize| partials.get(place).cloned().map(Expr::Column);
        let mut totals = Vec::new();
        for function in &self.functions {
            match function {
                Whole::Count(partial) => totals.push(sum_udaf().call(vec![column(*partial)?])),
                Whole::Sum(partial, sum) | Whole::WideSum(partial, sum) => {
                    totals.push(sum.call(vec![column(*partial)?]))
                }
                Whole::Extreme(partial, call) => {
                    let mut call = call.clone();
                    call.params.args = vec![column(*partial)?];
                    totals.push(Expr::AggregateFunction(call));
                }
                Whole::Mean(sum, count) => {
                    totals.push(sum_udaf().call(vec![column(*sum)?]));
                    totals.push(sum_udaf().call(vec![column(*count)?]));
                }
            }
        }
        Some(totals.into_iter().enumerate().map(|(place, total)| total.alias(format!("__total_{place}"))).collect())
    }

    /// The functions' values, given what the totals are called.
    pub(super) fn finished(&self, totals: &[Column]) -> Option<Vec<Expr>> {
        let mut totals = totals.iter().cloned().map(Expr::Column);
        let mut finished = Vec::with_capacity(self.functions.len());
        for function in &self.functions {
            let total = totals.next()?;
            finished.push(match function {
                // No rows are none, where a sum of nothing is NULL.
                Whole::Count(_) => when(total.clone().is_not_null(), total).otherwise(lit(0_i64)).ok()?,
                Whole::WideSum(..) => narrowed_sum(total),
                Whole::Sum(..) | Whole::Extreme(..) => total,
                Whole::Mean(..) => total / cast(totals.next()?, ArrowType::Float64),
            });
        }
        Some(finished)
    }
}

/// Whether an argument is a decimal whose sums get no ten digits more than it has, of which no partial sum uses up all.
fn is_long_decimal(argument: &Expr, aggregate: &Aggregate) -> bool {
    argument.get_type(aggregate.input.schema()).is_ok_and(|of| matches!(of, ArrowType::Decimal128(29.., _)))
}

/// Whether an argument is a BIGINT of its own, and no narrower integer that was widened: of these no partial sum leaves a BIGINT.
fn is_bigint(argument: &Expr, aggregate: &Aggregate) -> bool {
    let is_widened = matches!(argument, Expr::Cast(_));
    !is_widened && argument.get_type(aggregate.input.schema()).is_ok_and(|of| of == ArrowType::Int64)
}
