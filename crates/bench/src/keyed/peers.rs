//! Peers of tables with keys: children in Python ([`Child`]), and PostgreSQL.

use crate::boxes::peers::install;
use crate::keyed::rows::{Keyed, columns, create};
use crate::servers::{Running, connect, postgres, version};
use crate::{Anything, Folders};
use arrow::array::{Array, RecordBatch};
use arrow::util::display::array_value_to_string;
use bytes::Bytes;
use futures::SinkExt;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::pin::pin;
use std::process::{Child as Process, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use tokio_postgres::Client;

const SCRIPT: &str = include_str!("../../peers/keyed.py");

/// A peer in Python.
pub struct Child {
    pub version: String,
    process: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Child {
    /// Installs what it needs, starts it and waits until its table is loaded.
    pub fn start(engine: &str, package: &str, folders: &Folders, keyed: &Keyed, scratch: &Path) -> Anything<Child> {
        install(package, folders)?;
        let mut process = Command::new(folders.venv.join("bin").join("python"))
            .args(["-c", SCRIPT, engine])
            .args([keyed.base(&folders.data)?, keyed.batches(&folders.data)?])
            .arg(keyed.batch_rows.to_string())
            .arg(scratch)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take().ok_or("a child has no standard input")?;
        let output = BufReader::new(process.stdout.take().ok_or("a child has no standard output")?);
        let mut child = Child { version: String::new(), process, input, output };
        let ready = child.hear()?;
        child.version = ready["version"].as_str().unwrap_or_default().to_owned();
        eprintln!(
            "{engine} {}: {} rows in {:.1} s",
            child.version,
            ready["rows"],
            ready["load_s"].as_f64().unwrap_or(0.0)
        );
        Ok(child)
    }

    /// What it says to a request.
    pub fn ask(&mut self, request: &Value) -> Anything<Value> {
        writeln!(self.input, "{request}")?;
        self.input.flush()?;
        self.hear()
    }

    /// Applies batches from one on for so many seconds: how many, and rows a second.
    pub fn upsert(&mut self, keyed: &Keyed, from: u64, seconds: f64) -> Anything<(u64, f64)> {
        let said = self.ask(&json!({ "upsert": seconds, "from": from }))?;
        let batches = said["batches"].as_u64().ok_or("a peer printed no count")?;
        Ok((batches, (batches * keyed.batch_rows as u64) as f64 / said["s"].as_f64().ok_or("a peer printed no time")?))
    }

    /// How many rows it has, and the sum of their quantities.
    pub fn state(&mut self) -> Anything<(u64, i64)> {
        let said = self.ask(&json!({ "state": true }))?;
        Ok((said["rows"].as_u64().ok_or("no rows")?, said["sum"].as_i64().ok_or("no sum")?))
    }

    fn hear(&mut self) -> Anything<Value> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err("a peer ended without an answer".into());
        }
        let heard: Value = serde_json::from_str(&line)?;
        match heard["error"].as_str() {
            Some(error) => Err(format!("a peer: {error}").into()),
            None => Ok(heard),
        }
    }
}

impl Drop for Child {
    /// Nothing that a peer holds is worth keeping.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// PostgreSQL with the same table. Batches come by COPY into a table beside it, and from there by ON CONFLICT DO UPDATE, in one
/// durable transaction: the fastest way that it has.
pub struct Postgres {
    /// Goes first: the server ends when nobody is connected any more.
    client: Client,
    pub server: Running,
    pub version: String,
    /// The rows of templates as COPY takes them, without their keys.
    texts: Vec<Vec<String>>,
    upsert: String,
}

impl Postgres {
    /// Starts one, if it is installed, and loads the table.
    pub async fn start(keyed: &Keyed, data: &Path) -> Anything<Postgres> {
        let server = postgres()?;
        let client = connect(&server.config).await?;
        client.batch_execute(&create("t", false)).await?;
        client.batch_execute("CREATE UNLOGGED TABLE staged (LIKE t)").await?;
        let start = Instant::now();
        {
            let mut sink = pin!(client.copy_in::<_, Bytes>("COPY t FROM STDIN").await?);
            for batch in ParquetRecordBatchReaderBuilder::try_new(File::open(keyed.base(data)?)?)?.build()? {
                let batch = batch?;
                let mut text = String::new();
                for (row, rest) in texts(&batch)?.into_iter().enumerate() {
                    text += &array_value_to_string(batch.column(0), row)?;
                    text += &rest;
                }
                sink.send(Bytes::from(text)).await?;
            }
            sink.finish().await?;
        }
        client.batch_execute("VACUUM ANALYZE t").await?;
        eprintln!("postgresql: {} rows in {:.1} s", keyed.rows, start.elapsed().as_secs_f64());
        let set: Vec<String> = columns()[1..].iter().map(|name| format!("{name} = excluded.{name}")).collect();
        let upsert = format!("INSERT INTO t SELECT * FROM staged ON CONFLICT (id) DO UPDATE SET {}", set.join(", "));
        let mut all = Vec::new();
        for number in 0.. {
            // Templates come again.
            if number > 0 && std::ptr::eq(keyed.template(number), keyed.template(0)) {
                break;
            }
            all.push(texts(keyed.template(number))?);
        }
        let version = version(&client).await?;
        Ok(Postgres { client, server, version, texts: all, upsert })
    }

    /// Applies batches from one on for so many seconds: how many, and rows a second.
    pub async fn upsert(&self, keyed: &Keyed, from: u64, seconds: f64) -> Anything<(u64, f64)> {
        let (start, mut number) = (Instant::now(), from);
        while start.elapsed() < Duration::from_secs_f64(seconds) {
            let batch = keyed.batch(number)?;
            let rests = &self.texts[(number % self.texts.len() as u64) as usize];
            let ids = batch.column(0);
            let ids = ids.as_any().downcast_ref::<arrow::array::Int64Array>().ok_or("keys are numbers")?;
            let mut text = String::with_capacity(keyed.batch_rows * 300);
            for (id, rest) in ids.values().iter().zip(rests) {
                text += &id.to_string();
                text += rest;
            }
            self.client.batch_execute("BEGIN; TRUNCATE staged").await?;
            {
                let mut sink = pin!(self.client.copy_in::<_, Bytes>("COPY staged FROM STDIN").await?);
                sink.send(Bytes::from(text)).await?;
                sink.finish().await?;
            }
            self.client.execute(&self.upsert, &[]).await?;
            self.client.batch_execute("COMMIT").await?;
            number += 1;
        }
        let batches = number - from;
        Ok((batches, (batches * keyed.batch_rows as u64) as f64 / start.elapsed().as_secs_f64()))
    }

    /// How many rows it has, and the sum of their quantities.
    pub async fn state(&self) -> Anything<(u64, i64)> {
        let row = self.client.query_one("SELECT count(*), sum(quantity) FROM t", &[]).await?;
        Ok((row.get::<_, i64>(0) as u64, row.get(1)))
    }
}

/// Rows as COPY takes them, from behind their keys on.
fn texts(batch: &RecordBatch) -> Anything<Vec<String>> {
    let mut rows = vec![String::new(); batch.num_rows()];
    for column in &batch.columns()[1..] {
        for (row, text) in rows.iter_mut().enumerate() {
            text.push('\t');
            match column.is_null(row) {
                true => text.push_str("\\N"),
                false => text.push_str(&array_value_to_string(column, row)?),
            }
        }
    }
    rows.iter_mut().for_each(|row| row.push('\n'));
    Ok(rows)
}
