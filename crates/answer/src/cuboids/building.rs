//! Which shape is built next, whether it is worth it, and what goes to make room.

use super::resident::{Plan, Resident};
use super::shape::Shape;
use super::{Built, CELLS_FREE, CELLS_MAX, Cuboids, Demand, Refusal, newest};
use crate::Kept;
use alluvia_catalog::Catalog;
use alluvia_snapshot::{Admin, Read};
use alluvia_types::{ErrorKind, Result, TableId};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Cuboids {
    /// Builds the shape whose turn it is. The caller holds [`Cuboids::building`].
    pub(super) fn build_next(&self, store: &dyn Read, admin: &dyn Admin, kept: &Kept, threads: usize) -> Result<bool> {
        let catalog = store.catalog();
        let Some((shape, asked)) = self.next(admin, &catalog) else { return Ok(false) };
        let built = self.build(&shape, asked, store, kept, threads);
        let refusal = match &built {
            Ok(Built::Yes | Built::Never) => None,
            Ok(Built::No(refusal)) => Some(*refusal),
            // Not again and again: what is resident must be tended, too.
            Err(_) => Some(Refusal::AtRows(rows_of(admin, shape.table))),
        };
        let mut demand = self.demand.lock();
        let Demand { wanted, pins } = &mut *demand;
        match (refusal, pins.get_mut(&shape)) {
            (Some(refusal), Some(pin)) => {
                if refusal != *pin && refusal != Refusal::AtRows(0) {
                    tracing::warn!(table = shape.table.0, levels = ?shape.levels, "a pinned cuboid could not be built");
                }
                *pin = refusal;
                // If it was wanted anew: the one that there is goes on.
                wanted.remove(&shape);
            }
            (Some(refusal), None) => {
                if let Some(wanted) = wanted.get_mut(&shape) {
                    wanted.refusal = refusal;
                }
            }
            (None, _) => {
                wanted.remove(&shape);
                if matches!(built, Ok(Built::Never)) {
                    pins.remove(&shape);
                }
            }
        }
        drop(demand);
        built.map(|_| true)
    }

    /// The shape to build next, and how often it was asked for: `None` for a pinned one.
    fn next(&self, admin: &dyn Admin, catalog: &Catalog) -> Option<(Shape, Option<u64>)> {
        self.follow_definitions(catalog);
        let missing = self.pins_missing();
        let demand = self.demand.lock();
        let mut rows: HashMap<TableId, u64> = HashMap::new();
        let mut may = |shape: &Shape, asked: u64, refusal: Refusal| match refusal {
            Refusal::None => true,
            Refusal::AtRows(then) => {
                let now = *rows.entry(shape.table).or_insert_with(|| rows_of(admin, shape.table));
                now / 2 > then || then == 0 && now > 0
            }
            Refusal::UntilAsked(count) => asked >= count,
        };
        let pin = missing.into_iter().find(|shape| demand.pins.get(shape).is_some_and(|&pin| may(shape, 0, pin)));
        if let Some(pin) = pin {
            return Some((pin, None));
        }
        let wanted = demand.wanted.iter().filter(|(shape, wanted)| may(shape, wanted.asked, wanted.refusal));
        let (shape, wanted) = wanted.max_by_key(|(_, wanted)| wanted.asked)?;
        Some((shape.clone(), (!demand.pins.contains_key(shape)).then_some(wanted.asked)))
    }

    /// Forgets what is of tables that are gone; shapes go on without measures that are.
    fn follow_definitions(&self, catalog: &Catalog) {
        let mut demand = self.demand.lock();
        let left = |shape: &Shape| catalog.by_id(shape.table).map(|entry| shape.left(&entry.def));
        for (shape, refusal) in std::mem::take(&mut demand.pins) {
            let Some(left) = left(&shape) else { continue };
            let refusal = if left == shape { refusal } else { Refusal::None };
            demand.pins.insert(left, refusal);
        }
        for (shape, wanted) in std::mem::take(&mut demand.wanted) {
            if let Some(left) = left(&shape) {
                demand.wanted.entry(left).and_modify(|other| other.asked += wanted.asked).or_insert(wanted);
            }
        }
    }

    /// Builds a cuboid, and makes room for it among those that are used less. `asked` is how often it was asked for; `None` for one
    /// that is pinned.
    pub(super) fn build(
        &self,
        shape: &Shape,
        asked: Option<u64>,
        store: &dyn Read,
        kept: &Kept,
        threads: usize,
    ) -> Result<Built> {
        let clock = Arc::clone(store.clock());
        let start = clock.monotonic();
        let snapshot = match newest(store, shape.table) {
            // A table that is closed, since a file of it is damaged, stays so as long as this process lives.
            Err(error) if error.kind() == ErrorKind::Corrupt => return Ok(Built::No(Refusal::AtRows(u64::MAX))),
            found => found?,
        };
        let Some(snapshot) = snapshot else { return Ok(Built::Never) };
        let Some(read) = snapshot.tables.get(&shape.table) else { return Ok(Built::Never) };
        if !shape.fits(&read.entry.def) {
            return Ok(Built::Never);
        }
        if read.dictionaries.is_none() {
            return Ok(Built::No(Refusal::AtRows(0)));
        }
        let rows = read.rows_at_most();
        let refused = Ok(Built::No(Refusal::AtRows(rows)));
        let Some(plan) = Plan::new(shape, read, snapshot.version, &kept.tails)? else { return refused };
        let is_worth_it = plan.cells <= CELLS_MAX.min((rows / 4).max(CELLS_FREE)) && plan.bytes <= self.bytes_max / 2;
        if asked.is_some() && !is_worth_it || plan.bytes > self.bytes_max {
            return refused;
        }
        if let Err(held) = self.victims(plan.bytes, asked) {
            tracing::debug!(held, bytes = plan.bytes, "a cuboid finds no room");
            return Ok(match asked {
                Some(asked) => Built::No(Refusal::UntilAsked(asked.saturating_mul(2))),
                None => Built::No(Refusal::AtRows(rows)),
            });
        }
        let Some(built) = plan.build(shape, &snapshot, read, start, clock.as_ref(), threads)? else { return refused };
        built.is_pinned.store(asked.is_none(), Ordering::Relaxed);
        // While it was built, others may have been used more: what was decided stands.
        let victims = self.victims(built.bytes(), asked).unwrap_or_default();
        let mut resident = self.resident.write();
        resident.retain(|other| other.shape != *shape && !victims.iter().any(|victim| Arc::ptr_eq(victim, other)));
        resident.push(Arc::new(built));
        Ok(Built::Yes)
    }

    /// Which cuboids go, so that one of so many bytes finds room. `Err` with the bytes held by those that stay, if they do not leave room: for a cuboid
    /// that was asked for so often only those go that are used less for their size, for a pinned one (`None`) all that are not pinned.
    fn victims(&self, bytes: u64, asked: Option<u64>) -> Result<Vec<Arc<Resident>>, u64> {
        let resident = self.list();
        let mut held: u64 = resident.iter().map(|resident| resident.bytes()).sum();
        if held + bytes <= self.bytes_max {
            return Ok(Vec::new());
        }
        let worth = asked.map_or(f64::INFINITY, |asked| asked as f64 / bytes as f64);
        let mut least: Vec<Arc<Resident>> = resident
            .iter()
            .filter(|resident| !resident.is_pinned() && resident.usefulness() < worth)
            .cloned()
            .collect();
        least.sort_by(|a, b| a.usefulness().total_cmp(&b.usefulness()));
        resident.iter().for_each(|resident| resident.fade());
        let mut gone = Vec::new();
        for victim in least {
            if held + bytes <= self.bytes_max {
                break;
            }
            held -= victim.bytes();
            gone.push(victim);
        }
        if held + bytes <= self.bytes_max { Ok(gone) } else { Err(held) }
    }
}

/// Rows of a table, all stages together.
fn rows_of(admin: &dyn Admin, table: TableId) -> u64 {
    admin.stages().iter().filter(|stage| stage.table == table).map(|stage| stage.rows).sum()
}
