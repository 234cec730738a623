//! `mixed`: VOLAP's mix on two cores. Rows arrive steadily in small durable batches while clients of the Rust API ask aggregates at
//! freshness 0: first over shapes that are resident as cuboids, then low-coverage ones with cuboids off.
//!
//! Answers are checked against DuckDB over the same rows, before the first and after the last batch.

use crate::boxes::data::Data;
use crate::boxes::ours::{Ours, Way};
use crate::boxes::peers::{FILES, Peer};
use crate::boxes::questions::{Bin, Generator, Question};
use crate::machine::percentile;
use crate::retail::{Retail, write_once};
use crate::{Anything, Folders};
use alluvia_node::{Database, DatabaseOptions, parse_bytes};
use alluvia_query::Prepared;
use arrow::compute::concat_batches;
use arrow::record_batch::RecordBatch;
use clap::Args;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Args)]
pub struct MixedArgs {
    #[command(flatten)]
    folders: Folders,
    /// Rows in place before.
    #[arg(long, default_value_t = 20_000_000)]
    rows: u64,
    /// Seconds of each of the two mixes.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Rows that arrive in a second; 0 for none.
    #[arg(long, default_value_t = 50_000)]
    rate: u64,
    /// Rows of a durable batch.
    #[arg(long, default_value_t = 100)]
    batch_rows: usize,
    /// Writers that share the rate.
    #[arg(long, default_value_t = 8)]
    writers: usize,
    /// Clients that ask.
    #[arg(long, default_value_t = 16)]
    clients: usize,
    /// Questions a second over resident shapes, all clients together; 0 for as many as they can.
    #[arg(long, default_value_t = 20_000)]
    queries_per_s: u64,
    /// Questions, a third in each bin of coverage.
    #[arg(long, default_value_t = 24)]
    queries: usize,
    /// Seed of the questions.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Memory limit of the project.
    #[arg(long)]
    memory_limit: Option<String>,
}

/// Different batches that a writer has.
const BATCHES: usize = 64;

pub async fn run(args: MixedArgs) -> Anything<Value> {
    let data = Data { rows: args.rows, zipf: 0, correlated: false };
    let file = data.parquet(&args.folders.data)?;
    let file = file.to_str().ok_or("the data folder's path is not UTF-8")?.to_owned();
    let scratch = tempfile::tempdir_in(&args.folders.data)?;
    let mut options = DatabaseOptions::default();
    if let Some(limit) = &args.memory_limit {
        options.memory_limit_bytes = parse_bytes(limit)?;
    }
    let table = args.folders.table(scratch.path(), &file);
    let (mut loaded, mut load_s) = (table.clone(), None);
    if args.folders.loaded.is_some() {
        // Rows are added to a copy.
        load_s = Some(Ours::load(&table, &file, args.rows, options.clone()).await?.load_s);
        loaded = scratch.path().join("db");
        copy_folder(&table, &loaded)?;
    }
    let ours = Ours::load(&loaded, &file, args.rows, options).await?;
    let mut peer = Peer::start(&FILES, &args.folders, &file, scratch.path(), args.rows)?;
    let mut generator = Generator::new(args.seed, &data, usize::MAX);
    let each = (args.queries / Bin::ALL.len()).max(1);
    let questions = generator.questions(each, |sql| Ok(peer.ask(sql, false)?.1))?;
    drop(peer);

    let (mut resident, mut low) = (Vec::new(), Vec::new());
    let mut wrong = Vec::new();
    for question in &questions {
        let is_resident = ours.make_resident(question).await?;
        let prepared = ours.prepare(question)?;
        let ways = if is_resident { vec![Way::Cold, Way::ResidentApi] } else { vec![Way::Cold] };
        for way in ways {
            let (_, answer) = ours.ask(way, question, &prepared).await?;
            wrong.extend(question.reference.difference(&answer).map(|how| format!("before, {}: {how}", way.name())));
        }
        if is_resident {
            resident.push(question);
        }
        if question.bin == Bin::Low {
            low.push(question);
        }
    }
    if resident.is_empty() || low.is_empty() {
        return Err("no shape is resident: take another --seed, or more --queries".into());
    }
    eprintln!("{} questions of resident shapes, {} of low coverage", resident.len(), low.len());

    let mut batches = Vec::with_capacity(args.writers);
    for writer in 0..args.writers as u64 {
        let mut retail = Retail::new(1_000 + writer);
        batches.push((0..BATCHES).map(|_| retail.batch(args.batch_rows)).collect::<Anything<Vec<RecordBatch>>>()?);
    }
    let batches = Arc::new(batches);
    let mut sent = vec![vec![0u64; BATCHES]; args.writers];
    let mut figures = json!({
        "bench": "mixed", "rows": args.rows, "seconds": args.seconds, "clients": args.clients, "writers": args.writers,
        "asked_rows_per_s": args.rate, "batch_rows": args.batch_rows, "seed": args.seed, "merged_s": load_s.unwrap_or(ours.load_s),
    });
    for (name, questions, cuboids, rate) in
        [("resident", &resident, true, args.queries_per_s), ("not_resident_low_coverage", &low, false, 0)]
    {
        let mix = Mix { args: &args, questions, cuboids, queries_per_s: rate };
        figures[name] = mix.run(name, &ours, &batches, &mut sent).await?;
    }

    let ingested = ingested(scratch.path(), &batches, &sent)?;
    let rows = args.rows + sent.iter().flatten().sum::<u64>() * args.batch_rows as u64;
    let files = match &ingested {
        Some(ingested) => format!("{file}\n{ingested}"),
        None => file,
    };
    let mut peer = Peer::start(&FILES, &args.folders, &files, scratch.path(), rows)?;
    for question in &questions {
        let reference = peer.ask(&question.sql, false)?.1;
        let prepared = ours.prepare(question)?;
        for way in [Way::Cold, Way::ResidentSql, Way::ResidentApi] {
            let (_, answer) = ours.ask(way, question, &prepared).await?;
            wrong.extend(reference.difference(&answer).map(|how| format!("after, {}: {how}", way.name())));
        }
    }
    figures["rows_after"] = rows.into();
    figures["checked"] = questions.len().into();
    figures["wrong"] = json!(wrong);
    if wrong.is_empty() { Ok(figures) } else { Err(format!("answers differ from DuckDB's: {figures}").into()) }
}

/// Copies a folder and all that is in it.
fn copy_folder(from: &Path, to: &Path) -> Anything<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match entry.file_type()?.is_dir() {
            true => copy_folder(&from, &to)?,
            false => std::fs::copy(&from, &to).map(drop)?,
        }
    }
    Ok(())
}

/// What arrived, as a file for the peer.
fn ingested(folder: &Path, batches: &[Vec<RecordBatch>], sent: &[Vec<u64>]) -> Anything<Option<String>> {
    let each = batches.iter().zip(sent).flat_map(|(batches, sent)| batches.iter().zip(sent));
    let mut all = each.flat_map(|(batch, count)| (0..*count).map(move |_| batch.clone()));
    let rows: u64 = all.clone().map(|batch| batch.num_rows() as u64).sum();
    if rows == 0 {
        return Ok(None);
    }
    let schema = batches[0][0].schema();
    let mut rest: Option<RecordBatch> = None;
    let path = write_once(folder.join("ingested.parquet"), &schema, rows, |count| {
        let (mut parts, mut missing) = (Vec::new(), count);
        while missing > 0 {
            let batch = rest.take().or_else(|| all.next()).ok_or("fewer rows than were sent")?;
            let taken = missing.min(batch.num_rows());
            rest = (taken < batch.num_rows()).then(|| batch.slice(taken, batch.num_rows() - taken));
            parts.push(batch.slice(0, taken));
            missing -= taken;
        }
        Ok(concat_batches(&schema, &parts)?)
    })?;
    Ok(Some(path.to_str().ok_or("the data folder's path is not UTF-8")?.to_owned()))
}

/// One mix of ingest and questions.
struct Mix<'a> {
    args: &'a MixedArgs,
    questions: &'a [&'a Question],
    cuboids: bool,
    queries_per_s: u64,
}

impl Mix<'_> {
    async fn run(
        &self,
        name: &str,
        ours: &Ours,
        batches: &Arc<Vec<Vec<RecordBatch>>>,
        sent: &mut [Vec<u64>],
    ) -> Anything<Value> {
        let MixedArgs { seconds, rate, batch_rows, writers, clients, .. } = *self.args;
        let start = Instant::now();
        let until = start + Duration::from_secs(seconds);
        let (mut writing, mut asking) = (Vec::new(), Vec::new());
        if rate > 0 {
            let pause = Duration::from_secs_f64((batch_rows * writers) as f64 / rate as f64);
            for writer in 0..writers {
                // Writers take turns.
                let first = start + pause.mul_f64(writer as f64 / writers as f64);
                let pace = Pace { next: first, pause, until };
                writing.push(tokio::spawn(write(Arc::clone(ours.db()), Arc::clone(batches), writer, pace)));
            }
        }
        let pause = match self.queries_per_s {
            0 => Duration::ZERO,
            rate => Duration::from_secs_f64(clients as f64 / rate as f64),
        };
        for client in 0..clients {
            let session = ours.db().session();
            if !self.cuboids {
                session.sql("SET cuboids = off").await?;
            }
            let prepared =
                self.questions.iter().map(|question| session.prepare(&question.sql)).collect::<Result<Vec<_>, _>>()?;
            let next = start + pause.mul_f64(client as f64 / clients as f64);
            asking.push(tokio::spawn(ask(session, prepared, client, Pace { next, pause, until })));
        }
        let (mut query_us, mut batch_us, mut arrived) = (Vec::new(), Vec::new(), 0);
        for (writer, task) in writing.into_iter().enumerate() {
            let (times, counts) = task.await??;
            batch_us.extend(times);
            arrived += counts.iter().sum::<u64>() * batch_rows as u64;
            sent[writer].iter_mut().zip(counts).for_each(|(sent, count)| *sent += count);
        }
        for task in asking {
            query_us.extend(task.await??);
        }
        let took = start.elapsed().as_secs_f64();
        let (queries_per_s, rows_per_s) = (query_us.len() as f64 / took, arrived as f64 / took);
        let shares = |times: &mut Vec<f64>| [0.5, 0.99, 1.0].map(|share| percentile(times, share));
        let ([query_p50, query_p99, query_max], [batch_p50, batch_p99, batch_max]) =
            (shares(&mut query_us), shares(&mut batch_us));
        eprintln!(
            "{name}: {queries_per_s:.0} queries/s (p50 {query_p50:.0} us, p99 {query_p99:.0} us), {rows_per_s:.0} rows/s (batch p50 {:.2} ms, p99 {:.2} ms)",
            batch_p50 / 1e3,
            batch_p99 / 1e3
        );
        Ok(json!({
            "questions": self.questions.len(), "asked_queries_per_s": self.queries_per_s,
            "queries_per_s": queries_per_s, "query_p50_us": query_p50, "query_p99_us": query_p99, "query_max_us": query_max,
            "rows_per_s": rows_per_s, "batch_p50_us": batch_p50, "batch_p99_us": batch_p99, "batch_max_us": batch_max,
        }))
    }
}

/// When to do the next thing; at once if it is late.
struct Pace {
    next: Instant,
    pause: Duration,
    until: Instant,
}

impl Pace {
    /// Waits for the next turn; `false` when time is up.
    async fn turn(&mut self) -> bool {
        let now = Instant::now();
        if now >= self.until {
            return false;
        }
        match self.next.checked_duration_since(now) {
            Some(early) if !self.pause.is_zero() => tokio::time::sleep(early).await,
            // Others want the thread, too.
            _ => tokio::task::yield_now().await,
        }
        self.next += self.pause;
        true
    }
}

/// Microseconds of each batch, and how often each was sent.
async fn write(
    db: Arc<Database>,
    batches: Arc<Vec<Vec<RecordBatch>>>,
    writer: usize,
    mut pace: Pace,
) -> Anything<(Vec<f64>, Vec<u64>)> {
    let session = db.session();
    let (mut times, mut counts) = (Vec::new(), vec![0; BATCHES]);
    while pace.turn().await {
        let at = times.len() % BATCHES;
        let start = Instant::now();
        session.append(crate::boxes::questions::TABLE, vec![batches[writer][at].clone()]).await?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        counts[at] += 1;
    }
    Ok((times, counts))
}

/// Microseconds of each question.
async fn ask(
    session: alluvia_query::Session,
    prepared: Vec<Prepared>,
    client: usize,
    mut pace: Pace,
) -> Anything<Vec<f64>> {
    let mut times = Vec::new();
    while pace.turn().await {
        let at = (client * 7 + times.len()) % prepared.len();
        let start = Instant::now();
        let batches = session.execute_prepared(&prepared[at], &[]).await?.collect().await?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
        if batches.iter().map(RecordBatch::num_rows).sum::<usize>() != 1 {
            return Err("an aggregate has one row".into());
        }
    }
    Ok(times)
}
