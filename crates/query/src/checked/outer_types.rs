//! Types of columns that a subquery reads from around it.
//!
//! Invariant: a subquery knows a column from around it by the type that it has there.
//!
//! DataFusion 55.2 notes the type where it parses the subquery. Until types are coerced a UNION has those of its first input, so of
//! `FROM (SELECT 1::int AS x UNION ALL SELECT 2) u WHERE EXISTS (SELECT 1 FROM s WHERE s.id = u.x)` the subquery went on taking `x` for an
//! INT, compared it as one, and the statement failed, or worse.

use arrow::datatypes::FieldRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, Result};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercion;
use std::sync::Arc;

/// The rule. Types must have been coerced; where it corrects one, they are again.
#[derive(Debug)]
pub(crate) struct TypesFromAround;

impl AnalyzerRule for TypesFromAround {
    fn name(&self) -> &str {
        "types_from_around"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        if !reads_from_around(&plan)? {
            return Ok(plan);
        }
        let corrected = corrected(plan, &mut Vec::new())?;
        if corrected.transformed { TypeCoercion::new().analyze(corrected.data, config) } else { Ok(corrected.data) }
    }
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

/// The plan of a query, with the rows of the queries around it, the outermost first.
fn corrected(plan: LogicalPlan, around: &mut Vec<DFSchema>) -> Result<Transformed<LogicalPlan>> {
    let corrected = plan.transform_down(|plan| {
        let own = merge_schema(&plan.inputs());
        plan.map_expressions(|expr| expr.transform_down(|expr| in_expression(expr, &own, around)))
    })?;
    // Those above have what those below have become.
    corrected.transform_data(|plan| plan.transform_up(|plan| plan.recompute_schema().map(Transformed::yes)))
}

fn in_expression(expr: Expr, own: &DFSchema, around: &mut Vec<DFSchema>) -> Result<Transformed<Expr>> {
    let mut in_subquery = |subquery: Subquery| in_subquery(subquery, own, around);
    Ok(match expr {
        Expr::OuterReferenceColumn(field, column) => match type_of(&column, &field, around) {
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

fn in_subquery(subquery: Subquery, own: &DFSchema, around: &mut Vec<DFSchema>) -> Result<Transformed<Subquery>> {
    let Subquery { subquery: plan, outer_ref_columns, spans } = subquery;
    around.push(own.clone());
    let plan = corrected(Arc::unwrap_or_clone(plan), around);
    let columns = outer_ref_columns.into_iter().map(|expr| match expr {
        Expr::OuterReferenceColumn(field, column) => {
            let field = type_of(&column, &field, around).unwrap_or(field);
            Expr::OuterReferenceColumn(field, column)
        }
        other => other,
    });
    let outer_ref_columns = columns.collect();
    around.pop();
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
