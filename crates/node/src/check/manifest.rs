//! Checks that the manifest agrees with itself and with the log.
//!
//! Invariants:
//! - Everything that the manifest names is of versions through its watermark; the rest is in the log (V2). So no row is
//!   in both.
//! - Ids that the manifest says were never used are not used.
//! - Partitions cover the table's keys without overlap, and their segments' keys lie in them.

use super::CheckReport;
use alluvia_snapshot::{Manifest, TableFiles};
use alluvia_space::{KeyLayout, TableDef};
use alluvia_tree::SegmentMeta;
use alluvia_types::{Error, ErrorKind, Result, TableId, Version};

/// Checks the manifest against itself and the log. `last` is the log's last version, if the log is whole.
pub(super) fn check_manifest(manifest: &Manifest, last: Option<Version>, report: &mut CheckReport) -> Result<()> {
    for entry in manifest.catalog.tables().filter(|entry| entry.def.id.0 >= manifest.next_table) {
        let (name, id, next) = (&entry.def.name, entry.def.id, manifest.next_table);
        report.add_finding(contradiction(format!(
            "table '{name}' has the id {id}, and {next} is said to be the next one"
        )))?;
    }
    for view in manifest.catalog.views().filter(|view| view.def.id.0 >= manifest.next_table) {
        let (name, id, next) = (&view.def.name, view.def.id, manifest.next_table);
        report.add_finding(contradiction(format!(
            "view '{name}' has the id {id}, and {next} is said to be the next one"
        )))?;
    }
    for routine in manifest.catalog.routines().filter(|routine| routine.def.id.0 >= manifest.next_table) {
        let (name, id, next) = (&routine.def.name, routine.def.id, manifest.next_table);
        report.add_finding(contradiction(format!(
            "procedure '{name}' has the id {id}, and {next} is said to be the next one"
        )))?;
    }
    for (name, entry) in manifest.catalog.schemas().filter(|(_, entry)| entry.id.0 >= manifest.next_table) {
        let (id, next) = (entry.id, manifest.next_table);
        report.add_finding(contradiction(format!(
            "schema '{name}' has the id {id}, and {next} is said to be the next one"
        )))?;
    }
    for (name, state) in manifest.producers.iter().filter(|(_, state)| state.version > manifest.through) {
        let (version, through) = (state.version, manifest.through);
        report.add_finding(contradiction(format!(
            "producer '{name}' has version {version}, after the watermark {through}"
        )))?;
    }
    for (&table, files) in &manifest.tables {
        match manifest.catalog.by_id(table) {
            Some(entry) => check_partitions(&entry.def, files, report)?,
            None => report.add_finding(contradiction(format!("table {table} has files and no definition")))?,
        }
        let parts = files.partitions.iter().flat_map(|partition| &partition.segments);
        for meta in files.sorted.iter().chain(&files.buffer).chain(parts) {
            check_segment(manifest, table, last, meta, report)?;
        }
    }
    Ok(())
}

/// Checks what the manifest says of one segment and its rungs.
fn check_segment(
    manifest: &Manifest,
    table: TableId,
    last: Option<Version>,
    meta: &SegmentMeta,
    report: &mut CheckReport,
) -> Result<()> {
    for part in meta.with_rungs() {
        let id = part.id;
        if part.table != table {
            let of = part.table;
            report.add_finding(contradiction(format!(
                "segment {id} is named under table {table}, and is of table {of}"
            )))?;
        }
        if id.0 >= manifest.next_segment {
            let next = manifest.next_segment;
            report
                .add_finding(contradiction(format!("segment {id} is named, and {next} is said to be the next id")))?;
        }
    }
    // Beyond the log's last version is another finding.
    let (through, max) = (manifest.through, meta.max_version);
    if max > through && last.is_none_or(|last| max <= last) {
        let what = format!("segment {} has versions through {max}, after the watermark {through}", meta.id);
        report.add_finding(contradiction(format!("{what}: the log has these rows, too")))?;
    }
    Ok(())
}

/// Checks that partitions ascend, cover all keys without overlap, and their segments' keys lie in them.
fn check_partitions(def: &TableDef, files: &TableFiles, report: &mut CheckReport) -> Result<()> {
    let table = &def.name;
    for pair in files.partitions.windows(2) {
        let (high, low) = (pair[0].high, pair[1].low);
        if high >= low {
            report.add_finding(contradiction(format!("table '{table}': partitions overlap at key {low:x}")))?;
        } else if high + 1 < low {
            report.add_finding(contradiction(format!(
                "table '{table}': no partition has the keys between {high:x} and {low:x}"
            )))?;
        }
    }
    if let (Some(first), Some(last)) = (files.partitions.first(), files.partitions.last()) {
        let most = KeyLayout::new(def).last_key();
        // Earlier builds knew no order by primary key.
        let is_without_order = def.dimensions.is_empty() && (first.low, last.high) == (0, 0);
        if (first.low, last.high) != (0, most) && !is_without_order {
            let (low, high) = (first.low, last.high);
            let what =
                format!("table '{table}': partitions have the keys {low:x} to {high:x} instead of 0 to {most:x}");
            report.add_finding(contradiction(what))?;
        }
    }
    for partition in &files.partitions {
        for meta in &partition.segments {
            if meta.rows > 0 && (meta.key_min < partition.low || meta.key_max > partition.high) {
                report.add_finding(contradiction(format!(
                    "table '{table}': segment {} has keys {:x} to {:x}, outside its partition {:x} to {:x}",
                    meta.id, meta.key_min, meta.key_max, partition.low, partition.high
                )))?;
            }
        }
    }
    Ok(())
}

/// A finding about the manifest.
fn contradiction(what: String) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the manifest contradicts itself: {what}"))
        .with_hint("something else than Alluvia wrote it, or a defect did; restore the data directory from a copy")
}
