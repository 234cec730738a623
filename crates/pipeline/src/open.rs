//! Opening a data directory: manifest, log, orphans.
//!
//! The order is what makes it right: (1) the manifest names files and a version; (2) the log is replayed above that version,
//! which may name staged segments and raise the dictionary marks; (3) only then are dictionaries opened (and cut to their
//! marks) and files that nothing names removed.
//!
//! Where the log was kept for a table that was closed ([`Held`]), (2) begins where it was kept from, and the definitions are those of then;
//! a sort follows (3), which makes one version of all ([`Pipeline::catch_up`](crate::Pipeline::catch_up)).

use crate::mend::sides;
use alluvia_catalog::Catalog;
use alluvia_snapshot::{
    Base, ClosedTable, Held, KillsFile, MANIFEST_NAME, Manifest, Partition, Spaces, TableBase, TableFiles, Views, kills,
};
use alluvia_storage::Disk;
use alluvia_tree::{Dead, REBUILT_DIR, Segment, SegmentMeta, TreeContext};
use alluvia_types::{Error, ErrorKind, Result, SegmentId, TableId, Version, planted};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// What a manifest says, opened.
#[derive(Debug)]
pub struct Opened {
    /// The manifest as it is on disk.
    pub manifest: Manifest,
    /// Its segments, open.
    pub base: Base,
    /// The dead rows of segments that have some.
    pub dead: BTreeMap<TableId, BTreeMap<SegmentId, Arc<Dead>>>,
    /// What was damaged and has been made anew, a sentence each.
    pub mended: Vec<String>,
}

impl Opened {
    /// The definitions as of where the log is read from.
    pub fn catalog(&self) -> &Catalog {
        self.manifest.held.as_ref().map_or(&self.manifest.catalog, |held| &held.catalog)
    }
}

/// Reads the manifest of `dir`, or makes the first one, with `new_database` as its random number. Notes in `spaces` what
/// its segments need. Tables in `closing` are not opened, and what the log has of them stays
/// there: it cannot be read with them, and this is why.
pub fn open(
    disk: &dyn Disk,
    dir: &Path,
    tree: &TreeContext,
    spaces: &Spaces,
    new_database: u64,
    closing: &BTreeMap<TableId, Error>,
) -> Result<Opened> {
    let mut manifest = match Manifest::load(disk, dir)? {
        Some(manifest) => manifest,
        None => {
            let first = Manifest {
                database: new_database,
                through: Version(0),
                next_segment: 1,
                next_table: 1,
                catalog: Catalog::default(),
                next_kills: 0,
                keys: Some(Vec::new()),
                marked: false,
                held: None,
                producers: BTreeMap::new(),
                tables: BTreeMap::new(),
            };
            first.store(disk, dir)?;
            first
        }
    };
    let after = manifest.held.as_ref().map_or(manifest.through, |held| held.after.min(manifest.through));
    let mut base = Base { through: after, complete: manifest.through, ..Base::default() };
    let (mut dead, mut changed, mut mended) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    for (&table, files) in &manifest.tables {
        spaces.require(table, files.dictionary.as_ref(), files.ranges.as_deref());
        if let Some(error) = closing.get(&table) {
            base.closed.insert(table, ClosedTable::held(files.clone(), error.clone()));
            continue;
        }
        match open_mended(disk, dir, tree, &manifest, table, files, &mut changed, &mut mended)? {
            Ok((of_table, opened)) => {
                if !of_table.is_empty() {
                    dead.insert(table, of_table);
                }
                base.tables.insert(table, opened);
            }
            // Damage stays where it is.
            Err(closed) => drop(base.closed.insert(table, closed)),
        }
    }
    // One that has no file yet is closed for one of a staged load.
    for (&table, error) in closing.iter().filter(|(table, _)| !manifest.tables.contains_key(table)) {
        base.closed.insert(table, ClosedTable::held(TableFiles::default(), error.clone()));
    }
    if !base.closed.is_empty() {
        let here = || Held { after: manifest.through, catalog: manifest.catalog.clone() };
        base.held = Some(Arc::new(manifest.held.clone().unwrap_or_else(here)));
    }
    if !changed.is_empty() {
        manifest.tables.extend(changed);
        manifest.store(disk, dir)?;
    }
    Ok(Opened { manifest, base, dead, mended })
}

/// A table that was opened, and the dead rows of its segments.
type OpenedTable = (BTreeMap<SegmentId, Arc<Dead>>, TableBase);

/// Opens a table, or says why it is closed. Side files that keep it from opening are made anew, where they can be: `told` gets a sentence
/// each. Of a table of which the manifest is to say something else since, open or not, `changed` has what.
///
/// # Errors
/// Failures that are no damage, such as too many open files: they say nothing of the table.
#[allow(clippy::too_many_arguments)] // called once
fn open_mended(
    disk: &dyn Disk,
    dir: &Path,
    tree: &TreeContext,
    manifest: &Manifest,
    table: TableId,
    files: &TableFiles,
    changed: &mut BTreeMap<TableId, TableFiles>,
    told: &mut Vec<String>,
) -> Result<Result<OpenedTable, ClosedTable>> {
    let open = |files: &TableFiles| -> Result<Result<OpenedTable, ClosedTable>> {
        let opened = open_table(tree, files).and_then(|opened| {
            let rows = opened.rows_by_segment();
            Ok((read_kills(disk, dir, table, &opened.kills, &rows, manifest.through)?, opened))
        });
        match opened {
            Ok(opened) => Ok(Ok(opened)),
            Err(error) if error.kind() == ErrorKind::Corrupt => Ok(Err(ClosedTable::new(files.clone(), error))),
            Err(error) => Err(error),
        }
    };
    let closed = match open(files)? {
        Err(closed) => closed,
        opened => return Ok(opened),
    };
    let Some(entry) = manifest.catalog.by_id(table) else { return Ok(Err(closed)) };
    let mended = sides(dir, tree, &entry.def, files, told)?;
    if !mended.segments().eq(files.segments()) {
        changed.insert(table, mended.clone());
    }
    open(&mended)
}

/// The dead rows of a table's segments, which have so many rows. What files tell of segments that are there no more is passed over.
pub(crate) fn read_kills(
    disk: &dyn Disk,
    dir: &Path,
    table: TableId,
    files: &[KillsFile],
    segments: &BTreeMap<SegmentId, u64>,
    through: Version,
) -> Result<BTreeMap<SegmentId, Arc<Dead>>> {
    let mut dead: BTreeMap<SegmentId, Arc<Dead>> = BTreeMap::new();
    for file in files {
        let path = kills::path(dir, table, file.number);
        if !disk.exists(&path) {
            return Err(Error::new(ErrorKind::Corrupt, format!("{} is missing", path.display()))
                .with_hint("the manifest names it; restore the data directory from a copy"));
        }
        for (segment, mut rows) in kills::read(disk, dir, table, file)? {
            let Some(&count) = segments.get(&segment) else { continue };
            rows.sort_unstable_by_key(|&(row, killed)| (killed, row));
            let of_segment = Arc::make_mut(dead.entry(segment).or_default());
            for (row, killed) in rows {
                // K3.
                if row >= count || killed > through || !of_segment.kill(row, killed) {
                    let what = format!("row {row} of segment {segment} is killed by version {killed}");
                    let message = format!("{}: {what}, which has {count} rows or killed it before", path.display());
                    return Err(Error::new(ErrorKind::Corrupt, message)
                        .with_hint("the file is damaged; restore the data directory from a copy"));
                }
            }
        }
    }
    Ok(dead)
}

pub(crate) fn open_table(tree: &TreeContext, files: &TableFiles) -> Result<TableBase> {
    let open = |metas: &[SegmentMeta]| -> Result<Vec<Arc<Segment>>> {
        metas.iter().map(|meta| Segment::open(tree, meta.clone())).collect()
    };
    let mut partitions = Vec::with_capacity(files.partitions.len());
    for partition in &files.partitions {
        let segments = open(&partition.segments)?;
        partitions.push(Partition { low: partition.low, high: partition.high, segments });
    }
    Ok(TableBase {
        dictionary: files.dictionary.clone(),
        ranges: files.ranges.clone(),
        kills: files.kills.clone(),
        dropped: files.dropped,
        forgotten: files.forgotten.clone(),
        held: files.held,
        sorted: open(&files.sorted)?,
        buffer: open(&files.buffer)?,
        partitions,
    })
}

/// The files of kills that a base names.
pub fn named_kills(base: &Base) -> BTreeSet<(TableId, u64)> {
    let open = base.tables.iter().map(|(&table, base)| (table, &base.kills));
    let closed = base.closed.iter().map(|(&table, closed)| (table, &closed.files.kills));
    open.chain(closed).flat_map(|(table, kills)| kills.iter().map(move |file| (table, file.number))).collect()
}

/// The segments that nobody may remove: those that the manifest names, also of tables that are closed, and those of the log.
pub fn named_segments(views: &Views) -> BTreeSet<SegmentId> {
    let (open, base) = (views.named_segments(), views.base());
    let closed = base.closed.values().flat_map(ClosedTable::segments);
    let metas = open.iter().map(|segment| segment.meta()).chain(closed);
    metas.flat_map(SegmentMeta::with_rungs).map(|meta| meta.id).collect()
}

/// Removes files that neither the manifest nor the replayed log names: what a crash left half done (P4). Returns the
/// highest id of a segment and number of a file of kills, so that no name is used again.
pub fn remove_orphans(
    disk: &dyn Disk,
    dir: &Path,
    segments_dir: &Path,
    named: &BTreeSet<SegmentId>,
    tables: &BTreeSet<(TableId, u32)>,
    kills_named: &BTreeSet<(TableId, u64)>,
) -> Result<(SegmentId, u64)> {
    let mut highest = named.iter().next_back().map_or(0, |id| id.0);
    let remove = |path: &Path| disk.remove(path).map_err(|error| Error::io(path, "removing", &error));
    let list = |dir: &Path| disk.read_dir(dir).map_err(|error| Error::io(dir, "listing", &error));
    for entry in list(segments_dir)? {
        let Some(id) = alluvia_tree::segment_of_file(&entry.name) else { continue };
        highest = highest.max(id.0);
        let is_taken_for_one = planted("file taken for an orphan") && named.iter().next_back() == Some(&id);
        if !named.contains(&id) || is_taken_for_one {
            remove(&segments_dir.join(&entry.name))?;
        }
    }
    // Side files that were being made anew, and have not taken their names.
    let rebuilt = segments_dir.join(REBUILT_DIR);
    if disk.exists(&rebuilt) {
        list(&rebuilt)?.iter().try_for_each(|entry| remove(&rebuilt.join(&entry.name)))?;
    }
    let mut highest_kills = kills_named.iter().map(|(_, number)| *number).max().unwrap_or(0);
    for entry in list(dir)? {
        if let Some(file) = kills::table_of_file(&entry.name) {
            highest_kills = highest_kills.max(file.1);
            if !kills_named.contains(&file) {
                remove(&dir.join(&entry.name))?;
            }
        }
        let orphan = Spaces::table_of_file(&entry.name).is_some_and(|table| !tables.contains(&table));
        if orphan || entry.name == format!("{MANIFEST_NAME}.tmp") {
            remove(&dir.join(&entry.name))?;
        }
    }
    Ok((SegmentId(highest), highest_kills))
}
