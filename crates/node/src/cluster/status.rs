//! How the nodes of a cluster are, for system tables: what the image says of them, and what workers that answer say of themselves.
//!
//! Invariant: rows of a shard count once, however many replicas tell of it.

use alluvia_cluster::gateway::{Reach, Reached};
use alluvia_cluster::message::{FromWorker, ToWorker, WorkerStatus};
use alluvia_cluster::{Image, NodeId, Role};
use alluvia_snapshot::{ClusterInfo, NodeInfo, NodeStatus, ReplicaInfo, ReplicaStatus, ShardInfo, StageInfo};
use alluvia_types::{Stage, TableId};
use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::time::Duration;

/// Once nobody has answered for so long, the rest is silent.
const PATIENCE: Duration = Duration::from_secs(1);

/// What workers say of themselves.
pub(super) type Statuses = BTreeMap<NodeId, WorkerStatus>;

/// Asks all workers.
pub(super) fn asked(reach: &dyn Reach, image: &Image) -> Statuses {
    let (sender, answers) = channel();
    let workers = image.workers();
    for &node in &workers {
        let sender = sender.clone();
        let answered = move |answer: Reached<FromWorker>| drop(sender.send((node, answer)));
        reach.worker(node, ToWorker::Status, Box::new(answered));
    }
    let mut found = Statuses::new();
    for _ in &workers {
        match answers.recv_timeout(PATIENCE) {
            Ok((node, Ok(Ok(FromWorker::Status(status))))) => drop(found.insert(node, status)),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    found
}

fn name(role: &Role) -> &'static str {
    match role {
        Role::Keeper => "keeper",
        Role::Worker => "worker",
        Role::Gateway => "gateway",
    }
}

/// Nodes, shards and replicas.
pub(super) fn cluster(image: &Image, statuses: &Statuses) -> ClusterInfo {
    let node = |(node, state): (&NodeId, &alluvia_cluster::NodeState)| NodeInfo {
        node: node.to_string(),
        roles: state.roles.iter().map(name).collect::<Vec<_>>().join(", "),
        address: state.address.clone(),
        starts: state.incarnation,
        status: statuses.get(node).map(|status| NodeStatus {
            through: status.through,
            waiting: status.bodies,
            waiting_bytes: status.body_bytes,
        }),
        is_dead: state.is_dead,
    };
    let replica = |node: NodeId, shard: TableId| ReplicaInfo {
        node: node.to_string(),
        status: statuses.get(&node).map(|status| {
            let (mut rows, mut bytes) = (0, 0);
            for stage in status.stages.iter().filter(|stage| stage.table == shard) {
                rows += stage.rows;
                bytes += if stage.stage == Stage::Ingested { 0 } else { stage.bytes };
            }
            ReplicaStatus { through: status.through, rows, bytes }
        }),
    };
    let mut shards = Vec::new();
    for (&table, placed) in &image.placed {
        shards.extend(placed.shards.iter().enumerate().map(|(at, shard)| ShardInfo {
            table,
            shard: shard.id,
            position: at + 1,
            epoch: shard.epoch.0,
            write_quorum: placed.quorum(shard),
            replicas: shard.replicas.iter().map(|&node| replica(node, shard.id)).collect(),
        }));
    }
    ClusterInfo { nodes: image.nodes.iter().map(node).collect(), shards }
}

/// The stages of tables: of each shard those at the replica that is furthest.
pub(super) fn stages(image: &Image, statuses: &Statuses) -> Vec<StageInfo> {
    let mut of_tables: BTreeMap<(TableId, Stage), StageInfo> = BTreeMap::new();
    for (&table, placed) in &image.placed {
        for shard in &placed.shards {
            let told = shard.replicas.iter().filter_map(|node| statuses.get(node));
            let Some(furthest) = told.max_by_key(|status| status.through) else { continue };
            for stage in furthest.stages.iter().filter(|stage| stage.table == shard.id) {
                let of_table = of_tables.entry((table, stage.stage)).or_insert_with(|| StageInfo {
                    table,
                    rows: 0,
                    dead_rows: 0,
                    bytes: 0,
                    parts: 0,
                    ..stage.clone()
                });
                of_table.rows += stage.rows;
                of_table.dead_rows += stage.dead_rows;
                of_table.bytes += stage.bytes;
                of_table.parts += stage.parts;
                of_table.watermark = of_table.watermark.min(stage.watermark);
                of_table.staleness = of_table.staleness.max(stage.staleness);
            }
        }
    }
    of_tables.into_values().collect()
}
