//! Ctrl-C where no statement of the user's runs.

use super::{command, scratch};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Command;

#[test]
fn ctrl_c_ends_the_demo_and_removes_its_temporary_directory() {
    let (scratch, dir) = scratch();
    let tmp = scratch.path().join("tmp");
    fs::create_dir(&tmp).unwrap();
    // Before there are rows, and while they stream in; the directory that somebody named stays.
    for (until, named) in [("Alluvia demo: ", None), ("rows in ", None), ("rows in ", Some(dir.as_str()))] {
        let mut args = vec!["demo", "--seconds", "3600"];
        args.extend(named.iter().flat_map(|dir| ["--keep", *dir]));
        let mut child = command(&args).env("TMPDIR", &tmp).spawn().unwrap();
        // Kept to the end: whose output nobody takes stops.
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut said = String::new();
        while !said.contains(until) {
            assert!(output.read_line(&mut said).unwrap() > 0, "the demo ended: {said}");
        }
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
        assert_eq!(fs::read_dir(&tmp).unwrap().count(), 0, "{said}");
    }
    assert!(scratch.path().join("db").is_dir());
}
