//! Sessions: settings, transactions, statements.

pub mod progress;
