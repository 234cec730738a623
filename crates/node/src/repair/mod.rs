//! `alluvia repair`: what of a data directory is damaged and can be made anew, what is lost, and both of it done when that is told to.
//!
//! Invariants:
//! - Without being told to nothing is changed (a missing lock file is made), and the same is said that would be done.
//! - Nothing is dropped that is whole: of each segment all bytes are held against their checksums first.
//! - New files are durable before the manifest names them, and the manifest is replaced once, at the end: a crash before it leaves the
//!   database as it was. Files of which the manifest tells no more go after it.
//! - Before anything is made anew or dropped, what a copy has of it whole is put back ([`copy`]).
//! - What it does not mend it names: damage to the log, to dictionaries and to files of dead rows is for who has a copy.
//!
//! The directory is not opened as a start would open it: so it serves where no start can.

mod copy;
mod table;

use crate::check::staged_in_log;
use crate::directory::{LOCK_NAME, SEGMENTS_DIR, lost_manifest};
use crate::holder::locked;
use alluvia_snapshot::{Forgotten, MANIFEST_NAME, Manifest};
use alluvia_storage::{Cache, Disk, RealDisk};
use alluvia_tree::{Damage, SegmentMeta, TreeContext, segment_of_file};
use alluvia_types::{Error, ErrorKind, Result, SegmentId};
use copy::DirectoryCopy;
use std::path::Path;
use std::sync::Arc;
use table::TableRepair;

/// Each chunk is read once or twice, so there is little to keep.
const CACHE_BYTES: u64 = 16 << 20;

/// What a repair has found, and done if it was told to.
#[derive(Clone, Debug, Default)]
pub struct RepairReport {
    /// Segments whose files were read.
    pub segments: usize,
    /// What was put back or made anew, or can be, a sentence each.
    pub mended: Vec<String>,
    /// What is lost, or would be, a sentence each: rows, versions, table and file.
    pub lost: Vec<String>,
    /// What is damaged and is not mended by this, a sentence each.
    pub left: Vec<String>,
}

impl RepairReport {
    /// Whether nothing is damaged that it has looked at.
    pub fn is_whole(&self) -> bool {
        self.mended.is_empty() && self.lost.is_empty() && self.left.is_empty()
    }
}

/// Repairs the database in `dir`; `is_told` to, or it only says what it would do. `copy` is a copy of the directory, of whatever age, that
/// files are put back from. `progress` is told of each segment before it is read.
///
/// Errors: there is no database, it is open elsewhere, or its manifest cannot be read; the copy is of another one; and those of the disk.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let dir = scratch.path().join("db");
/// # drop(alluvia_node::Database::open(&dir)?);
/// let report = alluvia_node::repair(&dir, None, false, &mut |what| println!("{what}"))?;
/// assert!(report.is_whole(), "{report:#?}");
/// # Ok(()) }
/// ```
pub fn repair(dir: &Path, copy: Option<&Path>, is_told: bool, progress: &mut dyn FnMut(&str)) -> Result<RepairReport> {
    repair_on(Arc::new(RealDisk::new()), dir, copy, is_told, progress)
}

/// Repairs the database in `dir` on a disk of the caller's.
pub fn repair_on(
    disk: Arc<dyn Disk>,
    dir: &Path,
    copy: Option<&Path>,
    is_told: bool,
    progress: &mut dyn FnMut(&str),
) -> Result<RepairReport> {
    if !disk.exists(&dir.join(MANIFEST_NAME)) {
        return Err(lost_manifest(disk.as_ref(), dir)?.unwrap_or_else(|| no_database(dir)));
    }
    let lock_path = dir.join(LOCK_NAME);
    let lock = disk.try_lock(&lock_path).map_err(|error| Error::io(&lock_path, "locking", &error))?;
    let _lock = lock.ok_or_else(|| {
        locked(
            disk.as_ref(),
            dir,
            "stop it first; a running server mends by itself, and CALL alluvia.forget_segment forgets",
        )
    })?;
    let mut manifest = Manifest::load(disk.as_ref(), dir)?.ok_or_else(|| no_database(dir))?;
    let copy = copy.map(|from| DirectoryCopy::open(&disk, dir, from, &manifest, is_told)).transpose()?;
    let segments_dir = dir.join(SEGMENTS_DIR);
    let tree = TreeContext::new(Arc::clone(&disk), Arc::new(Cache::new(CACHE_BYTES)), segments_dir.clone());
    let mut next_segment = next_segment(disk.as_ref(), &segments_dir, &manifest)?;
    let (mut report, mut gone) = (RepairReport::default(), Vec::new());
    for (&table, files) in &mut manifest.tables {
        // One that is not defined any more goes when the manifest is next written.
        let Some(entry) = manifest.catalog.by_id(table) else { continue };
        let (def, through, copy) = (&entry.def, manifest.through, copy.as_ref());
        let repair = TableRepair { dir, tree: &tree, def, through, copy, is_told, report: &mut report };
        repair.run(files, &mut next_segment, &mut gone, progress)?;
    }
    repair_staged(&tree, dir, &mut manifest, copy.as_ref(), is_told, &mut report, &mut gone)?;
    if is_told && (!report.mended.is_empty() || !report.lost.is_empty()) {
        manifest.next_segment = next_segment;
        manifest.store(disk.as_ref(), dir)?;
        gone.iter().for_each(|meta: &SegmentMeta| tree.remove_files(meta));
    }
    Ok(report)
}

/// Looks at the segments of staged loads that the log alone names. One that is lost keeps its table closed: it is forgotten, and whoever
/// reads the log passes it over.
fn repair_staged(
    tree: &TreeContext,
    dir: &Path,
    manifest: &mut Manifest,
    copy: Option<&DirectoryCopy<'_>>,
    is_told: bool,
    report: &mut RepairReport,
    gone: &mut Vec<SegmentMeta>,
) -> Result<()> {
    let (staged, catalog) = staged_in_log(&tree.disk, dir, manifest)?;
    for meta in staged {
        // One of a table that was dropped since.
        let Some(entry) = catalog.by_id(meta.table) else { continue };
        report.segments += 1;
        let (name, mut damage) = (entry.def.shown(), Damage::find(tree, &meta)?);
        if let Some(copy) = copy {
            damage = copy.segment(tree, &name, &meta, damage, report)?;
        }
        let in_load = format!("of table '{name}', which a load has staged and the log names");
        match (damage.parquet, damage.side) {
            (None, None) => {}
            (Some(why), _) if manifest.catalog.by_id(meta.table).is_some() => {
                let lost = Forgotten::new(&meta, 0);
                let verb = if is_told { "has lost" } else { "would lose" };
                report.lost.push(format!("table '{name}' {verb} {lost}, staged by a load: {}", why.message()));
                if is_told {
                    manifest.tables.entry(meta.table).or_default().forgotten.push(lost);
                    gone.push(meta);
                }
            }
            // The manifest does not know the table yet.
            (Some(why), _) => report.left.push(format!("segment {} {in_load}, with the table itself: {why}", meta.id)),
            (None, Some(why)) => report.left.push(format!("the side file of segment {} {in_load}: {why}", meta.id)),
        }
    }
    Ok(())
}

/// An id that no segment has or had: the log, and what a crash has left, may have some that the manifest does not know.
fn next_segment(disk: &dyn Disk, segments_dir: &Path, manifest: &Manifest) -> Result<u64> {
    if !disk.exists(segments_dir) {
        return Ok(manifest.next_segment);
    }
    let entries = disk.read_dir(segments_dir).map_err(|error| Error::io(segments_dir, "listing", &error))?;
    let highest = entries.iter().filter_map(|entry| segment_of_file(&entry.name)).max().unwrap_or(SegmentId(0));
    Ok(manifest.next_segment.max(highest.0 + 1))
}

fn no_database(dir: &Path) -> Error {
    Error::new(ErrorKind::UndefinedObject, format!("{} holds no Alluvia database", dir.display()))
        .with_hint("name a data directory; a repair makes none")
}
