//! Rows of keyed tables that a statement names by their keys: `WHERE id = 5` reads a row, not a table.
//!
//! [`alluvia_skipping::fixed_keys`] finds the keys in filters, [`named`] makes their codes and finds their rows; [`ranges`]
//! does both for keys between two.
//!
//! Invariants:
//! - What is found has every row that passes the filters, and may have others: filters are evaluated on what is found as
//!   on any rows.
//! - A literal names a value of a key's column only where it is of the column's own type. Whatever is not understood has no
//!   keys, and is scanned.
//! - Which rows have a key, the store says at the statement's version ([`alluvia_snapshot::Read::find_keys`]).

mod named;
mod ranges;

pub(crate) use named::{FoundRows, LookupCost, NamedKeys};
pub(crate) use ranges::{ColumnBounds, KeyRange};
