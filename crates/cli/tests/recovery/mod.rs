//! What a start says after a crash, and that it says nothing after a clean stop.

use super::remote::serve;
use super::{good, run, scratch, stderr, stdout};

#[test]
fn a_start_after_a_crash_says_what_was_recovered() {
    let (_scratch, dir) = scratch();
    let told = |dir: &str| {
        let output = run(&["sql", dir, "--format", "csv", "-c", "SELECT count(*) AS n FROM t"], "");
        assert_eq!(stdout(&output), "n\n5\n", "{}", stderr(&output));
        stderr(&output)
    };
    {
        let server = serve(&dir, "127.0.0.1:0", &[]);
        let sql = "CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1), (2); INSERT INTO t VALUES (3), (4), (5)";
        good(&["sql", &server.url, "-c", sql], "");
        // Dropped, it is killed.
    }
    let said = told(&dir);
    let notice = "NOTICE: the last process had not stopped cleanly: recovered in ";
    assert!(said.contains(notice) && said.contains("s, 3 batches with 5 rows read again from the log"), "{said}");
    assert!(said.contains("everything through version 3 is there"), "{said}");
    assert_eq!(told(&dir), "", "it has stopped cleanly since");
}
