//! An open segment.
//!
//! Opening looks at lengths only: everything else is loaded when it is first asked for, verified, and held within the
//! context's bound ([`TreeContext::with_loaded_bytes_max`]), so that a database of any size opens at once and thousands of
//! open segments cost little.

use crate::answer::{NodeTree, Passes};
use crate::bands::Bands;
use crate::context::TreeContext;
use crate::heavy::{self, Heavy};
use crate::ladder::{RungSums, rung_limit};
use crate::layout::{STRIPE_BLOCKS, block_rows, blocks_of};
use crate::meta::{RungMeta, SegmentMeta};
use crate::parquet_file::{ParquetInput, RowReader};
use crate::pool::Slot;
use crate::sample::NodeKnowns;
use crate::side::{SideFile, Stripes, key_width, unpack_codes, unpack_keys};
use crate::summary::{BlockSummaries, BlockTable};
use alluvia_space::VERSION_COLUMN;
use alluvia_storage::CheckedFile;
use alluvia_types::{ColumnId, Error, ErrorKind, Result};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::concat;
use arrow::datatypes::{DataType, UInt64Type};
use parking_lot::Mutex;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData, ParquetMetaDataReader};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// An immutable run of rows in key order, by block or by row. Shared by `Arc`; its files are deleted when it was retired and the last is dropped.
#[derive(Debug)]
pub struct Segment {
    context: TreeContext,
    meta: SegmentMeta,
    files: OnceLock<Files>,
    opening: Mutex<()>,
    index: Arc<Slot<BlockIndex>>,
    summaries: Arc<Slot<BlockSummaries>>,
    parquet: Arc<Slot<Arc<ParquetMetaData>>>,
    /// By stream: each level, then each measure.
    streams: OnceLock<Vec<Arc<Slot<PackedStream>>>>,
    nodes: Arc<Slot<NodeTree>>,
    first_rows: Arc<Slot<Vec<u32>>>,
    bands: Arc<Slot<Option<Bands>>>,
    /// By measure.
    knowns: OnceLock<Vec<Arc<Slot<NodeKnowns>>>>,
    /// By measure.
    heavy: OnceLock<Vec<Arc<Slot<Heavy>>>>,
    /// Of a rung, by measure.
    sums: OnceLock<Vec<Arc<Slot<RungSums>>>>,
    rungs: Vec<Rung>,
    retired: AtomicBool,
}

/// A rung of a segment's ladder.
#[derive(Clone, Debug)]
pub struct Rung {
    /// Its rows' weights are below 2^64 / 2^this.
    pub rung: u32,
    /// The thinner copy.
    pub segment: Arc<Segment>,
}

/// The files, once something was read from them.
#[derive(Debug)]
struct Files {
    side: SideFile,
    parquet: CheckedFile,
}

/// Where packed keys and codes lie, and how they are packed.
#[derive(Debug)]
pub(crate) struct BlockIndex {
    pub(crate) table: Arc<BlockTable>,
    pub(crate) stripes: Stripes,
}

/// One stream of the side file in memory: a level's codes or a measure's values, packed block by block.
#[derive(Debug, Default)]
pub(crate) struct PackedStream {
    bytes: Vec<u8>,
    /// Where each block begins, and where the last one ends.
    starts: Vec<usize>,
}

impl PackedStream {
    /// The packed codes or values of a block.
    pub(crate) fn block(&self, block: usize) -> &[u8] {
        &self.bytes[self.starts[block]..self.starts[block + 1]]
    }
}

impl Segment {
    /// Opens a segment. Reads nothing but the lengths of its files. Rungs that are not there are done without: their rows are in
    /// the segment.
    pub fn open(context: &TreeContext, meta: SegmentMeta) -> Result<Arc<Segment>> {
        let lengths =
            [(context.parquet_path(meta.id), meta.parquet_bytes), (context.side_path(meta.id), meta.side.len)];
        for (path, expected) in lengths {
            check_length(context, &path, expected)?;
        }
        let rung = |meta: &RungMeta| match Segment::open(context, meta.segment.clone()) {
            Ok(segment) => Ok(Some(Rung { rung: meta.rung, segment })),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
            Err(error) => Err(error),
        };
        let rungs = meta.rungs.iter().map(rung).filter_map(Result::transpose).collect::<Result<_>>()?;
        Ok(Arc::new(Segment {
            context: context.clone(),
            meta,
            files: OnceLock::new(),
            opening: Mutex::new(()),
            index: Arc::default(),
            summaries: Arc::default(),
            parquet: Arc::default(),
            streams: OnceLock::new(),
            nodes: Arc::default(),
            first_rows: Arc::default(),
            bands: Arc::default(),
            knowns: OnceLock::new(),
            heavy: OnceLock::new(),
            sums: OnceLock::new(),
            rungs,
            retired: AtomicBool::new(false),
        }))
    }

    /// Opens a segment that was just written and that nothing names yet: if it cannot be opened, its files go.
    pub fn open_written(context: &TreeContext, meta: SegmentMeta) -> Result<Arc<Segment>> {
        Segment::open(context, meta.clone()).inspect_err(|_| context.remove_files(&meta))
    }

    /// The passes over blocks of its directory.
    pub(crate) fn passes(&self) -> &Passes {
        &self.context.passes
    }

    /// What the manifest says of it.
    pub fn meta(&self) -> &SegmentMeta {
        &self.meta
    }

    /// How many blocks it has.
    pub fn blocks(&self) -> usize {
        blocks_of(self.meta.rows)
    }

    /// The rows of a block.
    pub fn block_rows(&self, block: usize) -> Range<u64> {
        block_rows(block, self.meta.rows)
    }

    /// What is known of its blocks.
    pub fn summaries(&self) -> Result<Arc<BlockSummaries>> {
        Slot::get(&self.summaries, &self.context.pool, || {
            let table = Arc::clone(&self.index()?.table);
            let (levels, bytes) = self.diagnosed(self.files()?.side.presence(&table))?;
            Ok((BlockSummaries { table, levels, rows: self.meta.rows }, bytes))
        })
    }

    /// The codes of a block at one level, counted over all dimensions in the definition's order.
    pub fn codes(&self, level: usize, block: usize) -> Result<Vec<u32>> {
        let mut codes = Vec::with_capacity(crate::layout::BLOCK_ROWS);
        self.codes_into(&*self.index()?, level, block, self.block_rows(block), &mut codes)?;
        Ok(codes)
    }

    /// The keys of some blocks, one after the other.
    pub fn keys(&self, blocks: Range<usize>) -> Result<Vec<u128>> {
        let index = self.index()?;
        let rows: u64 = blocks.clone().map(|block| self.block_rows(block)).map(|rows| rows.end - rows.start).sum();
        let mut keys = Vec::with_capacity(rows as usize);
        for block in blocks {
            self.keys_into(&index, block, self.block_rows(block), &mut keys)?;
        }
        Ok(keys)
    }

    /// The rows whose keys lie in `low..=high`, counted in key order: those of a banded segment lie elsewhere within their blocks.
    pub fn rows_in(&self, low: u128, high: u128) -> Result<Range<u64>> {
        if self.meta.rows == 0 || low > high || high < self.meta.key_min || low > self.meta.key_max {
            return Ok(0..0);
        }
        let start = if low <= self.meta.key_min { 0 } else { self.rows_where(|key| key < low)? };
        let end = if high >= self.meta.key_max { self.meta.rows } else { self.rows_where(|key| key <= high)? };
        Ok(start..end.max(start))
    }

    /// How many rows, from the first on, have keys of which `before` holds; it holds up to some key and not from there.
    fn rows_where(&self, before: impl Fn(u128) -> bool) -> Result<u64> {
        let index = self.index()?;
        // The last block that starts with such a key holds the boundary.
        let blocks = index.table.key_first.partition_point(|&key| before(key));
        let Some(block) = blocks.checked_sub(1) else { return Ok(0) };
        let rows = self.block_rows(block);
        if before(index.table.key_last[block]) {
            return Ok(rows.end);
        }
        let mut keys = Vec::new();
        self.keys_into(&index, block, rows.clone(), &mut keys)?;
        Ok(rows.start + keys.iter().filter(|&&key| before(key)).count() as u64)
    }

    /// The Parquet file.
    pub fn parquet_file(&self) -> Result<CheckedFile> {
        Ok(self.files()?.parquet.clone())
    }

    /// The Parquet file's footer, with the page indexes.
    pub fn parquet_metadata(&self) -> Result<Arc<ParquetMetaData>> {
        let metadata = Slot::get(&self.parquet, &self.context.pool, || {
            let path = self.context.parquet_path(self.meta.id);
            let input = ParquetInput(self.parquet_file()?);
            let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Optional);
            let metadata =
                reader.parse_and_finish(&input).map_err(|error| crate::parquet_file::read_error(&path, error))?;
            if metadata.file_metadata().num_rows() as u64 != self.meta.rows {
                let rows = metadata.file_metadata().num_rows();
                let message = format!("{} has {rows} rows instead of {}", path.display(), self.meta.rows);
                return Err(Error::new(ErrorKind::Corrupt, message));
            }
            let bytes = metadata.memory_size() as u64;
            Ok((Arc::new(metadata), bytes))
        })?;
        Ok(Arc::clone(&metadata))
    }

    /// Its ladder, the thickest rung first.
    pub fn rungs(&self) -> &[Rung] {
        &self.rungs
    }

    /// The thinnest rung that holds every row whose weight is below `limit`; `None` if only the segment does.
    pub fn rung_for(&self, limit: u64) -> Option<&Rung> {
        self.rungs.iter().rev().find(|rung| rung_limit(rung.rung).is_none_or(|most| limit <= most))
    }

    /// Of a rung: how many of its rows lie before each block of the segment it hangs from, and at the end how many there are.
    pub fn first_rows(&self) -> Result<Arc<Vec<u32>>> {
        Slot::get(&self.first_rows, &self.context.pool, || {
            let rows = self.diagnosed(self.files()?.side.first_rows())?;
            let bytes = 4 * rows.len() as u64;
            Ok((rows, bytes))
        })
    }

    /// Where the bands of its blocks end; `None` if the rows of blocks are in key order.
    pub fn bands(&self) -> Result<Arc<Option<Bands>>> {
        Slot::get(&self.bands, &self.context.pool, || {
            let bands = self.diagnosed(self.files()?.side.bands())?;
            let bytes = bands.as_ref().map_or(0, Bands::bytes);
            Ok((bands, bytes))
        })
    }

    /// From now on the files go when the last holder does, those of its ladder too.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
        self.rungs.iter().for_each(|rung| rung.segment.retire());
    }

    pub(crate) fn context(&self) -> &TreeContext {
        &self.context
    }

    pub(crate) fn side(&self) -> Result<&SideFile> {
        Ok(&self.files()?.side)
    }

    pub(crate) fn index(&self) -> Result<Arc<BlockIndex>> {
        Slot::get(&self.index, &self.context.pool, || {
            let side = &self.files()?.side;
            let (table, bytes) = self.diagnosed(side.blocks())?;
            let stripes = self.diagnosed(side.stripes())?;
            let bytes = bytes + stripes.bytes();
            Ok((BlockIndex { table: Arc::new(table), stripes }, bytes))
        })
    }

    /// Appends the keys of some rows of a block.
    pub(crate) fn keys_into(
        &self,
        index: &BlockIndex,
        block: usize,
        rows: Range<u64>,
        out: &mut Vec<u128>,
    ) -> Result<()> {
        let table = &index.table;
        let (first, last) = (table.key_first[block], table.key_last[block]);
        let width = key_width(first, last);
        let packed = self.packed(index, 0, block, &rows, width)?;
        unpack_keys(&packed, width, first, (rows.end - rows.start) as usize, out);
        Ok(())
    }

    /// Appends the codes of some rows of a block.
    pub(crate) fn codes_into(
        &self,
        index: &BlockIndex,
        level: usize,
        block: usize,
        rows: Range<u64>,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let bounds = index.table.levels[level].code_bounds(block);
        let packed = self.packed(index, 1 + level, block, &rows, bounds.width())?;
        unpack_codes(&packed, bounds, (rows.end - rows.start) as usize, out);
        Ok(())
    }

    /// The versions of a block's rows.
    pub(crate) fn versions(self: &Arc<Segment>, block: usize) -> Result<Vec<u64>> {
        if let Some(version) = self.meta.fixed_version {
            let rows = self.block_rows(block);
            return Ok(vec![version.0; (rows.end - rows.start) as usize]);
        }
        let versions = self.values(VERSION_COLUMN, &DataType::UInt64, block)?;
        Ok(versions.as_primitive::<UInt64Type>().values().to_vec())
    }

    /// The values of a column of the Parquet file in a block's rows.
    pub(crate) fn values(self: &Arc<Segment>, name: &str, data_type: &DataType, block: usize) -> Result<ArrayRef> {
        let rows = self.block_rows(block);
        let count = (rows.end - rows.start) as usize;
        let mut reader = RowReader::open(self, &[(name, data_type.clone())], rows, count)?;
        let mut parts = Vec::new();
        while let Some(batch) = reader.next_batch()? {
            parts.push(Arc::clone(batch.column(0)));
        }
        let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
        match concat(&parts) {
            Ok(values) if values.len() == count => Ok(values),
            _ => {
                let message = format!("the Parquet file of segment {} ends within block {block}", self.meta.id);
                Err(Error::new(ErrorKind::Corrupt, message))
            }
        }
    }

    /// All packed codes of a level, held in memory while there is room.
    pub(crate) fn level_stream(&self, level: usize) -> Result<Arc<PackedStream>> {
        self.stream(level)
    }

    /// All packed values of a measure, by its place among the segment's measures.
    pub(crate) fn measure_stream(&self, measure: usize) -> Result<Arc<PackedStream>> {
        self.stream(self.index()?.table.levels.len() + measure)
    }

    /// How many heights the tree above its blocks has; the blocks are the lowest, and the highest has one node.
    pub fn heights(&self) -> Result<usize> {
        Ok(self.nodes()?.heights())
    }

    /// Summaries of runs of blocks, held in memory while there is room.
    pub(crate) fn nodes(&self) -> Result<Arc<NodeTree>> {
        Slot::get(&self.nodes, &self.context.pool, || {
            let nodes = NodeTree::new(&*self.summaries()?);
            let bytes = nodes.bytes();
            Ok((nodes, bytes))
        })
    }

    /// What summaries know of a measure, by node. A column that the segment lacks is NULL in all its rows.
    pub(crate) fn knowns(self: &Arc<Segment>, column: ColumnId) -> Result<Arc<NodeKnowns>> {
        let table = Arc::clone(&self.index()?.table);
        let place = table.measures.iter().position(|(id, _)| *id == column);
        let slots = self.knowns.get_or_init(|| (0..=table.measures.len()).map(|_| Arc::default()).collect());
        Slot::get(&slots[place.unwrap_or(table.measures.len())], &self.context.pool, || {
            let knowns = NodeKnowns::new(self, column)?;
            let bytes = knowns.bytes();
            Ok((knowns, bytes))
        })
    }

    /// The heavy rows of a measure, by its place: as they were written, or found now.
    pub(crate) fn heavy(self: &Arc<Segment>, measure: usize) -> Result<Arc<Heavy>> {
        let measures = self.index()?.table.measures.len();
        let slots = self.heavy.get_or_init(|| (0..measures).map(|_| Arc::default()).collect());
        Slot::get(&slots[measure], &self.context.pool, || {
            let heavy = match self.diagnosed(self.files()?.side.heavy(measure))? {
                Some(heavy) => heavy,
                None => heavy::find(self, measure)?,
            };
            let bytes = heavy.bytes();
            Ok((heavy, bytes))
        })
    }

    /// Of a rung: sums of a measure, by its place, over the rows of each block of the segment it hangs from, without those beyond the
    /// limit of that segment's heavy rows.
    pub(crate) fn rung_sums(self: &Arc<Segment>, measure: usize, limit: f64) -> Result<Arc<RungSums>> {
        let measures = self.index()?.table.measures.len();
        let slots = self.sums.get_or_init(|| (0..measures).map(|_| Arc::default()).collect());
        Slot::get(&slots[measure], &self.context.pool, || {
            let sums = RungSums::new(self, measure, limit)?;
            let bytes = sums.bytes();
            Ok((sums, bytes))
        })
    }

    fn stream(&self, at: usize) -> Result<Arc<PackedStream>> {
        let index = self.index()?;
        let side = &self.files()?.side;
        let streams = self.streams.get_or_init(|| (1..side.streams()).map(|_| Arc::default()).collect());
        Slot::get(&streams[at], &self.context.pool, || {
            let mut starts = Vec::with_capacity(self.blocks() + 1);
            let mut bytes = Vec::new();
            for stripe in 0..self.blocks().div_ceil(STRIPE_BLOCKS) {
                let first = stripe * STRIPE_BLOCKS;
                let offset = bytes.len();
                let whole = index.stripes.stream(&index.table, self.meta.rows, stripe, 1 + at);
                for block in first..(first + STRIPE_BLOCKS).min(self.blocks()) {
                    let range = index.stripes.block(&index.table, self.meta.rows, block, 1 + at);
                    starts.push(offset + (range.start - whole.start) as usize);
                }
                bytes.extend_from_slice(&self.diagnosed(side.packed(whole, 1 + at, first))?);
            }
            starts.push(bytes.len());
            let size = (bytes.len() + 8 * starts.len()) as u64;
            Ok((PackedStream { bytes, starts }, size))
        })
    }

    /// The packed values of a block of a measure; `None` if the column was no measure when the segment was written.
    pub(crate) fn measure(&self, column: ColumnId, block: usize) -> Result<Option<bytes::Bytes>> {
        let index = self.index()?;
        let Some(at) = index.table.measures.iter().position(|(id, _)| *id == column) else { return Ok(None) };
        let width = index.table.measures[at].1.encodings[block].width();
        let stream = 1 + index.table.levels.len() + at;
        self.packed(&index, stream, block, &self.block_rows(block), width).map(Some)
    }

    fn packed(
        &self,
        index: &BlockIndex,
        stream: usize,
        block: usize,
        rows: &Range<u64>,
        width: usize,
    ) -> Result<bytes::Bytes> {
        if width == 0 {
            return Ok(bytes::Bytes::new());
        }
        let whole = index.stripes.block(&index.table, self.meta.rows, block, stream);
        let first = self.block_rows(block).start;
        let start = whole.start + (rows.start - first) * width as u64;
        let end = start + (rows.end - rows.start) * width as u64;
        self.diagnosed(self.files()?.side.packed(start..end, stream, block))
    }

    /// Opens the files at the first use.
    fn files(&self) -> Result<&Files> {
        if let Some(files) = self.files.get() {
            return Ok(files);
        }
        let _one = self.opening.lock();
        match self.files.get() {
            Some(files) => Ok(files),
            None => self.diagnosed(self.open_files()).map(|files| self.files.get_or_init(|| files)),
        }
    }

    fn open_files(&self) -> Result<Files> {
        let context = &self.context;
        let (disk, meta) = (context.disk.as_ref(), &self.meta);
        let path = context.side_path(meta.id);
        let side = CheckedFile::open(disk, &path, Arc::new(meta.side.clone()), Arc::clone(&context.cache))?;
        let side = SideFile::open(side, meta.id, meta.table)?;
        if side.rows != meta.rows {
            let message = format!("{} is of {} rows instead of {}", path.display(), side.rows, meta.rows);
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        let checks = side.parquet_checks()?;
        let parquet_path = context.parquet_path(meta.id);
        if checks.len != meta.parquet_bytes {
            let message =
                format!("{}, section checks, is of another file than {}", path.display(), parquet_path.display());
            return Err(Error::new(ErrorKind::Corrupt, message));
        }
        let parquet = CheckedFile::open(disk, &parquet_path, Arc::new(checks), Arc::clone(&context.cache))?;
        Ok(Files { side, parquet })
    }

    /// Damage to the side file, as the section that it hit.
    pub(crate) fn diagnosed<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            if error.kind() != ErrorKind::Corrupt {
                return error;
            }
            let (disk, path) = (self.context.disk.as_ref(), self.context.side_path(self.meta.id));
            match SideFile::diagnose(disk, &path, self.meta.id, self.meta.table) {
                Err(found) if found.kind() == ErrorKind::Corrupt => found,
                _ => error,
            }
        })
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if !*self.retired.get_mut() {
            return;
        }
        // Nothing names the files any more; what cannot be removed is removed as an orphan when the database is next opened.
        for path in [self.context.parquet_path(self.meta.id), self.context.side_path(self.meta.id)] {
            let _ = self.context.disk.remove(&path);
        }
    }
}

fn check_length(context: &TreeContext, path: &Path, expected: u64) -> Result<()> {
    let file = context.disk.open(path).map_err(|error| {
        if error.kind() == std::io::ErrorKind::NotFound {
            Error::new(ErrorKind::Corrupt, format!("{} is missing", path.display()))
                .with_hint("the manifest names it; restore the data directory from a copy")
        } else {
            Error::io(path, "opening", &error)
        }
    })?;
    let len = file.len().map_err(|error| Error::io(path, "reading", &error))?;
    if len != expected {
        let message = format!("{} has {len} bytes instead of {expected}", path.display());
        return Err(Error::new(ErrorKind::Corrupt, message)
            .with_hint("the file is damaged; restore the data directory from a copy"));
    }
    Ok(())
}
