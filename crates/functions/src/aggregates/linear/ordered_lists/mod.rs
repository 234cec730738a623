//! `array_agg` and `string_agg` in an order of their own (`array_agg(x ORDER BY y)`).
//!
//! Invariants:
//! - Rows are held as arrays, a value and its keys in columns ([`HeldRows`]); nothing is made for each row.
//! - The rows of a group are sorted once, when the group is taken. Rows with equal keys stay as they came. Rows that come sorted are not sorted,
//!   unless parts of them were merged.
//! - What is handed on of a part of the rows is what DataFusion's accumulators (55.2) hand on: a list of values, and a list of records of keys.
//! - `size` is what is held and what it takes to make the answer.
//!
//! DataFusion's accumulator (55.2) has a scalar for each value and each key, and one accumulator for each group.

mod joined;
mod rows;
mod single;
#[cfg(test)]
mod tests;

pub(super) use single::OrderedList;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, StructArray, UInt32Array};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::{take, take_arrays};
use arrow::datatypes::{DataType, Field, Fields};
use arrow::row::{RowConverter, SortField};
use datafusion_common::{Result, exec_err, internal_err};
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::{EmitTo, GroupsAccumulator};
use datafusion_physical_expr::expressions::Literal;
use rows::HeldRows;
use std::iter::{once, repeat_n};
use std::mem::size_of;
use std::sync::Arc;

/// The lists, or the joined texts, of groups.
#[derive(Debug)]
pub(super) struct OrderedLists {
    output: Output,
    /// Arguments of the function; the columns of a batch are these and the keys.
    arguments: usize,
    /// The types of the value and of each key.
    types: Vec<DataType>,
    /// The record of keys that a state has.
    key_fields: Fields,
    keys: RowConverter,
    ignore_nulls: bool,
    /// Whether the order is the opposite of the one that was asked for.
    is_reversed: bool,
    is_input_ordered: bool,
    has_merged: bool,
    rows: HeldRows,
}

/// What is made of a group's values.
#[derive(Debug)]
enum Output {
    List,
    /// A text with another between neighbours.
    Joined(String),
}

impl Output {
    /// What the function makes; `None` for others, and for arguments that DataFusion refuses.
    fn of(function: &str, args: &AccumulatorArgs) -> Option<Output> {
        match (function, args.exprs) {
            ("array_agg", [_]) => Some(Output::List),
            ("string_agg", [_, between]) if args.expr_fields[0].data_type().is_string() => {
                let between = between.downcast_ref::<Literal>()?.value();
                let text = if between.is_null() { Some("") } else { between.try_as_str()? };
                Some(Output::Joined(text.unwrap_or_default().to_owned()))
            }
            _ => None,
        }
    }
}

impl OrderedLists {
    /// For such arguments; `None` where there is no order, for DISTINCT, and for keys that cannot be bytes that compare.
    pub fn new(function: &str, args: &AccumulatorArgs, is_input_ordered: bool) -> Result<Option<OrderedLists>> {
        if args.is_distinct || args.order_bys.is_empty() {
            return Ok(None);
        }
        let Some(output) = Output::of(function, args) else { return Ok(None) };
        let (mut types, mut key_fields) = (vec![args.expr_fields[0].data_type().clone()], Vec::new());
        let mut sort_fields = Vec::new();
        for key in args.order_bys {
            let of = key.expr.data_type(args.schema)?;
            sort_fields.push(SortField::new_with_options(of.clone(), key.options));
            key_fields.push(Field::new(key.expr.to_string(), of.clone(), true));
            types.push(of);
        }
        if !RowConverter::supports_fields(&sort_fields) {
            return Ok(None);
        }
        Ok(Some(OrderedLists {
            // NULL is no part of a joined text.
            ignore_nulls: args.ignore_nulls || matches!(output, Output::Joined(_)),
            output,
            arguments: args.exprs.len(),
            types,
            key_fields: key_fields.into(),
            keys: RowConverter::new(sort_fields)?,
            is_reversed: args.is_reversed,
            is_input_ordered,
            has_merged: false,
            rows: HeldRows::default(),
        }))
    }

    /// The value and the keys of a batch, and which of its rows count, if not all do.
    fn columns(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<(Vec<ArrayRef>, Option<UInt32Array>)> {
        if values.len() + 1 != self.arguments + self.types.len() {
            return internal_err!("there are {} columns of a value and its keys", values.len());
        }
        let columns: Vec<ArrayRef> = once(&values[0]).chain(&values[self.arguments..]).map(Arc::clone).collect();
        let nulls = values[0].logical_nulls().filter(|nulls| self.ignore_nulls && nulls.null_count() > 0);
        if filter.is_none() && nulls.is_none() {
            return Ok((columns, None));
        }
        let counts = |row: &u32| {
            let row = *row as usize;
            filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row))
                && nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row))
        };
        let rows: UInt32Array = (0..row_number(values[0].len())?).filter(counts).collect::<Vec<_>>().into();
        Ok((take_arrays(&columns, &rows, None)?, Some(rows)))
    }

    /// Takes the first groups: the columns that are wanted of their rows, and where each group begins.
    fn taken(&mut self, emit_to: EmitTo, types: usize) -> Result<(Vec<ArrayRef>, Vec<usize>)> {
        let (mut places, starts) = self.rows.places(emit_to)?;
        if self.has_merged || !self.is_input_ordered {
            self.rows.sort(&mut places, &starts, &self.keys)?;
        }
        if self.is_reversed {
            starts.windows(2).for_each(|group| places[group[0]..group[1]].reverse());
        }
        Ok((self.rows.take(emit_to, &self.types[..types], &places)?, starts))
    }

    fn state_of(&self, columns: Vec<ArrayRef>, starts: &[usize]) -> Result<Vec<ArrayRef>> {
        let mut columns = columns.into_iter();
        let Some(values) = columns.next() else { return internal_err!("there is no value") };
        let keys = StructArray::try_new(self.key_fields.clone(), columns.collect(), None)?;
        Ok(vec![lists(values, starts, true)?, lists(Arc::new(keys), starts, false)?])
    }
}

/// The number of a row of a batch, or of a group.
fn row_number(number: usize) -> Result<u32> {
    match u32::try_from(number) {
        Ok(number) => Ok(number),
        Err(_) => internal_err!("{number} rows or groups are too many"),
    }
}

/// Lists of items, each from where it begins to where the next does; of no items there is NULL, or a list of none.
fn lists(items: ArrayRef, starts: &[usize], is_null_if_empty: bool) -> Result<ArrayRef> {
    let offsets: Result<Vec<i32>, _> = starts.iter().map(|&start| i32::try_from(start)).collect();
    let Ok(offsets) = offsets else { return exec_err!("lists have more than {} items together", i32::MAX) };
    let has_items = || starts.windows(2).map(|list| list[0] < list[1]).collect::<NullBuffer>();
    let nulls = is_null_if_empty.then(has_items).filter(|nulls| nulls.null_count() > 0);
    let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
    let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
    Ok(Arc::new(ListArray::try_new(field, offsets, items, nulls)?))
}

/// The items of some of the lists, which are in ascending order.
fn items_of(lists: &ListArray, rows: &[usize]) -> Result<ArrayRef> {
    let offsets = lists.value_offsets();
    let ranges =
        || rows.iter().map(|&row| offsets[row] as usize..offsets[row + 1] as usize).filter(|of| !of.is_empty());
    let (first, last) = (ranges().next().map_or(0, |of| of.start), ranges().next_back().map_or(0, |of| of.end));
    if ranges().map(|of| of.len()).sum::<usize>() == last - first {
        return Ok(lists.values().slice(first, last - first));
    }
    let places = UInt32Array::from_iter_values(ranges().flatten().map(|place| place as u32));
    Ok(take(lists.values(), &places, None)?)
}

impl GroupsAccumulator for OrderedLists {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        let (columns, rows) = self.columns(values, filter)?;
        let groups = match rows {
            None => groups.iter().map(|&group| row_number(group)).collect::<Result<_>>()?,
            Some(rows) => rows.values().iter().map(|&row| row_number(groups[row as usize])).collect::<Result<_>>()?,
        };
        self.rows.grow(total_groups);
        self.rows.add(columns, groups)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        let [values, keys] = states else { return internal_err!("a state is of values and of keys") };
        let (Some(values), Some(keys)) = (values.as_list_opt::<i32>(), keys.as_list_opt::<i32>()) else {
            return internal_err!("values and keys are in lists");
        };
        let rows: Vec<usize> = (0..groups.len()).filter(|&row| values.is_valid(row)).collect();
        let mut of_rows = Vec::new();
        for &row in &rows {
            if keys.value_length(row) != values.value_length(row) {
                return internal_err!("each value has its keys");
            }
            of_rows.extend(repeat_n(row_number(groups[row])?, values.value_length(row) as usize));
        }
        let keys = items_of(keys, &rows)?;
        let Some(keys) = keys.as_struct_opt() else { return internal_err!("keys are in records") };
        let columns = once(items_of(values, &rows)?).chain(keys.columns().iter().cloned()).collect();
        self.has_merged = true;
        self.rows.grow(total_groups);
        self.rows.add(columns, of_rows)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (values, starts) = self.taken(emit_to, 1)?;
        let Some(values) = values.into_iter().next() else { return internal_err!("there is no value") };
        match &self.output {
            Output::List => lists(values, &starts, true),
            Output::Joined(between) => joined::joined(&values, &starts, between),
        }
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (columns, starts) = self.taken(emit_to, self.types.len())?;
        self.state_of(columns, &starts)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let (columns, rows) = self.columns(values, filter)?;
        let all = values[0].len();
        let Some(rows) = rows else { return self.state_of(columns, &(0..=all).collect::<Vec<_>>()) };
        let mut starts = vec![0; all + 1];
        rows.values().iter().for_each(|&row| starts[row as usize + 1] = 1);
        (1..=all).for_each(|row| starts[row] += starts[row - 1]);
        self.state_of(columns, &starts)
    }

    fn size(&self) -> usize {
        let between = if let Output::Joined(between) = &self.output { between.len() } else { 0 };
        size_of::<OrderedLists>() + self.rows.size() + self.rows.len() * between
    }
}
