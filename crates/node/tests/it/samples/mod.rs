//! Samples against a model: all rows with the identities they have, weighed and filtered one by one.
//!
//! The clock stands still, so that a table's seed is the same on every run; nothing is sorted or merged unless it is asked for.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

mod fractions;
mod honoured;
mod ladders;
mod outlines;
mod thin;

use alluvia_node::{Database, DatabaseOptions};
use alluvia_pipeline::PipelineOptions;
use alluvia_query::{ScalarValue, Session};
use alluvia_snapshot::{Admin, Read, Want};
use alluvia_space::weight::{weight, weight_limit};
use alluvia_space::{ORDINAL_COLUMN, VERSION_COLUMN};
use alluvia_storage::RealDisk;
use alluvia_tree::SegmentCursor;
use alluvia_types::{Freshness, ManualClock, Stage, Version};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{Float64Type, Int64Type, UInt64Type};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

/// Points whose values follow the curve they are stored along: clusters, each a small box, in runs.
const POINTS: &str = "CREATE TABLE points (id BIGINT, x DOUBLE, y DOUBLE, z DOUBLE, kind TEXT)
    WITH (dimensions = 'x(x: linear 0..64); y(y: linear 0..64); z(z: linear 0..64); kind', measures = 'z')";

/// Rows of ids from `first`, 500 a cluster.
fn insert(first: u64, count: u64) -> String {
    format!(
        "INSERT INTO points SELECT id, (cluster * 37) % 64 + (id * 7 % 500) / 1000.0, (cluster * 11) % 64 + (id * 13 % 500) / 1000.0, \
         (cluster * 5) % 64 + (id * 17 % 500) / 1000.0, 'kind ' || (cluster % 5)::text \
         FROM (SELECT value AS id, value / 500 AS cluster FROM generate_series({first}, {}))",
        first + count - 1
    )
}

fn open(path: &Path) -> Database {
    let pipeline = PipelineOptions {
        sort_interval: DAY,
        merge_interval: DAY,
        merge_segments: 1_000,
        segment_rows: 4_000,
        chunk_rows: 3_000,
        partition_rows_max: 30_000,
        rung_rows_min: 40,
        ..PipelineOptions::default()
    };
    let options = DatabaseOptions { pipeline, ..DatabaseOptions::default() };
    let clock = Arc::new(ManualClock::default());
    clock.advance(Duration::from_secs(1_700_000_000));
    Database::open_on(Arc::new(RealDisk::new()), clock, path, options).expect("opens")
}

struct World {
    db: Database,
    session: Session,
    _dir: tempfile::TempDir,
}

/// Where the rows of a world lie.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Lie {
    Tail,
    Sorted,
    Merged,
    /// Merged with ladders, merged later, sorted, staged, in the tail, and in the open transaction.
    Mixed,
}

const LIES: [Lie; 4] = [Lie::Tail, Lie::Sorted, Lie::Merged, Lie::Mixed];

impl World {
    /// `rows` points, lying so.
    async fn new(lie: Lie, rows: u64) -> World {
        World::created(POINTS, lie, rows).await
    }

    /// The same, of a table whose ladders begin at a rung.
    async fn laddered(ladder: &str, lie: Lie, rows: u64) -> World {
        let points = POINTS.replace("measures = 'z'", &format!("measures = 'z', ladder = '{ladder}'"));
        World::created(&points, lie, rows).await
    }

    async fn created(points: &str, lie: Lie, rows: u64) -> World {
        let dir = tempfile::tempdir().expect("a directory");
        let db = open(&dir.path().join("db"));
        let session = db.session();
        let world = World { db, session, _dir: dir };
        world.run(points).await;
        match lie {
            Lie::Tail => world.run(&insert(0, rows)).await,
            Lie::Sorted => {
                world.run(&insert(0, rows)).await;
                world.organise(Stage::Sorted);
            }
            Lie::Merged => {
                world.run(&insert(0, rows)).await;
                world.organise(Stage::Merged);
            }
            Lie::Mixed => {
                let part = rows / 8;
                world.run(&insert(0, 4 * part)).await;
                world.organise(Stage::Merged);
                world.run(&insert(4 * part, part)).await;
                world.organise(Stage::Sorted);
                world.run(&insert(5 * part, part)).await;
                world.organise(Stage::Sorted);
                world.run(&insert(6 * part, part)).await;
                world.run("BEGIN").await;
                world.run(&insert(7 * part, part / 2)).await;
                world.run(&insert(7 * part + part / 2, rows - 7 * part - part / 2)).await;
            }
        }
        world
    }

    fn organise(&self, stage: Stage) {
        self.db.core().organise(stage).expect("organises");
    }

    async fn run(&self, sql: &str) {
        self.session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}")).collect().await.expect(sql);
    }

    async fn rows(&self, sql: &str) -> Vec<RecordBatch> {
        let outcome = self.session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        outcome.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The first column, which is BIGINT.
    async fn ids(&self, sql: &str) -> Vec<i64> {
        let column = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
        self.rows(sql).await.iter().flat_map(column).collect()
    }

    async fn id_set(&self, sql: &str) -> BTreeSet<i64> {
        let ids = self.ids(sql).await;
        let set: BTreeSet<i64> = ids.iter().copied().collect();
        assert_eq!(set.len(), ids.len(), "a row comes twice: {sql}");
        set
    }

    async fn number(&self, sql: &str) -> i64 {
        self.ids(sql).await[0]
    }

    /// EXPLAIN ANALYZE, with the metrics of all operators as they are.
    async fn explained(&self, sql: &str) -> Plan {
        let rows = self.rows(&format!("EXPLAIN (ANALYZE, FORMAT indent) {sql}")).await;
        Plan { text: arrow::util::pretty::pretty_format_batches(&rows).expect("shows").to_string() }
    }

    /// Every point's id by its identity, read without any planner. Rows of the open transaction are in the order they came in.
    fn identities(&self) -> (u64, BTreeMap<i64, (u64, u64)>) {
        let core = self.db.core();
        let catalog = core.catalog();
        let entry = catalog.table("points").expect("exists");
        let want = Want {
            freshness: Freshness::Within(Duration::ZERO),
            at_least: Version(0),
            exactly: None,
            tables: vec![entry.def.id],
        };
        let snapshot = core.snapshot(&want).expect("a snapshot");
        let read = &snapshot.tables[&entry.def.id];
        let mut found = BTreeMap::new();
        let mut take = |batch: &RecordBatch| {
            let numbers = |name: &str| batch.column_by_name(name).expect(name).as_primitive::<UInt64Type>().clone();
            let ids = batch.column_by_name("id").expect("ids").as_primitive::<Int64Type>();
            let (versions, ordinals) = (numbers(VERSION_COLUMN), numbers(ORDINAL_COLUMN));
            for row in 0..batch.num_rows() {
                found.insert(ids.value(row), (versions.value(row), ordinals.value(row)));
            }
        };
        for part in &read.segments {
            let dictionaries = read.dictionaries.as_ref().expect("a table with segments has dictionaries");
            let all = 0..part.segment.meta().rows;
            let cursor = SegmentCursor::new(&part.segment, &entry.def, dictionaries, all, 5_000).expect("a cursor");
            cursor.for_each(|chunk| take(&chunk.expect("a good chunk").rows));
        }
        read.tail.iter().for_each(|run| take(&run.rows));
        (entry.def.seed, found)
    }

    /// Every point's weight under the table's seed, and under that of REPEATABLE (`repeatable`).
    async fn weights(&self, repeatable: Option<f64>) -> BTreeMap<i64, u64> {
        let (own, mut identities) = self.identities();
        let mut pending = 0;
        for id in self.ids("SELECT id FROM points ORDER BY id").await {
            identities.entry(id).or_insert_with(|| {
                pending += 1;
                (u64::MAX, pending - 1)
            });
        }
        let seed = repeatable.map_or(own, |seed| weight(Version(seed.to_bits()), 0, own));
        let weighed = |(id, (version, ordinal))| (id, weight(Version(version), ordinal, seed));
        identities.into_iter().map(weighed).collect()
    }
}

/// What EXPLAIN ANALYZE shows.
struct Plan {
    text: String,
}

impl Plan {
    /// The sum of a counter over all scans.
    fn metric(&self, name: &str) -> u64 {
        let mut sum = 0.0;
        for found in self.text.split(&format!("{name}=")).skip(1) {
            let end = found.find([',', ']', '|']).unwrap_or(found.len());
            let number = found[..end].trim();
            let (digits, scale) = match number.split_once(' ') {
                Some((digits, "K")) => (digits, 1e3),
                Some((digits, "M")) => (digits, 1e6),
                _ => (number, 1.0),
            };
            sum += digits.parse::<f64>().unwrap_or_else(|_| panic!("{name} is {number}")) * scale;
        }
        sum as u64
    }
}

/// The rows of a share.
fn lighter(weights: &BTreeMap<i64, u64>, fraction: f64) -> BTreeSet<i64> {
    let below = weight_limit(fraction);
    let light = |(_, weight): &(&i64, &u64)| below.is_none_or(|below| **weight < below);
    weights.iter().filter(light).map(|(id, _)| *id).collect()
}

/// The doubles of a column.
fn doubles(batches: &[RecordBatch], column: &str) -> Vec<f64> {
    let of = |batch: &RecordBatch| {
        batch.column_by_name(column).expect(column).as_primitive::<Float64Type>().values().to_vec()
    };
    batches.iter().flat_map(of).collect()
}

/// The ids that a prepared statement gives.
async fn prepared_ids(session: &Session, sql: &str, values: &[ScalarValue]) -> BTreeSet<i64> {
    let prepared = session.prepare(sql).expect(sql);
    let batches = session.execute_prepared(&prepared, values).await.expect(sql).collect().await.expect(sql);
    let column = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
    batches.iter().flat_map(column).collect()
}
