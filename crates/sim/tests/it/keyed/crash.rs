//! Power loss at every I/O call of a workload with keys, and again at every call of the recovery that follows.
//!
//! After any power loss the database must open, be at a version that is at least the last acknowledged one, hold what
//! the model has at that version, decide keys by it, and go on working.

use super::model::{Change, Model, Outcome, Part};
use super::tables::{KeyKind, key, row};
use super::world::{KEYED, KEYLESS, NEWEST, Setup, create, new_batch, open};
use alluvia_sim::rows::{Row, rows_of};
use alluvia_sim::{Engine, Gate, Random};
use alluvia_snapshot::Durability;
use alluvia_space::OnConflict;
use alluvia_storage::{FaultDisk, Survival};
use alluvia_types::{ErrorKind, ManualClock, Result, TableId, Version};
use std::collections::HashSet;
use std::sync::Arc;

/// Keys of the workload.
const KEYS: u64 = 30;

/// One step of the workload. Every batch is let in, but for those that are to be refused.
#[derive(Debug)]
enum Action {
    Commit(Vec<Part>),
    Relaxed(Vec<Part>),
    Flush,
    Refused(Vec<Part>),
    Sort,
    Merge,
    /// A batch while a merge, or a sort, is held before so many syncs.
    During(bool, usize, Vec<Part>),
}

fn rows(setup: &Setup, numbers: std::ops::Range<u64>, random: &mut Random) -> Vec<Row> {
    numbers.map(|number| row(setup.kind, number, random)).collect()
}

/// The workload. Its first version is that of the tables.
fn script(setup: &Setup) -> Vec<Action> {
    let mut random = Random::new(1);
    let random = &mut random;
    let keyed = |change| Part::new(KEYED, change);
    let keyless = |change| Part::new(KEYLESS, change);
    let keys = |numbers: std::ops::Range<u64>| numbers.map(|number| key(setup.kind, number)).collect::<Vec<Row>>();
    let mut plain = |count: u64| (0..count).map(|at| row(KeyKind::None, at, random)).collect::<Vec<Row>>();
    let (first_plain, second_plain) = (plain(9), plain(3));
    vec![
        Action::Commit(vec![keyed(Change::Insert(rows(setup, 0..20, random))), keyless(Change::Insert(first_plain))]),
        Action::Sort,
        Action::Merge,
        // Kills in a merged segment, and both tables in one batch.
        Action::Commit(vec![
            keyed(Change::Upsert(rows(setup, 3..7, random))),
            keyless(Change::DeleteRows(vec![(2, 1)])),
        ]),
        Action::Refused(vec![
            keyed(Change::Upsert(rows(setup, 8..9, random))),
            keyed(Change::Insert(rows(setup, 4..5, random))),
        ]),
        Action::Commit(vec![keyed(Change::Delete(keys(5..9)))]),
        // Kills in the tail.
        Action::Commit(vec![keyed(Change::Upsert(rows(setup, 3..4, random)))]),
        Action::Sort,
        Action::Commit(vec![
            keyed(Change::Delete(keys(10..12))),
            keyed(Change::Insert(rows(setup, 10..11, random))),
            keyed(Change::InsertNew(rows(setup, 10..13, random))),
            keyless(Change::Insert(second_plain)),
        ]),
        Action::Relaxed(vec![keyed(Change::Upsert(rows(setup, 0..2, random)))]),
        Action::Relaxed(vec![keyed(Change::Delete(keys(0..1)))]),
        Action::Flush,
        Action::During(true, 1, vec![keyed(Change::Upsert(rows(setup, 12..16, random)))]),
        // A load that replaces, in two runs, with keys twice.
        Action::Commit(vec![keyed(Change::Load(
            [rows(setup, 0..KEYS, random), rows(setup, 10..KEYS, random), rows(setup, 2..KEYS, random)].concat(),
        ))]),
        Action::Commit(vec![keyed(Change::Delete(keys(20..24))), keyless(Change::DeleteRows(vec![(2, 0), (2, 4)]))]),
        Action::During(false, 1, vec![keyed(Change::Upsert(rows(setup, 17..19, random)))]),
        Action::Merge,
        Action::Commit(vec![keyed(Change::Upsert(rows(setup, 18..22, random)))]),
        Action::Sort,
        Action::Merge,
    ]
}

/// Runs the workload until it ends or the disk dies. Tells `acknowledged` each version that was acknowledged.
fn workload(engine: &Arc<Engine>, gate: &Arc<Gate>, setup: &Setup, acknowledged: &mut dyn FnMut(u64)) -> Result<()> {
    let tables = create(engine, setup)?;
    acknowledged(1);
    let submit = |parts: &[Part], durability| {
        engine.submit(new_batch(engine, &tables, parts)?, durability).map(|committed| committed.version.0)
    };
    let mut relaxed = 0;
    for action in script(setup) {
        match action {
            Action::Commit(parts) => acknowledged(submit(&parts, Durability::Sync)?),
            Action::Relaxed(parts) => relaxed = submit(&parts, Durability::Relaxed)?,
            Action::Flush => {
                engine.flush()?;
                acknowledged(relaxed);
            }
            Action::Refused(parts) => match submit(&parts, Durability::Sync) {
                Err(error) if error.kind() == ErrorKind::UniqueViolation => {}
                Err(error) => return Err(error),
                Ok(version) => panic!("version {version} has a key twice"),
            },
            Action::Sort => drop(engine.sort()?),
            Action::Merge => drop(engine.merge()?),
            Action::During(is_merge, passes, parts) => {
                let work = || if is_merge { engine.merge() } else { engine.sort() };
                let (done, between) = gate.hold(passes, work, |stop| {
                    assert!(stop.is_apart(), "what is held is a segment's sync: {stop:?}");
                    submit(&parts, Durability::Sync)
                });
                if let Some(between) = between {
                    acknowledged(between?);
                }
                done?;
            }
        }
    }
    Ok(())
}

/// What each version has.
fn model(setup: &Setup) -> Model {
    let mut model = setup.model();
    // Identities as they are given out: ordinals are places.
    let learn = |model: &mut Model| {
        let version = model.version();
        for table in &mut model.tables {
            table.take_places_for_ordinals(version);
        }
    };
    for action in script(setup) {
        match action {
            Action::Commit(parts) | Action::Relaxed(parts) | Action::During(_, _, parts) => {
                let outcome = model.apply(&parts);
                assert!(matches!(outcome, Outcome::Applied { .. }), "{parts:?}: {outcome:?}");
                learn(&mut model);
            }
            Action::Refused(parts) => assert!(matches!(model.apply(&parts), Outcome::Refused(_))),
            Action::Flush | Action::Sort | Action::Merge => {}
        }
    }
    model
}

/// What a database has, by table.
fn contents(engine: &Engine, tables: &[TableId]) -> Vec<Vec<Row>> {
    let snapshot = engine.snapshot(NEWEST, Version(0), tables).expect("a snapshot");
    let rows = |&table: &TableId| {
        let mut rows: Vec<Row> =
            rows_of(&snapshot, table).expect("rows are read").into_iter().map(|found| found.row).collect();
        rows.sort();
        rows
    };
    tables.iter().map(rows).collect()
}

fn expected(model: &Model, version: u64) -> Vec<Vec<Row>> {
    model.tables.iter().map(|table| table.contents(version)).collect()
}

/// Opens what survived, and holds it against the model; goes on with it where that is asked for.
fn verify(disk: &Arc<FaultDisk>, setup: &Setup, model: &Model, acknowledged: u64, goes_on: bool, what: &str) {
    let (gate, clock) = (Arc::new(Gate::default()), Arc::new(ManualClock::default()));
    let engine = open(disk, &gate, &clock, setup).unwrap_or_else(|error| panic!("{what}: does not open: {error}"));
    let visible = engine.views().visible().0;
    assert!(visible >= acknowledged, "{what}: version {acknowledged} was acknowledged, {visible} is there");
    assert!(visible <= model.version(), "{what}: version {visible} was never given out");
    if visible == 0 {
        return;
    }
    let tables: Vec<TableId> = engine.catalog().tables().map(|entry| entry.def.id).collect();
    assert_eq!(contents(&engine, &tables), expected(model, visible), "{what}: contents of version {visible}");
    if !goes_on {
        return;
    }
    let mut model = model.clone();
    model.take_back(visible);
    let random = &mut Random::new(visible);
    let submit = |parts: &[Part]| {
        let batch = new_batch(&engine, &tables, parts).unwrap_or_else(|error| panic!("{what}: {error}"));
        engine.submit(batch, Durability::Sync)
    };
    let (live, absent): (Vec<u64>, Vec<u64>) =
        (0..KEYS).partition(|&number| model.tables[KEYED].has_key(visible, &key(setup.kind, number)));
    for &number in &live {
        let again = submit(&[Part::new(KEYED, Change::Insert(rows(setup, number..number + 1, random)))]);
        let refused = again.expect_err("a key that is there");
        assert_eq!(refused.kind(), ErrorKind::UniqueViolation, "{what}: key {number}: {refused}");
    }
    let absent = absent.into_iter().map(|number| row(setup.kind, number, random)).collect();
    let batches = [
        vec![Part::new(KEYED, Change::Insert(absent))],
        vec![Part::new(KEYED, Change::Upsert(rows(setup, 0..KEYS, random)))],
        vec![Part::new(KEYED, Change::Delete((0..5).map(|number| key(setup.kind, number)).collect()))],
    ];
    for (at, batch) in batches.iter().enumerate() {
        submit(batch).unwrap_or_else(|error| panic!("{what}: cannot go on with batch {at}: {error}"));
        model.apply(batch);
        match at {
            0 => {}
            1 => drop(engine.sort().unwrap_or_else(|error| panic!("{what}: {error}"))),
            _ => drop(engine.merge().unwrap_or_else(|error| panic!("{what}: {error}"))),
        }
        let version = model.version();
        assert_eq!(contents(&engine, &tables), expected(&model, version), "{what}: after going on, batch {at}");
    }
}

fn power_loss_at_every_call(kind: KeyKind) {
    let setup = Setup::new(kind, OnConflict::Replace);
    let model = model(&setup);
    let calls = {
        let (disk, gate) = (FaultDisk::new(), Arc::new(Gate::default()));
        let engine = Arc::new(open(&disk, &gate, &Arc::default(), &setup).expect("an empty disk opens"));
        let mut last = 0;
        workload(&engine, &gate, &setup, &mut |version| last = version).expect("a disk without faults");
        assert_eq!((last, engine.views().visible().0), (model.version(), model.version()));
        drop(engine);
        verify(&disk, &setup, &model, last, true, "without a power loss");
        disk.calls()
    };
    assert!(calls > 200, "the workload makes {calls} calls; too few to mean much");
    let mut seen = HashSet::new();
    let (mut losses, mut again) = (0, 0);
    for at in 1..=calls {
        let (disk, gate) = (FaultDisk::new(), Arc::new(Gate::default()));
        disk.fail_after(at);
        let mut acknowledged = 0;
        if let Ok(engine) = open(&disk, &gate, &Arc::default(), &setup) {
            let _ = workload(&Arc::new(engine), &gate, &setup, &mut |version| acknowledged = version);
        }
        for survival in [Survival::SyncedOnly, Survival::Everything, Survival::Torn { seed: at }] {
            let survivor = disk.after_power_loss(survival);
            if !seen.insert((survivor.fingerprint(), acknowledged)) {
                continue;
            }
            losses += 1;
            // Again, at every call of the recovery.
            for during in 1.. {
                let retry = survivor.after_power_loss(Survival::Everything);
                retry.fail_after(during);
                let opened = open(&retry, &Arc::default(), &Arc::default(), &setup);
                let done = opened.is_ok() && retry.calls() < during;
                drop(opened);
                if done {
                    break;
                }
                for survival in [Survival::SyncedOnly, Survival::Torn { seed: at ^ during }] {
                    let twice = retry.after_power_loss(survival);
                    if seen.insert((twice.fingerprint(), acknowledged)) {
                        again += 1;
                        let what = format!("call {at} {survival:?}, recovery call {during}");
                        verify(&twice, &setup, &model, acknowledged, false, &what);
                    }
                }
            }
            verify(&survivor, &setup, &model, acknowledged, true, &format!("call {at}, {survival:?}"));
        }
    }
    println!("{calls} calls; {losses} distinct states after one power loss, {again} more after a second one");
    assert!(losses > 50 && again > 0);
}

#[test]
fn power_loss_at_every_call_and_again_during_recovery() {
    power_loss_at_every_call(KeyKind::Number);
}

#[test]
fn power_loss_where_keys_are_hashed() {
    power_loss_at_every_call(KeyKind::Pair);
}
