//! Writing of segments: one segment in one pass, and a segment together with its ladder.

mod by_columns;
mod ladder;
mod segment;

pub use ladder::LadderWriter;
pub(crate) use segment::FINDING_BYTES_MAX;
pub use segment::SegmentWriter;
