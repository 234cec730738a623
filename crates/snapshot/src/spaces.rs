//! Spaces: the dictionaries and the fixed key ranges that all segments of a table share.
//!
//! Invariants:
//! - A table has one dictionary file, and while a purge writes it anew two; it is opened at most once, through the latest mark that
//!   anything durable needs.
//! - Key ranges, once fixed, never change: all segments of a table order their rows by one layout.
//! - Whoever uses one table does not wait until another's file, which may have gigabytes, is read: that holds the
//!   table's own lock alone.

use alluvia_catalog::{Dictionaries, DictionaryMark, LevelBounds};
use alluvia_space::{KeyRange, TableDef};
use alluvia_storage::Disk;
use alluvia_types::{Result, TableId};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// One table's dictionaries and key ranges.
#[derive(Debug)]
pub struct Space {
    /// Members of the table's levels.
    pub dictionaries: Arc<Dictionaries>,
    ranges: OnceLock<Vec<KeyRange>>,
}

impl Space {
    /// The fixed ranges, if anything was sorted yet.
    pub fn ranges(&self) -> Option<&[KeyRange]> {
        self.ranges.get().map(Vec::as_slice)
    }

    /// The fixed ranges; the first caller's `learn` fixes them.
    pub fn ranges_or_learn(&self, learn: impl FnOnce() -> Vec<KeyRange>) -> &[KeyRange] {
        self.ranges.get_or_init(learn)
    }
}

/// What durable files need of a table's space, before it is opened.
#[derive(Clone, Debug, Default)]
struct Needed {
    mark: Option<DictionaryMark>,
    ranges: Option<Vec<KeyRange>>,
}

/// Where a table's space is, once it is opened; held while it is.
type SpaceCell = Arc<Mutex<Option<Arc<Space>>>>;

/// What is known of a table.
#[derive(Debug, Default)]
struct Known {
    needed: Needed,
    place: SpaceCell,
}

/// Every table's space, opened when first used.
#[derive(Debug)]
pub struct Spaces {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    bounds: LevelBounds,
    tables: Mutex<HashMap<TableId, Known>>,
}

fn file_name(table: TableId, generation: u32) -> String {
    match generation {
        0 => format!("dict-{table}"),
        later => format!("dict-{table}-{later}"),
    }
}

impl Spaces {
    /// Spaces whose dictionary files live in `dir`, which exists.
    pub fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> Self {
        Spaces { disk, dir, bounds: LevelBounds::default(), tables: Mutex::default() }
    }

    /// The same, with bounds for the levels of all tables.
    pub fn with_bounds(self, bounds: LevelBounds) -> Self {
        Spaces { bounds, ..self }
    }

    /// The bounds of all levels.
    pub fn bounds(&self) -> &LevelBounds {
        &self.bounds
    }

    /// The first dictionary file of a table.
    pub fn path(dir: &Path, table: TableId) -> PathBuf {
        dir.join(file_name(table, 0))
    }

    /// The same file of a generation.
    pub fn path_of(dir: &Path, table: TableId, generation: u32) -> PathBuf {
        dir.join(file_name(table, generation))
    }

    /// The table whose dictionaries the file of this name holds, and its generation, if it is one of dictionaries.
    pub fn table_of_file(file: &str) -> Option<(TableId, u32)> {
        let of_table = file.strip_prefix("dict-")?;
        let (table, generation) = of_table.split_once('-').unwrap_or((of_table, "0"));
        let (table, generation) = (TableId(table.parse().ok()?), generation.parse().ok()?);
        (file_name(table, generation) == file).then_some((table, generation))
    }

    /// During recovery, before any use: durable segments need the dictionary through `mark`, and used `ranges`.
    pub fn require(&self, table: TableId, mark: Option<&DictionaryMark>, ranges: Option<&[KeyRange]>) {
        let mut tables = self.tables.lock();
        let Known { needed, place } = tables.entry(table).or_default();
        assert!(place.lock().is_none(), "a space is required before it is opened");
        if let Some(mark) = mark {
            self.bounds.note(mark);
            if needed.mark.as_ref().is_none_or(|known| !known.contains(mark)) {
                needed.mark = Some(mark.clone());
            }
        }
        if needed.ranges.is_none() {
            needed.ranges = ranges.map(<[KeyRange]>::to_vec);
        }
    }

    /// The table's space, opened or created.
    pub fn get(&self, def: &TableDef) -> Result<Arc<Space>> {
        let (needed, place) = {
            let mut tables = self.tables.lock();
            let known = tables.entry(def.id).or_default();
            (known.needed.clone(), Arc::clone(&known.place))
        };
        let mut place = place.lock();
        if let Some(space) = place.as_ref() {
            return Ok(Arc::clone(space));
        }
        let space = Arc::new(self.open(def, needed)?);
        *place = Some(Arc::clone(&space));
        Ok(space)
    }

    /// Reads the whole dictionary file, if there is one.
    fn open(&self, def: &TableDef, needed: Needed) -> Result<Space> {
        let path = Self::path(&self.dir, def.id);
        let dictionaries = match &needed.mark {
            Some(mark) => Dictionaries::open(Arc::clone(&self.disk), path, def, mark)?,
            None => Dictionaries::create(Arc::clone(&self.disk), path, def)?,
        };
        let ranges = OnceLock::new();
        if let Some(fixed) = needed.ranges {
            let _ = ranges.set(fixed);
        }
        Ok(Space { dictionaries: Arc::new(dictionaries.within(&self.bounds)), ranges })
    }

    /// The table's space if it is open already or has a file to open.
    pub fn existing(&self, def: &TableDef) -> Result<Option<Arc<Space>>> {
        let (has_file, place) = match self.tables.lock().get(&def.id) {
            Some(known) => (known.needed.mark.is_some(), Arc::clone(&known.place)),
            None => return Ok(None),
        };
        let open = place.lock().clone();
        match open {
            None if has_file => self.get(def).map(Some),
            open => Ok(open),
        }
    }

    /// The table's space if a level of it is near full. It is opened for that only if so much is in its file.
    pub fn near_full(&self, def: &TableDef) -> Result<Option<Arc<Space>>> {
        let (may_be_near, place) = match self.tables.lock().get(&def.id) {
            Some(Known { needed, place }) => {
                (needed.mark.as_ref().is_some_and(|mark| self.bounds.may_be_near(mark)), Arc::clone(place))
            }
            None => return Ok(None),
        };
        let open = place.lock().clone();
        let space = match open {
            None if may_be_near => Some(self.get(def)?),
            open => open,
        };
        Ok(space.filter(|space| space.dictionaries.is_near_full()))
    }

    /// Tables whose dictionary files are needed, with their generations; after recovery, other dictionary files are orphans.
    pub fn required(&self) -> BTreeSet<(TableId, u32)> {
        let tables = self.tables.lock();
        let needed = tables.iter().filter_map(|(&table, known)| Some((table, known.needed.mark.as_ref()?.generation)));
        needed.collect()
    }

    /// Forgets a dropped table.
    pub fn forget(&self, table: TableId) {
        self.tables.lock().remove(&table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_space::{Column, DataType, TableOptions, dimensions};
    use alluvia_storage::{FaultDisk, Watch, WatchedDisk};
    use alluvia_types::ColumnId;
    use arrow::array::{ArrayRef, StringViewArray};
    use arrow::record_batch::RecordBatch;
    use parking_lot::Condvar;
    use std::sync::mpsc::channel;
    use std::thread::ThreadId;
    use std::time::Duration;

    /// Holds up the reads of one thread.
    #[derive(Debug, Default)]
    struct Gate {
        held: Mutex<Held>,
        changed: Condvar,
    }

    #[derive(Debug, Default)]
    struct Held {
        thread: Option<ThreadId>,
        is_reading: bool,
    }

    impl Gate {
        fn hold_this_thread(&self) {
            self.held.lock().thread = Some(std::thread::current().id());
        }

        fn wait_for_a_read(&self) {
            let mut held = self.held.lock();
            while !held.is_reading {
                self.changed.wait(&mut held);
            }
        }

        fn open(&self) {
            self.held.lock().thread = None;
            self.changed.notify_all();
        }
    }

    impl Watch for Gate {
        fn before_read(&self) {
            let mut held = self.held.lock();
            while held.thread == Some(std::thread::current().id()) {
                held.is_reading = true;
                self.changed.notify_all();
                self.changed.wait(&mut held);
            }
        }
    }

    fn table(id: u32) -> TableDef {
        let column = Column {
            id: ColumnId(0),
            name: "kind".to_owned(),
            storage_name: "kind".to_owned(),
            data_type: DataType::Text,
            nullable: true,
            chars_max: None,
        };
        let columns = vec![column];
        TableDef {
            id: TableId(id),
            schema: "public".to_owned(),
            name: format!("t{id}"),
            dimensions: dimensions::parse("kind", &columns).expect("a good declaration"),
            columns,
            next_column_id: 1,
            rules: alluvia_space::TableRules::default(),
            indexes: Vec::new(),
            foreign_keys: Vec::new(),
            key: None,
            measures: Vec::new(),
            seed: 1,
            options: TableOptions::default(),
        }
    }

    #[test]
    fn while_one_table_is_opened_others_are_used() {
        let disk: Arc<dyn Disk> = FaultDisk::new();
        let gate = Arc::new(Gate::default());
        let watched = WatchedDisk::new(Arc::clone(&disk), Arc::clone(&gate) as Arc<dyn Watch>);
        let spaces = Spaces::new(Arc::new(watched), PathBuf::from("/"));
        for id in [1, 2] {
            let kinds: ArrayRef = Arc::new(StringViewArray::from_iter_values(["red", "green"]));
            let rows = RecordBatch::try_from_iter([("kind", kinds)]).unwrap();
            let written = Spaces::new(Arc::clone(&disk), PathBuf::from("/")).get(&table(id)).unwrap();
            written.dictionaries.remap(&table(id), &rows).unwrap();
            spaces.require(TableId(id), Some(&written.dictionaries.persist().unwrap()), None);
        }
        std::thread::scope(|scope| {
            let slow = scope.spawn(|| {
                gate.hold_this_thread();
                spaces.get(&table(1)).map(|space| space.dictionaries.len(0))
            });
            gate.wait_for_a_read();
            let (told, found) = channel();
            let of_others = || [2, 3].map(|id| spaces.existing(&table(id)).unwrap().map(|s| s.dictionaries.len(0)));
            scope.spawn(move || told.send(of_others()));
            let found = found.recv_timeout(Duration::from_secs(20));
            gate.open();
            assert_eq!(found, Ok([Some(3), None]), "it waited for the first table's file");
            assert_eq!(slow.join().expect("it ends").unwrap(), 3);
        });
        let again = spaces.existing(&table(1)).unwrap().expect("it is open");
        assert!(Arc::ptr_eq(&again, &spaces.get(&table(1)).unwrap()), "it was opened once");
    }

    #[test]
    fn files_are_known_by_their_whole_names() {
        let path = Spaces::path(Path::new("/db"), TableId(7));
        assert_eq!(path, Path::new("/db/dict-7"));
        assert_eq!(Spaces::table_of_file("dict-7"), Some((TableId(7), 0)));
        assert_eq!(Spaces::table_of_file("dict-7-12"), Some((TableId(7), 12)));
        for other in [
            "dict-7-0",
            "dict-7-",
            "dict-7-01",
            "dict-7-1-1",
            "dict-7-x",
            "dict-",
            "dict-+7",
            "dict-07",
            "dict-7.tmp",
            "dict-en.txt",
            "dict-4294967296",
            "dict",
        ] {
            assert_eq!(Spaces::table_of_file(other), None, "{other}");
        }
    }
}
