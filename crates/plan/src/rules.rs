//! Which rules a session plans with, in their order.
//!
//! [`register`] adds functions and planners of expressions, [`with_rules`] the rules of each phase: [`crate::before_types`],
//! [`crate::after_types`], [`crate::optimizer`] and [`crate::physical`] say which they are, and why in that order.
//!
//! Invariant: every rule, DataFusion's too, asks first whether the statement still wants its plan ([`StopChecks`]), and otherwise does
//! what it does under its own name.

pub use alluvia_functions::stopping::StopCheck;

use crate::{after_types, before_types, optimizer, physical, plan_check, planners, table_functions};
use datafusion::common::Result;
use datafusion::common::config::{ConfigNonZeroUsize, ConfigOptions};
use datafusion::common::tree_node::Transformed;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::analyzer::{Analyzer, AnalyzerRule};
use datafusion::optimizer::optimizer::{ApplyOrder, Optimizer};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::{PhysicalOptimizer, PhysicalOptimizerContext};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::prelude::SessionConfig;
use std::sync::Arc;

/// How rules ask whether the statement that this thread plans is to stop.
#[derive(Clone, Copy, Debug)]
pub struct StopChecks {
    /// Fails once it is.
    pub planning: fn() -> Result<()>,
    /// What is asked while its plan runs; `None` on a thread that plans no statement.
    pub running: fn() -> Option<StopCheck>,
}

impl StopChecks {
    /// Statements that nobody stops.
    pub const NEVER: StopChecks = StopChecks { planning: || Ok(()), running: || None };
}

/// Sets what the rules rely on; the rest is the session's.
pub fn configure(config: &mut SessionConfig) {
    let options = config.options_mut();
    options.execution.collect_statistics = true;
    // The functions of the table are built for it.
    options.execution.time_zone = Some("UTC".to_owned());
    // Drops rows that another aggregate of the same SELECT needs, as long as that one has met nothing but NULL, or is of more than a
    // column. Mends apache/datafusion#24816, #25147 (in 55.2).
    options.optimizer.enable_aggregate_dynamic_filter_pushdown = false;
    // Drops ORDER BY of queries in FROM, also where a LIMIT or a list above has its rows; `inner_orders` drops what nobody sees. Mends
    // apache/datafusion#15886 (in 55.2).
    options.sql_parser.enable_subquery_sort_elimination = false;
    // Refuses `SELECT DISTINCT (x = 1) IS NOT TRUE`: plans say that it may be NULL, and expressions that it may not.
    // Mends apache/datafusion#24096 (in 55.2).
    options.execution.skip_physical_aggregate_schema_check = true;
    // A file a batch: where two inputs of a repartition spill, its reader waits for the older of two open files while both writers wait
    // for the reader, and the statement stands still for ever. Mends apache/datafusion#24883 (in 55.2).
    options.execution.max_spill_file_size_bytes = ConfigNonZeroUsize::try_new(1).expect("one is not zero");
}

/// Adds functions, table functions and planners of expressions to a session.
pub fn register(state: &mut SessionState) -> Result<()> {
    alluvia_functions::table::register(state)?;
    table_functions::register(state);
    planners::register(state)
}

/// The rules of every phase, each of which asks before its work.
pub fn with_rules(builder: SessionStateBuilder, checks: StopChecks) -> SessionStateBuilder {
    Rules::of_datafusion().mended(checks).set(builder, checks)
}

/// The same, but for the rules of some names in one phase: DataFusion's of these names stand in their places, or none.
#[cfg(test)]
pub(crate) fn with_rules_but(
    builder: SessionStateBuilder,
    checks: StopChecks,
    phase: crate::upstream::Phase,
    names: &[&str],
) -> SessionStateBuilder {
    Rules::of_datafusion().mended(checks).but(phase, names).set(builder, checks)
}

/// The rules of every phase, in the order in which they run.
#[derive(Clone)]
pub(crate) struct Rules {
    pub analyzer: Vec<Arc<dyn AnalyzerRule + Send + Sync>>,
    pub optimizer: Vec<Arc<dyn OptimizerRule + Send + Sync>>,
    pub physical: Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>>,
}

impl Rules {
    /// DataFusion's own.
    pub fn of_datafusion() -> Rules {
        Rules {
            analyzer: Analyzer::new().rules,
            optimizer: Optimizer::new().rules,
            physical: PhysicalOptimizer::new().rules,
        }
    }

    /// DataFusion's rules, with ours in the place of those that are mended, and in their places among the rest.
    pub fn mended(self, checks: StopChecks) -> Rules {
        let Rules { mut analyzer, optimizer, physical } = self;
        let coerced = analyzer.iter().position(|rule| rule.name() == "type_coercion").unwrap_or(0);
        analyzer.splice(coerced..coerced, before_types::rules());
        analyzer.extend(after_types::rules());
        let mut optimizer = optimizer::rules(optimizer);
        optimizer.extend(plan_check::rule().map(|rule| Arc::new(rule) as _));
        let physical = physical::rules(physical, checks.running);
        Rules { analyzer, optimizer, physical }
    }

    fn set(self, mut builder: SessionStateBuilder, checks: StopChecks) -> SessionStateBuilder {
        fn all<R: ?Sized, S>(rules: Vec<Arc<R>>, wrapped: impl Fn(Arc<R>) -> S) -> Vec<S> {
            rules.into_iter().map(wrapped).collect()
        }
        planners::insert_first(builder.expr_planners().get_or_insert_default());
        let check = checks.planning;
        builder
            .with_analyzer_rules(all(self.analyzer, |rule| Arc::new(Stoppable { rule, check }) as _))
            .with_optimizer_rules(all(self.optimizer, |rule| Arc::new(Stoppable { rule, check }) as _))
            .with_physical_optimizer_rules(all(self.physical, |rule| Arc::new(Stoppable { rule, check }) as _))
    }

    #[cfg(test)]
    fn but(self, phase: crate::upstream::Phase, names: &[&str]) -> Rules {
        use crate::upstream::Phase;
        fn but<R: ?Sized>(all: Vec<Arc<R>>, own: Vec<Arc<R>>, is_out: impl Fn(&R) -> bool) -> Vec<Arc<R>> {
            let mut own = own.into_iter().filter(|rule| is_out(rule));
            let left = all.into_iter().filter_map(|rule| if is_out(&rule) { own.next() } else { Some(rule) });
            left.collect()
        }
        let (Rules { analyzer, optimizer, physical }, own) = (self, Rules::of_datafusion());
        match phase {
            Phase::BeforeTypes | Phase::AfterTypes => {
                let analyzer = but(analyzer, own.analyzer, |rule| names.contains(&rule.name()));
                Rules { analyzer, optimizer, physical }
            }
            Phase::Optimizer => {
                let optimizer = but(optimizer, own.optimizer, |rule| names.contains(&rule.name()));
                Rules { analyzer, optimizer, physical }
            }
            Phase::Physical => {
                let physical = but(physical, own.physical, |rule| names.contains(&rule.name()));
                Rules { analyzer, optimizer, physical }
            }
            Phase::Setting => Rules { analyzer, optimizer, physical },
        }
    }
}

/// A rule that asks first.
#[derive(Debug)]
struct Stoppable<R: ?Sized> {
    check: fn() -> Result<()>,
    rule: Arc<R>,
}

impl AnalyzerRule for Stoppable<dyn AnalyzerRule + Send + Sync> {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        (self.check)()?;
        self.rule.analyze(plan, config)
    }

    fn name(&self) -> &str {
        self.rule.name()
    }
}

impl OptimizerRule for Stoppable<dyn OptimizerRule + Send + Sync> {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        (self.check)()?;
        self.rule.rewrite(plan, config)
    }
}

impl PhysicalOptimizerRule for Stoppable<dyn PhysicalOptimizerRule + Send + Sync> {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        (self.check)()?;
        self.rule.optimize(plan, config)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        (self.check)()?;
        self.rule.optimize_with_context(plan, context)
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All rules of a session, in the order in which they run.
    fn names(state: &SessionState) -> Vec<String> {
        let analyzer = state.analyzer().rules.iter().map(|rule| rule.name().to_owned());
        let logical =
            state.optimizers().iter().map(|rule| format!("{} {:?}", rule.name(), rule.apply_order().is_some()));
        let physical = state.physical_optimizers().iter().map(|rule| rule.name().to_owned());
        analyzer.chain(logical).chain(physical).collect()
    }

    #[test]
    fn datafusions_rules_keep_their_names_and_their_order() {
        let plain = names(&SessionStateBuilder::new().with_default_features().build());
        let ours = SessionStateBuilder::new().with_default_features();
        let ours = names(&with_rules(ours, StopChecks::NEVER).build());
        let mut rest = ours.iter();
        for name in &plain {
            assert!(rest.any(|other| other == name), "{name} is not in its place: {ours:?}");
        }
    }

    #[test]
    fn every_phase_has_its_rules_in_their_order() {
        let ours = SessionStateBuilder::new().with_default_features();
        let ours = names(&with_rules(ours, StopChecks::NEVER).build());
        let at = |name: &str| ours.iter().position(|other| other == name).unwrap_or_else(|| panic!("no {name}"));
        let typed = at("type_coercion");
        let before = [
            "inner_orders",
            "unknown_texts",
            "listed_text",
            "compared_spans",
            "common_timestamp_type",
            "written_bytes",
            "rounded_floats",
            "frames_of_peers",
            "types_from_around",
        ];
        assert_eq!(ours[typed - before.len()..typed], before);
        let after = [
            "session_zone",
            "exact_spreads",
            "common_decimal_type",
            "counted_multisets",
            "bytes_of_literals",
            "lossless_casts",
            "equal_zeros",
            "checked_arithmetic",
            "counted_functions",
            "subqueries_keeping_nulls",
            "names_of_unions",
            "counted_rows",
            "bare_distinct",
        ];
        assert_eq!(ours[typed + 1..=typed + after.len()], after);
        for name in ["replace_distinct_aggregate true", "decorrelate_lateral_join true"] {
            assert_eq!(ours[at(name) + 1], "no_false_keys false");
        }
        let last = ["extract_equijoin_predicate true", "equal_zeros true", "computed_lists true", "ordered_keys true"];
        let held = at("held_constants true");
        assert_eq!(ours[held - last.len()..held], last);
        assert_eq!(
            ours[held + 1..held + 4],
            ["join_sides_less_known", "orders_of_skipped_rows", "grouping_sets_of_unknown_rows"]
        );
        assert_eq!(ours[at("join_selection") + 1], "join_sides_less_known");
        assert_eq!(ours[ours.len() - 3..], ["windows_in_runs", "stoppable_joins", "compact_texts"]);
    }

    #[test]
    fn a_statement_that_is_to_stop_is_not_planned_on() {
        let stopped = StopChecks { planning: || datafusion::common::exec_err!("stopped"), running: || None };
        let builder = SessionStateBuilder::new().with_default_features();
        let state = with_rules(builder, stopped).build();
        let runtime = crate::testing::runtime();
        let plan = runtime.block_on(state.create_logical_plan("SELECT 1 + 1")).expect("a plan");
        assert!(state.optimize(&plan).expect_err("is stopped").to_string().contains("stopped"));
    }
}
