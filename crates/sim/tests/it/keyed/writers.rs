//! Real threads: eight writers on the same keys, readers at several freshnesses, sorts and merges beside them.
//!
//! Each batch is put down with its version. Afterwards the batches are applied to the model in the order of versions:
//! whatever a reader saw must be what the model has at that version. So the last version of a key wins, nothing is lost,
//! and none is seen by half (LazyBase, EuroSys 2012, figures 8 and 9, by updates of two rows).

use super::model::{Change, Outcome, Part};
use super::tables::{KEYS, KeyKind, row};
use super::world::{KEYED, NEWEST, Setup, create, new_batch, open};
use alluvia_sim::rows::{Row, Value, rows_of};
use alluvia_sim::{Engine, Gate, Random};
use alluvia_snapshot::{Durability, NewBatch};
use alluvia_space::OnConflict;
use alluvia_storage::{Disk, FaultDisk};
use alluvia_types::{ErrorKind, Freshness, Result, SystemClock, TableId, Version};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

const WRITERS: usize = 8;
/// Batches of each.
const BATCHES: usize = 60;
/// The two rows whose amounts are always zero together.
const PAIR: [u64; 2] = [KEYS, KEYS + 1];
/// Where the amount is in a row of a table whose key is one column.
const AMOUNT: usize = 2;
/// Snapshots that a reader keeps to be compared, at most.
const SEEN_MAX: usize = 200;

/// Counts those that are not done, down at its end, also at a panic.
struct Writing<'a>(&'a AtomicUsize);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn with_amount(mut row: Row, amount: i64) -> Row {
    row[AMOUNT] = Value::Number(amount);
    row
}

fn amount_of(row: &Row) -> i64 {
    match row[AMOUNT] {
        Value::Number(amount) => amount,
        _ => 0,
    }
}

/// Commits without waiting where that can be, else by waiting.
fn commit(engine: &Engine, batch: NewBatch) -> Result<u64> {
    let (tell, told) = channel();
    match engine.submit_then(batch, Box::new(move |done| tell.send(done).expect("the writer listens"))) {
        None => told.recv().expect("told once").map(|committed| committed.version.0),
        Some((batch, _)) => engine.submit(batch, Durability::Sync).map(|committed| committed.version.0),
    }
}

/// Runs threads beside those that sort, merge and make waiting batches durable.
fn beside_stages(engine: &Engine, run: impl FnOnce()) {
    let running = AtomicUsize::new(1);
    let goes_on = || running.load(Ordering::SeqCst) > 0;
    engine.set_served(true);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while goes_on() {
                    engine.serve(Duration::from_millis(5));
                }
            });
        }
        for is_merge in [false, true] {
            scope.spawn(move || {
                while goes_on() {
                    let done = if is_merge { engine.merge() } else { engine.sort() };
                    done.unwrap_or_else(|error| panic!("merge {is_merge}: {error}"));
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
        let _running = Writing(&running);
        run();
    });
    engine.set_served(false);
}

fn opened(setup: &Setup) -> (Arc<FaultDisk>, Engine, Vec<TableId>) {
    let disk = FaultDisk::new();
    let clock = Arc::new(SystemClock::default());
    let engine = Engine::open(Arc::clone(&disk) as Arc<dyn Disk>, clock, &setup.options).expect("an empty disk opens");
    let tables = create(&engine, setup).expect("the tables are made");
    (disk, engine, tables)
}

/// What one reader saw, by version.
type Seen = BTreeMap<u64, Vec<Row>>;

fn read(engine: &Engine, tables: &[TableId], freshness: Freshness, writing: &AtomicUsize) -> Seen {
    let (mut seen, mut last) = (Seen::new(), Version(0));
    loop {
        let is_last = writing.load(Ordering::SeqCst) == 0;
        let snapshot = engine.snapshot(freshness, last, tables).expect("a snapshot");
        assert!(snapshot.version >= last, "{freshness:?}: back from {last} to {}", snapshot.version);
        last = snapshot.version;
        let found = rows_of(&snapshot, tables[KEYED]).expect("rows are read");
        let mut rows: Vec<Row> = found.into_iter().map(|found| found.row).collect();
        rows.sort();
        let pair: Vec<i64> = rows.iter().filter(|row| is_of_pair(row)).map(amount_of).collect();
        assert!(pair.is_empty() || pair.len() == 2, "{freshness:?}, version {last}: {pair:?}");
        assert_eq!(pair.iter().sum::<i64>(), 0, "{freshness:?}, version {last}");
        if seen.len() < SEEN_MAX || is_last {
            seen.insert(last.0, rows);
        }
        if is_last {
            return seen;
        }
    }
}

fn is_of_pair(row: &Row) -> bool {
    PAIR.iter().any(|&number| row[..1] == super::tables::key(KeyKind::Number, number)[..])
}

#[test]
fn the_last_version_of_a_key_wins_and_no_batch_is_seen_by_half() {
    let setup = Setup::new(KeyKind::Number, OnConflict::Error);
    let (disk, engine, tables) = opened(&setup);
    let writing = AtomicUsize::new(WRITERS);
    let committed: Mutex<BTreeMap<u64, Vec<Part>>> = Mutex::default();
    let seen: Mutex<Vec<Seen>> = Mutex::default();
    let write = |writer: u64| {
        let _writing = Writing(&writing);
        let mut random = Random::new(writer);
        for at in 0..BATCHES as u64 {
            // One key that all write, the two, some others, and now and then one goes.
            let value = (writer * BATCHES as u64 + at) as i64;
            let mut rows = vec![row(setup.kind, 0, &mut random)];
            rows.push(with_amount(row(setup.kind, PAIR[0], &mut random), value));
            rows.push(with_amount(row(setup.kind, PAIR[1], &mut random), -value));
            rows.extend((0..random.below(4)).map(|_| random.within(1..KEYS)).map(|number| {
                let mut random = Random::new(number ^ at);
                row(setup.kind, number, &mut random)
            }));
            let mut parts = vec![Part::new(KEYED, Change::Upsert(rows))];
            if random.one_in(4) {
                let gone = super::tables::key(setup.kind, random.within(1..KEYS));
                parts.insert(0, Part::new(KEYED, Change::Delete(vec![gone])));
            }
            let batch = new_batch(&engine, &tables, &parts).expect("nothing is staged");
            let version = commit(&engine, batch).unwrap_or_else(|error| panic!("writer {writer}: {error}"));
            committed.lock().expect("no panic").insert(version, parts);
        }
    };
    beside_stages(&engine, || {
        std::thread::scope(|scope| {
            let write = &write;
            (0..WRITERS as u64).for_each(|writer| drop(scope.spawn(move || write(writer))));
            let within = |millis| Freshness::Within(Duration::from_millis(millis));
            for freshness in [NEWEST, within(20), within(1_000), Freshness::Merged] {
                let (seen, engine, tables, writing) = (&seen, &engine, &tables, &writing);
                scope.spawn(move || {
                    let own = read(engine, tables, freshness, writing);
                    seen.lock().expect("no panic").push(own);
                });
            }
        });
    });
    let committed = committed.into_inner().expect("no panic");
    let expected: Vec<u64> = (2..2 + (WRITERS * BATCHES) as u64).collect();
    assert_eq!(committed.keys().copied().collect::<Vec<u64>>(), expected, "each batch has a version of its own");
    let mut model = setup.model();
    for parts in committed.values() {
        assert!(matches!(model.apply(parts), Outcome::Applied { .. }));
    }
    let last = model.version();
    for seen in seen.into_inner().expect("no panic") {
        for (version, rows) in seen {
            assert_eq!(rows, model.tables[KEYED].contents(version), "version {version}");
        }
    }
    let end = |engine: &Engine| {
        let snapshot = engine.snapshot(NEWEST, Version(last), &tables).expect("a snapshot");
        let mut rows: Vec<Row> =
            rows_of(&snapshot, tables[KEYED]).expect("rows are read").into_iter().map(|found| found.row).collect();
        rows.sort();
        rows
    };
    assert_eq!(end(&engine), model.tables[KEYED].contents(last));
    drop(engine);
    let engine = open(&disk, &Arc::new(Gate::default()), &Arc::default(), &setup).expect("opens again");
    assert_eq!(end(&engine), model.tables[KEYED].contents(last));
}

/// Who computes a row from what it read, and says so, overwrites nobody: a counter counts every success once.
#[test]
fn no_update_is_lost_to_another_that_it_did_not_see() {
    let setup = Setup::new(KeyKind::Number, OnConflict::Error);
    let (_disk, engine, tables) = opened(&setup);
    let counter = row(setup.kind, 0, &mut Random::new(1));
    let first = [Part::new(KEYED, Change::Insert(vec![with_amount(counter.clone(), 0)]))];
    let batch = new_batch(&engine, &tables, &first).expect("nothing is staged");
    engine.submit(batch, Durability::Sync).expect("it is let in");
    let conflicts = AtomicUsize::new(0);
    let count = || {
        let snapshot = engine.snapshot(NEWEST, Version(0), &tables[..1]).expect("a snapshot");
        let found = rows_of(&snapshot, tables[KEYED]).expect("rows are read");
        assert_eq!(found.len(), 1, "one row, whatever became of the others: {found:?}");
        (snapshot.version.0, amount_of(&found[0].row))
    };
    beside_stages(&engine, || {
        std::thread::scope(|scope| {
            let add = || {
                for _ in 0..BATCHES / 2 {
                    loop {
                        let (version, value) = count();
                        let change = Change::Upsert(vec![with_amount(counter.clone(), value + 1)]);
                        let part = Part { computed_at: Some(version), ..Part::new(KEYED, change) };
                        let batch = new_batch(&engine, &tables, &[part]).expect("nothing is staged");
                        match engine.submit(batch, Durability::Sync) {
                            Ok(_) => break,
                            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error}"),
                        }
                        conflicts.fetch_add(1, Ordering::Relaxed);
                    }
                }
            };
            (0..WRITERS).for_each(|_| drop(scope.spawn(add)));
        });
    });
    println!("{} conflicts", conflicts.load(Ordering::Relaxed));
    assert_eq!(count().1, (WRITERS * (BATCHES / 2)) as i64);
}
