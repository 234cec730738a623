//! Statements that change rows, as the queries that find the rows and what becomes of what these give; and rows that come
//! and say what they do, as runs that each do one thing.
//!
//! Invariants:
//! - Nothing here plans, reads or writes: trees and definitions go in, trees and columns come out.
//! - A query reads what is changed as `given.target`, and rows that only its statement has as `given.rows`: names in a
//!   schema that no WITH hides, and that no statement can write ([`GIVEN`]). Its columns are known by their places, never
//!   by their names.
//! - A key is found once in what a statement changes, or the statement is refused. Rows that come without a statement may
//!   have it several times ([`fold`](mod@fold)).

pub mod beside;
pub mod conflict;
pub mod defaults;
pub mod fold;
pub mod locked_within;
pub mod locking;
pub mod merge;
pub mod queries;
pub mod repeated;

pub use beside::{BESIDE, Beside, mark_of, returning_beside_query};
pub use conflict::{Resolved, check_target, resolve};
pub use defaults::{default_expr, is_always_numbered};
pub use fold::{MixedRows, OldRows, Run, RunKind, fold, patched_keys};
pub use locked_within::{locked_query, put_in_place};
pub use locking::{LockingQuery, locking_query};
pub use merge::{MergeChange, MergeQuery, MergeWrite, merge_query, merge_returning_query};
pub use queries::{Gone, UpdateQuery, delete_query, insert_or_update, read_all_given, returning_query, update_query};
pub use repeated::Seen;

use alluvia_space::{DataType, TableDef};

/// The schema of tables that only one statement has. No user's is called so, for it begins with
/// [`ENGINES_OWN`](alluvia_space::ENGINES_OWN): what a statement writes never means one of these.
pub const GIVEN: &str = "\u{1}given";
/// The table that a statement changes, in schema [`GIVEN`].
pub const TARGET: &str = "target";
/// Rows that a statement has made, in schema [`GIVEN`].
pub const ROWS: &str = "rows";
/// Rows of the source of a MERGE beside those that it has made of them, in schema [`GIVEN`].
pub const SOURCE: &str = "source";
/// What was done with each of these rows, in schema [`GIVEN`].
pub const ACTIONS: &str = "actions";

/// What the target calls the version and the ordinal of its rows, where these are asked for: names that no column has.
pub fn identity_names(def: &TableDef) -> [String; 2] {
    ["row version", "row ordinal"].map(|name| {
        let mut name = name.to_owned();
        while def.columns.iter().any(|column| column.name == name) {
            name.push('_');
        }
        name
    })
}

/// Whether values of a type have all the digits that numbers are written with: not the nearest double's.
pub fn has_digits(data_type: DataType) -> bool {
    use DataType::{Decimal, Int16, Int32, Int64, Numeric, Text};
    matches!(data_type, Int16 | Int32 | Int64 | Decimal { .. } | Numeric | Text)
}

#[cfg(test)]
mod testing {
    use alluvia_space::{ENGINES_OWN, TableDef};
    use alluvia_syntax::statements::definitions::define;
    use alluvia_syntax::statements::keys::with_key;
    use alluvia_syntax::{Kind, parse};
    use alluvia_types::TableId;
    use sqlparser::ast::Query;

    /// The kind of the one statement of a text.
    pub(crate) fn kind(sql: &str) -> Kind {
        parse(sql).unwrap().remove(0).kind
    }

    /// A query as text, in which the schema of what is given is called `given`.
    pub(crate) fn text(query: &Query) -> String {
        query.to_string().replace(ENGINES_OWN, "")
    }

    /// The definition of a CREATE TABLE.
    pub(crate) fn table(sql: &str) -> TableDef {
        let Kind::CreateTable(create) = kind(sql) else { panic!("a CREATE TABLE") };
        let columns: Vec<_> = create
            .columns
            .into_iter()
            .map(|column| (column.name, column.column_type.expect("a type"), column.nullable))
            .collect();
        let def = define(TableId(1), ("public", &create.name.name), &columns, &create.with, 0).unwrap();
        with_key(def, &create.key, create.with.on_conflict.as_deref(), [1, 2]).unwrap()
    }
}
