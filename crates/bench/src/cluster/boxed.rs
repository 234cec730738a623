//! The retail table of `box` in a server, and its questions.

use super::processes::{Serves, session, settled};
use super::sql::{answer, number, rows, told, waited};
use crate::Anything;
use crate::boxes::answer::Answer;
use crate::boxes::data::Data;
use crate::boxes::questions::{Bin, Generator, Question, TABLE};
use crate::retail::create;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

/// Rows that COPY commits at a time: a gateway has them in memory.
pub const BATCH_ROWS: u64 = 100_000;

/// A COPY that is refused more often does not go on.
const REFUSED_MAX: u64 = 50;

/// The table's definition, with options of placement.
pub fn definition(table: &str, options: &str) -> Anything<String> {
    let create = create(table);
    let open = create.strip_suffix(')').ok_or("the table's definition has no options")?;
    Ok(if options.is_empty() { create } else { format!("{open}, {options})") })
}

/// What a load took.
#[derive(Clone, Copy, Default)]
pub struct Loaded {
    pub copied_s: f64,
    pub merged_s: f64,
    /// CPU seconds of all processes until they came to rest, without what they use at rest.
    pub cpu_s: f64,
    /// How often COPY was refused, and went on where it had stopped.
    pub refused: u64,
}

impl Loaded {
    pub fn json(&self, rows: u64) -> Value {
        json!({
            "copied_rows_per_s": rows as f64 / self.copied_s, "copied_s": self.copied_s,
            "merged_s": self.merged_s, "cpu_s": self.cpu_s, "copy_refused": self.refused,
        })
    }
}

/// Makes the table, copies the file's rows into it, and merges them.
pub async fn load(server: &impl Serves, file: &Path, rows_of_file: u64, options: &str) -> Anything<Loaded> {
    let client = session(server).await?;
    let before = super::processes::cpu_s(server);
    rows(&client, &definition(TABLE, options)?).await?;
    let start = Instant::now();
    let copy = format!("COPY {TABLE} FROM '{}' (BATCH_ROWS {BATCH_ROWS})", file.display());
    let refused = copy_all(&client, &copy).await?;
    let copied_s = start.elapsed().as_secs_f64();
    rows(&client, "CALL alluvia.merge()").await?;
    let merged_s = start.elapsed().as_secs_f64();
    let idle = settled(server).await?;
    let cpu_s = super::processes::cpu_s(server) - before - idle * start.elapsed().as_secs_f64();
    let counted = number(&client, &format!("SELECT count(*) FROM {TABLE}")).await?;
    if counted != rows_of_file {
        return Err(format!("{counted} of {rows_of_file} rows are there after COPY").into());
    }
    Ok(Loaded { copied_s, merged_s, cpu_s, refused })
}

/// COPY in batches, run again where a shard could not be written in time: it goes on where it stopped. How often it was refused.
pub async fn copy_all(client: &Client, copy: &str) -> Anything<u64> {
    let mut refused = 0;
    loop {
        let Err(error) = client.batch_execute(copy).await else { return Ok(refused) };
        if error.code() != Some(&SqlState::TOO_MANY_CONNECTIONS) || refused == REFUSED_MAX {
            return Err(told(&error, copy).into());
        }
        refused += 1;
        eprintln!("COPY is refused, and run again: {}", told(&error, ""));
    }
}

/// A session whose statements leave cuboids alone.
pub async fn cold(server: &impl Serves) -> Anything<Client> {
    let client = session(server).await?;
    rows(&client, "SET cuboids = off").await?;
    Ok(client)
}

/// So many questions, a third in each bin of coverage, with the answers of one server.
pub fn questions(client: &Client, data: &Data, count: usize, seed: u64) -> Anything<Vec<Question>> {
    let ask = |sql: &str| waited(async { answer(&rows(client, sql).await?) });
    Generator::new(seed, data, usize::MAX).questions((count / Bin::ALL.len()).max(1), ask)
}

/// Answers that differ from those that they must be.
#[derive(Default)]
pub struct Wrong(pub Vec<String>);

impl Wrong {
    pub fn check(&mut self, who: &str, sql: &str, right: &Answer, got: &Answer) {
        if let Some(how) = right.difference(got) {
            let start = sql.get(..300).unwrap_or(sql);
            eprintln!("WRONG: {who}: {how}\n  {start}");
            self.0.push(format!("{who}: {how}: {start}"));
        }
    }
}
