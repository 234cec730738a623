//! `thin(table, max_rows => n)` and `thin(table, fraction => f)`: the rows of a box that weigh least.
//!
//! Invariants:
//! - The box is the WHERE of the SELECT in whose FROM `thin` stands alone; it is applied before rows are counted, and whatever is
//!   outside of that SELECT after. Where the optimizer moves conditions to makes no difference: [`table::ThinTable`] takes none.
//! - What is shown is all that matches and weighs less than `weight_limit`. Weights are the rows' own, so a row that is shown is
//!   shown in every smaller box, too, and in every box as long as the limit there is not lower.
//! - `thin(table, fraction => weight_limit)` over the same box gives the same rows: the limit is a double exactly.
//!
//! This is Qbeast's sample of any region (Sidirourgos et al.; Cugnasco et al. 2019) at a cost in proportion to the rows shown: the
//! thinnest rung that may hold enough is read first, then thicker ones, each about twice the last, until one does.
//!
//! [`call`] reads the call and gathers the WHERE; [`table`] plans one scan a rung; [`exec`] runs them in turn, and [`lowest`]
//! keeps what weighs least.

mod call;
mod exec;
mod lowest;
mod table;

pub(super) use crate::sample::thin::call::{bound_of, plan};
pub(super) use exec::{LevelScan, Shown, ThinExec};
pub(crate) use table::Bound;
pub(super) use table::{levels, shown_of};

/// The column that tells the limit: all rows of the box that weigh less, as a share of all weights, are shown.
pub(super) const LIMIT_COLUMN: &str = "weight_limit";
