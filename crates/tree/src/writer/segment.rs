//! Writing of a segment.
//!
//! One pass: rows come in key order, in chunks of any size, or blocks do whose rows a [`crate::LadderWriter`] has
//! brought into bands; every [`BLOCK_ROWS`] rows end a block, whose pages, packed codes and summary are made together
//! while its values are in the processor's cache. Memory is one Parquet row group (encoded) and one stripe of the side
//! file, of each as much as may wait ([`TreeContext::with_waiting_bytes_max`]), the summaries, the measures of a block,
//! and of a segment with a ladder twice as many rows of each measure as can be heavy.

use crate::chunk::{CodedColumn, RowChunk, row_bytes};
use crate::context::TreeContext;
use crate::heavy::{Finder, encode};
use crate::layout::{BLOCK_ROWS, Bands, segment_schema};
use crate::meta::SegmentMeta;
use crate::parquet_file::{Bounds, Expected, ParquetWriter, Piece, ShortPages, Spool};
use crate::side::{Header, OptionalSections, SideWriter};
use crate::summary::{SummaryBuilder, least_and_greatest};
use alluvia_space::{LevelCodes, TableDef};
use alluvia_storage::{CheckedWriter, FileChecks};
use alluvia_types::{ColumnId, Error, Result, SegmentId, Stage, TableId, Version, planted};
use arrow::array::{Array, ArrayRef, AsArray, new_empty_array};
use arrow::datatypes::{SchemaRef, UInt64Type};
use parquet::file::metadata::KeyValue;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes that looking for the heavy rows of all measures may take while a segment is written.
pub(crate) const FINDING_BYTES_MAX: u64 = 64 << 20;

/// Writes one segment. Dropped before [`SegmentWriter::finish`], it removes its files.
pub struct SegmentWriter {
    context: TreeContext,
    id: SegmentId,
    table: TableId,
    stage: Stage,
    fixed_version: Option<Version>,
    schema: SchemaRef,
    columns: Vec<ColumnId>,
    metadata: Vec<KeyValue>,
    pub(super) parquet: Parquet,
    pub(super) side: Option<SideWriter>,
    pub(super) summaries: Option<SummaryBuilder>,
    /// By measure, of a segment whose heavy rows are written down.
    pub(super) heavy: Vec<Finder>,
    /// Keys and codes of the current block.
    keys: Vec<u128>,
    codes: LevelCodes,
    pub(super) rows: u64,
    /// Whether only whole blocks come in key order, and not their rows.
    pub(super) is_banded: bool,
    /// Whether chunks are whole blocks, all but the last.
    pub(super) in_blocks: bool,
    /// Whether rows are looked up by their key.
    is_keyed: bool,
    rows_expected: Option<u64>,
    pub(super) key_min: u128,
    pub(super) key_max: u128,
    versions: Option<(u64, u64)>,
    /// Files to remove if this is dropped now.
    unfinished: Vec<PathBuf>,
}

/// A column of a chunk.
enum Column<'a> {
    Values(&'a ArrayRef),
    Codes(&'a CodedColumn, &'a [u32]),
}

impl Column<'_> {
    /// What encodings are chosen by: none of what has a dictionary.
    fn sample(&self) -> ArrayRef {
        match self {
            Column::Values(values) => Arc::clone(values),
            Column::Codes(column, _) => new_empty_array(&column.data_type()),
        }
    }

    /// Bytes that a row has of it, about.
    fn row_bytes(&self) -> usize {
        match self {
            Column::Values(values) => row_bytes(values),
            Column::Codes(..) => size_of::<u32>(),
        }
    }

    fn piece(&self, start: usize, count: usize) -> Piece<'_> {
        match self {
            Column::Values(values) => Piece::Values(values.slice(start, count)),
            Column::Codes(column, codes) => Piece::Codes(column, &codes[start..start + count]),
        }
    }
}

/// The Parquet file's encodings are chosen by its first rows, so it starts with them.
pub(super) enum Parquet {
    Empty(CheckedWriter),
    Open(Box<ParquetWriter>),
    Done,
}

impl SegmentWriter {
    /// Starts the files of a new segment of this table, whose id no other segment has or had.
    ///
    /// `fixed_version` is given for a staged segment, whose rows have a NULL `_version`: it is passed on into the meta,
    /// and may be replaced there once the version is known.
    pub fn create(
        context: &TreeContext,
        id: SegmentId,
        table: &TableDef,
        stage: Stage,
        fixed_version: Option<Version>,
    ) -> Result<SegmentWriter> {
        let levels: usize = table.dimensions.iter().map(|dimension| dimension.levels.len()).sum();
        let pair = |key: &str, value: String| KeyValue::new(format!("alluvia.{key}"), value);
        let metadata = vec![
            pair("format", "1".to_owned()),
            pair("table_id", table.id.to_string()),
            pair("table_name", table.name.clone()),
            pair("segment_id", id.to_string()),
        ];
        let mut writer = SegmentWriter {
            context: context.clone(),
            id,
            table: table.id,
            stage,
            fixed_version,
            schema: segment_schema(table),
            columns: table.columns.iter().map(|column| column.id).collect(),
            metadata,
            parquet: Parquet::Done,
            side: None,
            summaries: Some(SummaryBuilder::new(table, levels)),
            heavy: Vec::new(),
            keys: Vec::with_capacity(BLOCK_ROWS),
            codes: LevelCodes { levels: (0..levels).map(|_| Vec::with_capacity(BLOCK_ROWS)).collect() },
            rows: 0,
            is_banded: false,
            in_blocks: false,
            is_keyed: table.key.is_some(),
            rows_expected: None,
            key_min: 0,
            key_max: 0,
            versions: None,
            unfinished: Vec::with_capacity(2),
        };
        let path = context.parquet_path(id);
        writer.parquet = Parquet::Empty(CheckedWriter::create(context.disk.as_ref(), &path)?);
        writer.unfinished.push(path);
        let measures = writer.summaries.as_ref().map_or(0, SummaryBuilder::measures) as u32;
        let header = Header { segment: id, table: table.id, levels: levels as u32, measures };
        writer.side = Some(SideWriter::create(context, &header)?);
        writer.unfinished.push(context.side_path(id));
        Ok(writer)
    }

    /// Writes its heavy rows down, too, for estimates: there will be at most so many rows; if there are more, it does
    /// without.
    pub(crate) fn with_heavy(mut self, rows_max: u64) -> SegmentWriter {
        let measures = self.summaries.as_ref().map_or(0, SummaryBuilder::measures);
        let bytes = Finder::bytes_max(rows_max, self.codes.levels.len()).saturating_mul(measures as u64);
        // Rows are numbered by 32 bits. Too many are found when they are asked for.
        if u32::try_from(rows_max).is_ok() && bytes <= FINDING_BYTES_MAX.min(self.context.wide_bytes_max() as u64) {
            self.heavy = (0..measures).map(|_| Finder::new(rows_max, self.codes.levels.len())).collect();
        }
        self
    }

    /// About so many rows will come, at most: encodings are chosen by that, too.
    pub(crate) fn expecting(mut self, rows: u64) -> SegmentWriter {
        self.rows_expected = Some(rows);
        self
    }

    /// Rows come in bands: the keys of a chunk are in any order, none of them below one of an earlier chunk.
    pub(crate) fn banded(mut self) -> SegmentWriter {
        self.is_banded = true;
        self
    }

    /// Chunks are whole blocks, all but the last: what is compressed of them gets pages of some bands.
    pub(crate) fn in_blocks(mut self) -> SegmentWriter {
        self.in_blocks = true;
        self
    }

    /// Rows written so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// How many levels its rows have codes at.
    pub(crate) fn levels(&self) -> usize {
        self.codes.levels.len()
    }

    /// About how many bytes the files have so far.
    pub fn bytes(&self) -> u64 {
        let parquet = match &self.parquet {
            Parquet::Open(parquet) => parquet.bytes(),
            Parquet::Empty(_) | Parquet::Done => 0,
        };
        parquet + self.side.as_ref().map_or(0, SideWriter::bytes)
    }

    /// Adds rows, none of whose keys is below the last row's.
    pub fn write(&mut self, chunk: &RowChunk) -> Result<()> {
        let len = chunk.len();
        if len == 0 {
            return Ok(());
        }
        assert_eq!(chunk.rows.num_rows(), len, "a chunk has one key per row");
        assert_eq!(chunk.codes.levels.len(), self.codes.levels.len(), "a chunk has the codes of every level");
        assert!(chunk.codes.levels.iter().all(|codes| codes.len() == len), "a chunk has one code per row and level");
        let (least, greatest) = least_and_greatest(&chunk.keys);
        assert!(self.rows == 0 || least >= self.key_max, "chunks come in key order");
        assert!(self.is_banded || chunk.keys.is_sorted(), "a chunk's rows are in key order");
        assert!(!self.in_blocks || self.keys.is_empty(), "a chunk begins with its block");
        let columns = self.columns_of(chunk)?;
        self.see_versions(match &columns[columns.len() - 2] {
            Column::Values(values) => Some(*values),
            Column::Codes(..) => None,
        })?;
        if self.rows == 0 {
            let row_bytes = columns.iter().map(Column::row_bytes).sum();
            self.open_parquet(columns.iter().map(Column::sample).collect(), row_bytes)?;
        }
        if self.rows == 0 {
            self.key_min = least;
        }
        self.key_max = greatest;
        let mut done = 0;
        while done < len {
            let place = self.keys.len();
            let (Parquet::Open(parquet), Some(summaries)) = (&mut self.parquet, &mut self.summaries) else {
                return Err(Error::internal("a segment was written to after it failed"));
            };
            let count = parquet.room(place).min(len - done);
            let piece: Vec<Piece<'_>> = columns.iter().map(|column| column.piece(done, count)).collect();
            parquet.write(&piece, place, summaries)?;
            self.keys.extend_from_slice(&chunk.keys[done..done + count]);
            for (block, codes) in self.codes.levels.iter_mut().zip(&chunk.codes.levels) {
                block.extend_from_slice(&codes[done..done + count]);
            }
            self.rows += count as u64;
            done += count;
            if self.keys.len() == BLOCK_ROWS {
                self.end_block()?;
            }
        }
        Ok(())
    }

    /// The chunk's columns in file order.
    fn columns_of<'a>(&self, chunk: &'a RowChunk) -> Result<Vec<Column<'a>>> {
        let names = chunk.rows.schema_ref().fields().iter().map(|field| field.name().as_str());
        let named: HashMap<&str, &ArrayRef> = names.zip(chunk.rows.columns()).collect();
        let column = |field: &Arc<arrow::datatypes::Field>| {
            if let Some(values) = named.get(field.name().as_str()).copied() {
                return Ok(Column::Values(values));
            }
            match chunk.coded.iter().find(|column| column.storage_name == *field.name()) {
                Some(column) => Ok(Column::Codes(column, &chunk.codes.levels[column.level])),
                None => Err(Error::internal(format!("rows for a segment lack the column {}", field.name()))),
            }
        };
        self.schema.fields().iter().map(column).collect()
    }

    pub(super) fn see_versions(&mut self, versions: Option<&ArrayRef>) -> Result<()> {
        let versions = versions.and_then(|versions| versions.as_primitive_opt::<UInt64Type>());
        let versions = versions.ok_or_else(|| Error::internal("_version is not UInt64"))?;
        let known = versions.null_count() == 0;
        assert!(known || versions.null_count() == versions.len(), "all rows of a segment have a version, or none");
        if let (Some(min), Some(max)) = (arrow::compute::min(versions), arrow::compute::max(versions)) {
            let (low, high) = self.versions.unwrap_or((min, max));
            self.versions = Some((low.min(min), high.max(max)));
        }
        Ok(())
    }

    /// Starts the Parquet file with the first rows.
    pub(super) fn open_parquet(&mut self, sample: Vec<ArrayRef>, row_bytes: usize) -> Result<()> {
        if !matches!(self.parquet, Parquet::Empty(_)) {
            return Ok(());
        }
        if let Parquet::Empty(file) = std::mem::replace(&mut self.parquet, Parquet::Done) {
            let path = self.context.parquet_path(self.id);
            let metadata = std::mem::take(&mut self.metadata);
            let schema = Arc::clone(&self.schema);
            let expected = Expected { sample: &sample, rows: self.rows_expected };
            let short_pages = match (self.is_keyed, self.in_blocks) {
                (true, _) => ShortPages::All,
                (false, true) => ShortPages::Compressed,
                (false, false) => ShortPages::No,
            };
            let spool = Spool {
                disk: Arc::clone(&self.context.disk),
                path: self.context.waiting_path(self.id),
                bytes_max: self.context.waiting_bytes_max,
            };
            let bounds = Bounds { group_bytes: self.context.waiting_bytes_max, row_bytes, spool: &spool };
            let parquet = ParquetWriter::create(file, &path, schema, expected, metadata, short_pages, bounds)?;
            self.parquet = Parquet::Open(Box::new(parquet));
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<()> {
        let (Parquet::Open(parquet), Some(summaries), Some(side)) =
            (&mut self.parquet, &mut self.summaries, &mut self.side)
        else {
            return Err(Error::internal("a segment was written to after it failed"));
        };
        parquet.end_block(summaries)?;
        for packed in summaries.end_columns() {
            side.measure(&packed);
            if let Some(finder) = self.heavy.get_mut(packed.measure) {
                finder.block(&packed.values, packed.packed_as, self.keys.len(), &self.codes.levels);
            }
        }
        let bounds = summaries.end_block(&self.keys, &self.codes.levels);
        side.keys(&self.keys, &self.codes.levels, &bounds);
        side.end_blocks(1)?;
        self.keys.clear();
        self.codes.levels.iter_mut().for_each(Vec::clear);
        Ok(())
    }

    /// Ends the segment: both files and the directory are synced when this returns.
    pub fn finish(self) -> Result<SegmentMeta> {
        self.finish_with(OptionalSections::default())
    }

    /// Ends a banded segment.
    pub(crate) fn finish_banded(self, bands: &Bands) -> Result<SegmentMeta> {
        self.finish_with(OptionalSections { bands: Some(bands.encode()), ..OptionalSections::default() })
    }

    /// Ends a rung. `first_rows` says for each block of the segment that it hangs from how many of the rung's rows lie
    /// before it, and at its end how many there are; `places` says of each row where it lies in its block there.
    pub(crate) fn finish_rung(self, first_rows: &[u32], places: &[u16]) -> Result<SegmentMeta> {
        let (first_rows, places) = (Some(first_rows), Some(places));
        self.finish_with(OptionalSections { first_rows, places, ..OptionalSections::default() })
    }

    /// Ends it with these sections, and the heavy rows that were found.
    fn finish_with(mut self, optional: OptionalSections<'_>) -> Result<SegmentMeta> {
        if !self.keys.is_empty() {
            self.end_block()?;
        }
        let none: Vec<ArrayRef> = self.schema.fields().iter().map(|field| new_empty_array(field.data_type())).collect();
        self.open_parquet(none, 0)?;
        let (Parquet::Open(parquet), Some(summaries), Some(side)) =
            (std::mem::replace(&mut self.parquet, Parquet::Done), self.summaries.take(), self.side.take())
        else {
            return Err(Error::internal("a segment was finished after it failed"));
        };
        let parquet: FileChecks = parquet.finish()?;
        let (table, levels) = summaries.finish();
        let heavy = std::mem::take(&mut self.heavy);
        let heavy = heavy.into_iter().enumerate().map(|(measure, finder)| finder.finish(&table, measure));
        let heavy = heavy.collect::<Option<Vec<_>>>().filter(|heavy| !heavy.is_empty());
        let optional = OptionalSections { heavy: heavy.map(|heavy| encode(&heavy)), ..optional };
        let side = side.finish(&parquet, &table, &levels, optional, self.rows)?;
        let dir = &self.context.dir;
        if !planted("manifest before its segment") {
            self.context.disk.sync_dir(dir).map_err(|error| Error::io(dir, "syncing", &error))?;
        }
        self.unfinished.clear();
        let known = self.versions.map_or((Version(0), Version(0)), |(min, max)| (Version(min), Version(max)));
        let (min_version, max_version) = self.fixed_version.map_or(known, |version| (version, version));
        Ok(SegmentMeta {
            id: self.id,
            table: self.table,
            stage: self.stage,
            rows: self.rows,
            min_version,
            max_version,
            fixed_version: self.fixed_version,
            key_min: self.key_min,
            key_max: self.key_max,
            parquet_bytes: parquet.len,
            side,
            columns: std::mem::take(&mut self.columns),
            rungs: Vec::new(),
        })
    }
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        // The files are open, which does not matter, and nothing names them: what cannot be removed now is removed as
        // an orphan when the database is next opened.
        for path in &self.unfinished {
            let _ = self.context.disk.remove(path);
        }
    }
}

impl std::fmt::Debug for SegmentWriter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentWriter").field("id", &self.id).field("rows", &self.rows).finish_non_exhaustive()
    }
}
