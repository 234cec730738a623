//! Words shared by every room: ids, versions, error kinds, the clock.
//!
//! Invariants:
//! - Nothing here does I/O, except [`SystemClock`], the only place that may ask the machine for the time. (In tests,
//!   [`planted`] asks the environment.)
//! - A [`Version`] is a batch's position in the one log: gap-free, database-wide, first batch = 1.
//! - Every error a user can see is an [`Error`] with a coarse [`ErrorKind`]; one table maps kinds to SQLSTATEs.

mod clock;
mod error;
mod freshness;
mod ids;
mod near;
mod planted;
mod producer;
mod reported_share;

pub use clock::{Clock, ManualClock, SystemClock};
pub use error::{Error, ErrorKind, Result};
pub use freshness::Freshness;
pub use ids::{ColumnId, SegmentId, Stage, TableId, Version};
pub use near::near_names;
pub use planted::{PLANTED_VARIABLE, planted};
pub use producer::ProducerMark;
pub use reported_share::ReportedShare;
