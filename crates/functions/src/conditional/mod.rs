//! `coalesce`, `greatest`, `least`, `nullif` and CASE over types that DataFusion compares otherwise.

pub mod coalesce;
pub mod interval_extremes;
