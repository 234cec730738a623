//! `first_value` and `last_value` in an order, by groups; `DISTINCT ON` is made of them.
//!
//! Invariants:
//! - Of each group the best row is held, its keys and its value as bytes that compare as they do ([`RowConverter`]). Of equal rows it is the one
//!   that came first, for `last_value` too.
//! - What is handed on of a part of the rows is what DataFusion's accumulators (55.2) hand on. Theirs go through all groups for every batch.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, new_null_array};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion_common::{Result, internal_err};
use datafusion_expr::function::AccumulatorArgs;
use datafusion_expr::{EmitTo, GroupsAccumulator};
use std::mem::size_of;
use std::sync::Arc;

/// The first or the last of each group.
pub(super) struct FirstLast {
    is_first: bool,
    ignore_nulls: bool,
    value: Columns,
    keys: Columns,
    best: Vec<Option<Best>>,
    /// What the best rows hold.
    bytes: usize,
}

/// A row, as bytes.
struct Best {
    value: Vec<u8>,
    keys: Vec<u8>,
}

/// Columns that become bytes, and what they are again.
struct Columns {
    converter: RowConverter,
    types: Vec<DataType>,
    /// A row of NULL alone.
    null: Vec<u8>,
}

impl Columns {
    fn new(fields: Vec<SortField>, types: Vec<DataType>) -> Result<Columns> {
        let converter = RowConverter::new(fields)?;
        let nulls: Vec<ArrayRef> = types.iter().map(|of| new_null_array(of, 1)).collect();
        let null = converter.convert_columns(&nulls)?.row(0).data().to_vec();
        Ok(Columns { converter, types, null })
    }

    fn arrays<'a>(&'a self, rows: impl Iterator<Item = Option<&'a [u8]>>) -> Result<Vec<ArrayRef>> {
        let parser = self.converter.parser();
        let rows: Vec<_> = rows.map(|row| parser.parse(row.unwrap_or(&self.null))).collect();
        let columns = self.converter.convert_rows(rows)?;
        // Of dictionaries come the values.
        let typed = |(column, of): (ArrayRef, &DataType)| {
            if column.data_type() == of { Ok(column) } else { Ok(cast(&column, of)?) }
        };
        columns.into_iter().zip(&self.types).map(typed).collect()
    }
}

impl FirstLast {
    /// For such arguments; `None` where there is no order, or of types that have no such bytes.
    pub fn new(args: &AccumulatorArgs, is_first: bool) -> Result<Option<FirstLast>> {
        let Some(value) = args.expr_fields.first().map(|field| field.data_type().clone()) else { return Ok(None) };
        let of_key = |key: &datafusion_physical_expr_common::sort_expr::PhysicalSortExpr| {
            let of = key.expr.data_type(args.schema)?;
            Ok((SortField::new_with_options(of.clone(), key.options), of))
        };
        let (keys, types): (Vec<SortField>, Vec<DataType>) =
            args.order_bys.iter().map(of_key).collect::<Result<Vec<_>>>()?.into_iter().unzip();
        let values = vec![SortField::new(value.clone())];
        if keys.is_empty() || !RowConverter::supports_fields(&keys) || !RowConverter::supports_fields(&values) {
            return Ok(None);
        }
        Ok(Some(FirstLast {
            is_first,
            ignore_nulls: args.ignore_nulls,
            value: Columns::new(values, vec![value])?,
            keys: Columns::new(keys, types)?,
            best: Vec::new(),
            bytes: 0,
        }))
    }

    fn add(
        &mut self,
        columns: &[ArrayRef],
        groups: &[usize],
        counts: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.best.resize_with(total_groups, || None);
        let [value, keys @ ..] = columns else { return internal_err!("there is no value and no order") };
        let nulls = if self.ignore_nulls { value.logical_nulls() } else { None };
        let values = self.value.converter.convert_columns(std::slice::from_ref(value))?;
        let keys = self.keys.converter.convert_columns(keys)?;
        for (row, &group) in groups.iter().enumerate() {
            let counts = counts.is_none_or(|counts| counts.is_valid(row) && counts.value(row));
            if !counts || nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                continue;
            }
            let (value, keys) = (values.row(row), keys.row(row));
            match &mut self.best[group] {
                Some(best) => {
                    let is_better = if self.is_first { *keys.data() < *best.keys } else { *keys.data() > *best.keys };
                    if is_better {
                        self.bytes -= best.bytes();
                        best.value.clear();
                        best.value.extend_from_slice(value.data());
                        best.keys.clear();
                        best.keys.extend_from_slice(keys.data());
                        self.bytes += best.bytes();
                    }
                }
                none => {
                    let best = Best { value: value.data().to_vec(), keys: keys.data().to_vec() };
                    self.bytes += best.bytes();
                    *none = Some(best);
                }
            }
        }
        Ok(())
    }

    fn taken(&mut self, emit_to: EmitTo) -> Vec<Option<Best>> {
        let taken = emit_to.take_needed(&mut self.best);
        self.bytes -= taken.iter().flatten().map(Best::bytes).sum::<usize>();
        taken
    }
}

impl Best {
    fn bytes(&self) -> usize {
        self.value.capacity() + self.keys.capacity()
    }
}

impl GroupsAccumulator for FirstLast {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total_groups: usize,
    ) -> Result<()> {
        self.add(values, groups, filter, total_groups)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total_groups: usize) -> Result<()> {
        let Some((is_set, columns)) = states.split_last() else { return internal_err!("there is no state") };
        self.add(columns, groups, Some(is_set.as_boolean()), total_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let best = self.taken(emit_to);
        let values = self.value.arrays(best.iter().map(|best| best.as_ref().map(|best| best.value.as_slice())))?;
        values.into_iter().next().map_or_else(|| internal_err!("there is no value"), Ok)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let best = self.taken(emit_to);
        let mut states = self.value.arrays(best.iter().map(|best| best.as_ref().map(|best| best.value.as_slice())))?;
        states.extend(self.keys.arrays(best.iter().map(|best| best.as_ref().map(|best| best.keys.as_slice())))?);
        states.push(Arc::new(best.iter().map(|best| Some(best.is_some())).collect::<BooleanArray>()));
        Ok(states)
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |values| values.len());
        let is_set = filter.cloned().unwrap_or_else(|| BooleanArray::from(vec![true; rows]));
        Ok(values.iter().cloned().chain([Arc::new(is_set) as ArrayRef]).collect())
    }

    fn size(&self) -> usize {
        self.bytes + self.best.capacity() * size_of::<Option<Best>>()
    }
}
