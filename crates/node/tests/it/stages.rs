//! Rows are the same whatever the batching, sorting and merging; freshness is what was asked; versions never go back.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::{self, create, insert, open, read, rows, snapshot};
use alluvia_snapshot::{Freshness, Snapshot, Store, Want};
use alluvia_storage::FaultDisk;
use alluvia_types::{ManualClock, Stage, TableId, Version};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;
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
        let metas = core.segments();
        let ids = metas.iter().flat_map(|meta| meta.with_rungs()).map(|meta| meta.id);
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
        if !core.views().has_room(5 << 20) {
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

/// LazyBase's figures 8 and 9: two rows whose sum is always zero, under concurrent writers and readers.
#[test]
fn the_sum_is_always_zero_and_never_goes_back() {
    let dir = tempfile::tempdir().unwrap();
    let db = alluvia_node::Database::open(dir.path().join("db")).unwrap();
    let core = Arc::clone(db.core());
    let (left, _) = create(&core, "left_side").unwrap();
    let (right, _) = create(&core, "right_side").unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(3);
    let (writes, reads) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8i64)
            .map(|writer| {
                let core = &core;
                scope.spawn(move || {
                    let mut value = writer;
                    while std::time::Instant::now() < until {
                        insert(core, &[(left, rows(&[(value, "x")])), (right, rows(&[(-value, "x")]))]).unwrap();
                        value = (value * 31 + 7) % 1_000;
                    }
                    1
                })
            })
            .collect();
        let readers: Vec<_> = (0..8)
            .map(|reader| {
                let core = &core;
                scope.spawn(move || {
                    let (mut last, mut reads) = (Version(0), 0);
                    while std::time::Instant::now() < until {
                        let freshness = if reader % 2 == 0 {
                            Freshness::Within(Duration::ZERO)
                        } else {
                            Freshness::Within(Duration::from_millis(500))
                        };
                        let tables = vec![left, right];
                        let snapshot =
                            core.snapshot(&Want { freshness, at_least: last, exactly: None, tables }).unwrap();
                        assert!(snapshot.version >= last, "back in time: {} after {last}", snapshot.version);
                        last = snapshot.version;
                        let sum = |table| -> i64 {
                            read(&snapshot, table)
                                .iter()
                                .map(|row| row.1.split('|').next().unwrap().parse::<i64>().unwrap())
                                .sum()
                        };
                        assert_eq!(sum(left) + sum(right), 0, "at version {last}");
                        reads += 1;
                    }
                    reads
                })
            })
            .collect();
        let writes: i32 = writers.into_iter().map(|thread| thread.join().unwrap()).sum();
        let reads: i32 = readers.into_iter().map(|thread| thread.join().unwrap()).sum();
        (writes, reads)
    });
    assert!(writes == 8 && reads >= 8, "{reads} reads");
}

#[test]
fn what_a_refused_or_repeated_batch_had_staged_is_removed() {
    let disk = FaultDisk::new();
    let clock = Arc::new(ManualClock::default());
    let core = open(&disk, &clock).unwrap();
    let (table, _) = create(&core, "t").unwrap();
    let stage = |producer: Option<alluvia_snapshot::ProducerMark>, checked_at: Option<Version>| {
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
    let mark = || Some(alluvia_snapshot::ProducerMark { name: "p".to_owned(), epoch: 1, sequence: 1 });
    stage(mark(), None).unwrap();
    let once = files();
    assert!(once.len() > before.len(), "{once:?}");
    assert!(stage(mark(), None).unwrap().duplicate);
    assert_eq!(files(), once, "nothing of the copy is left, and the first is whole");
    assert_eq!(read(&snapshot(&core, Freshness::Within(Duration::ZERO)), table).len(), 3);
}
