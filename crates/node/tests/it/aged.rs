//! Purges by age: deleted rows go by themselves, when they are as old as their table lets them become, also over restarts.

use crate::support::{self, insert, rows};
use alluvia_catalog::Change;
use alluvia_node::{Core, DatabaseOptions, PurgeAfter};
use alluvia_pipeline::Inline;
use alluvia_snapshot::{Admin, Durability, Ingest, NewBatch, NewRows, Read, RowChange};
use alluvia_space::{ORDINAL_COLUMN, TableOptions, VERSION_COLUMN};
use alluvia_storage::{Disk, FaultDisk};
use alluvia_types::{ManualClock, TableId, Version};
use arrow::array::{ArrayRef, RecordBatch, UInt64Array};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

fn open(disk: &Arc<FaultDisk>, clock: &Arc<ManualClock>, purge_after: PurgeAfter) -> Core {
    let options = DatabaseOptions { purge_after, ..support::options() };
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    Core::open(disk, Path::new(support::DIR), Arc::clone(clock) as _, &options, Arc::new(Inline), 42).expect("it opens")
}

fn create(core: &Core, name: &str, purge_after: Option<PurgeAfter>) -> TableId {
    let id = core.new_table_id();
    let mut def = support::table(id, name);
    def.options = TableOptions { purge_after, ..TableOptions::default() };
    let batch = NewBatch { changes: vec![Change::CreateTable { def }], ..NewBatch::default() };
    core.submit(batch, Durability::Sync).expect("a new table");
    id
}

/// Deletes rows of a version by their ordinals.
fn delete(core: &Core, table: TableId, version: Version, ordinals: &[u64]) {
    let columns: [(&str, ArrayRef); 2] = [
        (VERSION_COLUMN, Arc::new(UInt64Array::from(vec![version.0; ordinals.len()]))),
        (ORDINAL_COLUMN, Arc::new(UInt64Array::from(ordinals.to_vec()))),
    ];
    let dead = RecordBatch::try_from_iter(columns).expect("two columns");
    let checked_at = core.catalog().by_id(table).expect("it is there").changed_at;
    let rows = NewRows { change: RowChange::DeleteRows, ..NewRows::insert(table, checked_at, vec![dead]) };
    core.submit(NewBatch { rows: vec![rows], ..NewBatch::default() }, Durability::Sync).expect("they go");
    core.sort().expect("it sorts");
    while core.merge(true).expect("it merges") {}
}

fn dead_rows(core: &Core, table: TableId) -> u64 {
    let segments = core.segments().into_iter().filter(|segment| segment.meta.table == table);
    segments.map(|segment| segment.dead_rows).sum()
}

#[test]
fn deleted_rows_go_when_they_are_old_enough() {
    let (disk, clock) = (FaultDisk::new(), Arc::new(ManualClock::default()));
    clock.advance(1_000 * HOUR);
    let default = PurgeAfter::Seconds(24 * 3_600);
    let core = open(&disk, &clock, default);
    let says = [None, Some(PurgeAfter::Seconds(2 * 3_600)), Some(PurgeAfter::Never)];
    let [day, hours, never] =
        says.map(|after| create(&core, &format!("t{}", after.map_or_else(String::new, PurgeAfter::name)), after));
    let tables = [day, hours, never];
    let all: Vec<(i64, String)> = (0..100).map(|id| (id, format!("k{}", id % 3))).collect();
    let all: Vec<(i64, &str)> = all.iter().map(|(id, kind)| (*id, kind.as_str())).collect();
    let came = tables.map(|table| insert(&core, &[(table, rows(&all))]).expect("they come").version);
    core.sort().expect("it sorts");
    while core.merge(true).expect("it merges") {}
    for (table, came) in tables.into_iter().zip(came) {
        delete(&core, table, came, &[3, 50]);
    }
    let dead = |core: &Core| tables.map(|table| dead_rows(core, table));
    assert_eq!(dead(&core), [2, 2, 2]);
    let pass = |core: &Core, time: Duration| {
        clock.advance(time);
        std::iter::from_fn(|| core.purge_old().expect("it looks").then_some(())).count()
    };
    assert_eq!(pass(&core, Duration::ZERO), 0, "the first mark");
    assert_eq!((pass(&core, HOUR), dead(&core)), (0, [2, 2, 2]));
    assert!(pass(&core, HOUR) >= 1);
    assert_eq!(dead(&core), [2, 0, 2]);
    // Marks outlive the process.
    drop(core);
    let core = open(&disk, &clock, default);
    assert_eq!((pass(&core, 20 * HOUR), dead(&core)), (0, [2, 0, 2]));
    assert!(pass(&core, 2 * HOUR) >= 1);
    assert_eq!(dead(&core), [0, 0, 2]);
    // Without the marks age begins anew.
    delete(&core, hours, came[1], &[7]);
    pass(&core, HOUR);
    drop(core);
    disk.remove(&Path::new(support::DIR).join("ages")).expect("they may be lost");
    let core = open(&disk, &clock, PurgeAfter::Never);
    assert_eq!((pass(&core, 5 * HOUR), dead(&core)), (0, [0, 1, 2]));
    assert!(pass(&core, 3 * HOUR) >= 1);
    assert_eq!(dead(&core), [0, 0, 2]);
}
