//! Tables, columns, dimensions, levels.
//!
//! A *dimension* is a named path of *levels*, coarse to fine. A level is a column, a calendar part of a date or timestamp
//! column, also of the time that a zone's clocks show, or a binary-halving step of a number. A level's member is identified by its whole path, so a child name under two
//! parents is two members; NULL is a member.

use crate::constraint::{ForeignKey, Index};
use crate::ladder::Ladder;
use crate::placement::Placement;
use crate::purge_after::PurgeAfter;
use crate::row_store::RowStore;
use crate::rules::TableRules;
use crate::zone::ZoneRules;
use alluvia_types::{ColumnId, TableId};
use serde::{Deserialize, Serialize};

/// Hidden column of segments: the row's version, `UInt64`. NULL throughout a staged file, whose version the manifest names.
pub const VERSION_COLUMN: &str = "_version";
/// Hidden column of segments: the row's ordinal within its batch and table, `UInt64`.
pub const ORDINAL_COLUMN: &str = "_ordinal";

/// The types a column can have. Timestamps are microseconds; text collates by bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DataType {
    /// `BOOLEAN`
    Boolean,
    /// `SMALLINT`
    Int16,
    /// `INT`
    Int32,
    /// `BIGINT`
    Int64,
    /// `REAL`
    Real,
    /// `DOUBLE`
    Double,
    /// `DECIMAL(precision, scale)`, precision 1 to 38
    Decimal {
        /// Digits in all.
        precision: u8,
        /// Digits after the point.
        scale: u8,
    },
    /// `DATE`, days since 1970-01-01
    Date,
    /// `TIMESTAMP`, microseconds, no zone
    Timestamp,
    /// `TIMESTAMP WITH TIME ZONE`, microseconds, stored in UTC
    TimestampTz,
    /// `TEXT`, UTF-8
    Text,
    /// `BYTEA`
    Binary,
    /// `UUID`, 16 bytes
    Uuid,
    /// `JSON`: the text as it came, checked
    Json,
    /// `JSONB`: the text as PostgreSQL prints it, so that equal values are equal texts
    Jsonb,
    /// `TIME`, microseconds since midnight, of which 24:00 is the last
    Time,
    /// `INTERVAL`: months, days and microseconds
    Interval,
    /// `NUMERIC` without precision: [`NUMERIC_PRECISION`](crate::data_type::NUMERIC_PRECISION) digits,
    /// [`NUMERIC_SCALE`](crate::data_type::NUMERIC_SCALE) of them after the point, shown without the zeros at the end
    Numeric,
    /// `CHAR(n)`: text without the blanks at its end; the n is the column's length
    Char,
}

/// One column of a table.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Column {
    /// Never reused within the table.
    pub id: ColumnId,
    /// What SQL calls it now.
    pub name: String,
    /// What segments and log call it: the first name, or `name~id` if another column once had that. Never changes.
    pub storage_name: String,
    /// Its type.
    pub data_type: DataType,
    /// Whether NULL may be stored.
    pub nullable: bool,
    /// The most characters of a value: the n of `VARCHAR(n)`, which is else a `TEXT`, and of `CHAR(n)`, which has always one. Left out
    /// of definitions that have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chars_max: Option<u32>,
}

/// A column's type as it is declared: how values are stored, and how long they may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ColumnType {
    /// How values are stored.
    pub data_type: DataType,
    /// [`Column::chars_max`].
    pub chars_max: Option<u32>,
}

/// Part of a date or timestamp that a level takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CalendarUnit {
    /// Calendar year.
    Year,
    /// Quarter of the year.
    Quarter,
    /// Month of the year.
    Month,
    /// Day of the month.
    Day,
    /// Hour of the day.
    Hour,
    /// Minute of the hour.
    Minute,
}

/// Where a level's members come from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LevelSource {
    /// A column's value, whatever its type.
    Column(ColumnId),
    /// A calendar part of the dimension's date or timestamp column; the member is the truncated timestamp.
    Calendar(ColumnId, CalendarUnit),
    /// The same of the time that clocks of the dimension's zone show at the moments of its column.
    Local(ColumnId, CalendarUnit),
    /// A number's position: the range of the dimension's column cut into 2^`halvings` equal (or equally full) parts.
    Halved {
        /// The numeric column.
        column: ColumnId,
        /// How often the range is halved at this level.
        halvings: u8,
    },
    /// A high-cardinality id, hashed into 2^`bits` buckets.
    Hashed {
        /// The id column.
        column: ColumnId,
        /// Bits of the hash that make the member.
        bits: u8,
    },
}

/// One level of a dimension.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Level {
    /// The level's name: its column's, or the calendar part's (`year`), unique within the dimension.
    pub name: String,
    /// Where members come from.
    pub source: LevelSource,
    /// Bits this level adds to the dimension's share of the curve key; fixed at CREATE. May be 0.
    pub bits: u8,
}

/// How a number or time maps onto key bits.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyRange {
    /// Names and hashed ids: no range.
    None,
    /// From the first rows that are sorted; fixed from then on.
    Learnt,
    /// Equal parts of `[low, high]`, in the column's own unit (days, microseconds, or the number). Values outside clamp.
    Linear {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
    /// To be cut at quantiles of the first rows that are sorted.
    LearntQuantiles,
    /// Cut points, ascending; a value's part is the number of cuts that are <= it.
    Quantiles {
        /// The cut points.
        cuts: Vec<f64>,
    },
}

/// A named path of levels, coarse to fine.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Dimension {
    /// Its name.
    pub name: String,
    /// Coarse to fine; at least one.
    pub levels: Vec<Level>,
    /// How numbers and times map to bits.
    pub range: KeyRange,
    /// Whose clocks say what time it is at a moment, where the calendar is not of UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<ZoneRules>,
}

/// Space-filling curve of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Curve {
    /// Compact Hilbert (Hamilton and Rau-Chaplin 2008).
    #[default]
    Hilbert,
    /// Z order: bits interleaved.
    Z,
}

/// What becomes of a row whose key is there, where its statement does not say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnConflict {
    /// Its batch is refused.
    #[default]
    Error,
    /// It is passed over.
    Nothing,
    /// It takes the place of the row that is there.
    Replace,
}

impl OnConflict {
    /// As WITH (on_conflict = '...') has it.
    pub fn name(self) -> &'static str {
        match self {
            OnConflict::Error => "error",
            OnConflict::Nothing => "nothing",
            OnConflict::Replace => "replace",
        }
    }

    /// The one of a name, in small letters.
    pub fn named(name: &str) -> Option<OnConflict> {
        [OnConflict::Error, OnConflict::Nothing, OnConflict::Replace].into_iter().find(|known| known.name() == name)
    }
}

/// The columns that tell a table's rows apart: at any version no two rows have the same values in all of them, and none
/// is NULL.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PrimaryKey {
    /// In the order of the declaration; at least one.
    pub columns: Vec<ColumnId>,
    /// Random, one per table: under it keys that do not fit into a code are hashed, so that no client can choose keys
    /// that meet.
    pub secret: [u64; 2],
    /// What becomes of a row whose key is there, where its statement does not say.
    #[serde(default)]
    pub on_conflict: OnConflict,
}

/// Options that `WITH (...)` and `ALTER TABLE SET` take, beside dimensions and measures.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct TableOptions {
    /// Default freshness of statements that read the table, as written (`'5s'`, `'merged'`).
    pub freshness: Option<String>,
    /// The curve.
    pub curve: Curve,
    /// The thickest rung of ladders that are written from now on.
    #[serde(default, skip_serializing_if = "Ladder::is_default")]
    pub ladder: Ladder,
    /// Where its rows lie, if the database lies on several machines.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Placement>,
    /// Where its rows are kept one by one, if that is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<RowStore>,
    /// For how long dead rows keep their bytes, if that is said; else as the database has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purge_after: Option<PurgeAfter>,
}

/// The schema that is there from the beginning, in which tables are whose definitions name none.
pub const PUBLIC_SCHEMA: &str = "public";

fn public_schema() -> String {
    PUBLIC_SCHEMA.to_owned()
}

fn is_public_schema(schema: &str) -> bool {
    schema == PUBLIC_SCHEMA
}

impl TableDef {
    /// Whether its rows are to be kept in memory one by one: where nothing is said, those of tables with a key that have no dimensions or
    /// measures, which are rather asked for aggregates.
    pub fn keeps_rows(&self) -> bool {
        let is_plain = self.dimensions.is_empty() && self.measures.is_empty();
        self.key.is_some() && self.options.rows.map_or(is_plain, |rows| rows == RowStore::Memory)
    }
}

/// A table's definition at some version.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TableDef {
    /// Never reused.
    pub id: TableId,
    /// The schema that it is in now.
    #[serde(default = "public_schema", skip_serializing_if = "is_public_schema")]
    pub schema: String,
    /// What SQL calls it now (lower case unless it was quoted).
    pub name: String,
    /// In SQL order. Dropped columns are gone from here; their ids are not reused.
    pub columns: Vec<Column>,
    /// The id the next added column gets.
    pub next_column_id: u32,
    /// What tells its rows apart; `None` where rows have no key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PrimaryKey>,
    /// What it says of values beside their types.
    #[serde(default, skip_serializing_if = "TableRules::is_empty")]
    pub rules: TableRules,
    /// Its indexes beside that of the key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub indexes: Vec<Index>,
    /// What its rows refer to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign_keys: Vec<ForeignKey>,
    /// The dimensions; empty for a plain table.
    pub dimensions: Vec<Dimension>,
    /// Aggregated columns.
    pub measures: Vec<ColumnId>,
    /// Seed of the rows' weights.
    pub seed: u64,
    /// Further options.
    pub options: TableOptions,
}
