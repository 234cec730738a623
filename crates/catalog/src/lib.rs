//! The catalog: definitions of schemas, tables, views and procedures at every version, names, rights and what these allow, and dictionaries of
//! level members.
//!
//! Invariants:
//! - A [`Catalog`] is immutable; each batch with DDL makes the next one, by a pure function of the batch.
//! - Whatever ALTER TABLE changes, files written before are read rightly under the new definition ([`alter`]).
//! - A code that anything durable names is durable in its table's [`Dictionaries`] before, and means the same for ever.

pub mod alter;
pub mod authoriser;
pub mod dependents;
pub mod rights;

mod catalog;
mod dictionary;
mod name;
mod routine;
mod view;
mod views;

pub use catalog::{
    Catalog, Change, CommentOn, PUBLIC_SCHEMA_ID, SchemaEntry, TEMPORARY_IDS, TEMPORARY_SCHEMA_ID, TableEntry,
    TakenBefore,
};
pub use dictionary::{CodeSet, Dictionaries, DictionaryMark, LevelBounds, Watched};
pub use name::{
    DATABASE_NAME, INFORMATION_SCHEMA, PG_CATALOG, RelationName, SYSTEM_SCHEMA, SearchPath, TEMPORARY_SCHEMA,
    TEMPORARY_SCHEMA_SHOWN,
};
pub use routine::{RoutineDef, RoutineEntry};
pub use view::{NameKind, NamePlace, Shown, ViewColumn, ViewDef, ViewEntry, ViewRead, check_replaced};
pub use views::{Dependent, Needed};
