//! Which columns of a query are columns of tables as they are: clients of PostgreSQL's protocol are told, and some write to the tables.
//!
//! Invariant: what is computed, or comes of several tables, is of none.

use crate::session::run::outcome::Origin;
use crate::table::AlluviaTable;
use alluvia_pg_catalog::table_oid;
use alluvia_space::{DataType, TableDef};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::logical_expr::{Distinct, Expr, JoinType, LogicalPlan};
use std::sync::Arc;

/// Those of all columns of a query.
pub(crate) type Origins = Arc<[Option<Origin>]>;

/// Columns of a query of which it is told: finding each takes time with their number.
const COLUMNS_MAX: usize = 500;

/// Where the columns that a plan gives are from.
pub(crate) fn origins(plan: &LogicalPlan) -> Origins {
    match plan.schema().fields().len() {
        count @ 0..=COLUMNS_MAX => (0..count).map(|at| of_column(plan, at)).collect(),
        _ => Arc::default(),
    }
}

/// A column of a table, by its place from 0 on; `None` of a hidden one, behind these.
pub(crate) fn origin(def: &TableDef, place: usize) -> Option<Origin> {
    let column = def.columns.get(place)?;
    let table_oid = u32::try_from(table_oid(def.id.0)).ok()?;
    let chars_max = column.chars_max.filter(|_| column.data_type == DataType::Text);
    Some(Origin { table_oid, column: i16::try_from(place + 1).ok()?, chars_max })
}

fn of_column(plan: &LogicalPlan, at: usize) -> Option<Origin> {
    match plan {
        LogicalPlan::Projection(projection) => of_expr(&projection.input, projection.expr.get(at)?),
        LogicalPlan::Filter(filter) => of_column(&filter.input, at),
        LogicalPlan::Sort(sort) => of_column(&sort.input, at),
        LogicalPlan::Limit(limit) => of_column(&limit.input, at),
        LogicalPlan::SubqueryAlias(alias) => of_column(&alias.input, at),
        LogicalPlan::Distinct(Distinct::All(input)) => of_column(input, at),
        LogicalPlan::Distinct(Distinct::On(on)) => of_expr(&on.input, on.select_expr.get(at)?),
        LogicalPlan::Aggregate(aggregate) => of_expr(&aggregate.input, aggregate.group_expr.get(at)?),
        LogicalPlan::Window(window) if at < window.input.schema().fields().len() => of_column(&window.input, at),
        LogicalPlan::Join(join) => {
            let left = join.left.schema().fields().len();
            match join.join_type {
                JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full if at >= left => {
                    of_column(&join.right, at - left)
                }
                JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => of_column(&join.right, at),
                _ if at < left => of_column(&join.left, at),
                _ => None,
            }
        }
        LogicalPlan::TableScan(scan) => {
            let place = match &scan.projection {
                Some(projection) => *projection.get(at)?,
                None => at,
            };
            let provider = source_as_provider(&scan.source).ok()?;
            origin(&provider.downcast_ref::<AlluviaTable>()?.entry().def, place)
        }
        _ => None,
    }
}

fn of_expr(input: &LogicalPlan, expr: &Expr) -> Option<Origin> {
    match expr {
        Expr::Alias(alias) => of_expr(input, &alias.expr),
        Expr::Column(column) => of_column(input, input.schema().maybe_index_of_column(column)?),
        _ => None,
    }
}
