//! Tables of a snapshot, as DataFusion scans them.

mod context;

pub use context::{StatementContext, Used, UsedCounters};
