//! A table as DataFusion scans it.
//!
//! Invariants:
//! - A provider holds a definition, never a snapshot: the statement's one comes with the session.
//! - A scan returns every row of the snapshot once, and no other: segments whole, segments that also hold later rows under
//!   a filter on `_version`, the tail, and the open transaction's rows.
//! - Filters are used to leave out blocks, and evaluated on the rows of those that are left (`Exact`): the scan knows of each block
//!   whether a row of it matched, which the predicate cache remembers.
//! - Rows above the snapshot's version are left out before filters see them, so that these cannot fail on them; only whole segments
//!   are watched.
//!
//! Segments are read by DataFusion's own Parquet source, so that projections, late materialisation, dynamic filters and
//! TopK work as on any Parquet file; a table that is all merged is one `DataSourceExec` and nothing else.

use super::columns::{Projected, sql_schema, unused_name};
use super::context::StatementContext;
use super::error::external;
use super::members::{LevelCodes, level_codes};
use super::metrics::{count, describe};
use super::parts::{ChosenSegment, spread};
use super::prune::{Chosen, prune};
use super::reader::SegmentReaderFactory;
use super::statistics::{of_chosen, project};
use super::tail::TailSource;
use crate::skipping::{Observer, Parts, Predicate, ScanFilterExec, Spared, Watch};
use alluvia_catalog::TableEntry;
use alluvia_snapshot::{SegmentRead, TableRead};
use alluvia_tree::{BlockSummaries, Segment};
use alluvia_types::{Error, Version};
use arrow::array::{Array, AsArray};
use arrow::datatypes::{DataType, Field, SchemaRef, UInt64Type};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::TableParquetOptions;
use datafusion::common::{ColumnStatistics, DFSchema, Result, ScalarValue, Statistics};
use datafusion::datasource::TableType;
use datafusion::datasource::physical_plan::{FileScanConfigBuilder, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::logical_expr::{Expr, Operator, TableProviderFilterPushDown};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::FilterExecBuilder;
use datafusion::physical_plan::union::UnionExec;
use datafusion::prelude::SessionConfig;
use parquet::arrow::RowNumber;
use std::sync::Arc;

/// Sets what scans of our tables rely on; the rest is the session's.
pub fn configure(config: &mut SessionConfig) {
    let options = config.options_mut();
    options.execution.collect_statistics = true;
}

/// One table of schema `public`.
#[derive(Debug)]
pub struct AlluviaTable {
    entry: Arc<TableEntry>,
    schema: SchemaRef,
}

impl AlluviaTable {
    /// The table under this definition.
    pub fn new(entry: Arc<TableEntry>) -> AlluviaTable {
        let schema = sql_schema(&entry.def);
        AlluviaTable { entry, schema }
    }

    /// The table's definition. A scan gives every row of the table.
    pub(crate) fn entry(&self) -> &Arc<TableEntry> {
        &self.entry
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
        let parts = Parts::new(filters, table);
        let planned = self.predicate(session, &parts)?;
        let mut columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let wanted = columns.len();
        for column in planned.iter().flat_map(|predicate| collect_columns(&predicate.whole())) {
            if !columns.contains(&column.index()) {
                columns.push(column.index());
            }
        }
        let scan = Scan {
            entry: &self.entry,
            schema: &self.schema,
            projected: Projected::new(table, &self.schema, Some(&columns))?,
            wanted,
            predicate: planned.as_ref().map(Predicate::whole),
            filter: planned.map(|predicate| predicate.over(&columns)).transpose()?,
            parts,
            limit: limit.filter(|_| filters.is_empty()),
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
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }
}

impl AlluviaTable {
    /// The filters over the whole table; `None` if there is none.
    fn predicate(&self, session: &dyn Session, parts: &Parts) -> Result<Option<Predicate>> {
        if parts.is_empty() {
            return Ok(None);
        }
        let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        parts.prepare(|expr| session.create_physical_expr(expr.clone(), &schema)).map(Some)
    }
}

/// One scan being planned.
struct Scan<'a> {
    entry: &'a TableEntry,
    schema: &'a SchemaRef,
    /// What the statement wants, then what only its filters need.
    projected: Projected,
    /// How many columns the statement wants.
    wanted: usize,
    /// The filters over the whole table, for choosing blocks.
    predicate: Option<Arc<dyn PhysicalExpr>>,
    /// The same over `projected`.
    filter: Option<Predicate>,
    parts: Parts,
    limit: Option<usize>,
    partitions: usize,
    options: TableParquetOptions,
    context: &'a Arc<StatementContext>,
    read: &'a TableRead,
}

/// Segments to read, and what is known of them.
struct Group {
    segments: Vec<ChosenSegment>,
    statistics: Statistics,
    skipped: Skipped,
    /// Whether there is nothing that the predicate cache could still learn of them.
    is_known: bool,
}

/// What pruning has left out.
#[derive(Clone, Copy, Default)]
struct Skipped {
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
        if !whole.is_empty() {
            let group = self.choose(&whole, None, &codes)?;
            columns = Some(project(&group.statistics, &self.projected.indices));
            self.segments(group, None, &mut plans, &mut skipped)?;
        }
        // All cut segments of a snapshot are cut at its version.
        if let Some(through) = cut.first().and_then(|read| read.through) {
            assert!(cut.iter().all(|read| read.through == Some(through)), "a snapshot has one version");
            let group = self.choose(&cut, Some(through), &codes)?;
            self.segments(group, Some(through), &mut plans, &mut skipped)?;
        }
        let pending = self.context.pending.get(&self.entry.def.id);
        let runs = self.read.tail.iter().map(|run| &run.rows).chain(pending.into_iter().flatten());
        if plans.is_empty() || runs.clone().any(|run| run.num_rows() > 0) {
            let tail =
                TailSource::new(&self.projected, runs, self.partitions, columns, Arc::clone(&self.context.used))?;
            describe(tail.metrics_set(), &self.context.snapshot, &skipped.counters());
            let tail = DataSourceExec::from_data_source(tail.limited(self.limit));
            plans.push(self.filtered(tail, None)?);
        }
        match plans.len() {
            1 => Ok(plans.remove(0)),
            _ => UnionExec::try_new(plans),
        }
    }

    /// Leaves out blocks of the segments.
    fn choose(&self, reads: &[&SegmentRead], through: Option<Version>, codes: &[LevelCodes]) -> Result<Group> {
        let all: Vec<Arc<Segment>> = reads.iter().map(|read| Arc::clone(&read.segment)).collect();
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
        let mut spared = Spared::default();
        if let (Some(cache), Some(asked)) = (&self.context.skipping, self.parts.known()) {
            spared = cache.spare(self.entry.def.id, asked, &all, &mut blocks);
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
            _ if self.filter.is_some() || self.limit.is_some() || through.is_some() => {
                whole.as_ref().clone().to_inexact()
            }
            _ => whole.as_ref().clone(),
        };
        let skipped = Skipped {
            segments: (all.len() - segments.len()) as u64,
            blocks: blocks_skipped,
            by_cache: spared.blocks,
            cache_hits: spared.hits,
        };
        self.context.used.add_segments(segments.len() as u64, skipped.segments);
        self.context.used.add_blocks(0, skipped.blocks);
        Ok(Group { segments, statistics, skipped, is_known: spared.is_known })
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
        let version = self.projected.version_index();
        let version_name = self.projected.file_schema.field(version).name().clone();
        let observer = self.observer(&group).filter(|_| through.is_none());
        let (schema, numbers) = self.numbered();
        let (schema, extra) = match (through, &observer) {
            (Some(_), _) => (Arc::clone(&self.projected.file_schema).into(), vec![(version, version_name.clone())]),
            (None, Some(_)) => (schema, numbers.to_vec()),
            (None, None) => (Arc::clone(&self.projected.file_schema).into(), Vec::new()),
        };
        let mut statistics = group.statistics;
        let added = schema.table_schema().fields().len() - self.projected.file_schema.fields().len();
        statistics.column_statistics.extend(std::iter::repeat_n(ColumnStatistics::new_unknown(), added));
        let source = ParquetSource::new(schema)
            .with_table_parquet_options(self.options.clone())
            .with_parquet_file_reader_factory(SegmentReaderFactory::new(Arc::clone(&self.context.used)));
        describe(source.metrics(), &self.context.snapshot, &group.skipped.counters());
        count(source.metrics(), "segments_read", group.segments.len() as u64);
        let projection = self.projected.expressions(&extra);
        let source = source
            .try_pushdown_projection(&projection)?
            .ok_or_else(|| external(Error::internal("the Parquet source refuses a projection of plain columns")))?;
        let config = FileScanConfigBuilder::new(ObjectStoreUrl::local_filesystem(), source)
            .with_file_groups(spread(&group.segments, self.partitions, observer.is_some()))
            .with_statistics(statistics)
            .with_limit(self.limit.filter(|_| through.is_none()))
            .build();
        let scan = DataSourceExec::from_data_source(config);
        let Some(through) = through else {
            let behind = self.projected.indices.len();
            let watch = observer.map(|observer| Watch { observer, segment: behind, number: behind + 1 });
            plans.push(self.filtered(scan, watch)?);
            return Ok(());
        };
        let column = Arc::new(Column::new(&version_name, self.projected.indices.len()));
        let newest = lit(ScalarValue::UInt64(Some(through.0)));
        let visible = Arc::new(BinaryExpr::new(column, Operator::LtEq, newest));
        let wanted = (0..self.projected.indices.len()).collect();
        let visible = FilterExecBuilder::new(visible, scan).apply_projection(Some(wanted))?.build()?;
        plans.push(self.filtered(Arc::new(visible), None)?);
        Ok(())
    }

    /// The rows of `input` that pass the filters, if there are any, in the columns that the statement wants.
    fn filtered(&self, input: Arc<dyn ExecutionPlan>, watch: Option<Watch>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(match &self.filter {
            Some(filter) => Arc::new(ScanFilterExec::new(filter.clone(), watch, input, self.wanted)?),
            None => input,
        })
    }

    /// Who is told what the filters match in these segments; `None` if it is known, or cannot be remembered.
    fn observer(&self, group: &Group) -> Option<Arc<Observer>> {
        let cache = self.context.skipping.as_ref().filter(|_| !group.is_known && self.parts.known().is_some())?;
        Some(Arc::new(Observer {
            cache: Arc::clone(cache),
            table: self.entry.def.id,
            segments: group.segments.iter().map(|chosen| Arc::clone(&chosen.segment)).collect(),
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
}
