//! A level whose names take all the room that they may: batches that bring new names are refused, and everything else goes on.

use crate::support::{self, contents, create, insert, rows};
use alluvia_node::{Core, DatabaseOptions};
use alluvia_pipeline::Inline;
use alluvia_snapshot::{Durability, Ingest, NewBatch, Read};
use alluvia_storage::{Disk, FaultDisk};
use alluvia_types::{ErrorKind, ManualClock, Result, TableId};
use std::path::Path;
use std::sync::Arc;

/// A name is so long that a few of them make a level full.
const NAME_BYTES: usize = 2 << 20;

/// Names of a level may take little more than the tail.
fn open(disk: &Arc<FaultDisk>) -> Core {
    let mut options = DatabaseOptions { memory_limit_bytes: 128 << 20, ..support::options() };
    options.level_bytes_max = options.tail_bytes_max() + 10_000;
    let disk = Arc::clone(disk) as Arc<dyn Disk>;
    let clock = Arc::new(ManualClock::default());
    Core::open(disk, Path::new(support::DIR), clock, &options, Arc::new(Inline), 42).unwrap()
}

fn name(number: i64) -> String {
    format!("{number}{}", "n".repeat(NAME_BYTES))
}

fn load(core: &Core, table: TableId, number: i64) -> Result<()> {
    let entry = core.catalog().by_id(table).cloned().unwrap();
    let mut load = core.begin_load(&entry.def, entry.changed_at)?;
    load.append(rows(&[(number, &name(number))]))?;
    let batch = NewBatch { loads: vec![load.finish()?], ..NewBatch::default() };
    core.submit(batch, Durability::Sync).map(drop)
}

#[test]
fn a_full_level_refuses_new_names_and_other_tables_go_on() {
    let disk = FaultDisk::new();
    let core = open(&disk);
    let (full, _) = create(&core, "full").unwrap();
    let (other, _) = create(&core, "other").unwrap();
    let mut expected = Vec::new();
    let mut keep = |number: i64, name: &str| expected.push(format!("{number}|{name}"));
    // These wait without codes while loads take all the room that there is.
    for number in 0..2 {
        insert(&core, &[(full, rows(&[(number, &name(number))]))]).unwrap();
        keep(number, &name(number));
    }
    let refused = (2..20).find_map(|number| match load(&core, full, number) {
        Ok(()) => {
            keep(number, &name(number));
            None
        }
        Err(error) => Some((number, error)),
    });
    let (loaded, refused) = refused.expect("the level is full");
    assert!(loaded >= 4 && refused.kind() == ErrorKind::NotSupported, "{refused}");

    let refused = insert(&core, &[(full, rows(&[(100, &name(100))]))]).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotSupported, "{refused}");
    assert!(refused.hint().is_some_and(|hint| hint.contains("id(kind: hash 12)")), "{refused}");
    // Of two tables in one batch both are refused.
    let both = [(full, rows(&[(100, &name(100))])), (other, rows(&[(100, "never")]))];
    assert_eq!(insert(&core, &both).unwrap_err().kind(), ErrorKind::NotSupported);

    insert(&core, &[(full, rows(&[(101, &name(2))]))]).expect("it is a member");
    keep(101, &name(2));
    insert(&core, &[(other, rows(&[(7, "a new name")]))]).expect("another table's level");
    assert!(core.sort().expect("all that was acknowledged fits"));
    expected.sort();
    assert!(contents(&core)["full"] == expected);
    drop(core);

    let core = open(&disk);
    assert!(contents(&core)["full"] == expected);
    assert_eq!(insert(&core, &[(full, rows(&[(102, &name(102))]))]).unwrap_err().kind(), ErrorKind::NotSupported);
    insert(&core, &[(other, rows(&[(8, "another")]))]).unwrap();
    core.sort().unwrap();
    core.merge(true).unwrap();
    assert_eq!(contents(&core)["other"], ["7|a new name", "8|another"]);
    assert!(contents(&core)["full"] == expected);
}
