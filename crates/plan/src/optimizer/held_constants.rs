//! Long constants in plans, which operators and functions write out for every row of a batch.
//!
//! Invariant: what the constants of a node of a plan would take, written out for a batch, is known before one is; a statement that may not
//! hold it fails. `array_agg(repeat('x', 1000000))` of 9,000 rows is a constant of 1 MB by the time it runs, and took 2 GB a batch.
//!
//! A comparison takes a constant as it is, and so does a list that is looked into: there it may be as long as it likes.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: constant, ColumnarValue, into_array,
//! memory, repeat, array_agg).

use crate::expressions::each_named;
use alluvia_functions::output_size::estimate::constant_bytes;
use alluvia_functions::output_size::held::{Held, held};
use alluvia_functions::output_size::{StatementLimits, within_limit};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Constants shorter than this are not looked at: a statement that has many has them in its text.
const SHORT_BYTES: u64 = 256;

/// Puts a function around long constants, which asks before it gives them. Constants must have been folded: it is the last rule.
#[derive(Debug)]
pub struct HeldConstants;

impl OptimizerRule for HeldConstants {
    fn name(&self) -> &str {
        "held_constants"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        // Each value of VALUES is evaluated once, for its own row.
        if matches!(plan, LogicalPlan::Values(_)) {
            return Ok(Transformed::no(plan));
        }
        let (mut all, mut kept): (u64, u64) = (0, 0);
        plan.apply_expressions(|expr| {
            expr.apply(|expr| {
                all = all.saturating_add(long_bytes(expr).unwrap_or(0));
                if keeps_constants(expr) {
                    expr.apply_children(|child| {
                        kept = kept.saturating_add(long_bytes(child).unwrap_or(0));
                        Ok(TreeNodeRecursion::Continue)
                    })?;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        let bytes = all.saturating_sub(kept);
        let options = config.options();
        let limit = options.extensions.get::<StatementLimits>().map_or(u64::MAX, |limits| limits.memory_bytes);
        if bytes.saturating_mul(options.execution.batch_size.get() as u64) <= limit {
            return Ok(Transformed::no(plan));
        }
        let names = NamePreserver::new(&plan);
        let change = |expr: Expr| {
            expr.transform_up(|expr| {
                if keeps_constants(&expr) {
                    return expr.map_children(|child| Ok(unwrapped(child)));
                }
                // What stands between values is a constant by rule, and is written out for each of them.
                if let Expr::AggregateFunction(call) = &expr
                    && call.params.args.iter().skip(1).any(is_held)
                {
                    let rows = options.execution.batch_size.get() as u128;
                    within_limit(call.func.name(), u128::from(bytes) * rows, 1, &options)?;
                }
                let is_long = long_bytes(&expr).is_some();
                Ok(if is_long { Transformed::yes(held(expr, bytes)) } else { Transformed::no(expr) })
            })
        };
        plan.map_expressions(|expr| each_named(&names, expr, &change))
    }
}

/// The length of a constant that is long, and is written out: views of all rows share one.
fn long_bytes(expr: &Expr) -> Option<u64> {
    match expr {
        Expr::Literal(ScalarValue::Utf8View(_) | ScalarValue::BinaryView(_), _) => None,
        Expr::Literal(constant, _) => Some(constant_bytes(constant)).filter(|bytes| *bytes >= SHORT_BYTES),
        _ => None,
    }
}

/// Whether it takes constants as they are, and writes none out.
fn keeps_constants(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op, .. }) => op.supports_propagation(),
        Expr::InList(_) | Expr::Like(_) => true,
        expr => is_held(expr),
    }
}

/// A constant that is held, as it is; anything else is left alone.
fn unwrapped(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::ScalarFunction(mut function) if function.func.inner().is::<Held>() && function.args.len() == 1 => {
            Transformed::yes(function.args.swap_remove(0))
        }
        other => Transformed::no(other),
    }
}

fn is_held(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(function) if function.func.inner().is::<Held>())
}
