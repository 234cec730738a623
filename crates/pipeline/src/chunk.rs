//! Chunks in key order, ready for a segment, made of rows in arrival order.
//!
//! Rows get their keys and codes part by part, so that what is made on the way stays in the caches. Only columns of
//! which the codes do not say all are joined and moved; names are not.

use crate::wide::{WideRows, narrow};
use alluvia_snapshot::{Space, own_bytes};
use alluvia_space::{DataType as Type, KeyLayout, LevelCodes, ORDINAL_COLUMN, TableDef, VERSION_COLUMN, learn};
use alluvia_tree::{CodedColumn, RowChunk, TreeContext};
use alluvia_types::{Error, Result};
use arrow::array::{Array, ArrayRef, UInt32Array, new_null_array};
use arrow::compute::{concat_batches, take};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use std::sync::Arc;

/// A level's values are all at hand where it has at most so many members for each row: a list of them takes 4 bytes a
/// member.
pub(crate) const MEMBERS_PER_ROW: usize = 4;

/// Rows of a part, if there are so many: names that rows have in common are looked up once for each part.
const PART_ROWS: usize = 1 << 15;

/// The table with its key ranges fixed: by the first rows that are sorted, if they were not yet.
pub(crate) fn fixed(def: &TableDef, space: &Space, sample: &[RecordBatch]) -> TableDef {
    let ranges = space.ranges_or_learn(|| learn::ranges(def, sample));
    let mut def = def.clone();
    for (dimension, range) in def.dimensions.iter_mut().zip(ranges) {
        dimension.range = range.clone();
    }
    def
}

/// Rows in key order, ready for a segment.
pub(crate) enum Sorted {
    Rows(RowChunk),
    Wide(Box<WideRows>),
}

impl Sorted {
    /// The rows as far as they were made, and their definition.
    pub(crate) fn chunk<'a>(&'a self, def: &'a TableDef) -> (&'a RowChunk, &'a TableDef) {
        match self {
            Sorted::Rows(chunk) => (chunk, def),
            Sorted::Wide(rows) => (&rows.chunk, &rows.def),
        }
    }
}

/// Sorts rows by (key, arrival). `rows` ascend by (version, ordinal) and have the hidden columns; they may have been
/// written under an older definition. `def` has fixed ranges.
pub(crate) fn sorted_chunk(tree: &TreeContext, def: &TableDef, space: &Space, rows: &[RecordBatch]) -> Result<Sorted> {
    sorted(tree, def, space, rows, &|def, part| space.dictionaries.remap(def, part))
}

/// The same of rows that are not acknowledged yet: what they bring to the dictionaries leaves room for rows that are,
/// of which `waiting` tells the bytes.
pub(crate) fn staged_chunk(
    tree: &TreeContext,
    def: &TableDef,
    space: &Space,
    rows: &[RecordBatch],
    waiting: &dyn Fn() -> u64,
) -> Result<Sorted> {
    sorted(tree, def, space, rows, &|def, part| space.dictionaries.remap_leaving(def, part, waiting))
}

/// How rows get their codes under a definition.
type CodesOf<'a> = &'a dyn Fn(&TableDef, &RecordBatch) -> Result<LevelCodes>;

fn sorted(
    tree: &TreeContext,
    def: &TableDef,
    space: &Space,
    rows: &[RecordBatch],
    codes_of: CodesOf<'_>,
) -> Result<Sorted> {
    let count: usize = rows.iter().map(RecordBatch::num_rows).sum();
    let bytes: usize = rows.iter().map(own_bytes).sum();
    if !tree.is_wide(count as u64, bytes / count.max(1), def.columns.len()) {
        return Ok(Sorted::Rows(in_key_order(def, space, rows, codes_of)?.0));
    }
    let narrow = narrow(def);
    let (chunk, order) = in_key_order(&narrow, space, rows, codes_of)?;
    let batches = rows.iter().map(|batch| adapt(def, batch)).collect::<Result<Vec<_>>>()?;
    let rows = WideRows::new(def, narrow, space, batches, chunk, order)?;
    Ok(Sorted::Wide(Box::new(rows)))
}

/// The rows, and in which order they are, if it is another than that in which they came.
fn in_key_order(
    def: &TableDef,
    space: &Space,
    rows: &[RecordBatch],
    codes_of: CodesOf<'_>,
) -> Result<(RowChunk, Option<Vec<u32>>)> {
    let parts = parts(def, rows)?;
    let count = parts.iter().map(RecordBatch::num_rows).sum();
    let layout = KeyLayout::new(def);
    if !layout.is_ordered() {
        return Ok((RowChunk::new(join(&parts)?, vec![0; count], LevelCodes::default()), None));
    }
    let mut order: Vec<(u128, u32)> = Vec::with_capacity(count);
    let mut codes = LevelCodes { levels: def.levels().map(|_| Vec::with_capacity(count)).collect() };
    for part in &parts {
        let rows = order.len() as u32..;
        order.extend(layout.keys(part)?.into_iter().zip(rows));
        for (all, of_part) in codes.levels.iter_mut().zip(codes_of(def, part)?.levels) {
            all.extend_from_slice(&of_part);
        }
    }
    order.sort_unstable();
    let (coded, left) = take_coded(def, space, parts)?;
    let rows = join(&left)?;
    drop(left);
    let indices = UInt32Array::from_iter_values(order.iter().map(|&(_, row)| row));
    let columns: Result<Vec<ArrayRef>, ArrowError> =
        rows.columns().iter().map(|column| take(column, &indices, None)).collect();
    let rows = RecordBatch::try_new(rows.schema(), columns.map_err(internal)?).map_err(internal)?;
    let gather = |level: Vec<u32>| order.iter().map(|&(_, row)| level[row as usize]).collect();
    let codes = LevelCodes { levels: codes.levels.into_iter().map(gather).collect() };
    let (keys, order) = order.into_iter().unzip();
    Ok((RowChunk { coded: coded.into(), ..RowChunk::new(rows, keys, codes) }, Some(order)))
}

/// The columns of which the codes that the rows have say all, where members are few enough; and the rows without them:
/// the codes are moved and written then, and no value is moved, compared or hashed again.
fn take_coded(def: &TableDef, space: &Space, parts: Vec<RecordBatch>) -> Result<(Vec<CodedColumn>, Vec<RecordBatch>)> {
    let dictionaries = &space.dictionaries;
    let members_max = parts.iter().map(RecordBatch::num_rows).sum::<usize>() * MEMBERS_PER_ROW;
    let mut coded = Vec::new();
    for place in 0..def.columns.len() {
        let level = CodedColumn::level_of(def, place);
        if let Some(level) = level.filter(|&level| dictionaries.len(level) as usize <= members_max) {
            coded.push(CodedColumn::new(def, place, level, dictionaries)?);
        }
    }
    let is_left = |place: &usize| coded.iter().all(|column| column.place != *place);
    let left = |part: RecordBatch| {
        let places: Vec<usize> = (0..part.num_columns()).filter(is_left).collect();
        part.project(&places).map_err(internal)
    };
    let left = parts.into_iter().map(left).collect::<Result<_>>()?;
    Ok((coded, left))
}

/// Rows as the current definition has them, in parts of [`PART_ROWS`] and more where there are so many: each part costs
/// something for every level.
fn parts(def: &TableDef, rows: &[RecordBatch]) -> Result<Vec<RecordBatch>> {
    let (mut parts, mut small, mut waiting) = (Vec::new(), Vec::new(), 0);
    for batch in rows {
        waiting += batch.num_rows();
        small.push(adapt(def, batch)?);
        if waiting >= PART_ROWS {
            parts.push(join(&std::mem::take(&mut small))?);
            waiting = 0;
        }
    }
    if !small.is_empty() {
        parts.push(join(&small)?);
    }
    Ok(parts)
}

/// Batches of one definition as one.
fn join(batches: &[RecordBatch]) -> Result<RecordBatch> {
    let Some(first) = batches.first() else {
        return Err(Error::internal("a chunk without rows"));
    };
    if batches.len() == 1 {
        return Ok(first.clone());
    }
    let mut columns = Vec::with_capacity(first.num_columns());
    for at in 0..first.num_columns() {
        let parts: Vec<&ArrayRef> = batches.iter().map(|batch| batch.column(at)).collect();
        columns.push(concat_column(&parts)?);
    }
    RecordBatch::try_new(schema_of(first, &columns), columns).map_err(internal)
}

/// Concatenates parts of one column; where only some are dictionary-encoded, all become plain.
fn concat_column(parts: &[&ArrayRef]) -> Result<ArrayRef> {
    let kind = parts[0].data_type();
    if parts.iter().all(|part| part.data_type() == kind) {
        let parts: Vec<&dyn Array> = parts.iter().map(|part| part.as_ref()).collect();
        return arrow::compute::concat(&parts).map_err(internal);
    }
    let plain = Type::Text.to_arrow();
    let cast: Result<Vec<ArrayRef>, ArrowError> = parts.iter().map(|part| arrow::compute::cast(part, &plain)).collect();
    let cast = cast.map_err(internal)?;
    let parts: Vec<&dyn Array> = cast.iter().map(|part| part.as_ref()).collect();
    arrow::compute::concat(&parts).map_err(internal)
}

/// Brings a batch that was written under an older definition to the current one: columns added since are NULL, columns
/// dropped since are gone.
fn adapt(def: &TableDef, batch: &RecordBatch) -> Result<RecordBatch> {
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(def.columns.len() + 2);
    let mut fields: Vec<Field> = Vec::with_capacity(def.columns.len() + 2);
    for column in &def.columns {
        let array = match batch.column_by_name(&column.storage_name) {
            Some(array) => Arc::clone(array),
            None => new_null_array(&column.data_type.to_arrow(), batch.num_rows()),
        };
        fields.push(Field::new(&column.storage_name, array.data_type().clone(), column.nullable));
        columns.push(array);
    }
    for (name, nullable) in [(VERSION_COLUMN, true), (ORDINAL_COLUMN, false)] {
        let missing = || Error::internal(format!("rows to be sorted lack {name}"));
        columns.push(Arc::clone(batch.column_by_name(name).ok_or_else(missing)?));
        fields.push(Field::new(name, DataType::UInt64, nullable));
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).map_err(internal)
}

fn schema_of(like: &RecordBatch, columns: &[ArrayRef]) -> SchemaRef {
    let fields = like
        .schema()
        .fields()
        .iter()
        .zip(columns)
        .map(|(field, column)| Field::new(field.name(), column.data_type().clone(), field.is_nullable()))
        .collect::<Vec<_>>();
    Arc::new(Schema::new(fields))
}

pub(crate) fn internal(error: ArrowError) -> Error {
    Error::internal(format!("sorting rows: {error}"))
}

/// Joins small batches without changing their order, so that kernels meet few large ones.
pub(crate) fn pieces(rows: Vec<RecordBatch>, rows_max: usize) -> Result<Vec<Vec<RecordBatch>>> {
    let mut pieces = Vec::new();
    let mut piece = Vec::new();
    let mut filled = 0;
    for mut batch in rows {
        while batch.num_rows() > 0 {
            let taken = batch.num_rows().min(rows_max - filled);
            piece.push(batch.slice(0, taken));
            batch = batch.slice(taken, batch.num_rows() - taken);
            filled += taken;
            if filled == rows_max {
                pieces.push(join_equal(std::mem::take(&mut piece))?);
                filled = 0;
            }
        }
    }
    if !piece.is_empty() {
        pieces.push(join_equal(piece)?);
    }
    Ok(pieces)
}

/// Concatenates neighbours of equal schema.
fn join_equal(batches: Vec<RecordBatch>) -> Result<Vec<RecordBatch>> {
    let mut joined: Vec<RecordBatch> = Vec::new();
    for group in batches.chunk_by(|a, b| a.schema_ref() == b.schema_ref()) {
        joined.push(match group {
            [one] => one.clone(),
            many => concat_batches(many[0].schema_ref(), many).map_err(internal)?,
        });
    }
    Ok(joined)
}
