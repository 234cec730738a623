//! Groups of a handful of rows, of which one or a few are drawn: each has an interval that holds as often as it says, and none is lost.

use crate::sample_model::{
    CITY, COUNTRY, Data, GOALS, How, ITEM, ask, check_groups, codes, data, exact, keys, question, truth,
};
use alluvia_tree::estimate::{Aggregate, Kind};
use alluvia_tree::sample::{Goal, Otherwise, Sampled};

/// Estimates of single groups, and how many of them hold.
#[derive(Default)]
struct Held {
    estimates: u64,
    held: u64,
    /// The narrowest interval of an average, as a share of the truth.
    narrowest: f64,
}

/// Draws the groups again and again, and takes what the first look reached, or the second.
fn held(data: &Data, level: usize, groups: &[u32], goal: Goal, max_error: f64) -> Held {
    let question = question(data, &[(ITEM, codes(1..2_000)), (level, groups.to_vec())], &[level]);
    let (keys, expected) = (keys(data, &question), exact(data, &question));
    let mut counted = Held { narrowest: f64::INFINITY, ..Held::default() };
    for seed in 0..200 {
        let how = How { goals: &[goal], max_error, otherwise: Otherwise::Reached, seed: Some(seed) };
        let (Sampled::Estimates(found), _) = ask(data, &question, &keys, &how) else { continue };
        check_groups(&found, &expected);
        for (group, cells) in &found.groups {
            let (cell, truth) = (cells[0].interval, truth(&expected, *group, &goal));
            if cell.kind == Kind::Exact {
                continue;
            }
            counted.estimates += 1;
            counted.held += u64::from(cell.lower <= truth && truth <= cell.upper);
            counted.narrowest = counted.narrowest.min((cell.upper - cell.lower) / truth.abs());
        }
    }
    counted
}

/// A row or two that happen to be large would vouch for each other, if what was drawn alone said how far values spread.
#[test]
fn intervals_of_groups_of_which_a_few_rows_are_drawn_hold() {
    let data = data(11, &[120_000, 30_000], 3_000);
    for goal in GOALS {
        for (level, max_error) in [(COUNTRY, 1e9), (CITY, 0.01)] {
            let counted = held(&data, level, &[5, 6, 7, 8], goal, max_error);
            let Held { estimates, held, narrowest } = counted;
            println!("{goal:?} {max_error}: {held} of {estimates} hold, the narrowest {narrowest:.3}");
            assert!(estimates > 200, "{goal:?} {max_error}: {estimates} estimates");
            let least = 0.95 - 4.0 * (0.95f64 * 0.05 / estimates as f64).sqrt();
            assert!(held as f64 >= least * estimates as f64, "{goal:?} {max_error}: {held} of {estimates} hold");
            if goal.aggregate == Aggregate::Avg {
                assert!(narrowest > 0.05, "{goal:?} {max_error}: an average of few rows within {narrowest}");
            }
        }
    }
}

/// A group of a handful of rows is in the answer whatever the seed, or is said to be missing.
#[test]
fn rare_groups_are_never_lost() {
    let data = data(11, &[120_000], 3_000);
    let question = question(&data, &[(ITEM, codes(1..2_000))], &[COUNTRY]);
    let (keys, expected) = (keys(&data, &question), exact(&data, &question));
    let mut sampled = 0;
    for seed in 0..8 {
        let goals = [GOALS[0]];
        let how = How { goals: &goals, max_error: 1e9, otherwise: Otherwise::Reached, seed: Some(seed) };
        if let (Sampled::Estimates(found), _) = ask(&data, &question, &keys, &how) {
            check_groups(&found, &expected);
            sampled += 1;
        }
    }
    assert!(sampled > 0, "nothing was sampled");
}
