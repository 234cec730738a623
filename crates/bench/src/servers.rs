//! Servers as processes of their own on loopback: ours, and a PostgreSQL of the bench's own.

use crate::Anything;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tokio_postgres::{Client, Config, NoTls};

/// A server that ends with its value.
pub struct Running {
    child: Child,
    pub config: Config,
    /// Where HTTP is, if it is served.
    pub http: Option<SocketAddr>,
    /// Where Flight SQL is, if it is served, as clients are told.
    pub flight: Option<String>,
    /// From its start until it said that it is ready.
    pub ready_ms: f64,
    folder: Option<PathBuf>,
}

impl Running {
    /// Resident memory of the server's process, in MiB.
    pub fn resident_mib(&self) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
        line.split_whitespace().nth(1)?.parse::<f64>().ok().map(|kib| kib / 1024.0)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        // In order, so that it leaves nothing behind; a process that is gone already is as well.
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let _ = self.child.wait();
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// The program that stands beside this one.
pub fn beside() -> Anything<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name("alluvia"))
}

/// Starts our server; ready when it says so.
pub fn alluvia(program: &Path, data: &Path) -> Anything<Running> {
    let start = Instant::now();
    let mut child = Command::new(program)
        .arg("serve")
        .arg(data)
        .args(["--listen", "127.0.0.1:0", "--http-listen", "127.0.0.1:0", "--flight-listen", "127.0.0.1:0"])
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{} could not be started: {error}", program.display()))?;
    let out = child.stdout.take().ok_or("the server has no output")?;
    // From here on the process ends with this value, whatever goes wrong.
    let mut server = Running { child, config: Config::new(), http: None, flight: None, ready_ms: 0.0, folder: None };
    let mut port = None;
    for line in BufReader::new(out).lines() {
        let line = line?;
        if let Some((_, address)) = line.split_once(" on http://") {
            server.http = Some(address.trim().parse()?);
        }
        if let Some((_, address)) = line.split_once(" on grpc://") {
            server.flight = Some(format!("grpc://{}", address.trim()));
        }
        if let Some((_, rest)) = line.split_once(" -p ") {
            port = rest.split(' ').next().and_then(|port| port.parse::<u16>().ok());
            break;
        }
    }
    server.ready_ms = start.elapsed().as_secs_f64() * 1e3;
    let port = port.ok_or("the server did not start")?;
    server.config.host("127.0.0.1").port(port).user("alluvia").dbname("alluvia");
    // What each query used is for people.
    server.config.options("-c client_min_messages=warning");
    Ok(server)
}

/// A PostgreSQL of its own, if one is installed.
pub fn postgres() -> Anything<Running> {
    let programs = std::fs::read_dir("/usr/lib/postgresql").map_err(|_| "it is not installed")?;
    let bins = programs.flatten().map(|entry| entry.path().join("bin")).filter(|bin| bin.join("initdb").exists());
    let bin = bins.max().ok_or("it is not installed")?;
    // It refuses to run as root, and its files must be its own.
    let is_root = rustix::process::geteuid().is_root();
    let folder = tempfile::Builder::new().prefix("alluvia-bench-postgres-").tempdir()?.keep();
    if is_root {
        Command::new("chown").arg("postgres").arg(&folder).status()?;
    }
    let command = |program: &str| {
        let path = bin.join(program);
        match is_root {
            true => {
                let mut command = Command::new("setpriv");
                command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups"]).arg(path);
                command
            }
            false => Command::new(path),
        }
    };
    let data = folder.join("data");
    let made = command("initdb").arg("-D").arg(&data).args(["-A", "trust", "-U", "alluvia"]).output()?;
    if !made.status.success() {
        let _ = std::fs::remove_dir_all(&folder);
        return Err(format!("initdb failed: {}", String::from_utf8_lossy(&made.stderr)).into());
    }
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let child = command("postgres")
        .arg("-D")
        .arg(&data)
        .args(["-p", &port.to_string(), "-c", "listen_addresses=127.0.0.1", "-c", "shared_buffers=1GB"])
        .args(["-c", "max_wal_size=8GB", "-c", "work_mem=256MB", "-k"])
        .arg(&folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut config = Config::new();
    config.host("127.0.0.1").port(port).user("alluvia").dbname("postgres");
    Ok(Running { child, config, http: None, flight: None, ready_ms: 0.0, folder: Some(folder) })
}

/// Connects; a server that is starting is waited for.
pub async fn connect(config: &Config) -> Anything<Client> {
    let mut tries = 0;
    loop {
        match config.connect(NoTls).await {
            Ok((client, connection)) => {
                tokio::spawn(connection);
                return Ok(client);
            }
            Err(error) if tries >= 200 => return Err(error.into()),
            Err(_) => {
                tries += 1;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// What the server calls itself.
pub async fn version(client: &Client) -> Anything<String> {
    Ok(client.query_one("SELECT version()", &[]).await?.get(0))
}
