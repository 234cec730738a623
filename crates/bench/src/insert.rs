//! `insert`: many writers of single-row durable batches, on the real disk and on one whose fsync takes a millisecond: as SQL
//! text, as Arrow through the Rust API, and for comparison through the barest group commit there is, which shows what the
//! machine leaves of writers / fsync time. Then a few writers of large batches, as fast as they are let, for long enough that the
//! tail is full: how long one of them is kept waiting while rows are sorted.

use crate::machine::{median, percentile};
use crate::{Anything, Folders};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_storage::{Disk, RealDisk, SlowSync, WatchedDisk};
use alluvia_types::SystemClock;
use arrow::array::{ArrayRef, Float64Array, RecordBatch, StringViewArray, TimestampMicrosecondArray};
use clap::Args;
use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Bytes of a record of the bare group commit: about what the log writes for one of our rows.
const RECORD: [u8; 128] = [7; 128];
/// Threads that write and sync for the bare group commit. More are slower.
const BARE_THREADS: usize = 2;

/// Zeros that the bare group commit writes ahead.
const BARE_ROOM: usize = 256 << 10;

/// The table.
const EVENTS: &str =
    "CREATE TABLE events (at TIMESTAMP, who TEXT, amount DOUBLE) WITH (dimensions = 'who', measures = 'amount')";

/// How a row is handed over.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Sql,
    Arrow,
}

#[derive(Args)]
pub struct InsertArgs {
    #[command(flatten)]
    folders: Folders,
    /// Writers at once.
    #[arg(long, default_value_t = 64)]
    writers: usize,
    /// Seconds on each disk.
    #[arg(long, default_value_t = 5)]
    seconds: u64,
    /// Seconds at full speed.
    #[arg(long, default_value_t = 60)]
    full_seconds: u64,
    /// Writers at full speed.
    #[arg(long, default_value_t = 4)]
    full_writers: usize,
    /// Rows of a batch at full speed.
    #[arg(long, default_value_t = 10_000)]
    full_rows: usize,
}

pub async fn run(args: InsertArgs) -> Anything<Value> {
    let real: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let slow: Arc<dyn Disk> =
        Arc::new(WatchedDisk::new(Arc::clone(&real), Arc::new(SlowSync(Duration::from_millis(1)))));
    let mut figures = json!({ "bench": "insert", "writers": args.writers });
    for (name, disk) in [("real_disk", real), ("sync_1ms", slow)] {
        let scratch = tempfile::tempdir_in(&args.folders.data)?;
        let [sync_s, in_place_s] = fsync_times(disk.as_ref(), scratch.path())?;
        let (bound, bound_in_place) = (args.writers as f64 / sync_s, args.writers as f64 / in_place_s);
        figures[name] = json!({ "fsync_ms": sync_s * 1e3, "fsync_in_place_ms": in_place_s * 1e3 });
        for (shown, way) in [("sql", Some(Way::Sql)), ("arrow", Some(Way::Arrow)), ("bare", None)] {
            let folder = scratch.path().join(shown);
            let (mut latencies, took) = match way {
                Some(way) => database(&args, Arc::clone(&disk), &folder, way).await?,
                None => bare(&args, &disk, &folder).await?,
            };
            let rate = latencies.len() as f64 / took;
            eprintln!(
                "{name}, {shown}: {rate:.0} inserts/s, fsync {:.3} ms, {:.2} of writers / fsync time (in place {:.3} ms, {:.2})",
                sync_s * 1e3,
                rate / bound,
                in_place_s * 1e3,
                rate / bound_in_place
            );
            figures[name][shown] = json!({
                "inserts_per_s": rate,
                "share_of_writers_per_fsync": rate / bound,
                "share_of_writers_per_fsync_in_place": rate / bound_in_place,
                "p50_ms": percentile(&mut latencies, 0.5) * 1e3,
                "p99_ms": percentile(&mut latencies, 0.99) * 1e3,
            });
        }
    }
    figures["full_speed"] = full_speed(&args).await?;
    Ok(figures)
}

/// Large batches as fast as they are taken.
async fn full_speed(args: &InsertArgs) -> Anything<Value> {
    let scratch = tempfile::tempdir_in(&args.folders.data)?;
    let db = Arc::new(Database::open(scratch.path())?);
    db.session().sql(EVENTS).await?;
    let begun = Instant::now();
    let until = begun + Duration::from_secs(args.full_seconds);
    let writers: Vec<_> = (0..args.full_writers)
        .map(|writer| {
            let (db, rows) = (Arc::clone(&db), args.full_rows);
            tokio::spawn(async move {
                let session = db.session();
                let mut latencies = Vec::new();
                while Instant::now() < until {
                    let batch = batch(writer, latencies.len(), rows)?;
                    let start = Instant::now();
                    session.append("events", vec![batch]).await?;
                    latencies.push(start.elapsed().as_secs_f64());
                }
                Ok::<_, Box<dyn std::error::Error + Send + Sync>>(latencies)
            })
        })
        .collect();
    let mut latencies = Vec::new();
    for writer in writers {
        latencies.extend(writer.await??);
    }
    let rate = (latencies.len() * args.full_rows) as f64 / begun.elapsed().as_secs_f64();
    let [p50, p99, p999, most] = [0.5, 0.99, 0.999, 1.0].map(|share| percentile(&mut latencies, share) * 1e3);
    eprintln!("full speed: {rate:.0} rows/s, a batch {p50:.1} ms, p99 {p99:.0}, p99.9 {p999:.0}, at most {most:.0}");
    Ok(json!({
        "writers": args.full_writers, "rows_of_a_batch": args.full_rows, "seconds": args.full_seconds,
        "rows_per_s": rate, "p50_ms": p50, "p99_ms": p99, "p999_ms": p999, "most_ms": most,
    }))
}

/// A batch of a writer: its moments go on, its names come from everywhere.
fn batch(writer: usize, number: usize, rows: usize) -> Anything<RecordBatch> {
    const FIRST: i64 = 1_767_225_600_000_000;
    let first = number * rows;
    let at: ArrayRef = Arc::new(TimestampMicrosecondArray::from_iter_values(
        (first..first + rows).map(|row| FIRST + row as i64 * 1_000 + writer as i64),
    ));
    let names = (first..first + rows).map(|row| format!("who {}", row.wrapping_mul(0x9E37_79B9) % 5_003));
    let who: ArrayRef = Arc::new(StringViewArray::from_iter_values(names));
    let amount: ArrayRef = Arc::new(Float64Array::from_iter_values((first..first + rows).map(|row| row as f64 + 0.5)));
    Ok(RecordBatch::try_from_iter([("at", at), ("who", who), ("amount", amount)])?)
}

/// Latencies in seconds, and the seconds it took, through a database; every row that was acknowledged is there afterwards.
async fn database(args: &InsertArgs, disk: Arc<dyn Disk>, folder: &Path, way: Way) -> Anything<(Vec<f64>, f64)> {
    let clock = Arc::new(SystemClock::default());
    let db = Arc::new(Database::open_on(disk, clock, folder, DatabaseOptions::default())?);
    db.session().sql(EVENTS).await?;
    let begun = Instant::now();
    let until = begun + Duration::from_secs(args.seconds);
    let writers: Vec<_> =
        (0..args.writers).map(|writer| tokio::spawn(write(Arc::clone(&db), writer, until, way))).collect();
    let mut latencies = Vec::new();
    for writer in writers {
        latencies.extend(writer.await??);
    }
    let took = begun.elapsed().as_secs_f64();
    let count = db.session().sql("SELECT count(*) FROM events").await?.collect().await?;
    let count = arrow::util::display::array_value_to_string(count[0].column(0), 0)?;
    if count != latencies.len().to_string() {
        return Err(format!("{} inserts were acknowledged, {count} rows are there", latencies.len()).into());
    }
    Ok((latencies, took))
}

async fn write(db: Arc<Database>, writer: usize, until: Instant, way: Way) -> Anything<Vec<f64>> {
    let session = db.session();
    let mut latencies = Vec::new();
    while Instant::now() < until {
        let start = Instant::now();
        let amount = latencies.len() as f64 + 0.5;
        match way {
            Way::Sql => {
                let sql = format!("INSERT INTO events VALUES ('2026-01-01 00:00:00', 'writer {writer}', {amount})");
                session.sql(&sql).await?;
            }
            Way::Arrow => {
                session.append("events", vec![row(writer, amount)?]).await?;
            }
        }
        latencies.push(start.elapsed().as_secs_f64());
    }
    Ok(latencies)
}

fn row(writer: usize, amount: f64) -> Anything<RecordBatch> {
    let at: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![1_767_225_600_000_000]));
    let who: ArrayRef = Arc::new(StringViewArray::from(vec![format!("writer {writer}")]));
    let amount: ArrayRef = Arc::new(Float64Array::from(vec![amount]));
    Ok(RecordBatch::try_from_iter([("at", at), ("who", who), ("amount", amount)])?)
}

/// Records that wait for a group, and those who wait for them.
#[derive(Default)]
struct Group {
    bytes: Vec<u8>,
    waiting: Vec<oneshot::Sender<()>>,
    at: u64,
    room_end: u64,
    is_over: bool,
}

/// As [`database`], with nothing but a buffer, a write, an fsync and an answer. Zeros are written ahead, as the log does.
async fn bare(args: &InsertArgs, disk: &Arc<dyn Disk>, path: &Path) -> Anything<(Vec<f64>, f64)> {
    let file = Arc::new(disk.create(path)?);
    let zeros = Arc::new(vec![0u8; BARE_ROOM]);
    let shared = Arc::new((Mutex::new(Group::default()), Condvar::new()));
    let leaders = (0..BARE_THREADS).map(|_| {
        let (file, shared, zeros) = (Arc::clone(&file), Arc::clone(&shared), Arc::clone(&zeros));
        std::thread::spawn(move || {
            loop {
                let mut group = shared.0.lock();
                while group.waiting.is_empty() && !group.is_over {
                    shared.1.wait(&mut group);
                }
                if group.waiting.is_empty() {
                    return Ok(());
                }
                let (bytes, waiting) = (std::mem::take(&mut group.bytes), std::mem::take(&mut group.waiting));
                let at = group.at;
                group.at += bytes.len() as u64;
                let end = group.at;
                file.write_all_at(&bytes, at)?;
                if end > group.room_end {
                    file.write_all_at(&zeros, end)?;
                    group.room_end = end + zeros.len() as u64;
                }
                drop(group);
                file.sync_data()?;
                waiting.into_iter().for_each(|done| done.send(()).unwrap_or_default());
            }
        })
    });
    let leaders: Vec<std::thread::JoinHandle<std::io::Result<()>>> = leaders.collect();
    let begun = Instant::now();
    let until = begun + Duration::from_secs(args.seconds);
    let writers = (0..args.writers).map(|_| {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let mut latencies = Vec::new();
            while Instant::now() < until {
                let start = Instant::now();
                let (done, is_done) = oneshot::channel();
                {
                    let mut group = shared.0.lock();
                    group.bytes.extend_from_slice(&RECORD);
                    group.waiting.push(done);
                }
                shared.1.notify_one();
                is_done.await?;
                latencies.push(start.elapsed().as_secs_f64());
            }
            Ok::<_, oneshot::error::RecvError>(latencies)
        })
    });
    let writers: Vec<_> = writers.collect();
    let mut latencies = Vec::new();
    for writer in writers {
        latencies.extend(writer.await??);
    }
    let took = begun.elapsed().as_secs_f64();
    shared.0.lock().is_over = true;
    shared.1.notify_all();
    for leader in leaders {
        leader.join().map_err(|_| "a thread of the bare group commit panicked")??;
    }
    Ok((latencies, took))
}

/// Median time of the fsync of a small write, through the same [`Disk`]: at the end of a file that grows, and in one that does not.
fn fsync_times(disk: &dyn Disk, folder: &Path) -> Anything<[f64; 2]> {
    const PROBES: u64 = 200;
    const PAGE: [u8; 4096] = [7; 4096];
    let file = disk.create(&folder.join("fsync-probe"))?;
    let mut times = [Vec::new(), Vec::new()];
    for times in &mut times {
        for at in 0..PROBES {
            file.write_all_at(&PAGE, at * PAGE.len() as u64)?;
            let start = Instant::now();
            file.sync_data()?;
            times.push(start.elapsed().as_secs_f64());
        }
    }
    Ok(times.each_mut().map(|times| median(times)))
}
