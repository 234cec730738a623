//! Rare groups beside large ones: each one's own intervals hold as often as they say, not only those of all groups together, of which the
//! large ones are easy.

use crate::common::Random;
use crate::sample_model::*;
use alluvia_tree::BoxQuery;
use alluvia_tree::sample::{Otherwise, Sampled};
use std::collections::BTreeMap;

/// Of all rows a rare item has as many as its number times about this.
const RARE_ROWS: u64 = 25;
const RARE: u64 = 8;
const LARGE: u64 = 5;
/// Enough for estimates that are made where they cost less than the exact answer.
const SIZES: [usize; 2] = [600_000, 200_000];
/// One that asks for the thickest rung, at which most rare groups are seen and more pays no longer, and one that a thin rung satisfies for large groups.
const ERRORS: [f64; 2] = [0.02, 0.5];

/// `rare 1` has 25 rows, `rare 2` 50, and so on; others share the rest.
fn item(random: &mut Random) -> String {
    let all: usize = SIZES.iter().sum();
    let mut at = random.below(all as u64);
    for rare in 1..=RARE {
        if at < rare * RARE_ROWS {
            return format!("rare {rare}");
        }
        at -= rare * RARE_ROWS;
    }
    format!("large {}", at % LARGE)
}

#[test]
fn each_group_holds_by_itself() {
    each_holds(|_| 1.0);
}

/// Where values follow a dimension, rows of some strata say nothing of those of others.
#[test]
fn each_group_holds_by_itself_where_strata_differ() {
    each_holds(|country| 3f64.powi(country.bytes().map(i32::from).sum::<i32>() % 6));
}

fn each_holds(times: impl Fn(&str) -> f64) {
    let trials = std::env::var("SAMPLE_TRIALS").ok().and_then(|trials| trials.parse().ok()).unwrap_or(200u64);
    let mut data = data_of_items(23, &SIZES, 30, item, times);
    // Or else whatever does not suffice for the rare ones is read in full.
    data.by_cost = true;
    // All items but one, so that no block is covered: nodes whose rows are of one city have that item, too.
    let question = question(&data, &[(ITEM, codes(1..(RARE + LARGE) as u32))], &[ITEM]);
    for max_error in ERRORS {
        holds_by_itself(&data, &question, max_error, trials);
    }
}

fn holds_by_itself(data: &Data, question: &BoxQuery, max_error: f64, trials: u64) {
    let (keys, exact) = (keys(data, question), exact(data, question));
    let mut tallies: BTreeMap<(usize, usize), (u64, u64)> = BTreeMap::new();
    let mut sampled = 0;
    for seed in 0..trials {
        let how = How { goals: &GOALS, max_error, otherwise: Otherwise::Reached, seed: Some(seed) };
        let Sampled::Estimates(found) = ask(data, question, &keys, &how).0 else { continue };
        sampled += 1;
        check_groups(&found, &exact);
        for (group, cells) in &found.groups {
            for (at, (cell, goal)) in cells.iter().zip(&GOALS).enumerate() {
                let truth = truth(&exact, *group, goal);
                let slack = 1e-9 * truth.abs();
                let tally = tallies.entry((*group, at)).or_default();
                tally.0 += 1;
                tally.1 += u64::from(cell.interval.lower <= truth + slack && truth <= cell.interval.upper + slack);
            }
        }
    }
    assert!(sampled * 10 > trials * 9, "{sampled} of {trials} were sampled");
    let rare = tallies.keys().filter(|(group, _)| exact.totals.rows(*group) < 1_000).count();
    assert!(rare >= 6 * GOALS.len(), "{rare} values of rare groups were estimated");
    for ((group, at), (tried, held)) in tallies {
        let rows = exact.totals.rows(group);
        let least = 0.95 - 4.0 * (0.95f64 * 0.05 / tried as f64).sqrt();
        assert!(
            held as f64 >= least * tried as f64,
            "{rows} rows, {:?} within {max_error}: {held} of {tried}",
            GOALS[at]
        );
    }
}
