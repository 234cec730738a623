//! The pace of writers: where rows come faster than they are sorted, each batch waits a little, in turn, so that none waits for long at a
//! full tail.
//!
//! As far as the tail is below its half nobody waits. Above, batches are let in at so many bytes a second: twice of what sorts were seen to
//! take at the half, and less and less the fuller the tail is. So what comes and what is sorted become equal before the tail is full,
//! whatever has changed since sorts were last seen.
//!
//! Invariants:
//! - Turns are in the order in which they were asked for.
//! - Before a sort was seen nobody waits here: the tail's bound holds all the same.

use std::time::Duration;

/// What part of a sort that was seen counts for how fast they are.
const WEIGHT: f64 = 0.3;
/// A tail is never so full that this part of the speed of sorts would not be let in.
const SPEED_MIN: f64 = 0.05;

/// How fast sorts are, and when the next batch has its turn.
#[derive(Debug, Default)]
pub(super) struct Pace {
    begun: Option<Duration>,
    /// Bytes a second that sorts take; 0 before one was seen.
    speed: f64,
    next: Duration,
    /// How often turns were forgotten.
    round: u64,
}

impl Pace {
    /// A sort begins.
    pub(super) fn sort_begins(&mut self, now: Duration) {
        self.begun = Some(now);
    }

    /// It has taken so many bytes out of the tail. What takes few of them says nothing of how fast sorts are: `least` are needed.
    pub(super) fn sort_ends(&mut self, now: Duration, bytes: u64, least: u64) {
        let Some(begun) = self.begun.take() else { return };
        let took = now.saturating_sub(begun).as_secs_f64();
        if bytes < least || took <= 0.0 {
            return;
        }
        let seen = bytes as f64 / took;
        self.speed = if self.speed == 0.0 { seen } else { self.speed + WEIGHT * (seen - self.speed) };
    }

    /// How long a batch of so many bytes waits for its turn, which it has herewith, in a tail of which so much is taken with it: more than
    /// half.
    pub(super) fn turn(&mut self, now: Duration, bytes: u64, taken: u64, bytes_max: u64) -> Duration {
        if self.speed == 0.0 {
            return Duration::ZERO;
        }
        let free = 1.0 - taken as f64 / bytes_max.max(1) as f64;
        let speed = self.speed * (4.0 * free).max(SPEED_MIN);
        let turn = self.next.max(now);
        self.next = turn + Duration::from_secs_f64(bytes as f64 / speed);
        turn - now
    }

    /// Whether a batch has its turn at once.
    pub(super) fn is_now(&self, now: Duration) -> bool {
        self.next <= now
    }

    /// There is room for all who wait, or none will come: their turns are over.
    pub(super) fn forget_turns(&mut self) {
        self.next = Duration::ZERO;
        self.round += 1;
    }

    /// Another one since turns were forgotten.
    pub(super) fn round(&self) -> u64 {
        self.round
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    /// Writers of one batch after the other, beside sorts of what is there, a step at a time, in time that is made up: the longest wait,
    /// how often the tail was full, and what was let in a second, all of it from the fifth second on: before a sort was seen
    /// everything is let in.
    fn run(is_paced: bool, sorted_per_s: impl Fn(f64) -> f64) -> (f64, u64, f64) {
        const MAX: u64 = 1 << 10;
        const STEP: u64 = 128;
        const TICK: f64 = 0.001;
        let at = Duration::from_secs_f64;
        let mut pace = Pace::default();
        let (mut taken, mut let_in, mut full, mut longest) = (0, 0, 0, 0f64);
        // Of each of four writers: since when it waits, and when its turn comes.
        let mut writers = [(0f64, 0f64, false); 4];
        let mut sort: Option<(f64, u64)> = None;
        let (ticks, seen_from) = (60_000, 5_000);
        for tick in 0..ticks {
            let now = tick as f64 * TICK;
            match sort {
                Some((until, bytes)) if until <= now => {
                    taken -= bytes;
                    pace.sort_ends(at(now), bytes * MB, 64 * MB);
                    sort = None;
                }
                None if taken >= 64 => {
                    let bytes = taken.min(STEP);
                    pace.sort_begins(at(now));
                    sort = Some((now + bytes as f64 / sorted_per_s(now), bytes));
                }
                _ => {}
            }
            for (since, turn, has_turn) in &mut writers {
                if !*has_turn {
                    let is_to_wait = is_paced && taken > MAX / 2;
                    let wait = if is_to_wait { pace.turn(at(now), MB, taken * MB, MAX * MB) } else { Duration::ZERO };
                    (*since, *turn, *has_turn) = (now, now + wait.as_secs_f64(), true);
                }
                if *turn > now {
                    continue;
                }
                let is_seen = tick >= seen_from;
                if taken + 1 > MAX {
                    full += u64::from(is_seen);
                    continue;
                }
                if is_seen {
                    longest = longest.max(now - *since);
                    let_in += 1;
                }
                (taken, *has_turn) = (taken + 1, false);
            }
        }
        (longest, full, let_in as f64 / ((ticks - seen_from) as f64 * TICK))
    }

    #[test]
    fn waits_are_spread_and_what_comes_is_what_is_sorted() {
        let (longest, full, _) = run(false, |_| 100.0);
        assert!(full > 0 && longest > 1.0, "without a pace the tail is full: {longest}");
        let (longest, full, per_s) = run(true, |_| 100.0);
        assert!(full == 0 && longest < 0.2, "{longest} s, {full}");
        assert!((95.0..130.0).contains(&per_s), "{per_s}");
    }

    #[test]
    fn sorts_that_become_slower_are_followed() {
        let (longest, full, _) = run(true, |now| if now < 20.0 { 200.0 } else { 60.0 });
        assert!(full == 0 && longest < 0.5, "{longest} s, {full}");
    }

    #[test]
    fn nobody_waits_before_a_sort_was_seen_and_then_one_after_the_other() {
        let mut pace = Pace::default();
        let second = Duration::from_secs(1);
        let turn = |pace: &mut Pace, at: Duration| pace.turn(at, 20 * MB, 6 * MB, 10 * MB);
        assert_eq!((turn(&mut pace, second), turn(&mut pace, second)), (Duration::ZERO, Duration::ZERO));
        pace.sort_begins(second);
        pace.sort_ends(second, 64 * MB, MB);
        assert_eq!(
            (turn(&mut pace, second), turn(&mut pace, second)),
            (Duration::ZERO, Duration::ZERO),
            "time stands still"
        );
        pace.sort_begins(second);
        pace.sort_ends(2 * second, 10 * MB, MB);
        assert_eq!(turn(&mut pace, 2 * second), Duration::ZERO, "the first has its turn");
        assert!(!pace.is_now(2 * second) && pace.is_now(4 * second));
        assert!(turn(&mut pace, 2 * second) > second, "the next one after it");
        pace.forget_turns();
        assert_eq!(turn(&mut pace, 2 * second), Duration::ZERO, "there was room for all");
    }
}
