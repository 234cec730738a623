//! `alluvia check` verifies every checksum and every numbered invariant of a data directory.
//!
//! Invariants:
//! - Nothing in the directory is changed: not even the end of the log that an interrupted write left is cut, which
//!   every start does. (A missing lock file is made.)
//! - Damage is a finding, wherever it is met, and the check goes on: it covers everything that the manifest names, and
//!   everything that the log names up to where the log is damaged.
//!
//! So the directory is not opened as a start would open it. The check goes in this order:
//!
//! 1. The manifest is read, and `log` replays the log into nothing but definitions and names of files.
//! 2. Each dictionary and each segment is opened and read by itself: checksums, order, summaries, heavy rows and
//!    ladder, and whether keys and codes are what the values make (`alluvia_tree::Mapping`).
//! 3. `identities` counts whether all rows are there once; `kills` and `unique` whether those that are dead are so by
//!    right, and whether the others have each a key of its own.
//! 4. `beside` looks at memos, the audit log, and files that nothing names.
//!
//! Of the files that FORMAT.md lists two are not read: `passwords` has no checksum, and `spill/` means nothing.

mod beside;
mod identities;
mod kills;
mod log;
mod manifest;
mod unique;

use self::identities::{Checked, PASS_ROWS};
use self::kills::TableDead;
use self::log::Replayed;
use crate::audit::AuditLog;
use crate::directory::{LOCK_NAME, SEGMENTS_DIR, lost_manifest};
use crate::holder::locked;
use crate::read_only::ReadOnlyDisk;
use alluvia_catalog::Catalog;
use alluvia_snapshot::{MANIFEST_NAME, Manifest, Space, Spaces, TableFiles};
use alluvia_space::{KeyRange, TableDef};
use alluvia_storage::{Cache, Disk, RealDisk};
use alluvia_tree::{Mapping, Segment, SegmentMeta, TreeContext};
use alluvia_types::{Error, ErrorKind, Result, SegmentId, TableId, Version};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Each chunk is read once, so there is little to keep.
const CACHE_BYTES: u64 = 16 << 20;
/// What is to be done about data that is not what was written.
const RESTORE: &str = "restore the data directory from a copy";

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Tables looked at.
    pub tables: usize,
    /// Segments read whole.
    pub segments: usize,
    /// Rows in them.
    pub rows: u64,
    /// Those among them that are dead: they were deleted or replaced, and no merge has left them out yet.
    pub dead_rows: u64,
    /// Rows of these tables that the log alone has: they were not sorted yet.
    pub log_rows: u64,
    /// Bytes of segments read.
    pub bytes: u64,
    /// Bytes at the end of the log that an interrupted write left, which is no damage; the next start cuts them.
    pub torn_log_bytes: u64,
    /// In which file, from which byte on, and what is there all the same, in words; `None` if there are no such bytes.
    pub torn_log: Option<String>,
    /// What is no damage but should be known, one sentence each: files that nothing names, and what an interrupted
    /// write left.
    pub notices: Vec<String>,
    /// What is wrong, one sentence each; empty when all is well.
    pub findings: Vec<String>,
}

impl CheckReport {
    /// Takes an error as a finding, whatever it is: a file of another format beside a manifest of this one is damaged, or is from
    /// elsewhere. A `Result`, as those have who pass it on.
    #[allow(clippy::unnecessary_wraps)]
    fn add_finding(&mut self, error: Error) -> Result<()> {
        self.findings.push(error.to_string());
        Ok(())
    }
}

/// Checks the database in `dir`; `progress` is told of each segment before it is read, and of what is read of all of a
/// table.
///
/// Errors: there is no database, it is open elsewhere, or it has another format. Damage is no error, but a finding.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # let dir = scratch.path().join("db");
/// # drop(alluvia_node::Database::open(&dir)?);
/// let report = alluvia_node::check(&dir, &mut |what| println!("{what}"))?;
/// assert!(report.findings.is_empty(), "{:#?}", report.findings);
/// # Ok(()) }
/// ```
pub fn check(dir: &Path, progress: &mut dyn FnMut(&str)) -> Result<CheckReport> {
    check_on(Arc::new(RealDisk::new()), dir, progress)
}

/// Checks the database in `dir` on a disk of the caller's.
pub fn check_on(disk: Arc<dyn Disk>, dir: &Path, progress: &mut dyn FnMut(&str)) -> Result<CheckReport> {
    let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk(disk));
    let mut report = CheckReport::default();
    if !disk.exists(&dir.join(MANIFEST_NAME)) {
        report.add_finding(lost_manifest(disk.as_ref(), dir)?.ok_or_else(|| no_database(dir))?)?;
        return Ok(report);
    }
    let lock_path = dir.join(LOCK_NAME);
    let lock = disk.try_lock(&lock_path).map_err(|error| Error::io(&lock_path, "locking", &error))?;
    let _lock =
        lock.ok_or_else(|| locked(disk.as_ref(), dir, "stop it first: what is being written cannot be checked"))?;
    let manifest = match Manifest::load(disk.as_ref(), dir) {
        Ok(Some(manifest)) => manifest,
        Ok(None) => return Err(no_database(dir)),
        // Its own checksum holds: another build wrote it.
        Err(error) if error.kind() == ErrorKind::IncompatibleFormat => return Err(error),
        Err(error) => {
            report.add_finding(error)?;
            return Ok(report);
        }
    };
    let spaces = Spaces::new(Arc::clone(&disk), dir.into());
    for (&table, files) in &manifest.tables {
        spaces.require(table, files.dictionary.as_ref(), files.ranges.as_deref());
    }
    let replayed = log::replay(disk.as_ref(), dir, &manifest, &spaces, &mut report)?;
    log::check_keys(disk.as_ref(), dir, &manifest, &replayed, &mut report)?;
    manifest::check_manifest(&manifest, replayed.last, &mut report)?;
    let dead = kills::read_kills(disk.as_ref(), dir, &manifest, &mut report)?;
    report.dead_rows = kills::count_dead(&dead, manifest.through);
    let tree = TreeContext::new(disk, Arc::new(Cache::new(CACHE_BYTES)), dir.join(SEGMENTS_DIR));
    let seen = check_segments(&tree, &manifest, &spaces, &replayed, &dead, progress, &mut report)?;
    let disk = &tree.disk;
    beside::check_memos(disk.as_ref(), dir, &mut report)?;
    let note = replayed.end.and_then(|end| end.note);
    beside::check_audit_log(disk.as_ref(), &AuditLog::new(Arc::clone(disk), dir, 0), note, &mut report)?;
    // What a damaged log names is not known.
    if replayed.last.is_some() {
        let kills = |(&table, files): (&TableId, &TableFiles)| {
            files.kills.iter().map(move |file| (table, file.number)).collect::<Vec<_>>()
        };
        let kills = manifest.tables.iter().flat_map(kills).collect();
        let named = beside::Named {
            segments: &seen,
            kills: &kills,
            tables: &spaces.required(),
            keys: manifest.keys.as_deref(),
        };
        beside::note_strays(disk.as_ref(), dir, &named, &mut report)?;
    }
    Ok(report)
}

/// Segments of staged loads that the log alone names, and the newest definitions. Nothing where the log is damaged.
pub(crate) fn staged_in_log(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    manifest: &Manifest,
) -> Result<(Vec<SegmentMeta>, Arc<Catalog>)> {
    let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk(Arc::clone(disk)));
    let spaces = Spaces::new(Arc::clone(&disk), dir.into());
    let replayed = log::replay(disk.as_ref(), dir, manifest, &spaces, &mut CheckReport::default())?;
    Ok((replayed.staged, replayed.catalog))
}

/// Checks every segment by itself, then which rows the segments of each table have together. Returns the segments that
/// are named.
fn check_segments(
    tree: &TreeContext,
    manifest: &Manifest,
    spaces: &Spaces,
    replayed: &Replayed,
    dead: &BTreeMap<TableId, TableDead>,
    progress: &mut dyn FnMut(&str),
    report: &mut CheckReport,
) -> Result<BTreeSet<SegmentId>> {
    let catalog = &replayed.catalog;
    let metas: Vec<&SegmentMeta> = manifest.segments().chain(&replayed.staged).collect();
    report.tables = catalog.tables().count();
    let with_rows: BTreeSet<TableId> = metas.iter().filter(|meta| meta.rows > 0).map(|meta| meta.table).collect();
    let mut mapped: BTreeMap<TableId, (TableDef, Arc<Space>)> = BTreeMap::new();
    for entry in catalog.tables() {
        let (id, def) = (entry.def.id, &entry.def);
        match mapping_of(def, spaces, with_rows.contains(&id)) {
            Ok(found) => mapped.extend(found.map(|found| (id, found))),
            Err(error) => report.add_finding(error.at(format_args!("table '{}'", def.name)))?,
        }
    }
    let mappings: BTreeMap<TableId, Mapping<'_>> =
        mapped.iter().map(|(&id, (def, space))| (id, Mapping::new(def, &space.dictionaries))).collect();
    let mut seen = BTreeSet::new();
    let mut checked: BTreeMap<TableId, Vec<Checked>> = BTreeMap::new();
    for meta in metas {
        let entry = catalog.by_id(meta.table);
        let name = entry.map_or("(dropped)", |entry| entry.def.name.as_str());
        progress(&format!("segment {} of table '{name}', {} rows", meta.id, meta.rows));
        report.segments += 1;
        report.rows += meta.rows;
        report.bytes += meta.bytes();
        let is_new = !seen.contains(&meta.id);
        for part in meta.with_rungs() {
            if !seen.insert(part.id) {
                let what = format!("segment {} is named twice, so its rows are there twice", part.id);
                report.add_finding(Error::new(ErrorKind::Corrupt, what).with_hint(RESTORE))?;
            }
        }
        let mapping = mappings.get(&meta.table);
        let is_sound =
            check_segment(tree, entry.map(|entry| entry.def.as_ref()), mapping, meta, replayed.last, report)?;
        if is_new {
            checked.entry(meta.table).or_default().push(Checked { meta: meta.clone(), is_sound });
        }
    }
    for (table, segments) in &checked {
        // A dropped table goes when the manifest is next written.
        let Some(entry) = catalog.by_id(*table) else { continue };
        let def = &entry.def;
        let dropped = manifest.tables.get(table).map_or(0, TableFiles::gone);
        identities::check_rows_once(tree, &def.name, segments, dropped, PASS_ROWS, progress, report)?;
        if let Some(dead) = dead.get(table) {
            if let Err(error) = kills::check_kills_follow(tree, &def.name, segments, dead, report) {
                report.add_finding(error)?;
            }
            let through = manifest.tables.get(table).and_then(|files| files.held).unwrap_or(manifest.through);
            let keys = unique::check_keys_once(tree, def, segments, dead, through, PASS_ROWS, progress, report);
            if let Err(error) = keys {
                report.add_finding(error)?;
            }
        }
    }
    Ok(seen)
}

/// What keys and codes of a table are made of: its definition with the ranges that are fixed, and its dictionaries.
/// `None` if the table has no rows in segments, or neither keys nor codes.
fn mapping_of(def: &TableDef, spaces: &Spaces, has_rows: bool) -> Result<Option<(TableDef, Arc<Space>)>> {
    let missing = |what: &str| {
        Err(Error::new(ErrorKind::Corrupt, format!("it has rows in segments, and the manifest has no {what} of it"))
            .with_hint(RESTORE))
    };
    let Some(space) = spaces.existing(def)? else {
        return if has_rows && !def.dimensions.is_empty() { missing("dictionaries") } else { Ok(None) };
    };
    if !has_rows {
        return Ok(None);
    }
    let mut def = def.clone();
    for (dimension, range) in def.dimensions.iter_mut().zip(space.ranges().unwrap_or_default()) {
        dimension.range = range.clone();
    }
    let is_open = |range: &KeyRange| matches!(range, KeyRange::Learnt | KeyRange::LearntQuantiles);
    if def.dimensions.iter().any(|dimension| is_open(&dimension.range)) {
        return missing("key ranges");
    }
    Ok(Some((def, space)))
}

/// Checks checksums, order, keys, codes, counts, summaries and ladder of one segment. Returns whether all is well.
fn check_segment(
    tree: &TreeContext,
    def: Option<&TableDef>,
    mapping: Option<&Mapping<'_>>,
    meta: &SegmentMeta,
    last: Option<Version>,
    report: &mut CheckReport,
) -> Result<bool> {
    let (id, min, max) = (meta.id, meta.min_version, meta.max_version);
    let verified = Segment::open(tree, meta.clone()).and_then(|segment| match (def, mapping) {
        (Some(def), Some(mapping)) => segment.verify_mapped(def, mapping),
        (Some(def), None) => segment.verify(def),
        // Of a dropped table; it goes when the manifest is next written.
        (None, _) => Ok(()),
    });
    let is_sound = verified.is_ok();
    if let Err(error) = verified {
        report.add_finding(error.at(format_args!("segment {id}")))?;
    }
    if min > max || last.is_some_and(|last| max > last) {
        let last = last.map_or_else(|| "unknown".to_owned(), |last| last.to_string());
        let what = format!("segment {id}: its versions {min} to {max} are not within the last version {last}");
        report.add_finding(Error::new(ErrorKind::Corrupt, what).with_hint(RESTORE))?;
    }
    Ok(is_sound)
}

fn no_database(dir: &Path) -> Error {
    Error::new(ErrorKind::UndefinedObject, format!("{} holds no Alluvia database", dir.display()))
        .with_hint("name a data directory; a check makes none")
}
