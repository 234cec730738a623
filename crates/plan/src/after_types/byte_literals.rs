//! Text literals that coercion made bytes of.

use crate::expressions::changed;
use alluvia_functions::bytes::{become_bytes, is_bytes, text_literal};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::analyzer::AnalyzerRule;

/// Reads literals that have become bytes because something wants bytes. Types must have been coerced.
#[derive(Debug)]
pub struct BytesOfLiterals;

impl AnalyzerRule for BytesOfLiterals {
    fn name(&self) -> &str {
        "bytes_of_literals"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        changed(plan, is_coerced_literal, |expr, _| coerced(expr))
    }
}

fn is_coerced_literal(expr: &Expr) -> bool {
    let (Expr::Cast(Cast { expr, field }) | Expr::TryCast(TryCast { expr, field })) = expr else { return false };
    is_bytes(field.data_type()) && text_literal(expr).is_some()
}

fn coerced(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Cast(Cast { expr: of, field }) if is_bytes(field.data_type()) && text_literal(&of).is_some() => {
            become_bytes(*of, field.data_type(), false).map(Transformed::yes)
        }
        Expr::TryCast(TryCast { expr: of, field }) if is_bytes(field.data_type()) && text_literal(&of).is_some() => {
            become_bytes(*of, field.data_type(), true).map(Transformed::yes)
        }
        other => Ok(Transformed::no(other)),
    }
}
