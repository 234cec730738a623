//! Planted bugs that the tests of this folder find.
#![cfg(feature = "planted")]

use crate::canaries::{Bug, bug, find_all};

const HISTORIES: &str = "keyed::history::every_version_is_the_models_with_keys_that_are_numbers";
const HANDOVER: &str = "keyed::handover::what_comes_between_a_stage_and_its_end_is_kept_in_any_order";
const FULL: &str = "keyed::full::what_a_full_disk_takes_back_leaves_no_trace_in_the_index";
const LOCKED: &str = "keyed::locked::rows_that_another_session_has_locked_are_not_written";
const IDEMPOTENCY: &str = "keyed::idempotency::what_was_acknowledged_is_not_applied_again";
const HELD: &str = "keyed::held::what_the_log_has_of_a_closed_table_is_there_once_the_file_is_back";
const CRASH: &str = "keyed::crash::power_loss_at_every_call_and_again_during_recovery";
const FORGOTTEN: &str = "keyed::forgotten::keys_of_batches_that_are_not_visible_are_there_when_a_segment_is_forgotten";
const PASSED_OVER: &str = "keyed::forgotten::a_row_that_was_passed_over_does_not_come_with_the_next_start";
const MENDED: &str = "keyed::forgotten::who_has_a_snapshot_reads_it_after_its_segment_was_mended_and_merged_away";
const ENDLESS: &str = "keyed::endless::a_merge_ends_though_as_many_segments_come_as_it_takes";

/// Every bug, what it does, and the test that finds it.
const BUGS: [Bug; 31] = [
    bug("kill lost at install", "kills since the cut of a sort or a merge are forgotten", HANDOVER),
    bug(
        "kill at the wrong row",
        "rows of an output are noted in the order of the inputs, and not as they lie",
        HISTORIES,
    ),
    bug("kill at the wrong segment", "of several outputs the first is taken", HISTORIES),
    bug("index not moved", "places in the key index stay those of before", HANDOVER),
    bug("horizon too far", "the version after the least that may be asked for", HISTORIES),
    bug("pin passed over", "a sort leaves out rows that a pinned version has", HISTORIES),
    bug("index not undone", "what a full disk took back stays in the key index", FULL),
    bug("kills not undone", "rows that a batch killed stay dead though it was taken back", FULL),
    bug("duplicate within a load", "each run of a load is checked by itself", HISTORIES),
    bug("passed over counted", "a row that DO NOTHING passed over is not dead", HISTORIES),
    bug("conflict not seen", "what a batch was computed from is not looked at", HISTORIES),
    bug("replay without kills", "rows that were killed above the manifest's version are alive after a start", CRASH),
    bug("kills file short", "the kills of the last version are not in the file", CRASH),
    bug("keys not named", "the manifest names no file of idempotency keys", IDEMPOTENCY),
    bug("follower not told", "the newest kill is not told", HISTORIES),
    bug("killed row not taken off", "rows of the tail that were killed are not told", HISTORIES),
    bug("dead row added", "rows that came and were killed since are taken for new", HISTORIES),
    bug("index trusted above its version", "a key that was written since is where the index has it", HISTORIES),
    bug("dead row found by key", "rows that the reader's transaction has killed are found", HISTORIES),
    bug("moved row not found", "what the index has in a segment that the snapshot lacks is not there", HISTORIES),
    bug("dead row between keys", "rows of a range of keys are not asked whether they are dead", HISTORIES),
    bug("tail passed over between keys", "rows of the tail are in no range", HISTORIES),
    bug("heap forgets too much", "older rows go though somebody has pinned a version that reads them", HISTORIES),
    bug("heap not told of deletes", "keys that are gone keep their rows in heaps", HISTORIES),
    bug("heap after a load", "a heap goes on beside rows that were staged", HISTORIES),
    bug("log cut past a closed table's batches", "files of the log go that a closed table has not had sorted", HELD),
    bug("index made anew for a forgotten segment", "batches that are not visible yet lose their keys", FORGOTTEN),
    bug("passed over row comes back", "the log has rows that were not there as long as a segment was", PASSED_OVER),
    bug("mended segment has files of its own", "snapshots with the one before lose theirs", MENDED),
    bug("merge without end", "what comes meanwhile is always taken along", ENDLESS),
    bug("locked row written", "a batch that heeds locks does not look for them", LOCKED),
];

#[test]
fn the_tests_find_every_planted_bug() {
    find_all(&BUGS);
}
