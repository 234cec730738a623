//! Who holds which locks, and who waits for which.
//!
//! Invariants:
//! - What is held on one key goes together: one exclusive lock, or shared ones, but for what one session holds itself.
//! - Those that wait for a key wait in the order in which they came; each change gives them what has become free, in that order.

use alluvia_types::TableId;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;

/// What is locked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Key {
    /// What sessions agree on.
    Advisory(Advisory),
    /// The row of a table that has, or is to have, the primary key of this code.
    Row {
        /// The table.
        table: TableId,
        /// The code of the key.
        code: u128,
    },
}

/// A number of 64 bits, or two of 32. The two are different keys, whatever the numbers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Advisory {
    /// The upper half, or the first number.
    pub class: u32,
    /// The lower half, or the second number.
    pub object: u32,
    /// 1 for one number, 2 for two.
    pub sub: u16,
}

impl Key {
    /// One number.
    pub fn of_number(number: i64) -> Key {
        let bits = number as u64;
        Key::Advisory(Advisory { class: (bits >> 32) as u32, object: bits as u32, sub: 1 })
    }

    /// Two numbers.
    pub fn of_pair(first: i32, second: i32) -> Key {
        Key::Advisory(Advisory { class: first as u32, object: second as u32, sub: 2 })
    }

    fn is_row(&self) -> bool {
        matches!(self, Key::Row { .. })
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Key::Advisory(Advisory { class, object, sub: 1 }) => {
                write!(f, "advisory lock {}", ((u64::from(class) << 32) | u64::from(object)) as i64)
            }
            Key::Advisory(Advisory { class, object, .. }) => {
                write!(f, "advisory lock ({}, {})", class as i32, object as i32)
            }
            Key::Row { table, .. } => write!(f, "a row of table number {}", table.0),
        }
    }
}

/// Whether others may hold it, too.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mode {
    /// Others that share it may.
    Shared,
    /// Nobody else may.
    Exclusive,
}

impl Mode {
    /// PostgreSQL's name.
    pub fn name(self) -> &'static str {
        match self {
            Mode::Shared => "ShareLock",
            Mode::Exclusive => "ExclusiveLock",
        }
    }

    fn conflicts(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }
}

/// Whose it is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Scope {
    /// The session's: it gives it back as often as it has taken it, or ends.
    Session,
    /// Its transaction's: it goes with it.
    Transaction,
}

/// Who asks for what.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) session: u64,
    pub(crate) key: Key,
    pub(crate) mode: Mode,
    pub(crate) scope: Scope,
}

/// What became of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tried {
    /// It is held.
    Granted,
    /// Somebody else holds it, or waits for it.
    Taken,
    /// It waits, under this number.
    Queued(u64),
    /// It would wait for these, one behind the other, of which the last waits for its session.
    Deadlock(Vec<u64>),
}

/// What is held or waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The session.
    pub session: u64,
    /// The key.
    pub key: Key,
    /// How.
    pub mode: Mode,
    /// Whether it is held.
    pub is_held: bool,
}

/// What one session holds on a key, how often in each mode.
#[derive(Clone, Copy, Default, Debug)]
struct Held {
    shared: usize,
    exclusive: usize,
}

impl Held {
    fn of(&mut self, mode: Mode) -> &mut usize {
        match mode {
            Mode::Shared => &mut self.shared,
            Mode::Exclusive => &mut self.exclusive,
        }
    }

    fn modes(self) -> impl Iterator<Item = Mode> {
        let exclusive = (self.exclusive > 0).then_some(Mode::Exclusive);
        exclusive.into_iter().chain((self.shared > 0).then_some(Mode::Shared))
    }
}

/// What is known of one key.
#[derive(Default, Debug)]
struct Lock {
    /// Few, and mostly one.
    holders: Vec<(u64, Held)>,
    /// Those that wait, with their numbers.
    line: Vec<(u64, Request)>,
}

impl Lock {
    fn held_by(&self, session: u64) -> Option<Held> {
        self.holders.iter().find(|(holder, _)| *holder == session).map(|(_, held)| *held)
    }

    fn hold(&mut self, session: u64, mode: Mode) {
        match self.holders.iter_mut().find(|(holder, _)| *holder == session) {
            Some((_, held)) => *held.of(mode) += 1,
            None => {
                let mut held = Held::default();
                *held.of(mode) += 1;
                self.holders.push((session, held));
            }
        }
    }

    /// Once less.
    fn let_go(&mut self, session: u64, mode: Mode) {
        let Some(at) = self.holders.iter().position(|(holder, _)| *holder == session) else { return };
        let count = self.holders[at].1.of(mode);
        *count = count.saturating_sub(1);
        if self.holders[at].1.modes().next().is_none() {
            self.holders.remove(at);
        }
    }
}

/// What is known of one session.
#[derive(Default, Debug)]
struct Session {
    /// What it holds itself, how often.
    own: HashMap<(Key, Mode), usize>,
    /// What its transaction holds, in the order in which it came.
    of_transaction: Vec<(Key, Mode)>,
}

#[derive(Default, Debug)]
pub(crate) struct Table {
    locks: BTreeMap<Key, Lock>,
    sessions: HashMap<u64, Session>,
    /// The key that a request waits for.
    waiting: HashMap<u64, Key>,
    numbers: u64,
    /// Locks of rows among all.
    rows: usize,
}

impl Table {
    pub(crate) fn begin_session(&mut self, session: u64) {
        self.sessions.entry(session).or_default();
    }

    /// Gives the requests that hold now what they have waited for, as all that gives back does.
    pub(crate) fn end_session(&mut self, session: u64) -> Vec<u64> {
        let Some(known) = self.sessions.remove(&session) else { return Vec::new() };
        let keys: Vec<Key> = known.own.keys().map(|(key, _)| *key).collect();
        let keys: Vec<Key> = keys.into_iter().chain(known.of_transaction.iter().map(|(key, _)| *key)).collect();
        for key in &keys {
            if let Some(lock) = self.locks.get_mut(key) {
                lock.holders.retain(|(holder, _)| *holder != session);
            }
        }
        keys.into_iter().flat_map(|key| self.grant(key)).collect()
    }

    /// Sessions that hold or wait, about: keys that anybody holds or waits for.
    pub(crate) fn sessions_busy(&self) -> usize {
        self.locks.len()
    }

    /// Rows that anybody has locked or waits for.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Locks rows for a session's transaction, in this order, up to the first that is not free: gives how many. What the transaction
    /// has locked so, or more strictly, it has.
    pub(crate) fn try_rows(&mut self, session: u64, table: TableId, codes: &[u128], mode: Mode) -> Result<usize, ()> {
        for (at, &code) in codes.iter().enumerate() {
            let key = Key::Row { table, code };
            if self.covers(session, key, mode) {
                continue;
            }
            if self.try_lock(session, key, mode, Scope::Transaction)? != Tried::Granted {
                return Ok(at);
            }
        }
        Ok(codes.len())
    }

    /// Whether a session holds a key in this mode, or a stricter one.
    fn covers(&self, session: u64, key: Key, mode: Mode) -> bool {
        let held = self.locks.get(&key).and_then(|lock| lock.held_by(session)).unwrap_or_default();
        held.exclusive > 0 || (mode == Mode::Shared && held.shared > 0)
    }

    /// The first of these rows that another session has locked, in whatever mode, and that session.
    pub(crate) fn first_taken(&self, session: u64, table: TableId, codes: &[u128]) -> Option<(usize, u64)> {
        let others = |lock: &Lock| lock.holders.iter().map(|(holder, _)| *holder).find(|holder| *holder != session);
        let of_table = Key::Row { table, code: 0 }..=Key::Row { table, code: u128::MAX };
        let mut taken: HashMap<u128, u64> = HashMap::new();
        for (key, lock) in self.locks.range(of_table) {
            // The fewer of the two are gone through.
            if taken.len() > codes.len() {
                let holder = |code: &u128| others(self.locks.get(&Key::Row { table, code: *code })?);
                return codes.iter().enumerate().find_map(|(at, code)| Some((at, holder(code)?)));
            }
            if let (Key::Row { code, .. }, Some(holder)) = (key, others(lock)) {
                taken.insert(*code, holder);
            }
        }
        if taken.is_empty() {
            return None;
        }
        codes.iter().enumerate().find_map(|(at, code)| Some((at, *taken.get(code)?)))
    }

    /// Who holds a key beside a session.
    pub(crate) fn holders_beside(&self, session: u64, key: Key) -> Vec<u64> {
        let holders = self.locks.get(&key).into_iter().flat_map(|lock| &lock.holders);
        holders.map(|(holder, _)| *holder).filter(|holder| *holder != session).collect()
    }

    /// `Err` of a session that is over.
    pub(crate) fn try_lock(&mut self, session: u64, key: Key, mode: Mode, scope: Scope) -> Result<Tried, ()> {
        let request = Request { session, key, mode, scope };
        if !self.sessions.contains_key(&session) {
            return Err(());
        }
        if !self.is_free(&request) {
            return Ok(Tried::Taken);
        }
        self.hold(request);
        Ok(Tried::Granted)
    }

    /// The same, and into the line if it is taken.
    pub(crate) fn request(&mut self, request: Request) -> Result<Tried, ()> {
        let Request { session, key, mode, scope } = request;
        if self.try_lock(session, key, mode, scope)? == Tried::Granted {
            return Ok(Tried::Granted);
        }
        if let Some(chain) = self.circle(&request) {
            return Ok(Tried::Deadlock(chain));
        }
        self.numbers += 1;
        self.waiting.insert(self.numbers, key);
        let number = self.numbers;
        self.lock_of(key).line.push((number, request));
        Ok(Tried::Queued(self.numbers))
    }

    pub(crate) fn is_waiting(&self, number: u64) -> bool {
        self.waiting.contains_key(&number)
    }

    /// Who asked under this number does not want it any more, whether it waits or holds it by now.
    pub(crate) fn give_up(&mut self, number: u64, request: Request) -> Vec<u64> {
        let Request { session, key, mode, scope } = request;
        if self.waiting.remove(&number).is_some() {
            if let Some(lock) = self.locks.get_mut(&key) {
                lock.line.retain(|(known, _)| *known != number);
            }
            return self.grant(key);
        }
        match scope {
            Scope::Session => self.unlock(session, key, mode).1,
            Scope::Transaction => {
                let Some(known) = self.sessions.get_mut(&session) else { return Vec::new() };
                let Some(at) = known.of_transaction.iter().rposition(|held| *held == (key, mode)) else {
                    return Vec::new();
                };
                known.of_transaction.remove(at);
                self.let_go(session, key, mode)
            }
        }
    }

    /// Whether it was held, and who has got what.
    pub(crate) fn unlock(&mut self, session: u64, key: Key, mode: Mode) -> (bool, Vec<u64>) {
        let Some(known) = self.sessions.get_mut(&session) else { return (false, Vec::new()) };
        let Some(count) = known.own.get_mut(&(key, mode)) else { return (false, Vec::new()) };
        *count -= 1;
        if *count == 0 {
            known.own.remove(&(key, mode));
        }
        (true, self.let_go(session, key, mode))
    }

    pub(crate) fn unlock_all(&mut self, session: u64) -> Vec<u64> {
        let Some(known) = self.sessions.get_mut(&session) else { return Vec::new() };
        let own: Vec<((Key, Mode), usize)> = known.own.drain().collect();
        let each = own.into_iter().flat_map(|(held, count)| std::iter::repeat_n(held, count));
        each.collect::<Vec<_>>().into_iter().flat_map(|(key, mode)| self.let_go(session, key, mode)).collect()
    }

    pub(crate) fn in_transaction(&self, session: u64) -> usize {
        self.sessions.get(&session).map_or(0, |known| known.of_transaction.len())
    }

    pub(crate) fn release_after(&mut self, session: u64, kept: usize) -> Vec<u64> {
        let Some(known) = self.sessions.get_mut(&session) else { return Vec::new() };
        let released = known.of_transaction.split_off(kept.min(known.of_transaction.len()));
        released.into_iter().flat_map(|(key, mode)| self.let_go(session, key, mode)).collect()
    }

    pub(crate) fn grants(&self) -> Vec<Grant> {
        let mut grants = Vec::new();
        for (key, lock) in &self.locks {
            for (session, held) in &lock.holders {
                grants.extend(held.modes().map(|mode| Grant { session: *session, key: *key, mode, is_held: true }));
            }
            grants.extend(lock.line.iter().map(|(_, request)| Grant {
                session: request.session,
                key: *key,
                mode: request.mode,
                is_held: false,
            }));
        }
        grants
    }

    /// Those that a request has to wait for: who holds what does not go with it, and who waits before it for such.
    fn before<'a>(&'a self, request: &'a Request, ends_at: Option<u64>) -> impl Iterator<Item = u64> + 'a {
        let lock = self.locks.get(&request.key);
        let others = lock.into_iter().flat_map(|lock| &lock.holders).filter(|(session, _)| *session != request.session);
        let holders = others.filter(|(_, held)| held.modes().any(|mode| mode.conflicts(request.mode)));
        let is_held = lock.is_some_and(|lock| lock.held_by(request.session).is_some());
        let line = lock.into_iter().flat_map(|lock| &lock.line).take_while(move |(number, _)| Some(*number) != ends_at);
        let earlier = line.filter(move |(_, other)| {
            !is_held && other.session != request.session && other.mode.conflicts(request.mode)
        });
        holders.map(|(session, _)| *session).chain(earlier.map(|(_, other)| other.session))
    }

    fn is_free(&self, request: &Request) -> bool {
        self.before(request, None).next().is_none()
    }

    /// Sessions from the one that a request would wait for to one that waits for its session.
    fn circle(&self, request: &Request) -> Option<Vec<u64>> {
        // Who waits for whom, by who waits: those that wait are few, beside all that is held.
        let mut waits: HashMap<u64, Vec<(u64, &Request)>> = HashMap::new();
        for key in self.waiting.values().collect::<BTreeSet<&Key>>() {
            for (number, waiting) in self.locks.get(key).into_iter().flat_map(|lock| &lock.line) {
                waits.entry(waiting.session).or_default().push((*number, waiting));
            }
        }
        // Each session that was found, and who waits for it.
        let mut before: HashMap<u64, Option<u64>> = self.before(request, None).map(|session| (session, None)).collect();
        let mut left: Vec<u64> = before.keys().copied().collect();
        while let Some(session) = left.pop() {
            if session == request.session {
                let mut way = vec![session];
                while let Some(Some(waiting)) = before.get(way.last()?) {
                    way.push(*waiting);
                }
                way.reverse();
                return Some(way);
            }
            for (number, waiting) in waits.get(&session).into_iter().flatten() {
                for next in self.before(waiting, Some(*number)) {
                    before.entry(next).or_insert_with(|| {
                        left.push(next);
                        Some(session)
                    });
                }
            }
        }
        None
    }

    fn hold(&mut self, request: Request) {
        let Request { session, key, mode, scope } = request;
        self.lock_of(key).hold(session, mode);
        let known = self.sessions.entry(session).or_default();
        match scope {
            Scope::Session => *known.own.entry((key, mode)).or_default() += 1,
            Scope::Transaction => known.of_transaction.push((key, mode)),
        }
    }

    fn let_go(&mut self, session: u64, key: Key, mode: Mode) -> Vec<u64> {
        if let Some(lock) = self.locks.get_mut(&key) {
            lock.let_go(session, mode);
        }
        self.grant(key)
    }

    /// Gives those that wait for a key what is free; gives their numbers.
    fn grant(&mut self, key: Key) -> Vec<u64> {
        let mut granted = Vec::new();
        while let Some(lock) = self.locks.get(&key) {
            let is_over = |request: &Request| !self.sessions.contains_key(&request.session);
            let free = lock
                .line
                .iter()
                .find(|(number, request)| is_over(request) || self.before(request, Some(*number)).next().is_none());
            let Some((number, request)) = free.copied() else { break };
            let is_over = is_over(&request);
            if let Some(lock) = self.locks.get_mut(&key) {
                lock.line.retain(|(known, _)| *known != number);
            }
            self.waiting.remove(&number);
            if !is_over {
                self.hold(request);
            }
            granted.push(number);
        }
        if self.locks.get(&key).is_some_and(|lock| lock.holders.is_empty() && lock.line.is_empty()) {
            self.locks.remove(&key);
            self.rows -= usize::from(key.is_row());
        }
        granted
    }

    fn lock_of(&mut self, key: Key) -> &mut Lock {
        let rows = &mut self.rows;
        self.locks.entry(key).or_insert_with(|| {
            *rows += usize::from(key.is_row());
            Lock::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::default();
        (1..=4).for_each(|session| table.begin_session(session));
        table
    }

    fn request(session: u64, mode: Mode) -> Request {
        Request { session, key: Key::of_number(1), mode, scope: Scope::Session }
    }

    #[test]
    fn locks_are_shared_or_one_sessions_own() {
        use Mode::{Exclusive, Shared};
        let mut table = table();
        let mut ask = |session, mode| table.request(request(session, mode)).unwrap();
        assert_eq!((ask(1, Shared), ask(2, Shared), ask(1, Shared)), (Tried::Granted, Tried::Granted, Tried::Granted));
        // Its own do not hinder it, those of others do.
        let Tried::Queued(third) = ask(3, Exclusive) else { panic!("it waits") };
        let Tried::Queued(fourth) = ask(4, Shared) else { panic!("it waits behind the one before it") };
        assert_eq!(ask(2, Shared), Tried::Granted);
        let key = Key::of_number(1);
        assert_eq!(table.unlock(1, key, Shared), (true, vec![]));
        assert_eq!(table.unlock(1, key, Exclusive), (false, vec![]));
        assert_eq!(table.unlock(1, key, Shared), (true, vec![]));
        assert_eq!(table.unlock(1, key, Shared), (false, vec![]));
        assert_eq!(table.unlock_all(2), [third]);
        assert!(!table.is_waiting(third) && table.is_waiting(fourth));
        assert_eq!(table.end_session(3), [fourth]);
        assert_eq!(table.grants(), [Grant { session: 4, key, mode: Shared, is_held: true }]);
    }

    #[test]
    fn keys_of_one_and_of_two_numbers_are_different() {
        assert_ne!(Key::of_number(1), Key::of_pair(0, 1));
        assert_eq!(Key::of_number(-2).to_string(), "advisory lock -2");
        assert_eq!(Key::of_pair(-1, 7).to_string(), "advisory lock (-1, 7)");
        let Key::Advisory(Advisory { class, object, sub }) = Key::of_number(77_433_833_903_597) else {
            panic!("a number is an advisory lock")
        };
        assert_eq!((class, object, sub), (18_028, 4_163_491_309, 1));
    }

    #[test]
    fn rows_are_locked_up_to_the_first_that_is_taken() {
        use Mode::{Exclusive, Shared};
        let (mut table, of) = (table(), TableId(7));
        assert_eq!(table.try_rows(1, of, &[1, 2, 3], Exclusive), Ok(3));
        assert_eq!(table.try_rows(1, of, &[3, 2], Exclusive), Ok(2), "it has them");
        assert_eq!((table.in_transaction(1), table.rows()), (3, 3));
        assert_eq!(table.try_rows(2, of, &[9, 2, 8], Shared), Ok(1));
        assert_eq!(table.first_taken(2, of, &[9, 8, 3]), Some((2, 1)));
        assert_eq!(table.first_taken(1, of, &[1, 2, 3]), None);
        assert_eq!(table.first_taken(1, TableId(8), &[9]), None, "of another table");
        table.release_after(1, 1);
        assert_eq!(table.try_rows(2, of, &[2, 8], Shared), Ok(2));
        assert_eq!(table.try_rows(3, of, &[2, 8], Shared), Ok(2), "it is shared");
        assert_eq!(table.first_taken(1, of, &[2]), Some((0, 2)));
        for session in 1..=3 {
            table.end_session(session);
        }
        assert_eq!((table.rows(), table.grants().len()), (0, 0));
    }

    #[test]
    fn a_savepoint_keeps_what_came_before_it() {
        let mut table = table();
        let key = Key::of_number;
        for number in [1, 2, 2, 3] {
            let tried = table.try_lock(1, key(number), Mode::Exclusive, Scope::Transaction);
            assert_eq!(tried, Ok(Tried::Granted));
        }
        assert_eq!(table.in_transaction(1), 4);
        table.release_after(1, 2);
        assert_eq!(table.in_transaction(1), 2);
        assert_eq!(table.try_lock(2, key(2), Mode::Shared, Scope::Session), Ok(Tried::Taken));
        assert_eq!(table.try_lock(2, key(3), Mode::Shared, Scope::Session), Ok(Tried::Granted));
        // One mode of a session does not make way for another's.
        assert_eq!(table.try_lock(1, key(3), Mode::Shared, Scope::Session), Ok(Tried::Granted));
        assert_eq!(table.try_lock(1, key(3), Mode::Exclusive, Scope::Session), Ok(Tried::Taken));
    }
}
