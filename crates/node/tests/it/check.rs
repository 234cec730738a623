//! `check` lists all that is wrong, says what is merely torn, and changes nothing.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use alluvia_node::{Database, check};
use alluvia_snapshot::{Memo, Store};
use alluvia_storage::{RealDisk, write_atomic};
use alluvia_types::ErrorKind;
use std::fs;
use std::path::{Path, PathBuf};

/// A database with merged and sorted segments of two tables, and something in the log.
fn database(dir: &Path) {
    let db = Database::open(dir).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    runtime.block_on(async {
        let session = db.session();
        for sql in [
            "CREATE TABLE one (a BIGINT, b TEXT) WITH (dimensions = 'b', measures = 'a')",
            "CREATE TABLE two (a BIGINT, b TEXT) WITH (dimensions = 'b')",
            "INSERT INTO one SELECT value, 'text ' || value % 7 FROM generate_series(1, 20000)",
            "INSERT INTO two SELECT a, b FROM one WHERE a <= 100",
            "CALL alluvia.merge()",
            "INSERT INTO one VALUES (1, 'sorted')",
            "CALL alluvia.flush()",
            "INSERT INTO two VALUES (1, 'in the log')",
        ] {
            session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
        }
    });
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.to_string_lossy().ends_with(ending));
    found.sort();
    found
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_directory_without_a_database_is_refused_and_left_alone() {
    let scratch = tempfile::tempdir().unwrap();
    for dir in [scratch.path().to_owned(), scratch.path().join("typo")] {
        let error = check(&dir, &mut |_| {}).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UndefinedObject);
        assert!(error.message().contains("holds no Alluvia database"), "{error}");
    }
    assert_eq!(fs::read_dir(scratch.path()).unwrap().count(), 0);
}

#[test]
fn all_damage_is_listed_and_a_torn_end_is_none() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    database(&dir);
    let mut told = Vec::new();
    let report = check(&dir, &mut |what| told.push(what.to_owned())).unwrap();
    assert_eq!((&report.findings, &report.notices), (&Vec::<String>::new(), &Vec::<String>::new()));
    assert_eq!((report.tables, report.torn_log_bytes), (2, 0));
    assert!(report.segments >= 3 && report.segments == told.len() && report.rows >= 20_101, "{report:?}");

    // What a power loss leaves at the end of the log.
    let log = files(&dir.join("log"), ".log").pop().unwrap();
    let whole = fs::read(&log).unwrap();
    fs::write(&log, [whole.as_slice(), b"GRUPtorn"].concat()).unwrap();
    let report = check(&dir, &mut |_| {}).unwrap();
    assert_eq!((report.findings.len(), report.torn_log_bytes), (0, 8));
    assert_eq!(fs::read(&log).unwrap().len(), whole.len() + 8, "nothing was cut");

    // A dictionary, a segment that is gone, one that is short, one whose bytes differ, and the log.
    fs::write(&log, &whole).unwrap();
    flip(&files(&dir, "dict-1").pop().unwrap_or_else(|| files(&dir, "dict-2").pop().unwrap()), 12);
    let segments = files(&dir.join("segments"), ".parquet");
    assert_eq!(segments.len(), report.segments);
    fs::remove_file(&segments[0]).unwrap();
    let bytes = fs::read(&segments[1]).unwrap();
    fs::write(&segments[1], &bytes[..bytes.len() - 1]).unwrap();
    flip(&segments[2], 200);
    let report = check(&dir, &mut |_| {}).unwrap();
    assert_eq!(report.findings.len(), 4, "{:#?}", report.findings);
    flip(&log, 70);
    let report = check(&dir, &mut |_| {}).unwrap();
    assert_eq!(report.findings.len(), 5, "{:#?}", report.findings);
    assert!(report.findings.iter().any(|finding| finding.contains(".log")), "{:#?}", report.findings);
}

#[test]
fn memos_and_the_audit_log_are_read_and_files_that_nothing_names_are_told_of() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    database(&dir);
    let db = Database::open(&dir).unwrap();
    for memo in alluvia_query::MEMOS {
        db.core().memorise(&memo, b"[]").unwrap();
    }
    drop(db);
    let checked = || check(&dir, &mut |_| {}).unwrap();
    let nothing = Vec::<String>::new();
    let report = checked();
    assert_eq!((&report.findings, &report.notices), (&nothing, &nothing));

    // One byte of a memo, of its content or of its envelope.
    for name in ["cuboids", "predicates"] {
        let path = dir.join(name);
        let whole = fs::read(&path).unwrap();
        for at in [0, 17, whole.len() - 1] {
            flip(&path, at);
            let findings = checked().findings;
            assert!(findings.len() == 1 && findings[0].contains(name), "{name}, byte {at}: {findings:#?}");
            assert!(findings[0].contains("it holds no data"), "{findings:#?}");
            fs::write(&path, &whole).unwrap();
        }
    }
    // One of a later version is whole; so is one that was set aside before.
    let later = Memo { name: "cuboids", magic: b"ALVCUB99" };
    write_atomic(&RealDisk::new(), &dir.join(later.name), later.magic, b"?").unwrap();
    fs::write(dir.join("predicates.damaged"), "?").unwrap();
    let report = checked();
    assert_eq!((&report.findings, report.notices.len()), (&nothing, 2), "{:#?}", report.notices);
    assert!(report.notices[0].contains("format version 99") && report.notices[1].contains("predicates.damaged"));
    fs::remove_file(dir.join("predicates.damaged")).unwrap();
    alluvia_query::MEMOS.iter().for_each(|memo| fs::remove_file(dir.join(memo.name)).unwrap());

    // A line of the audit log that is none, in the middle or at the end, and a last one that is torn.
    let audit = files(&dir.join("audit"), ".ndjson").into_iter().find(|path| !fs::read(path).unwrap().is_empty());
    let audit = audit.expect("tables were created");
    let whole = fs::read_to_string(&audit).unwrap();
    let first = whole.find('\n').unwrap() + 1;
    for damaged in [
        format!("{}{{\"event\": nonsense}}\n{}", &whole[..first], &whole[first..]),
        format!("{whole}garbage\n"),
        format!("{whole}\0\n{whole}"),
        whole.replacen('{', "[", 1),
        format!("{whole}{{}}\n"),
    ] {
        fs::write(&audit, &damaged).unwrap();
        let findings = checked().findings;
        assert!(findings.len() == 1 && findings[0].contains("ndjson: line "), "{damaged}\n{findings:#?}");
    }
    for torn in [&whole[..first - 1], "{\"at\":\"2026", "\0\0\0\0}\n"] {
        fs::write(&audit, format!("{whole}{torn}")).unwrap();
        let report = checked();
        assert_eq!((&report.findings, report.notices.len()), (&nothing, 1), "{torn:?}: {:#?}", report.notices);
        assert!(report.notices[0].contains(&format!("ends in {} bytes", torn.len())), "{:#?}", report.notices);
    }
    fs::write(&audit, &whole).unwrap();

    // What an interrupted run leaves, and what is none of ours. A check leaves both.
    let strays =
        ["segments/seg-999.parquet", "segments/seg-999.side", "dict-999", "segments/notes", "log/notes", "notes"];
    strays.iter().for_each(|name| fs::write(dir.join(name), "stray").unwrap());
    let report = checked();
    assert_eq!((&report.findings, report.notices.len()), (&nothing, strays.len()), "{:#?}", report.notices);
    for (at, name) in strays.iter().enumerate() {
        let notice = report.notices.iter().find(|notice| notice.contains(&format!("db/{name} "))).unwrap();
        assert_eq!((notice.contains("the next start removes it"), notice.contains("left alone")), (at < 3, at >= 3));
        assert!(dir.join(name).exists());
    }
    drop(Database::open(&dir).unwrap());
    let left: Vec<bool> = strays.iter().map(|name| dir.join(name).exists()).collect();
    assert_eq!(left, [false, false, false, true, true, true], "a start does as the check says");
}
