//! Which cuboids are resident, and how they stay as new as the log.
//!
//! Invariants:
//! - A [`resident`] cuboid follows the log by version: rows that were killed are taken off, rows that came are added. It is dropped when
//!   the table's definition changes, when a code finds no place in it, or when catching up would cost as much as building it anew, and is
//!   then built anew if it is wanted.
//! - The least or greatest value of a cell whose row was killed is not known any more; sums of floats that are no decimal numbers, and of
//!   squares of floats, are lost when one of the values is killed. A statement that needs these is answered by the tree, and the cuboid is
//!   built anew: for bounds not too often, for sums when no row of the table was killed for [`QUIET`]. It answers everything else meanwhile.
//! - A resident cuboid's version is pinned, so that what was killed since can be read: it holds up what sorts and merges leave out for as
//!   long as it lags behind, and [`Cuboids::tend`] lets none lag behind.
//! - What all cuboids hold is bounded. For one that is asked for more, those that are used less for their size are evicted;
//!   pinned ones never are.
//! - A cuboid is built after its [`shape`] was asked for, by whoever calls [`Cuboids::tend`], or when it is pinned; never by a
//!   query, and never two at a time.
//! - Shapes are kept across restarts ([`memory`]), and built again in the order of their use; pins outlive everything but their table.

mod forgetting;
pub(crate) mod lookup;

mod building;
mod memory;
mod pinning;
mod resident;
mod selected;
mod shape;
#[cfg(test)]
mod tests;

pub use memory::{MEMO, check as check_memo};
pub use pinning::Pinned;
pub use shape::Shape;

pub(crate) use selected::Selected;
pub(crate) use shape::dimensions;

use super::Kept;
use alluvia_snapshot::{Admin, Read, Snapshot, Want};
use alluvia_types::{Freshness, Result, TableId, Version};
use parking_lot::{Mutex, RwLock};
use resident::{Effort, Followed, Resident};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Cells that a cuboid has at most, unless it is pinned.
const CELLS_MAX: u64 = 4 << 20;
/// Cells that are always worth it, however few rows there are.
const CELLS_FREE: u64 = 1 << 16;
/// For so long no row of a table was killed before a cuboid is built anew for sums that kills have lost.
const QUIET: Duration = Duration::from_secs(60);
/// Shapes asked for and not yet built that are remembered.
const WANTED_MAX: usize = 1_000;

/// All cuboids of a database.
#[derive(Debug)]
pub struct Cuboids {
    bytes_max: u64,
    resident: RwLock<Vec<Arc<Resident>>>,
    demand: Mutex<Demand>,
    /// Held while one is built.
    building: Mutex<()>,
    /// What is kept across restarts: shapes, and whether they are pinned.
    memorised: Mutex<Vec<(Shape, bool)>>,
}

#[derive(Debug, Default)]
struct Demand {
    wanted: HashMap<Shape, Wanted>,
    pins: BTreeMap<Shape, Refusal>,
}

/// A shape that was asked for.
#[derive(Clone, Copy, Default, Debug)]
struct Wanted {
    /// How often; fades.
    asked: u64,
    refusal: Refusal,
}

/// Why a shape was not built when its turn came: it is not tried again before that may have changed.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Refusal {
    #[default]
    None,
    /// It was not worth it for a table of so many rows, or could not be built then; 0 where nothing was sorted yet.
    AtRows(u64),
    /// Others were used more; asked for so often, it is tried again.
    UntilAsked(u64),
}

/// What became of a shape.
enum Built {
    Yes,
    No(Refusal),
    /// The table is gone, or no longer has all of the shape.
    Never,
}

impl Cuboids {
    /// None yet; all together hold at most `bytes_max`.
    pub fn new(bytes_max: u64) -> Cuboids {
        Cuboids {
            bytes_max,
            resident: RwLock::default(),
            demand: Mutex::default(),
            building: Mutex::default(),
            memorised: Mutex::default(),
        }
    }

    /// The resident ones.
    pub fn list(&self) -> Vec<Arc<Resident>> {
        self.resident.read().clone()
    }

    /// Pinned shapes that are not resident now.
    pub fn pins_missing(&self) -> Vec<Shape> {
        let resident = self.list();
        let is_missing = |shape: &&Shape| !resident.iter().any(|resident| resident.shape == **shape);
        self.demand.lock().pins.keys().filter(is_missing).cloned().collect()
    }

    fn want(&self, shape: &Shape) {
        let mut demand = self.demand.lock();
        if let Some(wanted) = demand.wanted.get_mut(shape) {
            wanted.asked += 1;
        } else if !demand.pins.contains_key(shape) {
            if demand.wanted.len() == WANTED_MAX {
                // What was refused once is tried again, should it be asked for again.
                demand.wanted.retain(|_, wanted| wanted.refusal == Refusal::None);
            }
            if demand.wanted.len() < WANTED_MAX {
                demand.wanted.insert(shape.clone(), Wanted { asked: 1, refusal: Refusal::None });
            }
        }
    }

    /// Wants a cuboid anew that cannot tell a bound any more, or sums that are lost. It goes on answering what it can until there is
    /// another.
    fn want_anew(&self, resident: &Arc<Resident>, is_lost: bool, store: &dyn Read) {
        let may_be = || !is_lost || is_quiet(store, resident.shape.table).unwrap_or(false);
        if resident.may_be_rebuilt(store.clock().as_ref()) && may_be() {
            // Also a pinned one, which nobody else wants while it is there.
            self.demand.lock().wanted.entry(resident.shape.clone()).or_default().asked += 1;
        }
    }

    fn remove(&self, gone: &Arc<Resident>) {
        self.resident.write().retain(|resident| !Arc::ptr_eq(resident, gone));
    }

    /// Brings resident cuboids up to date, and builds the most wanted shape, if any is wanted. Returns whether a shape was looked
    /// at.
    pub fn tend(&self, store: &dyn Read, admin: &dyn Admin, kept: &Kept, threads: usize) -> Result<bool> {
        let catalog = store.catalog();
        kept.retain(|table| catalog.by_id(table).is_some());
        for table in kept.tails.tables() {
            if newest(store, table)?.is_some_and(|snapshot| snapshot.tables[&table].tail.is_empty()) {
                kept.tails.forget(table);
            }
        }
        let visible = store.required(Freshness::Within(Duration::ZERO), Version(0));
        for resident in self.list().into_iter().filter(|resident| resident.version() < visible) {
            if resident.follow(store, visible, &kept.tails, Effort::All)? == Followed::Yes {
                continue;
            }
            let snapshot = newest(store, resident.shape.table)?;
            let read = snapshot.as_ref().and_then(|snapshot| snapshot.tables.get(&resident.shape.table));
            let (Some(snapshot), Some(read)) = (&snapshot, read) else {
                self.remove(&resident);
                continue;
            };
            if read.entry.changed_at != resident.entry.changed_at
                || !resident.catch_up(store, snapshot, read, &kept.tails)?
            {
                self.remove(&resident);
                self.want(&resident.shape.left(&read.entry.def));
            }
        }
        let any = {
            let _building = self.building.lock();
            self.build_next(store, admin, kept, threads)?
        };
        self.memorise(admin, false)?;
        Ok(any)
    }
}

/// Whether no row of a table was killed lately.
fn is_quiet(store: &dyn Read, table: TableId) -> Result<bool> {
    let snapshot = newest(store, table)?;
    let read = snapshot.as_ref().and_then(|snapshot| snapshot.tables.get(&table));
    let killed_through = read.map_or(Version(0), |read| read.killed_through);
    Ok(killed_through <= store.required(Freshness::Within(QUIET), Version(0)))
}

fn newest(store: &dyn Read, table: TableId) -> Result<Option<Snapshot>> {
    let freshness = Freshness::Within(Duration::ZERO);
    let snapshot = store.snapshot(&Want { freshness, at_least: Version(0), exactly: None, tables: vec![table] })?;
    Ok(snapshot.tables.contains_key(&table).then_some(snapshot))
}
