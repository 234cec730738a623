//! A table as DataFusion scans it.
//!
//! Invariants:
//! - A provider holds a definition, never a snapshot: the statement's one comes with the session.
//! - A scan returns every row of the snapshot once, and no other: segments whole, segments that also hold later rows under
//!   a filter on `_version`, the tail, and the open transaction's rows. A table of which a sample is drawn returns each row of the
//!   sample once ([`super::draw`]).
//! - In the place of a segment its thinnest rung that holds the sample is read, and a filter on weights leaves out what else it holds.
//! - Filters are used to leave out blocks; what is left is filtered above (`Inexact`).
//!
//! Segments are read by DataFusion's own Parquet source, so that projections, late materialisation, dynamic filters and
//! TopK work as on any Parquet file; a table that is all merged is one `DataSourceExec` and nothing else.

use super::columns::{Projected, sql_schema};
use super::context::StatementContext;
use super::draw::{Draw, Part, Sample, Unit, WEIGHT_COLUMN, identified, lighter, share, weight_of};
use super::error::external;
use super::members::{LevelCodes, level_codes};
use super::metrics::{count, describe};
use super::parts::{ChosenSegment, spread};
use super::prune::{Chosen, prune};
use super::reader::SegmentReaderFactory;
use super::statistics::{of_chosen, project};
use super::tail::TailSource;
use alluvia_catalog::TableEntry;
use alluvia_snapshot::{SegmentRead, TableRead};
use alluvia_tree::{BlockSummaries, Segment, rung_limit};
use alluvia_types::{Error, Version};
use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::TableParquetOptions;
use datafusion::common::{ColumnStatistics, DFSchema, Result, ScalarValue, Statistics};
use datafusion::datasource::TableType;
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, Operator, TableProviderFilterPushDown};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::prelude::SessionConfig;
use std::sync::Arc;

/// Of samples of at most this share, the other columns are read for the drawn rows alone.
const LATE_SHARE_MAX: f64 = 0.125;

/// Sets what scans of our tables rely on; the rest is the session's.
pub fn configure(config: &mut SessionConfig) {
    let options = config.options_mut();
    options.execution.collect_statistics = true;
}

/// One table of schema `public`.
#[derive(Clone, Debug)]
pub struct AlluviaTable {
    entry: Arc<TableEntry>,
    /// The columns, and rows' weights behind them if it shows these.
    schema: SchemaRef,
    draw: Draw,
}

impl AlluviaTable {
    /// The table under this definition.
    pub fn new(entry: Arc<TableEntry>) -> AlluviaTable {
        let schema = sql_schema(&entry.def);
        AlluviaTable { entry, schema, draw: Draw::default() }
    }

    /// Its definition.
    pub(crate) fn entry(&self) -> &Arc<TableEntry> {
        &self.entry
    }

    /// Some of its rows.
    pub(crate) fn drawn(&self, draw: Draw) -> AlluviaTable {
        let mut fields = sql_schema(&self.entry.def).fields().to_vec();
        if draw.weighed {
            fields.push(Arc::new(Field::new(WEIGHT_COLUMN, DataType::UInt64, false)));
        }
        AlluviaTable { entry: Arc::clone(&self.entry), schema: Arc::new(Schema::new(fields)), draw }
    }
}

#[async_trait]
impl TableProvider for AlluviaTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let context = StatementContext::of(session)?;
        let table = &self.entry.def;
        let read = context.snapshot.tables.get(&table.id).filter(|read| read.entry.changed_at == self.entry.changed_at);
        let read = read.ok_or_else(|| {
            external(Error::internal(format!(
                "table {} was planned but is not in the statement's snapshot",
                table.name
            )))
        })?;
        let wanted = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let weight_index = table.columns.len();
        let columns = wanted.iter().copied().filter(|&index| index != weight_index).collect();
        let draw = self.draw.within(context.sample_fraction);
        let scan = Scan {
            entry: &self.entry,
            schema: &self.schema,
            projected: Projected::new(table, &self.schema, Some(&columns))?,
            weight_at: wanted.iter().position(|&index| index == weight_index),
            draw,
            predicate: self.predicate(session, filters),
            is_filtered: !filters.is_empty(),
            limit: limit.filter(|_| filters.is_empty() && !draw.leaves_out()),
            partitions: session.config().target_partitions(),
            options: TableParquetOptions {
                global: session.config_options().execution.parquet.clone(),
                ..Default::default()
            },
            context: &context,
            read,
        };
        scan.plan()
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }
}

impl AlluviaTable {
    /// The filters as one expression over the whole table; `None` if there is none, or none that can be prepared here.
    fn predicate(&self, session: &dyn Session, filters: &[Expr]) -> Option<Arc<dyn PhysicalExpr>> {
        let schema = DFSchema::try_from(Arc::clone(&self.schema)).ok()?;
        let prepared = filters.iter().filter_map(|filter| session.create_physical_expr(filter.clone(), &schema).ok());
        prepared.reduce(|all, next| Arc::new(BinaryExpr::new(all, Operator::And, next)))
    }
}

/// One scan being planned.
struct Scan<'a> {
    entry: &'a TableEntry,
    schema: &'a SchemaRef,
    projected: Projected,
    /// Where among the columns rows' weights stand.
    weight_at: Option<usize>,
    draw: Draw,
    predicate: Option<Arc<dyn PhysicalExpr>>,
    is_filtered: bool,
    limit: Option<usize>,
    partitions: usize,
    options: TableParquetOptions,
    context: &'a Arc<StatementContext>,
    read: &'a TableRead,
}

/// A segment to read, or the rung that is read in its place.
struct Piece {
    segment: Arc<Segment>,
    /// 0 for the segment itself.
    rung: u32,
}

/// Segments to read, and what is known of them.
struct Group {
    segments: Vec<ChosenSegment>,
    statistics: Statistics,
    skipped: Skipped,
    rungs: u64,
    /// All their rows weigh less than this.
    lightest: Option<u64>,
}

/// What rows of a source must pass to be in the scan.
#[derive(Clone, Copy, Default)]
struct Sieve {
    through: Option<Version>,
    below: Option<u64>,
    sample: Option<Sample>,
    /// Of the rows, about this share passes.
    share: f64,
}

/// What pruning has left out.
#[derive(Clone, Copy, Default)]
struct Skipped {
    segments: u64,
    blocks: u64,
}

impl Skipped {
    fn counters(self) -> [(&'static str, u64); 2] {
        [("segments_skipped", self.segments), ("blocks_skipped", self.blocks)]
    }
}

impl Scan<'_> {
    fn plan(mut self) -> Result<Arc<dyn ExecutionPlan>> {
        self.options.global.bloom_filter_on_read = false;
        let codes = match &self.predicate {
            Some(predicate) => level_codes(&self.entry.def, predicate, self.read.dictionaries.as_deref()),
            None => Vec::new(),
        };
        let whole: Vec<&SegmentRead> = self.read.segments.iter().filter(|read| read.through.is_none()).collect();
        let cut: Vec<&SegmentRead> = self.read.segments.iter().filter(|read| read.through.is_some()).collect();
        let mut plans = Vec::with_capacity(3);
        let mut columns = None;
        let mut skipped = Skipped::default();
        let whole = self.pieces(&whole);
        if !whole.is_empty() {
            let group = self.choose(&whole, None, &codes)?;
            columns = Some(project(&group.statistics, &self.projected.indices));
            self.segments(group, None, &mut plans, &mut skipped)?;
        }
        // All cut segments of a snapshot are cut at its version.
        if let Some(through) = cut.first().and_then(|read| read.through) {
            assert!(cut.iter().all(|read| read.through == Some(through)), "a snapshot has one version");
            let cut = self.pieces(&cut);
            if !cut.is_empty() {
                let group = self.choose(&cut, Some(through), &codes)?;
                self.segments(group, Some(through), &mut plans, &mut skipped)?;
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
    fn tail<'b>(
        &self,
        tail: impl Iterator<Item = &'b RecordBatch>,
        pending: &[&'b RecordBatch],
        columns: Option<Vec<ColumnStatistics>>,
        skipped: Skipped,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Draw { below, sample, .. } = self.draw;
        let share = share(below) * share(sample.and_then(|sample| sample.below));
        let sieve = Sieve { through: None, below, sample, share };
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
        describe(source.metrics_set(), &self.context.snapshot, &skipped.counters());
        self.sift(DataSourceExec::from_data_source(source.limited(self.limit)), &sieve)
    }

    /// What to read of the segments: of those with a ladder a rung, if one holds all that is drawn.
    fn pieces(&self, reads: &[&SegmentRead]) -> Vec<Piece> {
        let has_ladder = |segment: &Segment| !segment.rungs().is_empty();
        let piece = |segment: &Arc<Segment>| {
            let rung = match self.draw.below {
                // Blocks are drawn of segments, whatever ladders these have.
                Some(below) if self.draw.blocks().is_none() => segment.rung_for(below),
                _ => None,
            };
            match rung {
                Some(rung) => Piece { segment: Arc::clone(&rung.segment), rung: rung.rung },
                None => Piece { segment: Arc::clone(segment), rung: 0 },
            }
        };
        let segments = reads.iter().map(|read| &read.segment);
        let segments = segments.filter(|segment| match self.draw.part {
            Part::All => true,
            Part::Laddered => has_ladder(segment),
            Part::Loose => !has_ladder(segment),
        });
        segments.map(piece).collect()
    }

    /// Leaves out blocks of the segments.
    fn choose(&self, pieces: &[Piece], through: Option<Version>, codes: &[LevelCodes]) -> Result<Group> {
        let all: Vec<Arc<Segment>> = pieces.iter().map(|piece| Arc::clone(&piece.segment)).collect();
        let whole = self.context.scans.statistics(self.entry, &self.projected.file_schema, &all)?;
        let mut summaries: Vec<Arc<BlockSummaries>> = Vec::new();
        if self.predicate.is_some() || through.is_some() {
            let load = all.iter().map(|segment| segment.summaries());
            summaries = load.collect::<Result<_, Error>>().map_err(external)?;
        }
        let mut blocks = match &self.predicate {
            Some(predicate) => prune(&self.entry.def, self.schema, predicate, codes, &summaries),
            None => all.iter().map(|segment| Chosen::all(segment.blocks())).collect(),
        };
        if let Some(through) = through {
            for (blocks, summaries) in blocks.iter_mut().zip(&summaries) {
                let oldest = summaries.versions().mins.as_primitive_opt::<UInt64Type>();
                let is_later =
                    |block| oldest.is_some_and(|oldest| oldest.is_valid(block) && oldest.value(block) > through.0);
                blocks.retain(|block| !is_later(block));
            }
        } else if let Some(limit) = self.limit {
            let mut rows = limit as u64;
            for (blocks, segment) in blocks.iter_mut().zip(&all) {
                let rows_of = |block| segment.block_rows(block).end - segment.block_rows(block).start;
                blocks.keep_rows(&mut rows, rows_of);
            }
        }
        let drawn = self.draw.blocks();
        if let Some(sample) = drawn {
            for (blocks, segment) in blocks.iter_mut().zip(&all) {
                blocks.retain(|block| sample.has_block(segment, block));
            }
        }
        let blocks_skipped = blocks.iter().map(|blocks| blocks.skipped() as u64).sum();
        let mut segments = Vec::with_capacity(all.len());
        for (at, (segment, blocks)) in all.iter().zip(blocks).enumerate() {
            if blocks.count() > 0 {
                let metadata = segment.parquet_metadata().map_err(external)?;
                let summaries = summaries.get(at).cloned();
                segments.push(ChosenSegment { segment: Arc::clone(segment), metadata, blocks, summaries });
            }
        }
        let statistics = match &self.predicate {
            Some(predicate) if blocks_skipped > 0 => {
                let mut filtered: Vec<usize> = collect_columns(predicate).iter().map(Column::index).collect();
                filtered.sort_unstable();
                of_chosen(&whole, &self.entry.def, &filtered, &segments)?
            }
            None if drawn.is_some() => of_chosen(&whole, &self.entry.def, &[], &segments)?,
            _ if self.is_filtered || self.limit.is_some() || through.is_some() => whole.as_ref().clone().to_inexact(),
            _ => whole.as_ref().clone(),
        };
        let skipped = Skipped { segments: (all.len() - segments.len()) as u64, blocks: blocks_skipped };
        self.context.used.add_segments(segments.len() as u64, skipped.segments);
        self.context.used.add_blocks(0, skipped.blocks);
        let rungs = pieces.iter().filter(|piece| piece.rung > 0).count() as u64;
        self.context.used.add_rungs(rungs);
        // The thickest has the heaviest rows.
        let thickest = pieces.iter().map(|piece| piece.rung).min().unwrap_or(0);
        Ok(Group { segments, statistics, skipped, rungs, lightest: rung_limit(thickest) })
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
            skipped.segments += group.skipped.segments;
            skipped.blocks += group.skipped.blocks;
            return Ok(());
        }
        let lightest = group.lightest;
        let below = self.draw.below.filter(|_| self.draw.below != lightest);
        let sample = self.draw.sample.filter(|sample| sample.unit == Unit::Row && sample.below.is_some());
        let kept = below.map_or(1.0, |_| share(below) / share(lightest));
        let share = kept * share(sample.and_then(|sample| sample.below));
        let sieve = Sieve { through, below, sample, share };
        let version = self.projected.version_index();
        let extra: &[usize] = match through {
            _ if self.identifies(&sieve) => &[version, version + 1],
            Some(_) => &[version],
            None => &[],
        };
        let mut options = self.options.clone();
        // Weights alone are sieved while pages are decoded: the reader goes on without a condition that it cannot prepare there.
        options.global.pushdown_filters |= sieve.share <= LATE_SHARE_MAX && !self.is_filtered;
        let source = ParquetSource::new(Arc::clone(&self.projected.file_schema))
            .with_table_parquet_options(options)
            .with_parquet_file_reader_factory(SegmentReaderFactory::new(Arc::clone(&self.context.used)));
        describe(source.metrics(), &self.context.snapshot, &group.skipped.counters());
        count(source.metrics(), "segments_read", group.segments.len() as u64);
        if group.rungs > 0 {
            count(source.metrics(), "rungs_read", group.rungs);
        }
        let projection = self.projected.expressions(extra);
        let source = source
            .try_pushdown_projection(&projection)?
            .ok_or_else(|| external(Error::internal("the Parquet source refuses a projection of plain columns")))?;
        let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), source)
            .with_file_groups(spread(&group.segments, self.partitions))
            .with_statistics(group.statistics)
            .with_limit(self.limit.filter(|_| through.is_none()))
            .build();
        plans.push(self.sift(DataSourceExec::from_data_source(config), &sieve)?);
        Ok(())
    }

    /// Whether rows' identities must be read.
    fn identifies(&self, sieve: &Sieve) -> bool {
        sieve.below.is_some() || sieve.sample.is_some() || self.weight_at.is_some()
    }

    /// From a source that gives the scan's columns, and `_version` and `_ordinal` behind them as far as they are needed, to the scan.
    fn sift(&self, source: Arc<dyn ExecutionPlan>, sieve: &Sieve) -> Result<Arc<dyn ExecutionPlan>> {
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
            if self.weight_at.is_none() {
                filter = filter.apply_projection(Some((0..columns).collect()))?;
            }
            plan = Arc::new(filter.build()?);
        }
        let Some(at) = self.weight_at else { return Ok(plan) };
        let named = |index: usize| {
            let name = schema.field(index).name();
            (Arc::new(Column::new(name, index)) as Arc<dyn PhysicalExpr>, name.clone())
        };
        let mut shown: Vec<_> = (0..columns).map(named).collect();
        shown.insert(at, (weight_of(&schema, columns, Unit::Row, seed)?, WEIGHT_COLUMN.to_owned()));
        Ok(Arc::new(ProjectionExec::try_new(shown, plan)?))
    }
}
