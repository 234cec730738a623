//! Processes of a cluster on this machine, for its demo.
//!
//! Invariant: a process lives no longer than what has started it.

use alluvia_types::{Error, ErrorKind, Result};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// A node; killed when it is dropped.
pub struct Node {
    child: Child,
    said: String,
}

impl Drop for Node {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a node is started.
#[derive(Clone)]
pub struct Start {
    /// The folder of the cluster: each node has one in it, and a log beside that.
    pub dir: PathBuf,
    /// What the node is called, and its folder.
    pub name: &'static str,
    /// What it does.
    pub role: &'static str,
    /// Where the keeper is.
    pub keeper: Option<String>,
    /// Of the keeper: after so long a worker is given up.
    pub dead_after: Option<Duration>,
}

fn failed(what: &str, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("{what}: {error}"))
}

impl Start {
    /// Starts it, and waits until it says that it is ready.
    pub async fn run(self) -> Result<Node> {
        let started = tokio::task::spawn_blocking(move || self.started()).await;
        started.map_err(|error| Error::internal(format!("a node was not started: {error}")))?
    }

    fn started(self) -> Result<Node> {
        let program = std::env::current_exe().map_err(|error| failed("finding this program", &error))?;
        let log_file = self.dir.join(format!("{}.log", self.name));
        let log = File::options().create(true).append(true).open(&log_file);
        let log = log.map_err(|error| Error::io(&log_file, "creating", &error))?;
        let mut command = Command::new(program);
        command.arg("node").arg(self.dir.join(self.name)).args(["--roles", self.role, "--set", "memory_limit=512MB"]);
        if let Some(keeper) = &self.keeper {
            command.args(["--join", keeper, "--secret-file"]).arg(self.dir.join("keeper/secret"));
        }
        if let Some(dead_after) = self.dead_after {
            command.args(["--node-dead-after", &format!("{}ms", dead_after.as_millis())]);
        }
        if self.role == "gateway" {
            command.args(["--listen", "127.0.0.1:0", "--http-listen", "off", "--flight-listen", "off"]);
            command.args(["--set", "authentication=trust"]);
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn();
        let mut child = child.map_err(|error| failed(&format!("starting node {}", self.name), &error))?;
        let mut output = BufReader::new(child.stdout.take().ok_or_else(|| Error::internal("a node has no output"))?);
        let mut node = Node { child, said: String::new() };
        while !node.said.lines().any(|line| line.starts_with("  psql ") || line == "ready") {
            let read = output.read_line(&mut node.said).map_err(|error| failed("reading what a node says", &error))?;
            if read == 0 {
                let why = last_line(&log_file);
                return Err(Error::new(ErrorKind::Io, format!("node {} ended: {why}", self.name)));
            }
        }
        // A node whose output nobody takes stops.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        Ok(node)
    }
}

fn last_line(file: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").to_owned()
}

impl Node {
    /// The number of its process.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as `kill -9` does.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill().map_err(|error| failed("killing a node", &error))?;
        self.child.wait().map(drop).map_err(|error| failed("waiting for a node", &error))
    }

    /// Where other nodes reach it.
    pub fn address(&self) -> Result<String> {
        let line = self.said.lines().find(|line| line.contains(" of a cluster, on "));
        let address = line.and_then(|line| line.rsplit_once(", on ")).map(|(_, address)| address.trim().to_owned());
        address.ok_or_else(|| Error::internal("a node does not say where it is"))
    }

    /// A connection of a PostgreSQL client to a gateway.
    pub async fn connect(&self) -> Result<Asker> {
        let line = self.said.lines().find(|line| line.starts_with("  psql ")).unwrap_or_default();
        let port = line.split_whitespace().skip_while(|word| *word != "-p").nth(1).and_then(|port| port.parse().ok());
        let port: u16 = port.ok_or_else(|| Error::internal("a gateway does not say where it is"))?;
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(port).user("alluvia").dbname("alluvia").application_name("alluvia cluster demo");
        let (client, connection) = config.connect(NoTls).await.map_err(|error| crate::remote::told(&error))?;
        tokio::spawn(connection);
        Ok(Asker(client))
    }
}

/// A session at a gateway.
pub struct Asker(Client);

impl Asker {
    /// The rows of an answer, as text.
    pub async fn rows(&self, sql: &str) -> Result<Vec<Vec<String>>> {
        let messages = self.0.simple_query(sql).await.map_err(|error| crate::remote::told(&error))?;
        let row = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|at| row.get(at).unwrap_or("NULL").to_owned()).collect())
            }
            _ => None,
        };
        Ok(messages.iter().filter_map(row).collect())
    }

    /// The one value of an answer, a number.
    pub async fn number(&self, sql: &str) -> Result<u64> {
        let rows = self.rows(sql).await?;
        let value = rows.first().and_then(|row| row.first()).and_then(|value| value.parse().ok());
        value.ok_or_else(|| Error::internal(format!("{sql} gives {rows:?}, and no number")))
    }
}
