//! PostgreSQL with a table with a key: the fastest way that it has for batches, each of which is one durable transaction.
//!
//! Rows come by COPY into a table beside, and from there by one statement. Of few rows that costs more than the rows do: they
//! come as one INSERT with their values.

use crate::Anything;
use crate::keyed::rows::Keyed;
use crate::servers::{Running, connect, postgres, version};
use arrow::array::{Array, RecordBatch};
use arrow::util::display::array_value_to_string;
use bytes::Bytes;
use futures::SinkExt;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use std::fmt::Write;
use std::fs::File;
use std::path::Path;
use std::pin::pin;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// Batches of so many rows come as one INSERT with their values.
const VALUES_MAX: usize = 100;

/// Of one message of COPY.
const MESSAGE_BYTES: usize = 8 << 20;

/// A server of its own with a loaded table `t`.
pub struct Postgres {
    /// Goes first: the server ends when nobody is connected any more.
    client: Client,
    pub server: Running,
    pub version: String,
}

impl Postgres {
    /// Starts one, if it is installed, makes the table and loads a Parquet file of its columns, of which the first is a key.
    /// What comes later has the columns `staged`.
    pub async fn start(definition: &str, base: &Path, staged: &str) -> Anything<Postgres> {
        let server = postgres()?;
        let client = connect(&server.config).await?;
        client.batch_execute(definition).await?;
        client.batch_execute(&format!("CREATE UNLOGGED TABLE staged AS SELECT {staged} FROM t WITH NO DATA")).await?;
        let (start, mut rows) = (Instant::now(), 0);
        {
            let mut sink = pin!(client.copy_in::<_, Bytes>("COPY t FROM STDIN").await?);
            for batch in ParquetRecordBatchReaderBuilder::try_new(File::open(base)?)?.build()? {
                let batch = batch?;
                rows += batch.num_rows();
                sink.send(Bytes::from(copied(&batch)?.concat())).await?;
            }
            sink.finish().await?;
        }
        client.batch_execute("VACUUM ANALYZE t").await?;
        eprintln!("postgresql: {rows} rows in {:.1} s", start.elapsed().as_secs_f64());
        let version = version(&client).await?;
        Ok(Postgres { client, server, version })
    }

    /// Takes rows, as COPY has them, and does a statement with them, in one transaction.
    pub async fn stage_and(&self, rows: String, statement: &str) -> Anything<()> {
        self.client.batch_execute("BEGIN; TRUNCATE staged").await?;
        {
            let mut sink = pin!(self.client.copy_in::<_, Bytes>("COPY staged FROM STDIN").await?);
            let mut rows = Bytes::from(rows);
            while !rows.is_empty() {
                sink.send(rows.split_to(rows.len().min(MESSAGE_BYTES))).await?;
            }
            sink.finish().await?;
        }
        self.client.batch_execute(statement).await?;
        Ok(self.client.batch_execute("COMMIT").await?)
    }

    /// How many rows it has, and the sum of their quantities.
    pub async fn state(&self) -> Anything<(u64, i64)> {
        let row = self.client.query_one("SELECT count(*), sum(quantity) FROM t", &[]).await?;
        Ok((row.get::<_, i64>(0) as u64, row.get(1)))
    }
}

/// Batches of [`Keyed`] as PostgreSQL takes them.
pub struct Upserts<'a> {
    keyed: &'a Keyed,
    /// The rows of all templates from behind their keys on: as COPY has them, or as values are written.
    rests: Vec<String>,
    /// What becomes of rows whose keys are there.
    conflict: String,
}

impl<'a> Upserts<'a> {
    pub fn new(keyed: &'a Keyed) -> Anything<Upserts<'a>> {
        let names: Vec<&str> =
            keyed.templates.schema_ref().fields().iter().map(|field| field.name().as_str()).collect();
        let set: Vec<String> = names[1..].iter().map(|name| format!("{name} = excluded.{name}")).collect();
        let mut rests = Vec::with_capacity(keyed.templates.num_rows());
        for row in copied(&keyed.templates)? {
            let rest = &row[row.find('\t').ok_or("a row has a key and more")?..];
            rests.push(if keyed.batch_rows > VALUES_MAX { rest.to_owned() } else { values(rest) });
        }
        Ok(Upserts { keyed, rests, conflict: format!("ON CONFLICT (id) DO UPDATE SET {}", set.join(", ")) })
    }

    /// Applies one batch, durably.
    pub async fn apply(&self, postgres: &Postgres, number: u64) -> Anything<()> {
        let rests = &self.rests[self.keyed.place(number)];
        let rows = self.keyed.ids(number).into_iter().zip(rests);
        let mut text = String::with_capacity(self.keyed.batch_rows * 350);
        if self.keyed.batch_rows > VALUES_MAX {
            for (id, rest) in rows {
                let _ = write!(text, "{id}{rest}");
            }
            return postgres.stage_and(text, &format!("INSERT INTO t SELECT * FROM staged {}", self.conflict)).await;
        }
        text.push_str("INSERT INTO t VALUES ");
        for (at, (id, rest)) in rows.enumerate() {
            let _ = write!(text, "{}({id}{rest})", if at > 0 { ", " } else { "" });
        }
        let _ = write!(text, " {}", self.conflict);
        Ok(postgres.client.batch_execute(&text).await?)
    }

    /// Applies batches from one on for so many seconds: how many, and rows a second.
    pub async fn apply_for(&self, postgres: &Postgres, from: u64, seconds: f64) -> Anything<(u64, f64)> {
        let (start, mut number) = (Instant::now(), from);
        while start.elapsed() < Duration::from_secs_f64(seconds) {
            self.apply(postgres, number).await?;
            number += 1;
        }
        let batches = number - from;
        Ok((batches, (batches * self.keyed.batch_rows as u64) as f64 / start.elapsed().as_secs_f64()))
    }
}

/// Rows as COPY takes them.
pub fn copied(batch: &RecordBatch) -> Anything<Vec<String>> {
    let mut rows = vec![String::new(); batch.num_rows()];
    for (at, column) in batch.columns().iter().enumerate() {
        for (row, text) in rows.iter_mut().enumerate() {
            if at > 0 {
                text.push('\t');
            }
            match column.is_null(row) {
                true => text.push_str("\\N"),
                false => text.push_str(&array_value_to_string(column, row)?),
            }
        }
    }
    rows.iter_mut().for_each(|row| row.push('\n'));
    Ok(rows)
}

/// The rest of a row as COPY takes it, as values are written in a statement.
fn values(rest: &str) -> String {
    let value = |text: &str| match text {
        "\\N" => ", NULL".to_owned(),
        text => format!(", '{}'", text.replace('\'', "''")),
    };
    rest.trim_end_matches('\n').split('\t').skip(1).map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_copy_has_them() {
        assert_eq!(values("\tcountry-00001\t\\N\tit's\t4.5\n"), ", 'country-00001', NULL, 'it''s', '4.5'");
    }
}
