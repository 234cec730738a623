//! Part of B7: a worker is lost for good, and its replicas are made anew on the others while they serve.
//!
//! It is over when each shard has its two replicas again, both of which answer, are through the newest version, and have as many rows.

use super::boxed::{cold, load, questions};
use super::processes::{Cluster, Role, Serves, Shape, session};
use super::sql::{answer, number, timed};
use super::{ClusterArgs, Scratch};
use crate::Anything;
use crate::boxes::data::Data;
use crate::boxes::questions::TABLE;
use crate::machine::percentile;
use crate::servers::beside;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

/// A worker that is silent for so long is given up.
const DEAD_AFTER: [&str; 2] = ["--node-dead-after", "2s"];
const LOOK: Duration = Duration::from_millis(100);
/// Questions that are asked in turn while copies are made.
const QUESTIONS: usize = 12;

pub async fn run(args: &ClusterArgs, scratch: &Scratch) -> Anything<Value> {
    let help = Command::new(beside()?).args(["node", "--help"]).output()?;
    let is_built = String::from_utf8_lossy(&help.stdout).contains(DEAD_AFTER[0]);
    let mut shape = Shape::new(3, 2, args.memory_mb);
    if is_built {
        shape.keeper_args = DEAD_AFTER.map(str::to_owned).to_vec();
    }
    let mut cluster = Cluster::start(&scratch.dir("restore")?, &args.folders.data, &shape)?;
    let data = Data { rows: args.rows, zipf: 0, correlated: false };
    let file = data.parquet(&args.folders.data)?;
    load(&cluster, &file, args.rows, "placement = 'rows', replicas = '2', write_quorum = '1'").await?;
    let client = cold(&cluster).await?;
    let questions = questions(&client, &data, QUESTIONS, args.seed)?;
    let looking = session(&cluster).await?;
    if number(&looking, &lacking()).await? > 0 {
        return Err("restore: a shard lacks a replica before anything was killed".into());
    }

    let lost = cluster.places(Role::Worker)[1];
    let killed = Instant::now();
    cluster.kill(lost);
    let limit = Duration::from_secs(args.restore_timeout);
    let (mut restored_s, mut served_s, mut failed, mut wrong, mut times) = (None, None, Vec::new(), 0, Vec::new());
    let mut asked = 0;
    while restored_s.is_none() && killed.elapsed() < limit {
        let question = &questions[asked % questions.len()];
        asked += 1;
        match timed(&client, &question.sql).await {
            Ok((took_ms, got)) => {
                served_s.get_or_insert(killed.elapsed().as_secs_f64());
                wrong += usize::from(question.reference.difference(&answer(&got)?).is_some());
                times.push(took_ms);
            }
            Err(error) => failed.push(error.to_string()),
        }
        match number(&looking, &lacking()).await {
            Ok(0) => restored_s = Some(killed.elapsed().as_secs_f64()),
            Ok(_) => {}
            Err(error) => failed.push(error.to_string()),
        }
        // Without it nobody makes copies, and what serves while a worker is dead is soon seen.
        if !is_built && killed.elapsed() > limit.min(Duration::from_secs(10)) {
            break;
        }
        tokio::time::sleep(LOOK).await;
    }
    for config in cluster.gateways() {
        let client = crate::servers::connect(&config).await?;
        for question in &questions {
            let (_, got) = timed(&client, &question.sql).await?;
            wrong += usize::from(question.reference.difference(&answer(&got)?).is_some());
        }
    }
    match restored_s {
        Some(seconds) => eprintln!(
            "restore: all replicas of {} rows are there again {seconds:.1} s after the kill; {asked} questions meanwhile, {} failed, {wrong} wrong",
            args.rows,
            failed.len()
        ),
        None if !is_built => {
            eprintln!("restore: the program has no {}: lost replicas are not made anew", DEAD_AFTER[0])
        }
        None => eprintln!("restore: after {} s not all replicas are there again", args.restore_timeout),
    }
    Ok(json!({
        "replica_restored_s": restored_s, "is_built": is_built, "served_again_s": served_s, "asked": asked,
        "failed": failed.len(), "first_failures": failed.iter().take(3).collect::<Vec<_>>(), "wrong": wrong,
        "answer_p50_ms": percentile(&mut times, 0.5), "answer_max_ms": percentile(&mut times, 1.0),
    }))
}

/// How many shards lack a replica that is as it must be.
fn lacking() -> String {
    format!(
        "SELECT count(*) FROM (SELECT shard FROM alluvia.replicas WHERE table_name = '{TABLE}' GROUP BY shard \
         HAVING count(*) <> 2 OR min(rows) <> max(rows) OR count(rows) <> 2 OR min(answers) <> 'YES' \
         OR min(through) < (SELECT max(version) FROM alluvia.batches)) AS lacking"
    )
}
