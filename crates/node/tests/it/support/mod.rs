//! What the engine's tests share: a database on a disk that fails, rows read without SQL, a model.

pub mod real;

#[path = "../../../../fetch/tests/support/web.rs"]
pub mod web;

use alluvia_catalog::{Catalog, Change};
use alluvia_node::{Core, DatabaseOptions};
use alluvia_pipeline::{Inline, PipelineOptions};
use alluvia_query::Session;
use alluvia_snapshot::{Admin, Committed, Durability, Ingest, NewBatch, NewRows, Read, Snapshot, Want};
use alluvia_space::{Column, DataType, TableDef, TableOptions, VERSION_COLUMN, dimensions};
use alluvia_storage::{Disk, FaultDisk};
use alluvia_tree::SegmentCursor;
use alluvia_types::{ColumnId, Error, Freshness, ManualClock, Result, TableId, Version};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType as Arrow, UInt64Type};
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions, array_value_to_string};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A number that a variable of the environment gives: ALLUVIA_TEST_SECONDS to go on for so long, ALLUVIA_TEST_SEED to begin elsewhere or
/// to replay, ALLUVIA_TEST_STATEMENTS to try so many.
pub fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is no number")))
}

/// The data directory on every simulated disk.
pub const DIR: &str = "/db";

/// Options that make small data exercise every stage.
pub fn options() -> DatabaseOptions {
    let pipeline = PipelineOptions {
        segment_rows: 64,
        merge_segments: 2,
        partition_rows_max: 200,
        chunk_rows: 32,
        rung_rows_min: 3,
        ..PipelineOptions::default()
    };
    DatabaseOptions {
        memory_limit_bytes: 256 << 20,
        threads: 1,
        pipeline,
        log_file_bytes_max: 4 << 10,
        ..DatabaseOptions::default()
    }
}

/// Opens the engine on a simulated disk.
pub fn open(disk: &Arc<FaultDisk>, clock: &Arc<ManualClock>) -> Result<Core> {
    let disk: Arc<dyn Disk> = Arc::clone(disk) as Arc<dyn Disk>;
    let clock = Arc::clone(clock);
    Core::open(disk, Path::new(DIR), clock, &options(), Arc::new(Inline), 42)
}

/// `name(id BIGINT, kind TEXT)` with one dimension of each sort.
pub fn table(id: TableId, name: &str) -> TableDef {
    let column = |id: u32, name: &str, data_type| Column {
        id: ColumnId(id),
        name: name.to_owned(),
        storage_name: name.to_owned(),
        data_type,
        nullable: true,
        chars_max: None,
    };
    let columns = vec![column(0, "id", DataType::Int64), column(1, "kind", DataType::Text)];
    let dimensions = dimensions::parse("kind; number(id: linear 0..1000)", &columns).expect("a good declaration");
    TableDef {
        id,
        schema: "public".to_owned(),
        name: name.to_owned(),
        columns,
        next_column_id: 2,
        key: None,
        rules: alluvia_space::TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        dimensions,
        measures: vec![ColumnId(0)],
        seed: 7,
        options: TableOptions::default(),
    }
}

/// Rows `(id, kind)`.
pub fn rows(values: &[(i64, &str)]) -> RecordBatch {
    let def = table(TableId(0), "any");
    let ids = Int64Array::from_iter_values(values.iter().map(|row| row.0));
    let kinds = StringViewArray::from_iter_values(values.iter().map(|row| row.1));
    RecordBatch::try_new(def.storage_schema(), vec![Arc::new(ids) as ArrayRef, Arc::new(kinds)]).expect("rows fit")
}

/// Rows of a table, bound to its newest definition.
pub fn new_rows(catalog: &Catalog, table: TableId, batch: RecordBatch) -> NewRows {
    let checked_at = catalog.by_id(table).map_or(Version(0), |entry| entry.changed_at);
    NewRows::insert(table, checked_at, vec![batch])
}

/// Commits a table.
pub fn create(core: &Core, name: &str) -> Result<(TableId, Committed)> {
    let id = core.new_table_id();
    let changes = vec![Change::CreateTable { def: table(id, name) }];
    let committed = core.submit(NewBatch { changes, ..NewBatch::default() }, Durability::Sync)?;
    Ok((id, committed))
}

/// Commits rows into several tables as one batch.
pub fn insert(core: &Core, parts: &[(TableId, RecordBatch)]) -> Result<Committed> {
    let catalog = core.catalog();
    let rows = parts.iter().map(|(table, batch)| new_rows(&catalog, *table, batch.clone())).collect();
    core.submit(NewBatch { rows, ..NewBatch::default() }, Durability::Sync)
}

/// A snapshot of all tables.
pub fn snapshot(core: &Core, freshness: Freshness) -> Snapshot {
    let tables = core.catalog().tables().map(|entry| entry.def.id).collect();
    core.snapshot(&Want { freshness, at_least: Version(0), exactly: None, tables }).expect("a snapshot")
}

/// Every row of a table in a snapshot, as text, with its version; sorted. Reads segments and tail by themselves, without
/// any planner.
pub fn read(snapshot: &Snapshot, table: TableId) -> Vec<(u64, String)> {
    let Some(read) = snapshot.tables.get(&table) else { return Vec::new() };
    let def = &read.entry.def;
    let mut found = Vec::new();
    let mut take = |batch: &RecordBatch, through: Version| {
        let versions = batch.column_by_name(VERSION_COLUMN).expect("hidden columns are there");
        let versions = versions.as_primitive::<UInt64Type>();
        for row in 0..batch.num_rows() {
            if versions.value(row) <= through.0 {
                let values: Vec<String> =
                    def.columns.iter().map(|column| text(batch, &column.storage_name, row)).collect();
                found.push((versions.value(row), values.join("|")));
            }
        }
    };
    for part in &read.segments {
        let dictionaries = read.dictionaries.as_ref().expect("a table with segments has dictionaries");
        let all = 0..part.segment.meta().rows;
        let cursor = SegmentCursor::new(&part.segment, def, dictionaries, all, 50).expect("a cursor");
        for chunk in cursor {
            let rows = chunk.and_then(|chunk| chunk.whole()).expect("a good chunk");
            take(&rows, part.through.unwrap_or(Version(u64::MAX)));
        }
    }
    for run in &read.tail {
        take(&run.rows, snapshot.version);
    }
    found.sort();
    found
}

fn text(batch: &RecordBatch, name: &str, row: usize) -> String {
    match batch.column_by_name(name) {
        None => "NULL".to_owned(),
        Some(column) if column.is_null(row) => "NULL".to_owned(),
        Some(column) => {
            let plain = match column.data_type() {
                Arrow::Dictionary(_, value) => cast(column, value).expect("a dictionary casts to its values"),
                _ => Arc::clone(column),
            };
            array_value_to_string(&plain, row).expect("a value prints")
        }
    }
}

/// All tables by name with their rows: what a version looks like.
pub fn contents(core: &Core) -> BTreeMap<String, Vec<String>> {
    let snapshot = snapshot(core, Freshness::Within(std::time::Duration::ZERO));
    assert_eq!(snapshot.version, core.info().visible, "freshness 0 reads everything visible");
    let tables = core.catalog().tables().map(|entry| (entry.def.name.clone(), entry.def.id)).collect::<Vec<_>>();
    let rows = |id| {
        let mut rows: Vec<String> = read(&snapshot, id).into_iter().map(|row| row.1).collect();
        rows.sort();
        rows
    };
    tables.into_iter().map(|(name, id)| (name, rows(id))).collect()
}

/// All rows, each as its values joined by '|'; NULL as that.
pub(crate) async fn shown_rows(session: &Session, sql: &str) -> Vec<String> {
    let run = async { session.sql(sql).await?.collect().await };
    shown(&run.await.unwrap_or_else(|error: Error| panic!("{sql}\n{error}")))
}

/// Rows as [`shown_rows`] has them.
pub(crate) fn shown(batches: &[RecordBatch]) -> Vec<String> {
    let options = FormatOptions::default().with_null("NULL");
    let mut rows = Vec::new();
    for batch in batches {
        let columns: Vec<ArrayFormatter> =
            batch.columns().iter().map(|column| ArrayFormatter::try_new(column.as_ref(), &options).unwrap()).collect();
        for row in 0..batch.num_rows() {
            let values: Vec<String> = columns.iter().map(|column| column.value(row).to_string()).collect();
            rows.push(values.join("|"));
        }
    }
    rows
}

/// A small deterministic generator (xorshift).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }
}
