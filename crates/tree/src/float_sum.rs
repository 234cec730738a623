//! Compensated sums of floats: a sum, and beside it what rounding has lost so far (Knuth's two-sum, TAOCP 2, 4.2.2).

/// Interleaved sums of a block.
pub(crate) const LANES: usize = 8;

/// The rounded sum of two floats and the rounding error.
#[inline(always)]
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let of_b = sum - a;
    (sum, (a - (sum - of_b)) + (b - of_b))
}

/// A float sum and what is to be added to it.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Compensated {
    sum: f64,
    rest: f64,
}

impl Compensated {
    /// Of nothing.
    pub(crate) const ZERO: Compensated = Compensated { sum: 0.0, rest: 0.0 };

    /// Of one value.
    pub(crate) fn of(value: f64) -> Compensated {
        Compensated { sum: value, rest: 0.0 }
    }

    #[inline]
    pub(crate) fn add(&mut self, value: f64) {
        let (sum, rest) = two_sum(self.sum, value);
        self.sum = sum;
        self.rest += rest;
    }

    /// Adds another sum.
    #[inline]
    pub(crate) fn add_sum(&mut self, other: Compensated) {
        self.add(other.sum);
        self.add(other.rest);
    }

    pub(crate) fn total(self) -> f64 {
        self.sum + self.rest
    }
}

/// Compensated sums, side by side: a row adds to the one of its place modulo [`LANES`], so that a block's sum does not depend on how
/// its rows are handed in.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct LaneSum {
    pub(crate) sums: [f64; LANES],
    pub(crate) rests: [f64; LANES],
}

impl LaneSum {
    #[inline(always)]
    pub(crate) fn add(&mut self, lane: usize, value: f64) {
        let (sum, rest) = two_sum(self.sums[lane], value);
        self.sums[lane] = sum;
        self.rests[lane] += rest;
    }

    /// Adds values, the first of them at row `place`, each as `map` has it.
    pub(crate) fn add_all(&mut self, values: &[f64], place: usize, map: impl Fn(f64) -> f64) {
        let head = values.len().min((LANES - place % LANES) % LANES);
        let (head, body) = values.split_at(head);
        for (at, &value) in head.iter().enumerate() {
            self.add((place + at) % LANES, map(value));
        }
        let chunks = body.chunks_exact(LANES);
        let tail = chunks.remainder();
        for chunk in chunks {
            for (lane, &value) in chunk.iter().enumerate() {
                self.add(lane, map(value));
            }
        }
        for (lane, &value) in tail.iter().enumerate() {
            self.add(lane, map(value));
        }
    }

    /// The sum and what is to be added to it. An overflown sum is infinite and has no rest.
    pub(crate) fn total(&self) -> (f64, f64) {
        let (mut sum, mut rest) = (0.0, 0.0);
        for lane in 0..LANES {
            let (next, lost) = two_sum(sum, self.sums[lane]);
            sum = next;
            rest += lost + self.rests[lane];
        }
        if !sum.is_finite() || !rest.is_finite() {
            return (self.sums.iter().sum(), 0.0);
        }
        two_sum(sum, rest)
    }
}
