//! Predicates that were seen to match nowhere in a block, and the blocks that are spared by them (HRDBMS 2019, predicate-based data
//! skipping).
//!
//! Invariants:
//! - A block is spared only if no row of it can make the statement's predicate TRUE: every one of its rows was evaluated once, for a
//!   predicate that the statement's implies, and none was TRUE. Rows were evaluated whatever their version, so that holds for every
//!   reader; segments never change, and rows that die do not match more, so it holds for ever. Of a block with dead rows, which are
//!   not evaluated, that is not learnt.
//! - Only predicates that depend on the row alone are remembered: no volatile or stable functions, nothing that reads settings.
//!
//! A scan with filters brings them to a [`form`] (what is asked of each column, and texts of what is not understood), lets the
//! [`cache`] leave out blocks, and evaluates what is left in a [`exec::ScanFilterExec`], which tells the cache what it saw
//! ([`observe`]). Least and greatest values serve ranges of columns that follow the order of rows; this serves what they cannot:
//! a seldom value of a scattered column, a pattern in the middle of a text, a combination of columns.
//!
//! Filters that fix a primary key spare all but a row: [`key_conditions`] says which keys they leave. So do joins by a primary key:
//! [`key_joins`] says which keys the rows of their other sides leave.
//!
//! Knows nothing of statements and sessions; that no answer changes by it is tested where tables are scanned (`query`).

mod blocks;
mod cache;
mod canonical;
mod chosen;
mod constraint;
mod exec;
mod form;
mod key_conditions;
mod key_joins;
mod memory;
mod normal;
mod observe;
mod predicate;
mod value;

pub use cache::{Listed, PredicateCache, Spared};
pub use canonical::canonical;
pub use chosen::{Chosen, slice_runs};
pub use exec::{ScanFilterExec, Watch};
pub use form::Form;
pub use key_conditions::{fixed_keys, value_for};
pub use key_joins::{BegunRows, KeyJoin, joined_scan};
pub use memory::{MEMO as PREDICATES_MEMO, Tended, check as check_predicates_memo};
pub use observe::Observer;
pub use predicate::{Parts, Predicate};
