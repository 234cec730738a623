//! Statements as text, their rows as texts, and when two answers are the same.

use crate::Anything;
use crate::boxes::answer::Answer;
use serde_json::{Value, json};
use std::time::Instant;
use tokio_postgres::{Client, SimpleQueryMessage};

/// A row, whose NULLs are none.
pub type Row = Vec<Option<String>>;

/// The rows of an answer.
pub async fn rows(client: &Client, sql: &str) -> Anything<Vec<Row>> {
    let messages = client.simple_query(sql).await.map_err(|error| told(&error, sql))?;
    let row = |message: &SimpleQueryMessage| match message {
        SimpleQueryMessage::Row(row) => Some((0..row.len()).map(|at| row.get(at).map(str::to_owned)).collect()),
        _ => None,
    };
    Ok(messages.iter().filter_map(row).collect())
}

/// What went wrong, in the server's words.
pub fn told(error: &tokio_postgres::Error, sql: &str) -> String {
    let start = sql.get(..200).unwrap_or(sql);
    match error.as_db_error() {
        Some(error) => format!("{}: {} [{start}]", error.code().code(), error.message()),
        None => format!("{error} [{start}]"),
    }
}

/// The one number of an answer.
pub async fn number(client: &Client, sql: &str) -> Anything<u64> {
    let rows = rows(client, sql).await?;
    let value = rows.first().and_then(|row| row.first()).and_then(|value| value.as_ref()?.parse().ok());
    value.ok_or_else(|| format!("{sql} gives {rows:?}, and no number").into())
}

/// All cells as a text for people, one row a line.
pub async fn text(client: &Client, sql: &str) -> Anything<String> {
    let rows = rows(client, sql).await?;
    let line = |row: Row| row.into_iter().flatten().collect::<Vec<_>>().join(" ");
    Ok(rows.into_iter().map(line).collect::<Vec<_>>().join("\n"))
}

/// One question: its milliseconds and its answer.
pub async fn timed(client: &Client, sql: &str) -> Anything<(f64, Vec<Row>)> {
    let start = Instant::now();
    let rows = rows(client, sql).await?;
    Ok((start.elapsed().as_secs_f64() * 1e3, rows))
}

/// The rows as a peer's.
pub fn as_json(rows: &[Row]) -> Value {
    json!(rows)
}

/// Of a question of boxes without groups.
pub fn answer(rows: &[Row]) -> Anything<Answer> {
    Answer::of_json(&as_json(rows), false)
}

/// Runs what waits for something from where nothing can be waited for.
pub fn waited<T>(future: impl Future<Output = T>) -> T {
    tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(future))
}

/// How many shards were asked, and bytes that came, by what EXPLAIN ANALYZE of a statement says.
pub async fn asked(client: &Client, sql: &str) -> Anything<(u64, u64)> {
    Ok(asked_of(&text(client, &format!("EXPLAIN ANALYZE {sql}")).await?))
}

fn asked_of(text: &str) -> (u64, u64) {
    let (mut shards, mut bytes) = (0, 0);
    for part in text.split("Asked of ").skip(1) {
        let mut numbers = part.split(|letter: char| !letter.is_ascii_digit()).filter(|digits| !digits.is_empty());
        let mut next = || numbers.next().and_then(|digits| digits.parse::<u64>().ok()).unwrap_or(0);
        shards += next();
        bytes += next();
    }
    (shards, bytes)
}

#[cfg(test)]
mod tests {
    use super::asked_of;

    #[test]
    fn shards_and_bytes_of_all_leaves_are_added() {
        let text = "Aggregate: count(*) 1 0.03 ms\nAsked of 4 shards, 5632 bytes: t, columns=2 4\nAsked of 12 shards, 100 bytes: u7";
        assert_eq!(asked_of(text), (16, 5732));
        assert_eq!(asked_of("Scan: 4 shards, 5 bytes"), (0, 0));
    }
}
