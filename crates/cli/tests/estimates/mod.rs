//! Estimates in tables: each value with what it may be off, in a directory and at a server.

use super::remote::serve;
use super::{good, run, scratch, stderr, stdout};

const ROWS: &str = "CREATE TABLE many (k TEXT, g TEXT, n BIGINT) WITH (dimensions = 'k', measures = 'n'); \
    INSERT INTO many SELECT 'k' || (value * 7919 % 1000), 'g' || value % 3, value % 100 FROM generate_series(1, 700000); \
    CALL alluvia.merge()";
const ESTIMATE: &str = "SET cuboids = off; SET max_error = 0.1; SELECT count(*), sum(n) FROM many WHERE k < 'k7'";

/// The numbers of a line such as `| 469,000 ± 1.2 % | 23,216,000 ± 1.3 % |`: values and percentages.
fn figures(line: &str) -> Vec<(f64, f64)> {
    let number = |text: &str| text.replace(',', "").trim().parse::<f64>().unwrap();
    let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().strip_suffix(" %").unwrap());
    cells.map(|cell| cell.split_once(" \u{b1} ").map(|(value, off)| (number(value), number(off))).unwrap()).collect()
}

#[test]
fn an_estimate_is_shown_with_what_it_may_be_off() {
    let (_scratch, dir) = scratch();
    good(&["sql", &dir, "-c", ROWS], "");
    let exact = good(&["sql", &dir, "--format", "csv", "-c", "SELECT count(*), sum(n) FROM many WHERE k < 'k7'"], "");
    let exact: Vec<f64> = exact.lines().nth(1).unwrap().split(',').map(|value| value.parse().unwrap()).collect();
    let holds = |place: &str| {
        let shown = good(&["sql", place, "-c", ESTIMATE], "");
        let note = "(1 row, estimates: each within its \u{b1}";
        assert!(shown.lines().any(|line| line.starts_with(note)), "{place}: {shown}");
        let line = shown.lines().find(|line| line.contains('\u{b1}') && line.starts_with('|')).unwrap();
        for ((value, off), exact) in figures(line).into_iter().zip(&exact) {
            assert!(off > 0.0 && off <= 12.0, "{place}: {line}");
            assert!((value - exact).abs() <= value * off / 100.0, "{place}: {line} of {exact}");
        }
        // Other forms have numbers, and what is exact is shown as ever.
        let plain = good(&["sql", place, "--format", "csv", "-c", ESTIMATE], "");
        assert!(!plain.contains('\u{b1}') && plain.lines().count() == 2, "{place}: {plain}");
        let one = good(&["sql", place, "-c", "SET max_error = 0.1", "-c", "SELECT max(n) FROM many"], "");
        assert!(one.contains("| 99  |") && one.ends_with("(1 row)\n"), "{place}: {one}");
    };
    // Bounds that nobody asked for are not there, and it is said whose word it takes.
    let marked = |place: &str| {
        let sql = ESTIMATE.replace("SELECT", "SET error_action = 'mark'; SELECT");
        let shown = good(&["sql", place, "-c", &sql], "");
        assert!(
            !shown.contains('\u{b1}') && shown.contains("(1 row, estimates: lower_bound(...) and "),
            "{place}: {shown}"
        );
    };
    holds(&dir);
    marked(&dir);
    let server = serve(&dir, "127.0.0.1:0", &[]);
    holds(&server.url);
    marked(&server.url);
}

#[test]
fn a_progressive_statement_that_is_not_refined_says_so() {
    let (_scratch, dir) = scratch();
    let said = |sql: &str| {
        let output =
            run(&["sql", &dir, "--progressive", "-c", "CREATE TABLE IF NOT EXISTS t (a BIGINT)", "-c", sql], "");
        assert!(output.status.success() && stdout(&output).ends_with("(1 row)\n"), "{}", stdout(&output));
        stderr(&output)
    };
    let note = "NOTICE: nothing here is refined: this is the answer";
    for sql in ["SELECT count(*) FROM t", "SELECT 1 AS a"] {
        let said = said(sql);
        assert!(said.contains(note), "{sql}: {said}");
    }
}
