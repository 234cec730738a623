//! A session's settings: SET, SHOW, RESET.
//!
//! Invariants:
//! - Every setting reads back as SHOW prints it, and SET takes what SHOW prints.
//! - A setting that is unknown, or a value that it does not take, changes nothing.
//!
//! One table names the settings; `set`, `show` and `reset` go through it, so that none can be forgotten in one of them.

pub mod client;

use alluvia_answer::{Accuracy, Missed};
use alluvia_catalog::SearchPath;
use alluvia_pg_catalog::{SettingRow, SettingsView};
use alluvia_snapshot::Durability;
use alluvia_syntax::statement::{Isolation, SettingValue};
use alluvia_syntax::units::{
    parse_bytes, parse_duration, parse_fraction, parse_freshness, parse_switch, show_bytes, show_duration,
    show_freshness, show_switch,
};
use alluvia_types::{Error, ErrorKind, Freshness, ProducerMark, Result, near_names};
use alluvia_values::time_zone::Zone;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// What a session can set.
#[derive(Clone, PartialEq, Debug)]
pub struct Settings {
    /// `None` until set: then tables' own defaults hold.
    pub freshness: Option<Freshness>,
    /// When a batch is acknowledged.
    pub durability: Durability,
    /// Zero is no limit.
    pub statement_timeout: Duration,
    /// How long a connection of PostgreSQL's protocol may be idle in a transaction; zero is no limit.
    pub idle_transaction_timeout: Duration,
    /// Of one query.
    pub memory_limit_bytes: u64,
    /// What all queries of the database together may hold, so the most that one can be given. No session changes it.
    pub memory_limit_max_bytes: u64,
    /// Of the session's temporary tables.
    pub temporary_memory_bytes: u64,
    /// Rows in the batches that operators pass on.
    pub batch_size: usize,
    /// That one query runs on.
    pub threads: usize,
    /// Whether transactions only read, and statements outside of one, unless they are told otherwise.
    pub default_read_only: bool,
    /// Whether the open transaction only reads; `None` outside of one. No name stands for it: BEGIN and SET TRANSACTION set it, and it
    /// ends with the transaction.
    pub read_only: Option<bool>,
    /// What transactions see of others that do not say.
    pub default_isolation: Isolation,
    /// What the open transaction sees of others; as `read_only`.
    pub isolation: Option<Isolation>,
    /// How long a lock is waited for; zero is no limit.
    pub lock_timeout: Duration,
    /// How long a statement waits for memory that others have, before it is refused.
    pub memory_wait_timeout: Duration,
    /// Whether cuboids may answer.
    pub cuboids: bool,
    /// Whether aggregates inside a plan are answered by the index where it can.
    pub index_rule: bool,
    /// Whether statements see what the session has written and read before, whatever their freshness is.
    pub is_serial: bool,
    /// Whether scans use and feed the predicate cache.
    pub predicate_cache: bool,
    /// Whether statements that the index can answer are answered by it.
    pub short_path: bool,
    /// The share of every table's rows that queries read; 1 is all.
    pub sample_fraction: f64,
    /// The largest relative error of a value; 0 is exact.
    pub max_error: f64,
    /// How often an interval holds the exact value.
    pub confidence: f64,
    /// What becomes of statements whose sample does not suffice.
    pub error_action: Missed,
    /// How often clients of PostgreSQL's protocol are told how far a long statement is; zero is never.
    pub progress: Duration,
    /// Whether clients of PostgreSQL's protocol are told what each query used; `None` until set: then psql is.
    pub report: Option<bool>,
    /// Whether who shows answers shows estimates on the way to them.
    pub progressive: bool,
    /// Empty is none.
    pub producer: String,
    /// Of the producer.
    pub producer_epoch: u64,
    /// Of the next batch.
    pub producer_sequence: u64,
    /// What clocks of the session show.
    pub time_zone: Zone,
    /// The role whose rights hold; empty for that which logged in.
    pub role: Arc<str>,
    /// Where names without a schema are looked up.
    pub search_path: Arc<SearchPath>,
    /// What clients set that changes nothing, where it differs from the start.
    pub client: Arc<BTreeMap<&'static str, String>>,
}

/// Name, and what it does.
const SETTINGS: [(&str, &str); 30] = [
    ("batch_size", "Rows in the batches that operators pass on."),
    ("confidence", "How often the interval of an estimated value holds the exact one, over the choice of the sample."),
    ("cuboids", "Whether aggregates may be answered by resident cuboids, and ask for new ones: on or off."),
    (
        DEFAULT_ISOLATION,
        "What transactions see of others that do not say: read committed, repeatable read or serializable.",
    ),
    (
        DEFAULT_READ_ONLY,
        "Whether transactions, and statements outside of one, only read unless they are told otherwise: on or off.",
    ),
    ("durability", "When a batch is acknowledged: sync, after its fsync; relaxed, before it."),
    ("error_action", "What becomes of a statement whose sample does not reach max_error: escalate, error or mark."),
    ("freshness", "How far behind an answer may be: '5s', '250ms', 'merged'; default: as the tables say."),
    (
        "idle_in_transaction_session_timeout",
        "How long a connection of PostgreSQL's protocol may be idle in a transaction before it is ended; 0 for no limit.",
    ),
    ("index_rule", "Whether aggregates inside larger statements are answered by the index where it can: on or off."),
    ("lock_timeout", "How long a statement waits for a lock; 0 for no limit."),
    ("max_error", "The largest error of a value relative to the exact one, from 0 (exact) to below 1."),
    ("memory_limit", "Memory that one query may hold before it spills."),
    ("memory_wait_timeout", "How long a statement waits for memory that others have; 0 is refused at once."),
    (
        "predicate_cache",
        "Whether scans leave out blocks that a predicate was seen to match nowhere, and remember more: on or off.",
    ),
    ("producer", "Name under which this session's batches are numbered; empty for none."),
    ("producer_epoch", "Epoch of the producer: a higher one shuts out the lower ones."),
    ("producer_sequence", "Number of the producer's next batch; counts up by itself."),
    ("progress", "How often PostgreSQL's clients get a notice of how far a long statement is: '1s'; off for never."),
    (
        "progressive",
        "Whether the command line and HTTP's events show estimates that get better until the answer: on or off.",
    ),
    (
        "report",
        "Whether PostgreSQL's clients are told in a notice what each query used: notice or off; psql is unless it is set.",
    ),
    ("role", "Role whose rights statements have; none: that which logged in."),
    ("sample_fraction", "Share of every table's rows that queries read, above 0 to 1; 1 for all."),
    (
        SEARCH_PATH,
        "Schemas in which names without a schema are looked up, in their order; new tables come into the first.",
    ),
    (
        "session_order",
        "Whether statements see what their session has written and read before, whatever their freshness: serial or none.",
    ),
    ("short_path", "Whether aggregates over boxes are answered by the index, without planning: on or off."),
    ("statement_timeout", "How long a statement may run; 0 for no limit."),
    ("temporary_memory", "Memory that the session's temporary tables may hold before they lie in files."),
    ("threads", "Threads that one query runs on."),
    (
        "timezone",
        "Time zone of the session: a name, an offset or POSIX' form, in which moments are read, shown and cut.",
    ),
];

/// What a level of isolation can be set to.
pub const ISOLATION_LEVELS: &str = "read committed, repeatable read or serializable";

fn parse_order(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "serial" => Some(true),
        "none" => Some(false),
        _ => None,
    }
}

/// Whether transactions only read that do not say; and whether the open one does, which is shown.
pub const DEFAULT_READ_ONLY: &str = "default_transaction_read_only";
/// Whether the open transaction only reads.
pub const READ_ONLY: &str = "transaction_read_only";

/// What transactions see of others that do not say; and what the open one does, which is shown.
pub const DEFAULT_ISOLATION: &str = "default_transaction_isolation";
/// What the open transaction sees of others.
pub const ISOLATION: &str = "transaction_isolation";

/// Where names without a schema are looked up.
pub const SEARCH_PATH: &str = "search_path";

/// What `freshness` shows and takes while it is unset: then the tables' own options hold, which no time would leave alone.
const FRESHNESS_UNSET: &str = "default";

/// What `progress` shows and takes for never, and the least time that it takes.
const NEVER: &str = "off";
/// How long a statement waits for memory, unless its session says otherwise.
const MEMORY_WAIT_TIMEOUT: Duration = Duration::from_secs(60);
const PROGRESS_MIN: Duration = Duration::from_millis(10);

/// What memory can be set to at least, and which share of all queries' memory temporary tables of one session may hold unless
/// it is set.
const MEMORY_MIN_BYTES: u64 = 1 << 20;
const TEMPORARY_SHARE: u64 = 8;

/// What `report` shows and takes where notices tell what queries used; and the client that is told unless it says otherwise, where a
/// person reads what it prints: psql states its encoding only if it reads from a terminal and prints to one.
const TOLD: &str = "notice";
const TOLD_UNASKED: &str = "psql";

/// Names that say the same.
const SYNONYMS: [(&str, &str); 3] =
    [("target_partitions", "threads"), ("time_zone", "timezone"), ("query_memory", "memory_limit")];

impl Settings {
    /// What a new session has, in a database that gives `memory_limit_max_bytes` to all queries together.
    pub fn new(memory_limit_bytes: u64, memory_limit_max_bytes: u64, threads: usize) -> Settings {
        Settings {
            freshness: None,
            durability: Durability::Sync,
            statement_timeout: Duration::ZERO,
            idle_transaction_timeout: Duration::ZERO,
            memory_limit_bytes: memory_limit_bytes.min(memory_limit_max_bytes),
            memory_limit_max_bytes,
            temporary_memory_bytes: (memory_limit_max_bytes / TEMPORARY_SHARE).max(MEMORY_MIN_BYTES),
            batch_size: 8192,
            threads: threads.max(1),
            default_read_only: false,
            read_only: None,
            default_isolation: Isolation::default(),
            isolation: None,
            lock_timeout: Duration::ZERO,
            memory_wait_timeout: MEMORY_WAIT_TIMEOUT,
            cuboids: true,
            index_rule: true,
            is_serial: true,
            predicate_cache: true,
            short_path: true,
            sample_fraction: 1.0,
            max_error: 0.0,
            confidence: 0.95,
            error_action: Missed::Escalate,
            progress: Duration::ZERO,
            report: None,
            progressive: false,
            producer: String::new(),
            producer_epoch: 1,
            producer_sequence: 1,
            time_zone: Zone::utc(),
            role: "".into(),
            search_path: Arc::default(),
            client: Arc::default(),
        }
    }

    /// The canonical name of a setting, or an error with near names.
    pub fn canonical(name: &str) -> Result<&'static str> {
        let synonym = SYNONYMS.iter().find(|(other, _)| *other == name).map_or(name, |(_, canonical)| canonical);
        if let Some((known, _)) = SETTINGS.iter().find(|(known, _)| *known == synonym) {
            return Ok(known);
        }
        if let Some(known) = client::canonical(synonym) {
            return Ok(known);
        }
        let near = near_names(name, SETTINGS.iter().map(|(known, _)| *known));
        let hint = match near.as_slice() {
            [] => "SHOW ALL lists the settings".to_owned(),
            near => format!("did you mean {}?", near.join(" or ")),
        };
        Err(Error::new(ErrorKind::InvalidSetting, format!("there is no setting {name}")).with_hint(hint))
    }

    /// SET name = value. `defaults` are the session's at its start.
    pub fn set(&mut self, name: &str, value: &SettingValue, defaults: &Settings) -> Result<()> {
        let name = Settings::canonical(name)?;
        let SettingValue::Text(text) = value else {
            self.copy(name, defaults);
            return Ok(());
        };
        let text = text.trim();
        // SET TIME ZONE LOCAL.
        if name == "timezone" && (text.eq_ignore_ascii_case("local") || text.eq_ignore_ascii_case("default")) {
            self.copy(name, defaults);
            return Ok(());
        }
        let wrong = |takes: &str| {
            Error::new(ErrorKind::InvalidSetting, format!("{name} cannot be {text:?}"))
                .with_hint(format!("it takes {takes}"))
        };
        let number = |least: u64, most: u64| {
            let takes = format!("a whole number from {least} to {most}");
            let number = text.parse::<u64>().map_err(|_| wrong(&takes))?;
            if (least..=most).contains(&number) { Ok(number) } else { Err(wrong(&takes)) }
        };
        // As in PostgreSQL, a number without a unit is one of milliseconds.
        let limit = || -> Result<Duration> {
            match text.parse::<u64>() {
                Ok(millis) => Ok(Duration::from_millis(millis)),
                Err(_) => parse_duration(text)
                    .ok_or_else(|| wrong("a time, such as '30s' or '5min', or a number of milliseconds")),
            }
        };
        let memory_max = self.memory_limit_max_bytes;
        let memory = |of: &str| -> Result<u64> {
            let bytes = parse_bytes(text).ok_or_else(|| wrong("a size, such as '512MB' or '4GB'"))?;
            if bytes < MEMORY_MIN_BYTES {
                return Err(wrong("at least 1MB"));
            }
            if bytes > memory_max {
                // Whole megabytes, which can be read; down, so that it is taken.
                const MB: u64 = 1 << 20;
                let most = show_bytes(if memory_max < MB { memory_max } else { memory_max / MB * MB });
                let message = format!("{name} cannot be {text:?}: {of} may hold {most}");
                return Err(Error::new(ErrorKind::InvalidSetting, message)
                    .with_hint(format!("it takes up to '{most}'; open the database with more memory to raise that")));
            }
            Ok(bytes)
        };
        match name {
            "batch_size" => self.batch_size = number(1, 1 << 20)? as usize,
            "durability" => {
                self.durability = match text.to_ascii_lowercase().as_str() {
                    "sync" | "on" => Durability::Sync,
                    "relaxed" | "off" => Durability::Relaxed,
                    _ => return Err(wrong("sync or relaxed")),
                }
            }
            "freshness" => {
                let unset = text.eq_ignore_ascii_case(FRESHNESS_UNSET);
                self.freshness = if unset { None } else { Some(parse_freshness(text)?) };
            }
            "memory_limit" => self.memory_limit_bytes = memory("all queries of this database together")?,
            "temporary_memory" => self.temporary_memory_bytes = memory("all statements of this database together")?,
            "producer" => {
                if text.len() > 255 {
                    return Err(wrong("a name of at most 255 bytes"));
                }
                // A new name starts anew; what is set after it holds.
                if self.producer != text {
                    (self.producer_epoch, self.producer_sequence) = (1, 1);
                }
                self.producer = text.to_owned();
            }
            "producer_epoch" => self.producer_epoch = number(0, u64::MAX)?,
            "producer_sequence" => self.producer_sequence = number(1, u64::MAX)?,
            DEFAULT_READ_ONLY => self.default_read_only = parse_switch(text).ok_or_else(|| wrong("on or off"))?,
            DEFAULT_ISOLATION => {
                self.default_isolation = Isolation::of_name(text).ok_or_else(|| wrong(ISOLATION_LEVELS))?;
            }
            "lock_timeout" => self.lock_timeout = limit()?,
            "memory_wait_timeout" => self.memory_wait_timeout = limit()?,
            "cuboids" => self.cuboids = parse_switch(text).ok_or_else(|| wrong("on or off"))?,
            "index_rule" => self.index_rule = parse_switch(text).ok_or_else(|| wrong("on or off"))?,
            "session_order" => self.is_serial = parse_order(text).ok_or_else(|| wrong("serial or none"))?,
            "predicate_cache" => self.predicate_cache = parse_switch(text).ok_or_else(|| wrong("on or off"))?,
            "progress" => {
                let takes = "a time of at least 10ms, such as '1s', or off";
                let every = match text.eq_ignore_ascii_case(NEVER) {
                    true => Some(Duration::ZERO),
                    false => parse_duration(text).filter(|every| *every >= PROGRESS_MIN),
                };
                self.progress = every.ok_or_else(|| wrong(takes))?;
            }
            "progressive" => self.progressive = parse_switch(text).ok_or_else(|| wrong("on or off"))?,
            "report" => {
                self.report = match text.to_ascii_lowercase().as_str() {
                    TOLD => Some(true),
                    NEVER => Some(false),
                    _ => return Err(wrong("notice or off")),
                }
            }
            // Whether it may be is for whoever knows the roles.
            "role" => self.role = if text.eq_ignore_ascii_case("none") { "".into() } else { text.into() },
            "sample_fraction" => self.sample_fraction = parse_fraction(text)?,
            SEARCH_PATH => {
                let path = SearchPath::parse(text).ok_or_else(|| wrong("schemas, separated by commas"))?;
                self.search_path = Arc::new(path);
            }
            "short_path" => self.short_path = parse_switch(text).ok_or_else(|| wrong("on or off"))?,
            "max_error" => {
                let takes = "a number from 0 (exact) to below 1, such as 0.01";
                let number = text.parse::<f64>().ok().filter(|number| (0.0..1.0).contains(number));
                // Zero has one sign.
                self.max_error = number.ok_or_else(|| wrong(takes))?.abs();
            }
            "confidence" => {
                let takes = "a number above 0.5 and below 1, such as 0.95";
                let number = text.parse::<f64>().ok().filter(|number| *number > 0.5 && *number < 1.0);
                self.confidence = number.ok_or_else(|| wrong(takes))?;
            }
            "error_action" => {
                self.error_action = match text.to_ascii_lowercase().as_str() {
                    "escalate" => Missed::Escalate,
                    "error" => Missed::Error,
                    "mark" => Missed::Mark,
                    _ => return Err(wrong("escalate, error or mark")),
                }
            }
            "idle_in_transaction_session_timeout" => self.idle_transaction_timeout = limit()?,
            "statement_timeout" => self.statement_timeout = limit()?,
            "threads" => self.threads = number(1, 1024)? as usize,
            "timezone" => self.time_zone = Zone::of_setting(text)?,
            _ => {
                let value = client::check(name, text)?;
                Arc::make_mut(&mut self.client).insert(name, value);
            }
        }
        Ok(())
    }

    /// What SHOW prints.
    pub fn show(&self, name: &str) -> Result<String> {
        let name = Settings::canonical(name)?;
        Ok(match name {
            "batch_size" => self.batch_size.to_string(),
            "durability" => match self.durability {
                Durability::Sync => "sync".to_owned(),
                Durability::Relaxed => "relaxed".to_owned(),
            },
            "freshness" => self.freshness.map_or_else(|| FRESHNESS_UNSET.to_owned(), show_freshness),
            "memory_limit" => show_bytes(self.memory_limit_bytes),
            "temporary_memory" => show_bytes(self.temporary_memory_bytes),
            "producer" => self.producer.clone(),
            "producer_epoch" => self.producer_epoch.to_string(),
            "producer_sequence" => self.producer_sequence.to_string(),
            DEFAULT_READ_ONLY => show_switch(self.default_read_only),
            READ_ONLY => show_switch(self.is_read_only()),
            DEFAULT_ISOLATION => self.default_isolation.name().to_owned(),
            ISOLATION => self.isolation.unwrap_or(self.default_isolation).name().to_owned(),
            "lock_timeout" if self.lock_timeout.is_zero() => "0".to_owned(),
            "lock_timeout" => show_duration(self.lock_timeout),
            "memory_wait_timeout" => show_duration(self.memory_wait_timeout),
            "cuboids" => show_switch(self.cuboids),
            "index_rule" => show_switch(self.index_rule),
            "session_order" => if self.is_serial { "serial" } else { "none" }.to_owned(),
            "predicate_cache" => show_switch(self.predicate_cache),
            "progress" if self.progress.is_zero() => NEVER.to_owned(),
            "progress" => show_duration(self.progress),
            "progressive" => show_switch(self.progressive),
            "report" if self.reports() => TOLD.to_owned(),
            "report" => NEVER.to_owned(),
            "role" if self.role.is_empty() => "none".to_owned(),
            "role" => self.role.to_string(),
            "sample_fraction" => self.sample_fraction.to_string(),
            SEARCH_PATH => self.search_path.to_string(),
            "short_path" => show_switch(self.short_path),
            "max_error" => self.max_error.to_string(),
            "confidence" => self.confidence.to_string(),
            "error_action" => match self.error_action {
                Missed::Escalate => "escalate".to_owned(),
                Missed::Error => "error".to_owned(),
                Missed::Mark => "mark".to_owned(),
            },
            "idle_in_transaction_session_timeout" => show_duration(self.idle_transaction_timeout),
            "statement_timeout" => show_duration(self.statement_timeout),
            "threads" => self.threads.to_string(),
            "timezone" => self.time_zone.name().to_owned(),
            _ => match self.client.get(name) {
                Some(value) => value.clone(),
                None => client::at_start(name)
                    .ok_or_else(|| Error::internal(format!("the setting {name} is listed and not handled")))?
                    .to_owned(),
            },
        })
    }

    /// Takes one setting over from `other`.
    pub fn copy(&mut self, name: &str, other: &Settings) {
        match name {
            "batch_size" => self.batch_size = other.batch_size,
            "durability" => self.durability = other.durability,
            "freshness" => self.freshness = other.freshness,
            "memory_limit" => self.memory_limit_bytes = other.memory_limit_bytes,
            "temporary_memory" => self.temporary_memory_bytes = other.temporary_memory_bytes,
            "producer" => self.producer = other.producer.clone(),
            "producer_epoch" => self.producer_epoch = other.producer_epoch,
            "producer_sequence" => self.producer_sequence = other.producer_sequence,
            DEFAULT_READ_ONLY => self.default_read_only = other.default_read_only,
            DEFAULT_ISOLATION => self.default_isolation = other.default_isolation,
            "lock_timeout" => self.lock_timeout = other.lock_timeout,
            "memory_wait_timeout" => self.memory_wait_timeout = other.memory_wait_timeout,
            "cuboids" => self.cuboids = other.cuboids,
            "index_rule" => self.index_rule = other.index_rule,
            "session_order" => self.is_serial = other.is_serial,
            "predicate_cache" => self.predicate_cache = other.predicate_cache,
            "progress" => self.progress = other.progress,
            "progressive" => self.progressive = other.progressive,
            "report" => self.report = other.report,
            "role" => self.role = Arc::clone(&other.role),
            "sample_fraction" => self.sample_fraction = other.sample_fraction,
            SEARCH_PATH => self.search_path = Arc::clone(&other.search_path),
            "short_path" => self.short_path = other.short_path,
            "max_error" => self.max_error = other.max_error,
            "confidence" => self.confidence = other.confidence,
            "error_action" => self.error_action = other.error_action,
            "idle_in_transaction_session_timeout" => self.idle_transaction_timeout = other.idle_transaction_timeout,
            "statement_timeout" => self.statement_timeout = other.statement_timeout,
            "threads" => self.threads = other.threads,
            "timezone" => self.time_zone = other.time_zone.clone(),
            _ => match other.client.get_key_value(name) {
                Some((name, value)) => drop(Arc::make_mut(&mut self.client).insert(name, value.clone())),
                None if self.client.contains_key(name) => drop(Arc::make_mut(&mut self.client).remove(name)),
                None => {}
            },
        }
    }

    /// Whether a statement may only read.
    pub fn is_read_only(&self) -> bool {
        self.read_only.unwrap_or(self.default_read_only)
    }

    /// Whether clients of PostgreSQL's protocol are told what queries used.
    pub fn reports(&self) -> bool {
        let is_read_by_a_person = || {
            let names = |name| self.client.get("application_name").is_some_and(|told| told == name);
            names(TOLD_UNASKED) && self.client.contains_key("client_encoding")
        };
        self.report.unwrap_or_else(is_read_by_a_person)
    }

    /// How exact answers must be; `None` is exact.
    pub fn accuracy(&self) -> Option<Accuracy> {
        let Settings { max_error, confidence, error_action: missed, .. } = *self;
        (max_error > 0.0).then_some(Accuracy { max_error, confidence, missed })
    }

    /// The number of the session's next batch, if it has a producer.
    pub fn producer_mark(&self) -> Option<ProducerMark> {
        (!self.producer.is_empty()).then(|| ProducerMark {
            name: self.producer.clone(),
            epoch: self.producer_epoch,
            sequence: self.producer_sequence,
        })
    }

    /// All names but those that only clients know.
    pub fn names() -> impl Iterator<Item = &'static str> {
        SETTINGS.iter().map(|(name, _)| *name)
    }
}

/// The settings that a statement runs with, for `alluvia.settings`.
#[derive(Clone, Debug)]
pub struct SettingsNow {
    /// The session's.
    pub now: Settings,
    /// What it began with.
    pub defaults: Settings,
    /// Those of the database, which a session cannot change.
    pub database: Vec<SettingRow>,
}

impl SettingsView for SettingsNow {
    fn settings(&self) -> Vec<SettingRow> {
        let shown = |settings: &Settings, name| settings.show(name).unwrap_or_default();
        let own = SETTINGS.iter().map(|(name, description)| SettingRow {
            name: (*name).to_owned(),
            value: shown(&self.now, name),
            default_value: shown(&self.defaults, name),
            scope: "session",
            description: (*description).to_owned(),
        });
        let client = client::all().map(|(name, at_start)| SettingRow {
            name: name.to_owned(),
            value: shown(&self.now, name),
            default_value: at_start.to_owned(),
            scope: "client",
            description: "For PostgreSQL's clients; it changes nothing.".to_owned(),
        });
        let mut rows: Vec<SettingRow> = own.chain(client).chain(self.database.iter().cloned()).collect();
        rows.sort_by(|a, b| a.name.cmp(&b.name));
        rows
    }

    fn shown(&self, name: &str) -> Option<String> {
        self.now.show(name).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &str) -> SettingValue {
        SettingValue::Text(value.to_owned())
    }

    /// The table of docs/SQL.md has every setting, and no other.
    #[test]
    fn the_documented_settings_are_the_ones_there() {
        let docs = include_str!("../../../docs/SQL.md");
        let section = docs.split("\n### Settings\n").nth(1).and_then(|rest| rest.split("\n### ").next());
        let rows = section.expect("a section").lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
        let mut documented: Vec<&str> = rows.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
        documented.sort_unstable();
        assert_eq!(documented, SETTINGS.map(|(name, _)| name));
    }

    #[test]
    fn every_setting_takes_what_it_shows_and_goes_back_to_its_default() {
        let defaults = Settings::new(1 << 30, 1 << 30, 2);
        let changed = [
            ("batch_size", "1000"),
            ("confidence", "0.99"),
            ("cuboids", "off"),
            ("default_transaction_isolation", "serializable"),
            ("default_transaction_read_only", "on"),
            ("durability", "relaxed"),
            ("error_action", "mark"),
            ("freshness", "250ms"),
            ("idle_in_transaction_session_timeout", "90s"),
            ("index_rule", "off"),
            ("lock_timeout", "90s"),
            ("max_error", "0.01"),
            ("memory_limit", "512MB"),
            ("memory_wait_timeout", "90s"),
            ("predicate_cache", "off"),
            ("producer", "p"),
            ("producer_epoch", "3"),
            ("producer_sequence", "17"),
            ("progress", "250ms"),
            ("progressive", "on"),
            ("report", "notice"),
            ("role", "reader"),
            ("sample_fraction", "0.3"),
            ("search_path", "reports, public"),
            ("session_order", "none"),
            ("short_path", "off"),
            ("statement_timeout", "90s"),
            ("temporary_memory", "8MB"),
            ("threads", "1"),
            ("timezone", "Europe/Berlin"),
        ];
        assert_eq!(changed.map(|(name, _)| name).to_vec(), Settings::names().collect::<Vec<_>>());
        let mut settings = defaults.clone();
        for (name, value) in changed {
            settings.set(name, &text(value), &defaults).unwrap();
            assert_eq!(settings.show(name).unwrap(), value);
            let shown = settings.show(name).unwrap();
            settings.set(name, &text(&shown), &defaults).unwrap();
        }
        for name in Settings::names() {
            settings.set(name, &SettingValue::Default, &defaults).unwrap();
        }
        assert_eq!(settings, defaults);
        // What is shown of an unset one can be set, and leaves it unset; but for what goes by who asks.
        for name in Settings::names().filter(|name| *name != "report") {
            let shown = settings.show(name).unwrap();
            settings.set(name, &text(&shown), &defaults).unwrap();
        }
        assert_eq!(settings, defaults);
    }

    #[test]
    fn psql_in_a_terminal_is_told_what_queries_used_unless_it_says_otherwise() {
        let defaults = Settings::new(1 << 30, 1 << 30, 2);
        let mut settings = defaults.clone();
        assert_eq!(settings.show("report").unwrap(), "off");
        settings.set("application_name", &text("psql"), &defaults).unwrap();
        assert_eq!(settings.show("report").unwrap(), "off");
        settings.set("client_encoding", &text("UTF8"), &defaults).unwrap();
        assert_eq!(settings.show("report").unwrap(), "notice");
        settings.set("report", &text("OFF"), &defaults).unwrap();
        assert_eq!(settings.show("report").unwrap(), "off");
        settings.set("report", &SettingValue::Default, &defaults).unwrap();
        assert_eq!(settings.show("report").unwrap(), "notice");
        settings.set("application_name", &text("psycopg"), &defaults).unwrap();
        assert_eq!(settings.show("report").unwrap(), "off");
    }

    #[test]
    fn wrong_names_and_values_change_nothing_and_say_what_is_right() {
        let defaults = Settings::new(1 << 30, 1 << 30, 2);
        let mut settings = defaults.clone();
        for (name, value) in [
            ("freshness", "5"),
            ("freshness", "-5s"),
            ("freshness", "soon"),
            ("durability", "maybe"),
            ("max_error", "1"),
            ("max_error", "-0.1"),
            ("max_error", "NaN"),
            ("max_error", "1%"),
            ("confidence", "1"),
            ("confidence", "0.5"),
            ("default_transaction_isolation", "chaos"),
            ("lock_timeout", "soon"),
            ("default_transaction_read_only", "maybe"),
            ("error_action", "guess"),
            ("memory_limit", "lots"),
            ("memory_wait_timeout", "long"),
            ("memory_limit", "1kB"),
            ("memory_limit", "1025MB"),
            ("memory_limit", "4TB"),
            ("batch_size", "0"),
            ("threads", "two"),
            ("timezone", "Europe/Atlantis"),
            ("statement_timeout", "-1"),
            ("idle_in_transaction_session_timeout", "-1"),
            ("idle_in_transaction_session_timeout", "soon"),
            ("progress", "0"),
            ("progress", "9ms"),
            ("progress", "often"),
            ("report", "on"),
            ("sample_fraction", "0"),
            ("sample_fraction", "1.5"),
            ("sample_fraction", "NaN"),
            ("sample_fraction", "some"),
        ] {
            let error = settings.set(name, &text(value), &defaults).unwrap_err();
            assert!(error.hint().is_some(), "{error}");
        }
        assert_eq!(settings, defaults);
        let error = settings.set("freshnes", &text("5s"), &defaults).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidSetting);
        assert!(error.hint().unwrap().contains("freshness"));
    }
}
