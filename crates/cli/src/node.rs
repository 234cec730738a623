//! `alluvia node`: one process of a database on several machines.
//!
//! Invariants:
//! - It says that it is ready only when it is: after its socket for other nodes, its worker and its gateway.
//! - Where there are no certificates, the keeper makes the cluster's secret, in a file that only its owner can read; it is never shown.

use crate::cluster::{AUTHORITY, NODE, NODE_KEY};
use crate::config::{Config, ConfigArgs, parse_duration};
use crate::notify::{READY, STOPPING, notify};
use crate::serve::{Served, observe, save_private, serve, stopped};
use crate::{note, say, say_error, settings};
use alluvia_cluster::{Limits, Role};
use alluvia_link::{Certificates, Security};
use alluvia_node::cluster::{NodeOptions, NodeProcess};
use alluvia_types::{Error, ErrorKind, Result};
use clap::{Args, ValueEnum};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Args)]
pub struct NodeArgs {
    /// The node's directory; created if it does not exist.
    dir: PathBuf,
    /// What the node does: keeper (decides; one in a cluster), worker (keeps rows), gateway (serves clients).
    #[arg(long, value_delimiter = ',', required = true)]
    roles: Vec<RoleName>,
    /// Where the keeper is; not for the keeper itself.
    #[arg(long, value_name = "HOST:PORT")]
    join: Option<String>,
    /// Where this node listens for others; without certificates on loopback alone.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    node_listen: SocketAddr,
    /// Where others reach this node, if it is not where it listens; a name is looked up whenever they connect.
    #[arg(long, value_name = "HOST:PORT")]
    node_address: Option<String>,
    /// The folder with this node's certificate, its key and the cluster's authority, as `alluvia cluster certificate` makes it: nodes are
    /// linked over TLS, and may be on other machines.
    #[arg(long, value_name = "FOLDER", conflicts_with = "secret_file")]
    certificates: Option<PathBuf>,
    /// The file with the cluster's secret, where there are no certificates [default: `secret` in the directory; the keeper makes it].
    #[arg(long, value_name = "FILE")]
    secret_file: Option<PathBuf>,
    /// Of the keeper: a worker of which nothing is heard for so long is given up, and its replicas are made anew on others.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    node_dead_after: Duration,
    #[command(flatten)]
    config: ConfigArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum RoleName {
    Keeper,
    Worker,
    Gateway,
}

impl RoleName {
    fn role(self) -> Role {
        match self {
            RoleName::Keeper => Role::Keeper,
            RoleName::Worker => Role::Worker,
            RoleName::Gateway => Role::Gateway,
        }
    }

    fn name(self) -> &'static str {
        match self {
            RoleName::Keeper => "keeper",
            RoleName::Worker => "worker",
            RoleName::Gateway => "gateway",
        }
    }
}

pub async fn run(args: NodeArgs) -> Result<ExitCode> {
    let NodeArgs { dir, roles, join, node_listen, node_address, certificates, secret_file, node_dead_after, config } =
        args;
    let config = Config::load(&config)?;
    settings::check(&config)?;
    let exporter = observe(&config)?;
    fs::create_dir_all(&dir).map_err(|error| Error::io(&dir, "creating", &error))?;
    let is_keeper = roles.contains(&RoleName::Keeper);
    let security = match &certificates {
        Some(folder) => Security::Certificates(certificates_in(folder)?),
        None => Security::Secret(secret(&secret_file.unwrap_or_else(|| dir.join("secret")), is_keeper)?),
    };
    let options = NodeOptions {
        dir: dir.clone(),
        roles: roles.iter().map(|role| role.role()).collect(),
        listen: node_listen,
        announced: node_address,
        join,
        limits: limits(node_dead_after),
        security: security.clone(),
        database: settings::database_options(&config)?,
    };
    // It makes connections, and waits for them.
    let started = tokio::task::spawn_blocking(move || NodeProcess::start(options)).await;
    let node = started.map_err(|error| Error::internal(format!("the node did not start: {error}")))??;
    let reloaded = match (security, certificates) {
        (Security::Certificates(certificates), Some(folder)) => Some((certificates, folder, node.address().to_owned())),
        _ => None,
    };
    // Before it says that it is ready: whoever reads that may replace its certificate at once.
    reload_on_hangup(reloaded)?;
    let names: Vec<&str> = roles.iter().map(|role| role.name()).collect();
    say(&format!("alluvia {}: {} of a cluster, on {}\n", env!("CARGO_PKG_VERSION"), names.join(", "), node.address()))?;
    match node.gateway() {
        Some(gateway) => {
            let passwords_file = config.path("passwords").unwrap_or_else(|| dir.join("passwords"));
            let (engine, dir) = (Arc::clone(gateway.engine()), format!("the cluster of {}", dir.display()));
            let announce = |_: &[String]| ();
            serve(Served { engine, config: &config, passwords_file: &passwords_file, dir, announce: &announce })
                .await?;
        }
        None => {
            let stop = stopped()?;
            say("ready\n")?;
            notify(READY);
            stop.await;
            notify(STOPPING);
        }
    }
    let ended = tokio::task::spawn_blocking(move || drop(node)).await;
    ended.map_err(|error| Error::internal(format!("the node did not stop: {error}")))?;
    if let Some(exporter) = exporter {
        exporter.stop().await;
    }
    say("stopped\n")?;
    Ok(ExitCode::SUCCESS)
}

fn duration(text: &str) -> std::result::Result<Duration, String> {
    let least = Duration::from_millis(500);
    let parsed = parse_duration(text).filter(|duration| *duration >= least);
    parsed.ok_or_else(|| "write 500ms or more: 2s, 5m".to_owned())
}

/// From who is silent for half as long as would be too long, and not longer than usual, nothing is copied.
fn limits(dead_after: Duration) -> Limits {
    let suspect_after = Limits::default().suspect_after.min(dead_after / 2);
    Limits { suspect_after, dead_after }
}

/// A node's certificates, as they lie in a folder.
fn certificates_in(folder: &Path) -> Result<Certificates> {
    let read = |name: &str| {
        let file = folder.join(name);
        fs::read(&file).map_err(|error| {
            Error::io(&file, "reading", &error)
                .with_hint("`alluvia cluster certificate` makes such a folder for each node")
        })
    };
    let [authority, certificate, key] = [AUTHORITY, NODE, NODE_KEY].map(read);
    let found = Certificates::new(&authority?, &certificate?, &key?);
    found.map_err(|error| error.at(folder.display()))
}

/// Takes a new certificate for connections to other nodes when the process gets SIGHUP; one that cannot be used leaves the old one in place.
/// Without certificates the signal does nothing, rather than end the process.
fn reload_on_hangup(reloaded: Option<(Certificates, PathBuf, String)>) -> Result<()> {
    let failed = |error| Error::new(ErrorKind::Io, format!("signals cannot be listened to: {error}"));
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let Some((certificates, folder, address)) = &reloaded else { continue };
            match certificates_in(folder).and_then(|fresh| certificates.replace(&fresh, address)) {
                Ok(()) => note("the node's certificate was read again"),
                Err(error) => say_error(&error),
            }
        }
    });
    Ok(())
}

/// The cluster's secret; the keeper makes it.
fn secret(file: &Path, is_keeper: bool) -> Result<String> {
    match fs::read_to_string(file) {
        Ok(text) => {
            let secret = text.trim().to_owned();
            let is_one = secret.len() >= 16
                && secret.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
            if is_one {
                return Ok(secret);
            }
            let what = format!("{} has no secret: 16 letters and digits or more", file.display());
            Err(Error::new(ErrorKind::InvalidSetting, what).with_hint("copy the file from the keeper's directory"))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && is_keeper => {
            let secret: String = (0..2).map(|_| alluvia_access::random_password()).collect::<Result<_>>()?;
            save_private(file, &secret)?;
            Ok(secret)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(Error::new(ErrorKind::InvalidSetting, format!("there is no secret of a cluster in {}", file.display()))
                .with_hint("copy the file `secret` from the keeper's directory, or name it with --secret-file"))
        }
        Err(error) => Err(Error::io(file, "reading", &error)),
    }
}
