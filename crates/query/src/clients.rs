//! The sessions that are open: for `alluvia.sessions`, and for ending what another session runs.
//!
//! Invariants:
//! - A session is listed from its making until it is dropped.
//! - A session may hold locks for as long.
//! - A statement is shown as running from its start until its last row is taken or its stream dropped.

use alluvia_catalog::authoriser::Who;
use alluvia_copy::progress::CancelHandle;
use alluvia_locks::Locks;
use alluvia_types::{Error, ErrorKind, Result, Version};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Who a session is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Client {
    /// Empty where nobody said.
    pub user: String,
    /// `embedded`, `postgresql`, `http`.
    pub protocol: &'static str,
    /// Address and port; empty within a process.
    pub address: String,
}

/// A statement that runs now.
#[derive(Clone, Debug)]
pub(crate) struct RunningNow {
    pub(crate) query_id: u64,
    pub(crate) sql: String,
    pub(crate) start_micros: i64,
    /// By the monotonic clock.
    pub(crate) start: Duration,
}

/// What is known of an open session.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) start_micros: i64,
    pub(crate) client: Mutex<Client>,
    pub(crate) running: Mutex<Option<RunningNow>>,
    cancel: CancelHandle,
    standing: Arc<dyn Standing>,
}

/// How an open session stands, as its own state tells.
pub(crate) trait Standing: fmt::Debug + Send + Sync {
    /// Who the session is for.
    fn who(&self) -> Who;

    /// What the session is while it runs nothing: `idle`, `idle in transaction` or `failed transaction`.
    fn idle(&self) -> &'static str;

    /// The version that its transaction reads, if one is open.
    fn reads(&self) -> Option<Version>;

    /// How many locks of its transaction the session keeps now that a statement is over; `None` is all.
    fn keeps_locks(&self) -> Option<usize>;
}

impl Entry {
    /// Who the session is for.
    pub(crate) fn who(&self) -> Who {
        self.standing.who()
    }

    /// `active`, `idle`, `idle in transaction` or `failed transaction`.
    pub(crate) fn state(&self) -> &'static str {
        if self.running.lock().is_some() {
            return "active";
        }
        self.standing.idle()
    }

    /// The version that its transaction reads, if one is open.
    pub(crate) fn reads(&self) -> Option<Version> {
        self.standing.reads()
    }

    /// How many locks of its transaction the session keeps now that a statement is over; `None` is all.
    pub(crate) fn keeps_locks(&self) -> Option<usize> {
        self.standing.keeps_locks()
    }

    /// The statement is over; a later one stays.
    pub(crate) fn ended(&self, query_id: u64) {
        let mut running = self.running.lock();
        if running.as_ref().is_some_and(|now| now.query_id == query_id) {
            *running = None;
        }
    }
}

/// All open sessions of a database.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Mutex<BTreeMap<u64, Arc<Entry>>>,
    locks: Arc<Locks>,
}

/// A session's place among them; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Registration {
    sessions: Arc<Sessions>,
    pub(crate) entry: Arc<Entry>,
}

impl Sessions {
    /// Lists a session.
    pub(crate) fn register(
        self: &Arc<Sessions>,
        id: u64,
        start_micros: i64,
        cancel: CancelHandle,
        standing: Arc<dyn Standing>,
    ) -> Registration {
        let client = Client { user: String::new(), protocol: "embedded", address: String::new() };
        let entry = Entry { id, start_micros, client: Mutex::new(client), running: Mutex::default(), cancel, standing };
        let entry = Arc::new(entry);
        self.open.lock().insert(id, Arc::clone(&entry));
        self.locks.begin_session(id);
        Registration { sessions: Arc::clone(self), entry }
    }

    /// Their locks.
    pub(crate) fn locks(&self) -> &Arc<Locks> {
        &self.locks
    }

    /// A statement of a session is over, and with it perhaps its transaction.
    pub(crate) fn statement_ended(&self, entry: &Entry) {
        if self.locks.in_transaction(entry.id) > 0
            && let Some(kept) = entry.keeps_locks()
        {
            self.locks.release_after(entry.id, kept);
        }
    }

    /// Those that are open, the oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<Entry>> {
        self.open.lock().values().cloned().collect()
    }

    /// Ends what a session runs, if that may be for whom its session is. Whether it then has ended, and how, its own client is
    /// told.
    pub(crate) fn cancel(&self, id: u64, may: impl FnOnce(&Who) -> Result<()>) -> Result<()> {
        let entry = self.open.lock().get(&id).cloned();
        let missing = |what: &str| {
            Error::new(ErrorKind::UndefinedObject, format!("session {id} {what}"))
                .with_hint("alluvia.sessions lists the open sessions, and what they run")
        };
        let entry = entry.ok_or_else(|| missing("is not open"))?;
        may(&entry.who())?;
        if entry.running.lock().is_none() {
            return Err(missing("runs nothing"));
        }
        entry.cancel.cancel();
        Ok(())
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.sessions.open.lock().remove(&self.entry.id);
        self.sessions.locks.end_session(self.entry.id);
    }
}
