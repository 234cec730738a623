//! Files of this machine at a server: `alluvia load`, `\copy` and COPY with standard streams do there what they do in a directory.

use super::{ANYWHERE, Served, becomes, serve, told};
use crate::{command, good, run, scratch, stderr, stdout};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Output};

/// What a load gave, without how long it took.
fn lines(output: &Output) -> (Option<i32>, Vec<String>, String) {
    let (code, out, err) = told(output);
    let timeless = |line: &str| {
        [" in ", " after "].iter().fold(line, |line, word| line.split(word).next().unwrap_or(line)).to_owned()
    };
    (code, out.lines().map(timeless).collect(), err)
}

fn csv(place: &str, sql: &str) -> String {
    good(&["sql", place, "--format", "csv", "-c", sql], "")
}

/// Files of all formats, with the same 1,000 rows each.
fn files(folder: &Path, dir: &str) -> Vec<String> {
    let rows = "SELECT value AS a, CASE WHEN value % 7 > 0 THEN 'text, ' || value END AS b, value / 4.0 AS c FROM generate_series(1, 1000)";
    let names = ["r.csv", "r.csv.gz", "r.ndjson", "r.ndjson.zst", "r.parquet", "r.arrow"];
    let paths = names.map(|name| folder.join(name).display().to_string());
    for path in &paths {
        good(&["sql", dir, "-c", &format!("\\copy ({rows} ORDER BY value) TO '{path}'")], "");
    }
    paths.to_vec()
}

#[test]
fn a_load_is_the_same_in_a_directory_and_at_a_server() {
    let ((one, dir), (_other, served)) = (scratch(), scratch());
    let server = serve(&served, ANYWHERE, &[]);
    let at = |name: &str| one.path().join(name).display().to_string();
    let formats = files(one.path(), &dir);
    for (name, text) in [
        ("semicolons.csv", "Id;Note\n1;one\n2;\"t;wo\"\n"),
        ("one.csv", "a,b\n1,x\n2,y\n"),
        ("two.csv", "a,b\n3,z\n4,\n"),
        ("bad.csv", "a,b\n5,x\nsix,y\n7,z\n8,z,z\n"),
        ("others.csv", "a,c\n1,2\n"),
        ("empty.csv", ""),
    ] {
        fs::write(at(name), text).unwrap();
    }
    let (semicolons, pair, bad) = (at("semicolons.csv"), at("[ot][nw][eo].csv"), at("bad.csv"));
    let (one_file, two_file, others, empty, missing) =
        (at("one.csv"), at("two.csv"), at("others.csv"), at("empty.csv"), at("none.csv"));
    let mut loads: Vec<(Vec<&str>, &str)> = formats.iter().map(|path| (vec!["formats", path.as_str()], "")).collect();
    loads.extend([
        (vec!["notes", &semicolons, "--dimensions", "n(note)", "--merge"], ""),
        (vec!["pair", &pair], ""),
        (vec!["pair", &two_file, &one_file], ""),
        (vec!["pair", "-"], "a,b\n9,piped\n"),
        (vec!["piped", "-"], "{\"a\": 1}\n{\"a\": 2.5}\n"),
        (vec!["pair", &bad], ""),
        (vec!["pair", &bad, "--on-error", "skip"], ""),
        (vec!["pair", "-", "--on-error", "skip"], "a,b\n1,2\n"),
        (vec!["pair", "-"], "a,b\n1,x\n\"2,y\n"),
        (vec!["new", &bad], ""),
        (vec!["pair", &others], ""),
        (vec!["pair", &empty], ""),
        (vec!["pair", &missing], ""),
        (vec!["pair", &one_file, "--curve", "z"], ""),
        (vec!["pair", "-", "--batch-rows", "5"], "a,b\n1,x\n"),
        (vec!["batches", &formats[0], "--batch-rows", "300", "--dimensions", "b"], ""),
        (vec!["batches", &formats[0], "--batch-rows", "300", "--dimensions", "b"], ""),
        (vec!["Batches", &formats[0], "--batch-rows", "300"], ""),
        (vec!["alluvia.tables", &formats[0]], ""),
        (vec!["pair", &bad, "--batch-rows", "1"], ""),
        (vec!["pair", &bad, "--batch-rows", "1", "--on-error", "skip"], ""),
    ]);
    let rejects = at("bad.csv.rejects");
    for (args, input) in loads {
        let mut found = Vec::new();
        for place in [dir.as_str(), server.url.as_str()] {
            let output = run(&[&["load", place][..], &args[..]].concat(), input);
            let rejected = fs::read_to_string(&rejects).ok();
            let _ = fs::remove_file(&rejects);
            found.push((lines(&output), rejected));
        }
        assert_eq!(found[0], found[1], "{args:?}");
    }
    for sql in [
        "SELECT table_name FROM alluvia.tables ORDER BY 1",
        "SELECT count(*) AS n, count(b) AS b, sum(a) AS a, sum(c) AS c FROM formats",
        "SELECT * FROM notes ORDER BY id",
        "SELECT * FROM pair ORDER BY a, b",
        "SELECT count(*) AS n, sum(a) AS a FROM batches",
        "SHOW CREATE TABLE notes",
    ] {
        assert_eq!(csv(&server.url, sql), csv(&dir, sql), "{sql}");
    }
    let counted = csv(&server.url, "SELECT count(*) AS n, sum(a) AS a FROM formats");
    assert_eq!(counted, "n,a\n6000,3003000\n");
    // As an option, too.
    let place = server.url.strip_prefix("grpc://").unwrap();
    assert!(good(&["load", "--host", place, "pair", &one_file], "").starts_with("COPY 2 in "));
}

#[test]
fn files_and_streams_of_this_machine_are_copied_alike() {
    let ((one, dir), (_other, served)) = (scratch(), scratch());
    let server = serve(&served, ANYWHERE, &[]);
    let at = |name: &str| one.path().join(name).display().to_string();
    fs::write(at("rows.csv"), "1,one\n2,\"t;\\copy o\"\n").unwrap();
    fs::write(at("swapped.csv"), "b,a\nthree,3\n").unwrap();
    let script = format!(
        "CREATE TABLE t (a INT, b TEXT);\n\\copy t FROM '{rows}'\n\\copy t (b, a) FROM '{swapped}' (HEADER true);\n\
         BEGIN;\n\\copy t FROM '{rows}'\nSELECT count(*) FROM t;\nROLLBACK;\nSELECT count(*) FROM t;\n\
         \\copy (SELECT a, b FROM t WHERE (a) < 3 ORDER BY a) TO '{out}'\n\\copy t TO '{parquet}'\n\
         COPY (SELECT b, a FROM t ORDER BY a -- )\n) TO STDOUT (FORMAT ndjson);\n\\format csv\nSELECT * FROM t ORDER BY a;\n",
        rows = at("rows.csv"),
        swapped = at("swapped.csv"),
        out = at("out.csv"),
        parquet = at("out.parquet"),
    );
    let mut found = Vec::new();
    for place in [&dir, &server.url] {
        let output = run(&["sql", place], &script);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let copied = fs::read_to_string(at("out.csv")).unwrap();
        let parquet = csv(
            &dir,
            &format!(
                "CREATE TABLE IF NOT EXISTS p (a INT, b TEXT); COPY p FROM '{}'; SELECT count(*) AS n FROM p",
                at("out.parquet")
            ),
        );
        found.push((told(&output), copied, parquet.lines().last().map(str::to_owned)));
        fs::remove_file(at("out.csv")).unwrap();
        fs::remove_file(at("out.parquet")).unwrap();
    }
    assert_eq!((&found[0].0, &found[0].1), (&found[1].0, &found[1].1));
    assert_eq!((found[0].2.as_deref(), found[1].2.as_deref()), (Some("3"), Some("6")));
    // Rows of a pipe, and for one.
    for (statement, input) in [
        ("COPY t FROM STDIN", "4,four\n5,\n"),
        ("\\copy t (a) FROM STDIN (FORMAT ndjson)", "{\"a\": 6}\n"),
        ("COPY t FROM STDIN", "7,seven\neight,8\n"),
        ("COPY t FROM STDIN (ON_ERROR skip)", "7,seven\n"),
        ("COPY (SELECT a, b FROM t ORDER BY a) TO STDOUT", ""),
        ("\\copy (SELECT a, b FROM t ORDER BY a) TO STDOUT (FORMAT ndjson)", ""),
        ("COPY (SELECT 1 / 0 AS a) TO STDOUT", ""),
    ] {
        let of = |place: &str| told(&run(&["sql", place, "--format", "csv", "-c", statement], input));
        assert_eq!(of(&server.url), of(&dir), "{statement}");
    }
    assert_eq!(csv(&server.url, "SELECT count(*) AS n, sum(a) AS a FROM t"), "n,a\n7,28\n");
}

#[test]
fn what_is_copied_to_a_file_is_never_estimated() {
    let (scratch, dir) = scratch();
    let rows = "CREATE TABLE sales (city TEXT, item TEXT, shelf TEXT, a BIGINT NOT NULL, b BIGINT NOT NULL, c BIGINT NOT NULL) \
        WITH (dimensions = 'city; item; shelf', measures = 'a, b, c'); \
        INSERT INTO sales SELECT 'city ' || (value * 104729 / 7 % 200), 'item ' || (value * 7919 % 300), \
        'shelf ' || (value * 31 / 11 % 700), value * 13 % 5000, value * 17 % 3000, value * 19 % 7000 FROM generate_series(1, 1200000); \
        CALL alluvia.merge()";
    good(&["sql", &dir, "-c", rows], "");
    let items: Vec<String> = (0..150).map(|item| format!("'item {item}'")).collect();
    let sums = "SELECT count(*) AS n, sum(a) AS a, sum(b) AS b, sum(c) AS c FROM sales";
    let sql = format!("{sums} WHERE item IN ({})", items.join(", "));
    let exact = csv(&dir, &sql);
    let file = scratch.path().join("out.csv");
    let copied = |place: &str, setting: &str| {
        let script = format!("SET cuboids = off;\nSET {setting};\n\\copy ({sql}) TO '{}'\n", file.display());
        let output = run(&["sql", place], &script);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let copied = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        (told(&output), copied)
    };
    let settings = ["max_error = 0.2", "sample_fraction = 0.25"];
    let here = settings.map(|setting| copied(&dir, setting));
    let server = serve(&dir, ANYWHERE, &[]);
    // It would be estimated if it were shown.
    let plan = csv(&server.url, &format!("SET cuboids = off; SET max_error = 0.2; EXPLAIN ANALYZE VERBOSE {sql}"));
    assert!(plan.contains("interval: look "), "{plan}");
    assert_eq!(settings.map(|setting| copied(&server.url, setting)), here);
    assert_eq!(here[0].1, exact);
    assert_ne!(here[1].1, exact, "a part of the rows was asked for");
}

/// A load from a pipe, of which the server has taken rows, and its open pipe.
fn under_way(server: &Served) -> (Child, ChildStdin) {
    good(&["sql", &server.url, "-c", "CREATE TABLE IF NOT EXISTS t (a BIGINT, b TEXT)"], "");
    let mut child = command(&["load", &server.url, "t", "-", "--format", "csv"]).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let rows: String = (0..600_000).map(|row| format!("{row},text {row}\n")).collect();
    pipe.write_all(rows.as_bytes()).unwrap();
    becomes(server, RUNNING, "n\n1\n");
    (child, pipe)
}

const RUNNING: &str =
    "SELECT count(*) AS n FROM alluvia.sessions WHERE sql LIKE '%rows from a program%' AND sql NOT LIKE '%sessions%'";

#[test]
fn what_is_broken_off_applies_nothing() {
    let (_scratch, dir) = scratch();
    let server = serve(&dir, ANYWHERE, &[]);
    // Whoever sends the rows is gone.
    let (mut child, _pipe) = under_way(&server);
    child.kill().unwrap();
    child.wait().unwrap();
    becomes(&server, RUNNING, "n\n0\n");
    assert_eq!(csv(&server.url, "SELECT count(*) AS n FROM t"), "n\n0\n");
    // Ctrl-C.
    let (child, _pipe) = under_way(&server);
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stderr(&output).contains("cancel"), "{}", stderr(&output));
    becomes(&server, RUNNING, "n\n0\n");
    assert_eq!(csv(&server.url, "SELECT count(*) AS n FROM t"), "n\n0\n");
    // The server is gone.
    let (child, pipe) = under_way(&server);
    drop((server, pipe));
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stderr(&output).contains("connection"), "{}", stderr(&output));
    assert_eq!(csv(&dir, "SELECT count(*) AS n FROM t"), "n\n0\n");
}

#[test]
fn a_load_in_batches_that_is_stopped_tells_what_stays() {
    let (scratch, dir) = scratch();
    let server = serve(&dir, ANYWHERE, &[]);
    good(&["sql", &server.url, "-c", "CREATE TABLE t (a BIGINT)"], "");
    let file = scratch.path().join("rows.csv");
    let rows: String = (0..200_000).map(|row| format!("{row}\n")).collect();
    fs::write(&file, format!("a\n{rows}")).unwrap();
    let file = file.display().to_string();
    let child = command(&["load", &server.url, "t", &file, "--batch-rows", "1"]).spawn().unwrap();
    becomes(&server, "SELECT CASE WHEN count(*) > 0 THEN 1 ELSE 0 END AS n FROM t", "n\n1\n");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stderr(&output).contains("the same command loads the rest"), "{}", stderr(&output));
}

#[test]
fn who_may_not_insert_loads_nothing() {
    let (scratch, dir) = scratch();
    let server = serve(&dir, ANYWHERE, &[]);
    let file = scratch.path().join("rows.csv");
    fs::write(&file, "a\n1\n2\n").unwrap();
    let file = file.display().to_string();
    let roles = "CREATE TABLE t (a BIGINT); CREATE ROLE ada LOGIN; GRANT SELECT ON t TO ada";
    good(&["sql", &server.url, "-c", roles], "");
    let load = |table: &str, file: &str, input: &str| {
        let output = run(&["load", &server.url, "--user", "ada", table, file], input);
        (output.status.code(), stderr(&output))
    };
    for (table, file) in [("t", file.as_str()), ("t", "-"), ("new", file.as_str())] {
        let (code, said) = load(table, file, "");
        assert!(code == Some(1) && said.contains("permission denied"), "{table} {file}: {said}");
    }
    assert_eq!(csv(&server.url, "SELECT count(*) AS n FROM t"), "n\n0\n");
    good(&["sql", &server.url, "-c", "GRANT INSERT ON t TO ada"], "");
    assert_eq!(load("t", &file, "").0, Some(0));
    assert_eq!(csv(&server.url, "SELECT count(*) AS n FROM t"), "n\n2\n");
}

#[test]
fn rows_say_what_they_do_in_a_directory_and_at_a_server() {
    let ((one, dir), (_other, served)) = (scratch(), scratch());
    let server = serve(&served, ANYWHERE, &[]);
    let at = |name: &str| one.path().join(name).display().to_string();
    for (name, text) in [
        ("first.csv", "id,a,b\n1,1,x\n2,2,y\n3,3,z\n"),
        ("again.csv", "id,a,b\n2,20,yy\n"),
        ("patch.ndjson", "{\"id\": 1, \"b\": \"xx\"}\n{\"id\": 2, \"a\": 21}\n{\"id\": 1, \"a\": null}\n"),
        (
            "mixed.ndjson",
            "{\"_op\": \"delete\", \"id\": 3}\n{\"id\": 4, \"b\": \"w\"}\n{\"_op\": \"patch\", \"id\": 4, \"a\": 4}\n",
        ),
        ("mixed.csv", "_op,id,a\npatch,2,22\nupsert,5,5\n"),
        ("bad.csv", "_op,id,a\nmerge,2,22\n"),
    ] {
        fs::write(at(name), text).unwrap();
    }
    for place in [&dir, &server.url] {
        good(&["sql", place, "-c", "CREATE TABLE k (id BIGINT PRIMARY KEY, a INT, b TEXT)"], "");
        good(&["sql", place, "-c", "CREATE TABLE plain (id BIGINT, a INT, b TEXT)"], "");
    }
    let file = |name: &str| at(name);
    let (first, again, patch) = (file("first.csv"), file("again.csv"), file("patch.ndjson"));
    let (mixed, mixed_csv, bad) = (file("mixed.ndjson"), file("mixed.csv"), file("bad.csv"));
    let loads: [(Vec<&str>, bool); 9] = [
        (vec!["k", &first], true),
        (vec!["k", &again], false),
        (vec!["k", &again, "--on-conflict", "replace"], true),
        (vec!["k", &patch, "--op", "patch"], true),
        (vec!["k", &mixed], true),
        (vec!["k", &mixed_csv, "--batch-rows", "1"], true),
        (vec!["k", &bad], false),
        (vec!["plain", &again, "--on-conflict", "replace"], false),
        (vec!["none", &again, "--on-conflict", "replace"], false),
    ];
    for (args, is_good) in loads {
        for place in [dir.as_str(), server.url.as_str()] {
            let output = run(&[&["load", place][..], &args[..]].concat(), "");
            assert_eq!(output.status.success(), is_good, "{args:?} {place}: {}", stderr(&output));
        }
        let all = "SELECT * FROM k ORDER BY id";
        assert_eq!(csv(&server.url, all), csv(&dir, all), "{args:?}");
    }
    assert_eq!(csv(&dir, "SELECT * FROM k ORDER BY id"), "id,a,b\n1,,xx\n2,22,yy\n4,4,w\n5,5,\n");
}
