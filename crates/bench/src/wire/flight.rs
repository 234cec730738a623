//! An answer of many rows into Arrow through Flight SQL, beside pyarrow reading Parquet of the same rows.
//!
//! Invariants:
//! - Server and file hold the same rows, and each reading ends in a `pyarrow.Table` in the memory of the same process; before the clock
//!   runs, all have read once and their tables were found equal.
//! - All take turns, so that a machine which slows down slows all of them.
//!
//! The file is as the other benches' are: zstd of level 1, row groups of half a million rows, as our own segments are packed. Clients are
//! pyarrow's own for Flight and, beside it, ADBC's driver for Flight SQL.

use crate::machine::median;
use crate::python_peer::python;
use crate::retail::write_once;
use crate::servers::alluvia;
use crate::wire::data::batch;
use crate::wire::definition;
use crate::{Anything, Folders};
use alluvia_node::Database;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const SCRIPT: &str = include_str!("../../peers/flight.py");
const TABLE: &str = "flown";
/// What is asked, and what is read of the file: all of it.
const QUESTION: &str = "SELECT country, day, price, quantity FROM flown";

/// Rows a second of each, and how they compare.
pub async fn measured(folders: &Folders, program: &Path, dir: &Path, rows: u64, turns: usize) -> Anything<Value> {
    let file = parquet_file(&folders.data, rows)?;
    load(dir, &file).await?;
    let server = alluvia(program, dir)?;
    let target = server.flight.as_deref().ok_or("the server says nothing of Flight SQL")?;
    let path = file.to_str().ok_or("the data folder's path is not UTF-8")?;
    let mut said = python(folders, SCRIPT, &[target, QUESTION, path, &turns.to_string()])?;
    if said["rows"].as_u64() != Some(rows) {
        return Err(format!("{} of {rows} rows came through Flight SQL", said["rows"]).into());
    }
    let mut speed = |what: &str| -> Anything<f64> {
        let taken = said["seconds"][what].take();
        let mut seconds: Vec<f64> = serde_json::from_value(taken)?;
        Ok(rows as f64 / median(&mut seconds))
    };
    let (flight, adbc, pyarrow) = (speed("flight")?, speed("adbc")?, speed("parquet")?);
    eprintln!(
        "alluvia: {rows} rows into Arrow through Flight {flight:.0} rows/s (ADBC {adbc:.0}), pyarrow from Parquet {pyarrow:.0}: {:.2}",
        flight / pyarrow
    );
    Ok(json!({
        "rows": rows, "turns": turns, "parquet": "zstd 1", "parquet_bytes": file.metadata()?.len(), "arrow_bytes": said["bytes"],
        "flight_rows_per_s": flight, "adbc_rows_per_s": adbc, "pyarrow_rows_per_s": pyarrow,
        "flight_to_pyarrow": flight / pyarrow, "adbc_to_pyarrow": adbc / pyarrow, "versions": said["versions"],
    }))
}

/// The Parquet file of so many rows, made the first time.
fn parquet_file(folder: &Path, rows: u64) -> Anything<PathBuf> {
    let mut next = 0;
    write_once(folder.join(format!("wire-{rows}.parquet")), &batch(0..0)?.schema(), rows, |count| {
        let first = next;
        next += count as u64;
        batch(first..next)
    })
}

/// A directory with the file's rows, merged.
async fn load(dir: &Path, file: &Path) -> Anything<()> {
    let db = Database::open(dir)?;
    let session = db.session();
    session.sql(&definition(TABLE, "alluvia")).await?;
    session.sql(&format!("COPY {TABLE} FROM '{}'", file.display())).await?;
    session.sql("CALL alluvia.merge()").await?;
    Ok(())
}
