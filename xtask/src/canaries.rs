//! `make canaries`: every planted bug, what it does, and the test that finds it.
//!
//! The lists are those of the tests (`planted.rs` in the folders of `crates/sim/tests/it`), which run once with each
//! bug and say a line of each; a bug that no test finds fails them, and this.

use crate::CHECKED;
use crate::run::{cargo, die};

/// How a line about a bug begins.
const MARK: &str = "canary: ";
/// How what it says of the test begins where that missed it.
const MISSED: &str = "NOT FOUND";

/// Runs the tests of planted bugs; ends this process if one bug is not found.
pub fn run() {
    let tests = ["test", "--workspace", "--test", "it"];
    let (said, are_passed) = cargo(&[tests.as_slice(), CHECKED, &["--", "--nocapture", "planted::"]].concat()).said();
    // Tests that run side by side may share a line.
    let bugs: Vec<Vec<&str>> = said
        .lines()
        .flat_map(|line| line.split(MARK).skip(1))
        .map(|bug| bug.splitn(3, " | ").map(str::trim).collect())
        .collect();
    let found = |bug: &&Vec<&str>| bug.last().is_some_and(|by| !by.starts_with(MISSED));
    for bug in &bugs {
        let [name, does, by] = bug[..] else { die(&format!("a line about a bug has other parts: {bug:?}")) };
        println!("{name}: {does}\n    {by}");
    }
    let count = bugs.iter().filter(found).count();
    println!("{count} of {}", bugs.len());
    if count < bugs.len() || !are_passed || bugs.is_empty() {
        die("a planted bug is found by no test");
    }
}
