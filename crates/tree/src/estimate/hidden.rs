//! Rows of a group in strata where none of its rows was drawn.
//!
//! What was drawn of a group says nothing of strata where it was not drawn, and neither estimate of the variance has a part for them: of a group
//! in two strata, whose values are about 100 in the one and about 1,000 in the other, rows of the first alone would make an average of 100
//! sure. So intervals reach as far as rows that hide there may move them. Values of the group in a stratum are taken to be as all of the
//! stratum's, whose mean and variance the summary tells (as by the model, whose values do not decide what matches; NULL is no value, for such rows
//! match nothing). As many rows hide as go unseen but for the error of the tail: ln(1/α) for each that one drawn row stands for (the rule
//! of three, [`super::missed`]). If n_h hide in stratum h, of which a drawn row stands for w_h, then Σ n_h/w_h is at most ln(1/α); what they add
//! to a sum, or move an average by, is largest where all of them hide in strata of one rung, if these have so many rows.
//!
//! - An average may move towards the least and the greatest mean by as many rows, and by the spread of so few values, the more the fewer
//!   the other rows are, whose number is estimated, too.
//! - Any sum may move by as many rows.
//! - Of a sum of values of one sign the event that was not seen is besides the largest one, as in the upper bound of Fay and Feuer (1997).

use super::special::{gamma_quantile, normal_quantile};
use super::stratum::{Frame, Stratum};

/// What is known of rows of a group in strata where none of them was drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hidden {
    /// By the rung that the strata were read at, in the order in which they came: as many rows may hide in each of a rung.
    of_rungs: Vec<OfRung>,
}

/// Of the strata that were read at one rung.
#[derive(Clone, Debug, PartialEq)]
struct OfRung {
    rung: u32,
    /// Rows with values that were not drawn.
    rows: f64,
    /// Rows that one drawn row stands for, at most.
    weight: f64,
    /// The least and the greatest mean of a stratum.
    least: f64,
    most: f64,
    /// The largest variance of the values of a stratum.
    variance: f64,
    /// What one row is worth at most where values have one sign: the mean of a stratum's values, each weighted by its size.
    worth: f64,
}

impl OfRung {
    /// Rows that go unseen but for a probability of `tail`.
    fn missed(&self, tail: f64) -> f64 {
        (self.weight * -tail.ln()).min(self.rows)
    }
}

impl Hidden {
    /// There are no such strata.
    pub const NOWHERE: Hidden = Hidden { of_rungs: Vec::new() };

    /// Takes in a stratum where rows of the group may be and none of them was drawn.
    pub fn add(&mut self, stratum: &Stratum) {
        if stratum.is_complete() || stratum.values == 0 {
            return;
        }
        let rows = stratum.values.min(stratum.rows - stratum.sampled) as f64;
        let weight = stratum.rows as f64 / stratum.sampled.max(1) as f64;
        let (mean, square) = stratum.typical();
        let variance = (square - mean * mean).max(0.0);
        let worth = if mean == 0.0 { 0.0 } else { square / mean.abs() };
        match self.of_rungs.iter_mut().find(|of| of.rung == stratum.rung) {
            Some(of) => {
                of.rows += rows;
                of.weight = of.weight.max(weight);
                (of.least, of.most) = (of.least.min(mean), of.most.max(mean));
                (of.variance, of.worth) = (of.variance.max(variance), of.worth.max(worth));
            }
            None => {
                let rung = stratum.rung;
                self.of_rungs.push(OfRung { rung, rows, weight, least: mean, most: mean, variance, worth });
            }
        }
    }

    /// Whether there are none.
    pub(super) fn is_nowhere(&self) -> bool {
        self.of_rungs.is_empty()
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

    /// How far below and above the average of so many rows, at least, may be.
    pub(super) fn shift(&self, mean: f64, count: f64, tail: f64) -> (f64, f64) {
        self.farthest(tail, |of| {
            let missed = of.missed(tail);
            let part = missed / (count + missed);
            // The spread of few values moves an average farthest if they are as many as the others.
            let few = missed.min(count);
            let spread = -normal_quantile(tail) * (few * of.variance).sqrt() / (count + few);
            (part * (mean - of.least).max(0.0) + spread, part * (of.most - mean).max(0.0) + spread)
        })
    }

    /// How far below and above a sum may be.
    pub(super) fn change(&self, tail: f64) -> (f64, f64) {
        self.farthest(tail, |of| {
            let missed = of.missed(tail);
            let spread = -normal_quantile(tail) * (missed * of.variance).sqrt();
            (spread - missed * of.least, spread + missed * of.most)
        })
    }

    /// What the largest event is worth that was not seen, of values of one sign.
    pub(super) fn worth(&self) -> f64 {
        self.of_rungs.iter().map(|of| of.weight * of.worth).fold(0.0, f64::max)
    }

    fn farthest(&self, tail: f64, of: impl Fn(&OfRung) -> (f64, f64)) -> (f64, f64) {
        // Where there are fewer rows than may hide, others may hide elsewhere besides.
        let is_full = |of: &OfRung| of.missed(tail) >= of.rows;
        let with: fn(f64, f64) -> f64 =
            if self.of_rungs.iter().any(is_full) { |a, b| a + b.max(0.0) } else { f64::max };
        self.of_rungs.iter().map(of).fold((0.0, 0.0), |all, of| (with(all.0, of.0), with(all.1, of.1)))
    }
}

/// How far below and above, if the value is that of k events of a like worth, and the next one is worth `next`, or as much as they.
pub(super) fn like_events(value: f64, worth: f64, next: f64, tail: f64) -> (f64, f64) {
    // Of NaN the other one.
    let worth = worth.max(0.0);
    let next = next.max(worth);
    if next == 0.0 {
        return (0.0, 0.0);
    }
    // Moments of the value with the next event. Where that is worth what the others are, these are k + 1 of them.
    let (mean, variance) = (value + next, value * worth + next * next);
    let (k, k_above) = (value / worth, mean * mean / variance);
    if !k_above.is_finite() {
        return (f64::INFINITY, f64::INFINITY);
    }
    // Events of next to no worth are infinitely many: their sum is sure.
    let below = if k.is_finite() { value - worth * gamma_quantile(k, tail) } else { 0.0 };
    (below, variance / mean * gamma_quantile(k_above, 1.0 - tail) - value)
}

#[cfg(test)]
mod tests {
    use super::super::{Aggregate, GroupSample, Interval, Known, Plan, interval};
    use super::*;

    /// Read at one of 64, of so many rows with these moments.
    fn stratum(rows: u64, mean: f64, square: f64, (min, max): (f64, f64)) -> Stratum {
        let n = rows as f64;
        let mut stratum = Stratum::new(rows, Some(Known { sum: n * mean, squares: n * square, min, max }));
        let drawn = rows / 64;
        stratum.draw_many(drawn, drawn as f64 * mean, drawn as f64 * square);
        stratum
    }

    fn about(value: f64) -> Stratum {
        stratum(32_768, value, value * value, (value, value))
    }

    fn found(aggregate: Aggregate, strata: &[Stratum], group: &GroupSample) -> Interval {
        interval(aggregate, &Frame::new(strata.to_vec()), group, &Plan::new(2, 0.95))
    }

    #[track_caller]
    fn assert_holds(found: Interval, truth: f64) {
        assert!(found.lower <= truth && truth <= found.upper, "{found:?} has not {truth}");
    }

    #[test]
    fn rows_of_one_stratum_do_not_make_sure_what_those_of_another_are() {
        for sign in [1.0, -1.0] {
            let strata = [about(sign * 100.0), about(sign * 1000.0)];
            let mut group = GroupSample::default();
            group.add(0, sign * 100.0);
            for (aggregate, truth) in [(Aggregate::Avg, 550.0), (Aggregate::Sum, 64.0 * 1100.0)] {
                assert_holds(found(aggregate, &strata, &group), sign * truth);
            }
            // Where it cannot be in the other one, there is no reason to doubt.
            group.set_hidden(Hidden::NOWHERE);
            let found = found(Aggregate::Avg, &strata, &group);
            assert!((found.upper - found.lower).abs() < 1e-3, "{found:?}");
        }
    }

    #[test]
    fn rows_of_a_stratum_that_is_all_the_groups_do_not_make_a_sum_sure() {
        let strata = [about(100.0), about(1000.0)];
        let mut group = GroupSample::default();
        group.add_many(0, 512, 51_200.0, 5_120_000.0);
        let seen = 32_768.0 * 100.0;
        // As many hide in the other stratum as one draw in eighty leaves there.
        assert_holds(found(Aggregate::Sum, &strata, &group), seen + 280.0 * 1000.0);
    }

    #[test]
    fn values_that_spread_around_the_same_mean_are_not_sure() {
        let strata = [about(100.0), stratum(32_768, 100.0, 20_000.0, (0.0, 2_000.0))];
        let mut group = GroupSample::default();
        group.add(0, 100.0);
        for average in [90.0, 110.0] {
            assert_holds(found(Aggregate::Avg, &strata, &group), average);
        }
        // Nor where they are around 0, of both signs.
        let strata = [stratum(32_768, 0.0, 1.0, (-1.0, 1.0)), stratum(32_768, 0.0, 1e6, (-1e3, 1e3))];
        let mut group = GroupSample::default();
        (0..64).for_each(|at| group.add(0, [-1.0, 1.0][at % 2]));
        let spread = 1e3 * 64f64.sqrt();
        for sign in [1.0, -1.0] {
            assert_holds(found(Aggregate::Sum, &strata, &group), sign * 2.0 * spread);
            assert_holds(found(Aggregate::Avg, &strata, &group), sign * 2.0 * spread / 65.0 / 64.0);
        }
    }

    #[test]
    fn null_is_no_value() {
        // One row in ten of the second stratum has a value, which is ten times as large.
        let mut sparse = stratum(32_768, 100.0, 100_000.0, (0.0, 1000.0));
        sparse.values = 3_276;
        let strata = [about(100.0), sparse];
        let mut group = GroupSample::default();
        group.add(0, 100.0);
        assert_holds(found(Aggregate::Avg, &strata, &group), 550.0);
        assert_holds(found(Aggregate::Sum, &strata, &group), 64.0 * 1100.0);
        // Where there is none nothing hides.
        let lacking = Stratum { values: 0, ..stratum(32_768, 0.0, 0.0, (0.0, 0.0)) };
        let found = found(Aggregate::Avg, &[about(100.0), lacking], &group);
        assert!(found.upper - found.lower < 1e-3, "{found:?}");
    }

    #[test]
    fn what_hides_is_of_the_rung_that_its_stratum_was_read_at() {
        let mut hidden = Hidden::NOWHERE;
        let mut thick = Stratum::new(6_400, Some(Known { sum: 6.4e6, squares: 6.4e9, min: 1e3, max: 1e3 }));
        thick.restart(1);
        thick.draw_many(3_200, 3.2e6, 3.2e9);
        let thin = stratum(6_400, 1.0, 1.0, (1.0, 1.0));
        [thick, thin].iter().for_each(|stratum| hidden.add(stratum));
        assert_eq!(hidden.worth(), 2_000.0);
        let above = hidden.change(0.0125).1;
        assert!((above / (2_000.0 * 80f64.ln()) - 1.0).abs() < 1e-9, "{above}");
        // Many rows of the one move an average farther than few of the other.
        assert!(hidden.shift(500.0, 1e4, 0.0125).0 > 10.0 && hidden.shift(500.0, 1e4, 0.0125).1 < 1.0);
    }

    #[test]
    fn the_next_event_is_like_the_others_unless_it_is_larger() {
        let plain = like_events(70.0, 10.0, 0.0, 0.0125);
        let as_one = |tail: f64| 10.0 * gamma_quantile(8.0, 1.0 - tail) - 70.0;
        assert!((plain.1 - as_one(0.0125)).abs() < 1e-9, "{plain:?}");
        let larger = like_events(70.0, 10.0, 100.0, 0.0125);
        assert!(larger.0 == plain.0 && larger.1 > 4.0 * plain.1, "{larger:?} beside {plain:?}");
        // The others are sure.
        let one = like_events(70.0, 0.0, 10.0, 0.0125);
        assert!(one.0 == 0.0 && one.1 > 30.0, "{one:?}");
        assert_eq!(like_events(70.0, f64::NAN, 0.0, 0.0125), (0.0, 0.0));
        assert_eq!(like_events(1e200, 1e200, 1e200, 0.0125), (f64::INFINITY, f64::INFINITY));
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
