//! What a table *is*, as pure functions: schema, dimensions, curve keys, weights.
//!
//! Invariants:
//! - Nothing here does I/O, asks the time or draws random numbers.
//! - A curve key depends only on a row's dimension values and the table's key layout, which never changes.
//! - A weight depends only on a row's identity and the table's seed, never on its dimensions.

mod schema;

pub use schema::{
    CalendarUnit, Column, Curve, DataType, Dimension, KeyRange, Level, LevelSource, ORDINAL_COLUMN, TableDef,
    TableOptions, VERSION_COLUMN,
};
