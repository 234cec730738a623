//! The screen of the demo: once a second, redrawn in place on a terminal.

use super::pace::Pace;
use super::stream::single;
use alluvia_node::Database;
use alluvia_snapshot::Admin;
use alluvia_types::{Error, Result, Stage};
use std::fmt;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;

/// What one asker has seen.
#[derive(Clone, Debug, Default)]
pub struct Answered {
    freshness: String,
    times: Vec<Duration>,
    last_lag: Duration,
    worst_lag: Duration,
}

/// A session that asks the question over and over at one freshness.
pub struct FreshnessProbe {
    seen: Arc<Mutex<Answered>>,
    task: JoinHandle<Result<()>>,
}

impl FreshnessProbe {
    pub fn start(db: &Arc<Database>, freshness: &str, question: &str, stop: &Arc<AtomicBool>) -> FreshnessProbe {
        let seen = Arc::new(Mutex::new(Answered { freshness: freshness.to_owned(), ..Answered::default() }));
        let task = ask(Arc::clone(db), freshness.to_owned(), question.to_owned(), Arc::clone(stop), Arc::clone(&seen));
        FreshnessProbe { seen, task: tokio::spawn(task) }
    }

    pub async fn finish(self) -> Result<Answered> {
        self.task.await.map_err(|error| Error::internal(format!("the demo's asker: {error}")))??;
        Ok(self.seen.lock().map(|seen| seen.clone()).unwrap_or_default())
    }
}

async fn ask(
    db: Arc<Database>,
    freshness: String,
    question: String,
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Answered>>,
) -> Result<()> {
    while !stop.load(Ordering::Relaxed) {
        // A session never goes back in time, so each question is a session of its own.
        let session = db.session();
        session.sql(&format!("SET freshness = '{freshness}'")).await?;
        let start = Instant::now();
        let outcome = session.sql(&question).await?;
        let used = outcome.used();
        outcome.collect().await?;
        if let (Ok(mut seen), Some(used)) = (seen.lock(), used) {
            seen.times.push(start.elapsed());
            seen.last_lag = used.lag;
            seen.worst_lag = seen.worst_lag.max(used.lag);
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    Ok(())
}

impl Answered {
    fn median(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort();
        times.get(times.len() / 2).copied().unwrap_or_default()
    }
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "freshness {:<7} {:>4} answers, median {:>7.2} ms, at most {:>5.2} s old",
            self.freshness,
            self.times.len(),
            self.median().as_secs_f64() * 1e3,
            self.worst_lag.as_secs_f64()
        )
    }
}

/// The lines on the screen.
pub struct Screen {
    redraw: bool,
    lines: usize,
    last: (Duration, u64),
}

impl Screen {
    pub fn new() -> Screen {
        Screen { redraw: std::io::stdout().is_terminal(), lines: 0, last: (Duration::ZERO, 0) }
    }

    /// Draws them anew, and has the stream's pace follow what they say.
    pub async fn show(
        &mut self,
        db: &Database,
        now: Duration,
        ingested: u64,
        askers: &[FreshnessProbe],
        pace: &Pace,
    ) -> Result<()> {
        let rate = (ingested - self.last.1) as f64 / (now - self.last.0).as_secs_f64().max(1e-9);
        self.last = (now, ingested);
        let visible = single(&db.session(), "SELECT max(version) FROM alluvia.batches").await?;
        let mut lines = vec![format!(
            "{:>4.0} s   {ingested:>11} rows in   {rate:>9.0} rows/s   version {visible}",
            now.as_secs_f64()
        )];
        let (mut behind, mut answered, mut merged) = (Duration::ZERO, Duration::ZERO, 0);
        for stage in db.core().stages() {
            let meaning = match stage.stage {
                Stage::Ingested => "in memory, and in the log on disk",
                Stage::Sorted => "in order on disk: a box of dimensions skips the rest",
                Stage::Merged => "few large runs, with cached totals and samples",
            };
            match stage.stage {
                Stage::Sorted => behind = stage.staleness,
                Stage::Merged => merged = stage.rows,
                Stage::Ingested => {}
            }
            lines.push(format!(
                "  {:<9} {:>11} rows {:>7.2} s behind   {meaning}",
                stage.stage,
                stage.rows,
                stage.staleness.as_secs_f64()
            ));
        }
        for asker in askers {
            let Ok(seen) = asker.seen.lock() else { continue };
            let last = seen.times.last().copied().unwrap_or_default();
            answered = answered.max(last);
            if seen.freshness == "merged" && merged == 0 {
                lines.push("  freshness merged  has nothing to answer from yet".to_owned());
                continue;
            }
            lines.push(format!(
                "  freshness {:<7} answered in {:>8.2} ms, {:>6.2} s old",
                seen.freshness,
                last.as_secs_f64() * 1e3,
                seen.last_lag.as_secs_f64()
            ));
        }
        pace.adapt(behind, answered);
        let mut out = std::io::stdout().lock();
        if self.redraw && self.lines > 0 {
            let _ = write!(out, "\x1b[{}A\x1b[J", self.lines);
        }
        self.lines = lines.len();
        for line in lines {
            let _ = writeln!(out, "{line}");
        }
        let _ = out.flush();
        Ok(())
    }
}
