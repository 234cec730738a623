//! Freshness: how old the answer to a statement may be.

use std::time::Duration;

/// How fresh an answer must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freshness {
    /// Includes every batch that was visible at least this long before the statement began.
    Within(Duration),
    /// Whatever is merged: the cheapest.
    Merged,
}
