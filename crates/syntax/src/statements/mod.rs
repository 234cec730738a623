//! Statements of each kind, from the parser's trees.

pub mod alter;
pub(crate) mod assignments;
pub mod changes;
pub(crate) mod commands;
pub(crate) mod comments;
pub mod constraints;
pub(crate) mod cuboid_name;
pub mod definitions;
pub mod keys;
pub mod locked_within;
pub mod locking;
pub mod maintenance;
pub mod merge;
pub mod moment_defaults;
pub mod parse;
pub mod plain_insert;
pub mod planned_types;
pub mod roles;
pub mod routines;
pub mod rules;
pub mod schemas;
pub(crate) mod segment_argument;
pub mod views;
pub mod written_types;
