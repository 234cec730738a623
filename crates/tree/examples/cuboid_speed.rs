//! How long a resident cuboid takes to answer, and to take a row: `cargo run --example cuboid_speed`.
//!
//! Axes of given lengths, one sum; random sets of a given share of each axis. Nanoseconds an answer, and cells it visits.
#![allow(clippy::disallowed_methods)] // an example measures with the machine's clock

use alluvia_space::LevelCodes;
use alluvia_tree::{Answer, BoxQuery, CodeSet, Cuboid, GroupKeys, GroupSpan, LevelFilter, Wanted, WantedMeasure};
use alluvia_types::ColumnId;
use arrow::array::{ArrayRef, Float64Array};
use std::sync::Arc;
use std::time::Instant;

fn main() {
    let mut random = 7u64;
    let mut next = move |end: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % end
    };
    for lengths in [&[1_000][..], &[100, 100], &[1_000, 1_000], &[60, 60, 60], &[150, 150, 150], &[40, 40, 40, 40]] {
        let wanted = Wanted { sum: true, ..Wanted::default() };
        let measures = vec![WantedMeasure { column: ColumnId(0), is_float: true, wanted }];
        let spans: Vec<GroupSpan> =
            lengths.iter().enumerate().map(|(level, &count)| GroupSpan { level, first: 1, count }).collect();
        let mut cuboid = Cuboid::new(spans, measures.clone(), u64::MAX).expect("few cells");
        let rows = 200_000;
        let levels = lengths.iter().map(|&length| (0..rows).map(|_| 1 + next(length.into()) as u32).collect());
        let codes = LevelCodes { levels: levels.collect() };
        let prices: ArrayRef =
            Arc::new((0..rows).map(|_| Some(next(100_000) as f64 / 100.0)).collect::<Float64Array>());
        let start = Instant::now();
        for first in (0..rows).step_by(100) {
            cuboid.add_rows(&codes, &[Some(Arc::clone(&prices))], first..first + 100).expect("adds");
        }
        let row_ns = start.elapsed().as_nanos() as f64 / rows as f64;
        print!("{lengths:?}: {:.1} MB, {row_ns:.0} ns a row", cuboid.bytes() as f64 / 1e6);
        for share in [5, 30, 80, 95] {
            let queries: Vec<BoxQuery> = (0..50)
                .map(|_| {
                    let set = |next: &mut dyn FnMut(u64) -> u64, length: u32| {
                        CodeSet::of_codes((1..=length).filter(|_| next(100) < share).collect())
                    };
                    let filters = lengths
                        .iter()
                        .enumerate()
                        .map(|(level, &length)| LevelFilter { level, codes: set(&mut next, length) });
                    BoxQuery { filters: filters.collect(), measures: measures.clone(), ..BoxQuery::default() }
                })
                .collect();
            let visits: u64 = queries.iter().map(|query| cuboid.visits(query, &|level| level)).sum();
            let mut best = u128::MAX;
            for _ in 0..5 {
                let start = Instant::now();
                for query in &queries {
                    let mut answer = Answer::new(query, GroupKeys::new(Vec::new()).expect("one group"));
                    let ancestor = |_: usize, _: usize, code: u32| Some(code);
                    cuboid.answer(query, &|level| level, &ancestor, &mut answer).expect("answers");
                    std::hint::black_box(&answer);
                }
                best = best.min(start.elapsed().as_nanos());
            }
            print!("; {share} %: {} ns, {} cells", best / 50, visits / 50);
        }
        println!();
    }
}
