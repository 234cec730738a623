//! Planted bugs: each is switched on in a process of its own, which runs one of the tests of this folder, and that must
//! fail. What it proves is that the tests look where such bugs would be.
//!
//! | Bug | Where it is planted | What it does |
//! |---|---|---|
//! | `kill lost at install` | `snapshot::Moves::kills_after` | kills since the cut of a sort or a merge are forgotten |
//! | `kill at the wrong row` | `snapshot::Moves::add_output` | rows of an output are noted in the order of the inputs, and not as they lie |
//! | `kill at the wrong segment` | `snapshot::Moves::of` | of several outputs the first is taken |
//! | `index not moved` | `views::moving::follow` | places in the key index stay those of before |
//! | `horizon too far` | `Views::horizon` | the version after the least that may be asked for |
//! | `pin passed over` | `Views::askable` | a sort leaves out rows that a pinned version has |
//! | `index not undone` | `Views::take_back` | what a full disk took back stays in the key index |
//! | `kills not undone` | `Views::take_back` | rows that a batch killed stay dead though it was taken back |
//! | `duplicate within a load` | `commit::changes` | each run of a load is checked by itself |
//! | `passed over counted` | `commit::changes` | a row that DO NOTHING passed over is not dead |
//! | `conflict not seen` | `commit::changes` | what a batch was computed from is not looked at |
//! | `replay without kills` | `Committer::replay` | rows that were killed above the manifest's version are alive after a start |
//! | `kills file short` | `Pipeline::write_kills` | the kills of the last version are not in the file |
//! | `keys not named` | `Pipeline::edit` | the manifest names no file of idempotency keys |
//! | `follower not told` | `TableKills::killed_through` | the newest kill is not told |
//! | `killed row not taken off` | `State::killed` | rows of the tail that were killed are not told |
//! | `dead row added` | `State::killed` | rows that came and were killed since are taken for new |
//! | `index trusted above its version` | `Views::find_keys` | a key that was written since is where the index has it |
//! | `dead row found by key` | `Views::find_keys` | rows that the reader's transaction has killed are found |
//! | `moved row not found` | `Views::find_keys` | what the index has in a segment that the snapshot lacks is not there |
//! | `dead row between keys` | `TableRead::find_between` | rows of a range of keys are not asked whether they are dead |
//! | `tail passed over between keys` | `TableRead::find_between` | rows of the tail are in no range |
//! | `heap forgets too much` | `heap::Rows::forget` | older rows go though somebody has pinned a version that reads them |
//! | `heap not told of deletes` | `Effects::fed_keys` | keys that are gone keep their rows in heaps |
//! | `heap after a load` | `Views::feed_heaps` | a heap goes on beside rows that were staged |
//! | `locked row written` | `commit::changes` | a batch that heeds locks does not look for them |
//!
//! To plant one: `if planted("horizon too far") { ... }` with `alluvia_types::planted`, at that place.
#![cfg(feature = "planted")]

use alluvia_types::PLANTED_VARIABLE;
use std::process::Command;

const HISTORIES: &str = "keyed::history::every_version_is_the_models_with_keys_that_are_numbers";
const HANDOVER: &str = "keyed::handover::what_comes_between_a_stage_and_its_end_is_kept_in_any_order";
const FULL: &str = "keyed::full::what_a_full_disk_takes_back_leaves_no_trace_in_the_index";
const LOCKED: &str = "keyed::locked::rows_that_another_session_has_locked_are_not_written";
const IDEMPOTENCY: &str = "keyed::idempotency::what_was_acknowledged_is_not_applied_again";
const CRASH: &str = "keyed::crash::power_loss_at_every_call_and_again_during_recovery";

/// Every bug, and the test that finds it.
const BUGS: [(&str, &str); 26] = [
    ("kill lost at install", HANDOVER),
    ("kill at the wrong row", HISTORIES),
    ("kill at the wrong segment", HISTORIES),
    ("index not moved", HANDOVER),
    ("horizon too far", HISTORIES),
    ("pin passed over", HISTORIES),
    ("index not undone", FULL),
    ("kills not undone", FULL),
    ("duplicate within a load", HISTORIES),
    ("passed over counted", HISTORIES),
    ("conflict not seen", HISTORIES),
    ("replay without kills", CRASH),
    ("kills file short", CRASH),
    ("keys not named", IDEMPOTENCY),
    ("follower not told", HISTORIES),
    ("killed row not taken off", HISTORIES),
    ("dead row added", HISTORIES),
    ("index trusted above its version", HISTORIES),
    ("dead row found by key", HISTORIES),
    ("moved row not found", HISTORIES),
    ("dead row between keys", HISTORIES),
    ("tail passed over between keys", HISTORIES),
    ("heap forgets too much", HISTORIES),
    ("heap not told of deletes", HISTORIES),
    ("heap after a load", HISTORIES),
    ("locked row written", LOCKED),
];

/// Runs a test with a bug, in a process of its own. Returns whether it found it.
pub(crate) fn finds(test: &str, bug: &str) -> bool {
    let program = std::env::current_exe().expect("a test knows its program");
    let output = Command::new(program)
        .args(["--exact", test])
        .env(PLANTED_VARIABLE, bug)
        .env_remove("ALLUVIA_TEST_SEED")
        .env_remove("ALLUVIA_TEST_SECONDS")
        .output()
        .expect("the tests run again");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("running 1 test"), "there is no test {test}:\n{said}");
    !output.status.success()
}

#[test]
fn the_tests_find_every_planted_bug() {
    let missed: Vec<&str> = BUGS.iter().filter(|(bug, test)| !finds(test, bug)).map(|(bug, _)| *bug).collect();
    assert!(missed.is_empty(), "these bugs are planted, and found by nobody: {missed:?}");
}
