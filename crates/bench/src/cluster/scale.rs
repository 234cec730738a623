//! B2: four workers beside one, over the same rows and by the same questions: what the work of all processes is, how even it is, and what
//! four machines would make of it.
//!
//! Here they have the cores of one machine, so nothing becomes faster. What a process on a machine of its own would take is its CPU time;
//! bytes are taken to travel at 10 Gb/s, one after the other.

use super::boxed::{Loaded, Wrong, cold, load, questions};
use super::processes::{Cluster, Serves, Shape, since};
use super::sql::{answer, asked, timed};
use super::{ClusterArgs, Scratch};
use crate::Anything;
use crate::boxes::data::Data;
use crate::boxes::questions::{Bin, Question};
use serde_json::{Value, json};
use std::time::Duration;
use tokio_postgres::Client;

const BITS_PER_S: f64 = 10e9;
const IDLE: Duration = Duration::from_secs(3);

/// A cluster with the rows.
struct Laid {
    workers: usize,
    shards: usize,
    loaded: Loaded,
    cluster: Cluster,
    client: Client,
}

/// CPU seconds of a pass over all questions, by role.
#[derive(Clone, Default)]
pub struct Work {
    pub workers: usize,
    pub shards: usize,
    pub worker_s: Vec<f64>,
    pub gateway_s: f64,
    pub keeper_s: f64,
    /// CPU seconds of a second in which nothing is asked.
    pub idle_share: f64,
    /// What its load took.
    pub loaded: Loaded,
    /// The same of the questions of each bin of coverage.
    pub bins: [BinWork; 3],
}

/// CPU seconds of the questions of one bin, and bytes that the gateway is sent for them.
#[derive(Clone, Copy, Default)]
pub struct BinWork {
    pub questions: usize,
    pub workers_s: f64,
    pub gateway_s: f64,
    pub bytes: u64,
    pub shards_asked: u64,
}

impl Work {
    pub fn workers_s(&self) -> f64 {
        self.worker_s.iter().sum()
    }

    /// Adds what was used since, as one of so many turns.
    fn add(&mut self, cluster: &Cluster, before: &[(String, f64)], bin: Bin, turns: usize) {
        let of = |name| since(cluster, before, name).into_iter().map(|used| used / turns as f64).collect::<Vec<f64>>();
        let (workers, gateway_s) = (of("worker"), of("gateway").iter().sum::<f64>());
        self.worker_s.iter_mut().zip(&workers).for_each(|(sum, used)| *sum += used);
        self.gateway_s += gateway_s;
        self.keeper_s += of("keeper").iter().sum::<f64>();
        self.bins[bin as usize].workers_s += workers.iter().sum::<f64>();
        self.bins[bin as usize].gateway_s += gateway_s;
    }

    fn bytes(&self) -> u64 {
        self.bins.iter().map(|bin| bin.bytes).sum()
    }

    fn all_s(&self) -> f64 {
        self.workers_s() + self.gateway_s + self.keeper_s
    }

    fn greatest_s(&self) -> f64 {
        self.worker_s.iter().copied().fold(0.0, f64::max)
    }

    /// Greatest worker / mean.
    fn skew(&self) -> f64 {
        self.greatest_s() * self.worker_s.len() as f64 / self.workers_s()
    }

    /// What a pass would take on machines of their own, one question after the other.
    fn foreseen_s(&self) -> f64 {
        self.greatest_s() + self.gateway_s + self.bytes() as f64 * 8.0 / BITS_PER_S
    }

    fn json(&self) -> Value {
        json!({
            "workers": self.workers, "shards": self.shards, "worker_cpu_s": self.worker_s, "gateway_cpu_s": self.gateway_s,
            "keeper_cpu_s": self.keeper_s, "load_cpu_s": self.loaded.cpu_s, "load_copied_s": self.loaded.copied_s, "cpu_s": self.all_s(), "idle_cpu_share": self.idle_share,
            "bytes": self.bytes(), "shards_asked": self.bins.iter().map(|bin| bin.shards_asked).sum::<u64>(), "greatest_to_mean": self.skew(),
            "foreseen_s": self.foreseen_s(),
        })
    }
}

/// Clusters by workers and shards. The model wants some more than the bar.
fn shapes(args: &ClusterArgs) -> Vec<(usize, usize)> {
    let each = args.shards_per_worker.unwrap_or(super::SHARDS_PER_WORKER);
    match args.model {
        true => vec![(1, each), (4, 4 * each), (2, 2 * each), (1, 4 * each)],
        false => vec![(1, each), (4, 4 * each)],
    }
}

/// Figures, and the work by shape in the order of [`shapes`].
pub async fn run(args: &ClusterArgs, scratch: &Scratch) -> Anything<(Value, Vec<Work>)> {
    let data = Data { rows: args.rows, zipf: 0, correlated: false };
    let file = data.parquet(&args.folders.data)?;
    let mut laid = Vec::new();
    for (workers, shards) in shapes(args) {
        let dir = scratch.dir(&format!("scale-{workers}-{shards}"))?;
        let cluster = Cluster::start(&dir, &args.folders.data, &Shape::new(workers, 1, args.memory_mb))?;
        let loaded = load(&cluster, &file, args.rows, &format!("placement = 'rows', shards = '{shards}'")).await?;
        let client = cold(&cluster).await?;
        laid.push(Laid { workers, shards, loaded, cluster, client });
    }
    let questions = questions(&laid[0].client, &data, args.queries, args.seed)?;
    let mut wrong = Wrong::default();
    let works = measure(args, &laid, &questions, &mut wrong).await?;
    let [one, four, ..] = works.as_slice() else {
        return Err("two clusters are compared".into());
    };
    let (cpu_ratio, speed_up) = (four.all_s() / one.all_s(), one.foreseen_s() / four.foreseen_s());
    eprintln!(
        "scale: CPU of a pass {:.2} s on 1 worker, {:.2} s on 4: ratio {cpu_ratio:.3}; greatest worker / mean {:.3}; foreseen {speed_up:.2} times faster",
        one.all_s(),
        four.all_s(),
        four.skew()
    );
    let figures = json!({
        "cpu_ratio": cpu_ratio, "greatest_to_mean": four.skew(), "foreseen_speed_up": speed_up,
        "questions": questions.len(), "turns": args.turns,
        "clusters": works.iter().map(Work::json).collect::<Vec<Value>>(), "wrong": wrong.0,
    });
    Ok((figures, works))
}

async fn measure(args: &ClusterArgs, laid: &[Laid], questions: &[Question], wrong: &mut Wrong) -> Anything<Vec<Work>> {
    let mut works = Vec::new();
    for Laid { workers, shards, loaded, cluster, client } in laid {
        let mut work = Work { workers: *workers, shards: *shards, loaded: *loaded, ..Work::default() };
        work.worker_s = vec![0.0; *workers];
        for question in questions {
            let (shards, bytes) = asked(client, &question.sql).await?;
            let bin = &mut work.bins[question.bin as usize];
            bin.questions += 1;
            bin.shards_asked += shards;
            bin.bytes += bytes;
        }
        let before = cluster.cpus();
        tokio::time::sleep(IDLE).await;
        work.idle_share = since(cluster, &before, "").iter().sum::<f64>() / IDLE.as_secs_f64();
        works.push(work);
    }
    // The first turn warms.
    for turn in 0..=args.turns {
        for step in 0..laid.len() {
            let at = (step + turn) % laid.len();
            let (Laid { cluster, client, workers, .. }, work) = (&laid[at], &mut works[at]);
            for bin in Bin::ALL {
                let before = cluster.cpus();
                for question in questions.iter().filter(|question| question.bin == bin) {
                    let (_, got) = timed(client, &question.sql).await?;
                    wrong.check(&format!("{workers} workers"), &question.sql, &question.reference, &answer(&got)?);
                }
                if turn > 0 {
                    work.add(cluster, &before, bin, args.turns);
                }
            }
        }
    }
    Ok(works)
}
