//! Changing of expressions in plans.
//!
//! Invariant: columns are called what they were called before, since a plan's schema names them.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Case;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// What becomes of an expression, whose parts have been changed.
type Change = fn(Expr, &DFSchema) -> Result<Transformed<Expr>>;
/// The same, by how many expressions of its node are concerned.
type SharedChange = fn(Expr, &DFSchema, usize) -> Result<Transformed<Expr>>;

/// Changes expressions of a plan and its subqueries, the innermost first, in nodes that have one which `concerns` is true of.
pub fn changed(plan: LogicalPlan, concerns: fn(&Expr) -> bool, change: Change) -> Result<LogicalPlan> {
    replaced(plan, concerns, |expr, schema, _| change(expr, schema), LogicalPlan::recompute_schema)
}

/// The same, by what a change knows of the statement's session.
pub(crate) fn changed_in_session(
    plan: LogicalPlan,
    concerns: fn(&Expr) -> bool,
    change: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    replaced(plan, concerns, |expr, schema, _| change(expr, schema), LogicalPlan::recompute_schema)
}

/// The same, with the number of a node's expressions that have such a one.
pub(crate) fn changed_by_count(
    plan: LogicalPlan,
    concerns: fn(&Expr) -> bool,
    change: SharedChange,
) -> Result<LogicalPlan> {
    replaced(plan, concerns, change, LogicalPlan::recompute_schema)
}

/// The same in a plan whose types have not been coerced, so that schemas cannot be computed: the change keeps types, and whether there
/// are NULLs.
pub fn changed_as_written(
    plan: LogicalPlan,
    concerns: fn(&Expr) -> bool,
    change: impl Fn(Expr, &DFSchema) -> Result<Transformed<Expr>>,
) -> Result<LogicalPlan> {
    replaced(plan, concerns, |expr, schema, _| change(expr, schema), Ok)
}

fn replaced(
    plan: LogicalPlan,
    concerns: fn(&Expr) -> bool,
    change: impl Fn(Expr, &DFSchema, usize) -> Result<Transformed<Expr>>,
    finish: fn(LogicalPlan) -> Result<LogicalPlan>,
) -> Result<LogicalPlan> {
    let changed = plan.transform_up_with_subqueries(|plan| {
        let concerned = concerned(&plan, concerns)?;
        if concerned == 0 {
            return Ok(Transformed::no(plan));
        }
        let mut schema = merge_schema(&plan.inputs());
        if let LogicalPlan::TableScan(scan) = &plan {
            schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
        }
        let names = NamePreserver::new(&plan);
        let change = |expr: Expr| expr.transform_up(|expr| change(expr, &schema, concerned));
        let changed = plan.map_expressions(|expr| each_named(&names, expr, &change))?;
        // The schema names what there was before; names are kept, so it is the same.
        changed.map_data(finish)
    })?;
    Ok(changed.data)
}

/// How many expressions of a node have one which `concerns` is true of.
fn concerned(plan: &LogicalPlan, concerns: fn(&Expr) -> bool) -> Result<usize> {
    let mut count = 0;
    plan.apply_expressions(|expr| {
        count += usize::from(expr.exists(|expr| Ok(concerns(expr)))?);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(count)
}

/// What a CASE compares, if it compares a value with others, and what it chooses from.
pub fn parts_of_case(case: &mut Case) -> (Option<Vec<&mut Expr>>, Vec<&mut Expr>) {
    let Case { expr: of, when_then_expr, else_expr } = case;
    let (mut compared, mut results): (Vec<&mut Expr>, Vec<&mut Expr>) = (Vec::new(), Vec::new());
    for (when, then) in when_then_expr {
        compared.push(when);
        results.push(then);
    }
    results.extend(else_expr.as_deref_mut());
    let compared = of.as_deref_mut().map(|of| {
        compared.push(of);
        compared
    });
    (compared, results)
}

/// Changes an expression, or all those of grouping sets, which themselves have no name.
pub(crate) fn each_named(
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
