//! Groups that the sample may have missed.
//!
//! A group of C rows, c of them in a stratum of N rows of which n were drawn, is missed there with the hypergeometric
//! probability (N-c choose n) / (N choose n), and altogether with the product over the strata. The largest C that is
//! missed with a probability of at least alpha is the bound. For equal strata at rate t it is close to ln(1/alpha)/t (for
//! t = 1/64 and 97.5 %: 235 rows), the rule of three.
//!
//! The logarithm of each factor is concave in c, so the worst way to hide C rows is found greedily: each row goes where
//! hiding it costs least.

use super::stratum::{Frame, Stratum};
use super::{GroupSample, Interval, Kind, Plan};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Where the next row would hide.
struct HiddenRow {
    /// The logarithm of the probability that it stays unseen.
    log: f64,
    rows: u64,
    sampled: u64,
}

impl HiddenRow {
    /// Given that `hidden` rows of the pool lie outside the sample, the next does with (N-n-c)/(N-c).
    fn new(rows: u64, sampled: u64) -> Option<HiddenRow> {
        (rows > sampled).then(|| HiddenRow { log: ((rows - sampled) as f64 / rows as f64).ln(), rows, sampled })
    }
}

impl PartialEq for HiddenRow {
    fn eq(&self, other: &HiddenRow) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for HiddenRow {}
impl PartialOrd for HiddenRow {
    fn partial_cmp(&self, other: &HiddenRow) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for HiddenRow {
    fn cmp(&self, other: &HiddenRow) -> Ordering {
        self.log.total_cmp(&other.log)
    }
}

/// The most rows that a group can have in the frame if it was drawn nowhere, but for a probability of `alpha`.
pub(super) fn most_missed(frame: &Frame, alpha: f64) -> u64 {
    most_hidden(frame.strata(), alpha)
}

fn most_hidden(strata: &[Stratum], alpha: f64) -> u64 {
    // What was not read at all hides everything.
    let unread: u64 = strata.iter().filter(|stratum| stratum.sampled == 0).map(|stratum| stratum.rows).sum();
    let read = strata.iter().filter(|stratum| stratum.sampled > 0);
    let mut places: BinaryHeap<HiddenRow> =
        read.filter_map(|stratum| HiddenRow::new(stratum.rows, stratum.sampled)).collect();
    let (mut log, mut hidden) = (0.0, 0);
    while let Some(place) = places.pop() {
        log += place.log;
        if log < alpha.ln() {
            break;
        }
        hidden += 1;
        places.extend(HiddenRow::new(place.rows - 1, place.sampled));
    }
    unread + hidden
}

/// The count of a group that was never seen: from 0 (or what is known exactly) to the largest that goes unseen.
///
/// One-sided, so that the whole of a look's share of the error is above. It holds for one group named beforehand. For
/// all groups that a dictionary names at once, take a plan whose error is divided by their number.
pub fn unseen_count(frame: &Frame, group: &GroupSample, plan: &Plan) -> Interval {
    assert_eq!(group.matches(), 0, "the group was seen");
    let (count, _) = group.exact();
    let upper = count + most_missed(frame, plan.alpha()) as f64;
    let kind = if upper == count { Kind::Exact } else { Kind::Planned { looks: plan.looks() } };
    Interval { estimate: count, lower: count, upper, kind }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strata(sizes: &[(u64, u64)]) -> Vec<Stratum> {
        sizes.iter().map(|&(rows, sampled)| Stratum { sampled, ..Stratum::new(rows, None) }).collect()
    }

    /// The probability that c rows of a stratum are missed.
    fn missed(rows: u64, sampled: u64, c: u64) -> f64 {
        (0..c).map(|i| (rows.saturating_sub(sampled + i)) as f64 / (rows - i) as f64).product()
    }

    #[test]
    fn one_stratum_is_the_hypergeometric_bound() {
        for (rows, sampled, alpha) in
            [(8192, 128, 0.025), (8192, 128, 0.05), (100, 30, 0.05), (10, 9, 0.05), (40, 1, 0.01)]
        {
            let most = most_hidden(&strata(&[(rows, sampled)]), alpha);
            assert!(missed(rows, sampled, most) >= alpha, "{rows} {sampled}");
            assert!(missed(rows, sampled, most + 1) < alpha, "{rows} {sampled}");
        }
        assert_eq!(most_hidden(&strata(&[(8192, 128)]), 0.025), 230);
        assert_eq!(most_hidden(&strata(&[(100, 100)]), 0.025), 0);
        assert_eq!(most_hidden(&strata(&[(100, 0), (5, 5)]), 0.025), 100);
    }

    #[test]
    fn several_strata_hide_in_the_worst_way() {
        // All ways to split C rows, tried out.
        let sizes = [(12, 3), (9, 5), (20, 4)];
        for alpha in [0.2, 0.05, 0.01, 0.001] {
            let mut best = 0;
            for a in 0..=9 {
                for b in 0..=4 {
                    for c in 0..=16 {
                        let p = missed(12, 3, a) * missed(9, 5, b) * missed(20, 4, c);
                        if p >= alpha {
                            best = best.max(a + b + c);
                        }
                    }
                }
            }
            assert_eq!(most_hidden(&strata(&sizes), alpha), best, "{alpha}");
        }
    }
}
