//! What the optimizer is told of a table: rows, bytes, bounds.
//!
//! Invariants:
//! - `Exact` is exact: DataFusion answers `count(*)` and `min(x)` from it. Whatever is cut, widened or not known of every
//!   row is `Inexact` or absent: bounds of text, of floats (NaN has no place in Parquet's), and of columns without values.
//! - Statistics of a segment never change, so they are kept between statements; the sum over a table's segments is kept
//!   for the segments it was made of. They are of all of its rows: of a scan that reads some, dead rows left out, they are estimates
//!   ([`of_rows`]).

use super::parts::ChosenSegment;
use alluvia_catalog::{Dictionaries, TableEntry};
use alluvia_space::DataType as StoredType;
use alluvia_space::{LevelSource, TableDef};
use alluvia_tree::{BlockSummaries, KeptLengths, Segment};
use alluvia_types::{ColumnId, SegmentId, TableId, Version};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::{filter, sum};
use arrow::datatypes::{DataType, SchemaRef, UInt32Type};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics};
use datafusion::datasource::physical_plan::parquet::metadata::DFParquetMetadata;
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::Accumulator;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Tables whose statistics are kept.
const TABLES_MAX: usize = 1_024;
/// Segments that are no longer read and whose statistics are still kept, per table.
const SEGMENTS_GONE_MAX: usize = 256;

/// Statistics of immutable segments, kept between statements.
#[derive(Debug, Default)]
pub struct ScanCache {
    tables: Mutex<HashMap<TableId, TableCache>>,
    lengths: KeptLengths,
}

#[derive(Debug)]
struct TableCache {
    changed_at: Version,
    segments: HashMap<SegmentId, Arc<Statistics>>,
    sum: Option<(Vec<SegmentId>, Arc<Statistics>)>,
}

impl ScanCache {
    /// Nothing kept yet.
    pub fn new() -> Arc<ScanCache> {
        Arc::default()
    }

    /// How long their values are.
    pub(super) fn lengths(&self) -> &KeptLengths {
        &self.lengths
    }

    /// Statistics of whole segments together, in the columns of `file_schema`.
    pub(crate) fn statistics(
        &self,
        entry: &TableEntry,
        file_schema: &SchemaRef,
        segments: &[Arc<Segment>],
    ) -> Result<Arc<Statistics>> {
        let ids: Vec<SegmentId> = segments.iter().map(|segment| segment.meta().id).collect();
        let mut known: Vec<Option<Arc<Statistics>>> = vec![None; ids.len()];
        {
            let tables = self.tables.lock();
            if let Some(cache) = tables.get(&entry.def.id).filter(|cache| cache.changed_at == entry.changed_at) {
                if let Some((_, sum)) = cache.sum.as_ref().filter(|(of, _)| *of == ids) {
                    return Ok(Arc::clone(sum));
                }
                known = ids.iter().map(|id| cache.segments.get(id).cloned()).collect();
            }
        }
        let mut all = Vec::with_capacity(ids.len());
        for (segment, known) in segments.iter().zip(known) {
            all.push(match known {
                Some(known) => known,
                None => Arc::new(of_segment(&entry.def, file_schema, segment)?),
            });
        }
        let sum = Arc::new(Statistics::try_merge_iter(all.iter().map(AsRef::as_ref), file_schema)?);
        let mut tables = self.tables.lock();
        if tables.len() >= TABLES_MAX {
            tables.clear();
        }
        let new = || TableCache { changed_at: entry.changed_at, segments: HashMap::new(), sum: None };
        let cache = tables.entry(entry.def.id).or_insert_with(new);
        if cache.changed_at != entry.changed_at {
            *cache = new();
        }
        // Segments that were merged away are forgotten when they are many.
        if cache.segments.len() > 2 * ids.len() + SEGMENTS_GONE_MAX {
            cache.segments.clear();
        }
        cache.segments.extend(ids.iter().copied().zip(all));
        cache.sum = Some((ids, Arc::clone(&sum)));
        Ok(sum)
    }
}

fn of_segment(def: &TableDef, file_schema: &SchemaRef, segment: &Arc<Segment>) -> Result<Statistics> {
    let metadata = segment.parquet_metadata().map_err(alluvia_values::errors::wrap)?;
    let mut statistics = DFParquetMetadata::statistics_from_parquet_metadata(&metadata, file_schema)?;
    let mut summaries = None;
    for (at, column) in statistics.column_statistics.iter_mut().enumerate() {
        let data_type = file_schema.field(at).data_type();
        if matches!(data_type, DataType::Float32 | DataType::Float64) {
            // A chunk with a NaN has no Parquet statistics at all: its NULLs are counted in the summaries.
            let summaries = match &mut summaries {
                Some(loaded) => loaded,
                none => none.insert(segment.summaries().map_err(alluvia_values::errors::wrap)?),
            };
            column.null_count = def.columns.get(at).map_or(Precision::Absent, |column| nulls(summaries, column.id));
        }
        let is_exact =
            !matches!(data_type, DataType::Float32 | DataType::Float64 | DataType::Utf8View | DataType::BinaryView);
        let is_interval = def.columns.get(at).is_some_and(|column| column.data_type == StoredType::Interval);
        for bound in [&mut column.min_value, &mut column.max_value] {
            *bound = match std::mem::take(bound) {
                // The order of an interval's bytes is none of theirs.
                _ if is_interval => Precision::Absent,
                Precision::Exact(value) | Precision::Inexact(value) if value.is_null() => Precision::Absent,
                bound if is_exact => bound,
                bound => bound.to_inexact(),
            };
        }
    }
    Ok(statistics)
}

fn nulls(summaries: &BlockSummaries, column: ColumnId) -> Precision<usize> {
    match summaries.column(column) {
        Some(column) => column
            .nulls
            .as_primitive_opt::<UInt32Type>()
            .map_or(Precision::Absent, |nulls| Precision::Exact(sum(nulls).unwrap_or(0) as usize)),
        None => Precision::Absent,
    }
}

/// Estimates for the chosen blocks only: the rows of them, and bounds of the columns that were filtered by. With the whole
/// table's bounds, the filter above would be taken for selective twice.
pub(crate) fn of_chosen(
    whole: &Statistics,
    def: &TableDef,
    filtered: &[usize],
    segments: &[ChosenSegment],
) -> Result<Statistics> {
    let mut statistics = of_rows(whole, segments);
    for &at in filtered {
        let (min, max) = bounds(def, at, segments)?;
        (statistics.column_statistics[at].min_value, statistics.column_statistics[at].max_value) = (min, max);
    }
    Ok(statistics)
}

/// Estimates for the rows that are read of the segments, which have the bounds of all.
pub(crate) fn of_rows(whole: &Statistics, segments: &[ChosenSegment]) -> Statistics {
    let rows: u64 = segments.iter().map(ChosenSegment::rows).sum();
    let all = whole.num_rows.get_value().copied().unwrap_or(0).max(1);
    let share = (rows as f64 / all as f64).min(1.0);
    let scale = |count: &Precision<usize>| match count.get_value() {
        Some(&count) => Precision::Inexact((count as f64 * share) as usize),
        None => Precision::Absent,
    };
    let mut statistics = whole.clone().to_inexact();
    statistics.num_rows = Precision::Inexact(rows as usize);
    statistics.total_byte_size = scale(&whole.total_byte_size);
    for column in &mut statistics.column_statistics {
        column.null_count = scale(&column.null_count);
        column.byte_size = scale(&column.byte_size);
    }
    statistics
}

/// Says of columns that levels are made of about how many values they have: without, a join on one is taken to find hardly a row, and its
/// hash table is made of what is largest.
pub(crate) fn count_members(statistics: &mut Statistics, def: &TableDef, dictionaries: &Dictionaries) {
    let rows = statistics.num_rows.get_value().copied().unwrap_or(usize::MAX);
    for (at, (_, _, level)) in def.levels().enumerate() {
        let LevelSource::Column(id) = level.source else { continue };
        let Some(place) = def.columns.iter().position(|column| column.id == id) else { continue };
        if let Some(column) = statistics.column_statistics.get_mut(place)
            && dictionaries.has_members(at)
        {
            // A value under two parents is two members; NULL is none of the values.
            let members = (dictionaries.len(at).saturating_sub(1) as usize).min(rows);
            let fewest = column.distinct_count.get_value().map_or(members, |&known| known.min(members));
            column.distinct_count = Precision::Inexact(fewest);
        }
    }
}

type Bound = Precision<ScalarValue>;

/// The bounds of one column over the chosen blocks.
fn bounds(def: &TableDef, at: usize, segments: &[ChosenSegment]) -> Result<(Bound, Bound)> {
    let column = &def.columns[at];
    if column.data_type == StoredType::Interval {
        return Ok((Precision::Absent, Precision::Absent));
    }
    let data_type = column.data_type.to_arrow();
    let (mut least, mut greatest) = (MinAccumulator::try_new(&data_type)?, MaxAccumulator::try_new(&data_type)?);
    let mut unbounded_above = false;
    for chosen in segments {
        let Some(summary) = chosen.summaries.as_ref().and_then(|summaries| summaries.column(column.id)) else {
            continue;
        };
        let mask = BooleanArray::from(chosen.blocks.as_slice().to_vec());
        let (mins, maxs): (ArrayRef, ArrayRef) = (filter(&summary.mins, &mask)?, filter(&summary.maxs, &mask)?);
        unbounded_above |= maxs.null_count() > mins.null_count();
        least.update_batch(&[mins])?;
        greatest.update_batch(&[maxs])?;
    }
    let estimate = |value: ScalarValue| if value.is_null() { Precision::Absent } else { Precision::Inexact(value) };
    let max = if unbounded_above { Precision::Absent } else { estimate(greatest.evaluate()?) };
    Ok((estimate(least.evaluate()?), max))
}

/// Statistics of some columns.
pub(crate) fn project(statistics: &Statistics, indices: &[usize]) -> Vec<ColumnStatistics> {
    indices.iter().map(|&index| statistics.column_statistics[index].clone().to_inexact()).collect()
}
