//! Tables of a snapshot, as DataFusion scans them.
//!
//! A statement is planned against [`SnapshotCatalog`]; each of its tables is scanned through [`StatementContext`], which
//! pins one snapshot for all of them, and counts what is read in [`UsedCounters`].

mod catalog;
mod columns;
mod context;
mod draw;
mod members;
mod metrics;
mod parts;
mod provider;
mod prune;
mod reader;
mod scan;
mod statistics;
mod tail;
mod traced;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use catalog::SnapshotCatalog;
pub(crate) use columns::sql_schema;
pub(crate) use context::IndexUse;
pub use context::{SampleUsed, StatementContext, Used, UsedCounters};
pub(crate) use draw::{Draw, Part, Sample, Unit, least, share};

pub(crate) use members::{EVALUATED_MAX, batch_of_members, evaluated};
pub(crate) use metrics::{describe_snapshot, tell};
pub(crate) use parts::part_rows;
pub(crate) use provider::AlluviaTable;
pub(crate) use prune::Chosen;
pub use statistics::ScanCache;
