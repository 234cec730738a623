//! Where the rows of a table go in a sort or a merge.
//!
//! A sort moves rows from the tail to segments, a merge from segments to segments. Whatever names rows by their places
//! (kills, the key index) follows by these moves, in the step in which readers are switched to the new segments.
//!
//! Invariants:
//! - A row of the inputs has one new place, or is gone because it was dead.
//! - Rows that are not of the inputs stay.

use crate::views::TableKills;
use alluvia_keys::RowPlace;
use alluvia_space::key_code::KeyCode;
use alluvia_tree::Dead;
use alluvia_types::{SegmentId, TableId, Version, planted};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A row of the inputs that was left out.
const GONE: u64 = u64::MAX;

/// What becomes of a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moved {
    /// The row is not of the inputs.
    Stays,
    /// The row was dead, and was left out.
    Gone,
    /// It is there now.
    To(RowPlace),
}

/// Where the rows of one table go.
#[derive(Clone, Debug)]
pub struct Moves {
    /// The table.
    pub table: TableId,
    outputs: Vec<SegmentId>,
    /// By input segment, for each row the output's number and the row in it.
    segments: BTreeMap<SegmentId, Vec<u64>>,
    /// The same of rows of the tail, by version and ordinal.
    tail: BTreeMap<Version, Vec<u64>>,
    /// Rows of the tail of versions through this one are inputs.
    tail_through: Version,
    /// The codes of the keys of rows that were moved, if the table has a key.
    codes: Vec<KeyCode>,
    gone: u64,
}

impl Moves {
    /// No moves yet. Rows of the tail through `tail_through` are inputs.
    pub fn new(table: TableId, tail_through: Version) -> Moves {
        let (segments, tail) = (BTreeMap::new(), BTreeMap::new());
        Moves { table, outputs: Vec::new(), segments, tail, tail_through, codes: Vec::new(), gone: 0 }
    }

    /// Names an input segment, none of whose rows is moved yet.
    pub fn add_input(&mut self, segment: SegmentId, rows: u64) {
        self.segments.entry(segment).or_insert_with(|| vec![GONE; rows as usize]);
    }

    /// The rows of `output`, in its order, came from these places; `codes` are of their keys, if the table has one.
    pub fn add_output(&mut self, output: SegmentId, from: &[RowPlace], codes: Vec<KeyCode>) {
        let number = (self.outputs.len() as u64) << 32;
        self.outputs.push(output);
        for (row, place) in from.iter().enumerate() {
            let row = if planted("kill at the wrong row") { from.len() - 1 - row } else { row };
            let to = number | row as u64;
            match *place {
                RowPlace::Segment { segment, row } => {
                    if let Some(rows) = self.segments.get_mut(&segment) {
                        rows[row as usize] = to;
                    }
                }
                RowPlace::Tail { version, ordinal } => {
                    let rows = self.tail.entry(version).or_default();
                    let ordinal = ordinal as usize;
                    if rows.len() <= ordinal {
                        rows.resize(ordinal + 1, GONE);
                    }
                    rows[ordinal] = to;
                }
            }
        }
        self.codes.extend(codes);
    }

    /// Counts rows that were left out.
    pub fn add_gone(&mut self, rows: u64) {
        self.gone += rows;
    }

    /// Rows that were left out because they were dead.
    pub fn gone(&self) -> u64 {
        self.gone
    }

    /// The codes of the keys of rows that were moved.
    pub fn codes(&self) -> &[KeyCode] {
        &self.codes
    }

    /// Input segments.
    pub fn inputs(&self) -> impl Iterator<Item = SegmentId> + '_ {
        self.segments.keys().copied()
    }

    /// What becomes of a place.
    pub fn of(&self, place: RowPlace) -> Moved {
        let packed = match place {
            RowPlace::Segment { segment, row } => match self.segments.get(&segment) {
                Some(rows) => rows.get(row as usize).copied(),
                None => return Moved::Stays,
            },
            RowPlace::Tail { version, ordinal } if version <= self.tail_through => {
                self.tail.get(&version).and_then(|rows| rows.get(ordinal as usize)).copied()
            }
            RowPlace::Tail { .. } => return Moved::Stays,
        };
        match packed.unwrap_or(GONE) {
            GONE => Moved::Gone,
            to => {
                let output = if planted("kill at the wrong segment") { 0 } else { (to >> 32) as usize };
                Moved::To(RowPlace::Segment { segment: self.outputs[output], row: to as u32 })
            }
        }
    }

    /// The kills of the table's segments as they are after the moves: of segments that stay, and of outputs.
    pub fn kills_after(&self, kills: &TableKills) -> BTreeMap<SegmentId, Arc<Dead>> {
        let mut after: BTreeMap<SegmentId, Arc<Dead>> = BTreeMap::new();
        let mut moved: BTreeMap<SegmentId, Vec<(u64, Version)>> = BTreeMap::new();
        let mut follow = |place: RowPlace, killed: Version| {
            if planted("kill lost at install") && killed > self.tail_through {
                return;
            }
            if let Moved::To(RowPlace::Segment { segment, row }) = self.of(place) {
                moved.entry(segment).or_default().push((row.into(), killed));
            }
        };
        for (segment, dead) in kills.segments() {
            if !self.segments.contains_key(&segment) {
                after.insert(segment, Arc::clone(dead));
                continue;
            }
            for (row, killed) in dead.kills() {
                follow(RowPlace::Segment { segment, row: row as u32 }, killed);
            }
        }
        for (&(version, ordinal), &killed) in kills.tail().iter() {
            follow(RowPlace::Tail { version, ordinal }, killed);
        }
        for (segment, mut rows) in moved {
            // In the order of versions, as they came.
            rows.sort_unstable_by_key(|&(row, killed)| (killed, row));
            after.insert(segment, Arc::new(Dead::new(rows)));
        }
        after
    }
}
