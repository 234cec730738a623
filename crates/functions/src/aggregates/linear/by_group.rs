//! Accumulators of groups, made of an accumulator for each group.
//!
//! Invariants:
//! - A batch costs what its rows cost: groups that have no row in it are not looked at. (DataFusion's adapter, 55.2, looks at every group for
//!   every batch.)
//! - What groups come to is made some groups at a time, and each part has one buffer of the texts of its own rows: lists that refer to the
//!   batches their rows came in have a list of these batches' buffers each, and all groups together the sum of all lists.
//! - Who makes the values of many groups asks whether the statement still wants them.

use super::gauge::Gauge;
use crate::stopping;
use crate::view_arrays::compact;
use arrow::array::{Array, ArrayRef, BooleanArray, UInt32Array, new_empty_array};
use arrow::compute::{concat, take_arrays};
use datafusion_common::{Result, ScalarValue};
use datafusion_expr::{Accumulator, EmitTo, GroupsAccumulator};
use std::mem::{size_of, take};

/// Groups whose values are made at once.
const PART: usize = 1_024;

/// Makes the accumulator of a group.
pub(super) type MakeAccumulator = Box<dyn Fn() -> Result<Box<dyn Accumulator>> + Send>;

/// An accumulator for each group.
pub(super) struct ByGroup {
    make: MakeAccumulator,
    groups: Vec<Group>,
    /// What the accumulators hold, as far as they were asked.
    bytes: usize,
    /// The groups of the batch under way, as they come.
    touched: Vec<usize>,
    #[cfg(test)]
    pub(super) looked_at: usize,
}

struct Group {
    accumulator: Box<dyn Accumulator>,
    gauge: Gauge,
    /// Of the batch under way: first how many rows the group has, then the place for the next of them; zero between batches.
    rows: u32,
}

impl ByGroup {
    pub fn new(make: MakeAccumulator) -> ByGroup {
        ByGroup {
            make,
            groups: Vec::new(),
            bytes: 0,
            touched: Vec::new(),
            #[cfg(test)]
            looked_at: 0,
        }
    }

    #[cfg(test)]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn grow(&mut self, total_groups: usize) -> Result<()> {
        self.groups.reserve(total_groups.saturating_sub(self.groups.len()));
        while self.groups.len() < total_groups {
            let accumulator = (self.make)()?;
            let gauge = Gauge::new(accumulator.size());
            self.bytes += gauge.bytes;
            self.groups.push(Group { accumulator, gauge, rows: 0 });
        }
        Ok(())
    }

    /// Hands each group its rows.
    fn each(
        &mut self,
        columns: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
        add: impl Fn(&mut dyn Accumulator, &[ArrayRef]) -> Result<()>,
    ) -> Result<()> {
        self.grow(total_groups)?;
        let is_in = |row: usize| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        let mut touched = take(&mut self.touched);
        touched.clear();
        for (row, &group) in groups.iter().enumerate().filter(|(row, _)| is_in(*row)) {
            let rows = &mut self.groups[group].rows;
            if *rows == 0 {
                touched.push(group);
            }
            *rows += 1;
            debug_assert!(row < u32::MAX as usize, "a batch has fewer rows");
        }
        let mut all = 0;
        for &group in &touched {
            let rows = &mut self.groups[group].rows;
            (*rows, all) = (all, all + *rows);
        }
        let is_whole = touched.len() == 1 && all as usize == groups.len();
        let columns = if is_whole {
            columns.to_vec()
        } else {
            let mut order = vec![0; all as usize];
            for (row, &group) in groups.iter().enumerate().filter(|(row, _)| is_in(*row)) {
                let place = &mut self.groups[group].rows;
                order[*place as usize] = row as u32;
                *place += 1;
            }
            take_arrays(columns, &UInt32Array::from(order), None)?
        };
        let mut first = 0;
        for &group in &touched {
            let group = &mut self.groups[group];
            let end = if is_whole { all as usize } else { group.rows as usize };
            group.rows = 0;
            let rows: Vec<ArrayRef> = columns.iter().map(|column| column.slice(first, end - first)).collect();
            add(group.accumulator.as_mut(), &rows)?;
            if group.gauge.add(end - first) {
                self.bytes -= group.gauge.bytes;
                group.gauge.set(group.accumulator.size());
                self.bytes += group.gauge.bytes;
            }
            first = end;
        }
        #[cfg(test)]
        {
            self.looked_at += touched.len();
        }
        self.touched = touched;
        Ok(())
    }

    /// The first groups, some at a time.
    fn taken(&mut self, emit_to: EmitTo, mut part: impl FnMut(&mut [Group]) -> Result<()>) -> Result<()> {
        let mut taken = emit_to.take_needed(&mut self.groups);
        self.bytes -= taken.iter().map(|group| group.gauge.bytes).sum::<usize>();
        for groups in taken.chunks_mut(PART) {
            stopping::check()?;
            part(groups)?;
        }
        Ok(())
    }
}

/// Values that were made some at a time.
#[derive(Default)]
struct Parts(Vec<ArrayRef>);

impl Parts {
    fn add(&mut self, values: Vec<ScalarValue>) -> Result<()> {
        self.0.push(compact(&ScalarValue::iter_to_array(values)?)?);
        Ok(())
    }

    fn finish(mut self) -> Result<Option<ArrayRef>> {
        if self.0.len() < 2 {
            return Ok(self.0.pop());
        }
        let parts: Vec<&dyn Array> = self.0.iter().map(AsRef::as_ref).collect();
        Ok(Some(compact(&concat(&parts)?)?))
    }
}

fn add_row(columns: &mut Vec<Vec<ScalarValue>>, row: Vec<ScalarValue>) {
    columns.resize_with(row.len(), Vec::new);
    columns.iter_mut().zip(row).for_each(|(column, value)| column.push(value));
}

impl GroupsAccumulator for ByGroup {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.each(values, groups, filter, total_groups, |accumulator, rows| accumulator.update_batch(rows))
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        self.each(states, groups, None, total_groups, |accumulator, rows| accumulator.merge_batch(rows))
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let mut parts = Parts::default();
        self.taken(emit_to, |groups| {
            parts.add(groups.iter_mut().map(|group| group.accumulator.evaluate()).collect::<Result<_>>()?)
        })?;
        match parts.finish()? {
            Some(values) => Ok(values),
            None => Ok(new_empty_array(&(self.make)()?.evaluate()?.data_type())),
        }
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let mut parts: Vec<Parts> = Vec::new();
        self.taken(emit_to, |groups| {
            let mut columns = Vec::new();
            for group in groups {
                add_row(&mut columns, group.accumulator.state()?);
            }
            parts.resize_with(columns.len(), Parts::default);
            parts.iter_mut().zip(columns).try_for_each(|(part, column)| part.add(column))
        })?;
        if parts.is_empty() {
            return self.convert_to_state(&[], None);
        }
        Ok(parts.into_iter().map(Parts::finish).collect::<Result<Option<_>>>()?.unwrap_or_default())
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |values| values.len());
        if rows == 0 {
            let states = (self.make)()?.state()?;
            return Ok(states.iter().map(|state| new_empty_array(&state.data_type())).collect());
        }
        let mut columns = Vec::new();
        for row in 0..rows {
            let mut accumulator = (self.make)()?;
            if filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row)) {
                let of_row: Vec<ArrayRef> = values.iter().map(|column| column.slice(row, 1)).collect();
                accumulator.update_batch(&of_row)?;
            }
            add_row(&mut columns, accumulator.state()?);
        }
        columns.into_iter().map(|column| compact(&ScalarValue::iter_to_array(column)?)).collect()
    }

    fn size(&self) -> usize {
        self.bytes + self.groups.capacity() * size_of::<Group>() + self.touched.capacity() * size_of::<usize>()
    }
}
