//! What a batch does to rows that are there is looked at before it is decided: a keeper lets it in only where nobody has written to its
//! shards since (the state machine; `it cluster::keys` has it on whole nodes).

use alluvia_cluster::{
    BatchId, Decided, Decision, Epoch, Image, NodeId, NodeState, PlacedTable, Proposal, Role, Shard, Touched, What,
};
use alluvia_space::{Placement, Spread};
use alluvia_types::{ErrorKind, Result, TableId, Version};
use std::collections::BTreeMap;

const GATEWAY: NodeId = NodeId(1);
const SHARD: TableId = TableId(12);

/// With a table of one shard, at one worker.
fn image() -> Image {
    let mut image = Image::new(7);
    image.version = Version(1);
    let state = |role| NodeState {
        roles: vec![role],
        address: String::new(),
        incarnation: 1,
        process: 1,
        is_dead: false,
        floor: 1,
        decided: BTreeMap::new(),
    };
    image.nodes.extend([(GATEWAY, state(Role::Gateway)), (NodeId(2), state(Role::Worker))]);
    let shard = Shard { id: SHARD, epoch: Epoch(1), replicas: vec![NodeId(2)], copies: BTreeMap::new() };
    let placement = Placement { spread: Spread::Rows, shards: 1, replicas: 1, write_quorum: 1 };
    image.placed.insert(TableId(11), PlacedTable { placement, shards: vec![shard], write_quorum: 1 });
    image
}

fn proposal(sequence: u64, looked_at: Option<Version>) -> Proposal {
    let touched =
        Touched { table: TableId(11), shard: SHARD, epoch: Epoch(1), rows: 1, crc: 0, holders: vec![NodeId(2)] };
    let decided = Decided {
        id: BatchId { gateway: GATEWAY, incarnation: 1, sequence },
        floor: 1,
        changes: Vec::new(),
        placed: Vec::new(),
        producer: None,
        key: None,
        touched: vec![touched],
    };
    let looked = looked_at.map(|at| (SHARD, at)).into_iter().collect();
    Proposal { decided, checked: Vec::new(), unwritten: Vec::new(), looked }
}

#[test]
fn what_was_looked_at_is_written_by_nobody_until_it_is_decided() {
    let mut image = image();
    let decide = |image: &mut Image, proposal: Proposal| -> Result<Version> {
        image.check(&proposal)?;
        image.check_looked(&proposal)?;
        let (version, what) = (image.version.next(), What::Batch(Box::new(proposal.decided)));
        image.apply(&Decision { version, commit_micros: 0, what })?;
        Ok(version)
    };
    let first = decide(&mut image, proposal(1, Some(Version(1)))).expect("nobody has written");
    let never = decide(&mut image, proposal(2, Some(Version(0)))).expect_err("it has not looked");
    assert_eq!(never.kind(), ErrorKind::Conflict, "{never}");
    let late = decide(&mut image, proposal(2, Some(Version(1)))).expect_err("the first has");
    assert_eq!(late.kind(), ErrorKind::Conflict, "{late}");
    let second = decide(&mut image, proposal(2, Some(first))).expect("it has looked again");
    // Who looks at nothing, writes; and whoever has looked before that looks again.
    let third = decide(&mut image, proposal(3, None)).expect("nothing was looked at");
    let late = decide(&mut image, proposal(4, Some(second))).expect_err("it was written");
    assert_eq!(late.kind(), ErrorKind::Conflict, "{late}");
    decide(&mut image, proposal(4, Some(third))).expect("it has looked again");
}
