//! `alluvia node`: one process of a database on several machines.
//!
//! Invariants:
//! - It says that it is ready only when it is: after its socket for other nodes, its worker and its gateway.
//! - The cluster's secret is made by the keeper, in a file that only its owner can read, and never shown.

use crate::config::{Config, ConfigArgs, parse_duration};
use crate::notify::{READY, STOPPING, notify};
use crate::serve::{Served, observe, save_private, serve, stopped};
use crate::{say, settings};
use alluvia_cluster::{Limits, Role};
use alluvia_node::cluster::{NodeOptions, NodeProcess};
use alluvia_types::{Error, ErrorKind, Result};
use clap::{Args, ValueEnum};
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

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
    /// Where other nodes reach this one; of loopback, for messages are not encrypted yet.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    node_listen: SocketAddr,
    /// The file with the cluster's secret [default: `secret` in the directory; the keeper makes it].
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
    let NodeArgs { dir, roles, join, node_listen, secret_file, node_dead_after, config } = args;
    let config = Config::load(&config)?;
    settings::check(&config)?;
    let exporter = observe(&config)?;
    fs::create_dir_all(&dir).map_err(|error| Error::io(&dir, "creating", &error))?;
    let is_keeper = roles.contains(&RoleName::Keeper);
    let secret = secret(&secret_file.unwrap_or_else(|| dir.join("secret")), is_keeper)?;
    let options = NodeOptions {
        dir: dir.clone(),
        roles: roles.iter().map(|role| role.role()).collect(),
        listen: node_listen,
        join,
        limits: limits(node_dead_after),
        secret,
        database: settings::database_options(&config)?,
    };
    // It makes connections, and waits for them.
    let started = tokio::task::spawn_blocking(move || NodeProcess::start(options)).await;
    let node = started.map_err(|error| Error::internal(format!("the node did not start: {error}")))??;
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
