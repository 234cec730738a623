//! The command line as users meet it: processes, pipes, exit codes.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

mod ctrl_c;
mod estimates;
mod exports;
mod loads;
mod memory;
mod nodes;
mod recovery;
mod remote;
mod repair;
mod shell;
mod tour;

use alluvia_node::Database;
use alluvia_snapshot::{Admin, Memo};
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use arrow::ipc::reader::StreamReader;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Cursor, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_alluvia"));
    command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs it to its end with this as standard input.
fn run(args: &[&str], input: impl AsRef<[u8]>) -> Output {
    let mut child = command(args).spawn().unwrap();
    // Who does not read its input may be gone already.
    let _ = child.stdin.take().unwrap().write_all(input.as_ref());
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs it, which must go well; gives its standard output.
fn good(args: &[&str], input: impl AsRef<[u8]>) -> String {
    let output = run(args, input);
    assert_eq!(output.status.code(), Some(0), "{args:?}\n{}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

/// A folder, and the data directory in it.
fn scratch() -> (TempDir, String) {
    let scratch = tempfile::tempdir().unwrap();
    let dir = scratch.path().join("db").display().to_string();
    (scratch, dir)
}

/// Rows of three types, with NULLs and text that needs care.
const ROWS: &str = "CREATE TABLE t (a BIGINT, b TEXT, c DOUBLE); \
     INSERT INTO t VALUES (1, 'one', 0.5), (2, 'two, \"quoted\"', 1e300), (3, NULL, NULL), (4, 'ü' || chr(10) || 'x', -2.25)";

#[test]
fn a_pipe_runs_what_has_come_before_more_comes() {
    let (_scratch, dir) = scratch();
    let mut child = command(&["sql", &dir, "--format", "csv"]).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let mut answers = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut answer = || answers.next().unwrap().unwrap();
    pipe.write_all(b"CREATE TABLE t (a BIGINT);\nINSERT INTO t VALUES (1);\nSELECT count(*) AS n\nFROM t;\n").unwrap();
    assert_eq!([answer(), answer()], ["n", "1"]);
    // A statement that has begun waits for its end, a transaction is no reason to wait.
    pipe.write_all(b"BEGIN;\nINSERT INTO t VALUES (2);\nSELECT count(*) AS m").unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    pipe.write_all(b" FROM t;\n").unwrap();
    assert_eq!([answer(), answer()], ["m", "2"]);
    pipe.write_all(b"COMMIT;\n\\timing on\nSELECT nope;\nSELECT 3;\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("statement 8 (SELECT nope): there is no column nope"), "{}", stderr(&output));
    assert_eq!(good(&["sql", &dir, "--format", "csv"], "SELECT count(*) AS n FROM t"), "n\n2\n");
}

#[test]
fn an_error_in_a_script_says_which_statement_it_is() {
    let (scratch, dir) = scratch();
    let script = scratch.path().join("bad.sql");
    std::fs::write(&script, "SELECT 1;\n\nSELECT 'x'::int;\n").unwrap();
    let output = run(&["sql", &dir, "-f", script.to_str().unwrap()], "");
    let wanted = "bad.sql: statement 2 (SELECT 'x'::int): cannot cast string 'x'";
    assert!(stderr(&output).contains(wanted), "{}", stderr(&output));
    let long = format!("SELECT 1;\nCREATE ROLE ada PASSWORD 'secret';\nSELECT nope AS {};", "x".repeat(100));
    let output = run(&["sql", &dir], &long);
    let wanted = format!("error: statement 3 (SELECT nope AS {} ...): there is no column nope", "x".repeat(45));
    assert!(stderr(&output).contains(&wanted), "{}", stderr(&output));
    let output = run(&["sql", &dir], "CREATE ROLE ada PASSWORD 'secret';");
    assert!(stderr(&output).contains("statement 1 (CREATE ROLE ada") && !stderr(&output).contains("secret"));
    let output = run(&["sql", &dir, "-c", "SELECT nope"], "");
    assert!(stderr(&output).starts_with("error: there is no column nope"), "{}", stderr(&output));
}

#[test]
fn statements_of_c_are_run_in_order_and_the_first_error_ends_them() {
    let (_scratch, dir) = scratch();
    good(&["sql", &dir, "-c", ROWS], "");
    assert_eq!(
        good(&["sql", &dir, "--format", "csv", "-c", "SELECT a FROM t ORDER BY a; SELECT 7 AS n"], ""),
        "a\n1\n2\n3\n4\nn\n7\n"
    );
    let output =
        run(&["sql", &dir, "--format", "csv", "-c", "SELECT 1 AS n", "-c", "SELECT nope FROM t", "-c", "SELECT 2"], "");
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), "n\n1\n"));
    assert!(stderr(&output).contains("error: there is no column nope"), "{}", stderr(&output));
    assert_eq!(run(&["sql"], "").status.code(), Some(2), "the command line is wrong");
}

#[test]
fn a_pipe_runs_statements_and_commands_in_the_order_in_which_they_stand() {
    let (_scratch, dir) = scratch();
    let script = "-- a comment;\n\\format csv\nCREATE TABLE t (a INT, b TEXT);\n\
                  INSERT INTO t VALUES (1, 'one\n\\format json\r\nline');\n\
                  SELECT a, length(b) AS n FROM t;\n  \\format json\r\nSELECT a FROM t;\n\\q\nSELECT nonsense;\n\\nonsense\n";
    assert_eq!(good(&["sql", &dir], script), "a,n\n1,22\n{\"a\":1}\n", "the literal is as it was written");
    let output = run(&["sql", &dir], "SELECT 1;\n\\nonsense\nSELECT 2;\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(stdout(&output).contains("1 row") && !stdout(&output).contains("| 2"), "{}", stdout(&output));
    let output = run(&["sql", &dir], "\\format csv\nSELECT 1;\nSELECT\n  1 one more;\n");
    assert!(stderr(&output).contains("ine: 4"), "errors name the line of the script: {}", stderr(&output));
}

#[test]
fn rows_for_a_copy_come_from_standard_input_unless_it_is_the_script() {
    let (_scratch, dir) = scratch();
    good(&["sql", &dir, "-c", "CREATE TABLE t (a INT, b TEXT)"], "");
    let copied = good(&["sql", &dir, "-c", "COPY t FROM STDIN"], "1,one\n2,two\n");
    assert!(copied.contains("COPY 2"), "{copied}");
    let output = run(&["sql", &dir], "COPY t FROM STDIN;\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("standard input is the script"), "{}", stderr(&output));
    assert_eq!(good(&["sql", &dir, "--format", "csv", "-c", "SELECT count(*) AS n FROM t"], ""), "n\n2\n");
    assert_eq!(good(&["sql", &dir, "--format", "json", "-c", "COPY t TO STDOUT"], ""), "a,b\n1,one\n2,two\n");
}

#[test]
fn every_format_is_read_back() {
    let (scratch, dir) = scratch();
    good(&["sql", &dir, "-c", ROWS], "");
    for (format, name) in [("csv", "rows.csv"), ("json", "rows.ndjson"), ("parquet", "rows.parquet")] {
        let output = run(&["sql", &dir, "--format", format, "-c", "SELECT * FROM t ORDER BY a"], "");
        assert_eq!(output.status.code(), Some(0), "{format}: {}", stderr(&output));
        let file = scratch.path().join(name);
        fs::write(&file, &output.stdout).unwrap();
        let table = format!("from_{format}");
        good(&["load", &dir, &table, &file.display().to_string()], "");
        let differing = format!(
            "SELECT (SELECT count(*) FROM {table}) AS n, \
             (SELECT count(*) FROM (SELECT * FROM t EXCEPT SELECT * FROM {table}) AS lost) AS lost"
        );
        assert_eq!(good(&["sql", &dir, "--format", "csv", "-c", &differing], ""), "n,lost\n4,0\n", "{format}");
    }
    let output = run(&["sql", &dir, "--format", "arrow", "-c", "SELECT a FROM t ORDER BY a"], "");
    let batches: Vec<_> =
        StreamReader::try_new(Cursor::new(&output.stdout), None).unwrap().map(|batch| batch.unwrap()).collect();
    let values: Vec<i64> =
        batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
    assert_eq!(values, [1, 2, 3, 4]);
}

#[test]
fn a_load_in_batches_that_is_run_again_loads_nothing_twice() {
    let (scratch, dir) = scratch();
    let file = scratch.path().join("rows.csv");
    let rows: String = (0..1_000).map(|row| format!("{row},text {row}\n")).collect();
    fs::write(&file, format!("a,b\n{rows}")).unwrap();
    let file = file.display().to_string();
    good(&["sql", &dir, "-c", "CREATE TABLE t (a BIGINT, b TEXT)"], "");
    for _ in 0..2 {
        good(&["load", &dir, "t", &file, "--batch-rows", "100"], "");
        let found =
            good(&["sql", &dir, "--format", "csv", "-c", "SELECT count(*) AS n, count(DISTINCT a) AS d FROM t"], "");
        assert_eq!(found, "n,d\n1000,1000\n");
    }
}

#[test]
fn a_table_is_made_of_what_standard_input_holds() {
    let (_scratch, dir) = scratch();
    let sql = |sql: &str| good(&["sql", &dir, "--format", "csv", "-c", sql], "");
    let columns = |table: &str| {
        sql(&format!("SELECT column_name, data_type FROM alluvia.columns WHERE table_name = '{table}' ORDER BY 1"))
    };
    // More than is looked at, and loaded whole; then again, into the table that is there.
    let rows: String = (1..=300_000).map(|row| format!("{row};text {row}\n")).collect();
    assert!(rows.len() > 5 << 20);
    for times in 1..=2 {
        let said = good(&["load", &dir, "piped", "-"], format!("Id;Note\n{rows}"));
        assert_eq!(said.contains("CREATE TABLE piped"), times == 1, "{said}");
        let sums = sql("SELECT count(*) AS n, sum(id) AS total FROM piped");
        assert_eq!(sums, format!("n,total\n{},{}\n", times * 300_000, times * 45_000_150_000u64));
    }
    assert_eq!(columns("piped"), "column_name,data_type\nid,BIGINT\nnote,TEXT\n");

    // Other formats, told by their first bytes, or stated.
    let lines = "{\"a\": 1, \"b\": \"x\"}\n{\"a\": 2.5}\n";
    good(&["load", &dir, "lines", "-", "--measures", "a"], lines);
    good(&["load", &dir, "lines", "-"], lines);
    assert_eq!(sql("SELECT count(*) AS n, CAST(sum(a) AS BIGINT) AS total FROM lines"), "n,total\n4,7\n");
    good(&["load", &dir, "stated", "-", "--format", "ndjson"], lines);
    assert_eq!(columns("stated"), "column_name,data_type\na,DOUBLE\nb,TEXT\n");
    let arrow = run(&["sql", &dir, "--format", "arrow", "-c", "SELECT a, b FROM stated ORDER BY a"], "").stdout;
    good(&["load", &dir, "arrows", "-"], arrow);
    assert_eq!(sql("SELECT CAST(a * 2 AS BIGINT) AS twice, b FROM arrows ORDER BY a"), "twice,b\n2,x\n5,\n");

    // What cannot be is refused, and leaves no table.
    for (args, input, wrong) in [
        (vec!["load", &dir, "none", "-"], "", "standard input holds nothing to infer columns from"),
        (
            vec!["load", &dir, "none", "-", "--format", "ndjson"],
            "{\"a\" 1}",
            "standard input: not JSON: expected a colon at character 6",
        ),
        (vec!["load", &dir, "none", "-"], "PAR1\u{0}\u{0}", "Parquet cannot be read from standard input"),
        (vec!["load", &dir, "none", "-", "--format", "text"], "1\tx\n", "hint:  create the table first"),
        (
            vec!["load", &dir, "none", "-", "--batch-rows", "5"],
            "a\n1\n",
            "BATCH_ROWS is not supported from standard input",
        ),
        (vec!["load", &dir, "none", "-"], "a,b\n1,2\n3\n", "line 3"),
        (vec!["load", &dir, "piped", "-", "--curve", "z"], "a\n1\n", "--curve is for new tables"),
        (
            vec!["load", &dir, "none", "-", "--ladder", "1/3"],
            "a\n1\n",
            "ladder is the thickest rung: '1/2', '1/4' or '1/8'",
        ),
    ] {
        let output = run(&args, input);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(stderr(&output).contains(wrong), "{args:?}: {}", stderr(&output));
        assert_eq!(columns("none"), "column_name,data_type\n");
    }
}

/// Every file below a folder with its bytes.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn check_makes_nothing_and_tells_damage_by_its_exit_code() {
    let (scratch, dir) = scratch();
    let output = run(&["check", &dir], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("holds no Alluvia database"), "{}", stderr(&output));
    assert!(!Path::new(&dir).exists(), "nothing was made");

    let rows = "CREATE TABLE t (a BIGINT, b TEXT) WITH (dimensions = 'b', measures = 'a'); \
                INSERT INTO t SELECT value, 'text ' || value % 7 FROM generate_series(1, 20000); CALL alluvia.merge(); \
                INSERT INTO t VALUES (0, 'in the log')";
    good(&["sql", &dir, "-c", rows], "");
    let before = contents(scratch.path());
    assert!(good(&["check", &dir], "").contains("every checksum and invariant holds"));
    assert!(contents(scratch.path()) == before, "a check changes nothing");

    let stray = Path::new(&dir).join("segments/seg-999.parquet");
    fs::write(&stray, "of an interrupted run").unwrap();
    let said = good(&["check", &dir], "");
    assert!(said.contains("notice: ") && said.contains("seg-999.parquet is named by nothing"), "{said}");
    fs::remove_file(&stray).unwrap();

    let segments: Vec<&PathBuf> = before.keys().filter(|path| path.to_string_lossy().contains("/segments/")).collect();
    assert!(segments.len() >= 2, "{segments:?}");
    for path in &segments {
        let mut bytes = before[*path].clone();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 0x10;
        fs::write(path, bytes).unwrap();
        let output = run(&["check", &dir], "");
        assert_eq!(output.status.code(), Some(3), "{}\n{}", stdout(&output), stderr(&output));
        assert!(stdout(&output).contains("DAMAGED: ") && stdout(&output).contains("1 findings"), "{}", stdout(&output));
        fs::write(path, &before[*path]).unwrap();
    }

    // What already opening would meet: a short segment, a damaged log, a damaged manifest. All are listed at once.
    let log = before.keys().find(|path| path.to_string_lossy().ends_with(".log")).unwrap();
    let (short, whole) = (segments[0], &before[segments[0]]);
    fs::write(short, &whole[..whole.len() - 1]).unwrap();
    let mut bytes = before[log].clone();
    bytes[70] ^= 1;
    fs::write(log, bytes).unwrap();
    let output = run(&["check", &dir], "");
    assert_eq!((output.status.code(), stdout(&output).contains("2 findings")), (Some(3), true), "{}", stdout(&output));
    let manifest = Path::new(&dir).join("manifest");
    let mut bytes = before[&manifest].clone();
    bytes[30] ^= 1;
    fs::write(&manifest, bytes).unwrap();
    assert_eq!(run(&["check", &dir], "").status.code(), Some(3));
    fs::remove_file(&manifest).unwrap();
    assert_eq!(run(&["check", &dir], "").status.code(), Some(3), "files that a manifest must have named are there");
}

#[test]
fn a_directory_that_cannot_be_opened_is_left_alone_and_the_error_says_what_to_do() {
    let (scratch, dir) = scratch();
    let refused = |dir: &str, told: &[&str]| {
        for args in [["sql", dir, "-c", "SELECT 1"].as_slice(), &["check", dir]] {
            let output = run(args, "");
            assert_eq!(output.status.code(), Some(1), "{args:?}: {}", stderr(&output));
            let said = stderr(&output);
            let wanted = if args[0] == "check" { &told[told.len() - 2..] } else { &told[..2] };
            assert!(wanted.iter().all(|part| said.contains(part)), "{args:?}: {wanted:?} in {said}");
        }
    };
    let nothing_to_check = ["holds no Alluvia database", "hint:  name a data directory; a check makes none"];
    let file = scratch.path().join("rows.csv");
    fs::write(&file, "a,b\n").unwrap();
    let what_to_do = "hint:  name a data directory; it is made if it does not exist";
    let told = ["rows.csv is there, and is no directory", what_to_do, nothing_to_check[0], nothing_to_check[1]];
    refused(&file.display().to_string(), &told);
    let told = ["db cannot be a directory", what_to_do, nothing_to_check[0], nothing_to_check[1]];
    refused(&file.join("db").display().to_string(), &told);
    assert_eq!(fs::read(&file).unwrap(), b"a,b\n");

    // One that a later version has written: its manifest is whole, and of a form that is not known here.
    let db = Database::open(&dir).unwrap();
    db.core().memorise(&Memo { name: "manifest", magic: b"ALVMAN99" }, b"of the future").unwrap();
    drop(db);
    let before = contents(scratch.path());
    refused(&dir, &["manifest is of format version 99", "hint:  open it with the version of Alluvia that wrote it"]);
    assert!(contents(scratch.path()) == before, "nothing was changed");

    // Root may read and write everything.
    let locked = scratch.path().join("locked");
    fs::create_dir(&locked).unwrap();
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o500)).unwrap();
    if fs::write(locked.join("probe"), "").is_err() {
        let (inside, denied) =
            (locked.join("db").display().to_string(), ["Permission denied", "hint:  run it as the user"]);
        refused(&inside, &[denied[0], denied[1], nothing_to_check[0], nothing_to_check[1]]);
    }
}

#[test]
fn one_process_at_a_time_has_the_directory() {
    let (_scratch, dir) = scratch();
    let db = Database::open(&dir).unwrap();
    for args in [vec!["sql", &dir, "-c", "SELECT 1"], vec!["check", &dir]] {
        let output = run(&args, "");
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(stderr(&output).contains("is open in another process"), "{}", stderr(&output));
    }
    drop(db);
    good(&["sql", &dir, "-c", "SELECT 1"], "");
}

#[test]
fn a_closed_standard_output_is_no_panic() {
    let (_scratch, dir) = scratch();
    good(&["sql", &dir, "-c", "CREATE TABLE t (a INT)"], "");
    let many = "SELECT value, 'some text ' || value AS b FROM generate_series(1, 300000)";
    for format in ["table", "csv", "json", "arrow", "parquet"] {
        let mut child = command(&["sql", &dir, "--format", format, "-c", many]).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(141), ""), "{format}");
    }
    let copy = format!("COPY ({many}) TO STDOUT");
    for args in [
        vec!["check", &dir],
        vec!["sql", &dir, "-c", "\\?\n\\timing\nSHOW ALL"],
        vec!["sql", &dir, "-c", &copy],
        vec!["demo", "--seconds", "1"],
    ] {
        let mut child = command(&args).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(141), ""), "{args:?}");
    }
}

#[test]
fn a_closed_standard_error_changes_nothing() {
    let (scratch, dir) = scratch();
    let file = scratch.path().join("rows.csv");
    fs::write(&file, "a\n1\n2\n").unwrap();
    let file = file.display().to_string();
    good(&["load", &dir, "t", &file, "--batch-rows", "1"], "");
    for (args, code, said) in [
        (vec!["sql", &dir, "--format", "csv", "--timing", "-c", "SELECT 1 AS n", "-c", "SELECT nope"], 1, "n\n1\n"),
        (
            vec!["sql", &dir, "--format", "csv", "-c", "CREATE TABLE IF NOT EXISTS t (a INT); SELECT 1 AS n"],
            0,
            "n\n1\n",
        ),
        (vec!["load", &dir, "t", &file, "--batch-rows", "1", "--curve", "z"], 0, "COPY 0"),
        (vec!["sql", &dir, "-c", "SELECT 1", "--memory-limit", "much"], 1, ""),
    ] {
        let mut child = command(&args).spawn().unwrap();
        drop(child.stderr.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stdout(&output));
        assert!(stdout(&output).contains(said), "{args:?}: {}", stdout(&output));
    }
}

#[test]
fn a_pipe_gets_the_answer_of_a_progressive_query_alone() {
    let (_scratch, dir) = scratch();
    let rows = "CREATE TABLE many (k TEXT, n BIGINT) WITH (dimensions = 'k', measures = 'n'); \
        INSERT INTO many SELECT 'k' || (value * 7919 % 1000), value % 100 FROM generate_series(1, 700000); CALL alluvia.merge()";
    good(&["sql", &dir, "-c", rows], "");
    let sql = "SET cuboids = off; SELECT count(*), sum(n) FROM many WHERE k < 'k7'; SELECT 1 AS a";
    for format in ["csv", "table"] {
        let plain = good(&["sql", &dir, "--format", format, "-c", sql], "");
        assert_eq!(good(&["sql", &dir, "--format", format, "--progressive", "-c", sql], ""), plain);
        let switched = format!("SET progressive = on; {sql}");
        let tag = if format == "table" { "SET\n" } else { "" };
        assert_eq!(good(&["sql", &dir, "--format", format, "-c", &switched], ""), format!("{tag}{plain}"));
    }
    let switched = good(&["sql", &dir], "\\progressive\nSHOW progressive;\n\\progressive\n");
    assert!(switched.contains("Progressive answers are on.") && switched.contains("are off."), "{switched}");
}

#[test]
fn cancel_ends_what_a_session_of_a_server_runs() {
    let (_scratch, dir) = scratch();
    let mut server = command(&["serve", &dir, "--listen", "127.0.0.1:0", "--http-listen", "off"]).spawn().unwrap();
    // Kept to the end: a server whose output nobody takes stops.
    let mut output = BufReader::new(server.stdout.take().unwrap());
    let mut said = String::new();
    output.read_line(&mut said).unwrap();
    let address = said.split(" clients on ").nth(1).unwrap().trim().to_owned();
    let port = address.rsplit(':').next().unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let (id, running) = runtime.block_on(async {
        let target = format!("host=127.0.0.1 port={port} user=alluvia dbname=alluvia");
        let (client, connection) = tokio_postgres::connect(&target, tokio_postgres::NoTls).await.unwrap();
        tokio::spawn(connection);
        let own = "SELECT session_id FROM alluvia.sessions WHERE state = 'active'";
        let id: i64 = client.query_one(own, &[]).await.unwrap().get(0);
        let endless = async move {
            client.batch_execute("SELECT count(*) FROM generate_series(1, 1000000000000)").await.unwrap_err()
        };
        (id.to_string(), tokio::spawn(endless))
    });
    // Until the statement runs there is nothing to cancel.
    let mut cancelled = run(&["cancel", &id, "--server", &address], "");
    while stderr(&cancelled).contains("runs nothing") {
        cancelled = run(&["cancel", &id, "--server", &address], "");
    }
    assert_eq!(cancelled.status.code(), Some(0), "{}", stderr(&cancelled));
    let error = runtime.block_on(running).unwrap();
    assert_eq!(error.code().unwrap().code(), "57014");
    for (args, wrong) in [
        (vec!["cancel", "4000000000", "--server", &address], "session 4000000000 is not open"),
        (vec!["cancel", &id, "--server", "127.0.0.1:1"], "there is no connection to 127.0.0.1:1"),
        (vec!["cancel", &id, "--server", "nowhere"], "is no address of a server"),
        (vec!["cancel", &id, "--server", &address, "--tls-ca", "no such file"], "no such file"),
    ] {
        let refused = run(&args, "");
        assert_eq!(refused.status.code(), Some(1), "{args:?}");
        assert!(stderr(&refused).contains(wrong), "{args:?}: {}", stderr(&refused));
    }
    server.kill().unwrap();
    server.wait().unwrap();
    drop(output);
}

#[test]
fn settings_that_no_server_starts_with_are_refused_alike_and_make_nothing() {
    let (_scratch, dir) = scratch();
    for (setting, words) in [
        ("idle_timout=5s", "did you mean idle_timeout"),
        ("idle_timeout=soon", "idle_timeout cannot be 'soon'"),
        ("memory_limit=1MB", "128MB are the least"),
        ("memory_limit=much", "memory_limit: 'much' is no size"),
        ("authentication=maybe", "it is trust or password"),
        ("http_listen=nowhere", "http_listen cannot be 'nowhere'"),
        ("listen=0.0.0.0:0", "listen: 0.0.0.0:0 can be reached from other machines"),
        ("tls_key=key.pem", "TLS needs both"),
        ("otlp_share=2", "otlp_share cannot be '2'"),
        ("copy_hosts=a b", "copy_hosts"),
    ] {
        let shown = run(&["config", "--set", setting], "");
        let served = run(&["serve", &dir, "--set", setting], "");
        assert_eq!((shown.status.code(), served.status.code()), (Some(1), Some(1)), "{setting}");
        assert!(stderr(&served).contains(words), "{setting}: {}", stderr(&served));
        assert_eq!(stderr(&shown), stderr(&served), "{setting}");
        assert!(served.stdout.is_empty() && !Path::new(&dir).exists(), "{setting}");
    }
    let shown = good(&["config", "--set", "idle_timeout=7s"], "");
    assert!(shown.lines().any(|line| line.starts_with("idle_timeout ") && line.contains("7s")), "{shown}");
}

#[test]
fn a_start_that_is_refused_makes_no_first_password() {
    let (_scratch, dir) = scratch();
    let start = |address: &str| {
        let mut args = vec!["serve", dir.as_str(), "--listen", "127.0.0.1:0", "--http-listen", "off"];
        args.extend(["--flight-listen", address, "--set", "authentication=password"]);
        run(&args, "")
    };
    let refused = start("0.0.0.0:0");
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("flight_listen: 0.0.0.0:0 can be reached"), "{}", stderr(&refused));
    assert!(refused.stdout.is_empty() && !Path::new(&dir).exists());
    // That a port is taken shows when the database is open.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let refused = start(&taken.local_addr().unwrap().to_string());
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("flight_listen: cannot listen on"), "{}", stderr(&refused));
    assert!(refused.stdout.is_empty() && !Path::new(&dir).join("passwords").exists());
}

#[test]
fn what_would_stand_beside_a_file_is_refused_before_anything_runs() {
    let (scratch, dir) = scratch();
    good(&["sql", &dir, "-c", ROWS], "");
    let two = "INSERT INTO t (a) VALUES (9);\nSELECT a FROM t;\nSHOW TABLES;\n";
    let file = scratch.path().join("two.sql").display().to_string();
    fs::write(&file, two).unwrap();
    for form in ["parquet", "arrow"] {
        for (rest, input) in [
            (vec!["-c", two], ""),
            (vec!["-c", "INSERT INTO t (a) VALUES (9); SELECT a FROM t", "-c", "SELECT 7 AS n"], ""),
            (vec!["-f", file.as_str()], ""),
            (vec![], two),
            (vec![], "INSERT INTO t (a) VALUES (9);\nSELECT a FROM t;\n\\d t\n"),
        ] {
            let refused = run(&[&["sql", dir.as_str(), "--format", form][..], &rest[..]].concat(), input);
            assert_eq!(refused.status.code(), Some(1), "{rest:?}");
            assert!(refused.stdout.is_empty() && stderr(&refused).contains("is a whole file"), "{}", stderr(&refused));
        }
        let one = run(&["sql", &dir, "--format", form, "-c", "SET cuboids = off; SELECT a FROM t"], "");
        assert!(one.status.success() && !one.stdout.is_empty(), "{}", stderr(&one));
    }
    assert_eq!(good(&["sql", &dir, "--format", "csv", "-c", "SELECT count(*) AS n FROM t"], ""), "n\n4\n");
    // What is known only on the way is refused there.
    let mixed = run(&["sql", &dir, "--format", "csv"], "SELECT 1 AS n;\n\\format parquet\nSELECT 2 AS n;\n");
    assert_eq!((mixed.status.code(), stdout(&mixed).as_str()), (Some(1), "n\n1\n"), "{}", stderr(&mixed));
}
