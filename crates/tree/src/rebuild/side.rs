//! A side file made anew from the Parquet file beside it.
//!
//! Invariants:
//! - Keys and codes are computed from the values, as when the segment was written; summaries, packed values, bands and heavy rows from the
//!   rows. So the new file has the very bytes of the one that is lost, if the same build writes it and the definition is what it was.
//! - It has the checksums of the Parquet file as that is now. So where its own are those of the manifest, both files are what was written.
//! - It is written beside the damaged one, and takes its name when that is told to.

use super::damage::surviving_checks;
use super::rungs::as_written;
use crate::context::TreeContext;
use crate::heavy::{Finder, encode};
use crate::layout::{BLOCK_ROWS, BandCounter};
use crate::meta::SegmentMeta;
use crate::parquet_file::{ColumnReaders, ParquetInput, RowReader, read_error};
use crate::segment::{check_length, identities_of};
use crate::side::{Header, OptionalSections, SideWriter};
use crate::summary::{SummaryBuilder, least_and_greatest};
use crate::verify::{stored_columns, summarise_column};
use crate::writer::FINDING_BYTES_MAX;
use alluvia_catalog::Dictionaries;
use alluvia_space::weight::weight;
use alluvia_space::{KeyLayout, TableDef};
use alluvia_storage::{CHUNK_BYTES, Cache, CheckedFile, FileChecks};
use alluvia_types::{Error, ErrorKind, Result, Stage, Version};
use arrow::array::RecordBatch;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder within that of segments in which side files are written until they take their names.
pub const REBUILT_DIR: &str = "rebuilt";
/// Bytes of the Parquet file that are kept: each page is read once.
const CACHE_BYTES: u64 = 16 << 20;

/// What says that the rows are what was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proof {
    /// The new file is the lost one, byte by byte, by the checksums that the manifest has.
    Same,
    /// Of the damaged file the part with the checksums of the Parquet file was whole, and they hold.
    Checksums,
    /// Nothing: the rows are as the Parquet file has them now.
    None,
}

/// A side file that has not taken the place of the damaged one yet. Dropped, it is removed.
#[derive(Debug)]
pub struct RebuiltSide {
    context: TreeContext,
    /// The folder in which it is written.
    beside: TreeContext,
    meta: SegmentMeta,
    proof: Proof,
    path: PathBuf,
}

impl RebuiltSide {
    /// Writes a side file for a segment. `table` has the definition with its key ranges fixed, `dictionaries` are its.
    ///
    /// # Errors
    /// `Corrupt` where the Parquet file is damaged, or is not of the rows that the manifest tells of; `NotSupported` where it has columns
    /// that the table has no more.
    pub fn new(
        context: &TreeContext,
        meta: &SegmentMeta,
        table: &TableDef,
        dictionaries: &Dictionaries,
    ) -> Result<RebuiltSide> {
        let parquet_path = context.parquet_path(meta.id);
        check_length(context, &parquet_path, meta.parquet_bytes)?;
        let found = checks_as_they_are(context, &parquet_path)?;
        let known = surviving_checks(context, meta);
        if known.as_ref().is_some_and(|known| *known != found) {
            return Err(damaged(&parquet_path, "has other bytes than were written"));
        }
        let dir = context.dir.join(REBUILT_DIR);
        context.disk.create_dir_all(&dir).map_err(|error| Error::io(&dir, "creating", &error))?;
        let beside = TreeContext { dir, ..context.clone() };
        let path = beside.side_path(meta.id);
        if context.disk.exists(&path) {
            context.disk.remove(&path).map_err(|error| Error::io(&path, "removing", &error))?;
        }
        let (context, proof) = (context.clone(), Proof::None);
        let mut rebuilt = RebuiltSide { context, beside, meta: meta.clone(), proof, path };
        let table = as_written(table, meta)?;
        let write = || rebuilt.write(&table, dictionaries, &found);
        // Nothing has held its pages against a checksum, and the decoder may panic on what is none.
        let written = catch_unwind(AssertUnwindSafe(write));
        let side = written.unwrap_or_else(|_| Err(damaged(&parquet_path, "does not decode as Parquet")))?;
        rebuilt.proof = match known {
            _ if side == meta.side => Proof::Same,
            Some(_) => Proof::Checksums,
            None => Proof::None,
        };
        rebuilt.meta.side = side;
        Ok(rebuilt)
    }

    /// What says that it is right.
    pub fn proof(&self) -> Proof {
        self.proof
    }

    /// Takes the place of the damaged file. What the manifest is to say of the segment from now on is returned: the same as before
    /// where [`Proof::Same`] says so.
    ///
    /// # Errors
    /// Those of the disk.
    pub fn install(self) -> Result<SegmentMeta> {
        let (disk, side_path) = (&self.context.disk, self.context.side_path(self.meta.id));
        disk.rename(&self.path, &side_path).map_err(|error| Error::io(&side_path, "replacing", &error))?;
        let dir = &self.context.dir;
        disk.sync_dir(dir).map_err(|error| Error::io(dir, "syncing", &error))?;
        Ok(self.meta.clone())
    }

    fn write(&self, table: &TableDef, dictionaries: &Dictionaries, parquet: &FileChecks) -> Result<FileChecks> {
        let (context, meta) = (&self.context, &self.meta);
        let parquet_path = context.parquet_path(meta.id);
        let mut rows = Rows::open(context, meta, table, parquet)?;
        let layout = KeyLayout::new(table);
        // Earlier builds knew no order by primary key.
        let is_without_order = table.dimensions.is_empty() && (meta.key_min, meta.key_max) == (0, 0);
        let levels = table.levels().count();
        let members = |level: usize| dictionaries.has_members(level).then(|| dictionaries.len(level));
        let members: Vec<Option<u32>> = (0..levels).map(members).collect();
        let mut summaries = SummaryBuilder::new(table, levels);
        let measures = summaries.measures();
        let header = Header { segment: meta.id, table: meta.table, levels: levels as u32, measures: measures as u32 };
        let mut side = SideWriter::create(&self.beside, &header)?;
        // As whoever wrote it has looked for them: with its ladder.
        let mut heavy = if meta.rungs.is_empty() { Vec::new() } else { finders(meta.rows, measures, levels) };
        let mut bands = BandCounter::default();
        let mut is_banded = meta.stage == Stage::Merged && !table.dimensions.is_empty();
        let (mut first_key, mut last_key, mut count) = (0, 0, 0);
        let mut versions: Option<(u64, u64)> = None;
        while let Some(batch) = rows.next()? {
            let keys = if is_without_order { vec![0; batch.num_rows()] } else { layout.keys(&batch)? };
            let codes = dictionaries.remap(table, &batch)?.levels;
            let is_new = |(codes, members): (&Vec<u32>, &Option<u32>)| {
                members.is_some_and(|members| codes.iter().any(|&code| code >= members))
            };
            if codes.iter().zip(&members).any(is_new) {
                return Err(damaged(&parquet_path, "has values that are in no dictionary"));
            }
            for (at, (name, _)) in stored_columns(table).iter().enumerate() {
                let values = batch.column_by_name(name);
                summarise_column(
                    &mut summaries,
                    at,
                    values.ok_or_else(|| damaged(&parquet_path, "lacks a column"))?,
                    0,
                );
            }
            let identities: Vec<(u64, u64)> = identities_of(&batch).collect();
            for &(version, _) in &identities {
                let (least, most) = versions.unwrap_or((version, version));
                versions = Some((least.min(version), most.max(version)));
            }
            let weight = |&(version, ordinal): &(u64, u64)| weight(Version(version), ordinal, table.seed);
            is_banded &= bands.add(&identities.iter().map(weight).collect::<Vec<u64>>());
            for packed in summaries.end_columns() {
                side.measure(&packed);
                if let Some(finder) = heavy.get_mut(packed.measure) {
                    finder.block(&packed.values, packed.packed_as, keys.len(), &codes);
                }
            }
            let bounds = summaries.end_block(&keys, &codes);
            side.keys(&keys, &codes, &bounds);
            side.end_blocks(1)?;
            let (least, greatest) = least_and_greatest(&keys);
            if count > 0 && least < last_key || !is_banded && !keys.is_sorted() {
                return Err(damaged(&parquet_path, "has rows that are not in key order"));
            }
            first_key = if count == 0 { least } else { first_key };
            last_key = greatest;
            count += keys.len() as u64;
        }
        let is_of = |(least, most): (u64, u64)| (Version(least), Version(most)) == (meta.min_version, meta.max_version);
        let is_of_versions = meta.fixed_version.is_some() || versions.is_none_or(is_of);
        if count != meta.rows || (first_key, last_key) != (meta.key_min, meta.key_max) || !is_of_versions {
            return Err(damaged(&parquet_path, "has other rows than the manifest says"));
        }
        let (blocks, present) = summaries.finish();
        let heavy = heavy.into_iter().enumerate().map(|(measure, finder)| finder.finish(&blocks, measure));
        let heavy = heavy.collect::<Option<Vec<_>>>().filter(|heavy| !heavy.is_empty());
        let optional = OptionalSections {
            heavy: heavy.map(|heavy| encode(&heavy)),
            bands: is_banded.then(|| bands.finish().encode()),
            ..OptionalSections::default()
        };
        side.finish(parquet, &blocks, &present, optional, count)
    }
}

impl Drop for RebuiltSide {
    fn drop(&mut self) {
        // Where it was installed the name is another's, and there is nothing.
        let _ = self.context.disk.remove(&self.path);
    }
}

/// The blocks of a Parquet file, one after the other.
struct Rows {
    reader: RowReader,
    path: PathBuf,
    left: u64,
}

impl Rows {
    fn open(context: &TreeContext, meta: &SegmentMeta, table: &TableDef, checks: &FileChecks) -> Result<Rows> {
        let path = context.parquet_path(meta.id);
        let cache = Arc::new(Cache::new(CACHE_BYTES));
        let file = CheckedFile::open(context.disk.as_ref(), &path, Arc::new(checks.clone()), cache)?;
        let reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Optional);
        let parsed = reader.parse_and_finish(&ParquetInput(file.clone()));
        let metadata = Arc::new(parsed.map_err(|error| read_error(&path, error))?);
        let columns = stored_columns(table);
        let fields = metadata.file_metadata().schema().get_fields();
        if columns.iter().any(|(name, _)| !fields.iter().any(|field| field.name() == *name)) {
            return Err(damaged(&path, "lacks a column"));
        }
        let readers = ColumnReaders::new(&path, &metadata, &columns)?;
        let rows = 0..meta.rows;
        let all = std::slice::from_ref(&rows);
        let reader = RowReader::open(path.clone(), file, &readers, all, BLOCK_ROWS)?;
        Ok(Rows { reader, path, left: meta.rows })
    }

    fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.left == 0 {
            return Ok(None);
        }
        let expected = self.left.min(BLOCK_ROWS as u64);
        let batch = self.reader.next_batch()?.filter(|batch| batch.num_rows() as u64 == expected);
        self.left -= expected;
        batch.map(Some).ok_or_else(|| damaged(&self.path, "ends early"))
    }
}

/// What looks for heavy rows, as a segment's writer has it.
fn finders(rows: u64, measures: usize, levels: usize) -> Vec<Finder> {
    let bytes = Finder::bytes_max(rows, levels).saturating_mul(measures as u64);
    match u32::try_from(rows).is_ok() && bytes <= FINDING_BYTES_MAX {
        true => (0..measures).map(|_| Finder::new(rows, levels)).collect(),
        false => Vec::new(),
    }
}

/// The checksums of a file, of whatever it has.
fn checks_as_they_are(context: &TreeContext, path: &Path) -> Result<FileChecks> {
    let io = |error: std::io::Error| Error::io(path, "reading", &error);
    let file = context.disk.open(path).map_err(io)?;
    let len = file.len().map_err(io)?;
    let mut checks = FileChecks { len, chunk_crcs: Vec::new() };
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut start = 0;
    while start < len {
        let bytes = &mut chunk[..(len - start).min(CHUNK_BYTES as u64) as usize];
        file.read_exact_at(bytes, start).map_err(io)?;
        checks.chunk_crcs.push(crc32c::crc32c(bytes));
        start += bytes.len() as u64;
    }
    Ok(checks)
}

fn damaged(path: &Path, what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{} {what}", path.display()))
        .with_hint("no side file is made of it; restore the data directory from a copy")
}
