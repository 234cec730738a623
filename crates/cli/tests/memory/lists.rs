//! Lists in an order of their own, of a million texts: each statement is answered, or refused for its memory, within what the process may have.

use super::super::remote::serve;
use super::super::{run, scratch, stderr};
use super::{BESIDE_MB, LIMIT_MB, peak_mb, rows_of};

const LISTS: [(&str, &str); 4] = [
    ("array_agg(t ORDER BY i % 7919, i)", "GROUP BY i % 1000"),
    ("array_agg(t ORDER BY i)", "GROUP BY i"),
    ("array_agg(t ORDER BY t DESC)", ""),
    ("string_agg(t, ',' ORDER BY i DESC)", "GROUP BY i % 1000"),
];

#[test]
fn lists_in_an_order_are_within_the_limit() {
    let rows = rows_of("ALLUVIA_TEST_ROWS", 1_000_000);
    let texts =
        format!("SELECT i, 'a text that is as long as a line, ' || i AS t FROM generate_series(1, {rows}) s(i)");
    for (list, groups) in LISTS {
        let (_scratch, dir) = scratch();
        let server = serve(&dir, "127.0.0.1:0", &[&format!("memory_limit={LIMIT_MB}MB")]);
        let sql = format!("SELECT count(l) FROM (SELECT {list} AS l FROM ({texts}) t {groups}) l");
        let output = run(&["sql", &server.url, "-c", &sql], "");
        let (is_answered, said, peak) = (output.status.success(), stderr(&output), peak_mb(server.id()));
        assert!(is_answered || said.contains("needs more memory than it may have"), "{sql}: {said}");
        println!("{list} {groups}: {}, a peak of {peak} MB", if is_answered { "answered" } else { "refused" });
        assert!(peak <= LIMIT_MB + BESIDE_MB, "{sql}: a peak of {peak} MB");
    }
}
