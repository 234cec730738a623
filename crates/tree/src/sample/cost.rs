//! The cost model of answers, exact ones and estimates: counts of work by kind, and nanoseconds for each kind.
//!
//! Invariants:
//! - Work is counted before it is done, from summaries alone; counting reads no stream.
//! - Costs decide what is read, never what is said of it: a wrong coefficient costs time, not truth.
//!
//! The coefficients are nanoseconds of one thread; only their ratios matter. They are guesses that agree with the one
//! ratio that was measured before (a drawn row costs as much as three that are read exactly, at 1/16 of 20M rows),
//! until somebody lets `cargo run -p alluvia-tree --example sample_speed` fit them: it answers boxes both ways, and
//! prints what fits the counts of [`Work`] to the times.

use std::ops::{Add, Mul};

/// A kind of work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A node's codes are held against a filter.
    Node,
    /// What summaries know of a node is gathered: its share of matching rows, and each measure's sums.
    Fact,
    /// A group that may be in a node is noted, and looked for in what was drawn.
    Cell,
    /// A block, or a part of one, is read: its mask is made, and its streams are found.
    Piece,
    /// A byte of packed codes is held against a range.
    Code,
    /// A packed code is looked up in a set, with all others of its block.
    LookedUp,
    /// A code is looked up by itself: of wide codes, and of sets without a bitmap.
    Singly,
    /// A packed integer is summed under a mask.
    Integer,
    /// The same of a float that is no decimal number.
    Float,
    /// The square of a value is summed, too, or its bounds are kept.
    Square,
    /// A level or a measure of a row that matches is brought to the row's group.
    Scattered,
    /// The same of a drawn row.
    Sown,
    /// A level of a heavy row is held against a filter, or its value is added.
    Heavy,
    /// An interval passes over one stratum.
    Stratum,
    /// An interval is made: quantiles of a few distributions.
    Interval,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 15] = [
        Kind::Node,
        Kind::Fact,
        Kind::Cell,
        Kind::Piece,
        Kind::Code,
        Kind::LookedUp,
        Kind::Singly,
        Kind::Integer,
        Kind::Float,
        Kind::Square,
        Kind::Scattered,
        Kind::Sown,
        Kind::Heavy,
        Kind::Stratum,
        Kind::Interval,
    ];

    /// What one costs, in nanoseconds: `examples/sample_speed` prints what it finds beside this.
    pub fn nanos(self) -> f64 {
        match self {
            Kind::Node => 25.0,
            Kind::Fact => 60.0,
            Kind::Cell => 40.0,
            Kind::Piece => 300.0,
            Kind::Code => 0.05,
            Kind::LookedUp => 0.12,
            Kind::Singly => 2.0,
            Kind::Integer => 0.10,
            Kind::Float => 0.30,
            Kind::Square => 0.15,
            Kind::Scattered => 2.0,
            Kind::Sown => 3.5,
            Kind::Heavy => 3.0,
            Kind::Stratum => 30.0,
            Kind::Interval => 6_000.0,
        }
    }

    /// Whether several threads share it.
    fn is_shared(self) -> bool {
        match self {
            Kind::Node | Kind::Fact | Kind::Cell | Kind::Heavy | Kind::Stratum | Kind::Interval => false,
            Kind::Piece
            | Kind::Code
            | Kind::LookedUp
            | Kind::Singly
            | Kind::Integer
            | Kind::Float
            | Kind::Square
            | Kind::Scattered
            | Kind::Sown => true,
        }
    }
}

/// Beginning and ending one more thread, in nanoseconds.
const THREAD_NANOS: f64 = 30_000.0;

/// How much there is to do of each kind.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Work([f64; Kind::ALL.len()]);

impl Work {
    /// How much of one kind.
    pub fn of(&self, kind: Kind) -> f64 {
        self.0[kind as usize]
    }

    /// The work of one kind alone.
    pub fn only(&self, kind: Kind) -> Work {
        let mut work = Work::default();
        work.count(kind, self.of(kind));
        work
    }

    /// Counts more of a kind.
    pub(super) fn count(&mut self, kind: Kind, more: f64) {
        self.0[kind as usize] += more;
    }

    /// From beginning to end, with so many threads.
    pub fn nanos(&self, threads: usize) -> f64 {
        let threads = threads.max(1) as f64;
        let of = |kind: Kind| {
            let nanos = self.of(kind) * kind.nanos();
            if kind.is_shared() { nanos / threads } else { nanos }
        };
        Kind::ALL.into_iter().map(of).sum::<f64>() + (threads - 1.0) * THREAD_NANOS
    }
}

impl Add for Work {
    type Output = Work;

    fn add(mut self, other: Work) -> Work {
        self.0.iter_mut().zip(other.0).for_each(|(own, more)| *own += more);
        self
    }
}

impl Mul<f64> for Work {
    type Output = Work;

    fn mul(self, times: f64) -> Work {
        Work(self.0.map(|count| count * times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_places_of_their_own_and_costs() {
        for (at, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, at);
            assert!(kind.nanos() > 0.0);
        }
    }

    #[test]
    fn threads_share_reading_and_nothing_else() {
        let mut reading = Work::default();
        reading.count(Kind::Code, 1e9);
        let mut looking = Work::default();
        looking.count(Kind::Interval, 1e3);
        assert!((reading.nanos(2) - THREAD_NANOS - reading.nanos(1) / 2.0).abs() < 1.0);
        assert!((looking.nanos(2) - THREAD_NANOS - looking.nanos(1)).abs() < 1.0);
        let both = reading + looking * 2.0;
        assert!((both.nanos(1) - reading.nanos(1) - 2.0 * looking.nanos(1)).abs() < 1.0);
        assert_eq!(both.nanos(0), both.nanos(1));
    }
}
