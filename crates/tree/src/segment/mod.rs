//! An open segment: its files, its summaries, its packed keys and codes, its rows.
//!
//! Opening looks at lengths only: everything else is loaded when it is first asked for, verified, and held within the
//! context's bound ([`TreeContext::with_loaded_bytes_max`]), so that a database of any size opens at once and thousands
//! of open segments cost little. Rooms above keep what they compute of a segment beside it ([`Segment::derived`]), and
//! the segment knows none of them.

mod columns;
mod cursor;
mod derived;
mod held_files;
mod key_order;
mod lengths;
mod packed;
mod points;
mod resident;
mod row_bytes;
mod row_columns;
mod rows;
mod whole_column;

pub use cursor::{OrderedChunk, SegmentCursor};
pub use held_files::HeldFiles;
pub use lengths::{KeptLengths, value_bytes};
pub(crate) use packed::values_of;
use points::DictionariesByChunk;
pub use row_bytes::RowBytes;
pub use row_columns::RowColumns;
use rows::ReadersByColumns;
pub(crate) use rows::identities_of;

use crate::context::{Slot, TreeContext};
use crate::layout::{Bands, block_rows, blocks_of, rung_limit};
use crate::meta::{RungMeta, SegmentMeta};
use crate::nodes::NodeTree;
use crate::packed::PackedStream;
use crate::side::{SectionKind, SideFile, Stripes};
use crate::summary::{BlockSummaries, BlockTable};
use alluvia_storage::CheckedFile;
use alluvia_types::{Error, ErrorKind, Result};
use derived::Derived;
use parking_lot::Mutex;
use parquet::file::metadata::ParquetMetaData;
use row_columns::PlacesByColumns;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use whole_column::WholeColumn;

/// What is done about a side file that is damaged.
const ANEW: &str = "the file is damaged, and a running database makes it anew of the Parquet file beside it, if that is whole: run the \
                    statement again; `alluvia check` and `alluvia repair` tell more";

/// The same of both files of a rung.
const ANEW_RUNG: &str = "the file is one of a rung, whose rows are in a segment, too: it is not read again, and a running database makes it \
                         anew; run the statement again";

/// An immutable run of rows in key order, by block or by row. Shared by `Arc`; its files are deleted when it was
/// retired and the last is dropped, of all that were opened of them ([`HeldFiles`]).
#[derive(Debug)]
pub struct Segment {
    context: TreeContext,
    meta: SegmentMeta,
    files: OnceLock<Files>,
    opening: Mutex<()>,
    index: Arc<Slot<BlockIndex>>,
    summaries: Arc<Slot<BlockSummaries>>,
    parquet: Arc<Slot<Arc<ParquetMetaData>>>,
    readers: Mutex<ReadersByColumns>,
    dictionaries: Mutex<DictionariesByChunk>,
    /// By stream: each level, then each measure.
    streams: OnceLock<Vec<Arc<Slot<PackedStream>>>>,
    nodes: Arc<Slot<NodeTree>>,
    first_rows: Arc<Slot<Vec<u32>>>,
    bands: Arc<Slot<Option<Bands>>>,
    places: Arc<Slot<Option<Vec<u16>>>>,
    derived: Derived,
    /// By their places in the Parquet file.
    whole_columns: OnceLock<Box<[Arc<Slot<WholeColumn>>]>>,
    row_columns: Mutex<PlacesByColumns>,
    /// Rows that point reads have decoded, in all columns, and that no whole column was decoded for.
    credit: AtomicU64,
    /// How often rows were asked for in the order of their keys while that was not known.
    key_order_asked: AtomicU32,
    rungs: Vec<Rung>,
    held_files: Arc<HeldFiles>,
    /// Set by the first read that has met damage.
    damaged: AtomicBool,
    /// Whether its rows are in another segment, too.
    is_rung: bool,
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

impl Segment {
    /// Opens a segment. Reads nothing but the lengths of its files. Rungs that are not there are done without: their
    /// rows are in the segment.
    pub fn open(context: &TreeContext, meta: SegmentMeta) -> Result<Arc<Segment>> {
        Segment::open_as(context, meta, None, false)
    }

    /// Opens a segment of which something was made anew, whose files `self` has open as well: they stay until both are gone. So do those of
    /// the rungs that both have.
    pub fn reopen(&self, meta: SegmentMeta) -> Result<Arc<Segment>> {
        Segment::open_as(&self.context, meta, Some(self), self.is_rung)
    }

    fn open_as(
        context: &TreeContext,
        meta: SegmentMeta,
        before: Option<&Segment>,
        is_rung: bool,
    ) -> Result<Arc<Segment>> {
        let lengths =
            [(context.parquet_path(meta.id), meta.parquet_bytes), (context.side_path(meta.id), meta.side.len)];
        for (path, expected) in lengths {
            check_length(context, &path, expected)?;
        }
        let known = |rung: &RungMeta| {
            let mut known = before?.rungs.iter().map(|known| known.segment.as_ref());
            known.find(|known| known.meta.id == rung.segment.id)
        };
        let rung = |meta: &RungMeta| match Segment::open_as(context, meta.segment.clone(), known(meta), true) {
            Ok(segment) => Ok(Some(Rung { rung: meta.rung, segment })),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(None),
            Err(error) => Err(error),
        };
        let rungs = meta.rungs.iter().map(rung).filter_map(Result::transpose).collect::<Result<_>>()?;
        let held_files = match before.filter(|before| before.meta.id == meta.id) {
            Some(before) => Arc::clone(&before.held_files),
            None => HeldFiles::new(context, meta.id),
        };
        Ok(Arc::new(Segment {
            context: context.clone(),
            meta,
            files: OnceLock::new(),
            opening: Mutex::new(()),
            index: Arc::default(),
            summaries: Arc::default(),
            parquet: Arc::default(),
            readers: Mutex::default(),
            dictionaries: Mutex::default(),
            streams: OnceLock::new(),
            nodes: Arc::default(),
            first_rows: Arc::default(),
            bands: Arc::default(),
            places: Arc::default(),
            derived: Derived::default(),
            whole_columns: OnceLock::new(),
            row_columns: Mutex::default(),
            credit: AtomicU64::new(0),
            key_order_asked: AtomicU32::new(0),
            rungs,
            held_files,
            damaged: AtomicBool::new(false),
            is_rung,
        }))
    }

    /// Opens a segment that was just written and that nothing names yet: if it cannot be opened, its files go.
    pub fn open_written(context: &TreeContext, meta: SegmentMeta) -> Result<Arc<Segment>> {
        Segment::open(context, meta.clone()).inspect_err(|_| context.remove_files(&meta))
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

    /// Its ladder, the thickest rung first.
    pub fn rungs(&self) -> &[Rung] {
        &self.rungs
    }

    /// The thinnest rung that holds every row whose weight is below `limit`; `None` if only the segment does.
    pub fn rung_for(&self, limit: u64) -> Option<&Rung> {
        let holds = |rung: &&Rung| rung_limit(rung.rung).is_none_or(|most| limit <= most);
        self.rungs.iter().rev().filter(|rung| !rung.segment.is_damaged()).find(holds)
    }

    /// Of a rung: how many of its rows lie before each block of the segment it hangs from, and at the end how many
    /// there are.
    pub fn first_rows(&self) -> Result<Arc<Vec<u32>>> {
        Slot::get(&self.first_rows, &self.context.pool, || {
            let rows = self.diagnosed(self.files()?.side.first_rows())?;
            let bytes = 4 * rows.len() as u64;
            Ok((rows, bytes))
        })
    }

    /// Of a rung: where each of its rows lies in the block of the segment that it is of, by which dead rows are found.
    /// `None` of a rung that was written before this was.
    pub fn places(&self) -> Result<Arc<Option<Vec<u16>>>> {
        Slot::get(&self.places, &self.context.pool, || {
            let places = self.diagnosed(self.files()?.side.places())?;
            let bytes = places.as_ref().map_or(0, |places| 2 * places.len() as u64);
            Ok((places, bytes))
        })
    }

    /// Whether it has [`Segment::places`], which are not read for that.
    pub(crate) fn has_places(&self) -> Result<bool> {
        Ok(self.files()?.side.has(SectionKind::Places))
    }

    /// Where the bands of its blocks end; `None` if the rows of blocks are in key order.
    pub fn bands(&self) -> Result<Arc<Option<Bands>>> {
        Slot::get(&self.bands, &self.context.pool, || {
            let bands = self.diagnosed(self.files()?.side.bands())?;
            let bytes = bands.as_ref().map_or(0, Bands::bytes);
            Ok((bands, bytes))
        })
    }

    /// Whether a read has met damage in one of its files. A rung of which that is so is not read again, and made anew
    /// ([`Segment::rebuild_rungs`]).
    pub fn is_damaged(&self) -> bool {
        let in_parquet = || self.files.get().is_some_and(|files| files.parquet.is_damaged());
        self.damaged.load(Ordering::Relaxed) || in_parquet()
    }

    /// From now on the files go when the last holder does, those of its ladder too.
    pub fn retire(&self) {
        self.held_files.retire();
        self.rungs.iter().for_each(|rung| rung.segment.retire());
    }

    /// What keeps its files.
    pub fn held_files(&self) -> &Arc<HeldFiles> {
        &self.held_files
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
        let side = side.with_hint(self.what_is_done());
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
        let parquet = if self.is_rung { parquet.with_hint(ANEW_RUNG) } else { parquet };
        Ok(Files { side, parquet })
    }

    /// What is done about a side file that is damaged.
    fn what_is_done(&self) -> &'static str {
        if self.is_rung { ANEW_RUNG } else { ANEW }
    }

    /// Damage to the side file, as the section that it hit.
    pub(crate) fn diagnosed<T>(&self, result: Result<T>) -> Result<T> {
        result.map_err(|error| {
            if error.kind() != ErrorKind::Corrupt {
                return error;
            }
            self.damaged.store(true, Ordering::Relaxed);
            let (disk, path) = (self.context.disk.as_ref(), self.context.side_path(self.meta.id));
            match SideFile::diagnose(disk, &path, self.meta.id, self.meta.table) {
                Err(found) if found.kind() == ErrorKind::Corrupt => found.with_hint(self.what_is_done()),
                _ => error.with_hint(self.what_is_done()),
            }
        })
    }
}

/// Refuses a file that is missing, or has another length.
pub(crate) fn check_length(context: &TreeContext, path: &Path, expected: u64) -> Result<()> {
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
