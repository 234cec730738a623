//! What open transactions have changed of rows: the changes that wait for COMMIT, what they come to, and a snapshot as the transaction
//! sees it.
//!
//! A transaction's own rows come beside the snapshot that a statement reads ([`PendingRows::readable`]); rows of the snapshot that it has
//! killed are left out of it ([`leave_out`]). So every statement of it finds what those before it have changed, and COMMIT makes the same
//! changes of the newest version.
//!
//! Invariants: those of [`PendingRows`].

mod fitted;
mod overlay;
mod pending;
mod view;
mod waiting;

pub use fitted::fitted;
pub use pending::{Added, PENDING_VERSION, PendingRows};
pub use view::{Killed, leave_out};
pub use waiting::{in_log, is_waiting, waiting};
