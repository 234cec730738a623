//! Which refusals have lines in the audit log.
//!
//! Invariants:
//! - Of one address (of log-ins) and of one user (of statements) so many refusals a minute have lines at most, and then one line says how
//!   many were left out: whoever is refused again and again fills no disk, and delays nobody's own line.
//! - The names that are told apart are bounded; all others together are one.
//!
//! How many were left out is written after their minute, with the next log-in or refusal, whoever's.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::time::Duration;

/// Lines of refused log-ins that one address has in a minute.
const LOG_INS_MAX: u32 = 10;
/// Lines of refused statements that one user has in a minute: what a page of charts may not read is seen as a whole.
const STATEMENTS_MAX: u32 = 60;
const MINUTE: Duration = Duration::from_secs(60);
/// Addresses, and users, that are told apart.
const NAMES_MAX: usize = 1_000;

/// Refusals of a database. Times are monotonic.
#[derive(Debug)]
pub struct Refusals {
    /// Of log-ins, by address.
    pub log_ins: Minutes<IpAddr>,
    /// Of statements, by user.
    pub statements: Minutes<String>,
}

impl Default for Refusals {
    fn default() -> Self {
        Refusals { log_ins: Minutes::new(LOG_INS_MAX), statements: Minutes::new(STATEMENTS_MAX) }
    }
}

/// Lines by whom they are about.
#[derive(Debug)]
pub struct Minutes<K> {
    lines_max: u32,
    /// `None` is all that are not told apart.
    by_name: Mutex<HashMap<Option<K>, Minute>>,
}

/// Refusals of one name, or of all that are not told apart, in one minute.
#[derive(Debug)]
struct Minute {
    since: Duration,
    written: u32,
    left_out: u64,
}

impl<K: Eq + Hash + Ord> Minutes<K> {
    fn new(lines_max: u32) -> Minutes<K> {
        Minutes { lines_max, by_name: Mutex::default() }
    }

    /// One more is refused: whether it has a line.
    pub fn has_line(&self, name: K, now: Duration) -> bool {
        let mut by_name = self.by_name.lock();
        let name = Some(name);
        let is_told_apart = by_name.contains_key(&name) || by_name.len() < NAMES_MAX;
        let new = Minute { since: now, written: 0, left_out: 0 };
        let minute = by_name.entry(name.filter(|_| is_told_apart)).or_insert(new);
        if minute.written < self.lines_max {
            minute.written += 1;
            return true;
        }
        minute.left_out += 1;
        false
    }

    /// How many were left out of the minutes that are over, by name; they are told once.
    pub fn left_out(&self, now: Duration) -> Vec<(Option<K>, u64)> {
        let mut by_name = self.by_name.lock();
        let is_over = |_: &Option<K>, minute: &mut Minute| now.saturating_sub(minute.since) >= MINUTE;
        let over = by_name.extract_if(is_over).map(|(name, minute)| (name, minute.left_out));
        let mut over: Vec<_> = over.filter(|(_, left_out)| *left_out > 0).collect();
        over.sort_unstable();
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, last])
    }

    #[test]
    fn refusals_have_few_lines_a_minute_and_the_rest_are_counted() {
        let refusals = Refusals::default();
        let lines = |peer: u8, count: usize, now: Duration| {
            (0..count).filter(|_| refusals.log_ins.has_line(address(peer), now)).count() as u32
        };
        assert_eq!(lines(1, 1_000, Duration::ZERO), LOG_INS_MAX);
        assert_eq!((lines(2, 3, Duration::ZERO), lines(3, 12, MINUTE / 2)), (3, LOG_INS_MAX));
        assert_eq!(refusals.log_ins.left_out(MINUTE - Duration::from_nanos(1)), []);
        assert_eq!(refusals.log_ins.left_out(MINUTE), [(Some(address(1)), 990)]);
        assert_eq!(lines(1, 1, MINUTE), 1, "another minute has begun");
        assert_eq!(refusals.log_ins.left_out(2 * MINUTE), [(Some(address(3)), 2)]);
        assert_eq!(refusals.log_ins.left_out(9 * MINUTE), [], "they are told once");
        // A user's statements are counted apart from those of others.
        let statements =
            |user: &str| (0..100).filter(|_| refusals.statements.has_line(user.to_owned(), MINUTE)).count() as u32;
        assert_eq!((statements("a"), statements("b")), (STATEMENTS_MAX, STATEMENTS_MAX));
        let left_out = u64::from(100 - STATEMENTS_MAX);
        let wanted = [(Some("a".to_owned()), left_out), (Some("b".to_owned()), left_out)];
        assert_eq!(refusals.statements.left_out(2 * MINUTE), wanted);
    }

    #[test]
    fn an_attack_from_everywhere_is_bounded_as_one_from_somewhere() {
        let minutes = Minutes::new(LOG_INS_MAX);
        let from = |at: usize| IpAddr::from((at as u128).to_be_bytes());
        let written = (0..5 * NAMES_MAX).filter(|at| minutes.has_line(from(*at), Duration::ZERO)).count();
        assert_eq!(written, NAMES_MAX + LOG_INS_MAX as usize);
        let left_out = 4 * NAMES_MAX as u64 - u64::from(LOG_INS_MAX);
        assert_eq!(minutes.left_out(MINUTE), [(None, left_out)]);
    }
}
