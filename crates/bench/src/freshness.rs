//! `freshness`: LazyBase's figures 6 and 7. Rows arrive steadily; one query is asked at four freshnesses in turn, and the
//! staleness of each stage is sampled. Writes `freshness.json` and `freshness.svg` beside the data.

use crate::machine::percentile;
use crate::retail::{Retail, create};
use crate::{Anything, Folders};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_snapshot::Admin;
use alluvia_types::Stage;
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Args)]
pub struct FreshnessArgs {
    #[command(flatten)]
    folders: Folders,
    /// Rows that arrive in a second.
    #[arg(long, default_value_t = 210_000)]
    rate: u64,
    /// Seconds of steady ingest.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// Seconds of freshness asked for, in turn.
const FRESHNESS: [u64; 4] = [0, 1, 5, 15];
const QUESTION: &str = "SELECT country, count(*), sum(price) FROM retail WHERE category IN ('category-00001', 'category-00007') GROUP BY country";
/// Rows of one durable batch.
const BATCH_ROWS: u64 = 2_000;

pub async fn run(args: FreshnessArgs) -> Anything<Value> {
    let scratch = tempfile::tempdir_in(&args.folders.data)?;
    let db = Arc::new(Database::open_with(scratch.path().join("db"), DatabaseOptions::default())?);
    db.session().sql(&create("retail")).await?;
    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let writer = tokio::spawn(ingest(Arc::clone(&db), args.rate, Arc::clone(&stop), Arc::clone(&sent)));
    let sampler = tokio::spawn(sample(Arc::clone(&db), Arc::clone(&stop)));
    let start = Instant::now();
    let mut latencies: Vec<Vec<f64>> = vec![Vec::new(); FRESHNESS.len()];
    let mut lags: Vec<Vec<f64>> = vec![Vec::new(); FRESHNESS.len()];
    while start.elapsed() < Duration::from_secs(args.seconds) {
        for (at, freshness) in FRESHNESS.iter().enumerate() {
            let session = db.session();
            session.sql(&format!("SET freshness = '{freshness}s'")).await?;
            // A cuboid follows the log: every freshness would cost the same.
            session.sql("SET cuboids = off").await?;
            let asked = Instant::now();
            let outcome = session.sql(QUESTION).await?;
            let used = outcome.used().ok_or("a query says what it used")?;
            outcome.collect().await?;
            latencies[at].push(asked.elapsed().as_secs_f64() * 1e3);
            lags[at].push(used.lag.as_secs_f64());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let took = start.elapsed().as_secs_f64();
    let arrived = sent.load(Ordering::Relaxed);
    stop.store(true, Ordering::Relaxed);
    writer.await??;
    let staleness = sampler.await?;

    let mut queries = Vec::new();
    for (at, freshness) in FRESHNESS.iter().enumerate() {
        let worst = lags[at].iter().copied().fold(0.0, f64::max);
        let (median, high) = (percentile(&mut latencies[at], 0.5), percentile(&mut latencies[at], 0.95));
        eprintln!("freshness {freshness:>2} s: median {median:.1} ms, p95 {high:.1} ms, at most {worst:.2} s old");
        queries.push(json!({ "freshness_s": freshness, "p50_ms": median, "p95_ms": high, "worst_lag_s": worst, "queries": latencies[at].len() }));
    }
    let figures = json!({
        "bench": "freshness",
        "asked_rows_per_s": args.rate,
        "arrived_rows_per_s": arrived as f64 / took,
        "queries": queries,
        "staleness_s": { "at_s": staleness.at, "sorted": staleness.sorted, "merged": staleness.merged },
    });
    std::fs::write(args.folders.data.join("freshness.json"), figures.to_string())?;
    let svg = args.folders.data.join("freshness.svg");
    std::fs::write(&svg, draw(&queries, &staleness))?;
    eprintln!("drawn: {}", svg.display());
    Ok(figures)
}

async fn ingest(db: Arc<Database>, rate: u64, stop: Arc<AtomicBool>, sent: Arc<AtomicU64>) -> Anything<()> {
    let session = db.session();
    let mut retail = Retail::new(3);
    // Made beforehand: the machine's two cores are for the database.
    let batches = (0..64).map(|_| retail.batch(BATCH_ROWS as usize)).collect::<Result<Vec<_>, _>>()?;
    let start = Instant::now();
    for batch in batches.iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let due = Duration::from_secs_f64(sent.load(Ordering::Relaxed) as f64 / rate as f64);
        if let Some(early) = due.checked_sub(start.elapsed()) {
            tokio::time::sleep(early).await;
        }
        session.append("retail", vec![batch.clone()]).await?;
        sent.fetch_add(BATCH_ROWS, Ordering::Relaxed);
    }
    Ok(())
}

/// Staleness of stages over time, in seconds.
#[derive(Default)]
struct Staleness {
    at: Vec<f64>,
    sorted: Vec<f64>,
    merged: Vec<f64>,
}

async fn sample(db: Arc<Database>, stop: Arc<AtomicBool>) -> Staleness {
    let mut seen = Staleness::default();
    let start = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let stages = db.core().stages();
        let of =
            |stage| stages.iter().find(|info| info.stage == stage).map_or(0.0, |info| info.staleness.as_secs_f64());
        seen.at.push(start.elapsed().as_secs_f64());
        seen.sorted.push(of(Stage::Sorted));
        seen.merged.push(of(Stage::Merged));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    seen
}

/// Two panels: latency by freshness (figure 6), staleness over time (figure 7).
fn draw(queries: &[Value], staleness: &Staleness) -> String {
    let mut svg = String::from(
        "<svg xmlns='http://www.w3.org/2000/svg' width='960' height='380' font-family='sans-serif' font-size='12'>\n\
         <rect width='960' height='380' fill='white'/>\n",
    );
    let (left, bottom, high) = (60.0, 320.0, 260.0);
    let top = queries.iter().filter_map(|query| query["p95_ms"].as_f64()).fold(1.0, f64::max);
    let _ = writeln!(
        svg,
        "<text x='60' y='30' font-size='15'>Query latency by freshness (ms): median, 95th percentile</text>"
    );
    for (at, query) in queries.iter().enumerate() {
        let x = left + 30.0 + at as f64 * 85.0;
        for (shift, name, colour) in [(0.0, "p50_ms", "#1f6feb"), (28.0, "p95_ms", "#9ec5fe")] {
            let value = query[name].as_f64().unwrap_or(0.0);
            let bar = value / top * high;
            let _ = writeln!(
                svg,
                "<rect x='{}' y='{}' width='26' height='{bar}' fill='{colour}'/>",
                x + shift,
                bottom - bar
            );
            let _ = writeln!(
                svg,
                "<text x='{}' y='{}' text-anchor='middle'>{value:.0}</text>",
                x + shift + 13.0,
                bottom - bar - 4.0
            );
        }
        let _ = writeln!(svg, "<text x='{}' y='340' text-anchor='middle'>{} s</text>", x + 27.0, query["freshness_s"]);
    }
    let _ = writeln!(svg, "<line x1='60' y1='320' x2='430' y2='320' stroke='black'/>");
    let end = staleness.at.last().copied().unwrap_or(1.0).max(1.0);
    let top = staleness.merged.iter().copied().fold(1.0, f64::max);
    let _ = writeln!(
        svg,
        "<text x='520' y='30' font-size='15'>Staleness of stages over time (s), highest {top:.1} s</text>"
    );
    for (values, colour, name, y) in
        [(&staleness.sorted, "#1f6feb", "sorted", 50), (&staleness.merged, "#d1242f", "merged", 66)]
    {
        let points: Vec<String> = staleness
            .at
            .iter()
            .zip(values)
            .map(|(at, value)| format!("{:.1},{:.1}", 520.0 + at / end * 400.0, bottom - value / top * high))
            .collect();
        let _ = writeln!(svg, "<polyline points='{}' fill='none' stroke='{colour}'/>", points.join(" "));
        let _ = writeln!(svg, "<text x='530' y='{y}' fill='{colour}'>{name}</text>");
    }
    let _ = writeln!(
        svg,
        "<line x1='520' y1='320' x2='920' y2='320' stroke='black'/><text x='720' y='340' text-anchor='middle'>seconds, 0 to {end:.0}</text>\n</svg>"
    );
    svg
}
