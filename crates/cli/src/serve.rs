//! `alluvia serve`: a database for clients of PostgreSQL, of HTTP and of Flight SQL.
//!
//! Invariants:
//! - It says that it is ready only when it is, and where it listens.
//! - What the settings refuse is refused before anything is made (`settings::check`).
//! - The first password is random, shown once, and kept only as its verifier, in a file that only the owner can read; neither is done
//!   before the server listens.
//! - SIGTERM and SIGINT stop it in order: statements finish or are cancelled, the log is sealed, exit code 0.

use crate::config::{Config, ConfigArgs};
use crate::notify::{READY, STOPPING, notify};
use crate::recovery::tell_recovery;
use crate::settings::{self, Protocols, Stated, address_of, collide, read, tls_files};
use crate::{note, say};
use alluvia_access::{Access, Passwords, Tls, Verifier, random_password};
use alluvia_allocator::keep_freed_memory_within;
use alluvia_node::Database;
use alluvia_query::Engine;
use alluvia_server_flight as flight;
use alluvia_server_http as http;
use alluvia_server_pg::Server;
use alluvia_telemetry::Exporter;
use alluvia_types::{Error, ErrorKind, Result};
use clap::Args;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::SocketAddr;
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
    let passwords_file = config.path("passwords").unwrap_or_else(|| args.dir.join("passwords"));
    if let Some(user) = &args.set_password {
        return set_password(&passwords_file, user);
    }
    // Before anything is made.
    settings::check(&config)?;
    let exporter = observe(&config)?;
    let options = settings::database_options(&config)?;
    keep_freed_memory_within(options.memory_limit_bytes);
    for root in options.served.copy_roots.iter().filter(|root| !root.is_dir()) {
        // It may be mounted later.
        note(format_args!("warning: copy_roots: {} is no directory now", root.display()));
    }
    let db = Arc::new(Database::open_with(&args.dir, options)?);
    tell_recovery(&db);
    let (engine, dir) = (Arc::clone(db.engine()), args.dir.display().to_string());
    let announce = |places: &[String]| db.announce(places);
    serve(Served { engine, config: &config, passwords_file: &passwords_file, dir, announce: &announce }).await?;
    // The threads of the database end here, and its log is sealed.
    drop(db);
    if let Some(exporter) = exporter {
        exporter.stop().await;
    }
    say("stopped\n")?;
    Ok(ExitCode::SUCCESS)
}

/// What is served, and how.
pub struct Served<'a> {
    /// What all sessions share.
    pub engine: Arc<Engine>,
    /// The settings, which are checked.
    pub config: &'a Config,
    /// Where passwords are.
    pub passwords_file: &'a Path,
    /// What is said of where it lies.
    pub dir: String,
    /// Told where clients connect to.
    pub announce: &'a (dyn Fn(&[String]) + Sync),
}

/// Serves an engine to all protocols until the process is asked to stop.
pub async fn serve(served: Served<'_>) -> Result<()> {
    let Served { engine, config, passwords_file, dir, announce } = served;
    let (stated, tls) = (settings::stated_addresses(config)?, settings::tls(config)?);
    engine.log_slower_than(config.duration("log_slower_than")?);
    let (access, first) = access(config, passwords_file, &engine)?;
    let Protocols { pg, http, flight } = settings::protocols(config, &access, tls.as_ref())?;
    let server = listen(config, &stated, "listen", |address| {
        let (options, engine) = (pg.clone(), Arc::clone(&engine));
        async move { Server::bind(address, options, move || engine.session()).await }
    });
    let server = server.await?;
    let http_server = match config.get("http_listen") {
        "off" => None,
        _ => {
            let bind = |address| http::Server::bind(address, http.clone(), Arc::clone(&engine));
            Some(listen(config, &stated, "http_listen", bind).await?)
        }
    };
    let flight_server = match config.get("flight_listen") {
        "off" => None,
        _ => {
            let bind = |address| flight::Server::bind(address, flight.clone(), Arc::clone(&engine));
            Some(listen(config, &stated, "flight_listen", bind).await?)
        }
    };
    // Before it says that it is ready: whoever reads that may stop it at once.
    let stop = stopped()?;
    reload_on_hangup(config, tls.clone())?;
    // No client has been accepted yet, and nothing is left that could refuse the start.
    if let Some(first) = first {
        first.keep(passwords_file)?;
    }
    let address = server.local_addr()?;
    let mut places = vec![format!("PostgreSQL on {address}")];
    let with_tls = if tls.is_some() { ", with TLS" } else { "" };
    say(&format!(
        "alluvia {} serves {dir} to PostgreSQL's clients on {address}{with_tls}\n",
        env!("CARGO_PKG_VERSION"),
    ))?;
    let (stopping, stopped) = watch::channel(false);
    let http_server = match http_server {
        None => None,
        Some(server) => {
            let scheme = if tls.is_some() { "https" } else { "http" };
            places.push(format!("HTTP on {scheme}://{}", server.local_addr()?));
            say(&format!("  and to HTTP's on {scheme}://{}\n", server.local_addr()?))?;
            let mut stopped = stopped.clone();
            Some(tokio::spawn(server.run(async move { drop(stopped.wait_for(|stopped| *stopped).await) })))
        }
    };
    let flight_server = match flight_server {
        None => None,
        Some(server) => {
            let scheme = if tls.is_some() { "grpc+tls" } else { "grpc" };
            places.push(format!("Flight SQL on {scheme}://{}", server.local_addr()?));
            say(&format!("  and to Flight SQL's on {scheme}://{}\n", server.local_addr()?))?;
            let mut stopped = stopped.clone();
            Some(tokio::spawn(server.run(async move { drop(stopped.wait_for(|stopped| *stopped).await) })))
        }
    };
    announce(&places);
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
    Ok(())
}

/// Begins to log, and to send traces where the settings name a collector.
pub fn observe(config: &Config) -> Result<Option<Exporter>> {
    let Some((endpoint, share)) = settings::collector(config)? else {
        crate::observe(None);
        return Ok(None);
    };
    let (spans, exporter) = alluvia_telemetry::traces(endpoint, share);
    crate::observe(Some(spans));
    Ok(Some(exporter))
}

/// Completes when the process is asked to stop.
pub fn stopped() -> Result<impl Future<Output = ()>> {
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

/// Takes a new certificate when the process gets SIGHUP; one that cannot be used leaves the old one in place. Without a certificate
/// the signal does nothing, rather than end the process.
fn reload_on_hangup(config: &Config, tls: Option<Tls>) -> Result<()> {
    let files = tls.zip(tls_files(config)?);
    let failed = |error| Error::new(ErrorKind::Io, format!("signals cannot be listened to: {error}"));
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            let Some((tls, (certificate, key))) = &files else {
                note("there is no TLS certificate to read again");
                continue;
            };
            let replaced = read(certificate).and_then(|chain| tls.replace(&chain, &read(key)?));
            match replaced {
                Ok(()) => note("the TLS certificate was read again"),
                Err(error) => crate::say_error(&error),
            }
        }
    });
    Ok(())
}

/// The password of the first user, which nobody knows yet.
struct FirstPassword {
    password: String,
    passwords: Passwords,
}

impl FirstPassword {
    /// Writes its verifier to the file, and shows it.
    fn keep(self, file: &Path) -> Result<()> {
        save_passwords(file, &self.passwords)?;
        say(&format!("the password of user {FIRST_USER}, shown this once: {}\n", self.password))
    }
}

/// Who may connect, and the first password if there has been none.
fn access(config: &Config, file: &Path, engine: &Arc<Engine>) -> Result<(Access, Option<FirstPassword>)> {
    if !settings::asks_for_passwords(config)? {
        return Ok((Access::Trust, None));
    }
    let (mut passwords, mut first) = (load_passwords(file)?, None);
    if passwords.is_empty() {
        let password = random_password()?;
        passwords.set(FIRST_USER, Verifier::new(&password)?);
        first = Some(FirstPassword { password, passwords: passwords.clone() });
    }
    // Users of the file are superusers; all others are roles of the database.
    let directory = engine.directory(passwords.users());
    Ok((Access::Passwords(passwords.with_directory(directory)), first))
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
    save_private(file, &passwords.to_text())
}

/// Replaces a file at once; only its owner can read it.
pub fn save_private(file: &Path, text: &str) -> Result<()> {
    let failed = |error| Error::io(file, "writing", &error);
    let partial = file.with_extension("partial");
    let _ = fs::remove_file(&partial);
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial).map_err(failed)?;
    out.write_all(text.as_bytes()).and_then(|()| out.sync_all()).map_err(failed)?;
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

    #[tokio::test]
    async fn who_states_no_port_makes_way_for_who_does() {
        let config = config(&["http_listen=127.0.0.1:5432"]);
        let stated = settings::stated_addresses(&config).unwrap();
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
