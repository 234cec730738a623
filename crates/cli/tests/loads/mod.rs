//! `alluvia load` in a directory: what is said about tables that exist, what their names mean, what their inferred types hold, and pipes with
//! names.

use super::{good, run, scratch, stderr};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::{JoinHandle, spawn};

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
        ("other.sales", "schema \"other\" does not exist"),
        ("two words", "hint:  a name that is to be taken exactly is written '\"two words\"'"),
    ] {
        let refused = run(&["load", &dir, name, &rows], "");
        assert_eq!(refused.status.code(), Some(1), "{name}");
        assert!(stderr(&refused).contains(words), "{name}: {}", stderr(&refused));
    }
    assert_eq!(csv(&dir, "SHOW TABLES").lines().count(), 3, "a line of heads and two tables");
}

#[test]
fn columns_without_a_name_do_not_make_others_go_by_their_place() {
    let (scratch, dir) = scratch();
    let write = |name: &str, rows: &str| {
        let file = scratch.path().join(name);
        fs::write(&file, rows).unwrap();
        file.display().to_string()
    };
    // As pandas writes its index.
    let files = [write("p1.csv", "\n,a,b\n0,1,2\n"), write("p2.csv", ",b,a\n0,20,10\n")];
    for _ in 1..=2 {
        good(&["load", &dir, "indexed", &files[0], &files[1]], "");
    }
    let rows = csv(&dir, "SELECT column1, a, b, count(*) AS n FROM indexed GROUP BY column1, a, b ORDER BY a");
    assert_eq!(rows, "column1,a,b,n\n0,1,2,2\n0,10,20,2\n");
    let refused = run(&["load", &dir, "other", &files[0], &write("p4.csv", "5,6,7\n")], "");
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("no column 5, which"), "{}", stderr(&refused));
    assert_eq!(csv(&dir, "SHOW TABLES").lines().count(), 2, "a line of heads and one table");
}

#[test]
fn a_first_line_that_is_loaded_as_a_row_is_told() {
    let (scratch, dir) = scratch();
    let file = scratch.path().join("years.csv");
    fs::write(&file, "country,2019,2020\nAustria,5,6\n").unwrap();
    let file = file.display().to_string();
    let loaded = run(&["load", &dir, "years", &file], "");
    let told = "-- The first line is loaded as a row, since not all of it are names: country,2019,2020\n\
                -- If it names the columns, drop the table and load again with --header true.\nCREATE TABLE years (";
    let shown = String::from_utf8_lossy(&loaded.stdout);
    assert!(shown.contains(told), "{shown}");
    assert_eq!(csv(&dir, "SELECT count(*) AS n FROM years"), "n\n2\n");
    for (table, header) in [("named", "true"), ("rows", "false")] {
        let loaded = run(&["load", &dir, table, &file, "--header", header], "");
        let shown = String::from_utf8_lossy(&loaded.stdout);
        assert!(loaded.status.success() && !shown.contains("first line"), "{shown}");
    }
}

#[test]
fn what_a_file_is_and_its_name_does_not_say_is_told_before_a_table_is_made() {
    let (scratch, dir) = scratch();
    let write = |name: &str, bytes: &[u8]| {
        let file = scratch.path().join(name);
        fs::write(&file, bytes).unwrap();
        file.display().to_string()
    };
    let answer = |format: &str| run(&["sql", &dir, "--format", format, "-c", "SELECT 1 AS a"], "").stdout;
    csv(&dir, "CREATE TABLE t (a BIGINT)");
    let jq = "hint:  write one object a line, for example with jq -c '.[]'";
    for (file, words, hint) in [
        (write("array.json", b"[{\"a\":1}]\n"), "a JSON array", jq),
        (write("lines.json", b"[\n{\"a\":1},\n{\"a\":2}\n]\n"), "a JSON array", jq),
        (write("parquet.csv", &answer("parquet")), "parquet.csv is Parquet,", "hint:  say FORMAT parquet"),
        (write("parquet.json", &answer("parquet")), "parquet.json is Parquet,", "hint:  say FORMAT parquet"),
        (write("arrow.csv", &answer("arrow")), "arrow.csv is Arrow,", "hint:  say FORMAT arrow"),
    ] {
        let copy = format!("COPY t FROM '{file}'");
        for args in [["load", &dir, "none", &file], ["load", &dir, "t", &file], ["sql", &dir, "-c", &copy]] {
            let refused = run(&args, "");
            let (code, told) = (refused.status.code(), stderr(&refused));
            assert_eq!(code, Some(1), "{args:?}");
            assert!(told.contains(words) && told.contains(hint), "{args:?}: {told}");
            assert!(refused.stdout.is_empty(), "{args:?}: no table is shown, made and dropped");
        }
    }
    for input in ["[{\"a\":1}]", "[\n{\"a\":1}\n]\n"] {
        let refused = run(&["load", &dir, "none", "-"], input);
        assert_eq!(refused.status.code(), Some(1), "{input}");
        assert!(stderr(&refused).contains("standard input holds a JSON array"), "{}", stderr(&refused));
    }
}

/// What is behind the sample, which ends with 4 MiB.
#[test]
fn a_later_value_that_would_be_changed_is_a_bad_row_of_an_inferred_table() {
    let (scratch, dir) = scratch();
    let lines = |line: fn(usize) -> String| (0..400_000).map(line).collect::<String>();
    let csv_rows = lines(|row| format!("{row},2026-01-03\n"));
    let json_rows = lines(|row| format!("{{\"a\": {row}, \"d\": \"2026-01-03\"}}\n"));
    assert!(csv_rows.len() > 5 << 20 && json_rows.len() > 5 << 20);
    let write = |name: &str, rows: &str| {
        let file = scratch.path().join(name);
        fs::write(&file, rows).unwrap();
        file.display().to_string()
    };
    let moment = "{\"a\": 1, \"d\": \"2026-01-03 23:59:59\"}\n";
    for (file, words) in [
        (write("code.csv", &format!("a,d\n{csv_rows}01234,2026-01-03\n")), "'01234' would be changed to be a BIGINT"),
        (
            write("moment.csv", &format!("a,d\n{csv_rows}1,2026-01-03 23:59:59\n")),
            "'2026-01-03 23:59:59' would be changed to be a DATE",
        ),
        (
            write("moment.ndjson", &format!("{json_rows}{moment}")),
            "'2026-01-03 23:59:59' would be changed to be a DATE",
        ),
    ] {
        let refused = run(&["load", &dir, "inferred", &file], "");
        let told = stderr(&refused);
        assert_eq!(refused.status.code(), Some(1), "{file}");
        assert!(
            told.contains(words) && told.contains("hint:  the type, which was taken from the first rows"),
            "{told}"
        );
        let skipped = good(&["load", &dir, "inferred", &file, "--on-error", "skip"], "");
        assert!(skipped.contains(&format!("1 bad row was skipped; it is in {file}.rejects")), "{skipped}");
        assert_eq!(csv(&dir, "SELECT count(*) AS n FROM inferred"), "n\n400000\n");
        // Somebody's own table takes it, as PostgreSQL does.
        csv(&dir, "DROP TABLE inferred; CREATE TABLE inferred (a BIGINT, d DATE)");
        good(&["load", &dir, "inferred", &file], "");
        assert_eq!(csv(&dir, "SELECT count(*) AS n FROM inferred"), "n\n400001\n");
        csv(&dir, "DROP TABLE inferred");
    }
}

#[test]
fn types_hold_the_values_of_all_files() {
    let (scratch, dir) = scratch();
    for format in ["parquet", "arrow"] {
        let write = |name: &str, sql: &str| {
            let file = scratch.path().join(format!("{name}.{format}"));
            csv(&dir, &format!("COPY ({sql}) TO '{}'", file.display()));
        };
        write("f1", "SELECT 1::int AS i, 1::bigint AS f, 1.5::decimal(8, 1) AS m, '2026-01-03'::date AS d");
        write(
            "f2",
            "SELECT 5000000000 AS i, 2.6::double AS f, 2::int AS m, '2026-01-03 23:59:59'::timestamp AS d, true AS extra",
        );
        let all = scratch.path().join(format!("f?.{format}")).display().to_string();
        let said = good(&["load", &dir, format, &all], "");
        let made = csv(
            &dir,
            &format!(
                "SELECT column_name, data_type FROM alluvia.columns WHERE table_name = '{format}' ORDER BY position"
            ),
        );
        let types = "i,BIGINT\nf,DOUBLE\nm,\"DECIMAL(11, 1)\"\nd,TIMESTAMP\nextra,BOOLEAN\n";
        assert!(made.ends_with(types), "{said}{made}");
        let rows = csv(&dir, &format!("SELECT i, f, m, d FROM {format} ORDER BY i"));
        assert!(rows.contains("5000000000,2.6,2.0,2026-01-03 23:59:59\n"), "{rows}");
    }
    let write = |name: &str, rows: &str| {
        let file = scratch.path().join(name);
        fs::write(&file, rows).unwrap();
        file.display().to_string()
    };
    write("ids0.csv", "");
    write("ids1.csv", "id\n18446744073709551615\n1\n");
    write("ids2.csv", "id\n18446744073709551614\n");
    let said = good(&["load", &dir, "ids", &scratch.path().join("ids?.csv").display().to_string()], "");
    assert!(said.contains("id DECIMAL(38, 0)"), "{said}");
    let ids = csv(&dir, "SELECT id FROM ids ORDER BY id");
    assert_eq!(ids, "id\n1\n18446744073709551614\n18446744073709551615\n");
}

#[test]
fn a_header_that_has_a_name_twice_is_refused_by_it() {
    let (scratch, dir) = scratch();
    let rows = file(scratch.path(), "a,a,b\n1,2,3\n");
    let found_or_stated: [&[&str]; 2] = [&[], &["--header", "true"]];
    for header in found_or_stated {
        let refused = run(&[&["load", dir.as_str(), "twice", &rows][..], header].concat(), "");
        let told = stderr(&refused);
        assert_eq!(refused.status.code(), Some(1), "{told}");
        assert!(told.contains("rows.csv: the first line has the name a twice"), "{told}");
        assert!(told.contains("rename one in the file") && told.contains("--header false"), "{told}");
        assert!(refused.stdout.is_empty(), "no table is made");
    }
    good(&["load", &dir, "twice", &rows, "--header", "false"], "");
    assert_eq!(csv(&dir, "SELECT count(*) AS n FROM twice"), "n\n2\n");
}

/// A pipe of this name.
fn pipe(folder: &Path, name: &str) -> PathBuf {
    let pipe = folder.join(name);
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    pipe
}

/// Writes into a pipe once somebody reads it, who may go before the end.
fn feed(pipe: &Path, rows: &str) -> JoinHandle<()> {
    let (pipe, rows) = (pipe.to_owned(), rows.to_owned());
    spawn(move || drop(fs::write(pipe, rows)))
}

#[test]
fn a_pipe_with_a_name_is_opened_once_and_loaded_whole() {
    let (scratch, dir) = scratch();
    let plain = pipe(scratch.path(), "63");
    let path = plain.display().to_string();
    // More than is looked at.
    let rows: String = (1..=300_000).map(|row| format!("{row};text {row}\n")).collect();
    assert!(rows.len() > 5 << 20);
    for times in 1..=2 {
        let fed = feed(&plain, &format!("a;b\n{rows}"));
        let said = good(&["load", &dir, "t", &path], "");
        fed.join().unwrap();
        assert_eq!(said.contains("CREATE TABLE t"), times == 1, "{said}");
        let sums = csv(&dir, "SELECT count(*) AS n, sum(a) AS total FROM t");
        assert_eq!(sums, format!("n,total\n{},{}\n", times * 300_000, times * 45_000_150_000u64));
    }
    // The format is in its name, if it has one.
    let named = pipe(scratch.path(), "rows.ndjson");
    let fed = feed(&named, "\n{\"a\": 1}\n");
    good(&["load", &dir, "lines", &named.display().to_string()], "");
    fed.join().unwrap();
    assert_eq!(csv(&dir, "SELECT a FROM lines"), "a\n1\n");
    // COPY opens it once, and takes it as it is.
    let fed = feed(&plain, "7;seven\n");
    good(&["sql", &dir, "-c", &format!("COPY t FROM '{path}' (FORMAT csv, DELIMITER ';')")], "");
    fed.join().unwrap();
    assert_eq!(csv(&dir, "SELECT count(*) AS n FROM t"), "n\n600001\n");

    let fed = feed(&plain, "a,b\n1,2\n3\n");
    let refused = run(&["load", &dir, "none", &path], "");
    fed.join().unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains(&format!("{path}: standard input, line 3")), "{}", stderr(&refused));
    // What would have to open it twice opens it never.
    let copy = format!("COPY t FROM '{path}' (FORMAT");
    let file = file(scratch.path(), "a,b\n1,2\n");
    for (args, words) in [
        (vec!["load", &dir, "none", &path, &file, "--format", "csv"], "which gives its bytes once"),
        (vec!["sql", &dir, "-c", &format!("{copy} csv, BATCH_ROWS 5)")], "BATCH_ROWS is not supported from a pipe"),
        (vec!["sql", &dir, "-c", &format!("{copy} parquet)")], "Parquet cannot be read from a pipe"),
    ] {
        let refused = run(&args, "");
        assert_eq!(refused.status.code(), Some(1), "{args:?}");
        assert!(stderr(&refused).contains(words), "{args:?}: {}", stderr(&refused));
    }
    let tables = "SELECT count(*) AS n FROM alluvia.tables WHERE table_name = 'none'";
    assert_eq!(csv(&dir, tables), "n\n0\n");
}
