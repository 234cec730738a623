//! Rows of groups, held as arrays until their groups are taken.
//!
//! Invariants:
//! - A part holds little more than its own rows: of an array that keeps more, as a slice of a larger one does, the rows are copied.
//! - Work grows as rows and groups do: each row is counted, placed, sorted and copied once; those that stay when others go are copied once more.
//! - Keys become bytes that compare for some groups at a time, so that beside a group of many rows there is room for these alone.

use crate::stopping;
use crate::view_arrays::{bytes_of, compact};
use arrow::array::{Array, ArrayRef, UInt32Array, new_empty_array};
use arrow::compute::{interleave, take as take_rows, take_arrays};
use arrow::datatypes::DataType;
use arrow::row::RowConverter;
use datafusion_common::Result;
use datafusion_expr::EmitTo;
use std::mem::{size_of, take};

/// Rows whose keys are sorted at once, unless one group has more.
const SORTED_ROWS: usize = 65_536;

/// What an array may keep beside its rows.
const ARRAY_BYTES: usize = 512;

/// Bytes for a row of views, or of offsets, that become others when they are copied.
const VIEW_BYTES: usize = 16;

/// A part, and a row of it.
pub(super) type PartRow = (usize, usize);

/// Rows with their keys and groups.
#[derive(Debug, Default)]
pub(super) struct HeldRows {
    parts: Vec<Part>,
    /// How many rows each group has.
    counts: Vec<usize>,
    rows: usize,
    rows_of_largest: usize,
    value_bytes: usize,
    key_bytes: usize,
    group_bytes: usize,
    /// How often a row or a group was looked at.
    #[cfg(test)]
    pub looked_at: usize,
}

#[derive(Debug)]
struct Part {
    /// The value, and behind it the keys.
    columns: Vec<ArrayRef>,
    /// The group of each row.
    groups: Vec<u32>,
}

/// The array, or its rows alone where it keeps much more.
fn owned(array: ArrayRef) -> Result<ArrayRef> {
    if array.get_array_memory_size() <= most_bytes(&array) {
        return Ok(array);
    }
    let rows = UInt32Array::from_iter_values(0..super::row_number(array.len())?);
    compact(&take_rows(&array, &rows, None)?)
}

fn most_bytes(array: &ArrayRef) -> usize {
    2 * bytes_of(array) + ARRAY_BYTES
}

/// What arrays share, as the values of a dictionary, counts for none of them.
fn held_bytes(array: &ArrayRef) -> usize {
    array.get_array_memory_size().min(most_bytes(array))
}

impl HeldRows {
    /// As many groups as there are by now.
    pub fn grow(&mut self, groups: usize) {
        if self.counts.len() < groups {
            self.counts.resize(groups, 0);
        }
    }

    pub fn len(&self) -> usize {
        self.rows
    }

    /// Adds rows, of groups that are there: the value and the keys of each.
    pub fn add(&mut self, columns: Vec<ArrayRef>, groups: Vec<u32>) -> Result<()> {
        if groups.is_empty() {
            return Ok(());
        }
        for &group in &groups {
            let count = &mut self.counts[group as usize];
            *count += 1;
            self.rows_of_largest = self.rows_of_largest.max(*count);
        }
        let columns: Vec<ArrayRef> = columns.into_iter().map(owned).collect::<Result<_>>()?;
        self.rows += groups.len();
        self.value_bytes += held_bytes(&columns[0]);
        self.key_bytes += columns[1..].iter().map(held_bytes).sum::<usize>();
        self.group_bytes += groups.capacity() * size_of::<u32>();
        #[cfg(test)]
        {
            self.looked_at += groups.len();
        }
        self.parts.push(Part { columns, groups });
        Ok(())
    }

    /// What is held, and what it takes beside to take all groups.
    pub fn size(&self) -> usize {
        let parts = self.parts.capacity() * size_of::<Part>() + self.counts.capacity() * size_of::<usize>();
        let held = parts + self.group_bytes + self.value_bytes + self.key_bytes;
        let places = self.rows * size_of::<PartRow>() + 2 * self.counts.len() * size_of::<usize>();
        let sorted = self.rows_of_largest.max(SORTED_ROWS).min(self.rows);
        // Their keys, once more and as bytes; where those are, the order of the rows, and their places in it.
        let per_row = 2 * self.key_bytes.div_ceil(self.rows.max(1)) + 2 * size_of::<usize>() + size_of::<PartRow>();
        // A column is copied while it is held, and goes before the next one is.
        let copied = self.value_bytes.max(self.key_bytes) + self.rows * VIEW_BYTES;
        held + places + copied.max(sorted * per_row)
    }

    /// Where the rows of the first groups are, group by group and as they came, and where each group begins among these.
    pub fn places(&self, emit_to: EmitTo) -> Result<(Vec<PartRow>, Vec<usize>)> {
        let groups = match emit_to {
            EmitTo::All => self.counts.len(),
            EmitTo::First(groups) => groups,
        };
        let mut starts = Vec::with_capacity(groups + 1);
        starts.push(0);
        let mut rows = 0;
        starts.extend(self.counts[..groups].iter().map(|count| {
            rows += count;
            rows
        }));
        let (mut places, mut next) = (vec![(0, 0); rows], starts.clone());
        for (at, part) in self.parts.iter().enumerate() {
            stopping::check()?;
            for (row, &group) in part.groups.iter().enumerate() {
                let group = group as usize;
                if group < groups {
                    places[next[group]] = (at, row);
                    next[group] += 1;
                }
            }
        }
        Ok((places, starts))
    }

    /// Puts the places of each group in the order of the keys.
    pub fn sort(&self, places: &mut [PartRow], starts: &[usize], keys: &RowConverter) -> Result<()> {
        let (mut first, groups) = (0, starts.len() - 1);
        while first < groups {
            stopping::check()?;
            let mut end = first + 1;
            while end < groups && starts[end + 1] - starts[first] <= SORTED_ROWS {
                end += 1;
            }
            if starts[first..=end].windows(2).any(|group| group[1] - group[0] > 1) {
                self.sort_groups(&mut places[starts[first]..starts[end]], &starts[first..=end], keys)?;
            }
            first = end;
        }
        Ok(())
    }

    fn sort_groups(&self, places: &mut [PartRow], starts: &[usize], keys: &RowConverter) -> Result<()> {
        let columns = 1..self.parts[0].columns.len();
        let columns: Vec<ArrayRef> = columns.map(|column| self.gathered(column, places)).collect::<Result<_>>()?;
        let keys = keys.convert_columns(&columns)?;
        drop(columns);
        let mut order: Vec<usize> = (0..places.len()).collect();
        for group in starts.windows(2) {
            // Rows that come in some sorted runs, as they do from sorted inputs, are merged by this.
            let of_group = &mut order[group[0] - starts[0]..group[1] - starts[0]];
            of_group.sort_by(|a, b| keys.row(*a).cmp(&keys.row(*b)));
        }
        let sorted: Vec<PartRow> = order.into_iter().map(|row| places[row]).collect();
        places.copy_from_slice(&sorted);
        Ok(())
    }

    fn gathered(&self, column: usize, places: &[PartRow]) -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = self.parts.iter().map(|part| part.columns[column].as_ref()).collect();
        Ok(interleave(&parts, places)?)
    }

    /// Takes the first groups, whose rows are at these places: the first columns, of such types.
    pub fn take(&mut self, emit_to: EmitTo, types: &[DataType], places: &[PartRow]) -> Result<Vec<ArrayRef>> {
        let is_all = matches!(emit_to, EmitTo::All);
        let mut taken = Vec::new();
        for (column, of) in types.iter().enumerate().rev() {
            stopping::check()?;
            if is_all {
                // Nobody asks for what is behind this column any more.
                self.parts.iter_mut().for_each(|part| part.columns.truncate(column + 1));
            }
            taken.push(if places.is_empty() { new_empty_array(of) } else { compact(&self.gathered(column, places)?)? });
        }
        taken.reverse();
        #[cfg(test)]
        {
            self.looked_at += self.rows + self.counts.len();
        }
        match emit_to {
            EmitTo::All => drop(self.emptied(0)),
            EmitTo::First(groups) => self.drop_first(groups)?,
        }
        Ok(taken)
    }

    /// Drops the rows of the first groups; the others become the first ones.
    fn drop_first(&mut self, groups: usize) -> Result<()> {
        for part in self.emptied(self.counts.len() - groups) {
            stopping::check()?;
            let stays = |group: u32| group as usize >= groups;
            let rows = (0..).zip(&part.groups).filter(|(_, group)| stays(**group)).map(|(row, _)| row);
            let rows = UInt32Array::from_iter_values(rows);
            let is_whole = rows.len() == part.groups.len();
            let columns = if is_whole { part.columns } else { take_arrays(&part.columns, &rows, None)? };
            let new_groups = part.groups.iter().filter(|group| stays(**group)).map(|group| group - groups as u32);
            self.add(columns, new_groups.collect())?;
        }
        Ok(())
    }

    /// Takes the parts. What stays is so many groups of no rows.
    fn emptied(&mut self, groups: usize) -> Vec<Part> {
        let parts = take(&mut self.parts);
        *self = HeldRows {
            counts: vec![0; groups],
            #[cfg(test)]
            looked_at: self.looked_at,
            ..HeldRows::default()
        };
        parts
    }
}
