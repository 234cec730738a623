//! Benchmarks: project and peer in turns, in one process tree, with a ratio. The last line is one JSON object.
//!
//! Run them with `make bench NAME=...`; docs/BENCHMARKS.md holds the latest tables.
#![allow(clippy::disallowed_methods)] // a benchmark measures with the machine's clock and reads its files

mod boxes;
mod cells;
mod cluster;
mod curves;
mod draw;
mod file_shares;
mod fraction;
mod freshness;
mod insert;
mod interval_trials;
mod keyed;
mod load;
mod machine;
mod mixed;
mod python_peer;
mod retail;
mod sample;
mod servers;
mod skip;
mod star;
mod thin;
mod tpch;
mod wire;

use alluvia_allocator::keep_freed_memory;
use alluvia_node::raise_open_files_max;
use clap::{Args, Parser, Subcommand};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What goes wrong in a benchmark ends it.
pub type Anything<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Parser)]
#[command(name = "alluvia-bench", about = "Project and peers side by side")]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// Parquet of 8 hierarchical dimensions, through sorted and merged, beside DuckDB.
    Load(load::LoadArgs),
    /// 64 writers of single-row durable batches.
    Insert(insert::InsertArgs),
    /// Query latency at four freshnesses, and stage staleness, under steady ingest.
    Freshness(freshness::FreshnessArgs),
    /// Random box queries by coverage, beside DuckDB, ClickHouse and DataFusion.
    Box(boxes::BoxArgs),
    /// VOLAP's figures 12 and 13: insertion and queries by structure and number of dimensions.
    Curves(curves::CurvesArgs),
    /// COPY, /ingest, prepared aggregates and inserts beside PostgreSQL, and answers through Flight SQL beside pyarrow.
    Wire(wire::WireArgs),
    /// Upserts into a table with a key, beside PostgreSQL, DuckDB and RocksDB.
    Upsert(keyed::upsert::UpsertArgs),
    /// Upserts of 2 of 12 columns, beside PostgreSQL and DuckDB.
    Partial(keyed::partial::PartialArgs),
    /// A few hot keys that are updated all the time: how the disk grows, and the tail.
    Annihilation(keyed::annihilation::AnnihilationArgs),
    /// LazyBase's figure 2 and table 2: batches of 1 to 1M rows, stage by stage, beside PostgreSQL.
    Scu(keyed::scu::ScuArgs),
    /// Rows of random keys and of ranges of keys, beside PostgreSQL, RocksDB and DataFusion.
    Point(keyed::point::PointArgs),
    /// Small durable batches and many aggregate queries at a time.
    Mixed(mixed::MixedArgs),
    /// Repeated and implied predicates on TPC-H: what the predicate cache spares.
    Skip(skip::SkipArgs),
    /// Aggregates of a fact table joined to filtered dimension tables, beside DuckDB and DataFusion.
    Star(star::StarArgs),
    /// Thinned rows of boxes in three dimensions, beside the whole boxes and DuckDB's samples.
    Thin(thin::ThinArgs),
    /// Estimates within an error beside cold exact answers, and how often intervals hold.
    Sample(sample::SampleArgs),
    /// One database on several processes beside one process.
    Cluster(cluster::ClusterArgs),
    /// The 22 TPC-H queries beside DataFusion over Parquet and DuckDB.
    Tpch(tpch::TpchArgs),
}

/// The folders of peers and data.
#[derive(Args, Clone, Debug)]
pub struct Folders {
    /// A Python virtual environment with the peers.
    #[arg(long)]
    pub venv: PathBuf,
    /// Folder of generated data.
    #[arg(long)]
    pub data: PathBuf,
    /// Folder in which box, mixed and sample keep Alluvia's loaded table for the next run.
    #[arg(long)]
    pub loaded: Option<PathBuf>,
}

impl Folders {
    /// Where Alluvia has the rows of a file: in a folder of that file's name that is kept, or in one of `scratch`.
    pub fn table(&self, scratch: &Path, file: &str) -> PathBuf {
        match (&self.loaded, Path::new(file).file_stem()) {
            (Some(folder), Some(name)) => folder.join(name),
            _ => scratch.join("db"),
        }
    }
}

fn main() -> ExitCode {
    keep_freed_memory();
    raise_open_files_max();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build();
    let runtime = runtime.expect("the machine can start threads");
    let result = runtime.block_on(async {
        match Cli::parse().bench {
            Bench::Load(args) => load::run(args).await,
            Bench::Insert(args) => insert::run(args).await,
            Bench::Freshness(args) => freshness::run(args).await,
            Bench::Box(args) => boxes::run(args).await,
            Bench::Curves(args) => curves::run(args).await,
            Bench::Wire(args) => wire::run(args).await,
            Bench::Upsert(args) => keyed::upsert::run(args).await,
            Bench::Partial(args) => keyed::partial::run(args).await,
            Bench::Annihilation(args) => keyed::annihilation::run(args).await,
            Bench::Scu(args) => keyed::scu::run(args).await,
            Bench::Point(args) => keyed::point::run(args).await,
            Bench::Mixed(args) => mixed::run(args).await,
            Bench::Skip(args) => skip::run(args).await,
            Bench::Star(args) => star::run(args).await,
            Bench::Thin(args) => thin::run(args).await,
            Bench::Sample(args) => sample::run(args).await,
            Bench::Cluster(args) => cluster::run(args).await,
            Bench::Tpch(args) => tpch::run(args).await,
        }
    });
    match result {
        Ok(mut figures) => {
            figures["machine"] = machine::describe();
            figures["alluvia_version"] = env!("CARGO_PKG_VERSION").into();
            println!("{figures}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("bench: {error}");
            ExitCode::FAILURE
        }
    }
}
