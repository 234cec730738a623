//! Processes of the program that stands beside the bench: one that serves a database alone, or the nodes of a cluster on loopback.
//!
//! Invariants:
//! - A process lives no longer than its value, and only those that were started here are ended.
//! - A node that is started again has its folder, and keeper and gateways their ports.

use crate::Anything;
use crate::servers::{beside, connect};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, Config};

/// The kernel counts CPU time in hundredths of a second.
const TICKS_PER_S: f64 = 100.0;
/// A process whose share of a core is less is taken for idle.
const IDLE_SHARE: f64 = 0.15;
/// The same of processes that have nothing to do for long enough: what was asked for is done.
const IDLE_FOR: Duration = Duration::from_millis(1500);
const IDLE_WITHIN: Duration = Duration::from_secs(600);

/// A process; killed when it is dropped.
pub struct Process {
    child: Child,
    said: String,
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Process {
    /// Starts the program, and waits until it says that it is ready.
    fn start(args: &[String], log_file: &Path) -> Anything<Process> {
        let program = beside()?;
        let log = File::options().create(true).append(true).open(log_file)?;
        let child = Command::new(&program).args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log).spawn();
        let mut child = child.map_err(|error| format!("{} could not be started: {error}", program.display()))?;
        let mut output = BufReader::new(child.stdout.take().ok_or("a process has no output")?);
        let mut process = Process { child, said: String::new() };
        while !process.said.lines().any(|line| line.starts_with("  psql ") || line == "ready") {
            if output.read_line(&mut process.said)? == 0 {
                let told = std::fs::read_to_string(log_file).unwrap_or_default();
                let last = told.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
                return Err(format!("alluvia {} ended: {last}", args.join(" ")).into());
            }
        }
        // A process whose output nobody takes stops.
        std::thread::spawn(move || std::io::copy(&mut output, &mut std::io::sink()));
        Ok(process)
    }

    /// CPU seconds that it has used, with those of its threads that have ended.
    pub fn cpu_s(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        // The program's name may have blanks; behind it come the state and then numbers.
        let fields = stat.rsplit_once(") ").map_or("", |(_, fields)| fields);
        let ticks = fields.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<f64>().ok());
        ticks.sum::<f64>() / TICKS_PER_S
    }
}

/// What a session needs of a server's place.
fn config(port: u16) -> Config {
    let mut config = Config::new();
    config.host("127.0.0.1").port(port).user("alluvia").dbname("alluvia");
    // What each query used is for people.
    config.options("-c client_min_messages=warning");
    config
}

/// A port that is free now, and is given to one process.
fn free_port() -> Anything<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Arguments that all who serve clients have.
fn served(port: u16, data: &Path) -> Vec<String> {
    let fixed = ["--http-listen", "off", "--flight-listen", "off", "--set", "authentication=trust", "--listen"];
    let mut args: Vec<String> = fixed.map(str::to_owned).to_vec();
    args.push(format!("127.0.0.1:{port}"));
    args.extend(["--set".to_owned(), format!("copy_roots={}", data.display())]);
    args
}

/// Something that answers SQL: one process, or a cluster by its gateways.
pub trait Serves {
    /// Where the clients connect to.
    fn gateways(&self) -> Vec<Config>;
    /// CPU seconds of each process, by its name.
    fn cpus(&self) -> Vec<(String, f64)>;
}

/// CPU seconds of all processes.
pub fn cpu_s(server: &(impl Serves + ?Sized)) -> f64 {
    server.cpus().iter().map(|(_, seconds)| seconds).sum()
}

/// CPU seconds of the processes whose names begin so, since an earlier look.
pub fn since(server: &(impl Serves + ?Sized), before: &[(String, f64)], name: &str) -> Vec<f64> {
    let now = server.cpus();
    let pairs = now.iter().zip(before).filter(|((process, _), _)| process.starts_with(name));
    pairs.map(|((_, now), (_, before))| now - before).collect()
}

/// Waits until no process works: what was sorted, merged and built of what was asked for is done. Gives the CPU seconds that all of them use in a
/// second while they have nothing to do: nodes ask one another for news.
pub async fn settled(server: &(impl Serves + ?Sized)) -> Anything<f64> {
    let begun = Instant::now();
    loop {
        let before = server.cpus();
        tokio::time::sleep(IDLE_FOR).await;
        let used = since(server, &before, "");
        let shares = || used.iter().map(|used| used / IDLE_FOR.as_secs_f64());
        if shares().fold(0.0, f64::max) < IDLE_SHARE {
            return Ok(shares().sum());
        }
        if begun.elapsed() > IDLE_WITHIN {
            return Err("the processes do not come to rest".into());
        }
    }
}

/// One process that has the whole database.
pub struct Single {
    process: Process,
    config: Config,
}

impl Single {
    /// `data` is the folder that COPY may read.
    pub fn start(dir: &Path, data: &Path, memory_mb: u64) -> Anything<Single> {
        std::fs::create_dir_all(dir)?;
        let port = free_port()?;
        let mut args = vec!["serve".to_owned(), dir.join("db").display().to_string()];
        args.extend(served(port, data));
        args.extend(["--set".to_owned(), format!("memory_limit={memory_mb}MB")]);
        let process = Process::start(&args, &dir.join("log"))?;
        Ok(Single { process, config: config(port) })
    }
}

impl Serves for Single {
    fn gateways(&self) -> Vec<Config> {
        vec![self.config.clone()]
    }

    fn cpus(&self) -> Vec<(String, f64)> {
        vec![("one process".to_owned(), self.process.cpu_s())]
    }
}

/// What a node does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    Keeper,
    Worker,
    Gateway,
}

impl Role {
    pub fn name(self) -> &'static str {
        match self {
            Role::Keeper => "keeper",
            Role::Worker => "worker",
            Role::Gateway => "gateway",
        }
    }
}

/// How many nodes, and what they may use.
#[derive(Clone)]
pub struct Shape {
    pub workers: usize,
    pub gateways: usize,
    /// Memory of all workers together, and of all gateways.
    pub worker_mb: u64,
    pub gateway_mb: u64,
    /// What the keeper is told beside.
    pub keeper_args: Vec<String>,
}

impl Shape {
    pub fn new(workers: usize, gateways: usize, memory_mb: u64) -> Shape {
        Shape { workers, gateways, worker_mb: memory_mb, gateway_mb: memory_mb / 2, keeper_args: Vec::new() }
    }
}

struct Node {
    name: String,
    role: Role,
    args: Vec<String>,
    port: u16,
    /// None while it is dead.
    process: Option<Process>,
    /// CPU seconds of its earlier processes.
    earlier_s: f64,
}

/// A keeper, workers and gateways.
pub struct Cluster {
    dir: PathBuf,
    nodes: Vec<Node>,
}

impl Cluster {
    /// Starts all of it in a folder of its own.
    pub fn start(dir: &Path, data: &Path, shape: &Shape) -> Anything<Cluster> {
        std::fs::create_dir_all(dir)?;
        let keeper_port = free_port()?;
        let mut cluster = Cluster { dir: dir.to_owned(), nodes: Vec::new() };
        let mut keeper = shape.keeper_args.clone();
        keeper.extend(["--node-listen".to_owned(), format!("127.0.0.1:{keeper_port}")]);
        cluster.add(Role::Keeper, 0, 256, keeper)?;
        let join = [
            "--join".to_owned(),
            format!("127.0.0.1:{keeper_port}"),
            "--secret-file".to_owned(),
            dir.join("keeper-0/secret").display().to_string(),
        ];
        for at in 0..shape.workers {
            cluster.add(Role::Worker, at, shape.worker_mb / shape.workers as u64, join.to_vec())?;
        }
        for at in 0..shape.gateways {
            let port = free_port()?;
            let mut args = served(port, data);
            args.extend(join.clone());
            cluster.add(Role::Gateway, at, shape.gateway_mb / shape.gateways as u64, args)?;
            if let Some(node) = cluster.nodes.last_mut() {
                node.port = port;
            }
        }
        Ok(cluster)
    }

    fn add(&mut self, role: Role, at: usize, memory_mb: u64, rest: Vec<String>) -> Anything<()> {
        let name = format!("{}-{at}", role.name());
        let mut args = vec!["node".to_owned(), self.dir.join(&name).display().to_string()];
        args.extend(["--roles".to_owned(), role.name().to_owned()]);
        args.extend(["--set".to_owned(), format!("memory_limit={}MB", memory_mb.max(128))]);
        args.extend(rest);
        self.nodes.push(Node { name, role, args, port: 0, process: None, earlier_s: 0.0 });
        self.revive(self.nodes.len() - 1)
    }

    /// The nodes of a role, by their places.
    pub fn places(&self, role: Role) -> Vec<usize> {
        (0..self.nodes.len()).filter(|at| self.nodes[*at].role == role).collect()
    }

    pub fn name(&self, at: usize) -> &str {
        &self.nodes[at].name
    }

    /// `kill -9`.
    pub fn kill(&mut self, at: usize) {
        let node = &mut self.nodes[at];
        if let Some(process) = node.process.take() {
            node.earlier_s += process.cpu_s();
        }
    }

    /// Starts a node, or starts it again.
    pub fn revive(&mut self, at: usize) -> Anything<()> {
        let log_file = self.dir.join(format!("{}.log", self.nodes[at].name));
        let node = &mut self.nodes[at];
        node.process = Some(Process::start(&node.args, &log_file)?);
        Ok(())
    }
}

impl Serves for Cluster {
    fn gateways(&self) -> Vec<Config> {
        self.nodes.iter().filter(|node| node.role == Role::Gateway).map(|node| config(node.port)).collect()
    }

    fn cpus(&self) -> Vec<(String, f64)> {
        let used = |node: &Node| node.earlier_s + node.process.as_ref().map_or(0.0, Process::cpu_s);
        self.nodes.iter().map(|node| (node.name.clone(), used(node))).collect()
    }
}

/// A session at the first gateway.
pub async fn session(server: &(impl Serves + ?Sized)) -> Anything<Client> {
    connect(&server.gateways()[0]).await
}
