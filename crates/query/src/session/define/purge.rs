//! `CALL alluvia.purge`: what was deleted goes from the files, too.
//!
//! Invariants:
//! - Who may delete rows of a table may purge it; without a table's name, all tables of which the user may.
//! - Nothing that a reader may still see goes: a purge waits, as long as its statement may take, and tells for which sessions.
//! - What it cannot reach is told with what it has done.

use crate::engine::Engine;
use crate::execution::blocking::blocking;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::state::temporary::is_temporary;
use alluvia_catalog::authoriser::DELETE;
use alluvia_catalog::{RelationName, TableEntry};
use alluvia_copy::progress::CancelToken;
use alluvia_snapshot::PurgeWait;
use alluvia_types::{Error, ErrorKind, Result, Version};
use std::sync::Arc;
use std::time::Duration;

/// What no purge reaches.
const NOT_REACHED: &str = "not reached: copies and backups of the data directory, texts of statements in the audit log, files \
                           that users have exported, and what the file system keeps of files that are removed";
/// How much of the time that a statement may take is kept to tell for whom it has waited.
const TELLING: Duration = Duration::from_millis(200);
/// Sessions that are named, at most.
const NAMED_MAX: usize = 10;
/// How often the server's log is told of a purge that waits.
const LOGGED_EVERY: Duration = Duration::from_secs(60);

/// Purges a table, or all tables that the user may delete rows of.
pub(crate) async fn purge(run: &Arc<Run>, table: Option<RelationName>) -> Result<Outcome> {
    let scope = &run.scope;
    let mut entries: Vec<Arc<TableEntry>> = match table {
        Some(name) => vec![scope.table_for(DELETE, &name)?],
        None => {
            let authoriser = scope.resolver()?;
            let may = |entry: &&Arc<TableEntry>| authoriser.table(DELETE, entry).is_ok();
            authoriser.catalog().tables().filter(may).cloned().collect()
        }
    };
    // Nothing of a temporary table is in the database's files.
    entries.retain(|entry| !is_temporary(entry.def.id));
    let (engine, token) = (Arc::clone(&scope.engine), run.token.clone());
    let mut waiting = Waiting::new(&engine, token, scope.id, run.settings.statement_timeout);
    let done = blocking(move || {
        let mut done = Vec::with_capacity(entries.len());
        for entry in &entries {
            let table = entry.def.id;
            let name = &entry.def.shown();
            let purged = engine.admin().purge(table, &mut |wait| waiting.turn(name, wait))?;
            engine.forget_predicates(table)?;
            done.push(purged.told(name));
        }
        done.extend(waiting.waited_for());
        Ok(done)
    })
    .await?;
    let outcome = done.into_iter().fold(Outcome::done("CALL"), |outcome, notice| outcome.with_notice(notice));
    Ok(outcome.with_notice(NOT_REACHED))
}

/// What a purge waits for, and how long yet.
struct Waiting {
    engine: Arc<Engine>,
    token: CancelToken,
    /// The session that purges.
    own: u64,
    /// By the monotonic clock.
    start: Duration,
    until: Option<Duration>,
    logged: Option<Duration>,
    /// For whom it has waited last.
    holders: Vec<String>,
    has_waited: bool,
}

impl Waiting {
    fn new(engine: &Arc<Engine>, token: CancelToken, own: u64, timeout: Duration) -> Waiting {
        let start = engine.read().clock().monotonic();
        let until = (!timeout.is_zero()).then(|| start + timeout.saturating_sub(TELLING.min(timeout / 2)));
        let engine = Arc::clone(engine);
        Waiting { engine, token, own, start, until, logged: None, holders: Vec::new(), has_waited: false }
    }

    /// Told again and again of what is waited for.
    fn turn(&mut self, table: &str, wait: &PurgeWait) -> Result<()> {
        self.token.check()?;
        let now = self.engine.read().clock().monotonic();
        let is_over = self.until.is_some_and(|until| now >= until);
        if *wait == PurgeWait::Working {
            if !is_over {
                return Ok(());
            }
            let message = format!("the purge of table '{table}' takes longer than statement_timeout lets it");
            let hint = "what it has done is done; another call does the rest";
            return Err(Error::new(ErrorKind::Timeout, message).with_hint(hint));
        }
        let holders = self.holders_of(wait, now);
        if !holders.is_empty() || !self.has_waited {
            self.holders = holders;
        }
        self.has_waited = true;
        let what = wait.what();
        if self.logged.is_none_or(|logged| now.saturating_sub(logged) >= LOGGED_EVERY) {
            self.logged = Some(now);
            tracing::info!(table, holders = %self.show_holders(), "a purge waits for {what}");
        }
        if !is_over {
            return Ok(());
        }
        let message = format!("the purge of table '{table}' waits for {what}, longer than statement_timeout lets it");
        Err(Error::new(ErrorKind::Timeout, message).with_hint(format!(
            "it waits for {}; alluvia.sessions lists them, and CALL alluvia.cancel(session_id) ends what one runs",
            self.show_holders()
        )))
    }

    /// Sessions that may hold what is waited for.
    fn holders_of(&self, wait: &PurgeWait, now: Duration) -> Vec<String> {
        let killed = match wait {
            PurgeWait::Snapshots { killed, .. } => *killed,
            // Whatever they read.
            PurgeWait::Working | PurgeWait::Another | PurgeWait::Loads | PurgeWait::Files(_) => Version(u64::MAX),
        };
        let mut holders = Vec::new();
        for session in self.engine.sessions().list() {
            if session.id == self.own {
                continue;
            }
            let user = session.client.lock().user.clone();
            let who = if user.is_empty() {
                format!("session {}", session.id)
            } else {
                format!("session {} of {user}", session.id)
            };
            if let Some(version) = session.reads().filter(|version| *version < killed) {
                holders.push(format!("{who}, whose transaction reads version {version}"));
            } else if let Some(running) = session.running.lock().clone() {
                let seconds = now.saturating_sub(running.start).as_secs_f64();
                holders.push(format!("{who}, whose statement runs for {seconds:.1} s"));
            }
        }
        holders
    }

    fn show_holders(&self) -> String {
        match self.holders.as_slice() {
            [] => "rows that a program in this process holds".to_owned(),
            holders if holders.len() <= NAMED_MAX => holders.join("; "),
            holders => format!("{}; and {} more", holders[..NAMED_MAX].join("; "), holders.len() - NAMED_MAX),
        }
    }

    /// For whom it has waited, if it has.
    fn waited_for(&self) -> Option<String> {
        let now = self.engine.read().clock().monotonic();
        let seconds = now.saturating_sub(self.start).as_secs_f64();
        self.has_waited.then(|| format!("within {seconds:.1} s it has waited for {}", self.show_holders()))
    }
}
