//! How the chosen blocks of segments are spread over partitions.
//!
//! Invariants:
//! - Every chosen block is in exactly one part, and no other block is in any. Of a sample only some rows of a block may be read: those in
//!   the bands that hold it, or, where the rows of these are split in two, those of each half.
//! - Dead rows are in no part, and are counted in none: the Parquet reader passes them over as it does blocks.
//! - A part is a piece of one segment, a few times smaller than a partition's share, so that partitions that finish early
//!   take over parts from the others; but not so small that opening parts costs more than reading them.
//! - Row groups are cut only where that is needed for balance: each part that touches a row group decodes its dictionaries. Where texts are
//!   long they are cut by bytes, too, also within blocks: what is read of a row group for one part is in memory at once. (The predicate
//!   cache learns of such a block only where one partition has read all of it.)

use super::reader::SegmentPart;
use alluvia_skipping::{Chosen, slice_runs};
use alluvia_tree::{BLOCK_ROWS, Bands, BlockSummaries, DeadRows, Segment, band_limit, rung_limit, whole_bands_limit};
use alluvia_types::Error;
use datafusion::common::ScalarValue;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::parquet::{ParquetAccessPlan, RowGroupAccess};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig};
use datafusion::datasource::source::DataSourceExec;
use parquet::arrow::arrow_reader::{RowSelection, RowSelector};
use parquet::file::metadata::ParquetMetaData;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

/// Parts per partition that make the work divide evenly.
const PARTS_PER_PARTITION: usize = 4;
/// Blocks of a part, at least, unless there are fewer.
const PART_BLOCKS_MIN: usize = 4;
/// Blocks of a part, at most.
const PART_BLOCKS_MAX: usize = 128;

/// Bytes of long texts that all partitions together read of row groups at a time, about.
const READ_BYTES: u64 = 64 << 20;
/// Bytes of these in a part of a row group, at least and at most.
const PART_BYTES: RangeInclusive<u64> = (4 << 20)..=(16 << 20);
/// Bytes of a value in the file from which on texts are long.
const LONG_BYTES: u64 = 256;

/// A segment and what is to be read of it.
#[derive(Clone, Debug)]
pub(crate) struct ChosenSegment {
    /// The segment.
    pub segment: Arc<Segment>,
    /// Its footer.
    pub metadata: Arc<ParquetMetaData>,
    /// Its blocks that may match.
    pub blocks: Chosen,
    /// What is known of its blocks, if that was needed to choose.
    pub summaries: Option<Arc<BlockSummaries>>,
    /// Which rung it is of another; 0 for none.
    pub rung: u32,
    /// Of a sample: what tells which of a block's rows hold it.
    pub light: Option<LightRows>,
    /// Its dead rows, which are not read.
    pub dead: Option<DeadRows>,
}

/// Rows of a banded segment in the bands of some weights, which lie beside one another in each block.
#[derive(Clone, Debug)]
pub(crate) struct LightRows {
    bands: Arc<Option<Bands>>,
    /// Where a band begins.
    from: u64,
    below: u64,
}

impl LightRows {
    /// Those of a segment that hold what weighs less than `below`; `None` if it is not banded, or they are in all bands.
    pub(crate) fn of(segment: &Segment, below: u64) -> Result<Option<LightRows>, Error> {
        if band_limit(below).is_none() {
            return Ok(None);
        }
        let bands = segment.bands()?;
        Ok(bands.is_some().then_some(LightRows { bands, from: 0, below }))
    }

    /// Those in bands of which all rows weigh less than the limit, and those in the band that it splits; where there are such.
    fn split(self) -> (Option<LightRows>, Option<LightRows>) {
        let whole = whole_bands_limit(self.below);
        let below = LightRows { below: whole, ..self.clone() };
        let across = LightRows { from: whole, ..self };
        ((whole > below.from).then_some(below), (across.below > whole).then_some(across))
    }

    fn of_block(&self, block: usize) -> Range<u64> {
        let Some(bands) = self.bands.as_ref() else { return 0..u64::MAX };
        bands.rows_below(block, self.from)..bands.rows_below(block, self.below)
    }
}

impl ChosenSegment {
    /// What the rows that are read weigh, from the least to what they all are below; `None` for no such limit.
    pub(crate) fn weights(&self) -> (u64, Option<u64>) {
        match &self.light {
            Some(light) => (light.from, band_limit(light.below)),
            None => (0, rung_limit(self.rung)),
        }
    }

    /// Split into what holds only rows that weigh less than `below`, and what also holds others.
    pub(crate) fn split(self, below: u64) -> (Option<ChosenSegment>, Option<ChosenSegment>) {
        if self.weights().1.is_some_and(|limit| limit <= below) {
            return (Some(self), None);
        }
        let Some(light) = self.light.clone() else { return (None, Some(self)) };
        let (whole, across) = light.split();
        let of = |light: LightRows| ChosenSegment { light: Some(light), ..self.clone() };
        (whole.map(of), across.map(of))
    }

    /// Whether the first rows of its blocks are read, and not only some that lie behind.
    pub(crate) fn begins_blocks(&self) -> bool {
        self.weights().0 == 0
    }

    /// Rows that are read of the chosen blocks.
    pub(crate) fn rows(&self) -> u64 {
        self.blocks.runs(0..self.segment.blocks()).into_iter().map(|run| self.rows_of(run)).sum()
    }

    fn rows_of(&self, blocks: Range<usize>) -> u64 {
        if self.light.is_none() {
            let all = rows_of(&self.segment, blocks.clone());
            return self
                .dead
                .as_ref()
                .map_or(all, |dead| all - blocks.map(|block| dead.count_in(block) as u64).sum::<u64>());
        }
        self.runs(blocks).into_iter().map(|run| run.end - run.start).sum()
    }

    /// Runs of rows that are read of a run of blocks, ascending; none is empty.
    fn runs(&self, blocks: Range<usize>) -> Vec<Range<u64>> {
        if self.light.is_none() && self.dead.is_none() {
            let first = self.segment.block_rows(blocks.start).start;
            return std::iter::once(first..first + rows_of(&self.segment, blocks)).collect();
        }
        let mut runs: Vec<Range<u64>> = Vec::new();
        let mut add = |rows: Range<u64>| match runs.last_mut() {
            _ if rows.is_empty() => {}
            Some(run) if run.end == rows.start => run.end = rows.end,
            _ => runs.push(rows),
        };
        for block in blocks {
            let of_block = self.segment.block_rows(block);
            let mut rows = match &self.light {
                Some(light) => {
                    let rows = light.of_block(block);
                    of_block.start + rows.start..of_block.start + rows.end
                }
                None => of_block.clone(),
            };
            for row in self.dead.as_ref().map_or_else(Vec::new, |dead| dead.rows_in(block)) {
                let row = of_block.start + u64::from(row);
                if rows.contains(&row) {
                    add(rows.start..row);
                    rows.start = row + 1;
                }
            }
            add(rows);
        }
        runs
    }
}

/// Rows of a block that are not dead.
pub(crate) fn live_rows(segment: &Segment, dead: Option<&DeadRows>, block: usize) -> u64 {
    let rows = segment.block_rows(block);
    rows.end - rows.start - dead.map_or(0, |dead| dead.count_in(block) as u64)
}

fn rows_of(segment: &Segment, blocks: Range<usize>) -> u64 {
    if blocks.is_empty() {
        return 0;
    }
    segment.block_rows(blocks.end - 1).end - segment.block_rows(blocks.start).start
}

/// Spreads the chosen blocks over at most `partitions` groups of parts. With `numbered` each part has the place of its segment
/// among `segments` as its one partition value. `texts` are the columns of those that are read that may be long, by storage name.
pub(crate) fn spread(segments: &[ChosenSegment], partitions: usize, numbered: bool, texts: &[&str]) -> Vec<FileGroup> {
    let partitions = partitions.max(1);
    let part_bytes = (READ_BYTES / partitions as u64).clamp(*PART_BYTES.start(), *PART_BYTES.end());
    let blocks: usize = segments.iter().map(|chosen| chosen.blocks.count()).sum();
    let rows: u64 = segments.iter().map(ChosenSegment::rows).sum();
    // Where few rows of each block are read, a part has more blocks.
    let blocks_min = (PART_BLOCKS_MIN * blocks * BLOCK_ROWS).checked_div(rows as usize).unwrap_or(PART_BLOCKS_MAX);
    let blocks_min = blocks_min.clamp(PART_BLOCKS_MIN, PART_BLOCKS_MAX);
    let part_blocks = blocks.div_ceil(partitions * PARTS_PER_PARTITION).clamp(blocks_min, PART_BLOCKS_MAX);
    let parts: Vec<(usize, Part)> = segments
        .iter()
        .enumerate()
        .flat_map(|(number, chosen)| {
            let cut = Cut { part_blocks, part_bytes, texts };
            cut.segment(chosen).into_iter().map(move |part| (number, part))
        })
        .collect();
    let groups = partitions.min(parts.len());
    let mut grouped: Vec<Vec<PartitionedFile>> = vec![Vec::new(); groups];
    let mut before = 0;
    for (number, part) in parts {
        // The group in which the middle of the part falls, if all rows are laid out in a row.
        let group = ((before + part.rows / 2) * groups as u64 / rows.max(1)) as usize;
        before += part.rows;
        let mut file = part.into_file();
        file.partition_values = numbered.then(|| ScalarValue::UInt32(Some(number as u32))).into_iter().collect();
        grouped[group.min(groups - 1)].push(file);
    }
    grouped.into_iter().filter(|files| !files.is_empty()).map(FileGroup::new).collect()
}

/// The rows of each part that a scan reads; `None` if it reads no files.
pub(crate) fn part_rows(scan: &DataSourceExec) -> Option<Vec<u64>> {
    let files = scan.data_source().downcast_ref::<FileScanConfig>()?;
    let parts = files.file_groups.iter().flat_map(|group| group.iter());
    Some(parts.filter_map(|file| file.extension::<SegmentPart>()).map(|part| part.rows).collect())
}

/// A piece of a segment.
struct Part<'a> {
    of: &'a ChosenSegment,
    access: Vec<RowGroupAccess>,
    blocks: usize,
    rows: u64,
}

impl<'a> Part<'a> {
    fn new(of: &'a ChosenSegment) -> Part<'a> {
        let access = vec![RowGroupAccess::Skip; of.metadata.num_row_groups()];
        Part { of, access, blocks: 0, rows: 0 }
    }

    /// Adds rows of one row group, which has the rows `group`: those of so many blocks, of which another part may have begun to read one.
    fn add(&mut self, row_group: usize, group: &Range<u64>, runs: &[Range<u64>], blocks: usize) {
        let mut selectors = Vec::with_capacity(2 * runs.len() + 1);
        let mut at = group.start;
        for rows in runs {
            if rows.start > at {
                selectors.push(RowSelector::skip((rows.start - at) as usize));
            }
            selectors.push(RowSelector::select((rows.end - rows.start) as usize));
            at = rows.end;
            self.rows += rows.end - rows.start;
        }
        self.blocks += blocks;
        assert!(at <= group.end, "a block lies in one row group");
        let is_whole = selectors.len() == 1 && selectors[0].row_count as u64 == group.end - group.start;
        if at < group.end {
            selectors.push(RowSelector::skip((group.end - at) as usize));
        }
        self.access[row_group] =
            if is_whole { RowGroupAccess::Scan } else { RowGroupAccess::Selection(RowSelection::from(selectors)) };
    }

    fn is_empty(&self) -> bool {
        self.blocks == 0 && self.rows == 0
    }

    fn into_file(self) -> PartitionedFile {
        let part = SegmentPart {
            segment: Arc::clone(&self.of.segment),
            metadata: Arc::clone(&self.of.metadata),
            blocks: if self.of.begins_blocks() { self.blocks as u64 } else { 0 },
            rows: self.rows,
        };
        // Without a size, DataFusion does not cut parts further by byte ranges.
        PartitionedFile::new(format!("seg-{}.parquet", self.of.segment.meta().id), 0)
            .with_extension(ParquetAccessPlan::new(self.access))
            .with_extension(part)
    }
}

/// How segments are cut into parts.
#[derive(Clone, Copy)]
struct Cut<'a> {
    /// Blocks of a part, about.
    part_blocks: usize,
    /// Bytes of long texts that a part has of a row group, about.
    part_bytes: u64,
    texts: &'a [&'a str],
}

impl Cut<'_> {
    /// Cuts a segment's chosen blocks.
    fn segment<'a>(&self, chosen: &'a ChosenSegment) -> Vec<Part<'a>> {
        let mut parts = Vec::new();
        let mut current = Part::new(chosen);
        let mut first_row = 0;
        let mut first_block = 0;
        for row_group in 0..chosen.metadata.num_row_groups() {
            let rows = first_row..first_row + chosen.metadata.row_group(row_group).num_rows() as u64;
            let mut end_block = first_block;
            while end_block < chosen.segment.blocks() && chosen.segment.block_rows(end_block).end <= rows.end {
                end_block += 1;
            }
            let runs = chosen.blocks.runs(first_block..end_block);
            (first_row, first_block) = (rows.end, end_block);
            let count: usize = runs.iter().map(ExactSizeIterator::len).sum();
            if count == 0 {
                continue;
            }
            let part_rows = self.part_rows(&chosen.metadata, row_group);
            let part_blocks = self.part_blocks.min((part_rows / BLOCK_ROWS as u64).max(1) as usize);
            if !current.is_empty() && current.blocks + count > part_blocks {
                parts.push(std::mem::replace(&mut current, Part::new(chosen)));
            }
            let pieces = count.div_ceil(part_blocks);
            for blocks in slice_runs(&runs, count.div_ceil(pieces)) {
                let read: Vec<Range<u64>> = blocks.iter().flat_map(|run| chosen.runs(run.clone())).collect();
                let mut blocks = blocks.iter().map(ExactSizeIterator::len).sum();
                let is_cut = part_rows < BLOCK_ROWS as u64;
                let read = if is_cut { slice_runs(&read, part_rows) } else { vec![read] };
                for rows_of_part in read {
                    if current.access[row_group] != RowGroupAccess::Skip {
                        parts.push(std::mem::replace(&mut current, Part::new(chosen)));
                    }
                    current.add(row_group, &rows, &rows_of_part, std::mem::take(&mut blocks));
                }
            }
        }
        if !current.is_empty() {
            parts.push(current);
        }
        parts
    }

    /// Rows that a part may have of a row group, by what its long texts take in the file.
    fn part_rows(&self, metadata: &ParquetMetaData, row_group: usize) -> u64 {
        let group = metadata.row_group(row_group);
        let rows = group.num_rows().max(1) as u64;
        let texts = group.columns().iter().filter(|chunk| self.texts.contains(&chunk.column_descr().name()));
        let lengths = texts.map(|chunk| chunk.compressed_size().max(0) as u64 / rows);
        let row_bytes: u64 = lengths.filter(|bytes| *bytes >= LONG_BYTES).sum();
        self.part_bytes.checked_div(row_bytes).map_or(u64::MAX, |rows| rows.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::testing::{Fixture, Random, numbers, table, texts};
    use alluvia_plan::pipelines::{KnownOperators, ScannedParts};
    use alluvia_space::DataType;
    use arrow::array::{ArrayRef, Int64Array, RecordBatch};
    use arrow::datatypes::Schema;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::{ExecutionPlan, collect};

    fn leaf(plan: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        plan.children().first().map_or_else(|| Arc::clone(plan), |child| leaf(child))
    }

    /// Texts of 8,000 bytes that compress to about half of them, and numbers.
    fn long_texts(rows: usize) -> (Fixture, RecordBatch) {
        let def = table("t", &[("n", DataType::Int64), ("s", DataType::Text)]);
        let mut random = Random(7);
        let mut text = || (0..500).map(|_| format!("{:016x}", random.below(u64::MAX))).collect::<String>();
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
        let columns = vec![numbers, texts((0..rows).map(|_| Some(text())).collect())];
        let rows = RecordBatch::try_new(def.storage_schema(), columns).expect("two columns");
        let mut fixture = Fixture::new(def, "number(n: linear 0..20000)", &rows);
        fixture.add_segment(&rows);
        (fixture, rows)
    }

    #[tokio::test]
    async fn blocks_of_long_texts_are_cut_and_every_row_is_read_once() {
        const ROWS: u64 = 4_000;
        let (fixture, rows) = long_texts(ROWS as usize);
        let segment = Arc::clone(&fixture.read().segments[0].segment);
        let chosen = ChosenSegment {
            metadata: segment.parquet_metadata().expect("a footer"),
            blocks: Chosen::all(segment.blocks()),
            summaries: None,
            rung: 0,
            light: None,
            dead: None,
            segment,
        };
        let groups = spread(std::slice::from_ref(&chosen), 16, false, &["n"]);
        assert_eq!(groups.iter().map(FileGroup::len).sum::<usize>(), 1, "numbers are short");
        let groups = spread(std::slice::from_ref(&chosen), 16, false, &["n", "s"]);
        let mut read = Vec::new();
        for file in groups.iter().flat_map(FileGroup::iter) {
            let access = file.extension::<ParquetAccessPlan>().expect("rows to read");
            let [RowGroupAccess::Selection(selection)] = access.inner() else { panic!("a part of the one group") };
            let mut at = 0;
            for selector in selection.iter() {
                let rows = at..at + selector.row_count as u64;
                at = rows.end;
                read.extend((!selector.skip).then_some(rows));
            }
            assert!(at == ROWS && file.extension::<SegmentPart>().is_some_and(|part| part.rows < ROWS / 3));
        }
        read.sort_by_key(|rows| rows.start);
        assert!(read.len() >= 4 && read.iter().all(|rows| !rows.is_empty()));
        assert!(read[0].start == 0 && read.windows(2).all(|two| two[0].end == two[1].start));
        assert_eq!(read.last().map(|rows| rows.end), Some(ROWS));
        let (session, _) = fixture.session(&rows);
        let sql = "SELECT CAST(count(*) AS BIGINT) FROM t JOIN memory.public.plain p ON t.n = p.n AND t.s = p.s";
        assert_eq!(numbers(&session, sql).await, [ROWS as i64]);
    }

    #[tokio::test]
    async fn rows_that_a_condition_leaves_out_were_read_when_their_parts_were() {
        let def = table("t", &[("n", DataType::Int64)]);
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..20_000));
        let rows = RecordBatch::try_new(def.storage_schema(), vec![numbers]).expect("one column");
        let mut fixture = Fixture::new(def, "number(n: linear 0..20000)", &rows);
        fixture.add_segment(&rows);
        let (session, _) = fixture.session(&rows);
        let frame = session.sql("SELECT n FROM t WHERE n % 1000 = 7").await.expect("is planned");
        let plan = frame.create_physical_plan().await.expect("is planned");
        let known = KnownOperators { answers_alone: |_| false, part_rows };
        let parts = ScannedParts::of(&leaf(&plan), &known).expect("a scan of a segment");
        assert!(parts.rows() > 20);
        assert_eq!((parts.rows_done(false), parts.rows_done(true)), (0, 0));
        let found = collect(plan, session.task_ctx()).await.expect("runs");
        assert_eq!(found.iter().map(RecordBatch::num_rows).sum::<usize>(), 20);
        assert!(parts.rows_done(false) < parts.rows(), "as long as it is not over, parts may be in hand");
        assert_eq!(parts.rows_done(true), parts.rows());
        let empty: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        assert!(ScannedParts::of(&empty, &known).is_none());
    }
}
