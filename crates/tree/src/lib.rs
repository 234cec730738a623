//! Segments: immutable runs of rows in key order, each a Parquet file beside a side file of codes and summaries.
//!
//! Invariants:
//! - A segment is cut into blocks of [`BLOCK_ROWS`] rows; only the last block is shorter. A block is what a query skips
//!   or reads, what a summary describes, and (unless its values are very long) one data page of every Parquet column.
//! - Blocks ascend by curve key. So do the rows within a block, equal keys in the order they were written in, unless
//!   the segment is *banded*: then the rows of a block lie in bands by weight, and ascend within these
//!   (`layout/bands.rs`).
//! - Both files are synced, and so is their directory, before [`SegmentWriter::finish`] returns; they never change
//!   after.
//! - Every byte read has passed its checksum; whatever does not hold is an error that names the file and the section.
//! - A segment's files are deleted only when it was retired and nobody holds it any more.
//! - What is loaded of open segments (summaries, Parquet footers) is accounted and bounded; it can always be loaded
//!   again.
//!
//! The Parquet file is what any tool opens: table columns and the hidden `_version` and `_ordinal`. The side file is
//! what makes it an index: keys and level codes packed per block, so that merges and filters need not look at values,
//! and per block the codes present, bounds, NULL counts and measures. Its format is in docs/FORMAT.md, section
//! "Segments".

mod answer;
mod chunk;
mod context;
pub mod estimate;
mod filter;
mod float_sum;
mod heavy;
mod layout;
mod meta;
mod nodes;
mod packed;
mod parquet_file;
mod rebuild;
pub mod sample;
mod segment;
mod side;
mod summary;
mod verify;
mod visible;
mod wide;
mod writer;

pub use answer::{
    Ancestor, Answer, BoxQuery, Boxes, CodeMap, Counters, Cuboid, GroupKeys, GroupSpan, LevelFilter, MeasureTotals,
    Selection, TESTS_MAX, TimeRange, Totals, Wanted, WantedMeasure, add_rows, add_rows_with_times, answer, rows_cut,
};
pub use chunk::{CodedColumn, RowChunk};
pub use context::{TreeContext, segment_of_file};
pub use layout::{
    BLOCK_ROWS, Bands, RUNG_ROWS_MIN, band_limit, by_band, rung_limit, rung_rate, segment_schema, whole_bands_limit,
};
pub use meta::{RungMeta, SegmentMeta};
pub use nodes::CodeSet;
pub use parquet_file::intervals;
pub use rebuild::{Damage, Proof, REBUILT_DIR, RebuiltSide};
pub use segment::{
    HeldFiles, KeptLengths, OrderedChunk, RowBytes, RowColumns, Rung, Segment, SegmentCursor, value_bytes,
};
pub use summary::{BlockSummaries, ColumnSummary, FloatSummary, LevelSummary, MeasureSummary};
pub use verify::Mapping;
pub use visible::{Dead, DeadRows, KilledRows, SegmentRows};
pub use wide::{BatchValues, ColumnValues, RowAt, SegmentValues, WideWriter};
pub use writer::{LadderWriter, SegmentWriter};
