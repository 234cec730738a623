//! `alluvia repair`: what it says, what it does once it is told to, and its exit codes.

use super::remote::serve;
use super::{contents, good, run, scratch, stderr, stdout};
use std::fs;
use std::path::{Path, PathBuf};

fn parquet(dir: &str) -> PathBuf {
    let mut found: Vec<PathBuf> =
        fs::read_dir(Path::new(dir).join("segments")).unwrap().map(|entry| entry.unwrap().path()).collect();
    found.retain(|path| path.to_string_lossy().ends_with(".parquet"));
    found.sort();
    found.remove(0)
}

#[test]
fn a_repair_says_what_is_lost_and_drops_it_only_if_told() {
    let (scratch, dir) = scratch();
    let output = run(&["repair", &dir], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("holds no Alluvia database"), "{}", stderr(&output));
    assert!(!Path::new(&dir).exists(), "nothing was made");
    assert_eq!(run(&["repair"], "").status.code(), Some(2));
    assert_eq!(run(&["repair", &dir, "--no"], "").status.code(), Some(2));

    let sql = "CREATE TABLE t (a BIGINT, b TEXT) WITH (dimensions = 'b', measures = 'a'); \
               INSERT INTO t SELECT value, 'text ' || value % 7 FROM generate_series(1, 2000); CALL alluvia.merge(); \
               CREATE TABLE u (a INT); INSERT INTO u VALUES (1)";
    good(&["sql", &dir, "-c", sql], "");
    for args in [vec!["repair", &dir], vec!["repair", &dir, "--yes"]] {
        let before = contents(scratch.path());
        assert!(good(&args, "").contains("nothing is damaged"), "{args:?}");
        assert!(contents(scratch.path()) == before, "{args:?} changes nothing");
    }
    {
        let _server = serve(&dir, "127.0.0.1:0", &[]);
        let output = run(&["repair", &dir, "--yes"], "");
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("is open in another process"), "{}", stderr(&output));
        assert!(stderr(&output).contains("forget_segment"), "{}", stderr(&output));
    }

    // A byte of the side file is another: whoever reads it is told so, once.
    let side = parquet(&dir).with_extension("side");
    let whole = fs::read(&side).unwrap();
    let mut bytes = whole.clone();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(&side, bytes).unwrap();
    let sum = ["sql", &dir, "--format", "csv", "-c", "SELECT sum(a) AS s FROM t WHERE b <> ''"];
    let output = run(&sum, "");
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stderr(&output).contains("run the statement again"), "{}", stderr(&output));
    assert_eq!(good(&sum, ""), "s\n2001000\n");
    assert!(fs::read(&side).unwrap() == whole, "it is the same file again");
    good(&["check", &dir], "");

    let lost = parquet(&dir);
    let bytes = fs::read(&lost).unwrap();
    fs::write(&lost, &bytes[..bytes.len() - 1]).unwrap();
    let before = contents(scratch.path());
    let output = run(&["repair", &dir], "");
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(
        said.contains("LOST: table 't' would lose segment") && said.contains("with 2000 rows of versions"),
        "{said}"
    );
    assert!(said.contains("nothing was changed"), "{said}");
    assert!(contents(scratch.path()) == before, "nothing is changed");
    assert!(run(&["sql", &dir, "-c", "SELECT count(*) FROM t"], "").status.code() == Some(1), "the table is closed");

    let said = good(&["repair", &dir, "--yes"], "");
    assert!(said.contains("LOST: table 't' has lost segment") && said.contains("done; run alluvia check"), "{said}");
    good(&["check", &dir], "");
    let counts = "SELECT (SELECT count(*) FROM t) AS t, (SELECT count(*) FROM u) AS u";
    assert_eq!(good(&["sql", &dir, "--format", "csv", "-c", counts], ""), "t,u\n0,1\n");
    good(&["sql", &dir, "-c", "INSERT INTO t VALUES (1, 'new'); CALL alluvia.merge()"], "");
    good(&["check", &dir], "");
}

#[test]
fn a_repair_puts_back_what_a_copy_has() {
    let (scratch, dir) = scratch();
    good(&["sql", &dir, "-c", "CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1), (2); CALL alluvia.merge()"], "");
    let copy = scratch.path().join("copy").display().to_string();
    let copied = std::process::Command::new("cp").args(["-a", &dir, &copy]).status().unwrap();
    assert!(copied.success());
    let lost = parquet(&dir);
    fs::remove_file(&lost).unwrap();
    let output = run(&["repair", &dir, "--from", &copy], "");
    let said = stdout(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("can be put back from") && said.contains("nothing was changed"), "{said}");
    assert!(!said.contains("LOST"), "{said}");
    let said = good(&["repair", &dir, "--from", &copy, "--yes"], "");
    assert!(said.contains("MENDED: table 't': ") && said.contains(" was put back from "), "{said}");
    good(&["check", &dir], "");
    assert_eq!(good(&["sql", &dir, "--format", "csv", "-c", "SELECT sum(a) AS s FROM t"], ""), "s\n3\n");
    let output = run(&["repair", &dir, "--from", &scratch.path().display().to_string()], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("holds no Alluvia database"), "{}", stderr(&output));
}
