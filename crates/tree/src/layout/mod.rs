//! The shape of a segment: sizes, Arrow schema, bands within blocks, rungs of the ladder.
//!
//! A block is the unit of skipping. Row groups are large, because readers of Parquet pay for each one; a stripe is the
//! run of blocks whose codes are stored level by level, long enough that reading one level is sequential, short enough
//! that a writer can hold it in memory.

mod bands;
mod ladder;

pub(crate) use bands::BandCounter;
pub use bands::{Bands, band_limit, by_band, whole_bands_limit};
pub(crate) use ladder::rungs_of;
pub use ladder::{RUNG_ROWS_MIN, rung_limit, rung_rate};

use alluvia_space::{ORDINAL_COLUMN, TableDef, VERSION_COLUMN};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::ops::Range;
use std::sync::Arc;

/// Rows of a block. Only the last block of a segment has fewer.
pub const BLOCK_ROWS: usize = 8192;
/// Blocks of a stripe of the side file.
pub(crate) const STRIPE_BLOCKS: usize = 16;
/// Rows of a Parquet row group; a multiple of [`BLOCK_ROWS`].
pub(crate) const ROW_GROUP_ROWS: usize = 128 * BLOCK_ROWS;

/// The rows of a block.
pub(crate) fn block_rows(block: usize, rows: u64) -> Range<u64> {
    let first = block as u64 * BLOCK_ROWS as u64;
    first.min(rows)..(first + BLOCK_ROWS as u64).min(rows)
}

/// How many blocks so many rows make.
pub(crate) fn blocks_of(rows: u64) -> usize {
    rows.div_ceil(BLOCK_ROWS as u64) as usize
}

/// The columns of a segment that is written or read under this definition: the table's by storage name, then
/// `_version` (nullable: a staged file does not know it) and `_ordinal`.
pub fn segment_schema(table: &TableDef) -> SchemaRef {
    let mut fields: Vec<Field> = table
        .columns
        .iter()
        .map(|column| Field::new(&column.storage_name, column.data_type.to_arrow(), column.nullable))
        .collect();
    fields.push(Field::new(VERSION_COLUMN, DataType::UInt64, true));
    fields.push(Field::new(ORDINAL_COLUMN, DataType::UInt64, false));
    Arc::new(Schema::new(fields))
}
