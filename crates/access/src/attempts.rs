//! Wrong passwords by address.
//!
//! Invariants:
//! - Who gives wrong passwords waits, longer each time, and is refused after many.
//! - A password is counted as wrong before it is looked at, and forgiven if it is right: however many are tried at once, no more
//!   than the bound are.

use alluvia_types::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

/// Wrong passwords of one address are forgotten after so long without one.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// From so many on an address is refused.
const WRONG_MAX: u32 = 20;
/// The wait after the first wrong password; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(3);
/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 10_000;

/// Wrong passwords by address. Times are monotonic, since any one moment.
#[derive(Debug, Default)]
pub struct Attempts {
    wrong: Mutex<Wrong>,
}

impl Attempts {
    /// Refuses an address that has given too many wrong passwords lately.
    pub fn check(&self, peer: IpAddr, now: Duration) -> Result<()> {
        check(&self.wrong.lock(), peer, now)
    }

    /// Lets a password be looked at, unless its address has given too many wrong ones: counts it as wrong until
    /// [`Attempts::right`] says otherwise, and gives how long its sender has to wait if it is.
    pub fn admit(&self, peer: IpAddr, now: Duration) -> Result<Duration> {
        let mut wrong = self.wrong.lock();
        check(&wrong, peer, now)?;
        Ok(count(&mut wrong, peer, now))
    }

    /// A right password forgives the wrong ones.
    pub fn right(&self, peer: IpAddr) {
        self.wrong.lock().remove(&peer);
    }
}

/// How many wrong passwords an address has given, and when the last.
type Wrong = HashMap<IpAddr, (u32, Duration)>;

fn check(wrong: &Wrong, peer: IpAddr, now: Duration) -> Result<()> {
    match wrong.get(&peer) {
        Some((count, last)) if *count >= WRONG_MAX && now.saturating_sub(*last) < FORGET_AFTER => {
            Err(Error::new(ErrorKind::Authentication, "too many wrong passwords came from this address")
                .with_hint(format!("wait {} seconds", FORGET_AFTER.as_secs())))
        }
        _ => Ok(()),
    }
}

fn count(wrong: &mut Wrong, peer: IpAddr, now: Duration) -> Duration {
    wrong.retain(|_, (_, last)| now.saturating_sub(*last) < FORGET_AFTER);
    if wrong.len() >= ADDRESSES_MAX && !wrong.contains_key(&peer) {
        // An attack from everywhere: nobody is remembered, everybody waits.
        return LONGEST_WAIT;
    }
    let (count, last) = wrong.entry(peer).or_default();
    (*count, *last) = (count.saturating_add(1), now);
    FIRST_WAIT.saturating_mul(1 << (*count - 1).min(10)).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_passwords_make_an_address_wait_and_then_refuse_it() {
        let attempts = Attempts::default();
        let (here, there): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let waits: Vec<Duration> =
            (0..WRONG_MAX).map(|at| attempts.admit(here, Duration::from_secs(at.into())).unwrap()).collect();
        assert!(waits.is_sorted() && waits[0] == FIRST_WAIT && waits[19] == LONGEST_WAIT);
        let now = Duration::from_secs(30);
        assert!(attempts.check(here, now).is_err() && attempts.check(there, now).is_ok());
        assert!(attempts.check(here, now + FORGET_AFTER).is_ok());
        attempts.right(here);
        assert!(attempts.check(here, now).is_ok());
    }

    #[test]
    fn guesses_made_at_once_are_bounded_as_those_made_in_turn() {
        let (attempts, here) = (Attempts::default(), IpAddr::from([10, 0, 0, 1]));
        // None of them has been looked at yet.
        let admitted = (0..200).filter(|_| attempts.admit(here, Duration::ZERO).is_ok()).count();
        assert_eq!(admitted, WRONG_MAX as usize);
        attempts.right(here);
        assert_eq!(attempts.admit(here, Duration::ZERO).ok(), Some(FIRST_WAIT));
    }
}
