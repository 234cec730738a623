//! Files that are put back from a copy of the data directory, of whatever age: files of segments and of dead rows never change, and a number
//! is used once, so an old copy may have the very file that is damaged now. Dictionaries only grow, until they are written anew.
//!
//! Invariants:
//! - What is put back is what the manifest names: all its bytes were held against the checksums there first, and are again afterwards.
//! - It is written where files are made anew, synced, and renamed: a crash leaves the damaged file or the whole one, and the next start
//!   removes what has not got its name.
//! - The copy is never changed, and need not be writable.

use super::RepairReport;
use crate::directory::SEGMENTS_DIR;
use crate::read_only::ReadOnlyDisk;
use alluvia_catalog::Dictionaries;
use alluvia_pipeline::space_of;
use alluvia_snapshot::kills::{self, SegmentKills};
use alluvia_snapshot::{KillsFile, MANIFEST_NAME, Manifest, Spaces, TableFiles};
use alluvia_space::TableDef;
use alluvia_storage::{Cache, Disk, copy_file};
use alluvia_tree::{Damage, REBUILT_DIR, SegmentMeta, TreeContext};
use alluvia_types::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A copy of a data directory.
#[derive(Debug)]
pub(super) struct DirectoryCopy<'a> {
    disk: Arc<dyn Disk>,
    dir: &'a Path,
    from: &'a Path,
    there: TreeContext,
    is_told: bool,
}

impl<'a> DirectoryCopy<'a> {
    /// The copy in `from` of the database in `dir`, which `manifest` is of.
    ///
    /// # Errors
    /// There is no database, or another one.
    pub(super) fn open(
        disk: &Arc<dyn Disk>,
        dir: &'a Path,
        from: &'a Path,
        manifest: &Manifest,
        is_told: bool,
    ) -> Result<DirectoryCopy<'a>> {
        let refused = |what: String| {
            Err(Error::new(ErrorKind::UndefinedObject, what).with_hint("name a copy of this data directory"))
        };
        let disk_to_read: Arc<dyn Disk> = Arc::new(ReadOnlyDisk(Arc::clone(disk)));
        if !disk.exists(&from.join(MANIFEST_NAME)) {
            return refused(format!("{} holds no Alluvia database", from.display()));
        }
        match Manifest::load(disk_to_read.as_ref(), from) {
            Ok(Some(theirs)) if theirs.database != manifest.database => {
                return refused(format!("{} is another database than {}", from.display(), dir.display()));
            }
            // One that is damaged names no database: the checksums tell.
            Err(error) if !matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotSupported) => return Err(error),
            _ => {}
        }
        let there = TreeContext::new(disk_to_read, Arc::new(Cache::new(0)), from.join(SEGMENTS_DIR));
        Ok(DirectoryCopy { disk: Arc::clone(disk), dir, from, there, is_told })
    }

    /// Puts back what is damaged of a segment, and what of it the copy has whole. Gives the damage that is left.
    pub(super) fn segment(
        &self,
        tree: &TreeContext,
        table: &str,
        meta: &SegmentMeta,
        mut damage: Damage,
        report: &mut RepairReport,
    ) -> Result<Damage> {
        // Where the side file was damaged, the Parquet file can be held against something only afterwards.
        for _ in 0..2 {
            let known = report.mended.len();
            damage = self.parts(tree, table, meta, damage, report)?;
            if report.mended.len() == known || !self.is_told {
                break;
            }
            damage = Damage::find(tree, meta)?;
        }
        Ok(damage)
    }

    fn parts(
        &self,
        tree: &TreeContext,
        table: &str,
        meta: &SegmentMeta,
        mut damage: Damage,
        report: &mut RepairReport,
    ) -> Result<Damage> {
        if damage.is_none() {
            return Ok(damage);
        }
        let there = Damage::find(&self.there, meta)?;
        let mut put = |path: PathBuf, from: PathBuf, why: &Error| self.put(table, &path, &from, why, report);
        // The checksums of a Parquet file are in its side file: they are believed if that one is.
        if there.side.is_none() && there.parquet.is_none() {
            if let Some(why) = damage.parquet.take() {
                put(tree.parquet_path(meta.id), self.there.parquet_path(meta.id), &why)?;
            }
            if let Some(why) = damage.side.take() {
                put(tree.side_path(meta.id), self.there.side_path(meta.id), &why)?;
            }
        }
        for (rung, why) in std::mem::take(&mut damage.rungs) {
            let is_there = there.rungs.iter().all(|(number, _)| *number != rung);
            match meta.rungs.iter().find(|known| known.rung == rung).filter(|_| is_there) {
                Some(known) => {
                    let id = known.segment.id;
                    put(tree.parquet_path(id), self.there.parquet_path(id), &why)?;
                    put(tree.side_path(id), self.there.side_path(id), &why)?;
                }
                None => damage.rungs.push((rung, why)),
            }
        }
        Ok(damage)
    }

    /// Puts back a file of dead rows, and gives what it says; `None` where the copy has not got it whole.
    pub(super) fn kills(
        &self,
        def: &TableDef,
        file: &KillsFile,
        why: &Error,
        report: &mut RepairReport,
    ) -> Result<Option<Vec<SegmentKills>>> {
        let [to, from] = [self.dir, self.from].map(|dir| kills::path(dir, def.id, file.number));
        let read = |disk: &dyn Disk, dir: &Path| whole(kills::read(disk, dir, def.id, file));
        if !self.disk.exists(&from) {
            return Ok(None);
        }
        let Some(told) = read(self.there.disk.as_ref(), self.from)? else { return Ok(None) };
        self.put(&def.shown(), &to, &from, why, report)?;
        if self.is_told { read(self.disk.as_ref(), self.dir) } else { Ok(Some(told)) }
    }

    /// Puts back the dictionaries of a table, and gives what they say; `None` where the copy has not got them as far as the manifest says.
    pub(super) fn dictionaries(
        &self,
        def: &TableDef,
        files: &TableFiles,
        why: &Error,
        report: &mut RepairReport,
    ) -> Result<Option<(TableDef, Dictionaries)>> {
        let Some(mark) = &files.dictionary else { return Ok(None) };
        let [to, from] = [self.dir, self.from].map(|dir| Spaces::path_of(dir, def.id, mark.generation));
        if !self.disk.exists(&from) {
            return Ok(None);
        }
        let Some(space) = whole(space_of(self.from, &self.there, def, files))? else { return Ok(None) };
        self.put(&def.shown(), &to, &from, why, report)?;
        Ok(Some(space))
    }

    fn put(&self, table: &str, path: &Path, from: &Path, why: &Error, report: &mut RepairReport) -> Result<()> {
        let verb = if self.is_told { "was put back" } else { "can be put back" };
        let (name, why) = (path.file_name().unwrap_or_default(), why.message());
        report.mended.push(format!("table '{table}': {} {verb} from {}: {why}", name.display(), from.display()));
        if !self.is_told {
            return Ok(());
        }
        let disk = self.disk.as_ref();
        let folder = self.dir.join(SEGMENTS_DIR).join(REBUILT_DIR);
        disk.create_dir_all(&folder).map_err(|error| Error::io(&folder, "creating", &error))?;
        let beside = folder.join(name);
        // Of a repair that was ended.
        if disk.exists(&beside) {
            disk.remove(&beside).map_err(|error| Error::io(&beside, "removing", &error))?;
        }
        copy_file(self.there.disk.as_ref(), from, disk, &beside).inspect_err(|_| drop(disk.remove(&beside)))?;
        disk.rename(&beside, path).map_err(|error| Error::io(path, "replacing", &error))?;
        let folder = path.parent().unwrap_or(self.dir);
        disk.sync_dir(folder).map_err(|error| Error::io(folder, "syncing", &error))
    }
}

/// What was read, where it has no damage; other errors are errors.
fn whole<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotSupported) => Ok(None),
        Err(error) => Err(error),
    }
}
