//! The rate at which the password of one role may be guessed, by all addresses together.
//!
//! Invariants:
//! - Within any time no more passwords of a role are looked at than [`MOST`], and one more each [`EVERY`].
//! - What gives way gives way by itself: what is kept of a role is a time, until when all that was counted is forgotten.

use alluvia_types::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::time::Duration;

/// Passwords that are looked at without a pause.
pub(crate) const MOST: u32 = 100;
/// From then on one is looked at each time so long.
pub(crate) const EVERY: Duration = Duration::from_secs(3);
/// Roles are counted in so many groups: their names are whatever clients send.
const GROUPS: u64 = 4_096;

/// Until when the wrong passwords of each group of roles are forgotten: each takes [`EVERY`]. Roles are told by their hash.
#[derive(Debug, Default)]
pub(crate) struct GuessRate(HashMap<u64, Duration>);

impl GuessRate {
    /// Counts a password of a role, unless there were too many.
    pub(crate) fn admit(&mut self, role: u64, now: Duration) -> Result<()> {
        let until = self.0.entry(role % GROUPS).or_insert(now);
        let counted = (*until).max(now) + EVERY;
        let excess = counted.saturating_sub(now + EVERY * MOST);
        if !excess.is_zero() {
            let seconds = excess.as_millis().div_ceil(1_000);
            let message = "too many wrong passwords came for this user, from many addresses";
            return Err(Error::new(ErrorKind::Authentication, message)
                .with_hint(format!("try again in {seconds} s, or from where this user has logged in before")));
        }
        *until = counted;
        Ok(())
    }

    /// So many of a role's were not wrong.
    pub(crate) fn forgive(&mut self, role: u64, count: u32) {
        if let Some(until) = self.0.get_mut(&(role % GROUPS)) {
            *until = until.saturating_sub(EVERY * count);
        }
    }

    /// Drops what is forgotten; goes through all.
    pub(crate) fn drop_forgotten(&mut self, now: Duration) {
        self.0.retain(|_, until| *until > now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_looked_at_and_then_one_at_a_time() {
        let mut rate = GuessRate::default();
        let (start, second) = (Duration::from_secs(1_000), Duration::from_secs(1));
        let mut looked_at = |from: u32, to: u32| {
            let mut times = Vec::new();
            for at in from..to {
                while rate.admit(7, start + second * at).is_ok() {
                    times.push(at);
                }
            }
            times
        };
        assert_eq!(looked_at(0, 1), [0; MOST as usize]);
        assert_eq!(looked_at(1, 10), [3, 6, 9]);
        assert_eq!(looked_at(10 + 3 * MOST, 11 + 3 * MOST).len(), MOST as usize);
    }

    #[test]
    fn what_was_right_is_given_back_and_what_is_forgotten_takes_no_room() {
        let (mut rate, now) = (GuessRate::default(), Duration::from_secs(10));
        while rate.admit(1, now).is_ok() {}
        rate.admit(2, now).unwrap();
        let refused = rate.admit(1 + GROUPS, now).unwrap_err();
        assert_eq!(
            (refused.kind(), refused.hint().map(|hint| hint.contains("in 3 s"))),
            (ErrorKind::Authentication, Some(true))
        );
        rate.forgive(1, 2);
        assert!(rate.admit(1, now).is_ok() && rate.admit(1, now).is_ok() && rate.admit(1, now).is_err());
        // Of whom nothing is counted there is nothing to forgive.
        rate.forgive(3, 1);
        rate.drop_forgotten(now + EVERY);
        assert_eq!(rate.0.len(), 1);
        rate.drop_forgotten(now + EVERY * MOST);
        assert!(rate.0.is_empty());
    }
}
