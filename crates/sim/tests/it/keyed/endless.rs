//! A merge ends, however many rows come meanwhile.

use super::mended::submit;
use super::model::Change;
use super::tables::{KeyKind, row};
use super::world::{KEYED, Setup, create};
use alluvia_sim::{Engine, Random};
use alluvia_space::OnConflict;
use alluvia_storage::{Disk, FaultDisk, Watch, WatchedDisk};
use alluvia_types::{ManualClock, TableId};
use parking_lot::Mutex;
use std::path::Path;
use std::sync::{Arc, Weak};

/// Segments that come at most: a merge that takes them all along has then still an end.
const COMING: u64 = 40;

/// Brings two rows, each of which becomes a segment, whenever a merge has written one of two.
#[derive(Debug, Default)]
struct Busy(Mutex<Option<Writer>>);

#[derive(Debug)]
struct Writer {
    engine: Weak<Engine>,
    tables: Vec<TableId>,
    came: u64,
}

impl Watch for Busy {
    fn before_sync_of(&self, path: &Path) {
        if path.extension().is_none_or(|ending| ending != "side") || self.0.is_locked() {
            return;
        }
        // Locked meanwhile, so that its own segments bring none.
        let mut writer = self.0.lock();
        let Some(writer) = writer.as_mut().filter(|writer| writer.came < COMING) else { return };
        let Some(engine) = writer.engine.upgrade() else { return };
        for _ in 0..2 {
            writer.came += 1;
            come(&engine, &writer.tables, 100 + writer.came);
        }
    }
}

fn come(engine: &Engine, tables: &[TableId], number: u64) {
    submit(engine, tables, KEYED, Change::Insert(vec![row(KeyKind::Ordered, number, &mut Random::new(number))]));
    engine.sort().expect("sorted");
}

#[test]
fn a_merge_ends_though_as_many_segments_come_as_it_takes() {
    let mut setup = Setup::new(KeyKind::Ordered, OnConflict::Error);
    // Two segments at a time.
    setup.options.pipeline.merge_bytes = 1;
    let busy = Arc::new(Busy::default());
    let disk = WatchedDisk::new(FaultDisk::new() as Arc<dyn Disk>, Arc::clone(&busy) as _);
    let engine = Engine::open(Arc::new(disk), Arc::new(ManualClock::default()), &setup.options).expect("it opens");
    let engine = Arc::new(engine);
    let tables = create(&engine, &setup).expect("tables");
    (0..5).for_each(|number| come(&engine, &tables, number));
    *busy.0.lock() = Some(Writer { engine: Arc::downgrade(&engine), tables, came: 0 });
    engine.merge().expect("merged");
    let came = busy.0.lock().take().expect("a writer").came;
    assert!((1..COMING / 2).contains(&came), "{came} came while it merged 5");
}
