//! The server's configuration: `alluvia.toml`, environment, flags.
//!
//! Invariants:
//! - A later source overrides an earlier one: default, file, `ALLUVIA_*` variables, flags.
//! - One table names the settings; an unknown name in the file is an error, one in the environment a warning.
//! - Where each value came from is known, and `alluvia config` prints it, also of values that are refused. No value is a secret: passwords are in files.

use crate::note;
use alluvia_types::{Error, ErrorKind, Result, near_names};
use clap::Args;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name, default, what it is.
pub const SETTINGS: [(&str, &str, &str); 36] = [
    ("listen", "127.0.0.1:5432", "Address and port of PostgreSQL's protocol; the next free port if nobody stated one."),
    ("http_listen", "127.0.0.1:8080", "Address and port of HTTP, likewise; off for none."),
    ("flight_listen", "127.0.0.1:50051", "Address and port of Flight SQL, likewise; off for none."),
    (
        "memory_limit",
        "",
        "Memory to use in all, such as 4GB, at least 128MB; three quarters of the machine's if empty.",
    ),
    ("threads", "", "Threads of queries and of sorting; one per core if empty."),
    ("spill_max", "100GB", "Bytes on disk that all statements together may spill, with what COPY fetches of URLs."),
    (
        "purge_after",
        "never",
        "How old deleted rows may become in the files, such as 30d, of tables that do not say it themselves.",
    ),
    ("authentication", "trust", "trust: whoever reaches the socket, on loopback alone; password: SCRAM-SHA-256."),
    ("passwords", "", "File of users and their verifiers; 'passwords' in the data directory if empty."),
    ("tls_certificate", "", "File with the server's certificate chain, in PEM. Read again on SIGHUP."),
    ("tls_key", "", "File with its private key, in PEM."),
    ("connections_max", "200", "Connections that may be logged in at once, of each protocol."),
    ("authentication_timeout", "10s", "What a client has to log in."),
    (
        "statement_timeout",
        "1h",
        "What a statement of a client may take, unless its role, SET or the request says otherwise; 0 is no limit.",
    ),
    ("idle_timeout", "8h", "A connection that sends nothing for so long is ended; 0 never does."),
    (
        "transaction_idle_timeout",
        "10min",
        "Likewise one with an open transaction, or a statement whose rows were not all taken; a transaction of Flight SQL.",
    ),
    ("message_bytes_max", "64MB", "The longest message of a client."),
    ("body_bytes_max", "1GB", "The longest body of rows over HTTP, also unpacked."),
    (
        "http_header_timeout",
        "30s",
        "What an HTTP client has to send a request's head, and a connection to send the next request.",
    ),
    (
        "metrics_on_loopback",
        "false",
        "true: clients of this machine read /metrics without a password; others are superusers or in pg_monitor.",
    ),
    (
        "transfer_timeout",
        "1min",
        "A client that takes nothing of an answer, or of HTTP and Flight SQL sends nothing more of a body, for so long is gone.",
    ),
    (
        "flight_session_timeout",
        "1h",
        "A token of Flight SQL that is not used for so long is no more, nor what is kept for it.",
    ),
    (
        "flight_token_lifetime",
        "24h",
        "A token of Flight SQL is no more when it is so old, however much it is used; 0 is any age.",
    ),
    (
        "copy_roots",
        "",
        "Directories in which COPY reads and writes the server's files, for roles that may; none if empty. A list: /a,/b; in the file ['/a', '/b'].",
    ),
    (
        "copy_hosts",
        "",
        "Hosts whose URLs COPY reads, for roles that may: data.example.org, *.example.org, example.org:8443; none if empty. A list.",
    ),
    (
        "copy_private_addresses",
        "false",
        "true: hosts of copy_hosts may be at addresses that are not public. An address that is written in copy_hosts may be so anyway.",
    ),
    ("copy_url_bytes_max", "10GB", "The longest file that COPY reads of a URL, as it comes."),
    (
        "copy_unpacked_bytes_max",
        "100GB",
        "What a packed file that COPY reads, of copy_roots or a URL, may unpack to; of Parquet and Arrow their rows.",
    ),
    ("copy_ca_file", "", "File of the authorities that https believes, in PEM; the system's if empty."),
    (
        "copy_proxy",
        "",
        "Proxy through which COPY reads URLs: http://host:port; none if empty. HTTPS_PROXY and its like are not looked at.",
    ),
    ("copy_proxy_except", "", "Hosts that are asked without it, written as those of copy_hosts. A list."),
    ("log_slower_than", "0s", "Statements that take longer are logged to standard error; 0 logs none."),
    (
        "otlp_endpoint",
        "",
        "OpenTelemetry collector that traces go to, over OTLP/HTTP: http://127.0.0.1:4318, or https; none if empty.",
    ),
    (
        "otlp_ca_file",
        "/etc/ssl/certs/ca-certificates.crt",
        "File of the authorities that a collector at https is believed by, or of its own certificate, in PEM.",
    ),
    ("otlp_share", "1", "Share of the traces that are sent, from 0 to 1, of those that no client decides about."),
    ("stop_timeout", "10s", "What running statements get to finish when the server stops."),
];

/// Settings that are lists: between commas, or an array in the file.
const LISTS: [&str; 3] = ["copy_roots", "copy_hosts", "copy_proxy_except"];

/// Variables that are not settings.
const OTHER_VARIABLES: [&str; 3] = ["ALLUVIA_CONFIG", "ALLUVIA_TEST_SECONDS", crate::remote::PASSWORD];

/// Flags of what can be configured.
#[derive(Args, Clone, Default)]
pub struct ConfigArgs {
    /// The configuration file [default: alluvia.toml here, if there is one].
    #[arg(long, value_name = "FILE", env = "ALLUVIA_CONFIG")]
    pub config: Option<PathBuf>,
    /// Any setting, as name=value; may be given several times. `alluvia config` lists them.
    #[arg(long, short, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Address and port to listen on.
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
    /// Address and port of HTTP; off for none.
    #[arg(long, value_name = "ADDRESS")]
    pub http_listen: Option<String>,
    /// Address and port of Flight SQL; off for none.
    #[arg(long, value_name = "ADDRESS")]
    pub flight_listen: Option<String>,
    /// Memory to use in all, such as 4GB.
    #[arg(long, value_name = "SIZE")]
    pub memory_limit: Option<String>,
    /// Threads.
    #[arg(long)]
    pub threads: Option<String>,
}

/// Where a value came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    Default,
    File(PathBuf),
    Variable(String),
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::File(path) => write!(f, "{}", path.display()),
            Origin::Variable(name) => f.write_str(name),
            Origin::Flag(name) => f.write_str(name),
        }
    }
}

/// All settings with their values.
#[derive(Clone, Debug)]
pub struct Config {
    /// The name, value and origin of each setting, in the order of [`SETTINGS`].
    pub values: Vec<(&'static str, String, Origin)>,
}

fn wrong(message: String) -> Error {
    Error::new(ErrorKind::InvalidSetting, message)
}

impl Config {
    /// Everything from everywhere.
    pub fn load(args: &ConfigArgs) -> Result<Config> {
        let here = Path::new("alluvia.toml");
        let file = args.config.clone().or_else(|| here.exists().then(|| here.to_owned()));
        let text = match &file {
            None => None,
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| Error::io(path, "reading", &error))?;
                Some((path.as_path(), text))
            }
        };
        let variables = std::env::vars().filter(|(name, _)| name.starts_with("ALLUVIA_"));
        let (config, warnings) = Config::from_sources(text, variables, args)?;
        warnings.iter().for_each(|warning| note(format_args!("warning: {warning}")));
        Ok(config)
    }

    /// The defaults, and what flags say.
    #[cfg(test)]
    pub fn of_flags(args: &ConfigArgs) -> Result<Config> {
        Ok(Config::from_sources(None, std::iter::empty(), args)?.0)
    }

    fn from_sources(
        file: Option<(&Path, String)>,
        variables: impl Iterator<Item = (String, String)>,
        args: &ConfigArgs,
    ) -> Result<(Config, Vec<String>)> {
        let values = SETTINGS.map(|(name, default, _)| (name, default.to_owned(), Origin::Default)).to_vec();
        let mut config = Config { values };
        let mut warnings = Vec::new();
        if let Some((path, text)) = file {
            let table: toml::Table = text
                .parse()
                .map_err(|error: toml::de::Error| wrong(format!("{}: {}", path.display(), error.to_string().trim())))?;
            for (name, value) in table {
                let value = match value {
                    toml::Value::String(text) => text,
                    toml::Value::Integer(number) => number.to_string(),
                    toml::Value::Boolean(value) => value.to_string(),
                    toml::Value::Array(parts) if LISTS.contains(&name.as_str()) => {
                        joined(&name, &parts).map_err(|error| error.at(path.display()))?
                    }
                    other => {
                        let what = other.type_str();
                        return Err(wrong(format!("{}: {name} is {what}, and not a text or a number", path.display())));
                    }
                };
                let set = config.set(&name, value, Origin::File(path.to_owned()));
                set.map_err(|error| error.at(path.display()))?;
            }
        }
        for (name, value) in variables {
            if OTHER_VARIABLES.contains(&name.as_str()) {
                continue;
            }
            let setting = name.trim_start_matches("ALLUVIA_").to_ascii_lowercase();
            if let Err(error) = config.set(&setting, value, Origin::Variable(name.clone())) {
                warnings.push(format!("{name} is ignored: {}", error.message()));
            }
        }
        let flags = [
            ("listen", &args.listen),
            ("http_listen", &args.http_listen),
            ("flight_listen", &args.flight_listen),
            ("memory_limit", &args.memory_limit),
            ("threads", &args.threads),
        ];
        for (name, value) in flags {
            if let Some(value) = value {
                config.set(name, value.clone(), Origin::Flag(format!("--{}", name.replace('_', "-"))))?;
            }
        }
        for pair in &args.set {
            let (name, value) = pair.split_once('=').ok_or_else(|| wrong(format!("--set {pair} is not name=value")))?;
            config.set(name.trim(), value.trim().to_owned(), Origin::Flag("--set".to_owned()))?;
        }
        Ok((config, warnings))
    }

    fn set(&mut self, name: &str, value: String, origin: Origin) -> Result<()> {
        let Some(place) = self.values.iter_mut().find(|(known, ..)| *known == name) else {
            let error = wrong(format!("there is no setting {name}"));
            return Err(match near_names(name, SETTINGS.iter().map(|(known, ..)| *known)).as_slice() {
                [] => error.with_hint("alluvia config lists them"),
                near => error.with_hint(format!("did you mean {}?", near.join(" or "))),
            });
        };
        (place.1, place.2) = (value, origin);
        Ok(())
    }

    /// A setting's value; empty if it has none.
    pub fn get(&self, name: &str) -> &str {
        self.values.iter().find(|(known, ..)| *known == name).map_or("", |(_, value, _)| value)
    }

    /// Whether somebody stated a setting.
    pub fn is_stated(&self, name: &str) -> bool {
        self.values.iter().any(|(known, _, origin)| *known == name && *origin != Origin::Default)
    }

    /// A setting that is a time.
    pub fn duration(&self, name: &str) -> Result<Duration> {
        let text = self.get(name);
        parse_duration(text).ok_or_else(|| {
            wrong(format!("{name} cannot be '{text}'")).with_hint("write a time with its unit: 500ms, 10s, 5min, 1h")
        })
    }

    /// A setting that is a number.
    pub fn number(&self, name: &str) -> Result<usize> {
        let text = self.get(name);
        match text.parse() {
            Ok(0) | Err(_) => Err(wrong(format!("{name} cannot be '{text}': it takes a whole number from 1 on"))),
            Ok(number) => Ok(number),
        }
    }

    /// A setting that is a list.
    pub fn list(&self, name: &str) -> Vec<String> {
        let parts = self.get(name).split(',').map(str::trim);
        parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
    }

    /// A setting that is on or off.
    pub fn switch(&self, name: &str) -> Result<bool> {
        match self.get(name) {
            "true" | "on" => Ok(true),
            "false" | "off" => Ok(false),
            text => Err(wrong(format!("{name} cannot be '{text}': it takes true or false"))),
        }
    }

    /// A setting that is a share.
    pub fn share(&self, name: &str) -> Result<f64> {
        let text = self.get(name);
        let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
        share.ok_or_else(|| wrong(format!("{name} cannot be '{text}': it takes a number from 0 to 1")))
    }

    /// A setting that names a file.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        let text = self.get(name);
        (!text.is_empty()).then(|| PathBuf::from(text))
    }
}

/// A list as all other sources write it.
fn joined(name: &str, parts: &[toml::Value]) -> Result<String> {
    let text = |part: &toml::Value| match part.as_str() {
        Some(text) if !text.contains(',') && !text.trim().is_empty() => Ok(text.to_owned()),
        _ => {
            let what = part.type_str();
            Err(wrong(format!("{name} cannot hold this {what}")).with_hint("it is a list of texts that have no commas"))
        }
    };
    Ok(parts.iter().map(text).collect::<Result<Vec<String>>>()?.join(","))
}

/// A time as settings have it: `500ms`, `2s`, `5m`, `1h`.
pub fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let unit = text.find(|c: char| !c.is_ascii_digit())?;
    let number: u64 = text[..unit].parse().ok()?;
    Some(match text[unit..].trim() {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        "m" | "min" => Duration::from_secs(number.checked_mul(60)?),
        "h" => Duration::from_secs(number.checked_mul(3_600)?),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(file: &str, variables: &[(&str, &str)], args: &ConfigArgs) -> Result<(Config, Vec<String>)> {
        let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Config::from_sources(Some((Path::new("a.toml"), file.to_owned())), variables, args)
    }

    #[test]
    fn later_sources_override_earlier_ones_and_say_so() {
        let args =
            ConfigArgs { listen: Some("[::1]:7".into()), set: vec!["threads=3".into()], ..ConfigArgs::default() };
        let file = "connections_max = 5\nidle_timeout = '1s'\nlisten = '127.0.0.1:9'";
        let variables = [("ALLUVIA_IDLE_TIMEOUT", "2min"), ("ALLUVIA_CONFIG", "x"), ("ALLUVIA_LISTN", "y")];
        let (config, warnings) = load(file, &variables, &args).unwrap();
        assert_eq!((config.get("listen"), config.number("connections_max").unwrap()), ("[::1]:7", 5));
        assert_eq!(config.duration("idle_timeout").unwrap(), Duration::from_secs(120));
        assert_eq!((config.get("threads"), config.is_stated("tls_key")), ("3", false));
        assert!(warnings.len() == 1 && warnings[0].contains("ALLUVIA_LISTN"), "{warnings:?}");
    }

    #[test]
    fn files_of_the_documents_are_taken() {
        let docs = include_str!("../../../docs/OPERATIONS.md");
        let files: Vec<&str> = docs.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
        assert!(files.len() >= 2, "{files:?}");
        for file in files {
            let (_, warnings) =
                load(file, &[], &ConfigArgs::default()).unwrap_or_else(|error| panic!("{error}\n{file}"));
            assert!(warnings.is_empty(), "{warnings:?} of\n{file}");
        }
    }

    #[test]
    fn lists_are_arrays_in_the_file_and_between_commas_elsewhere() {
        let file =
            "copy_roots = ['/data/in', '/data/out']\ncopy_hosts = 'a.org, *.b.org'\ncopy_private_addresses = true";
        let (config, _) = load(file, &[], &ConfigArgs::default()).unwrap();
        assert_eq!(config.list("copy_roots"), ["/data/in", "/data/out"]);
        assert_eq!(config.list("copy_hosts"), ["a.org", "*.b.org"]);
        assert!(config.switch("copy_private_addresses").unwrap());
        let flag = ConfigArgs { set: vec!["copy_roots=/c".into()], ..ConfigArgs::default() };
        let (config, _) = load(file, &[("ALLUVIA_COPY_HOSTS", "")], &flag).unwrap();
        assert_eq!((config.list("copy_roots"), config.list("copy_hosts")), (vec!["/c".to_owned()], Vec::new()));
        let (config, _) = load("copy_private_addresses = 'perhaps'", &[], &ConfigArgs::default()).unwrap();
        assert!(config.switch("copy_private_addresses").is_err() && config.list("copy_roots").is_empty());
        for file in ["copy_roots = ['/a,b']", "copy_hosts = [7]", "copy_hosts = ['']"] {
            assert!(load(file, &[], &ConfigArgs::default()).is_err(), "{file}");
        }
    }

    #[test]
    fn what_is_wrong_in_the_file_is_named_with_it() {
        for (file, words) in [
            ("lisen = 'x'", "a.toml: there is no setting lisen"),
            ("listen = ['x']", "a.toml: listen is array"),
            ("listen =", "a.toml: "),
        ] {
            let error = load(file, &[], &ConfigArgs::default()).unwrap_err();
            assert!(error.message().starts_with(words), "{error}");
        }
        let (config, _) = load("idle_timeout = 'soon'\nconnections_max = 0", &[], &ConfigArgs::default()).unwrap();
        assert!(config.duration("idle_timeout").is_err() && config.number("connections_max").is_err());
    }

    #[test]
    fn whatever_a_client_may_take_is_bounded_unless_somebody_lifts_it() {
        let (config, _) = load("", &[], &ConfigArgs::default()).unwrap();
        let timeouts: Vec<&str> =
            SETTINGS.iter().map(|(name, ..)| *name).filter(|name| name.ends_with("_timeout")).collect();
        assert_eq!(timeouts.len(), 8);
        for name in timeouts {
            assert!(!config.duration(name).unwrap().is_zero(), "{name}");
        }
        for name in ["connections_max", "message_bytes_max", "body_bytes_max"] {
            assert!(!config.get(name).is_empty(), "{name}");
        }
        let (config, _) =
            load("statement_timeout = 0", &[("ALLUVIA_IDLE_TIMEOUT", "0s")], &ConfigArgs::default()).unwrap();
        assert!(["statement_timeout", "idle_timeout"].iter().all(|name| config.duration(name).unwrap().is_zero()));
    }
}
