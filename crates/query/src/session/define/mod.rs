//! Definitions: tables, views, roles and cuboids, and what shows them; procedures.
//!
//! Invariants:
//! - A change is checked against the newest visible definitions, and committed as a batch or added to the open
//!   transaction's.
//! - Who may change what is asked before anything is changed, and of tables again at COMMIT.

pub(crate) mod alter;
pub(crate) mod comments;
pub(crate) mod constraints;
pub(crate) mod cuboids;
pub(crate) mod procedures;
pub(crate) mod purge;
pub(crate) mod rewrite;
pub(crate) mod roles;
pub(crate) mod routines;
pub(crate) mod schemas;
pub(crate) mod show;
pub(crate) mod tables;
pub(crate) mod views;
