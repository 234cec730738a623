//! Window functions.

pub mod list_aggregates;
pub mod ranks;
