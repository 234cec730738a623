//! `insert`: many writers of single-row durable batches, on the real disk and on one whose fsync takes a millisecond.

use crate::machine::{median, percentile};
use crate::{Anything, Places};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_storage::{Disk, RealDisk, SlowSyncDisk};
use alluvia_types::SystemClock;
use clap::Args;
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[derive(Args)]
pub struct InsertArgs {
    #[command(flatten)]
    places: Places,
    /// Writers at once.
    #[arg(long, default_value_t = 64)]
    writers: usize,
    /// Seconds on each disk.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
}

pub async fn run(args: InsertArgs) -> Anything<Value> {
    let real: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let slow: Arc<dyn Disk> = Arc::new(SlowSyncDisk::new(Arc::clone(&real), Duration::from_millis(1)));
    let mut figures = json!({ "bench": "insert", "writers": args.writers });
    for (name, disk) in [("real_disk", real), ("sync_1ms", slow)] {
        let scratch = tempfile::tempdir_in(&args.places.data)?;
        let sync_s = fsync_time(disk.as_ref(), scratch.path())?;
        let mut latencies = Vec::new();
        let start = Instant::now();
        let db = Arc::new(Database::open_on(
            disk,
            Arc::new(SystemClock::default()),
            scratch.path().join("db"),
            DatabaseOptions::default(),
        )?);
        db.session().sql("CREATE TABLE events (at TIMESTAMP, who TEXT, amount DOUBLE) WITH (dimensions = 'who', measures = 'amount')").await?;
        let until = Instant::now() + Duration::from_secs(args.seconds);
        let begun = start.elapsed();
        let writers: Vec<_> =
            (0..args.writers).map(|writer| tokio::spawn(write(Arc::clone(&db), writer, until))).collect();
        for writer in writers {
            latencies.extend(writer.await??);
        }
        let took = (start.elapsed() - begun).as_secs_f64();
        let rate = latencies.len() as f64 / took;
        let bound = args.writers as f64 / sync_s;
        let count = db.session().sql("SELECT count(*) FROM events").await?.collect().await?;
        let count = arrow::util::display::array_value_to_string(count[0].column(0), 0)?;
        if count != latencies.len().to_string() {
            return Err(format!("{} inserts were acknowledged, {count} rows are there", latencies.len()).into());
        }
        eprintln!(
            "{name}: {rate:.0} inserts/s, fsync {:.3} ms, {:.2} of writers / fsync time",
            sync_s * 1e3,
            rate / bound
        );
        figures[name] = json!({
            "inserts_per_s": rate,
            "fsync_ms": sync_s * 1e3,
            "share_of_writers_per_fsync": rate / bound,
            "p50_ms": percentile(&mut latencies, 0.5) * 1e3,
            "p99_ms": percentile(&mut latencies, 0.99) * 1e3,
        });
    }
    Ok(figures)
}

async fn write(db: Arc<Database>, writer: usize, until: Instant) -> Anything<Vec<f64>> {
    let session = db.session();
    let mut latencies = Vec::new();
    while Instant::now() < until {
        let start = Instant::now();
        let amount = latencies.len();
        session
            .sql(&format!("INSERT INTO events VALUES ('2026-01-01 00:00:00', 'writer {writer}', {amount}.5)"))
            .await?;
        latencies.push(start.elapsed().as_secs_f64());
    }
    Ok(latencies)
}

/// Median time of a small write and its fsync, through the same [`Disk`].
fn fsync_time(disk: &dyn Disk, folder: &Path) -> Anything<f64> {
    let file = disk.create(&folder.join("fsync-probe"))?;
    let mut times = Vec::new();
    for at in 0..200 {
        file.write_all_at(&[7; 4096], at * 4096)?;
        let start = Instant::now();
        file.sync_data()?;
        times.push(start.elapsed().as_secs_f64());
    }
    Ok(median(&mut times))
}
