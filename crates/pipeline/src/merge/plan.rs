//! The plan of a merge: which rows of which segments make which output.

use crate::options::PipelineOptions;
use crate::policy::{Destination, destination, joined, split, tier};
use alluvia_snapshot::{Partition, TableBase};
use alluvia_space::{KeyLayout, TableDef};
use alluvia_tree::Segment;
use alluvia_types::Result;
use std::ops::Range;
use std::sync::Arc;

/// Rows of one input: consecutive, as segments are in key order.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) segment: Arc<Segment>,
    pub(super) rows: Range<u64>,
}

/// First and last key.
pub(super) type KeySpan = (u128, u128);

/// One segment to write.
#[derive(Clone, Debug)]
pub(super) struct Output {
    /// Its partition's keys; `None` for the buffer.
    pub(super) partition: Option<KeySpan>,
    /// What it is made of, oldest first. Empty when the partition gets nothing new.
    pub(super) runs: Vec<Run>,
}

/// What one merge does.
#[derive(Debug, Default)]
pub(super) struct MergePlan {
    pub(super) outputs: Vec<Output>,
    /// Inputs that the outputs replace, and promoted ones.
    pub(super) consumed: Vec<Arc<Segment>>,
    /// Sorted segments that become merged as they are.
    pub(super) promoted: Vec<Arc<Segment>>,
    /// Partitions that are cut, and into what. A table's first partition is cut from nothing.
    pub(super) cuts: Vec<(KeySpan, Vec<KeySpan>)>,
}

/// Plans the merge of a table's sorted segments. `def` has fixed ranges.
pub(super) fn plan(def: &TableDef, files: &TableBase, options: &PipelineOptions) -> Result<MergePlan> {
    let layout = KeyLayout::new(def);
    let last_key = layout.last_key();
    let sorted_rows = files.sorted.iter().map(|segment| segment.meta().rows).sum();
    let mut buffer = files.buffer.clone();
    buffer.sort_by_key(|segment| segment.meta().rows);
    let sizes: Vec<u64> = buffer.iter().map(|segment| segment.meta().rows).collect();
    let mut plan = MergePlan::default();
    if !layout.is_ordered() {
        plan_unordered(&mut plan, files, options);
        return Ok(plan);
    }
    match destination(sorted_rows, &sizes, files.partitions.len(), options.partition_rows_max) {
        Destination::Buffer { runs } => {
            plan.consumed = oldest_first(files.sorted.iter().chain(&buffer[..runs]));
            plan.outputs.push(Output { partition: None, runs: plan.consumed.iter().map(whole).collect() });
        }
        Destination::Partitions => {
            // One of the key 0 alone is of a build that knew no order by primary key: its rows are new here.
            let before = files.partitions.iter().filter(|partition| (partition.low, partition.high) == (0, 0));
            let before = before.filter(|_| files.partitions.len() == 1 && last_key > 0);
            let is_first = files.partitions.is_empty() || before.clone().next().is_some();
            let unordered = before.flat_map(|partition| &partition.segments);
            let sources = oldest_first(files.sorted.iter().chain(&buffer).chain(unordered));
            // Before the cuts below: a part of these may have the key 0 alone, too.
            if is_first && !files.partitions.is_empty() {
                plan.cuts.push(((0, 0), Vec::new()));
            }
            let has_no_part = plan.cuts.len();
            let whole_space = Partition { low: 0, high: last_key, segments: Vec::new() };
            let homes = if is_first { vec![whole_space] } else { files.partitions.clone() };
            plan.consumed = sources.clone();
            for home in &homes {
                plan_partition(&mut plan, def, home, &sources, options)?;
            }
            if is_first && plan.cuts.len() == has_no_part {
                plan.cuts.push(((0, last_key), vec![(0, last_key)]));
            }
        }
    }
    Ok(plan)
}

/// One partition's share of the new rows, with the runs of it that are taken along.
fn plan_partition(
    plan: &mut MergePlan,
    def: &TableDef,
    home: &Partition,
    sources: &[Arc<Segment>],
    options: &PipelineOptions,
) -> Result<()> {
    let new = cut_to(sources, home.low, home.high)?;
    let new_rows: u64 = new.iter().map(|run| run.rows.end - run.rows.start).sum();
    if new_rows == 0 && !home.segments.is_empty() {
        return Ok(());
    }
    let mut runs = home.segments.clone();
    runs.sort_by_key(|segment| segment.meta().rows);
    let total = new_rows + runs.iter().map(|segment| segment.meta().rows).sum::<u64>();
    if total <= options.partition_rows_max || home.low == home.high {
        let sizes: Vec<u64> = runs.iter().map(|segment| segment.meta().rows).collect();
        runs.truncate(tier(new_rows, &sizes, options.partition_rows_max));
        let taken = oldest_first(runs.iter());
        plan.consumed.extend(taken.iter().cloned());
        let mut inputs: Vec<Run> = taken.iter().map(whole).collect();
        inputs.extend(new);
        inputs.sort_by_key(|run| run.segment.meta().min_version);
        plan.outputs.push(Output { partition: Some((home.low, home.high)), runs: inputs });
        return Ok(());
    }
    // Too many rows: all of them are rewritten into parts of at most half the limit, so that parts can grow again.
    let everything = oldest_first(runs.iter().chain(sources));
    let count = |low, high| -> u64 {
        let runs = cut_to(&everything, low, high).unwrap_or_default();
        runs.iter().map(|run| run.rows.end - run.rows.start).sum()
    };
    let rows_max = options.partition_rows_max / 2;
    let parts = split(home.low, home.high, rows_max, &count);
    let parts = if def.dimensions.is_empty() { joined(parts, rows_max, &count) } else { parts };
    for &(low, high) in &parts {
        plan.outputs.push(Output { partition: Some((low, high)), runs: cut_to(&everything, low, high)? });
    }
    plan.consumed.extend(runs);
    plan.cuts.push(((home.low, home.high), parts));
    Ok(())
}

/// A table without an order by keys has that of arrival, and one partition. Large segments are merged already;
/// small ones are joined by tiers up to that size.
fn plan_unordered(plan: &mut MergePlan, files: &TableBase, options: &PipelineOptions) {
    let large = options.partition_rows_max / 8;
    let (promoted, small): (Vec<_>, Vec<_>) =
        files.sorted.iter().cloned().partition(|segment| segment.meta().rows >= large);
    if files.partitions.is_empty() {
        plan.cuts.push(((0, 0), vec![(0, 0)]));
    }
    let new: u64 = small.iter().map(|segment| segment.meta().rows).sum();
    if new > 0 {
        let mut runs: Vec<Arc<Segment>> = files.merged().cloned().collect();
        runs.sort_by_key(|segment| segment.meta().rows);
        let sizes: Vec<u64> = runs.iter().map(|segment| segment.meta().rows).collect();
        runs.truncate(tier(new, &sizes, large));
        let inputs = oldest_first(small.iter().chain(&runs));
        plan.outputs.push(Output { partition: Some((0, 0)), runs: inputs.iter().map(whole).collect() });
        plan.consumed.extend(inputs);
    }
    plan.consumed.extend(promoted.iter().cloned());
    plan.promoted = promoted;
}

fn oldest_first<'a>(segments: impl Iterator<Item = &'a Arc<Segment>>) -> Vec<Arc<Segment>> {
    let mut segments: Vec<Arc<Segment>> = segments.cloned().collect();
    segments.sort_by_key(|segment| (segment.meta().min_version, segment.meta().id));
    segments
}

pub(super) fn whole(segment: &Arc<Segment>) -> Run {
    Run { segment: Arc::clone(segment), rows: 0..segment.meta().rows }
}

fn cut_to(segments: &[Arc<Segment>], low: u128, high: u128) -> Result<Vec<Run>> {
    let mut runs = Vec::with_capacity(segments.len());
    for segment in segments {
        let rows = segment.rows_in(low, high)?;
        if !rows.is_empty() {
            runs.push(Run { segment: Arc::clone(segment), rows });
        }
    }
    Ok(runs)
}
