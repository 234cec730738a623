//! Conditions of WHERE that stand above the join that a subquery has become.
//!
//! Invariant: only what is about the rows that a join keeps or drops as they are goes below it: a condition of the left side
//! alone, which gives the same whenever it is asked.
//!
//! DataFusion 55.2 makes joins of EXISTS, IN and scalar subqueries before it makes joins of comma lists and WHERE
//! (`eliminate_cross_join`), and looks for these no deeper than below the condition: `FROM a, b, c, d WHERE ... AND EXISTS (...)` stays a
//! product of the tables in the order of FROM. No issue upstream known (searched 2026-11-29: eliminate_cross_join, EXISTS, cross join,
//! decorrelate_predicate_subquery).

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Filter, Join, JoinType, LogicalPlan};
use std::sync::Arc;

/// Brings conditions below joins of subqueries, to the inner joins that they may make keys of.
pub(super) fn conditions_below(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    plan.transform_down_with_subqueries(|plan| match plan {
        LogicalPlan::Filter(filter) => match filter.input.as_ref() {
            LogicalPlan::Join(join) if keeps_left(join) && has_inner_join(&join.left) => lowered(&filter, join),
            _ => Ok(Transformed::no(LogicalPlan::Filter(filter))),
        },
        other => Ok(Transformed::no(other)),
    })
}

/// Whether rows of the left side come through a join as they are, or not at all.
fn keeps_left(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark | JoinType::Left)
}

/// Whether there are inner joins below joins of subqueries.
fn has_inner_join(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => true,
        LogicalPlan::Join(join) if keeps_left(join) => has_inner_join(&join.left),
        LogicalPlan::Filter(filter) => has_inner_join(&filter.input),
        _ => false,
    }
}

fn lowered(filter: &Filter, join: &Join) -> Result<Transformed<LogicalPlan>> {
    let conditions = split_conjunction(&filter.predicate);
    let (below, above): (Vec<&Expr>, Vec<&Expr>) =
        conditions.into_iter().partition(|condition| is_of_left(condition, join));
    let mut below: Vec<Expr> = below.into_iter().cloned().collect();
    if below.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Filter(filter.clone())));
    }
    let mut join = join.clone();
    let mut left = Arc::clone(&join.left);
    // Of two conditions one above the other only the lower one would make joins.
    if let LogicalPlan::Filter(own) = join.left.as_ref() {
        below.insert(0, own.predicate.clone());
        left = Arc::clone(&own.input);
    }
    if let Some(predicate) = conjunction(below) {
        join.left = Arc::new(LogicalPlan::Filter(Filter::try_new(predicate, left)?));
    }
    let join = LogicalPlan::Join(join);
    Ok(Transformed::yes(match conjunction(above.into_iter().cloned()) {
        Some(predicate) => LogicalPlan::Filter(Filter::try_new(predicate, Arc::new(join))?),
        None => join,
    }))
}

/// Whether a condition is about the left side alone.
fn is_of_left(condition: &Expr, join: &Join) -> bool {
    let columns = condition.column_refs();
    let is_of_left = |column: &&datafusion::common::Column| {
        join.left.schema().has_column(column) && (column.relation.is_some() || !join.right.schema().has_column(column))
    };
    !columns.is_empty() && columns.iter().all(is_of_left) && !condition.is_volatile() && !condition.contains_outer()
}

#[cfg(test)]
mod tests {
    use crate::testing::{batches, context, rows, runtime, table};
    use arrow::util::pretty::pretty_format_batches;

    #[test]
    fn tables_are_joined_by_their_keys_beside_subqueries() {
        let context = context();
        for (name, columns) in [("a", ["x", "u"]), ("b", ["y", "z"]), ("c", ["y", "u"]), ("d", ["z", "x"])] {
            let rows: Vec<[Option<i64>; 2]> = (1..5).map(|at| [Some(at), Some(at)]).collect();
            context.register_batch(name, table(columns, &rows)).unwrap();
        }
        let of_all = "SELECT count(*) FROM a, b, c, d WHERE b.y = c.y AND b.z = d.z AND d.x = a.x";
        for (condition, count) in [
            ("EXISTS (SELECT 1 FROM b b2 WHERE b2.y = b.y AND b2.z > 2)", 2),
            ("NOT EXISTS (SELECT 1 FROM b b2 WHERE b2.y = b.y AND b2.z > 3)", 3),
            ("b.y IN (SELECT y FROM c WHERE c.u < 3)", 2),
            (
                "b.y NOT IN (SELECT y FROM c WHERE c.u < 2) AND EXISTS (SELECT 1 FROM d d2 WHERE d2.x = b.y AND d2.z < 4)",
                2,
            ),
            ("(b.y = 1 OR EXISTS (SELECT 1 FROM b b2 WHERE b2.y = b.y AND b2.z > 3))", 2),
            ("b.y = (SELECT max(c2.u) FROM c c2 WHERE c2.y = b.y) AND a.x > 1", 3),
        ] {
            let sql = format!("{of_all} AND {condition}");
            assert_eq!(runtime().block_on(rows(&context, &sql)).unwrap(), [[Some(count)]], "{sql}");
            let explained = runtime().block_on(batches(&context, &format!("EXPLAIN {sql}"))).unwrap();
            let plan = pretty_format_batches(&explained).unwrap().to_string();
            assert!(!plan.contains("Cross Join"), "{sql}:\n{plan}");
        }
    }
}
