//! `load`: a Parquet file through `sorted` and `merged`, beside DuckDB's load of the same file into its own format, and with
//! `--without` beside tables of ours that have no ladders, and neither ladders nor an index.

use crate::machine::{median, resident};
use crate::python_peer::python;
use crate::retail::{create, parquet_file};
use crate::{Anything, Folders};
use alluvia_node::{Database, DatabaseOptions, parse_bytes};
use clap::Args;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

#[derive(Args)]
pub struct LoadArgs {
    #[command(flatten)]
    folders: Folders,
    /// Rows of the file.
    #[arg(long, default_value_t = 20_000_000)]
    rows: u64,
    /// Turns of project and peer.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Memory limit of the project.
    #[arg(long)]
    memory_limit: Option<String>,
    /// Leaves the peer out.
    #[arg(long)]
    alone: bool,
    /// Also loads tables without ladders, and without dimensions: no curve, codes or ladders.
    #[arg(long)]
    without: bool,
}

/// What a table of ours has beside its rows.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Has {
    Everything,
    NoLadders,
    NoIndex,
}

const DUCKDB: &str = "
import duckdb, json, os, sys, tempfile, time
source, folder = sys.argv[1], sys.argv[2]
with tempfile.TemporaryDirectory(dir=folder) as scratch:
    connection = duckdb.connect(os.path.join(scratch, 'peer.duckdb'))
    connection.execute('SET enable_progress_bar = false')
    connection.execute('SET threads = 2')
    start = time.monotonic()
    connection.execute(f\"CREATE TABLE retail AS SELECT * FROM read_parquet('{source}')\")
    connection.execute('CHECKPOINT')
    print(json.dumps({'seconds': time.monotonic() - start, 'version': duckdb.__version__}))
";

pub async fn run(args: LoadArgs) -> Anything<Value> {
    let file = parquet_file(&args.folders.data, args.rows)?;
    let file = file.to_str().ok_or("the data folder's path is not UTF-8")?.to_owned();
    let kinds: &[Has] =
        if args.without { &[Has::Everything, Has::NoLadders, Has::NoIndex] } else { &[Has::Everything] };
    let mut loaded: Vec<(Has, Vec<f64>, Vec<f64>)> = kinds.iter().map(|&has| (has, Vec::new(), Vec::new())).collect();
    let (mut peer, mut version) = (Vec::new(), Value::Null);
    let (mut opened, mut bytes, mut shares) = (Vec::new(), 0, Value::Null);
    for turn in 0..args.turns {
        // Each is the first in turn, so that none always finds the machine as another left it.
        for at in 0..kinds.len() {
            let (has, sorted, merged) = &mut loaded[(turn + at) % kinds.len()];
            let scratch = tempfile::tempdir_in(&args.folders.data)?;
            let turned = ours(&args, &file, scratch.path(), *has).await?;
            eprintln!("turn {turn}: {} sorted {:.2} s, merged {:.2} s", has.name(), turned.sorted, turned.merged);
            sorted.push(turned.sorted);
            merged.push(turned.merged);
            if *has == Has::Everything {
                (bytes, shares) = (turned.bytes, turned.shares);
                opened.push(turned.opened);
            }
        }
        if !args.alone {
            let folder = args.folders.data.to_str().ok_or("the data folder's path is not UTF-8")?;
            let answer = python(&args.folders, DUCKDB, &[&file, folder])?;
            let seconds = answer["seconds"].as_f64().ok_or("the peer printed no time")?;
            version = answer["version"].clone();
            eprintln!("turn {turn}: DuckDB {seconds:.2} s");
            peer.push(seconds);
        }
    }
    let rate = |seconds: f64| args.rows as f64 / seconds;
    let mut medians = loaded.iter_mut().map(|(has, sorted, merged)| (has.name(), median(sorted), median(merged)));
    let (_, sorted, merged) = medians.next().ok_or("nothing was loaded")?;
    let mut ratios = json!({});
    for (name, others_sorted, others_merged) in medians {
        ratios[name] = json!({
            "sorted_rows_per_s": rate(others_sorted), "merged_rows_per_s": rate(others_merged),
            "sorted_with_to_without": others_sorted / sorted, "merged_with_to_without": others_merged / merged,
        });
    }
    let peer = median(&mut peer);
    let source_bytes = std::fs::metadata(&file)?.len();
    Ok(json!({
        "bench": "load",
        "rows": args.rows,
        "sorted_rows_per_s": rate(sorted),
        "merged_rows_per_s": rate(merged),
        "duckdb_rows_per_s": (!args.alone).then(|| rate(peer)),
        "sorted_to_duckdb": (!args.alone).then(|| peer / sorted),
        "merged_to_duckdb": (!args.alone).then(|| peer / merged),
        "open_s": median(&mut opened),
        "resident_peak_bytes": resident().1,
        "memory_limit": args.memory_limit,
        "source_bytes": source_bytes,
        "data_bytes": bytes,
        "shares": shares,
        "without": ratios,
        "duckdb": version,
    }))
}

struct Turned {
    sorted: f64,
    merged: f64,
    opened: f64,
    bytes: u64,
    shares: Value,
}

impl Has {
    fn name(self) -> &'static str {
        match self {
            Has::Everything => "everything",
            Has::NoLadders => "without ladders",
            Has::NoIndex => "without an index",
        }
    }
}

async fn ours(args: &LoadArgs, file: &str, scratch: &Path, has: Has) -> Anything<Turned> {
    let mut options = DatabaseOptions::default();
    if let Some(limit) = &args.memory_limit {
        options.memory_limit_bytes = parse_bytes(limit)?;
    }
    if has != Has::Everything {
        options.pipeline.rung_rows_min = u64::MAX;
    }
    let definition = create("retail");
    let plain = definition.split(" WITH ").next().unwrap_or_default();
    let dir = scratch.join("db");
    let db = Database::open_with(&dir, options.clone())?;
    let session = db.session();
    session.sql(if has == Has::NoIndex { plain } else { &definition }).await?;
    let start = Instant::now();
    session.sql(&format!("COPY retail FROM '{file}'")).await?;
    let sorted = start.elapsed().as_secs_f64();
    session.sql("CALL alluvia.merge()").await?;
    let merged = start.elapsed().as_secs_f64();
    let bytes = alluvia_snapshot::Admin::segments(db.core().as_ref()).iter().map(|meta| meta.meta.bytes()).sum();
    let shares = crate::file_shares::print(&db).await?;
    drop(session);
    drop(db);
    let start = Instant::now();
    let db = Database::open_with(&dir, options)?;
    let opened = start.elapsed().as_secs_f64();
    let batches = db.session().sql("SELECT count(*) FROM retail").await?.collect().await?;
    let count = arrow::util::display::array_value_to_string(batches[0].column(0), 0)?;
    if count != args.rows.to_string() {
        return Err(format!("{} rows went in, {count} came out", args.rows).into());
    }
    Ok(Turned { sorted, merged, opened, bytes, shares })
}
