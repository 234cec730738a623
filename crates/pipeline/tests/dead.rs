//! Dead rows in merged segments: which are written away, when, and that no version that may be asked for loses a row (K5).
//!
//! Two tables on a disk in memory, one in bands along a dimension and one in the order of arrival, beside a model: for each
//! row the versions at which it came and was killed.

use alluvia_catalog::{Catalog, Change};
use alluvia_keys::RowPlace;
use alluvia_log::{Log, LogOptions};
use alluvia_pipeline::{Inline, Pipeline, PipelineOptions, open};
use alluvia_snapshot::{BatchInfo, KeyFiles, Published, PurgeWait, Snapshot, Spaces, TailBounds, Views, Want};
use alluvia_space::{Column, DataType, ORDINAL_COLUMN, TableDef, TableOptions, TableRules, VERSION_COLUMN, dimensions};
use alluvia_storage::{Cache, Disk, FaultDisk, Survival};
use alluvia_tree::{SegmentCursor, TreeContext};
use alluvia_types::{ColumnId, Error, ErrorKind, Freshness, ManualClock, Result, Stage, TableId, Version};
use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, UInt64Array};
use arrow::datatypes::{Int64Type, UInt64Type};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DIR: &str = "/db";
const BANDED: TableId = TableId(1);
const PLAIN: TableId = TableId(2);
const TABLES: [TableId; 2] = [BANDED, PLAIN];
const NEWEST: Freshness = Freshness::Within(Duration::ZERO);

fn table(id: TableId, declared: &str) -> TableDef {
    let columns = vec![Column {
        id: ColumnId(0),
        name: "id".to_owned(),
        storage_name: "id".to_owned(),
        data_type: DataType::Int64,
        nullable: true,
        chars_max: None,
    }];
    let dimensions = match declared {
        "" => Vec::new(),
        declared => dimensions::parse(declared, &columns).expect("a good declaration"),
    };
    TableDef {
        id,
        schema: "public".to_owned(),
        name: format!("t{}", id.0),
        columns,
        next_column_id: 1,
        key: None,
        rules: TableRules::default(),
        indexes: Vec::new(),
        foreign_keys: Vec::new(),
        dimensions,
        measures: Vec::new(),
        seed: 7,
        options: TableOptions::default(),
    }
}

/// When a row came, and when it was killed.
type Life = (u64, Option<u64>);

/// The pipeline, and what it should have.
struct World {
    disk: Arc<FaultDisk>,
    views: Arc<Views>,
    log: Arc<Log>,
    pipeline: Pipeline,
    model: BTreeMap<TableId, BTreeMap<i64, Life>>,
    rows: i64,
}

/// The nth row's number: rows do not come in the order of their numbers.
fn id_of(nth: i64) -> i64 {
    nth * 7_919 % 1_000 + nth / 1_000 * 1_000
}

impl World {
    fn new() -> World {
        let disk = FaultDisk::new();
        for dir in ["/db/segments", "/db/log"] {
            disk.create_dir_all(Path::new(dir)).expect("a directory");
        }
        let world = World::opened(&disk);
        let defs = [table(BANDED, "number(id: linear 0..1000)"), table(PLAIN, "")];
        let changes = defs.map(|def| Change::CreateTable { def });
        let catalog = world.views.catalog().apply(Version(1), &changes).expect("new tables");
        world.publish(Vec::new(), Some(Arc::new(catalog)));
        world
    }

    /// What is on the disk, without the log: it has what was sorted.
    fn opened(disk: &Arc<FaultDisk>) -> World {
        let (disk, dir) = (Arc::clone(disk), Path::new(DIR));
        let shared: Arc<dyn Disk> = disk.clone();
        let tree = TreeContext::new(Arc::clone(&shared), Arc::new(Cache::new(1 << 20)), dir.join("segments"));
        let spaces = Arc::new(Spaces::new(Arc::clone(&shared), dir.into()));
        let opened = open(disk.as_ref(), dir, &tree, &spaces, 42, &BTreeMap::new()).expect("it opens");
        let manifest = opened.manifest;
        let views = Arc::new(Views::new(
            Arc::new(ManualClock::default()),
            tree,
            spaces,
            manifest.catalog.clone(),
            manifest.producers.clone(),
            opened.base,
            opened.dead,
            TailBounds::unstepped(32 << 20),
        ));
        let log = LogOptions::new(manifest.database);
        let log = Log::open(Arc::clone(&shared), &dir.join("log"), log, manifest.through, &mut |_| Ok(()));
        let log = Arc::new(log.expect("a log"));
        let (key_files, _) = KeyFiles::load(disk.as_ref(), dir, manifest.keys.as_deref()).expect("no keys");
        let options = PipelineOptions {
            segment_rows: 64,
            merge_segments: 2,
            partition_rows_max: 200,
            chunk_rows: 32,
            rung_rows_min: 3,
            ..PipelineOptions::default()
        };
        let pipeline = Pipeline::new(
            dir.into(),
            &manifest,
            Arc::clone(&views),
            Arc::clone(&log),
            Arc::new(Inline),
            options,
            manifest.next_segment,
            manifest.next_table,
            manifest.next_kills,
            key_files,
        );
        World { disk, views, log, pipeline, model: BTreeMap::new(), rows: 0 }
    }

    /// Publishes a batch, of which the log has the version alone: it is not replayed here.
    fn publish(&self, rows: Vec<(TableId, RecordBatch, u64)>, catalog: Option<Arc<Catalog>>) {
        let version = self.views.visible().next();
        self.log.append(version, 0, b"").expect("it is appended");
        self.log.sync_through(version).expect("it is durable");
        let info = BatchInfo {
            version,
            commit_micros: 0,
            rows: rows.iter().map(|(_, rows, _)| rows.num_rows() as u64).sum(),
            tables: rows.iter().map(|(table, ..)| *table).collect(),
            changes: 0,
            bytes: 0,
            producer: None,
            key: None,
        };
        let batch = Published { info, catalog, rows, keys: Vec::new(), loads: Vec::new(), room: None };
        self.views.publish(&mut vec![batch], false).expect("it is published");
    }

    fn insert(&mut self, table: TableId, count: usize) {
        let version = self.views.visible().next().0;
        let ids: Vec<i64> = (self.rows..).take(count).map(id_of).collect();
        self.rows += count as i64;
        let columns: [(&str, ArrayRef); 3] = [
            ("id", Arc::new(Int64Array::from(ids.clone()))),
            (VERSION_COLUMN, Arc::new(UInt64Array::from(vec![version; count]))),
            (ORDINAL_COLUMN, Arc::new(UInt64Array::from_iter_values(0..count as u64))),
        ];
        let rows = RecordBatch::try_from_iter(columns).expect("three columns");
        self.publish(vec![(table, rows, 8 * count as u64)], None);
        let model = self.model.entry(table).or_default();
        ids.into_iter().for_each(|id| assert!(model.insert(id, (version, None)).is_none()));
    }

    /// Kills those of the living rows of which `picks` says so.
    fn kill(&mut self, table: TableId, mut picks: impl FnMut(i64) -> bool) -> usize {
        let places = places(&self.snapshot(NEWEST, &[table]), table);
        let version = self.views.visible().next();
        let mut killed = Vec::new();
        for (id, life) in self.model.entry(table).or_default().iter_mut().filter(|(_, life)| life.1.is_none()) {
            if picks(*id) {
                life.1 = Some(version.0);
                killed.push(places[id]);
            }
        }
        let count = killed.len();
        self.views.kill(version, vec![(table, killed)]);
        self.publish(Vec::new(), None);
        count
    }

    fn sort(&self) {
        while self.pipeline.sort().expect("it sorts") {}
    }

    /// As the thread of merges in a hurry.
    fn merge(&self) -> bool {
        let tables = self.pipeline.tables_to_merge(true);
        tables.into_iter().fold(false, |any, table| any | self.pipeline.merge(table).expect("it merges"))
    }

    fn snapshot(&self, freshness: Freshness, tables: &[TableId]) -> Snapshot {
        let want = Want { freshness, at_least: Version(0), exactly: None, tables: tables.to_vec() };
        self.views.snapshot(&want).expect("a snapshot")
    }

    /// Compares a snapshot with the model at its version.
    fn check(&self, snapshot: &Snapshot, tables: &[TableId]) {
        let version = snapshot.version.0;
        for &table in tables {
            let found: BTreeSet<i64> = places(snapshot, table).into_keys().collect();
            let is_alive = |life: &Life| life.0 <= version && life.1.is_none_or(|killed| killed > version);
            let model = self.model.get(&table).into_iter().flatten();
            let expected: BTreeSet<i64> = model.filter(|(_, life)| is_alive(life)).map(|(id, _)| *id).collect();
            assert_eq!(found, expected, "table {table} at version {version}, {:?}", snapshot.stage);
        }
    }

    fn check_all(&self) {
        for freshness in [NEWEST, Freshness::Merged] {
            for tables in [&TABLES[..], &TABLES[..1], &TABLES[1..]] {
                self.check(&self.snapshot(freshness, tables), tables);
            }
        }
        let of_stages: u64 = self.views.stages().iter().map(|stage| stage.dead_rows).sum();
        let of_segments: u64 = self.views.segment_infos().iter().map(|segment| segment.dead_rows).sum();
        let ever = self.model.values().flat_map(BTreeMap::values).filter(|life| life.1.is_some()).count() as u64;
        assert!(of_segments <= of_stages && of_stages <= ever, "{of_segments}, {of_stages}, {ever}");
    }

    /// Rows and dead rows of the segments of a table.
    fn segments(&self, table: TableId) -> Vec<(u64, u64)> {
        let infos = self.views.segment_infos().into_iter().filter(|segment| segment.meta.table == table);
        infos.map(|segment| (segment.meta.rows, segment.dead_rows)).collect()
    }

    fn dead_rows(&self, table: TableId) -> u64 {
        self.segments(table).iter().map(|(_, dead)| *dead).sum()
    }
}

/// Where each row of a table is that a snapshot has.
fn places(snapshot: &Snapshot, table: TableId) -> BTreeMap<i64, RowPlace> {
    let Some(read) = snapshot.tables.get(&table) else { return BTreeMap::new() };
    let mut found = BTreeMap::new();
    let mut add = |id: i64, place| assert!(found.insert(id, place).is_none(), "row {id} is there twice");
    for part in &read.segments {
        let (segment, rows) = (part.segment.meta().id, part.segment.meta().rows);
        let dictionaries = read.dictionaries.as_ref().expect("a table with segments has dictionaries");
        let mut cursor =
            SegmentCursor::new(&part.segment, &read.entry.def, dictionaries, 0..rows, 32).expect("a cursor");
        let mut row = 0;
        while let Some(chunk) = cursor.next_ordered().expect("rows are read") {
            let whole = chunk.rows().whole().expect("whole rows");
            let versions = whole.column_by_name(VERSION_COLUMN).expect("it is kept").as_primitive::<UInt64Type>();
            for (at, id) in whole.column(0).as_primitive::<Int64Type>().values().iter().enumerate() {
                let is_seen = part.through.is_none_or(|through| versions.value(at) <= through.0);
                let is_dead = part.dead.as_ref().is_some_and(|dead| dead.contains(u64::from(row)));
                if is_seen && !is_dead {
                    add(*id, RowPlace::Segment { segment, row });
                }
                row += 1;
            }
        }
        assert_eq!(u64::from(row), rows);
    }
    for run in &read.tail {
        let hidden = |name: &str| run.rows.column_by_name(name).expect("hidden").as_primitive::<UInt64Type>().clone();
        let (versions, ordinals) = (hidden(VERSION_COLUMN), hidden(ORDINAL_COLUMN));
        for (at, id) in run.rows.column(0).as_primitive::<Int64Type>().values().iter().enumerate() {
            add(*id, RowPlace::Tail { version: Version(versions.value(at)), ordinal: ordinals.value(at) });
        }
    }
    found
}

fn working(wait: &PurgeWait) -> Result<()> {
    match wait {
        PurgeWait::Working => Ok(()),
        _ => Err(Error::new(ErrorKind::Cancelled, format!("it would wait: {wait:?}"))),
    }
}

#[test]
fn a_segment_is_written_anew_once_half_of_it_is_dead() {
    for (table, rows) in [(BANDED, 100), (PLAIN, 60)] {
        let mut world = World::new();
        world.insert(table, rows);
        world.sort();
        while world.merge() {}
        let (rows, half) = (rows as u64, rows as u64 / 2);
        assert_eq!(world.segments(table), [(rows, 0)]);
        let mut left = half - 1;
        world.kill(table, |_| {
            let is_picked = left > 0;
            left = left.saturating_sub(1);
            is_picked
        });
        world.sort();
        assert!(world.pipeline.tables_to_merge(true).is_empty() && !world.merge());
        assert_eq!(world.segments(table), [(rows, half - 1)]);
        // Somebody reads, at whose version the next one lives.
        let held = world.snapshot(NEWEST, &TABLES);
        let mut is_picked = true;
        world.kill(table, |_| std::mem::take(&mut is_picked));
        world.sort();
        assert!(!world.merge());
        assert_eq!(world.segments(table), [(rows, half)]);
        world.check(&held, &TABLES);
        drop(held);
        assert!(world.pipeline.tables_to_merge(false).is_empty());
        assert_eq!(world.pipeline.tables_to_merge(true), [table]);
        assert!(world.merge() && !world.merge());
        assert_eq!(world.segments(table), [(half, 0)]);
        world.check_all();
        world.kill(table, |_| true);
        world.sort();
        assert!(world.merge() && !world.merge());
        assert_eq!(world.segments(table), []);
        world.check_all();
        // It is so on the disk, too.
        let again = World::opened(&world.disk.after_power_loss(Survival::SyncedOnly));
        assert_eq!(again.segments(table), []);
    }
}

#[test]
fn one_segment_at_a_time_loses_its_old_dead_rows() {
    let mut world = World::new();
    for _ in 0..2 {
        // Too large for one to take the other along.
        world.insert(PLAIN, 64);
        world.sort();
        while world.merge() {}
    }
    assert_eq!(world.segments(PLAIN), [(64, 0), (64, 0)]);
    assert_eq!(world.kill(PLAIN, |id| id == id_of(3) || id == id_of(100)), 2);
    let old = world.views.visible();
    assert_eq!(world.kill(PLAIN, |id| id == id_of(7)), 1);
    world.sort();
    assert_eq!(world.dead_rows(PLAIN), 3);
    let through = |version: u64| [(BANDED, Version(version)), (PLAIN, Version(version))];
    assert_eq!(world.pipeline.rewrite_old(&through(old.0 - 1)).unwrap(), None);
    let held = world.snapshot(NEWEST, &TABLES);
    for _ in 0..2 {
        let (table, done) = world.pipeline.rewrite_old(&through(old.0)).unwrap().expect("one has old ones");
        assert_eq!((table, done.segments), (PLAIN, 1));
        world.check(&held, &TABLES);
    }
    // That of the younger one went with its segment.
    assert_eq!((world.dead_rows(PLAIN), world.pipeline.rewrite_old(&through(old.0)).unwrap()), (0, None));
    world.check_all();
}

#[test]
fn old_dead_rows_go_of_every_table_though_one_always_has_some() {
    let mut world = World::new();
    TABLES.into_iter().for_each(|table| world.insert(table, 64));
    world.sort();
    while world.merge() {}
    assert_eq!(world.kill(PLAIN, |id| id == id_of(70)), 1);
    let mut served = Vec::new();
    for nth in 0..4 {
        assert_eq!(world.kill(BANDED, |id| id == id_of(nth)), 1);
        world.sort();
        let old = TABLES.map(|table| (table, world.views.visible()));
        served.push(world.pipeline.rewrite_old(&old).unwrap().expect("there are some").0);
    }
    assert_eq!(served, [BANDED, PLAIN, BANDED, BANDED]);
    world.check_all();
}

#[test]
fn a_purge_needs_no_merge_of_other_tables_and_is_stopped_between_segments() {
    let mut world = World::new();
    world.insert(BANDED, 10);
    world.sort();
    while world.merge() {}
    for _ in 0..3 {
        world.insert(PLAIN, 64);
        world.sort();
        while world.merge() {}
    }
    // Where the merged stage of both ends.
    world.insert(BANDED, 10);
    world.sort();
    world.kill(PLAIN, |id| id % 4 == 0);
    world.sort();
    let sorted = |world: &World| {
        let infos = world.views.segment_infos().into_iter().filter(|one| one.meta.table == BANDED);
        infos.filter(|one| one.meta.stage == Stage::Sorted).count()
    };
    assert_eq!(sorted(&world), 1);
    let closed = world.views.visible();
    let merged = world.snapshot(Freshness::Merged, &TABLES);
    assert!(merged.version < closed && merged.stage == Stage::Merged);
    let stopped = world.pipeline.purge(PLAIN, closed, &mut working).unwrap_err();
    assert!(stopped.message().contains("Snapshots"), "{stopped}");
    world.check(&merged, &TABLES);
    drop(merged);
    let dead = world.dead_rows(PLAIN);
    let mut asked = 0;
    let error = world.pipeline.purge(PLAIN, closed, &mut |wait| {
        asked += 1;
        if asked == 3 { Err(Error::new(ErrorKind::Cancelled, "enough")) } else { working(wait) }
    });
    assert_eq!(error.unwrap_err().message(), "enough");
    assert!((1..dead).contains(&world.dead_rows(PLAIN)), "after one of three segments");
    world.check_all();
    let purged = world.pipeline.purge(PLAIN, closed, &mut working).unwrap();
    assert_eq!((world.dead_rows(PLAIN), purged.segments), (0, 2));
    assert_eq!(sorted(&world), 1, "the other table is as it was");
    world.check_all();
    // What is read of what is merged is not older than what went, after a start either.
    let mut again = World::opened(&world.disk.after_power_loss(Survival::SyncedOnly));
    again.model = world.model.clone();
    again.check_all();
    while world.merge() {}
    world.check_all();
    assert_eq!(world.snapshot(Freshness::Merged, &TABLES).stage, Stage::Merged);
}

#[derive(Clone, Debug)]
enum Step {
    Insert(usize, usize),
    /// Kills one of so many rows, about.
    Kill(usize, i64, i64),
    Sort,
    Merge,
    MergeOne(usize),
    Old(usize, u64),
    Purge(usize),
    Hold(bool),
    Release(usize),
    Reopen,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0usize..2, 1usize..120).prop_map(|(table, rows)| Step::Insert(table, rows)),
        6 => (0usize..2, 1i64..6, 1i64..1_000).prop_map(|(table, of, by)| Step::Kill(table, of, by)),
        5 => Just(Step::Sort),
        4 => Just(Step::Merge),
        2 => (0usize..2).prop_map(Step::MergeOne),
        2 => (0usize..2, 0u64..40).prop_map(|(table, before)| Step::Old(table, before)),
        2 => (0usize..2).prop_map(Step::Purge),
        3 => any::<bool>().prop_map(Step::Hold),
        3 => (0usize..8).prop_map(Step::Release),
        1 => Just(Step::Reopen),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// Whatever is sorted, merged and purged, held snapshots and new ones of every freshness have the rows of the model.
    #[test]
    fn no_askable_version_loses_a_row(steps in prop::collection::vec(step(), 1..50)) {
        let mut world = World::new();
        let mut held: Vec<Snapshot> = Vec::new();
        for step in steps {
            match step {
                Step::Insert(table, rows) => world.insert(TABLES[table], rows),
                Step::Kill(table, of, by) => {
                    world.kill(TABLES[table], |id| (id * 31 + by) % of == 0);
                }
                Step::Sort => world.sort(),
                Step::Merge => {
                    world.merge();
                }
                Step::MergeOne(table) => {
                    world.pipeline.merge(TABLES[table]).unwrap();
                }
                Step::Old(table, before) => {
                    let through = Version(world.views.visible().0.saturating_sub(before));
                    world.pipeline.rewrite_old(&[(TABLES[table], through)]).unwrap();
                }
                Step::Purge(table) => {
                    let closed = world.views.visible();
                    match world.pipeline.purge(TABLES[table], closed, &mut working) {
                        Ok(_) => prop_assert_eq!(world.dead_rows(TABLES[table]), 0),
                        Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Cancelled),
                    }
                }
                Step::Hold(is_merged) => {
                    held.push(world.snapshot(if is_merged { Freshness::Merged } else { NEWEST }, &TABLES));
                }
                Step::Release(at) if at < held.len() => drop(held.swap_remove(at)),
                Step::Release(_) => {}
                Step::Reopen => {
                    // The log is not replayed here.
                    world.sort();
                    held.clear();
                    let World { disk, model, rows, .. } = world;
                    world = World { model, rows, ..World::opened(&disk) };
                }
            }
            held.iter().for_each(|snapshot| world.check(snapshot, &TABLES));
            world.check_all();
        }
    }
}
