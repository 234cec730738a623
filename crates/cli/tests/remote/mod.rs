//! The shell at a server: the same scripts give the same as in a directory, and what cannot be is refused by name.

mod load;

use super::{ROWS, command, good, run, scratch, stderr, stdout};
use arrow::ipc::reader::StreamReader;
use arrow::util::pretty::pretty_format_batches;
use std::io::{BufRead, BufReader, Cursor};
use std::process::{Child, ChildStdout, Command, Output};

/// A server that ends with this.
pub struct Served {
    child: Child,
    /// Kept to the end: a server whose output nobody takes stops.
    _output: BufReader<ChildStdout>,
    /// Where it speaks Flight SQL.
    pub url: String,
    pub said: String,
}

impl Served {
    /// Of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server of a directory.
pub fn serve(dir: &str, listen: &str, settings: &[&str]) -> Served {
    let mut args = vec!["serve", dir, "--listen", "127.0.0.1:0", "--http-listen", "off", "--flight-listen", listen];
    settings.iter().for_each(|setting| args.extend(["--set", setting]));
    ready(command(&args).spawn().unwrap())
}

/// Waits until a server says that it is ready.
pub fn ready(mut child: Child) -> Served {
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut said = String::new();
    while !said.lines().any(|line| line.starts_with("  psql ")) {
        assert!(output.read_line(&mut said).unwrap() > 0, "the server ended: {said}");
    }
    let line = said.lines().find(|line| line.contains("Flight SQL")).unwrap();
    let url = line.split(" on ").nth(1).unwrap().trim().to_owned();
    Served { child, _output: output, url, said }
}

const ANYWHERE: &str = "127.0.0.1:0";

/// What a run gave: exit code, standard output, standard error.
fn told(output: &Output) -> (Option<i32>, String, String) {
    // A directory is created, and a server is not.
    let said = stderr(output);
    let said = said.split_inclusive('\n').filter(|line| !line.starts_with("NOTICE: created ")).collect();
    (output.status.code(), stdout(output), said)
}

/// Waits until a query gives this as CSV.
fn becomes(server: &Served, sql: &str, wanted: &str) {
    let mut found = String::new();
    for _ in 0..300 {
        found = good(&["sql", &server.url, "--format", "csv", "-c", sql], "");
        if found == wanted {
            return;
        }
    }
    panic!("{sql} gives {found}, and not {wanted}");
}

const SCRIPT: &str = "-- a comment;\n\\format csv\n\
    CREATE TABLE t (a INT, b TEXT, c DECIMAL(10, 2), d DATE, e TIMESTAMP);\n\
    INSERT INTO t VALUES (1, 'one\n\\format json\r\nline', 1.5, '2026-11-21', '2026-11-21 10:11:12.345678'), (2, NULL, NULL, NULL, NULL);\n\
    SELECT * FROM t ORDER BY a;\n\\format json\nSELECT * FROM t ORDER BY a;\n\\format table\nSELECT * FROM t ORDER BY a;\n\
    \\dv\n\\d t\nSHOW CREATE TABLE t;\n\
    BEGIN;\nINSERT INTO t (a) VALUES (3);\nSELECT count(*) FROM t;\nROLLBACK;\nSELECT count(*) FROM t;\n\
    BEGIN;\nINSERT INTO t (a) VALUES (3), (4);\nCOMMIT;\nSELECT sum(a) FROM t;\n\
    SET freshness = '5s';\nSHOW freshness;\nRESET freshness;\nSELECT a FROM t WHERE false;\n\
    DROP TABLE IF EXISTS gone;\nEXPLAIN SELECT 1;\n\\progressive\nSHOW progressive;\nSELECT 7 AS n;\n\\progressive\n\
    SELECT value FROM generate_series(1, 12000) WHERE value > 1000 ORDER BY value;\n\\q\nSELECT nonsense;\n";

#[test]
fn a_script_gives_the_same_in_a_directory_and_at_a_server() {
    let ((_one, dir), (_other, served)) = (scratch(), scratch());
    let server = serve(&served, ANYWHERE, &[]);
    let place = server.url.strip_prefix("grpc://").unwrap();
    let here = run(&["sql", &dir], SCRIPT);
    assert_eq!(here.status.code(), Some(0), "{}", stderr(&here));
    assert!(stdout(&here).contains("(11000 rows, 1000 of them not shown") && stderr(&here).contains("NOTICE: "));
    assert_eq!(told(&run(&["sql", "--host", place], SCRIPT)), told(&here));
    // Other ways to say the same.
    for args in [["sql", "--host", &server.url], ["sql", &server.url, "--timing"]] {
        let output = run(&args, "\\format csv\nSELECT sum(a) AS n FROM t;\n");
        assert_eq!(stdout(&output), "n\n10\n", "{args:?}: {}", stderr(&output));
    }
    let named = server.url.replace("grpc://", "grpc://ada@");
    let user = "SELECT user_name FROM alluvia.sessions WHERE sql LIKE '%user_name%'";
    assert_eq!(good(&["sql", &named, "--format", "csv", "-c", user], ""), "user_name\nada\n");
    // What a run began is gone with it.
    let open = "SELECT count(*) AS n FROM alluvia.sessions WHERE protocol = 'flight'";
    good(&["sql", &named, "-c", "BEGIN; INSERT INTO t (a) VALUES (100)"], "");
    becomes(&server, open, "n\n1\n");
    becomes(&server, "SELECT max(a) AS a FROM t", "a\n4\n");
}

#[test]
fn moments_are_shown_in_the_zone_of_the_session() {
    const AT: &str = "SELECT '2026-07-01 00:00Z'::timestamptz AS at";
    let ((_one, dir), (_other, served)) = (scratch(), scratch());
    let server = serve(&served, ANYWHERE, &[]);
    let script = format!(
        "\\format csv\n{AT};\nSET timezone = 'Europe/Berlin';\n{AT};\n\\format json\n{AT};\n\\format table\n{AT};\n\
         \\format csv\nBEGIN;\nSET LOCAL timezone = 'Asia/Kolkata';\n{AT};\nROLLBACK;\n{AT};\n\
         SELECT set_config('timezone', 'UTC', false) AS now;\n{AT};\n"
    );
    let here = good(&["sql", &dir], &script);
    let csv = "at\n2026-07-01 00:00:00+00\nat\n2026-07-01 02:00:00+02\n{\"at\":\"2026-07-01T02:00:00+02:00\"}\n";
    assert!(here.starts_with(csv) && here.contains("| 2026-07-01 02:00:00+02 |"), "{here}");
    let rest = "at\n2026-07-01 05:30:00+05:30\nat\n2026-07-01 02:00:00+02\nnow\nUTC\nat\n2026-07-01 00:00:00+00\n";
    assert!(here.ends_with(rest), "{here}");
    assert_eq!(good(&["sql", &server.url], &script), here);
}

#[test]
fn binary_forms_hold_the_same_rows() {
    let ((_one, dir), (_other, served)) = (scratch(), scratch());
    let server = serve(&served, ANYWHERE, &[]);
    let shown = |place: &str| {
        let output = run(&["sql", place, "--format", "arrow", "-c", "SELECT * FROM t ORDER BY a"], "");
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let batches: Vec<_> =
            StreamReader::try_new(Cursor::new(&output.stdout), None).unwrap().map(|batch| batch.unwrap()).collect();
        pretty_format_batches(&batches).unwrap().to_string()
    };
    for place in [&dir, &server.url] {
        good(&["sql", place, "-c", ROWS], "");
        let parquet = run(&["sql", place, "--format", "parquet", "-c", "SELECT * FROM t"], "");
        assert!(parquet.stdout.starts_with(b"PAR1") && parquet.stdout.ends_with(b"PAR1"));
    }
    assert_eq!(shown(&server.url), shown(&dir));
}

#[test]
fn errors_are_the_same_and_end_a_run_alike() {
    let ((_one, dir), (_other, served)) = (scratch(), scratch());
    let server = serve(&served, ANYWHERE, &[]);
    for place in [&dir, &server.url] {
        good(&["sql", place, "-c", "CREATE TABLE places (country TEXT)"], "");
    }
    for script in [
        "SELECT 1 AS n;\nSELECT cuontry FROM places;\nSELECT 2;\n",
        "\\format csv\nSELECT 1;\nSELECT\n  1 one more;\n",
        "SELECT 1; SELEC 2;",
        "\\nonsense\n",
        "SELECT * FROM nowhere;\n",
        "CREATE TABLE places (a INT);\n",
        "CREATE UNIQUE INDEX i ON places (lower(a));\n",
        "BEGIN;\nSELEC 1;\nSELECT 1;\n",
        "SELECT 10 / (150000 - value) AS x FROM generate_series(1, 1000000);\n",
        "COPY places FROM STDIN;\n",
        "\\copy places FROM STDIN\n",
        "\\copy places FROM 'no such file.csv'\n",
        "\\copy nowhere FROM 'no such file.csv'\n",
        "\\copy places FROM bare.csv\n",
        "\\copy places FROM 'a.csv' (FORMAT nonsense)\n",
        "\\copy (SELECT nothing FROM places) TO 'never.csv'\n",
        "\\copy places FROM 'a.csv'; SELECT 1\n",
    ] {
        let here = run(&["sql", &dir], script);
        assert_eq!(here.status.code(), Some(1), "{script}");
        assert_eq!(told(&run(&["sql", &server.url], script)), told(&here), "{script}");
    }
}

#[test]
fn what_cannot_be_at_a_server_is_refused_by_name() {
    let (scratch, dir) = scratch();
    let server = serve(&dir, ANYWHERE, &[]);
    let (url, other) = (server.url.as_str(), scratch.path().join("other"));
    let other_dir = other.to_str().unwrap();
    good(&["sql", url, "-c", "CREATE TABLE t (a INT)"], "");
    for (args, code, wrong) in [
        (
            vec!["sql", url, "-c", "\\copy t FROM 'https://h.org/a.csv?key=secret'"],
            1,
            "read here: https://h.org/a.csv\n",
        ),
        (vec!["sql", url, "--threads", "2"], 1, "--threads is of a database that is opened here"),
        (vec!["sql", url, "--tls-ca", "none.pem"], 1, "--tls-ca is given, and grpc:// is without TLS"),
        (vec!["sql", other_dir, "--user", "ada", "-c", "SELECT 1"], 1, "--user and --tls-ca are of a server"),
        (vec!["sql", "postgresql://localhost", "-c", "SELECT 1"], 1, "postgresql:// is no scheme of this command"),
        (vec!["sql", "--host", "127.0.0.1:1", "-c", "SELECT 1"], 1, "there is no connection to 127.0.0.1:1"),
        (vec!["sql", "x", "--host", "127.0.0.1:1"], 2, "--host"),
        (vec!["load", url, "t", "rows.csv", "--threads", "2"], 1, "--threads is of a database that is opened here"),
        (vec!["load", other_dir, "t", "rows.csv", "--user", "ada"], 1, "--user and --tls-ca are of a server"),
        (vec!["load", "--host", url, "t"], 2, "a table and a file are wanted"),
        (vec!["load", url, "t"], 2, "a table and a file are wanted"),
        (vec!["verify", url, "SELECT 1"], 1, "is a server, and a data directory is wanted here"),
    ] {
        let output = run(&args, "");
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(wrong), "{args:?}: {}", stderr(&output));
    }
    assert!(!other.exists());
}

#[test]
fn files_that_copy_names_are_the_servers() {
    let (scratch, dir) = scratch();
    let roots = format!("copy_roots={}", scratch.path().display());
    let server = serve(&dir, ANYWHERE, &[&roots]);
    let file = scratch.path().join("rows.csv");
    std::fs::write(&file, "a\n1\n2\n").unwrap();
    let copy = format!("COPY t FROM '{}'", file.display());
    let output = run(&["sql", &server.url, "-c", "CREATE TABLE t (a INT)", "-c", &copy, "-c", &copy], "");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("COPY 2"), "{}", stdout(&output));
    assert_eq!(
        stderr(&output).matches("NOTICE: files that COPY names are those of the server at 127.0.0.1:").count(),
        1
    );
    let output = run(&["sql", &server.url, "-c", "COPY t FROM '/etc/hostname' (FORMAT csv)"], "");
    assert!(output.status.code() == Some(1) && stderr(&output).contains("copy_roots"), "{}", stderr(&output));
}

#[test]
fn a_progressive_query_at_a_server_gives_a_pipe_its_answer_alone() {
    let (_scratch, dir) = scratch();
    let server = serve(&dir, ANYWHERE, &[]);
    let rows = "CREATE TABLE many (k TEXT, n BIGINT) WITH (dimensions = 'k', measures = 'n'); \
        INSERT INTO many SELECT 'k' || (value * 7919 % 1000), value % 100 FROM generate_series(1, 700000); CALL alluvia.merge()";
    good(&["sql", &server.url, "-c", rows], "");
    let sql = "SET cuboids = off; SELECT count(*), sum(n) FROM many WHERE k < 'k7'; SELECT 1 AS a";
    for format in ["csv", "table"] {
        let plain = good(&["sql", &server.url, "--format", format, "-c", sql], "");
        assert_eq!(good(&["sql", &server.url, "--format", format, "--progressive", "-c", sql], ""), plain);
        let switched = format!("SET progressive = on; {sql}");
        let tag = if format == "table" { "SET\n" } else { "" };
        assert_eq!(good(&["sql", &server.url, "--format", format, "-c", &switched], ""), format!("{tag}{plain}"));
    }
}

#[test]
fn ctrl_c_stops_a_statement_at_its_server() {
    let (_scratch, dir) = scratch();
    let server = serve(&dir, ANYWHERE, &[]);
    let running =
        "SELECT count(*) AS n FROM alluvia.sessions WHERE sql LIKE '%777777777777%' AND sql NOT LIKE '%sessions%'";
    for options in [&[][..], &["--progressive"]] {
        let mut args = vec!["sql", server.url.as_str(), "-c", "SELECT count(*) FROM generate_series(1, 777777777777)"];
        args.extend(options);
        let mut child = command(&args).spawn().unwrap();
        becomes(&server, running, "n\n1\n");
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        let pid = child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert!(stderr(&output).contains("cancel"), "{}", stderr(&output));
        becomes(&server, running, "n\n0\n");
    }
}

#[test]
fn who_connects_shows_a_password() {
    let (_scratch, dir) = scratch();
    let server = serve(&dir, ANYWHERE, &["authentication=password"]);
    let password = server.said.split("shown this once: ").nth(1).unwrap().split_whitespace().next().unwrap();
    let ask = |password: &str, options: &[&str]| {
        let mut args = vec!["sql", server.url.as_str(), "--format", "csv", "-c", "SELECT 1 AS a"];
        args.extend(options);
        let output = command(&args).env("ALLUVIA_PASSWORD", password).output().unwrap();
        (output.status.code(), stdout(&output))
    };
    assert_eq!(ask(password, &["--user", "alluvia"]), (Some(0), "a\n1\n".to_owned()));
    assert_eq!(ask("wrong", &["--user", "alluvia"]), (Some(1), String::new()));
    assert_eq!(ask(password, &[]), (Some(1), String::new()), "nobody is named");
}
