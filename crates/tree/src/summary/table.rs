//! The summaries as two Arrow tables, one row per block, and their bytes: Arrow IPC streams of one batch.
//!
//! `blocks` has what every reader needs, `presence` the bitmaps, which are larger and only pruning reads.

use super::measures::{FloatSummary, MeasureSummary};
use super::{ColumnSummary, LevelSummary};
use crate::packed::{CodeBounds, Encoding};
use alluvia_types::{ColumnId, Error, Result};
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, FixedSizeBinaryArray, Int64Array, RecordBatch, RecordBatchOptions,
    UInt8Array, UInt32Array,
};
use arrow::buffer::Buffer;
use arrow::datatypes::{
    DataType, Decimal128Type, Field, Int16Type, Int32Type, Int64Type, Schema, UInt8Type, UInt32Type,
};
use arrow::error::ArrowError;
use arrow::ipc::reader::StreamDecoder;
use arrow::ipc::writer::StreamWriter;
use std::sync::Arc;

/// Bounds of keys, codes and columns, and the measures.
#[derive(Clone, Debug)]
pub(crate) struct BlockTable {
    pub(crate) key_first: Vec<u128>,
    pub(crate) key_last: Vec<u128>,
    pub(crate) levels: Vec<LevelBounds>,
    pub(crate) columns: Vec<(ColumnId, ColumnSummary)>,
    pub(crate) versions: ColumnSummary,
    pub(crate) measures: Vec<(ColumnId, MeasureSummary)>,
}

/// Smallest and largest code of each block at a level, beside NULL's; and whether NULL is among others.
#[derive(Clone, Debug)]
pub(crate) struct LevelBounds {
    pub(crate) mins: UInt32Array,
    pub(crate) maxs: UInt32Array,
    pub(crate) nulls: BooleanArray,
}

impl LevelBounds {
    pub(crate) fn code_bounds(&self, block: usize) -> CodeBounds {
        let (min, max) = (self.mins.value(block), self.maxs.value(block));
        CodeBounds { min, max, has_null: self.nulls.value(block) }
    }
}

impl BlockTable {
    /// The bounds of an integer or decimal column in a block, which are exact.
    pub(crate) fn exact_bounds(&self, column: ColumnId, block: usize) -> Option<(i128, i128)> {
        let (_, summary) = self.columns.iter().find(|(id, _)| *id == column)?;
        Some((integer_at(&summary.mins, block)?, integer_at(&summary.maxs, block)?))
    }

    /// The section `blocks`.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let mut columns: Vec<(String, ArrayRef)> =
            vec![("key_first".into(), key_array(&self.key_first)?), ("key_last".into(), key_array(&self.key_last)?)];
        for (at, level) in self.levels.iter().enumerate() {
            columns.push((format!("level{at}_min"), Arc::new(level.mins.clone())));
            columns.push((format!("level{at}_max"), Arc::new(level.maxs.clone())));
            columns.push((format!("level{at}_null"), Arc::new(level.nulls.clone())));
        }
        let mut summary = |name: String, summary: &ColumnSummary| {
            columns.push((format!("{name}_nulls"), Arc::clone(&summary.nulls)));
            columns.push((format!("{name}_min"), Arc::clone(&summary.mins)));
            columns.push((format!("{name}_max"), Arc::clone(&summary.maxs)));
        };
        summary("version".into(), &self.versions);
        self.columns.iter().for_each(|(id, column)| summary(format!("column{id}"), column));
        for (id, measure) in &self.measures {
            let mut add = |name: &str, array: &ArrayRef| {
                columns.push((format!("measure{id}_{name}"), Arc::clone(array)));
            };
            add("count", &measure.counts);
            add("sum", &measure.sums);
            add("squares", &measure.squares);
            encoding_arrays(&measure.encodings).iter().for_each(|(name, array)| add(name, array));
            if let Some(floats) = &measure.floats {
                add("sum_rest", &floats.sum_rests);
                add("min", &floats.mins);
                add("max", &floats.maxs);
                add("nan", &floats.nans);
                add("inf", &floats.infinities);
                add("neg_inf", &floats.negative_infinities);
            }
        }
        encode(columns, self.key_first.len())
    }

    /// Reads the section `blocks`; `Err` says what does not hold.
    pub(crate) fn decode(bytes: &[u8], blocks: usize, levels: usize) -> Result<BlockTable, String> {
        let batch = decode(bytes, blocks)?;
        let level = |at: usize| level_bounds(&batch, at);
        let levels = (0..levels).map(level).collect::<Result<_, _>>()?;
        let summary = |name: &str| -> Result<ColumnSummary, String> {
            Ok(ColumnSummary {
                nulls: named(&batch, &format!("{name}_nulls"))?,
                mins: named(&batch, &format!("{name}_min"))?,
                maxs: named(&batch, &format!("{name}_max"))?,
            })
        };
        let schema = batch.schema();
        let ids = |prefix: &str, suffix: &str| -> Vec<ColumnId> {
            let id = |field: &Arc<Field>| field.name().strip_prefix(prefix)?.strip_suffix(suffix)?.parse().ok();
            schema.fields().iter().filter_map(id).map(ColumnId).collect()
        };
        let columns = ids("column", "_nulls").into_iter().map(|id| Ok((id, summary(&format!("column{id}"))?)));
        let measures = ids("measure", "_count").into_iter().map(|id| Ok((id, measure(&batch, id)?)));
        Ok(BlockTable {
            key_first: keys(&batch, "key_first")?,
            key_last: keys(&batch, "key_last")?,
            levels,
            columns: columns.collect::<Result<_, String>>()?,
            versions: summary("version")?,
            measures: measures.collect::<Result<_, String>>()?,
        })
    }
}

fn level_bounds(batch: &RecordBatch, at: usize) -> Result<LevelBounds, String> {
    let codes = |name: String| -> Result<UInt32Array, String> {
        let array = named(batch, &name)?;
        let codes = array.as_primitive_opt::<UInt32Type>().filter(|codes| codes.null_count() == 0);
        codes.cloned().ok_or_else(|| format!("{name} does not hold codes"))
    };
    let name = format!("level{at}_null");
    let nulls = named(batch, &name)?.as_boolean_opt().filter(|nulls| nulls.null_count() == 0).cloned();
    let nulls = nulls.ok_or_else(|| format!("{name} does not hold marks"))?;
    let level = LevelBounds { mins: codes(format!("level{at}_min"))?, maxs: codes(format!("level{at}_max"))?, nulls };
    let fits = |block: usize| {
        let CodeBounds { min, max, has_null } = level.code_bounds(block);
        min <= max && (min > 0 || max == 0 && !has_null)
    };
    if !(0..batch.num_rows()).all(fits) {
        return Err(format!("level {at} has code bounds that cannot be"));
    }
    Ok(level)
}

fn measure(batch: &RecordBatch, id: ColumnId) -> Result<MeasureSummary, String> {
    let get = |name: &str| named(batch, &format!("measure{id}_{name}"));
    let floats = match get("sum_rest") {
        Err(_) => None,
        Ok(sum_rests) => Some(FloatSummary {
            sum_rests,
            mins: get("min")?,
            maxs: get("max")?,
            nans: get("nan")?,
            infinities: get("inf")?,
            negative_infinities: get("neg_inf")?,
        }),
    };
    let encodings = encodings(&get)?;
    Ok(MeasureSummary { counts: get("count")?, sums: get("sum")?, squares: get("squares")?, floats, encodings })
}

fn encoding_arrays(encodings: &[Encoding]) -> [(&'static str, ArrayRef); 4] {
    let parts: Vec<_> = encodings.iter().map(|encoding| encoding.to_parts()).collect();
    [
        ("kind", Arc::new(UInt8Array::from_iter_values(parts.iter().map(|part| part.0)))),
        ("base", Arc::new(Int64Array::from_iter_values(parts.iter().map(|part| part.1)))),
        ("width", Arc::new(UInt8Array::from_iter_values(parts.iter().map(|part| part.2)))),
        ("scale", Arc::new(UInt8Array::from_iter_values(parts.iter().map(|part| part.3)))),
    ]
}

fn encodings(get: &dyn Fn(&str) -> Result<ArrayRef, String>) -> Result<Vec<Encoding>, String> {
    let (kinds, bases, widths, scales) = (get("kind")?, get("base")?, get("width")?, get("scale")?);
    let bytes =
        |array: &ArrayRef| array.as_primitive_opt::<UInt8Type>().cloned().filter(|array| array.null_count() == 0);
    let bases = bases.as_primitive_opt::<Int64Type>().filter(|array| array.null_count() == 0);
    let (Some(kinds), Some(bases), Some(widths), Some(scales)) = (bytes(&kinds), bases, bytes(&widths), bytes(&scales))
    else {
        return Err("a measure's encodings have other types".to_owned());
    };
    let encoding = |block: usize| {
        Encoding::from_parts(kinds.value(block), bases.value(block), widths.value(block), scales.value(block))
            .ok_or_else(|| format!("a measure has an encoding that cannot be in block {block}"))
    };
    (0..kinds.len()).map(encoding).collect()
}

/// The section `presence`.
pub(crate) fn encode_presence(levels: &[LevelSummary], blocks: usize) -> Result<Vec<u8>> {
    let bits =
        |(at, level): (usize, &LevelSummary)| (format!("level{at}_codes"), Arc::new(level.bits.clone()) as ArrayRef);
    encode(levels.iter().enumerate().map(bits).collect(), blocks)
}

/// Reads the section `presence`.
pub(crate) fn decode_presence(bytes: &[u8], table: &BlockTable) -> Result<Vec<LevelSummary>, String> {
    let batch = decode(bytes, table.key_first.len())?;
    let level = |(at, bounds): (usize, &LevelBounds)| {
        let name = format!("level{at}_codes");
        let bits = named(&batch, &name)?;
        let bits = bits.as_binary_opt::<i32>().ok_or_else(|| format!("{name} does not hold bitmaps"))?;
        for (block, bitmap) in bits.iter().enumerate() {
            let span = (bounds.maxs.value(block) - bounds.mins.value(block)) as usize;
            if bitmap.is_some_and(|bitmap| bitmap.len() != span / 8 + 1) {
                return Err(format!("{name} has a bitmap of the wrong length in block {block}"));
            }
        }
        Ok(LevelSummary { bounds: bounds.clone(), bits: bits.clone() })
    };
    table.levels.iter().enumerate().map(level).collect()
}

/// A value of an integer or decimal array.
pub(crate) fn integer_at(array: &ArrayRef, row: usize) -> Option<i128> {
    if array.is_null(row) {
        return None;
    }
    Some(match array.data_type() {
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().value(row),
        _ => return None,
    })
}

fn key_array(keys: &[u128]) -> Result<ArrayRef> {
    let bytes: Vec<u8> = keys.iter().flat_map(|key| key.to_le_bytes()).collect();
    Ok(Arc::new(FixedSizeBinaryArray::try_new(16, bytes.into(), None).map_err(internal)?))
}

fn keys(batch: &RecordBatch, name: &str) -> Result<Vec<u128>, String> {
    let array = named(batch, name)?;
    let array = array.as_fixed_size_binary_opt().filter(|array| array.value_length() == 16 && array.null_count() == 0);
    let array = array.ok_or_else(|| format!("{name} does not hold keys"))?;
    Ok(array.iter().flatten().filter_map(|key| key.try_into().ok()).map(u128::from_le_bytes).collect())
}

fn named(batch: &RecordBatch, name: &str) -> Result<ArrayRef, String> {
    batch.column_by_name(name).cloned().ok_or_else(|| format!("{name} is missing"))
}

fn encode(columns: Vec<(String, ArrayRef)>, blocks: usize) -> Result<Vec<u8>> {
    let field = |(name, array): &(String, ArrayRef)| Field::new(name, array.data_type().clone(), true);
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let options = RecordBatchOptions::new().with_row_count(Some(blocks));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options).map_err(internal)?;
    let mut bytes = Vec::new();
    let mut writer = StreamWriter::try_new(&mut bytes, &schema).map_err(internal)?;
    writer.write(&batch).and_then(|()| writer.finish()).map_err(internal)?;
    drop(writer);
    Ok(bytes)
}

/// A copy, so that what is held is the section alone and not the chunks of the file it was read in.
fn decode(bytes: &[u8], blocks: usize) -> Result<RecordBatch, String> {
    let mut buffer = Buffer::from(bytes);
    let mut decoder = StreamDecoder::new();
    let batch = decoder.decode(&mut buffer).map_err(|error| error.to_string())?;
    let batch = batch.ok_or("it has no batch")?;
    if batch.num_rows() != blocks {
        return Err(format!("it has {} blocks instead of {blocks}", batch.num_rows()));
    }
    Ok(batch)
}

fn internal(error: ArrowError) -> Error {
    Error::internal(format!("summaries: {error}"))
}
