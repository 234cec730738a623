//! Subqueries wherever an expression may stand, with PostgreSQL's NULL, whatever they read from around them; and such as stand in FROM and read
//! what is beside them ([`lateral`]).
//!
//! Invariants:
//! - `x IN (SELECT y ...)` is true if one `y` equals `x`; else NULL if there is a `y` and `x` is NULL, or a `y` is NULL; else false. ANY
//!   and ALL are alike ([`meaning`]).
//! - What is left as a subquery is what DataFusion gets right ([`direct`]): in WHERE and HAVING its semi joins, and scalar subqueries
//!   of equal columns. All others become columns of what the expression reads: EXISTS a join that marks rows, a scalar subquery a left
//!   join with at most one row for each of the rows around it.
//! - A subquery is computed as if for each row around it by itself ([`domain`]): aggregates, windows, LIMIT and outer joins in it look
//!   together at the rows of one of them only.
//! - A plan has the columns that it had before, and as many rows.
//!
//! DataFusion 55.2 plans EXISTS and IN only below filters. It makes a column of a join that marks rows of all that is not a condition by
//! itself, and that column is never NULL: `NOT (x IN (...) AND b)`, `(x IN (...)) IS NULL`. Its
//! anti joins know of NULL only if they compare one column with one: not for `7 NOT IN (...)`, nor where the subquery reads columns from
//! around it. It takes the conditions of a subquery that read columns from around it out of the subquery and into the join, also where
//! they must come before: `EXISTS (SELECT max(y) FROM u WHERE u.k = t.k)` is true whatever there is, and was not.
//!
//! Mends apache/datafusion#8241, #24960, #25347, #25507 (in 55.2).

mod bounds;
pub mod direct;
pub mod domain;
mod lateral;
mod meaning;
mod single;
#[cfg(test)]
mod tests;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, NullEquality, Result, not_impl_err};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, Join, JoinConstraint, JoinType, LogicalPlan, Projection, Sort, SortExpr, Subquery, Window,
    lit,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use meaning::{FilterPosition, keep};
use std::collections::HashSet;
use std::sync::Arc;

/// The rule. It must be asked after types are known, and before anything pushes NOT around.
#[derive(Debug)]
pub struct SubqueriesKeepingNulls;

impl AnalyzerRule for SubqueriesKeepingNulls {
    fn name(&self) -> &str {
        "subqueries_keeping_nulls"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut names = Names::default();
        let kept = plan.transform_up_with_subqueries(|plan| node(plan, &mut names))?;
        if !kept.transformed {
            return Ok(kept.data);
        }
        let kept = lateral::unmarked(kept.data, &mut names)?.data;
        refuse_unknown(&kept)?;
        Ok(kept)
    }
}

/// What columns are called after that hold what is around a subquery.
const AROUND: &str = "around";

/// Names that no statement has.
#[derive(Default)]
pub struct Names(usize);

impl Names {
    fn next(&mut self, what: &str) -> String {
        self.0 += 1;
        format!("__{what}_{}", self.0)
    }
}

/// Whether a column holds what is around a subquery. The optimizer takes such up through projections, by their names.
pub(crate) fn is_from_around(name: &str) -> bool {
    name.strip_prefix("__").and_then(|rest| rest.strip_prefix(AROUND)).is_some_and(|rest| rest.starts_with('_'))
}

/// One node, whose inputs and subqueries have been through this.
fn node(plan: LogicalPlan, names: &mut Names) -> Result<Transformed<LogicalPlan>> {
    let plan = match plan {
        LogicalPlan::Join(join) if lateral::is_lateral(&join) && !lateral::is_left(&join)? => {
            return lateral::joined(join, names).map(Transformed::yes);
        }
        other => other,
    };
    if !reads_subqueries(&plan)? {
        return Ok(Transformed::no(plan));
    }
    let columns = plan.schema().columns();
    let preserver = NamePreserver::new(&plan);
    let with_columns = match plan {
        LogicalPlan::Filter(Filter { predicate, input, .. }) => filtered(predicate, input, names)?,
        LogicalPlan::Projection(Projection { expr, input, .. }) => {
            let mut below = Below::new(vec![input], Leaves::Values, names);
            let exprs = all_kept(expr, &preserver, &mut below)?;
            return Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(exprs, below.only())?)));
        }
        LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, .. }) => {
            let mut below = Below::new(vec![input], Leaves::Nothing, names);
            let groups = all_kept(group_expr, &preserver, &mut below)?;
            let aggregates = all_kept(aggr_expr, &preserver, &mut below)?;
            return Ok(Transformed::yes(LogicalPlan::Aggregate(Aggregate::try_new(below.only(), groups, aggregates)?)));
        }
        LogicalPlan::Window(Window { input, window_expr, .. }) => {
            let mut below = Below::new(vec![input], Leaves::Nothing, names);
            let windows = all_kept(window_expr, &preserver, &mut below)?;
            LogicalPlan::Window(Window::try_new(windows, below.only())?)
        }
        LogicalPlan::Sort(Sort { expr, input, fetch }) => {
            let input = with_columns_for(&expr, input)?;
            let mut below = Below::new(vec![input], Leaves::Nothing, names);
            let sorted = |mut sort: SortExpr| {
                sort.expr = keep(sort.expr, FilterPosition::Value, &mut below)?.data;
                Ok(sort)
            };
            let expr = expr.into_iter().map(sorted).collect::<Result<_>>()?;
            LogicalPlan::Sort(Sort { expr, input: below.only(), fetch })
        }
        LogicalPlan::Join(join) => return joined(join, names).map(Transformed::yes),
        other => return Ok(Transformed::no(other)),
    };
    only_columns(with_columns, columns).map(Transformed::yes)
}

/// A filter. What has no subqueries is asked first: where a subquery becomes a column, it is one of fewer rows.
fn filtered(predicate: Expr, input: Arc<LogicalPlan>, names: &mut Names) -> Result<LogicalPlan> {
    let (asking, plain): (Vec<Expr>, Vec<Expr>) =
        split_conjunction_owned(predicate.clone()).into_iter().partition(has_subquery);
    let rows = match conjunction(plain) {
        Some(plain) => Arc::new(LogicalPlan::Filter(Filter::try_new(plain, Arc::clone(&input))?)),
        None => Arc::clone(&input),
    };
    let mut below = Below::new(vec![rows], Leaves::Conditions, names);
    let asking = keep(conjunction(asking).unwrap_or(lit(true)), FilterPosition::Condition, &mut below)?.data;
    if Arc::ptr_eq(&below.before[0], &below.inputs[0]) {
        // Nothing became a column.
        let conditions = split_conjunction_owned(predicate).into_iter().filter(|condition| !has_subquery(condition));
        let conditions = conjunction(conditions.chain([asking])).unwrap_or(lit(true));
        return Ok(LogicalPlan::Filter(Filter::try_new(conditions, input)?));
    }
    Ok(LogicalPlan::Filter(Filter::try_new(asking, below.only())?))
}

/// These columns of a plan and no others.
fn only_columns(plan: LogicalPlan, columns: Vec<Column>) -> Result<LogicalPlan> {
    if plan.schema().columns() == columns {
        return Ok(plan);
    }
    projected(plan, columns.into_iter().map(Expr::Column).collect())
}

/// These expressions of a plan. Unlike DataFusion's builder it does not look for columns by parts of their names.
fn projected(plan: LogicalPlan, exprs: Vec<Expr>) -> Result<LogicalPlan> {
    Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?))
}

/// A join on a condition alone.
fn join_on(
    left: Arc<LogicalPlan>,
    right: LogicalPlan,
    join_type: JoinType,
    condition: Option<Expr>,
) -> Result<LogicalPlan> {
    let (constraint, equality) = (JoinConstraint::On, NullEquality::NullEqualsNothing);
    let join = Join::try_new(left, Arc::new(right), Vec::new(), condition, join_type, constraint, equality, false)?;
    Ok(LogicalPlan::Join(join))
}

/// Expressions of a node that names them.
fn all_kept(exprs: Vec<Expr>, preserver: &NamePreserver, below: &mut Below<'_>) -> Result<Vec<Expr>> {
    exprs.into_iter().map(|expr| Ok(kept_named(expr, preserver, below)?.data)).collect()
}

fn kept_named(expr: Expr, preserver: &NamePreserver, below: &mut Below<'_>) -> Result<Transformed<Expr>> {
    if matches!(expr, Expr::GroupingSet(_)) {
        return expr.map_children(|expr| kept_named(expr, preserver, below));
    }
    let name = preserver.save(&expr);
    let kept = keep(expr, FilterPosition::Value, below)?;
    Ok(if kept.transformed { kept.update_data(|expr| name.restore(expr)) } else { kept })
}

/// An inner join's conditions may as well come after it; those of other joins read columns of its sides.
fn joined(mut join: Join, names: &mut Names) -> Result<LogicalPlan> {
    let columns = join.schema.columns();
    let conditions = join.filter.take().map(split_conjunction_owned).unwrap_or_default();
    let (after, within): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(has_subquery);
    let Some(after) = conjunction(after) else {
        return Ok(LogicalPlan::Join(Join { filter: conjunction(within), ..join }));
    };
    if join.join_type == JoinType::Inner {
        join.filter = conjunction(within);
        let filter = Filter::try_new(after, Arc::new(LogicalPlan::Join(join)))?;
        return node(LogicalPlan::Filter(filter), names).map(|plan| plan.data);
    }
    let mut below = Below::new(vec![join.left, join.right], Leaves::Nothing, names);
    let after = keep(after, FilterPosition::Condition, &mut below)?.data;
    let [left, right] = <[_; 2]>::try_from(below.inputs).expect("a join has two sides");
    let filter = conjunction(within.into_iter().chain([after]));
    let join = Join::try_new(
        left,
        right,
        join.on,
        filter,
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    only_columns(LogicalPlan::Join(join), columns)
}

/// The input of ORDER BY with the columns that its subqueries read, where these are not selected.
fn with_columns_for(sorts: &[SortExpr], input: Arc<LogicalPlan>) -> Result<Arc<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = input.as_ref() else { return Ok(input) };
    let mut missing = Vec::new();
    for sort in sorts {
        sort.expr.apply(|expr| {
            for column in subquery_of(expr).map(|subquery| outer_columns(&subquery.subquery)).unwrap_or_default() {
                let is_missing = !input.schema().has_column(&column) && projection.input.schema().has_column(&column);
                if is_missing && !missing.contains(&column) {
                    missing.push(column);
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    if missing.is_empty() {
        return Ok(input);
    }
    if let Some(column) = missing.iter().find(|column| input.schema().has_column_with_unqualified_name(&column.name)) {
        return not_impl_err!(
            "ORDER BY of a subquery that reads {column}, where another column is called {}, is not supported: select {column}, too, or \
             call the other something else",
            column.name
        );
    }
    let exprs = projection.expr.iter().cloned().chain(missing.into_iter().map(Expr::Column)).collect();
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, Arc::clone(&projection.input))?)))
}

/// The subquery that an expression is.
fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. })
        | Expr::ScalarSubquery(subquery) => Some(subquery),
        _ => None,
    }
}

fn has_subquery(expr: &Expr) -> bool {
    expr.exists(|expr| Ok(subquery_of(expr).is_some())).is_ok_and(|has| has)
}

fn reads_subqueries(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_expressions(|expr| {
        found |= has_subquery(expr);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// The columns from around a query that it reads. What LATERAL reads of its neighbours is not from around.
fn outer_columns(plan: &LogicalPlan) -> Vec<Column> {
    let mut read = Vec::new();
    if let LogicalPlan::Join(join) = plan {
        read = outer_columns(&join.left);
        let is_lateral = join.right.exists(|plan| Ok(matches!(plan, LogicalPlan::Subquery(_)))).is_ok_and(|is| is);
        let of_right = outer_columns(&join.right).into_iter();
        read.extend(of_right.filter(|column| !is_lateral || !join.left.schema().has_column(column)));
    } else {
        read.extend(plan.inputs().into_iter().flat_map(outer_columns));
    }
    // Nothing fails here.
    let _ = plan.apply_expressions(|expr| {
        expr.apply(|expr| {
            if let Expr::OuterReferenceColumn(_, column) = expr {
                read.push(column.clone());
            }
            Ok(TreeNodeRecursion::Continue)
        })
    });
    let mut seen = HashSet::new();
    read.retain(|column| seen.insert(column.clone()));
    read
}

/// Which subqueries may stay where they are.
#[derive(Clone, Copy, PartialEq)]
enum Leaves {
    /// In a filter: EXISTS, IN and scalar subqueries.
    Conditions,
    /// In a projection: scalar subqueries.
    Values,
    /// Only scalar subqueries that read nothing from around them.
    Nothing,
}

/// What the expressions of a node read: its inputs, to which columns of subqueries are joined.
struct Below<'a> {
    inputs: Vec<Arc<LogicalPlan>>,
    /// The inputs as they were.
    before: Vec<Arc<LogicalPlan>>,
    leaves: Leaves,
    names: &'a mut Names,
}

impl Below<'_> {
    fn new(inputs: Vec<Arc<LogicalPlan>>, leaves: Leaves, names: &mut Names) -> Below<'_> {
        Below { before: inputs.clone(), inputs, leaves, names }
    }

    fn only(self) -> Arc<LogicalPlan> {
        self.inputs.into_iter().next().expect("a node has an input")
    }

    fn schema(&self) -> DFSchema {
        merge_schema(&self.inputs.iter().map(AsRef::as_ref).collect::<Vec<_>>())
    }

    /// Whether all that a query reads from around it is here, and not around that.
    fn has_all(&self, query: &LogicalPlan) -> bool {
        let is_here = |column: &Column| self.inputs.iter().any(|input| input.schema().has_column(column));
        outer_columns(query).iter().all(is_here)
    }

    /// The input that has the columns that a query reads from around it, and these. Others are from further out, and stay in it.
    fn place(&self, query: &LogicalPlan) -> Result<(usize, Vec<Column>)> {
        let read = outer_columns(query);
        let read_of = |input: &Arc<LogicalPlan>| -> Vec<Column> {
            read.iter().filter(|column| input.schema().has_column(column)).cloned().collect()
        };
        let mut read = self.inputs.iter().map(read_of).enumerate().filter(|(_, read)| !read.is_empty());
        let place = read.next().unwrap_or_default();
        if read.next().is_some() {
            return not_impl_err!("a subquery of columns of both sides of an outer join, in its ON, is not supported");
        }
        if !place.1.is_empty() {
            lateral::refuse_unclear(query, &place.1)?;
        }
        Ok(place)
    }

    /// Rows with all values of columns of an input: without the columns of other subqueries, if these are not asked for.
    fn rows_with(&self, place: usize, columns: &[Column]) -> Arc<LogicalPlan> {
        let has_all = columns.iter().all(|column| self.before[place].schema().has_column(column));
        Arc::clone(if has_all { &self.before[place] } else { &self.inputs[place] })
    }

    /// EXISTS as a column.
    fn mark(&mut self, query: &LogicalPlan) -> Result<Expr> {
        let query = direct::without_order(query);
        let (place, near) = self.place(query)?;
        let name = self.names.next("subquery");
        let input = Arc::clone(&self.inputs[place]);
        let (marks, condition) = match direct::pulled_up(query, &near, &name)? {
            Some(pulled) => pulled,
            None if near.is_empty() => (direct::at_most_one(query, &name)?, lit(true)),
            None => {
                let around = self.rows_with(place, &near);
                domain::keyed(query, &around, near, &name, self.names)?
            }
        };
        self.inputs[place] = Arc::new(join_on(input, marks, JoinType::LeftMark, Some(condition))?);
        Ok(Expr::Column(Column::new(Some(name), "mark")))
    }

    /// A scalar subquery as a column.
    fn scalar(&mut self, query: &LogicalPlan) -> Result<Expr> {
        let (place, near) = self.place(query)?;
        let name = self.names.next("subquery");
        let input = Arc::clone(&self.inputs[place]);
        let (rows, condition, value) = single::row_of(query, &self.rows_with(place, &near), near, &name, self.names)?;
        self.inputs[place] = Arc::new(join_on(input, rows, JoinType::Left, Some(condition))?);
        Ok(value)
    }
}

/// Refuses columns of nothing that is around the query that reads them.
fn refuse_unknown(plan: &LogicalPlan) -> Result<()> {
    let Some(column) = outer_columns(plan).into_iter().next() else { return Ok(()) };
    let is_grouped = plan.exists(|plan| match plan {
        LogicalPlan::Aggregate(aggregate) => Ok(aggregate.input.schema().has_column(&column)),
        _ => Ok(false),
    })?;
    if is_grouped {
        return Err(meaning::not_grouped(&column));
    }
    not_impl_err!(
        "a subquery that reads column {} from where it stands is not supported: write it as a join",
        column.name
    )
}
