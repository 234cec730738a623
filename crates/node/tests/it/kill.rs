//! kill -9 at random moments under load: every acknowledged batch is there exactly once, none by half.
//!
//! The process under test is this test binary itself, started again with a directory in its environment. It writes pairs of
//! rows into two tables, from four threads, one with staged loads, one as a numbered producer that sends each batch twice,
//! one relaxed with a flush before it acknowledges, while the pipeline
//! sorts and merges; it prints each acknowledgement. The parent kills it, reads what was acknowledged, and looks.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::{create, new_rows, read, rows, snapshot, variable};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_pipeline::PipelineOptions;
use alluvia_snapshot::{Admin, Durability, Ingest, NewBatch, Read};
use alluvia_types::{Freshness, ProducerMark, TableId, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::ops::RangeInclusive;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const DIRECTORY: &str = "ALLUVIA_KILL_DIR";
const WRITERS: i64 = 4;
/// Ids of one writer: writer * SPAN + sequence.
const SPAN: i64 = 1 << 32;

/// The process that is killed. Does nothing unless it was started by the parent.
#[test]
fn child() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let pipeline = PipelineOptions {
        sort_interval: Duration::from_millis(30),
        merge_interval: Duration::from_millis(100),
        rung_rows_min: 64,
        ..PipelineOptions::default()
    };
    let options = DatabaseOptions {
        memory_limit_bytes: 512 << 20,
        log_file_bytes_max: 64 << 10,
        pipeline,
        ..DatabaseOptions::default()
    };
    let db = Database::open_with(Path::new(&dir), options).unwrap();
    let tables = tables(&db);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let db = &db;
            scope.spawn(move || {
                let mut next = last_of(db, tables.0, writer) + 1;
                loop {
                    let id = writer * SPAN + next;
                    write(db, tables, writer, id, next);
                    let mut out = std::io::stdout().lock();
                    writeln!(out, "\nack {id}").and_then(|()| out.flush()).unwrap();
                    next += 1;
                }
            });
        }
    });
}

fn tables(db: &Database) -> (TableId, TableId) {
    let catalog = db.core().catalog();
    match (catalog.table("first"), catalog.table("second")) {
        (Ok(first), Ok(second)) => (first.def.id, second.def.id),
        (Ok(first), Err(_)) => (first.def.id, create(db.core(), "second").unwrap().0),
        _ => (create(db.core(), "first").unwrap().0, create(db.core(), "second").unwrap().0),
    }
}

fn write(db: &Database, (first, second): (TableId, TableId), writer: i64, id: i64, sequence: i64) {
    let core = db.core();
    let catalog = core.catalog();
    let mut batch = NewBatch::default();
    if writer == 0 && sequence % 5 == 0 {
        // The first table's row comes by a staged load, in one batch with the second's.
        let entry = catalog.by_id(first).unwrap();
        let mut load = core.begin_load(&entry.def, entry.changed_at).unwrap();
        load.append(rows(&[(id, "staged")])).unwrap();
        batch.loads.push(load.finish().unwrap());
    } else {
        batch.rows.push(new_rows(&catalog, first, rows(&[(id, "logged")])));
    }
    batch.rows.push(new_rows(&catalog, second, rows(&[(id, "pair")])));
    if writer == 1 {
        let name = "numbered".to_owned();
        let (epoch, number) = core.producer(&name).map_or((1, 1), |(mark, _)| (mark.epoch, mark.sequence + 1));
        let mark = ProducerMark { name, epoch, sequence: number };
        let again = || {
            let rows = vec![
                new_rows(&catalog, first, rows(&[(id, "logged")])),
                new_rows(&catalog, second, rows(&[(id, "pair")])),
            ];
            NewBatch { rows, producer: Some(mark.clone()), ..NewBatch::default() }
        };
        core.submit(again(), Durability::Sync).unwrap();
        assert!(core.submit(again(), Durability::Sync).unwrap().duplicate, "sent again is not applied again");
        return;
    }
    if writer == 2 {
        // Relaxed, and acknowledged here once it is flushed.
        core.submit(batch, Durability::Relaxed).unwrap();
        core.flush().unwrap();
        return;
    }
    core.submit(batch, Durability::Sync).unwrap();
}

fn ids(db: &Database, table: TableId) -> Vec<i64> {
    let all = snapshot(db.core(), Freshness::Within(Duration::ZERO));
    read(&all, table).iter().map(|row| row.1.split('|').next().unwrap().parse().unwrap()).collect()
}

fn last_of(db: &Database, table: TableId, writer: i64) -> i64 {
    ids(db, table).into_iter().filter(|id| id / SPAN == writer).map(|id| id % SPAN).max().unwrap_or(0)
}

/// When to kill: so long after so many acknowledgements, however long the machine takes for them.
#[derive(Clone, Copy)]
struct Moment {
    acknowledged: usize,
    after: Duration,
}

/// One round: start, kill, look. Adds to what was ever acknowledged, and returns how much was new.
fn round(dir: &Path, moment: Moment, acknowledged: &mut BTreeSet<i64>) -> usize {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::child", "--nocapture", "--test-threads", "1"])
        .env(DIRECTORY, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let (enough, is_enough) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut acks: Vec<i64> = Vec::new();
        for line in out.lines().map_while(Result::ok) {
            acks.extend(line.strip_prefix("ack ").and_then(|id| id.parse::<i64>().ok()));
            if acks.len() >= moment.acknowledged {
                let _ = enough.send(());
            }
        }
        acks
    });
    // A child that died by itself closes the channel, and is found out below.
    if moment.acknowledged > 0 {
        let _ = is_enough.recv();
    }
    std::thread::sleep(moment.after);
    child.kill().unwrap();
    let status = child.wait().unwrap();
    assert!(status.code().is_none(), "it was killed, it did not end by itself: {status}");
    let acks = reader.join().unwrap();
    let new = acks.len();
    acknowledged.extend(acks);

    let db = Database::open(dir).unwrap();
    let (first, second) = tables(&db);
    let mut times: BTreeMap<i64, (u32, u32)> = BTreeMap::new();
    ids(&db, first).into_iter().for_each(|id| times.entry(id).or_default().0 += 1);
    ids(&db, second).into_iter().for_each(|id| times.entry(id).or_default().1 += 1);
    for (id, count) in &times {
        assert_eq!(*count, (1, 1), "batch {id} is there {count:?} times in the two tables");
    }
    for id in acknowledged.iter() {
        assert!(times.contains_key(id), "batch {id} was acknowledged and is gone");
    }
    assert!(db.core().info().visible >= Version(2));
    new
}

/// Rounds until the most of them or the time is reached, but the fewest in any case; returns how many were run and how many batches were acknowledged.
fn rounds(kills: RangeInclusive<u32>, time: Duration, seed: u64) -> (u32, usize) {
    let scratch = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let (mut acknowledged, mut total, mut run) = (BTreeSet::new(), 0, 0);
    let mut random = seed;
    let mut dir = scratch.path().join("db-0");
    while run < *kills.start() || run < *kills.end() && start.elapsed() < time {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if run % 10 == 9 {
            // A fresh directory now and then, so that creation is killed too.
            dir = scratch.path().join(format!("db-{run}"));
            acknowledged.clear();
        }
        // A quarter of the rounds are killed while they open, or create, the database.
        let many = (random >> 40) as usize % 300;
        let moment = match (random >> 33) % 4 {
            0 => Moment { acknowledged: 0, after: Duration::from_millis((random >> 36) % 120) },
            _ => Moment { acknowledged: 1 + many, after: Duration::from_micros((random >> 50) % 3_000) },
        };
        total += round(&dir, moment, &mut acknowledged);
        run += 1;
    }
    (run, total)
}

#[test]
fn fifty_kills_lose_nothing() {
    if std::env::var_os(DIRECTORY).is_some() || variable("ALLUVIA_TEST_SECONDS").is_some() {
        return;
    }
    let (run, acknowledged) = rounds(50..=50, Duration::ZERO, 0x5EED);
    println!("{run} kills; {acknowledged} batches were acknowledged before them");
    assert!(run == 50 && acknowledged > 1_000);
}

/// `make soak DURATION=...`: a thousand kills, or as many as fit, and no fewer than without a soak.
#[test]
fn a_thousand_kills_lose_nothing() {
    let Some(seconds) = variable("ALLUVIA_TEST_SECONDS") else { return };
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let seed = variable("ALLUVIA_TEST_SEED").unwrap_or(since.as_micros() as u64);
    println!("seed {seed} (set ALLUVIA_TEST_SEED to kill at the same moments)");
    let (run, acknowledged) = rounds(50..=1_000, Duration::from_secs(seconds), seed);
    println!("{run} kills; {acknowledged} batches were acknowledged before them");
    assert!(run >= 50 && acknowledged > 1_000);
}
