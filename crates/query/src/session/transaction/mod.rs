//! Transactions: savepoints, and batches on their way to the store.

pub(crate) mod savepoints;
pub(crate) mod submit;
