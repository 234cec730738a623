//! From SQL text to what Alluvia does: parsing, hints, refusals, definitions.
//!
//! Nothing here knows which tables exist, and nothing does I/O: a [`Statement`] is a checked tree, and binding it to a
//! snapshot is the session's work.

pub(crate) mod arrays;
mod bounds;
mod cast_keys;
mod column_names;
mod commands;
mod copied;
mod cuboid_name;
pub(crate) mod definitions;
mod depth;
mod grammar;
mod hints;
mod interval_texts;
mod labels;
mod mirror;
pub(crate) mod names;
mod neighbours;
pub(crate) mod parameters;
mod parse;
pub(crate) mod patterns;
pub(crate) mod plain_insert;
mod positions;
mod refuse;
mod released;
mod repeated;
pub(crate) mod rewriting;
pub(crate) mod roles;
mod row_lists;
mod script;
mod seeds;
mod series;
mod shown_names;
mod signs;
pub(crate) mod similar;
mod spellings;
pub(crate) mod statement;
mod sureness;
mod templates;
mod text_casts;
mod tokens;
mod urls;
mod visit;
mod written;
mod zones;

pub use arrays::array_elements;
pub(crate) use copied::copied_text;
pub(crate) use cuboid_name::CuboidName;
pub(crate) use hints::Hints;
pub(crate) use interval_texts::in_units;
pub(crate) use parse::query_of_table;
pub(crate) use refuse::not_supported;
pub(crate) use script::parse;
#[cfg(test)]
pub(crate) use script::parse_by_tokens;
pub use script::script;
pub(crate) use shown_names::{MARK, shown_name, told_apart};
pub(crate) use statement::Kind;
pub use statement::{Command, Statement};
pub(crate) use sureness::{Sureness, rewrite_sureness};
pub(crate) use visit::{visit, visit_mut};
pub(crate) use written::{WrittenDecimal, written_decimal};
