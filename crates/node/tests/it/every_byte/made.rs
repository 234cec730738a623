//! A small database that has every kind of file, and older states of its directory.
//!
//! Invariant: it is made the same, byte for byte but for what is random by design (the database's number, seeds of tables, secrets of keys),
//! and nothing is sorted or merged but where it is asked for.

use crate::support::{self, DIR};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_pipeline::PipelineOptions;
use alluvia_snapshot::{BatchKey, Durability, Ingest, NewBatch, NewRows, Read};
use alluvia_storage::{Disk, FaultDisk, Survival};
use alluvia_types::{Clock, ManualClock, ProducerMark, Result, TableId};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Batches that are sent again: the first has left the log, the second has not.
pub const KEYS: [&str; 2] = ["left the log", "in the log"];
pub const PRODUCERS: [&str; 2] = ["early", "late"];

/// What was made.
pub struct Made {
    /// After a clean stop.
    pub stopped: Arc<FaultDisk>,
    /// The same without a clean stop.
    pub killed: Arc<FaultDisk>,
    /// What was there after earlier clean stops, the oldest first.
    pub older: Vec<Arc<FaultDisk>>,
}

/// Small segments with ladders, and no stage that begins by itself.
fn options(spill: &Path) -> DatabaseOptions {
    let never = Duration::from_secs(1 << 40);
    let pipeline = PipelineOptions {
        sort_interval: never,
        merge_interval: never,
        segment_rows: 4096,
        merge_segments: 1000,
        partition_rows_max: 200,
        rung_rows_min: 4,
        ..PipelineOptions::default()
    };
    DatabaseOptions { spill_dir: Some(spill.into()), pipeline, log_file_bytes_max: 6 << 10, ..support::options() }
}

/// Opens what is on a disk.
pub fn open(disk: &Arc<FaultDisk>, spill: &Path, at: Duration) -> Result<Database> {
    let clock = ManualClock::default();
    clock.advance(at);
    let clock: Arc<dyn Clock> = Arc::new(clock);
    Database::open_on(Arc::clone(disk) as Arc<dyn Disk>, clock, Path::new(DIR), options(spill))
}

/// A copy of all that is there.
pub fn copy(disk: &Arc<FaultDisk>) -> Arc<FaultDisk> {
    disk.after_power_loss(Survival::Everything)
}

/// A table's id by its name.
pub fn table(db: &Database, name: &str) -> Option<TableId> {
    db.core().catalog().tables().find(|entry| entry.def.name == name).map(|entry| entry.def.id)
}

/// A batch with a key, or of a producer; sent for the first time or again.
pub fn send(db: &Database, key: Option<&str>, producer: Option<&str>) -> Result<bool> {
    let table = table(db, "sent").expect("the table is there");
    let text = key.or(producer).expect("one of them");
    let rows = support::rows(&[(text.len() as i64, text)]);
    let checked_at = db.core().catalog().by_id(table).expect("it is there").changed_at;
    let batch = NewBatch {
        rows: vec![NewRows::insert(table, checked_at, vec![rows])],
        key: key.map(|key| BatchKey::new(table, key)),
        producer: producer.map(|name| ProducerMark { name: name.to_owned(), epoch: 1, sequence: 1 }),
        ..NewBatch::default()
    };
    db.core().submit(batch, Durability::Sync).map(|committed| committed.duplicate)
}

const DEFINITIONS: &[&str] = &[
    "CREATE TABLE visits (country TEXT, city TEXT, at TIMESTAMP, n BIGINT, price DOUBLE) WITH (dimensions = 'place(country, city); time(at: year, month)', measures = 'n, price')",
    "CREATE TABLE goods (id BIGINT PRIMARY KEY, kind TEXT, price DECIMAL(8, 2)) WITH (dimensions = 'kind', measures = 'price', purge_after = '30d')",
    "CREATE TABLE named (name TEXT PRIMARY KEY, n INT) WITH (on_conflict = 'replace')",
    "CREATE TABLE notes (id BIGINT GENERATED ALWAYS AS IDENTITY, note TEXT)",
    "CREATE TABLE sent (id BIGINT, kind TEXT)",
    "CREATE VIEW dear AS SELECT id, price FROM goods WHERE price > 5",
    "CREATE ROLE reader LOGIN",
    "ALTER ROLE reader SET statement_timeout = '9s'",
    "GRANT SELECT ON visits TO reader",
    "COMMENT ON TABLE visits IS 'who was where'",
    "INSERT INTO visits SELECT CASE value % 3 WHEN 0 THEN 'Chile' WHEN 1 THEN 'France' ELSE 'Peru' END, 'city ' || value % 7, '2026-01-01'::timestamp + value % 90 * interval '1 day', value, value % 11 FROM generate_series(1, 150) AS s(value)",
    "INSERT INTO goods SELECT value, 'kind ' || value % 4, value % 13 + 0.25 FROM generate_series(1, 60) AS s(value)",
    "INSERT INTO named SELECT 'name ' || value, value FROM generate_series(1, 20) AS s(value)",
    "INSERT INTO notes (note) VALUES ('one'), ('two'), (NULL)",
];

const CHANGES: &[&str] = &[
    "UPDATE goods SET price = 99 WHERE id IN (3, 5, 7)",
    "DELETE FROM goods WHERE id BETWEEN 20 AND 24",
    "DELETE FROM visits WHERE n BETWEEN 30 AND 33",
    "INSERT INTO named VALUES ('name 3', 33), ('name 21', 21)",
    "INSERT INTO visits VALUES ('Brazil', 'new city', '2026-05-01', 1000, 0.5), (NULL, NULL, NULL, NULL, NULL)",
    "INSERT INTO notes (note) VALUES ('three')",
];

const LATE: &[&str] = &[
    "INSERT INTO goods VALUES (100, 'late', 4.5)",
    "DELETE FROM goods WHERE id = 30",
    "INSERT INTO visits VALUES ('Chile', 'late city', '2026-06-01', 2000, 1.5)",
    "INSERT INTO named VALUES ('name 4', 44)",
    "INSERT INTO notes (note) VALUES ('late')",
    "CREATE TABLE later (a INT)",
];

async fn run(db: &Database, statements: &[&str]) {
    let session = db.session();
    for sql in statements {
        support::real::tag(&session, sql).await;
    }
}

/// Shapes and predicates worth remembering.
async fn ask(db: &Database) {
    run(
        db,
        &[
            "CALL alluvia.pin_cuboid('visits', 'country')",
            "SELECT country, sum(n) FROM visits GROUP BY country",
            "SELECT count(*) FROM visits WHERE price > 5000",
            "SELECT count(*) FROM visits WHERE price > 5000",
        ],
    )
    .await;
}

/// Makes it. Takes a second or less.
pub async fn made(spill: &Path) -> Made {
    let disk = FaultDisk::new();
    let mut older = Vec::new();
    let day = Duration::from_secs(24 * 3600);

    let db = open(&disk, spill, day).expect("an empty disk opens");
    run(&db, DEFINITIONS).await;
    assert!(
        !send(&db, Some(KEYS[0]), None).expect("commits") && !send(&db, None, Some(PRODUCERS[0])).expect("commits")
    );
    run(&db, &["CALL alluvia.merge()"]).await;
    ask(&db).await;
    drop(db);
    older.push(copy(&disk));

    let db = open(&disk, spill, 2 * day).expect("opens");
    run(&db, CHANGES).await;
    run(&db, &["CALL alluvia.flush()"]).await;
    db.core().purge_old().expect("nothing is old");
    ask(&db).await;
    drop(db);
    older.push(copy(&disk));

    let db = open(&disk, spill, 3 * day).expect("opens");
    run(&db, LATE).await;
    assert!(
        !send(&db, Some(KEYS[1]), None).expect("commits") && !send(&db, None, Some(PRODUCERS[1])).expect("commits")
    );
    let killed = disk.after_power_loss(Survival::SyncedOnly);
    drop(db);
    Made { stopped: copy(&disk), killed, older }
}
