//! Segments of wide rows, written column by column.
//!
//! Rows of a thousand columns, or of long texts, do not fit in memory a block at a time in all of their columns. So what decides their order
//! comes first, alone: keys, codes, versions and ordinals, a few bytes a row whatever the table; and with each row where its values are.
//! The writer then asks for one column after the other ([`ColumnValues`]) of as many blocks as lie in one stripe of the side file, ends the
//! column, and forgets it.
//!
//! Invariants:
//! - The files are those that [`crate::LadderWriter`] makes of the same rows, but for where row groups and pages end.
//! - Of values no more than about [`TreeContext::wide_bytes_max`](crate::TreeContext) is held, whatever the table, or a page of one column
//!   where that is longer.
//! - Rows that wait for a rung's stripe are held without their values: these are read again.

mod batches;
mod held;
mod pending;
mod segments;
mod writer;

pub use batches::BatchValues;
pub use segments::SegmentValues;
pub use writer::WideWriter;

use alluvia_types::Result;
use arrow::array::ArrayRef;

/// Where a row's values are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RowAt {
    /// Which of the inputs has it.
    pub input: u32,
    /// Its number there.
    pub row: u32,
}

/// Inputs that give the values of rows, a few columns at a time, as often as they are asked.
pub trait ColumnValues: Send {
    /// Bytes of a row's value in each of the table's columns, about.
    fn widths(&self) -> &[usize];

    /// The values of columns, by their places in the table's definition, in these rows, in their order.
    ///
    /// # Errors
    /// Those of reading them.
    fn values(&self, places: &[usize], rows: &[RowAt]) -> Result<Vec<ArrayRef>>;
}
