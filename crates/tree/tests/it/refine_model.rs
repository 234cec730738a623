//! Refinements against the exact answer: all looks of one run hold as often as the confidence says, bounds never widen, no group is lost
//! unsaid, and what comes last is the exact answer bit for bit.

use crate::common::{Random, kills};
use crate::sample_model::*;
use alluvia_space::Ladder;
use alluvia_tree::sample::{Estimated, Estimates, Refine, Refiner, Reseeded, Step};
use alluvia_tree::{Answer, BoxQuery, Counters};
use std::sync::Arc;

const CONFIDENCE: f64 = 0.95;

pub fn refine(question: &BoxQuery, reseeded: Option<Reseeded>) -> Refine {
    Refine {
        boxes: question.clone().into(),
        group_codes: Vec::new(),
        goals: GOALS.to_vec(),
        max_error: 0.0,
        confidence: CONFIDENCE,
        reseeded,
        rows_min: 0,
        strata_min: 2,
        threads: 1,
    }
}

/// Every look of one run, and the answer at its end.
pub fn looks_of(refine: Refine, data: &Data) -> (Vec<Estimates>, Answer, u32) {
    let question = &refine.boxes.each()[0];
    let into = Answer::new(question, keys(data, question));
    let mut refiner = Refiner::new(refine, data.segments.clone(), into).expect("walks").expect("it can");
    let (mut looks, mut read) = (Vec::new(), refiner.rows_read());
    loop {
        let step = refiner.step().expect("reads");
        assert!(read <= refiner.rows_read() && refiner.rows_read() <= refiner.rows());
        read = refiner.rows_read();
        match step {
            Step::Read => {}
            Step::Look(estimates) => {
                assert!(estimates.look <= refiner.looks(), "{} of {}", estimates.look, refiner.looks());
                looks.push(estimates);
            }
            Step::Exact => break,
        }
    }
    assert_eq!(refiner.rows_read(), refiner.rows());
    assert!(matches!(refiner.step(), Ok(Step::Exact)), "the end is the end");
    (looks, refiner.answer().clone(), refiner.looks())
}

/// Whether every look of a run holds the truth of a goal: our intervals, and the textbook's.
fn all_hold(looks: &[Estimates], goal: usize, truth: f64) -> (bool, bool) {
    let slack = 1e-9 * truth.abs();
    let cells = || looks.iter().map(|look| look.groups[0].1[goal]);
    let holds = |lower: f64, upper: f64| lower <= truth + slack && truth <= upper + slack;
    let ours = |cell: Estimated| holds(cell.interval.lower, cell.interval.upper);
    let textbook = |cell: Estimated| holds(cell.textbook.lower, cell.textbook.upper);
    (cells().all(ours), cells().all(textbook))
}

/// Somebody looks at all of them: `REFINE_TRIALS=2000 cargo test -p alluvia-tree all_looks -- --nocapture` prints how often they hold.
#[test]
fn all_looks_of_a_run_hold_together_as_often_as_they_say() {
    let asked = std::env::var("REFINE_TRIALS").ok().and_then(|trials| trials.parse().ok());
    let trials = asked.unwrap_or(150u64);
    let data = data(5, &[110_000, 50_000, 900], 30);
    let identities = Arc::new(data.identities.clone());
    let (mut ours_in_all, mut textbook_in_all, mut runs, mut looked) = (0, 0, 0, 0);
    for filters in [
        vec![(ITEM, codes(1..20))],
        vec![(ITEM, vec![2, 9])],
        vec![(ITEM, codes(4..20)), (COUNTRY, codes(1..15))],
        vec![(CITY, codes(1..12))],
    ] {
        let question = question(&data, &filters, &[]);
        let expected = exact(&data, &question);
        let mut held = [(0, 0); GOALS.len()];
        let mut planned = 0;
        for seed in 0..trials {
            let (looks, _, of_run) =
                looks_of(refine(&question, Some(Reseeded { seed, identities: Arc::clone(&identities) })), &data);
            assert!(looks.len() >= 2, "{} looks", looks.len());
            (planned, looked) = (of_run, looked + looks.len() as u64);
            for (at, (goal, held)) in GOALS.iter().zip(&mut held).enumerate() {
                let (ours, textbook) = all_hold(&looks, at, truth(&expected, 0, goal));
                held.0 += u64::from(ours);
                held.1 += u64::from(textbook);
            }
        }
        for (goal, (ours, textbook)) in GOALS.iter().zip(held) {
            println!("{filters:?} {goal:?}: all of {planned} looks hold {ours} of {trials} times, textbook {textbook}");
            let least = CONFIDENCE - 4.0 * (CONFIDENCE * (1.0 - CONFIDENCE) / trials as f64).sqrt();
            assert!(ours as f64 >= least * trials as f64, "{filters:?} {goal:?}: {ours} of {trials}");
            (ours_in_all, textbook_in_all, runs) = (ours_in_all + ours, textbook_in_all + textbook, runs + trials);
        }
    }
    println!("in all: {ours_in_all} of {runs}, textbook {textbook_in_all}");
    // Each run asks for all goals at once.
    assert!(looked * GOALS.len() as u64 >= 3 * runs, "{looked} looks");
    assert!(ours_in_all as f64 >= CONFIDENCE * runs as f64, "{ours_in_all} of {runs}");
    // Whoever looks at intervals for one look as often as he likes is deceived: the test can fail.
    assert!((textbook_in_all as f64) < 0.93 * runs as f64, "{textbook_in_all} of {runs}");
}

#[test]
fn bounds_never_widen_and_the_end_is_the_exact_answer() {
    let mut data = data(7, &[70_000, 40_000, 500], 60);
    let identities = Arc::new(data.identities.clone());
    let mut random = Random(71);
    let (mut compared, mut contradicted, mut with_looks) = (0, 0, 0);
    for round in 0..40 {
        let question = any_question(&mut data, &mut random);
        let expected = exact(&data, &question);
        let reseeded =
            (random.below(2) == 0).then(|| Reseeded { seed: random.below(1_000), identities: Arc::clone(&identities) });
        let (looks, found, _) = looks_of(refine(&question, reseeded), &data);
        assert_same(&found, &expected);
        with_looks += usize::from(looks.len() > 1);
        for look in &looks {
            check_groups(look, &expected);
            assert!(!look.holds || look.error == 0.0, "round {round}: an error of 0 was asked for");
        }
        for (before, after) in looks.iter().zip(looks.iter().skip(1)) {
            assert!(before.look < after.look && before.rows_drawn <= after.rows_drawn);
            for (group, cells) in &after.groups {
                let Some((_, known)) = before.groups.iter().find(|(known, _)| known == group) else { continue };
                for (cell, known) in cells.iter().zip(known) {
                    let (cell, known) = (cell.interval, known.interval);
                    assert!(cell.estimate.is_nan() || cell.lower <= cell.estimate && cell.estimate <= cell.upper);
                    compared += 1;
                    // That there is no value is known for good.
                    assert!(!known.lower.is_nan() || cell.lower.is_nan(), "{known:?} {cell:?}");
                    let is_within = cell.lower.is_nan() || cell.lower >= known.lower && cell.upper <= known.upper;
                    // Apart: one of both is wrong.
                    assert!(is_within || cell.lower > known.upper || cell.upper < known.lower, "{known:?} {cell:?}");
                    contradicted += usize::from(!is_within);
                }
            }
        }
    }
    assert!(with_looks > 10 && compared > 1_000, "{with_looks} rounds, {compared} values");
    assert!(contradicted * 50 < compared, "{contradicted} of {compared} looks contradict the one before");
}

/// What lies in segments with dead rows is exact from the first look on, and in the answer once.
#[test]
fn all_looks_hold_beside_segments_with_dead_rows() {
    let mut data = data(8, &[110_000, 30_000, 50_000], 30);
    let mut random = Random(81);
    let identities = Arc::new(data.identities.clone());
    let (mut held, mut runs, mut with_looks) = (0, 0, 0);
    for round in 0..6 {
        data.kill(1, &kills(&mut random, 30_000, 7..12), 6 + 2 * round);
        let question = question(&data, &[(ITEM, codes(1..20))], &[]);
        let expected = exact(&data, &question);
        for seed in 0..20 {
            let reseeded = Reseeded { seed, identities: Arc::clone(&identities) };
            let (looks, found, _) = looks_of(refine(&question, Some(reseeded)), &data);
            assert_same(&found, &expected);
            with_looks += usize::from(looks.len() > 1);
            for (at, goal) in GOALS.iter().enumerate() {
                runs += 1;
                held += u64::from(all_hold(&looks, at, truth(&expected, 0, goal)).0);
            }
        }
    }
    let least = CONFIDENCE - 4.0 * (CONFIDENCE * (1.0 - CONFIDENCE) / 120.0f64).sqrt();
    assert!(with_looks > 100, "{with_looks} runs have looks");
    assert!(held as f64 >= least * runs as f64, "{held} of {runs}");
}

#[test]
fn an_error_that_is_enough_is_told() {
    let data = data(9, &[120_000], 30);
    let question = question(&data, &[(ITEM, codes(1..20))], &[]);
    let (looks, ..) = looks_of(Refine { max_error: 0.3, ..refine(&question, None) }, &data);
    let first = looks.iter().position(|look| look.holds).expect("some look is near enough");
    assert!(looks[first].error <= 0.3 && looks[first].groups_unseen == 0);
    assert!(looks[..first].iter().all(|look| look.error > 0.3));
    // A share of the estimate may be less than that of the truth, and is never more.
    assert!(looks.iter().all(|look| look.share_off <= look.error));
}

#[test]
fn what_has_no_ladder_is_read_in_full_at_once() {
    let data = data(13, &[900, 700], 20);
    let question = question(&data, &[(ITEM, codes(1..10))], &[COUNTRY]);
    let (looks, found, planned) = looks_of(refine(&question, None), &data);
    assert!(looks.is_empty() && planned == 0);
    assert_same(&found, &exact(&data, &question));
}

/// Of a lognormal of sigma 2.5 a few rows in a thousand decide the sum: they are in every look, and in the answer once.
#[test]
fn heavy_values_are_in_every_look_and_once_in_the_answer() {
    let data = data_of(15, &[150_000, 50_000, 900], 30, 2.5);
    let identities = Arc::new(data.identities.clone());
    let sum_of_floats = 4;
    for groups in [vec![], vec![COUNTRY]] {
        let question = question(&data, &[(ITEM, codes(1..20))], &groups);
        let expected = exact(&data, &question);
        let (mut held, mut runs, mut narrow, mut last, mut of_groups) = (0, 0, 0, 0, 0);
        for seed in 0..60 {
            let reseeded = Reseeded { seed, identities: Arc::clone(&identities) };
            let (looks, found, planned) = looks_of(refine(&question, Some(reseeded)), &data);
            assert_same(&found, &expected);
            assert!(planned as usize >= looks.len());
            if !groups.is_empty() {
                looks.iter().for_each(|look| check_groups(look, &expected));
                of_groups += looks.len();
                continue;
            }
            runs += 1;
            held += u64::from(all_hold(&looks, sum_of_floats, truth(&expected, 0, &GOALS[sum_of_floats])).0);
            if let Some(look) = looks.last() {
                last += 1;
                narrow += u64::from(look.groups[0].1[sum_of_floats].interval.relative_error() < 0.1);
            }
        }
        let least = CONFIDENCE - 4.0 * (CONFIDENCE * (1.0 - CONFIDENCE) / 60.0f64).sqrt();
        assert!(held as f64 >= least * runs as f64, "{held} of {runs}");
        assert!(narrow * 10 >= last * 9, "{narrow} of {last} are narrow");
        assert!(
            if groups.is_empty() { last > 50 } else { of_groups > 0 },
            "{last} runs and {of_groups} looks at groups"
        );
    }
}

#[test]
fn nothing_is_read_before_the_first_step_and_nothing_that_nan_has_spoilt() {
    let data = data_spoilt(21, &[150_000, 50_000, 900], 30, 1.0, Some(7));
    for (items, is_spoilt) in [(codes(8..20), false), (codes(5..20), true)] {
        let question = question(&data, &[(ITEM, items)], &[]);
        let into = Answer::new(&question, keys(&data, &question));
        let mut refiner =
            Refiner::new(refine(&question, None), data.segments.clone(), into).expect("asks").expect("it can");
        assert_eq!((refiner.rows(), refiner.looks(), refiner.answer().counters), (0, 0, Counters::default()));
        let (mut steps, mut looks, mut planned) = (0, 0, 0);
        loop {
            match refiner.step().expect("reads") {
                Step::Exact => break,
                Step::Look(_) => looks += 1,
                Step::Read => {}
            }
            steps += 1;
            planned = planned.max(refiner.rows());
        }
        assert!(steps > 2 * question.measures.len(), "{steps} steps for two segments with ladders");
        assert_eq!(refiner.answer().totals.is_spoilt(), is_spoilt);
        assert_eq!(refiner.rows_read(), refiner.rows());
        if is_spoilt {
            let read = refiner.answer().counters.rows_filtered;
            assert!(looks == 0 && read < planned / 2, "{looks} looks, {read} of {planned} rows for nobody");
        } else {
            assert!(looks > 1, "{looks} looks");
            assert_same(refiner.answer(), &exact(&data, &question));
        }
    }
}

/// Of a segment of so many blocks nodes above them are strata; what is below them is told apart when they are read in full.
#[test]
fn strata_of_nodes_end_as_the_exact_answer() {
    let data = data(17, &[280_000, 150_000, 30_000], 60);
    for filters in [vec![(ITEM, codes(3..40))], vec![(CITY, codes(2..19)), (ITEM, codes(1..50))]] {
        let question = question(&data, &filters, &[]);
        let expected = exact(&data, &question);
        for threads in [1, 3] {
            let (looks, found, planned) = looks_of(Refine { threads, ..refine(&question, None) }, &data);
            assert!(looks.len() > 2 && looks.len() <= planned as usize, "{} of {planned} looks", looks.len());
            assert_same(&found, &expected);
            let widths: Vec<f64> =
                looks.iter().map(|look| look.groups[0].1[0].interval).map(|a| a.upper - a.lower).collect();
            assert!(widths.is_sorted_by(|a, b| a >= b), "{widths:?}");
            // One seed, that of the table: near is all that may be asked.
            for look in &looks {
                let (cell, truth) = (look.groups[0].1[0].interval, truth(&expected, 0, &GOALS[0]));
                let slack = cell.upper - cell.lower;
                assert!(cell.lower - slack <= truth && truth <= cell.upper + slack, "{truth} is far from {cell:?}");
            }
        }
    }
}

/// Where the exact answer follows anyway, half of the rows are not drawn before.
#[test]
fn rungs_above_an_eighth_are_not_looked_at() {
    let mut planned = Vec::new();
    for ladder in Ladder::ALL {
        let data = data_laddered(ladder, 19, &[150_000, 50_000, 900], 40);
        let thickest = data.segments[0].segment.rungs()[0].rung;
        assert_eq!(thickest, ladder.first_rung());
        // Of few rows there are thick rungs alone, or none.
        let of_few: Vec<u32> = data.segments[2].segment.rungs().iter().map(|rung| rung.rung).collect();
        assert_eq!(of_few, (thickest..3).collect::<Vec<u32>>());
        let question = question(&data, &[(ITEM, codes(1..20))], &[]);
        let (looks, found, of_run) = looks_of(refine(&question, None), &data);
        assert_same(&found, &exact(&data, &question));
        assert!(looks.len() > 1, "{} looks", looks.len());
        assert!(looks.iter().all(|look| look.rungs & 0b110 == 0), "from {} on", ladder.name());
        planned.push(of_run);
    }
    assert!(planned.iter().all(|looks| *looks == planned[0]), "{planned:?}");
}
