//! Pinned cuboids: built when they are named, and kept.
//!
//! Invariant: a shape is pinned or not by its name alone; that its cuboid may have to be built anew, or cannot be for now, does not
//! change that.

use super::resident::Plan;
use super::shape::Shape;
use super::{Built, Cuboids, Refusal, WANTED_MAX, Wanted as Asked, newest};
use crate::Kept;
use alluvia_catalog::TableEntry;
use alluvia_snapshot::{Read, Snapshot, TableRead};
use alluvia_tree::{Wanted, WantedMeasure};
use alluvia_types::{Clock, Error, ErrorKind, Result};
use std::sync::atomic::Ordering;

/// What CALL did with a cuboid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pinned {
    /// It is resident.
    Now,
    /// It will be, once the table has rows.
    Later,
}

impl Cuboids {
    /// Builds a cuboid now, unless it is resident, and keeps it.
    pub fn pin(
        &self,
        entry: &TableEntry,
        shape: &Shape,
        store: &dyn Read,
        kept: &Kept,
        threads: usize,
    ) -> Result<Pinned> {
        let _building = self.building.lock();
        let is_known = self.demand.lock().pins.insert(shape.clone(), Refusal::None).is_some();
        let known = self.list().into_iter().find(|resident| resident.shape == *shape);
        if let Some(known) = known
            && known.entry.changed_at == entry.changed_at
        {
            known.is_pinned.store(true, Ordering::Relaxed);
            return Ok(Pinned::Now);
        }
        let forget = |error: Error| {
            if !is_known {
                self.demand.lock().pins.remove(shape);
            }
            error
        };
        match self.build(shape, None, store, kept, threads).map_err(forget)? {
            Built::Yes => {
                self.demand.lock().wanted.remove(shape);
                Ok(Pinned::Now)
            }
            Built::Never => Err(forget(Error::new(
                ErrorKind::Conflict,
                format!("table '{}' was changed meanwhile", entry.def.name),
            ))),
            Built::No(_) => match self.why_not(entry, shape, store, kept, threads)? {
                None => Ok(Pinned::Later),
                Some(error) => Err(forget(error)),
            },
        }
    }

    /// Why a cuboid could not be pinned; `None` if it only has to wait for rows.
    fn why_not(
        &self,
        entry: &TableEntry,
        shape: &Shape,
        store: &dyn Read,
        kept: &Kept,
        threads: usize,
    ) -> Result<Option<Error>> {
        let Some(snapshot) = newest(store, shape.table)? else { return Ok(None) };
        let Some(read) = snapshot.tables.get(&shape.table) else { return Ok(None) };
        if read.dictionaries.is_none() {
            return Ok(None);
        }
        let over = match shape.show_levels(&entry.def) {
            levels if levels.is_empty() => "without levels".to_owned(),
            levels => format!("over {levels}"),
        };
        let what = format!("a cuboid of table '{}' {over}", entry.def.name);
        let Some(plan) = Plan::new(shape, read, snapshot.version, &kept.tails)? else {
            let message = format!("{what} has more cells than can be numbered");
            return Ok(Some(Error::new(ErrorKind::OutOfMemory, message).with_hint("pin coarser levels")));
        };
        let pinned: u64 = self.list().iter().filter(|other| other.is_pinned()).map(|other| other.bytes()).sum();
        if plan.bytes > self.bytes_max.saturating_sub(pinned) {
            let (bytes, all, pinned) = (megabytes(plan.bytes), megabytes(self.bytes_max), megabytes(pinned));
            let message = format!(
                "{what} has {} cells and takes {bytes}; all cuboids together may hold {all}, and pinned ones hold {pinned}",
                plan.cells
            );
            return Ok(Some(Error::new(ErrorKind::OutOfMemory, message).with_hint(
                "pin coarser levels or fewer measures, unpin another cuboid, or open the database with more memory",
            )));
        }
        let Some(measure) = unheld(shape, &snapshot, read, store.clock().as_ref(), kept, threads)? else {
            // It may have been built now.
            let message = format!("{what} could not be built while values of its measures changed");
            return Ok(Some(Error::new(ErrorKind::Conflict, message).with_hint("pin it again")));
        };
        let name = entry.def.column_by_id(measure.column).map_or("", |column| column.name.as_str());
        let message = format!(
            "{what} cannot be built: measure {name} has NaN, infinities, or sums or sums of squares of more than 128 bits"
        );
        // Of integers and decimals it is the squares, nearly always.
        let hint = if measure.is_float || !measure.wanted.squares {
            "pin it without that measure".to_owned()
        } else {
            let without = |other: &WantedMeasure| match other.column == measure.column {
                true => WantedMeasure { wanted: Wanted { squares: false, ..other.wanted }, ..*other },
                false => *other,
            };
            let measures = shape.measures.iter().map(without).collect();
            let narrower = Shape { measures, ..shape.clone() };
            format!("pin it without squares, by the measures '{}'", narrower.show_measures(&entry.def))
        };
        Ok(Some(Error::new(ErrorKind::InvalidValue, message).with_hint(hint)))
    }

    /// Lets pinned cuboids be evicted again: those of these levels, and of these measures if `measures` matter. `dimensions` says which one
    /// each level is of. Returns how many.
    pub fn unpin(&self, shape: &Shape, dimensions: &[usize], measures: bool) -> usize {
        let is_meant = |other: &Shape| is_meant(shape, dimensions, measures, other);
        let mut demand = self.demand.lock();
        let meant: Vec<(Shape, Refusal)> = demand.pins.extract_if(.., |other, _| is_meant(other)).collect();
        let count = meant.len();
        let residents = self.list();
        for resident in residents.iter().filter(|resident| is_meant(&resident.shape)) {
            resident.is_pinned.store(false, Ordering::Relaxed);
        }
        // What is not resident yet, as after a restart, is built as any shape that was asked for.
        for (shape, refusal) in meant {
            if demand.wanted.len() < WANTED_MAX && !residents.iter().any(|resident| resident.shape == shape) {
                demand.wanted.entry(shape).or_insert(Asked { asked: 1, refusal });
            }
        }
        count
    }

    /// Forgets cuboids, pinned or not, as [`Cuboids::unpin`] finds them. Returns how many.
    pub fn forget(&self, shape: &Shape, dimensions: &[usize], measures: bool) -> usize {
        let _building = self.building.lock();
        let is_meant = |other: &Shape| is_meant(shape, dimensions, measures, other);
        let mut gone: Vec<Shape> = Vec::new();
        {
            let mut demand = self.demand.lock();
            demand.wanted.retain(|other, _| !is_meant(other));
            gone.extend(demand.pins.extract_if(.., |other, _| is_meant(other)).map(|(shape, _)| shape));
        }
        let mut resident = self.resident.write();
        gone.extend(resident.extract_if(.., |other| is_meant(&other.shape)).map(|gone| gone.shape.clone()));
        gone.sort_unstable();
        gone.dedup();
        gone.len()
    }
}

/// The first measure of a shape that no cuboid can hold now.
fn unheld(
    shape: &Shape,
    snapshot: &Snapshot,
    read: &TableRead,
    clock: &dyn Clock,
    kept: &Kept,
    threads: usize,
) -> Result<Option<WantedMeasure>> {
    for &measure in &shape.measures {
        let alone = Shape { measures: vec![measure], ..shape.clone() };
        let Some(plan) = Plan::new(&alone, read, snapshot.version, &kept.tails)? else { continue };
        if plan.build(&alone, snapshot, read, clock.monotonic(), clock, threads)?.is_none() {
            return Ok(Some(measure));
        }
    }
    Ok(None)
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / f64::from(1 << 20))
}

/// Whether a name, in which of a dimension the finest level counts, means a shape.
fn is_meant(shape: &Shape, dimensions: &[usize], measures: bool, other: &Shape) -> bool {
    let has_levels = other.table == shape.table && other.finest(dimensions) == shape.levels;
    has_levels && (!measures || other.measures == shape.measures)
}
