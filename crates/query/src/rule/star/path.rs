//! The way from an aggregate down to its fact table.
//!
//! Invariants:
//! - A column that anything above looks at, other than the arguments of functions, is a group of the lower aggregate, under the
//!   name that it had; all other columns of the fact table are gone above it.
//! - A join on the way keeps rows of the fact table by their columns alone ([`fact_side`]).
//! - Keys come from plans that give the same rows whenever they run on one snapshot.

use super::super::node::{self, Purpose, Small};
use super::super::source::{Source, source_of, with_columns, without_alias};
use super::{exact, is_plain};
use crate::answer::Group;
use crate::rule::aggregate::group_of;
use crate::rule::condition::column_of;
use crate::table::StatementContext;
use alluvia_space::{CalendarUnit, DataType, LevelSource};
use arrow::datatypes::DataType as ArrowType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{Aggregate, Expr, Filter, Join, LogicalPlan, Projection, SubqueryAlias};
use std::sync::Arc;

/// Groups that a lower aggregate may always have.
const GROUPS_FREE: u64 = 1 << 16;
/// Days of some years.
const DAYS: u64 = 3_650;
/// Rows for each group below which the join is the cheaper place.
const ROWS_PER_GROUP_MIN: u64 = 4;

/// The fact table that is aggregated below the joins.
pub(super) struct Path<'a> {
    /// Where the way ends.
    pub(super) fact: &'a LogicalPlan,
    pub(super) rows: u64,
    pub(super) context: &'a Arc<StatementContext>,
}

/// What the plans above want of one on the way, in its columns.
pub(super) struct Below {
    /// Each once.
    pub(super) needed: Vec<Column>,
    /// Expressions to group by beside.
    pub(super) groups: Vec<Expr>,
    /// Partial functions.
    pub(super) arguments: Vec<Expr>,
    /// Expressions whose values are among those of a plan's only column, or the row is dropped above.
    pub(super) keys: Vec<(Expr, LogicalPlan)>,
}

/// A plan on the way, aggregated below.
pub(super) struct Cut {
    pub(super) plan: LogicalPlan,
    /// What the expressions to group by and the partial functions are called.
    pub(super) groups: Vec<Column>,
    pub(super) arguments: Vec<Column>,
}

/// Whether a join keeps and repeats rows of one side by their columns alone, and never fills them up with NULL.
pub(super) fn fact_side(join: JoinType, is_left: bool) -> bool {
    match join {
        JoinType::Inner => true,
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti => is_left,
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti => !is_left,
        _ => false,
    }
}

impl Path<'_> {
    /// The plan with the fact table aggregated.
    pub(super) fn cut(&self, plan: &LogicalPlan, below: Below) -> Option<Cut> {
        if std::ptr::eq(plan, self.fact) {
            return self.aggregated(below);
        }
        match plan {
            LogicalPlan::Projection(projection) => self.cut_projection(projection, below),
            LogicalPlan::Filter(filter) => self.cut_filter(filter, below),
            LogicalPlan::SubqueryAlias(alias) => self.cut_alias(alias, below),
            LogicalPlan::Join(join) => self.cut_join(join, below),
            _ => None,
        }
    }

    /// Whether a column of a plan on the way is one of the fact table's.
    pub(super) fn has(&self, plan: &LogicalPlan, column: &Column) -> bool {
        let Some(place) = plan.schema().maybe_index_of_column(column) else { return false };
        if std::ptr::eq(plan, self.fact) {
            return true;
        }
        match plan {
            LogicalPlan::Projection(projection) => match without_alias(&projection.expr[place]) {
                Expr::Column(column) => self.has(&projection.input, column),
                _ => false,
            },
            LogicalPlan::Filter(filter) => self.has(&filter.input, column),
            LogicalPlan::SubqueryAlias(alias) => self.has(&alias.input, &alias.input.schema().columns()[place]),
            LogicalPlan::Join(join) => {
                let side = if self.is_on(&join.left) { &join.left } else { &join.right };
                self.has(side, column)
            }
            _ => false,
        }
    }

    /// Whether the fact table is below a plan on the way.
    pub(super) fn is_on(&self, plan: &LogicalPlan) -> bool {
        if std::ptr::eq(plan, self.fact) {
            return true;
        }
        match plan {
            LogicalPlan::Projection(projection) => self.is_on(&projection.input),
            LogicalPlan::Filter(filter) => self.is_on(&filter.input),
            LogicalPlan::SubqueryAlias(alias) => self.is_on(&alias.input),
            LogicalPlan::Join(join) => self.is_on(&join.left) || self.is_on(&join.right),
            _ => false,
        }
    }

    fn cut_projection(&self, projection: &Projection, below: Below) -> Option<Cut> {
        let schema = projection.input.schema();
        let place_of = |column: &Column| projection.schema.maybe_index_of_column(column);
        let computed = |column: &Column| Some(without_alias(&projection.expr[place_of(column)?]).clone());
        let mut kept = Vec::with_capacity(below.needed.len());
        let mut needed = Vec::new();
        for column in &below.needed {
            let expr = &projection.expr[place_of(column)?];
            if !is_plain(expr) {
                return None;
            }
            kept.push(expr.clone());
            add_columns(expr, schema, &mut needed)?;
        }
        let moved = |exprs: &[Expr]| exprs.iter().map(|expr| with_columns(expr, &computed)).collect::<Option<Vec<_>>>();
        let (groups, arguments) = (moved(&below.groups)?, moved(&below.arguments)?);
        let keys = below.keys.into_iter();
        let keys = keys.filter_map(|(expr, plan)| Some((with_columns(&expr, &computed)?, plan))).collect();
        let cut = self.cut(&projection.input, Below { needed, groups, arguments, keys })?;
        let carried = cut.groups.iter().chain(&cut.arguments).cloned().map(Expr::Column);
        let plan = Projection::try_new(kept.into_iter().chain(carried).collect(), Arc::new(cut.plan)).ok()?;
        Some(Cut { plan: LogicalPlan::Projection(plan), ..cut })
    }

    fn cut_filter(&self, filter: &Filter, mut below: Below) -> Option<Cut> {
        if !is_plain(&filter.predicate) {
            return None;
        }
        add_columns(&filter.predicate, filter.input.schema(), &mut below.needed)?;
        let cut = self.cut(&filter.input, below)?;
        let plan = Filter::try_new(filter.predicate.clone(), Arc::new(cut.plan)).ok()?;
        Some(Cut { plan: LogicalPlan::Filter(plan), ..cut })
    }

    fn cut_alias(&self, alias: &SubqueryAlias, below: Below) -> Option<Cut> {
        let inner = alias.input.schema().columns();
        let renamed = |column: &Column| inner.get(alias.schema.maybe_index_of_column(column)?).cloned();
        let as_expr = |column: &Column| renamed(column).map(Expr::Column);
        let moved = |exprs: &[Expr]| exprs.iter().map(|expr| with_columns(expr, &as_expr)).collect::<Option<Vec<_>>>();
        let (groups, arguments) = (moved(&below.groups)?, moved(&below.arguments)?);
        let needed = below.needed.iter().map(renamed).collect::<Option<_>>()?;
        let keys = below.keys.into_iter();
        let keys = keys.filter_map(|(expr, plan)| Some((with_columns(&expr, &as_expr)?, plan))).collect();
        let cut = self.cut(&alias.input, Below { needed, groups, arguments, keys })?;
        let named = |column: &Column| Column::new(Some(alias.alias.clone()), &column.name);
        let (groups, arguments) = (cut.groups.iter().map(named).collect(), cut.arguments.iter().map(named).collect());
        let plan = SubqueryAlias::try_new(Arc::new(cut.plan), alias.alias.clone()).ok()?;
        Some(Cut { plan: LogicalPlan::SubqueryAlias(plan), groups, arguments })
    }

    fn cut_join(&self, join: &Join, below: Below) -> Option<Cut> {
        let is_left = self.is_on(&join.left);
        let (side, other) = if is_left { (&join.left, &join.right) } else { (&join.right, &join.left) };
        let is_known = |exprs: &[Expr]| {
            exprs.iter().flat_map(Expr::column_refs).all(|column| exact(side.schema(), column).is_some())
        };
        if !fact_side(join.join_type, is_left) || !is_known(&below.arguments) || !is_known(&below.groups) {
            return None;
        }
        let mut needed = Vec::new();
        let mut need = |column: &Column| -> Option<()> {
            match (exact(side.schema(), column), exact(other.schema(), column)) {
                (Some(column), None) if needed.contains(&column) => {}
                (Some(column), None) => needed.push(column),
                (None, Some(_)) => {}
                _ => return None,
            }
            Some(())
        };
        for column in &below.needed {
            need(column)?;
        }
        let pairs: Vec<(&Expr, &Expr)> =
            join.on.iter().map(|(left, right)| if is_left { (left, right) } else { (right, left) }).collect();
        for expr in pairs.iter().map(|(own, _)| *own).chain(&join.filter) {
            if !is_plain(expr) {
                return None;
            }
            expr.column_refs().into_iter().try_for_each(&mut need)?;
        }
        let mut keys = below.keys;
        // Keys from above may be the other side's.
        keys.retain(|(expr, _)| is_known(std::slice::from_ref(expr)));
        if narrows(join, other) && is_steady(other) {
            // Keys are read apart from the join: what is drawn anew each time would differ.
            for (own, expr) in pairs.into_iter().filter(|(_, expr)| is_plain(expr)) {
                let values = Projection::try_new(vec![expr.clone()], Arc::clone(other)).ok()?;
                keys.push((own.clone(), LogicalPlan::Projection(values)));
            }
        }
        let Below { groups, arguments, .. } = below;
        let cut = self.cut(side, Below { needed, groups, arguments, keys })?;
        let (plan, other) = (Arc::new(cut.plan), Arc::clone(other));
        let (left, right) = if is_left { (plan, other) } else { (other, plan) };
        let joined = Join::try_new(
            left,
            right,
            join.on.clone(),
            join.filter.clone(),
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        );
        Some(Cut { plan: LogicalPlan::Join(joined.ok()?), ..cut })
    }

    /// The lower aggregate, as the index's answer.
    fn aggregated(&self, below: Below) -> Option<Cut> {
        // Without groups there is a row where there are no rows.
        if below.needed.is_empty() && below.groups.is_empty() {
            return None;
        }
        let source = source_of(self.fact)?;
        let named = |kind: &str, exprs: Vec<Expr>| -> (Vec<Expr>, Vec<Column>) {
            let name = |place: usize| format!("__{kind}_{place}");
            let columns = (0..exprs.len()).map(|place| Column::new_unqualified(name(place))).collect();
            (exprs.into_iter().enumerate().map(|(place, expr)| expr.alias(name(place))).collect(), columns)
        };
        let (truncated, groups) = named("group", below.groups);
        let (partials, arguments) = named("partial", below.arguments);
        let by: Vec<Expr> = below.needed.into_iter().map(Expr::Column).chain(truncated).collect();
        let mut few = 1u64;
        for expr in &by {
            few = few.saturating_mul(self.members_of(&source, &group_of(&source.resolve(expr)?, &source.entry.def)?)?);
        }
        if few > GROUPS_FREE && few > self.rows / ROWS_PER_GROUP_MIN {
            return None;
        }
        let aggregate = Aggregate::try_new(Arc::new(self.fact.clone()), by, partials).ok()?;
        let keys = below.keys.into_iter().filter_map(|(expr, plan)| {
            let column = key_column(&source, &source.resolve(&expr)?)?;
            Some(Small { column, purpose: Purpose::Narrow, plan })
        });
        let plan = node::answer(&aggregate, keys.collect(), None, self.context)?;
        Some(Cut { plan, groups, arguments })
    }

    /// How many groups a column makes, about.
    fn members_of(&self, source: &Source, group: &Group) -> Option<u64> {
        let def = &source.entry.def;
        let read = node::readable(source, self.context)?;
        let (Group::Column(name) | Group::Truncated(_, name) | Group::TruncatedIn { column: name, .. }) = group;
        let column = def.columns.iter().find(|column| column.name == *name)?;
        if let Group::Truncated(unit, _) | Group::TruncatedIn { unit, .. } = group {
            // Of some years.
            return Some(match unit.as_str() {
                "year" => 10,
                "quarter" => 40,
                "month" => 120,
                "day" => DAYS,
                _ => 100_000,
            });
        }
        let level_of = |source: LevelSource| def.levels().position(|(_, _, level)| level.source == source);
        match level_of(LevelSource::Column(column.id)) {
            Some(level) => Some(u64::from(read.dictionaries.as_ref()?.len(level))),
            // A date is its day.
            None if column.data_type == DataType::Date => {
                level_of(LevelSource::Calendar(column.id, CalendarUnit::Day)).map(|_| DAYS)
            }
            None => None,
        }
    }
}

/// The column whose values keys are, if they can be told from its own.
pub(super) fn key_column(source: &Source, expr: &Expr) -> Option<String> {
    match expr {
        Expr::Cast(Cast { expr, field }) => {
            let name = column_of(expr)?;
            let column = source.entry.def.columns.iter().find(|column| column.name == name)?;
            // A value that does not fit a narrower type is an error.
            let is_wider = match column.data_type {
                DataType::Int16 => matches!(field.data_type(), ArrowType::Int16 | ArrowType::Int32 | ArrowType::Int64),
                DataType::Int32 => matches!(field.data_type(), ArrowType::Int32 | ArrowType::Int64),
                DataType::Int64 => *field.data_type() == ArrowType::Int64,
                _ => false,
            };
            is_wider.then_some(name)
        }
        plain => column_of(plain),
    }
}

fn add_columns(expr: &Expr, schema: &DFSchema, to: &mut Vec<Column>) -> Option<()> {
    for column in expr.column_refs() {
        let column = exact(schema, column)?;
        if !to.contains(&column) {
            to.push(column);
        }
    }
    Some(())
}

/// Whether a join drops rows of the fact table that have none of the other side's keys, and there may be such.
fn narrows(join: &Join, other: &LogicalPlan) -> bool {
    if join.null_equality != NullEquality::NullEqualsNothing {
        return false;
    }
    match join.join_type {
        JoinType::Inner => is_part(other),
        JoinType::LeftSemi | JoinType::RightSemi => true,
        _ => false,
    }
}

/// Whether a plan may lack keys that the table has whose keys they are.
fn is_part(plan: &LogicalPlan) -> bool {
    let is_less = |plan: &LogicalPlan| match plan {
        // Conditions may have been pushed into the scan altogether.
        LogicalPlan::TableScan(scan) => !scan.filters.is_empty(),
        LogicalPlan::Filter(_) | LogicalPlan::Values(_) | LogicalPlan::EmptyRelation(_) => true,
        _ => false,
    };
    plan.exists(|plan| Ok(is_less(plan))).unwrap_or(false)
}

/// Whether a plan gives the same rows whenever it runs on one snapshot.
pub(super) fn is_steady(plan: &LogicalPlan) -> bool {
    let mut steady = true;
    let look = plan.apply(|plan| {
        steady &= match plan {
            LogicalPlan::TableScan(scan) => source_of(plan).is_some() && scan.filters.iter().all(is_plain),
            LogicalPlan::EmptyRelation(_) => true,
            LogicalPlan::Values(_)
            | LogicalPlan::Projection(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Join(_) => plan.expressions().iter().all(is_plain),
            _ => false,
        };
        Ok(if steady { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    steady && look.is_ok()
}
