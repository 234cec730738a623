//! `box`: aggregates over random boxes with scattered value sets, by coverage, beside DuckDB, ClickHouse and DataFusion.
//!
//! Every engine holds the same rows in memory or its own files, gets the same SQL text, and is asked question by question in
//! rotating order after one pass that warms it and checks its answers. Throughput is two clients of ours, and the peers' own
//! two threads. [`data`] makes the rows, [`questions`] the boxes, [`peers`] and [`ours`] ask, [`figures`] adds up,
//! [`sizes`] asks a table of another size beside.

pub mod answer;
pub mod data;
mod figures;
pub mod ours;
pub mod peers;
pub mod questions;
mod sizes;

use crate::{Anything, Folders};
use alluvia_node::{DatabaseOptions, parse_bytes};
use alluvia_query::Prepared;
use answer::Answer;
use clap::Args;
use data::Data;
use figures::Measured;
use ours::{Ours, Way};
use peers::{KINDS, Peer};
use questions::{Bin, Generator, Question};
use serde_json::{Value, json};

#[derive(Args)]
pub struct BoxArgs {
    #[command(flatten)]
    folders: Folders,
    /// Rows of the table.
    #[arg(long, default_value_t = 20_000_000)]
    rows: u64,
    /// Questions in a list, a third in each bin of coverage.
    #[arg(long, default_value_t = 120)]
    queries: usize,
    /// Timed turns of every engine on each question.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// Exponent of Zipf's law by which members are drawn; 0 is uniform.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=2))]
    zipf: u32,
    /// The second dimension follows the first in 80 % of the rows.
    #[arg(long)]
    correlated: bool,
    /// A second list: the same boxes, each grouped by one coarse level.
    #[arg(long)]
    grouped: bool,
    /// Seed of the questions.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Longest list of members; longer ones move to a coarser level. No limit if it is not given.
    #[arg(long)]
    list_max: Option<usize>,
    /// Least seconds of throughput, for each engine in each bin.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Memory limit of the project.
    #[arg(long)]
    memory_limit: Option<String>,
    /// Rows of a second table, on which resident questions are asked in turns with the first.
    #[arg(long)]
    beside: Option<u64>,
    /// Peers other than DuckDB, the reference, are left out.
    #[arg(long)]
    alone: bool,
}

/// How ours is opened.
fn options(args: &BoxArgs) -> Anything<DatabaseOptions> {
    let mut options = DatabaseOptions::default();
    if let Some(limit) = &args.memory_limit {
        options.memory_limit_bytes = parse_bytes(limit)?;
    }
    Ok(options)
}

pub async fn run(args: BoxArgs) -> Anything<Value> {
    if args.queries < Bin::ALL.len() || args.turns == 0 {
        return Err("box wants at least 3 queries and 1 turn".into());
    }
    let data = Data { rows: args.rows, zipf: args.zipf, correlated: args.correlated };
    let file = data.parquet(&args.folders.data)?;
    let file = file.to_str().ok_or("the data folder's path is not UTF-8")?.to_owned();
    let scratch = tempfile::tempdir_in(&args.folders.data)?;
    let ours = Ours::load(&args.folders.table(scratch.path(), &file), &file, args.rows, options(&args)?).await?;

    let (mut peers, mut absent) = (Vec::new(), json!({}));
    for kind in &KINDS[..if args.alone { 1 } else { KINDS.len() }] {
        match Peer::start(kind, &args.folders, &file, scratch.path(), args.rows) {
            Ok(peer) => peers.push(peer),
            Err(error) if peers.is_empty() => return Err(error),
            Err(error) => {
                eprintln!("{} is left out: {error}", kind.name);
                absent[kind.name] = error.to_string().into();
            }
        }
    }

    let mut generator = Generator::new(args.seed, &data, args.list_max.unwrap_or(usize::MAX));
    let each = args.queries / Bin::ALL.len();
    let reference = &mut peers[0];
    let mut lists = vec![("aggregates", generator.questions(each, |sql| Ok(reference.ask(sql, false)?.1))?)];
    if args.grouped {
        let grouped = generator.grouped(&lists[0].1, |sql| Ok(reference.ask(sql, true)?.1))?;
        lists.push(("grouped aggregates", grouped));
    }
    let (mut figures, mut wrong) = (Vec::new(), Vec::new());
    for (list, questions) in &lists {
        let mut measured = measure(&args, &ours, &mut peers, questions).await?;
        figures.push(measured.report(list, questions));
        wrong.append(&mut measured.wrong);
    }
    let beside = match args.beside {
        Some(rows) => sizes::compare(&args, &ours, rows, scratch.path(), &lists[0].1).await?,
        None => Value::Null,
    };
    let versions =
        peers.iter().map(|peer| json!({ "peer": peer.name, "version": peer.version, "load_s": peer.load_s }));
    let figures = json!({
        "bench": "box", "rows": args.rows, "zipf": args.zipf, "correlated": args.correlated, "seed": args.seed,
        "turns": args.turns, "list_max": args.list_max, "clients": ours::CLIENTS,
        "merged_s": ours.load_s, "lists": figures, "wrong": wrong, "beside": beside,
        "shares": crate::file_shares::print(ours.db()).await?,
        "peers": versions.collect::<Vec<Value>>(), "absent": absent,
    });
    if wrong.is_empty() { Ok(figures) } else { Err(format!("answers differ from DuckDB's: {figures}").into()) }
}

/// Every engine over one list: warmed and checked, then timed, then for throughput.
async fn measure(args: &BoxArgs, ours: &Ours, peers: &mut [Peer], questions: &[Question]) -> Anything<Measured> {
    let ways = Way::ALL.iter().map(|way| way.name());
    let engines: Vec<String> = ways.chain(peers.iter().map(|peer| peer.name)).map(str::to_owned).collect();
    let prepared = questions.iter().map(|question| ours.prepare(question)).collect::<Anything<Vec<Prepared>>>()?;
    let mut measured = Measured {
        samples: vec![vec![Vec::new(); questions.len()]; engines.len()],
        throughput: vec![Vec::new(); engines.len()],
        resident_throughput: vec![Vec::new(); engines.len()],
        resident: Vec::new(),
        wrong: Vec::new(),
        engines,
    };
    let count = measured.engines.len();
    for (at, question) in questions.iter().enumerate() {
        measured.resident.push(ours.make_resident(question).await?);
        for engine in 0..count {
            let (_, answer) = ask(ours, peers, engine, question, &prepared[at]).await?;
            if let Some(how) = question.reference.difference(&answer) {
                let who = &measured.engines[engine];
                eprintln!("WRONG: {who}, question {at}: {how}\n  {}", shortened(&question.sql));
                measured.wrong.push(format!("{who}, question {at}: {how}"));
            }
        }
    }
    eprintln!("warmed and checked: {} wrong", measured.wrong.len());
    for turn in 0..args.turns {
        for (at, question) in questions.iter().enumerate() {
            for step in 0..count {
                let engine = (step + at + turn) % count;
                let (took_ms, _) = ask(ours, peers, engine, question, &prepared[at]).await?;
                measured.samples[engine][at].push(took_ms);
            }
        }
        eprintln!("turn {turn} done");
    }
    for (at, bin) in Bin::ALL.into_iter().enumerate() {
        let of_bin = || questions.iter().zip(&measured.resident).filter(|(question, _)| question.bin == bin);
        let all: Vec<String> = of_bin().map(|(question, _)| question.sql.clone()).collect();
        let resident: Vec<String> =
            of_bin().filter(|(_, resident)| **resident).map(|(question, _)| question.sql.clone()).collect();
        for step in 0..count {
            let engine = (step + at) % count;
            let queries_per_s = throughput(args, ours, peers, engine, &all).await?;
            measured.throughput[engine].push(queries_per_s);
            // Shapes that are no cuboids would hide what those that are take.
            let of_resident = match resident.len() {
                0 => f64::NAN,
                some if some == all.len() => queries_per_s,
                _ => throughput(args, ours, peers, engine, &resident).await?,
            };
            measured.resident_throughput[engine].push(of_resident);
        }
        eprintln!("throughput of {} coverage done", bin.name());
    }
    Ok(measured)
}

/// Queries a second of one engine over a list.
async fn throughput(args: &BoxArgs, ours: &Ours, peers: &mut [Peer], engine: usize, texts: &[String]) -> Anything<f64> {
    match Way::ALL.get(engine) {
        Some(way) => ours.throughput(*way, texts, args.seconds).await,
        None => peers[engine - Way::ALL.len()].throughput(texts, args.seconds),
    }
}

/// Asks one engine, by its place in [`Measured::engines`].
async fn ask(
    ours: &Ours,
    peers: &mut [Peer],
    engine: usize,
    question: &Question,
    prepared: &Prepared,
) -> Anything<(f64, Answer)> {
    match Way::ALL.get(engine) {
        Some(way) => ours.ask(*way, question, prepared).await,
        None => peers[engine - Way::ALL.len()].ask(&question.sql, question.grouped),
    }
}

/// Enough of a statement to know it by.
fn shortened(sql: &str) -> &str {
    sql.get(..300).unwrap_or(sql)
}
