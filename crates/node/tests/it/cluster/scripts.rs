//! The scripts of SQL's behaviour, on several machines: each holds as it does in one process, but for those that say why not.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::slt::{run, scripts};
use alluvia_node::DatabaseOptions;
use alluvia_node::cluster::Within;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a gateway tells of is its own: segments, blocks and the index are of workers.
const SEGMENTS: &str = "shows segments, blocks or plans over them";

/// Rows of several machines are not looked at together.
const CONSTRAINTS: &str = "UNIQUE and foreign keys are refused";

/// Scripts that do not hold, by the name of their file, and why.
const NOT_YET: &[(&str, &str)] = &[
    ("alter_columns", "UNIQUE, foreign keys, and whatever changes rows in ALTER TABLE, are refused"),
    ("by_key", SEGMENTS),
    ("constraints", CONSTRAINTS),
    ("copied_parents", CONSTRAINTS),
    ("foreign_keys", CONSTRAINTS),
    ("freshness", SEGMENTS),
    ("index", SEGMENTS),
    ("insert", "rows that tie come in another order"),
    ("own_changes", "a transaction that changes a definition and rows by key"),
    ("predicates", SEGMENTS),
    ("procedures", "nobody locks rows"),
    ("purge", "a purge is not built"),
    ("retyped", "another type of a key is refused"),
    ("row_locks", "transactions read one version, and nobody locks rows"),
    ("samples", SEGMENTS),
    ("settings", "freshness 'merged' gives what is newer"),
    ("unique", CONSTRAINTS),
    ("transactions_definitions", "what another gateway has defined is told by COMMIT, and up to 20 ms later by others"),
];

#[test]
fn scripts_hold_on_several_machines() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    let only = std::env::var("ALLUVIA_TEST_SCRIPT").ok();
    let (mut failed, mut held) = (Vec::new(), 0);
    for script in &scripts() {
        let name = script.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        if only.as_ref().is_some_and(|only| *only != name) {
            continue;
        }
        let scratch = tempfile::tempdir().unwrap();
        let within = Within::open(scratch.path().join("cluster"), DatabaseOptions::default(), 3, 2).unwrap();
        // Sessions are of both gateways in turns.
        let turn = AtomicUsize::new(0);
        let session = || within.gateway(turn.fetch_add(1, Ordering::Relaxed) % 2).session();
        let outcome = runtime.block_on(run(script, scratch.path(), session));
        match (outcome, NOT_YET.iter().find(|(not_yet, _)| *not_yet == name)) {
            (Ok(()), None) => held += 1,
            (Ok(()), Some(_)) => failed.push(format!("{name} holds now: take it from the list")),
            (Err(error), Some(_)) => println!("{name}: {error}\n"),
            (Err(error), None) => failed.push(format!("{name}:\n{error}")),
        }
    }
    println!("{held} scripts hold");
    assert!(failed.is_empty(), "{} scripts fail:\n{}", failed.len(), failed.join("\n\n"));
}
