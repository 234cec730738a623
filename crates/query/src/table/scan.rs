//! One scan of a table, planned.
//!
//! Invariants:
//! - A scan gives every row of the snapshot that passes the filters once, and no other: segments whole, segments that also hold
//!   later rows under a filter on `_version`, the tail, and the open transaction's rows. Of a table of which a sample is drawn, each
//!   such row of the sample once ([`super::draw`]).
//! - In the place of a segment its thinnest rung that holds the sample is read; of a banded segment without such a rung, the first rows of
//!   each block, which hold it. A filter on weights leaves out what else these have: identities, by which it goes, are read of the rows
//!   of the one band that may have others, and not of those before it, unless they are wanted.
//! - Rows that are dead for the snapshot are never read ([`super::parts`]): neither filters nor a LIMIT see them, and no statistics
//!   count them. Rungs do not know which of their rows are dead, so a segment with dead rows is drawn from by itself.
//! - Filters are used to leave out blocks, and evaluated on the rows of those that are left: the scan knows of each block whether a
//!   row of it matched, which the predicate cache remembers. Only whole segments all of whose rows are read are watched.
//! - Rows above the snapshot's version, and rows that are not drawn, are left out before filters see them.
//!
//! Segments are read by DataFusion's own Parquet source, so that projections, late materialisation, dynamic filters and
//! TopK work as on any Parquet file; a table that is all merged is one `DataSourceExec` and nothing else.

use super::columns::{Projected, unused_name};
use super::context::StatementContext;
use super::draw::{Behind, Draw, Part, Sample, Unit, identified, lighter, share, weight_of};
use super::intervals::decoded;
use super::metrics::{count, describe};
use super::parts::{ChosenSegment, LightRows, live_rows, spread};
use super::reader::SegmentReaderFactory;
use super::statistics::{count_members, of_chosen, of_rows, project};
use super::tail::TailSource;
use super::temporary::TemporarySource;
use super::traced::ScanSpan;
use crate::members::{LevelCodes, level_codes};
use crate::table::prune::prune;
use alluvia_catalog::TableEntry;
use alluvia_copy::temporary::TemporaryRead;
use alluvia_skipping::Chosen;
use alluvia_skipping::{Observer, Parts, Predicate, ScanFilterExec, Spared, Watch};
use alluvia_snapshot::TableRead;
use alluvia_tree::{BlockSummaries, DeadRows, Segment, SegmentRows};
use alluvia_types::{Error, Version};
use alluvia_values::errors::wrap;
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, SchemaRef, UInt64Type};
use datafusion::common::config::TableParquetOptions;
use datafusion::common::{ColumnStatistics, Result, ScalarValue, Statistics};
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use parquet::arrow::RowNumber;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Of samples of at most this share, the other columns are read for the drawn rows alone.
const LATE_SHARE_MAX: f64 = 0.125;

/// One scan being planned.
pub(super) struct Scan<'a> {
    pub(super) entry: &'a TableEntry,
    pub(super) schema: &'a SchemaRef,
    /// What the statement wants of the table's columns, then what only its filters need.
    pub(super) projected: Projected,
    /// How many of the table's columns the statement wants.
    pub(super) wanted: usize,
    /// Where among the columns that it wants those stand that are behind the table's, and which of these they are.
    pub(super) behind: Vec<(usize, usize)>,
    pub(super) draw: Draw,
    /// The filters over the whole table, for choosing blocks.
    pub(super) predicate: Option<Arc<dyn PhysicalExpr>>,
    /// The same over `projected`.
    pub(super) filter: Option<Predicate>,
    pub(super) parts: Parts,
    pub(super) limit: Option<usize>,
    pub(super) partitions: usize,
    pub(super) options: TableParquetOptions,
    pub(super) context: &'a Arc<StatementContext>,
    pub(super) read: &'a TableRead,
    /// Where the scan is traced.
    pub(super) span: Option<Arc<ScanSpan>>,
}

/// A segment to read, or the rung that is read in its place.
struct Piece {
    segment: Arc<Segment>,
    /// 0 for the segment itself.
    rung: u32,
    /// Of these rows, those of the rung.
    dead: Option<DeadRows>,
}

/// Segments to read, and what is known of them.
struct Group {
    segments: Vec<ChosenSegment>,
    statistics: Statistics,
    skipped: Skipped,
    /// Whether there is nothing that the predicate cache could still learn of them.
    is_known: bool,
}

/// What rows of a source must pass to be in the scan.
#[derive(Clone, Copy)]
pub(super) struct Sieve {
    through: Option<Version>,
    below: Option<u64>,
    sample: Option<Sample>,
    /// Of the rows, about this share passes.
    share: f64,
}

impl Sieve {
    /// All of them pass.
    pub(super) const OPEN: Sieve = Sieve { through: None, below: None, sample: None, share: 1.0 };
}

/// What pruning has left out.
#[derive(Clone, Copy, Default)]
pub(super) struct Skipped {
    segments: u64,
    blocks: u64,
    /// Blocks among these that only the predicate cache knew to match nothing, and entries of it that said so.
    by_cache: u64,
    cache_hits: u64,
}

impl Skipped {
    fn counters(self) -> [(&'static str, u64); 4] {
        [
            ("segments_skipped", self.segments),
            ("blocks_skipped", self.blocks),
            ("blocks_skipped_by_cache", self.by_cache),
            ("predicate_cache_hits", self.cache_hits),
        ]
    }

    fn add(&mut self, other: Skipped) {
        self.segments += other.segments;
        self.blocks += other.blocks;
        self.by_cache += other.by_cache;
        self.cache_hits += other.cache_hits;
    }
}

impl Scan<'_> {
    pub(super) fn plan(mut self) -> Result<Arc<dyn ExecutionPlan>> {
        self.options.global.bloom_filter_on_read = false;
        let codes = match &self.predicate {
            Some(predicate) => level_codes(&self.entry.def, predicate, self.read.dictionaries.as_deref()),
            None => Vec::new(),
        };
        let whole: Vec<&SegmentRows> = self.read.segments.iter().filter(|read| read.through.is_none()).collect();
        let cut: Vec<&SegmentRows> = self.read.segments.iter().filter(|read| read.through.is_some()).collect();
        let mut plans = Vec::with_capacity(3);
        let mut columns = None;
        let mut skipped = Skipped::default();
        let whole = self.pieces(&whole)?;
        if !whole.is_empty() {
            let group = self.choose(&whole, None, &codes)?;
            columns = Some(project(&group.statistics, &self.projected.indices));
            for group in self.split(group) {
                self.segments(group, None, &mut plans, &mut skipped)?;
            }
        }
        // All cut segments of a snapshot are cut at its version.
        if let Some(through) = cut.first().and_then(|read| read.through) {
            assert!(cut.iter().all(|read| read.through == Some(through)), "a snapshot has one version");
            let cut = self.pieces(&cut)?;
            if !cut.is_empty() {
                let group = self.choose(&cut, Some(through), &codes)?;
                for group in self.split(group) {
                    self.segments(group, Some(through), &mut plans, &mut skipped)?;
                }
            }
        }
        let has_tail = self.draw.part != Part::Laddered;
        let tail = self.read.tail.iter().map(|run| &run.rows).filter(|_| has_tail);
        let pending = self.context.pending.get(&self.entry.def.id).filter(|_| has_tail);
        let pending: Vec<&RecordBatch> = pending.into_iter().flatten().collect();
        if plans.is_empty() || tail.clone().chain(pending.iter().copied()).any(|run| run.num_rows() > 0) {
            plans.push(self.tail(tail, &pending, columns, skipped)?);
        }
        match plans.len() {
            1 => Ok(plans.remove(0)),
            _ => UnionExec::try_new(plans),
        }
    }

    /// The scan of the tail and of pending rows.
    pub(super) fn tail<'b>(
        &self,
        tail: impl Iterator<Item = &'b RecordBatch>,
        pending: &[&'b RecordBatch],
        columns: Option<Vec<ColumnStatistics>>,
        skipped: Skipped,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let sieve = self.loose_sieve();
        let used = Arc::clone(&self.context.used);
        let source = if self.identifies(&sieve) {
            let projected = self.projected.with_identity();
            let pending = identified(pending.iter().copied())?;
            let columns = columns.map(|mut columns| {
                columns.resize(projected.indices.len(), ColumnStatistics::new_unknown());
                columns
            });
            let runs: Vec<&RecordBatch> = tail.map(|run| run as &RecordBatch).chain(&pending).collect();
            TailSource::new(&projected, runs.into_iter(), self.partitions, columns, used)?
        } else {
            TailSource::new(&self.projected, tail.chain(pending.iter().copied()), self.partitions, columns, used)?
        };
        describe(
            source.metrics_set(),
            &self.entry.def,
            &self.context.snapshot,
            self.draw.leaves_out(),
            &skipped.counters(),
        );
        let source = source.limited(self.limit).traced(self.span.clone());
        self.sift(DataSourceExec::from_data_source(source), &sieve, None, None)
    }

    /// The scan of a session's temporary table.
    pub(super) fn temporary(&self, read: &TemporaryRead) -> Result<Arc<dyn ExecutionPlan>> {
        let read = if self.draw.part == Part::Laddered { TemporaryRead::default() } else { read.clone() };
        let sieve = self.loose_sieve();
        let identified = self.identifies(&sieve);
        let projected = if identified { self.projected.with_identity() } else { self.projected.clone() };
        let used = Arc::clone(&self.context.used);
        let source = TemporarySource::new(projected, identified, read, self.partitions, used);
        describe(source.metrics_set(), &self.entry.def, &self.context.snapshot, self.draw.leaves_out(), &[]);
        let source = source.with(self.span.clone(), self.limit);
        self.sift(DataSourceExec::from_data_source(source), &sieve, None, None)
    }

    /// What rows must pass that are in no segment.
    fn loose_sieve(&self) -> Sieve {
        let Draw { below, sample, .. } = self.draw;
        let sample = sample.filter(|sample| sample.below.is_some());
        let share = share(below) * share(sample.and_then(|sample| sample.below));
        Sieve { through: None, below, sample, share }
    }

    /// What to read of the segments: of those with a ladder a rung, if one holds all that is drawn.
    fn pieces(&self, reads: &[&SegmentRows]) -> Result<Vec<Piece>> {
        let has_ladder = |read: &SegmentRows| !read.segment.rungs().is_empty();
        let piece = |read: &SegmentRows| {
            let rung = match self.draw.below {
                // Blocks are drawn of segments, whatever ladders these have.
                Some(below) if self.draw.blocks().is_none() => read.rung_for(below).map_err(wrap)?,
                _ => None,
            };
            let SegmentRows { segment, dead, .. } = read;
            Ok(match rung {
                Some((rung, dead)) => Piece { segment: rung.segment, rung: rung.rung, dead },
                None => Piece { segment: Arc::clone(segment), rung: 0, dead: dead.clone() },
            })
        };
        let reads = reads.iter().copied().filter(|read| match self.draw.part {
            Part::All => true,
            Part::Laddered => has_ladder(read),
            Part::Loose => !has_ladder(read),
        });
        reads.map(piece).collect()
    }

    /// Leaves out blocks of the segments.
    fn choose(&self, pieces: &[Piece], through: Option<Version>, codes: &[LevelCodes]) -> Result<Group> {
        let all: Vec<Arc<Segment>> = pieces.iter().map(|piece| Arc::clone(&piece.segment)).collect();
        let whole = self.context.scans.statistics(self.entry, &self.projected.file_schema, &all)?;
        let mut summaries: Vec<Arc<BlockSummaries>> = Vec::new();
        if self.predicate.is_some() || through.is_some() {
            let load = all.iter().map(|segment| segment.summaries());
            summaries = load.collect::<Result<_, Error>>().map_err(wrap)?;
        }
        let mut blocks = match &self.predicate {
            Some(predicate) => prune(&self.entry.def, self.schema, predicate, codes, &summaries),
            None => all.iter().map(|segment| Chosen::all(segment.blocks())).collect(),
        };
        let live = |piece: &Piece, block: usize| live_rows(&piece.segment, piece.dead.as_ref(), block);
        for (blocks, piece) in blocks.iter_mut().zip(pieces).filter(|(_, piece)| piece.dead.is_some()) {
            blocks.retain(|block| live(piece, block) > 0);
        }
        if let Some(through) = through {
            for (blocks, summaries) in blocks.iter_mut().zip(&summaries) {
                let oldest = summaries.versions().mins.as_primitive_opt::<UInt64Type>();
                let is_later =
                    |block| oldest.is_some_and(|oldest| oldest.is_valid(block) && oldest.value(block) > through.0);
                blocks.retain(|block| !is_later(block));
            }
        } else if let Some(limit) = self.limit {
            let mut rows = limit as u64;
            for (blocks, piece) in blocks.iter_mut().zip(pieces) {
                blocks.keep_rows(&mut rows, |block| live(piece, block));
            }
        }
        let drawn = self.draw.blocks();
        if let Some(sample) = drawn {
            for (blocks, segment) in blocks.iter_mut().zip(&all) {
                blocks.retain(|block| sample.has_block(segment, block));
            }
        }
        let mut spared = Spared::default();
        if let (Some(cache), Some(asked), true) = (&self.context.skipping, self.parts.known(), self.reads_all()) {
            spared = cache.spare(self.entry.def.id, asked, &all, &mut blocks);
        }
        let blocks_skipped = blocks.iter().map(|blocks| blocks.skipped() as u64).sum();
        let mut segments = Vec::with_capacity(all.len());
        for (at, (piece, blocks)) in pieces.iter().zip(blocks).enumerate() {
            if blocks.count() > 0 {
                let segment = Arc::clone(&piece.segment);
                let metadata = segment.parquet_metadata().map_err(wrap)?;
                let summaries = summaries.get(at).cloned();
                let light = match (piece.rung, self.draw.below) {
                    (0, Some(below)) => LightRows::of(&segment, below).map_err(wrap)?,
                    _ => None,
                };
                let (rung, dead) = (piece.rung, piece.dead.clone());
                segments.push(ChosenSegment { segment, metadata, blocks, summaries, rung, light, dead });
            }
        }
        // Of segments whose rows are not all read nothing is known exactly: count(*) and min(x) would be answered by it.
        let reads_some =
            segments.iter().any(|chosen| chosen.light.is_some()) || pieces.iter().any(|piece| piece.dead.is_some());
        let mut statistics = match &self.predicate {
            Some(predicate) if blocks_skipped > 0 || reads_some => {
                let mut filtered: Vec<usize> = collect_columns(predicate).iter().map(Column::index).collect();
                filtered.sort_unstable();
                of_chosen(&whole, &self.entry.def, &filtered, &segments)?
            }
            None if drawn.is_some() || reads_some => of_chosen(&whole, &self.entry.def, &[], &segments)?,
            _ if self.filter.is_some() || self.limit.is_some() || through.is_some() => {
                whole.as_ref().clone().to_inexact()
            }
            _ => whole.as_ref().clone(),
        };
        if let Some(dictionaries) = &self.read.dictionaries {
            count_members(&mut statistics, &self.entry.def, dictionaries);
        }
        let skipped = Skipped {
            segments: (all.len() - segments.len()) as u64,
            blocks: blocks_skipped,
            by_cache: spared.blocks,
            cache_hits: spared.hits,
        };
        self.context.used.add_segments(segments.len() as u64, skipped.segments);
        self.context.used.add_blocks(0, skipped.blocks);
        let rungs = pieces.iter().filter(|piece| piece.rung > 0).count() as u64;
        self.context.used.add_rungs(rungs);
        Ok(Group { segments, statistics, skipped, is_known: spared.is_known })
    }

    /// Splits a group in two, where a sample is drawn of it and this spares identities: rows that are all in the sample, and those that may be.
    fn split(&self, group: Group) -> Vec<Group> {
        if self.draw.behind == Behind::Identities {
            return self.by_version(group);
        }
        let Some(below) = self.draw.below else { return vec![group] };
        if self.identifies(&Sieve { below: None, ..self.sieve(&group, None) }) {
            return vec![group];
        }
        let Group { segments, statistics, skipped, is_known } = group;
        let (all, some): (Vec<_>, Vec<_>) = segments.into_iter().map(|chosen| chosen.split(below)).unzip();
        let of = |segments: Vec<Option<ChosenSegment>>, skipped: Skipped| {
            let segments: Vec<ChosenSegment> = segments.into_iter().flatten().collect();
            Group { statistics: of_rows(&statistics, &segments), segments, skipped, is_known }
        };
        let (all, some) = (of(all, skipped), of(some, Skipped::default()));
        match (all.segments.is_empty(), some.segments.is_empty()) {
            (false, true) => vec![Group { statistics, ..all }],
            (true, _) => vec![Group { statistics, skipped, ..some }],
            (false, false) => vec![all, some],
        }
    }

    /// Splits a group by the versions that its segments do not know of their rows: each such version is one for a scan.
    fn by_version(&self, group: Group) -> Vec<Group> {
        let Group { segments, statistics, mut skipped, is_known } = group;
        let mut versions: BTreeMap<Option<Version>, Vec<ChosenSegment>> = BTreeMap::new();
        for chosen in segments {
            versions.entry(chosen.segment.meta().fixed_version).or_default().push(chosen);
        }
        if versions.is_empty() {
            return vec![Group { segments: Vec::new(), statistics, skipped, is_known }];
        }
        let of = |segments: Vec<ChosenSegment>| {
            let statistics = of_rows(&statistics, &segments);
            Group { segments, statistics, skipped: std::mem::take(&mut skipped), is_known }
        };
        versions.into_values().map(of).collect()
    }

    /// What rows of a group must pass.
    fn sieve(&self, group: &Group, through: Option<Version>) -> Sieve {
        let weights = group.segments.iter().map(ChosenSegment::weights);
        let least = weights.clone().map(|(least, _)| least).min().unwrap_or(0);
        let limit = weights.map(|(_, limit)| limit).reduce(|a, b| Some(a?.max(b?))).flatten();
        let below = self.draw.below.filter(|&below| limit.is_none_or(|limit| below < limit));
        let sample = self.draw.sample.filter(|sample| sample.unit == Unit::Row && sample.below.is_some());
        let before = if least > 0 { share(Some(least)) } else { 0.0 };
        let kept = below.map_or(1.0, |below| (share(Some(below)) - before) / (share(limit) - before));
        Sieve { through, below, sample, share: kept * share(sample.and_then(|sample| sample.below)) }
    }

    /// Adds the scan of segments, cut by version if they also hold later rows; nothing, if nothing is left of them.
    fn segments(
        &self,
        group: Group,
        through: Option<Version>,
        plans: &mut Vec<Arc<dyn ExecutionPlan>>,
        skipped: &mut Skipped,
    ) -> Result<()> {
        if group.segments.is_empty() {
            skipped.add(group.skipped);
            return Ok(());
        }
        let sieve = self.sieve(&group, through);
        let fixed = group.segments.first().and_then(|chosen| chosen.segment.meta().fixed_version);
        let version = self.projected.version_index();
        let observer = self.observer(&group).filter(|_| through.is_none());
        let file = &self.projected.file_schema;
        let hidden = |index: usize| (index, file.field(index).name().clone());
        let (schema, extra) = match (through, &observer) {
            _ if self.identifies(&sieve) => (Arc::clone(file).into(), vec![hidden(version), hidden(version + 1)]),
            (Some(_), _) => (Arc::clone(file).into(), vec![hidden(version)]),
            (None, Some(_)) => {
                let (schema, numbers) = self.numbered();
                (schema, numbers.to_vec())
            }
            (None, None) => (Arc::clone(file).into(), Vec::new()),
        };
        let mut statistics = group.statistics;
        let added = schema.table_schema().fields().len() - file.fields().len();
        statistics.column_statistics.extend(std::iter::repeat_n(ColumnStatistics::new_unknown(), added));
        let mut options = self.options.clone();
        options.global.pushdown_filters |= sieve.share <= LATE_SHARE_MAX;
        let source = ParquetSource::new(schema).with_table_parquet_options(options).with_parquet_file_reader_factory(
            SegmentReaderFactory::new(Arc::clone(&self.context.used), self.span.clone()),
        );
        describe(
            source.metrics(),
            &self.entry.def,
            &self.context.snapshot,
            self.draw.leaves_out(),
            &group.skipped.counters(),
        );
        let counted = group.segments.iter().filter(|chosen| chosen.begins_blocks());
        let rungs = counted.clone().filter(|chosen| chosen.rung > 0).count() as u64;
        count(source.metrics(), "segments_read", counted.count() as u64);
        self.context.used.plan_rows(group.segments.iter().map(ChosenSegment::rows).sum());
        if rungs > 0 {
            count(source.metrics(), "rungs_read", rungs);
        }
        let projection = self.projected.expressions(&extra);
        let source = source
            .try_pushdown_projection(&projection)?
            .ok_or_else(|| wrap(Error::internal("the Parquet source refuses a projection of plain columns")))?;
        let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), source)
            .with_file_groups(spread(&group.segments, self.partitions, observer.is_some(), &self.projected.texts()))
            .with_statistics(statistics)
            .with_limit(self.limit.filter(|_| through.is_none()))
            .build();
        let behind = self.projected.indices.len();
        let watch = observer.map(|observer| Watch { observer, segment: behind, number: behind + 1 });
        let source = decoded(DataSourceExec::from_data_source(config), &self.projected)?;
        plans.push(self.sift(source, &sieve, watch, fixed)?);
        Ok(())
    }

    /// Whether the scan reads all rows of whole segments, so that the predicate cache may serve it and learn of it.
    fn reads_all(&self) -> bool {
        !self.draw.leaves_out() && self.behind.is_empty()
    }

    /// Who is told what the filters match in these segments; `None` if it is known, or cannot be remembered.
    fn observer(&self, group: &Group) -> Option<Arc<Observer>> {
        let learns = self.reads_all() && !group.is_known && self.parts.known().is_some();
        let cache = self.context.skipping.as_ref().filter(|_| learns)?;
        Some(Arc::new(Observer {
            cache: Arc::clone(cache),
            table: self.entry.def.id,
            segments: group.segments.iter().map(|chosen| (Arc::clone(&chosen.segment), chosen.dead.clone())).collect(),
            forms: self.parts.forms(),
        }))
    }

    /// The file schema with the number of a row's segment among those that are read, and the row's number in it; and where these
    /// are.
    fn numbered(&self) -> (TableSchema, [(usize, String); 2]) {
        let file = &self.projected.file_schema;
        let [segment, row] = ["_segment", "_row"].map(|name| unused_name(name, [file, self.schema]));
        let schema = TableSchema::builder(Arc::clone(file))
            .with_table_partition_cols(vec![Arc::new(Field::new(&segment, DataType::UInt32, false))])
            .with_virtual_columns(vec![Arc::new(
                Field::new(&row, DataType::Int64, false).with_extension_type(RowNumber),
            )])
            .build();
        let first = file.fields().len();
        (schema, [(first, segment), (first + 1, row)])
    }

    /// Whether rows' identities must be read.
    fn identifies(&self, sieve: &Sieve) -> bool {
        sieve.below.is_some() || sieve.sample.is_some() || !self.behind.is_empty()
    }

    /// From a source that gives the columns of `projected`, and behind them `_version` and `_ordinal` as far as they are needed or
    /// what is watched, to the scan. All its rows are of version `fixed`, if it does not know their versions.
    pub(super) fn sift(
        &self,
        source: Arc<dyn ExecutionPlan>,
        sieve: &Sieve,
        watch: Option<Watch>,
        fixed: Option<Version>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = self.projected.indices.len();
        let schema = source.schema();
        let seed = self.entry.def.seed;
        let mut conditions: Vec<Arc<dyn PhysicalExpr>> = Vec::with_capacity(3);
        if let Some(through) = sieve.through {
            let version = Arc::new(Column::new(schema.field(columns).name(), columns));
            let newest = lit(ScalarValue::UInt64(Some(through.0)));
            conditions.push(Arc::new(BinaryExpr::new(version, Operator::LtEq, newest)));
        }
        if let Some(below) = sieve.below {
            conditions.push(lighter(&schema, columns, Unit::Row, seed, below)?);
        }
        if let Some(Sample { unit, seed, below: Some(below) }) = sieve.sample {
            conditions.push(lighter(&schema, columns, unit, seed, below)?);
        }
        let mut plan = source;
        if let Some(passes) =
            conditions.into_iter().reduce(|all, next| Arc::new(BinaryExpr::new(all, Operator::And, next)))
        {
            let mut filter = FilterExecBuilder::new(passes, plan);
            if sieve.share < 1.0 {
                filter = filter.with_default_selectivity((sieve.share * 100.0).ceil().clamp(1.0, 100.0) as u8);
            }
            if self.behind.is_empty() {
                filter = filter.apply_projection(Some((0..columns).collect()))?;
            }
            plan = Arc::new(filter.build()?);
        }
        if let Some(filter) = &self.filter {
            let kept = if self.behind.is_empty() { self.wanted } else { plan.schema().fields().len() };
            plan = Arc::new(ScanFilterExec::new(filter.clone(), watch, plan, kept)?);
        }
        if self.behind.is_empty() {
            return Ok(plan);
        }
        let named = |index: usize| {
            let name = schema.field(index).name();
            (Arc::new(Column::new(name, index)) as Arc<dyn PhysicalExpr>, name.clone())
        };
        let mut shown: Vec<_> = (0..self.wanted).map(named).collect();
        for &(at, which) in &self.behind {
            let name = self.schema.field(self.entry.def.columns.len() + which).name().clone();
            let expr = match (self.draw.behind, which) {
                (Behind::Identities, 0) => match fixed {
                    Some(version) => lit(ScalarValue::UInt64(Some(version.0))),
                    None => named(columns).0,
                },
                (Behind::Identities, _) => named(columns + 1).0,
                _ => weight_of(&schema, columns, Unit::Row, seed)?,
            };
            shown.insert(at, (expr, name));
        }
        Ok(Arc::new(ProjectionExec::try_new(shown, plan)?))
    }
}
