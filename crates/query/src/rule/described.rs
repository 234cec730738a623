//! The index's answers within plans that have run, as EXPLAIN ANALYZE shows them.

use super::exec::IndexAnswerExec;
use crate::answer::IndexFigures;
use alluvia_plan::explain::{Described, told};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::metrics::MetricsSet;

/// What is told of an operator that is the index's answer.
pub(crate) fn described(plan: &dyn ExecutionPlan, metrics: &MetricsSet) -> Option<Described> {
    let question = plan.downcast_ref::<IndexAnswerExec>()?.question();
    let count = |name: &str| metrics.sum_by_name(name).map_or(0, |value| value.as_usize() as u64);
    let inputs = plan.children().len();
    let mut notes: Vec<String> = question.bound.box_text().into_iter().map(|text| format!("where {text}")).collect();
    let smalls = question.small_tables();
    notes.extend((!smalls.is_empty()).then(|| smalls.trim_start_matches(", ").to_owned()));
    if is_refused(metrics) {
        notes.push("refused: a value, groups or keys that it does not hold; the plan below ran".to_owned());
        return Some(Described {
            title: format!("Index answer on {}", question.bound.title()),
            notes,
            inputs: (0..inputs).collect(),
        });
    }
    let drawn = count("drawn_from");
    let figures = IndexFigures {
        by_cuboid: count("cuboid") > 0,
        covered: count("covered"),
        disjoint: count("disjoint"),
        read: count("cut").saturating_sub(drawn),
        drawn,
        rows_filtered: count("rows_filtered"),
        tail_rows: count("tail_rows"),
    };
    let has_run = metrics.output_rows().is_some();
    notes.extend(if has_run { figures.lines("") } else { vec!["never asked".to_owned()] });
    // The aggregate, which runs in its place if it refuses, comes first.
    Some(Described {
        title: format!("Index answer on {}", question.bound.title()),
        notes,
        inputs: (1..inputs).collect(),
    })
}

/// Whether the plan ran in the index's place.
pub(crate) fn is_refused(metrics: &MetricsSet) -> bool {
    metrics.sum_by_name("refused").is_some_and(|refused| refused.as_usize() > 0)
}

/// Why an answer of the index that might have been estimated is exact, if one is.
pub(crate) fn why_exact(metrics: &MetricsSet) -> Option<String> {
    told(metrics, "exact")
}
