//! Types of columns that a subquery reads from around it.
//!
//! Invariant: a subquery knows a column from around it by the type that it has there once types are coerced.
//!
//! DataFusion 55.2 notes the type where it parses the subquery. Until types are coerced a UNION has those of its first input, so of
//! `FROM (SELECT 1::int AS x UNION ALL SELECT 2) u WHERE EXISTS (SELECT 1 FROM s WHERE s.id = u.x)` the subquery went on taking `x` for an
//! INT, compared it as one, and the statement failed, or worse. So the types of what is around are found before any are coerced.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: correlated subquery, outer reference
//! column, type, UNION coercion).

use arrow::datatypes::FieldRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use std::sync::Arc;

/// The rule. It must come right before types are coerced.
#[derive(Debug)]
pub struct TypesFromAround;

impl AnalyzerRule for TypesFromAround {
    fn name(&self) -> &str {
        "types_from_around"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        // Only a UNION has other types then.
        if has_union(&plan)? && reads_from_around(&plan)? {
            corrected(plan, &mut Around { rows: Vec::new(), config }).data()
        } else {
            Ok(plan)
        }
    }
}

/// The rows of the queries around a plan, the outermost first.
struct Around<'a> {
    rows: Vec<DFSchema>,
    config: &'a ConfigOptions,
}

fn has_union(plan: &LogicalPlan) -> Result<bool> {
    let mut has = false;
    plan.apply_with_subqueries(|plan| {
        has |= matches!(plan, LogicalPlan::Union(_) | LogicalPlan::RecursiveQuery(_));
        Ok(if has { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(has)
}

/// Whether any subquery reads a column from around it.
fn reads_from_around(plan: &LogicalPlan) -> Result<bool> {
    let mut reads = false;
    plan.apply_with_subqueries(|plan| {
        plan.apply_expressions(|expr| {
            reads |= expr.contains_outer();
            Ok(if reads { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(reads)
}

/// The plan of a query within others. What it reads is corrected before what reads it.
fn corrected(plan: LogicalPlan, around: &mut Around<'_>) -> Result<Transformed<LogicalPlan>> {
    plan.transform_up(|plan| {
        let mut concerns = false;
        plan.apply_expressions(|expr| {
            concerns |= expr.exists(|expr| Ok(is_concerned(expr)))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !concerns {
            return Ok(Transformed::no(plan));
        }
        let own = rows_of(&plan, around.config);
        plan.map_expressions(|expr| expr.transform_down(|expr| in_expression(expr, &own, around)))
    })
}

fn is_concerned(expr: &Expr) -> bool {
    let is_subquery =
        matches!(expr, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_));
    is_subquery || matches!(expr, Expr::OuterReferenceColumn(..))
}

/// The rows that a node reads, with the types that they will have. What cannot be coerced is told when it is.
fn rows_of(plan: &LogicalPlan, config: &ConfigOptions) -> DFSchema {
    let mut rows = DFSchema::empty();
    for input in plan.inputs() {
        match TypeCoercion::new().analyze(input.clone(), config) {
            Ok(coerced) => rows.merge(coerced.schema()),
            Err(_) => rows.merge(input.schema()),
        }
    }
    rows
}

fn in_expression(expr: Expr, own: &DFSchema, around: &mut Around<'_>) -> Result<Transformed<Expr>> {
    let mut in_subquery = |subquery: Subquery| in_subquery(subquery, own, around);
    Ok(match expr {
        Expr::OuterReferenceColumn(field, column) => match type_of(&column, &field, &around.rows) {
            Some(field) => Transformed::yes(Expr::OuterReferenceColumn(field, column)),
            None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
        },
        Expr::ScalarSubquery(subquery) => in_subquery(subquery)?.update_data(Expr::ScalarSubquery),
        Expr::Exists(Exists { subquery, negated }) => {
            in_subquery(subquery)?.update_data(|subquery| Expr::Exists(Exists { subquery, negated }))
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            in_subquery(subquery)?.update_data(|subquery| Expr::InSubquery(InSubquery { expr, subquery, negated }))
        }
        Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => in_subquery(subquery)?
            .update_data(|subquery| Expr::SetComparison(SetComparison { expr, subquery, op, quantifier })),
        other => Transformed::no(other),
    })
}

fn in_subquery(subquery: Subquery, own: &DFSchema, around: &mut Around<'_>) -> Result<Transformed<Subquery>> {
    let Subquery { subquery: plan, outer_ref_columns, spans } = subquery;
    around.rows.push(own.clone());
    let plan = corrected(Arc::unwrap_or_clone(plan), around);
    let columns = outer_ref_columns.into_iter().map(|expr| match expr {
        Expr::OuterReferenceColumn(field, column) => {
            let field = type_of(&column, &field, &around.rows).unwrap_or(field);
            Expr::OuterReferenceColumn(field, column)
        }
        other => other,
    });
    let outer_ref_columns = columns.collect();
    around.rows.pop();
    Ok(plan?.update_data(|plan| Subquery { subquery: Arc::new(plan), outer_ref_columns, spans }))
}

/// The type that a column has around a subquery, if it is another one than was noted.
fn type_of(column: &Column, noted: &FieldRef, around: &[DFSchema]) -> Option<FieldRef> {
    let field = around.iter().rev().find_map(|rows| rows.field_from_column(column).ok())?;
    let is_other = field.data_type() != noted.data_type();
    is_other.then(|| {
        Arc::new(noted.as_ref().clone().with_data_type(field.data_type().clone()).with_nullable(field.is_nullable()))
    })
}
