//! Which cuboids there were, kept across restarts.
//!
//! Invariant: only shapes are kept, by the ids of their tables and columns: what was dropped since is told by its id, and a cuboid is
//! always built from rows. docs/FORMAT.md has the form.

use super::shape::Shape;
use super::{Cuboids, Refusal, WANTED_MAX, Wanted as Asked};
use alluvia_snapshot::{Admin, Memo};
use alluvia_tree::{Wanted, WantedMeasure};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where it is kept.
pub const MEMO: Memo = Memo { name: "cuboids", magic: b"ALVCUB01" };

/// A shape to be built again.
#[derive(Clone, PartialEq, Debug)]
struct Remembered {
    shape: Shape,
    is_pinned: bool,
    /// How much it was used lately.
    hits: u64,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    table: u32,
    levels: Vec<usize>,
    measures: Vec<Measure>,
    pinned: bool,
    hits: u64,
}

#[derive(Serialize, Deserialize)]
struct Measure {
    column: u32,
    float: bool,
    sum: bool,
    squares: bool,
    bounds: bool,
}

fn to_bytes(remembered: &[Remembered]) -> Vec<u8> {
    let measure = |of: &WantedMeasure| {
        let Wanted { sum, squares, min_max } = of.wanted;
        Measure { column: of.column.0, float: of.is_float, sum, squares, bounds: min_max }
    };
    let entry = |remembered: &Remembered| {
        let Remembered { shape, is_pinned, hits } = remembered;
        let measures = shape.measures.iter().map(measure).collect();
        Entry { table: shape.table.0, levels: shape.levels.clone(), measures, pinned: *is_pinned, hits: *hits }
    };
    let entries: Vec<Entry> = remembered.iter().map(entry).collect();
    serde_json::to_vec(&entries).unwrap_or_default()
}

fn from_bytes(bytes: &[u8]) -> Result<Vec<Remembered>> {
    let wrong = |error| Error::new(ErrorKind::Corrupt, format!("the shapes of cuboids cannot be read: {error}"));
    let entries: Vec<Entry> = serde_json::from_slice(bytes).map_err(wrong)?;
    let measure = |of: Measure| WantedMeasure {
        column: ColumnId(of.column),
        is_float: of.float,
        wanted: Wanted { sum: of.sum, squares: of.squares, min_max: of.bounds },
    };
    let remembered = |entry: Entry| {
        let Entry { table, levels, measures, pinned, hits } = entry;
        let shape = Shape { table: TableId(table), levels, measures: measures.into_iter().map(measure).collect() };
        Remembered { shape, is_pinned: pinned, hits }
    };
    Ok(entries.into_iter().map(remembered).collect())
}

/// Whether the memo's content can be read.
pub fn check(content: &[u8]) -> Result<()> {
    from_bytes(content).map(|_| ())
}

impl Cuboids {
    /// Wants what was kept when the database was open last.
    pub fn recall(&self, admin: &dyn Admin) -> Result<()> {
        let Some(content) = admin.recall(&MEMO)? else { return Ok(()) };
        let remembered = from_bytes(&content)?;
        let mut demand = self.demand.lock();
        let mut memorised = self.memorised.lock();
        for Remembered { shape, is_pinned, hits } in remembered {
            memorised.push((shape.clone(), is_pinned));
            if is_pinned {
                demand.pins.insert(shape, Refusal::None);
            } else if demand.wanted.len() < WANTED_MAX {
                demand.wanted.insert(shape, Asked { asked: hits.max(1), refusal: Refusal::None });
            }
        }
        memorised.sort_unstable();
        Ok(())
    }

    /// Keeps the shapes across restarts, if they are others than those kept last, or anyway.
    pub fn memorise(&self, admin: &dyn Admin, anyway: bool) -> Result<()> {
        let mut remembered: BTreeMap<Shape, Remembered> = BTreeMap::new();
        let mut add = |shape: &Shape, is_pinned: bool, hits: u64| {
            remembered.insert(shape.clone(), Remembered { shape: shape.clone(), is_pinned, hits });
        };
        {
            let resident = self.list();
            let demand = self.demand.lock();
            let waits = demand.wanted.iter().filter(|(_, wanted)| wanted.refusal == Refusal::None);
            waits.for_each(|(shape, wanted)| add(shape, false, wanted.asked));
            resident.iter().for_each(|resident| add(&resident.shape, false, resident.recent()));
            demand.pins.keys().for_each(|shape| add(shape, true, 0));
        }
        let shapes: Vec<(Shape, bool)> = remembered.values().map(|of| (of.shape.clone(), of.is_pinned)).collect();
        let mut memorised = self.memorised.lock();
        if *memorised == shapes && (!anyway || shapes.is_empty()) {
            return Ok(());
        }
        // If this fails, the next change is the next chance.
        *memorised = shapes;
        let remembered: Vec<Remembered> = remembered.into_values().collect();
        admin.memorise(&MEMO, &to_bytes(&remembered))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_of_the_first_version() {
        let bounds = Wanted { min_max: true, ..Wanted::default() };
        let all = Wanted { sum: true, squares: true, min_max: true };
        let measure = |column, is_float, wanted| WantedMeasure { column: ColumnId(column), is_float, wanted };
        let remembered = [
            Remembered {
                shape: Shape {
                    table: TableId(3),
                    levels: vec![1, 4],
                    measures: vec![measure(2, true, all), measure(5, false, bounds)],
                },
                is_pinned: true,
                hits: 0,
            },
            Remembered {
                shape: Shape { table: TableId(7), levels: Vec::new(), measures: Vec::new() },
                is_pinned: false,
                hits: 19,
            },
        ];
        let golden = include_bytes!("../../tests/golden/cuboids-01.json");
        assert_eq!(from_bytes(golden).expect("reads"), remembered);
        assert_eq!(String::from_utf8_lossy(&to_bytes(&remembered)), String::from_utf8_lossy(golden));
        assert!(from_bytes(b"[{}]").is_err());
    }
}
