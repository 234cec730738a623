//! A query never waits for a merge: while one is held up, at each of its syncs in turn, queries of every freshness answer, and writers
//! write.
//!
//! What did wait would wait for ever here, since the merge goes on only after it has ended.

use crate::support::{self, create, insert, rows, shown_rows};
use alluvia_node::Core;
use alluvia_pipeline::Inline;
use alluvia_query::{Engine, EngineOptions, Session};
use alluvia_snapshot::Ports;
use alluvia_storage::{Disk, FaultDisk, Watch, WatchedDisk};
use alluvia_types::ManualClock;
use parking_lot::{Condvar, Mutex};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::ThreadId;
use std::time::Duration;

/// What the merge has come to.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Held,
    Ended,
}

/// Holds up one thread at one of its syncs.
#[derive(Debug, Default)]
struct Gate {
    armed: Mutex<Option<Armed>>,
    opened: Condvar,
}

#[derive(Debug)]
struct Armed {
    thread: ThreadId,
    /// Syncs that still pass.
    passes: usize,
    told: Sender<Event>,
}

impl Gate {
    /// Holds up the calling thread after so many syncs, until [`Gate::open`].
    fn arm(&self, passes: usize, told: Sender<Event>) {
        *self.armed.lock() = Some(Armed { thread: std::thread::current().id(), passes, told });
    }

    fn open(&self) {
        *self.armed.lock() = None;
        self.opened.notify_all();
    }
}

impl Watch for Gate {
    fn before_sync(&self) {
        let mut armed = self.armed.lock();
        match armed.as_mut().filter(|armed| armed.thread == std::thread::current().id()) {
            None => return,
            Some(armed) if armed.passes > 0 => {
                armed.passes -= 1;
                return;
            }
            Some(armed) => armed.told.send(Event::Held).expect("the test listens"),
        }
        while armed.is_some() {
            self.opened.wait(&mut armed);
        }
    }
}

/// Rows that a session of its own counts at a freshness, by the short path or by a plan.
async fn counted(engine: &Arc<Engine>, freshness: &str) -> Vec<i64> {
    let session: Session = engine.session();
    session.sql(&format!("SET freshness = '{freshness}'")).await.expect("sets");
    let mut found = Vec::new();
    for sql in ["SELECT count(*) FROM t", "SELECT count(*) FROM (SELECT id FROM t ORDER BY kind LIMIT 100000) AS x"] {
        found.extend(shown_rows(&session, sql).await.iter().map(|count| count.parse::<i64>().expect("a count")));
    }
    found
}

#[test]
fn queries_answer_and_writers_write_while_a_merge_is_held_up() {
    let gate = Arc::new(Gate::default());
    let disk = WatchedDisk::new(FaultDisk::new(), Arc::clone(&gate) as Arc<dyn Watch>);
    let clock = Arc::new(ManualClock::default());
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let mut options = support::options();
    // Each merge writes one segment, so that the number of its syncs stays the same.
    (options.pipeline.partition_rows_max, options.pipeline.rung_rows_min) = (1 << 20, 1 << 20);
    let dir = Path::new(support::DIR);
    let core = Arc::new(Core::open(disk, dir, clock.clone(), &options, Arc::new(Inline), 42).expect("opens"));
    let spill = tempfile::tempdir().expect("a directory");
    let options = EngineOptions {
        memory_limit_bytes: options.query_bytes_max(),
        query_memory_bytes: options.query_bytes_max(),
        spill_dir: spill.path().into(),
        spill_bytes_max: 1 << 20,
        cuboid_bytes_max: options.cuboid_bytes_max(),
        predicate_cache_bytes_max: options.predicate_cache_bytes_max(),
        threads: 2,
        fetch: None,
        served: alluvia_copy::ServedPlaces::default(),
    };
    let engine = Engine::new(Ports::of_one(&core), options).expect("an engine");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    let (table, _) = create(&core, "t").unwrap();
    let (mut inserted, mut merged, mut held) = (0, 0, 0);
    let mut write = |count: i64| {
        for _ in 0..count {
            insert(&core, &[(table, rows(&[(inserted % 1_000, ["red", "green"][inserted as usize % 2])]))]).unwrap();
            inserted += 1;
        }
        inserted
    };
    for passes in 0.. {
        write(10);
        core.sort().unwrap();
        let sorted = write(10);
        core.sort().unwrap();
        clock.advance(Duration::from_secs(10));
        let (told, events) = channel();
        let merge = std::thread::spawn({
            let (core, gate) = (Arc::clone(&core), Arc::clone(&gate));
            move || {
                gate.arm(passes, told.clone());
                let any = core.merge(true);
                gate.open();
                told.send(Event::Ended).expect("the test listens");
                any
            }
        });
        let was_held = events.recv().unwrap() == Event::Held;
        if was_held {
            held += 1;
            let all = write(1);
            runtime.block_on(async {
                assert_eq!(counted(&engine, "0s").await, [all, all], "held at sync {passes}");
                // What became visible in the last seconds may be missing, and what is sorted is enough then.
                assert_eq!(counted(&engine, "5s").await, [sorted, sorted], "held at sync {passes}");
                assert_eq!(counted(&engine, "merged").await, [merged, merged], "held at sync {passes}");
            });
            gate.open();
            assert_eq!(events.recv().unwrap(), Event::Ended);
        }
        assert!(merge.join().expect("no panic").expect("merges"), "there was something to merge");
        merged = sorted;
        runtime.block_on(async {
            assert_eq!(counted(&engine, "merged").await, [merged, merged]);
        });
        if !was_held {
            break;
        }
    }
    assert!(held >= 3, "a merge syncs a segment's two files and the manifest; it was held up {held} times");
}
