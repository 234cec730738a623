//! B1: a keeper, one worker and one gateway beside one process, over the same rows. What a cluster costs where it is none.
//!
//! Cold boxes, cuboids off: those that take one process long enough. Resident shapes: what a gateway and a worker add. Each answer is
//! compared with one process's.

use super::boxed::{Wrong, cold, load, questions};
use super::processes::{Cluster, Serves, Shape, Single, cpu_s, session, settled};
use super::sql::{answer, rows, text, timed};
use super::{ClusterArgs, Scratch};
use crate::Anything;
use crate::boxes::data::Data;
use crate::boxes::questions::Question;
use crate::machine::{median, percentile};
use serde_json::{Value, json};
use tokio_postgres::Client;

/// Cold boxes that take one process less are not looked at: of them a message is the most.
const COLD_LEAST_MS: f64 = 5.0;
/// Turns of resident shapes, which take microseconds.
const RESIDENT_TURNS: usize = 60;

pub async fn run(args: &ClusterArgs, scratch: &Scratch) -> Anything<Value> {
    let data = Data { rows: args.rows, zipf: 0, correlated: false };
    let file = data.parquet(&args.folders.data)?;
    let alone = Single::start(&scratch.dir("single-alone")?, &args.folders.data, args.memory_mb)?;
    let shape = Shape::new(1, 1, args.memory_mb);
    let cluster = Cluster::start(&scratch.dir("single-cluster")?, &args.folders.data, &shape)?;
    let of_alone = load(&alone, &file, args.rows, "").await?;
    let of_cluster = load(&cluster, &file, args.rows, &args.placement(1)).await?;
    let clients = [cold(&alone).await?, cold(&cluster).await?];
    let questions = questions(&clients[0], &data, args.queries, args.seed)?;
    let mut wrong = Wrong::default();
    let mut figures = measure_cold(args, [&alone, &cluster], &clients, &questions, &mut wrong).await?;
    let sessions = [session(&alone).await?, session(&cluster).await?];
    figures["resident"] = resident([&alone, &cluster], &sessions, &questions, &mut wrong).await?;
    figures["loaded_alone"] = of_alone.json(args.rows);
    figures["loaded_cluster"] = of_cluster.json(args.rows);
    figures["wrong"] = json!(wrong.0);
    Ok(figures)
}

/// All questions in turns, who is first in turns as well.
async fn measure_cold(
    args: &ClusterArgs,
    servers: [&dyn Serves; 2],
    clients: &[Client; 2],
    questions: &[Question],
    wrong: &mut Wrong,
) -> Anything<Value> {
    let mut times = vec![[Vec::new(), Vec::new()]; questions.len()];
    let mut used_s = [0.0; 2];
    // The first turn warms.
    for turn in 0..=args.turns {
        for step in 0..2 {
            let who = (step + turn) % 2;
            let before = cpu_s(servers[who]);
            for (question, times) in questions.iter().zip(&mut times) {
                let (took_ms, got) = timed(&clients[who], &question.sql).await?;
                wrong.check(["alone", "cluster, cold"][who], &question.sql, &question.reference, &answer(&got)?);
                if turn > 0 {
                    times[who].push(took_ms);
                }
            }
            if turn > 0 {
                used_s[who] += cpu_s(servers[who]) - before;
            }
        }
    }
    let medians: Vec<[f64; 2]> = times.iter_mut().map(|times| times.each_mut().map(|times| median(times))).collect();
    let long: Vec<[f64; 2]> = medians.iter().copied().filter(|[alone, _]| *alone >= COLD_LEAST_MS).collect();
    let of = |who: usize, all: &[[f64; 2]]| median(&mut all.iter().map(|both| both[who]).collect::<Vec<f64>>());
    let ratio = |all: &[[f64; 2]]| of(1, all) / of(0, all);
    let mut ratios: Vec<f64> = long.iter().map(|[alone, cluster]| cluster / alone).collect();
    let single_ratio = (!long.is_empty()).then(|| ratio(&long));
    match single_ratio {
        Some(found) => eprintln!(
            "single: {} of {} cold boxes take {COLD_LEAST_MS} ms and more: {:.1} ms alone, {:.1} ms in the cluster, ratio {found:.3}",
            long.len(),
            medians.len(),
            of(0, &long),
            of(1, &long)
        ),
        None => eprintln!("single: no cold box takes {COLD_LEAST_MS} ms of so few rows; there is no single_ratio"),
    }
    eprintln!(
        "single: all cold boxes: {:.2} ms alone, {:.2} ms in the cluster; CPU {:.2} s and {:.2} s",
        of(0, &medians),
        of(1, &medians),
        used_s[0],
        used_s[1]
    );
    Ok(json!({
        "single_ratio": single_ratio, "cold_boxes": long.len(),
        "cold_ratio_p10": percentile(&mut ratios, 0.1), "cold_ratio_p90": percentile(&mut ratios, 0.9),
        "cold_alone_median_ms": of(0, &long), "cold_cluster_median_ms": of(1, &long),
        "all_boxes": medians.len(), "all_alone_median_ms": of(0, &medians), "all_cluster_median_ms": of(1, &medians),
        "all_ratio": ratio(&medians), "all_alone_cpu_s": used_s[0], "all_cluster_cpu_s": used_s[1],
        "all_cpu_ratio": used_s[1] / used_s[0],
    }))
}

/// Shapes that are resident in one process, which are wanted from the cluster as often.
async fn resident(
    servers: [&dyn Serves; 2],
    clients: &[Client; 2],
    questions: &[Question],
    wrong: &mut Wrong,
) -> Anything<Value> {
    let mut added = Vec::new();
    let (mut of_alone, mut of_cluster) = (Vec::new(), Vec::new());
    for question in questions {
        for (client, server) in clients.iter().zip(servers) {
            rows(client, &question.sql).await?;
            rows(client, "CALL alluvia.build_cuboids()").await?;
            rows(client, &question.sql).await?;
            settled(server).await?;
        }
        if !text(&clients[0], &format!("EXPLAIN ANALYZE {}", question.sql)).await?.contains("cuboid: resident") {
            continue;
        }
        let mut times = [Vec::new(), Vec::new()];
        for turn in 0..RESIDENT_TURNS {
            for step in 0..2 {
                let who = (step + turn) % 2;
                let (took_ms, got) = timed(&clients[who], &question.sql).await?;
                wrong.check(["alone", "cluster, resident"][who], &question.sql, &question.reference, &answer(&got)?);
                times[who].push(took_ms);
            }
        }
        let [alone, cluster] = times.each_mut().map(|times| median(times));
        added.push(cluster - alone);
        of_alone.push(alone);
        of_cluster.push(cluster);
    }
    let (shapes, worst) = (added.len(), added.iter().copied().fold(f64::NAN, f64::max));
    let (alone_ms, cluster_ms, added_ms) = (median(&mut of_alone), median(&mut of_cluster), median(&mut added));
    eprintln!(
        "single: {shapes} shapes resident in one process: {alone_ms:.3} ms alone, {cluster_ms:.3} ms in the cluster; {added_ms:.3} ms more, at worst {worst:.3}"
    );
    Ok(json!({
        "shapes": shapes, "alone_median_ms": alone_ms, "cluster_median_ms": cluster_ms,
        "added_ms": added_ms, "worst_added_ms": worst,
    }))
}
