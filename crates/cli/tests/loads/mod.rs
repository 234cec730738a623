//! `alluvia load` in a directory: what is said about tables that exist, and what their names mean.

use super::{good, run, scratch, stderr};
use std::fs;
use std::path::Path;

fn csv(dir: &str, sql: &str) -> String {
    good(&["sql", dir, "--format", "csv", "-c", sql], "")
}

/// A file with these rows.
fn file(folder: &Path, rows: &str) -> String {
    let file = folder.join("rows.csv");
    fs::write(&file, rows).unwrap();
    file.display().to_string()
}

#[test]
fn a_load_in_batches_that_made_its_table_is_the_same_command_again() {
    let (scratch, dir) = scratch();
    let definition = ["--dimensions", "name", "--measures", "v", "--curve", "z"];
    let load = |file: &str, batch_rows: &[&str]| {
        run(&[&["load", dir.as_str(), "dims", file][..], &definition[..], batch_rows].concat(), "")
    };
    let rows = file(scratch.path(), "name,v\none,1\ntwo,2\nthree,3\nfour,4\nfive,5\n");
    let first = load(&rows, &["--batch-rows", "2"]);
    assert_eq!(first.status.code(), Some(0), "{}", stderr(&first));
    assert!(!stderr(&first).contains("is not applied"), "{}", stderr(&first));
    let created = csv(&dir, "SHOW CREATE TABLE dims");
    for _ in 0..2 {
        let again = load(&rows, &["--batch-rows", "2"]);
        let told = stderr(&again);
        assert_eq!(again.status.code(), Some(0), "{told}");
        for name in ["dimensions", "measures", "curve"] {
            assert!(told.contains(&format!("NOTICE: table 'dims' exists: --{name} is not applied\n")), "{told}");
        }
        assert_eq!(csv(&dir, "SHOW CREATE TABLE dims"), created);
    }
    assert_eq!(csv(&dir, "SELECT count(*) AS n, sum(v) AS total FROM dims"), "n,total\n5,15\n");
    // What is not in batches is never resumed.
    let refused = load(&rows, &[]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("table 'dims' exists; --dimensions is for new tables"), "{}", stderr(&refused));
}

#[test]
fn names_of_tables_are_those_of_sql() {
    let (scratch, dir) = scratch();
    let rows = file(scratch.path(), "a,b\n1,2\n");
    for (name, is_new) in [("Sales", true), ("sales", false), ("public.SALES", false), ("\"Sales\"", true)] {
        let said = good(&["load", &dir, name, &rows], "");
        assert_eq!(said.contains("CREATE TABLE"), is_new, "{name}: {said}");
    }
    let counts = "SELECT (SELECT count(*) FROM Sales) AS folded, (SELECT count(*) FROM \"Sales\") AS exact";
    assert_eq!(csv(&dir, counts), "folded,exact\n3,1\n");
    let described = good(&["sql", &dir, "--format", "csv"], "\\d \"Sales\"\n\\d public.sales\n");
    assert_eq!(described.matches("a,BIGINT").count(), 2, "{described}");
    for (name, words) in [
        ("alluvia.tables", "alluvia.tables is a system table: it can only be read"),
        ("other.sales", "there is no schema other"),
        ("two words", "hint:  a name that is to be taken exactly is written '\"two words\"'"),
    ] {
        let refused = run(&["load", &dir, name, &rows], "");
        assert_eq!(refused.status.code(), Some(1), "{name}");
        assert!(stderr(&refused).contains(words), "{name}: {}", stderr(&refused));
    }
    assert_eq!(csv(&dir, "SHOW TABLES").lines().count(), 3, "a line of heads and two tables");
}
