//! Rows and their versions.
//!
//! A slot has the newest row of a key in place, and older ones behind it for as long as somebody has pinned a version that reads them
//! (BatchDB, section 4: the newest version in place, older ones in a chain). The stamp of a row is its batch's version: heap, tail and
//! segments share one clock.
//!
//! Invariants:
//! - Older rows of a slot ascend by version, and all are below the newest's: the one of a version is searched for. What is before the last
//!   one that is not above the floor nobody can read, and it is dropped.
//! - An index has the key of every row that is in a slot.

use crate::feed::FedBatch;
use crate::layout::{Layout, RowRef};
use crate::ordered::Ordered;
use alluvia_space::ORDINAL_COLUMN;
use alluvia_space::key_code::KeyCode;
use alluvia_types::{Error, Result, Version, planted};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::UInt64Type;
use arrow::row::Rows as KeyRows;
use std::collections::{HashMap, VecDeque};

/// What a slot takes beside its rows, with its place in the map of codes.
const SLOT_BYTES: usize = 112;

/// Rows of a table.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) through: Version,
    /// The least version that can be read.
    pub(crate) floor: Version,
    slots: Vec<Slot>,
    free: Vec<u32>,
    by_code: HashMap<KeyCode, u32>,
    /// The first is that of the primary key.
    pub(crate) indexes: Vec<Ordered>,
    /// Slots whose older rows may go once nobody reads below a version, in its order.
    garbage: VecDeque<(Version, u32)>,
    /// Estimated.
    pub(crate) bytes: usize,
}

#[derive(Debug)]
struct Slot {
    code: KeyCode,
    newest: Stamped,
    /// Ascending.
    older: Vec<Stamped>,
}

#[derive(Debug)]
struct Stamped {
    version: Version,
    /// `None` where the key has no row from this version on.
    row: Option<Box<[u8]>>,
}

impl Rows {
    pub(crate) fn new(floor: Version, indexes: Vec<Ordered>) -> Rows {
        Rows {
            through: floor,
            floor,
            slots: Vec::new(),
            free: Vec::new(),
            by_code: HashMap::new(),
            indexes,
            garbage: VecDeque::new(),
            bytes: 0,
        }
    }

    /// How many keys it knows.
    pub(crate) fn len(&self) -> usize {
        self.by_code.len()
    }

    /// Adds rows that were there at the floor.
    pub(crate) fn load(&mut self, layout: &Layout, rows: &RecordBatch, codes: &[KeyCode]) -> Result<()> {
        let encoded = layout.encoded(rows, 0..rows.num_rows())?;
        let columns = layout.columns_of(rows)?;
        let keys = self.indexes.iter().map(|index| index.keys(&columns)).collect::<Result<Vec<_>>>()?;
        for ((at, bytes), &code) in encoded.into_iter().enumerate().zip(codes) {
            let floor = self.floor;
            self.write(code, floor, Some(bytes), Some((&keys, at)))?;
        }
        Ok(())
    }

    /// Applies a batch. Nobody reads below `oldest` from now on.
    pub(crate) fn apply(&mut self, layout: &Layout, batch: &FedBatch, oldest: Version) -> Result<()> {
        let rows = batch.rows.as_ref();
        let mut places = Vec::with_capacity(batch.keys.len());
        for key in &batch.keys {
            let place = match (key.ordinal, rows) {
                (None, _) => None,
                (Some(ordinal), Some(rows)) => Some(place_of(rows, ordinal)?),
                (Some(_), None) => return Err(Error::internal("a key's row is not in its batch")),
            };
            places.push((key.code, place));
        }
        let (mut encoded, mut keys) = (Vec::new().into_iter(), Vec::new());
        if let Some(rows) = rows {
            encoded = layout.encoded(rows, places.iter().filter_map(|(_, place)| *place))?.into_iter();
            let columns = layout.columns_of(rows)?;
            keys = self.indexes.iter().map(|index| index.keys(&columns)).collect::<Result<Vec<_>>>()?;
        }
        for (code, place) in places {
            let row = place.and_then(|_| encoded.next());
            self.write(code, batch.version, row, place.map(|at| (keys.as_slice(), at)))?;
        }
        self.through = batch.version;
        self.forget(layout, oldest)
    }

    fn write(
        &mut self,
        code: KeyCode,
        version: Version,
        row: Option<Box<[u8]>>,
        keys: Option<(&[KeyRows], usize)>,
    ) -> Result<()> {
        let slot = match self.by_code.get(&code) {
            Some(&slot) => slot,
            None if row.is_none() => return Ok(()),
            None => {
                let new = Slot { code, newest: Stamped { version: Version(0), row: None }, older: Vec::new() };
                let slot = match self.free.pop() {
                    Some(slot) => {
                        self.slots[slot as usize] = new;
                        slot
                    }
                    None => {
                        self.slots.push(new);
                        (self.slots.len() - 1) as u32
                    }
                };
                self.by_code.insert(code, slot);
                self.bytes += SLOT_BYTES;
                slot
            }
        };
        if let Some((keys, at)) = keys {
            for (place, (index, keys)) in self.indexes.iter_mut().zip(keys).enumerate() {
                if place > 0
                    && planted("index of a heap not followed")
                    && self.slots[slot as usize].newest.row.is_some()
                {
                    continue;
                }
                self.bytes += index.add(keys.row(at).as_ref(), slot);
            }
        }
        self.bytes += row.as_ref().map_or(0, |row| row.len());
        let of = &mut self.slots[slot as usize];
        let before = std::mem::replace(&mut of.newest, Stamped { version, row });
        if before.version == version {
            // Of one batch a key has one outcome.
            return Err(Error::internal(format!("a heap was told twice of one key at version {version}")));
        }
        if before.version > Version(0) {
            of.older.push(before);
            self.garbage.push_back((version, slot));
        }
        Ok(())
    }

    /// Drops what nobody reads who reads at `oldest` or above.
    fn forget(&mut self, layout: &Layout, oldest: Version) -> Result<()> {
        let unread = if planted("heap forgets too much") { Version(u64::MAX) } else { oldest };
        while let Some(&(version, slot)) = self.garbage.front()
            && version <= unread
        {
            self.garbage.pop_front();
            self.prune(layout, slot, unread)?;
        }
        self.floor = self.floor.max(oldest.min(self.through));
        Ok(())
    }

    fn prune(&mut self, layout: &Layout, slot: u32, oldest: Version) -> Result<()> {
        let of = &mut self.slots[slot as usize];
        let is_newest_read = of.newest.version <= oldest;
        let dropped: Vec<Stamped> = match is_newest_read {
            true => std::mem::take(&mut of.older),
            false => match of.at_most(oldest) {
                Some(last) => of.older.drain(..last).collect(),
                None => return Ok(()),
            },
        };
        let is_gone = of.newest.row.is_none() && of.older.is_empty() && is_newest_read;
        for stamped in dropped {
            let Some(bytes) = stamped.row else { continue };
            self.bytes = self.bytes.saturating_sub(bytes.len());
            self.leave_indexes(layout, slot, RowRef::new(layout, &bytes))?;
        }
        let of = &self.slots[slot as usize];
        // It may be pruned again by a later mark, when another key has it.
        if is_gone && self.by_code.get(&of.code) == Some(&slot) {
            self.by_code.remove(&of.code);
            self.free.push(slot);
            self.bytes = self.bytes.saturating_sub(SLOT_BYTES);
        }
        Ok(())
    }

    /// Takes the keys of a row that has left its slot out of the indexes, but for those that rows of the slot have still.
    fn leave_indexes(&mut self, layout: &Layout, slot: u32, row: RowRef<'_>) -> Result<()> {
        let of = &self.slots[slot as usize];
        let left = || std::iter::once(&of.newest).chain(&of.older).filter_map(|stamped| stamped.row.as_deref());
        let mut columns = None;
        for index in &mut self.indexes {
            let has_key = |other: &[u8]| {
                let other = RowRef::new(layout, other);
                index.columns.iter().all(|&column| row.is_same_in(&other, column))
            };
            if left().any(has_key) {
                continue;
            }
            if columns.is_none() {
                let all: Vec<usize> = (0..layout.width()).collect();
                columns = Some(layout.decoded(&[row], &all)?.columns().to_vec());
            }
            let keys = index.keys(columns.as_deref().unwrap_or_default())?;
            self.bytes = self.bytes.saturating_sub(index.remove(keys.row(0).as_ref(), slot));
        }
        Ok(())
    }

    /// The row that a key has at a version.
    pub(crate) fn by_code(&self, code: KeyCode, version: Version) -> Option<&[u8]> {
        self.at(*self.by_code.get(&code)?, version)
    }

    /// The key of a slot.
    pub(crate) fn code(&self, slot: u32) -> KeyCode {
        self.slots[slot as usize].code
    }

    /// The row that a slot has at a version.
    pub(crate) fn at(&self, slot: u32, version: Version) -> Option<&[u8]> {
        let slot = &self.slots[slot as usize];
        let stamped = match slot.newest.version <= version {
            true => &slot.newest,
            false => &slot.older[slot.at_most(version)?],
        };
        stamped.row.as_deref()
    }
}

impl Slot {
    /// Where the last one of the older rows is that is not above a version.
    fn at_most(&self, version: Version) -> Option<usize> {
        self.older.partition_point(|stamped| stamped.version <= version).checked_sub(1)
    }
}

fn place_of(rows: &RecordBatch, ordinal: u64) -> Result<usize> {
    let ordinals = rows.column_by_name(ORDINAL_COLUMN).and_then(|column| column.as_primitive_opt::<UInt64Type>());
    let ordinals = ordinals.ok_or_else(|| Error::internal("rows were fed without their ordinals"))?.values();
    if ordinals.get(ordinal as usize) == Some(&ordinal) {
        return Ok(ordinal as usize);
    }
    ordinals.binary_search(&ordinal).map_err(|_| Error::internal("a key's row is not among those that were fed"))
}
