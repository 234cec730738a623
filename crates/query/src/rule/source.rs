//! One table below a plan, seen through projections, aliases and filters.
//!
//! Invariant: the plan's rows are the table's rows for which all predicates are true, and each of its columns is the expression
//! that [`Source::resolve`] gives for it, over the table's own columns.

use crate::table::AlluviaTable;
use alluvia_catalog::TableEntry;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchemaRef};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan};
use std::sync::Arc;

/// A table's rows, some of them.
pub(super) struct Source {
    pub(super) entry: Arc<TableEntry>,
    schema: DFSchemaRef,
    /// What the plan's columns are, in the order of its schema; `None` where that is not known.
    columns: Vec<Option<Expr>>,
    /// All are true; over the table's own columns.
    pub(super) predicates: Vec<Expr>,
}

/// The one table that a plan reads; `None` where it does more with it than to filter rows and to compute columns.
pub(super) fn source_of(plan: &LogicalPlan) -> Option<Source> {
    match plan {
        LogicalPlan::TableScan(scan) => scanned(scan),
        LogicalPlan::Filter(filter) => {
            let mut source = source_of(&filter.input)?;
            let predicate = source.resolve(&filter.predicate)?;
            source.predicates.push(predicate);
            Some(source)
        }
        LogicalPlan::Projection(projection) => {
            let source = source_of(&projection.input)?;
            let columns = projection.expr.iter().map(|expr| source.resolve(expr)).collect();
            Some(Source { columns, schema: Arc::clone(&projection.schema), ..source })
        }
        // Columns keep their places, and are called otherwise.
        LogicalPlan::SubqueryAlias(alias) => {
            Some(Source { schema: Arc::clone(&alias.schema), ..source_of(&alias.input)? })
        }
        _ => None,
    }
}

fn scanned(scan: &TableScan) -> Option<Source> {
    // Which rows a scan gives that stops early is its own choice.
    if scan.fetch.is_some() {
        return None;
    }
    let provider = source_as_provider(&scan.source).ok()?;
    // The index knows of all rows.
    let table = provider.downcast_ref::<AlluviaTable>().filter(|table| !table.is_drawn())?;
    let own = |name: &str| Expr::Column(Column::new_unqualified(name));
    let columns = scan.projected_schema.fields().iter().map(|field| Some(own(field.name()))).collect();
    // What is pushed into a scan may be about columns that the scan does not give.
    let is_own = |column: &Column| column.relation.as_ref().is_none_or(|relation| *relation == scan.table_name);
    let filters = scan.filters.iter();
    let predicates = filters
        .map(|filter| with_columns(filter, &|column| is_own(column).then(|| own(&column.name))))
        .collect::<Option<_>>()?;
    Some(Source { entry: Arc::clone(table.entry()), schema: Arc::clone(&scan.projected_schema), columns, predicates })
}

impl Source {
    /// An expression over the plan's columns as one over the table's, without its name.
    pub(super) fn resolve(&self, expr: &Expr) -> Option<Expr> {
        let column = |column: &Column| self.columns.get(self.schema.maybe_index_of_column(column)?)?.clone();
        with_columns(without_alias(expr), &column)
    }
}

/// What an expression is called does not matter below.
pub(super) fn without_alias(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => without_alias(&alias.expr),
        other => other,
    }
}

/// An expression with others in the place of its columns; `None` if one of them has none. Subqueries, which may look outside, are
/// nobody's.
pub(super) fn with_columns(expr: &Expr, column: &dyn Fn(&Column) -> Option<Expr>) -> Option<Expr> {
    let mut is_known = true;
    let replaced = expr.clone().transform_up(|expr| match &expr {
        Expr::Column(named) => match column(named) {
            Some(replaced) => Ok(Transformed::yes(replaced)),
            None => {
                is_known = false;
                Ok(Transformed::new(expr, false, TreeNodeRecursion::Stop))
            }
        },
        Expr::Exists(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_)
        | Expr::ScalarSubquery(_)
        | Expr::OuterReferenceColumn(..) => {
            is_known = false;
            Ok(Transformed::new(expr, false, TreeNodeRecursion::Stop))
        }
        _ => Ok(Transformed::no(expr)),
    });
    replaced.ok().map(|replaced| replaced.data).filter(|_| is_known)
}
