//! `cluster`: a database on several processes beside one process, by the bars of several machines.
//!
//! All nodes are on this machine, which has few cores: so CPU seconds, ratios and bytes are what counts, and wall time only where it is said.
//! [`processes`] starts and kills nodes, [`boxed`] has the retail table and its questions; each other file is one bar.

mod boxed;
mod freshness;
mod grid;
mod insert;
mod kills;
mod model;
mod processes;
mod restore;
mod scale;
mod single;
mod sql;
mod tpch;

use crate::{Anything, Folders};
use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::path::PathBuf;

#[derive(Args)]
pub struct ClusterArgs {
    #[command(flatten)]
    folders: Folders,
    /// What is measured [default: all].
    #[arg(long, value_delimiter = ',')]
    only: Vec<Part>,
    /// Rows of the retail table.
    #[arg(long, default_value_t = 20_000_000)]
    rows: u64,
    /// TPC-H's scale factor.
    #[arg(long, default_value_t = 1.0)]
    sf: f64,
    /// Seconds of each measurement of inserts.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Questions over the retail table, a third in each bin of coverage.
    #[arg(long, default_value_t = 60)]
    queries: usize,
    /// Timed turns of each question.
    #[arg(long, default_value_t = 5)]
    turns: usize,
    /// Seed of questions and of what is killed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Clients that insert single rows.
    #[arg(long, default_value_t = 64)]
    writers: usize,
    /// Shards of a table for each worker [default: the program's own].
    #[arg(long)]
    shards_per_worker: Option<usize>,
    /// Memory of one process, and of all workers of a cluster together, in MiB; gateways have half as much.
    #[arg(long, default_value_t = 4096)]
    memory_mb: u64,
    /// Rounds of kills.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Rows that are inserted at one gateway and asked for at another.
    #[arg(long, default_value_t = 20_000)]
    pairs: usize,
    /// Seconds within which lost replicas must be there again.
    #[arg(long, default_value_t = 120)]
    restore_timeout: u64,
    /// Foresees larger clusters by what this run has measured; needs scale, insert and tpch.
    #[arg(long)]
    model: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Part {
    Single,
    Scale,
    Tpch,
    Insert,
    Kills,
    Freshness,
    Grid,
    Restore,
}

/// What the program makes for each worker where nobody says it.
const SHARDS_PER_WORKER: usize = 4;

/// Folders of servers.
struct Scratch(tempfile::TempDir);

impl Scratch {
    /// A folder that is new.
    fn dir(&self, name: &str) -> Anything<PathBuf> {
        let dir = self.0.path().join(name);
        std::fs::create_dir_all(&dir)?;
        Ok(dir)
    }

    /// Gives the room of all of them back.
    fn clear(&self) -> Anything<()> {
        for entry in std::fs::read_dir(self.0.path())? {
            std::fs::remove_dir_all(entry?.path())?;
        }
        Ok(())
    }
}

impl ClusterArgs {
    /// Options of a table on so many workers.
    fn placement(&self, workers: usize) -> String {
        let shards = |each| format!("placement = 'rows', shards = '{}'", each * workers);
        self.shards_per_worker.map_or_else(|| "placement = 'rows'".to_owned(), shards)
    }
}

/// The keys by which figures of the bars are found, and where they are.
const KEYS: [(&str, &str); 8] = [
    ("single_ratio", "/single/single_ratio"),
    ("cpu_ratio", "/scale/cpu_ratio"),
    ("tpch_wrong", "/tpch/tpch_wrong"),
    ("insert_ratio", "/insert/insert_ratio"),
    ("lost", "/kills/lost"),
    ("doubled", "/kills/doubled"),
    ("missed_at_0", "/freshness/missed_at_0"),
    ("replica_restored_s", "/restore/replica_restored_s"),
];

pub async fn run(args: ClusterArgs) -> Anything<Value> {
    let scratch = Scratch(tempfile::tempdir_in(&args.folders.data)?);
    let is_whole = args.only.is_empty() || [Part::Scale, Part::Tpch].iter().all(|part| args.only.contains(part));
    if args.model && !is_whole {
        return Err("--model goes by what scale and tpch measure: name both in --only, or leave --only out".into());
    }
    let (mut asked, mut joined) = (Vec::new(), Vec::new());
    let mut figures = json!({ "bench": "cluster", "rows": args.rows, "seed": args.seed, "memory_mb": args.memory_mb });
    for part in Part::value_variants() {
        if !args.only.is_empty() && !args.only.contains(part) {
            continue;
        }
        let (name, of_part) = match part {
            Part::Single => ("single", single::run(&args, &scratch).await?),
            Part::Scale => {
                let (of_scale, works) = scale::run(&args, &scratch).await?;
                asked = works;
                ("scale", of_scale)
            }
            Part::Tpch => {
                let (of_tpch, works) = tpch::run(&args, &scratch).await?;
                joined = works;
                ("tpch", of_tpch)
            }
            Part::Insert => ("insert", insert::run(&args, &scratch).await?),
            Part::Kills => ("kills", kills::run(&args, &scratch).await?),
            Part::Freshness => ("freshness", freshness::run(&args, &scratch).await?),
            Part::Grid => ("grid", grid::run(&args, &scratch).await?),
            Part::Restore => ("restore", restore::run(&args, &scratch).await?),
        };
        figures[name] = of_part;
        // The processes have ended, and the next part needs the room.
        scratch.clear()?;
    }
    if args.model {
        figures["model"] = model::run(&args, &scratch, &asked, &joined).await?;
    }
    for (key, path) in KEYS {
        figures[key] = figures.pointer(path).cloned().unwrap_or(Value::Null);
    }
    Ok(figures)
}
