//! Checks the files beside the data: memos, the audit log, and files that nothing names.
//!
//! Invariants:
//! - None of these files holds rows or keeps a database from opening. A checksum that does not hold is a finding all
//!   the same: it tells of a disk, or a hand, that changes files.
//! - Remains of a crash are no finding, but a notice: a torn last line of the audit log, and files of a run that was
//!   cut short, which the next start removes (P4).

use super::CheckReport;
use crate::audit::AuditLog;
use crate::directory::{self, LOG_DIR, SEGMENTS_DIR};
use alluvia_query::{MEMOS, check_memo, is_audit_line};
use alluvia_snapshot::{Spaces, kills};
use alluvia_storage::{Disk, DiskEntry, read_atomic};
use alluvia_tree::segment_of_file;
use alluvia_types::{Error, ErrorKind, Result, SegmentId, TableId};
use std::collections::BTreeSet;
use std::path::Path;

/// Checks the checksums of memos, and whether their contents can be read.
pub(super) fn check_memos(disk: &dyn Disk, dir: &Path, report: &mut CheckReport) -> Result<()> {
    for memo in MEMOS {
        let path = dir.join(memo.name);
        if disk.exists(&path) {
            match read_atomic(disk, &path, memo.magic) {
                Ok(content) => {
                    if let Err(error) = check_memo(&memo, &content) {
                        report.add_finding(error.at(path.display()).with_hint(
                            "it holds no data: a start passes it over, and what it held is learnt anew; remove it",
                        ))?;
                    }
                }
                Err(error) if error.kind() == ErrorKind::IncompatibleFormat => {
                    report.notices.push(format!("{}; what it holds is learnt anew", error.message()));
                }
                Err(error) => report.add_finding(
                    error.with_hint("it holds no data: the next start sets it aside, and what it held is learnt anew"),
                )?,
            }
        }
        let aside = dir.join(format!("{}.damaged", memo.name));
        if disk.exists(&aside) {
            report.notices.push(format!(
                "{} could not be read and was set aside by an earlier start; it may be removed",
                aside.display()
            ));
        }
    }
    Ok(())
}

/// Checks that every line of the audit log is one that a session wrote, but for a torn last line.
pub(super) fn check_audit_log(disk: &dyn Disk, audit: &AuditLog, report: &mut CheckReport) -> Result<()> {
    let files = match audit.files() {
        Ok(files) => files,
        Err(error) => return report.add_finding(error),
    };
    for path in files {
        let bytes = match read_file(disk, &path) {
            Ok(bytes) => bytes,
            Err(error) => {
                report.add_finding(error)?;
                continue;
            }
        };
        let lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let is_whole = |line: &[u8]| line.strip_suffix(b"\n").is_some_and(is_audit_line);
        let mut wrong = (1..).zip(&lines).filter(|(_, line)| !is_whole(line)).peekable();
        let Some(&(first, line)) = wrong.peek() else { continue };
        // Each line is synced before the next is written; sectors that a power loss kept from the disk are zeros.
        let is_torn = !line.ends_with(b"\n") || line.contains(&0);
        if first == lines.len() && is_torn {
            let torn = format!(
                "{} ends in {} bytes of an interrupted write, which were never acknowledged; readers pass them over",
                path.display(),
                line.len()
            );
            report.notices.push(torn);
            continue;
        }
        let message = format!("{}: line {first} is none that Alluvia wrote", path.display());
        let rest = match wrong.count() - 1 {
            0 => String::new(),
            others => format!(", nor are {others} after it"),
        };
        report.add_finding(Error::new(ErrorKind::Corrupt, message + &rest).with_hint(
            "the disk or something else changed this file; restore it from a copy, or keep it elsewhere: no data hangs on it",
        ))?;
    }
    Ok(())
}

fn read_file(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| Error::io(path, "reading", &error);
    let file = disk.open(path).map_err(failed)?;
    let mut bytes = vec![0; file.len().map_err(failed)? as usize];
    file.read_exact_at(&mut bytes, 0).map_err(failed)?;
    Ok(bytes)
}

/// Notes files that nothing names: `segments`, the files of `kills`, and the dictionaries of `tables` are all that are
/// needed.
pub(super) fn note_strays(
    disk: &dyn Disk,
    dir: &Path,
    segments: &BTreeSet<SegmentId>,
    kills: &BTreeSet<(TableId, u64)>,
    tables: &BTreeSet<(TableId, u32)>,
    report: &mut CheckReport,
) -> Result<()> {
    const LEFT: &str = "is named by nothing, as what an interrupted run leaves; the next start removes it";
    const FOREIGN: &str = "is none of Alluvia's files, and is left alone";
    let segment = |entry: &DiskEntry| match segment_of_file(&entry.name) {
        Some(id) => (!segments.contains(&id)).then_some(LEFT),
        None => Some(FOREIGN),
    };
    let log_file = |entry: &DiskEntry| (!directory::is_log_file(&entry.name)).then_some(FOREIGN);
    let other = |entry: &DiskEntry| match (Spaces::table_of_file(&entry.name), kills::table_of_file(&entry.name)) {
        (Some(table), _) => (!tables.contains(&table)).then_some(LEFT),
        (None, Some(file)) => (!kills.contains(&file)).then_some(LEFT),
        (None, None) => (!directory::is_known(&entry.name)).then_some(FOREIGN),
    };
    type Wrong<'a> = &'a dyn Fn(&DiskEntry) -> Option<&'static str>;
    let folders: [(_, Wrong<'_>); 3] =
        [(dir.to_owned(), &other), (dir.join(LOG_DIR), &log_file), (dir.join(SEGMENTS_DIR), &segment)];
    for (folder, wrong) in folders {
        let entries = match disk.read_dir(&folder) {
            Ok(entries) => entries,
            Err(error) => {
                report.add_finding(Error::io(&folder, "listing", &error))?;
                continue;
            }
        };
        for entry in entries {
            if let Some(what) = wrong(&entry) {
                report.notices.push(format!("{} {what}", folder.join(&entry.name).display()));
            }
        }
    }
    Ok(())
}
