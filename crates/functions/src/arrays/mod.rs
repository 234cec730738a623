//! Lists as PostgreSQL's arrays: what their functions, operators and subscripts make, how they are compared, and their texts.
//!
//! Invariants:
//! - What lies below a list that is NULL is no element of anything.
//! - `x op ANY (list)` and `ALL` are true, false or unknown as the comparisons with all elements are, NULL among them ([`quantified`]).
//! - Lists are in the order of their elements, of which NULL is the greatest, and then of their lengths ([`compared`]).
//! - Subscripts count from 1, and what lies outside is NULL, or no part of a slice ([`subscripts`]).
//! - A list as text is what PostgreSQL writes, and is read back as that list ([`texts`]).
//! - Columns are called what they would be called by DataFusion's functions.
//!
//! DataFusion 55.2 takes some functions from its own planner, and not from those that are registered (`list || x`, `list[i]`): so there is a
//! planner of ours before it.

pub(crate) mod changed;
pub(crate) mod compared;
pub(crate) mod concatenated;
pub(crate) mod joined;
pub(crate) mod lengths;
mod lists;
mod planned;
pub(crate) mod quantified;
pub(crate) mod subscripts;
pub(crate) mod texts;

pub(crate) use lists::as_lists;
pub use planned::PlannedArrays;
pub use texts::{is_list, is_read_as_list, read};
pub(crate) use texts::{texts_of_lists, texts_of_lists_in_zone};
