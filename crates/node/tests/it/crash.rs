//! Power loss at every I/O call of a small workload, and again at every call of the recovery that follows.
//!
//! The model is the list of contents after each version. After any power loss the database must open, be at a version
//! that is at least the last acknowledged one, hold exactly that version's contents, and go on working.

use crate::support::{contents, create, insert, new_rows, open, rows};
use alluvia_catalog::{Change, alter};
use alluvia_node::Core;
use alluvia_snapshot::{Admin, BatchKey, Durability, Ingest, NewBatch, Read};
use alluvia_space::DataType;
use alluvia_storage::{FaultDisk, Survival};
use alluvia_types::{ManualClock, ProducerMark, Result, TableId, Version};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// The one producer of the workload, which sends one batch, and that twice.
const PRODUCER: &str = "numbered";

/// The one key of the workload.
fn key() -> BatchKey {
    BatchKey::new(TableId(1), "bare")
}

type Contents = BTreeMap<String, Vec<String>>;

/// Runs the workload until it ends or the disk dies. Tells `acknowledged` each version that was acknowledged.
fn workload(core: &Core, acknowledged: &mut dyn FnMut(Version)) -> Result<()> {
    let (first, committed) = create(core, "first")?;
    acknowledged(committed.version);
    let (second, committed) = create(core, "second")?;
    acknowledged(committed.version);
    for at in 0..3 {
        let ours: Vec<(i64, &str)> =
            (0..20).map(|row| (at * 100 + row, ["red", "green", "blue"][row as usize % 3])).collect();
        let parts = [(first, rows(&ours)), (second, rows(&[(-at, "minus")]))];
        acknowledged(insert(core, &parts)?.version);
    }
    core.sort()?;
    acknowledged(insert(core, &[(first, rows(&[(500, "late"), (501, "later")]))])?.version);

    // Relaxed: it may be lost until it is flushed.
    let late = vec![new_rows(&core.catalog(), first, rows(&[(510, "relaxed")]))];
    let committed = core.submit(NewBatch { rows: late, ..NewBatch::default() }, Durability::Relaxed)?;
    core.flush()?;
    acknowledged(committed.version);

    // Numbered: applied once, however often it is sent.
    let numbered = || NewBatch {
        rows: vec![new_rows(&core.catalog(), first, rows(&[(520, "numbered")]))],
        producer: Some(ProducerMark { name: PRODUCER.to_owned(), epoch: 1, sequence: 1 }),
        ..NewBatch::default()
    };
    let committed = core.submit(numbered(), Durability::Sync)?;
    assert!(!committed.duplicate);
    acknowledged(committed.version);
    let again = core.submit(numbered(), Durability::Sync)?;
    assert!(again.duplicate && again.version == committed.version, "sent again is not applied again");

    // With a key: the same, before and after its batch has left the log.
    let keyed = || NewBatch {
        rows: vec![new_rows(&core.catalog(), first, rows(&[(530, "keyed")]))],
        key: Some(key()),
        ..NewBatch::default()
    };
    let committed = core.submit(keyed(), Durability::Sync)?;
    assert!(!committed.duplicate);
    acknowledged(committed.version);
    for sort in [false, true] {
        if sort {
            core.sort()?;
        }
        let again = core.submit(keyed(), Durability::Sync)?;
        assert!(again.duplicate && again.version == committed.version, "sent again is not applied again");
    }

    // A staged load and an insert race for the same stage.
    let entry = core.catalog().by_id(first).cloned().expect("it was created");
    let mut load = core.begin_load(&entry.def, entry.changed_at)?;
    let many: Vec<(i64, &str)> = (0..90).map(|row| (600 + row, ["red", "staged"][row as usize % 2])).collect();
    load.append(rows(&many))?;
    let staged = load.finish()?;
    let batch = NewBatch { loads: vec![staged], ..NewBatch::default() };
    acknowledged(core.submit(batch, Durability::Sync)?.version);
    core.sort()?;
    core.merge(true)?;

    let wider = alter::add_column(&entry.def, "note", DataType::Text, true)?;
    let change = Change::AlterTable { def: wider, was: entry.changed_at };
    acknowledged(core.submit(NewBatch { changes: vec![change], ..NewBatch::default() }, Durability::Sync)?.version);
    let change = Change::DropTable { id: second };
    acknowledged(core.submit(NewBatch { changes: vec![change], ..NewBatch::default() }, Durability::Sync)?.version);
    core.sort()?;
    core.merge(true)?;
    Ok(())
}

#[test]
fn a_start_after_a_crash_tells_what_it_has_read_again() {
    let (disk, clock) = (FaultDisk::new(), Arc::new(ManualClock::default()));
    let core = open(&disk, &clock).expect("an empty disk opens");
    assert_eq!(core.recovery(), None, "nobody had it before");
    let (table, _) = create(&core, "first").expect("creates");
    insert(&core, &[(table, rows(&[(1, "red"), (2, "green")]))]).expect("inserts");
    // A core that is dropped ends nothing, as if it were killed.
    drop(core);
    let core = open(&disk, &clock).expect("opens");
    let recovery = *core.recovery().expect("it had not stopped");
    assert_eq!((recovery.batches, recovery.rows, recovery.through, recovery.torn), (2, 2, Version(2), None));
    drop(core);
    let core = open(&disk, &clock).expect("opens");
    assert_eq!(core.recovery(), None, "nothing was written since");
    // What a manifest covers is not read again.
    core.sort().expect("sorts");
    insert(&core, &[(table, rows(&[(3, "blue")]))]).expect("inserts");
    drop(core);
    let core = open(&disk, &clock).expect("opens");
    assert_eq!(core.recovery().map(|recovery| (recovery.batches, recovery.rows)), Some((1, 1)));
}

/// Contents after each version, from a run without faults.
fn model() -> (Vec<Contents>, u64) {
    let disk = FaultDisk::new();
    let core = open(&disk, &Arc::new(ManualClock::default())).expect("an empty disk opens");
    let mut states = vec![contents(&core)];
    workload(&core, &mut |_| states.push(contents(&core))).expect("a disk without faults");
    assert_eq!(states.len() as u64, core.info().visible.0 + 1, "one state for each version");
    (states, disk.calls())
}

/// Opens what survived, and holds it against the model.
fn verify(disk: &Arc<FaultDisk>, states: &[Contents], acknowledged: Version, what: &str) {
    let core =
        open(disk, &Arc::new(ManualClock::default())).unwrap_or_else(|error| panic!("{what}: does not open: {error}"));
    let visible = core.info().visible;
    assert!(visible >= acknowledged, "{what}: version {acknowledged} was acknowledged, {visible} is there");
    assert_eq!(contents(&core), states[visible.0 as usize], "{what}: contents of version {visible}");
    // A producer's number survives with its batch, and only with it.
    let rows_of_first = states[visible.0 as usize].get("first");
    let has_numbered = rows_of_first.is_some_and(|rows| rows.iter().any(|row| row.contains("numbered")));
    match core.producer(PRODUCER) {
        Some((mark, version)) => {
            assert!(has_numbered, "{what}: the number is there without its batch");
            let again = NewBatch { producer: Some(mark), ..NewBatch::default() };
            let again = core.submit(again, Durability::Sync).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(again.duplicate && again.version == version, "{what}: {again:?}");
        }
        None => assert!(!has_numbered, "{what}: the batch is there without its number"),
    }
    // So does a key.
    let has_keyed = rows_of_first.is_some_and(|rows| rows.iter().any(|row| row.contains("keyed")));
    match core.keyed(key()) {
        Some(known) => {
            assert!(has_keyed, "{what}: the key is there without its batch");
            let again = NewBatch { key: Some(key()), ..NewBatch::default() };
            let again = core.submit(again, Durability::Sync).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(again.duplicate && again.version == known.version && known.rows == 1, "{what}: {again:?}");
        }
        None => assert!(!has_keyed, "{what}: the batch is there without its key"),
    }
    // It goes on working, through every stage.
    let (table, _) = create(&core, "after").unwrap_or_else(|error| panic!("{what}: cannot go on: {error}"));
    insert(&core, &[(table, rows(&[(1, "a"), (2, "b")]))]).unwrap_or_else(|error| panic!("{what}: {error}"));
    core.sort().unwrap_or_else(|error| panic!("{what}: {error}"));
    core.merge(true).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut expected = states[visible.0 as usize].clone();
    expected.insert("after".into(), vec!["1|a".into(), "2|b".into()]);
    assert_eq!(contents(&core), expected, "{what}: after going on");
}

#[test]
fn power_loss_at_every_call_and_again_during_recovery() {
    let (states, calls) = model();
    assert!(calls > 100, "the workload makes {calls} calls; too few to mean much");
    let mut seen = HashSet::new();
    let (mut losses, mut again) = (0, 0);
    for at in 1..=calls {
        let disk = FaultDisk::new();
        disk.fail_after(at);
        let mut acknowledged = Version(0);
        if let Ok(core) = open(&disk, &Arc::new(ManualClock::default())) {
            let _ = workload(&core, &mut |version| acknowledged = version);
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
                let opened = open(&retry, &Arc::new(ManualClock::default()));
                let done = opened.is_ok() && retry.calls() < during;
                drop(opened);
                if done {
                    break;
                }
                for survival in [Survival::SyncedOnly, Survival::Torn { seed: at ^ during }] {
                    let twice = retry.after_power_loss(survival);
                    if seen.insert((twice.fingerprint(), acknowledged)) {
                        again += 1;
                        verify(
                            &twice,
                            &states,
                            acknowledged,
                            &format!("call {at} {survival:?}, recovery call {during}"),
                        );
                    }
                }
            }
            verify(&survivor, &states, acknowledged, &format!("call {at}, {survival:?}"));
        }
    }
    println!("{calls} calls; {losses} distinct states after one power loss, {again} more after a second one");
    assert!(losses > 50 && again > 0);
}
