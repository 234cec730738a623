//! What a batch does to rows that are there: which it kills, and where its keys are afterwards.
//!
//! Invariants:
//! - The same function finds the same for a batch that comes, for one that is replayed, and for one that is followed: the
//!   log has what a batch asked for, by key, and never a place.
//! - What is found is applied after nothing can fail any more, or not at all.
//! - A row that is passed over, or replaced within its own batch, is born dead: it is killed at its own version.

use crate::index::{key_columns, locate};
use crate::replay::Stopped;
use alluvia_catalog::{Catalog, Change};
use alluvia_heap::{FedKey, Heaps};
use alluvia_keys::{KeyIndex, RowPlace};
use alluvia_snapshot::{
    Heeds, KeyGuard, KeyTables, NewBatch, RowChange, Views, WholeTable, WrittenKeys, identities_of,
};
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_space::{ORDINAL_COLUMN, TableDef};
use alluvia_tree::Segment;
use alluvia_types::{Error, ErrorKind, Result, TableId, Version, planted};
use arrow::array::{AsArray, RecordBatch, UInt32Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, UInt64Type};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// The version of places that rows of a batch get in the tail, as long as the batch has none.
const OWN: Version = Version(u64::MAX);

/// What a key takes of memory, with the room that its page has for others.
const KEY_BYTES: u64 = 24;

/// What the rows of a batch ask for that concerns rows that are there.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// In the order of ids.
    tables: Vec<TableChanges>,
    /// Whose locks of rows refuse them.
    heeds: Option<Heeds>,
}

#[derive(Debug)]
struct TableChanges {
    table: TableId,
    name: String,
    /// Of a table with a key.
    coder: Option<KeyCoder>,
    parts: Vec<Part>,
    /// Rows of the parts that come: so many ordinals are taken.
    coming: u64,
}

/// Rows that ask for one thing, in order.
#[derive(Debug)]
struct Part {
    change: RowChange,
    computed_at: Option<Version>,
    rows: PartRows,
}

#[derive(Debug)]
enum PartRows {
    /// Rows with these codes; where each goes, and `None` where only a key is given. `keys` are for messages.
    ByKey { codes: Vec<KeyCode>, places: Vec<Option<RowPlace>>, keys: Vec<RecordBatch> },
    /// Rows with these identities.
    ByIdentity(Vec<(Version, u64)>),
}

impl Part {
    /// How many of the rows come.
    fn coming(&self) -> u64 {
        match &self.rows {
            PartRows::ByKey { places, .. } => places.iter().flatten().count() as u64,
            PartRows::ByIdentity(_) => 0,
        }
    }
}

/// What changes do, once they have a version.
#[derive(Debug, Default)]
pub(crate) struct Effects {
    tables: Vec<TableEffects>,
    /// Rows that change nothing.
    pub(crate) passed_over: u64,
    /// What heaps are told.
    fed: Vec<WrittenKeys>,
}

#[derive(Debug, Default)]
struct TableEffects {
    table: TableId,
    kills: Vec<RowPlace>,
    /// Where keys are from then on; `None` for those that are gone.
    index: HashMap<KeyCode, Option<RowPlace>>,
}

/// Whether a batch concerns rows that are there.
pub(crate) fn concerns_rows(batch: &NewBatch, catalog: &Catalog) -> bool {
    let has_key = |table| definition(batch, catalog, table).is_some_and(|def| def.key.is_some());
    batch.rows.iter().any(|rows| rows.change != RowChange::Insert || has_key(rows.table))
        || batch.loads.iter().any(|load| has_key(load.table))
}

/// The same of the rows of one table.
pub(crate) fn concerns_rows_of(batch: &NewBatch, catalog: &Catalog, table: TableId) -> bool {
    let has_key = || definition(batch, catalog, table).is_some_and(|def| def.key.is_some());
    let mut rows = batch.rows.iter().filter(|rows| rows.table == table);
    let is_written = || batch.rows.iter().any(|rows| rows.table == table);
    let is_loaded = || batch.loads.iter().any(|load| load.table == table);
    rows.any(|rows| rows.change != RowChange::Insert) || (is_written() || is_loaded()) && has_key()
}

impl Changes {
    /// What a batch asks for. `catalog` has the definitions as of before it, `views` the files of what it has staged.
    pub(crate) fn new(batch: &NewBatch, catalog: &Catalog, views: &Views) -> Result<Changes, Stopped> {
        let mut changes = Changes { heeds: batch.heeds.clone(), ..Changes::default() };
        for rows in &batch.rows {
            let Some(def) = definition(batch, catalog, rows.table) else { continue };
            let coder = KeyCoder::new(&def);
            let rows_of_part = match (rows.change, &coder) {
                (RowChange::DeleteRows, Some(_)) => {
                    let message = format!("rows of table {}, which has a primary key, are deleted by it", def.name);
                    return Err(Error::new(ErrorKind::InvalidValue, message).into());
                }
                (RowChange::DeleteRows, None) => {
                    let identities = rows.batches.iter().map(identities_of).collect::<Result<Vec<_>>>()?;
                    PartRows::ByIdentity(identities.concat())
                }
                (RowChange::Insert, None) => continue,
                (_, None) => return Err(no_key(&def).into()),
                (change, Some(coder)) => {
                    let codes = rows.batches.iter().map(|rows| coder.codes(rows)).collect::<Result<Vec<_>>>()?.concat();
                    let first = changes.tables.iter().find(|of| of.table == def.id).map_or(0, |of| of.coming);
                    let given = rows.ordinals.as_ref().map(|ordinals| ordinals.values());
                    let ordinal = |at: usize| given.map_or(first + at as u64, |given| given[at]);
                    let own = |at: usize| RowPlace::Tail { version: OWN, ordinal: ordinal(at) };
                    let place = |at| (change != RowChange::Delete).then(|| own(at));
                    let places = (0..codes.len()).map(place).collect();
                    PartRows::ByKey { codes, places, keys: rows.batches.clone() }
                }
            };
            let part = Part { change: rows.change, computed_at: rows.computed_at, rows: rows_of_part };
            let of_table = changes.table(&def, coder);
            of_table.coming += part.coming();
            of_table.parts.push(part);
        }
        for load in &batch.loads {
            let Some(def) = definition(batch, catalog, load.table) else { continue };
            let Some(coder) = KeyCoder::new(&def) else { continue };
            for meta in &load.segments {
                let segment = Segment::open(views.tree(), meta.clone().committed_as(Version(0)));
                let rows = segment.and_then(|segment| staged(&segment, &coder)).map_err(Stopped::at(load.table))?;
                changes.table(&def, KeyCoder::new(&def)).parts.push(Part {
                    change: load.change,
                    computed_at: None,
                    rows,
                });
            }
        }
        changes.tables.sort_by_key(|changes| changes.table);
        Ok(changes)
    }

    /// The tables whose rows they concern, in the order of ids.
    pub(crate) fn tables(&self) -> Vec<TableId> {
        self.tables.iter().map(|changes| changes.table).collect()
    }

    fn table(&mut self, def: &TableDef, coder: Option<KeyCoder>) -> &mut TableChanges {
        if let Some(at) = self.tables.iter().position(|changes| changes.table == def.id) {
            return &mut self.tables[at];
        }
        self.tables.push(TableChanges { table: def.id, name: def.name.clone(), coder, parts: Vec::new(), coming: 0 });
        self.tables.last_mut().expect("one was just added")
    }

    /// What the changes do. `keys` are the locks of their tables, indexes of an older generation are made anew.
    pub(crate) fn resolve(
        &self,
        views: &Views,
        keys: &mut [KeyGuard<'_>],
        generation: u64,
    ) -> Result<Effects, Stopped> {
        let mut at = TableId(0);
        self.resolve_in_order(views, keys, generation, &mut at).map_err(|error| Stopped::at(at)(error))
    }

    /// The same; `at` is the table that it has come to.
    fn resolve_in_order(
        &self,
        views: &Views,
        keys: &mut [KeyGuard<'_>],
        generation: u64,
        at: &mut TableId,
    ) -> Result<Effects> {
        let mut effects = Effects::default();
        for (changes, (_, keys)) in self.tables.iter().zip(keys) {
            *at = changes.table;
            let mut of_table = TableEffects { table: changes.table, ..TableEffects::default() };
            for part in &changes.parts {
                match &part.rows {
                    PartRows::ByIdentity(identities) => {
                        let whole = views.whole_table(changes.table);
                        effects.passed_over += by_identity(changes, part, identities, &whole, &mut of_table)?;
                    }
                    PartRows::ByKey { codes, places, keys: shown } => {
                        let Some(coder) = &changes.coder else { continue };
                        if keys.of(generation).is_none() {
                            // Nobody else has a version for rows of this table that is not visible.
                            let index = views.whole_table(changes.table).key_index(coder);
                            let index = index.map_err(|error| error.at(format_args!("table {}", changes.name)))?;
                            views.keys().set(keys, index, generation);
                        }
                        let Some(known) = keys.of(generation) else { continue };
                        if let Some(at) = part.computed_at.filter(|_| !planted("conflict not seen"))
                            && let Some(row) = codes.iter().position(|&code| known.recent.is_written_after(code, at))
                        {
                            return Err(written_since(changes, &shown_key(coder, shown, row)));
                        }
                        if let Some(heeds) = &self.heeds
                            && let Some((row, holder)) = heeds.locks.first_taken(heeds.session, changes.table, codes)
                            && !planted("locked row written")
                        {
                            return Err(locked(changes, &shown_key(coder, shown, row), holder));
                        }
                        let rows = codes.iter().copied().zip(places.iter().copied());
                        let forgotten = match planted("duplicate within a load") {
                            true => std::mem::take(&mut of_table.index),
                            false => HashMap::new(),
                        };
                        effects.passed_over += by_key(part.change, rows, &known.index, &mut of_table)
                            .map_err(|row| duplicate_key(&changes.name, &shown_key(coder, shown, row)))?;
                        of_table.index.extend(forgotten);
                    }
                }
            }
            effects.tables.push(of_table);
        }
        effects.fed = effects.fed_keys(views.heaps());
        Ok(effects)
    }
}

impl Effects {
    /// Refuses keys that are new where they would hold, with those that are there, more memory than they may.
    pub(crate) fn refuse_new_keys(self, tables: &KeyTables, keys: &mut [KeyGuard<'_>]) -> Result<Effects> {
        let does_fit =
            |new: u64| tables.index_bytes().saturating_add(new.saturating_mul(KEY_BYTES)) <= tables.index_bytes_max();
        if does_fit(self.tables.iter().map(|of_table| of_table.index.len() as u64).sum()) {
            return Ok(self);
        }
        let mut new = 0;
        for (of_table, (_, keys)) in self.tables.iter().zip(keys) {
            let Some(known) = keys.any() else { continue };
            let comes =
                |(code, place): (&KeyCode, &Option<RowPlace>)| place.is_some() && known.index.get(*code).is_none();
            new += of_table.index.iter().filter(|entry| comes(*entry)).count() as u64;
        }
        if new == 0 || does_fit(new) {
            return Ok(self);
        }
        let [held, allowed] = [tables.index_bytes(), tables.index_bytes_max()].map(|bytes| bytes >> 20);
        let message = format!(
            "{new} new keys have no room: the keys of all tables hold {held} MiB of memory, and may hold {allowed}"
        );
        Err(Error::new(ErrorKind::OutOfMemory, message).with_hint(
            "raise memory_limit, of which keys have a quarter; rows whose keys are there can be changed and deleted",
        ))
    }

    /// Takes what is killed by the batch of a version.
    pub(crate) fn take_kills(&mut self, version: Version) -> Vec<(TableId, Vec<RowPlace>)> {
        let of_table = |effects: &mut TableEffects| {
            let kills = std::mem::take(&mut effects.kills);
            (effects.table, kills.into_iter().map(|place| with_version(place, version)).collect())
        };
        self.tables.iter_mut().map(of_table).collect()
    }

    /// Takes what becomes of the keys that it writes, for heaps.
    pub(crate) fn take_fed(&mut self) -> Vec<WrittenKeys> {
        std::mem::take(&mut self.fed)
    }

    /// The same, as far as tables have heaps by now; of keys that were staged nothing is said.
    fn fed_keys(&self, heaps: &Heaps) -> Vec<WrittenKeys> {
        let of_table = |effects: &TableEffects| {
            let key = |(&code, place): (&KeyCode, &Option<RowPlace>)| match place {
                None if planted("heap not told of deletes") => None,
                None => Some(FedKey { code, ordinal: None }),
                Some(RowPlace::Tail { ordinal, .. }) => Some(FedKey { code, ordinal: Some(*ordinal) }),
                Some(RowPlace::Segment { .. }) => None,
            };
            let keys = || effects.index.iter().filter_map(key).collect();
            (effects.table, heaps.is_fed(effects.table).then(keys))
        };
        self.tables.iter().map(of_table).collect()
    }

    /// Brings indexes up to date. This cannot fail. The locks of the tables are held from when the changes were resolved;
    /// the sequencer's is not needed: what is taken back meanwhile makes the indexes be made anew.
    pub(crate) fn remember(self, version: Version, keys: &mut [KeyGuard<'_>]) {
        for (of_table, (_, keys)) in self.tables.into_iter().zip(keys) {
            let Some(known) = keys.any().filter(|_| !of_table.index.is_empty()) else { continue };
            known.recent.note(version, of_table.index.keys().copied());
            for (code, place) in of_table.index {
                match place {
                    Some(place) => known.index.insert(code, with_version(place, version)),
                    None => known.index.remove(code),
                };
            }
        }
    }
}

/// A place of a row whose batch has got its version.
fn with_version(place: RowPlace, version: Version) -> RowPlace {
    match place {
        RowPlace::Tail { version: OWN, ordinal } => RowPlace::Tail { version, ordinal },
        place => place,
    }
}

/// What rows do by their keys. Tells how many change nothing; the first one whose key is there, where that must not be.
fn by_key(
    change: RowChange,
    rows: impl Iterator<Item = (KeyCode, Option<RowPlace>)>,
    index: &KeyIndex,
    effects: &mut TableEffects,
) -> Result<u64, usize> {
    let mut passed_over = 0;
    for (row, (code, place)) in rows.enumerate() {
        let there = match effects.index.get(&code) {
            Some(place) => *place,
            None => index.get(code),
        };
        match (change, there, place) {
            (RowChange::Delete, None, _) => passed_over += 1,
            (RowChange::Delete, Some(there), _) => {
                effects.kills.push(there);
                effects.index.insert(code, None);
            }
            (RowChange::Insert, Some(_), _) => return Err(row),
            (RowChange::InsertNew, Some(_), own) => {
                passed_over += 1;
                effects.kills.extend(own.filter(|_| !planted("passed over counted")));
            }
            (_, there, own) => {
                effects.kills.extend(there);
                effects.index.insert(code, own);
            }
        }
    }
    Ok(passed_over)
}

/// Kills rows by their identities. Tells how many were not there.
fn by_identity(
    changes: &TableChanges,
    part: &Part,
    identities: &[(Version, u64)],
    whole: &WholeTable,
    effects: &mut TableEffects,
) -> Result<u64> {
    let mut passed_over = 0;
    let mut killed: HashSet<RowPlace> = effects.kills.iter().copied().collect();
    for place in locate(whole, identities)? {
        match place.filter(|&place| whole.kills.killed_at(place).is_none() && killed.insert(place)) {
            Some(place) => effects.kills.push(place),
            // Who has computed new rows from it must look again.
            None if part.computed_at.is_some() => return Err(written_since(changes, "a row of it")),
            None => passed_over += 1,
        }
    }
    Ok(passed_over)
}

/// Rows of a staged segment, in the order in which they came.
fn staged(segment: &Arc<Segment>, coder: &KeyCoder) -> Result<PartRows> {
    let id = segment.meta().id;
    let mut keys = Vec::new();
    let mut codes = Vec::new();
    for rows in key_columns(segment, coder)? {
        let rows = rows?;
        codes.extend(coder.codes(&rows)?);
        keys.push(rows);
    }
    let mut ordinals = Vec::with_capacity(codes.len());
    for rows in segment.column_batches(&[(ORDINAL_COLUMN, DataType::UInt64)])? {
        ordinals.extend_from_slice(rows?.column(0).as_primitive::<UInt64Type>().values());
    }
    let mut order: Vec<u32> = (0..codes.len() as u32).collect();
    order.sort_unstable_by_key(|&row| ordinals[row as usize]);
    let places = order.iter().map(|&row| Some(RowPlace::Segment { segment: id, row })).collect();
    let codes = order.iter().map(|&row| codes[row as usize]).collect();
    let keys = in_order(&keys, &order)?;
    Ok(PartRows::ByKey { codes, places, keys })
}

fn in_order(keys: &[RecordBatch], order: &[u32]) -> Result<Vec<RecordBatch>> {
    let Some(first) = keys.first() else { return Ok(Vec::new()) };
    let failed = |error| Error::internal(format!("keys of staged rows: {error}"));
    let joined = concat_batches(first.schema_ref(), keys).map_err(failed)?;
    let taken = take_record_batch(&joined, &UInt32Array::from(order.to_vec())).map_err(failed)?;
    Ok(vec![taken])
}

/// The definition that rows of a table go by.
pub(crate) fn definition(batch: &NewBatch, catalog: &Catalog, table: TableId) -> Option<Arc<TableDef>> {
    let own = batch.changes.iter().rev().find_map(|change| match change {
        Change::CreateTable { def } | Change::AlterTable { def, .. } if def.id == table => Some(Arc::new(def.clone())),
        _ => None,
    });
    own.or_else(|| catalog.by_id(table).map(|entry| Arc::clone(&entry.def)))
}

fn shown_key(coder: &KeyCoder, keys: &[RecordBatch], row: usize) -> String {
    let mut row = row;
    for batch in keys {
        if row < batch.num_rows() {
            return coder.show(batch, row);
        }
        row -= batch.num_rows();
    }
    "of a row".to_owned()
}

/// The error of a batch that brings a key which a table has already.
pub fn duplicate_key(name: &str, key: &str) -> Error {
    Error::new(
        ErrorKind::UniqueViolation,
        format!("duplicate key value violates unique constraint \"{name}_pkey\": key {key} already exists"),
    )
    .with_hint("ON CONFLICT DO NOTHING passes such rows over, ON CONFLICT DO UPDATE replaces the row that is there")
}

fn written_since(changes: &TableChanges, key: &str) -> Error {
    let name = &changes.name;
    Error::new(
        ErrorKind::Conflict,
        format!("could not serialize access due to concurrent update: key {key} of table {name} was written since"),
    )
    .with_hint("run the transaction again: it computed rows from a version that is not the newest any more")
}

/// Told to the session, which waits for the lock and hands the batch over again.
fn locked(changes: &TableChanges, key: &str, holder: u64) -> Error {
    let message = format!("could not obtain lock on row with key {key} of table {}", changes.name);
    Error::new(ErrorKind::LockNotAvailable, message).with_hint(format!("session {holder} has locked it"))
}

fn no_key(def: &TableDef) -> Error {
    Error::new(ErrorKind::NoKey, format!("table {} has no primary key", def.name))
        .with_hint("rows can be replaced or deleted by key only in a table that was created with PRIMARY KEY")
}
