//! `alluvia export`: rows that are alive, of all tables at one version, and what is refused.

use super::{good, run, scratch, stderr};
use std::fs;

fn csv(dir: &str, sql: &str) -> String {
    good(&["sql", dir, "--format", "csv", "-c", sql], "")
}

const TABLES: &str = "CREATE TABLE people (id BIGINT PRIMARY KEY, name TEXT); CREATE TABLE \"Visits\" (at TIMESTAMP, page TEXT); \
     INSERT INTO people SELECT n, 'p' || n FROM generate_series(1, 100) AS s(n); \
     INSERT INTO \"Visits\" VALUES ('2026-01-01', 'a'), ('2026-01-02', 'b'); CALL alluvia.merge(); \
     DELETE FROM people WHERE id > 60; UPDATE people SET name = 'new' WHERE id = 1";

#[test]
fn live_rows_are_exported_and_can_be_loaded() {
    let (scratch, dir) = scratch();
    good(&["sql", &dir, "-c", TABLES], "");
    for (format, ending) in [(None, "parquet"), (Some("csv"), "csv"), (Some("ndjson"), "ndjson")] {
        let folder = scratch.path().join(format!("out/{ending}"));
        let to = folder.display().to_string();
        let format: Vec<&str> = format.into_iter().flat_map(|format| ["--format", format]).collect();
        let said = good(&[&["export", dir.as_str(), "people", "\"Visits\"", "--to", &to][..], &format].concat(), "");
        assert!(said.contains("COPY 60 to ") && said.contains("COPY 2 to "), "{said}");
        let other = scratch.path().join(format!("db-{ending}")).display().to_string();
        let file = folder.join(format!("people.{ending}")).display().to_string();
        good(&["load", &other, "people", &file], "");
        let rows = "SELECT count(*) AS n, sum(id) AS s, min(name) AS m FROM people";
        assert_eq!(csv(&other, rows), "n,s,m\n60,1830,new\n");
        assert!(folder.join(format!("Visits.{ending}")).is_file());
    }
}

#[test]
fn what_cannot_be_exported_is_said() {
    let (scratch, dir) = scratch();
    good(&["sql", &dir, "-c", "CREATE TABLE t (a INT)"], "");
    let to = scratch.path().join("out").display().to_string();
    let nowhere = scratch.path().join("nowhere").display().to_string();
    for (words, told) in [
        (vec!["export", dir.as_str(), "--to", to.as_str()], "no table is named"),
        (vec!["export", dir.as_str(), "tt", "--to", to.as_str()], "tt"),
        (vec!["export", nowhere.as_str(), "t", "--to", to.as_str()], "does not exist"),
        (vec!["export", dir.as_str(), "alluvia.tables", "--to", to.as_str()], "is a system table"),
        (vec!["export", dir.as_str(), "\"../t\"", "--to", to.as_str()], "is no name of a file"),
    ] {
        let refused = run(&words, "");
        assert_eq!(refused.status.code(), Some(1), "{words:?}");
        assert!(stderr(&refused).contains(told), "{words:?}: {}", stderr(&refused));
    }
    assert!(!fs::exists(&nowhere).unwrap(), "what is not there is not made");
}
