//! The connections that are open.
//!
//! Invariants:
//! - They are bounded. When there are enough, one that has not shown a password makes room for a new one, else the one that has been
//!   without a call for longest; one that has a call under way does not.
//! - So however many connections are opened and left, who is logged in is not touched.

use crate::login::Login;
use alluvia_types::{Error, ErrorKind, Result};
use futures::task::AtomicWaker;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

/// Users who may share a connection without tokens.
const LOGINS_MAX: usize = 16;

/// One connection.
pub(crate) struct Connection {
    number: u64,
    pub(crate) peer: SocketAddr,
    state: Mutex<State>,
    /// Logins of calls that come without a token, by user.
    logins: Mutex<HashMap<String, Arc<Login>>>,
    closing: AtomicBool,
    reader: AtomicWaker,
}

struct State {
    /// A call of it has shown a password, or needed none.
    is_known: bool,
    calls: usize,
    /// When the last call ended, or it was opened.
    idle_since: Duration,
}

impl Connection {
    /// Whether one of its calls was let in.
    pub(crate) fn is_known(&self) -> bool {
        self.state.lock().is_known
    }

    /// One of its calls was let in.
    pub(crate) fn known(&self) {
        self.state.lock().is_known = true;
    }

    /// Has its socket closed.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::SeqCst);
        self.reader.wake();
    }

    /// Ready once its socket is to be closed.
    pub(crate) fn poll_closing(&self, context: &mut Context<'_>) -> Poll<()> {
        self.reader.register(context.waker());
        if self.closing.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// The login of calls of this user that come without a token.
    pub(crate) fn login(&self, user: &str, new: impl FnOnce() -> Arc<Login>) -> Result<Arc<Login>> {
        let mut logins = self.logins.lock();
        if let Some(login) = logins.get(user) {
            return Ok(Arc::clone(login));
        }
        if logins.len() >= LOGINS_MAX {
            let message = format!("{LOGINS_MAX} users share this connection, and no more may");
            return Err(Error::new(ErrorKind::Busy, message).with_hint("open another connection"));
        }
        let login = new();
        logins.insert(user.to_owned(), Arc::clone(&login));
        Ok(login)
    }

    /// Ends a login of this connection.
    pub(crate) fn end(&self, login: &Arc<Login>) {
        let ended: Vec<_> = self.logins.lock().extract_if(|_, known| Arc::ptr_eq(known, login)).collect();
        drop(ended);
    }

    /// Since when it is without a call; `None` while it has one.
    fn idle_since(&self) -> Option<(bool, Duration)> {
        let state = self.state.lock();
        (state.calls == 0).then_some((state.is_known, state.idle_since))
    }
}

/// All that are open.
#[derive(Default)]
pub(crate) struct Places {
    open: Mutex<(u64, HashMap<u64, Arc<Connection>>)>,
}

impl Places {
    /// A new connection, if there is room, or room can be made.
    pub(crate) fn admit(&self, peer: SocketAddr, places_max: usize, now: Duration) -> Option<Arc<Connection>> {
        let mut open = self.open.lock();
        if open.1.len() >= places_max {
            let idle = open.1.values().filter_map(|connection| Some((connection.idle_since()?, connection.number)));
            let oldest = idle.min().map(|(_, number)| number)?;
            if let Some(connection) = open.1.remove(&oldest) {
                connection.close();
            }
        }
        open.0 += 1;
        let connection = Arc::new(Connection {
            number: open.0,
            peer,
            state: Mutex::new(State { is_known: false, calls: 0, idle_since: now }),
            logins: Mutex::default(),
            closing: AtomicBool::new(false),
            reader: AtomicWaker::new(),
        });
        open.1.insert(connection.number, Arc::clone(&connection));
        Some(connection)
    }

    /// Its socket is closed.
    pub(crate) fn ended(&self, connection: &Connection) {
        self.open.lock().1.remove(&connection.number);
    }

    /// Closes those that have been without a call since `before`.
    pub(crate) fn close_idle(&self, before: Duration) {
        for connection in self.open.lock().1.values() {
            if connection.idle_since().is_some_and(|(_, since)| since <= before) {
                connection.close();
            }
        }
    }

    /// Logins that belong to connections.
    pub(crate) fn logins(&self) -> Vec<Arc<Login>> {
        let open: Vec<Arc<Connection>> = self.open.lock().1.values().cloned().collect();
        open.iter().flat_map(|connection| connection.logins.lock().values().cloned().collect::<Vec<_>>()).collect()
    }
}

/// A call under way; its connection is idle again once its answer is made.
pub(crate) struct Busy {
    connection: Arc<Connection>,
    now: Box<dyn Fn() -> Duration + Send + Sync>,
}

impl Busy {
    /// A call begins.
    pub(crate) fn new(connection: Arc<Connection>, now: impl Fn() -> Duration + Send + Sync + 'static) -> Busy {
        connection.state.lock().calls += 1;
        Busy { connection, now: Box::new(now) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let mut state = self.connection.state.lock();
        (state.calls, state.idle_since) = (state.calls.saturating_sub(1), (self.now)());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn strangers_make_room_first_then_the_longest_idle_and_the_busy_never() {
        let (places, peer) = (Places::default(), SocketAddr::from(([127, 0, 0, 1], 1)));
        let open = |at| places.admit(peer, 4, seconds(at));
        let [known, other, early, late] = [0, 1, 2, 3].map(|at| open(at).unwrap());
        known.known();
        other.known();
        let is_closed = |connection: &Connection| connection.closing.load(Ordering::SeqCst);
        let fifth = open(4).unwrap();
        assert_eq!([&known, &other, &early, &late].map(|one| is_closed(one)), [false, false, true, false]);
        let sixth = open(5).unwrap();
        assert!(is_closed(&late) && !is_closed(&known));
        fifth.known();
        sixth.known();
        drop(Busy::new(Arc::clone(&known), || seconds(6)));
        let _working = Busy::new(Arc::clone(&fifth), || seconds(7));
        // `other` has been idle for longest.
        let seventh = open(8).unwrap();
        assert!(is_closed(&other) && !is_closed(&known) && !is_closed(&fifth));
        let _all: Vec<Busy> =
            [&known, &sixth, &seventh].map(|one| Busy::new(Arc::clone(one), || seconds(9))).into_iter().collect();
        assert!(open(10).is_none());
        places.ended(&known);
        assert!(open(11).is_some());
    }
}
