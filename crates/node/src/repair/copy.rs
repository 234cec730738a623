//! Files that are put back from a copy of the data directory, of whatever age: files of segments and of dead rows never change, and a number
//! is used once, so an old copy may have the very file that is damaged now. Dictionaries only grow, until they are written anew.
//!
//! Invariants:
//! - What is put back is what the manifest names: all its bytes were held against the checksums there first.
//! - It is written beside, synced, and renamed: a crash leaves the damaged file or the whole one.
//! - The copy is never changed.

use super::RepairReport;
use crate::directory::SEGMENTS_DIR;
use alluvia_pipeline::space_of;
use alluvia_snapshot::kills::{self, SegmentKills};
use alluvia_snapshot::{KillsFile, MANIFEST_NAME, Manifest, Spaces, TableFiles};
use alluvia_space::TableDef;
use alluvia_storage::{Cache, Disk};
use alluvia_tree::{Damage, SegmentMeta, TreeContext};
use alluvia_types::{Error, ErrorKind, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of a file that are in memory at a time.
const PIECE_BYTES: u64 = 1 << 20;

/// A copy of a data directory.
#[derive(Debug)]
pub(super) struct Copy<'a> {
    dir: &'a Path,
    from: &'a Path,
    there: TreeContext,
    is_told: bool,
}

impl<'a> Copy<'a> {
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
    ) -> Result<Copy<'a>> {
        let refused = |what: String| {
            Err(Error::new(ErrorKind::UndefinedObject, what).with_hint("name a copy of this data directory"))
        };
        if !disk.exists(&from.join(MANIFEST_NAME)) {
            return refused(format!("{} holds no Alluvia database", from.display()));
        }
        // One that is damaged names no database: the checksums tell.
        if let Ok(Some(theirs)) = Manifest::load(disk.as_ref(), from)
            && theirs.database != manifest.database
        {
            return refused(format!("{} is another database than {}", from.display(), dir.display()));
        }
        let there = TreeContext::new(Arc::clone(disk), Arc::new(Cache::new(0)), from.join(SEGMENTS_DIR));
        Ok(Copy { dir, from, there, is_told })
    }

    /// Puts back what is damaged of a segment, and what of it the copy has whole. Gives the damage that is left.
    pub(super) fn segment(
        &self,
        tree: &TreeContext,
        table: &str,
        meta: &SegmentMeta,
        damage: Damage,
        report: &mut RepairReport,
    ) -> Result<Damage> {
        let had_side = damage.side.is_none();
        let mut left = self.parts(tree, table, meta, damage, report)?;
        if self.is_told && !had_side && left.side.is_none() {
            // Only now there is something to hold the Parquet file against.
            left = Damage::find(tree, meta)?;
            left = self.parts(tree, table, meta, left, report)?;
        }
        Ok(left)
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
        let Some(told) = whole(kills::read(self.there.disk.as_ref(), self.from, def.id, file))? else {
            return Ok(None);
        };
        let [to, from] = [self.dir, self.from].map(|dir| kills::path(dir, def.id, file.number));
        self.put(&def.shown(), &to, &from, why, report)?;
        Ok(Some(told))
    }

    /// Puts back the dictionaries of a table; whether the copy has them as far as the manifest says.
    pub(super) fn dictionaries(
        &self,
        def: &TableDef,
        files: &TableFiles,
        why: &Error,
        report: &mut RepairReport,
    ) -> Result<bool> {
        let Some(mark) = &files.dictionary else { return Ok(false) };
        if whole(space_of(self.from, &self.there, def, files))?.is_none() {
            return Ok(false);
        }
        let [to, from] = [self.dir, self.from].map(|dir| Spaces::path_of(dir, def.id, mark.generation));
        self.put(&def.shown(), &to, &from, why, report)?;
        Ok(true)
    }

    fn put(&self, table: &str, path: &Path, from: &Path, why: &Error, report: &mut RepairReport) -> Result<()> {
        let verb = if self.is_told { "was put back" } else { "can be put back" };
        let (name, why) = (path.file_name().unwrap_or_default().display(), why.message());
        report.mended.push(format!("table '{table}': {name} {verb} from {}: {why}", from.display()));
        if !self.is_told {
            return Ok(());
        }
        let disk = &self.there.disk;
        let mut beside = path.as_os_str().to_owned();
        beside.push(".tmp");
        let beside = PathBuf::from(beside);
        let written = self.write(from, &beside).and_then(|()| {
            disk.rename(&beside, path).map_err(|error| Error::io(path, "replacing", &error))?;
            let folder = path.parent().unwrap_or(self.dir);
            disk.sync_dir(folder).map_err(|error| Error::io(folder, "syncing", &error))
        });
        written.inspect_err(|_| drop(disk.remove(&beside)))
    }

    fn write(&self, from: &Path, to: &Path) -> Result<()> {
        let disk = &self.there.disk;
        let read = |error: std::io::Error| Error::io(from, "reading", &error);
        let write = |error: std::io::Error| Error::io(to, "writing", &error);
        let source = disk.open(from).map_err(read)?;
        let (len, target) = (source.len().map_err(read)?, disk.create(to).map_err(write)?);
        let mut piece = vec![0; PIECE_BYTES.min(len) as usize];
        let mut at = 0;
        while at < len {
            let piece = &mut piece[..PIECE_BYTES.min(len - at) as usize];
            source.read_exact_at(piece, at).map_err(read)?;
            target.write_all_at(piece, at).map_err(write)?;
            at += piece.len() as u64;
        }
        target.sync_data().map_err(write)
    }
}

/// What was read, where that is there and has no damage; other errors are errors.
fn whole<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        // What is not there is told as a failure to open it.
        Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotSupported | ErrorKind::Io) => Ok(None),
        Err(error) => Err(error),
    }
}
