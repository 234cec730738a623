//! The tail: visible rows that are in no segment yet, in memory, in version order.
//!
//! Invariants:
//! - Within a table, runs ascend by version, and rows within a run by (version, ordinal).
//! - A run never changes once it is handed out; small neighbours are *replaced* by their concatenation.
//! - A run that has left the tail while a reader holds it is counted ([`Pinned`]) until the reader lets go.
//!
//! A database that takes 40,000 one-row batches a second must not scan 40,000 one-row arrays, so runs are joined
//! like the digits of a counter of radix [`FANOUT`]: each row is copied once per digit, at most
//! log(RUN_ROWS) / log(FANOUT) times, and a reader meets at most FANOUT runs per digit beside the full ones.

use crate::views::TailDead;
use alluvia_types::Version;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, UInt32Array};
use arrow::compute::{concat_batches, filter_record_batch, take_record_batch};
use arrow::datatypes::{DataType, UInt64Type};
use arrow::record_batch::RecordBatch;
use std::sync::{Arc, Weak};

/// How many small runs become one.
const FANOUT: usize = 64;
/// Runs of this many rows or more are left alone.
const RUN_ROWS: usize = 8_192;

/// Rows of consecutive batches of one table.
#[derive(Debug)]
pub(crate) struct TailRun {
    rows: RecordBatch,
    /// Of each batch in the run.
    ends: Vec<End>,
    bytes: u64,
    /// 0 for a run as it was committed, else one more than its parts'.
    digit: u8,
}

/// Where a batch ends in its run.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    version: Version,
    /// Rows of the run through this batch.
    rows: usize,
    /// Their bytes.
    bytes: u64,
}

impl TailRun {
    /// The rows at some places.
    pub(crate) fn take(&self, places: Vec<u32>) -> RecordBatch {
        take_record_batch(&self.rows, &UInt32Array::from(places)).expect("these places are in the run")
    }

    fn last(&self) -> Version {
        self.ends[self.ends.len() - 1].version
    }

    /// Where a row stands in the run, if it is there.
    fn place_of(&self, version: Version, ordinal: u64) -> Option<usize> {
        let batch = self.ends.binary_search_by_key(&version, |end| end.version).ok()?;
        let first = batch.checked_sub(1).map_or(0, |before| self.ends[before].rows);
        let rows = self.ends[batch].rows - first;
        // A run that was cut has whole batches, whose ordinals count from 0, or ascend where the batch is a part of one.
        let ordinals = self.rows.columns().last()?.as_primitive::<UInt64Type>().values();
        let ordinals = &ordinals[first..first + rows];
        let place = match ordinals.get(ordinal as usize) {
            Some(&found) if found == ordinal => ordinal as usize,
            _ => ordinals.binary_search(&ordinal).ok()?,
        };
        Some(first + place)
    }

    /// The end of what has versions `<= through`.
    fn end_of(&self, through: Version) -> End {
        match self.ends.partition_point(|end| end.version <= through) {
            0 => End::default(),
            batches => self.ends[batches - 1],
        }
    }
}

/// One table's tail.
#[derive(Debug, Default)]
pub(crate) struct TailTable {
    runs: Vec<Arc<TailRun>>,
    rows: u64,
    bytes: u64,
}

/// Runs that were held by readers when they left the tail.
#[derive(Debug, Default)]
pub(crate) struct Pinned(Vec<Weak<TailRun>>);

impl Pinned {
    /// Called with the last `Arc` that the tail has of a run.
    fn leaves(&mut self, run: &Arc<TailRun>) {
        if Arc::strong_count(run) > 1 {
            self.0.push(Arc::downgrade(run));
        }
    }

    /// Bytes that are still held.
    pub(crate) fn bytes(&mut self) -> u64 {
        let mut bytes = 0;
        self.0.retain(|run| run.upgrade().inspect(|run| bytes += run.bytes).is_some());
        bytes
    }
}

impl TailTable {
    /// Adds a batch's rows; `rows` ends with the hidden columns.
    pub(crate) fn push(&mut self, version: Version, rows: RecordBatch, bytes: u64, pinned: &mut Pinned) {
        if rows.num_rows() == 0 {
            return;
        }
        debug_assert!(self.runs.last().is_none_or(|run| run.last() < version));
        self.rows += rows.num_rows() as u64;
        self.bytes += bytes;
        let ends = vec![End { version, rows: rows.num_rows(), bytes }];
        self.runs.push(Arc::new(TailRun { rows, ends, bytes, digit: 0 }));
        self.carry(pinned);
    }

    /// Joins the last [`FANOUT`] runs of one digit into a run of the next, as long as there are that many.
    fn carry(&mut self, pinned: &mut Pinned) {
        loop {
            let Some(last) = self.runs.last() else { return };
            let digit = last.digit;
            let small = |run: &&Arc<TailRun>| {
                run.digit == digit && run.rows.num_rows() < RUN_ROWS && run.rows.schema_ref() == last.rows.schema_ref()
            };
            let parts = self.runs.iter().rev().take_while(small).take(FANOUT).count();
            if parts < FANOUT {
                return;
            }
            let parts = self.runs.split_off(self.runs.len() - parts);
            self.runs.push(Arc::new(join(&parts, digit + 1)));
            parts.iter().for_each(|run| pinned.leaves(run));
        }
    }

    /// Rows with `above < version <= through`, in (version, ordinal) order, without copying; and the run of each slice.
    pub(crate) fn read(&self, above: Version, through: Version) -> Vec<(RecordBatch, Arc<TailRun>)> {
        let first = self.runs.partition_point(|run| run.last() <= above);
        let mut slices = Vec::new();
        for run in &self.runs[first..] {
            let (start, end) = (run.end_of(above).rows, run.end_of(through).rows);
            if start < end {
                // A whole run is handed out as it is: a slice makes each of its columns anew.
                let is_whole = start == 0 && end == run.rows.num_rows();
                let rows = if is_whole { run.rows.clone() } else { run.rows.slice(start, end - start) };
                slices.push((rows, Arc::clone(run)));
            }
            if run.last() > through {
                break;
            }
        }
        slices
    }

    /// As [`TailTable::read`], without the rows that are dead at `through`; and whether there were such.
    pub(crate) fn read_live(
        &self,
        above: Version,
        through: Version,
        dead: &TailDead,
    ) -> (Vec<(RecordBatch, Arc<TailRun>)>, bool) {
        let mut slices = self.read(above, through);
        let mut is_cut = false;
        for (rows, run) in &mut slices {
            let (from, to) = (run.end_of(above).rows, run.end_of(through).rows);
            let of_run = (run.ends[0].version, 0)..=(run.last(), u64::MAX);
            let mut live: Option<BooleanBufferBuilder> = None;
            for (&(version, ordinal), &killed) in dead.range(of_run) {
                let Some(place) = run.place_of(version, ordinal).filter(|place| (from..to).contains(place)) else {
                    continue;
                };
                if killed <= through {
                    let all = || {
                        let mut live = BooleanBufferBuilder::new(to - from);
                        live.append_n(to - from, true);
                        live
                    };
                    live.get_or_insert_with(all).set_bit(place - from, false);
                }
            }
            let Some(mut live) = live else { continue };
            is_cut = true;
            let live = BooleanArray::new(live.finish(), None);
            *rows = filter_record_batch(rows, &live).expect("a mask of a run's rows is as long as the run");
        }
        slices.retain(|(rows, _)| rows.num_rows() > 0);
        (slices, is_cut)
    }

    /// Rows by version and ordinal, ascending: the runs that have some of them, and the places of these. `None` if one is not
    /// there.
    pub(crate) fn find(&self, rows: &[(Version, u64)]) -> Option<Vec<(Arc<TailRun>, Vec<u32>)>> {
        let mut found: Vec<(Arc<TailRun>, Vec<u32>)> = Vec::new();
        for &(version, ordinal) in rows {
            let run = self.runs.get(self.runs.partition_point(|run| run.last() < version))?;
            let place = run.place_of(version, ordinal)? as u32;
            match found.last_mut().filter(|(last, _)| Arc::ptr_eq(last, run)) {
                Some((_, places)) => places.push(place),
                None => found.push((Arc::clone(run), vec![place])),
            }
        }
        Some(found)
    }

    /// The first version above `above` that has rows here.
    pub(crate) fn first_above(&self, above: Version) -> Option<Version> {
        let run = &self.runs.get(self.runs.partition_point(|run| run.last() <= above))?;
        let batch = run.ends.partition_point(|end| end.version <= above);
        Some(run.ends[batch].version)
    }

    /// Forgets rows of versions `<= through`.
    pub(crate) fn drop_through(&mut self, through: Version, pinned: &mut Pinned) {
        let left = self.runs.partition_point(|run| run.last() <= through);
        for run in self.runs.drain(..left) {
            self.rows -= run.rows.num_rows() as u64;
            self.bytes -= run.bytes;
            pinned.leaves(&run);
        }
        if let Some(first) = self.runs.first() {
            let cut = first.end_of(through);
            if cut.rows > 0 {
                let ends = first.ends.iter().filter(|end| end.version > through);
                let ends = ends.map(|end| End { rows: end.rows - cut.rows, bytes: end.bytes - cut.bytes, ..*end });
                let run = TailRun {
                    rows: first.rows.slice(cut.rows, first.rows.num_rows() - cut.rows),
                    ends: ends.collect(),
                    bytes: first.bytes - cut.bytes,
                    digit: first.digit,
                };
                self.rows -= cut.rows as u64;
                self.bytes -= cut.bytes;
                // A reader of the old run holds all of its rows.
                let whole = std::mem::replace(&mut self.runs[0], Arc::new(run));
                pinned.leaves(&whole);
            }
        }
    }

    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn runs(&self) -> u64 {
        self.runs.len() as u64
    }
}

fn join(parts: &[Arc<TailRun>], digit: u8) -> TailRun {
    let schema = parts[0].rows.schema();
    let rows = concat_batches(&schema, parts.iter().map(|run| &run.rows)).expect("runs of one schema concatenate");
    let columns = rows.columns().iter().map(compact).collect();
    let rows = RecordBatch::try_new(schema, columns).expect("compacting changes no type or length");
    let mut ends = Vec::with_capacity(parts.iter().map(|run| run.ends.len()).sum());
    let (mut before, mut bytes) = (0, 0);
    for run in parts {
        ends.extend(run.ends.iter().map(|end| End { rows: before + end.rows, bytes: bytes + end.bytes, ..*end }));
        before += run.rows.num_rows();
        bytes += run.bytes;
    }
    TailRun { rows, ends, bytes, digit }
}

/// Gives a view column buffers of its own; concatenation would keep a reference to every part's.
fn compact(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Utf8View => Arc::new(column.as_string_view().gc()),
        DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
        _ => Arc::clone(column),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::UInt64Array;
    use arrow::datatypes::{Field, Schema};
    use proptest::prelude::*;

    fn batch(version: u64, rows: usize) -> RecordBatch {
        part(version, rows, 1)
    }

    /// Every so many rows of a batch.
    fn part(version: u64, rows: usize, every: usize) -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("_version", DataType::UInt64, true),
            Field::new("_ordinal", DataType::UInt64, false),
        ]);
        let versions = UInt64Array::from_value(version, rows);
        let ordinals = UInt64Array::from_iter_values((0..rows as u64).map(|row| row * every as u64));
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(versions), Arc::new(ordinals)]).unwrap()
    }

    fn rows_of(slices: &[(RecordBatch, Arc<TailRun>)]) -> Vec<(u64, u64)> {
        let mut rows = Vec::new();
        for (slice, _) in slices {
            let versions = slice.column(0).as_primitive::<UInt64Type>();
            let ordinals = slice.column(1).as_primitive::<UInt64Type>();
            rows.extend((0..slice.num_rows()).map(|i| (versions.value(i), ordinals.value(i))));
        }
        rows
    }

    proptest! {
        #[test]
        fn reads_are_the_model_whatever_was_joined_or_dropped(
            sizes in prop::collection::vec(prop_oneof![8 => 0usize..3, 1 => 0usize..9_000], 1..300),
            above in 0u64..320, through in 0u64..320, dropped in 0u64..320, every in 1usize..4,
        ) {
            let (mut tail, mut pinned) = (TailTable::default(), Pinned::default());
            let mut model = Vec::new();
            for (i, &rows) in sizes.iter().enumerate() {
                let version = i as u64 + 1;
                tail.push(Version(version), part(version, rows, every), rows as u64 * version, &mut pinned);
                model.extend((0..rows as u64).map(|row| (version, row * every as u64)));
            }
            let within = |&&(version, _): &&(u64, u64)| version > above && version <= through;
            let expected: Vec<_> = model.iter().filter(within).copied().collect();
            prop_assert_eq!(rows_of(&tail.read(Version(above), Version(through))), expected);
            let first = model.iter().map(|row| row.0).find(|&version| version > above);
            prop_assert_eq!(tail.first_above(Version(above)), first.map(Version));

            tail.drop_through(Version(dropped), &mut pinned);
            model.retain(|&(version, _)| version > dropped);
            prop_assert_eq!(tail.rows(), model.len() as u64);
            prop_assert_eq!(tail.bytes(), model.iter().map(|(version, _)| version).sum::<u64>());
            let some: Vec<(Version, u64)> =
                model.iter().step_by(3).map(|&(version, ordinal)| (Version(version), ordinal)).collect();
            let found = tail.find(&some).expect("they are there");
            let taken: Vec<_> = found.into_iter().map(|(run, places)| (run.take(places), run)).collect();
            prop_assert_eq!(rows_of(&taken), model.iter().step_by(3).copied().collect::<Vec<_>>());
            prop_assert!(tail.find(&[(Version(dropped), 0)]).is_none(), "it is dropped");
            if let Some(&(version, ordinal)) = model.last() {
                prop_assert!(tail.find(&[(Version(version), ordinal + 1)]).is_none(), "it never was");
            }
            prop_assert_eq!(rows_of(&tail.read(Version(0), Version(1_000))), model);
        }
    }

    #[test]
    fn what_readers_hold_is_counted_until_they_let_go() {
        let (mut tail, mut pinned) = (TailTable::default(), Pinned::default());
        for version in 1..FANOUT as u64 {
            tail.push(Version(version), batch(version, 1), 10, &mut pinned);
        }
        let held = tail.read(Version(0), Version(2));
        assert_eq!((held.len(), pinned.bytes()), (2, 0), "they are still part of the tail");
        tail.push(Version(FANOUT as u64), batch(FANOUT as u64, 1), 10, &mut pinned);
        assert_eq!((tail.runs(), pinned.bytes()), (1, 20), "the two are not freed by having been joined");
        let joined = tail.read(Version(0), Version(1));
        drop(held);
        assert_eq!(pinned.bytes(), 0);
        tail.drop_through(Version(FANOUT as u64), &mut pinned);
        assert_eq!((tail.bytes(), pinned.bytes()), (0, 10 * FANOUT as u64));
        drop(joined);
        assert_eq!(pinned.bytes(), 0);
    }

    #[test]
    fn many_small_batches_become_few_runs() {
        let (mut tail, mut pinned) = (TailTable::default(), Pinned::default());
        for version in 1..=40_000 {
            tail.push(Version(version), batch(version, 1), 1, &mut pinned);
        }
        assert!(tail.runs() < 150, "{} runs", tail.runs());
    }
}
