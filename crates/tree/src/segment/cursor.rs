//! Reading of a segment's rows in key order, for merges.
//!
//! Of a banded segment whole blocks are read, and each chunk says in which order its rows are to be taken. So a merge,
//! which gathers rows by their places anyway, moves them once.
//!
//! Keys and codes come packed from the side file; TEXT columns that are levels are [coded](CodedColumn): their codes
//! are all that is read of them. The other columns, `_version` and `_ordinal` are read from Parquet. Columns that the
//! definition has and the segment lacks are NULL; columns that were dropped since are left out.

use super::columns::{Source, by_name};
use super::{BlockIndex, Segment};
use crate::chunk::{CodedColumn, RowChunk};
use crate::layout::BLOCK_ROWS;
use crate::parquet_file::RowReader;
use alluvia_catalog::Dictionaries;
use alluvia_space::{LevelCodes, ORDINAL_COLUMN, TableDef, VERSION_COLUMN};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use std::ops::Range;
use std::sync::Arc;

/// Rows as a segment has them, and which of them to take in which order.
#[derive(Debug)]
pub struct OrderedChunk {
    chunk: RowChunk,
    /// Of the chunk, in the segment.
    first: u64,
    /// The numbers of the rows in the segment, where others that lay between them are not there any more.
    numbers: Option<Vec<u64>>,
    /// Places of the rows that are asked for, in key order; `None` where these are all rows as they lie.
    places: Option<Vec<u32>>,
}

/// Reads rows of one segment as chunks.
pub struct SegmentCursor {
    segment: Arc<Segment>,
    index: Arc<BlockIndex>,
    reader: RowReader,
    schema: SchemaRef,
    columns: Vec<Source>,
    coded: Arc<[CodedColumn]>,
    levels: usize,
    is_banded: bool,
    /// What is asked for, counted in key order.
    wanted: Range<u64>,
    /// What is still to be read, as it lies.
    rows: Range<u64>,
}

impl SegmentCursor {
    /// A cursor over `rows` of the segment, counted in key order, in chunks of `chunk_rows` (the last one may be
    /// shorter, and those of a banded segment are whole blocks), as the definition `table` has them. Best where
    /// `chunk_rows` is a multiple of [`crate::BLOCK_ROWS`].
    pub fn new(
        segment: &Arc<Segment>,
        table: &TableDef,
        dictionaries: &Dictionaries,
        rows: Range<u64>,
        chunk_rows: usize,
    ) -> Result<SegmentCursor> {
        let meta = segment.meta();
        assert!(rows.start <= rows.end && rows.end <= meta.rows, "a cursor's rows are the segment's");
        assert!(chunk_rows > 0, "chunks have rows");
        let index = segment.index()?;
        let levels = table.levels().count();
        if index.table.levels.len() != levels {
            let message = format!("segment {} has {} levels instead of {levels}", meta.id, index.table.levels.len());
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        let mut coded = Vec::new();
        let mut columns = Vec::with_capacity(table.columns.len() + 2);
        let mut fields = Vec::with_capacity(table.columns.len() + 2);
        let mut read: Vec<(&str, DataType)> = Vec::new();
        for (place, column) in table.columns.iter().enumerate() {
            let data_type = column.data_type.to_arrow();
            columns.push(match CodedColumn::level_of(table, place) {
                _ if !meta.columns.contains(&column.id) => Source::Absent(data_type.clone()),
                Some(level) => {
                    coded.push(CodedColumn::new(table, place, level, dictionaries)?);
                    continue;
                }
                None => {
                    read.push((&column.storage_name, data_type.clone()));
                    Source::Parquet(column.storage_name.clone())
                }
            });
            fields.push(Field::new(&column.storage_name, data_type, column.nullable));
        }
        columns.push(match meta.fixed_version {
            Some(version) => Source::Version(version.0),
            None => {
                read.push((VERSION_COLUMN, DataType::UInt64));
                Source::Parquet(VERSION_COLUMN.to_owned())
            }
        });
        fields.push(Field::new(VERSION_COLUMN, DataType::UInt64, true));
        read.push((ORDINAL_COLUMN, DataType::UInt64));
        columns.push(Source::Parquet(ORDINAL_COLUMN.to_owned()));
        fields.push(Field::new(ORDINAL_COLUMN, DataType::UInt64, false));
        let is_banded = segment.bands()?.is_some();
        let (wanted, mut rows, mut chunk_rows) = (rows.clone(), rows, chunk_rows);
        if is_banded && !rows.is_empty() {
            let block = BLOCK_ROWS as u64;
            rows = rows.start / block * block..rows.end.next_multiple_of(block).min(meta.rows);
            chunk_rows = chunk_rows.next_multiple_of(BLOCK_ROWS);
        }
        let reader = segment.read_rows(&read, rows.clone(), chunk_rows)?;
        let (segment, schema) = (Arc::clone(segment), Arc::new(Schema::new(fields)));
        Ok(SegmentCursor {
            segment,
            index,
            reader,
            schema,
            columns,
            coded: coded.into(),
            levels,
            is_banded,
            wanted,
            rows,
        })
    }

    /// The next rows, as they lie.
    pub fn next_ordered(&mut self) -> Result<Option<OrderedChunk>> {
        let next = self.next_chunk().and_then(|chunk| {
            let Some((first, chunk)) = chunk else { return Ok(None) };
            let places = if self.is_banded { Some(self.places(first, &chunk.keys)?) } else { None };
            Ok(Some(OrderedChunk { chunk, first, numbers: None, places }))
        });
        if next.is_err() {
            self.rows.start = self.rows.end;
        }
        next
    }

    /// Of rows of whole blocks, from row `first` on, those that are asked for, block by block in key order.
    fn places(&self, first: u64, keys: &[u128]) -> Result<Vec<u32>> {
        let end = first + keys.len() as u64;
        let is_whole =
            first.is_multiple_of(BLOCK_ROWS as u64) && (end.is_multiple_of(BLOCK_ROWS as u64) || end == self.rows.end);
        if !is_whole {
            return Err(Error::internal(format!("rows {first} to {end} of a banded segment are no whole blocks")));
        }
        let mut places = Vec::with_capacity(keys.len());
        for (at, block) in keys.chunks(BLOCK_ROWS).enumerate() {
            let start = at * BLOCK_ROWS;
            let mut order: Vec<u32> = (start as u32..(start + block.len()) as u32).collect();
            // Bands are runs, which this sort finds and merges.
            order.sort_by_key(|&place| keys[place as usize]);
            let ranks = first + start as u64..first + (start + block.len()) as u64;
            let from = self.wanted.start.clamp(ranks.start, ranks.end) - ranks.start;
            let to = self.wanted.end.clamp(ranks.start, ranks.end) - ranks.start;
            places.extend_from_slice(&order[from as usize..to as usize]);
        }
        Ok(places)
    }

    /// The next rows, as they lie, from which row on.
    fn next_chunk(&mut self) -> Result<Option<(u64, RowChunk)>> {
        if self.rows.is_empty() {
            return Ok(None);
        }
        let Some(batch) = self.reader.next_batch()? else {
            let meta = self.segment.meta();
            let message =
                format!("the Parquet file of segment {} ends {} rows early", meta.id, self.rows.end - self.rows.start);
            return Err(Error::new(ErrorKind::Corrupt, message));
        };
        let count = batch.num_rows();
        let mut keys = Vec::with_capacity(count);
        let mut codes = LevelCodes { levels: (0..self.levels).map(|_| Vec::with_capacity(count)).collect() };
        let first = self.rows.start;
        let end = first + count as u64;
        let mut at = first;
        while at < end {
            let block = (at / BLOCK_ROWS as u64) as usize;
            let piece = at..end.min(self.segment.block_rows(block).end);
            at = piece.end;
            self.segment.keys_into(&self.index, block, piece.clone(), &mut keys)?;
            for (level, out) in codes.levels.iter_mut().enumerate() {
                self.segment.codes_into(&self.index, level, block, piece.clone(), out)?;
            }
        }
        self.rows.start = end;
        self.check_codes(&codes)?;
        let named = by_name(&batch);
        let columns = self.columns.iter().map(|source| source.values(&named, batch.num_rows()));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let rows = RecordBatch::try_new(Arc::clone(&self.schema), columns)
            .map_err(|error| Error::internal(format!("rows of segment {}: {error}", self.segment.meta().id)))?;
        Ok(Some((first, RowChunk { rows, keys, codes, coded: Arc::clone(&self.coded) })))
    }

    /// Every code of a coded column has a value.
    fn check_codes(&self, codes: &LevelCodes) -> Result<()> {
        let last = |column: &CodedColumn| codes.levels[column.level].iter().fold(0, |last, &code| last.max(code));
        if self.coded.iter().all(|column| (last(column) as usize) < column.values.len()) {
            return Ok(());
        }
        let message = format!("segment {} has codes that the table's dictionary does not", self.segment.meta().id);
        Err(Error::new(ErrorKind::Corrupt, message).with_hint("the dictionary file is damaged or of another database"))
    }
}

impl OrderedChunk {
    /// The rows, as they lie.
    pub fn rows(&self) -> &RowChunk {
        &self.chunk
    }

    /// The number in the segment, as they lie, of the row at a place of [`Self::rows`].
    #[inline]
    pub fn number(&self, place: usize) -> u64 {
        self.numbers.as_ref().map_or(self.first + place as u64, |numbers| numbers[place])
    }

    /// Leaves out rows that are asked for, by their numbers in the segment, and says how many. Where most of the rows are
    /// left out, their memory is given back: whoever gathers the others holds many chunks.
    pub fn leave_out(&mut self, is_out: impl Fn(u64) -> bool) -> Result<u64> {
        let places = (0..self.len()).map(|at| self.place(at));
        let kept: Vec<u32> = places.filter(|&place| !is_out(self.number(place))).map(|place| place as u32).collect();
        let out = self.len() - kept.len();
        if kept.len() * 2 < self.chunk.len() {
            self.numbers = Some(kept.iter().map(|&place| self.number(place as usize)).collect());
            self.chunk = self.chunk.take(&kept)?.compact();
            self.places = None;
        } else if out > 0 {
            self.places = Some(kept);
        }
        Ok(out as u64)
    }

    /// How many rows are asked for.
    pub fn len(&self) -> usize {
        self.places.as_ref().map_or(self.chunk.len(), Vec::len)
    }

    /// Whether no rows are asked for.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where a row lies that is asked for, counted in key order.
    #[inline]
    pub fn place(&self, at: usize) -> usize {
        self.places.as_ref().map_or(at, |places| places[at] as usize)
    }

    /// A row's key, counted in key order.
    #[inline]
    pub fn key(&self, at: usize) -> u128 {
        self.chunk.keys[self.place(at)]
    }

    /// The rows that are asked for, in key order.
    pub fn into_rows(self) -> Result<RowChunk> {
        match self.places {
            Some(places) => self.chunk.take(&places),
            None => Ok(self.chunk),
        }
    }
}

/// The rows in key order.
impl Iterator for SegmentCursor {
    type Item = Result<RowChunk>;

    fn next(&mut self) -> Option<Result<RowChunk>> {
        self.next_ordered().and_then(|chunk| chunk.map(OrderedChunk::into_rows).transpose()).transpose()
    }
}

impl std::fmt::Debug for SegmentCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentCursor").field("segment", &self.segment.meta().id).field("rows", &self.rows).finish()
    }
}
