//! The API on small cases whose answers are known.

use super::*;

fn known(rows: &[f64]) -> Known {
    Known {
        sum: rows.iter().sum(),
        squares: rows.iter().map(|x| x * x).sum(),
        min: rows.iter().copied().fold(f64::INFINITY, f64::min),
        max: rows.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    }
}

fn drawn(rows: &[f64], n: usize, rung: u32) -> Stratum {
    let mut stratum = Stratum::new(rows.len() as u64, Some(known(rows)));
    stratum.restart(rung);
    rows[..n].iter().for_each(|x| stratum.draw(*x));
    stratum
}

#[test]
fn what_was_read_in_full_is_exact() {
    let rows: Vec<f64> = (0..50).map(f64::from).collect();
    let frame = Frame::new(vec![drawn(&rows, 50, 2)]);
    let mut group = GroupSample::default();
    group.add_exact(10, 1000.0);
    rows[..20].iter().for_each(|x| group.add(0, *x));
    for (aggregate, truth) in [(Aggregate::Count, 30.0), (Aggregate::Sum, 1190.0), (Aggregate::Avg, 1190.0 / 30.0)] {
        let found = interval(aggregate, &frame, &group, &Plan::new(2, 0.95));
        assert_eq!(found, Interval { estimate: truth, lower: truth, upper: truth, kind: Kind::Exact });
        assert!(found.is_good_enough(0.0));
    }
    assert!(
        next_allocation(&frame, &[(Aggregate::Sum, &group)], &[0.125, 0.5, 1.0], &Plan::new(2, 0.95), 0.0).is_empty()
    );
}

#[test]
fn an_average_of_which_nothing_was_drawn_may_be_anything_that_rows_may_be() {
    let rows: Vec<f64> = (0..6000).map(|row| f64::from(row % 100)).collect();
    let frame = Frame::new(vec![drawn(&rows, 100, 1)]);
    let mut group = GroupSample::default();
    group.add_exact(1, 12.5);
    let found = interval(Aggregate::Avg, &frame, &group, &Plan::new(2, 0.95));
    // Some sixty rows of the stratum may be the group's, all of them 0, or all of them 99.
    assert!(found.lower < 1.0 && found.upper > 90.0 && !found.is_good_enough(0.05), "{found:?}");
}

#[test]
fn a_count_covers_whatever_the_truth() {
    // Exactly, not by simulation: the probability of each draw is hypergeometric.
    let ln_choose =
        |n: f64, k: f64| special::ln_gamma(n + 1.0) - special::ln_gamma(k + 1.0) - special::ln_gamma(n - k + 1.0);
    let plan = Plan::new(1, 0.95);
    for (rows, n) in [(200u64, 40u64), (2000, 31), (90, 60)] {
        let frame = Frame::new(vec![Stratum { sampled: n, ..Stratum::new(rows, None) }]);
        let found: Vec<Interval> = (0..=n)
            .map(|m| {
                let mut group = GroupSample::default();
                (0..m).for_each(|_| group.add(0, 1.0));
                interval(Aggregate::Count, &frame, &group, &plan)
            })
            .collect();
        for truth in 0..=rows {
            let mut covered = 0.0;
            for m in n.saturating_sub(rows - truth)..=n.min(truth) {
                let (found, t) = (found[m as usize], truth as f64);
                if found.lower <= t + 1e-9 && t <= found.upper + 1e-9 {
                    let (rows, n, m) = (rows as f64, n as f64, m as f64);
                    covered += (ln_choose(t, m) + ln_choose(rows - t, n - m) - ln_choose(rows, n)).exp();
                }
            }
            assert!(covered >= 0.94, "{truth} of {rows}: {covered}");
        }
    }
}

#[test]
fn where_everything_matches_the_summary_tells_the_sum() {
    let rows: Vec<f64> = (0..8000).map(|i| f64::from(i * 7919 % 1000)).collect();
    let frame = Frame::new(vec![drawn(&rows, 125, 0)]);
    let mut group = GroupSample::default();
    rows[..125].iter().for_each(|x| group.add(0, *x));
    let found = interval(Aggregate::Sum, &frame, &group, &Plan::new(2, 0.95));
    let truth: f64 = rows.iter().sum();
    assert!((found.estimate / truth - 1.0).abs() < 1e-9, "{found:?} {truth}");
    // Not one row that does not match was seen, yet some may be there.
    let count = interval(Aggregate::Count, &frame, &group, &Plan::new(2, 0.95));
    assert!(count.upper == 8000.0 && count.lower < 8000.0 - 64.0 && count.lower > 7500.0, "{count:?}");
}

#[test]
fn intervals_stay_within_what_is_possible() {
    let rows: Vec<f64> = (0..640).map(|i| f64::from(i % 64)).collect();
    let frame = Frame::new(vec![drawn(&rows, 40, 0)]);
    let total: f64 = rows.iter().sum();
    for m in 0..=40 {
        for looks in [1, 2, 50] {
            let mut group = GroupSample::default();
            rows[..m].iter().for_each(|x| group.add(0, *x));
            let seen: f64 = rows[..m].iter().sum();
            let [count, sum, avg] = [Aggregate::Count, Aggregate::Sum, Aggregate::Avg]
                .map(|aggregate| interval(aggregate, &frame, &group, &Plan::new(looks, 0.99)));
            assert!(count.lower >= m as f64 && count.upper <= 600.0 + m as f64, "{count:?}");
            assert!(sum.lower >= seen && sum.upper <= total, "{sum:?}");
            assert!(avg.lower >= 0.0 && avg.upper <= 63.0, "{avg:?}");
            assert_eq!(avg.kind, if m == 0 { Kind::Bounds } else { Kind::Planned { looks } });
            for found in [count, sum, avg] {
                assert!(found.estimate.is_nan() || found.lower <= found.estimate && found.estimate <= found.upper);
            }
        }
    }
}

#[test]
fn signs_mirror() {
    let rows: Vec<f64> = (0..640).map(|i| f64::from(i * 37 % 64)).collect();
    let negative: Vec<f64> = rows.iter().map(|x| -x).collect();
    let found = [&rows, &negative].map(|rows| {
        let frame = Frame::new(vec![drawn(rows, 40, 0)]);
        let mut group = GroupSample::default();
        rows[..10].iter().for_each(|x| group.add(0, *x));
        interval(Aggregate::Sum, &frame, &group, &Plan::new(2, 0.95))
    });
    assert!(
        (found[0].lower + found[1].upper).abs() < 1e-6 && (found[0].upper + found[1].lower).abs() < 1e-6,
        "{found:?}"
    );
    assert!((found[0].relative_error() - found[1].relative_error()).abs() < 1e-9);
}

#[test]
fn nothing_read_gives_bounds() {
    let rows = [1.0, 2.0, 3.0];
    let frame = Frame::new(vec![drawn(&rows, 0, 0)]);
    let mut group = GroupSample::default();
    group.add_exact(5, 50.0);
    let plan = Plan::new(2, 0.95);
    let sum = interval(Aggregate::Sum, &frame, &group, &plan);
    assert_eq!((sum.lower, sum.upper, sum.kind), (50.0, 56.0, Kind::Bounds));
    let avg = interval(Aggregate::Avg, &frame, &group, &plan);
    assert_eq!((avg.lower, avg.upper), ((50.0 + 3.0) / 8.0, 10.0));
    let reads = next_allocation(&frame, &[(Aggregate::Sum, &group)], &[0.125, 1.0], &plan, 0.01);
    assert_eq!(reads, [Read { stratum: 0, rung: 0 }]);
}

#[test]
fn relative_errors_are_relative_to_the_truth() {
    let at =
        |lower, estimate, upper| Interval { estimate, lower, upper, kind: Kind::Planned { looks: 2 } }.relative_error();
    assert_eq!(at(80.0, 100.0, 110.0), 0.25);
    assert_eq!(at(-110.0, -100.0, -80.0), 0.25);
    assert_eq!(at(-1.0, 100.0, 110.0), f64::INFINITY);
    assert_eq!(at(0.0, 0.0, 0.0), 0.0);
    // What is known to be NULL is as exact as it gets, what may be is not.
    assert_eq!((Interval::NULL.relative_error(), at(f64::NEG_INFINITY, f64::NAN, f64::INFINITY)), (0.0, f64::INFINITY));
    assert!(Interval { estimate: 100.0, lower: 99.0, upper: 101.0, kind: Kind::Bounds }.is_good_enough(0.02));
}

#[test]
fn shares_that_estimates_are_off_fall_past_zero() {
    let at = |lower, estimate, upper| Interval { estimate, lower, upper, kind: Kind::Planned { looks: 2 } }.share_off();
    // Closing in on 100, from bounds on both sides of 0.
    let closing = [(-150.0, 300.0), (-20.0, 220.0), (1.0, 180.0), (50.0, 150.0), (80.0, 110.0), (100.0, 100.0)];
    let shares = closing.map(|(lower, upper)| at(lower, 100.0, upper));
    assert_eq!(shares, [2.5, 1.2, 0.99, 0.5, 0.2, 0.0]);
    assert_eq!([at(-110.0, -100.0, -80.0), at(-1.0, -0.5, 1.0)], [0.2, 3.0]);
    let unknown = at(f64::NEG_INFINITY, f64::NAN, f64::INFINITY);
    assert_eq!([unknown, at(-1.0, 0.0, 1.0), at(f64::NEG_INFINITY, 1.0, 2.0)], [f64::INFINITY; 3]);
    assert_eq!(Interval::NULL.share_off(), 0.0);
}

#[test]
fn a_group_never_seen_is_bounded() {
    let strata = (0..50).map(|_| Stratum { sampled: 128, ..Stratum::new(8192, None) }).collect();
    let frame = Frame::new(strata);
    let mut group = GroupSample::default();
    group.add_exact(7, 0.0);
    let found = unseen_count(&frame, &group, &Plan::new(2, 0.95));
    // The rule of three: ln(40) * 64 = 236.
    assert!(found.lower == 7.0 && (236.0..=244.0).contains(&found.upper), "{found:?}");
    let as_count = interval(Aggregate::Count, &frame, &group, &Plan::new(2, 0.95));
    assert!(as_count.upper >= found.upper);
}

#[test]
fn reading_goes_where_the_variance_is() {
    let even: Vec<f64> = (0..8192).map(|i| 10.0 + f64::from(i % 3)).collect();
    let wild: Vec<f64> = (0..8192).map(|i| f64::from(i * 7919 % 1009)).collect();
    let mut group = GroupSample::default();
    let mut strata = Vec::new();
    for stratum in 0..10u32 {
        let rows = if stratum % 5 == 0 { &wild } else { &even };
        strata.push(drawn(rows, 128, 0));
        rows[..64].iter().for_each(|x| group.add(stratum, *x));
    }
    let frame = Frame::new(strata);
    let plan = Plan::new(2, 0.95);
    let rates = [1.0 / 64.0, 0.125, 1.0];
    let error = interval(Aggregate::Sum, &frame, &group, &plan).relative_error();
    let reads = |max_error| next_allocation(&frame, &[(Aggregate::Sum, &group)], &rates, &plan, max_error);
    assert!(reads(error).is_empty());
    assert_eq!(reads(error * 0.5), [Read { stratum: 0, rung: 1 }, Read { stratum: 5, rung: 1 }]);
    // Ever more for ever less, up to everything.
    let cost = |max_error| reads(max_error).iter().map(|read| rates[read.rung as usize]).sum::<f64>();
    let costs = [0.9, 0.5, 0.2, 0.1, 0.01, 0.0].map(|part| cost(error * part));
    assert!(costs.is_sorted(), "{costs:?}");
    assert_eq!(costs[5], 10.0);
}
