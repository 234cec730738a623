//! IN of subqueries that is NULL where it is neither true nor false.
//!
//! Invariants:
//! - `x IN (SELECT y ...)` is true if one `y` equals `x`; else NULL if there is a `y` and `x` is NULL, or a `y` is NULL; else false.
//! - Where false is as good as NULL, it is left to DataFusion, whose semi joins are right and fast.
//! - A subquery whose rows are chosen by columns from around it is refused where something looks at these rows together.
//!
//! DataFusion 55.2 makes a column of a join that marks rows of all that is not a condition by itself, and that column is never NULL
//! (apache/datafusion#8241 and its kin): `NOT (x IN (...) AND b)`, `(x IN (...)) IS NULL`. Its anti joins know of NULL only if they
//! compare one column with one: not for `7 NOT IN (...)`, nor where the subquery reads columns from around it. These become questions
//! of EXISTS, which is never NULL.
//!
//! It also takes the conditions of a subquery that read columns from around it out of the subquery and into the join, also where they
//! must come before: `EXISTS (SELECT max(y) FROM u WHERE u.k = t.k)` is true whatever there is, and was not; a window, an OFFSET or the
//! total of a ROLLUP was one of all rows, and an outer join lost what finds nothing.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result, not_impl_err, plan_err};
use datafusion::logical_expr::expr::{Case, Exists, InSubquery};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Expr, Filter, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, SkipType, Subquery, lit,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// What the subquery's column is called: DataFusion tells it from what it is compared with by names alone.
const LISTED: &str = "listed by a subquery";

/// The rule. It must be asked before subqueries become joins, and before anything pushes NOT around.
#[derive(Debug, Default)]
pub(crate) struct SubqueriesKeepingNulls;

impl OptimizerRule for SubqueriesKeepingNulls {
    fn name(&self) -> &str {
        "subqueries_keeping_nulls"
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        plan.transform_up_with_subqueries(|plan| {
            refuse_too_far(&plan)?;
            match plan {
                LogicalPlan::Filter(Filter { predicate, input, .. }) if has_in(&predicate) => {
                    let kept = keep(predicate, Place::Condition, input.schema())?;
                    kept.map_data(|predicate| Ok(LogicalPlan::Filter(Filter::try_new(predicate, input)?)))
                }
                other => Ok(Transformed::no(other)),
            }
        })
    }
}

/// Refuses what DataFusion would take conditions out of too far.
fn refuse_too_far(plan: &LogicalPlan) -> Result<()> {
    let conditions = match plan {
        LogicalPlan::Filter(filter) => split_conjunction(&filter.predicate),
        _ => Vec::new(),
    };
    plan.apply_expressions(|expr| {
        expr.apply(|expr| {
            let is_too_far = match expr {
                Expr::Exists(of) => reads_together(&of.subquery, false)?,
                Expr::InSubquery(of) => {
                    // `x IN (SELECT max(y) ...)` is NULL of no rows, which is as good as the false that a join makes of it.
                    let is_value = !of.negated && conditions.contains(&expr) && is_null_of_no_rows(&of.subquery.subquery);
                    reads_together(&of.subquery, is_value)?
                }
                Expr::SetComparison(of) => reads_together(&of.subquery, false)?,
                Expr::ScalarSubquery(of) => reads_together(of, true)?,
                _ => false,
            };
            if is_too_far {
                return not_impl_err!(
                    "an aggregate, a window, OFFSET or an outer join over rows that a condition on columns from around the subquery chooses \
                     is not supported: compare with the value of a subquery, as in x = (SELECT max(y) ...), or write it as a join"
                );
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(())
}

/// Whether something in a subquery looks together at rows that are chosen by columns from around it. An aggregate that is the one value of
/// a subquery may: DataFusion groups it by these columns, and knows what it is of no rows.
fn reads_together(subquery: &Subquery, is_value: bool) -> Result<bool> {
    let is_correlated = |plan: &LogicalPlan| !plan.all_out_ref_exprs().is_empty();
    if !is_correlated(&subquery.subquery) {
        return Ok(false);
    }
    let mut aggregates = 0;
    let is_together = subquery.subquery.exists(|plan| {
        Ok(match plan {
            LogicalPlan::Aggregate(aggregate) if is_correlated(&aggregate.input) => {
                aggregates += 1;
                let is_total = aggregate.group_expr.is_empty();
                let has_sets = aggregate.group_expr.iter().any(|group| matches!(group, Expr::GroupingSet(_)));
                has_sets || is_total && (!is_value || aggregates > 1)
            }
            LogicalPlan::Window(window) => is_correlated(&window.input),
            LogicalPlan::Limit(limit) => {
                !matches!(limit.get_skip_type()?, SkipType::Literal(0)) && is_correlated(&limit.input)
            }
            LogicalPlan::Join(join) => match join.join_type {
                JoinType::Inner => false,
                JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                    is_correlated(&join.right)
                }
                JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                    is_correlated(&join.left)
                }
                JoinType::Full => is_correlated(&join.left) || is_correlated(&join.right),
            },
            _ => false,
        })
    })?;
    Ok(is_together)
}

/// Whether an aggregate without groups is all that a query has, and is NULL of no rows.
fn is_null_of_no_rows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_null_of_no_rows(&alias.input),
        LogicalPlan::Projection(projection) => {
            let is_same = |expr: &Expr| matches!(expr.clone().unalias_nested().data, Expr::Column(_));
            projection.expr.iter().all(is_same) && is_null_of_no_rows(&projection.input)
        }
        LogicalPlan::Aggregate(aggregate) => {
            let is_null = |expr: &Expr| match expr.clone().unalias_nested().data {
                Expr::AggregateFunction(function) => ["min", "max", "sum", "avg"].contains(&function.func.name()),
                _ => false,
            };
            aggregate.group_expr.is_empty() && aggregate.aggr_expr.iter().all(is_null)
        }
        _ => false,
    }
}

fn has_in(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(matches!(expr, Expr::InSubquery(_)))).is_ok_and(|has| has)
}

/// Where an expression stands in a filter.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// It is a condition by itself.
    Condition,
    /// Below nothing but AND and OR: false is as good as NULL.
    Part,
    /// Where NULL and false differ.
    Value,
}

fn keep(expr: Expr, place: Place, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) if place != Place::Value => {
            let below = if op == Operator::And { place } else { Place::Part };
            expr.map_children(|child| keep(child, below, schema))
        }
        Expr::Not(inner) if place == Place::Condition && matches!(*inner, Expr::InSubquery(_)) => match *inner {
            Expr::InSubquery(of) => {
                let turned = InSubquery { negated: !of.negated, ..of };
                keep(Expr::InSubquery(turned), place, schema).map(|kept| Transformed::yes(kept.data))
            }
            other => Ok(Transformed::no(other)),
        },
        Expr::InSubquery(of) => {
            let is_right = match place {
                Place::Condition => !of.negated || is_plain(&of),
                Place::Part => !of.negated,
                Place::Value => false,
            };
            if is_right { Ok(Transformed::no(Expr::InSubquery(of))) } else { asked(of, schema).map(Transformed::yes) }
        }
        other => other.map_children(|child| keep(child, Place::Value, schema)),
    }
}

/// Whether DataFusion's anti join is right for NOT IN: it has one pair of columns.
fn is_plain(of: &InSubquery) -> bool {
    !of.expr.column_refs().is_empty() && !of.expr.contains_outer() && of.subquery.outer_ref_columns.is_empty()
}

/// The same by EXISTS.
fn asked(InSubquery { expr, subquery, negated }: InSubquery, schema: &DFSchema) -> Result<Expr> {
    let is_of_subqueries = expr.exists(|part| {
        Ok(matches!(part, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_)))
    })?;
    if is_of_subqueries || expr.contains_outer() {
        return not_impl_err!(
            "IN (SELECT ...) of a subquery's value, or of a column from around two queries, is not supported"
        );
    }
    let [_] = subquery.subquery.schema().fields().as_ref() else {
        return plan_err!("the subquery of IN has one column");
    };
    let column = Expr::Column(Column::from(subquery.subquery.schema().qualified_field(0)));
    let is_apart = subquery.outer_ref_columns.is_empty();
    let listed = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone()).project([column.alias(LISTED)])?;
    let value = Expr::Column(Column::new_unqualified(LISTED));
    let exists = |plan: LogicalPlanBuilder, is_apart: bool| -> Result<Box<Expr>> {
        // One row is enough, and the join is with one row then.
        let plan = if is_apart { plan.limit(0, Some(1))? } else { plan }.build()?;
        let outer_ref_columns = plan.all_out_ref_exprs();
        let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: subquery.spans.clone() };
        Ok(Box::new(Expr::Exists(Exists { subquery, negated: false })))
    };
    let of_rows = outer(expr.as_ref().clone(), schema)?;
    let is_listed = exists(listed.clone().filter(value.clone().eq(of_rows))?, false)?;
    let lists_null = exists(listed.clone().filter(value.is_null())?, is_apart)?;
    let lists_any = exists(listed, is_apart)?;
    let null = Box::new(Expr::Literal(ScalarValue::Boolean(None), None));
    let when_then_expr = vec![
        (is_listed, Box::new(lit(!negated))),
        (lists_null, null.clone()),
        (Box::new(expr.is_null().and(*lists_any)), null),
    ];
    Ok(Expr::Case(Case { expr: None, when_then_expr, else_expr: Some(Box::new(lit(negated))) }))
}

/// An expression of the rows around a subquery, as it is written inside.
fn outer(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    let outer = expr.transform_up(|expr| match expr {
        Expr::Column(column) => {
            let (_, field) = schema.qualified_field_from_column(&column)?;
            Ok(Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), column)))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(outer.data)
}
