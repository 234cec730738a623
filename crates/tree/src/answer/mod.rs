//! Exact aggregates of boxes: counts, sums, bounds of the rows whose codes lie in given sets, by groups.
//!
//! Invariants:
//! - An answer is exact: it is what adding up every matching row gives (docs/SQL.md says what that means for floats).
//! - A node that no row of which can match is not read; a node all of whose rows match, and which lies in one group, is
//!   answered from summaries; only *cut* blocks are read, and of them only the levels that the block does not cover.
//!
//! VOLAP's query algorithm (Dehne et al., IEEE Cluster 2016, section III) over packed nodes: [`walk`] finds disjoint, covered and cut [`nodes`],
//! [`blocks`] reads what is cut, in passes that questions share ([`pass`]), [`rows`] what is in no segment yet, [`totals`] adds up. [`edges`]
//! are rows of a box that codes alone do not tell from their neighbours: they are read with the others of their block. Estimates walk several
//! boxes [`together`].

mod blocks;
mod code_map;
mod code_set;
mod cuboid;
mod edges;
mod groups;
mod nodes;
mod pass;
mod question;
mod rows;
mod segments;
mod together;
mod totals;
mod walk;

pub(crate) use blocks::{Reading, code_at, filter_codes, values_of, without_null_floats, without_zeros};
pub use code_map::CodeMap;
pub use code_set::CodeSet;
pub use cuboid::{Ancestor, Cuboid, Selection};
pub use edges::TimeRange;
pub use groups::{GroupKeys, GroupSpan};
pub(crate) use nodes::{FANOUT, NodeTree};
pub(crate) use pass::Passes;
pub use question::{BoxQuery, Counters, LevelFilter, TESTS_MAX};
pub use rows::{add_rows, add_rows_with_times};
pub use segments::{Answer, SegmentRows, answer, rows_cut};
pub(crate) use segments::{BLOCKS_PER_THREAD, CutBlock, can_answer, read_cut};
pub use together::Boxes;
pub(crate) use together::CutNode;
pub(crate) use totals::LARGE;
pub use totals::{MeasureTotals, Totals, Wanted, WantedMeasure};
pub(crate) use walk::{exact_bounds, is_special};
