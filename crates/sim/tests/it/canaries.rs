//! Planted bugs: each is switched on in a process of its own, which runs one test, and that must fail. What it proves is
//! that the tests look where such bugs would be.
//!
//! To plant one: `if planted("horizon too far") { ... }` with `alluvia_types::planted`, at the place where the mistake
//! would be made, and an entry in the list of the folder whose test finds it. `make canaries` prints all lists.
#![cfg(feature = "planted")]

use alluvia_types::PLANTED_VARIABLE;
use std::process::Command;

/// A planted bug.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// By which it is switched on.
    pub name: &'static str,
    /// What it does.
    pub does: &'static str,
    /// The test that finds it.
    pub found_by: &'static str,
}

/// Short for the lists.
pub const fn bug(name: &'static str, does: &'static str, found_by: &'static str) -> Bug {
    Bug { name, does, found_by }
}

/// Runs a test with a bug, in a process of its own. Returns whether it found it.
fn is_found(bug: &Bug) -> bool {
    let program = std::env::current_exe().expect("a test knows its program");
    let output = Command::new(program)
        .args(["--exact", bug.found_by])
        .env(PLANTED_VARIABLE, bug.name)
        .env_remove("ALLUVIA_TEST_SEED")
        .env_remove("ALLUVIA_TEST_SECONDS")
        .output()
        .expect("the tests run again");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("running 1 test"), "there is no test {}:\n{said}", bug.found_by);
    !output.status.success()
}

/// Says of each bug which test finds it, and fails if one is found by nobody.
pub fn find_all(bugs: &[Bug]) {
    let mut missed = Vec::new();
    for bug in bugs {
        let Bug { name, does, found_by } = *bug;
        match is_found(bug) {
            true => println!("canary: {name} | {does} | {found_by}"),
            false => {
                println!("canary: {name} | {does} | NOT FOUND by {found_by}");
                missed.push(name);
            }
        }
    }
    assert!(missed.is_empty(), "these bugs are planted, and found by nobody: {missed:?}");
}
