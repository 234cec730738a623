//! Gathering of summaries while rows go by.

use super::bounds::{ByteBounds, FixedBounds, fixed_bounds};
use super::measures::MeasureBuilder;
use super::presence::PresenceBuilder;
use super::table::BlockTable;
use super::{ColumnSummary, LevelSummary};
use crate::layout::segment_schema;
use crate::packed::{CodeBounds, Encoding, MeasureValues, PackedAs};
use alluvia_space::TableDef;
use alluvia_types::ColumnId;
use arrow::array::{Array, ArrayRef, UInt32Array};
use arrow::datatypes::DataType;
use std::sync::Arc;

/// Gathers the summaries of one segment, block by block.
pub(crate) struct SummaryBuilder {
    columns: Vec<ColumnBuilder>,
    levels: Vec<PresenceBuilder>,
    key_first: Vec<u128>,
    key_last: Vec<u128>,
}

struct ColumnBuilder {
    /// `None` for the hidden columns.
    id: Option<ColumnId>,
    bounds: Bounds,
    measure: Option<(MeasureBuilder, MeasureValues)>,
    /// How many measures are before it.
    measure_at: usize,
    null_count: u32,
    nulls: Vec<u32>,
}

enum Bounds {
    Fixed(Box<dyn FixedBounds>),
    Bytes(ByteBounds),
}

/// A block's bounds of keys and codes, which say how they are packed.
pub(crate) struct BlockCodes {
    pub(crate) key_first: u128,
    pub(crate) key_last: u128,
    pub(crate) codes: Vec<CodeBounds>,
}

/// A measure of a block.
pub(crate) struct PackedMeasure {
    /// Which of the measures, in the order of the table's columns.
    pub(crate) measure: usize,
    pub(crate) values: Vec<u8>,
    pub(crate) packed_as: PackedAs,
}

/// Of keys that need not be in order: those of a banded block are not.
pub(crate) fn least_and_greatest(keys: &[u128]) -> (u128, u128) {
    keys.iter().fold((u128::MAX, 0), |(least, greatest), &key| (least.min(key), greatest.max(key)))
}

impl SummaryBuilder {
    /// A builder for the columns of [`segment_schema`] and this many levels.
    pub(crate) fn new(table: &TableDef, levels: usize) -> SummaryBuilder {
        let schema = segment_schema(table);
        let ids = table.columns.iter().map(|column| Some(column.id)).chain([None, None]);
        let mut measures = 0;
        let columns = schema.fields().iter().zip(ids).map(|(field, id)| {
            let data_type = field.data_type();
            let measured = id.is_some_and(|id| table.measures.contains(&id));
            let measure = measured
                .then(|| MeasureBuilder::new(data_type))
                .flatten()
                .map(|builder| (builder, MeasureValues::new(data_type)));
            let measure_at = measures;
            measures += usize::from(measure.is_some());
            ColumnBuilder {
                id,
                bounds: match fixed_bounds(data_type) {
                    Some(bounds) => Bounds::Fixed(bounds),
                    None => Bounds::Bytes(ByteBounds::new(*data_type == DataType::Utf8View)),
                },
                measure,
                measure_at,
                null_count: 0,
                nulls: Vec::new(),
            }
        });
        let columns = columns.collect();
        let levels = (0..levels).map(|_| PresenceBuilder::default()).collect();
        SummaryBuilder { columns, levels, key_first: Vec::new(), key_last: Vec::new() }
    }

    /// Whether a column is summed, and packed.
    pub(crate) fn is_measure(&self, id: ColumnId) -> bool {
        self.columns.iter().any(|column| column.id == Some(id) && column.measure.is_some())
    }

    /// How many columns are summed, and packed.
    pub(crate) fn measures(&self) -> usize {
        self.columns.iter().filter(|column| column.measure.is_some()).count()
    }

    /// Takes in some of the current block's values of a fixed-width column, the first of them at row `place` of the
    /// block.
    pub(crate) fn fixed(&mut self, column: usize, values: &dyn Array, place: usize) {
        let column = &mut self.columns[column];
        column.null_count += values.null_count() as u32;
        match &mut column.bounds {
            Bounds::Fixed(bounds) => bounds.update(values),
            Bounds::Bytes(_) => unreachable!("text and binary bounds come from `bytes`"),
        }
        if let Some((measure, packed)) = &mut column.measure {
            measure.update(values, place);
            packed.push(values);
        }
    }

    /// Takes in NULL count and bounds of some of the current block's values of a text or binary column.
    pub(crate) fn bytes(&mut self, column: usize, nulls: usize, bounds: Option<(&[u8], &[u8])>) {
        let column = &mut self.columns[column];
        column.null_count += nulls as u32;
        match (&mut column.bounds, bounds) {
            (Bounds::Bytes(column), Some((min, max))) => column.merge(min, max),
            (Bounds::Bytes(_), None) => {}
            (Bounds::Fixed(_), _) => unreachable!("bounds of fixed-width columns come from `fixed`"),
        }
    }

    /// Whether the current block of a float column holds a NaN.
    pub(crate) fn saw_nan(&self, column: usize) -> bool {
        match &self.columns[column].bounds {
            Bounds::Fixed(bounds) => bounds.saw_nan(),
            Bounds::Bytes(_) => false,
        }
    }

    /// Ends the block of one column, of which there is at least a row: its values, packed, if it is a measure.
    pub(crate) fn end_column(&mut self, column: usize) -> Option<PackedMeasure> {
        let place = self.columns[column].measure_at;
        let column = &mut self.columns[column];
        column.nulls.push(std::mem::take(&mut column.null_count));
        match &mut column.bounds {
            Bounds::Fixed(bounds) => bounds.end_block(),
            Bounds::Bytes(bounds) => bounds.end_block(),
        }
        let (measure, of_block) = column.measure.as_mut()?;
        let mut values = Vec::new();
        let encoding: Encoding = of_block.pack(&mut values);
        Some(PackedMeasure { measure: place, values, packed_as: measure.end_block(encoding) })
    }

    /// Ends the block of all columns: those that are measures, packed.
    pub(crate) fn end_columns(&mut self) -> Vec<PackedMeasure> {
        (0..self.columns.len()).filter_map(|column| self.end_column(column)).collect()
    }

    /// Gives back the memory in which a column's values are packed.
    pub(crate) fn release(&mut self, column: usize) {
        if let Some((_, values)) = &mut self.columns[column].measure {
            values.release();
        }
    }

    /// Ends a block, whose columns end by themselves.
    pub(crate) fn end_block(&mut self, keys: &[u128], codes: &[Vec<u32>]) -> BlockCodes {
        let (key_first, key_last) = least_and_greatest(keys);
        self.key_first.push(key_first);
        self.key_last.push(key_last);
        let codes = self.levels.iter_mut().zip(codes).map(|(level, codes)| level.block(codes)).collect();
        BlockCodes { key_first, key_last, codes }
    }

    /// The summaries of all blocks.
    pub(crate) fn finish(self) -> (BlockTable, Vec<LevelSummary>) {
        let mut columns = Vec::with_capacity(self.columns.len());
        let mut hidden = Vec::with_capacity(2);
        let mut measures = Vec::new();
        for column in self.columns {
            let (mins, maxs) = match column.bounds {
                Bounds::Fixed(mut bounds) => bounds.finish(),
                Bounds::Bytes(mut bounds) => bounds.finish(),
            };
            let nulls: ArrayRef = Arc::new(UInt32Array::from(column.nulls));
            let summary = ColumnSummary { nulls, mins, maxs };
            match column.id {
                Some(id) => columns.push((id, summary)),
                None => hidden.push(summary),
            }
            if let (Some(id), Some((measure, _))) = (column.id, column.measure) {
                measures.push((id, measure.finish()));
            }
        }
        let levels: Vec<LevelSummary> = self.levels.into_iter().map(PresenceBuilder::finish).collect();
        let table = BlockTable {
            key_first: self.key_first,
            key_last: self.key_last,
            levels: levels.iter().map(|level| level.bounds.clone()).collect(),
            columns,
            versions: hidden.swap_remove(0),
            measures,
        };
        (table, levels)
    }
}
