//! The directories of a [`FaultDisk`](super::FaultDisk): what readers see, what a power loss leaves.
//!
//! Invariants:
//! - `durable` with all of `pending` applied in order is `live`.
//! - A rename is one change of two names: both or neither survive.
//! - No change survives without the earlier changes of the names that it touches. Of unrelated names, any subset may.
//! - Directories themselves are durable from the moment that they are made, as [`Disk`](crate::Disk) promises.

use super::dice::Dice;
use super::inode::Inode;
use parking_lot::RwLock;
use std::collections::btree_map::{BTreeMap, Entry};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A file, its contents behind a lock of their own, so that readers of different files do not meet.
#[derive(Debug)]
pub(super) struct File {
    /// Numbered as created: the place of its dice.
    pub(super) number: u64,
    pub(super) inode: RwLock<Inode>,
}

/// A directory, by its index; the name in it.
type Name = (usize, Arc<str>);
type Table = Vec<BTreeMap<Arc<str>, Arc<File>>>;

/// Names set to a file, or removed, together.
#[derive(Clone, Debug)]
struct Change {
    sets: Vec<(Name, Option<Arc<File>>)>,
}

impl Change {
    fn names(&self) -> impl Iterator<Item = &Name> {
        self.sets.iter().map(|(name, _)| name)
    }

    fn apply(&self, table: &mut Table) {
        for ((dir, name), file) in &self.sets {
            match file {
                Some(file) => table[*dir].insert(Arc::clone(name), Arc::clone(file)),
                None => table[*dir].remove(name),
            };
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    dirs: BTreeMap<PathBuf, usize>,
    live: Table,
    durable: Table,
    pending: Vec<Change>,
}

impl Names {
    /// Makes a directory and its parents; false if it was there.
    pub(super) fn make_dir(&mut self, path: &Path) -> bool {
        let mut made = false;
        for dir in path.ancestors() {
            if let Entry::Vacant(slot) = self.dirs.entry(dir.into()) {
                slot.insert(self.live.len());
                self.live.push(BTreeMap::new());
                self.durable.push(BTreeMap::new());
                made = true;
            }
        }
        made
    }

    pub(super) fn is_dir(&self, path: &Path) -> bool {
        self.dirs.contains_key(path)
    }

    /// The directories right below `path`.
    pub(super) fn dirs_in(&self, path: &Path) -> impl Iterator<Item = &Path> {
        self.dirs.keys().map(PathBuf::as_path).filter(move |dir| dir.parent() == Some(path))
    }

    pub(super) fn files_in(&self, dir: &Path) -> Option<impl Iterator<Item = (&str, &Arc<File>)>> {
        let dir = *self.dirs.get(dir)?;
        Some(self.live[dir].iter().map(|(name, file)| (&**name, file)))
    }

    pub(super) fn get(&self, path: &Path) -> Option<&Arc<File>> {
        let dir = *self.dirs.get(path.parent()?)?;
        self.live[dir].get(path.file_name()?.to_str()?)
    }

    /// Sets names to files, or removes them. `None` if one of the directories does not exist.
    pub(super) fn change<const N: usize>(&mut self, sets: [(&Path, Option<Arc<File>>); N]) -> Option<()> {
        let sets = sets.map(|(path, file)| Some((self.name_of(path)?, file)));
        let change = Change { sets: sets.into_iter().collect::<Option<_>>()? };
        change.apply(&mut self.live);
        self.pending.push(change);
        Some(())
    }

    fn name_of(&self, path: &Path) -> Option<Name> {
        let name = path.file_name()?.to_str().expect("names on a fault disk are UTF-8");
        // Spares an allocation where the name is there already.
        let dir = *self.dirs.get(path.parent()?)?;
        let name = self.live[dir].get_key_value(name).map_or_else(|| name.into(), |(name, _)| Arc::clone(name));
        Some((dir, name))
    }

    /// Makes the changes of a directory's names durable, and what they rest on. `None` if it does not exist.
    pub(super) fn sync_dir(&mut self, dir: &Path) -> Option<()> {
        let dir = *self.dirs.get(dir)?;
        if self.pending.iter().all(|change| change.names().all(|name| name.0 == dir)) {
            self.pending.drain(..).for_each(|change| change.apply(&mut self.durable));
            return Some(());
        }
        let mut wanted: Vec<Name> = Vec::new();
        // Backwards, so that what a wanted change rests on is wanted when it is reached.
        let mut kept: Vec<bool> = Vec::with_capacity(self.pending.len());
        for change in self.pending.iter().rev() {
            let rests = change.names().any(|name| name.0 == dir || wanted.contains(name));
            if rests {
                wanted.extend(change.names().cloned());
            }
            kept.push(rests);
        }
        let mut left = Vec::new();
        for (change, durable) in self.pending.drain(..).zip(kept.into_iter().rev()) {
            if durable {
                change.apply(&mut self.durable);
            } else {
                left.push(change);
            }
        }
        self.pending = left;
        Some(())
    }

    /// What survives when nothing that is not synced does.
    pub(super) fn durable(&self) -> Names {
        self.settled(self.durable.clone())
    }

    /// What survives when everything does.
    pub(super) fn everything(&self) -> Names {
        self.settled(self.live.clone())
    }

    /// What a torn power loss leaves: nothing, everything, a prefix, or any subset that rests on itself.
    pub(super) fn torn(&self, mut dice: Dice) -> Names {
        let changes = self.pending.len() as u64;
        let mut table = self.durable.clone();
        let kind = dice.below(4);
        let prefix = match kind {
            0 => 0,
            1 => changes,
            _ => dice.below(changes + 1),
        };
        let mut lost: Vec<&Name> = Vec::new();
        for (i, change) in self.pending.iter().enumerate() {
            let survives = if kind == 3 { dice.below(2) == 0 } else { (i as u64) < prefix };
            if survives && !change.names().any(|name| lost.contains(&name)) {
                change.apply(&mut table);
            } else {
                lost.extend(change.names());
            }
        }
        self.settled(table)
    }

    fn settled(&self, table: Table) -> Names {
        Names { dirs: self.dirs.clone(), live: table.clone(), durable: table, pending: Vec::new() }
    }

    /// Replaces every file; for a disk that goes on after a power loss.
    pub(super) fn map_files(&mut self, mut with: impl FnMut(&Arc<File>) -> Arc<File>) {
        assert!(self.pending.is_empty(), "after a power loss nothing is pending");
        for dir in &mut self.live {
            dir.values_mut().for_each(|file| *file = with(file));
        }
        self.durable.clone_from(&self.live);
    }

    /// The durable directories and files, in an order that depends on nothing else.
    pub(super) fn durable_files(&self) -> impl Iterator<Item = (&Path, &BTreeMap<Arc<str>, Arc<File>>)> {
        self.dirs.iter().map(|(path, dir)| (path.as_path(), &self.durable[*dir]))
    }
}
