//! Counts of wrong passwords, by the network that sent them and by role.
//!
//! Invariants:
//! - Who gives wrong passwords waits, longer each time, and is refused after many. What counts as one sender is a *network*: an address of
//!   IPv4, also where it comes within one of IPv6, or 64 bits of IPv6, which is the least that anybody is given.
//! - However many networks guess one role's password, together they get no more guesses than one network may have, after a first
//!   burst ([`GuessRate`]).
//! - A right password forgives the wrong ones of its role and no other's: whoever knows one role's password cannot guess another's by
//!   logging in between.
//! - Each role's are forgotten by themselves, whatever else comes from their network meanwhile.
//! - A password is counted as wrong before it is looked at, and forgiven if it is right: however many are tried at once, no more
//!   than the bounds are.
//! - Memory is bounded, and nobody goes uncounted for it: past so many, networks are counted in groups, and so are roles, always. Who shares
//!   a group with whom nobody can choose, since hashes are keyed.
//!
//! A bound by role can be turned against the role's owner: whoever guesses without end leaves no guess for them. So it is never a lock.
//! First, it is not asked where the role has logged in from before, of which this process remembers 10,000: an owner's own machines
//! and applications are only held to what they do themselves. Second, it gives way by itself, one look each three seconds, to whoever comes
//! then; nothing has to be unlocked. Third, one network alone cannot reach it, since it may not guess faster than it gives way. What remains:
//! an owner who comes from somewhere new, while many networks guess at their name, has to try several times, and so has everybody
//! after a restart. An address of somebody who guesses beside the owner, behind one router, is refused with them, as ever.

use crate::guess_rate::GuessRate;
use alluvia_types::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

/// Wrong passwords of one network for one role are forgotten after so long without one.
const FORGET_AFTER: Duration = Duration::from_secs(60);
/// From so many on, for whatever roles, a network is refused.
const WRONG_MAX: u32 = 20;
/// The wait after the first wrong password; it doubles with each.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(3);
/// Networks that are counted each by itself; past that new ones are counted in so many groups.
const NETWORKS_MAX: usize = 10_000;
const NETWORK_GROUPS: u64 = 1_024;
/// How often what is forgotten is dropped.
const DROP_EVERY: Duration = Duration::from_secs(1);
/// Pairs of a network and a role that has logged in from there that are remembered; the one that was longest ago makes room.
const FAMILIAR_MAX: usize = 10_000;

/// Wrong passwords by network and role. Times are monotonic, since any one moment.
#[derive(Debug, Default)]
pub struct Attempts {
    counted: Mutex<Counted>,
    /// Roles are remembered by hash: their names are whatever a client sends, of any length.
    hasher: RandomState,
}

impl Attempts {
    /// Refuses a network that has given too many wrong passwords lately.
    pub fn check(&self, peer: IpAddr, now: Duration) -> Result<()> {
        let counted = self.counted.lock();
        let sender = counted.sender(network(peer), &self.hasher);
        check(&counted.wrong, sender, now)
    }

    /// Lets a password of a role be looked at, unless its network has given too many wrong ones, or all have for this role: counts it as
    /// wrong until [`Attempts::right`] says otherwise, and gives how long its sender has to wait if it is.
    pub fn admit(&self, peer: IpAddr, role: &str, now: Duration) -> Result<Duration> {
        let (network, role) = (network(peer), self.hasher.hash_one(role));
        let mut counted = self.counted.lock();
        counted.drop_forgotten(now);
        let sender = counted.sender(network, &self.hasher);
        check(&counted.wrong, sender, now)?;
        if !counted.familiar.contains_key(&(network, role)) {
            counted.rate.admit(role, now)?;
        }
        Ok(count(&mut counted.wrong, sender, role, now))
    }

    /// A right password forgives the wrong ones of its role.
    pub fn right(&self, peer: IpAddr, role: &str) {
        let (network, role) = (network(peer), self.hasher.hash_one(role));
        let mut counted = self.counted.lock();
        let sender = counted.sender(network, &self.hasher);
        let forgiven = forgive(&mut counted.wrong, sender, role);
        // From somewhere familiar they were not counted for the role.
        if counted.welcome(network, role) {
            counted.rate.forgive(role, forgiven);
        }
    }
}

/// All that comes from where this does: what one customer is given.
fn network(peer: IpAddr) -> IpAddr {
    match peer.to_canonical() {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
    }
}

/// Who is counted together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Sender {
    Network(IpAddr),
    /// One of the groups of those that came when there were too many.
    Group(u64),
}

/// All that is counted.
#[derive(Debug, Default)]
struct Counted {
    wrong: Wrong,
    /// Of each role, from wherever it has not logged in before.
    rate: GuessRate,
    /// Where roles have logged in from, by when: the number of log-ins before.
    familiar: HashMap<(IpAddr, u64), u64>,
    log_ins: u64,
    /// When what is forgotten was dropped.
    dropped: Duration,
}

impl Counted {
    /// As whom a network is counted. One that some role has logged in from shares with nobody, so that those who are known are not
    /// refused for what strangers do.
    fn sender(&self, network: IpAddr, hasher: &RandomState) -> Sender {
        let own = Sender::Network(network);
        let is_familiar = || self.familiar.keys().any(|(known, _)| *known == network);
        if self.wrong.len() < NETWORKS_MAX || self.wrong.contains_key(&own) || is_familiar() {
            return own;
        }
        Sender::Group(hasher.hash_one(network) % NETWORK_GROUPS)
    }

    /// Drops what is forgotten, now and then: it goes through all.
    fn drop_forgotten(&mut self, now: Duration) {
        if now.saturating_sub(self.dropped) < DROP_EVERY {
            return;
        }
        self.dropped = now;
        self.wrong.retain(|_, known| {
            known.retain(|_, of_role| of_role.counts(now));
            !known.is_empty()
        });
        self.rate.drop_forgotten(now);
    }

    /// A role has logged in from a network; whether it is the first time.
    fn welcome(&mut self, network: IpAddr, role: u64) -> bool {
        self.log_ins += 1;
        let is_new = self.familiar.insert((network, role), self.log_ins).is_none();
        if self.familiar.len() > FAMILIAR_MAX {
            let oldest = self.familiar.iter().min_by_key(|(_, at)| **at).map(|(pair, _)| *pair);
            if let Some(pair) = oldest {
                self.familiar.remove(&pair);
            }
        }
        is_new
    }
}

type Wrong = HashMap<Sender, OfSender>;

/// What a sender has given, by role. There are never more roles than wrong passwords that count.
type OfSender = HashMap<u64, OfRole>;

/// How many wrong passwords a sender has given for a role, and when the last.
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
fn sum(known: &OfSender, now: Duration) -> u32 {
    known.values().filter(|of_role| of_role.counts(now)).map(|of_role| of_role.count).sum()
}

fn check(wrong: &Wrong, sender: Sender, now: Duration) -> Result<()> {
    match wrong.get(&sender) {
        Some(known) if sum(known, now) >= WRONG_MAX => {
            Err(Error::new(ErrorKind::Authentication, "too many wrong passwords came from this address")
                .with_hint(format!("wait {} seconds", FORGET_AFTER.as_secs())))
        }
        _ => Ok(()),
    }
}

fn count(wrong: &mut Wrong, sender: Sender, role: u64, now: Duration) -> Duration {
    let known = wrong.entry(sender).or_default();
    // No more than the bound are ever counted: `check` comes first, under the same lock.
    let of_role = known.entry(role).or_default();
    let before = if of_role.counts(now) { of_role.count } else { 0 };
    *of_role = OfRole { count: before + 1, last: now };
    FIRST_WAIT.saturating_mul(1 << (sum(known, now) - 1).min(10)).min(LONGEST_WAIT)
}

/// Forgets a sender's wrong passwords for a role; gives how many they were.
fn forgive(wrong: &mut Wrong, sender: Sender, role: u64) -> u32 {
    let Some(known) = wrong.get_mut(&sender) else { return 0 };
    let forgiven = known.remove(&role).map_or(0, |of_role| of_role.count);
    if known.is_empty() {
        wrong.remove(&sender);
    }
    forgiven
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guess_rate;

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

    /// The address of this number, in a network of its own.
    fn stranger(at: u32) -> IpAddr {
        IpAddr::from(at.to_be_bytes())
    }

    #[test]
    fn who_has_many_addresses_of_one_network_is_one_sender() {
        let (attempts, now) = (Attempts::default(), Duration::ZERO);
        let guesses = |addresses: &mut dyn Iterator<Item = IpAddr>, role: &str| {
            addresses.filter(|&address| attempts.admit(address, role, now).is_ok()).count()
        };
        let of_network = |network: u128| {
            (0..1_000_u128).map(move |host| IpAddr::from(((network << 64) | (host << 40)).to_be_bytes()))
        };
        assert_eq!(guesses(&mut of_network(0x2001_0db8_0000_0001), "ada"), WRONG_MAX as usize);
        assert_eq!(guesses(&mut of_network(0x2001_0db8_0000_0002), "ada"), WRONG_MAX as usize);
        // An address of IPv4 is the same however it is written, and shares with no other.
        let (plain, mapped): (IpAddr, IpAddr) = ("10.0.0.1".parse().unwrap(), "::ffff:10.0.0.1".parse().unwrap());
        assert_eq!(guesses(&mut [plain, mapped].into_iter().cycle().take(100), "bob"), WRONG_MAX as usize);
        assert!(attempts.check("10.0.0.2".parse().unwrap(), now).is_ok());
        assert!(attempts.check("::ffff:10.0.0.2".parse().unwrap(), now).is_ok());
        attempts.right(mapped, "bob");
        assert!(attempts.check(plain, now).is_ok());
    }

    #[test]
    fn past_those_that_are_counted_alone_networks_are_counted_in_groups() {
        let (attempts, now) = (Attempts::default(), Duration::ZERO);
        // So many roles that none of them is guessed at too often.
        let guess = |at: u32| attempts.admit(stranger(at), &format!("role {at}"), now).is_ok();
        let home = stranger(u32::MAX);
        attempts.right(home, "ada");
        let groups = WRONG_MAX * NETWORK_GROUPS as u32;
        let looked_at = (0..200_000).filter(|&at| guess(at)).count();
        assert!(looked_at <= NETWORKS_MAX + groups as usize, "{looked_at}");
        assert!(attempts.counted.lock().wrong.len() <= NETWORKS_MAX + NETWORK_GROUPS as usize);
        // Who is known there goes on, and is counted alone.
        assert_eq!(attempts.admit(home, "ada", now).ok(), Some(FIRST_WAIT));
        assert!(attempts.check(stranger(500_000), now).is_err(), "all groups are full");
        assert!(attempts.check(stranger(500_000), now + FORGET_AFTER).is_ok());
        assert!(attempts.admit(stranger(500_000), "ada", now + FORGET_AFTER).is_ok());
        assert_eq!(attempts.counted.lock().wrong.len(), 1, "the rest is forgotten");
    }

    #[test]
    fn many_networks_guess_one_role_no_faster_than_one_does() {
        let (attempts, second) = (Attempts::default(), Duration::from_secs(1));
        let (home, new) = (stranger(1), stranger(2));
        attempts.admit(home, "ada", Duration::ZERO).unwrap();
        attempts.right(home, "ada");
        // Ten new networks a second, for an hour.
        let (mut looked_at, mut refused) = (0, None);
        for at in 0..36_000_u32 {
            match attempts.admit(stranger(1_000 + at), "ada", second * (at / 10)) {
                Ok(_) => looked_at += 1,
                Err(error) => refused = Some(error),
            }
        }
        assert_eq!(looked_at, guess_rate::MOST + 3_600 / 3 - 1);
        let refused = refused.unwrap();
        assert!(refused.message().contains("too many wrong passwords"), "{refused}");
        let now = second * 3_600;
        while attempts.admit(stranger(3), "ada", now).is_ok() {}
        // Others are as ever (but for those that share a group), and so is the owner where they have logged in before.
        let others = (0..100).filter(|at| attempts.admit(stranger(4), &format!("role {at}"), now).is_ok()).count();
        assert_eq!(others, WRONG_MAX as usize);
        for _ in 0..WRONG_MAX {
            attempts.admit(home, "ada", now).unwrap();
        }
        assert!(attempts.admit(home, "ada", now).is_err(), "its own bound holds");
        // From elsewhere it is whoever comes first, each time that one may.
        let later = now + guess_rate::EVERY;
        assert!(attempts.admit(new, "ada", later).is_ok() && attempts.admit(stranger(5), "ada", later).is_err());
        attempts.right(new, "ada");
        assert!(attempts.admit(stranger(5), "ada", later).is_ok(), "what was right is not counted");
        assert!(attempts.admit(new, "ada", later).is_ok() && attempts.admit(new, "ada", later).is_ok());
    }

    #[test]
    fn one_network_alone_never_exhausts_a_role() {
        let (attempts, here, there) = (Attempts::default(), stranger(1), stranger(2));
        for second in 0..10_000 {
            let now = Duration::from_secs(second);
            while attempts.admit(here, "ada", now).is_ok() {}
            assert!(attempts.admit(there, "ada", now).is_ok(), "{second}");
            attempts.right(there, "ada");
            attempts.counted.lock().familiar.clear();
        }
    }

    #[test]
    fn places_that_are_familiar_are_bounded() {
        let attempts = Attempts::default();
        let most = FAMILIAR_MAX as u32;
        (0..most).for_each(|at| attempts.right(stranger(at), "ada"));
        attempts.right(stranger(0), "ada");
        attempts.right(stranger(most), "ada");
        let counted = attempts.counted.lock();
        let role = attempts.hasher.hash_one("ada");
        let is_familiar = |at: u32| counted.familiar.contains_key(&(stranger(at), role));
        assert_eq!((counted.familiar.len(), is_familiar(0), is_familiar(1)), (FAMILIAR_MAX, true, false));
    }
}
