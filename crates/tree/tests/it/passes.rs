//! Questions that are asked at a time share passes over blocks: each gets the answer that it gets alone, and that of the slow way.

use crate::answer_model::{Counted, Data, Groups, check, data, keys, model_of, question};
use crate::common::Random;
use alluvia_tree::{Answer, BoxQuery, GroupKeys, SegmentRows, answer};
use proptest::prelude::*;
use std::sync::Barrier;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn answers_at_a_time_are_the_model(
        seed: u64,
        sizes in prop::collection::vec(30_000usize..120_000, 1..4),
        distinct in prop::sample::select(vec![8u64, 30, 300]),
        nulls in prop::sample::select(vec![0u64, 20]),
        threads in prop::collection::vec(1usize..4, 6),
    ) {
        asked_at_a_time(&data(seed, &sizes, distinct, nulls), seed, &threads);
    }
}

/// So many blocks that threads help.
#[test]
fn answers_of_several_threads_each_are_the_model() {
    asked_at_a_time(&data(77, &[700_000, 40_000], 300, 20), 77, &[1, 8, 2, 3, 1, 5]);
}

fn asked_at_a_time(data: &Data, seed: u64, threads: &[usize]) {
    let mut random = Random(seed.rotate_left(9) | 1);
    let mut questions: Vec<(BoxQuery, GroupKeys, Groups, Vec<SegmentRows>)> = Vec::new();
    for _ in 0..8 {
        // Each reads at its own version: what is dead for one is not for another.
        let counted = data.chunks.iter().map(|(_, counted)| Counted { at: 6 + random.below(14), ..counted.clone() });
        let counted: Vec<Counted> = counted.collect();
        let read = data.segments.iter().zip(&counted);
        let read = read.map(|(rows, counted)| counted.of_segment(&rows.segment)).collect();
        let query = question(&mut random, data);
        let digits = query.groups.iter().map(|_| None).collect();
        let Some(keys) = keys(data, &query, &digits) else { continue };
        let chunks = data.chunks.iter().map(|(chunk, _)| chunk).zip(&counted);
        let expected = model_of(&data.table, &query, &digits, chunks);
        questions.push((query, keys, expected, read));
    }
    let (gate, questions) = (Barrier::new(threads.len()), &questions);
    let alone: Vec<_> = questions
        .iter()
        .map(|(query, keys, _, read)| {
            let mut alone = Answer::new(query, keys.clone());
            assert!(answer(query, read, 1, &mut alone).expect("answers"));
            alone.counters
        })
        .collect();
    std::thread::scope(|scope| {
        for (client, &threads) in threads.iter().enumerate() {
            let (gate, alone) = (&gate, &alone);
            scope.spawn(move || {
                gate.wait();
                for step in 0..questions.len() {
                    // Some ask the same at a time, some something else.
                    let at = (step + client / 2 * 3) % questions.len();
                    let (query, keys, expected, read) = &questions[at];
                    let mut found = Answer::new(query, keys.clone());
                    assert!(answer(query, read, threads, &mut found).expect("answers"));
                    check(&found, query, expected);
                    assert_eq!(found.counters, alone[at]);
                }
            });
        }
    });
}
