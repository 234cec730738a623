//! Tables of a snapshot, as DataFusion scans them.
//!
//! A statement is planned against [`SnapshotCatalog`]; each of its tables is scanned through [`StatementContext`], which
//! pins one snapshot for all of them, and counts what is read in [`UsedCounters`].

mod catalog;
mod columns;
mod context;
mod error;
mod members;
mod metrics;
mod parts;
mod provider;
mod prune;
mod reader;
mod statistics;
mod tail;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use catalog::SnapshotCatalog;
pub use context::{SampleUsed, StatementContext, Used, UsedCounters};
pub use error::user_error;
pub use provider::configure;
pub use statistics::ScanCache;
