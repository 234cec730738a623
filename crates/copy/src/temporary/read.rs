//! The rows of a temporary table, as whoever reads finds them.

use crate::temporary::chunk::{Chunk, Data, Place, TEMPORARY_VERSION, misfit};
use crate::temporary::file::{ChunkFile, OpenFile};
use alluvia_space::{ORDINAL_COLUMN, VERSION_COLUMN};
use alluvia_types::{Error, Result};
use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow::compute::concat_batches;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use std::ops::Range;
use std::sync::Arc;

/// Chunks below this many rows are handed out together.
const SMALL_ROWS: usize = 512;
/// Up to this many rows.
const JOINED_ROWS: usize = 8_192;

/// The rows that live at one moment.
#[derive(Clone, Debug, Default)]
pub struct TemporaryRead {
    chunks: Arc<[Chunk]>,
    rows: u64,
}

/// Neighbouring chunks.
pub type Part = Range<usize>;

impl TemporaryRead {
    pub(super) fn new(chunks: Arc<[Chunk]>) -> TemporaryRead {
        let rows = chunks.iter().map(|chunk| chunk.live() as u64).sum();
        TemporaryRead { chunks, rows }
    }

    /// How many they are.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// How many a part has.
    pub fn rows_of(&self, part: &Part) -> u64 {
        self.chunks[part.clone()].iter().map(|chunk| chunk.live() as u64).sum()
    }

    /// All of them.
    pub fn whole(&self) -> Part {
        0..self.chunks.len()
    }

    /// At least one part and at most so many, each of about as many rows.
    pub fn parts(&self, most: usize) -> Vec<Part> {
        let target = self.rows.div_ceil(most.max(1) as u64).max(1);
        let (mut parts, mut first, mut rows) = (Vec::new(), 0, 0);
        for (at, chunk) in self.chunks.iter().enumerate() {
            rows += chunk.live() as u64;
            if rows >= target && parts.len() + 1 < most {
                parts.push(first..at + 1);
                (first, rows) = (at + 1, 0);
            }
        }
        if first < self.chunks.len() || parts.is_empty() {
            parts.push(first..self.chunks.len());
        }
        parts
    }

    /// The rows of a part, chunk after chunk: of the columns that have these names of storage those that there are, in any
    /// order; and what rows are known by behind them, if that is asked for.
    pub fn batches(&self, part: Part, columns: Vec<String>, identified: bool) -> Batches {
        Batches { chunks: Arc::clone(&self.chunks), next: part, columns, identified, open: None }
    }
}

/// Reads chunks when they are asked for.
pub struct Batches {
    chunks: Arc<[Chunk]>,
    next: Part,
    columns: Vec<String>,
    identified: bool,
    open: Option<(Arc<ChunkFile>, OpenFile)>,
}

impl Iterator for Batches {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Result<RecordBatch>> {
        let first = self.next.find(|&at| self.chunks[at].live() > 0)?;
        Some(self.read_from(first))
    }
}

impl Batches {
    /// A chunk, and small ones behind it: 10,000 rows that came one by one must not cost 10,000 trips through operators.
    fn read_from(&mut self, first: usize) -> Result<RecordBatch> {
        let batch = self.read(first)?;
        let mut rows = batch.num_rows();
        if rows >= SMALL_ROWS {
            return Ok(batch);
        }
        let mut few = vec![batch];
        while let Some(at) = self.next.clone().next() {
            let (known, chunk) = (&self.chunks[first], &self.chunks[at]);
            let is_small = chunk.live() < SMALL_ROWS && rows + chunk.live() <= JOINED_ROWS;
            if !is_small || known.schema() != chunk.schema() {
                break;
            }
            rows += chunk.live();
            if chunk.live() > 0 {
                few.push(self.read(at)?);
            }
            self.next.start = at + 1;
        }
        match few.as_slice() {
            [one] => Ok(one.clone()),
            [first, ..] => concat_batches(first.schema_ref(), &few).map_err(misfit),
            [] => Err(Error::internal("no rows were read of a temporary table")),
        }
    }

    fn read(&mut self, at: usize) -> Result<RecordBatch> {
        let chunk = self.chunks[at].clone();
        let rows = match &chunk.data {
            Data::Memory(data) => {
                let schema = data.batch.schema();
                let fields = schema.fields().iter().enumerate();
                let wanted = fields.filter(|(_, field)| self.columns.contains(field.name()));
                data.batch.project(&wanted.map(|(at, _)| at).collect::<Vec<_>>()).map_err(misfit)?
            }
            Data::File(file, _) if !file.has_any(&self.columns) => {
                let options = RecordBatchOptions::new().with_row_count(Some(chunk.rows));
                RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options).map_err(misfit)?
            }
            Data::File(file, number) => {
                let open = match &mut self.open {
                    Some((known, open)) if Arc::ptr_eq(known, file) => open,
                    open => &mut open.insert((Arc::clone(file), file.open(&self.columns)?)).1,
                };
                open.batch(*number)?
            }
        };
        let rows = if self.identified { identified(&chunk, &rows)? } else { rows };
        chunk.live_rows(&rows)
    }
}

/// With what rows are known by.
fn identified(chunk: &Chunk, rows: &RecordBatch) -> Result<RecordBatch> {
    let first = Place { chunk: chunk.number, row: 0 }.ordinal();
    let schema = rows.schema();
    let hidden =
        [Field::new(VERSION_COLUMN, DataType::UInt64, true), Field::new(ORDINAL_COLUMN, DataType::UInt64, false)];
    let fields = schema.fields().iter().cloned().chain(hidden.map(|field| Arc::new(field) as FieldRef));
    let versions = UInt64Array::from_value(TEMPORARY_VERSION.0, chunk.rows);
    let ordinals = UInt64Array::from_iter_values(first..first + chunk.rows as u64);
    let columns: Vec<ArrayRef> =
        rows.columns().iter().cloned().chain([Arc::new(versions) as ArrayRef, Arc::new(ordinals)]).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns).map_err(misfit)
}
