//! Checks the files of kills: which rows of segments are dead, and since when.
//!
//! Invariants:
//! - Each file that the manifest names is there and whole, with a number that was given out (P1).
//! - K3: a kill names a row that its segment has and that came no later than the kill, which is of a version through the
//!   manifest's; and no row is killed twice, also not by two files. Kills above the manifest's version are in the log.
//!
//! A file may tell of segments that were merged since: a merge tells again of the rows that it keeps.

use super::CheckReport;
use super::identities::{Checked, for_each_identity};
use alluvia_snapshot::{Manifest, kills};
use alluvia_storage::Disk;
use alluvia_tree::{Dead, Segment, TreeContext};
use alluvia_types::{Error, ErrorKind, Result, SegmentId, TableId, Version};
use std::collections::BTreeMap;
use std::path::Path;

/// The dead rows of one table's segments.
#[derive(Debug, Default)]
pub(super) struct TableDead {
    pub(super) segments: BTreeMap<SegmentId, Dead>,
    /// Whether files tell of more that could not be read.
    pub(super) lacks_some: bool,
}

/// Reads every file of kills that the manifest names, and reports what cannot be.
pub(super) fn read_kills(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
    report: &mut CheckReport,
) -> Result<BTreeMap<TableId, TableDead>> {
    let rows: BTreeMap<SegmentId, u64> = manifest.segments().map(|meta| (meta.id, meta.rows)).collect();
    let mut tables = BTreeMap::new();
    for (&table, files) in &manifest.tables {
        let mut of_table = TableDead::default();
        for file in &files.kills {
            let path = kills::path(dir, table, file.number);
            if file.number >= manifest.next_kills {
                let next = manifest.next_kills;
                report.add_finding(wrong(&path, format!("the manifest names it, and says that {next} is the next")))?;
            }
            let told = match kills::read(disk, dir, table, file) {
                Ok(told) => told,
                Err(error) => {
                    of_table.lacks_some = true;
                    report.add_finding(error)?;
                    continue;
                }
            };
            for (segment, killed) in told {
                let Some(&count) = rows.get(&segment) else { continue };
                let dead = of_table.segments.entry(segment).or_default();
                // One finding of each kind tells of a segment.
                let (mut beyond, mut later, mut twice) = (None, None, None);
                for (row, version) in killed {
                    if row >= count {
                        beyond.get_or_insert(format!("row {row} of segment {segment} is dead, which has {count} rows"));
                    } else if version > manifest.through {
                        let through = manifest.through;
                        later.get_or_insert(format!(
                            "row {row} of segment {segment} is killed by version {version}, after the watermark {through}"
                        ));
                    } else if !dead.kill(row, version) {
                        twice.get_or_insert(format!("row {row} of segment {segment} is killed twice"));
                    }
                }
                for what in [beyond, later, twice].into_iter().flatten() {
                    report.add_finding(wrong(&path, what))?;
                }
            }
        }
        tables.insert(table, of_table);
    }
    Ok(tables)
}

/// Checks that no row was killed before it came. Segments that are damaged are passed over: that was said.
pub(super) fn check_kills_follow(
    tree: &TreeContext,
    table: &str,
    segments: &[Checked],
    dead: &TableDead,
    report: &mut CheckReport,
) -> Result<()> {
    for Checked { meta, is_sound } in segments {
        let Some(dead) = dead.segments.get(&meta.id).filter(|_| *is_sound) else { continue };
        let segment = Segment::open(tree, meta.clone())?;
        let (mut row, mut early) = (0, None);
        for_each_identity(&segment, |version, _| {
            if let Some(killed) = dead.killed_at(row).filter(|killed| killed.0 < version) {
                early.get_or_insert((row, version, killed));
            }
            row += 1;
        })?;
        if let Some((row, version, killed)) = early {
            let id = meta.id;
            let what = format!(
                "table '{table}': row {row} of segment {id}, of version {version}, is killed by version {killed}"
            );
            report.add_finding(Error::new(ErrorKind::Corrupt, what).with_hint(super::RESTORE))?;
        }
    }
    Ok(())
}

/// How many rows are dead at a version.
pub(super) fn count_dead(tables: &BTreeMap<TableId, TableDead>, at: Version) -> u64 {
    let segments = tables.values().flat_map(|table| table.segments.values());
    segments.map(|dead| dead.kills_between(Version(0), at).count() as u64).sum()
}

/// A finding about a file.
fn wrong(path: &Path, what: String) -> Error {
    Error::new(ErrorKind::Corrupt, format!("{}: {what}", path.display())).with_hint(super::RESTORE)
}
