//! `alluvia serve`: a database for clients of PostgreSQL, of HTTP and of Flight SQL.
//!
//! Invariants:
//! - It says that it is ready only when it is, and where it listens.
//! - The first password is random, shown once, and kept only as its verifier, in a file that only the owner can read.
//! - SIGTERM and SIGINT stop it in order: statements finish or are cancelled, the log is sealed, exit code 0.

use crate::config::{Config, ConfigArgs};
use crate::notify::{READY, STOPPING, notify};
use crate::say;
use alluvia_access::{Access, Attempts, Passwords, Tls, Verifier, random_password};
use alluvia_node::{Database, DatabaseOptions, ServedOptions, parse_bytes};
use alluvia_server_flight as flight;
use alluvia_server_http as http;
use alluvia_server_pg::{Server, ServerOptions};
use alluvia_telemetry::{Endpoint, Exporter};
use alluvia_types::{Error, ErrorKind, Result};
use clap::Args;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The user that the first password is for.
const FIRST_USER: &str = "alluvia";
/// Ports after the usual one that are tried when nobody stated one.
const PORTS_TRIED: u16 = 100;
/// More than machines have; each is a thread.
const THREADS_MAX: usize = 1024;

#[derive(Args)]
pub struct ServeArgs {
    /// The data directory; created if it does not exist.
    dir: PathBuf,
    #[command(flatten)]
    config: ConfigArgs,
    /// Sets the password of a user, read from standard input, and ends.
    #[arg(long, value_name = "USER")]
    set_password: Option<String>,
}

pub async fn run(args: ServeArgs) -> Result<ExitCode> {
    let config = Config::load(&args.config)?;
    let stated = stated_addresses(&config)?;
    let exporter = observe(&config)?;
    let passwords_file = config.path("passwords").unwrap_or_else(|| args.dir.join("passwords"));
    if let Some(user) = &args.set_password {
        return set_password(&passwords_file, user);
    }
    let tls = tls(&config)?;
    let db = Arc::new(Database::open_with(&args.dir, database_options(&config)?)?);
    db.engine().log_slower_than(config.duration("log_slower_than")?);
    let attempts = Arc::<Attempts>::default();
    let options = ServerOptions {
        access: access(&config, &passwords_file, &db)?,
        attempts: Arc::clone(&attempts),
        tls: tls.clone(),
        connections_max: config.number("connections_max")?,
        authentication_timeout: config.duration("authentication_timeout")?,
        statement_timeout: config.duration("statement_timeout")?,
        idle_timeout: config.duration("idle_timeout")?,
        transaction_idle_timeout: config.duration("transaction_idle_timeout")?,
        message_bytes_max: bytes(&config, "message_bytes_max")? as usize,
        stop_wait: config.duration("stop_timeout")?,
    };
    let server = listen(&config, &stated, "listen", |address| {
        let (options, db) = (options.clone(), Arc::clone(&db));
        async move { Server::bind(address, options, move || db.session()).await }
    });
    let server = server.await?;
    let http_server = match config.get("http_listen") {
        "off" => None,
        _ => Some(listen_http(&config, &stated, &options, &db).await?),
    };
    let flight_server = match config.get("flight_listen") {
        "off" => None,
        _ => Some(listen_flight(&config, &stated, &options, &db).await?),
    };
    // Before it says that it is ready: whoever reads that may stop it at once.
    let stop = stopped()?;
    reload_on_hangup(&config, tls.clone())?;
    let address = server.local_addr()?;
    let with_tls = if tls.is_some() { ", with TLS" } else { "" };
    say(&format!(
        "alluvia {} serves {} to PostgreSQL's clients on {address}{with_tls}\n",
        env!("CARGO_PKG_VERSION"),
        args.dir.display(),
    ))?;
    let (stopping, stopped) = watch::channel(false);
    let http_server = match http_server {
        None => None,
        Some(server) => {
            let scheme = if tls.is_some() { "https" } else { "http" };
            say(&format!("  and to HTTP's on {scheme}://{}\n", server.local_addr()?))?;
            let mut stopped = stopped.clone();
            Some(tokio::spawn(server.run(async move { drop(stopped.wait_for(|stopped| *stopped).await) })))
        }
    };
    let flight_server = match flight_server {
        None => None,
        Some(server) => {
            let scheme = if tls.is_some() { "grpc+tls" } else { "grpc" };
            say(&format!("  and to Flight SQL's on {scheme}://{}\n", server.local_addr()?))?;
            let mut stopped = stopped.clone();
            Some(tokio::spawn(server.run(async move { drop(stopped.wait_for(|stopped| *stopped).await) })))
        }
    };
    // Whoever waits for the server to be ready waits for this line.
    say(&format!("  psql -h {} -p {} -U {FIRST_USER} alluvia\n", address.ip(), address.port()))?;
    notify(READY);
    server
        .run(async move {
            stop.await;
            notify(STOPPING);
            stopping.send_replace(true);
        })
        .await;
    for (what, server) in [("HTTP", http_server), ("Flight SQL", flight_server)] {
        if let Some(server) = server {
            let ended = server.await;
            ended.map_err(|error| Error::internal(format!("the {what} server ended early: {error}")))?;
        }
    }
    // The threads of the database end here, and its log is sealed.
    drop(db);
    if let Some(exporter) = exporter {
        exporter.stop().await;
    }
    say("stopped\n")?;
    Ok(ExitCode::SUCCESS)
}

/// Begins to log, and to send traces where the settings name a collector.
fn observe(config: &Config) -> Result<Option<Exporter>> {
    let (endpoint, share) = (config.get("otlp_endpoint"), config.share("otlp_share")?);
    if endpoint.is_empty() {
        crate::observe(None);
        return Ok(None);
    }
    let trusted = || {
        let file = Path::new(config.get("otlp_ca_file"));
        alluvia_client::tls::trusting(&read(file)?).map_err(|error| error.at("otlp_ca_file"))
    };
    let (spans, exporter) = alluvia_telemetry::traces(Endpoint::parse(endpoint, trusted)?, share);
    crate::observe(Some(spans));
    Ok(Some(exporter))
}

/// Completes when the process is asked to stop.
fn stopped() -> Result<impl Future<Output = ()>> {
    let failed = |error| Error::new(ErrorKind::Io, format!("signals cannot be listened to: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

fn database_options(config: &Config) -> Result<DatabaseOptions> {
    let mut options = DatabaseOptions::default();
    if !config.get("memory_limit").is_empty() {
        options.memory_limit_bytes =
            parse_bytes(config.get("memory_limit")).map_err(|error| error.at("memory_limit"))?;
    }
    if !config.get("threads").is_empty() {
        options.threads = config.number("threads")?;
        if !(1..=THREADS_MAX).contains(&options.threads) {
            let message = format!("threads cannot be {}: it is a number from 1 to {THREADS_MAX}", options.threads);
            return Err(Error::new(ErrorKind::InvalidSetting, message));
        }
    }
    options.spill_bytes_max = bytes(config, "spill_max")?;
    options.served = ServedOptions {
        copy_roots: config.list("copy_roots").into_iter().map(PathBuf::from).collect(),
        copy_hosts: config.list("copy_hosts"),
        copy_private_addresses: config.switch("copy_private_addresses")?,
        copy_url_bytes_max: bytes(config, "copy_url_bytes_max")?,
        copy_unpacked_bytes_max: bytes(config, "copy_unpacked_bytes_max")?,
        copy_ca_file: config.path("copy_ca_file"),
        copy_proxy: Some(config.get("copy_proxy").to_owned()).filter(|proxy| !proxy.is_empty()),
        copy_proxy_except: config.list("copy_proxy_except"),
    };
    for root in options.served.copy_roots.iter().filter(|root| !root.is_dir()) {
        // It may be mounted later.
        eprintln!("warning: copy_roots: {} is no directory now", root.display());
    }
    Ok(options)
}

fn bytes(config: &Config, name: &str) -> Result<u64> {
    parse_bytes(config.get(name)).map_err(|error| error.at(name))
}

async fn listen_http(
    config: &Config,
    stated: &[Stated],
    options: &ServerOptions,
    db: &Arc<Database>,
) -> Result<http::Server> {
    let options = http::ServerOptions {
        access: options.access.clone(),
        attempts: Arc::clone(&options.attempts),
        tls: options.tls.clone(),
        connections_max: options.connections_max,
        statement_timeout: options.statement_timeout,
        header_timeout: config.duration("http_header_timeout")?,
        transfer_timeout: config.duration("transfer_timeout")?,
        statement_bytes_max: options.message_bytes_max,
        body_bytes_max: bytes(config, "body_bytes_max")?,
        metrics_on_loopback: config.switch("metrics_on_loopback")?,
        stop_wait: options.stop_wait,
    };
    let bind = |address| http::Server::bind(address, options.clone(), Arc::clone(db.engine()));
    listen(config, stated, "http_listen", bind).await
}

async fn listen_flight(
    config: &Config,
    stated: &[Stated],
    options: &ServerOptions,
    db: &Arc<Database>,
) -> Result<flight::Server> {
    let options = flight::ServerOptions {
        access: options.access.clone(),
        attempts: Arc::clone(&options.attempts),
        tls: options.tls.clone(),
        connections_max: options.connections_max,
        authentication_timeout: options.authentication_timeout,
        statement_timeout: options.statement_timeout,
        idle_timeout: options.idle_timeout,
        transaction_idle_timeout: options.transaction_idle_timeout,
        session_timeout: config.duration("flight_session_timeout")?,
        transfer_timeout: config.duration("transfer_timeout")?,
        message_bytes_max: options.message_bytes_max,
        stop_wait: options.stop_wait,
        ..flight::ServerOptions::default()
    };
    let bind = |address| flight::Server::bind(address, options.clone(), Arc::clone(db.engine()));
    listen(config, stated, "flight_listen", bind).await
}

/// Binds at the address of a setting, or the next free port if nobody stated one; none that another setting states.
async fn listen<S, F>(config: &Config, stated: &[Stated], setting: &str, bind: impl Fn(SocketAddr) -> F) -> Result<S>
where
    F: Future<Output = Result<S>>,
{
    let mut address = address_of(config, setting)?;
    let last_port = address.port().saturating_add(PORTS_TRIED);
    loop {
        while !config.is_stated(setting) && stated.iter().any(|(_, theirs)| collide(address, *theirs)) {
            address.set_port(address.port().saturating_add(1));
        }
        match bind(address).await {
            Err(error)
                if error.kind() == ErrorKind::Locked && !config.is_stated(setting) && address.port() < last_port =>
            {
                address.set_port(address.port() + 1);
            }
            bound => return bound.map_err(|error| error.at(setting)),
        }
    }
}

fn address_of(config: &Config, setting: &str) -> Result<SocketAddr> {
    let text = config.get(setting);
    text.parse().map_err(|_| {
        Error::new(ErrorKind::InvalidSetting, format!("{setting} cannot be '{text}'"))
            .with_hint("write an address and a port: 127.0.0.1:5432, [::1]:5432, 0.0.0.0:5432")
    })
}

/// A setting, and the address that somebody stated for it.
type Stated = (&'static str, SocketAddr);

/// The addresses to listen on that somebody stated; refused where two of them cannot both be listened on.
fn stated_addresses(config: &Config) -> Result<Vec<Stated>> {
    let mut stated: Vec<Stated> = Vec::new();
    for setting in ["listen", "http_listen", "flight_listen"] {
        if !config.is_stated(setting) || (setting != "listen" && config.get(setting) == "off") {
            continue;
        }
        let address = address_of(config, setting)?;
        if let Some((other, _)) = stated.iter().find(|(_, theirs)| collide(address, *theirs)) {
            return Err(collision(other, setting, address));
        }
        stated.push((setting, address));
    }
    Ok(stated)
}

fn collision(setting: &str, other: &str, address: SocketAddr) -> Error {
    let message = format!("{setting} and {other} both name port {} of {}", address.port(), address.ip());
    Error::new(ErrorKind::InvalidSetting, message).with_hint("give each a port of its own; port 0 is whichever is free")
}

/// Whether both cannot be listened on. Port 0 is whichever is free.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |one: IpAddr, other: IpAddr| match one {
        IpAddr::V4(any) => one == other || any.is_unspecified() && other.is_ipv4(),
        // Also all of IPv4's.
        IpAddr::V6(any) => one == other || any.is_unspecified(),
    };
    one.port() == other.port() && one.port() != 0 && (covers(one.ip(), other.ip()) || covers(other.ip(), one.ip()))
}

fn tls(config: &Config) -> Result<Option<Tls>> {
    match tls_files(config)? {
        Some((certificate, key)) => Ok(Some(Tls::new(&read(&certificate)?, &read(&key)?)?)),
        None => Ok(None),
    }
}

fn tls_files(config: &Config) -> Result<Option<(PathBuf, PathBuf)>> {
    match (config.path("tls_certificate"), config.path("tls_key")) {
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (None, None) => Ok(None),
        _ => Err(Error::new(ErrorKind::InvalidSetting, "TLS needs both tls_certificate and tls_key")),
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Error::io(path, "reading", &error))
}

/// Takes a new certificate when the process gets SIGHUP; one that cannot be used leaves the old one in place. Without a certificate
/// the signal does nothing, rather than end the process.
fn reload_on_hangup(config: &Config, tls: Option<Tls>) -> Result<()> {
    let files = tls.zip(tls_files(config)?);
    let failed = |error| Error::new(ErrorKind::Io, format!("signals cannot be listened to: {error}"));
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let Some((tls, (certificate, key))) = &files else {
                eprintln!("there is no TLS certificate to read again");
                continue;
            };
            let replaced = read(certificate).and_then(|chain| tls.replace(&chain, &read(key)?));
            match replaced {
                Ok(()) => eprintln!("the TLS certificate was read again"),
                Err(error) => crate::say_error(&error),
            }
        }
    });
    Ok(())
}

fn access(config: &Config, file: &Path, db: &Database) -> Result<Access> {
    match config.get("authentication") {
        "trust" => Ok(Access::Trust),
        "password" => {
            let mut passwords = load_passwords(file)?;
            if passwords.is_empty() {
                let password = random_password()?;
                passwords.set(FIRST_USER, Verifier::new(&password)?);
                save_passwords(file, &passwords)?;
                say(&format!("the password of user {FIRST_USER}, shown this once: {password}\n"))?;
            }
            // Users of the file are superusers; all others are roles of the database.
            let directory = db.engine().directory(passwords.users());
            Ok(Access::Passwords(passwords.with_directory(directory)))
        }
        other => Err(Error::new(ErrorKind::InvalidSetting, format!("authentication cannot be '{other}'"))
            .with_hint("it is trust or password")),
    }
}

fn load_passwords(file: &Path) -> Result<Passwords> {
    match fs::read_to_string(file) {
        Ok(text) => Passwords::parse(&text).map_err(|error| error.at(file.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Passwords::default()),
        Err(error) => Err(Error::io(file, "reading", &error)),
    }
}

/// Replaces the file at once; only its owner can read it.
fn save_passwords(file: &Path, passwords: &Passwords) -> Result<()> {
    let failed = |error| Error::io(file, "writing", &error);
    let partial = file.with_extension("partial");
    let _ = fs::remove_file(&partial);
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial).map_err(failed)?;
    out.write_all(passwords.to_text().as_bytes()).and_then(|()| out.sync_all()).map_err(failed)?;
    fs::rename(&partial, file).map_err(failed)
}

fn set_password(file: &Path, user: &str) -> Result<ExitCode> {
    if user.is_empty() || user.contains([':', '\n']) {
        return Err(Error::new(ErrorKind::InvalidSetting, format!("{user:?} cannot be the name of a user")));
    }
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).map_err(|error| Error::io("standard input", "reading", &error))?;
    let password = line.trim_end_matches(['\r', '\n']);
    if password.is_empty() {
        return Err(Error::new(ErrorKind::InvalidSetting, "an empty password is none")
            .with_hint("write it to standard input, on one line"));
    }
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(|error| Error::io(folder, "creating", &error))?;
    }
    let mut passwords = load_passwords(file)?;
    passwords.set(user, Verifier::new(password)?);
    save_passwords(file, &passwords)?;
    say(&format!("the password of {user} is set; a server that runs takes it when it is started again\n"))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(settings: &[&str]) -> Config {
        let set = settings.iter().map(|setting| (*setting).to_owned()).collect();
        Config::of_flags(&ConfigArgs { set, ..ConfigArgs::default() }).unwrap()
    }

    #[test]
    fn two_settings_that_state_one_port_are_both_named() {
        for (settings, named) in [
            (vec!["listen=127.0.0.1:7000", "http_listen=127.0.0.1:7000"], Some(["listen", "http_listen"])),
            (vec!["listen=127.0.0.1:7000", "flight_listen=0.0.0.0:7000"], Some(["listen", "flight_listen"])),
            (vec!["http_listen=[::]:7000", "flight_listen=127.0.0.1:7000"], Some(["http_listen", "flight_listen"])),
            (vec!["listen=127.0.0.1:7000", "http_listen=127.0.0.2:7000"], None),
            (vec!["listen=[::1]:7000", "http_listen=0.0.0.0:7000"], None),
            (vec!["listen=127.0.0.1:0", "http_listen=127.0.0.1:0"], None),
            (vec!["listen=127.0.0.1:7000", "http_listen=off", "flight_listen=off"], None),
            (vec![], None),
        ] {
            let stated = stated_addresses(&config(&settings));
            assert_eq!(stated.is_err(), named.is_some(), "{settings:?}");
            if let (Err(error), Some(named)) = (stated, named) {
                assert!(named.iter().all(|name| error.message().contains(name)), "{error}");
                assert!(error.message().contains("7000"), "{error}");
            }
        }
    }

    #[tokio::test]
    async fn who_states_no_port_makes_way_for_who_does() {
        let config = config(&["http_listen=127.0.0.1:5432"]);
        let stated = stated_addresses(&config).unwrap();
        let bind = |address: SocketAddr| async move { Ok(address) };
        let port = |address: Result<SocketAddr>| address.unwrap().port();
        assert_eq!(port(listen(&config, &stated, "listen", bind).await), 5433);
        assert_eq!(port(listen(&config, &stated, "http_listen", bind).await), 5432);
        assert_eq!(port(listen(&config, &stated, "flight_listen", bind).await), 50_051);
        let taken = |_: SocketAddr| async move { Err::<SocketAddr, _>(Error::new(ErrorKind::Locked, "it is taken")) };
        let error = listen(&config, &stated, "http_listen", taken).await.unwrap_err();
        assert_eq!(error.message(), "http_listen: it is taken");
    }

    #[test]
    fn the_share_of_traces_is_checked_without_a_collector() {
        let error = observe(&config(&["otlp_share=7"])).err().unwrap();
        assert!(error.message().contains("otlp_share cannot be '7'"), "{error}");
    }
}
