//! Tables of a snapshot, as DataFusion scans them.
//!
//! A statement is planned against [`SnapshotCatalog`](crate::namespace::tables::SnapshotCatalog); each of its tables is scanned through [`StatementContext`], which
//! pins one snapshot for all of them, and counts what is read in [`UsedCounters`](crate::used::UsedCounters).

mod by_key;
mod columns;
mod context;
mod draw;
mod elsewhere;
mod intervals;
mod lengths;
mod metrics;
mod parts;
mod provider;
mod prune;
mod reader;
mod scan;
mod statistics;
mod tail;
mod temporary;
mod traced;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub(crate) use columns::sql_schema;
pub(crate) use context::IndexUse;
pub use context::StatementContext;
pub(crate) use elsewhere::{goes_by_clocks, is_utc};

pub(crate) use draw::{Behind, Draw, Part, Sample, Unit, least, share};

pub(crate) use lengths::lengths;
pub(crate) use metrics::{describe_snapshot, tell};
pub(crate) use parts::part_rows;
pub(crate) use provider::AlluviaTable;

pub use statistics::ScanCache;
