//! Rows are the same whatever the batching, sorting and merging; freshness is what was asked; versions never go back.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::{self, create, insert, open, read, rows, snapshot};
use alluvia_query::Session;
use alluvia_snapshot::{Admin, Ingest, Read, Snapshot, Want};
use alluvia_storage::FaultDisk;
use alluvia_types::{Freshness, ManualClock, Stage, TableId, Version};
use arrow::util::display::array_value_to_string;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// One step of a random history.
#[derive(Clone, Debug)]
enum Step {
    Insert(Vec<(i64, u8)>),
    Load(Vec<(i64, u8)>),
    Sort,
    Merge,
    Wait(u64),
    Reopen,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let some_rows = |most| prop::collection::vec((-5i64..1_200, 0u8..9), 1..most);
    let step = prop_oneof![
        6 => some_rows(40).prop_map(Step::Insert),
        1 => some_rows(300).prop_map(Step::Load),
        2 => Just(Step::Sort),
        2 => Just(Step::Merge),
        3 => (0u64..4_000).prop_map(Step::Wait),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 1..40)
}

const KINDS: [&str; 9] = ["", "a", "b", "kind three", "a much longer kind of thing", "ü", "f", "g", "h"];

fn named(values: &[(i64, u8)]) -> Vec<(i64, &'static str)> {
    values.iter().map(|&(id, kind)| (id, KINDS[kind as usize])).collect()
}

fn sorted(mut rows: Vec<(u64, String)>) -> Vec<(u64, String)> {
    rows.sort();
    rows
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_snapshot_is_a_prefix_as_fresh_as_asked(history in steps()) {
        let disk = FaultDisk::new();
        let clock = Arc::new(ManualClock::default());
        let mut core = open(&disk, &clock).unwrap();
        let (table, _) = create(&core, "t").unwrap();
        let mut model: Vec<(u64, String)> = Vec::new();
        // When each version became visible; versions from before a reopening count as visible for ever.
        let mut visible_at: Vec<(Duration, Version)> = Vec::new();
        // Of each step one, not read before the end.
        let mut held: Vec<Snapshot> = Vec::new();
        for step in history {
            let now = alluvia_types::Clock::monotonic(clock.as_ref());
            match step {
                Step::Insert(values) => {
                    let version = insert(&core, &[(table, rows(&named(&values)))]).unwrap().version;
                    model.extend(named(&values).iter().map(|(id, kind)| (version.0, format!("{id}|{kind}"))));
                    visible_at.push((now, version));
                }
                Step::Load(values) => {
                    let entry = core.catalog().by_id(table).cloned().unwrap();
                    let mut load = core.begin_load(&entry.def, entry.changed_at).unwrap();
                    load.append(rows(&named(&values))).unwrap();
                    let loads = vec![load.finish().unwrap()];
                    let batch = alluvia_snapshot::NewBatch { loads, ..Default::default() };
                    let version = core.submit(batch, alluvia_snapshot::Durability::Sync).unwrap().version;
                    model.extend(named(&values).iter().map(|(id, kind)| (version.0, format!("{id}|{kind}"))));
                    visible_at.push((now, version));
                }
                Step::Sort => drop(core.sort().unwrap()),
                Step::Merge => drop(core.merge(true).unwrap()),
                Step::Wait(millis) => clock.advance(Duration::from_millis(millis)),
                Step::Reopen => {
                    check_held(&mut held, table, &model)?;
                    drop(core);
                    core = open(&disk, &clock).unwrap();
                    visible_at.iter_mut().for_each(|entry| entry.0 = Duration::ZERO);
                }
            }
            check_snapshots(&core, &clock, table, &model, &visible_at)?;
            held.push(snapshot(&core, FRESHNESSES[held.len() % FRESHNESSES.len()]));
        }
        core.sort().unwrap();
        core.merge(true).unwrap();
        check_held(&mut held, table, &model)?;
        let all = snapshot(&core, Freshness::Merged);
        prop_assert_eq!(all.stage, Stage::Merged);
        prop_assert_eq!(read(&all, table), sorted(model));
    }
}

const FRESHNESSES: [Freshness; 3] =
    [Freshness::Within(Duration::ZERO), Freshness::Within(Duration::from_secs(2)), Freshness::Merged];

/// All that versions through this one brought.
fn prefix(model: &[(u64, String)], version: Version) -> Vec<(u64, String)> {
    sorted(model.iter().filter(|row| row.0 <= version.0).cloned().collect())
}

/// What was pinned is read as it was, whatever was sorted and merged since; then it is let go.
fn check_held(held: &mut Vec<Snapshot>, table: TableId, model: &[(u64, String)]) -> Result<(), TestCaseError> {
    for snapshot in held.drain(..) {
        prop_assert_eq!(read(&snapshot, table), prefix(model, snapshot.version), "held at {}", snapshot.version);
    }
    Ok(())
}

fn check_snapshots(
    core: &alluvia_node::Core,
    clock: &ManualClock,
    table: TableId,
    model: &[(u64, String)],
    visible_at: &[(Duration, Version)],
) -> Result<(), TestCaseError> {
    let now = alluvia_types::Clock::monotonic(clock);
    for freshness in FRESHNESSES {
        let snapshot = snapshot(core, freshness);
        prop_assert_eq!(
            read(&snapshot, table),
            prefix(model, snapshot.version),
            "{:?} at version {}",
            freshness,
            snapshot.version
        );
        if let Freshness::Within(age) = freshness {
            let required = visible_at.iter().filter(|(at, _)| *at + age <= now).map(|entry| entry.1).max();
            prop_assert!(
                snapshot.version >= required.unwrap_or(Version(0)),
                "{:?} is staler than {:?}",
                snapshot.version,
                required
            );
        }
        // Any pinned version can be read again later, whatever was merged since.
        let half = Version(core.info().visible.0 / 2);
        let again =
            core.snapshot(&Want { freshness, at_least: Version(0), exactly: Some(half), tables: vec![table] }).unwrap();
        prop_assert_eq!(read(&again, table), prefix(model, half));
    }
    Ok(())
}

/// P3: files that no manifest names any more stay for as long as somebody holds a snapshot that reads them, and no longer.
#[test]
fn a_held_snapshot_is_read_as_it_was_after_merges_and_new_manifests() {
    let disk = FaultDisk::new();
    let core = open(&disk, &Arc::new(ManualClock::default())).unwrap();
    let (table, _) = create(&core, "t").unwrap();
    let on_disk = || -> BTreeSet<String> {
        let folder = std::path::Path::new(support::DIR).join("segments");
        alluvia_storage::Disk::read_dir(disk.as_ref(), &folder).unwrap().into_iter().map(|entry| entry.name).collect()
    };
    let needed = || -> BTreeSet<String> {
        let segments = core.segments();
        let ids = segments.iter().flat_map(|segment| segment.meta.with_rungs()).map(|meta| meta.id);
        ids.flat_map(|id| [format!("seg-{id}.parquet"), format!("seg-{id}.side")]).collect()
    };
    let mut model = Vec::new();
    let mut held = Vec::new();
    for round in 0..12 {
        let values: Vec<(i64, u8)> = (0..40).map(|at| (round * 40 + at, (at % 9) as u8)).collect();
        let version = insert(&core, &[(table, rows(&named(&values)))]).unwrap().version;
        model.extend(named(&values).iter().map(|(id, kind)| (version.0, format!("{id}|{kind}"))));
        held.push(snapshot(&core, Freshness::Within(Duration::ZERO)));
        core.sort().unwrap();
        held.push(snapshot(&core, Freshness::Within(Duration::ZERO)));
        if round % 2 == 1 {
            core.merge(true).unwrap();
            held.push(snapshot(&core, Freshness::Within(Duration::ZERO)));
        }
    }
    let stages: BTreeSet<Stage> = held.iter().map(|snapshot| snapshot.stage).collect();
    assert_eq!(stages.len(), 3, "every stage is held: {stages:?}");
    assert!(on_disk().len() > needed().len(), "files that nothing names are there for those who read them");
    // None was read before, so that nothing of them is in memory.
    for snapshot in &held {
        assert_eq!(read(snapshot, table), prefix(&model, snapshot.version), "{:?}", snapshot.stage);
    }
    drop(held);
    assert_eq!(on_disk(), needed(), "the last reader takes them along");
}

/// Rows that statements hold are bounded too: past that a writer waits for them, and not for ever.
#[test]
fn a_writer_waits_for_what_readers_hold_and_says_so() {
    let disk = FaultDisk::new();
    let clock = Arc::new(ManualClock::default());
    let core = open(&disk, &clock).unwrap();
    let (table, _) = create(&core, "t").unwrap();
    let bytes_max = core.info().tail_bytes_max;
    let large = "x".repeat(4 << 20);
    let mut held = Vec::new();
    // Each round's rows leave the tail while a reader holds them.
    for round in 0..2 * (bytes_max >> 22) as i64 {
        insert(&core, &[(table, rows(&[(round, &large)]))]).unwrap();
        held.push(snapshot(&core, Freshness::Within(Duration::ZERO)));
        core.sort().unwrap();
        if core.views().try_room(5 << 20).is_none() {
            break;
        }
    }
    let error = std::thread::scope(|scope| {
        let waits = scope.spawn(|| insert(&core, &[(table, rows(&[(-1, &large)]))]));
        while !waits.is_finished() {
            clock.advance(Duration::from_secs(6));
            std::thread::sleep(Duration::from_millis(5));
        }
        waits.join().unwrap().expect_err("readers hold as much as the tail may have")
    });
    assert_eq!(error.kind(), alluvia_types::ErrorKind::OutOfMemory, "{error}");
    assert!(error.message().contains("running statements hold"), "{error}");
    let rounds = held.len();
    held.clear();
    insert(&core, &[(table, rows(&[(-2, &large)]))]).unwrap();
    assert_eq!(read(&snapshot(&core, Freshness::Within(Duration::ZERO)), table).len(), rounds + 1);
}

const WRITERS: usize = 8;
const WRITES: usize = 40;

/// Counts writers that are done, also those that panicked.
struct Writing(Arc<AtomicUsize>);

impl Drop for Writing {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What a session sees of both tables at one version: the version, and the rows. Their sum is always zero.
async fn observe(session: &Session) -> (Version, i64) {
    let both = "SELECT id FROM left_side UNION ALL SELECT id FROM right_side";
    let outcome =
        session.sql(&format!("SELECT count(*), coalesce(sum(id), 0) FROM ({both}) AS both_sides")).await.unwrap();
    let version = outcome.used().expect("tables are read").version;
    let answer = outcome.collect().await.unwrap();
    let number = |column: usize| array_value_to_string(answer[0].column(column), 0).unwrap().parse::<i64>().unwrap();
    assert_eq!((number(0) % 2, number(1)), (0, 0), "at version {version}");
    (version, number(0))
}

/// LazyBase's figures 8 and 9: two rows whose sum is always zero, under concurrent writers and readers, of several freshnesses, while
/// rows are sorted and merged. The sessions state no versions: that none goes back in time, or misses what it wrote, is their own doing.
#[test]
fn the_sum_is_always_zero_and_no_session_goes_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = alluvia_node::DatabaseOptions { threads: 2, ..support::options() };
    options.pipeline.sort_interval = Duration::from_millis(20);
    options.pipeline.merge_interval = Duration::from_millis(50);
    let db = alluvia_node::Database::open_with(dir.path().join("db"), options).unwrap();
    create(db.core(), "left_side").unwrap();
    let before = create(db.core(), "right_side").unwrap().1.version;
    let writing = Arc::new(AtomicUsize::new(WRITERS));
    let write = |writer: usize| {
        let (session, writing) = (db.session(), Writing(Arc::clone(&writing)));
        async move {
            let _writing = writing;
            session.sql("SET freshness = '1h'").await.unwrap();
            let mut committed = Vec::new();
            for at in 0..WRITES {
                let value = (writer * WRITES + at) as i64;
                let batch = session.batch().append("left_side", vec![rows(&[(value, "x")])]);
                let version = batch.append("right_side", vec![rows(&[(-value, "x")])]).commit().await.unwrap().version;
                let (seen, _) = observe(&session).await;
                assert!(seen >= version, "version {version} is its own, and it reads {seen}");
                committed.push(version);
            }
            committed
        }
    };
    let read = |freshness: &'static str| {
        let (session, writing) = (db.session(), Arc::clone(&writing));
        async move {
            session.sql(&format!("SET freshness = '{freshness}'")).await.unwrap();
            let mut last = (Version(0), 0);
            loop {
                let is_over = writing.load(Ordering::SeqCst) == 0;
                let seen = observe(&session).await;
                assert!(seen.0 >= last.0 && seen.1 >= last.1, "back in time at {freshness}: {seen:?} after {last:?}");
                last = seen;
                if is_over {
                    return last;
                }
            }
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    let (committed, last) = runtime.block_on(async {
        let writers: Vec<_> = (0..WRITERS).map(|writer| tokio::spawn(write(writer))).collect();
        let readers = ["0s", "0s", "0s", "100ms", "500ms", "5s", "1h", "merged"];
        let readers = readers.map(|freshness| tokio::spawn(read(freshness)));
        let mut committed = BTreeSet::new();
        for writer in writers {
            committed.extend(writer.await.unwrap());
        }
        let mut last = Vec::new();
        for reader in readers {
            last.push(reader.await.unwrap());
        }
        (committed, last)
    });
    // Each batch has one version, and no other became visible.
    let batches = (WRITERS * WRITES) as u64;
    let versions: BTreeSet<Version> = (before.0 + 1..=before.0 + batches).map(Version).collect();
    assert_eq!(committed, versions);
    let all = (Version(before.0 + batches), 2 * batches as i64);
    assert_eq!(last[..2], [all, all], "who asks for all of it gets all of it");
    assert!(last.iter().all(|seen| *seen <= all), "{last:?}");
}

#[test]
fn what_a_refused_or_repeated_batch_had_staged_is_removed() {
    let disk = FaultDisk::new();
    let clock = Arc::new(ManualClock::default());
    let core = open(&disk, &clock).unwrap();
    let (table, _) = create(&core, "t").unwrap();
    let stage = |producer: Option<alluvia_types::ProducerMark>, checked_at: Option<Version>| {
        let entry = core.catalog().by_id(table).cloned().unwrap();
        let mut load = core.begin_load(&entry.def, checked_at.unwrap_or(entry.changed_at)).unwrap();
        load.append(rows(&named(&[(1, 1), (2, 2), (3, 3)]))).unwrap();
        let loads = vec![load.finish().unwrap()];
        let batch = alluvia_snapshot::NewBatch { loads, producer, ..Default::default() };
        core.submit(batch, alluvia_snapshot::Durability::Sync)
    };
    let files = || {
        let folder = std::path::Path::new(support::DIR).join("segments");
        let found = alluvia_storage::Disk::read_dir(disk.as_ref(), &folder).unwrap();
        found.into_iter().map(|entry| entry.name).filter(|name| !name.contains("dict")).collect::<Vec<_>>()
    };
    let before = files();
    let refused = stage(None, Some(Version(0))).unwrap_err();
    assert_eq!(refused.kind(), alluvia_types::ErrorKind::Conflict, "{refused}");
    assert_eq!(files(), before, "nothing of the refused batch is left");
    let mark = || Some(alluvia_types::ProducerMark { name: "p".to_owned(), epoch: 1, sequence: 1 });
    stage(mark(), None).unwrap();
    let once = files();
    assert!(once.len() > before.len(), "{once:?}");
    assert!(stage(mark(), None).unwrap().duplicate);
    assert_eq!(files(), once, "nothing of the copy is left, and the first is whole");
    assert_eq!(read(&snapshot(&core, Freshness::Within(Duration::ZERO)), table).len(), 3);
}
