//! The textbook's interval, to be shown beside ours: normal theory over strata, one look, no care for skew.

use super::special::normal_quantile;
use super::{Aggregate, Frame, GroupSample, Interval, Kind};

/// Estimate and normal-theory interval, as if it were looked at once.
///
/// It covers less often than it says where values are skewed, and less still where one stops when it is narrow.
pub fn textbook(aggregate: Aggregate, frame: &Frame, group: &GroupSample, confidence: f64) -> Interval {
    let (estimate, error) = standard_error(aggregate, frame, group);
    let half = -normal_quantile((1.0 - confidence) / 2.0) * error;
    let kind = if frame.is_complete() { Kind::Exact } else { Kind::Planned { looks: 1 } };
    Interval { estimate, lower: estimate - half, upper: estimate + half, kind }
}

/// The estimate and its standard error (Cochran, Sampling Techniques, 5.3 and, for averages, 6.11).
pub(super) fn standard_error(aggregate: Aggregate, frame: &Frame, group: &GroupSample) -> (f64, f64) {
    let (exact_count, exact_sum) = group.exact();
    // Count, sum, and the variance of sum - r count.
    let weigh = |r: f64| {
        let (mut count, mut sum, mut variance) = (exact_count, exact_sum, 0.0);
        for cell in group.cells() {
            let stratum = &frame.strata()[cell.stratum as usize];
            let (rows, n, matches) = (stratum.rows as f64, stratum.sampled as f64, cell.matches as f64);
            count += rows * matches / n;
            sum += rows * cell.sum / n;
            if n > 1.0 {
                let mean = (cell.sum - r * matches) / n;
                let squares = (cell.squares - 2.0 * r * cell.sum + r * r * matches) / n;
                variance += rows * rows * (1.0 / n - 1.0 / rows) * n / (n - 1.0) * (squares - mean * mean).max(0.0);
            }
        }
        (count, sum, variance)
    };
    match aggregate {
        Aggregate::Count => {
            let (mut count, mut variance) = (exact_count, 0.0);
            for cell in group.cells() {
                let stratum = &frame.strata()[cell.stratum as usize];
                let (rows, n) = (stratum.rows as f64, stratum.sampled as f64);
                let share = cell.matches as f64 / n;
                count += rows * share;
                if n > 1.0 {
                    variance += rows * rows * (1.0 / n - 1.0 / rows) * n / (n - 1.0) * share * (1.0 - share);
                }
            }
            (count, variance.sqrt())
        }
        Aggregate::Sum => {
            let (_, sum, variance) = weigh(0.0);
            (sum, variance.sqrt())
        }
        Aggregate::Avg => {
            let (count, sum, _) = weigh(0.0);
            let (_, _, variance) = weigh(sum / count);
            (sum / count, variance.sqrt() / count)
        }
    }
}
