//! Planted bugs of the cluster, which its histories find.
#![cfg(feature = "planted")]

use crate::canaries::{Bug, bug, find_all};

const CALM: &str = "cluster::history::without_faults_every_answer_is_the_models";
const FAULTS: &str = "cluster::history::machines_that_fail_lose_nothing_and_double_nothing";
const GATEWAYS: &str =
    "cluster::history::what_a_gateway_began_before_it_started_anew_is_decided_before_that_or_not_at_all";
const LOOKED: &str = "cluster::looked::what_was_looked_at_is_written_by_nobody_until_it_is_decided";
const LOST: &str = "cluster::history::replicas_that_are_lost_are_made_anew_while_everything_goes_on";

/// Every bug, what it does, and the test that finds it.
const BUGS: [Bug; 11] = [
    bug("decided with fewer", "a batch is decided with one durable body less than its quorum", FAULTS),
    bug("fence passed over", "a batch of a gateway that has started anew since is decided", GATEWAYS),
    bug("missing body passed over", "a worker goes on without a body that it lacks", FAULTS),
    bug("answer before its version", "a worker answers though it is not through the version", CALM),
    bug("asked below the last sort", "a worker answers though rows that went since are gone", LOST),
    bug("old answer taken for new", "an answer that was asked for too long ago is fresh enough", FAULTS),
    bug("ordinals by shard", "rows of two shards have the same identities", CALM),
    bug("body dropped early", "bodies above the floor of their gateway go, too", FAULTS),
    bug(
        "written since it was looked at",
        "a batch is decided though rows of its shards were written since it looked at them",
        LOOKED,
    ),
    bug("copy of an older version", "a shard is made of rows as they were before the version that was decided", LOST),
    bug(
        "copy counted before it is made",
        "a replica is taken away though the others are not copied to their end",
        LOST,
    ),
];

#[test]
fn the_histories_find_every_planted_bug_of_the_cluster() {
    find_all(&BUGS);
}
