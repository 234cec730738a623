//! Rows as samples: `TABLESAMPLE`, `SET sample_fraction`, and [`thin`].
//!
//! Invariants:
//! - A sample that is asked for is drawn or refused, never left out: planning asks [`SamplePlanner`] about every table factor, in
//!   whatever statement or subquery it stands, and what is no table of rows with weights is refused there.
//! - A sample is taken before the WHERE, by what rows are ([`crate::table::Draw`]); filters and projections are pushed into the
//!   scan as ever, which changes nothing about it.
//! - Two scans that draw differently have different names in a plan: DataFusion 55.2 takes scans of one name for the same, and
//!   computes of two equal subqueries one.
//!
//! A statement that is nothing but a projection or plain aggregates of one drawn box is planned once for its text: [`outline`].

mod clause;
mod outline;
mod planner;
mod thin;

pub(crate) use outline::{DrawnQuery, DrawnRows, OUTLINE_TEXT_BYTES_MAX, Outline, OutlineKey, Outlines};
pub(crate) use planner::SamplePlanner;
