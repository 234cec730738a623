//! Tables that are dropped before a manifest knows them: their ids are not given out again, so nothing of theirs is taken for a later
//! table's, and the log still finds the files that its records name.

use crate::support::{self, contents, create, insert, new_rows, open, rows};
use alluvia_catalog::Change;
use alluvia_node::Core;
use alluvia_snapshot::{Admin, BatchKey, Committed, Durability, Ingest, NewBatch, Read};
use alluvia_storage::{Disk, FaultDisk, Survival};
use alluvia_types::{ManualClock, TableId};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

fn drop_table(core: &Core, id: TableId) -> Committed {
    let changes = vec![Change::DropTable { id }];
    core.submit(NewBatch { changes, ..NewBatch::default() }, Durability::Sync).unwrap()
}

fn insert_keyed(core: &Core, table: TableId, key: &str) -> Committed {
    let batch = NewBatch {
        rows: vec![new_rows(&core.catalog(), table, rows(&[(1, "row")]))],
        key: Some(BatchKey::new(table, key)),
        ..NewBatch::default()
    };
    core.submit(batch, Durability::Sync).unwrap()
}

#[test]
fn a_key_that_a_dropped_table_has_used_is_free_in_the_next_one() {
    let disk = FaultDisk::new();
    let clock = Arc::new(ManualClock::default());
    let core = open(&disk, &clock).unwrap();
    let (gone, _) = create(&core, "gone").unwrap();
    assert!(!insert_keyed(&core, gone, "sent once").duplicate);
    drop_table(&core, gone);
    drop(core);
    let core = open(&disk, &clock).unwrap();
    let (next, _) = create(&core, "next").unwrap();
    assert!(next > gone, "the id {gone} was used");
    assert!(!insert_keyed(&core, next, "sent once").duplicate, "it is another table's key");
    assert_eq!(contents(&core)["next"], ["1|row"]);
    assert!(insert_keyed(&core, next, "sent once").duplicate);
}

#[test]
fn an_id_that_no_version_of_the_definitions_has_is_not_given_out_again() {
    let disk = FaultDisk::new();
    let clock = Arc::new(ManualClock::default());
    let core = open(&disk, &clock).unwrap();
    let gone = core.new_table_id();
    let changes = vec![Change::CreateTable { def: support::table(gone, "gone") }, Change::DropTable { id: gone }];
    core.submit(NewBatch { changes, ..NewBatch::default() }, Durability::Sync).unwrap();
    drop(core);
    assert!(open(&disk, &clock).unwrap().new_table_id() > gone);
}

#[test]
fn what_was_staged_for_a_dropped_table_does_not_come_back_in_the_next_one() {
    let disk = FaultDisk::new();
    let clock = Arc::new(ManualClock::default());
    let core = open(&disk, &clock).unwrap();
    let (gone, _) = create(&core, "gone").unwrap();
    let entry = core.catalog().by_id(gone).cloned().unwrap();
    let mut load = core.begin_load(&entry.def, entry.changed_at).unwrap();
    let many: Vec<(i64, &str)> = (0..300).map(|at| (at, ["red", "green"][at as usize % 2])).collect();
    load.append(rows(&many)).unwrap();
    let loads = vec![load.finish().unwrap()];
    core.submit(NewBatch { loads, ..NewBatch::default() }, Durability::Sync).unwrap();
    drop_table(&core, gone);
    assert_eq!(core.segments().len(), 0, "no snapshot reads them");

    // Killed at once, and at once again: the records are replayed each time, and find what they name.
    let killed = disk.after_power_loss(Survival::SyncedOnly);
    drop(open(&killed, &clock).unwrap());
    let core = open(&killed, &clock).unwrap();
    let (next, _) = create(&core, "next").unwrap();
    assert_eq!(contents(&core)["next"].len(), 0, "nothing of the dropped table");
    insert(&core, &[(next, rows(&[(7, "blue")]))]).unwrap();
    core.sort().unwrap();
    assert_eq!(contents(&core)["next"], ["7|blue"]);
    drop(core);

    // The manifest lets the log give the records up, and so their files go.
    let core = open(&killed, &clock).unwrap();
    assert_eq!(contents(&core)["next"], ["7|blue"]);
    let folder = Path::new(support::DIR).join("segments");
    let on_disk: BTreeSet<String> = killed.read_dir(&folder).unwrap().into_iter().map(|entry| entry.name).collect();
    let segments = core.segments();
    let needed = segments.iter().flat_map(|segment| segment.meta.with_rungs()).map(|meta| meta.id);
    let needed: BTreeSet<String> =
        needed.flat_map(|id| [format!("seg-{id}.parquet"), format!("seg-{id}.side")]).collect();
    assert_eq!(on_disk, needed);
}
