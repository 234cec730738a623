//! A simulated database beside its model: whatever is done is done to both, and what is read is compared.

use super::model::{Change, Model, Outcome, Part};
use super::tables::{KEYS, KeyKind, key, row, table};
use super::{boxes, followers, lookups};
use alluvia_sim::rows::{Row, batch_of, identities_batch, rows_of, table_batch};
use alluvia_sim::{DIR, Engine, EngineOptions, Gate, Random};
use alluvia_snapshot::{Durability, NewBatch, NewRows, PurgeWait, RowChange, Snapshot};
use alluvia_space::{OnConflict, TableDef};
use alluvia_storage::{Disk, FaultDisk, WatchedDisk};
use alluvia_types::{Error, ErrorKind, Freshness, ManualClock, Result, TableId, Version};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What differs, or was not to be.
pub type Checked<T = ()> = std::result::Result<T, String>;

pub const NEWEST: Freshness = Freshness::Within(Duration::ZERO);

/// The tables of a world: one with a key, and one without.
pub const KEYED: usize = 0;
pub const KEYLESS: usize = 1;

/// How tables and stages are.
#[derive(Clone, Debug)]
pub struct Setup {
    pub kind: KeyKind,
    pub on_conflict: OnConflict,
    pub options: EngineOptions,
}

impl Setup {
    pub fn new(kind: KeyKind, on_conflict: OnConflict) -> Setup {
        Setup { kind, on_conflict, options: EngineOptions::default() }
    }

    /// The kinds of its tables.
    fn tables(&self) -> [(KeyKind, OnConflict); 2] {
        [(self.kind, self.on_conflict), (KeyKind::None, OnConflict::Error)]
    }

    /// The model of a database that has nothing but the tables.
    pub fn model(&self) -> Model {
        Model::new(&self.tables())
    }
}

/// A database, its disk and its model.
pub struct World {
    pub setup: Setup,
    pub disk: Arc<FaultDisk>,
    pub gate: Arc<Gate>,
    pub clock: Arc<ManualClock>,
    engine: Option<Arc<Engine>>,
    pub tables: Vec<TableId>,
    pub model: Model,
    /// Snapshots that somebody reads later.
    pub held: Vec<Snapshot>,
    /// Versions that somebody may ask for: snapshots of no tables.
    pub pins: Vec<Snapshot>,
    /// What was visible when the database was opened: of what was written before, not all is known.
    opened_at: u64,
}

/// Opens the engine on a disk that a gate watches.
pub fn open(disk: &Arc<FaultDisk>, gate: &Arc<Gate>, clock: &Arc<ManualClock>, setup: &Setup) -> Result<Engine> {
    let disk = WatchedDisk::new(Arc::clone(disk) as Arc<dyn Disk>, Arc::clone(gate) as _);
    Engine::open(Arc::new(disk), Arc::clone(clock) as _, &setup.options)
}

/// Makes the tables.
pub fn create(engine: &Engine, setup: &Setup) -> Result<Vec<TableId>> {
    let [keyed, keyless] = setup.tables();
    engine.create(&[&|id| table(id, "keyed", keyed.0, keyed.1), &|id| table(id, "keyless", keyless.0, keyless.1)])
}

/// A batch as the engine takes it. Loads are staged.
pub fn new_batch(engine: &Engine, tables: &[TableId], parts: &[Part]) -> Result<NewBatch> {
    let mut batch = NewBatch::default();
    for part in parts {
        let entry = engine.entry(tables[part.table]).expect("the tables are there");
        let def = &entry.def;
        let (change, rows) = match &part.change {
            Change::Insert(rows) => (RowChange::Insert, table_batch(def, rows)),
            Change::InsertNew(rows) => (RowChange::InsertNew, table_batch(def, rows)),
            Change::Upsert(rows) => (RowChange::Upsert, table_batch(def, rows)),
            Change::Delete(keys) => (RowChange::Delete, keys_batch(def, keys)),
            Change::DeleteRows(identities) => (RowChange::DeleteRows, identities_batch(identities)),
            Change::Load(rows) => {
                let mut load = engine.begin_load(&entry)?;
                // In pieces, so that keys meet over the bounds of batches and of runs.
                for rows in rows.chunks(50) {
                    load.append(table_batch(def, rows))?;
                }
                batch.loads.push(load.finish()?);
                continue;
            }
        };
        // In two record batches, where that can be.
        let half = rows.num_rows() / 2;
        let batches = vec![rows.slice(0, half), rows.slice(half, rows.num_rows() - half)];
        let computed_at = part.computed_at.map(Version);
        batch.rows.push(NewRows { change, computed_at, ..NewRows::insert(def.id, entry.changed_at, batches) });
    }
    Ok(batch)
}

fn keys_batch(def: &TableDef, keys: &[Row]) -> arrow::record_batch::RecordBatch {
    let key = def.key.as_ref().expect("rows are deleted by key where there is one");
    let columns: Vec<_> = key.columns.iter().filter_map(|id| def.column_by_id(*id)).collect();
    batch_of(&columns, keys)
}

impl World {
    pub fn new(setup: &Setup) -> World {
        let (disk, gate, clock) = (FaultDisk::new(), Arc::new(Gate::default()), Arc::new(ManualClock::default()));
        let engine = Arc::new(open(&disk, &gate, &clock, setup).expect("an empty disk opens"));
        let tables = create(&engine, setup).expect("the tables are made");
        let (setup, model) = (setup.clone(), setup.model());
        let (held, pins) = (Vec::new(), Vec::new());
        World { setup, disk, gate, clock, engine: Some(engine), tables, model, held, pins, opened_at: 0 }
    }

    pub fn engine(&self) -> &Arc<Engine> {
        self.engine.as_ref().expect("it is open but while it is being reopened")
    }

    pub fn visible(&self) -> u64 {
        self.engine().views().visible().0
    }

    /// Commits a batch to both, and compares what became of it. Gives its version; `None` if it was refused.
    pub fn submit(&mut self, parts: &[Part], durability: Durability) -> Checked<Option<u64>> {
        let before = self.model.version();
        let is_lenient = self.may_conflict(parts);
        let engine = Arc::clone(self.engine());
        let batch = new_batch(&engine, &self.tables, parts).map_err(|error| format!("a load: {error}"))?;
        let expected = self.model.apply(parts);
        let submitted = engine.submit(batch, durability);
        match (&expected, &submitted) {
            (Outcome::Applied { passed_over }, Ok(committed)) => {
                let found = (committed.version.0, committed.duplicate, committed.passed_over);
                match found == (before + 1, false, *passed_over) {
                    true => Ok(Some(before + 1)),
                    false => Err(format!("{committed:?} instead of {} with {passed_over} passed over", before + 1)),
                }
            }
            (Outcome::Applied { .. }, Err(error)) if error.kind() == ErrorKind::Conflict && is_lenient => {
                self.model.take_back(before);
                Ok(None)
            }
            (Outcome::Refused(why), Err(error))
                if why.is_duplicate && error.kind() == ErrorKind::UniqueViolation
                    || (why.is_conflict || is_lenient) && error.kind() == ErrorKind::Conflict =>
            {
                Ok(None)
            }
            _ => Err(format!("{submitted:?} instead of {expected:?}")),
        }
    }

    /// Whether a batch may be refused though nothing that it was computed from was written since: the engine need not
    /// know what was written before it was opened, or before versions that nobody pins.
    fn may_conflict(&self, parts: &[Part]) -> bool {
        let is_known = |at: u64| {
            let is_pinned = self.pins.iter().chain(&self.held).any(|pin| pin.version.0 == at);
            at >= self.opened_at && (is_pinned || at == self.visible())
        };
        parts.iter().filter_map(|part| part.computed_at).any(|at| !is_known(at))
    }

    /// As [`World::submit`], durable, of a batch that is not refused.
    pub fn commit(&mut self, parts: &[Part]) -> Checked<u64> {
        self.submit(parts, Durability::Sync)?.ok_or_else(|| format!("refused: {parts:?}"))
    }

    pub fn flush(&self) -> Checked {
        self.engine().flush().map_err(|error| format!("a flush: {error}"))
    }

    pub fn sort(&self) -> Checked {
        self.engine().sort().map(drop).map_err(|error| format!("a sort: {error}"))
    }

    pub fn merge(&self) -> Checked {
        self.engine().merge().map(drop).map_err(|error| format!("a merge: {error}"))
    }

    /// Purges a table, unless it would have to wait.
    pub fn purge(&self, table: usize) -> Checked {
        let would_wait = || Error::new(ErrorKind::Cancelled, "it would wait");
        let wait = |wait: &PurgeWait| if *wait == PurgeWait::Working { Ok(()) } else { Err(would_wait()) };
        match self.engine().purge(self.tables[table], &mut { wait }) {
            Err(error) if error.kind() != ErrorKind::Cancelled => Err(format!("a purge: {error}")),
            _ => Ok(()),
        }
    }

    /// Runs a sort or a merge, and `meanwhile` before one of its syncs, if there are so many. Returns whether there
    /// were; `meanwhile` is told whether writers go on.
    pub fn during(
        &mut self,
        is_merge: bool,
        passes: usize,
        meanwhile: impl FnOnce(&mut World, bool) -> Checked,
    ) -> Checked<bool> {
        let (gate, engine) = (Arc::clone(&self.gate), Arc::clone(self.engine()));
        let work = move || if is_merge { engine.merge() } else { engine.sort() };
        let (done, between) = gate.hold(passes, work, |stop| meanwhile(self, stop.is_apart()));
        let was_held = between.is_some();
        between.transpose()?;
        done.map_err(|error| format!("held at sync {passes}: {error}"))?;
        Ok(was_held)
    }

    /// Ends the process, and opens the database again. What was not flushed is lost, or not.
    pub fn reopen(&mut self) -> Checked {
        self.release_all()?;
        let visible = self.visible();
        self.engine = None;
        let engine = open(&self.disk, &self.gate, &self.clock, &self.setup);
        self.engine = Some(Arc::new(engine.map_err(|error| format!("it does not open: {error}"))?));
        let found = self.visible();
        if found < visible || found > self.model.version() {
            return Err(format!("version {visible} was visible, and {found} is after it was opened again"));
        }
        self.model.take_back(found);
        self.opened_at = found;
        Ok(())
    }

    /// Holds a snapshot of all tables.
    pub fn hold(&mut self, freshness: Freshness) -> Checked {
        let snapshot = self.engine().snapshot(freshness, Version(0), &self.tables);
        self.held.push(snapshot.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Pins the newest visible version, or where all is merged.
    pub fn pin(&mut self, freshness: Freshness) -> Checked {
        let snapshot = self.engine().snapshot(freshness, Version(0), &self.tables);
        let version = snapshot.map_err(|error| error.to_string())?.version;
        let pin = self.engine().pin(version);
        self.pins.push(pin.map_err(|error| error.to_string())?);
        Ok(())
    }

    /// Reads what was held and what was pinned for the last time, and lets all go.
    pub fn release_all(&mut self) -> Checked {
        let mut random = Random::new(1);
        for snapshot in std::mem::take(&mut self.held) {
            self.compare(&snapshot, false, &mut random).map_err(|what| format!("held: {what}"))?;
        }
        for pin in std::mem::take(&mut self.pins) {
            self.compare_at(pin.version.0, false, &mut random).map_err(|what| format!("pinned: {what}"))?;
        }
        Ok(())
    }

    /// Compares what snapshots of every freshness, held ones and askable versions have.
    pub fn check(&mut self, random: &mut Random) -> Checked {
        let engine = Arc::clone(self.engine());
        let tables = self.tables.clone();
        for freshness in [NEWEST, Freshness::Within(Duration::from_secs(2)), Freshness::Merged] {
            for tables in [&tables[..], &tables[..1], &tables[1..]] {
                let snapshot = engine.snapshot(freshness, Version(0), tables).map_err(|error| error.to_string())?;
                let with_boxes = tables.len() == 2;
                self.compare(&snapshot, with_boxes, random).map_err(|what| format!("{freshness:?}: {what}"))?;
            }
        }
        let visible = self.visible();
        let askable = random.within(engine.views().base().through.0..visible + 1);
        self.compare_at(askable, true, random).map_err(|what| format!("asked for: {what}"))?;
        if let Some(pin) = random.pick_some(&self.pins) {
            let version = pin.version.0;
            self.compare_at(version, true, random).map_err(|what| format!("pinned: {what}"))?;
            followers::check(&engine, &self.tables, Version(version)).map_err(|what| format!("pinned: {what}"))?;
        }
        if !self.held.is_empty() {
            let held = self.held.swap_remove(random.below(self.held.len() as u64) as usize);
            self.compare(&held, true, random).map_err(|what| format!("held: {what}"))?;
            self.held.push(held);
        }
        #[cfg(feature = "paranoid")]
        for entry in self.tables.iter().filter_map(|&table| engine.entry(table)) {
            engine.views().check_key_index(&entry.def).map_err(|error| error.to_string())?;
        }
        followers::check(&engine, &self.tables, Version(askable))
    }

    fn compare_at(&mut self, version: u64, with_boxes: bool, random: &mut Random) -> Checked {
        let snapshot = self.engine().snapshot_at(Version(version), &self.tables);
        let snapshot = snapshot.map_err(|error| format!("version {version}: {error}"))?;
        if snapshot.version.0 != version {
            return Err(format!("version {version} was asked for, and {} is given", snapshot.version));
        }
        self.compare(&snapshot, with_boxes, random)
    }

    /// Compares a snapshot with the model at its version.
    pub fn compare(&mut self, snapshot: &Snapshot, with_boxes: bool, random: &mut Random) -> Checked {
        let version = snapshot.version.0;
        let through = self.engine().views().base().through.0;
        for (model, id) in self.model.tables.iter_mut().zip(&self.tables) {
            let Some(read) = snapshot.tables.get(id) else { continue };
            let name = &read.entry.def.name;
            let found = rows_of(snapshot, *id).map_err(|error| error.to_string())?;
            model.compare(version, &found).map_err(|what| format!("table '{name}': {what}"))?;
            let most = read.rows_at_most();
            if most < found.len() as u64 {
                return Err(format!(
                    "table '{name}' has at most {most} rows at version {version}, and {}",
                    found.len()
                ));
            }
            // Never too low, where somebody may follow the log from before.
            let killed = model.killed_between(through.min(version), version).unwrap_or(0);
            if read.killed_through.0 < killed || read.killed_through.0 > version {
                let said = read.killed_through;
                return Err(format!("table '{name}' at version {version}: rows went at {killed}, and {said} is told"));
            }
            let engine = self.engine.as_ref().expect("it is open");
            lookups::compare(engine, version, read, model, random).map_err(|what| format!("table '{name}': {what}"))?;
            if with_boxes {
                let rows: Vec<Row> = found.into_iter().map(|found| found.row).collect();
                boxes::compare(engine, snapshot, *id, &rows, random)?;
            }
        }
        Ok(())
    }

    /// K2, by what the index decides: keys that are there are refused, and keys that are not are not found. The rows
    /// stay as they are.
    pub fn probe_index(&mut self, random: &mut Random) -> Checked {
        let kind = self.setup.kind;
        let version = self.model.version();
        let (live, dead): (Vec<u64>, Vec<u64>) =
            (0..KEYS).partition(|&number| self.model.tables[KEYED].has_key(version, &key(kind, number)));
        let absent = dead.iter().map(|&number| key(kind, number)).collect();
        self.commit(&[Part::new(KEYED, Change::Delete(absent))])?;
        for &number in &live {
            let duplicate = Part::new(KEYED, Change::Insert(vec![row(kind, number, random)]));
            if self.submit(&[duplicate], Durability::Sync)?.is_some() {
                return Err(format!("key {number} was there, and came again"));
            }
        }
        let again = live.iter().map(|&number| row(kind, number, random)).collect();
        self.commit(&[Part::new(KEYED, Change::InsertNew(again))])?;
        Ok(())
    }
}

/// Files of a folder of the database whose names begin so.
pub fn files(disk: &FaultDisk, folder: &str, prefix: &str) -> Vec<PathBuf> {
    let folder = Path::new(DIR).join(folder);
    let entries = disk.read_dir(&folder).expect("listed").into_iter();
    entries.filter(|entry| entry.name.starts_with(prefix)).map(|entry| folder.join(entry.name)).collect()
}

/// All of a file.
pub fn bytes(disk: &FaultDisk, path: &Path) -> Vec<u8> {
    let file = disk.open(path).expect("there");
    let mut bytes = vec![0; file.len().expect("a length") as usize];
    file.read_exact_at(&mut bytes, 0).expect("read");
    bytes
}
