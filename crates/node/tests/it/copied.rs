//! A repair that puts files back from a copy of the data directory, of whatever age.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::real::{block_on, open, tag};
use crate::support::shown_rows as rows;
use alluvia_node::{RepairReport, check, repair};
use alluvia_types::ErrorKind;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const COUNT: &str = "SELECT count(*), sum(amount), count(DISTINCT kind) FROM sales";

/// A table with a merged segment that has a ladder, a sorted one, dead rows and dictionaries; and what [`COUNT`] says of it.
fn database(dir: &Path) -> Vec<String> {
    let db = open(dir);
    block_on(async {
        let session = db.session();
        for statement in [
            "CREATE TABLE sales (id BIGINT PRIMARY KEY, kind TEXT, amount INT) WITH (dimensions = 'kind', measures = 'amount')",
            "INSERT INTO sales SELECT n, 'kind ' || n % 7, n % 100 FROM generate_series(1, 40000) AS s(n)",
            "CALL alluvia.merge()",
            "INSERT INTO sales SELECT n, 'kind ' || n % 9, n % 100 FROM generate_series(50001, 50010) AS s(n)",
            "DELETE FROM sales WHERE id IN (5, 6, 50001)",
            "CALL alluvia.flush()",
        ] {
            tag(&session, statement).await;
        }
        rows(&session, COUNT).await
    })
}

fn copied(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        match path.is_dir() {
            true => copied(&path, &to),
            false => assert!(fs::copy(&path, &to).is_ok(), "{path:?}"),
        }
    }
}

fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.append(&mut contents(&path)),
            false => drop(found.insert(path.clone(), fs::read(&path).unwrap())),
        }
    }
    found
}

fn repaired(dir: &Path, copy: &Path, is_told: bool) -> RepairReport {
    repair(dir, Some(copy), is_told, &mut |_| {}).unwrap()
}

/// Files of segments, of dead rows and of dictionaries.
fn put_back(dir: &Path) -> Vec<PathBuf> {
    let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let is_one = |path: &PathBuf| ["seg-", "kills-", "dict-"].iter().any(|start| name(path).starts_with(start));
    contents(dir).into_keys().filter(is_one).collect()
}

#[test]
fn what_is_damaged_is_put_back_as_it_was_and_nothing_is_lost() {
    let scratch = tempfile::tempdir().unwrap();
    let (dir, copy) = (scratch.path().join("db"), scratch.path().join("copy"));
    let counted = database(&dir);
    copied(&dir, &copy);
    // The copy is older than the directory.
    let db = open(&dir);
    block_on(async {
        let session = db.session();
        tag(&session, "CREATE TABLE later (a INT)").await;
        tag(&session, "INSERT INTO later VALUES (1)").await;
        tag(&session, "CALL alluvia.flush()").await;
    });
    drop(db);
    let (whole, of_copy) = (contents(&dir), contents(&copy));
    let files = put_back(&copy);
    // A backup or a snapshot may be such that nothing of it can be written.
    for file in &files {
        let mut permissions = fs::metadata(file).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(file, permissions).unwrap();
    }
    let count = |start: &str| files.iter().filter(|path| path.to_string_lossy().contains(start)).count();
    assert!(count("seg-") >= 6 && count("kills-") == 1 && count("dict-") == 1, "{files:?}");

    for file in files.iter().map(|path| dir.join(path.strip_prefix(&copy).unwrap())) {
        for damage in ["missing", "short", "altered"] {
            let bytes = &whole[&file];
            match damage {
                "missing" => fs::remove_file(&file).unwrap(),
                "short" => fs::write(&file, &bytes[..bytes.len() - 1]).unwrap(),
                _ => {
                    let mut bytes = bytes.clone();
                    // Within what the manifest says of it: dictionaries may go on behind.
                    bytes[12] ^= 0x10;
                    fs::write(&file, bytes).unwrap();
                }
            }
            let (name, before) = (file.file_name().unwrap().display().to_string(), contents(&dir));
            let told = format!("{name}, {damage}");
            let report = repaired(&dir, &copy, false);
            assert!(contents(&dir) == before, "{told}: nothing is changed");
            assert!(
                report.mended.iter().any(|said| said.contains(&format!("{name} can be put back from"))),
                "{told}: {report:#?}"
            );
            assert!(report.lost.is_empty() && report.left.is_empty(), "{told}: {report:#?}");

            // A repair that was ended has left something.
            let rebuilt = dir.join("segments/rebuilt");
            fs::create_dir_all(&rebuilt).unwrap();
            fs::write(rebuilt.join(&name), "a part").unwrap();
            let report = repaired(&dir, &copy, true);
            assert!(
                report.mended.iter().any(|said| said.contains(&format!("{name} was put back from"))),
                "{told}: {report:#?}"
            );
            assert!(
                report.lost.is_empty() && report.left.is_empty() && report.mended.len() <= 2,
                "{told}: {report:#?}"
            );
            assert!(fs::read(&file).unwrap() == *bytes, "{told}: it is the file that was there");
            assert!(repaired(&dir, &copy, true).is_whole(), "{told}");
        }
    }
    assert_eq!(check(&dir, &mut |_| {}).unwrap().findings, Vec::<String>::new());
    assert!(contents(&copy) == of_copy, "the copy is never changed");
    // Everything at once: each segment with its side file.
    let all = put_back(&dir);
    files.iter().for_each(|path| fs::remove_file(dir.join(path.strip_prefix(&copy).unwrap())).unwrap());
    let report = repaired(&dir, &copy, true);
    assert!(report.lost.is_empty() && report.left.is_empty(), "{report:#?}");
    assert_eq!(put_back(&dir), all);
    let db = open(&dir);
    block_on(async { assert_eq!(rows(&db.session(), COUNT).await, counted) });
}

#[test]
fn what_the_copy_has_not_got_whole_is_told_as_without_it() {
    let scratch = tempfile::tempdir().unwrap();
    let [dir, copy, other] = ["db", "copy", "other"].map(|name| scratch.path().join(name));
    database(&dir);
    copied(&dir, &copy);
    let parquet = put_back(&dir).into_iter().find(|path| path.extension().is_some_and(|ending| ending == "parquet"));
    let parquet = parquet.unwrap();
    let there = copy.join(parquet.strip_prefix(&dir).unwrap());
    let mut bytes = fs::read(&there).unwrap();
    bytes[100] ^= 1;
    fs::write(&there, bytes).unwrap();
    fs::remove_file(&parquet).unwrap();
    let report = repaired(&dir, &copy, false);
    assert!(report.lost.len() == 1 && report.mended.is_empty(), "{report:#?}");

    drop(open(&other));
    let none = scratch.path().join("none");
    for (copy, why) in [(&other, "is another database than"), (&none, "holds no Alluvia database")] {
        let error = repair(&dir, Some(copy), true, &mut |_| {}).unwrap_err();
        assert!(error.kind() == ErrorKind::UndefinedObject && error.message().contains(why), "{error}");
        assert!(error.hint().unwrap().contains("a copy of this data directory"), "{error:?}");
    }
    assert!(!none.exists() && !parquet.exists(), "nothing was made");
}
