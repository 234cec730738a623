//! Tables as pure functions: schema, dimensions, curve keys, weights.
//!
//! Invariants:
//! - Nothing here does I/O, asks the time or draws random numbers.
//! - A curve key depends only on a row's dimension values and the table's key layout, which never changes.
//! - A weight depends only on a row's identity and the table's seed, never on its dimensions.
//! - A key's code depends only on its values and the table's secret, never on how columns are encoded (`key_code`).
//! - A level's members are ordered within their dimension as `codes` says; code 0 is always the NULL member.

pub mod keywords;

mod constraint;
mod definition;
mod ladder;
mod mend;
mod numbers;
mod placement;
mod purge_after;
mod row_op;
mod row_store;
mod rules;
mod schema;
mod schema_name;
mod show;
mod validate;
mod zone;

pub mod codes;
pub mod curve;
pub mod data_type;
pub mod dimensions;
pub mod key;
pub mod key_code;
pub mod learn;
pub mod weight;

pub use codes::LevelCodes;
pub use constraint::{Action, ForeignKey, Index};
pub use data_type::CHARS_MAX;
pub use key::KeyLayout;
pub use key_code::{KeyCode, KeyCoder};
pub use ladder::Ladder;
pub use placement::{Placement, REPLICAS_MAX, SHARDS_MAX, SLOTS, Spread, shard_of};
pub use purge_after::PurgeAfter;
pub use row_op::{OP_COLUMN, RowOp, RowPolicy, without_key};
pub use row_store::RowStore;
pub use rules::{Check, ColumnDefault, Identity, IdentityKind, SEQUENCE_CACHE, TableRules, greatest, least};
pub use schema::{
    CalendarUnit, Column, ColumnType, Curve, DataType, Dimension, KeyRange, Level, LevelSource, ORDINAL_COLUMN,
    OnConflict, PUBLIC_SCHEMA, PrimaryKey, TableDef, TableOptions, VERSION_COLUMN,
};
pub use schema_name::{ENGINES_OWN, SCHEMA_NAME_BYTES_MAX, is_schema_name};
pub use zone::ZoneRules;
