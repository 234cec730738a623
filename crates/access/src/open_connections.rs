//! The open connections of a server: how many there may be, and which one makes room for a new one.
//!
//! Invariants:
//! - They are bounded. When there are enough, one that has not shown who it is ([`ConnectionSlot::known`]; HTTP's all are strangers, who show it with
//!   each request) makes room for a new one, else the one that has been without
//!   a request for longest; one that has a request under way does not.
//! - So however many connections are opened and left, who is known and busy is not touched.
//! - A slot that is to be closed says so to whoever reads its socket, without waiting for the client.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// The slot of one connection among those that are open.
#[derive(Debug)]
pub struct ConnectionSlot {
    number: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// A request of it has shown a password, or needed none.
    is_known: bool,
    /// Requests under way.
    requests: usize,
    /// When the last one ended, or the connection was opened.
    idle_since: Duration,
    is_closing: bool,
    reader: Option<Waker>,
}

impl ConnectionSlot {
    /// Whether one of its requests was let in.
    pub fn is_known(&self) -> bool {
        self.state.lock().is_known
    }

    /// One of its requests was let in.
    pub fn known(&self) {
        self.state.lock().is_known = true;
    }

    /// Has its socket closed.
    pub fn close(&self) {
        let reader = {
            let mut state = self.state.lock();
            state.is_closing = true;
            state.reader.take()
        };
        if let Some(reader) = reader {
            reader.wake();
        }
    }

    /// Ready once its socket is to be closed. One task at a time may wait so.
    pub fn poll_closing(&self, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state.is_closing {
            return Poll::Ready(());
        }
        if !state.reader.as_ref().is_some_and(|reader| reader.will_wake(context.waker())) {
            state.reader = Some(context.waker().clone());
        }
        Poll::Pending
    }

    /// Completes once its socket is to be closed.
    pub async fn closing(&self) {
        std::future::poll_fn(|context| self.poll_closing(context)).await;
    }

    /// Since when it is without a request, those that are not known first; `None` while it has one.
    fn idle_since(&self) -> Option<(bool, Duration)> {
        let state = self.state.lock();
        (state.requests == 0).then_some((state.is_known, state.idle_since))
    }
}

/// All that are open, each with what its server keeps for it.
#[derive(Debug)]
pub struct OpenConnections<T> {
    open: Mutex<Open<T>>,
}

#[derive(Debug)]
struct Open<T> {
    number: u64,
    by_number: HashMap<u64, (Arc<ConnectionSlot>, T)>,
}

impl<T> Default for OpenConnections<T> {
    fn default() -> OpenConnections<T> {
        OpenConnections { open: Mutex::new(Open { number: 0, by_number: HashMap::new() }) }
    }
}

impl<T: Clone> OpenConnections<T> {
    /// A new connection, if there is room, or room can be made; `keep` makes what is kept for it. `now` is monotonic.
    pub fn admit(
        &self,
        connections_max: usize,
        now: Duration,
        keep: impl FnOnce(Arc<ConnectionSlot>) -> T,
    ) -> Option<T> {
        let mut open = self.open.lock();
        if open.by_number.len() >= connections_max {
            let idle = open.by_number.values().filter_map(|(slot, _)| Some((slot.idle_since()?, slot.number)));
            let (_, oldest) = idle.min()?;
            if let Some((slot, _)) = open.by_number.remove(&oldest) {
                slot.close();
            }
        }
        open.number += 1;
        let number = open.number;
        let state = State { is_known: false, requests: 0, idle_since: now, is_closing: false, reader: None };
        let slot = Arc::new(ConnectionSlot { number, state: Mutex::new(state) });
        let kept = keep(Arc::clone(&slot));
        open.by_number.insert(number, (slot, kept.clone()));
        Some(kept)
    }

    /// Its socket is closed.
    pub fn ended(&self, slot: &ConnectionSlot) {
        let ended = self.open.lock().by_number.remove(&slot.number);
        // What was kept for it may end something else.
        drop(ended);
    }

    /// Closes those that have been without a request since `before`.
    pub fn close_idle(&self, before: Duration) {
        for (slot, _) in self.open.lock().by_number.values() {
            if slot.idle_since().is_some_and(|(_, since)| since <= before) {
                slot.close();
            }
        }
    }

    /// What is kept for those that are open.
    pub fn all(&self) -> Vec<T> {
        self.open.lock().by_number.values().map(|(_, kept)| kept.clone()).collect()
    }

    /// Connections that are open, and those of them that have a request.
    pub fn count(&self) -> (usize, usize) {
        let open = self.open.lock();
        (open.by_number.len(), open.by_number.values().filter(|(slot, _)| slot.idle_since().is_none()).count())
    }
}

/// A request under way; its connection is idle again once all is told.
pub struct Busy {
    slot: Arc<ConnectionSlot>,
    now: Box<dyn Fn() -> Duration + Send + Sync>,
}

impl fmt::Debug for Busy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Busy").field("slot", &self.slot).finish_non_exhaustive()
    }
}

impl Busy {
    /// A request begins.
    pub fn new(slot: Arc<ConnectionSlot>, now: impl Fn() -> Duration + Send + Sync + 'static) -> Busy {
        slot.state.lock().requests += 1;
        Busy { slot, now: Box::new(now) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        let now = (self.now)();
        let mut state = self.slot.state.lock();
        (state.requests, state.idle_since) = (state.requests.saturating_sub(1), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn is_closing(slot: &ConnectionSlot) -> bool {
        slot.state.lock().is_closing
    }

    #[test]
    fn strangers_make_room_first_then_the_longest_idle_and_the_busy_never() {
        let connections = OpenConnections::default();
        let open = |at| connections.admit(4, seconds(at), |slot| slot);
        let [known, other, early, late] = [0, 1, 2, 3].map(|at| open(at).unwrap());
        known.known();
        other.known();
        let fifth = open(4).unwrap();
        assert_eq!([&known, &other, &early, &late].map(|one| is_closing(one)), [false, false, true, false]);
        let sixth = open(5).unwrap();
        assert!(is_closing(&late) && !is_closing(&known));
        fifth.known();
        sixth.known();
        drop(Busy::new(Arc::clone(&known), || seconds(6)));
        let _working = Busy::new(Arc::clone(&fifth), || seconds(7));
        // `other` has been idle for longest.
        let seventh = open(8).unwrap();
        assert!(is_closing(&other) && !is_closing(&known) && !is_closing(&fifth));
        let _all: Vec<Busy> =
            [&known, &sixth, &seventh].map(|one| Busy::new(Arc::clone(one), || seconds(9))).into_iter().collect();
        assert_eq!(connections.count(), (4, 4));
        assert!(open(10).is_none());
        connections.ended(&known);
        assert_eq!((connections.all().len(), connections.count()), (3, (3, 3)));
        assert!(open(11).is_some());
    }

    #[test]
    fn of_those_that_are_idle_since_one_moment_the_first_makes_room() {
        let connections = OpenConnections::default();
        let [first, second] = [0, 0].map(|_| connections.admit(2, Duration::ZERO, |slot| slot).unwrap());
        let third = connections.admit(2, Duration::ZERO, |slot| slot).unwrap();
        assert_eq!([&first, &second, &third].map(|one| is_closing(one)), [true, false, false]);
        // A connection with several requests is idle once the last has ended.
        let busy = [(); 2].map(|()| Busy::new(Arc::clone(&second), || seconds(1)));
        let [one, rest] = busy;
        drop(one);
        assert_eq!(connections.count(), (2, 1));
        connections.close_idle(seconds(9));
        assert_eq!([&second, &third].map(|one| is_closing(one)), [false, true]);
        drop(rest);
        connections.close_idle(Duration::ZERO);
        assert!(!is_closing(&second));
        connections.close_idle(seconds(1));
        assert!(is_closing(&second));
    }

    #[tokio::test]
    async fn who_waits_for_a_place_to_be_closed_is_woken() {
        let connections = OpenConnections::default();
        let slot: Arc<ConnectionSlot> = connections.admit(1, Duration::ZERO, |slot| slot).unwrap();
        let there = Arc::clone(&slot);
        let waiting = tokio::spawn(async move { there.closing().await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        assert!(connections.admit(1, Duration::ZERO, |slot| slot).is_some());
        waiting.await.unwrap();
        // Whoever comes later is told at once.
        slot.closing().await;
    }
}
