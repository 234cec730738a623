//! `memory_limit` bounds the process: whatever rows are inserted and merged, the memory that the process has had at most stays within the limit
//! and [`BESIDE_MB`]. Each in a server of its own, which is asked by the kernel's figure of it (`VmHWM`).

mod lists;
mod texts;

use super::remote::serve;
use super::{good, scratch};
use std::fmt::Write;

const LIMIT_MB: u64 = 256;
/// The program itself, stacks, buffers of connections.
const BESIDE_MB: u64 = 256;

/// Runs scripts one after the other at a server with so much memory, and looks at it after each.
fn within_limit(scripts: &[(&str, String)]) {
    let (_scratch, dir) = scratch();
    let limit = format!("memory_limit={LIMIT_MB}MB");
    let server = serve(&dir, "127.0.0.1:0", &[&limit]);
    for (what, sql) in scripts {
        good(&["sql", &server.url], sql);
        let peak = peak_mb(server.id());
        println!("{what}: a peak of {peak} MB");
        assert!(peak <= LIMIT_MB + BESIDE_MB, "{what}: a peak of {peak} MB");
    }
}

/// How many rows there are, unless the environment says otherwise.
fn rows_of(variable: &str, rows: u64) -> u64 {
    std::env::var(variable).map_or(rows, |rows| rows.parse().unwrap())
}

/// The most memory that a process has had.
fn peak_mb(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[test]
fn a_table_of_a_thousand_columns_is_within_the_limit() {
    let types = ["BIGINT", "DOUBLE", "TEXT"];
    let values = ["i", "i * 0.5", "'v' || (i % 100)"];
    let list = |of: &dyn Fn(usize) -> String| (0..1_000).map(of).collect::<Vec<_>>().join(", ");
    let columns = list(&|at| format!("c{at} {}", types[at % 3]));
    let values = list(&|at| values[at % 3].to_owned());
    let mut ingest = format!("CREATE TABLE wide (k BIGINT, d TEXT, {columns}) WITH (dimensions = 'd; k(k: hash)');\n");
    let rows = rows_of("ALLUVIA_TEST_ROWS", 30_000) / 5;
    for part in 0..5 {
        let (from, to) = (part * rows + 1, (part + 1) * rows);
        writeln!(
            ingest,
            "INSERT INTO wide SELECT i, 'p' || (i % 5000), {values} FROM generate_series({from}, {to}) g(i);"
        )
        .unwrap();
    }
    let ask = "SELECT count(*), sum(c0), max(c999), count(DISTINCT c2) FROM wide WHERE d < 'p2';".to_owned();
    within_limit(&[("ingest", ingest), ("a merge", "CALL alluvia.merge();".to_owned()), ("a query", ask)]);
}

#[test]
fn long_texts_are_within_the_limit() {
    let mut ingest = "CREATE TABLE long (k BIGINT, t TEXT) WITH (dimensions = 'k(k: hash)');\n".to_owned();
    for part in 0..5 {
        let (from, to) = (part * 1_000 + 1, (part + 1) * 1_000);
        let text = "repeat(md5(i::text), 3125)";
        writeln!(ingest, "INSERT INTO long SELECT i, {text} FROM generate_series({from}, {to}) g(i);").unwrap();
    }
    // Texts that compression does not shorten have a dictionary.
    let mut noise = "CREATE TABLE noise (k BIGINT, t TEXT) WITH (dimensions = 'k(k: hash)');\n".to_owned();
    for part in 0..5 {
        let (from, to) = (part * 200 + 1, (part + 1) * 200);
        let text = "string_agg(encode(decode(md5((k * 5000 + j)::text), 'hex'), 'base64'), '')";
        writeln!(
            noise,
            "INSERT INTO noise SELECT k, {text} FROM generate_series({from}, {to}) a(k), generate_series(1, 4166) b(j) GROUP BY k;"
        )
        .unwrap();
    }
    let merge = || "CALL alluvia.merge();".to_owned();
    within_limit(&[("ingest", ingest), ("a merge", merge()), ("noise", noise), ("its merge", merge())]);
}
