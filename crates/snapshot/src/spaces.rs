//! What the segments of a table share: its dictionaries and its fixed key ranges.
//!
//! Invariants:
//! - A table has one dictionary file; it is opened at most once, through the highest mark that anything durable needs.
//! - Key ranges, once fixed, never change: all segments of a table order their rows by one layout.

use alluvia_catalog::{Dictionaries, DictionaryMark};
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

/// Every table's space, opened when first used.
#[derive(Debug)]
pub struct Spaces {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    open: HashMap<TableId, Arc<Space>>,
    needed: HashMap<TableId, Needed>,
}

fn file_name(table: TableId) -> String {
    format!("dict-{table}")
}

impl Spaces {
    /// Spaces whose dictionary files live in `dir`, which exists.
    pub fn new(disk: Arc<dyn Disk>, dir: PathBuf) -> Self {
        Spaces { disk, dir, inner: Mutex::default() }
    }

    /// The dictionary file of a table.
    pub fn path(dir: &Path, table: TableId) -> PathBuf {
        dir.join(file_name(table))
    }

    /// The table whose dictionaries the file of this name holds, if it is one of dictionaries.
    pub fn table_of_file(file: &str) -> Option<TableId> {
        let table = TableId(file.strip_prefix("dict-")?.parse().ok()?);
        (file_name(table) == file).then_some(table)
    }

    /// During recovery, before any use: durable segments need the dictionary through `mark`, and used `ranges`.
    pub fn require(&self, table: TableId, mark: Option<&DictionaryMark>, ranges: Option<&[KeyRange]>) {
        let mut inner = self.inner.lock();
        assert!(!inner.open.contains_key(&table), "a space is required before it is opened");
        let needed = inner.needed.entry(table).or_default();
        if let Some(mark) = mark {
            // Marks of one append-only file: the longer one contains the shorter.
            if needed.mark.as_ref().is_none_or(|known| known.bytes < mark.bytes) {
                needed.mark = Some(mark.clone());
            }
        }
        if needed.ranges.is_none() {
            needed.ranges = ranges.map(<[KeyRange]>::to_vec);
        }
    }

    /// The table's space, opened or created.
    pub fn get(&self, def: &TableDef) -> Result<Arc<Space>> {
        let mut inner = self.inner.lock();
        if let Some(space) = inner.open.get(&def.id) {
            return Ok(Arc::clone(space));
        }
        let needed = inner.needed.get(&def.id).cloned().unwrap_or_default();
        let path = Self::path(&self.dir, def.id);
        let dictionaries = match &needed.mark {
            Some(mark) => Dictionaries::open(Arc::clone(&self.disk), path, def, mark)?,
            None => Dictionaries::create(Arc::clone(&self.disk), path, def)?,
        };
        let ranges = OnceLock::new();
        if let Some(fixed) = needed.ranges {
            let _ = ranges.set(fixed);
        }
        let space = Arc::new(Space { dictionaries: Arc::new(dictionaries), ranges });
        inner.open.insert(def.id, Arc::clone(&space));
        Ok(space)
    }

    /// The table's space if it is open already or has a file to open.
    pub fn existing(&self, def: &TableDef) -> Result<Option<Arc<Space>>> {
        {
            let inner = self.inner.lock();
            let has_file = inner.needed.get(&def.id).is_some_and(|needed| needed.mark.is_some());
            if !inner.open.contains_key(&def.id) && !has_file {
                return Ok(None);
            }
        }
        self.get(def).map(Some)
    }

    /// Tables whose dictionary files are needed; after recovery, other dictionary files are orphans.
    pub fn required(&self) -> BTreeSet<TableId> {
        let inner = self.inner.lock();
        inner.needed.iter().filter(|(_, needed)| needed.mark.is_some()).map(|(&table, _)| table).collect()
    }

    /// Forgets a dropped table.
    pub fn forget(&self, table: TableId) {
        let mut inner = self.inner.lock();
        inner.open.remove(&table);
        inner.needed.remove(&table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_known_by_their_whole_names() {
        let path = Spaces::path(Path::new("/db"), TableId(7));
        assert_eq!(path, Path::new("/db/dict-7"));
        assert_eq!(Spaces::table_of_file("dict-7"), Some(TableId(7)));
        for other in ["dict-", "dict-+7", "dict-07", "dict-7.tmp", "dict-en.txt", "dict-4294967296", "dict"] {
            assert_eq!(Spaces::table_of_file(other), None, "{other}");
        }
    }
}
