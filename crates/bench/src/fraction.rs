//! `sample --fraction`: scans of a share of the rows, of a table with the ladders that every table has and of one whose ladders begin at
//! 1/2, beside full scans of the same tables.
//!
//! Both tables have the same rows and are asked in turns, after one turn that warms them. Neither index nor cuboids answer: reading is
//! what is compared.

use crate::Anything;
use crate::boxes::data::Data;
use crate::machine::median;
use crate::retail::create;
use crate::sample::SampleArgs;
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::Session;
use arrow::array::AsArray;
use arrow::datatypes::Float64Type;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Instant;

/// The tables, and where their ladders begin.
const TABLES: [(&str, &str); 2] = [("eighths", "1/8"), ("halves", "1/2")];

/// What is asked, of columns of several kinds.
const SUMS: &str = "count(*), sum(price), avg(quantity), min(city), max(item)";

pub async fn run(args: &SampleArgs, fraction: f64, scratch: &Path, options: DatabaseOptions) -> Anything<Value> {
    let data = Data { rows: args.rows, zipf: 0, correlated: false };
    let file = data.parquet(&args.folders.data)?;
    let file = file.to_str().ok_or("the data folder's path is not UTF-8")?;
    let db = Database::open_with(scratch, options)?;
    let (whole, drawn) = (db.session(), db.session());
    for session in [&whole, &drawn] {
        for setting in ["cuboids", "index_rule", "short_path"] {
            session.sql(&format!("SET {setting} = off")).await?;
        }
    }
    drawn.sql(&format!("SET sample_fraction = '{fraction}'")).await?;
    let mut merged_s = Vec::new();
    for (table, ladder) in TABLES {
        let start = Instant::now();
        let definition = create(table).replace("measures =", &format!("ladder = '{ladder}', measures ="));
        whole.sql(&definition).await?;
        whole.sql(&format!("COPY {table} FROM '{file}'")).await?;
        whole.sql("CALL alluvia.merge()").await?;
        merged_s.push(start.elapsed().as_secs_f64());
    }
    let mut times: [[Vec<f64>; 2]; TABLES.len()] = Default::default();
    let mut rows = [[0; 2]; TABLES.len()];
    for turn in 0..=args.turns {
        for (at, (table, _)) in TABLES.iter().enumerate() {
            for (way, session) in [&whole, &drawn].into_iter().enumerate() {
                let (read, took_ms) = ask(session, &format!("SELECT {SUMS} FROM {table}")).await?;
                rows[at][way] = read;
                if turn > 0 {
                    times[at][way].push(took_ms);
                }
            }
        }
    }
    let mut tables = Vec::new();
    for (at, (table, ladder)) in TABLES.into_iter().enumerate() {
        let [whole_ms, drawn_ms] = times[at].each_mut().map(|times| median(times));
        let [data_bytes, ladder_bytes] = sizes(&whole, table).await?;
        let figure = json!({
            "ladder": ladder, "merged_s": merged_s[at], "data_bytes": data_bytes, "ladder_bytes": ladder_bytes,
            "rows_to_read": rows[at][1], "of_rows": rows[at][0], "whole_ms": whole_ms, "fraction_ms": drawn_ms,
            "times_faster": whole_ms / drawn_ms,
        });
        eprintln!("{figure}");
        tables.push(figure);
    }
    Ok(json!({ "fraction": fraction, "tables": tables }))
}

/// The rows that were planned to be read, and the milliseconds.
async fn ask(session: &Session, sql: &str) -> Anything<(u64, f64)> {
    let start = Instant::now();
    let outcome = session.sql(sql).await?;
    let rows = outcome.used().map_or(0, |used| used.rows_to_read);
    outcome.collect().await?;
    Ok((rows, start.elapsed().as_secs_f64() * 1e3))
}

/// Bytes of a table's segments, and of their ladders.
async fn sizes(session: &Session, table: &str) -> Anything<[f64; 2]> {
    let sql = format!(
        "SELECT CAST(sum(parquet_bytes + side_bytes) AS DOUBLE), CAST(sum(ladder_bytes) AS DOUBLE) FROM alluvia.segments \
         WHERE table_name = '{table}'"
    );
    let batches = session.sql(&sql).await?.collect().await?;
    let batch = batches.iter().find(|batch| batch.num_rows() == 1).ok_or("alluvia.segments cannot be added up")?;
    Ok([0, 1].map(|column| batch.column(column).as_primitive::<Float64Type>().value(0)))
}
