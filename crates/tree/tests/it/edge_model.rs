//! Boxes with ranges of times: rows at edges are told by their own values, all others by codes. What segments and the tail give, in one pass or
//! box and edges apart, is held against all rows, one by one.

use crate::answer_model::{Data, Digits, check, data, keys, model, question, values};
use crate::common::Random;
use alluvia_space::CalendarUnit;
use alluvia_space::codes::calendar;
use alluvia_tree::{Answer, BoxQuery, CodeSet, LevelFilter, TimeRange, add_rows_with_times, answer, rows_cut};
use arrow::array::*;
use arrow::datatypes::*;
use proptest::prelude::*;
use std::ops::Range;

/// The column of times, and the levels of its calendar.
const TIME: usize = 9;
const UNITS: [(usize, CalendarUnit); 2] = [(4, CalendarUnit::Year), (5, CalendarUnit::Day)];

/// A question with some ranges of times, which begin and end at rows; the units of their ends are edges. `None` if all times are NULL.
fn with_ranges(random: &mut Random, data: &Data, mut query: BoxQuery) -> Option<BoxQuery> {
    let column = &data.table.columns[TIME];
    let of_chunk = |rows: &RecordBatch| -> Vec<i64> {
        let times = rows.column_by_name(&column.storage_name).expect("a column");
        times.as_primitive::<TimestampMicrosecondType>().iter().flatten().collect()
    };
    let times: Vec<i64> = data.chunks.iter().flat_map(|(chunk, _)| of_chunk(&chunk.rows)).collect();
    if times.is_empty() {
        return None;
    }
    let mut ends: Vec<i64> = (0..2 * (1 + random.below(2)))
        .map(|_| times[random.below(times.len() as u64) as usize] + random.below(2) as i64)
        .collect();
    ends.sort_unstable();
    ends.dedup();
    let ranges: Vec<Range<i64>> = ends.chunks_exact(2).map(|pair| pair[0]..pair[1]).collect();
    let (level, unit) = UNITS[random.below(2) as usize];
    let code = |time: i64| calendar::code_of_micros(time, unit);
    let runs = ranges.iter().map(|range| (code(range.start), code(range.end - 1))).collect();
    let codes = CodeSet::of_ranges(runs, random.below(4) == 0);
    match query.filters.iter_mut().find(|filter| filter.level == level) {
        Some(filter) => filter.codes = filter.codes.intersect(&codes),
        None => query.filters.push(LevelFilter { level, codes }),
    }
    query.times = vec![TimeRange {
        column: column.id,
        storage_name: column.storage_name.clone(),
        data_type: column.data_type.to_arrow(),
        level,
        edges: CodeSet::of_codes(ranges.iter().flat_map(|range| [code(range.start), code(range.end - 1)]).collect()),
        values: ranges.iter().map(|range| range.start.into()..range.end.into()).collect(),
    }];
    Some(query)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn boxes_with_edges_are_the_model(
        seed: u64,
        sizes in prop::collection::vec(prop_oneof![1usize..300, 8_000usize..20_000], 1..4),
        distinct in prop::sample::select(vec![8u64, 30, 300, 5_000]),
        nulls in prop::sample::select(vec![0u64, 2, 20]),
        threads in 1usize..4,
    ) {
        let data = data(seed, &sizes, distinct, nulls);
        let mut random = Random(seed.rotate_left(11) | 1);
        for _ in 0..8 {
            let asked = question(&mut random, &data);
            let Some(query) = with_ranges(&mut random, &data, asked) else { continue };
            let digits: Digits = query.groups.iter().map(|_| None).collect();
            let Some(keys) = keys(&data, &query, &digits) else { continue };
            let expected = model(&data.table, &query, &digits, &data.chunks);

            let mut at_once = Answer::new(&query, keys.clone());
            assert!(answer(&query, &data.segments, threads, &mut at_once).expect("answers"));
            check(&at_once, &query, &expected);
            let counted = BoxQuery { measures: Vec::new(), ..query.clone() };
            let mut of_groups = Answer::new(&counted, keys.clone());
            assert!(answer(&counted, &data.segments, threads, &mut of_groups).expect("answers"));
            let cut = rows_cut(&query, &data.segments, keys.clone()).expect("walks");
            assert_eq!(cut, of_groups.counters.rows_filtered, "measures read no more");

            let mut apart = Answer::new(&query, keys.clone());
            let (whole, edges) = query.without_edges();
            for part in std::iter::once(&whole).chain(&edges) {
                assert!(answer(part, &data.segments, threads, &mut apart).expect("answers"));
            }
            check(&apart, &query, &expected);

            let mut by_rows = Answer::new(&query, keys);
            for (chunk, counted) in &data.chunks {
                let measures: Vec<Option<ArrayRef>> = query.measures.iter().map(|of| values(&data, chunk, of)).collect();
                let times = [chunk.rows.column_by_name(&query.times[0].storage_name).cloned()];
                for row in (0..chunk.len()).filter(|&row| counted.has(chunk, row)) {
                    add_rows_with_times(&query, &chunk.codes, (&measures, &times), row..row + 1, &mut by_rows).expect("adds");
                }
            }
            check(&by_rows, &query, &expected);
        }
    }
}

/// All rows of a box without groups that have one edge are read once, however many of its blocks have rows there.
#[test]
fn a_block_is_read_once_for_a_box_and_its_edges() {
    let data = data(77, &[20_000], 5_000, 0);
    let mut random = Random(771);
    let query = with_ranges(&mut random, &data, BoxQuery::default()).expect("times");
    let digits = Digits::new();
    let keys = keys(&data, &query, &digits).expect("one group");
    let mut found = Answer::new(&query, keys.clone());
    assert!(answer(&query, &data.segments, 2, &mut found).expect("answers"));
    check(&found, &query, &model(&data.table, &query, &digits, &data.chunks));
    assert!(found.counters.cut <= data.segments[0].segment.blocks() as u64, "{:?}", found.counters);
    assert_eq!(rows_cut(&query, &data.segments, keys).expect("walks"), found.counters.rows_filtered);
}
