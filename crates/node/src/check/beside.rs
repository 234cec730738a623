//! Checks the files beside the data: memos, the audit log, and files that nothing names.
//!
//! Invariants:
//! - None of these files holds rows or keeps a database from opening. A checksum that does not hold is a finding all
//!   the same: it tells of a disk, or a hand, that changes files.
//! - Remains of a crash are no finding, but a notice: a torn last line of the audit log, lines whose writing failed, and files of a run that was
//!   cut short, which the next start removes (P4).

use super::CheckReport;
use crate::audit::{AUDIT_DIR, AuditLog, END_NAME, EndMark, Found, Verifier};
use crate::core::{AGES, check_ages};
use crate::directory::{self, LOG_DIR, SEGMENTS_DIR};
use alluvia_query::{MEMOS, check_memo, is_audit_line};
use alluvia_snapshot::{KEYS_LOST_NAME, KeyFiles, KeysFile, Spaces, kills};
use alluvia_storage::{Disk, DiskEntry, read_atomic};
use alluvia_tree::{REBUILT_DIR, segment_of_file};
use alluvia_types::{Error, ErrorKind, Result, SegmentId, TableId};
use std::collections::BTreeSet;
use std::path::Path;

/// Checks the checksums of memos, and whether their contents can be read.
pub(super) fn check_memos(disk: &dyn Disk, dir: &Path, report: &mut CheckReport) -> Result<()> {
    for memo in MEMOS.into_iter().chain([AGES]) {
        let path = dir.join(memo.name);
        if disk.exists(&path) {
            match read_atomic(disk, &path, memo.magic) {
                Ok(content) => {
                    let checked =
                        if memo.name == AGES.name { check_ages(&content) } else { check_memo(&memo, &content) };
                    if let Err(error) = checked {
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

/// Checks that every line of the audit log is one that a session wrote, but for a torn last line, and follows on the one before.
///
/// `note` is what the log's mark says of that of the audit log, and whether it was written by the stop that came last.
pub(super) fn check_audit_log(
    disk: &dyn Disk,
    audit: &AuditLog,
    note: Option<(u64, bool)>,
    report: &mut CheckReport,
) -> Result<()> {
    const HINT: &str = "the disk or something else changed the audit log; restore it from a copy, or keep it elsewhere: no data hangs on it";
    let files = match audit.files() {
        Ok(files) => files,
        Err(error) => return report.add_finding(error),
    };
    let mark = match audit.mark() {
        Ok(mark) => mark,
        Err(error) => {
            report.add_finding(error.with_hint(HINT))?;
            None
        }
    };
    if let Some(what) = audit_mark_lost(mark.as_ref(), note) {
        let message = format!("{END_NAME} {what}: whether lines are missing at the end of the audit log is not known");
        report.add_finding(Error::new(ErrorKind::Corrupt, message).with_hint(HINT))?;
    }
    let mut verifier = Verifier::new(mark);
    if let Some(what) = verifier.missing_begin(files.first().map(|(number, _)| *number)) {
        report.notices.push(format!("{AUDIT_DIR}: {what}"));
    }
    for (number, path) in files {
        let bytes = match read_file(disk, &path) {
            Ok(bytes) => bytes,
            Err(error) => {
                verifier.pass_over(number);
                report.add_finding(error)?;
                continue;
            }
        };
        let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
        let is_whole = |line: &[u8]| line.strip_suffix(b"\n").is_some_and(is_audit_line);
        let mut wrong = (1..).zip(&lines).filter(|(_, line)| !is_whole(line)).peekable();
        if let Some(&(first, line)) = wrong.peek() {
            // Each line is synced before the next is written; sectors that a power loss kept from the disk are zeros.
            let is_torn = !line.ends_with(b"\n") || line.contains(&0);
            if first < lines.len() || !is_torn {
                let message = format!("{}: line {first} is none that Alluvia wrote", path.display());
                let rest = match wrong.count() - 1 {
                    0 => String::new(),
                    others => format!(", nor are {others} after it"),
                };
                verifier.pass_over(number);
                report.add_finding(Error::new(ErrorKind::Corrupt, message + &rest).with_hint(HINT))?;
                continue;
            }
            let torn = format!(
                "{} ends in {} bytes of an interrupted write, which were never acknowledged; readers pass them over",
                path.display(),
                line.len()
            );
            report.notices.push(torn);
            lines.pop();
        }
        let lines: Vec<&[u8]> = lines.iter().filter_map(|line| line.strip_suffix(b"\n")).collect();
        match verifier.verify(number, &lines) {
            Some(Found::Finding(what)) => {
                let message = format!("{}: {what}", path.display());
                report.add_finding(Error::new(ErrorKind::Corrupt, message).with_hint(HINT))?;
            }
            Some(Found::Notice(what)) => report.notices.push(format!("{}: {what}", path.display())),
            None => {}
        }
    }
    if let Some(name) = verifier.missing_end() {
        let message = format!("{AUDIT_DIR}/{name} is missing, which has the last line of the last clean stop");
        report.add_finding(Error::new(ErrorKind::Corrupt, message).with_hint(HINT))?;
    }
    Ok(())
}

/// What is wrong with the mark of the audit log by what the log's mark says of it.
fn audit_mark_lost(mark: Option<&EndMark>, note: Option<(u64, bool)>) -> Option<&'static str> {
    let (note, is_of_last_stop) = note.filter(|(note, _)| *note != 0)?;
    match mark {
        None => Some("is missing"),
        // A stop that was cut short may have written another one.
        Some(mark) => {
            (is_of_last_stop && mark.note() != note).then_some("is not the one that the last clean stop wrote")
        }
    }
}

fn read_file(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| Error::io(path, "reading", &error);
    let file = disk.open(path).map_err(failed)?;
    let mut bytes = vec![0; file.len().map_err(failed)? as usize];
    file.read_exact_at(&mut bytes, 0).map_err(failed)?;
    Ok(bytes)
}

/// All files that are needed.
pub(super) struct Named<'a> {
    pub(super) segments: &'a BTreeSet<SegmentId>,
    /// Files of kills.
    pub(super) kills: &'a BTreeSet<(TableId, u64)>,
    /// Dictionaries.
    pub(super) tables: &'a BTreeSet<(TableId, u32)>,
    /// Files of idempotency keys; `None`: all that are there.
    pub(super) keys: Option<&'a [KeysFile]>,
}

/// Notes files that nothing names.
pub(super) fn note_strays(disk: &dyn Disk, dir: &Path, named: &Named<'_>, report: &mut CheckReport) -> Result<()> {
    const LEFT: &str = "is named by nothing, as what an interrupted run leaves; the next start removes it";
    const FOREIGN: &str = "is none of Alluvia's files, and is left alone";
    let segment = |entry: &DiskEntry| match segment_of_file(&entry.name) {
        Some(id) => (!named.segments.contains(&id)).then_some(LEFT),
        None => (entry.name != REBUILT_DIR).then_some(FOREIGN),
    };
    let log_file = |entry: &DiskEntry| (!directory::is_log_file(&entry.name)).then_some(FOREIGN);
    let is_stray_keys = |name: &str| match (name.strip_suffix(".tmp"), KeyFiles::number_of_file(name), named.keys) {
        (Some(whole), _, _) => KeyFiles::number_of_file(whole).is_some(),
        (None, Some(number), Some(keys)) => keys.iter().all(|file| file.number != number),
        _ => false,
    };
    let other = |entry: &DiskEntry| match (Spaces::table_of_file(&entry.name), kills::table_of_file(&entry.name)) {
        (Some(table), _) => (!named.tables.contains(&table)).then_some(LEFT),
        (None, Some(file)) => (!named.kills.contains(&file)).then_some(LEFT),
        (None, None) if is_stray_keys(&entry.name) => Some(LEFT),
        (None, None) if entry.name == KEYS_LOST_NAME => Some(
            "lets a start go on without files of idempotency keys that are missing or damaged; it goes when the manifest is next written",
        ),
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
