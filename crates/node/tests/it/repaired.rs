//! Damage as users meet it: what `alluvia.tables` says, what is made anew by itself, `CALL alluvia.forget_segment`, and a repair of a
//! directory that no process has open.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::real::{block_on, open, run, tag};
use crate::support::shown_rows as rows;
use alluvia_node::{Database, check, repair};
use alluvia_query::Session;
use alluvia_types::{ErrorKind, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Two tables, each with a merged segment that has a ladder, and a sorted one.
async fn fill(session: &Session) {
    for statement in [
        "CREATE TABLE kept (id BIGINT PRIMARY KEY, kind TEXT, amount INT) WITH (dimensions = 'kind', measures = 'amount')",
        "CREATE TABLE lost (id BIGINT PRIMARY KEY, kind TEXT, amount INT) WITH (dimensions = 'kind', measures = 'amount')",
        "INSERT INTO lost SELECT n, 'kind ' || n % 7, n % 100 FROM generate_series(1, 40000) AS s(n)",
        "INSERT INTO kept SELECT * FROM lost",
        "CALL alluvia.merge()",
        "INSERT INTO lost SELECT n, 'kind ' || n % 7, n % 100 FROM generate_series(50001, 50010) AS s(n)",
        "DELETE FROM lost WHERE id IN (5, 6, 50001)",
        "CALL alluvia.flush()",
    ] {
        tag(session, statement).await;
    }
}

async fn notices(session: &Session, sql: &str) -> Result<Vec<String>> {
    let outcome = session.sql(sql).await?;
    let notices = outcome.notices().to_vec();
    outcome.collect().await.map(|_| notices)
}

/// Segments of a table, the one with the most rows first.
async fn segments(session: &Session, table: &str) -> Vec<u64> {
    let sql = format!("SELECT segment_id FROM alluvia.segments WHERE table_name = '{table}' ORDER BY rows DESC");
    rows(session, &sql).await.iter().map(|id| id.parse().unwrap()).collect()
}

fn file(dir: &Path, id: u64, ending: &str) -> PathBuf {
    dir.join("segments").join(format!("seg-{id}.{ending}"))
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

const COUNT: &str = "SELECT count(*), sum(amount) FROM lost";

fn clean(dir: &Path) {
    let report = check(dir, &mut |_| {}).unwrap();
    assert_eq!(report.findings, Vec::<String>::new());
}

#[test]
fn a_closed_table_says_why_and_opens_again_once_its_segment_is_forgotten() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    let db = open(&dir);
    let large = block_on(async {
        let session = db.session();
        fill(&session).await;
        assert_eq!(
            rows(&session, "SELECT table_name, closed FROM alluvia.tables ORDER BY 1").await,
            ["kept|NULL", "lost|NULL"]
        );
        segments(&session, "lost").await[0]
    });
    drop(db);
    fs::remove_file(file(&dir, large, "parquet")).unwrap();
    let db = open(&dir);
    assert_eq!(db.closed().len(), 1);
    block_on(async {
        let session = db.session();
        let told = rows(&session, "SELECT table_name, closed, rows FROM alluvia.tables ORDER BY 1").await;
        assert_eq!(told[0], "kept|NULL|40000");
        assert!(told[1].contains(&format!("seg-{large}.parquet is missing|40010")), "{told:?}");
        assert_eq!(run(&session, COUNT).await.unwrap_err().kind(), ErrorKind::Corrupt);
        assert_eq!(segments(&session, "lost").await[0], large, "segments of closed tables are listed");

        let ask = format!("CALL alluvia.forget_segment('lost', {large})");
        for (call, kind, what) in [
            ("CALL alluvia.forget_segment('lost')", ErrorKind::UndefinedFunction, "a segment's number"),
            ("CALL alluvia.forget_segment('lost', 'seven')", ErrorKind::UndefinedFunction, "a segment's number"),
            ("CALL alluvia.forget_segment('lost', 1, force => 1)", ErrorKind::UndefinedFunction, "a segment's number"),
            ("CALL alluvia.forget_segment('none', 1)", ErrorKind::UndefinedTable, "none"),
            ("CALL alluvia.forget_segment('lost', 9999)", ErrorKind::UndefinedObject, "no segment 9999"),
        ] {
            let error = run(&session, call).await.unwrap_err();
            assert!(error.kind() == kind && error.to_string().contains(what), "{call}: {error}");
        }
        let kept = segments(&session, "kept").await[0];
        let whole = run(&session, &format!("CALL alluvia.forget_segment('kept', {kept}, true)")).await.unwrap_err();
        assert!(whole.message().contains("is whole"), "{whole}");

        let told = notices(&session, &ask).await.unwrap();
        let what = format!(
            "table 'lost' would lose segment {large} with 39998 rows (and 2 that were deleted or replaced before) of versions "
        );
        assert!(told[0].starts_with(&what) && told[0].contains(".parquet is missing"), "{told:?}");
        assert!(told[1].starts_with("nothing was changed"), "{told:?}");
        assert!(run(&session, COUNT).await.is_err(), "nothing was changed");

        let told =
            notices(&session, &format!("CALL alluvia.forget_segment('lost', {large}, force => true)")).await.unwrap();
        assert!(told.len() == 1 && told[0].starts_with("table 'lost' has lost segment"), "{told:?}");
        assert_eq!(rows(&session, COUNT).await[0].split('|').next(), Some("9"));
        assert_eq!(rows(&session, "SELECT closed FROM alluvia.tables WHERE table_name = 'lost'").await, ["NULL"]);
        assert_eq!(rows(&session, "SELECT count(*) FROM kept").await, ["40000"]);
        tag(&session, "INSERT INTO lost VALUES (7, 'again', 1)").await;
        let twice = run(&session, "INSERT INTO lost VALUES (50002, 'twice', 1)").await.unwrap_err();
        assert_eq!(twice.kind(), ErrorKind::UniqueViolation);
        tag(&session, "UPDATE lost SET amount = 3 WHERE id = 50003").await;
        assert_eq!(rows(&session, "SELECT count(*) FROM lost").await, ["10"]);
        tag(&session, "CALL alluvia.merge()").await;
    });
    drop(db);
    clean(&dir);
    let db = open(&dir);
    assert_eq!(db.closed().len(), 0);
    block_on(async { assert_eq!(rows(&db.session(), "SELECT count(*) FROM lost").await, ["10"]) });
}

/// A cuboid of the table is resident, the table is open, and a byte of the Parquet file is another.
#[test]
fn what_was_made_of_forgotten_rows_is_not_asked_any_more() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    let db = open(&dir);
    block_on(async {
        let session = db.session();
        fill(&session).await;
        tag(&session, "CALL alluvia.pin_cuboid('lost', 'kind')").await;
        let by_kind = "SELECT kind, count(*), sum(amount) FROM lost GROUP BY kind ORDER BY kind";
        assert_eq!(rows(&session, by_kind).await.len(), 7);
        // By key, from memory.
        assert_eq!(rows(&session, "SELECT amount FROM lost WHERE id = 9").await, ["9"]);
        let large = segments(&session, "lost").await[0];
        flip(&file(&dir, large, "parquet"), 2000);
        let stranger = "CREATE ROLE stranger; GRANT SELECT, DELETE ON lost TO stranger; SET ROLE stranger";
        for statement in stranger.split("; ") {
            tag(&session, statement).await;
        }
        let call = format!("CALL alluvia.forget_segment('lost', {large}, true)");
        assert_eq!(run(&session, &call).await.unwrap_err().kind(), ErrorKind::Forbidden);
        tag(&session, "RESET ROLE").await;
        tag(&session, &call).await;
        for _ in 0..2 {
            assert_eq!(rows(&session, COUNT).await[0].split('|').next(), Some("9"));
            let counted: Vec<String> = rows(&session, by_kind).await;
            let sum: u64 = counted.iter().map(|row| row.split('|').nth(1).unwrap().parse::<u64>().unwrap()).sum();
            assert_eq!(sum, 9, "{counted:?}");
            assert_eq!(rows(&session, "SELECT amount FROM lost WHERE id = 9").await, Vec::<String>::new());
            tag(&session, "CALL alluvia.build_cuboids()").await;
        }
        tag(&session, "INSERT INTO lost VALUES (9, 'kind 2', 1)").await;
    });
    drop(db);
    clean(&dir);
}

/// Side files and rungs: answers are right from the start, and a check finds nothing a moment later.
#[test]
fn what_can_be_made_anew_is_made_anew_by_itself() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    let db = open(&dir);
    let (before, ladder) = block_on(async {
        let session = db.session();
        fill(&session).await;
        let ladder =
            rows(&session, "SELECT ladder FROM alluvia.segments WHERE table_name = 'lost' ORDER BY rows DESC LIMIT 1")
                .await;
        (rows(&session, COUNT).await, ladder)
    });
    drop(db);
    assert!(!ladder[0].is_empty() && ladder[0] != "NULL", "{ladder:?}");
    let all: Vec<PathBuf> = fs::read_dir(dir.join("segments")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let manifest_names = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "side");
    // All side files at once: of segments and of rungs.
    for side in all.iter().filter(|path| manifest_names(path)) {
        fs::remove_file(side).unwrap();
    }
    let db = open(&dir);
    assert_eq!(db.closed().len(), 0);
    block_on(async { assert_eq!(rows(&db.session(), COUNT).await, before) });
    db.core().mend().unwrap();
    block_on(async { assert_eq!(rows(&db.session(), COUNT).await, before) });
    drop(db);
    clean(&dir);
}

/// A byte of a rung is another: whoever meets it first has the right answer all the same. One of a side file is right, or is refused.
#[test]
fn a_statement_that_meets_damage_goes_on() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    let db = open(&dir);
    let (ids, before) = block_on(async {
        let session = db.session();
        fill(&session).await;
        let all = [segments(&session, "lost").await, segments(&session, "kept").await].concat();
        (all, rows(&session, COUNT).await)
    });
    drop(db);
    let files: Vec<PathBuf> = fs::read_dir(dir.join("segments")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let sides: Vec<PathBuf> = ids.iter().map(|id| file(&dir, *id, "side")).collect();
    let mut met = 0;
    for path in files.iter().filter(|path| path.extension().is_some_and(|ending| ending == "side")) {
        let whole = fs::read(path).unwrap();
        // Streams come first; behind them is what says where they lie.
        for at in [70, whole.len() / 3, whole.len() / 2] {
            flip(path, at);
            let db = Database::open_with(&dir, unsorted()).unwrap();
            block_on(async {
                let (session, what) = (db.session(), format!("{} at {at}", path.display()));
                tag(&session, "SET max_error = 0.05").await;
                let estimate = session.sql("SELECT count(*), avg(amount) FROM lost WHERE kind = 'kind 3'").await;
                let estimate = match estimate {
                    Ok(outcome) => outcome.collect().await,
                    Err(error) => Err(error),
                };
                match estimate {
                    Ok(batches) => {
                        let found = crate::support::shown(&batches);
                        let count: f64 = found[0].split('|').next().unwrap().parse().unwrap();
                        assert!((count - 5714.0).abs() < 5714.0 * 0.1, "{what}: {found:?}");
                    }
                    Err(error) => {
                        assert!(sides.contains(path), "{what} is one of a rung: {error}");
                        assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
                    }
                }
                if !sides.contains(path) {
                    tag(&session, "RESET max_error").await;
                    assert_eq!(rows(&session, COUNT).await, before, "{what}");
                    met += 1;
                }
            });
            drop(db);
            fs::write(path, &whole).unwrap();
        }
    }
    assert!(met > 2, "{met}");
    clean(&dir);
}

fn repaired(dir: &Path, is_told: bool) -> alluvia_node::RepairReport {
    repair(dir, None, is_told, &mut |_| {}).unwrap()
}

/// Options with which nothing is sorted by itself.
fn unsorted() -> alluvia_node::DatabaseOptions {
    let pipeline = alluvia_pipeline::PipelineOptions {
        sort_interval: std::time::Duration::from_secs(3600),
        ..alluvia_pipeline::PipelineOptions::default()
    };
    alluvia_node::DatabaseOptions { pipeline, ..alluvia_node::DatabaseOptions::default() }
}

/// The log has changes of a table whose file is gone: they wait in the log, and the other table is served.
#[test]
fn what_the_log_has_of_a_closed_table_waits_until_it_is_open() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    let db = open(&dir);
    let large = block_on(async {
        let session = db.session();
        fill(&session).await;
        segments(&session, "lost").await[0]
    });
    drop(db);
    let db = Database::open_with(&dir, unsorted()).unwrap();
    let before = block_on(async {
        let session = db.session();
        tag(&session, "UPDATE lost SET amount = 1000 WHERE id IN (9, 50004)").await;
        tag(&session, "DELETE FROM lost WHERE id IN (10, 50005)").await;
        tag(&session, "INSERT INTO kept VALUES (50006, 'late', 1)").await;
        rows(&session, COUNT).await
    });
    drop(db);
    let gone = file(&dir, large, "parquet");
    let kept = fs::read(&gone).unwrap();
    fs::remove_file(&gone).unwrap();
    let ask = |db: &Database| {
        block_on(async {
            let session = db.session();
            let told = rows(&session, "SELECT table_name, closed FROM alluvia.tables ORDER BY 1").await;
            assert_eq!(told[0], "kept|NULL");
            let why = format!("seg-{large}.parquet is missing; the log is kept for it from version ");
            assert!(told[1].contains(&why), "{told:?}");
            assert_eq!(run(&session, COUNT).await.unwrap_err().kind(), ErrorKind::Corrupt);
            tag(&session, "INSERT INTO kept SELECT max(id) + 1, 'more', 1 FROM kept").await;
            tag(&session, "CALL alluvia.merge()").await;
            let purged = run(&session, "CALL alluvia.purge('kept')").await.unwrap_err();
            assert!(purged.message().contains("while the log is kept"), "{purged}");
        });
    };
    for starts in 1..=2 {
        let db = open(&dir);
        assert_eq!(db.closed().len(), 1);
        ask(&db);
        drop(db);
        let report = check(&dir, &mut |_| {}).unwrap();
        assert!(report.findings.len() == 1 && report.findings[0].contains("is missing"), "start {starts}: {report:#?}");
    }
    fs::write(&gone, &kept).unwrap();
    clean(&dir);
    for _ in 0..2 {
        let db = open(&dir);
        assert_eq!(db.closed().len(), 0);
        block_on(async {
            let session = db.session();
            assert_eq!(rows(&session, COUNT).await, before);
            assert_eq!(rows(&session, "SELECT count(*) FROM kept").await, ["40003"]);
            assert_eq!(rows(&session, "SELECT closed FROM alluvia.tables WHERE closed IS NOT NULL").await, [""; 0]);
            tag(&session, "CALL alluvia.merge()").await;
            tag(&session, "CALL alluvia.purge('lost')").await;
            assert_eq!(rows(&session, COUNT).await, before);
        });
        drop(db);
        clean(&dir);
    }
}

/// A start leaves the table closed, since the log has changes of it; a repair opens it.
#[test]
fn a_repair_opens_what_a_start_leaves_closed() {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db");
    let db = open(&dir);
    let (large, small) = block_on(async {
        let session = db.session();
        fill(&session).await;
        assert_eq!(repair(&dir, None, false, &mut |_| {}).unwrap_err().kind(), ErrorKind::Locked);
        let ids = segments(&session, "lost").await;
        (ids[0], ids[1])
    });
    drop(db);
    assert!(repaired(&dir, true).is_whole());
    let db = Database::open_with(&dir, unsorted()).unwrap();
    block_on(async {
        let session = db.session();
        tag(&session, "UPDATE lost SET amount = 1000 WHERE id IN (9, 50004)").await;
        tag(&session, "DELETE FROM lost WHERE id IN (10, 50005)").await;
    });
    drop(db);
    fs::remove_file(file(&dir, large, "parquet")).unwrap();
    flip(&file(&dir, small, "side"), 80);
    let db = Database::open_with(&dir, unsorted()).unwrap();
    assert_eq!(db.closed().len(), 1);
    drop(db);

    let before = fs::read(dir.join("manifest")).unwrap();
    let report = repaired(&dir, false);
    assert_eq!((report.lost.len(), report.mended.len(), report.left.len()), (1, 1, 0), "{report:#?}");
    assert!(
        report.lost[0].contains("would lose segment") && report.mended[0].contains("can be made anew"),
        "{report:#?}"
    );
    assert_eq!(fs::read(dir.join("manifest")).unwrap(), before, "nothing was changed");
    let report = repaired(&dir, true);
    assert!(report.lost[0].contains("has lost segment") && report.mended[0].contains("was made anew"), "{report:#?}");
    clean(&dir);
    assert!(repaired(&dir, true).is_whole());
    let db = open(&dir);
    block_on(async {
        let session = db.session();
        // Nine of the small one; one was deleted since, and what was updated in the lost one is in the log.
        let found = rows(&session, "SELECT id, amount FROM lost WHERE id IN (9, 10, 50004, 50005) ORDER BY id").await;
        assert_eq!(found, ["9|1000", "50004|1000"]);
        assert_eq!(rows(&session, "SELECT count(*) FROM lost").await, ["9"]);
        tag(&session, "CALL alluvia.merge()").await;
        assert_eq!(rows(&session, "SELECT count(*) FROM lost").await, ["9"]);
    });
    drop(db);
    clean(&dir);
}

#[test]
fn a_repair_says_what_it_leaves_and_where_there_is_nothing() {
    let scratch = tempfile::tempdir().unwrap();
    let error = repair(&scratch.path().join("none"), None, true, &mut |_| {}).unwrap_err();
    assert!(
        error.kind() == ErrorKind::UndefinedObject && error.message().contains("holds no Alluvia database"),
        "{error}"
    );
    let dir = scratch.path().join("db");
    let db = open(&dir);
    block_on(async { fill(&db.session()).await });
    drop(db);
    let mut entries = fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path());
    let kills = entries.find(|path| path.file_name().unwrap().to_string_lossy().starts_with("kills-")).unwrap();
    fs::remove_file(&kills).unwrap();
    let report = repaired(&dir, true);
    assert!(report.left.len() == 1 && report.left[0].contains("is missing; restore it from a copy"), "{report:#?}");
    fs::rename(dir.join("manifest"), dir.join("elsewhere")).unwrap();
    assert_eq!(repair(&dir, None, true, &mut |_| {}).unwrap_err().kind(), ErrorKind::Corrupt);
}
