//! Writers take turns from half of the tail on, as fast as sorts were seen to be.

use crate::support::{TAIL_BYTES_MAX, committer_at, create, insert, spaces};
use alluvia_commit::Committer;
use alluvia_snapshot::{Base, Durability, Failures, TailBounds, TailRoom, Views};
use alluvia_storage::{Disk, FaultDisk};
use alluvia_types::{Clock, Error, ErrorKind, ManualClock, SystemClock, Version};
use std::sync::Arc;
use std::time::Duration;

const HALF: u64 = TAIL_BYTES_MAX / 2;

fn tail() -> (Committer, Arc<Views>, Arc<ManualClock>, (u32, Version)) {
    let (disk, clock): (Arc<dyn Disk>, _) = (FaultDisk::new(), Arc::new(ManualClock::default()));
    let bounds = TailBounds::unstepped(TAIL_BYTES_MAX);
    let (committer, views) =
        committer_at(Arc::clone(&disk), spaces(&disk), Arc::clone(&clock), Base::default(), bounds);
    let table = (1, create(&committer, 1));
    (committer, views, clock, table)
}

/// A sort of what is there, which takes so long.
fn sort(views: &Views, clock: &ManualClock, took: Duration) {
    let cut = views.cut(1);
    clock.advance(took);
    views.install(Base { through: cut.through, ..Base::default() }, &[], Vec::new());
}

fn room(views: &Views, bytes: u64) -> TailRoom {
    views.wait_room(bytes, &mut || Ok(())).expect("there is room")
}

#[test]
fn above_the_half_a_batch_that_may_not_wait_is_refused_and_one_that_may_has_its_turn_later() {
    let (committer, views, clock, table) = tail();
    insert(&committer, table, &[&"n".repeat(HALF as usize - 20_000)], Durability::Sync).expect("let in");
    let (taken, _) = views.tail_load();
    sort(&views, &clock, Duration::from_millis(100));
    assert_eq!(views.tail_load().0, 0);

    let _first = room(&views, HALF);
    assert!(views.try_room(1_000).is_some(), "half of it is at ease");
    let _over = room(&views, 1_000);
    // Nobody has had a turn yet. The sort took `taken` in a tenth of a second: the next turn is after some hundredths.
    let _turn = room(&views, taken / 2);
    assert!(views.try_room(1_000).is_none(), "its turn is not now");
    let real = SystemClock::default();
    let waited = room(&views, 1_000);
    let took = real.monotonic();
    assert!((Duration::from_millis(10)..Duration::from_secs(5)).contains(&took), "{took:?}");
    drop((_first, _over, _turn, waited));

    assert!(views.try_room(HALF).is_some(), "there is room again");
}

#[test]
fn nobody_waits_for_a_turn_where_sorts_fail() {
    let (committer, views, clock, table) = tail();
    insert(&committer, table, &[&"n".repeat(HALF as usize - 20_000)], Durability::Sync).expect("let in");
    // A slow one.
    sort(&views, &clock, Duration::from_secs(3_600));
    let _first = room(&views, HALF + 1);
    let _turn = room(&views, 1_000);
    let before: Failures = views.failures();
    views.sort_ended(Some(Error::new(ErrorKind::DiskFull, "no room")));
    assert_ne!(before, views.failures());
    let real = SystemClock::default();
    let _next = room(&views, 1_000);
    assert!(real.monotonic() < Duration::from_secs(1), "its turn would come in minutes");
}
