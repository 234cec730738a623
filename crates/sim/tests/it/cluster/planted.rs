//! Planted bugs of the cluster: each is switched on in a process of its own, which runs one of the histories, and that must fail.
//!
//! | Bug | Where it is planted | What it does |
//! |---|---|---|
//! | `decided with fewer` | `gateway::write`, `Image::check` | a batch is decided with one durable body less than its quorum |
//! | `fence passed over` | `Image::check` | a batch of a gateway that has started anew since is decided |
//! | `missing body passed over` | `worker::local` | a worker goes on without a body that it lacks |
//! | `answer before its version` | `worker::snapshot_at` | a worker answers though it is not through the version |
//! | `asked below the last sort` | `worker::snapshot_at` | a worker answers though rows that went since are gone |
//! | `old answer taken for new` | `gateway::Known` | an answer that was asked for too long ago is fresh enough |
//! | `ordinals by shard` | `gateway::split` | rows of two shards have the same identities |
//! | `written since it was looked at` | `Image::check` | a batch is decided though rows of its shards were written since it looked at them |
//! | `copy of an older version` | `Follower::copied` | a shard is made of rows as they were before the version that was decided |
//! | `copy counted before it is made` | `manager` | a replica is taken away though the others are not copied to their end |
//! | `body dropped early` | `Follower::settle` | bodies above the floor of their gateway go, too |
#![cfg(feature = "planted")]

use crate::keyed::planted::finds;

const CALM: &str = "cluster::history::without_faults_every_answer_is_the_models";
const FAULTS: &str = "cluster::history::machines_that_fail_lose_nothing_and_double_nothing";

const GATEWAYS: &str =
    "cluster::history::what_a_gateway_began_before_it_started_anew_is_decided_before_that_or_not_at_all";

const LOOKED: &str = "cluster::looked::what_was_looked_at_is_written_by_nobody_until_it_is_decided";

const LOST: &str = "cluster::history::replicas_that_are_lost_are_made_anew_while_everything_goes_on";

/// Every bug, and the test that finds it.
const BUGS: [(&str, &str); 11] = [
    ("decided with fewer", FAULTS),
    ("fence passed over", GATEWAYS),
    ("missing body passed over", FAULTS),
    ("answer before its version", CALM),
    ("asked below the last sort", LOST),
    ("old answer taken for new", FAULTS),
    ("ordinals by shard", CALM),
    ("body dropped early", FAULTS),
    ("written since it was looked at", LOOKED),
    ("copy of an older version", LOST),
    ("copy counted before it is made", LOST),
];

#[test]
fn the_histories_find_every_planted_bug_of_the_cluster() {
    let missed: Vec<&str> = BUGS.iter().filter(|(bug, test)| !finds(test, bug)).map(|(bug, _)| *bug).collect();
    assert!(missed.is_empty(), "these bugs are planted, and found by nobody: {missed:?}");
}
