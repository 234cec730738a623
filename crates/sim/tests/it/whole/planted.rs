//! Planted bugs that the simulation of the whole engine finds.
#![cfg(feature = "planted")]

use crate::canaries::{Bug, bug, find_all};

const SEEDS: &str = "whole::history::every_answer_is_the_models_whatever_the_disk_does";

/// Every bug, what it does, and the test that finds it.
const BUGS: [Bug; 24] = [
    bug("skipped fsync", "a group of the log is acknowledged without its sync", SEEDS),
    bug("acknowledged before sync", "a group of the log is acknowledged, and synced then", SEEDS),
    bug("failed fsync taken for good", "a sync of the log that failed is taken for one that did not", SEEDS),
    bug("skipped directory fsync", "the manifest's new name is not synced", SEEDS),
    bug("name of a log file not synced", "the name of a log file that is begun is not synced", SEEDS),
    bug("segment not synced", "segments' files are not synced", SEEDS),
    bug("manifest before its segment", "the manifest is durable before the names of its segments", SEEDS),
    bug("log let go before the manifest", "files of the log go before the manifest has what they held", SEEDS),
    bug("file taken for an orphan", "a start removes a segment that is named", SEEDS),
    bug("replay off by one", "the first batch after the manifest is not replayed", SEEDS),
    bug("half a multi-table batch", "of a batch that is replayed only the first table's rows come", SEEDS),
    bug("forgotten key", "an idempotency key is lost when the log lets its batch go", SEEDS),
    bug("producers not named", "the manifest does not tell of producers", SEEDS),
    bug("key of a refused batch kept", "a batch that a full disk refused counts as sent", SEEDS),
    bug("twice as old", "answers may be twice as old as was asked", SEEDS),
    bug("later rows of the tail", "a snapshot has rows of the tail that came after it", SEEDS),
    bug("later rows of a segment", "a snapshot has rows of a segment that came after it", SEEDS),
    bug("stale cuboid after a merge", "a cuboid is not told that rows have left the tail", SEEDS),
    bug("dead rows in a summary", "a block with dead rows is answered by its summary", SEEDS),
    bug("NULL counted", "summaries count rows in the place of values", SEEDS),
    bug("rung not masked", "dead rows of a rung are drawn", SEEDS),
    bug("wrong finite-population term", "what was drawn is taken for what was not", SEEDS),
    bug("values of another row", "a merge of wide rows gives some rows the values of the row before", SEEDS),
    bug("weight from dimensions", "rows of a city are all in a sample, or none", SEEDS),
];

#[test]
fn the_seeds_find_every_planted_bug() {
    find_all(&BUGS);
}
