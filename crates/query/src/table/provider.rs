//! A table as DataFusion sees it.
//!
//! Invariants:
//! - A provider holds a definition, never a snapshot: the statement's one comes with the session.
//! - Filters are taken whole (`Exact`): a scan gives the rows that pass them, and no other.
//!
//! [`super::scan`] plans the scans, and [`super::by_key`] those of rows that filters name by their keys.

use super::columns::{Projected, sql_schema, unused_name};
use super::context::StatementContext;
use super::draw::{Behind, Draw, WEIGHT_COLUMN};
use super::elsewhere::is_utc;
use super::scan::Scan;
use super::traced::ScanSpan;
use crate::by_key::{KeyRange, NamedKeys};
use alluvia_catalog::TableEntry;
use alluvia_change::identity_names;
use alluvia_functions::operators::has_operator;
use alluvia_rows::is_waiting;
use alluvia_skipping::{Parts, Predicate};
use alluvia_snapshot::TableRead;
use alluvia_types::Error;
use alluvia_values::errors::wrap;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::config::TableParquetOptions;
use datafusion::common::{DFSchema, Result};
use datafusion::datasource::TableType;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// One table of schema `public`.
#[derive(Clone, Debug)]
pub struct AlluviaTable {
    entry: Arc<TableEntry>,
    /// The columns, and behind them what it shows of rows.
    schema: SchemaRef,
    draw: Draw,
    /// The keys of its rows that are asked for; `None` of all.
    keys: Option<Arc<NamedKeys>>,
}

impl AlluviaTable {
    /// The table under this definition.
    pub fn new(entry: Arc<TableEntry>) -> AlluviaTable {
        let schema = sql_schema(&entry.def);
        AlluviaTable { entry, schema, draw: Draw::default(), keys: None }
    }

    /// Its definition.
    pub(crate) fn entry(&self) -> &Arc<TableEntry> {
        &self.entry
    }

    /// Whether a scan may give fewer rows than the table has, whatever the session's sample is.
    pub(crate) fn is_drawn(&self) -> bool {
        self.draw != Draw::default() || self.keys.is_some()
    }

    /// Whether a scan under these filters finds its rows by their keys, by a statement that reads so much of every table.
    pub(super) fn is_found(&self, filters: &[Expr], sample_fraction: f64) -> bool {
        let is_whole = self.draw.within(sample_fraction) == Draw::default() && !is_waiting(self.entry.changed_at);
        self.keys.is_some() || is_whole && NamedKeys::of_filters(filters, &self.entry.def).is_some()
    }

    /// Its rows that have these keys, and what the open transaction has written: a table of which neither is drawn nor elsewhere.
    pub(crate) fn of_keys(&self, keys: NamedKeys) -> AlluviaTable {
        AlluviaTable { keys: Some(Arc::new(keys)), ..self.clone() }
    }

    /// Some of its rows.
    pub(crate) fn drawn(&self, draw: Draw) -> AlluviaTable {
        let sql = sql_schema(&self.entry.def);
        let mut fields = sql.fields().to_vec();
        let behind = |name: String, nullable: bool| Arc::new(Field::new(name, DataType::UInt64, nullable));
        match draw.behind {
            Behind::Nothing => {}
            Behind::Weights => fields.push(behind(unused_name(WEIGHT_COLUMN, [&sql, &sql]), false)),
            Behind::Identities => {
                let [version, ordinal] = identity_names(&self.entry.def);
                fields.extend([behind(version, true), behind(ordinal, false)]);
            }
        }
        AlluviaTable { entry: Arc::clone(&self.entry), schema: Arc::new(Schema::new(fields)), draw, keys: None }
    }

    /// All of its rows, with what they are known by.
    pub(crate) fn identified(&self) -> AlluviaTable {
        self.drawn(Draw { behind: Behind::Identities, ..Draw::default() })
    }

    /// The filters over the whole table; `None` if there is none.
    fn predicate(&self, session: &dyn Session, parts: &Parts) -> Result<Option<Predicate>> {
        if parts.is_empty() {
            return Ok(None);
        }
        let schema = DFSchema::try_from(Arc::clone(&self.schema))?;
        let plan = |expr: &Expr| {
            // The session asks again for the types of all levels, each of which asks those below it: of a long chain for seconds.
            if has_operator(expr) {
                let context = PhysicalPlanningContext::default();
                return create_physical_expr(expr, &schema, session.execution_props(), &context);
            }
            session.create_physical_expr(expr.clone(), &schema)
        };
        parts.prepare(plan).map(Some)
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
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        self.scan_of(session, &context, session.config().target_partitions(), &columns, filters, limit)
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Exact; filters.len()])
    }
}

impl AlluviaTable {
    /// A scan of some columns by the statement of `context`, in at most so many partitions. `session` knows functions and options.
    pub(crate) fn scan_of(
        &self,
        session: &dyn Session,
        context: &Arc<StatementContext>,
        partitions: usize,
        asked: &[usize],
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let table = &self.entry.def;
        let read = context.snapshot.tables.get(&table.id).filter(|read| read.entry.changed_at == self.entry.changed_at);
        let read = read.ok_or_else(|| {
            wrap(Error::internal(format!("table {} was planned but is not in the statement's snapshot", table.name)))
        })?;
        let draw = self.draw.within(context.sample_fraction);
        let gathered;
        let read = match read.is_elsewhere && (draw != Draw::default() || is_waiting(read.entry.changed_at)) {
            // What identities tell is told where all rows are; and what a transaction has made of a definition, nobody else knows.
            true => {
                let tail = context.store.gathered(table.id, context.snapshot.version).map_err(wrap)?;
                gathered = TableRead { tail, is_elsewhere: false, ..read.clone() };
                &gathered
            }
            false => read,
        };
        let parts = Parts::new(filters, table);
        let planned = self.predicate(session, &parts)?;
        let first_behind = table.columns.len();
        let mut columns: Vec<usize> = asked.iter().copied().filter(|&index| index < first_behind).collect();
        let wanted = columns.len();
        for column in planned.iter().flat_map(|predicate| collect_columns(&predicate.whole())) {
            if column.index() >= first_behind {
                return Err(wrap(Error::internal("a filter on rows' weights or identities was pushed into a scan")));
            }
            if !columns.contains(&column.index()) {
                columns.push(column.index());
            }
        }
        // What a transaction has made of a definition, the store does not know.
        let is_found = draw == Draw::default() && !is_waiting(read.entry.changed_at);
        let keys = if is_found { NamedKeys::of_filters(filters, table) } else { None };
        let keys = self.keys.clone().or_else(|| keys.map(Arc::new));
        let between = if is_found { KeyRange::of_filters(filters, table) } else { None };
        let scan = Scan {
            entry: &self.entry,
            schema: &self.schema,
            projected: Projected::new(table, &self.schema, Some(&columns))?,
            wanted,
            behind: (0..).zip(asked).filter_map(|(at, &index)| Some((at, index.checked_sub(first_behind)?))).collect(),
            draw,
            predicate: planned.as_ref().map(Predicate::whole),
            filter: planned.map(|predicate| predicate.over(&columns)).transpose()?,
            parts,
            limit: limit.filter(|_| filters.is_empty() && !draw.leaves_out()),
            partitions,
            options: TableParquetOptions {
                global: session.config_options().execution.parquet.clone(),
                ..Default::default()
            },
            context,
            read,
            span: ScanSpan::new(&context.used, &self.entry.def.name),
        };
        if let Some(read) = context.temporary.get(&table.id) {
            return scan.temporary(read);
        }
        if read.is_elsewhere {
            return scan.elsewhere(filters, is_utc(session));
        }
        if let Some(keys) = keys {
            return scan.plan_by_keys(&keys);
        }
        if let Some(between) = between
            && let Some(found) = between.find(read).map_err(wrap)?
        {
            return scan.plan_of_found(&found, None);
        }
        scan.plan()
    }
}
