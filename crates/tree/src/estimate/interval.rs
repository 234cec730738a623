//! Intervals, computed from samples of strata.
//!
//! The estimator of a sum is, for each pooled stratum of N rows of which n were drawn,
//!
//! ```text
//! N [ ȳ + λ p (X̄ - x̄) + λ s(I,x) (1/n - 1/N) ]
//! ```
//!
//! with y = x where the row matches (I = 1) and else 0, p the share of the drawn rows that match, and X̄ the mean over
//! *all* rows, known from the summary: the difference estimator (Cochran, Sampling Techniques, 7.2), because where a
//! large part of a block matches, a draw with too many large values is seen to be one. The last term takes away the
//! bias of multiplying two sample means (Hartley and Ross 1954), so each stratum is unbiased, and so are ten thousand.
//! λ in [0, 1] is one number for the query: per stratum it would be fitted to noise.
//!
//! Its variance is estimated twice, and the larger is taken. (1) From the drawn rows, with the finite-population
//! correction. On skewed data this is too small just when the estimate is too small, since both miss the same large
//! rows; that is why plain intervals undercover. (2) From the summary's sum of squares, as if which rows match did not
//! depend on their values: this cannot miss large rows. Where (1) contradicts that, (2) is raised by how much more of
//! the sum than of the rows matches, and never falls by it: of an average few rows that happen to be large and alike
//! would vouch for each other. Of a stratum with dead rows no larger share of rows is taken to match than is alive: where
//! all that is alive matches and few rows are dead, a draw without one would else make the sum of all rows sure.
//!
//! The shape of the interval: a count is taken for a binomial of the same variance (Korn and Graubard 1998, around
//! Clopper and Pearson), a sum of values of one sign for k events of a like worth, k chosen to give the same variance
//! (Fay and Feuer 1997), and everything else for Student's t with as many degrees of freedom as rows matched. The
//! average of values of one sign is t's towards 0, and the farther of both away from it. Rows may hide in strata where
//! none was drawn ([`super::hidden`]). Bounds that need no probability (what was seen is there; what the summary
//! excludes is not) then cut it.

use super::hidden::{Hidden, like_events};
use super::sample::{Cell, GroupSample};
use super::special::{beta_quantile, gamma_quantile, normal_quantile, t_quantile};
use super::stratum::{Frame, Stratum};
use super::{Aggregate, Interval, Kind, Plan, missed};
use alluvia_types::planted;
use std::borrow::Cow;

/// From so many events on, a binomial is near enough to its score interval.
const MANY: f64 = 400.0;

/// The interval of one aggregate of one group at one look of the plan.
pub fn interval(aggregate: Aggregate, frame: &Frame, group: &GroupSample, plan: &Plan) -> Interval {
    let cells = pooled(frame, group);
    let drawn = cells.iter().map(|cell| cell.sum).sum::<f64>();
    let matches = cells.iter().map(|cell| cell.matches).sum::<u64>() as f64;
    let (exact_count, exact_sum) = group.exact();
    let open = &frame.open;
    if frame.is_complete() {
        let (count, sum) = (exact_count + matches, exact_sum + drawn);
        let value = match aggregate {
            Aggregate::Count => count,
            Aggregate::Sum => sum,
            Aggregate::Avg => sum / count,
        };
        return Interval { estimate: value, lower: value, upper: value, kind: Kind::Exact };
    }
    let kind = if open.unread { Kind::Bounds } else { Kind::Planned { looks: plan.looks() } };
    // Counts say themselves what was not seen.
    let hidden = if aggregate == Aggregate::Count { Cow::Owned(Hidden::NOWHERE) } else { group.hidden(frame) };
    let about = About { frame, cells: &cells, hidden: &hidden, alpha: plan.alpha() };
    match aggregate {
        Aggregate::Count => {
            let (estimate, lower, upper) = about.count();
            let seen = exact_count + matches;
            cut(exact_count + estimate, exact_count + lower, exact_count + upper, seen, seen + open.undrawn, kind)
        }
        Aggregate::Sum => {
            let (estimate, lower, upper) = about.sum();
            let seen = exact_sum + drawn;
            let (least, most) = (seen + open.least, seen + open.most);
            cut(exact_sum + estimate, exact_sum + lower, exact_sum + upper, least, most, kind)
        }
        Aggregate::Avg => {
            let (estimate, lower, upper) = about.average(exact_count, exact_sum);
            // No mean leaves the range of what it is made of: what was seen, and unseen rows within theirs.
            let unseen = about.count().2.min(matches + open.undrawn) - matches;
            let (seen_count, seen_sum) = (exact_count + matches, exact_sum + drawn);
            let with = |extreme: f64| {
                if unseen > 0.0 { (seen_sum + unseen * extreme) / (seen_count + unseen) } else { seen_sum / seen_count }
            };
            let (least, most) = (with(open.min), with(open.max));
            let seen = if seen_count > 0.0 { seen_sum / seen_count } else { estimate };
            cut(estimate, lower, upper, least.min(seen), most.max(seen), kind)
        }
    }
}

fn cut(estimate: f64, lower: f64, upper: f64, least: f64, most: f64, kind: Kind) -> Interval {
    if estimate.is_nan() {
        return Interval { estimate, lower: least, upper: most, kind: Kind::Bounds };
    }
    // Rounding may leave `least` a little above `most`.
    let estimate = estimate.max(least).min(most);
    Interval { estimate, lower: lower.max(least).min(estimate), upper: upper.min(most).max(estimate), kind }
}

/// The group's cells by pooled stratum.
fn pooled(frame: &Frame, group: &GroupSample) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::with_capacity(group.cells().len());
    let mut is_sorted = true;
    for cell in group.cells() {
        let pool = frame.pool_of(cell.stratum);
        match cells.last_mut() {
            Some(last) if last.stratum == pool => {
                last.matches += cell.matches;
                last.sum += cell.sum;
                last.squares += cell.squares;
            }
            last => {
                is_sorted &= last.is_none_or(|last| last.stratum < pool);
                cells.push(Cell { stratum: pool, ..*cell });
            }
        }
    }
    if !is_sorted {
        // Rungs are interleaved; what lies apart of one pool comes together.
        cells.sort_by_key(|cell| cell.stratum);
        cells.dedup_by(|from, cell| {
            let same = from.stratum == cell.stratum;
            if same {
                cell.matches += from.matches;
                cell.sum += from.sum;
                cell.squares += from.squares;
            }
            same
        });
    }
    cells
}

/// One group, and how sure to be.
struct About<'a> {
    frame: &'a Frame,
    cells: &'a [Cell],
    hidden: &'a Hidden,
    alpha: f64,
}

/// An estimate with the two estimates of its variance.
#[derive(Clone, Copy, Debug, Default)]
struct Estimate {
    value: f64,
    /// Its variance, from the drawn rows.
    drawn: f64,
    /// The same, from the summaries.
    model: f64,
    /// The sum that the model expects.
    modelled: f64,
}

impl Estimate {
    fn variance(&self) -> f64 {
        self.drawn.max(self.model)
    }
}

/// Second moments of one pooled stratum around its means, as drawn and as modelled.
struct Moments {
    rows: f64,
    /// Whether there is a summary to compare with.
    known: bool,
    /// N² (1/n - 1/N) n/(n-1)
    factor: f64,
    share: f64,
    /// What of that the model has: no more than is alive.
    model_share: f64,
    y: f64,
    x: f64,
    known_x: f64,
    unbias: f64,
    yy: f64,
    yi: f64,
    ii: f64,
    xx: f64,
    xy: f64,
    xi: f64,
    known_squares: f64,
    model_xx: f64,
}

impl Moments {
    /// `None` where nothing can be said: fewer than two rows were drawn.
    fn of(pool: &Stratum, cell: &Cell) -> Option<Moments> {
        if pool.is_complete() || pool.sampled < 2 {
            return None;
        }
        let (rows, n) = (pool.rows as f64, pool.sampled as f64);
        let share = cell.matches as f64 / n;
        let mut unsure = 1.0 / n - 1.0 / rows;
        if planted("wrong finite-population term") {
            unsure = unsure.min(1.0 / rows);
        }
        let (y, x) = (cell.sum / n, pool.sampled_sum / n);
        let squares = cell.squares / n;
        let (known_x, known_squares) = pool.known.map_or((x, 0.0), |known| (known.sum / rows, known.squares / rows));
        let model_xx = (known_squares - known_x * known_x).max(0.0);
        Some(Moments {
            rows,
            known: pool.known.is_some(),
            factor: rows * rows * unsure * n / (n - 1.0),
            share,
            model_share: share.min(1.0 - pool.dead as f64 / rows),
            y,
            x,
            known_x,
            unbias: unsure * n / (n - 1.0),
            yy: (squares - y * y).max(0.0),
            yi: y * (1.0 - share),
            ii: share * (1.0 - share),
            xx: (pool.sampled_squares / n - x * x).max(0.0),
            xy: squares - x * y,
            xi: y - share * x,
            known_squares,
            model_xx,
        })
    }

    /// The estimate of the pool's sum.
    fn total(&self, lambda: f64) -> f64 {
        let known = if self.known { self.share * (self.known_x - self.x) + self.xi * self.unbias } else { 0.0 };
        self.rows * (self.y + lambda * known)
    }

    /// Variances of y - r I - λ p x, as drawn and as modelled.
    fn variances(&self, r: f64, lambda: f64, excess: f64) -> (f64, f64) {
        let slope_of = |share: f64| if self.known { lambda * share } else { 0.0 };
        let slope = slope_of(self.share);
        let drawn = self.yy - 2.0 * r * self.yi + r * r * self.ii - 2.0 * slope * (self.xy - r * self.xi)
            + slope * slope * self.xx;
        // If values do not decide what matches, x goes along with y as p, and with I not at all.
        let (share, slope) = (self.model_share, slope_of(self.model_share));
        let modelled = |excess: f64| {
            let matched = (share * excess).min(1.0);
            let y = matched * self.known_x;
            matched * self.known_squares - y * y - 2.0 * r * y * (1.0 - share) + r * r * share * (1.0 - share)
                - (2.0 * share - slope) * slope * self.model_xx
        };
        let model = modelled(1.0).max(modelled(excess));
        (
            self.factor * drawn.max(0.0),
            if self.known { self.factor * model.max(0.0) } else { self.factor * drawn.max(0.0) },
        )
    }
}

impl About<'_> {
    fn moments(&self) -> impl Iterator<Item = Moments> {
        self.cells.iter().filter_map(|cell| Moments::of(&self.frame.pools()[cell.stratum as usize], cell))
    }

    /// What pools contribute that were read in full, or hardly at all: (count, sum).
    fn aside(&self) -> (f64, f64) {
        self.cells.iter().fold((0.0, 0.0), |(count, sum), cell| {
            let pool = &self.frame.pools()[cell.stratum as usize];
            let weight = match pool.sampled {
                _ if pool.is_complete() => 1.0,
                1 => pool.rows as f64,
                _ => return (count, sum),
            };
            (count + weight * cell.matches as f64, sum + weight * cell.sum)
        })
    }

    /// Whether none of the group's rows was seen but in pools that were read in full.
    fn is_unseen(&self) -> bool {
        self.cells.iter().all(|cell| self.frame.pools()[cell.stratum as usize].is_complete())
    }

    /// Whether all drawn rows that match in pools without a summary have one value, but for rounding.
    fn is_unspread(&self) -> bool {
        let is_unknown = |cell: &&Cell| {
            let pool = &self.frame.pools()[cell.stratum as usize];
            pool.known.is_none() && !pool.is_complete()
        };
        let (matches, sum, squares) = self
            .cells
            .iter()
            .filter(is_unknown)
            .fold((0, 0.0, 0.0), |all, cell| (all.0 + cell.matches, all.1 + cell.sum, all.2 + cell.squares));
        matches > 0 && squares - sum * sum / matches as f64 <= 1e-12 * squares
    }

    /// How far to trust the known means: the slope of y - r I on p x over all pools, between 0 and 1.
    fn lambda(&self, r: f64) -> f64 {
        let (along, square) = self.moments().filter(|pool| pool.known).fold((0.0, 0.0), |(along, square), pool| {
            let weight = pool.factor * pool.share;
            (along + weight * (pool.xy - r * pool.xi), square + weight * pool.share * pool.xx)
        });
        if square > 0.0 { (along / square).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// How much more of the sum than of the rows matches, where all values have one sign: at least 1.
    fn excess(&self) -> f64 {
        let open = &self.frame.open;
        if open.min < 0.0 && open.max > 0.0 {
            return 1.0;
        }
        let (y, x) = self
            .moments()
            .fold((0.0, 0.0), |(y, x), pool| (y + pool.rows * pool.y, x + pool.rows * pool.share * pool.x));
        if x != 0.0 { (y / x).max(1.0) } else { 1.0 }
    }

    /// The sum, with the variance of y - r I.
    fn total(&self, r: f64) -> Estimate {
        let plain = self.modelled(0.0, self.lambda(0.0), 1.0);
        // The drawn rows contradict the model: values decide what matches. Then what matches more of the sum than of
        // the rows matches more of the squares, too.
        let excess = if plain.drawn > plain.model { self.excess() } else { 1.0 };
        if r == 0.0 && excess == 1.0 { plain } else { self.modelled(r, self.lambda(r), excess) }
    }

    fn modelled(&self, r: f64, lambda: f64, excess: f64) -> Estimate {
        let start = Estimate { value: self.aside().1, ..Estimate::default() };
        self.moments().fold(start, |total, pool| {
            let (drawn, model) = pool.variances(r, lambda, excess);
            Estimate {
                value: total.value + pool.total(lambda),
                drawn: total.drawn + drawn,
                model: total.model + model,
                modelled: total.modelled + excess * pool.rows * pool.share * pool.known_x,
            }
        })
    }

    /// Estimate, lower and upper.
    fn count(&self) -> (f64, f64, f64) {
        let open = &self.frame.open;
        let aside = self.aside().0;
        let (count, variance) = self.moments().fold((0.0, 0.0), |(count, variance), pool| {
            (count + pool.rows * pool.share, variance + pool.factor * pool.ii)
        });
        let estimate = aside + count;
        if open.unread {
            return (estimate, f64::NEG_INFINITY, f64::INFINITY);
        }
        let tail = self.alpha / 2.0;
        // Rows that hide in, or are lost from, the most thinly read pool without a trace.
        let trace = open.weight * -tail.ln();
        if count == 0.0 {
            return (estimate, estimate, aside + missed::most_missed(self.frame, tail) as f64);
        }
        let share = (count / open.rows).min(1.0);
        let drawn = if variance > 0.0 {
            share * (1.0 - share) * open.rows * open.rows / variance
        } else {
            open.rows / open.weight
        };
        let (k, rest) = (share * drawn, (1.0 - share) * drawn);
        let (mut lower, mut upper);
        if k.min(rest) < MANY {
            lower = if k > 0.0 { open.rows * beta_quantile(k, rest + 1.0, tail) } else { 0.0 };
            upper = if rest > 0.0 { open.rows * beta_quantile(k + 1.0, rest, 1.0 - tail) } else { open.rows };
        } else {
            let z = -normal_quantile(tail);
            let slope = (1.0 - 2.0 * share) * open.rows / drawn;
            let half = z * (variance + z * z * slope * slope / 4.0).sqrt();
            lower = count + z * z * slope / 2.0 - half;
            upper = count + z * z * slope / 2.0 + half;
        }
        upper = upper.max(count + trace);
        // Fewer than six matches have a lower bound of their own, which this would only spoil.
        let is_open = |cell: &&Cell| !self.frame.pools()[cell.stratum as usize].is_complete();
        if self.cells.iter().filter(is_open).map(|cell| cell.matches).sum::<u64>() >= 6 {
            lower = lower.min(count - trace);
        }
        // Rows come whole: that the truth is no fraction makes up for what the binomial lacks in small blocks.
        (estimate, aside + lower.floor(), aside + upper.ceil())
    }

    /// Estimate, lower and upper.
    fn sum(&self) -> (f64, f64, f64) {
        let open = &self.frame.open;
        let total = self.total(0.0);
        if open.unread {
            return (total.value, f64::NEG_INFINITY, f64::INFINITY);
        }
        let aside = self.aside().1;
        let value = total.value - aside;
        let tail = self.alpha / 2.0;
        if self.is_unseen() {
            let missed = missed::most_missed(self.frame, tail) as f64;
            return (aside, aside + missed * open.min.min(0.0), aside + missed * open.max.max(0.0));
        }
        let (less, more) = self.hidden.change(tail);
        let (below, above) = match self.one_sign(value, &total, self.hidden.worth(), tail) {
            Some((near, far)) if value > 0.0 => (near, far.max(more)),
            Some((near, far)) => (far.max(less), near),
            None => {
                let half = t_quantile(self.freedom(), 1.0 - tail) * total.variance().sqrt();
                (half.hypot(less), half.hypot(more))
            }
        };
        (total.value, total.value - below, total.value + above)
    }

    /// Estimate, lower and upper.
    fn average(&self, exact_count: f64, exact_sum: f64) -> (f64, f64, f64) {
        let counted = self.moments().fold(self.aside().0, |count, pool| count + pool.rows * pool.share) + exact_count;
        // The residual needs the mean, and the estimate of the mean the residual: twice is near enough.
        let mut mean = (self.total(0.0).value + exact_sum) / counted;
        let mut total = self.total(mean);
        mean = (total.value + exact_sum) / counted;
        total = self.total(mean);
        mean = (total.value + exact_sum) / counted;
        // Nothing drawn says nothing of the spread, and neither do drawn values that are alike, without a summary: rows
        // that were missed may be any.
        if self.frame.open.unread || self.is_unseen() || self.is_unspread() || !mean.is_finite() {
            return (mean, f64::NEG_INFINITY, f64::INFINITY);
        }
        let tail = self.alpha / 2.0;
        let half = t_quantile(self.freedom(), 1.0 - tail) * total.variance().sqrt();
        let value = total.value - self.aside().1;
        let (mut below, mut above) = (half, half);
        // Of values of one sign those that the sample lacks are the large ones.
        if let Some((_, further)) = self.one_sign(value, &total, 0.0, tail) {
            let far = if value > 0.0 { &mut above } else { &mut below };
            *far = far.max(further);
        }
        let (less, more) =
            self.hidden.shift(mean, self.fewest(counted, counted - exact_count - self.aside().0, tail), tail);
        (mean, mean - below / counted - less, mean + above / counted + more)
    }

    /// How far towards 0 and away from it the sum of values of one sign may be, of which one that was not seen may be
    /// worth `next`; `None` if they have two signs.
    fn one_sign(&self, value: f64, total: &Estimate, next: f64, tail: f64) -> Option<(f64, f64)> {
        let open = &self.frame.open;
        let is_one = open.min >= 0.0 && value > 0.0 || open.max <= 0.0 && value < 0.0;
        // What one event is worth, by the sample and by the model.
        let worth = (total.drawn / value.abs()).max(total.model / total.modelled.abs());
        is_one.then(|| like_events(value.abs(), worth, next, tail))
    }

    /// How few the rows may be, of which so many are estimated from pools, while others go unseen: both together but
    /// for a probability of `tail`, so that of each its square root is left.
    fn fewest(&self, counted: f64, estimated: f64, tail: f64) -> f64 {
        let k = self.drawn();
        if self.hidden.is_nowhere() || k <= 0.0 {
            return counted;
        }
        counted - estimated * (1.0 - gamma_quantile(k, tail.sqrt()) / k).max(0.0)
    }

    /// Matching rows that were drawn, fewer where their weights differ (Kish).
    fn drawn(&self) -> f64 {
        let (sum, squares) = self.cells.iter().fold((0.0, 0.0), |(sum, squares), cell| {
            let pool = &self.frame.pools()[cell.stratum as usize];
            let weight = if pool.is_complete() { 0.0 } else { pool.rows as f64 / pool.sampled as f64 };
            let matches = cell.matches as f64;
            (sum + weight * matches, squares + weight * weight * matches)
        });
        if squares > 0.0 { sum * sum / squares } else { 0.0 }
    }

    /// Degrees of freedom.
    fn freedom(&self) -> f64 {
        (self.drawn() - 1.0).max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Known;
    use super::*;

    #[test]
    fn rows_that_are_all_read_do_not_vouch_for_those_that_are_not() {
        let known = Known { sum: 1_000.0, squares: 2_000.0, min: 0.0, max: 10.0 };
        let mut light = Stratum::new(1_000, Some(known));
        light.draw_many(100, 100.0, 200.0);
        let heavy = Stratum { sampled: 5, rung: 1, ..Stratum::new(5, None) };
        let frame = Frame::new(vec![light, heavy]);
        let mut group = GroupSample::default();
        group.add_many(1, 3, 600.0, 120_000.0);
        let plan = Plan::new(2, 0.95);
        let sum = interval(Aggregate::Sum, &frame, &group, &plan);
        assert_eq!((sum.estimate, sum.lower), (600.0, 600.0));
        assert!(sum.upper > 600.0, "rows of the first stratum may match: {sum:?}");
        let avg = interval(Aggregate::Avg, &frame, &group, &plan);
        assert!(avg.lower < 100.0, "{avg:?}");
    }

    /// Rows of one draw that happen to be large, and alike, do not make an average sure.
    #[test]
    fn few_drawn_rows_never_make_an_average_sure() {
        let values: Vec<f64> = (0..200_000).map(|i| f64::from(i * 7919 % 1000)).collect();
        let known =
            Known { sum: values.iter().sum(), squares: values.iter().map(|x| x * x).sum(), min: 0.0, max: 999.0 };
        for sign in [1.0, -1.0] {
            let known = Known { sum: sign * known.sum, ..known };
            let known = if sign < 0.0 { Known { min: -999.0, max: 0.0, ..known } } else { known };
            let mut pool = Stratum::new(values.len() as u64, Some(known));
            values.iter().step_by(64).for_each(|x| pool.draw(sign * x));
            let frame = Frame::new(vec![pool]);
            for matches in 1..=4 {
                for value in (1..1000).step_by(37) {
                    let mut group = GroupSample::default();
                    (0..matches).for_each(|_| group.add(0, sign * f64::from(value)));
                    let avg = interval(Aggregate::Avg, &frame, &group, &Plan::new(2, 0.95));
                    let sd = 288.0 / f64::from(matches).sqrt();
                    assert!(avg.upper - avg.lower > sd, "{matches} of {value}: {avg:?}");
                    assert!(avg.lower <= sign * 500.0 && sign * 500.0 <= avg.upper, "{matches} of {value}: {avg:?}");
                }
            }
        }
        // Without a summary nothing at all is known of the others.
        for value in [7.0, 0.1, 2.5, 7.1, 9.99, -1e9 / 3.0] {
            let mut pool = Stratum::new(10_000, None);
            (0..100).for_each(|_| pool.draw(value));
            let mut group = GroupSample::default();
            (0..3).for_each(|_| group.add(0, value));
            let avg = interval(Aggregate::Avg, &Frame::new(vec![pool]), &group, &Plan::new(2, 0.95));
            assert!(avg.relative_error().is_infinite(), "{avg:?}");
        }
    }

    /// A draw that has missed the few dead rows does not make sure that there are none.
    #[test]
    fn what_is_all_alive_in_the_draw_is_not_sure() {
        let values: Vec<f64> = (0..10_000).map(|i| f64::from(i * 7919 % 1000)).collect();
        let known =
            Known { sum: values.iter().sum(), squares: values.iter().map(|x| x * x).sum(), min: 0.0, max: 999.0 };
        for dead in [0, 100] {
            let mut pool = Stratum { dead, ..Stratum::new(10_000, Some(known)) };
            let mut group = GroupSample::default();
            values.iter().step_by(100).for_each(|&x| {
                pool.draw(x);
                group.add(0, x);
            });
            let frame = Frame::new(vec![pool]);
            let [sum, avg] =
                [Aggregate::Sum, Aggregate::Avg].map(|of| interval(of, &frame, &group, &Plan::new(2, 0.95)));
            // One dead row of average value was to be drawn.
            let least = 100.0 * known.sum / 10_000.0;
            assert_eq!(sum.lower <= known.sum - least, dead > 0, "{sum:?}");
            assert_eq!(avg.upper - avg.lower > 1e-6, dead > 0, "{avg:?}");
        }
    }

    #[test]
    fn each_stratum_is_unbiased() {
        // All ways to draw 4 of 9 rows, with a match that goes along with the value.
        let rows: [(f64, bool); 9] = [
            (1.0, false),
            (2.0, true),
            (3.0, false),
            (40.0, true),
            (5.0, true),
            (0.0, false),
            (-7.0, true),
            (8.0, false),
            (90.0, true),
        ];
        let known = Known {
            sum: rows.iter().map(|row| row.0).sum(),
            squares: rows.iter().map(|row| row.0 * row.0).sum(),
            min: -7.0,
            max: 90.0,
        };
        let truth: f64 = rows.iter().filter(|row| row.1).map(|row| row.0).sum();
        for lambda in [0.0, 0.3, 1.0] {
            let (mut draws, mut total, mut squares, mut variance) = (0.0, 0.0, 0.0, 0.0);
            for subset in (0u32..1 << 9).filter(|subset| subset.count_ones() == 4) {
                let (mut pool, mut cell) = (Stratum::new(9, Some(known)), Cell::default());
                for (_, &(x, matches)) in rows.iter().enumerate().filter(|(i, _)| subset >> i & 1 == 1) {
                    pool.draw(x);
                    if matches {
                        cell.matches += 1;
                        cell.sum += x;
                        cell.squares += x * x;
                    }
                }
                let moments = Moments::of(&pool, &cell).unwrap();
                let estimate = moments.total(lambda);
                draws += 1.0;
                total += estimate;
                squares += (estimate - truth).powi(2);
                variance += moments.variances(0.0, lambda, 1.0).0;
            }
            assert!((total / draws - truth).abs() < 1e-9, "{lambda}: {} is not {truth}", total / draws);
            if lambda == 0.0 {
                assert!((variance / squares - 1.0).abs() < 1e-9, "{variance} {squares}");
            }
        }
    }
}
