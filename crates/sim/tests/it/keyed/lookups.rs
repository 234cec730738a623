//! Rows that are found by their keys, at whatever version and stage: those of the model, and those that a scan finds.
//!
//! Some rows are then taken away from the snapshot, and others added, as a transaction does that has changed rows: the
//! first are not found any more, the others are. Rows between two keys are compared with the model's, too.

use super::heaps;
use super::model::TableModel;
use super::tables::{KEYS, key, row};
use super::world::Checked;
use alluvia_sim::rows::{Row, batch_of, rows_in, table_batch};
use alluvia_sim::{Engine, Random};
use alluvia_snapshot::{SnapshotRow, TableRead, TailRead};
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_tree::{BLOCK_ROWS, Dead, DeadRows};
use alluvia_types::Version;
use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Keys that are looked for beside those of histories: they are never there.
const NEVER: u64 = 10;
/// As often is a segment asked for a range: more often than it takes to pay for the order of its keys.
const RANGES_ASKED: usize = 6;

/// Compares what is found by keys with the model's rows at a version.
pub fn compare(engine: &Engine, version: u64, read: &TableRead, model: &TableModel, random: &mut Random) -> Checked {
    let Some(coder) = KeyCoder::new(&read.entry.def) else { return Ok(()) };
    let lookup = Lookup::new(read, &coder, model, random)?;
    let found = lookup.find(engine, version, read, &coder)?;
    let expected: Vec<Option<Row>> = lookup.keys.iter().map(|key| model.row_with(version, key).cloned()).collect();
    lookup.are(read, &found, &expected)?;
    let keys: Vec<(KeyCode, Option<Row>)> = lookup.codes.iter().copied().zip(expected.iter().cloned()).collect();
    heaps::compare(engine, version, read, (model, &keys), random)?;
    compare_range(version, read, &coder, model, random)?;

    let mut changed = read.clone();
    let gone: BTreeSet<SnapshotRow> = found.iter().flatten().filter(|_| random.one_in(3)).copied().collect();
    take_away(&mut changed, &gone, version);
    let is_gone = |row: &Option<SnapshotRow>| row.is_some_and(|row| gone.contains(&row));
    let mut expected: Vec<Option<Row>> =
        expected.into_iter().zip(&found).map(|(row, found)| row.filter(|_| !is_gone(found))).collect();
    if let Some(at) = expected.iter().position(Option::is_none).filter(|_| random.one_in(2)) {
        let mut added = row(model.kind, 0, random);
        added[..lookup.keys[at].len()].clone_from_slice(&lookup.keys[at]);
        changed.tail.push(TailRead::new(table_batch(&read.entry.def, &[added.clone()])));
        for (key, row) in lookup.keys.iter().zip(&mut expected).filter(|(key, _)| **key == lookup.keys[at]) {
            debug_assert!(row.is_none(), "{key:?} is there");
            *row = Some(added.clone());
        }
    }
    let found = lookup.find(engine, version, &changed, &coder)?;
    lookup.are(&changed, &found, &expected).map_err(|what| format!("with {} rows gone: {what}", gone.len()))
}

/// The codes of keys.
fn codes_of(read: &TableRead, coder: &KeyCoder, keys: &[Row]) -> Checked<Vec<KeyCode>> {
    let def = &read.entry.def;
    let columns: Vec<_> = def.key.iter().flat_map(|key| &key.columns).filter_map(|id| def.column_by_id(*id)).collect();
    coder.codes(&batch_of(&columns, keys)).map_err(|error| error.to_string())
}

/// Keys that are looked up.
struct Lookup {
    keys: Vec<Row>,
    codes: Vec<KeyCode>,
}

impl Lookup {
    fn new(read: &TableRead, coder: &KeyCoder, model: &TableModel, random: &mut Random) -> Checked<Lookup> {
        let count = if random.one_in(3) { 1 + random.below(4) } else { KEYS };
        let keys: Vec<Row> = (0..count).map(|_| key(model.kind, random.below(KEYS + NEVER))).collect();
        let codes = codes_of(read, coder, &keys)?;
        Ok(Lookup { keys, codes })
    }

    fn find(
        &self,
        engine: &Engine,
        version: u64,
        read: &TableRead,
        coder: &KeyCoder,
    ) -> Checked<Vec<Option<SnapshotRow>>> {
        let found = engine.find_keys(Version(version), read, coder, &self.codes).map_err(|error| error.to_string())?;
        let scanned = read.find_by_scan(coder, &self.codes).map_err(|error| error.to_string())?;
        for ((key, found), scanned) in self.keys.iter().zip(&found).zip(&scanned) {
            if found != scanned {
                return Err(format!("version {version}: key {key:?} is found at {found:?}, and is at {scanned:?}"));
            }
        }
        Ok(found)
    }

    /// Reads the rows, in an order that is not the file's.
    fn are(&self, read: &TableRead, found: &[Option<SnapshotRow>], expected: &[Option<Row>]) -> Checked {
        let rows: Vec<SnapshotRow> = found.iter().flatten().copied().collect();
        let columns: Vec<usize> = (0..read.entry.def.columns.len()).collect();
        let values = read.rows_at(&rows, &columns).map_err(|error| error.to_string())?;
        let mut values = rows_in(&read.entry.def, &values).map_err(|error| error.to_string())?.into_iter();
        for ((key, found), expected) in self.keys.iter().zip(found).zip(expected) {
            let row = found.as_ref().and_then(|_| values.next());
            if row != *expected {
                return Err(format!("key {key:?} has {row:?} at {found:?} instead of {expected:?}"));
            }
        }
        Ok(())
    }
}

/// Compares the rows whose keys lie between two with the model's. Segments are asked often enough that they make the order of their keys.
fn compare_range(version: u64, read: &TableRead, coder: &KeyCoder, model: &TableModel, random: &mut Random) -> Checked {
    if !random.one_in(4) {
        return Ok(());
    }
    let keys: Vec<Row> = (0..KEYS).map(|number| key(model.kind, number)).collect();
    let codes = codes_of(read, coder, &keys)?;
    let (one, other) = (codes[random.below(KEYS) as usize], codes[random.below(KEYS) as usize]);
    let (low, high) = (one.min(other), one.max(other));
    let within = |code: &KeyCode| (low..=high).contains(code);
    let expected: Vec<&Row> = keys
        .iter()
        .zip(&codes)
        .filter(|(_, code)| within(code))
        .filter_map(|(key, _)| model.row_with(version, key))
        .collect();
    let columns: Vec<usize> = (0..read.entry.def.columns.len()).collect();
    for most in [KEYS as usize; RANGES_ASKED].into_iter().chain([expected.len().saturating_sub(1)]) {
        let found = read.find_between(coder, (low, high), most).map_err(|error| error.to_string())?;
        // Not known yet, or too many.
        let Some(found) = found else { continue };
        let values = read.rows_at(&found, &columns).map_err(|error| error.to_string())?;
        let values = rows_in(&read.entry.def, &values).map_err(|error| error.to_string())?;
        let mut left = expected.clone();
        // Of small segments all rows are found.
        let is_between = |row: &&Row| {
            let of_key = keys.iter().position(|key| row.starts_with(key));
            of_key.is_none_or(|at| within(&codes[at]))
        };
        for row in values.iter().filter(is_between) {
            match left.iter().position(|expected| *expected == row) {
                Some(at) => drop(left.swap_remove(at)),
                None => return Err(format!("version {version}: {row:?} is no row between two keys")),
            }
        }
        if let Some(row) = left.pop() {
            return Err(format!("version {version}: {row:?} is not found between two keys"));
        }
        if values.len() > most {
            return Err(format!(
                "version {version}: {} rows between two keys, and at most {most} were asked for",
                values.len()
            ));
        }
    }
    Ok(())
}

/// Takes rows out of a snapshot, as those that its reader has killed.
fn take_away(read: &mut TableRead, rows: &BTreeSet<SnapshotRow>, version: u64) {
    for (at, segment) in read.segments.iter_mut().enumerate() {
        let own = rows.iter().filter_map(|row| match *row {
            SnapshotRow::Segment { segment, row } if segment == at => Some(u64::from(row)),
            _ => None,
        });
        let mut dead: BTreeSet<u64> = own.collect();
        if dead.is_empty() {
            continue;
        }
        for block in 0..segment.segment.blocks() {
            let known = segment.dead.iter().flat_map(|dead| dead.rows_in(block));
            dead.extend(known.map(|row| (block * BLOCK_ROWS) as u64 + u64::from(row)));
        }
        let killed = Dead::new(dead.into_iter().map(|row| (row, Version(version))));
        segment.dead = DeadRows::new(&Arc::new(killed), Version(version));
    }
    for (at, run) in read.tail.iter_mut().enumerate() {
        let is_left = |row: usize| !rows.contains(&SnapshotRow::Tail { run: at, row: row as u32 });
        let left: BooleanArray = (0..run.rows.num_rows()).map(|row| Some(is_left(row))).collect();
        if left.true_count() < left.len() {
            *run = run.with(filter_record_batch(&run.rows, &left).expect("a mask is as long as the run"));
        }
    }
}
