//! From a physical plan to the tree of its pipelines, and to the same plan with meters where rows are to be counted.
//!
//! Invariants:
//! - The plan does what it did: operators are DataFusion's own with their inputs replaced, and their properties are kept.
//! - Counted is what drives a pipeline, what is taken in as a whole, and what the plan gives; nothing else costs anything.
//! - An operator that is not known by its type passes rows on: what is wrong about that is a share, and no row.

use super::KnownOperators;
use super::estimate::{Input, Operator, Role};
use super::meter::Meter;
use super::source::ScannedParts;
use crate::wrapped_operator::WrappedOperatorExec;
use datafusion::common::Result;
use datafusion::common::stats::Precision;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::scalar_subquery::ScalarSubqueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{
    ExecutionPlan, ExecutionPlanProperties, InputOrderMode, StatisticsArgs, StatisticsContext,
    replace_children_if_necessary,
};
use std::sync::Arc;

/// The plan with meters, and its operators.
pub(super) fn cut(plan: &Arc<dyn ExecutionPlan>, known: &KnownOperators) -> Result<(Arc<dyn ExecutionPlan>, Operator)> {
    cut_from(plan, true, known, &StatisticsContext::new())
}

/// As [`cut`]; `is_asked` says that somebody has to know how many rows it gives.
fn cut_from(
    plan: &Arc<dyn ExecutionPlan>,
    is_asked: bool,
    known: &KnownOperators,
    statistics: &StatisticsContext,
) -> Result<(Arc<dyn ExecutionPlan>, Operator)> {
    let role = role_of(plan, known);
    let asks = match role {
        Role::Source(_) | Role::Passes { as_many: false } => false,
        Role::Passes { as_many: true } => is_asked,
        Role::Keeps { .. } | Role::Groups { .. } | Role::Stands => true,
    };
    let (mut children, mut inputs) = (Vec::new(), Vec::new());
    // What a recursive query reads is run again and again, and planned anew each time: it is a source as a whole.
    if !matches!(role, Role::Source(_)) {
        for (place, child) in plan.children().into_iter().enumerate() {
            let (child, operator) = cut_from(child, asks, known, statistics)?;
            children.push(child);
            inputs.push(Input { operator, is_held: is_held(plan, place, known) });
        }
    }
    let counted = match role {
        Role::Passes { as_many } => is_asked && !as_many,
        _ => true,
    };
    // How many rows the others give follows from what they take in.
    let foreseen = match role {
        Role::Source(None) | Role::Stands => rows_foreseen(plan, statistics),
        Role::Passes { .. } if counted => rows_foreseen(plan, statistics),
        _ => None,
    };
    let with_children =
        if children.is_empty() { Arc::clone(plan) } else { replace_children_if_necessary(Arc::clone(plan), children)? };
    let meter = counted.then(|| Meter::new(plan.output_partitioning().partition_count()));
    let metered: Arc<dyn ExecutionPlan> = match &meter {
        Some(meter) => Arc::new(WrappedOperatorExec::new(with_children, Arc::clone(meter))),
        None => with_children,
    };
    Ok((metered, Operator { role, meter, foreseen, inputs }))
}

fn role_of(plan: &Arc<dyn ExecutionPlan>, known: &KnownOperators) -> Role {
    if plan.children().is_empty() {
        return Role::Source(ScannedParts::of(plan, known));
    }
    if plan.is::<RecursiveQueryExec>() {
        return Role::Source(None);
    }
    if (known.answers_alone)(plan.as_ref()) {
        return Role::Stands;
    }
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        // One whose input is in its order gives rows as they come.
        let input = sort.input().equivalence_properties();
        return match input.ordering_satisfy(sort.expr().clone()) {
            Ok(true) => Role::Passes { as_many: sort.fetch().is_none() },
            _ => Role::Keeps { at_most: sort.fetch().map(|rows| rows as u64) },
        };
    }
    if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        // Whole partitions are given as they come (`windows`).
        let has_partitions = window.window_expr().first().is_some_and(|window| !window.partition_by().is_empty());
        return if has_partitions { Role::Passes { as_many: true } } else { Role::Keeps { at_most: None } };
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return role_of_aggregate(aggregate, plan);
    }
    let as_many = matches!(plan.cardinality_effect(), CardinalityEffect::Equal);
    Role::Passes { as_many: as_many || plan.is::<UnionExec>() || plan.is::<InterleaveExec>() }
}

fn role_of_aggregate(aggregate: &AggregateExec, plan: &Arc<dyn ExecutionPlan>) -> Role {
    if aggregate.group_expr().is_true_no_grouping() {
        return Role::Keeps { at_most: Some(plan.output_partitioning().partition_count() as u64) };
    }
    // Where groups come together, or some of them do, they are given as they come.
    if *aggregate.input_order_mode() != InputOrderMode::Linear {
        return Role::Passes { as_many: false };
    }
    let takes_groups = matches!(aggregate.mode(), AggregateMode::Final | AggregateMode::FinalPartitioned);
    Role::Groups {
        of_partitions: takes_groups.then(|| partitions_of_groups(aggregate.input())),
        at_most: aggregate.limit_options().map(|options| options.limit() as u64),
    }
}

/// How many partitions have made the groups that an aggregate takes in.
fn partitions_of_groups(input: &Arc<dyn ExecutionPlan>) -> usize {
    match (input.is::<AggregateExec>(), input.children().first()) {
        (false, Some(below)) => partitions_of_groups(below),
        _ => input.output_partitioning().partition_count(),
    }
}

/// Whether an operator holds all rows of an input before it gives any.
fn is_held(plan: &Arc<dyn ExecutionPlan>, place: usize, known: &KnownOperators) -> bool {
    let is_first_held = plan.is::<HashJoinExec>() || plan.is::<NestedLoopJoinExec>() || plan.is::<CrossJoinExec>();
    match place {
        0 => is_first_held,
        // The values of subqueries, and the small tables of an answer by the index.
        _ => plan.is::<ScalarSubqueryExec>() || (known.answers_alone)(plan.as_ref()),
    }
}

/// What the optimizer expects. It is asked of the plan as it was planned, which is alive: what it told is kept by its address.
fn rows_foreseen(plan: &Arc<dyn ExecutionPlan>, statistics: &StatisticsContext) -> Option<u64> {
    match statistics.compute(plan.as_ref(), &StatisticsArgs::new()).ok()?.num_rows {
        Precision::Exact(rows) | Precision::Inexact(rows) => Some(rows as u64),
        Precision::Absent => None,
    }
}
