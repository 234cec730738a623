//! How a process ended, and what is said of it: a log that was cut where it looks as if it had been stopped, marks that are lost or copies
//! from before, files of the audit log that are gone.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::real::{block_on, open, tag};
use alluvia_node::{CheckReport, Database, check};
use std::fs;
use std::path::{Path, PathBuf};

fn checked(dir: &Path) -> CheckReport {
    check(dir, &mut |_| {}).unwrap()
}

fn write(db: &Database, statements: &[&str]) {
    block_on(async {
        let session = db.session();
        for sql in statements {
            tag(&session, sql).await;
        }
    });
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// A copy of the directory as it is: what a process leaves that is killed now.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for path in files(from) {
        let target = to.join(path.file_name().unwrap());
        match path.is_dir() {
            true => copy(&path, &target),
            false => drop(fs::copy(&path, &target).unwrap()),
        }
    }
}

/// Where the headers of groups lie in a file of the log.
fn groups(bytes: &[u8]) -> Vec<usize> {
    (0..bytes.len()).filter(|&at| bytes[at..].starts_with(b"GRUP\0\0\0\0")).collect()
}

fn newest_log(dir: &Path) -> PathBuf {
    files(&dir.join("log")).pop().unwrap()
}

#[test]
fn a_log_that_was_cut_where_it_looks_stopped_is_told() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    let db = open(&dir);
    write(&db, &["CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)"]);
    drop(db);
    let report = checked(&dir);
    assert_eq!((&report.findings, &report.notices), (&Vec::new(), &Vec::new()));
    let stopped = groups(&fs::read(newest_log(&dir)).unwrap()).pop().unwrap() + 64;
    let db = open(&dir);
    assert_eq!(db.recovery(), None);
    write(&db, &["INSERT INTO t VALUES (2)", "INSERT INTO t VALUES (3)", "INSERT INTO t VALUES (4)"]);
    let killed = scratch.path().join("killed");
    copy(&dir, &killed);
    drop(db);
    let whole = fs::read(newest_log(&killed)).unwrap();
    let headers = groups(&whole);
    let new: Vec<usize> = headers.iter().copied().filter(|&at| at >= stopped).collect();
    assert_eq!(new.len(), 3, "{headers:?}, stopped at {stopped}");
    for to in new.iter().map(|at| at + 64).chain([stopped, whole.len()]) {
        let cut = scratch.path().join(format!("cut at {to}"));
        copy(&killed, &cut);
        fs::File::options().write(true).open(newest_log(&cut)).unwrap().set_len(to as u64).unwrap();
        let report = checked(&cut);
        let notice = report.notices.iter().find(|notice| notice.starts_with("the last process did not stop cleanly"));
        let is_whole = to == whole.len();
        assert_eq!(notice.unwrap().contains("behind the header of a group"), !is_whole, "{report:#?}");
        let db = open(&cut);
        let recovery = *db.recovery().expect("it was not stopped cleanly");
        assert_eq!((recovery.torn, recovery.is_behind_header), (None, !is_whole), "cut to {to}");
        drop(db);
        assert_eq!(open(&cut).recovery(), None, "it was stopped cleanly since");
    }
}

#[test]
fn marks_that_are_lost_or_copies_from_before_are_found() {
    let scratch = tempfile::tempdir().unwrap();
    let (dir, older) = (scratch.path().join("db"), scratch.path().join("older"));
    let db = open(&dir);
    write(&db, &["CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1)", "CALL alluvia.flush()"]);
    drop(db);
    copy(&dir, &older);
    let db = open(&dir);
    write(&db, &["CREATE TABLE u (a INT)", "CALL alluvia.flush()"]);
    drop(db);
    assert_eq!(checked(&dir).findings, Vec::<String>::new());
    for (name, removed, copied) in [
        ("log.end", "log.end is missing", "says that nothing was written behind version"),
        ("audit.end", "audit.end is missing", "audit.end is not the one that the last clean stop wrote"),
    ] {
        let damaged = scratch.path().join(name);
        copy(&dir, &damaged);
        fs::remove_file(damaged.join(name)).unwrap();
        let findings = checked(&damaged).findings;
        assert!(findings.len() == 1 && findings[0].contains(removed), "{name}: {findings:#?}");
        fs::copy(older.join(name), damaged.join(name)).unwrap();
        let findings = checked(&damaged).findings;
        assert!(findings.len() == 1 && findings[0].contains(copied), "{name}: {findings:#?}");
        // It opens, and the next clean stop mends it.
        let db = open(&damaged);
        write(&db, &["CREATE TABLE v (a INT)"]);
        drop(db);
        assert_eq!(checked(&damaged).findings, Vec::<String>::new(), "{name}");
    }
}

#[test]
fn the_oldest_file_of_the_audit_log_is_missed() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    for table in ["a", "b", "c"] {
        let db = open(&dir);
        write(&db, &[&format!("CREATE TABLE {table} (a INT)")]);
    }
    let audit = files(&dir.join("audit"));
    assert_eq!(audit.len(), 3);
    assert_eq!(checked(&dir).notices, Vec::<String>::new());
    fs::remove_file(&audit[0]).unwrap();
    let report = checked(&dir);
    assert_eq!(report.findings, Vec::<String>::new());
    assert!(report.notices.len() == 1 && report.notices[0].contains("00000001.ndjson were there"), "{report:#?}");
    // Whoever has put it away starts and stops once.
    drop(open(&dir));
    assert_eq!(checked(&dir).notices, Vec::<String>::new());
}
