//! The columns of tables that a query names, by its plan as it was written, before anything is optimised away.
//!
//! Invariant: a column that is not told of can go, and the query still means what it meant. What the walk does not know is taken to use all.
//!
//! A column that is only carried (through an alias, a filter, a join) is where it came from; whatever computes with it uses it. So of
//! `SELECT b FROM (SELECT * FROM t) s` all columns of `t` are used: the query within names them, as PostgreSQL has it.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Distinct, Expr, Join, JoinType, LogicalPlan, TableScan, TableSource};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a plan uses of one scan.
#[derive(Clone)]
pub struct ScanColumns {
    /// The table.
    pub source: Arc<dyn TableSource>,
    /// The places of the columns.
    pub columns: BTreeSet<usize>,
}

/// What a plan uses of each of its scans. Its own columns are used.
pub fn columns_read(plan: &LogicalPlan) -> Result<Vec<ScanColumns>> {
    let mut reading = Reading { scans: Vec::new() };
    let shown = reading.visit(plan, &[])?;
    reading.use_all(&shown);
    Ok(reading.scans)
}

/// For each column of a plan the columns of scans that it is, unless it is computed.
type Origins = Vec<Vec<(usize, usize)>>;

/// What names in an expression may mean.
type Known = (DFSchemaRef, Origins);

struct Reading {
    scans: Vec<ScanColumns>,
}

impl Reading {
    fn use_all(&mut self, origins: &Origins) {
        for (scan, column) in origins.iter().flatten() {
            self.scans[*scan].columns.insert(*column);
        }
    }

    /// What a plan's columns are, once what it uses itself is noted. `around` are the queries that it is a part of.
    fn visit(&mut self, plan: &LogicalPlan, around: &[Known]) -> Result<Origins> {
        match plan {
            LogicalPlan::TableScan(scan) => return self.scan(scan),
            // What is planned for each row of the left side is planned by its names.
            LogicalPlan::Join(join) => return self.join(plan, join, around),
            _ => {}
        }
        let mut inputs: Vec<Known> = Vec::new();
        for input in plan.inputs() {
            let origins = self.visit(input, around)?;
            inputs.push((Arc::clone(input.schema()), origins));
        }
        self.expressions(plan, &inputs, around)?;
        let computed = |columns: usize| vec![Vec::new(); columns];
        let columns = plan.schema().fields().len();
        let first = inputs.first().map(|(_, origins)| origins.clone());
        let carried = match (plan, first) {
            (
                LogicalPlan::Filter(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Limit(_)
                | LogicalPlan::Distinct(Distinct::All(_))
                | LogicalPlan::Subquery(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::Repartition(_),
                Some(first),
            ) => first,
            (LogicalPlan::Window(_), Some(mut first)) if first.len() <= columns => {
                first.resize(columns, Vec::new());
                first
            }
            (
                LogicalPlan::Projection(_)
                | LogicalPlan::Aggregate(_)
                | LogicalPlan::Distinct(Distinct::On(_))
                | LogicalPlan::Values(_)
                | LogicalPlan::EmptyRelation(_),
                _,
            ) => computed(columns),
            (LogicalPlan::Union(_) | LogicalPlan::RecursiveQuery(_), Some(mut first)) => {
                for (_, other) in &inputs[1..] {
                    first.iter_mut().zip(other).for_each(|(of, more)| of.extend(more));
                }
                first
            }
            _ => {
                inputs.iter().for_each(|(_, origins)| self.use_all(origins));
                computed(columns)
            }
        };
        if carried.len() == columns {
            return Ok(carried);
        }
        self.use_all(&carried);
        Ok(computed(columns))
    }

    fn scan(&mut self, scan: &TableScan) -> Result<Origins> {
        let at = self.scans.len();
        let of_schema = |name: &str| scan.source.schema().index_of(name).ok();
        let filtered = scan.filters.iter().flat_map(Expr::column_refs).filter_map(|column| of_schema(&column.name));
        self.scans.push(ScanColumns { source: Arc::clone(&scan.source), columns: filtered.collect() });
        let all = 0..scan.source.schema().fields().len();
        let places: Vec<usize> = scan.projection.clone().unwrap_or_else(|| all.collect());
        Ok(places.into_iter().map(|place| vec![(at, place)]).collect())
    }

    fn join(&mut self, plan: &LogicalPlan, join: &Join, around: &[Known]) -> Result<Origins> {
        let left = self.visit(&join.left, around)?;
        let mut beside = around.to_vec();
        beside.push((Arc::clone(join.left.schema()), left.clone()));
        let right = self.visit(&join.right, &beside)?;
        let inputs = [(Arc::clone(join.left.schema()), left.clone()), (Arc::clone(join.right.schema()), right.clone())];
        self.expressions(plan, &inputs, around)?;
        let marked = |mut origins: Origins| {
            origins.push(Vec::new());
            origins
        };
        Ok(match join.join_type {
            JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => {
                left.into_iter().chain(right).collect()
            }
            JoinType::LeftSemi | JoinType::LeftAnti => left,
            JoinType::RightSemi | JoinType::RightAnti => right,
            JoinType::LeftMark => marked(left),
            JoinType::RightMark => marked(right),
        })
    }

    /// Notes what a plan's own expressions use.
    fn expressions(&mut self, plan: &LogicalPlan, inputs: &[Known], around: &[Known]) -> Result<()> {
        let mut expressions = Vec::new();
        plan.apply_expressions(|expr| {
            expressions.push(expr.clone());
            Ok(TreeNodeRecursion::Continue)
        })?;
        for expr in &expressions {
            expr.apply(|expr| {
                match expr {
                    Expr::Column(column) => self.name(column, inputs),
                    Expr::OuterReferenceColumn(_, column) => self.name(column, around),
                    Expr::Exists(exists) => self.subquery(&exists.subquery, inputs, around)?,
                    Expr::InSubquery(within) => self.subquery(&within.subquery, inputs, around)?,
                    Expr::SetComparison(compared) => self.subquery(&compared.subquery, inputs, around)?,
                    Expr::ScalarSubquery(subquery) => self.subquery(subquery, inputs, around)?,
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })?;
        }
        Ok(())
    }

    fn subquery(&mut self, subquery: &Subquery, inputs: &[Known], around: &[Known]) -> Result<()> {
        let around: Vec<Known> = around.iter().chain(inputs).cloned().collect();
        let shown = self.visit(&subquery.subquery, &around)?;
        self.use_all(&shown);
        Ok(())
    }

    /// Notes a column, which is one of the innermost query that has it.
    fn name(&mut self, column: &Column, known: &[Known]) {
        let place = |schema: &DFSchema| schema.maybe_index_of_column(column);
        let mut found = known.iter().rev().filter_map(|(schema, origins)| origins.get(place(schema)?));
        match found.next() {
            Some(origins) => self.use_all(&vec![origins.clone()]),
            None => known.iter().for_each(|(_, origins)| self.use_all(origins)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, runtime};

    #[test]
    fn columns_are_used_where_they_are_named() {
        let session = context();
        for table in ["t(a, b, c)", "u(a, d)"] {
            let (name, columns) = table.split_once('(').expect("has columns");
            let columns = columns.trim_end_matches(')').split(", ").map(|name| format!("{name} BIGINT"));
            let create = format!("CREATE TABLE {name} ({})", columns.collect::<Vec<_>>().join(", "));
            runtime().block_on(session.sql(&create)).expect("creates");
        }
        for (sql, wanted) in [
            ("SELECT a FROM t", "a"),
            ("SELECT * FROM t", "a b c"),
            ("SELECT count(*) FROM t", ""),
            ("SELECT 1 FROM t WHERE b > 1", "b"),
            ("SELECT s.a FROM (SELECT a, b FROM t) s", "a b"),
            ("SELECT x.a FROM t x, t y WHERE x.b = y.b", "a b, b"),
            ("SELECT c FROM t JOIN u USING (a)", "a c, a"),
            ("SELECT a FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.d = t.c)", "a c, d"),
            ("SELECT sum(b) OVER (ORDER BY c) FROM t", "b c"),
            ("SELECT a FROM t UNION ALL SELECT d FROM u", "a, d"),
            ("WITH w AS (SELECT b FROM t) SELECT count(*) FROM w", "b"),
            ("SELECT max(b) FROM t GROUP BY a HAVING min(c) > 1", "a b c"),
            ("SELECT a FROM t ORDER BY c", "a c"),
        ] {
            let plan = runtime().block_on(session.state().create_logical_plan(sql)).expect("plans");
            let mut told: Vec<String> = columns_read(&plan)
                .expect("walks")
                .iter()
                .map(|scan| {
                    let schema = scan.source.schema();
                    scan.columns.iter().map(|at| schema.field(*at).name().clone()).collect::<Vec<_>>().join(" ")
                })
                .collect();
            told.sort();
            let mut wanted: Vec<&str> = wanted.split(", ").collect();
            wanted.sort_unstable();
            assert_eq!(told, wanted, "{sql}");
        }
    }
}
