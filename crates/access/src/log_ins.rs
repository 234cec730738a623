//! Which log-ins have lines in the audit log. Those that are refused are [`Refusals`](crate::refusals::Refusals)'s.
//!
//! Invariant: a log-in that makes something that lasts (a connection, a token) has a line. Of requests that show a password each, a user
//! and address have one line an hour.

use crate::directory::LogIn;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// How long the requests of one user and address are one log-in.
const LOG_IN_HOLDS: Duration = Duration::from_secs(3_600);
/// Log-ins that are remembered; past that all are forgotten, and written again.
const REMEMBERED_MAX: usize = 10_000;

/// Log-ins of a database's servers. Times are monotonic.
#[derive(Debug, Default)]
pub struct LogIns {
    held: Mutex<HashMap<(String, &'static str, IpAddr), Duration>>,
}

impl LogIns {
    /// Whether a log-in goes on one that was written.
    pub fn goes_on(&self, user: &str, protocol: &'static str, peer: IpAddr, kind: LogIn, now: Duration) -> bool {
        if kind == LogIn::Lasting {
            return false;
        }
        let held = self.held.lock();
        let last = held.get(&(user.to_owned(), protocol, peer));
        last.is_some_and(|last| now.saturating_sub(*last) < LOG_IN_HOLDS)
    }

    /// It was written.
    pub fn written(&self, user: &str, protocol: &'static str, peer: IpAddr, kind: LogIn, now: Duration) {
        if kind == LogIn::Lasting {
            return;
        }
        let mut held = self.held.lock();
        if held.len() >= REMEMBERED_MAX {
            held.clear();
        }
        held.insert((user.to_owned(), protocol, peer), now);
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
}
