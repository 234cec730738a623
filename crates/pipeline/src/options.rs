//! Options of the pipeline.

use std::time::Duration;

/// Sizes and times of the pipeline.
#[derive(Clone, Debug)]
pub struct PipelineOptions {
    /// A batch waits at most this long in the tail before a sort begins.
    pub sort_interval: Duration,
    /// The tail is sorted at the latest when it has this many bytes.
    pub sort_bytes: u64,
    /// Rows of a sorted segment at the most; a load's rows are sorted this many at a time.
    pub segment_rows: usize,
    /// Bytes in memory of a load's unsorted run at the most.
    pub run_bytes: usize,
    /// A sorted segment waits at most about this long before it is merged.
    pub merge_interval: Duration,
    /// A merge begins at the latest when a table has this many sorted segments.
    pub merge_segments: usize,
    /// A partition with more rows is split, where its keys differ.
    pub partition_rows_max: u64,
    /// Rows per output chunk of a merge at most.
    pub chunk_rows: usize,
    /// Bytes of rows in memory of one worker's merge at most, as far as two inputs let it.
    pub merge_bytes: usize,
    /// Rows that a rung of a segment's ladder has at least, about.
    pub rung_rows_min: u64,
}

impl Default for PipelineOptions {
    fn default() -> Self {
        PipelineOptions {
            sort_interval: Duration::from_secs(1),
            sort_bytes: 64 << 20,
            segment_rows: 1 << 20,
            run_bytes: 256 << 20,
            merge_interval: Duration::from_secs(5),
            merge_segments: 8,
            partition_rows_max: 4 << 20,
            chunk_rows: 64 << 10,
            merge_bytes: 1 << 30,
            rung_rows_min: alluvia_tree::RUNG_ROWS_MIN,
        }
    }
}
