//! Settings of `alluvia serve`, read as options of the database and of its servers.
//!
//! Invariants:
//! - Every setting is read here or in [`Config`], and [`check`] reads all of them: what it lets pass is refused later only for what the
//!   data directory or the machine's ports are.
//! - Nothing is made, and nobody is told anything: `alluvia config` asks as `alluvia serve` does.

use crate::config::Config;
use alluvia_access::{Access, Attempts, Passwords, Tls, check_address};
use alluvia_node::{DatabaseOptions, PurgeAfter, ServedOptions, parse_bytes};
use alluvia_server_flight as flight;
use alluvia_server_http as http;
use alluvia_server_pg::ServerOptions;
use alluvia_telemetry::Endpoint;
use alluvia_types::{Error, ErrorKind, Result};
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// More than machines have; each is a thread.
const THREADS_MAX: usize = 1024;
/// The settings that say where a protocol is spoken. All but the first can be off.
const LISTENING: [&str; 3] = ["listen", "http_listen", "flight_listen"];

/// Refuses what no server can be started with.
pub fn check(config: &Config) -> Result<()> {
    stated_addresses(config)?;
    collector(config)?;
    database_options(config)?.check()?;
    config.duration("log_slower_than")?;
    let tls = tls(config)?;
    let access = match asks_for_passwords(config)? {
        true => Access::Passwords(Passwords::default()),
        false => Access::Trust,
    };
    for setting in LISTENING {
        if let Some(address) = address_if_any(config, setting)? {
            check_address(address, &access, tls.as_ref()).map_err(|error| error.at(setting))?;
        }
    }
    protocols(config, &access, tls.as_ref()).map(drop)
}

/// Whether clients must log in.
pub fn asks_for_passwords(config: &Config) -> Result<bool> {
    match config.get("authentication") {
        "trust" => Ok(false),
        "password" => Ok(true),
        other => Err(Error::new(ErrorKind::InvalidSetting, format!("authentication cannot be '{other}'"))
            .with_hint("it is trust or password")),
    }
}

/// Where traces go, if anywhere, and the share of them that is sent.
pub fn collector(config: &Config) -> Result<Option<(Endpoint, f64)>> {
    let (endpoint, share) = (config.get("otlp_endpoint"), config.share("otlp_share")?);
    if endpoint.is_empty() {
        return Ok(None);
    }
    let trusted = || {
        let file = Path::new(config.get("otlp_ca_file"));
        alluvia_client::tls::trusting(&read(file)?).map_err(|error| error.at("otlp_ca_file"))
    };
    Ok(Some((Endpoint::parse(endpoint, trusted)?, share)))
}

/// How the database is opened.
pub fn database_options(config: &Config) -> Result<DatabaseOptions> {
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
    options.purge_after = PurgeAfter::parse(config.get("purge_after")).map_err(|error| {
        Error::new(ErrorKind::InvalidSetting, error.message()).with_hint(error.hint().unwrap_or_default())
    })?;
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
    Ok(options)
}

/// How each protocol is served.
pub struct Protocols {
    pub pg: ServerOptions,
    pub http: http::ServerOptions,
    pub flight: flight::ServerOptions,
}

/// How each protocol is served to those who may connect. All count wrong passwords together.
pub fn protocols(config: &Config, access: &Access, tls: Option<&Tls>) -> Result<Protocols> {
    let attempts = Arc::<Attempts>::default();
    let pg = ServerOptions {
        access: access.clone(),
        attempts: Arc::clone(&attempts),
        tls: tls.cloned(),
        connections_max: config.number("connections_max")?,
        authentication_timeout: config.duration("authentication_timeout")?,
        statement_timeout: config.duration("statement_timeout")?,
        idle_timeout: config.duration("idle_timeout")?,
        transaction_idle_timeout: config.duration("transaction_idle_timeout")?,
        transfer_timeout: config.duration("transfer_timeout")?,
        message_bytes_max: bytes(config, "message_bytes_max")? as usize,
        stop_wait: config.duration("stop_timeout")?,
    };
    let http = http::ServerOptions {
        access: access.clone(),
        attempts: Arc::clone(&attempts),
        tls: tls.cloned(),
        connections_max: pg.connections_max,
        statement_timeout: pg.statement_timeout,
        header_timeout: config.duration("http_header_timeout")?,
        transfer_timeout: pg.transfer_timeout,
        statement_bytes_max: pg.message_bytes_max,
        body_bytes_max: bytes(config, "body_bytes_max")?,
        metrics_on_loopback: config.switch("metrics_on_loopback")?,
        stop_wait: pg.stop_wait,
    };
    let flight = flight::ServerOptions {
        access: access.clone(),
        attempts,
        tls: tls.cloned(),
        connections_max: pg.connections_max,
        authentication_timeout: pg.authentication_timeout,
        statement_timeout: pg.statement_timeout,
        idle_timeout: pg.idle_timeout,
        transaction_idle_timeout: pg.transaction_idle_timeout,
        session_timeout: config.duration("flight_session_timeout")?,
        token_lifetime: config.duration("flight_token_lifetime")?,
        transfer_timeout: pg.transfer_timeout,
        message_bytes_max: pg.message_bytes_max,
        stop_wait: pg.stop_wait,
        ..flight::ServerOptions::default()
    };
    Ok(Protocols { pg, http, flight })
}

fn bytes(config: &Config, name: &str) -> Result<u64> {
    parse_bytes(config.get(name)).map_err(|error| error.at(name))
}

/// The address of a setting.
pub fn address_of(config: &Config, setting: &str) -> Result<SocketAddr> {
    let text = config.get(setting);
    text.parse().map_err(|_| {
        Error::new(ErrorKind::InvalidSetting, format!("{setting} cannot be '{text}'"))
            .with_hint("write an address and a port: 127.0.0.1:5432, [::1]:5432, 0.0.0.0:5432")
    })
}

/// Likewise, of a protocol that may be off.
fn address_if_any(config: &Config, setting: &str) -> Result<Option<SocketAddr>> {
    match setting != LISTENING[0] && config.get(setting) == "off" {
        true => Ok(None),
        false => address_of(config, setting).map(Some),
    }
}

/// A setting, and the address that somebody stated for it.
pub type Stated = (&'static str, SocketAddr);

/// The addresses to listen on that somebody stated; refused where two of them cannot both be listened on.
pub fn stated_addresses(config: &Config) -> Result<Vec<Stated>> {
    let mut stated: Vec<Stated> = Vec::new();
    for setting in LISTENING {
        if !config.is_stated(setting) {
            continue;
        }
        let Some(address) = address_if_any(config, setting)? else { continue };
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
pub fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |one: IpAddr, other: IpAddr| match one {
        IpAddr::V4(any) => one == other || any.is_unspecified() && other.is_ipv4(),
        // Also all of IPv4's.
        IpAddr::V6(any) => one == other || any.is_unspecified(),
    };
    one.port() == other.port() && one.port() != 0 && (covers(one.ip(), other.ip()) || covers(other.ip(), one.ip()))
}

/// The server's certificate and key.
pub fn tls(config: &Config) -> Result<Option<Tls>> {
    match tls_files(config)? {
        Some((certificate, key)) => Ok(Some(Tls::new(&read(&certificate)?, &read(&key)?)?)),
        None => Ok(None),
    }
}

/// The files that they are in.
pub fn tls_files(config: &Config) -> Result<Option<(PathBuf, PathBuf)>> {
    match (config.path("tls_certificate"), config.path("tls_key")) {
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (None, None) => Ok(None),
        _ => Err(Error::new(ErrorKind::InvalidSetting, "TLS needs both tls_certificate and tls_key")),
    }
}

/// What a file that a setting names holds.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| Error::io(path, "reading", &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigArgs, SETTINGS};

    fn config(settings: &[&str]) -> Config {
        let set = settings.iter().map(|setting| (*setting).to_owned()).collect();
        Config::of_flags(&ConfigArgs { set, ..ConfigArgs::default() }).unwrap()
    }

    #[test]
    fn every_setting_that_is_no_free_text_is_looked_at() {
        check(&config(&[])).unwrap();
        // Names of files and directories that may come later, and that whoever needs them reads.
        let free = ["passwords", "copy_roots", "copy_ca_file", "otlp_ca_file"];
        for (name, ..) in SETTINGS.iter().filter(|(name, ..)| !free.contains(name)) {
            // No address, size, time, number, host or choice is written so, and no file is here.
            let setting = format!("{name}=/ no /");
            assert!(check(&config(&[setting.as_str()])).is_err(), "{name} may be anything");
        }
    }

    #[test]
    fn what_others_can_reach_asks_for_passwords_over_tls() {
        for (settings, lacks) in [
            (vec!["listen=0.0.0.0:0"], Some("listen: 0.0.0.0:0 can be reached")),
            (vec!["authentication=password", "flight_listen=[::]:0"], Some("flight_listen: [::]:0 can be reached")),
            (vec!["http_listen=off", "flight_listen=off"], None),
            (vec!["listen=off"], Some("listen cannot be 'off'")),
        ] {
            let error = check(&config(&settings)).err();
            assert_eq!(error.is_some(), lacks.is_some(), "{settings:?}: {error:?}");
            assert!(error.iter().all(|error| error.message().starts_with(lacks.unwrap())), "{error:?}");
        }
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
}
