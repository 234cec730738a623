//! Physical optimizer rules, and operators that they put into plans.

pub mod compact;
pub mod grouping_sets;
pub mod join_sides;
pub(crate) mod less_known;
pub mod offset_order;
pub mod pushed_filters;
pub mod stoppable_joins;
mod stoppable_polls;
pub(crate) mod unfiltered;
pub mod windows;

use crate::rules::StopCheck;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use std::sync::Arc;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// DataFusion's rules in their order, and ours among them. `running` gives what a join asks while it runs ([`stoppable_joins`]).
pub fn rules(mut rules: Vec<Rule>, running: fn() -> Option<StopCheck>) -> Vec<Rule> {
    for rule in rules.iter_mut().filter(|rule| rule.name().starts_with("FilterPushdown")) {
        *rule = Arc::new(pushed_filters::FiltersOfTheirColumns(Arc::clone(rule)));
    }
    rules.insert(0, Arc::new(grouping_sets::GroupingSetsOfUnknownRows));
    rules.insert(0, Arc::new(offset_order::OrdersOfSkippedRows));
    // Before the first rule, and where it is known which side of a join is probed.
    let chosen = rules.iter().position(|rule| rule.name() == "join_selection").map_or(0, |at| at + 1);
    rules.insert(chosen, Arc::new(join_sides::JoinSidesLessKnown));
    rules.insert(0, Arc::new(join_sides::JoinSidesLessKnown));
    rules.push(Arc::new(windows::WindowsInRuns::default()));
    // Behind all that looks into the filters of joins.
    rules.push(Arc::new(stoppable_joins::StoppableJoins { running }));
    // Last: it sees which operators keep texts of others.
    rules.push(Arc::new(compact::CompactTexts));
    rules
}
