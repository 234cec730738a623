//! Columns that FROM tells: merged ones of `JOIN ... USING (k)` and `NATURAL JOIN`, whole rows that are counted, `*` without some columns.
//!
//! DataFusion keeps the columns of both sides and takes `k` for the left one. So it takes a merged column in a subquery for one of the query
//! around, gives NULL for rows that only the right side has, and has `*` in the tables' order. Here the FROM of such a SELECT is planned
//! first, with a projection above each join that has the merged columns; then the SELECT is written out in the names that are left
//! ([`alluvia_syntax::trees::merged_columns`]) and planned above that.
//!
//! Invariants, as in PostgreSQL:
//! - A merged column is the left side's, of RIGHT JOIN the right side's, and of FULL JOIN the one that is not NULL. It has the type that both
//!   sides have in common.
//! - In `*` merged columns come first, then those of the left side, then those of the right.
//! - Both sides' own columns are there under their tables' names.
//! - `count(t.*)` counts the rows of `t`, and none that an outer join has filled up.
//! - A list of names behind a table may be shorter than its columns.
//! - Joins that merge nothing are planned as ever. Above the others is one projection, which renames, and casts or chooses where sides differ.
//!
//! Mends apache/datafusion#13774, #22881 (in 55.2).
//! Held by `slt/merged_columns.slt`.

mod join;

use alluvia_plan::shared_rows::SharedRows;
use alluvia_syntax::trees::merged_columns::{
    FromColumn, FromPart, HIDDEN, as_written, called, concerns, count_rows, counted_rows, expand, is_lateral, merges,
    merging, say_hidden, say_hidden_in_join, set_apart, sort_by_hidden, tables_of,
};
use alluvia_syntax::trees::named_queries::{self, is_computed_once};
use alluvia_values::errors::wrap;
use arrow::datatypes::FieldRef;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, DataFusionError, TableReference, internal_err};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{
    Ident, Join, ObjectName, Query, SelectItem, SetExpr, Statement, TableAlias, TableAliasColumnDef, TableFactor,
    TableWithJoins,
};
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};

type Result<T> = std::result::Result<T, DataFusionError>;

/// A statement's logical plan.
pub async fn statement_to_plan(state: &SessionState, tree: Tree) -> Result<LogicalPlan> {
    let mut tree = tree;
    let is_apart = match query_in(&mut tree) {
        Some(query) => {
            named_queries::write_out(query);
            set_apart(query)
        }
        None => false,
    };
    let plan = state.statement_to_plan(tree).await?;
    if is_apart { Ok(plan.transform_down_with_subqueries(without_repetition)?.data) } else { Ok(plan) }
}

fn query_in(tree: &mut Tree) -> Option<&mut Query> {
    match tree {
        Tree::Explain(explain) => query_in(&mut explain.statement),
        Tree::Statement(statement) => match statement.as_mut() {
            Statement::Query(query) => Some(query),
            _ => None,
        },
        _ => None,
    }
}

/// Takes out projections that give what they get, such as those above SELECTs that were put apart.
fn without_repetition(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = &plan else { return Ok(Transformed::no(plan)) };
    let input = projection.input.schema();
    let repeats = projection.expr.len() == input.fields().len()
        && projection.expr.iter().zip(input.iter()).all(|(expr, (relation, field))| match expr {
            Expr::Column(column) => column.relation.as_ref() == relation && column.name == *field.name(),
            _ => false,
        });
    match repeats {
        true => without_repetition(projection.input.as_ref().clone()).map(|plan| Transformed::yes(plan.data)),
        false => Ok(Transformed::no(plan)),
    }
}

/// Plans the SELECTs of one statement whose columns are told by their FROM.
#[derive(Debug, Default)]
pub struct MergedColumns {
    parts: Mutex<Parts>,
}

#[derive(Debug, Default)]
struct Parts {
    /// Parts of FROM that are planned, by the names under which the rest of the statement has them.
    planned: HashMap<String, LogicalPlan>,
    merged: usize,
    /// Whether the SELECT that is planned next is written out already.
    is_written_out: bool,
}

/// What is known of a FROM.
#[derive(Default)]
struct FromClause {
    /// What `*` means.
    parts: Vec<FromPart>,
    /// All columns of tables, in the tables' order.
    declared: Vec<FromColumn>,
    /// Those that are there under their table's name alone.
    hidden: Vec<FromColumn>,
    /// Tables whose whole rows are counted, and of these the ones that were found.
    counted: HashSet<String>,
    found: HashSet<String>,
}

impl RelationPlanner for MergedColumns {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        if std::mem::take(&mut self.parts.lock().is_written_out) {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        let planned = match relation {
            TableFactor::Derived { lateral: false, subquery, alias: Some(alias), sample: None }
                if is_computed_once(&alias) =>
            {
                let rows = TableFactor::Derived { lateral: false, subquery, alias: None, sample: None };
                let plan = context.plan(rows)?;
                // What depends on a row around it is computed for that row.
                let is_alone = plan.all_out_ref_exprs().is_empty();
                PlannedRelation::new(if is_alone { SharedRows::of(plan)? } else { plan }, None)
            }
            TableFactor::Derived { lateral: _, subquery, alias, sample: None } if concerns(&subquery) => {
                let plan = self.select(*subquery, context)?;
                named(plan, alias)
            }
            TableFactor::Derived { lateral, subquery, alias: Some(alias), sample: None } if has_names(&alias) => {
                let plan = context.plan(TableFactor::Derived { lateral, subquery, alias: None, sample: None })?;
                named(plan, Some(alias))
            }
            TableFactor::Table {
                name,
                alias,
                args,
                with_hints,
                version,
                with_ordinality,
                partitions,
                json_path,
                sample,
                index_hints,
            } => {
                if let Some(plan) = self.planned(&name) {
                    return Ok(RelationPlanning::Planned(Box::new(named(plan, alias))));
                }
                let (own, outer) = match alias {
                    Some(alias) if has_names(&alias) && args.is_none() && sample.is_none() => (None, Some(alias)),
                    alias => (alias, None),
                };
                let table = TableFactor::Table {
                    name,
                    alias: own,
                    args,
                    with_hints,
                    version,
                    with_ordinality,
                    partitions,
                    json_path,
                    sample,
                    index_hints,
                };
                match outer {
                    Some(alias) => named(context.plan(table)?, Some(alias)),
                    None => return Ok(RelationPlanning::Original(Box::new(table))),
                }
            }
            relation => return Ok(RelationPlanning::Original(Box::new(relation))),
        };
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}

fn has_names(alias: &TableAlias) -> bool {
    !alias.columns.is_empty()
}

/// A plan with an alias, whose list of names may be shorter than the plan's columns: the rest keep their names.
fn named(plan: LogicalPlan, alias: Option<TableAlias>) -> PlannedRelation {
    let alias = alias.map(|mut alias| {
        if has_names(&alias) {
            let rest = plan.schema().fields().iter().skip(alias.columns.len());
            let rest = rest.map(|field| Ident::with_quote('"', field.name()));
            alias.columns.extend(rest.map(|name| TableAliasColumnDef { name, data_type: None }));
        }
        alias
    });
    PlannedRelation::new(plan, alias)
}

impl MergedColumns {
    fn planned(&self, name: &ObjectName) -> Option<LogicalPlan> {
        let [part] = name.0.as_slice() else { return None };
        let name = &part.as_ident()?.value;
        if !name.starts_with(HIDDEN) {
            return None;
        }
        self.parts.lock().planned.get(name).cloned()
    }

    /// A part of FROM that stands for a plan.
    fn stands_for(&self, plan: LogicalPlan, alias: Option<TableAlias>) -> TableFactor {
        let mut parts = self.parts.lock();
        let name = format!("{HIDDEN}from {}", parts.planned.len());
        parts.planned.insert(name.clone(), plan);
        TableFactor::Table {
            name: ObjectName::from(vec![Ident::with_quote('"', name)]),
            alias,
            args: None,
            with_hints: Vec::new(),
            version: None,
            with_ordinality: false,
            partitions: Vec::new(),
            json_path: None,
            sample: None,
            index_hints: Vec::new(),
        }
    }

    /// The table of merged columns that are of neither side, which no other join has.
    fn new_relation(&self) -> TableReference {
        let mut parts = self.parts.lock();
        parts.merged += 1;
        TableReference::bare(format!("{HIDDEN}{}", parts.merged))
    }

    fn select(&self, mut query: Query, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
        let mut from = FromClause { counted: counted_rows(&query), ..FromClause::default() };
        let SetExpr::Select(select) = query.body.as_mut() else { return internal_err!("a SELECT was expected") };
        let has_all = select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
        for item in &mut select.from {
            let counts = tables_of(item).iter().any(|table| from.counted.contains(table));
            if !merges(item) && (!counts && !has_all || is_lateral(item)) {
                from.parts.extend(tables_of(item).into_iter().map(FromPart::Table));
                continue;
            }
            let TableWithJoins { relation, joins } = item.clone();
            let plan = self.joined(relation, joins, &mut from, context)?;
            for (relation, field) in plan.schema().iter() {
                let column = column_of(relation, field.name());
                match column.name.strip_suffix(HIDDEN) {
                    Some(name) => from.hidden.push(FromColumn { name: name.to_owned(), ..column }),
                    None => from.parts.push(FromPart::Column(column)),
                }
            }
            *item = TableWithJoins { relation: self.stands_for(plan, None), joins: Vec::new() };
        }
        expand(select, &from.parts, &from.declared, &from.hidden).map_err(wrap)?;
        sort_by_hidden(&mut query, &from.hidden);
        say_hidden(&mut query, &from.hidden);
        count_rows(&mut query, &from.found);
        let select = TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: None, sample: None };
        self.parts.lock().is_written_out = true;
        shown(context.plan(select)?)
    }

    /// Tables and joins of a part of FROM. Hidden columns of it have names of their own.
    fn joined(
        &self,
        relation: TableFactor,
        joins: Vec<Join>,
        from: &mut FromClause,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let mut left = self.side(relation, from, context)?;
        let mut plain: Vec<Join> = Vec::new();
        for join in joins {
            if let Some((merging, constraint)) = merging(&join.join_operator) {
                left = self.with_joins(left, std::mem::take(&mut plain), from, context)?;
                let right = self.side(join.relation, from, context)?;
                left = join::merged(left, right, merging, constraint, || self.new_relation(), context)?;
            } else {
                let is_ours = match &join.relation {
                    TableFactor::NestedJoin { table_with_joins, .. } => {
                        merges(table_with_joins)
                            || tables_of(table_with_joins).iter().any(|table| from.counted.contains(table))
                    }
                    factor => called(factor).is_some_and(|table| from.counted.contains(&table)),
                };
                let relation = match is_ours {
                    true => {
                        let plan = self.side(join.relation, from, context)?;
                        self.stands_for(plan, None)
                    }
                    false => join.relation,
                };
                plain.push(Join { relation, ..join });
            }
        }
        self.with_joins(left, plain, from, context)
    }

    /// A plan with joins that merge nothing behind it.
    fn with_joins(
        &self,
        left: LogicalPlan,
        mut joins: Vec<Join>,
        from: &mut FromClause,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        if joins.is_empty() {
            return Ok(left);
        }
        let hidden = hidden_of(left.schema());
        joins.iter_mut().for_each(|join| say_hidden_in_join(join, &hidden));
        let relation = self.stands_for(left, None);
        let plan = context.plan(TableFactor::NestedJoin {
            table_with_joins: Box::new(TableWithJoins { relation, joins }),
            alias: None,
        })?;
        from.declare(plan.schema());
        Ok(plan)
    }

    /// One side of a join.
    fn side(
        &self,
        factor: TableFactor,
        from: &mut FromClause,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<LogicalPlan> {
        let plan = match factor {
            TableFactor::NestedJoin { table_with_joins, alias } => {
                let TableWithJoins { relation, joins } = *table_with_joins;
                match alias {
                    None => self.joined(relation, joins, from, context)?,
                    // What is in the brackets has no other name than this one.
                    Some(alias) => {
                        let plan = self.joined(relation, joins, &mut FromClause::default(), context)?;
                        let seen = plan.schema().iter().filter(|(_, field)| !field.name().ends_with(HIDDEN));
                        let seen: Vec<Expr> = seen.map(|column| Expr::Column(Column::from(column))).collect();
                        let plan = LogicalPlanBuilder::from(plan).project(seen)?.build()?;
                        context.plan(self.stands_for(plan, Some(alias)))?
                    }
                }
            }
            factor => {
                let table = called(&factor).filter(|table| from.counted.contains(table));
                // Through brackets, which see to LATERAL.
                let alone = TableWithJoins { relation: factor, joins: Vec::new() };
                let plan = context.plan(TableFactor::NestedJoin { table_with_joins: Box::new(alone), alias: None })?;
                match table {
                    Some(table) => {
                        let row = lit(true).alias_qualified(Some(TableReference::bare(table.clone())), HIDDEN);
                        from.found.insert(table);
                        let columns = plan.schema().columns().into_iter().map(Expr::Column);
                        let columns: Vec<Expr> = columns.chain([row]).collect();
                        LogicalPlanBuilder::from(plan).project(columns)?.build()?
                    }
                    None => plan,
                }
            }
        };
        from.declare(plan.schema());
        Ok(plan)
    }
}

impl FromClause {
    /// Adds columns that are seen for the first time.
    fn declare(&mut self, schema: &DFSchema) {
        for (relation, field) in schema.iter().filter(|(_, field)| !field.name().ends_with(HIDDEN)) {
            let column = column_of(relation, field.name());
            if !self.declared.contains(&column) {
                self.declared.push(column);
            }
        }
    }
}

fn column_of(relation: Option<&TableReference>, name: &str) -> FromColumn {
    let relation = relation.map_or_else(Vec::new, TableReference::to_vec);
    FromColumn { relation, name: name.to_owned() }
}

fn hidden_of(schema: &DFSchema) -> Vec<FromColumn> {
    let hidden = schema.iter().filter_map(|(relation, field)| {
        let name = field.name().strip_suffix(HIDDEN)?;
        Some(column_of(relation, name))
    });
    hidden.collect()
}

/// A SELECT's columns under the names that are shown.
fn shown(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_shown = |field: &FieldRef| !field.name().contains(HIDDEN);
    if plan.schema().fields().iter().all(is_shown) {
        return Ok(plan);
    }
    let columns = plan.schema().iter().map(|(relation, field)| {
        let column = Expr::Column(Column::from((relation, field)));
        match is_shown(field) {
            true => column,
            false => column.alias_qualified(relation.cloned(), as_written(field.name())),
        }
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}
