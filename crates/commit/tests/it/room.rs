//! What is on its way to being visible has room in the tail, as what is visible has.

use crate::support::{TAIL_BYTES_MAX, committer, create, insert, spaces};
use alluvia_catalog::Change;
use alluvia_snapshot::{Durability, NewBatch};
use alluvia_storage::{Disk, FaultDisk, Watch, WatchedDisk};
use alluvia_types::{ErrorKind, TableId, Version};
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;

/// Holds up every sync while it is shut.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_shut: bool,
    held: usize,
}

impl Gate {
    fn set_shut(&self, is_shut: bool) {
        self.state.lock().is_shut = is_shut;
        self.changed.notify_all();
    }
}

impl Watch for Gate {
    fn before_sync(&self) {
        let mut state = self.state.lock();
        while state.is_shut {
            state.held += 1;
            self.changed.notify_all();
            self.changed.wait(&mut state);
            state.held -= 1;
        }
    }
}

/// As a device does that takes an fsync of minutes: a session that does not wait for fsyncs must wait for this one, before it has brought
/// more than the tail may have.
#[test]
fn relaxed_batches_wait_for_a_long_fsync_once_they_are_as_many_as_the_tail_may_have() {
    let gate = Arc::new(Gate::default());
    let disk: Arc<dyn Disk> = Arc::new(WatchedDisk::new(FaultDisk::new(), Arc::clone(&gate) as Arc<dyn Watch>));
    let (committer, _) = committer(Arc::clone(&disk), spaces(&disk));
    let table = (1, create(&committer, 1));
    let name = "n".repeat(3_000);
    gate.set_shut(true);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let submit = |_: &usize| insert(&committer, table, &[&name], Durability::Relaxed).is_ok();
            (0..200).take_while(submit).count()
        });
        let mut state = gate.state.lock();
        while state.held == 0 && !writer.is_finished() {
            gate.changed.wait_for(&mut state, std::time::Duration::from_millis(20));
        }
        drop(state);
        let pending = committer.log().bytes_pending();
        assert!(
            (TAIL_BYTES_MAX / 2..TAIL_BYTES_MAX + 4_096).contains(&pending),
            "{pending} bytes wait for their fsync"
        );
        gate.set_shut(false);
        // The tail is full now; the writer goes on once its table is gone, and is told so.
        let changes = vec![Change::DropTable { id: TableId(1) }];
        committer.submit(NewBatch { changes, ..NewBatch::default() }, Durability::Sync).unwrap();
        assert!(writer.join().expect("it ends") < 50, "and no more came in meanwhile");
    });
}

#[test]
fn who_needs_the_room_of_batches_that_cannot_become_durable_is_told_why() {
    let disk = FaultDisk::new();
    let whole: Arc<dyn Disk> = Arc::clone(&disk) as Arc<dyn Disk>;
    let (committer, _) = committer(Arc::clone(&whole), spaces(&whole));
    let table = (1, create(&committer, 1));
    let name = "n".repeat(3_000);
    disk.fail_sync(1);
    let error = (0..200).find_map(|_| insert(&committer, table, &[&name], Durability::Relaxed).err());
    assert_eq!(error.expect("the room is used up").kind(), ErrorKind::Poisoned);
}

#[test]
fn a_batch_that_is_refused_gives_its_room_back() {
    let disk: Arc<dyn Disk> = FaultDisk::new();
    let (committer, views) = committer(Arc::clone(&disk), spaces(&disk));
    let defined = create(&committer, 1);
    for _ in 0..100 {
        let error = insert(&committer, (1, Version(0)), &[&"n".repeat(3_000)], Durability::Relaxed).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    }
    insert(&committer, (1, defined), &["kept"], Durability::Sync).unwrap();
    assert!(views.unsorted_bytes() < 1_000);
}
