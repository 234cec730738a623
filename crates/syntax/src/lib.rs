//! From SQL text to statements: tokens, parser, trees, definitions, refusals.
//!
//! Invariants:
//! - Nothing here knows which tables exist, and nothing does I/O: a [`Statement`] is a checked tree, and binding it to a snapshot is the
//!   session's work.
//! - A text is cut into tokens once and parsed once; a tree is never printed and parsed again.
//! - What the parser reads and this database does not do is refused by name; nothing in a statement is ignored.

pub mod copy;
pub mod sample;
pub mod statements;
pub mod tokens;
pub mod trees;
pub mod units;

pub mod alike;
pub mod bounds;
mod chains;
pub mod expression_names;
pub mod grammar;
pub mod names;
pub mod parameter_places;
pub mod parameters;
mod refuse;
pub mod result_names;
pub mod script;
pub mod statement;
mod void_parameters;

pub use statements::commands::no_procedure;
pub use statements::cuboid_name::CuboidName;
pub use tokens::copied_query::copied_text;
pub use tokens::hints::Hints;

pub use statements::parse::query_of_table;

pub use result_names::ResultNames;
pub use script::{parse, parse_by_tokens, script};
pub use statement::{Command, Kind, Statement};
pub use trees::display_names::{MARK, shown_name, told_apart};
pub use trees::estimate_bounds::{Sureness, rewrite_sureness};

pub use trees::decimal_literals::keep_columns;
pub use trees::visit::{visit, visit_mut};
