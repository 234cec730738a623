//! Locks of sessions of one process: advisory ones, of which the sessions know what they stand for, and those of rows, by table and
//! code of the primary key. One table has both, so a circle of those that wait is found whatever they wait for.
//!
//! [`table`] has who holds what and who waits, without threads and time; [`Locks`] is that table behind a mutex, and [`Waiting`] the
//! future of who waits.
//!
//! Invariants:
//! - A lock is held by a session or by its transaction; it goes when these end, whatever they forgot.
//! - Nobody is passed over: who asks for what an earlier one waits for waits behind it, unless the session holds the lock already.
//! - Nobody waits for who waits for them: whoever would close such a circle is refused at once, and waits for nothing.
//! - A [`Waiting`] that is dropped waits no more, and what it was given while it was dropped is given back.

mod table;

pub use table::{Advisory, Grant, Key, Mode, Scope, Tried};

use alluvia_types::{Error, ErrorKind, Result, TableId};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use table::{Request, Table};

/// The locks of all sessions.
#[derive(Debug, Default)]
pub struct Locks {
    state: Mutex<State>,
    /// Sessions that hold locks or wait for some: where there is none, nothing has to be given back.
    busy: AtomicUsize,
    /// Rows that are locked or waited for.
    rows: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    table: Table,
    /// Who is to be woken, by the numbers of their requests; `None` of one that has not been asked yet.
    wakers: HashMap<u64, Option<Waker>>,
}

impl State {
    /// Wakes those that hold now what they have waited for.
    fn wake(&mut self, granted: Vec<u64>) -> Vec<Waker> {
        granted.iter().filter_map(|request| self.wakers.remove(request).flatten()).collect()
    }
}

impl Locks {
    /// A session begins: only from now on may it lock anything.
    pub fn begin_session(&self, session: u64) {
        self.state.lock().table.begin_session(session);
    }

    /// A session is over.
    pub fn end_session(&self, session: u64) {
        self.change(|state| state.table.end_session(session));
    }

    /// A lock, if it is free.
    pub fn try_lock(&self, session: u64, key: Key, mode: Mode, scope: Scope) -> Result<bool> {
        let mut state = self.state.lock();
        let tried = state.table.try_lock(session, key, mode, scope).map_err(|()| over())?;
        self.count(&state);
        Ok(tried == Tried::Granted)
    }

    /// Locks rows for a session's transaction, in this order, up to the first that is not free: gives how many. What the transaction
    /// has locked so, or more strictly, it has.
    pub fn try_rows(&self, session: u64, table: TableId, codes: &[u128], mode: Mode) -> Result<usize> {
        let mut state = self.state.lock();
        let locked = state.table.try_rows(session, table, codes, mode).map_err(|()| over());
        self.count(&state);
        locked
    }

    /// Whether any row is locked.
    pub fn has_rows(&self) -> bool {
        self.rows.load(Ordering::SeqCst) > 0
    }

    /// The first of these rows that another session has locked, in whatever mode, and that session.
    pub fn first_taken(&self, session: u64, table: TableId, codes: &[u128]) -> Option<(usize, u64)> {
        match self.has_rows() {
            true => self.state.lock().table.first_taken(session, table, codes),
            false => None,
        }
    }

    /// Who holds a key beside a session.
    pub fn holders_beside(&self, session: u64, key: Key) -> Vec<u64> {
        self.state.lock().table.holders_beside(session, key)
    }

    /// A lock, as soon as it is free.
    pub fn lock(self: &Arc<Self>, session: u64, key: Key, mode: Mode, scope: Scope) -> Waiting {
        let request = Request { session, key, mode, scope };
        Waiting { locks: Arc::clone(self), request, place: WaitState::New }
    }

    /// Gives a session's lock back; whether it held it.
    pub fn unlock(&self, session: u64, key: Key, mode: Mode) -> bool {
        let mut was_held = false;
        self.change(|state| {
            let (held, granted) = state.table.unlock(session, key, mode);
            was_held = held;
            granted
        });
        was_held
    }

    /// Gives all of a session's own locks back; those of its transaction stay.
    pub fn unlock_all(&self, session: u64) {
        self.change(|state| state.table.unlock_all(session));
    }

    /// How many locks a session's transaction holds, for [`Locks::release_after`].
    pub fn in_transaction(&self, session: u64) -> usize {
        match self.busy.load(Ordering::Acquire) {
            0 => 0,
            _ => self.state.lock().table.in_transaction(session),
        }
    }

    /// Gives those locks of a session's transaction back that came after the first so many.
    pub fn release_after(&self, session: u64, kept: usize) {
        self.change(|state| state.table.release_after(session, kept));
    }

    /// Who holds what, and who waits for what.
    pub fn grants(&self) -> Vec<Grant> {
        self.state.lock().table.grants()
    }

    fn change(&self, change: impl FnOnce(&mut State) -> Vec<u64>) {
        if self.busy.load(Ordering::Acquire) == 0 {
            // Nobody holds anything: but a session that ends is forgotten.
            drop(change(&mut self.state.lock()));
            return;
        }
        let woken = {
            let mut state = self.state.lock();
            let granted = change(&mut state);
            self.count(&state);
            state.wake(granted)
        };
        woken.into_iter().for_each(Waker::wake);
    }

    fn count(&self, state: &State) {
        self.busy.store(state.table.sessions_busy(), Ordering::Release);
        self.rows.store(state.table.rows(), Ordering::SeqCst);
    }
}

fn over() -> Error {
    Error::new(ErrorKind::Shutdown, "the session is over: it can lock nothing any more")
}

/// Where who waits stands.
#[derive(Debug)]
enum WaitState {
    New,
    /// In the line, under this number.
    Queued(u64),
    Over,
}

/// Waits for a lock.
#[derive(Debug)]
#[must_use = "a lock that nobody waits for is not taken"]
pub struct Waiting {
    locks: Arc<Locks>,
    request: Request,
    place: WaitState,
}

impl Future for Waiting {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let this = &mut *self;
        let mut state = this.locks.state.lock();
        let number = match this.place {
            WaitState::Over => return Poll::Ready(Err(Error::internal("a lock was waited for twice"))),
            WaitState::Queued(number) => number,
            WaitState::New => {
                let tried = state.table.request(this.request);
                this.locks.count(&state);
                match tried {
                    Ok(Tried::Granted) => {
                        this.place = WaitState::Over;
                        return Poll::Ready(Ok(()));
                    }
                    Ok(Tried::Queued(number)) => {
                        this.place = WaitState::Queued(number);
                        number
                    }
                    Ok(Tried::Taken) => {
                        return Poll::Ready(Err(Error::internal("a request was not put into the line")));
                    }
                    Ok(Tried::Deadlock(chain)) => {
                        this.place = WaitState::Over;
                        return Poll::Ready(Err(deadlock(this.request, &chain)));
                    }
                    Err(()) => {
                        this.place = WaitState::Over;
                        return Poll::Ready(Err(over()));
                    }
                }
            }
        };
        if state.table.is_waiting(number) {
            state.wakers.insert(number, Some(context.waker().clone()));
            return Poll::Pending;
        }
        state.wakers.remove(&number);
        drop(state);
        this.place = WaitState::Over;
        Poll::Ready(Ok(()))
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let WaitState::Queued(number) = self.place else { return };
        let request = self.request;
        self.locks.change(|state| {
            state.wakers.remove(&number);
            state.table.give_up(number, request)
        });
    }
}

fn deadlock(request: Request, chain: &[u64]) -> Error {
    let Request { session, key, mode, .. } = request;
    let others: Vec<String> = chain.iter().map(u64::to_string).collect();
    Error::new(ErrorKind::Deadlock, "deadlock detected").with_hint(format!(
        "session {session} asks for {} on {key}, which session {} waits for itself: take locks in one order everywhere",
        mode.name(),
        others.join(", behind session "),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::task::Wake;

    #[derive(Default)]
    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    fn poll(waiting: &mut Waiting, flag: &Arc<Flag>) -> Poll<Result<()>> {
        let waker = Waker::from(Arc::clone(flag));
        Pin::new(waiting).poll(&mut Context::from_waker(&waker))
    }

    fn locks() -> Arc<Locks> {
        let locks = Arc::new(Locks::default());
        (1..=3).for_each(|session| locks.begin_session(session));
        locks
    }

    #[test]
    fn who_waits_is_woken_and_who_gives_up_is_forgotten() {
        let (locks, flag) = (locks(), Arc::<Flag>::default());
        let key = Key::of_number(7);
        let exclusive = |session| locks.lock(session, key, Mode::Exclusive, Scope::Session);
        assert!(locks.try_lock(1, key, Mode::Exclusive, Scope::Session).unwrap());
        let (mut second, mut third) = (exclusive(2), exclusive(3));
        assert!(poll(&mut second, &flag).is_pending() && poll(&mut third, &flag).is_pending());
        drop(second);
        assert!(!flag.0.load(Ordering::SeqCst));
        assert!(locks.unlock(1, key, Mode::Exclusive));
        assert!(flag.0.load(Ordering::SeqCst));
        assert!(matches!(poll(&mut third, &flag), Poll::Ready(Ok(()))));
        // What was given to who had gone is free again.
        let mut first = exclusive(1);
        assert!(poll(&mut first, &flag).is_pending());
        locks.end_session(3);
        drop(first);
        assert!(locks.try_lock(2, key, Mode::Exclusive, Scope::Session).unwrap());
        locks.end_session(2);
        assert!(locks.grants().is_empty());
        assert_eq!(locks.try_lock(2, key, Mode::Shared, Scope::Session).unwrap_err().kind(), ErrorKind::Shutdown);
    }

    #[test]
    fn a_circle_is_refused() {
        let (locks, flag) = (locks(), Arc::<Flag>::default());
        let (a, b) = (Key::of_number(1), Key::of_pair(0, 1));
        assert!(locks.try_lock(1, a, Mode::Exclusive, Scope::Transaction).unwrap());
        assert!(locks.try_lock(2, b, Mode::Shared, Scope::Session).unwrap());
        let mut first = locks.lock(1, b, Mode::Exclusive, Scope::Session);
        assert!(poll(&mut first, &flag).is_pending());
        let mut second = locks.lock(2, a, Mode::Exclusive, Scope::Session);
        let Poll::Ready(Err(error)) = poll(&mut second, &flag) else { panic!("it is refused") };
        assert_eq!(error.kind(), ErrorKind::Deadlock);
        drop(second);
        locks.end_session(2);
        assert!(poll(&mut first, &flag).is_ready());
        assert_eq!(locks.in_transaction(1), 1);
        locks.release_after(1, 0);
        assert_eq!(locks.grants().len(), 1);
    }
}
