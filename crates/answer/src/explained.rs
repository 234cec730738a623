//! What EXPLAIN ANALYZE says of an answer below its tree: what was read, what the index did, how sure values are.
//!
//! Invariant: the figures are those of [`Used`] and of the index's counters, in words.

use super::sampled::{Accuracy, WhyExact};
use super::used::{SampleUsed, Used};
use alluvia_plan::explain::{bytes, counted, grouped};
use alluvia_tree::Counters;
use std::time::Duration;

/// What the index did for an answer.
#[derive(Clone, Copy, Default, Debug)]
pub struct IndexFigures {
    /// A cuboid had the answer.
    pub by_cuboid: bool,
    /// Nodes whose rows all match, by their aggregates.
    pub covered: u64,
    /// Nodes of which no row matches.
    pub disjoint: u64,
    /// Nodes that were read, a row after the other.
    pub read: u64,
    /// Nodes that values are estimated of.
    pub drawn: u64,
    /// Rows that were filtered.
    pub rows_filtered: u64,
    /// Rows of the tail.
    pub tail_rows: u64,
}

impl IndexFigures {
    /// Of an answer from these counters.
    pub fn of(by_cuboid: bool, counters: &Counters, sample: Option<&SampleUsed>) -> IndexFigures {
        let Counters { disjoint, covered, cut, rows_filtered, tail_rows, .. } = *counters;
        let drawn = sample.map_or(0, |sample| sample.nodes_drawn);
        IndexFigures { by_cuboid, covered, disjoint, read: cut, drawn, rows_filtered, tail_rows }
    }

    /// In lines; `no_cuboid` is what to say of there being none.
    pub fn lines(&self, no_cuboid: &str) -> Vec<String> {
        let IndexFigures { by_cuboid, covered, disjoint, read, drawn, rows_filtered, tail_rows } = self;
        if *by_cuboid {
            return vec!["cuboid: resident, it has the answer".to_owned()];
        }
        let drawn = if *drawn > 0 { format!(", {} estimated", grouped(*drawn)) } else { String::new() };
        let (covered, disjoint, read) = (grouped(*covered), grouped(*disjoint), grouped(*read));
        vec![
            format!("cuboid: none{no_cuboid}"),
            format!("nodes: {covered} told by their aggregates, {disjoint} without a match, {read} read{drawn}"),
            format!("rows: {} filtered, {} of the tail", grouped(*rows_filtered), grouped(*tail_rows)),
        ]
    }
}

impl WhyExact {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            WhyExact::Cuboid => "a cuboid has the exact values",
            WhyExact::Never => "only counts, sums and averages over few boxes are estimated",
            WhyExact::Edges => "most rows are at the ends of ranges of times, which are always read",
            WhyExact::Read => "no sample was near enough or would have read less",
        }
    }
}

impl SampleUsed {
    /// How far off values may be, and what that was told from.
    pub fn estimate_text(&self) -> String {
        let error = match self.error.is_finite() {
            // Rounded up: what values may be off is not made less.
            true => format!("within {:.2} % of the exact values", (10_000.0 * self.error).ceil() / 100.0),
            false => "nothing bounds the error".to_owned(),
        };
        let missed = if self.holds { "" } else { ", NOT within max_error" };
        let unseen = match self.groups_unseen {
            0 => String::new(),
            groups => format!(", may lack {} groups", grouped(groups)),
        };
        format!("{error}, each at confidence {}{missed}{unseen}", self.confidence)
    }

    /// What was drawn.
    pub fn drawn_text(&self) -> String {
        let (drawn, cut) = (grouped(self.rows_drawn), grouped(self.rows_cut));
        let (rungs, look, looks) = (self.rungs(), self.look, self.looks);
        format!("{drawn} of {cut} rows, rungs {rungs}, look {look} of {looks} planned")
    }
}

impl Used {
    /// Which state of the database the answer is of.
    pub fn version_text(&self) -> String {
        format!("{}, {} behind, stage {}", self.version, seconds(self.lag), self.stage)
    }

    /// What was read of tables.
    pub fn read_text(&self) -> String {
        let pair =
            |read: u64, what: &str, skipped: u64| format!("{} ({} skipped)", counted(read, what), grouped(skipped));
        let segments = pair(self.segments, "segment", self.segments_skipped);
        let blocks = pair(self.blocks_read, "block", self.blocks_skipped);
        let rows = format!("{} rows ({} of the tail)", grouped(self.rows_read), grouped(self.tail_rows));
        let rungs = if self.rungs > 0 { format!(", {} rungs", grouped(self.rungs)) } else { String::new() };
        let bytes = if self.bytes_read > 0 { format!(", {}", bytes(self.bytes_read)) } else { String::new() };
        format!("{segments}, {blocks}, {rows}{bytes}{rungs}")
    }
}

/// Why an answer is exact that no sample was drawn for; `why` if the index says more.
pub fn exact_text(accuracy: Option<&Accuracy>, why: Option<&str>) -> String {
    match (accuracy, why) {
        (None, _) => "no error was allowed (max_error is 0)".to_owned(),
        (Some(Accuracy { max_error, .. }), why) => {
            let why = why.unwrap_or("only what the index answers is estimated, where nothing is computed from it");
            format!("max_error is {max_error}; {why}")
        }
    }
}

fn seconds(time: Duration) -> String {
    match time {
        none if none.is_zero() => "0 s".to_owned(),
        short if short < Duration::from_secs(1) => format!("{} ms", short.as_millis()),
        long => format!("{:.1} s", long.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::used::UsedCounters;
    use alluvia_types::{Stage, Version};

    #[test]
    fn what_was_read_is_told_in_words() {
        let counters = UsedCounters::at(Version(7), Duration::from_millis(250), Stage::Sorted);
        counters.add_segments(1, 2);
        counters.add_blocks(3, 1_046);
        counters.add_rows(24_576);
        counters.add_tail_rows(9);
        let used = counters.used();
        assert_eq!(used.version_text(), "7, 250 ms behind, stage sorted");
        let wanted = "1 segment (2 skipped), 3 blocks (1,046 skipped), 24,585 rows (9 of the tail)";
        assert_eq!(used.read_text(), wanted);
    }

    #[test]
    fn an_index_answer_has_lines() {
        let figures = IndexFigures { covered: 4, read: 41, rows_filtered: 334_464, ..IndexFigures::default() };
        assert_eq!(
            figures.lines(", off"),
            [
                "cuboid: none, off",
                "nodes: 4 told by their aggregates, 0 without a match, 41 read",
                "rows: 334,464 filtered, 0 of the tail",
            ]
        );
        assert_eq!(IndexFigures { by_cuboid: true, ..figures }.lines("").len(), 1);
    }
}
