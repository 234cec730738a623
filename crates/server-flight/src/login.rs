//! A login: what the server holds for one client between the client's calls.
//!
//! [`crate::tokens`] and [`crate::connection`] know which login a call is of.
//!
//! Invariants:
//! - A login has one session for its settings and own writes, and one more for each transaction, which begins with the first
//!   statement in it.
//! - What a login holds is found by keys of 144 random bits, by that login alone.
//! - All of it is bounded and ends by itself: answers that nobody fetches, transactions that nobody uses, and with a login what it
//!   holds. What a call under way holds of its login stays until the call ends.

use crate::answer::PendingAnswer;
use crate::lane::Lane;
use crate::polled_statement::PolledStatement;
use crate::prepared::PreparedStatement;
use crate::server_options::ServerOptions;
use alluvia_access::random_password;
use alluvia_query::Session;
use alluvia_types::{Error, ErrorKind, Result};
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// What one login may hold.
const TRANSACTIONS_MAX: usize = 16;
const PREPARED_MAX: usize = 1_000;
const PREPARED_BYTES_MAX: usize = 16 << 20;
const WAITING_MAX: usize = 100;

/// A client that has shown its password, or needs none.
pub(crate) struct Login {
    pub(crate) lane: Arc<Lane>,
    held: Mutex<Held>,
    used: Mutex<Used>,
}

struct Used {
    calls: usize,
    /// When the last call began or ended.
    last: Duration,
}

#[derive(Default)]
struct Held {
    transactions: HashMap<String, Arc<Lane>>,
    prepared: HashMap<String, Arc<PreparedStatement>>,
    /// Answers that nobody has fetched yet, and since when they wait.
    waiting: HashMap<String, (PendingAnswer, Duration)>,
    /// Statements that are asked about until their answer is there.
    polled: HashMap<String, Arc<PolledStatement>>,
    /// Answers that are being sent; telling them ends them.
    sending: HashMap<String, Arc<Notify>>,
}

/// A new key.
pub(crate) fn key() -> Result<String> {
    random_password()
}

fn text(key: &Bytes) -> &str {
    // What is not UTF-8 is no key.
    std::str::from_utf8(key).unwrap_or_default()
}

fn full(what: &str, most: usize, hint: &str) -> Error {
    Error::new(ErrorKind::Busy, format!("{most} {what} are kept for a client, and no more")).with_hint(hint)
}

impl Login {
    /// With a new session, which has been introduced.
    pub(crate) fn new(session: Session, now: Duration) -> Arc<Login> {
        let used = Used { calls: 0, last: now };
        Arc::new(Login { lane: Lane::new(session, false, now), held: Mutex::default(), used: Mutex::new(used) })
    }

    /// Where a statement runs that states a transaction, or none.
    pub(crate) fn lane(&self, transaction: Option<&Bytes>) -> Result<Arc<Lane>> {
        match transaction {
            None => Ok(Arc::clone(&self.lane)),
            // What some clients send for none.
            Some(name) if name.is_empty() => Ok(Arc::clone(&self.lane)),
            Some(name) => self.held.lock().transactions.get(text(name)).cloned().ok_or_else(unknown_transaction),
        }
    }

    /// Where a prepared statement runs. One whose transaction has ended goes on in the one that is open: a client that begins a new
    /// one after each COMMIT keeps its statements.
    pub(crate) fn lane_of(&self, prepared: &PreparedStatement) -> Result<Arc<Lane>> {
        if !prepared.lane.has_ended() {
            return Ok(Arc::clone(&prepared.lane));
        }
        let held = self.held.lock();
        let mut open = held.transactions.values();
        match (open.next(), open.next()) {
            (Some(lane), None) => Ok(Arc::clone(lane)),
            _ => {
                Err(Error::new(ErrorKind::Transaction, "the transaction that this statement was prepared in has ended")
                    .with_hint("prepare it again"))
            }
        }
    }

    /// Names a new transaction.
    pub(crate) fn begin(&self, now: Duration) -> Result<String> {
        let (name, lane) = (key()?, self.lane.transaction(now)?);
        let mut held = self.held.lock();
        if held.transactions.len() >= TRANSACTIONS_MAX {
            return Err(full("open transactions", TRANSACTIONS_MAX, "end one of them"));
        }
        held.transactions.insert(name.clone(), lane);
        Ok(name)
    }

    /// The transactions that are open.
    pub(crate) fn transactions(&self) -> Vec<Arc<Lane>> {
        self.held.lock().transactions.values().cloned().collect()
    }

    /// Forgets a transaction; gives it to whoever ends it.
    pub(crate) fn take_transaction(&self, name: &Bytes) -> Result<Arc<Lane>> {
        self.held.lock().transactions.remove(text(name)).ok_or_else(unknown_transaction)
    }

    /// Keeps a prepared statement.
    pub(crate) fn keep(&self, kept: PreparedStatement) -> Result<String> {
        let name = key()?;
        let mut held = self.held.lock();
        if held.prepared.len() >= PREPARED_MAX {
            return Err(full("prepared statements", PREPARED_MAX, "close those that are not needed"));
        }
        let others: usize = held.prepared.values().map(|kept| kept.bytes()).sum();
        if others + kept.bytes() > PREPARED_BYTES_MAX {
            return Err(full("bytes of prepared statements", PREPARED_BYTES_MAX, "close those that are not needed"));
        }
        held.prepared.insert(name.clone(), Arc::new(kept));
        Ok(name)
    }

    /// A prepared statement.
    pub(crate) fn prepared(&self, name: &Bytes) -> Result<Arc<PreparedStatement>> {
        self.held.lock().prepared.get(text(name)).cloned().ok_or_else(unknown_statement)
    }

    /// Forgets a prepared statement.
    pub(crate) fn close(&self, name: &Bytes) -> Result<()> {
        self.held.lock().prepared.remove(text(name)).map(drop).ok_or_else(unknown_statement)
    }

    /// Keeps an answer until it is fetched; gives its key.
    pub(crate) fn wait(&self, answer: PendingAnswer, now: Duration) -> Result<String> {
        let name = key()?;
        let mut held = self.held.lock();
        if held.waiting.len() >= WAITING_MAX {
            return Err(full("answers that wait to be fetched", WAITING_MAX, "fetch, or cancel, those of before"));
        }
        held.waiting.insert(name.clone(), (answer, now));
        Ok(name)
    }

    /// Begins a statement that is asked about; gives its key.
    pub(crate) fn poll(&self, begin: impl FnOnce() -> Arc<PolledStatement>) -> Result<(String, Arc<PolledStatement>)> {
        let name = key()?;
        let mut held = self.held.lock();
        if held.polled.len() >= WAITING_MAX {
            return Err(full("statements that are asked about", WAITING_MAX, "wait for, or cancel, those of before"));
        }
        let polled = begin();
        held.polled.insert(name.clone(), Arc::clone(&polled));
        Ok((name, polled))
    }

    /// A statement that is asked about.
    pub(crate) fn polled(&self, name: &Bytes) -> Result<Arc<PolledStatement>> {
        self.held.lock().polled.get(text(name)).cloned().ok_or_else(|| {
            Error::new(ErrorKind::UndefinedObject, "there is no statement to be asked about with this descriptor").with_hint(
                "a descriptor is good until the statement's end was told, and while it is asked about; run the statement again",
            )
        })
    }

    /// The end of a statement was told.
    pub(crate) fn told(&self, name: &Bytes) {
        self.held.lock().polled.remove(text(name));
    }

    /// An answer to be sent, once; and what tells it to end.
    pub(crate) fn fetch(&self, name: &Bytes) -> Result<(PendingAnswer, Arc<Notify>)> {
        let mut held = self.held.lock();
        let Some((answer, _)) = held.waiting.remove(text(name)) else {
            let error = Error::new(ErrorKind::UndefinedObject, "there is no answer for this ticket");
            return Err(error.with_hint(
                "a ticket is good once, for a while, and for the login that asked; run the statement again",
            ));
        };
        let end = Arc::<Notify>::default();
        held.sending.insert(text(name).to_owned(), Arc::clone(&end));
        Ok((answer, end))
    }

    /// An answer has been sent.
    pub(crate) fn sent(&self, name: &Bytes, now: Duration) {
        let mut held = self.held.lock();
        held.sending.remove(text(name));
        held.transactions.values().for_each(|lane| lane.used(now));
    }

    /// Ends an answer that waits or is being sent, or a statement that is asked about; whether there was one.
    pub(crate) fn cancel(&self, name: &Bytes) -> bool {
        let (waited, sending, polled) = {
            let mut held = self.held.lock();
            let polled = held.polled.get(text(name)).cloned();
            (held.waiting.remove(text(name)), held.sending.get(text(name)).cloned(), polled)
        };
        if let Some(end) = &sending {
            end.notify_one();
        }
        if let Some(polled) = &polled {
            polled.cancel();
        }
        waited.is_some() || sending.is_some() || polled.is_some()
    }

    /// Drops answers that nobody has fetched in time, and transactions that nobody has used.
    pub(crate) fn expire(&self, now: Duration, options: &ServerOptions) {
        let idle = options.transaction_idle_timeout;
        let before = now.checked_sub(idle).filter(|_| !idle.is_zero());
        let (answers, polled, transactions): (Vec<_>, Vec<_>, Vec<_>) = {
            let mut held = self.held.lock();
            let is_late = |since: &Duration| now.saturating_sub(*since) > options.ticket_timeout;
            let answers = held.waiting.extract_if(|_, (_, since)| is_late(since)).collect();
            // An answer that is being sent may be of any of them.
            let before = before.filter(|_| held.sending.is_empty());
            let is_idle = |lane: &Lane| before.is_some_and(|before| lane.end_if_idle(before));
            let polled = held.polled.extract_if(|_, polled| polled.is_late(now, options.ticket_timeout)).collect();
            (answers, polled, held.transactions.extract_if(|_, lane| is_idle(lane)).collect())
        };
        // Ending statements takes its time: without the lock. A prepared statement may hold its transaction's session for longer.
        drop((answers, polled));
        for (_, lane) in transactions {
            tokio::spawn(async move { drop(lane.session.sql("ROLLBACK").await) });
        }
    }

    /// Rolls back a transaction that SQL began, if neither it nor anything else was used for longer than `idle`. A login without a token
    /// would be made anew by its next call, which would then be outside of any transaction: so it stays, and its transaction is one
    /// that can only be ended.
    pub(crate) fn abandon_if_idle(&self, now: Duration, idle: Duration) {
        if !self.is_idle_in_transaction(now, idle) {
            return;
        }
        let Some(_turn) = self.lane.free_turn() else { return };
        // Before the turn was taken, something may have begun.
        if self.is_idle_in_transaction(now, idle) {
            self.lane.session.abandon_transaction();
        }
    }

    /// Whether a transaction that SQL began is open, and neither it nor anything else was used for longer than `idle`.
    pub(crate) fn is_idle_in_transaction(&self, now: Duration, idle: Duration) -> bool {
        let is_sending = || !self.held.lock().sending.is_empty();
        !idle.is_zero()
            && self.idle_since().is_some()
            && self.lane.session.in_transaction()
            && self.lane.is_unused_for(idle, now)
            && !is_sending()
    }

    /// A call of this login begins.
    pub(crate) fn call_begins(&self, now: Duration) {
        let mut used = self.used.lock();
        (used.calls, used.last) = (used.calls + 1, now);
    }

    /// A call of this login ends.
    pub(crate) fn call_ends(&self, now: Duration) {
        let mut used = self.used.lock();
        (used.calls, used.last) = (used.calls.saturating_sub(1), now);
    }

    /// Since when no call is under way; `None` while one is.
    pub(crate) fn idle_since(&self) -> Option<Duration> {
        let used = self.used.lock();
        (used.calls == 0).then_some(used.last)
    }
}

fn unknown_transaction() -> Error {
    Error::new(ErrorKind::UndefinedObject, "there is no transaction of this name").with_hint(
        "transactions end with their login, and when they are not used for transaction_idle_timeout; begin another",
    )
}

fn unknown_statement() -> Error {
    Error::new(ErrorKind::UndefinedStatement, "there is no prepared statement of this name")
        .with_hint("prepared statements end with their login; prepare it again")
}
