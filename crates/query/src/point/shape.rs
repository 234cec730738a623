//! Which plans are those of point reads.

use super::aggregates::Aggregates;
use super::kept::PointPlans;
use super::plan::{PointKeys, PointPlan};
use super::values::of_literal;
use crate::answer::NamedView;
use crate::result_names::named_schema;
use crate::table::{AlluviaTable, sql_schema};
use alluvia_catalog::{RelationName, TableEntry};
use alluvia_skipping::Parts;
use alluvia_snapshot::row_columns;
use alluvia_space::TableDef;
use alluvia_syntax::alike::{AlikeText, Compared, ComparedWith, Comparison};
use alluvia_syntax::{MARK, ResultNames};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::default_table_source::source_as_provider;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column as NamedColumn, DFSchema, Result, ScalarValue};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr_rewriter::unnormalize_cols;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    Aggregate, Expr, FetchType, LogicalPlan, Operator, Projection, SkipType, TableScan, Volatility,
};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, create_physical_expr};
use std::sync::Arc;

/// A text whose words say that it may be a point read of a table; its plan will say whether it is.
#[derive(Debug)]
pub(crate) struct PointText {
    text: Arc<str>,
    shown: Option<Arc<ResultNames>>,
    name: RelationName,
    view: Option<NamedView>,
    entry: Arc<TableEntry>,
    memory_limit_bytes: u64,
}

impl PointText {
    /// A text that reads this table alone, under this name, in a session that may hold so many bytes; `None` where its words say that it is
    /// none, or that its plan is known as well as it can be. With `view` the name is that view's.
    pub(crate) fn new(
        text: &Arc<str>,
        name: RelationName,
        view: Option<NamedView>,
        entry: &Arc<TableEntry>,
        memory_limit_bytes: u64,
        plans: &PointPlans,
    ) -> Option<PointText> {
        let names = key_names(&entry.def)?;
        let alike = AlikeText::new(text).filter(|alike| alike.begins_with("select"))?;
        // What is said of other values is not said of these.
        for (compared, at) in alike.compared(&names)?.into_iter().zip(entry.def.key_columns()?) {
            for with in compared.values() {
                if let ComparedWith::Literal { at: literal, is_negative } = *with {
                    of_literal(alike.literals().get(literal)?, is_negative, entry.def.columns[at].data_type)?;
                }
            }
        }
        if !plans.want(&alike, entry, view.as_ref(), memory_limit_bytes) {
            return None;
        }
        let (text, entry) = (Arc::clone(text), Arc::clone(entry));
        Some(PointText { text, shown: None, name, view, entry, memory_limit_bytes })
    }

    /// With what the columns of its answer are called.
    pub(crate) fn shown_as(self, shown: Option<Arc<ResultNames>>) -> PointText {
        PointText { shown, ..self }
    }

    /// Keeps its plan, if it is that of a point read. `plan` is what was planned by `state`, and not yet optimised; `schema`
    /// is what came of it.
    pub(crate) fn keep(&self, plan: &LogicalPlan, state: &SessionState, schema: &SchemaRef, plans: &PointPlans) {
        let Some(alike) = AlikeText::new(&self.text) else { return };
        let kept = self.point_plan(&alike, plan, state, schema);
        plans.insert(&alike, kept);
    }

    fn point_plan(
        &self,
        alike: &AlikeText,
        plan: &LogicalPlan,
        state: &SessionState,
        schema: &SchemaRef,
    ) -> Option<PointPlan> {
        let schema = &named_schema(schema, self.shown.as_deref());
        let def = &self.entry.def;
        let key = alike.compared(&key_names(def)?)?;
        // Columns that were told apart are shown under other names than the plan's.
        if schema.fields().iter().any(|field| field.name().contains(MARK)) || !is_of_the_row_alone(plan) {
            return None;
        }
        let optimized = state.optimize(plan).ok()?;
        let Shape { projection, aggregate, scan, is_limited } = shape_of(&optimized)?;
        let provider = source_as_provider(&scan.source).ok()?;
        let table = provider.downcast_ref::<AlluviaTable>().filter(|table| !table.is_drawn())?;
        if table.entry().def.id != def.id || table.entry().changed_at != self.entry.changed_at {
            return None;
        }
        let filters = unnormalize_cols(scan.filters.iter().cloned());
        let (planned, others) = apart(&filters, def)?;
        self.check_values(alike, &key, &planned)?;
        // Of one key there is one row at most.
        let is_range = key.iter().any(|compared| compared.equal.is_none());
        if is_limited && is_range {
            return None;
        }
        let aggregates = match aggregate {
            Some(node) if !node.aggr_expr.iter().all(|expr| arguments_of(expr).iter().all(is_plain)) => return None,
            Some(node) => Some(Aggregates::new(node, state)?),
            None => None,
        };
        let shown = projection.map(|projection| projection.expr.as_slice()).unwrap_or_default();
        if !shown.iter().chain(&others).all(is_plain) {
            return None;
        }
        let planning = PhysicalPlanningContext::default();
        let physical =
            |expr: &Expr, schema: &DFSchema| create_physical_expr(expr, schema, state.execution_props(), &planning);
        let sql = sql_schema(def);
        let whole = DFSchema::try_from(Arc::clone(&sql)).ok()?;
        let filter = Parts::new(&others, def).prepare(|expr| physical(expr, &whole)).ok()?;
        let mut columns = scan.projection.clone().unwrap_or_else(|| (0..def.columns.len()).collect());
        let wanted = columns.len();
        for column in filter.parts().iter().flat_map(collect_columns) {
            if !columns.contains(&column.index()) {
                columns.push(column.index());
            }
        }
        if is_range {
            let of_key = def.key_columns()?;
            columns.extend(of_key.into_iter().filter(|at| !columns.contains(at)).collect::<Vec<_>>());
        }
        let read = Arc::new(sql.project(&columns).ok()?);
        // What is shown is shown of these.
        let whole = aggregates.as_ref().map_or(&read, Aggregates::schema);
        let wanted = if aggregates.is_some() { whole.fields().len() } else { wanted };
        let shown: Vec<Arc<dyn PhysicalExpr>> = match projection {
            Some(projection) => {
                let shown = projection.expr.iter().map(|expr| physical(expr, projection.input.schema()));
                shown.collect::<Result<_>>().ok()?
            }
            None => (0..wanted)
                .map(|at| Arc::new(Column::new(whole.field(at).name(), at)) as Arc<dyn PhysicalExpr>)
                .collect(),
        };
        let types = shown.iter().map(|expr| expr.data_type(whole)).collect::<Result<Vec<DataType>>>().ok()?;
        if !types.iter().eq(schema.fields().iter().map(|field| field.data_type())) {
            return None;
        }
        let is_it =
            |with: &ComparedWith, at: usize| matches!(with, ComparedWith::Literal { at: of_key, .. } if *of_key == at);
        let of_key = |at: &usize| key.iter().flat_map(Compared::values).any(|with| is_it(with, *at));
        let fixed = (0..alike.literals().len()).filter(|at| !of_key(at));
        Some(PointPlan {
            name: self.name.clone(),
            view: self.view.clone(),
            entry: Arc::clone(&self.entry),
            fixed: fixed.map(|at| (at, alike.literals()[at].to_owned_literal())).collect(),
            key,
            filter: filter.over(&columns).ok()?,
            aggregates,
            row_columns: row_columns(def, &columns),
            columns,
            read,
            shown,
            schema: Arc::clone(schema),
            memory_limit_bytes: self.memory_limit_bytes,
        })
    }

    /// Whether the plan compares the key with what the text says; of parameters the plan alone has the values.
    fn check_values(
        &self,
        alike: &AlikeText,
        key: &[Compared<ComparedWith>],
        planned: &[Compared<ScalarValue>],
    ) -> Option<()> {
        let def = &self.entry.def;
        let column = |((compared, planned), at): ((&Compared<ComparedWith>, &Compared<ScalarValue>), usize)| {
            let data_type = def.columns[at].data_type;
            let mut known = planned.values();
            // Comparisons of one column are in one order here and there, each at most once.
            compared.try_map(|with| {
                let planned = known.next()?;
                match *with {
                    ComparedWith::Literal { at: literal, is_negative } => {
                        of_literal(alike.literals().get(literal)?, is_negative, data_type)
                    }
                    ComparedWith::Parameter(_) => Some(planned.clone()),
                }
            })
        };
        let written = key.iter().zip(planned).zip(def.key_columns()?).map(column).collect::<Option<Vec<_>>>()?;
        PointKeys::new(planned, def)?.is_same_as(&PointKeys::new(&written, def)?).then_some(())
    }
}

/// What SQL calls the columns of the key, in its order.
pub(crate) fn key_names(def: &TableDef) -> Option<Vec<&str>> {
    Some(def.key_columns()?.into_iter().map(|at| def.columns[at].name.as_str()).collect())
}

/// What a plan is made of.
struct Shape<'a> {
    projection: Option<&'a Projection>,
    aggregate: Option<&'a Aggregate>,
    scan: &'a TableScan,
    /// Whether it gives no more than some rows.
    is_limited: bool,
}

/// The scan of a plan that is nothing else, but for a projection, aggregates without groups, names, and limits that leave a row.
fn shape_of(plan: &LogicalPlan) -> Option<Shape<'_>> {
    let (mut node, mut projection, mut aggregate, mut is_limited) = (plan, None, None, false);
    loop {
        node = match node {
            // Of all rows together there is one.
            LogicalPlan::Limit(limit) if aggregate.is_none() => {
                let skips = !matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)));
                let fetches = match limit.get_fetch_type() {
                    Ok(FetchType::Literal(most)) => most != Some(0),
                    _ => false,
                };
                if skips || !fetches {
                    return None;
                }
                is_limited = true;
                limit.input.as_ref()
            }
            LogicalPlan::Projection(shown) if projection.is_none() && aggregate.is_none() => {
                projection = Some(shown);
                shown.input.as_ref()
            }
            LogicalPlan::Aggregate(node) if aggregate.is_none() && node.group_expr.is_empty() => {
                aggregate = Some(node);
                is_limited = false;
                node.input.as_ref()
            }
            LogicalPlan::SubqueryAlias(alias) => alias.input.as_ref(),
            LogicalPlan::TableScan(scan) if scan.fetch != Some(0) => {
                let is_limited = is_limited || scan.fetch.is_some();
                return Some(Shape { projection, aggregate, scan, is_limited });
            }
            _ => return None,
        }
    }
}

/// The arguments of an aggregate.
fn arguments_of(expr: &Expr) -> &[Expr] {
    match expr {
        Expr::Alias(alias) => arguments_of(&alias.expr),
        Expr::AggregateFunction(call) => &call.params.args,
        _ => &[],
    }
}

/// What filters compare the columns of the key with, in its order, and the other filters; `None` where one of the columns is looked at by
/// anything else.
fn apart(filters: &[Expr], def: &TableDef) -> Option<(Vec<Compared<ScalarValue>>, Vec<Expr>)> {
    let names = key_names(def)?;
    let mut compared: Vec<Compared<ScalarValue>> = vec![Compared::default(); names.len()];
    let mut others = Vec::new();
    let place = |column: &NamedColumn| names.iter().position(|name| *name == column.name);
    for part in filters.iter().flat_map(split_conjunction) {
        if !part.column_refs().into_iter().any(|column| place(column).is_some()) {
            others.push(part.clone());
            continue;
        }
        let Expr::BinaryExpr(binary) = part else { return None };
        let (column, operator, value) = match (binary.left.as_ref(), binary.right.as_ref()) {
            (Expr::Column(column), Expr::Literal(value, _)) => (column, binary.op, value),
            (Expr::Literal(value, _), Expr::Column(column)) => (column, binary.op.swap()?, value),
            _ => return None,
        };
        let comparison = match operator {
            Operator::Eq => Comparison::Equal,
            Operator::Lt => Comparison::Less,
            Operator::LtEq => Comparison::LessOrEqual,
            Operator::Gt => Comparison::Greater,
            Operator::GtEq => Comparison::GreaterOrEqual,
            _ => return None,
        };
        compared[place(column)?].add(comparison, value.clone())?;
    }
    Some((compared, others))
}

/// Whether all that a plan evaluates is told by rows alone: the same now and later, here and elsewhere.
fn is_of_the_row_alone(plan: &LogicalPlan) -> bool {
    let mut holds = true;
    let walked = plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                holds &= match expr {
                    Expr::ScalarFunction(call) => call.func.signature().volatility == Volatility::Immutable,
                    Expr::Placeholder(_) | Expr::ScalarVariable(..) | Expr::HigherOrderFunction(_) => false,
                    _ => true,
                };
                Ok(if holds { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
            })
        })
    });
    walked.is_ok() && holds
}

/// Whether an expression of an optimised plan is of kinds that mean the same for every row, and whose literals are not
/// moments, which may have come of the clock.
fn is_plain(expr: &Expr) -> bool {
    let mut holds = true;
    let walked = expr.apply(|expr| {
        holds &= match expr {
            Expr::Literal(value, _) => !value.data_type().is_temporal(),
            Expr::Alias(_)
            | Expr::Column(_)
            | Expr::BinaryExpr(_)
            | Expr::Like(_)
            | Expr::Not(_)
            | Expr::IsNotNull(_)
            | Expr::IsNull(_)
            | Expr::IsTrue(_)
            | Expr::IsFalse(_)
            | Expr::IsUnknown(_)
            | Expr::IsNotTrue(_)
            | Expr::IsNotFalse(_)
            | Expr::IsNotUnknown(_)
            | Expr::Negative(_)
            | Expr::Between(_)
            | Expr::Case(_)
            | Expr::Cast(_)
            | Expr::TryCast(_)
            | Expr::InList(_) => true,
            Expr::ScalarFunction(call) => call.func.signature().volatility == Volatility::Immutable,
            _ => false,
        };
        Ok(if holds { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.is_ok() && holds
}
