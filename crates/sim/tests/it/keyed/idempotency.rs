//! Batches with idempotency keys, and power loss at every I/O call: what was acknowledged and is sent again is not applied again, whether
//! its key is in the log or in a file of keys.

use super::model::{Change, Part};
use super::tables::{KeyKind, row};
use super::world::{KEYLESS, NEWEST, Setup, create, new_batch, open};
use alluvia_sim::rows::{Row, rows_of};
use alluvia_sim::{Engine, Gate, Random};
use alluvia_snapshot::{BatchKey, Durability};
use alluvia_space::OnConflict;
use alluvia_storage::{FaultDisk, Survival};
use alluvia_types::{ErrorKind, Result, TableId, Version};
use std::collections::HashSet;
use std::sync::Arc;

/// Batches of the workload, of one row each.
const BATCHES: u64 = 11;

fn setup() -> Setup {
    Setup::new(KeyKind::Number, OnConflict::Error)
}

/// The row of a batch.
fn row_of(number: u64) -> Row {
    row(KeyKind::None, number, &mut Random::new(number))
}

/// Sends a batch with its key. Returns whether it had come before.
fn send(engine: &Engine, tables: &[TableId], number: u64) -> Result<bool> {
    let mut batch = new_batch(engine, tables, &[Part::new(KEYLESS, Change::Insert(vec![row_of(number)]))])?;
    batch.key = Some(BatchKey::new(tables[KEYLESS], &format!("batch {number}")));
    Ok(engine.submit(batch, Durability::Sync)?.duplicate)
}

/// Tells how many batches were acknowledged.
fn workload(engine: &Engine, setup: &Setup, acknowledged: &mut dyn FnMut(u64)) -> Result<()> {
    let tables = create(engine, setup)?;
    for number in 0..BATCHES {
        assert!(!send(engine, &tables, number)?);
        acknowledged(number + 1);
        // Some keys are in files, some in the log; a file is written anew, and a manifest is that does not write one.
        if number % 3 == 1 {
            engine.sort()?;
        }
        if number % 5 == 4 {
            engine.merge()?;
        }
    }
    Ok(())
}

fn contents(engine: &Engine, tables: &[TableId]) -> Vec<Row> {
    let snapshot = engine.snapshot(NEWEST, Version(0), tables).expect("a snapshot");
    let mut rows: Vec<Row> =
        rows_of(&snapshot, tables[KEYLESS]).expect("rows are read").into_iter().map(|found| found.row).collect();
    rows.sort();
    rows
}

/// Opens what survived, and sends everything again: twice, and once more after everything was sorted and opened again.
fn verify(disk: &Arc<FaultDisk>, setup: &Setup, acknowledged: u64, what: &str) {
    let mut expected: Vec<Row> = (0..BATCHES).map(row_of).collect();
    expected.sort();
    for pass in 0..3 {
        let opened = open(disk, &Arc::default(), &Arc::default(), setup);
        let engine = opened.unwrap_or_else(|error| panic!("{what}: does not open: {error}"));
        let tables: Vec<TableId> = engine.catalog().tables().map(|entry| entry.def.id).collect();
        if tables.is_empty() {
            assert_eq!(acknowledged, 0, "{what}: the tables were acknowledged");
            return;
        }
        for number in 0..BATCHES {
            let is_again = send(&engine, &tables, number).unwrap_or_else(|error| panic!("{what}: {error}"));
            let must_be = pass > 0 || number < acknowledged;
            assert!(is_again || !must_be, "{what}, pass {pass}: batch {number} of {acknowledged} is applied again");
        }
        assert_eq!(contents(&engine, &tables), expected, "{what}, pass {pass}");
        if pass == 1 {
            engine.sort().unwrap_or_else(|error| panic!("{what}: {error}"));
            engine.merge().unwrap_or_else(|error| panic!("{what}: {error}"));
        }
    }
}

#[test]
fn what_was_acknowledged_is_not_applied_again() {
    let setup = setup();
    let calls = {
        let disk = FaultDisk::new();
        let engine = open(&disk, &Arc::default(), &Arc::default(), &setup).expect("an empty disk opens");
        workload(&engine, &setup, &mut |_| ()).expect("a disk without faults");
        drop(engine);
        let calls = disk.calls();
        verify(&disk, &setup, BATCHES, "without a power loss");
        calls
    };
    assert!(calls > 100, "the workload makes {calls} calls; too few to mean much");
    let mut seen = HashSet::new();
    for at in 1..=calls {
        let (disk, gate) = (FaultDisk::new(), Arc::<Gate>::default());
        disk.fail_after(at);
        let mut acknowledged = 0;
        if let Ok(engine) = open(&disk, &gate, &Arc::default(), &setup) {
            let _ = workload(&engine, &setup, &mut |count| acknowledged = count);
        }
        for survival in [Survival::SyncedOnly, Survival::Everything, Survival::Torn { seed: at }] {
            let survivor = disk.after_power_loss(survival);
            if seen.insert((survivor.fingerprint(), acknowledged)) {
                verify(&survivor, &setup, acknowledged, &format!("call {at}, {survival:?}"));
            }
        }
    }
    assert!(seen.len() > 50, "{} states", seen.len());
}

/// A file of keys that is gone, or is an older copy, keeps the database from opening.
#[test]
fn no_file_of_keys_is_missed_in_silence() {
    use alluvia_storage::Disk;
    let (disk, setup) = (FaultDisk::new(), setup());
    let engine = open(&disk, &Arc::default(), &Arc::default(), &setup).expect("an empty disk opens");
    workload(&engine, &setup, &mut |_| ()).expect("a disk without faults");
    drop(engine);
    let dir = std::path::Path::new(alluvia_sim::DIR);
    let keys: Vec<_> = disk
        .read_dir(dir)
        .expect("listed")
        .into_iter()
        .filter(|entry| entry.name.starts_with("keys-"))
        .map(|entry| dir.join(entry.name))
        .collect();
    assert_eq!(keys.len(), 1, "what others took the place of is gone: {keys:?}");
    let refused = |disk: &Arc<FaultDisk>| {
        let error = open(disk, &Arc::default(), &Arc::default(), &setup).expect_err("a batch could be applied again");
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    };
    let gone = disk.after_power_loss(Survival::Everything);
    gone.remove(&keys[0]).expect("removed");
    refused(&gone);
    let damaged = disk.after_power_loss(Survival::Everything);
    damaged.corrupt(&keys[0], 30, 1);
    refused(&damaged);
}
