//! A level that is full refuses batches before they are acknowledged, so that what is in the log can always be sorted.

use crate::support::{TAIL_BYTES_MAX, committer, create, insert, rows, spaces, table};
use alluvia_catalog::LevelBounds;
use alluvia_commit::Committer;
use alluvia_snapshot::{Base, Committed, Durability, NewBatch, NewRows, Spaces, Views};
use alluvia_storage::{Disk, FaultDisk};
use alluvia_types::{ErrorKind, ProducerMark, Result, TableId, Version};
use arrow::record_batch::RecordBatch;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Names of a level may take this much more than the tail.
const SPARE: u64 = 10_000;

fn bounded() -> (Committer, Arc<Views>) {
    let disk: Arc<dyn Disk> = FaultDisk::new();
    committer(Arc::clone(&disk), bounded_spaces(&disk))
}

fn bounded_spaces(disk: &Arc<dyn Disk>) -> Spaces {
    spaces(disk).with_bounds(LevelBounds::new(TAIL_BYTES_MAX + SPARE, TAIL_BYTES_MAX))
}

/// A name of so many bytes that no other number has.
fn name(number: usize, bytes: usize) -> String {
    format!("{number:08}{}", "n".repeat(bytes))
}

/// What a load does with the dictionaries.
fn load(views: &Views, id: u32, rows: &RecordBatch) -> Result<()> {
    let space = views.spaces().get(&table(id))?;
    space.dictionaries.remap_leaving(&table(id), rows, &|| views.unsorted_bytes()).map(drop)
}

/// What a sort does with them; then the tail is empty.
fn sort(views: &Views) -> Result<()> {
    let cut = views.cut(1);
    for (id, tail) in cut.tails {
        let space = views.spaces().get(&table(id.0))?;
        for rows in tail {
            space.dictionaries.remap(&table(id.0), &rows)?;
        }
    }
    views.install(Base { through: cut.through, ..Base::default() }, &[], Vec::new());
    Ok(())
}

#[test]
fn a_full_level_refuses_new_names_and_nothing_else() {
    let (committer, views) = bounded();
    let (full, other) = ((1, create(&committer, 1)), (2, create(&committer, 2)));
    // They wait without codes while a load takes all the room that there is.
    let waiting: Vec<String> = (0..10).map(|at| name(at, 1_000)).collect();
    for name in &waiting {
        insert(&committer, full, &[name], Durability::Sync).unwrap();
    }
    let loaded = (100..).take_while(|&at| load(&views, 1, &rows(&[&name(at, 1_000)])).is_ok()).count();
    assert!((30..70).contains(&loaded), "{loaded} of about 75 less those that wait");

    let refused = insert(&committer, full, &[&name(9_999, 1_000)], Durability::Sync).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NotSupported, "{refused}");
    assert!(refused.message().contains("level kind."), "{refused}");
    assert!(refused.hint().is_some_and(|hint| hint.contains("id(kind: hash 12)")), "{refused}");
    // What is sent again is no new batch, though its names have no codes yet.
    let rows = |number: usize| vec![NewRows::insert(TableId(1), full.1, vec![rows(&[&name(number, 1_000)])])];
    let producer = |sequence: u64| Some(ProducerMark { name: "p".to_owned(), epoch: 1, sequence });
    let send = |sequence: u64, number: usize| {
        let batch = NewBatch { rows: rows(number), producer: producer(sequence), ..NewBatch::default() };
        committer.submit(batch, Durability::Sync)
    };
    assert!(!send(1, 100).unwrap().duplicate);
    assert!(send(1, 9_999).unwrap().duplicate);
    assert!(send(2, 9_999).is_err());
    for _ in 0..2 {
        insert(&committer, full, &[&name(100, 1_000)], Durability::Sync).expect("it is a member");
        insert(&committer, other, &[&name(9_999, 1_000)], Durability::Sync).expect("it is another table's level");
        sort(&views).expect("all that was acknowledged fits");
    }
    // What had waited has its members, too.
    for name in &waiting {
        insert(&committer, full, &[name], Durability::Sync).unwrap();
    }
    sort(&views).unwrap();
}

#[test]
fn a_level_that_is_near_full_on_disk_is_opened_for_the_first_batch() {
    let disk: Arc<dyn Disk> = FaultDisk::new();
    disk.create_dir_all(Path::new("/db")).unwrap();
    let mark = {
        let space = bounded_spaces(&disk).get(&table(1)).unwrap();
        let names: Vec<String> = (0..60).map(|at| name(at, 1_000)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        space.dictionaries.remap(&table(1), &rows(&names)).unwrap();
        space.dictionaries.persist().unwrap()
    };
    let spaces = bounded_spaces(&disk);
    spaces.require(TableId(1), Some(&mark), None);
    let (committer, views) = committer(Arc::clone(&disk), spaces);
    let full = (1, create(&committer, 1));
    let added = (100..).take_while(|&at| insert(&committer, full, &[&name(at, 1_000)], Durability::Sync).is_ok());
    let added = added.count();
    assert!((3..16).contains(&added), "{added} more of about 75");
    sort(&views).unwrap();
}

/// Whoever must not block hands batches on where a level is near full: they are decided on a thread that may.
#[test]
fn a_batch_that_does_not_wait_is_given_back_where_a_level_is_near_full() {
    let (committer, views) = bounded();
    let checked_at = create(&committer, 1);
    committer.set_served(true);
    let few = || {
        let rows = vec![NewRows::insert(TableId(1), checked_at, vec![rows(&["few"])])];
        committer.submit_then(
            NewBatch { rows, ..NewBatch::default() },
            Box::new(|done: Result<Committed>| assert!(done.is_ok(), "{done:?}")),
        )
    };
    assert!(few().is_none(), "it is on its way");
    committer.serve(Duration::ZERO);
    load(&views, 1, &rows(&[&name(1, 2 * SPARE as usize)])).unwrap();
    let (batch, _) = few().expect("it is given back");
    assert_eq!(committer.submit(batch, Durability::Sync).unwrap().version, views.visible());
}

#[derive(Clone, Debug)]
enum Step {
    /// Names of so many bytes, some of which came before.
    Insert(Vec<(usize, usize)>),
    Load(usize, usize),
    Sort,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let names = prop::collection::vec((0usize..100, 0usize..2_000), 1..8);
    let step = prop_oneof![
        6 => names.prop_map(Step::Insert),
        4 => (0usize..100, 0usize..4_000).prop_map(|(number, bytes)| Step::Load(number, bytes)),
        1 => Just(Step::Sort),
    ];
    prop::collection::vec(step, 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever comes in whatever order: what was acknowledged can be sorted, and what is refused is refused for want of room.
    #[test]
    fn what_is_acknowledged_can_be_sorted(history in steps()) {
        let (committer, views) = bounded();
        let table: (u32, Version) = (1, create(&committer, 1));
        for step in history {
            let done = match step {
                Step::Insert(names) => {
                    let names: Vec<String> = names.into_iter().map(|(number, bytes)| name(number, bytes)).collect();
                    let names: Vec<&str> = names.iter().map(String::as_str).collect();
                    // Without a sorter a writer that finds the tail full would wait for ever.
                    let has_room = views.try_room(20_000).is_some();
                    if !has_room {
                        sort(&views).expect("all that was acknowledged fits");
                    }
                    insert(&committer, table, &names, Durability::Sync).map(drop)
                }
                Step::Load(number, bytes) => load(&views, 1, &rows(&[&name(number, bytes)])),
                Step::Sort => {
                    sort(&views).expect("all that was acknowledged fits");
                    Ok(())
                }
            };
            if let Err(error) = done {
                prop_assert_eq!(error.kind(), ErrorKind::NotSupported, "{}", error);
            }
        }
        sort(&views).expect("all that was acknowledged fits");
    }
}
