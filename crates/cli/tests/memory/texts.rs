//! Statements over texts of 100 kB: each is answered, or refused for its memory, within what the process may have. `ALLUVIA_TEST_TEXTS=5000`
//! takes more of them.

use super::super::remote::{Served, serve};
use super::super::{command, good, scratch};
use super::{BESIDE_MB, LIMIT_MB, peak_mb, rows_of};
use std::fmt::Write;
use std::process::Stdio;

/// Statements of a table `t` of texts `s`, which read all of them.
const STATEMENTS: [&str; 14] = [
    "SELECT max(length(s)), count(DISTINCT s) FROM t",
    "SELECT max(length(s)), min(s) FROM t",
    "SELECT count(*) FROM t WHERE s LIKE '%00000000%' OR length(s) < 5",
    "SELECT s FROM t ORDER BY s",
    "SELECT s FROM t ORDER BY k DESC LIMIT 2000",
    "SELECT k, length(s), row_number() OVER (ORDER BY s) FROM t",
    "SELECT upper(s) FROM t",
    "SELECT s || 'x', k FROM t WHERE k % 2 = 0",
    "SELECT * FROM t",
    "SELECT s, count(*) FROM t GROUP BY s",
    "SELECT a.k, length(b.s) FROM t a JOIN t b ON a.s = b.s AND a.k <> b.k",
    "SELECT length(string_agg(s, ',')) FROM t GROUP BY k % 100",
    "SELECT DISTINCT left(s, 10) FROM t",
    "SELECT k, s FROM t UNION ALL SELECT -k, lower(s) FROM t",
];

/// Runs a statement, and forgets its rows. It is answered, or refused for want of memory.
fn ask(server: &Served, sql: &str) -> bool {
    let mut command = command(&["sql", &server.url, "--format", "csv", "-c", sql]);
    let output = command.stdin(Stdio::null()).stdout(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || said.contains("needs more memory than it may have"), "{sql}: {said}");
    output.status.success()
}

/// Fills a table with texts, 50 by a statement, and looks at the server after each of the statements about it.
fn within_limit(text: &str, from: &str, is_merged: bool) {
    let (_scratch, dir) = scratch();
    let server = serve(&dir, "127.0.0.1:0", &[&format!("memory_limit={LIMIT_MB}MB")]);
    let mut fill = "CREATE TABLE t (k BIGINT, s TEXT) WITH (dimensions = 'k(k: hash)');\n".to_owned();
    for part in 0..rows_of("ALLUVIA_TEST_TEXTS", 1_000) / 50 {
        let (first, last) = (part * 50 + 1, (part + 1) * 50);
        writeln!(fill, "INSERT INTO t SELECT k, {text} FROM generate_series({first}, {last}) a(k){from};").unwrap();
    }
    if is_merged {
        fill.push_str("CALL alluvia.merge();");
    }
    good(&["sql", &server.url], &fill);
    println!("filled: a peak of {} MB", peak_mb(server.id()));
    for sql in STATEMENTS {
        let answered = ask(&server, sql);
        let peak = peak_mb(server.id());
        println!("{sql}: {}, a peak of {peak} MB", if answered { "answered" } else { "refused" });
        assert!(peak <= LIMIT_MB + BESIDE_MB, "{sql}: a peak of {peak} MB");
    }
}

#[test]
fn statements_over_long_texts_are_within_the_limit() {
    within_limit("repeat(md5(k::text), 3125)", "", false);
}

/// Of texts that compression does not shorten a row group is as long in its file.
#[test]
fn statements_over_long_texts_of_noise_are_within_the_limit() {
    let text = "string_agg(encode(decode(md5((k * 5000 + j)::text), 'hex'), 'base64'), '')";
    within_limit(text, ", generate_series(1, 4166) b(j) GROUP BY k", true);
}
