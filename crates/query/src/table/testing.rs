//! A table with segments, some of whose rows are dead, a tail and pending rows, made by hand, and the live rows in a plain in-memory table
//! beside it.

use super::statistics::ScanCache;
use crate::namespace::tables::{PUBLIC_SCHEMA, SnapshotCatalog};
use crate::rights::{Authoriser, Who};
use crate::skipping::PredicateCache;
use crate::system::{QueryLog, SettingRow, SettingsView, SystemContext};
use crate::table::context::{IndexUse, StatementContext};
use crate::used::UsedCounters;
use alluvia_catalog::{Catalog, Change, Dictionaries, TableEntry};
use alluvia_plan::rules::configure;
use alluvia_snapshot::{
    Admin, BatchInfo, Killed, Memo, Newer, Pin, PurgeWait, Purged, Read, Snapshot, StageInfo, StoreInfo, TableRead,
    TailRead, Want,
};
use alluvia_space::weight::weight;
use alluvia_space::{Column, DataType, KeyLayout, TableDef, TableOptions, dimensions, learn};
use alluvia_storage::{Cache, Disk, FaultDisk};
use alluvia_tree::{
    BLOCK_ROWS, Dead, DeadRows, KilledRows, LadderWriter, RowChunk, Segment, SegmentMeta, SegmentRows, SegmentWriter,
    TreeContext, by_band,
};
use alluvia_types::{
    Clock, ColumnId, Error, Freshness, ManualClock, ProducerMark, Result, SegmentId, Stage, TableId, Version,
};
use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatch, StringArray, UInt32Array, UInt64Array};
use arrow::compute::{concat_batches, filter_record_batch, take_record_batch};
use arrow::datatypes::{DataType as ArrowType, Field, Int64Type, Schema};
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const DIR: &str = "/db";
const CATALOG_NAME: &str = "alluvia";

pub(crate) fn column(id: u32, name: &str, data_type: DataType) -> Column {
    Column {
        id: ColumnId(id),
        name: name.to_owned(),
        storage_name: name.to_owned(),
        data_type,
        nullable: true,
        chars_max: None,
    }
}

pub(crate) fn table(name: &str, columns: &[(&str, DataType)]) -> TableDef {
    let columns: Vec<Column> =
        columns.iter().enumerate().map(|(id, &(name, data_type))| column(id as u32, name, data_type)).collect();
    TableDef {
        id: TableId(1),
        name: name.to_owned(),
        next_column_id: columns.len() as u32,
        rules: alluvia_space::TableRules::default(),
        key: None,
        columns,
        dimensions: Vec::new(),
        measures: Vec::new(),
        seed: 7,
        options: TableOptions::default(),
    }
}

/// Uniform numbers, the same on every run.
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// The version of the rows of tails.
pub(crate) const TAIL_VERSION: Version = Version(50);

/// Kills of a [`Fixture`] that may change meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct FixtureKills {
    segments: Vec<(Arc<Segment>, Arc<Dead>)>,
    tail: Vec<(TailRead, BTreeSet<(Version, usize)>)>,
}

impl FixtureKills {
    /// Rows that were killed above one version and through another; of a tail of one run.
    pub(crate) fn killed(&self, above: Version, through: Version) -> Killed {
        let of_segment = |(segment, dead): &(Arc<Segment>, Arc<Dead>)| KilledRows::new(segment, dead, above, through);
        let mut killed =
            Killed { segments: self.segments.iter().filter_map(of_segment).collect(), ..Killed::default() };
        for (run, kills) in &self.tail {
            let is_between = |version: Version| version > above && version <= through;
            let mut rows: Vec<u32> =
                kills.iter().filter(|(version, _)| is_between(*version)).map(|&(_, row)| row as u32).collect();
            rows.sort_unstable();
            match TAIL_VERSION <= above {
                true => killed.tail.push(take_record_batch(&run.rows, &UInt32Array::from(rows)).expect("takes")),
                false => killed.brief.extend(rows.into_iter().map(|row| (TAIL_VERSION, u64::from(row)))),
            }
        }
        killed
    }
}

/// One table and where its rows are.
pub(crate) struct Fixture {
    pub def: TableDef,
    /// What the table is at the snapshot; [`Self::def`] is what segments are written under.
    pub now: TableDef,
    context: TreeContext,
    dictionaries: Arc<Dictionaries>,
    pub segments: Vec<Arc<Segment>>,
    /// Kills of each segment.
    kills: BTreeMap<usize, Arc<Dead>>,
    pub tail: Vec<TailRead>,
    /// Kills of each run: version and row.
    tail_kills: BTreeMap<usize, BTreeSet<(Version, usize)>>,
    pub pending: Vec<RecordBatch>,
    /// The reader's.
    pub version: Version,
    next_segment: AtomicU64,
    scans: Arc<ScanCache>,
    pub predicates: Arc<PredicateCache>,
    /// Whether scans use these.
    pub skips: bool,
}

impl Fixture {
    /// A table with these dimensions, and ranges learnt from `sample`.
    pub(crate) fn new(mut def: TableDef, declared: &str, sample: &RecordBatch) -> Fixture {
        if !declared.is_empty() {
            def.dimensions = dimensions::parse(declared, &def.columns).expect("dimensions");
        }
        let ranges = learn::ranges(&def, std::slice::from_ref(sample));
        def.dimensions.iter_mut().zip(ranges).for_each(|(dimension, range)| dimension.range = range);
        let disk = FaultDisk::new();
        disk.create_dir_all(Path::new(DIR)).expect("directory");
        let context = TreeContext::new(disk.clone(), Arc::new(Cache::new(256 << 20)), DIR);
        let dictionaries = Dictionaries::create(disk, Path::new(DIR).join("dict"), &def).expect("dictionaries");
        Fixture {
            now: def.clone(),
            def,
            context,
            dictionaries: Arc::new(dictionaries),
            segments: Vec::new(),
            kills: BTreeMap::new(),
            tail: Vec::new(),
            tail_kills: BTreeMap::new(),
            pending: Vec::new(),
            version: Version(100),
            next_segment: AtomicU64::new(1),
            scans: ScanCache::new(),
            predicates: Arc::new(PredicateCache::new(64 << 20)),
            skips: true,
        }
    }

    /// Writes a segment of rows in the storage schema, at these versions.
    pub(crate) fn segment(&self, rows: &RecordBatch, versions: &[u64]) -> Arc<Segment> {
        let mut writer =
            SegmentWriter::create(&self.context, self.new_id(), &self.def, Stage::Merged, None).expect("creates");
        writer.write(&self.chunk(rows, versions, false)).expect("writes");
        Segment::open(&self.context, writer.finish().expect("finishes")).expect("opens")
    }

    fn new_id(&self) -> SegmentId {
        SegmentId(self.next_segment.fetch_add(1, Ordering::Relaxed))
    }

    /// Rows as they lie in a segment: in key order, or block by block in bands.
    fn chunk(&self, rows: &RecordBatch, versions: &[u64], is_banded: bool) -> RowChunk {
        let keys = KeyLayout::new(&self.def).keys(rows).expect("keys");
        let mut order: Vec<u32> = (0..rows.num_rows() as u32).collect();
        order.sort_by_key(|&row| keys[row as usize]);
        let weight = |&row: &u32| weight(Version(versions[row as usize]), row.into(), self.def.seed);
        for block in order.chunks_mut(BLOCK_ROWS).filter(|_| is_banded) {
            let weights: Vec<u64> = block.iter().map(weight).collect();
            let banded: Vec<u32> = by_band(&weights).into_iter().map(|place| block[place as usize]).collect();
            block.copy_from_slice(&banded);
        }
        let keys = order.iter().map(|&row| keys[row as usize]).collect();
        let hidden = with_versions(rows, versions);
        let rows = take_record_batch(&hidden, &UInt32Array::from(order)).expect("takes");
        let codes = self.dictionaries.remap(&self.def, &rows).expect("codes");
        RowChunk::new(rows, keys, codes)
    }

    /// A segment all of whose rows are visible.
    pub(crate) fn add_segment(&mut self, rows: &RecordBatch) {
        self.segments.push(self.segment(rows, &vec![1; rows.num_rows()]));
    }

    /// The same with a ladder.
    pub(crate) fn add_laddered_segment(&mut self, rows: &RecordBatch, is_banded: bool) {
        const RUNG_ROWS_MIN: u64 = 300;
        let (context, count) = (&self.context, rows.num_rows());
        let writer = LadderWriter::create(
            context,
            || self.new_id(),
            &self.def,
            Stage::Merged,
            None,
            count as u64,
            RUNG_ROWS_MIN,
        );
        let mut writer = writer.expect("creates");
        if is_banded {
            writer = writer.banded();
        }
        writer.write(&self.chunk(rows, &vec![1; count], is_banded)).expect("writes");
        let segment = Segment::open(context, writer.finish().expect("finishes")).expect("opens");
        self.segments.push(segment);
    }

    /// A segment that also holds rows of a later version.
    pub(crate) fn add_cut_segment(&mut self, rows: &RecordBatch, later: &RecordBatch) {
        let schema = rows.schema();
        let all = concat_batches(&schema, [rows, later]).expect("one schema");
        let mut versions = vec![1; rows.num_rows()];
        versions.resize(all.num_rows(), self.version.0 + 1);
        self.segments.push(self.segment(&all, &versions));
    }

    /// Kills a row of a segment, by its number there.
    pub(crate) fn kill(&mut self, segment: usize, row: u64, version: Version) {
        Arc::make_mut(self.kills.entry(segment).or_default()).kill(row, version);
    }

    /// Kills a row of a run of the tail.
    pub(crate) fn kill_in_tail(&mut self, run: usize, row: usize, version: Version) {
        self.tail_kills.entry(run).or_default().insert((version, row));
    }

    /// Of a segment's rows, by number, the places among the rows that it was made of.
    pub(crate) fn places(&self, segment: usize) -> Vec<u64> {
        let segment = &self.segments[segment];
        let identities = segment.identities(0..segment.meta().rows).expect("identities");
        identities.into_iter().map(|(_, ordinal)| ordinal).collect()
    }

    /// The kills so far, and the rows that they are of.
    pub(crate) fn kills(&self) -> FixtureKills {
        let of_segment = |(&at, dead): (&usize, &Arc<Dead>)| (Arc::clone(&self.segments[at]), Arc::clone(dead));
        let of_run = |(&at, kills): (&usize, &BTreeSet<(Version, usize)>)| (self.tail[at].clone(), kills.clone());
        FixtureKills {
            segments: self.kills.iter().map(of_segment).collect(),
            tail: self.tail_kills.iter().map(of_run).collect(),
        }
    }

    /// What the reader's snapshot has of the table.
    pub(crate) fn read(&self) -> TableRead {
        let rows = |(at, segment): (usize, &Arc<Segment>)| SegmentRows {
            through: (segment.meta().max_version > self.version).then_some(self.version),
            dead: self.kills.get(&at).and_then(|dead| DeadRows::new(dead, self.version)),
            ..SegmentRows::all(Arc::clone(segment))
        };
        let is_seen = |version: &Version| *version <= self.version;
        let mut is_tail_cut = false;
        let mut live = |(at, run): (usize, &TailRead)| {
            let Some(kills) = self.tail_kills.get(&at) else { return run.clone() };
            let dead: BTreeSet<usize> =
                kills.iter().filter(|(version, _)| is_seen(version)).map(|&(_, row)| row).collect();
            is_tail_cut |= !dead.is_empty();
            let live: BooleanArray = (0..run.rows.num_rows()).map(|row| Some(!dead.contains(&row))).collect();
            TailRead::new(filter_record_batch(&run.rows, &live).expect("filters"))
        };
        let tail = self.tail.iter().enumerate().map(&mut live).collect();
        let in_segments = self.kills.values().flat_map(|dead| dead.kills()).map(|(_, version)| version);
        let in_tail = self.tail_kills.values().flatten().map(|&(version, _)| version);
        TableRead {
            entry: self.entry(),
            dictionaries: Some(Arc::clone(&self.dictionaries)),
            segments: self.segments.iter().enumerate().map(rows).collect(),
            tail,
            is_tail_cut,
            killed_through: in_segments.chain(in_tail).filter(is_seen).max().unwrap_or(Version(0)),
        }
    }

    /// The reader's snapshot.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let created = Change::CreateTable { def: self.now.clone() };
        Snapshot {
            version: self.version,
            lag: Duration::from_millis(250),
            stage: Stage::Ingested,
            catalog: Arc::new(Catalog::default().apply(Version(1), &[created]).expect("creates")),
            tables: BTreeMap::from([(self.now.id, self.read())]),
            pin: Pin::detached(self.version),
        }
    }

    pub(crate) fn add_tail(&mut self, rows: &RecordBatch) {
        self.tail.push(TailRead::new(with_versions(rows, &vec![TAIL_VERSION.0; rows.num_rows()])));
    }

    /// Forgets statistics, which are kept by definition, after [`Self::now`] was changed.
    pub(crate) fn altered(&mut self) {
        self.scans = ScanCache::new();
    }

    pub(crate) fn entry(&self) -> Arc<TableEntry> {
        let created = Change::CreateTable { def: self.now.clone() };
        let catalog = Catalog::default().apply(Version(1), &[created]).expect("creates");
        Arc::clone(catalog.table(&self.now.name).expect("exists"))
    }

    /// A session whose statement reads this table, with `plain` beside it: the visible rows, without segments.
    pub(crate) fn session(&self, plain: &RecordBatch) -> (SessionContext, Arc<UsedCounters>) {
        let snapshot = Arc::new(self.snapshot());
        let catalog = Arc::clone(&snapshot.catalog);
        let used = UsedCounters::new(&snapshot);
        let context = StatementContext {
            store: Arc::new(FixedStore { clock: Arc::new(ManualClock::default()), snapshot: Arc::clone(&snapshot) }),
            snapshot,
            used: Arc::clone(&used),
            pending: (!self.pending.is_empty()).then(|| (self.now.id, self.pending.clone())).into_iter().collect(),
            sample_fraction: 1.0,
            cuboids: Arc::new(crate::answer::Cuboids::new(0)),
            skipping: self.skips.then(|| Arc::clone(&self.predicates)),
            scans: Arc::clone(&self.scans),
            index: IndexUse { rule: false, cuboids: false, accuracy: None, threads: 1, kept: Arc::default() },
        };
        let mut config = SessionConfig::new()
            .with_target_partitions(2)
            .with_default_catalog_and_schema(CATALOG_NAME, PUBLIC_SCHEMA)
            .with_create_default_catalog_and_schema(false);
        configure(&mut config);
        config.set_extension(Arc::new(SystemContext {
            snapshot: Arc::clone(&context.snapshot),
            used: Arc::clone(&used),
            admin: Arc::new(FixedAdmin),
            queries: QueryLog::new(10),
            sessions: Arc::default(),
            cuboids: Arc::clone(&context.cuboids),
            predicates: Arc::clone(&self.predicates),
            settings: Arc::new(FixedSettings),
            authoriser: Authoriser::new(Who::embedded(), "".into(), Arc::default()),
        }));
        config.set_extension(Arc::new(context));
        let state = SessionStateBuilder::new().with_config(config).with_default_features().build();
        let session = SessionContext::new_with_state(state);
        session.register_catalog(CATALOG_NAME, Arc::new(SnapshotCatalog::new(catalog)));
        let memory = MemTable::try_new(plain.schema(), vec![vec![plain.clone()]]).expect("memory table");
        let plain_catalog = datafusion::catalog::MemoryCatalogProvider::new();
        let plain_schema = Arc::new(datafusion::catalog::MemorySchemaProvider::new());
        datafusion::catalog::SchemaProvider::register_table(&*plain_schema, "plain".to_owned(), Arc::new(memory))
            .expect("registers");
        datafusion::catalog::CatalogProvider::register_schema(&plain_catalog, "public", plain_schema)
            .expect("registers");
        session.register_catalog("memory", Arc::new(plain_catalog));
        (session, used)
    }
}

/// The first column of a query's result, which is BIGINT.
pub(crate) async fn numbers(session: &SessionContext, sql: &str) -> Vec<i64> {
    let batches = session.sql(sql).await.expect(sql).collect().await.expect(sql);
    let column = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
    batches.iter().flat_map(column).collect()
}

/// A query's result as text.
pub(crate) async fn text(session: &SessionContext, sql: &str) -> String {
    let batches = session.sql(sql).await.expect(sql).collect().await.expect(sql);
    arrow::util::pretty::pretty_format_batches(&batches).expect("prints").to_string()
}

/// Adds the hidden columns.
pub(crate) fn with_versions(rows: &RecordBatch, versions: &[u64]) -> RecordBatch {
    let mut fields: Vec<Arc<Field>> = rows.schema().fields().iter().cloned().collect();
    fields.push(Arc::new(Field::new("_version", ArrowType::UInt64, true)));
    fields.push(Arc::new(Field::new("_ordinal", ArrowType::UInt64, false)));
    let mut columns: Vec<ArrayRef> = rows.columns().to_vec();
    columns.push(Arc::new(UInt64Array::from(versions.to_vec())));
    columns.push(Arc::new(UInt64Array::from_iter_values(0..rows.num_rows() as u64)));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("hidden columns")
}

/// TEXT as rows have it.
pub(crate) fn texts(values: Vec<Option<String>>) -> ArrayRef {
    arrow::compute::cast(&StringArray::from(values), &ArrowType::Utf8View).expect("casts")
}

#[derive(Debug)]
struct FixedSettings;

impl SettingsView for FixedSettings {
    fn settings(&self) -> Vec<SettingRow> {
        vec![SettingRow {
            name: "freshness".to_owned(),
            value: "5s".to_owned(),
            default_value: "0s".to_owned(),
            scope: "session",
            description: "How fresh answers must be.".to_owned(),
        }]
    }
}

/// A database of one snapshot.
#[derive(Debug)]
struct FixedStore {
    clock: Arc<dyn Clock>,
    snapshot: Arc<Snapshot>,
}

impl Read for FixedStore {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.snapshot.catalog)
    }

    fn snapshot(&self, _want: &Want) -> Result<Snapshot> {
        Ok(self.snapshot.as_ref().clone())
    }

    fn required(&self, _freshness: Freshness, _at_least: Version) -> Version {
        self.snapshot.version
    }

    fn lag(&self, _version: Version) -> Duration {
        self.snapshot.lag
    }

    fn newer(&self, _table: TableId, _above: Version, _from: Version) -> Option<Newer> {
        None
    }

    fn killed(&self, _table: TableId, _above: Version, _through: Version) -> Option<Killed> {
        None
    }

    fn wait_visible(&self, _version: Version) -> Result<()> {
        refused()
    }
}

/// A database that always tells the same, and keeps nothing.
#[derive(Debug)]
pub(crate) struct FixedAdmin;

fn refused<T>() -> Result<T> {
    Err(Error::internal("the database of scan tests takes nothing"))
}

impl Admin for FixedAdmin {
    fn organise(&self, _stage: Stage) -> Result<()> {
        refused()
    }

    fn purge(&self, _table: TableId, _wait: &mut dyn FnMut(&PurgeWait) -> Result<()>) -> Result<Purged> {
        refused()
    }

    fn recall(&self, _memo: &Memo) -> Result<Option<Vec<u8>>> {
        refused()
    }

    fn memorise(&self, _memo: &Memo, _content: &[u8]) -> Result<()> {
        refused()
    }

    fn audit(&self, _lines: &[u8]) -> Result<()> {
        refused()
    }

    fn audited(&self, _bytes_max: u64) -> Result<Vec<u8>> {
        Ok(Vec::new())
    }

    fn batches(&self, _limit: usize) -> Vec<BatchInfo> {
        vec![BatchInfo {
            version: Version(7),
            commit_micros: 1_000_000,
            rows: 3,
            tables: vec![TableId(1), TableId(5)],
            changes: 0,
            bytes: 99,
            producer: Some(ProducerMark { name: "p".to_owned(), epoch: 1, sequence: 2 }),
            key: None,
        }]
    }

    fn stages(&self) -> Vec<StageInfo> {
        vec![StageInfo {
            table: TableId(1),
            stage: Stage::Sorted,
            watermark: Version(6),
            staleness: Duration::from_millis(1_500),
            rows: 10,
            bytes: 1_000,
            parts: 2,
        }]
    }

    fn segments(&self) -> Vec<SegmentMeta> {
        Vec::new()
    }

    fn info(&self) -> StoreInfo {
        StoreInfo {
            visible: Version(7),
            tail_bytes: 1,
            tail_bytes_max: 2,
            writers_waiting: 0,
            log_bytes: 3,
            log_groups: 1,
            published: Default::default(),
            read_only: None,
            cache_bytes: 4,
            pipeline_error: None,
        }
    }
}
