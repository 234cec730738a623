//! Rows of a group in strata where none of its rows was drawn.
//!
//! What was drawn of a group says nothing of strata where it was not drawn, and neither estimate of the variance has a part for them: of a group
//! in two strata, whose values are about 100 in the one and about 1,000 in the other, rows of the first alone would make an average of 100
//! sure. So intervals reach as far as rows that hide there may move them. A row of the group in a stratum is taken to be as large as the
//! stratum's mean, which the summary tells (as by the model, whose values do not decide what matches), and as many hide as go
//! unseen but for the error of the tail, ln(1/α) rows for each row drawn (the rule of three, [`super::missed`]):
//!
//! - an average may move towards the least and the greatest of these means by as many rows;
//! - of a sum of values of one sign the event that was not seen is the largest one, as in the upper bound of Fay and Feuer (1997);
//! - any other sum may move by as many rows.

use super::special::gamma_quantile;
use super::stratum::{Frame, Stratum};

/// What is known of rows of a group in strata where none of them was drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hidden {
    /// Rows that were not drawn there.
    rows: f64,
    /// Rows that one drawn row of these strata stands for, at most.
    weight: f64,
    /// The least and the greatest mean of these strata.
    least: f64,
    most: f64,
}

impl Hidden {
    /// There are no such strata.
    pub const NOWHERE: Hidden = Hidden { rows: 0.0, weight: 0.0, least: f64::INFINITY, most: f64::NEG_INFINITY };

    /// Takes in a stratum where rows of the group may be and none of them was drawn.
    pub fn add(&mut self, stratum: &Stratum) {
        if stratum.is_complete() {
            return;
        }
        let mean = stratum.mean();
        self.rows += (stratum.rows - stratum.sampled) as f64;
        self.weight = self.weight.max(stratum.rows as f64 / stratum.sampled.max(1) as f64);
        (self.least, self.most) = (self.least.min(mean), self.most.max(mean));
    }

    /// In all strata of a frame but these, which ascend.
    pub(super) fn but_in(frame: &Frame, mut drawn: impl Iterator<Item = u32>) -> Hidden {
        let mut hidden = Hidden::NOWHERE;
        let mut next = drawn.next();
        for (at, stratum) in frame.strata().iter().enumerate() {
            if next == Some(at as u32) {
                next = drawn.next();
            } else {
                hidden.add(stratum);
            }
        }
        hidden
    }

    /// Rows that go unseen but for a probability of `tail`.
    fn missed(&self, tail: f64) -> f64 {
        (self.weight * -tail.ln()).min(self.rows)
    }

    /// How far below and above the average of so many rows may be.
    pub(super) fn shift(&self, mean: f64, count: f64, tail: f64) -> (f64, f64) {
        let missed = self.missed(tail);
        if missed <= 0.0 {
            return (0.0, 0.0);
        }
        let part = missed / (count + missed);
        (part * (mean - self.least).max(0.0), part * (self.most - mean).max(0.0))
    }

    /// How far below and above a sum may be.
    pub(super) fn change(&self, tail: f64) -> (f64, f64) {
        let missed = self.missed(tail);
        if missed <= 0.0 { (0.0, 0.0) } else { (missed * (-self.least).max(0.0), missed * self.most.max(0.0)) }
    }

    /// What the largest event is worth that was not seen.
    pub(super) fn worth(&self) -> f64 {
        if self.weight > 0.0 { self.weight * self.least.abs().max(self.most.abs()) } else { 0.0 }
    }
}

/// How far below and above, if the value is that of k events of a like worth, and the next one is worth `next`, or as much as they.
pub(super) fn like_events(value: f64, worth: f64, next: f64, tail: f64) -> (f64, f64) {
    if worth.is_nan() || worth <= 0.0 {
        return (0.0, 0.0);
    }
    let next = next.max(worth);
    // Moments of the value with the next event. Where that is worth what the others are, these are k + 1 of them.
    let (mean, variance) = (value + next, value * worth + next * next);
    let below = value - worth * gamma_quantile(value / worth, tail);
    (below, variance / mean * gamma_quantile(mean * mean / variance, 1.0 - tail) - value)
}

#[cfg(test)]
mod tests {
    use super::super::{Aggregate, GroupSample, Known, Plan, interval};
    use super::*;

    fn about(value: f64) -> Stratum {
        let rows = 32_768u64;
        let sum = value * rows as f64;
        let mut stratum = Stratum::new(rows, Some(Known { sum, squares: value * sum, min: value, max: value }));
        stratum.draw_many(512, value * 512.0, value * value * 512.0);
        stratum
    }

    #[test]
    fn rows_of_one_stratum_do_not_make_sure_what_those_of_another_are() {
        for sign in [1.0, -1.0] {
            let frame = Frame::new(vec![about(sign * 100.0), about(sign * 1000.0)]);
            let mut group = GroupSample::default();
            group.add(0, sign * 100.0);
            let plan = Plan::new(2, 0.95);
            for (aggregate, truth) in [(Aggregate::Avg, 550.0), (Aggregate::Sum, 64.0 * 1100.0)] {
                let found = interval(aggregate, &frame, &group, &plan);
                let truth = sign * truth;
                assert!(found.lower <= truth && truth <= found.upper, "{aggregate:?}: {found:?}");
            }
            // Where it cannot be in the other one, there is no reason to doubt.
            group.set_hidden(Hidden::NOWHERE);
            let found = interval(Aggregate::Avg, &frame, &group, &plan);
            assert!((found.upper - found.lower).abs() < 1e-3, "{found:?}");
        }
    }

    #[test]
    fn the_next_event_is_like_the_others_unless_it_is_larger() {
        let plain = like_events(70.0, 10.0, 0.0, 0.0125);
        let as_one = |tail: f64| 10.0 * gamma_quantile(8.0, 1.0 - tail) - 70.0;
        assert!((plain.1 - as_one(0.0125)).abs() < 1e-9, "{plain:?}");
        let larger = like_events(70.0, 10.0, 100.0, 0.0125);
        assert!(larger.0 == plain.0 && larger.1 > 4.0 * plain.1, "{larger:?} beside {plain:?}");
    }

    #[test]
    fn no_more_rows_hide_than_there_are() {
        let mut hidden = Hidden::NOWHERE;
        assert_eq!((hidden.shift(5.0, 10.0, 0.01), hidden.change(0.01), hidden.worth()), ((0.0, 0.0), (0.0, 0.0), 0.0));
        let mut stratum = Stratum::new(40, Some(Known { sum: 80.0, squares: 160.0, min: 2.0, max: 2.0 }));
        stratum.draw_many(30, 60.0, 120.0);
        hidden.add(&stratum);
        hidden.add(&Stratum { sampled: 9, ..Stratum::new(9, None) });
        assert_eq!(hidden.change(1e-9), (0.0, 20.0));
        assert_eq!(hidden.shift(4.0, 10.0, 1e-9), (1.0, 0.0));
    }
}
