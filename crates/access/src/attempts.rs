//! Wrong passwords by address, and by the role whose they should have been.
//!
//! Invariants:
//! - Who gives wrong passwords waits, longer each time, and is refused after many.
//! - A right password forgives the wrong ones of its role and no other's: whoever knows one role's password cannot guess another's by
//!   logging in between.
//! - Each role's are forgotten by themselves, whatever else comes from their address meanwhile.
//! - A password is counted as wrong before it is looked at, and forgiven if it is right: however many are tried at once, no more
//!   than the bound are.

use alluvia_types::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::Duration;

/// Wrong passwords of one address for one role are forgotten after so long without one.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// From so many on, for whatever roles, an address is refused.
const WRONG_MAX: u32 = 20;
/// The wait after the first wrong password; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(3);
/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 10_000;

/// Wrong passwords by address and role. Times are monotonic, since any one moment.
#[derive(Debug, Default)]
pub struct Attempts {
    wrong: Mutex<Wrong>,
    /// Roles are remembered by hash: their names are whatever a client sends, of any length.
    hasher: RandomState,
}

impl Attempts {
    /// Refuses an address that has given too many wrong passwords lately.
    pub fn check(&self, peer: IpAddr, now: Duration) -> Result<()> {
        check(&self.wrong.lock(), peer, now)
    }

    /// Lets a password of a role be looked at, unless its address has given too many wrong ones: counts it as wrong until
    /// [`Attempts::right`] says otherwise, and gives how long its sender has to wait if it is.
    pub fn admit(&self, peer: IpAddr, role: &str, now: Duration) -> Result<Duration> {
        let mut wrong = self.wrong.lock();
        check(&wrong, peer, now)?;
        Ok(count(&mut wrong, peer, self.hasher.hash_one(role), now))
    }

    /// A right password forgives the wrong ones of its role.
    pub fn right(&self, peer: IpAddr, role: &str) {
        let mut wrong = self.wrong.lock();
        let Some(of_address) = wrong.get_mut(&peer) else { return };
        of_address.remove(&self.hasher.hash_one(role));
        if of_address.is_empty() {
            wrong.remove(&peer);
        }
    }
}

type Wrong = HashMap<IpAddr, OfAddress>;

/// What an address has given, by role. There are never more roles than wrong passwords that count.
type OfAddress = HashMap<u64, OfRole>;

/// How many wrong passwords an address has given for a role, and when the last.
#[derive(Clone, Copy, Debug, Default)]
struct OfRole {
    count: u32,
    last: Duration,
}

impl OfRole {
    fn counts(self, now: Duration) -> bool {
        now.saturating_sub(self.last) < FORGET_AFTER
    }
}

/// How many are not forgotten yet.
fn sum(known: &OfAddress, now: Duration) -> u32 {
    known.values().filter(|of_role| of_role.counts(now)).map(|of_role| of_role.count).sum()
}

fn check(wrong: &Wrong, peer: IpAddr, now: Duration) -> Result<()> {
    match wrong.get(&peer) {
        Some(known) if sum(known, now) >= WRONG_MAX => {
            Err(Error::new(ErrorKind::Authentication, "too many wrong passwords came from this address")
                .with_hint(format!("wait {} seconds", FORGET_AFTER.as_secs())))
        }
        _ => Ok(()),
    }
}

fn count(wrong: &mut Wrong, peer: IpAddr, role: u64, now: Duration) -> Duration {
    wrong.retain(|_, known| {
        known.retain(|_, of_role| of_role.counts(now));
        !known.is_empty()
    });
    if wrong.len() >= ADDRESSES_MAX && !wrong.contains_key(&peer) {
        // An attack from everywhere: nobody is remembered, everybody waits.
        return LONGEST_WAIT;
    }
    let known = wrong.entry(peer).or_default();
    // No more than the bound are ever counted: `check` comes first, under the same lock.
    let of_role = known.entry(role).or_default();
    *of_role = OfRole { count: of_role.count + 1, last: now };
    FIRST_WAIT.saturating_mul(1 << (sum(known, now) - 1).min(10)).min(LONGEST_WAIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_passwords_make_an_address_wait_and_then_refuse_it() {
        let attempts = Attempts::default();
        let (here, there): (IpAddr, IpAddr) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let waits: Vec<Duration> =
            (0..WRONG_MAX).map(|at| attempts.admit(here, "ada", Duration::from_secs(at.into())).unwrap()).collect();
        assert!(waits.is_sorted() && waits[0] == FIRST_WAIT && waits[19] == LONGEST_WAIT);
        let now = Duration::from_secs(30);
        assert!(attempts.check(here, now).is_err() && attempts.check(there, now).is_ok());
        assert!(attempts.check(here, now + FORGET_AFTER).is_ok());
        attempts.right(here, "ada");
        assert!(attempts.check(here, now).is_ok());
    }

    #[test]
    fn guesses_made_at_once_are_bounded_as_those_made_in_turn() {
        let (attempts, here) = (Attempts::default(), IpAddr::from([10, 0, 0, 1]));
        // None of them has been looked at yet.
        let admitted = (0..200).filter(|_| attempts.admit(here, "ada", Duration::ZERO).is_ok()).count();
        assert_eq!(admitted, WRONG_MAX as usize);
        attempts.right(here, "ada");
        assert_eq!(attempts.admit(here, "ada", Duration::ZERO).ok(), Some(FIRST_WAIT));
    }

    #[test]
    fn a_right_password_forgives_its_role_alone() {
        let (attempts, here) = (Attempts::default(), IpAddr::from([10, 0, 0, 1]));
        let now = Duration::ZERO;
        // Whoever knows the password of `own` guesses that of `other`, and logs in between.
        let mut guesses = 0;
        while guesses < 1_000 && attempts.admit(here, "other", now).is_ok() {
            guesses += 1;
            if attempts.admit(here, "own", now).is_ok() {
                attempts.right(here, "own");
            }
        }
        assert_eq!(guesses, WRONG_MAX);
        assert!(attempts.check(here, now).is_err(), "logging in forgave the guesses");
        // Another role's mistakes count for the address, and are forgiven with it.
        let there = IpAddr::from([10, 0, 0, 2]);
        (0..WRONG_MAX / 2).for_each(|_| drop(attempts.admit(there, "ada", now)));
        (0..WRONG_MAX / 2).for_each(|_| drop(attempts.admit(there, "bob", now)));
        assert!(attempts.check(there, now).is_err());
        attempts.right(there, "bob");
        assert_eq!(attempts.admit(there, "bob", now).ok(), Some(LONGEST_WAIT), "ten of ada's are left");
        attempts.right(there, "ada");
        attempts.right(there, "bob");
        assert_eq!(attempts.admit(there, "bob", now).ok(), Some(FIRST_WAIT));
    }

    #[test]
    fn wrong_passwords_are_forgotten_whoever_else_logs_in() {
        let (attempts, here) = (Attempts::default(), IpAddr::from([10, 0, 0, 1]));
        assert_eq!(attempts.admit(here, "bob", Duration::ZERO).ok(), Some(FIRST_WAIT));
        for at in 0..10 {
            attempts.admit(here, "ada", Duration::from_secs(at * 30)).unwrap();
            attempts.right(here, "ada");
        }
        let now = Duration::from_secs(300);
        assert_eq!(attempts.admit(here, "bob", now).ok(), Some(FIRST_WAIT), "five minutes have passed");
        // Until then they count for all of their address.
        assert_eq!(attempts.admit(here, "ada", now + Duration::from_secs(1)).ok(), Some(2 * FIRST_WAIT));
        // Somebody who logs in every 59 seconds, beside somebody who fails once an hour, is never refused.
        let later = |at: u64| now + Duration::from_secs(59 * at);
        for at in 1..2_000 {
            if at % 61 == 0 {
                attempts.admit(here, "bob", later(at)).unwrap();
            }
            attempts.admit(here, "ada", later(at)).unwrap();
            attempts.right(here, "ada");
        }
    }
}
