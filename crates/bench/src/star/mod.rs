//! `star`: aggregates of a fact table joined to filtered small tables, from many rows to few, beside DuckDB and plain DataFusion.
//!
//! Ours is asked in three ways: with `index_rule = off`, so that the join is planned over scans; by the index with cuboids off;
//! and by the index once it has built what cuboids it wants. DuckDB holds the tables in memory, DataFusion in memory in this
//! process. The first turn warms, and every answer of it must be DuckDB's; later turns rotate. [`data`] makes the tables,
//! [`questions`] has the statements.

mod data;
mod questions;

use crate::boxes::peers::{Peer, TABLES as DUCKDB};
use crate::cells::{equal, equal_batches};
use crate::machine::median;
use crate::{Anything, Folders};
use alluvia_node::Database;
use alluvia_query::Session;
use arrow::record_batch::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use clap::Args;
use data::{Star, TABLES};
use datafusion::datasource::MemTable;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use questions::{QUESTIONS, Question};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

#[derive(Args)]
pub struct StarArgs {
    #[command(flatten)]
    folders: Folders,
    /// Rows of the fact table.
    #[arg(long, default_value_t = 6_000_000)]
    rows: u64,
    /// Sizes of the small tables; 1 is SSB's scale factor 1.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Timed turns of every engine on each question.
    #[arg(long, default_value_t = 5)]
    turns: usize,
}

/// Who is asked, in the order of figures; the first three are ours.
const ENGINES: [&str; 5] = ["index_rule off", "index, cold", "index, resident", "DataFusion", "DuckDB"];

pub async fn run(args: StarArgs) -> Anything<Value> {
    if args.rows == 0 || args.turns == 0 || !(0.001..=100.0).contains(&args.scale) {
        return Err("star wants at least 1 row, 1 turn and a scale from 0.001 to 100".into());
    }
    let star = Star { rows: args.rows, scale: args.scale };
    let files = star.parquet(&args.folders.data)?;
    let scratch = tempfile::tempdir_in(&args.folders.data)?;
    let db = Database::open(scratch.path().join("db"))?;
    let ours = Ours::load(&db, &files).await?;
    let plain = plain(&files).await?;
    let listed: Vec<String> =
        TABLES.iter().zip(&files).map(|((table, _), file)| format!("{table}={}", file.display())).collect();
    let mut duckdb = Peer::start(&DUCKDB, &args.folders, &listed.join("\n"), scratch.path(), args.rows)?;

    let (mut figures, mut wrong) = (Vec::new(), Vec::new());
    for question in &QUESTIONS {
        let engines = Engines { ours: &ours, plain: &plain, duckdb: &mut duckdb };
        let measured = engines.question(question, args.turns).await?;
        wrong.extend(measured.wrong);
        figures.push(measured.figures);
    }
    for (at, engine) in ENGINES.iter().enumerate() {
        let total: f64 = figures.iter().filter_map(|figure| figure["ms"][at].as_f64()).sum();
        eprintln!("total of {} questions, {engine}: {total:.1} ms", QUESTIONS.len());
    }
    let figures = json!({
        "bench": "star", "rows": args.rows, "scale": args.scale, "small_rows": star.small_rows(), "turns": args.turns,
        "merged_s": ours.merged_s, "engines": ENGINES, "questions": figures, "wrong": wrong,
        "duckdb": duckdb.version, "datafusion": datafusion::DATAFUSION_VERSION,
    });
    if wrong.is_empty() { Ok(figures) } else { Err(format!("answers differ from DuckDB's: {figures}").into()) }
}

/// Three sessions of one database.
struct Ours {
    sessions: [Session; 3],
    merged_s: f64,
}

impl Ours {
    async fn load(db: &Database, files: &[PathBuf]) -> Anything<Ours> {
        let [off, cold, resident] = [db.session(), db.session(), db.session()];
        let start = Instant::now();
        for ((table, definition), file) in TABLES.iter().zip(files) {
            resident.sql(&format!("CREATE TABLE {table} {definition}")).await?;
            resident.sql(&format!("COPY {table} FROM '{}'", file.display())).await?;
        }
        resident.sql("CALL alluvia.merge()").await?;
        let merged_s = start.elapsed().as_secs_f64();
        eprintln!("Alluvia: loaded and merged in {merged_s:.1} s");
        for setting in ["index_rule", "short_path", "cuboids"] {
            off.sql(&format!("SET {setting} = off")).await?;
        }
        cold.sql("SET cuboids = off").await?;
        Ok(Ours { sessions: [off, cold, resident], merged_s })
    }

    /// Who answered: `cuboid`, `index`, `refused` (then the plan), or `plan`.
    async fn answered_by(&self, way: usize, sql: &str) -> Anything<&'static str> {
        let batches = ask(&self.sessions[way], &format!("EXPLAIN ANALYZE VERBOSE {sql}")).await?;
        let text = pretty_format_batches(&batches)?.to_string();
        let who = if text.contains("refused=1") {
            "refused"
        } else if text.contains("cuboid=1") || text.contains("cuboid: resident") {
            "cuboid"
        } else if text.contains("IndexAnswer") {
            "index"
        } else {
            "plan"
        };
        Ok(who)
    }
}

/// DataFusion with its tables in memory, as many partitions as there are cores.
async fn plain(files: &[PathBuf]) -> Anything<SessionContext> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(threads));
    for ((table, _), file) in TABLES.iter().zip(files) {
        let rows = context.read_parquet(utf8(file)?, ParquetReadOptions::default()).await?;
        let schema = Arc::clone(rows.schema().inner());
        let batches = rows.collect().await?;
        let partitions = (0..threads)
            .map(|part| batches.iter().skip(part).step_by(threads).cloned().collect())
            .collect::<Vec<Vec<RecordBatch>>>();
        context.register_table(*table, Arc::new(MemTable::try_new(schema, partitions)?))?;
    }
    Ok(context)
}

fn utf8(path: &Path) -> Anything<&str> {
    Ok(path.to_str().ok_or("the data folder's path is not UTF-8")?)
}

async fn ask(session: &Session, sql: &str) -> Anything<Vec<RecordBatch>> {
    Ok(session.sql(sql).await?.collect().await?)
}

struct Engines<'a> {
    ours: &'a Ours,
    plain: &'a SessionContext,
    duckdb: &'a mut Peer,
}

struct Measured {
    figures: Value,
    wrong: Vec<String>,
}

/// An answer, as its engine gives it.
enum Answer {
    Batches(Vec<RecordBatch>),
    Rows(Value),
}

impl Engines<'_> {
    async fn question(mut self, question: &Question, turns: usize) -> Anything<Measured> {
        let Question { name, joined, sql } = *question;
        // Asked once, what it wants is known; built, it is resident.
        ask(&self.ours.sessions[2], sql).await?;
        ask(&self.ours.sessions[2], "CALL alluvia.build_cuboids()").await?;
        let (_, Answer::Rows(reference)) = self.ask(4, sql).await? else { return Err("DuckDB gives rows".into()) };
        let mut wrong = Vec::new();
        let mut planned = Vec::new();
        for (engine, who) in ENGINES.iter().enumerate().take(4) {
            let (_, Answer::Batches(batches)) = self.ask(engine, sql).await? else { continue };
            if !equal(&batches, &reference)? {
                wrong.push(format!("{who}, {name}"));
            }
            // The index and the plan of the same database must agree to the last digit that is compared, too.
            if engine == 0 {
                planned = batches;
            } else if engine < 3 && !equal_batches(&planned, &batches)? {
                wrong.push(format!("{who} differs from the plan, {name}"));
            }
        }
        let mut times: [Vec<f64>; ENGINES.len()] = Default::default();
        for turn in 0..turns {
            for step in 0..ENGINES.len() {
                let engine = (step + turn) % ENGINES.len();
                times[engine].push(self.ask(engine, sql).await?.0);
            }
        }
        let ms = times.map(|mut times| median(&mut times));
        let by = [self.ours.answered_by(1, sql).await?, self.ours.answered_by(2, sql).await?];
        let best = ms[3].min(ms[4]);
        eprintln!(
            "{name:<36} off {:>8.2}  cold {:>8.2} ({})  resident {:>8.2} ({})  DataFusion {:>8.2}  DuckDB {:>8.2} ms{}",
            ms[0],
            ms[1],
            by[0],
            ms[2],
            by[1],
            ms[3],
            ms[4],
            if wrong.is_empty() { "" } else { "  DIFFERS" }
        );
        let figures = json!({
            "question": name, "joined": joined, "groups": reference.as_array().map_or(0, Vec::len), "ms": ms,
            "cold_by": by[0], "resident_by": by[1],
            "off_to_cold": ms[0] / ms[1], "off_to_resident": ms[0] / ms[2],
            "best_peer_to_cold": best / ms[1], "best_peer_to_resident": best / ms[2],
        });
        Ok(Measured { figures, wrong })
    }

    /// Milliseconds and the answer.
    async fn ask(&mut self, engine: usize, sql: &str) -> Anything<(f64, Answer)> {
        let start = Instant::now();
        let batches = match engine {
            4 => {
                let (ms, rows) = self.duckdb.rows(sql)?;
                return Ok((ms, Answer::Rows(rows)));
            }
            3 => self.plain.sql(sql).await?.collect().await?,
            way => ask(&self.ours.sessions[way], sql).await?,
        };
        Ok((start.elapsed().as_secs_f64() * 1e3, Answer::Batches(batches)))
    }
}
