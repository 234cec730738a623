//! Peers of tables with keys that are children in Python.

use crate::boxes::peers::install;
use crate::{Anything, Folders};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child as Process, ChildStdin, ChildStdout, Command, Stdio};

const SCRIPT: &str = include_str!("../../peers/keyed.py");

/// What a peer is given: Parquet files of the rows that are there, and of the templates of batches, one behind the other.
pub struct Files {
    pub base: PathBuf,
    pub batches: PathBuf,
    pub batch_rows: usize,
}

/// A peer in Python.
pub struct Child {
    pub version: String,
    batch_rows: usize,
    process: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Child {
    /// Installs what it needs, starts it and waits until its table is loaded.
    pub fn start(engine: &str, package: &str, folders: &Folders, files: &Files, scratch: &Path) -> Anything<Child> {
        install(package, folders)?;
        let batch_rows = files.batch_rows;
        let mut process = Command::new(folders.venv.join("bin").join("python"))
            .args(["-c", SCRIPT, engine])
            .args([&files.base, &files.batches])
            .arg(batch_rows.to_string())
            .arg(scratch)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = process.stdin.take().ok_or("a child has no standard input")?;
        let output = BufReader::new(process.stdout.take().ok_or("a child has no standard output")?);
        let mut child = Child { version: String::new(), batch_rows, process, input, output };
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

    /// Applies batches from one on for so many seconds, each an `upsert` or a `patch`: how many, and rows a second.
    pub fn apply(&mut self, what: &str, from: u64, seconds: f64) -> Anything<(u64, f64)> {
        let said = self.ask(&json!({ what: seconds, "from": from }))?;
        let batches = said["batches"].as_u64().ok_or("a peer printed no count")?;
        Ok((batches, (batches * self.batch_rows as u64) as f64 / said["s"].as_f64().ok_or("a peer printed no time")?))
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
