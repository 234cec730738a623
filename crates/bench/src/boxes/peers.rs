//! Peers as Python children, one process each, that live as long as the bench: a JSON line in, a JSON line out.
//!
//! Each child measures its own time (see `peers/box.py`). A peer that cannot be installed or started is left out and said,
//! all but DuckDB, whose answers are the reference.

use crate::boxes::answer::Answer;
use crate::{Anything, Folders};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

const SCRIPT: &str = include_str!("../../peers/box.py");
const REQUIREMENTS: &str = include_str!("../../peers/requirements.txt");

/// An engine that the script knows.
pub struct Kind {
    pub name: &'static str,
    engine: &'static str,
    package: &'static str,
}

/// The reference comes first.
pub const KINDS: [Kind; 3] = [
    Kind { name: "DuckDB", engine: "duckdb", package: "duckdb" },
    Kind { name: "ClickHouse", engine: "clickhouse", package: "chdb" },
    Kind { name: "DataFusion", engine: "datafusion", package: "datafusion" },
];

/// DuckDB over the Parquet files themselves, separated by line ends: slower, and with no copy of the rows in memory.
pub const FILES: Kind = Kind { name: "DuckDB", engine: "duckdb_files", package: "duckdb" };

/// DuckDB in memory with several tables: lines `table=file`, the one whose rows are counted first.
pub const TABLES: Kind = Kind { name: "DuckDB", engine: "duckdb_tables", package: "duckdb" };

/// One running child.
pub struct Peer {
    pub name: &'static str,
    pub version: String,
    /// Seconds it took to load the table.
    pub load_s: f64,
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    /// Installs what it needs, starts it and waits until its table is loaded.
    pub fn start(kind: &Kind, folders: &Folders, file: &str, scratch: &Path, rows: u64) -> Anything<Peer> {
        install(kind.package, folders)?;
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let mut child = Command::new(folders.venv.join("bin").join("python"))
            .args(["-c", SCRIPT, kind.engine, file])
            .arg(scratch)
            .arg(threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("a child has no standard input")?;
        let output = BufReader::new(child.stdout.take().ok_or("a child has no standard output")?);
        let mut peer = Peer { name: kind.name, version: String::new(), load_s: 0.0, child, input, output };
        let ready = peer.hear()?;
        peer.version = ready["version"].as_str().unwrap_or_default().to_owned();
        peer.load_s = ready["load_s"].as_f64().unwrap_or(f64::NAN);
        if ready["rows"].as_u64() != Some(rows) {
            return Err(format!("{} loaded {} rows of {rows}", kind.name, ready["rows"]).into());
        }
        eprintln!("{} {}: loaded in {:.1} s", peer.name, peer.version, peer.load_s);
        Ok(peer)
    }

    /// One query: its milliseconds and its answer.
    pub fn ask(&mut self, sql: &str, grouped: bool) -> Anything<(f64, Answer)> {
        let (took_ms, rows) = self.rows(sql)?;
        Ok((took_ms, Answer::of_json(&rows, grouped)?))
    }

    /// One query of any shape: its milliseconds and its rows, as lists.
    pub fn rows(&mut self, sql: &str) -> Anything<(f64, Value)> {
        self.say(&json!({ "sql": sql }))?;
        let mut heard = self.hear()?;
        let took_ms = heard["ms"].as_f64().ok_or("a peer printed no time")?;
        Ok((took_ms, heard["rows"].take()))
    }

    /// Queries a second over whole passes of a list, for at least so long.
    pub fn throughput(&mut self, texts: &[String], seconds: f64) -> Anything<f64> {
        self.say(&json!({ "many": texts, "seconds": seconds }))?;
        let heard = self.hear()?;
        let queries = heard["queries"].as_f64().ok_or("a peer printed no count")?;
        Ok(queries * 1e3 / heard["ms"].as_f64().ok_or("a peer printed no time")?)
    }

    fn say(&mut self, request: &Value) -> Anything<()> {
        writeln!(self.input, "{request}")?;
        Ok(self.input.flush()?)
    }

    fn hear(&mut self) -> Anything<Value> {
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(format!("{} ended without an answer", self.name).into());
        }
        let heard: Value = serde_json::from_str(&line)?;
        match heard["error"].as_str() {
            Some(error) => Err(format!("{}: {error}", self.name).into()),
            None => Ok(heard),
        }
    }
}

impl Drop for Peer {
    /// Nothing that a peer holds is worth keeping.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The pinned version of a package, in the virtual environment; nothing to do if it is there.
pub fn install(package: &str, folders: &Folders) -> Anything<()> {
    let pinned = REQUIREMENTS.lines().find_map(|line| line.strip_prefix(package)?.strip_prefix("=="));
    let pinned = pinned.ok_or_else(|| format!("{package} is not in peers/requirements.txt"))?.trim();
    let python = folders.venv.join("bin").join("python");
    let check = "import importlib.metadata as m, sys; sys.exit(m.version(sys.argv[1]) != sys.argv[2])";
    let there = Command::new(&python).args(["-c", check, package, pinned]).stderr(Stdio::null()).status()?.success();
    if there {
        return Ok(());
    }
    eprintln!("installing {package} {pinned} ...");
    let status = Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &format!("{package}=={pinned}")])
        .stdout(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err(format!("pip install of {package} {pinned} failed").into()) }
}
