//! What IN, ANY and ALL of subqueries mean, said by EXISTS, which is never NULL.
//!
//! Invariants:
//! - Where false is as good as NULL, it is one semi join or one mark.
//! - Rows are compared part by part: one pair of parts that differ decides, and of the others a NULL leaves it open. Each pair becomes a
//!   key of a join.

use super::{Below, Leaves, direct, has_subquery, outer_columns, projected};
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, Result, not_impl_err, plan_err};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::expr::{Case, Cast, Exists, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::utils::{conjunction, disjunction};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, Limit, LogicalPlan, Operator, Subquery, binary_expr, cast, lit,
};
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// What the subquery's column is called: DataFusion tells it from what it is compared with by names alone.
const LISTED: &str = "listed by a subquery";
/// Parts of a row of which each may be NULL by itself in a join of its own: there is one for every set of them.
const PARTS_MAX: usize = 3;

/// Where an expression stands in a filter.
#[derive(Clone, Copy, PartialEq)]
pub enum FilterPosition {
    /// It is a condition by itself.
    Condition,
    /// Below nothing but AND and OR: false is as good as NULL.
    Part,
    /// Where NULL and false differ.
    Value,
}

/// An expression with subqueries that DataFusion gets right, and columns in the place of the others.
pub fn keep(expr: Expr, place: FilterPosition, below: &mut Below<'_>) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. })
            if place != FilterPosition::Value =>
        {
            let part = if op == Operator::And { place } else { FilterPosition::Part };
            expr.map_children(|child| keep(child, part, below))
        }
        Expr::Not(inner) if place == FilterPosition::Condition && matches!(*inner, Expr::InSubquery(_)) => match *inner
        {
            Expr::InSubquery(of) => keep(Expr::InSubquery(InSubquery { negated: !of.negated, ..of }), place, below),
            other => Ok(Transformed::no(other)),
        },
        Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }) => {
            let negated = match (op, &quantifier) {
                (Operator::Eq, SetQuantifier::Any) => Some(false),
                (Operator::NotEq, SetQuantifier::All) => Some(true),
                _ => None,
            };
            let expr = Box::new(valued(*expr, below)?);
            let said = match negated {
                Some(negated) => Expr::InSubquery(InSubquery { expr, subquery, negated }),
                None => {
                    let of = Listed { expr, subquery, op, is_any: quantifier == SetQuantifier::Any };
                    of.by_exists(place, &below.schema())?
                }
            };
            keep(said, place, below).map(|kept| Transformed::yes(kept.data))
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            let of = InSubquery { expr: Box::new(valued(*expr, below)?), subquery: fresh(subquery), negated };
            if is_left(&of, place, below)? {
                return Ok(Transformed::yes(Expr::InSubquery(of)));
            }
            let InSubquery { expr, subquery, negated } = of;
            let op = if negated { Operator::NotEq } else { Operator::Eq };
            let said = Listed { expr, subquery, op, is_any: !negated }.by_exists(place, &below.schema())?;
            keep(said, place, below).map(|kept| Transformed::yes(kept.data))
        }
        Expr::Exists(Exists { subquery, negated }) => {
            let subquery = fresh(subquery);
            let is_left = below.leaves == Leaves::Conditions
                && below.has_all(&subquery.subquery)
                && direct::pulls_up(&subquery.subquery, true)?
                && direct::has_names_apart(&subquery.subquery);
            if is_left {
                return Ok(Transformed::yes(Expr::Exists(Exists { subquery, negated })));
            }
            let mark = below.mark(&subquery.subquery)?;
            Ok(Transformed::yes(if negated { Expr::Not(Box::new(mark)) } else { mark }))
        }
        Expr::ScalarSubquery(subquery) => {
            let subquery = fresh(subquery);
            let query = &subquery.subquery;
            let is_left = outer_columns(query).is_empty()
                || below.leaves != Leaves::Nothing
                    && below.has_all(query)
                    && direct::is_value_of_equals(query)?
                    && direct::has_names_apart(query);
            if is_left {
                return Ok(Transformed::yes(Expr::ScalarSubquery(subquery)));
            }
            below.scalar(query).map(Transformed::yes)
        }
        other => other.map_children(|child| keep(child, FilterPosition::Value, below)),
    }
}

/// A subquery that knows what it reads from around it.
fn fresh(subquery: Subquery) -> Subquery {
    Subquery { outer_ref_columns: subquery.subquery.all_out_ref_exprs(), ..subquery }
}

/// What is compared with a subquery, with columns in the place of all its own subqueries: it is read within the other one.
fn valued(expr: Expr, below: &mut Below<'_>) -> Result<Expr> {
    if !has_subquery(&expr) {
        return Ok(expr);
    }
    let valued = expr.transform_up(|expr| match expr {
        Expr::ScalarSubquery(subquery) => below.scalar(&subquery.subquery).map(Transformed::yes),
        Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => {
            let leaves = std::mem::replace(&mut below.leaves, Leaves::Nothing);
            let kept = keep(expr, FilterPosition::Value, below);
            below.leaves = leaves;
            kept
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(valued.data)
}

/// Whether DataFusion's semi or anti join is right for IN, or for NOT IN.
fn is_left(of: &InSubquery, place: FilterPosition, below: &Below<'_>) -> Result<bool> {
    let query = &of.subquery.subquery;
    // `x IN (SELECT max(y) ...)` is NULL of no rows, which is as good as the false that a join makes of it.
    let is_value = !of.negated && place == FilterPosition::Condition && direct::is_null_of_no_rows(query);
    let is_right = match place {
        FilterPosition::Condition => !of.negated || is_plain(of),
        FilterPosition::Part => !of.negated,
        FilterPosition::Value => false,
    };
    let is_row = parts_of(&of.expr).is_some();
    let is_pulled_up = if is_value { direct::is_value_of_equals(query)? } else { direct::pulls_up(query, false)? };
    let is_near = below.has_all(query) && !of.expr.contains_outer();
    let is_direct = is_right && is_near && is_pulled_up && !is_row;
    Ok(below.leaves == Leaves::Conditions && is_direct && direct::has_names_apart(query))
}

/// Whether DataFusion's anti join is right for NOT IN: it has one pair of columns.
fn is_plain(of: &InSubquery) -> bool {
    !of.expr.column_refs().is_empty() && outer_columns(&of.subquery.subquery).is_empty()
}

/// `x op ANY (SELECT y ...)`, or ALL.
struct Listed {
    expr: Box<Expr>,
    subquery: Subquery,
    op: Operator,
    is_any: bool,
}

impl Listed {
    /// The same by EXISTS, of rows of a schema.
    fn by_exists(self, place: FilterPosition, schema: &DFSchema) -> Result<Expr> {
        let Listed { expr, subquery, op, is_any } = self;
        let query = subquery.subquery.as_ref();
        let [_] = query.schema().fields().as_ref() else {
            return plan_err!("the subquery of IN, ANY or ALL has one column");
        };
        let exists = |rows: &LogicalPlan, condition: Option<Expr>| -> Result<Expr> {
            let plan = match condition {
                Some(condition) => LogicalPlan::Filter(Filter::try_new(condition, Arc::new(rows.clone()))?),
                None => rows.clone(),
            };
            let outer_ref_columns = plan.all_out_ref_exprs();
            let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns, spans: subquery.spans.clone() };
            Ok(Expr::Exists(Exists { subquery, negated: false }))
        };
        let row = match parts_of(&expr) {
            Some(parts) => listed_parts(query, parts.len())?.map(|listed| (parts, listed)),
            None => None,
        };
        let (listed, pairs) = match row {
            Some((parts, listed)) => {
                let typed = |(part, field): (Expr, &FieldRef)| {
                    if part.contains_outer() { Ok(part) } else { part.cast_to(field.data_type(), schema) }
                };
                let parts = parts.into_iter().zip(listed.schema().fields()).map(typed).collect::<Result<Vec<_>>>()?;
                let pairs = parts.into_iter().zip(listed.schema().columns().into_iter().map(Expr::Column)).collect();
                (listed, pairs)
            }
            None => {
                let column = Expr::Column(Column::from(query.schema().qualified_field(0)));
                let listed = projected(query.clone(), vec![column.alias(LISTED)])?;
                (listed, vec![(*expr, Expr::Column(Column::new_unqualified(LISTED)))])
            }
        };
        let is_eq = matches!((op, is_any), (Operator::Eq, true) | (Operator::NotEq, false));
        let compared = |(around, listed): &(Expr, Expr)| -> Result<Expr> {
            let around = outer(around.clone(), schema)?;
            Ok(match (is_eq, is_any) {
                (true, _) => listed.clone().eq(around),
                (false, true) => binary_expr(around, op, listed.clone()),
                (false, false) => Expr::Not(Box::new(binary_expr(around, op, listed.clone()))),
            })
        };
        if !is_eq && pairs.len() > 1 {
            return not_impl_err!("rows and a subquery are compared by IN, = ANY, NOT IN and <> ALL only");
        }
        let condition = conjunction(pairs.iter().map(compared).collect::<Result<Vec<_>>>()?);
        let condition = condition.unwrap_or_else(|| lit(true));
        let decided = exists(&listed, Some(condition.clone()))?;
        if place != FilterPosition::Value && is_any {
            return Ok(decided);
        }
        // What leaves it open: rows that list a NULL, and what is NULL around.
        let mut open = Vec::new();
        match pairs.as_slice() {
            [(around, value)] => {
                open.push(exists(&listed, Some(value.clone().is_null()))?);
                open.push(around.clone().is_null().and(exists(&listed, None)?));
            }
            pairs => {
                let lists_null = disjunction(pairs.iter().map(|(_, listed)| listed.clone().is_null()));
                let lists_null = lists_null.unwrap_or_else(|| lit(false));
                let nulls = LogicalPlan::Filter(Filter::try_new(lists_null, Arc::new(listed.clone()))?);
                open.push(exists(&nulls, Some(condition.is_null()))?);
                let sets = if pairs.len() <= PARTS_MAX { 1..1_usize << pairs.len() } else { 0..0 };
                for nulls in sets.clone() {
                    let equal = pairs.iter().enumerate().filter(|(at, _)| nulls >> at & 1 == 0);
                    let equal = conjunction(equal.map(|(_, pair)| compared(pair)).collect::<Result<Vec<_>>>()?);
                    let null = pairs.iter().enumerate().filter(|(at, _)| nulls >> at & 1 == 1);
                    let null = conjunction(null.map(|(_, (around, _))| around.clone().is_null())).unwrap_or(lit(true));
                    open.push(null.and(exists(&listed, equal)?));
                }
                if sets.is_empty() {
                    let any = conjunction(pairs.iter().map(compared).collect::<Result<Vec<_>>>()?);
                    open.push(exists(&listed, any.map(Expr::is_null))?);
                }
            }
        }
        let null = || Box::new(Expr::Literal(ScalarValue::Boolean(None), None));
        let open = open.into_iter().map(|open| (Box::new(open), null()));
        let when_then_expr = std::iter::once((Box::new(decided), Box::new(lit(is_any)))).chain(open).collect();
        Ok(Expr::Case(Case { expr: None, when_then_expr, else_expr: Some(Box::new(lit(!is_any))) }))
    }
}

/// The parts of a row, each of the type that the whole is cast to.
fn parts_of(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::ScalarFunction(function) if function.name() == "struct" => Some(function.args.clone()),
        Expr::Alias(alias) => parts_of(&alias.expr),
        Expr::Cast(Cast { expr, field }) => match field.data_type() {
            DataType::Struct(fields) => {
                let parts = parts_of(expr)?.into_iter().zip(fields);
                Some(parts.map(|(part, field)| cast(part, field.data_type().clone())).collect())
            }
            _ => None,
        },
        _ => None,
    }
}

/// The parts of the rows that a subquery lists, as columns; nothing if they are not written out there.
fn listed_parts(query: &LogicalPlan, count: usize) -> Result<Option<LogicalPlan>> {
    match query {
        LogicalPlan::SubqueryAlias(alias) => return listed_parts(&alias.input, count),
        LogicalPlan::Limit(limit) => {
            let rows = listed_parts(&limit.input, count)?;
            return Ok(rows.map(|rows| LogicalPlan::Limit(Limit { input: Arc::new(rows), ..limit.clone() })));
        }
        LogicalPlan::Projection(projection) => {
            let [row] = projection.expr.as_slice() else { return Ok(None) };
            let parts = match (parts_of(row), without_names(row)) {
                (Some(parts), _) => return named_parts(projection.input.as_ref().clone(), parts, count).map(Some),
                (None, Expr::Column(_)) => return listed_parts(&projection.input, count),
                (None, Expr::Cast(cast)) => match (&*cast.expr, cast.field.data_type()) {
                    (Expr::Column(_), DataType::Struct(fields)) => Some(fields.clone()),
                    _ => None,
                },
                _ => None,
            };
            if let Some(fields) = parts {
                let Some(rows) = listed_parts(&projection.input, count)? else { return Ok(None) };
                let columns = rows.schema().columns().into_iter().map(Expr::Column).zip(&fields);
                let columns = columns.map(|(column, field)| cast(column, field.data_type().clone())).collect();
                return named_parts(rows, columns, count).map(Some);
            }
        }
        _ => {}
    }
    Ok(None)
}

fn named_parts(rows: LogicalPlan, parts: Vec<Expr>, count: usize) -> Result<LogicalPlan> {
    if parts.len() != count {
        return plan_err!("the subquery has {} columns where the row has {} parts", parts.len(), count);
    }
    let named = parts.into_iter().enumerate().map(|(at, part)| part.alias(format!("{LISTED} {at}")));
    projected(rows, named.collect())
}

fn without_names(expr: &Expr) -> &Expr {
    if let Expr::Alias(alias) = expr { without_names(&alias.expr) } else { expr }
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

/// The error for a column that a subquery reads from around it where rows are grouped by others.
pub fn not_grouped(column: &Column) -> DataFusionError {
    let message = format!("{} in a subquery is neither grouped by nor inside of an aggregate", column.flat_name());
    wrap(
        Error::new(ErrorKind::NotGrouped, message)
            .with_hint("add it to GROUP BY, or let the subquery read an aggregate of it"),
    )
}
