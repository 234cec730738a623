//! Changing of expressions in plans.
//!
//! Invariant: columns are called what they were called before, since a plan's schema names them.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// What becomes of an expression, whose parts have been changed.
type Change = fn(Expr, &DFSchema) -> Result<Transformed<Expr>>;

/// Changes expressions of a plan and its subqueries, the innermost first, in nodes that have one which `concerns` is true of.
pub(super) fn changed(plan: LogicalPlan, concerns: fn(&Expr) -> bool, change: Change) -> Result<LogicalPlan> {
    replaced(plan, concerns, change, LogicalPlan::recompute_schema)
}

/// The same in a plan whose types have not been coerced, so that schemas cannot be computed: the change keeps types, and whether there
/// are NULLs.
pub(super) fn changed_as_written(
    plan: LogicalPlan,
    concerns: fn(&Expr) -> bool,
    change: Change,
) -> Result<LogicalPlan> {
    replaced(plan, concerns, change, Ok)
}

fn replaced(
    plan: LogicalPlan,
    concerns: fn(&Expr) -> bool,
    change: Change,
    finish: fn(LogicalPlan) -> Result<LogicalPlan>,
) -> Result<LogicalPlan> {
    let changed = plan.transform_up_with_subqueries(|plan| {
        if !has_any(&plan, concerns)? {
            return Ok(Transformed::no(plan));
        }
        let mut schema = merge_schema(&plan.inputs());
        if let LogicalPlan::TableScan(scan) = &plan {
            schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
        }
        let names = NamePreserver::new(&plan);
        let change = |expr: Expr| expr.transform_up(|expr| change(expr, &schema));
        let changed = plan.map_expressions(|expr| each_named(&names, expr, &change))?;
        // The schema names what there was before; names are kept, so it is the same.
        changed.map_data(finish)
    })?;
    Ok(changed.data)
}

fn has_any(plan: &LogicalPlan, concerns: fn(&Expr) -> bool) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        expr.apply(|expr| {
            found |= concerns(expr);
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}

/// Changes an expression, or all those of grouping sets, which themselves have no name.
pub(super) fn each_named(
    names: &NamePreserver,
    expr: Expr,
    change: &dyn Fn(Expr) -> Result<Transformed<Expr>>,
) -> Result<Transformed<Expr>> {
    if matches!(expr, Expr::GroupingSet(_)) {
        return expr.map_children(|expr| each_named(names, expr, change));
    }
    let name = names.save(&expr);
    let changed = change(expr)?;
    Ok(if changed.transformed { changed.update_data(|expr| name.restore(expr)) } else { changed })
}
