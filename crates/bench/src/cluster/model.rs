//! Larger clusters, foreseen by what this run has measured of small ones. All that is printed here is simulated.
//!
//! A model is a few constants of CPU time, fitted on the smallest clusters, and has to foresee the CPU time of 2 and 4 workers on this machine
//! within 15 %. One that does not is not drawn. Figures are VOLAP's 16 and 17, LazyBase's 3, HRDBMS's 7.
//!
//! Assumed, not measured: machines are as this one, with a worker and a gateway each, and the keeper has its own; work is spread evenly over
//! machines and cores; questions cost in proportion to a shard's rows; links have 10 Gb/s and are else for nothing.

use super::insert::single_rows;
use super::processes::{Cluster, Serves, Shape, settled, since};
use super::scale::Work;
use super::{ClusterArgs, SHARDS_PER_WORKER, Scratch, tpch};
use crate::Anything;
use crate::boxes::questions::Bin;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// The model must be as near as this.
const NEAR: f64 = 0.15;
/// A curve that is flat stays as near to its beginning.
const FLAT: f64 = 0.10;
/// VOLAP's: rows of a worker, and workers.
const ROWS_PER_WORKER: f64 = 50e6;
const VOLAP_WORKERS: [usize; 5] = [4, 8, 12, 16, 20];
const HRDBMS_NODES: [usize; 5] = [8, 16, 32, 64, 96];
const HRDBMS_SF: f64 = 1000.0;
const HRDBMS_SPEED_UP: f64 = 12.37;
const LAZYBASE_WORKERS: [usize; 5] = [1, 2, 4, 8, 16];
/// Shares of inserts in VOLAP's mixes.
const MIXES: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];
const BITS_PER_S: f64 = 10e9;
/// How long is looked at what nodes use that have nothing to do.
const RESTING: Duration = Duration::from_secs(2);

/// A number foreseen beside the one measured.
fn foreseen(what: &str, workers: usize, foreseen: f64, measured: f64) -> (bool, Value) {
    let off = foreseen / measured - 1.0;
    let is_near = off.abs() <= NEAR;
    eprintln!(
        "model: {what}, {workers} workers here: foreseen {foreseen:.3}, measured {measured:.3}, {:+.1} %",
        off * 100.0
    );
    (is_near, json!({ "workers": workers, "foreseen": foreseen, "measured": measured, "off": off }))
}

/// What is said of a model, with its curve if it foresees well enough.
fn told(what: &str, checks: Vec<(bool, Value)>, curve: impl FnOnce() -> Value) -> Value {
    let is_valid = checks.iter().all(|(is_near, _)| *is_near);
    if !is_valid {
        eprintln!("model: {what} is not drawn: the model is not within {:.0} % of what is measured here", NEAR * 100.0);
    }
    let checks: Vec<Value> = checks.into_iter().map(|(_, told)| told).collect();
    json!({ "checks": checks, "is_valid": is_valid, "simulated": is_valid.then(curve) })
}

pub async fn run(args: &ClusterArgs, scratch: &Scratch, scale: &[Work], tpch: &[tpch::Work]) -> Anything<Value> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    let inserts = Inserts::measure(args, scratch).await?;
    let asks = Asks::fit(scale, args.rows)?;
    let inserted =
        told("VOLAP's figure 16, inserts", inserts.checks(), || drawn("inserts/s", &|p| inserts.per_s(p, cores)));
    let asked = told("VOLAP's figure 16, queries", asks.checks(scale), || {
        drawn("queries/s", &|p| asks_per_s(&asks.all, asks.rows, p, cores))
    });
    let is_valid = [&inserted, &asked].iter().all(|told| told["is_valid"] == true);
    let mixed = match is_valid {
        true => mixes(&asks, &inserts, cores),
        false => Value::Null,
    };
    Ok(json!({
        "cores": cores, "inserts": inserts.json(), "asks": asks.json(),
        "volap_inserts": inserted, "volap_queries": asked, "volap_mixes": mixed,
        "lazybase": lazybase(scale, args.rows, cores)?, "hrdbms": hrdbms(tpch, args.sf, cores)?,
    }))
}

/// CPU seconds of a question, at the workers and at its gateway: of each shard, and of all rows or of none.
#[derive(Clone, Copy)]
struct Ask {
    shard_s: f64,
    rows_s: f64,
    gateway_shard_s: f64,
    gateway_s: f64,
}

/// Of all questions, and of those of each bin. Fitted on one worker that has the rows in few shards and in many.
struct Asks {
    all: Ask,
    bins: [Ask; 3],
    rows: f64,
}

impl Ask {
    fn fit((few, many): (&Work, &Work), bins: &[usize]) -> Ask {
        let sum = |work: &Work, of: fn(&super::scale::BinWork) -> f64| {
            bins.iter().map(|bin| of(&work.bins[*bin])).sum::<f64>()
        };
        let questions = sum(few, |bin| bin.questions as f64);
        let (least, most) = (few.shards as f64, many.shards as f64);
        let line = |of: fn(&super::scale::BinWork) -> f64| {
            let (low, high) = (sum(few, of) / questions, sum(many, of) / questions);
            let each = ((high - low) / (most - least)).max(0.0);
            (each, (low - each * least).max(0.0))
        };
        let ((shard_s, rows_s), (gateway_shard_s, gateway_s)) = (line(|bin| bin.workers_s), line(|bin| bin.gateway_s));
        Ask { shard_s, rows_s, gateway_shard_s, gateway_s }
    }

    /// CPU seconds of all processes, where the rows are `scale` times as many.
    fn cpu_s(&self, shards: f64, scale: f64) -> f64 {
        (self.shard_s + self.gateway_shard_s) * shards + self.rows_s * scale + self.gateway_s
    }
}

impl Asks {
    fn fit(scale: &[Work], rows: u64) -> Anything<Asks> {
        let of = |index: usize| scale.get(index).ok_or("the model wants four clusters of scale");
        let fitted = (of(0)?, of(3)?);
        let bins = [0, 1, 2].map(|bin| Ask::fit(fitted, &[bin]));
        Ok(Asks { all: Ask::fit(fitted, &[0, 1, 2]), bins, rows: rows as f64 })
    }

    fn checks(&self, scale: &[Work]) -> Vec<(bool, Value)> {
        let local = scale.iter().filter(|work| work.workers > 1);
        let check = |work: &Work| {
            let (questions, gateway_s) =
                work.bins.iter().fold((0, 0.0), |(count, sum), bin| (count + bin.questions, sum + bin.gateway_s));
            let measured = (work.workers_s() + gateway_s) / questions as f64 * 1e3;
            foreseen("CPU ms of a question", work.workers, self.all.cpu_s(work.shards as f64, 1.0) * 1e3, measured)
        };
        local.map(check).collect()
    }

    fn json(&self) -> Value {
        json!({
            "worker_ms_per_shard": self.all.shard_s * 1e3, "worker_ns_per_row": self.all.rows_s * 1e9 / self.rows,
            "gateway_ms_per_shard": self.all.gateway_shard_s * 1e3, "gateway_ms": self.all.gateway_s * 1e3,
        })
    }
}

/// CPU seconds of a row that comes alone, by who spends them; without what nodes use at rest.
struct Inserts {
    /// The worker that keeps the row, beyond what all workers do.
    kept_s: f64,
    followed_s: f64,
    gateway_s: f64,
    other_gateway_s: f64,
    keeper_s: f64,
    keeper_per_node_s: f64,
    /// CPU seconds of a row by the number of workers.
    measured: Vec<(usize, f64)>,
}

impl Inserts {
    /// On two workers, one of which has all rows, and on one; then on those that must be foreseen.
    async fn measure(args: &ClusterArgs, scratch: &Scratch) -> Anything<Inserts> {
        let uneven = Self::run(args, scratch, (2, 2), "placement = 'rows', shards = '1'").await?;
        let small = Self::run(args, scratch, (1, 1), "").await?;
        let sorted = |role: &str| {
            let mut used: Vec<f64> =
                uneven.iter().filter(|(name, _)| name.starts_with(role)).map(|(_, used)| *used).collect();
            used.sort_by(f64::total_cmp);
            (used.first().copied().unwrap_or(0.0), used.last().copied().unwrap_or(0.0))
        };
        let ((followed_s, busiest), (other_gateway_s, gateway_s)) = (sorted("worker"), sorted("gateway"));
        let keeper =
            |used: &[(String, f64)]| used.iter().find(|(name, _)| name.starts_with("keeper")).map_or(0.0, |of| of.1);
        // Four nodes follow in the first cluster, two in the second.
        let keeper_per_node_s = ((keeper(&uneven) - keeper(&small)) / 2.0).max(0.0);
        let mut measured = Vec::new();
        for workers in [2, 4] {
            let used = Self::run(args, scratch, (workers, 1), "").await?;
            measured.push((workers, used.iter().map(|(_, used)| used).sum()));
        }
        Ok(Inserts {
            kept_s: busiest - followed_s,
            followed_s,
            gateway_s,
            other_gateway_s,
            keeper_s: (keeper(&small) - 2.0 * keeper_per_node_s).max(0.0),
            keeper_per_node_s,
            measured,
        })
    }

    /// CPU seconds of a row by process. All rows go in at the first gateway.
    async fn run(
        args: &ClusterArgs,
        scratch: &Scratch,
        (workers, gateways): (usize, usize),
        options: &str,
    ) -> Anything<Vec<(String, f64)>> {
        let dir = scratch.dir(&format!("model-{workers}-{gateways}"))?;
        let cluster = Cluster::start(&dir, &args.folders.data, &Shape::new(workers, gateways, args.memory_mb))?;
        let first = First(&cluster);
        settled(&cluster).await?;
        let resting = cluster.cpus();
        tokio::time::sleep(RESTING).await;
        let rest = since(&cluster, &resting, "").into_iter().map(|used| used / RESTING.as_secs_f64());
        let (before, start) = (cluster.cpus(), Instant::now());
        let inserted = single_rows(&first, "events", options, args.writers, Duration::from_secs(args.seconds)).await?;
        let (used, took) = (since(&cluster, &before, ""), start.elapsed().as_secs_f64());
        let net = used.into_iter().zip(rest).map(|(used, rest)| (used - rest * took).max(0.0) / inserted.rows as f64);
        Ok(before.into_iter().map(|(name, _)| name).zip(net).collect())
    }

    /// CPU seconds of a row on so many workers with one gateway.
    fn cpu_s(&self, workers: f64) -> f64 {
        workers * self.followed_s + self.kept_s + self.gateway_s + self.keeper_of(workers + 1.0)
    }

    fn keeper_of(&self, nodes: f64) -> f64 {
        self.keeper_s + self.keeper_per_node_s * nodes
    }

    fn checks(&self) -> Vec<(bool, Value)> {
        let check = |(workers, measured): &(usize, f64)| {
            foreseen("CPU us of a row", *workers, self.cpu_s(*workers as f64) * 1e6, measured * 1e6)
        };
        self.measured.iter().map(check).collect()
    }

    /// Rows a second on machines with a worker and a gateway each.
    fn per_s(&self, machines: f64, cores: f64) -> f64 {
        let machine = self.followed_s + self.other_gateway_s;
        let all = machines * machine + self.kept_s + self.gateway_s - self.other_gateway_s;
        (machines * cores / all).min(cores / self.keeper_of(2.0 * machines))
    }

    fn json(&self) -> Value {
        json!({
            "worker_that_keeps_us": self.kept_s * 1e6, "each_worker_us": self.followed_s * 1e6,
            "gateway_us": self.gateway_s * 1e6, "each_other_gateway_us": self.other_gateway_s * 1e6,
            "keeper_us": self.keeper_s * 1e6, "keeper_us_per_node": self.keeper_per_node_s * 1e6,
        })
    }
}

/// A cluster whose clients all come to its first gateway.
struct First<'a>(&'a Cluster);

impl Serves for First<'_> {
    fn gateways(&self) -> Vec<tokio_postgres::Config> {
        self.0.gateways().into_iter().take(1).collect()
    }

    fn cpus(&self) -> Vec<(String, f64)> {
        self.0.cpus()
    }
}

/// Questions a second on machines that have VOLAP's rows.
fn asks_per_s(ask: &Ask, rows: f64, machines: f64, cores: f64) -> f64 {
    let (shards, scale) = (machines * SHARDS_PER_WORKER as f64, machines * ROWS_PER_WORKER / rows);
    machines * cores / ask.cpu_s(shards, scale)
}

/// Whether a curve stays near its beginning.
fn is_flat(curve: &[f64]) -> bool {
    let first = curve.first().copied().unwrap_or(0.0);
    curve.iter().all(|value| (value / first - 1.0).abs() <= FLAT)
}

/// A curve of VOLAP's figure 16.
fn drawn(what: &str, figure: &dyn Fn(f64) -> f64) -> Value {
    let curve: Vec<f64> = VOLAP_WORKERS.iter().map(|&p| figure(p as f64)).collect();
    let flat = is_flat(&curve);
    eprintln!("model, simulated: VOLAP's figure 16, 50M rows a worker\n  workers  {what}");
    VOLAP_WORKERS.iter().zip(&curve).for_each(|(workers, rate)| eprintln!("  {workers:>7}  {rate:>9.1}"));
    eprintln!("  within 10 % of flat: {flat}");
    json!({ "workers": VOLAP_WORKERS, "per_s": curve, "is_flat": flat })
}

/// VOLAP's figure 17: 1B rows on the most workers.
fn mixes(asks: &Asks, inserts: &Inserts, cores: f64) -> Value {
    let machines = 20.0;
    let insert = inserts.per_s(machines, cores);
    eprintln!("model, simulated: VOLAP's figure 17, 1B rows on 20 workers: operations/s by share of inserts {MIXES:?}");
    let of_bin = |(bin, ask): (Bin, &Ask)| {
        let query = asks_per_s(ask, asks.rows, machines, cores);
        let mixed: Vec<f64> = MIXES.iter().map(|share| 1.0 / (share / insert + (1.0 - share) / query)).collect();
        let shown: Vec<String> = mixed.iter().map(|rate| format!("{rate:.0}")).collect();
        eprintln!("  {:>6} coverage: {}", bin.name(), shown.join("  "));
        json!({ "bin": bin.name(), "insert_shares": MIXES, "operations_per_s": mixed })
    };
    json!(Bin::ALL.into_iter().zip(&asks.bins).map(of_bin).collect::<Vec<Value>>())
}

/// Rows a second of COPY. Fitted on one worker.
fn lazybase(scale: &[Work], rows: u64, cores: f64) -> Anything<Value> {
    let one = scale.first().ok_or("the model wants the loads of scale")?;
    let row_s = one.loaded.cpu_s / rows as f64;
    let check = |work: &Work| {
        foreseen("CPU us of a row of COPY", work.workers, row_s * 1e6, work.loaded.cpu_s / rows as f64 * 1e6)
    };
    let checks = scale.iter().filter(|work| work.workers > 1).map(check).collect();
    Ok(told("LazyBase's figure 3", checks, || {
        let rows_per_s: Vec<f64> = LAZYBASE_WORKERS.iter().map(|&p| p as f64 * cores / row_s).collect();
        eprintln!("model, simulated: LazyBase's figure 3, COPY until all is merged\n  workers  rows/s");
        LAZYBASE_WORKERS.iter().zip(&rows_per_s).for_each(|(p, rate)| eprintln!("  {p:>7}  {rate:.0}"));
        json!({ "workers": LAZYBASE_WORKERS, "rows_per_s": rows_per_s })
    }))
}

/// All 22 queries of TPC-H: workers' time is shared out, the gateway's is not, for joins run there. Both have a share for each part of a plan
/// that is asked of a shard. Fitted on two workers that have the rows in few shards and in many.
fn hrdbms(works: &[tpch::Work], sf: f64, cores: f64) -> Anything<Value> {
    let [few, four, many] = works else { return Err("the model wants three clusters of tpch".into()) };
    let line = |of: fn(&tpch::Work) -> f64| {
        let each = ((of(many) - of(few)) / (many.parts - few.parts) as f64).max(0.0);
        (each, (of(few) - each * few.parts as f64).max(0.0))
    };
    let (worker, gateway) = (line(|work| work.workers_s), line(|work| work.gateway_s));
    let cpu_s = |(each, rest): (f64, f64), parts: f64| each * parts + rest;
    let parts = four.parts as f64;
    let all_s = cpu_s(worker, parts) + cpu_s(gateway, parts);
    let check = foreseen("CPU s of TPC-H", four.workers, all_s, four.workers_s + four.gateway_s);
    Ok(told("HRDBMS's figure 7", vec![check], || {
        let larger = HRDBMS_SF / sf;
        let took = |nodes: &usize| {
            let nodes = *nodes as f64;
            let parts = few.parts as f64 * nodes / few.workers as f64;
            let at_workers = cpu_s((worker.0, worker.1 * larger), parts) / nodes;
            let at_gateway = cpu_s((gateway.0, gateway.1 * larger), parts);
            (at_workers + at_gateway) / cores + few.bytes as f64 * larger * 8.0 / BITS_PER_S
        };
        let seconds: Vec<f64> = HRDBMS_NODES.iter().map(took).collect();
        let speed_up = seconds[0] / seconds[seconds.len() - 1];
        eprintln!("model, simulated: HRDBMS's figure 7, SF1000, joins at one gateway\n  nodes  s");
        HRDBMS_NODES.iter().zip(&seconds).for_each(|(nodes, took)| eprintln!("  {nodes:>5}  {took:.0}"));
        eprintln!("  8 to 96 nodes: {speed_up:.2} times faster, HRDBMS {HRDBMS_SPEED_UP}");
        json!({ "nodes": HRDBMS_NODES, "seconds": seconds, "speed_up_8_to_96": speed_up, "hrdbms": HRDBMS_SPEED_UP })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::scale::BinWork;

    /// Work by a law that is known: 2 ms a shard and 30 ms of rows at the workers, 1 ms a shard and 5 ms at the gateway.
    fn by_law(workers: usize, shards: usize, more: f64) -> Work {
        let questions = 10;
        let each = |shard_ms: f64, rest_ms: f64| (shard_ms * shards as f64 + rest_ms) / 1e3 * questions as f64 * more;
        let bin = BinWork { questions, workers_s: each(2.0, 30.0), gateway_s: each(1.0, 5.0), ..BinWork::default() };
        Work {
            workers,
            shards,
            worker_s: vec![3.0 * bin.workers_s / workers as f64; workers],
            bins: [bin; 3],
            ..Work::default()
        }
    }

    #[test]
    fn what_follows_the_law_is_foreseen_and_what_does_not_is_not() {
        let lawful = [by_law(1, 4, 1.0), by_law(4, 16, 1.0), by_law(2, 8, 1.0), by_law(1, 16, 1.0)];
        let asks = Asks::fit(&lawful, 1_000_000).unwrap();
        assert!((asks.all.shard_s - 0.002).abs() < 1e-9 && (asks.all.gateway_s - 0.005).abs() < 1e-9);
        assert!(asks.checks(&lawful).iter().all(|(is_near, _)| *is_near));
        let dearer = [by_law(1, 4, 1.0), by_law(4, 16, 1.3), by_law(2, 8, 1.0), by_law(1, 16, 1.0)];
        let near: Vec<bool> =
            Asks::fit(&dearer, 1_000_000).unwrap().checks(&dearer).iter().map(|check| check.0).collect();
        assert_eq!(near, [false, true]);
    }

    #[test]
    fn a_curve_is_flat_within_a_tenth() {
        assert!(is_flat(&[100.0, 109.0, 91.0]));
        assert!(!is_flat(&[100.0, 111.0]));
    }
}
