//! Estimates over segments of which rows are dead, against the exact masked answer: rungs are drawn from without their dead rows, no summary
//! is taken for the rows that are alive, heavy rows that are dead do not count, and over the choice of the seed estimates are right in
//! the mean and their intervals hold as often as they say.

use crate::common::Random;
use crate::refine_model::{looks_of, refine};
use crate::sample_model::*;
use alluvia_tree::sample::{Estimates, Otherwise, Reseeded, Sampled};
use alluvia_tree::{BLOCK_ROWS, BoxQuery, rung_limit};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Which rows die.
#[derive(Clone, Copy, Debug)]
enum Dying {
    /// One in two hundred.
    Few,
    Half,
    /// All but one in thirty.
    NearlyAll,
    /// Every other block, and the last row of the others.
    Blocks,
    /// In each block those with the largest values, and the smallest ones.
    Extremes,
    /// Of the rows with the largest floats of the segment every other one, and a tenth of all.
    Heavy,
}

const ALL: [Dying; 6] = [Dying::Few, Dying::Half, Dying::NearlyAll, Dying::Blocks, Dying::Extremes, Dying::Heavy];

/// Kills rows of all segments, at versions of which the reader sees most.
fn kill(data: &mut Data, dying: Dying, random: &mut Random) {
    for segment in 0..data.segments.len() {
        let rows = &data.rows[segment];
        let by_float = |rows: std::ops::Range<usize>| {
            let mut order: Vec<usize> = rows.collect();
            order.sort_by(|&a, &b| data.rows[segment][b].float.total_cmp(&data.rows[segment][a].float));
            order
        };
        let dead: Vec<usize> = match dying {
            Dying::Few => (0..rows.len()).filter(|_| random.below(200) == 0).collect(),
            Dying::Half => (0..rows.len()).filter(|_| random.below(2) == 0).collect(),
            Dying::NearlyAll => (0..rows.len()).filter(|_| random.below(30) > 0).collect(),
            Dying::Blocks => (0..rows.len())
                .filter(|row| (row / BLOCK_ROWS).is_multiple_of(2) || row % BLOCK_ROWS == BLOCK_ROWS - 1)
                .collect(),
            Dying::Extremes => (0..rows.len())
                .step_by(BLOCK_ROWS)
                .flat_map(|first| {
                    let order = by_float(first..rows.len().min(first + BLOCK_ROWS));
                    let most = order.len() / 40;
                    order.iter().copied().take(most).chain(order.iter().rev().copied().take(most)).collect::<Vec<_>>()
                })
                .collect(),
            Dying::Heavy => {
                let largest = by_float(0..rows.len()).into_iter().take(rows.len() / 200).step_by(2);
                largest.chain((0..rows.len()).filter(|_| random.below(10) == 0)).collect()
            }
        };
        let kills = dead.into_iter().map(|row| (row as u64, 7 + random.below(8))).collect();
        data.kill(segment, &kills, 12);
    }
}

/// Some items, all rows, and a box of two levels; by groups, too.
fn questions(data: &Data) -> Vec<BoxQuery> {
    vec![
        question(data, &[(ITEM, codes(1..20))], &[]),
        question(data, &[], &[]),
        question(data, &[(ITEM, codes(4..24)), (COUNTRY, codes(1..15))], &[]),
        question(data, &[(ITEM, codes(1..25))], &[COUNTRY]),
    ]
}

fn estimates(data: &Data, question: &BoxQuery, seed: Option<u64>) -> Option<Estimates> {
    let how = How { goals: &GOALS, max_error: 1e9, otherwise: Otherwise::Reached, seed };
    match ask(data, question, &keys(data, question), &how).0 {
        Sampled::Estimates(found) => Some(found),
        Sampled::Exact => None,
        Sampled::Cannot => panic!("it can"),
    }
}

/// A segment that is drawn from itself knows its dead rows by their numbers, a rung by where its rows lie in their blocks.
#[test]
fn a_ladder_with_dead_rows_is_what_its_seed_draws() {
    for (seed, sigma) in [(3, 1.0), (13, 2.5)] {
        let mut data = data_of(seed, &[150_000, 60_000, 700], 30, sigma);
        let mut random = Random(seed);
        let mut compared = 0;
        for dying in ALL {
            kill(&mut data, dying, &mut random);
            for question in questions(&data) {
                let ladder = estimates(&data, &question, None);
                let seeded = estimates(&data, &question, Some(data.table.seed));
                assert_eq!(ladder.is_some(), seeded.is_some(), "{dying:?} {question:?}");
                let (Some(ladder), Some(seeded)) = (ladder, seeded) else { continue };
                compared += 1;
                assert_eq!((ladder.rows_drawn, ladder.rungs), (seeded.rows_drawn, seeded.rungs));
                assert_eq!(ladder.groups.len(), seeded.groups.len(), "{dying:?}");
                for ((group, a), (_, b)) in ladder.groups.iter().zip(&seeded.groups) {
                    for (a, b) in a.iter().zip(b) {
                        let (a, b) = (a.interval, b.interval);
                        for (a, b) in [(a.estimate, b.estimate), (a.lower, b.lower), (a.upper, b.upper)] {
                            let is_same = (a - b).abs() <= 1e-9 * b.abs() || a == b || a.is_nan() && b.is_nan();
                            assert!(is_same, "{dying:?}, group {group}: {a} {b}");
                        }
                    }
                }
            }
        }
        assert!(compared >= 20, "{compared} estimates were compared");
    }
}

/// The rows of a rung that a scan leaves out are those of its segment that are dead, and weigh little.
#[test]
fn the_dead_of_a_rung_are_those_of_its_segment() {
    let mut data = data(5, &[60_000, 20_000], 30);
    let mut random = Random(51);
    for dying in ALL {
        kill(&mut data, dying, &mut random);
        for (rows, of) in data.segments.iter().zip(&data.rows) {
            let weights = rows.segment.weights(0..rows.segment.meta().rows, data.table.seed).expect("reads");
            for rung in rows.segment.rungs() {
                let limit = rung_limit(rung.rung).expect("a limit");
                let (found, dead) = rows.rung_for(limit).expect("reads").expect("it has the rung");
                assert_eq!(found.rung, rung.rung);
                let light = of.iter().zip(&weights).filter(|(_, weight)| **weight < limit);
                let expected: Vec<bool> = light.map(|(row, _)| row.killed.is_some()).collect();
                assert_eq!(expected.len() as u64, found.segment.meta().rows);
                let is_dead = |row: u64| dead.as_ref().is_some_and(|dead| dead.contains(row));
                assert_eq!((0..expected.len() as u64).map(is_dead).collect::<Vec<_>>(), expected, "{dying:?}");
            }
        }
    }
}

#[test]
fn estimates_are_right_in_the_mean_and_intervals_hold() {
    let trials = std::env::var("SAMPLE_TRIALS").ok().and_then(|trials| trials.parse().ok()).unwrap_or(50u64);
    let (mut held, mut values) = (0, 0);
    for (seed, sigma) in [(5, 1.0), (15, 2.5)] {
        let mut data = data_of(seed, &[110_000, 50_000, 700], 30, sigma);
        let mut random = Random(seed);
        for dying in ALL {
            kill(&mut data, dying, &mut random);
            for question in questions(&data) {
                // Those without groups are soon answered.
                let times = if question.groups.is_empty() { 5 } else { 1 };
                let of_question = hold(&data, &question, times * trials, dying);
                (held, values) = (held + of_question.0, values + of_question.1);
            }
        }
    }
    println!("{held} of {values} hold in all");
    assert!(held as f64 >= 0.95 * values as f64, "{held} of {values}");
}

/// How many intervals hold, of how many.
fn hold(data: &Data, question: &BoxQuery, trials: u64, dying: Dying) -> (u64, u64) {
    let expected = exact(data, question);
    let there: Vec<usize> = (0..expected.totals.groups()).filter(|&group| expected.totals.rows(group) > 0).collect();
    let mut sums: BTreeMap<(usize, usize), (f64, f64)> = BTreeMap::new();
    let (mut held, mut values, mut sampled) = (0, 0, 0);
    for seed in 0..trials {
        let Some(found) = estimates(data, question, Some(seed)) else { continue };
        sampled += 1;
        check_groups(&found, &expected);
        let found: BTreeMap<_, _> = found.groups.into_iter().collect();
        for &group in &there {
            for (at, goal) in GOALS.iter().enumerate() {
                let truth = truth(&expected, group, goal);
                // The average of no values.
                if truth.is_nan() {
                    continue;
                }
                let interval = found.get(&group).map(|cells| cells[at].interval);
                if let Some(interval) = interval {
                    let slack = 1e-9 * truth.abs();
                    values += 1;
                    held += u64::from(interval.lower - slack <= truth && truth <= interval.upper + slack);
                }
                // What was not seen is estimated to be nothing.
                let estimate = interval.map_or(0.0, |of| if of.estimate.is_nan() { 0.0 } else { of.estimate });
                let (sum, squares) = sums.entry((group, at)).or_default();
                *sum += estimate - truth;
                *squares += (estimate - truth).powi(2);
            }
        }
    }
    let about = format!("{dying:?}, filters at {:?}", question.filters.iter().map(|of| of.level).collect::<Vec<_>>());
    // Of groups that are not seen all rows are read, and then all of a handful of blocks.
    let has_groups = !question.groups.is_empty();
    assert!(has_groups || sampled * 10 > trials * 9, "{about}: {sampled} of {trials} were sampled");
    println!("{about}: {held} of {values} hold");
    let least = 0.95 - 4.0 * (0.95f64 * 0.05 / sampled as f64).sqrt();
    assert!(values == 0 || held as f64 >= least * values as f64, "{about}: {held} of {values} hold");
    // Counts and sums: averages are quotients. Where few rows match, sums may not be told from 0, and where a group is not seen its
    // rows are read: then what was drawn decides that more is.
    let unbiased: &[usize] = match dying {
        _ if has_groups => &[],
        Dying::NearlyAll => &[0, 1],
        _ => &[0, 1, 2, 4],
    };
    for ((group, at), (sum, squares)) in sums.into_iter().filter(|((_, at), _)| unbiased.contains(at)) {
        let (count, truth) = (sampled as f64, truth(&expected, group, &GOALS[at]));
        let mean = sum / count;
        let error = ((squares / count - mean * mean).max(0.0) / (count - 1.0)).sqrt().max(1e-9 * truth.abs());
        let off = mean.abs() / error;
        assert!(off < 5.5, "{about}, group {group}, {:?}: {mean} off {truth}, {off} errors", GOALS[at]);
    }
    (held, values)
}

#[test]
fn all_looks_of_a_refinement_hold_and_its_end_is_exact() {
    let mut data = data_of(8, &[110_000, 30_000, 700], 30, 1.5);
    let identities = Arc::new(data.identities.clone());
    let mut random = Random(81);
    let (mut held, mut runs, mut with_looks) = (0, 0, 0);
    for dying in ALL {
        kill(&mut data, dying, &mut random);
        for question in [question(&data, &[(ITEM, codes(1..20))], &[]), question(&data, &[], &[])] {
            let expected = exact(&data, &question);
            for seed in 0..15 {
                let reseeded = (seed > 0).then(|| Reseeded { seed, identities: Arc::clone(&identities) });
                let (looks, found, _) = looks_of(refine(&question, reseeded), &data);
                assert_same(&found, &expected);
                with_looks += usize::from(looks.len() > 1);
                for (at, goal) in GOALS.iter().enumerate() {
                    let truth = truth(&expected, 0, goal);
                    let slack = 1e-9 * truth.abs();
                    let holds = looks
                        .iter()
                        .map(|look| look.groups[0].1[at].interval)
                        .all(|cell| cell.lower.is_nan() || cell.lower - slack <= truth && truth <= cell.upper + slack);
                    (runs, held) = (runs + 1, held + u64::from(holds));
                }
            }
        }
    }
    assert!(with_looks > 150, "{with_looks} runs have looks");
    assert!(held as f64 >= 0.93 * runs as f64, "{held} of {runs}");
}

/// As few rows as without them where few are dead; more where most are, and it is said.
#[test]
fn what_is_mostly_dead_is_drawn_from_a_thicker_rung() {
    let mut data = data(5, &[400_000], 30);
    let question = question(&data, &[(ITEM, codes(1..20))], &[]);
    let keys = keys(&data, &question);
    let mut drawn = |dying: Option<Dying>| {
        dying.into_iter().for_each(|dying| kill(&mut data, dying, &mut Random(7)));
        let how = How { goals: &GOALS[..1], max_error: 0.1, otherwise: Otherwise::Reached, seed: None };
        match ask(&data, &question, &keys, &how).0 {
            Sampled::Estimates(found) => (found.rows_drawn, found.rows_cut, found.holds),
            other => panic!("{dying:?}: {other:?}"),
        }
    };
    let (none, few, most) = (drawn(None), drawn(Some(Dying::Few)), drawn(Some(Dying::NearlyAll)));
    assert_eq!([none.1, few.1], [most.1; 2], "dead rows are rows of strata");
    assert!(few.2 && few.0 <= 2 * none.0 && few.0 * 8 <= few.1, "{few:?} beside {none:?}");
    assert!(most.0 >= 4 * few.0, "{most:?} beside {few:?}");
}

#[test]
fn of_nothing_but_dead_rows_there_is_nothing() {
    let mut data = data(5, &[60_000, 20_000], 30);
    for segment in 0..2 {
        let kills = (0..data.rows[segment].len() as u64).map(|row| (row, 9)).collect();
        data.kill(segment, &kills, 9);
    }
    for question in questions(&data) {
        let how = How { goals: &GOALS, max_error: 1e9, otherwise: Otherwise::Reached, seed: None };
        let (found, into) = ask(&data, &question, &keys(&data, &question), &how);
        assert!(matches!(found, Sampled::Exact), "{found:?}");
        assert_same(&into, &exact(&data, &question));
    }
}
