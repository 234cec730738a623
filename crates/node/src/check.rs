//! `alluvia check`: every checksum and every numbered invariant of a data directory.
//!
//! The directory is opened as a start would open it (so a torn end of the log is cut first); then everything that the
//! manifest and the log name is read again and held against the invariants of docs/ARCHITECTURE.md. All findings are
//! listed, not only the first.

use crate::core::Core;
use crate::options::DatabaseOptions;
use alluvia_pipeline::Inline;
use alluvia_snapshot::TableBase;
use alluvia_storage::RealDisk;
use alluvia_tree::Segment;
use alluvia_types::{Result, SystemClock, TableId};
use std::path::Path;
use std::sync::Arc;

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
    /// What is wrong, one sentence each; empty when all is well.
    pub findings: Vec<String>,
}

/// Checks the database in `dir`; `progress` is told of each segment before it is read.
pub fn check(dir: &Path, progress: &mut dyn FnMut(&str)) -> Result<CheckReport> {
    let disk = Arc::new(RealDisk::new());
    let core =
        Core::open(disk, dir, Arc::new(SystemClock::default()), &DatabaseOptions::default(), Arc::new(Inline), 0)?;
    let mut report = CheckReport::default();
    let catalog = core.views().catalog();
    let base = core.views().base();
    report.tables = catalog.tables().count();
    for entry in catalog.tables() {
        if let Err(error) = core.views().spaces().existing(&entry.def) {
            report.findings.push(format!("table '{}': {error}", entry.def.name));
        }
        if let Some(files) = base.tables.get(&entry.def.id) {
            partitions(&entry.def.name, files, &mut report);
        }
    }
    for segment in core.views().segments() {
        let meta = segment.meta();
        let name = catalog.by_id(meta.table).map_or("(dropped)", |entry| entry.def.name.as_str());
        progress(&format!("segment {} of table '{name}', {} rows", meta.id, meta.rows));
        report.segments += 1;
        report.rows += meta.rows;
        report.bytes += meta.bytes();
        one_segment(&core, meta.table, &segment, &mut report);
    }
    Ok(report)
}

/// Checksums, order, counts and summaries of one segment.
fn one_segment(core: &Core, table: TableId, segment: &Segment, report: &mut CheckReport) {
    let catalog = core.views().catalog();
    let Some(entry) = catalog.by_id(table) else { return };
    if let Err(error) = segment.verify(&entry.def) {
        report.findings.push(format!("segment {}: {error}", segment.meta().id));
    }
    let meta = segment.meta();
    if meta.min_version > meta.max_version || meta.max_version > core.views().visible() {
        report.findings.push(format!(
            "segment {}: its versions {} to {} are not within the visible version {}",
            meta.id,
            meta.min_version,
            meta.max_version,
            core.views().visible()
        ));
    }
}

/// Partitions ascend without overlap, and their segments' keys lie in them.
fn partitions(table: &str, files: &TableBase, report: &mut CheckReport) {
    for pair in files.partitions.windows(2) {
        if pair[0].high >= pair[1].low {
            report.findings.push(format!("table '{table}': partitions overlap at key {:x}", pair[1].low));
        }
    }
    for partition in &files.partitions {
        for segment in &partition.segments {
            let meta = segment.meta();
            if meta.rows > 0 && (meta.key_min < partition.low || meta.key_max > partition.high) {
                report.findings.push(format!(
                    "table '{table}': segment {} has keys {:x} to {:x}, outside its partition {:x} to {:x}",
                    meta.id, meta.key_min, meta.key_max, partition.low, partition.high
                ));
            }
        }
    }
}
