//! B12: single rows by replicas and write quorum, on three workers.

use super::insert::{Inserted, single_rows};
use super::processes::{Cluster, Shape, settled};
use super::{ClusterArgs, Scratch};
use crate::Anything;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

const WORKERS: usize = 3;
/// Turns; the second one goes the other way round.
const TURNS: usize = 2;
/// Letters of the longest bar.
const BAR: f64 = 40.0;

pub async fn run(args: &ClusterArgs, scratch: &Scratch) -> Anything<Value> {
    let shape = Shape::new(WORKERS, 1, args.memory_mb);
    let cluster = Cluster::start(&scratch.dir("grid")?, &args.folders.data, &shape)?;
    let cells: Vec<(usize, usize)> = (1..=WORKERS).flat_map(|n| (1..=n).map(move |w| (n, w))).collect();
    let mut measured: Vec<Vec<Inserted>> = cells.iter().map(|_| Vec::new()).collect();
    for turn in 0..TURNS {
        for step in 0..cells.len() {
            let at = if turn % 2 == 0 { step } else { cells.len() - 1 - step };
            let (replicas, quorum) = cells[at];
            let options = format!("placement = 'rows', replicas = '{replicas}', write_quorum = '{quorum}'");
            let table = format!("grid_{replicas}_{quorum}_{turn}");
            let time = Duration::from_secs(args.seconds);
            measured[at].push(single_rows(&cluster, &table, &options, args.writers, time).await?);
            settled(&cluster).await?;
        }
    }
    let mean = |all: &[Inserted], figure: fn(&Inserted) -> f64| all.iter().map(figure).sum::<f64>() / all.len() as f64;
    let rates: Vec<f64> = measured.iter().map(|all| mean(all, |one| one.per_s)).collect();
    let greatest = rates.iter().copied().fold(0.0, f64::max);
    let mut text =
        format!("grid: {} clients, single rows\n  replicas  quorum  rows/s    p50 ms    p99 ms\n", args.writers);
    let mut figures = Vec::new();
    for ((&(replicas, quorum), all), rate) in cells.iter().zip(&measured).zip(&rates) {
        let (p50_ms, p99_ms) = (mean(all, |one| one.p50_ms), mean(all, |one| one.p99_ms));
        let bar = "#".repeat((rate / greatest * BAR).round() as usize);
        let _ = writeln!(text, "  {replicas:>8}  {quorum:>6}  {rate:>6.0}  {p50_ms:>8.2}  {p99_ms:>8.2}  {bar}");
        figures.push(json!({
            "replicas": replicas, "write_quorum": quorum, "per_s": rate, "p50_ms": p50_ms, "p99_ms": p99_ms,
            "cpu_us_per_row": mean(all, |one| one.cpu_us),
        }));
    }
    eprint!("{text}");
    let p50_ms = |cell: (usize, usize)| {
        let at = cells.iter().position(|known| *known == cell);
        at.map_or(f64::NAN, |at| mean(&measured[at], |one| one.p50_ms))
    };
    Ok(json!({
        "cells": figures, "all_to_one_of_3_p50": p50_ms((3, 3)) / p50_ms((3, 1)),
        "all_to_one_of_2_p50": p50_ms((2, 2)) / p50_ms((2, 1)),
    }))
}
