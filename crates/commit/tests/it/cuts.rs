//! What a sort begins with where more waits than it takes at a time.

use crate::support::{TAIL_BYTES_MAX, committer_at, create, insert, spaces};
use alluvia_catalog::Change;
use alluvia_commit::Committer;
use alluvia_snapshot::{Base, Durability, NewBatch, TailBounds, Views};
use alluvia_storage::{Disk, FaultDisk};
use alluvia_types::{ProducerMark, TableId, Version};
use std::sync::Arc;

/// A tail in which each batch with rows is a step.
fn stepped(base: Base) -> (Committer, Arc<Views>) {
    let disk: Arc<dyn Disk> = FaultDisk::new();
    let bounds = TailBounds { bytes_max: TAIL_BYTES_MAX, step_bytes: 1 };
    committer_at(Arc::clone(&disk), spaces(&disk), Arc::default(), base, bounds)
}

fn come(committer: &Committer, table: (u32, Version)) -> Version {
    insert(committer, table, &["a name"], Durability::Sync).expect("let in").version
}

/// Where a cut of so many steps ends, and the tables that it knows.
fn cut(views: &Views, steps: usize) -> (Version, Vec<u32>) {
    let cut = views.cut(steps);
    (cut.through, cut.catalog.tables().map(|entry| entry.def.id.0).collect())
}

#[test]
fn a_cut_has_definitions_producers_and_rows_as_of_the_version_that_it_ends_at() {
    let (committer, views) = stepped(Base::default());
    let first = (1, create(&committer, 1));
    let second = come(&committer, first);
    let producer = Some(ProducerMark { name: "p".to_owned(), epoch: 1, sequence: 1 });
    let third =
        committer.submit(NewBatch { producer, ..NewBatch::default() }, Durability::Sync).expect("let in").version;
    let fourth = come(&committer, first);
    create(&committer, 2);
    let last = come(&committer, first);
    assert_eq!(cut(&views, 1), (second, vec![1]));
    assert_eq!(cut(&views, 2), (fourth, vec![1]));
    assert_eq!(cut(&views, 3), (last, vec![1, 2]), "no more than three steps wait");
    let rows =
        |steps| views.cut(steps).tails.iter().flat_map(|(_, runs)| runs).map(|run| run.num_rows()).sum::<usize>();
    assert_eq!([1, 2, 3].map(rows), [1, 2, 3]);
    let producers = |steps| views.cut(steps).producers.get("p").map(|reached| reached.version);
    assert_eq!([1, 2].map(producers), [None, Some(third)]);

    views.install(Base { through: second, complete: second, ..Base::default() }, &[], Vec::new());
    assert_eq!(cut(&views, 1).0, fourth, "the next one goes on from there");
}

#[test]
fn no_cut_ends_before_a_table_was_dropped() {
    let (committer, views) = stepped(Base::default());
    let [first, second] = [1, 2].map(|id| (id, create(&committer, id)));
    for _ in 0..3 {
        come(&committer, first);
    }
    assert!(cut(&views, 1).0 < views.visible());
    let changes = vec![Change::DropTable { id: TableId(1) }];
    let dropped =
        committer.submit(NewBatch { changes, ..NewBatch::default() }, Durability::Sync).expect("dropped").version;
    assert_eq!(cut(&views, 1), (dropped, vec![2]));
    let [next, last] = [(); 2].map(|()| come(&committer, second));
    assert_eq!((cut(&views, 1).0, cut(&views, 2).0), (next, last));
}

/// As a start has it that reads the log behind what files of other tables tell of.
#[test]
fn no_cut_ends_below_what_files_tell_of() {
    let (committer, views) = stepped(Base { complete: Version(4), ..Base::default() });
    let table = (1, create(&committer, 1));
    let came = [(); 5].map(|()| come(&committer, table));
    assert_eq!(came.map(|version| version.0), [2, 3, 4, 5, 6]);
    assert_eq!(cut(&views, 1).0, Version(4));
}
