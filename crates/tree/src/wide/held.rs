//! The columns that are in memory, of the rows that are being written.

use super::{ColumnValues, RowAt};
use alluvia_types::{Error, Result};
use arrow::array::{Array, ArrayRef};
use std::ops::Range;

/// Columns that are read together at most: opening a file costs something, once for all of them.
const COLUMNS_MAX: usize = 64;
/// As often values are in memory at once: as they are read, in their order, and encoded.
pub(super) const COPIES: usize = 3;

/// Some columns of a run of rows.
#[derive(Default)]
pub(super) struct Held {
    /// Of the rows that are being written.
    rows: Range<usize>,
    columns: Vec<(usize, ArrayRef)>,
}

impl Held {
    /// Values of the column at a place in some of the rows `at`; columns that come after it and that fit are read with it, but for those
    /// that are `coded`.
    pub(super) fn values(
        &mut self,
        inputs: &dyn ColumnValues,
        is_coded: &dyn Fn(usize) -> bool,
        bytes_max: usize,
        place: usize,
        rows: Range<usize>,
        at: &[RowAt],
    ) -> Result<ArrayRef> {
        let is_held = self.rows.start <= rows.start && rows.end <= self.rows.end;
        if !is_held || self.columns.iter().all(|(held, _)| *held != place) {
            self.columns.clear();
            let widths = inputs.widths();
            let bytes = |place: usize, rows: usize| widths[place].max(1) * rows * COPIES;
            // Whole columns, or a part of one.
            let fits = bytes_max / bytes(place, 1);
            self.rows =
                if fits >= at.len() { 0..at.len() } else { rows.start..(rows.start + fits).clamp(rows.end, at.len()) };
            let mut places = vec![place];
            if self.rows == (0..at.len()) {
                let mut sum = bytes(place, at.len());
                let next = (place + 1..widths.len()).filter(|&place| !is_coded(place)).take_while(|&place| {
                    sum += bytes(place, at.len());
                    sum <= bytes_max
                });
                places.extend(next.take(COLUMNS_MAX - 1));
            }
            let values = inputs.values(&places, &at[self.rows.clone()])?;
            self.columns = places.into_iter().zip(values).collect();
        }
        let held = self.columns.iter().find(|(held, _)| *held == place);
        let (_, values) = held.ok_or_else(|| Error::internal("a column of wide rows was not read"))?;
        Ok(values.slice(rows.start - self.rows.start, rows.len()))
    }
}
