//! Which log-ins have lines in the audit log.
//!
//! Invariants:
//! - A log-in that makes something that lasts (a connection, a token) has a line. Of requests that show a password each, a user and
//!   address have one line an hour.
//! - Refused log-ins of one address have so many lines a minute at most, and then one that says how many were left out: whoever guesses
//!   fills no disk, and delays nobody's own line.
//!
//! How many were left out is written with the next log-in, from wherever, after their minute.

use alluvia_access::LogIn;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// How long the requests of one user and address are one log-in.
const LOG_IN_HOLDS: Duration = Duration::from_secs(3_600);
/// Log-ins that are remembered; past that all are forgotten, and written again.
const REMEMBERED_MAX: usize = 10_000;
/// Lines of refused log-ins that one address has in a minute.
const REFUSALS_MAX: u32 = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Addresses that are told apart; all others together are one.
const ADDRESSES_MAX: usize = 1_000;

/// Log-ins of a database's servers. Times are monotonic.
#[derive(Debug, Default)]
pub(crate) struct LogIns {
    held: Mutex<HashMap<(String, &'static str, IpAddr), Duration>>,
    refusals: Mutex<HashMap<Option<IpAddr>, Refusals>>,
}

/// Refused log-ins of one address, or of all that are not told apart, in one minute.
#[derive(Debug)]
struct Refusals {
    since: Duration,
    written: u32,
    left_out: u64,
}

impl LogIns {
    /// Whether a log-in goes on one that was written.
    pub(crate) fn goes_on(&self, user: &str, protocol: &'static str, peer: IpAddr, kind: LogIn, now: Duration) -> bool {
        if kind == LogIn::Lasting {
            return false;
        }
        let held = self.held.lock();
        let last = held.get(&(user.to_owned(), protocol, peer));
        last.is_some_and(|last| now.saturating_sub(*last) < LOG_IN_HOLDS)
    }

    /// It was written.
    pub(crate) fn written(&self, user: &str, protocol: &'static str, peer: IpAddr, kind: LogIn, now: Duration) {
        if kind == LogIn::Lasting {
            return;
        }
        let mut held = self.held.lock();
        if held.len() >= REMEMBERED_MAX {
            held.clear();
        }
        held.insert((user.to_owned(), protocol, peer), now);
    }

    /// A log-in from there is refused: whether it has a line.
    pub(crate) fn has_line(&self, peer: IpAddr, now: Duration) -> bool {
        let mut refusals = self.refusals.lock();
        let is_told_apart = refusals.contains_key(&Some(peer)) || refusals.len() < ADDRESSES_MAX;
        let of =
            refusals.entry(is_told_apart.then_some(peer)).or_insert(Refusals { since: now, written: 0, left_out: 0 });
        if of.written < REFUSALS_MAX {
            of.written += 1;
            return true;
        }
        of.left_out += 1;
        false
    }

    /// How many refused log-ins were left out of the minutes that are over, by address; they are told once. `None` is all addresses
    /// that were not told apart.
    pub(crate) fn left_out(&self, now: Duration) -> Vec<(Option<IpAddr>, u64)> {
        let mut refusals = self.refusals.lock();
        let is_over = |_: &Option<IpAddr>, of: &mut Refusals| now.saturating_sub(of.since) >= MINUTE;
        let over = refusals.extract_if(is_over).map(|(peer, of)| (peer, of.left_out));
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
    fn what_lasts_has_a_line_and_of_requests_one_an_hour_has() {
        let (log_ins, minutes) = (LogIns::default(), |count: u64| Duration::from_secs(60 * count));
        let has_line = |user: &str, protocol, peer, kind, now| {
            let has_line = !log_ins.goes_on(user, protocol, peer, kind, now);
            if has_line {
                log_ins.written(user, protocol, peer, kind, now);
            }
            has_line
        };
        for (user, protocol, peer, kind, at, wanted) in [
            ("a", "http", 1, LogIn::Request, 0, true),
            ("a", "http", 1, LogIn::Request, 59, false),
            ("a", "flight", 1, LogIn::Lasting, 59, true),
            ("a", "flight", 1, LogIn::Lasting, 59, true),
            // A token's line is not that of calls without one.
            ("a", "flight", 1, LogIn::Request, 59, true),
            ("b", "http", 1, LogIn::Request, 59, true),
            ("a", "http", 2, LogIn::Request, 59, true),
            ("a", "http", 1, LogIn::Request, 60, true),
        ] {
            assert_eq!(has_line(user, protocol, address(peer), kind, minutes(at)), wanted, "{user} {protocol} {at}");
        }
    }

    #[test]
    fn refused_log_ins_have_few_lines_a_minute_and_the_rest_are_counted() {
        let log_ins = LogIns::default();
        let lines = |peer: u8, count: usize, now: Duration| {
            (0..count).filter(|_| log_ins.has_line(address(peer), now)).count() as u32
        };
        assert_eq!(lines(1, 1_000, Duration::ZERO), REFUSALS_MAX);
        assert_eq!((lines(2, 3, Duration::ZERO), lines(3, 12, MINUTE / 2)), (3, REFUSALS_MAX));
        assert_eq!(log_ins.left_out(MINUTE - Duration::from_nanos(1)), []);
        assert_eq!(log_ins.left_out(MINUTE), [(Some(address(1)), 990)]);
        assert_eq!(lines(1, 1, MINUTE), 1, "another minute has begun");
        assert_eq!(log_ins.left_out(2 * MINUTE), [(Some(address(3)), 2)]);
        assert_eq!(log_ins.left_out(9 * MINUTE), [], "they are told once");
    }

    #[test]
    fn an_attack_from_everywhere_is_bounded_as_one_from_somewhere() {
        let log_ins = LogIns::default();
        let from = |at: usize| IpAddr::from((at as u128).to_be_bytes());
        let written = (0..5 * ADDRESSES_MAX).filter(|at| log_ins.has_line(from(*at), Duration::ZERO)).count();
        assert_eq!(written, ADDRESSES_MAX + REFUSALS_MAX as usize);
        let left_out = 4 * ADDRESSES_MAX as u64 - u64::from(REFUSALS_MAX);
        assert_eq!(log_ins.left_out(MINUTE), [(None, left_out)]);
    }
}
