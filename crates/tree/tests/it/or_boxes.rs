//! `A OR B` as boxes that share no row, A and what of B is not in A, added to one answer: what a scan of all codes finds, and what
//! inclusion and exclusion give. Estimates of all boxes at once are held against that.

use crate::common::{Random, kills};
use crate::refine_model::{looks_of, refine};
use crate::sample_model::*;
use alluvia_tree::sample::{Otherwise, Refine, Sampled};
use alluvia_tree::{Answer, BoxQuery, Boxes, CodeSet, LevelFilter, answer};

/// Rows of which a code is in the first set, or another in the second.
fn scan(data: &Data, first: (usize, &CodeSet), second: (usize, &CodeSet)) -> u64 {
    let either = |row: &&Row| first.1.contains(row.codes[first.0]) || second.1.contains(row.codes[second.0]);
    data.counted().filter(either).count() as u64
}

#[test]
fn a_or_b_is_a_and_what_of_b_is_not_in_a() {
    let mut data = data(23, &[150_000, 30_000, 700], 60);
    let mut random = Random(231);
    for segment in 0..2 {
        let rows = data.rows[segment].len() as u64;
        data.kill(segment, &kills(&mut random, rows, 7..19), 15);
    }
    let mut some = || {
        let share = 1 + random.below(9);
        CodeSet::of_codes((0..60).filter(|_| random.below(10) < share).collect())
    };
    for (first, second) in [(ITEM, CITY), (CITY, ITEM), (COUNTRY, ITEM), (CITY, COUNTRY)].repeat(4) {
        let (a, b) = (some(), some());
        let filter = |level: usize, codes: &CodeSet| LevelFilter { level, codes: codes.clone() };
        let not_a = a.complement(u32::MAX);
        let ask = |boxes: &[Vec<LevelFilter>]| {
            let of_box =
                |filters: &Vec<LevelFilter>| BoxQuery { filters: filters.clone(), ..question(&data, &[], &[]) };
            let questions: Vec<BoxQuery> = boxes.iter().map(of_box).collect();
            let mut all = Answer::new(&questions[0], keys(&data, &questions[0]));
            for question in &questions {
                assert!(answer(question, &data.segments, 2, &mut all).expect("answers"));
            }
            let measures = all.totals.measures();
            (all.totals.rows(0), measures[0].count(0), measures[0].exact_sum(0), measures[1].float_sum(0))
        };
        let either = ask(&[vec![filter(first, &a)], vec![filter(first, &not_a), filter(second, &b)]]);
        assert_eq!(either.0, scan(&data, (first, &a), (second, &b)));
        let (in_a, in_b) = (ask(&[vec![filter(first, &a)]]), ask(&[vec![filter(second, &b)]]));
        let both = ask(&[vec![filter(first, &a), filter(second, &b)]]);
        assert_eq!(
            (either.0 + both.0, either.1 + both.1, either.2 + both.2),
            (in_a.0 + in_b.0, in_a.1 + in_b.1, in_a.2 + in_b.2)
        );
        let (found, expected) = (either.3 + both.3, in_a.3 + in_b.3);
        assert!((found - expected).abs() <= 1e-9 * expected.abs(), "{found} {expected}");
    }
}

/// Conditions that all must hold, by level.
type Conditions = Vec<LevelFilter>;

fn is_in(conditions: &Conditions, codes: &[u32; 3]) -> bool {
    conditions.iter().all(|filter| filter.codes.contains(codes[filter.level]))
}

/// Some codes of one to three levels; of few countries, so that nodes are covered, too.
fn any_conditions(random: &mut Random) -> Conditions {
    let mut conditions = Vec::new();
    for level in [COUNTRY, CITY, ITEM] {
        if random.below(2) == 0 || conditions.is_empty() && level == ITEM {
            let (low, span) = (random.below(60) as u32, 1 + random.below(50) as u32);
            let share = 3 + random.below(8);
            let scattered = (0..70).filter(|_| random.below(10) < share).collect();
            let codes =
                if random.below(2) == 0 { CodeSet::of_range(low, low + span) } else { CodeSet::of_codes(scattered) };
            conditions.push(LevelFilter { level, codes });
        }
    }
    conditions
}

/// The rows of some conditions that others do not hold for, as conditions that share no row.
fn without(conditions: &Conditions, others: &Conditions) -> Vec<Conditions> {
    let with = |conditions: &Conditions, level: usize, codes: &CodeSet| {
        let mut all = conditions.clone();
        match all.iter_mut().find(|filter| filter.level == level) {
            Some(filter) => filter.codes = filter.codes.intersect(codes),
            None => all.push(LevelFilter { level, codes: codes.clone() }),
        }
        all
    };
    let (mut pieces, mut inside) = (Vec::new(), conditions.clone());
    for LevelFilter { level, codes } in others {
        pieces.push(with(&inside, *level, &codes.complement(u32::MAX)));
        inside = with(&inside, *level, codes);
    }
    pieces
}

/// Several conditions, any of which may hold, and boxes that share no row.
fn any_union(data: &Data, random: &mut Random, groups: &[usize]) -> (Vec<Conditions>, Boxes) {
    loop {
        let any: Vec<Conditions> = (0..2 + random.below(2)).map(|_| any_conditions(random)).collect();
        let mut boxes: Vec<Conditions> = Vec::new();
        for next in &any {
            let less = boxes.iter().fold(vec![next.clone()], |pieces, held| {
                pieces.iter().flat_map(|piece| without(piece, held)).collect()
            });
            boxes.extend(less);
        }
        let question = question(data, &[], groups);
        let each = boxes.into_iter().map(|filters| BoxQuery { filters, ..question.clone() }).collect();
        if let Some(boxes) = Boxes::new(each) {
            return (any, boxes);
        }
    }
}

/// Box by box.
fn exact_of(data: &Data, boxes: &Boxes) -> Answer {
    let first = &boxes.each()[0];
    let mut all = Answer::new(first, keys(data, first));
    for question in boxes.each() {
        assert!(answer(question, &data.segments, 2, &mut all).expect("answers"));
    }
    all
}

/// Rows for which any of the conditions hold, one by one.
fn rows_of(data: &Data, any: &[Conditions]) -> u64 {
    data.counted().filter(|row| any.iter().any(|one| is_in(one, &row.codes))).count() as u64
}

/// As `what_is_read_in_full_is_the_exact_answer` of one box.
#[test]
fn unions_that_are_read_in_full_are_exact() {
    let mut data = data(41, &[140_000, 40_000, 500], 60);
    let mut random = Random(411);
    let mut estimated = 0;
    for round in 0..60 {
        // Versions and kills, too.
        any_question(&mut data, &mut random);
        let groups: Vec<usize> = [COUNTRY, CITY, ITEM].into_iter().filter(|_| random.below(4) == 0).collect();
        let (any, boxes) = any_union(&data, &mut random, &groups);
        let expected = exact_of(&data, &boxes);
        let in_any = |row: &&Row| any.iter().any(|one| is_in(one, &row.codes));
        assert_is_the_rows(&expected, &boxes.each()[0], data.counted().filter(in_any));
        let keys = keys(&data, &boxes.each()[0]);
        let how = How { goals: &GOALS, max_error: 0.0, otherwise: Otherwise::Exact, seed: None };
        let (found, into) = ask_boxes(&data, &boxes, &keys, &how);
        assert!(matches!(found, Sampled::Exact), "round {round}: {found:?}");
        assert_same(&into, &expected);
        let max_error = [0.05, 0.3, 1e9][random.below(3) as usize];
        let otherwise = if random.below(2) == 0 { Otherwise::Exact } else { Otherwise::Reached };
        let seed = (random.below(2) == 0).then(|| random.below(1_000));
        match ask_boxes(&data, &boxes, &keys, &How { goals: &GOALS, max_error, otherwise, seed }) {
            (Sampled::Estimates(found), _) => {
                estimated += 1;
                check_groups(&found, &expected);
                assert!(found.holds || otherwise == Otherwise::Reached, "round {round}");
            }
            (Sampled::Exact, into) => assert_same(&into, &expected),
            (Sampled::Cannot, _) => panic!("it can"),
        }
    }
    assert!(estimated > 10, "{estimated} rounds were sampled");
}

/// Over the choice of the seed an estimate is right in the mean, and its interval holds: no row of a union is counted twice, and none is
/// lost, where one box covers what another cuts, and where both cut. The segments have nodes of 16 blocks as strata.
#[test]
fn intervals_of_unions_hold_and_their_middle_is_the_truth() {
    let trials = std::env::var("SAMPLE_TRIALS").ok().and_then(|trials| trials.parse().ok()).unwrap_or(60u64);
    let mut random = Random(43);
    let (mut held, mut values, mut sampled) = (0, 0, 0);
    for (seed, sigma, killed) in [(45, 1.0, false), (47, 2.5, false), (45, 1.0, true)] {
        let mut data = data_of(seed, &[150_000, 50_000, 900], 60, sigma);
        if killed {
            data.kill(1, &(0..50_000).step_by(4).map(|row| (row, 9)).collect(), 10);
        }
        let mut unions = 0;
        while unions < 5 {
            let (any, boxes) = any_union(&data, &mut random, &[]);
            let (keys, expected) = (keys(&data, &boxes.each()[0]), exact_of(&data, &boxes));
            if expected.totals.rows(0) < 20_000 {
                continue;
            }
            unions += 1;
            assert_eq!(expected.totals.rows(0), rows_of(&data, &any));
            let goals = [GOALS[0], GOALS[2], GOALS[4]];
            let mut estimates: Vec<Vec<f64>> = vec![Vec::new(); goals.len()];
            for seed in 0..trials {
                // One look, whatever it sees: what stops when it is narrow is a little off in the mean.
                let how = How { goals: &goals, max_error: 1e9, otherwise: Otherwise::Reached, seed: Some(seed) };
                let Sampled::Estimates(found) = ask_boxes(&data, &boxes, &keys, &how).0 else { continue };
                sampled += 1;
                for ((cell, goal), estimates) in found.groups[0].1.iter().zip(&goals).zip(&mut estimates) {
                    let (truth, cell) = (truth(&expected, 0, goal), cell.interval);
                    estimates.push(cell.estimate);
                    values += 1;
                    held += u64::from(cell.lower <= truth && truth <= cell.upper);
                }
            }
            for (goal, estimates) in goals.iter().zip(&estimates).filter(|(_, estimates)| estimates.len() > 1) {
                let (count, truth) = (estimates.len() as f64, truth(&expected, 0, goal));
                let mean = estimates.iter().sum::<f64>() / count;
                let variance = estimates.iter().map(|estimate| (estimate - mean).powi(2)).sum::<f64>() / (count - 1.0);
                let off = (mean - truth).abs() / (variance / count).sqrt().max(1e-9 * truth.abs());
                assert!(off < 5.0, "{goal:?} of {boxes:?}: {mean} in the mean instead of {truth}, {off} errors off");
            }
        }
    }
    println!("{held} of {values} hold, {sampled} sampled");
    assert!(sampled > 3 * trials, "{sampled} were sampled");
    let least = 0.95 - 4.0 * (0.95f64 * 0.05 / sampled as f64).sqrt();
    assert!(held as f64 >= least * values as f64, "{held} of {values}");
}

#[test]
fn a_ladder_of_a_union_is_what_its_seed_draws() {
    let data = data_of(49, &[150_000, 60_000, 700], 60, 2.0);
    let mut random = Random(491);
    let mut compared = 0;
    for groups in [vec![], vec![], vec![], vec![COUNTRY], vec![], vec![COUNTRY], vec![]] {
        let (_, boxes) = any_union(&data, &mut random, &groups);
        let keys = keys(&data, &boxes.each()[0]);
        let ask = |seed| {
            let how = How { goals: &GOALS, max_error: 0.2, otherwise: Otherwise::Reached, seed };
            match ask_boxes(&data, &boxes, &keys, &how).0 {
                Sampled::Estimates(found) => Some(found),
                _ => None,
            }
        };
        let (ladder, seeded) = (ask(None), ask(Some(data.table.seed)));
        assert_eq!(ladder.is_some(), seeded.is_some());
        let Some((ladder, seeded)) = ladder.zip(seeded) else { continue };
        compared += 1;
        assert_eq!((ladder.rows_drawn, ladder.rungs, ladder.look), (seeded.rows_drawn, seeded.rungs, seeded.look));
        for ((_, a), (_, b)) in ladder.groups.iter().zip(&seeded.groups) {
            for (a, b) in a.iter().zip(b) {
                let (a, b) = (a.interval, b.interval);
                for (a, b) in [(a.estimate, b.estimate), (a.lower, b.lower), (a.upper, b.upper)] {
                    // Squares are added up in another order, and bounds are made of differences of their sums.
                    assert!((a - b).abs() <= 1e-7 * b.abs() || a == b || a.is_nan() && b.is_nan(), "{a} {b}");
                }
            }
        }
    }
    assert!(compared >= 3, "{compared} were compared");
}

/// As refinements of one box: groups are never lost unsaid, and what comes last is the exact answer.
#[test]
fn refinements_of_unions_end_as_the_exact_answer() {
    let mut random = Random(53);
    let mut looked = 0;
    for (seed, sizes) in [(55, [150_000, 30_000, 700]), (57, [280_000, 20_000, 500])] {
        let mut data = data(seed, &sizes, 60);
        for round in 0..8 {
            if round % 2 == 1 {
                let segment = 1 + random.below(2) as usize;
                let kills = kills(&mut random, sizes[segment] as u64, 7..19);
                data.kill(segment, &kills, 6 + random.below(14));
            }
            let groups = if round % 4 == 3 { vec![COUNTRY] } else { vec![] };
            let (_, boxes) = any_union(&data, &mut random, &groups);
            let expected = exact_of(&data, &boxes);
            let asked = Refine { boxes: boxes.clone(), threads: 2, ..refine(&boxes.each()[0], None) };
            let (looks, found, _) = looks_of(asked, &data);
            assert_same(&found, &expected);
            looked += usize::from(looks.len() > 1);
            looks.iter().for_each(|look| check_groups(look, &expected));
        }
    }
    assert!(looked > 6, "{looked} had several looks");
}

#[test]
fn too_many_boxes_are_not_walked_together() {
    let data = data(51, &[2_000], 9);
    let boxes = |count: u32, filters: u32| {
        let each = (0..count).map(|at| BoxQuery {
            filters: (0..filters).map(|_| LevelFilter { level: ITEM, codes: CodeSet::of_range(at, at) }).collect(),
            ..question(&data, &[], &[])
        });
        Boxes::new(each.collect()).is_some()
    };
    assert_eq!([(1, 64), (16, 4), (1, 0)].map(|(count, filters)| boxes(count, filters)), [true; 3]);
    assert_eq!([(17, 1), (16, 5), (1, 65), (0, 0)].map(|(count, filters)| boxes(count, filters)), [false; 4]);
}
