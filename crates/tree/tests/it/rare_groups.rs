//! Rare groups beside large ones: each one's own intervals hold as often as they say, not only those of all groups together, of which the
//! large ones are easy.

use crate::common::Random;
use crate::sample_model::*;
use alluvia_tree::sample::{Otherwise, Sampled};
use std::collections::BTreeMap;

/// Of 200,000 rows a rare item has as many as its number times about this.
const RARE_ROWS: u64 = 25;
const RARE: u64 = 8;
const LARGE: u64 = 5;
const SIZES: [usize; 2] = [150_000, 50_000];

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
    let trials = std::env::var("SAMPLE_TRIALS").ok().and_then(|trials| trials.parse().ok()).unwrap_or(200u64);
    let data = data_of_items(23, &SIZES, 30, item);
    // All items but one, so that no block is covered: nodes whose rows are of one city have that item, too.
    let question = question(&data, &[(ITEM, codes(1..(RARE + LARGE) as u32))], &[ITEM]);
    let keys = keys(&data, &question);
    let exact = exact(&data, &question);
    let mut tallies: BTreeMap<(usize, usize), (u64, u64)> = BTreeMap::new();
    let (mut sampled, mut unseen) = (0, 0);
    for seed in 0..trials {
        let how = How { goals: &GOALS, max_error: 0.02, otherwise: Otherwise::Reached, seed: Some(seed) };
        let Sampled::Estimates(found) = ask(&data, &question, &keys, &how).0 else { continue };
        sampled += 1;
        unseen += found.groups_unseen;
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
    println!("{sampled} of {trials} sampled, {unseen} groups were not seen");
    for ((group, at), (tried, held)) in tallies {
        let rows = exact.totals.rows(group);
        println!("{rows} rows, {:?}: {held} of {tried} hold", GOALS[at]);
        let least = 0.95 - 4.0 * (0.95f64 * 0.05 / tried as f64).sqrt();
        assert!(held as f64 >= least * tried as f64, "{rows} rows, {:?}: {held} of {tried}", GOALS[at]);
    }
}
