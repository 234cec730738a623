//! Uploads that are broken off: the client goes or stalls in the midst of a body, or the server stops. The batch ends, nothing of it is
//! applied, and none of its files is left.

#![allow(clippy::disallowed_methods)] // it looks at what is on the disk

use crate::ingest::packed;
use crate::support::{Served, serve_with};
use alluvia_server_http::ServerOptions;
use arrow::array::{Int32Array, RecordBatch, StringArray};
use arrow::ipc::writer::StreamWriter;
use parquet::arrow::ArrowWriter;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PATIENCE: Duration = Duration::from_secs(60);

/// The files in which rows of a load can lie: segments, and what is spilled.
fn files(dir: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut folders = vec![dir.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.map(Result::unwrap) {
            let path = entry.path();
            let name = path.strip_prefix(dir).unwrap().display().to_string();
            if path.is_dir() {
                folders.push(path);
            } else if name.starts_with("db/segments") || name.starts_with("db/spill") {
                found.insert(name);
            }
        }
    }
    found
}

fn rows(count: usize) -> RecordBatch {
    let numbers = Int32Array::from_iter_values((0..count).map(|row| (row * 7_919) as i32));
    let texts = StringArray::from_iter_values((0..count).map(|row| format!("{:0>120}", row * 104_729 % 1_000_003)));
    RecordBatch::try_from_iter([("a", Arc::new(numbers) as _), ("b", Arc::new(texts) as _)]).unwrap()
}

/// Bodies so large that their rows, or they themselves, lie in files before they have ended.
fn bodies() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let batch = rows(500_000);
    let csv: String = (0..500_000).map(|row| format!("{row},{:0>120}\n", row * 7 % 500_009)).collect();
    let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    let mut parquet = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    parquet.write(&batch).unwrap();
    for at in (0..batch.num_rows()).step_by(50_000) {
        stream.write(&batch.slice(at, 50_000)).unwrap();
    }
    vec![
        ("text/csv", "gzip", packed(csv.as_bytes(), "gzip")),
        ("application/vnd.apache.arrow.stream", "identity", stream.into_inner().unwrap()),
        ("application/vnd.apache.parquet", "identity", parquet.into_inner().unwrap()),
    ]
}

/// Sends all but the end of a body, and waits until something of it lies in a file.
async fn begun(served: &Served, before: &BTreeSet<String>, (kind, packing, body): &(&str, &str, Vec<u8>)) -> TcpStream {
    let mut stream = TcpStream::connect(served.address).await.unwrap();
    let head = format!(
        "POST /ingest/t HTTP/1.1\r\nhost: localhost\r\ncontent-type: {kind}\r\ncontent-encoding: {packing}\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(&body[..body.len() - 10]).await.unwrap();
    let since = Instant::now();
    while files(served.dir.path()) == *before {
        assert!(since.elapsed() < PATIENCE, "{kind}: nothing lies in a file");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    stream
}

async fn ended(served: &Served, before: &BTreeSet<String>, what: &str) {
    let running = "SELECT count(*) AS n FROM alluvia.queries WHERE status = 'running' AND sql LIKE 'INGEST%'";
    let since = Instant::now();
    while served.rows(running).await != json!([{"n": 0}]) {
        assert!(since.elapsed() < PATIENCE, "{what}: it does not end");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    while files(served.dir.path()) != *before {
        let left: Vec<String> = files(served.dir.path()).difference(before).cloned().collect();
        assert!(since.elapsed() < PATIENCE, "{what}: files are left: {left:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(served.rows("SELECT count(*) AS n FROM t").await, json!([{"n": 0}]), "{what}");
}

async fn served(transfer_timeout: Duration) -> (Served, BTreeSet<String>) {
    let (stop_wait, default) = (Duration::from_millis(50), ServerOptions::default());
    let served = serve_with(ServerOptions { transfer_timeout, stop_wait, ..default }).await;
    assert_eq!(served.query("CREATE TABLE t (a INT, b TEXT)").await.status, 200);
    assert_eq!(served.query("CALL alluvia.flush()").await.status, 200);
    let before = files(served.dir.path());
    (served, before)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_whose_client_left_ends_and_leaves_nothing() {
    let (served, before) = served(PATIENCE).await;
    for body in &bodies() {
        drop(begun(&served, &before, body).await);
        ended(&served, &before, &format!("{} {}, dropped", body.0, body.1)).await;
        let mut half = begun(&served, &before, body).await;
        half.shutdown().await.unwrap();
        ended(&served, &before, &format!("{} {}, closed by half", body.0, body.1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_that_stalls_ends_and_leaves_nothing() {
    let (served, before) = served(Duration::from_millis(700)).await;
    for body in &bodies() {
        let mut stalls = begun(&served, &before, body).await;
        let mut all = Vec::new();
        stalls.read_to_end(&mut all).await.unwrap();
        assert!(all.starts_with(b"HTTP/1.1 408"), "{}", String::from_utf8_lossy(&all));
        ended(&served, &before, &format!("{} {}, stalled", body.0, body.1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_leaves_no_files_of_an_upload() {
    for body in &bodies() {
        let (served, before) = served(PATIENCE).await;
        let uploading = begun(&served, &before, body).await;
        let (db, dir) = served.stop().await;
        let left: Vec<String> = files(dir.path()).difference(&before).cloned().collect();
        assert!(left.is_empty(), "{} {}: {left:?}", body.0, body.1);
        drop(uploading);
        drop(db);
    }
}
