//! Kept plans of point reads: `SELECT name FROM t WHERE id = 5` is planned once, and `... id = 7` not again.
//!
//! Invariants:
//! - A plan is kept of a query that was planned the general way, and only where its optimised logical plan shows that it reads
//!   one row by its key, or what lies between two: a projection over a scan, whose filters compare columns of the key with values
//!   and mention them nowhere else ([`shape`]), or over [`aggregates`] of all of these rows. What the key is compared with is the
//!   one thing in which texts that share a plan may differ ([`alluvia_syntax::alike`]); every other literal is part of what a plan
//!   is known by.
//! - What lies [`between`] two keys is read by a kept plan only where the store knows the order of keys, and is little.
//! - A value is put in the place of a key's literal only where planning would take it for a value of the column's own type
//!   ([`values`]). So no plan depends on a value.
//! - A plan holds no snapshot and nothing of its session. It is used as long as its table is defined as it was.
//! - Every doubt is the general way's: a plan gives an answer, or nothing.

mod aggregates;
mod between;
mod kept;
mod plan;
mod shape;
mod values;

pub(crate) use kept::PointPlans;
pub(crate) use plan::{PointKeys, PointPlan};
pub(crate) use shape::{PointText, key_names};
