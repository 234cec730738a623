//! `alluvia check`: every checksum and every numbered invariant of a data directory.
//!
//! Invariants:
//! - Nothing in the directory is changed: not even the end of the log that an interrupted write left is cut, which every
//!   start does. (A missing lock file is made.)
//! - What is damaged is a finding, wherever it is met, and the rest is still looked at: everything that the manifest names,
//!   and everything that the log names up to where it is damaged.
//!
//! So the directory is not opened as a start would open it. The manifest is read, the log is replayed into nothing but
//! definitions and names of files, and then each dictionary and each segment is opened and read by itself. `beside` looks at what lies
//! beside the data: memos, the audit log, and files that nothing names. Of the files that FORMAT.md lists, only `passwords`, which has
//! no checksum, and `spill/`, which means nothing, are not read.

mod beside;
mod read_only;

use self::read_only::ReadOnlyDisk;
use crate::audit::AuditLog;
use crate::directory::{LOCK_NAME, LOG_DIR, SEGMENTS_DIR, lost_manifest};
use alluvia_catalog::Catalog;
use alluvia_commit::Committer;
use alluvia_log::Log;
use alluvia_snapshot::{KeyFiles, MANIFEST_NAME, Manifest, Spaces, TableFiles};
use alluvia_storage::{Cache, Disk, RealDisk};
use alluvia_tree::{Segment, SegmentMeta, TreeContext};
use alluvia_types::{Error, ErrorKind, Result, SegmentId, Version};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

/// Each chunk is read once, so there is little to keep.
const CACHE_BYTES: u64 = 16 << 20;

/// What a check found.
#[derive(Clone, Debug, Default)]
pub struct CheckReport {
    /// Tables looked at.
    pub tables: usize,
    /// Segments read whole.
    pub segments: usize,
    /// Rows in them.
    pub rows: u64,
    /// Bytes read.
    pub bytes: u64,
    /// Bytes at the end of the log that an interrupted write left, which is no damage; the next start cuts them.
    pub torn_log_bytes: u64,
    /// What is no damage but should be known, one sentence each: files that nothing names, and what an interrupted write left.
    pub notices: Vec<String>,
    /// What is wrong, one sentence each; empty when all is well.
    pub findings: Vec<String>,
}

impl CheckReport {
    /// Takes an error as a finding, unless the check as a whole makes no sense because of it.
    fn find(&mut self, error: Error) -> Result<()> {
        if error.kind() == ErrorKind::IncompatibleFormat {
            return Err(error);
        }
        self.findings.push(error.to_string());
        Ok(())
    }
}

/// Checks the database in `dir`; `progress` is told of each segment before it is read.
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
    let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk(RealDisk::new()));
    let mut report = CheckReport::default();
    if !disk.exists(&dir.join(MANIFEST_NAME)) {
        report.find(lost_manifest(disk.as_ref(), dir)?.ok_or_else(|| no_database(dir))?)?;
        return Ok(report);
    }
    let lock_path = dir.join(LOCK_NAME);
    let lock = disk.try_lock(&lock_path).map_err(|error| Error::io(&lock_path, "locking", &error))?;
    let _lock = lock.ok_or_else(|| {
        Error::new(ErrorKind::Locked, format!("{} is open in another process", dir.display()))
            .with_hint("stop it first: what is being written cannot be checked")
    })?;
    let manifest = match Manifest::load(disk.as_ref(), dir) {
        Ok(Some(manifest)) => manifest,
        Ok(None) => return Err(no_database(dir)),
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            report.find(error)?;
            return Ok(report);
        }
        Err(error) => return Err(error),
    };
    let spaces = Spaces::new(Arc::clone(&disk), dir.into());
    for (&table, files) in &manifest.tables {
        spaces.require(table, files.dictionary.as_ref(), files.ranges.as_deref());
    }
    let mut metas: Vec<SegmentMeta> = manifest.segments().cloned().collect();
    let (catalog, last) = log(disk.as_ref(), dir, &manifest, &spaces, &mut metas, &mut report)?;

    if let Err(error) = KeyFiles::load(disk.as_ref(), dir) {
        report.find(error)?;
    }
    report.tables = catalog.tables().count();
    for entry in catalog.tables() {
        if let Err(error) = spaces.existing(&entry.def) {
            report.find(error.at(format_args!("table '{}'", entry.def.name)))?;
        }
        if let Some(files) = manifest.tables.get(&entry.def.id) {
            partitions(&entry.def.name, files, &mut report);
        }
    }
    let tree = TreeContext::new(disk, Arc::new(Cache::new(CACHE_BYTES)), dir.join(SEGMENTS_DIR));
    let mut seen = BTreeSet::new();
    for meta in metas {
        let name = catalog.by_id(meta.table).map_or("(dropped)", |entry| entry.def.name.as_str());
        progress(&format!("segment {} of table '{name}', {} rows", meta.id, meta.rows));
        report.segments += 1;
        report.rows += meta.rows;
        report.bytes += meta.bytes();
        one_segment(&tree, &catalog, meta, last, &mut seen, &mut report)?;
    }
    let disk = &tree.disk;
    beside::memos(disk.as_ref(), dir, &mut report)?;
    beside::audit_log(disk.as_ref(), &AuditLog::new(Arc::clone(disk), dir, 0), &mut report)?;
    // What a damaged log names is not known.
    if last.is_some() {
        beside::strays(disk.as_ref(), dir, &seen, &spaces.required(), &mut report)?;
    }
    Ok(report)
}

/// Replays the log into definitions, what its staged loads need of dictionaries, and their segments. Gives the definitions
/// and the last version; none when the log is damaged.
fn log(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
    spaces: &Spaces,
    metas: &mut Vec<SegmentMeta>,
    report: &mut CheckReport,
) -> Result<(Arc<Catalog>, Option<Version>)> {
    let mut catalog = Arc::new(manifest.catalog.clone());
    let read = Log::read(disk, &dir.join(LOG_DIR), manifest.database, manifest.through, &mut |record| {
        let version = record.version;
        let published = Committer::replay(&record, &catalog, spaces)?;
        if let Some(changed) = published.catalog {
            catalog = changed;
        }
        let staged = published.loads.into_iter().flat_map(|load| load.segments);
        metas.extend(staged.map(|meta| meta.committed_as(version)));
        Ok(())
    });
    let last = match read {
        Ok(summary) => {
            report.torn_log_bytes = summary.torn_bytes;
            Some(summary.last_version.max(manifest.through))
        }
        Err(error) => {
            report.find(error)?;
            None
        }
    };
    Ok((catalog, last))
}

/// Checksums, order, counts, summaries and ladder of one segment.
fn one_segment(
    tree: &TreeContext,
    catalog: &Catalog,
    meta: SegmentMeta,
    last: Option<Version>,
    seen: &mut BTreeSet<SegmentId>,
    report: &mut CheckReport,
) -> Result<()> {
    let (id, min, max) = (meta.id, meta.min_version, meta.max_version);
    for id in meta.with_rungs().map(|meta| meta.id) {
        if !seen.insert(id) {
            report.findings.push(format!("segment {id} is named twice, so its rows are there twice"));
        }
    }
    let entry = catalog.by_id(meta.table);
    let verified = Segment::open(tree, meta).and_then(|segment| match entry {
        Some(entry) => segment.verify(&entry.def),
        // Of a dropped table; it goes when the manifest is next written.
        None => Ok(()),
    });
    if let Err(error) = verified {
        report.find(error.at(format_args!("segment {id}")))?;
    }
    if min > max || last.is_some_and(|last| max > last) {
        let last = last.map_or_else(|| "unknown".to_owned(), |last| last.to_string());
        report
            .findings
            .push(format!("segment {id}: its versions {min} to {max} are not within the last version {last}"));
    }
    Ok(())
}

/// Partitions ascend without overlap, and their segments' keys lie in them.
fn partitions(table: &str, files: &TableFiles, report: &mut CheckReport) {
    for pair in files.partitions.windows(2) {
        if pair[0].high >= pair[1].low {
            report.findings.push(format!("table '{table}': partitions overlap at key {:x}", pair[1].low));
        }
    }
    for partition in &files.partitions {
        for meta in &partition.segments {
            if meta.rows > 0 && (meta.key_min < partition.low || meta.key_max > partition.high) {
                report.findings.push(format!(
                    "table '{table}': segment {} has keys {:x} to {:x}, outside its partition {:x} to {:x}",
                    meta.id, meta.key_min, meta.key_max, partition.low, partition.high
                ));
            }
        }
    }
}

fn no_database(dir: &Path) -> Error {
    Error::new(ErrorKind::UndefinedObject, format!("{} holds no Alluvia database", dir.display()))
        .with_hint("name a data directory; a check makes none")
}
