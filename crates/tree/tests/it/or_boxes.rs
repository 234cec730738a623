//! `A OR B` as boxes that share no row, A and what of B is not in A, added to one answer: what a scan of all codes finds, and what
//! inclusion and exclusion give.

use crate::common::Random;
use crate::sample_model::*;
use alluvia_tree::{Answer, BoxQuery, CodeSet, LevelFilter, SegmentRows, answer};

/// Rows of which a code is in the first set, or another in the second.
fn scan(data: &Data, first: (usize, &CodeSet), second: (usize, &CodeSet)) -> u64 {
    let mut rows = 0;
    for SegmentRows { segment, .. } in &data.segments {
        for block in 0..segment.blocks() {
            let codes = |level| segment.codes(level, block).expect("reads");
            let either = |(a, b): &(u32, u32)| first.1.contains(*a) || second.1.contains(*b);
            rows += codes(first.0).into_iter().zip(codes(second.0)).filter(either).count() as u64;
        }
    }
    rows
}

#[test]
fn a_or_b_is_a_and_what_of_b_is_not_in_a() {
    let data = data(23, &[150_000, 30_000, 700], 60);
    let mut random = Random(231);
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
