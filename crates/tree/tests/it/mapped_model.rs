//! Estimates of groups that maps make of codes, as joins with small tables and names under several parents have them: intervals hold, what is read in full is the exact
//! answer, and no group is lost.

use crate::common::Random;
use crate::sample_model::*;
use alluvia_tree::sample::{Otherwise, Sampled};
use alluvia_tree::{Answer, BoxQuery, CodeMap, GroupKeys, answer};
use std::sync::Arc;

/// Keys of items that a small table has: of the codes `of` each stands for one of `groups` groups, dealt out one by one.
fn mapped(data: &Data, of: &[u32], countries: u32, groups: u32) -> (BoxQuery, GroupKeys) {
    let question = question(data, &[(ITEM, of.to_vec()), (COUNTRY, codes(1..countries))], &[ITEM]);
    let span = keys(data, &question).spans()[0];
    let last = span.first + span.count;
    let pairs = of.iter().filter(|&&code| code < last).map(|&code| (code, 1 + code % groups));
    let map = CodeMap::new(pairs, last, groups).expect("each once");
    (question, GroupKeys::mapped(vec![span], vec![Some(Arc::new(map))]).expect("few groups"))
}

/// What codes stand for elsewhere is estimated as what they are. Items in thousands no node tells one by one: then everything is read.
#[test]
fn groups_that_a_map_makes_hold_and_none_is_lost() {
    let trials = std::env::var("SAMPLE_TRIALS").ok().and_then(|trials| trials.parse().ok()).unwrap_or(60u64);
    for (seed, distinct, of) in [(23, 40u32, codes(1..30)), (29, 9_000, codes(1..7_000))] {
        let data = data(seed, &[150_000, 50_000, 900], distinct.into());
        let (question, keys) = mapped(&data, &of, distinct / 4 * 3, 4);
        let mut expected = Answer::new(&question, keys.clone());
        assert!(answer(&question, &data.segments, 1, &mut expected).expect("answers"));
        let there = (0..expected.totals.groups()).filter(|&group| expected.totals.rows(group) > 0);
        assert_eq!(there.collect::<Vec<_>>(), [1, 2, 3, 4], "a group for each digit, and none for what is left out");
        let (mut held, mut values, mut sampled) = (0, 0, 0);
        for seed in 0..trials {
            let goals = [GOALS[0], GOALS[2], GOALS[4], GOALS[5]];
            let how = How { goals: &goals, max_error: 0.35, otherwise: Otherwise::Exact, seed: Some(seed) };
            match ask(&data, &question, &keys, &how) {
                (Sampled::Estimates(found), _) => {
                    sampled += 1;
                    assert!(found.holds && found.groups_unseen == 0 && found.nodes_drawn > 0, "{found:?}");
                    check_groups(&found, &expected);
                    assert_eq!(found.groups.len(), 4);
                    for (group, cells) in &found.groups {
                        for (cell, goal) in cells.iter().zip(&goals) {
                            let truth = truth(&expected, *group, goal);
                            values += 1;
                            held += u64::from(cell.interval.lower <= truth && truth <= cell.interval.upper);
                        }
                    }
                }
                (Sampled::Exact, into) => assert_same(&into, &expected),
                (Sampled::Cannot, _) => panic!("it can"),
            }
        }
        println!("{distinct} items: {held} of {values} hold, {sampled} of {trials} sampled");
        assert!(sampled * 2 > trials || distinct > 1_000, "{sampled} of {trials} were sampled");
        if sampled == 0 {
            continue;
        }
        // Values of one trial are right or wrong together: so many are worth no more than the trials.
        let least = 0.95 - 4.0 * (0.95f64 * 0.05 / sampled as f64).sqrt();
        assert!(held as f64 >= least * values as f64, "{held} of {values}");
    }
}

/// Cities of which every fifth has one name: rows of all members of a name are its rows, in samples as in exact answers.
#[test]
fn groups_of_names_that_members_share_hold_and_none_is_lost() {
    const NAMES: u32 = 5;
    let trials = std::env::var("SAMPLE_TRIALS").ok().and_then(|trials| trials.parse().ok()).unwrap_or(60u64);
    let first = |code: u32| if code == 0 { 0 } else { 1 + (code - 1) % NAMES };
    let data = data(41, &[150_000, 50_000, 900], 40);
    let question = question(&data, &[(ITEM, codes(1..30))], &[CITY]);
    let members = exact(&data, &question);
    let span = members.keys.spans()[0];
    let map = CodeMap::of_codes((0..span.first + span.count).map(first).collect());
    let keys = GroupKeys::mapped(vec![span], vec![Some(Arc::new(map))]).expect("few groups");
    let mut expected = Answer::new(&question, keys.clone());
    assert!(answer(&question, &data.segments, 1, &mut expected).expect("answers"));
    // By hand: every member's rows, added to those of the first of its name.
    let mut rows = [0; NAMES as usize + 1];
    for group in 0..members.totals.groups() {
        rows[first(members.keys.codes(group)[0]) as usize] += members.totals.rows(group);
    }
    for group in 0..expected.totals.groups() {
        let code = expected.keys.codes(group)[0] as usize;
        assert_eq!(expected.totals.rows(group), rows.get(code).copied().unwrap_or(0), "the first of a name has all");
    }
    let goals = [GOALS[0], GOALS[2], GOALS[4], GOALS[5]];
    let (mut held, mut values, mut sampled) = (0, 0, 0);
    for seed in 0..trials {
        let how = How { goals: &goals, max_error: 0.35, otherwise: Otherwise::Exact, seed: Some(seed) };
        match ask(&data, &question, &keys, &how) {
            (Sampled::Estimates(found), into) => {
                sampled += 1;
                assert!(found.holds && found.groups_unseen == 0, "{found:?}");
                check_groups(&found, &expected);
                for (group, cells) in &found.groups {
                    assert!(into.keys.codes(*group)[0] <= NAMES, "a group that is no name's first");
                    for (cell, goal) in cells.iter().zip(&goals) {
                        let truth = truth(&expected, *group, goal);
                        values += 1;
                        held += u64::from(cell.interval.lower <= truth && truth <= cell.interval.upper);
                    }
                }
            }
            (Sampled::Exact, into) => assert_same(&into, &expected),
            (Sampled::Cannot, _) => panic!("it can"),
        }
    }
    println!("{held} of {values} hold, {sampled} of {trials} sampled");
    assert!(sampled * 4 > trials, "{sampled} of {trials} were sampled");
    // Values of one trial are right or wrong together: so many are worth no more than the trials.
    let least = 0.95 - 4.0 * (0.95f64 * 0.05 / sampled as f64).sqrt();
    assert!(held as f64 >= least * values as f64, "{held} of {values}");
}

/// As `what_is_read_in_full_is_the_exact_answer` of groups that codes make, of groups that maps make; a digit may have no rows, and be looked for in vain.
#[test]
fn mapped_groups_that_are_read_in_full_are_exact() {
    let mut random = Random(31);
    let data = data(37, &[140_000, 40_000, 500], 60);
    let mut estimated = 0;
    for round in 0..40 {
        let share = 1 + random.below(9);
        let of: Vec<u32> = (2..60).filter(|_| random.below(10) < share).chain([1]).collect();
        let (question, keys) = mapped(&data, &of, 45, 1 + random.below(7) as u32);
        let mut expected = Answer::new(&question, keys.clone());
        assert!(answer(&question, &data.segments, 1, &mut expected).expect("answers"));
        let max_error = [0.0, 0.3, 1e9][random.below(3) as usize];
        let otherwise = if random.below(2) == 0 { Otherwise::Exact } else { Otherwise::Reached };
        let seed = (random.below(2) == 0).then(|| random.below(1_000));
        match ask(&data, &question, &keys, &How { goals: &GOALS, max_error, otherwise, seed }) {
            (Sampled::Estimates(found), _) => {
                estimated += 1;
                check_groups(&found, &expected);
                assert!(found.holds || otherwise == Otherwise::Reached, "round {round}");
            }
            (Sampled::Exact, into) => assert_same(&into, &expected),
            (Sampled::Cannot, _) => panic!("it can"),
        }
    }
    assert!(estimated > 5, "{estimated} rounds were sampled");
}
