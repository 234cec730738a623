//! Exact aggregates of boxes: counts, sums, bounds of the rows whose codes lie in given sets, by groups.
//!
//! Invariants:
//! - An answer is exact: it is what adding up every matching row gives (docs/SQL.md says what that means for floats).
//! - A node that no row of which can match is not read; a node all of whose rows match, and which lies in one group, is
//!   answered from summaries; only *cut* blocks are read, and of them only the levels that the block does not cover.
//! - A dead row matches nothing. Summaries do not know of it, so a node with one below it is never answered from them.
//!
//! VOLAP's query algorithm (Dehne et al., IEEE Cluster 2016, section III) over packed nodes: [`walk`] finds disjoint,
//! covered and cut nodes (`crate::nodes`), [`blocks`] reads what is cut, in passes that questions share ([`pass`]),
//! [`rows`] what is in no segment yet, [`totals`] adds up. [`edges`] are rows of a box that codes alone do not tell
//! from their neighbours: they are read with the others of their block. Estimates walk several boxes in one walk
//! ([`boxes`]).

mod blocks;
mod boxes;
mod code_map;
mod cuboid;
mod edges;
mod groups;
mod pass;
mod question;
mod rows;
mod segments;
mod totals;
mod walk;

pub(crate) use blocks::{Reading, filter_codes, without_null_floats, without_zeros};
pub use boxes::Boxes;
pub(crate) use boxes::CutNode;
pub use code_map::CodeMap;
pub use cuboid::{Ancestor, Cuboid, Selection};
pub use edges::TimeRange;
pub use groups::{GroupKeys, GroupSpan};
pub use question::{BoxQuery, Counters, LevelFilter, TESTS_MAX};
pub use rows::{add_rows, add_rows_with_times};
pub use segments::{Answer, answer, rows_cut};
pub(crate) use segments::{BLOCKS_PER_THREAD, CutBlock, can_answer, read_cut};
pub(crate) use totals::LARGE;
pub use totals::{MeasureTotals, Totals, Wanted, WantedMeasure};
