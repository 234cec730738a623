//! What EXPLAIN ANALYZE says: a tree of operators, and below it why the index answered or not, why values are exact, what was read, and
//! how long it took.
//!
//! Invariants:
//! - A reason is the one that the code had; where it is not known, less is said.
//! - Words and columns of trees are [`alluvia_plan::explain`]'s; words about the index and about what was read are `alluvia_answer`'s.

use crate::answer::{Accuracy, IndexFigures, WhyExact, exact_text};
use crate::rule::{described, is_index_answer, is_refused, why_exact};
use crate::session::run::Run;
use crate::session::select::indexed::{Found, Ready};
use crate::session::select::pin::sample_fraction_of;
use crate::session::select::planning::accuracy_of;
use crate::used::{Used, UsedCounters};
use alluvia_plan::explain::{Figures, Shown, counted, millis, told, wrapped};
use alluvia_syntax::Hints;
use alluvia_types::Result;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::sql::sqlparser::ast::{Query, SetExpr};
use std::sync::Arc;
use std::time::Duration;

/// What a row is, and its text.
pub(crate) type Row = (String, String);

/// Lines below the tree are no longer than this.
const LINE_MAX: usize = 98;

/// An answer of the index.
pub(crate) struct IndexRun<'a> {
    pub(crate) ready: &'a Ready,
    pub(crate) found: &'a Found,
    pub(crate) planning: Duration,
    pub(crate) total: Duration,
}

/// What an answer of the index took, at a glance.
pub(crate) fn by_index(run: &Run, query: &Query, of: &IndexRun<'_>) -> Vec<Row> {
    let IndexRun { ready, found, planning, total } = *of;
    let used = found.used.used();
    let condition = match query.body.as_ref() {
        SetExpr::Select(select) => select.selection.as_ref().map(|condition| format!("where {condition}")),
        _ => None,
    };
    let no_cuboid = match (run.settings.cuboids, ready.bound.is_told_by_codes()) {
        (false, _) => ", cuboids is off",
        (true, false) => ", a range of times begins or ends within a unit",
        (true, true) => " is resident that tells this",
    };
    let figures = IndexFigures::of(found.by_cuboid, &found.counters, used.sample.as_ref());
    let read = |count: u64| (!found.by_cuboid).then_some(count);
    let shown = Shown {
        title: format!("Index answer on {}", ready.bound.title()),
        figures: Figures {
            rows: Some(found.batch.num_rows() as u64),
            nanos: Some(nanos(total.saturating_sub(planning))),
            bytes: None,
            blocks: read(used.blocks_read),
            skipped: read(used.blocks_skipped),
        },
        notes: condition.into_iter().chain(figures.lines(no_cuboid)).collect(),
        inputs: Vec::new(),
    };
    let index = "used: aggregates over a box of levels need no plan".to_owned();
    let why = found.why_exact.map(WhyExact::text);
    let sure = sure(&used, exact_text(run.accuracy.as_ref(), why));
    rows(&shown, Some(index), sure, &used, (planning, total))
}

/// All figures of an answer of the index.
pub(crate) fn in_full(ready: &Ready, found: &Found) -> Vec<Row> {
    let counters = &found.counters;
    let used = found.used.used();
    // Nodes that values are estimated of were cut, too, but not read.
    let (drawn, interval) = match &used.sample {
        Some(sample) => (sample.nodes_drawn, format!("{}, rungs {}", sample.interval(), sample.rungs())),
        None => (0, "exact".to_owned()),
    };
    let cut = counters.cut + drawn;
    let drawn = if used.sample.is_some() { format!(" (drawn from: {drawn})") } else { String::new() };
    let plan = format!(
        "IndexAnswer: {}\n  cuboid: {}\n  nodes: covered={}, disjoint={}, cut={cut}{drawn}; blocks_skipped={}\n  \
         rows: filtered={}, tail={}, returned={}\n  interval: {interval}\n  used: {used}",
        ready.bound.describe(),
        if found.by_cuboid { "resident" } else { "none" },
        counters.covered,
        counters.disjoint,
        counters.blocks_skipped,
        counters.rows_filtered,
        counters.tail_rows,
        found.batch.num_rows(),
    );
    vec![("Plan with Metrics".to_owned(), plan)]
}

/// What is known of a planned statement before it runs.
pub(crate) struct PlanRun {
    used: Arc<UsedCounters>,
    /// Why the index did not answer without a plan.
    planned: String,
    accuracy: Option<Accuracy>,
    sample_fraction: f64,
    index_rule: bool,
}

impl PlanRun {
    pub(crate) fn new(run: &Run, hints: &Hints, planned: String, used: Arc<UsedCounters>) -> Result<PlanRun> {
        let sample_fraction = sample_fraction_of(&run.settings, hints)?;
        let (accuracy, index_rule) = (accuracy_of(run), run.settings.index_rule);
        Ok(PlanRun { used, planned, accuracy, sample_fraction, index_rule })
    }
}

/// What a plan took, at a glance; `plan` has run.
pub(crate) fn by_plan(
    of: &PlanRun,
    plan: Option<&Arc<dyn ExecutionPlan>>,
    planning: Duration,
    total: Duration,
) -> Vec<Row> {
    let used = of.used.used();
    let shown = plan.map(|plan| Shown::of(plan, &described)).unwrap_or_default();
    let mut seen = Seen::default();
    plan.into_iter().for_each(|plan| seen.look(plan));
    let index = index_line(of, &seen);
    let sure = match (of.sample_fraction < 1.0, seen.is_drawn) {
        (true, _) => ("Sample", format!("exact of the rows that sample_fraction = {} leaves", of.sample_fraction)),
        (false, true) => ("Sample", "exact of the rows that were drawn".to_owned()),
        (false, false) if seen.is_approximate => (
            "Nearly",
            "a function of the statement is approximate by itself (approx_...): no bounds are known".to_owned(),
        ),
        (false, false) => sure(&used, exact_text(of.accuracy.as_ref(), seen.why_exact.as_deref())),
    };
    rows(&shown, Some(index), sure, &used, (planning, total))
}

fn index_line(of: &PlanRun, seen: &Seen) -> String {
    let PlanRun { planned, index_rule, .. } = of;
    match (seen.answers, seen.refused) {
        (0, 0) if seen.aggregates > 0 && !index_rule => format!("not used: {planned}; index_rule is off"),
        (0, 0) => format!("not used: {planned}"),
        (0, _) => format!("asked in the plan, which ran in its place; planned: {planned}"),
        (answers, 0) => format!("used in the plan for {}; planned: {planned}", counted(answers as u64, "aggregate")),
        (answers, refused) => {
            format!(
                "used in the plan for {}, refused {refused}; planned: {planned}",
                counted(answers as u64, "aggregate")
            )
        }
    }
}

/// What a plan that has run had of the index and of samples.
#[derive(Default)]
struct Seen {
    /// Aggregates that the index answered.
    answers: usize,
    /// Aggregates that it refused when it was asked.
    refused: usize,
    aggregates: usize,
    /// Scans of which rows were left out.
    is_drawn: bool,
    /// Whether an aggregate gives what is near its value, whatever was asked for.
    is_approximate: bool,
    why_exact: Option<String>,
}

impl Seen {
    fn look(&mut self, plan: &Arc<dyn ExecutionPlan>) {
        let metrics = plan.metrics().unwrap_or_default();
        let mut inputs = plan.children();
        if is_index_answer(plan.as_ref()) {
            match is_refused(&metrics) {
                true => self.refused += 1,
                false => {
                    self.answers += usize::from(metrics.output_rows().is_some());
                    self.why_exact = self.why_exact.take().or_else(|| why_exact(&metrics));
                    // The aggregate did not run.
                    inputs.remove(0);
                }
            }
        }
        if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
            self.aggregates += 1;
            let mut functions = aggregate.aggr_expr().iter().map(|function| function.fun().name());
            self.is_approximate |= functions.any(|name| name.starts_with("approx_"));
        }
        self.is_drawn |= told(&metrics, "table").is_some() && told(&metrics, "interval").is_none();
        inputs.into_iter().for_each(|input| self.look(input));
    }
}

/// How sure values are.
fn sure(used: &Used, exact: String) -> (&'static str, String) {
    match &used.sample {
        Some(sample) => ("Estimate", format!("{}\n{}", sample.estimate_text(), sample.drawn_text())),
        None => ("Exact", exact),
    }
}

/// The tree, and what is told of a statement that reads tables.
fn rows(
    shown: &Shown,
    index: Option<String>,
    (how_sure, sure): (&str, String),
    used: &Used,
    (planning, total): (Duration, Duration),
) -> Vec<Row> {
    let execution = nanos(total.saturating_sub(planning));
    let times = (millis(nanos(total)), millis(nanos(planning)), millis(execution));
    let time = format!("{} (planning {}, execution {})", times.0, times.1, times.2);
    let mut lines = Vec::new();
    if used.of_tables {
        index.into_iter().for_each(|index| tell(&mut lines, "Index", &index));
        tell(&mut lines, how_sure, &sure);
        tell(&mut lines, "Read", &used.read_text());
        tell(&mut lines, "Version", &used.version_text());
    }
    tell(&mut lines, "Time", &time);
    let mut tree = shown.draw();
    if !used.of_tables {
        tree.append(&mut lines);
    }
    let kinds = ["Plan with Metrics", "Used"].map(str::to_owned);
    let texts = [tree, lines].into_iter().filter(|lines| !lines.is_empty()).map(|lines| lines.join("\n"));
    kinds.into_iter().zip(texts).collect()
}

/// Adds a line, and more of them where the text does not fit one.
fn tell(lines: &mut Vec<String>, name: &str, text: &str) {
    const NAME: usize = 10;
    let mut before = format!("{:<NAME$}", format!("{name}:"));
    for text in text.lines().flat_map(|line| wrapped(line, LINE_MAX - NAME)) {
        lines.push(before + &text);
        before = " ".repeat(NAME);
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
