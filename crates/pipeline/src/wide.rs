//! Wide rows: what decides their order is gathered alone, and the writer asks for one column after the other ([`WideWriter`]).
//!
//! Invariant: a narrow definition has the columns of the table's levels and of its key, and its levels are the table's. So keys, codes and
//! codes of primary keys made under it are those of the whole rows.

use alluvia_keys::RowPlace;
use alluvia_snapshot::Space;
use alluvia_space::TableDef;
use alluvia_tree::{BatchValues, CodedColumn, LadderWriter, RowAt, RowChunk, TreeContext, WideWriter};
use alluvia_types::{ColumnId, Error, Result, SegmentId};
use arrow::record_batch::RecordBatch;
use std::collections::{BTreeSet, HashMap};

/// The definition without the columns that neither a level nor the key is made of.
pub(crate) fn narrow(def: &TableDef) -> TableDef {
    let levels = def.levels().map(|(_, _, level)| level.source.column());
    let key = def.key.iter().flat_map(|key| key.columns.iter().copied());
    let needed: BTreeSet<ColumnId> = levels.chain(key).collect();
    let mut def = def.clone();
    def.columns.retain(|column| needed.contains(&column.id));
    def.measures.retain(|measure| needed.contains(measure));
    def
}

/// Columns of a table of which the codes of its levels say all: all of them, or those with at most so many members.
pub(crate) fn coded(def: &TableDef, space: &Space, members_max: Option<usize>) -> Result<Vec<CodedColumn>> {
    let dictionaries = &space.dictionaries;
    let is_taken = |level: &usize| members_max.is_none_or(|most| dictionaries.len(*level) as usize <= most);
    let level = |place: usize| CodedColumn::level_of(def, place).filter(is_taken).map(|level| (place, level));
    let levels = (0..def.columns.len()).filter_map(level);
    levels.map(|(place, level)| CodedColumn::new(def, place, level, dictionaries)).collect()
}

/// Rows that were in memory, in key order, without their values.
#[derive(Debug)]
pub(crate) struct WideRows {
    /// The columns of the narrow definition.
    pub(crate) chunk: RowChunk,
    pub(crate) def: TableDef,
    at: Vec<RowAt>,
    values: BatchValues,
    coded: Vec<CodedColumn>,
}

impl WideRows {
    /// Rows of these batches, which have all columns of `def`, in an order of rows that are counted over all batches; `chunk` has them under
    /// the `narrow` definition.
    pub(crate) fn new(
        def: &TableDef,
        narrow: TableDef,
        space: &Space,
        batches: Vec<RecordBatch>,
        chunk: RowChunk,
        order: Option<Vec<u32>>,
    ) -> Result<WideRows> {
        let mut places = Vec::with_capacity(chunk.len());
        for (input, batch) in (0..).zip(&batches) {
            places.extend((0..batch.num_rows() as u32).map(|row| RowAt { input, row }));
        }
        let at = match order {
            Some(order) => order.into_iter().map(|row| places[row as usize]).collect(),
            None => places,
        };
        let coded = coded(def, space, Some(chunk.len() * crate::chunk::MEMBERS_PER_ROW))?;
        Ok(WideRows { chunk, def: narrow, at, values: BatchValues::new(batches, def.columns.len()), coded })
    }

    /// Writes them.
    pub(crate) fn write(self, tree: &TreeContext, ladder: LadderWriter) -> Result<alluvia_tree::SegmentMeta> {
        let mut writer = WideWriter::new(tree, ladder, Box::new(self.values), self.coded);
        writer.write(&self.chunk, &self.at)?;
        writer.finish()
    }
}

/// Where rows of a merge lie among its inputs, whose ids these are.
pub(crate) fn places(inputs: &HashMap<SegmentId, u32>, from: &[RowPlace]) -> Result<Vec<RowAt>> {
    let place = |from: &RowPlace| match from {
        RowPlace::Segment { segment, row } => {
            let input = inputs.get(segment).copied();
            let input = input.ok_or_else(|| Error::internal("a row of a merge is of no input"))?;
            Ok(RowAt { input, row: *row })
        }
        RowPlace::Tail { .. } => Err(Error::internal("a row of a merge is of the tail")),
    };
    from.iter().map(place).collect()
}
