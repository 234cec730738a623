//! `alluvia.nodes`, `alluvia.shards`, `alluvia.replicas`: the machines that the database lies on. Of one process they have no rows.
//!
//! Invariant: whoever may not read a table is not told how many rows its shards have.

use super::build::{Cell, Kind};
use super::storage::{may_know_of, table_name, table_schema};
use crate::system::SystemContext;
use alluvia_snapshot::{NodeInfo, ReplicaInfo, ReplicaStatus, ShardInfo};

/// Columns of `alluvia.nodes`.
pub(crate) const NODES: &[(&str, Kind)] = &[
    ("node", Kind::Text),
    ("roles", Kind::Text),
    ("address", Kind::Text),
    ("starts", Kind::Count),
    ("answers", Kind::Text),
    ("through", Kind::Count),
    ("waiting", Kind::Count),
    ("waiting_bytes", Kind::Count),
    ("is_dead", Kind::Text),
];

/// Columns of `alluvia.shards`.
pub(crate) const SHARDS: &[(&str, Kind)] = &[
    ("table_name", Kind::Text),
    ("position", Kind::Count),
    ("shard", Kind::Count),
    ("epoch", Kind::Count),
    ("write_quorum", Kind::Count),
    ("replicas", Kind::Count),
    ("replicas_that_answer", Kind::Count),
    ("rows", Kind::Count),
    ("bytes", Kind::Count),
    ("table_schema", Kind::Text),
];

/// Columns of `alluvia.replicas`.
pub(crate) const REPLICAS: &[(&str, Kind)] = &[
    ("table_name", Kind::Text),
    ("position", Kind::Count),
    ("shard", Kind::Count),
    ("node", Kind::Text),
    ("answers", Kind::Text),
    ("through", Kind::Count),
    ("rows", Kind::Count),
    ("bytes", Kind::Count),
    ("table_schema", Kind::Text),
];

pub(crate) fn nodes(context: &SystemContext) -> Vec<Vec<Cell>> {
    let row = |node: NodeInfo| {
        // Who keeps no rows is not asked.
        let answers = node.roles.contains("worker").then(|| said(node.status.is_some()));
        vec![
            node.node.into(),
            node.roles.into(),
            node.address.into(),
            node.starts.into(),
            answers.into(),
            node.status.map(|status| status.through.0).into(),
            node.status.map(|status| status.waiting).into(),
            node.status.map(|status| status.waiting_bytes).into(),
            said(node.is_dead).into(),
        ]
    };
    context.admin.cluster().nodes.into_iter().map(row).collect()
}

pub(crate) fn shards(context: &SystemContext) -> Vec<Vec<Cell>> {
    let row = |shard: &ShardInfo| {
        let answers = || shard.replicas.iter().filter_map(|replica| replica.status);
        let furthest: Option<ReplicaStatus> = answers().max_by_key(|status| status.through);
        vec![
            table_name(context, shard.table),
            shard.position.into(),
            u64::from(shard.shard.0).into(),
            shard.epoch.into(),
            u64::from(shard.write_quorum).into(),
            shard.replicas.len().into(),
            answers().count().into(),
            furthest.map(|status| status.rows).into(),
            furthest.map(|status| status.bytes).into(),
            table_schema(context, shard.table),
        ]
    };
    known(context).iter().map(row).collect()
}

pub(crate) fn replicas(context: &SystemContext) -> Vec<Vec<Cell>> {
    let row = |shard: &ShardInfo, replica: &ReplicaInfo| {
        vec![
            table_name(context, shard.table),
            shard.position.into(),
            u64::from(shard.shard.0).into(),
            replica.node.as_str().into(),
            said(replica.status.is_some()).into(),
            replica.status.map(|status| status.through.0).into(),
            replica.status.map(|status| status.rows).into(),
            replica.status.map(|status| status.bytes).into(),
            table_schema(context, shard.table),
        ]
    };
    let known = known(context);
    known
        .iter()
        .flat_map(|shard| shard.replicas.iter().map(|replica| row(shard, replica)).collect::<Vec<_>>())
        .collect()
}

fn known(context: &SystemContext) -> Vec<ShardInfo> {
    let shards = context.admin.cluster().shards;
    shards.into_iter().filter(|shard| may_know_of(context, shard.table)).collect()
}

fn said(yes: bool) -> String {
    if yes { "YES" } else { "NO" }.to_owned()
}
