//! A cuboid answers what adding up row by row gives, whatever is asked of it: dense and sparse sets, which are taken off totals or
//! added up, groups at its levels and coarser ones, sums that pass 64 bits, NULLs, floats of both kinds, bounds.

use crate::common::{self, kills};
use crate::sample_model::{self, CITY, COUNTRY, ITEM, Row, assert_is_the_rows};
use alluvia_space::LevelCodes;
use alluvia_tree::{Answer, BoxQuery, CodeSet, Cuboid, GroupKeys, GroupSpan, LevelFilter, Wanted, WantedMeasure};
use alluvia_types::ColumnId;
use arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float64Array, Int64Array};
use arrow::datatypes::{Decimal128Type, Float64Type, Int64Type};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Uniform numbers, the same on every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// Every dimension has two levels: `2 d` with a tenth as many members, and `2 d + 1`. Code 0 is NULL at both.
fn dimension_of(level: usize) -> usize {
    level / 2
}

fn parent(code: u32) -> u32 {
    if code == 0 { 0 } else { code.div_ceil(10) }
}

struct Rows {
    codes: LevelCodes,
    measures: Vec<ArrayRef>,
    count: usize,
}

fn rows(random: &mut Random, members: &[u32], count: usize, nulls: bool) -> Rows {
    let mut levels = Vec::new();
    for &members in members {
        let code = |random: &mut Random| match nulls && random.below(9) == 0 {
            true => 0,
            false => 1 + random.below(members.into()) as u32,
        };
        let fine: Vec<u32> = (0..count).map(|_| code(random)).collect();
        levels.push(fine.iter().map(|&code| parent(code)).collect());
        levels.push(fine);
    }
    let mut integers = |size: u64| -> Vec<Option<i64>> {
        (0..count).map(|_| (random.below(5) > 0).then(|| random.below(size) as i64 - (size / 3) as i64)).collect()
    };
    let small = Int64Array::from(integers(1_000));
    let large = Int64Array::from(integers(u64::MAX / 2));
    let wide: Decimal128Array =
        integers(1 << 60).into_iter().map(|value| value.map(|value| i128::from(value) << 40)).collect();
    let cents: Float64Array =
        integers(100_000).into_iter().map(|value| value.map(|value| value as f64 / 100.0)).collect();
    let thirds: Float64Array =
        (0..count).map(|row| Some(if row % 3 == 0 { 0.25 } else { (1 + random.below(1_000)) as f64 / 3.0 })).collect();
    let measures: Vec<ArrayRef> =
        vec![Arc::new(small), Arc::new(large), Arc::new(wide), Arc::new(cents), Arc::new(thirds)];
    Rows { codes: LevelCodes { levels }, measures, count }
}

/// The slow way: for each group its rows, and for each measure count, sum, sum of squares, least and greatest.
type Expected = BTreeMap<Vec<u32>, (u64, Vec<(u64, f64, f64, f64, f64, i128)>)>;

fn model(query: &BoxQuery, parts: &[Rows]) -> Expected {
    let mut groups: Expected = BTreeMap::new();
    for part in parts {
        for row in 0..part.count {
            let code = |level: usize| part.codes.levels[level][row];
            if !query.filters.iter().all(|filter| filter.codes.contains(code(filter.level))) {
                continue;
            }
            let key = query.groups.iter().map(|&level| code(level)).collect();
            let none = || (0, vec![(0, 0.0, 0.0, f64::INFINITY, f64::NEG_INFINITY, 0); query.measures.len()]);
            let (rows, totals) = groups.entry(key).or_insert_with(none);
            *rows += 1;
            for (of, (count, sum, squares, min, max, exact)) in query.measures.iter().zip(totals) {
                let values = &part.measures[of.column.0 as usize];
                if values.is_null(row) {
                    continue;
                }
                let (float, integer) = match of.column.0 {
                    0 | 1 => {
                        let value = values.as_primitive::<Int64Type>().value(row);
                        (value as f64, i128::from(value))
                    }
                    2 => {
                        let value = values.as_primitive::<Decimal128Type>().value(row);
                        (value as f64, value)
                    }
                    _ => (values.as_primitive::<Float64Type>().value(row), 0),
                };
                *count += 1;
                *sum += float;
                *squares += float * float;
                *min = min.min(float);
                *max = max.max(float);
                *exact += integer;
            }
        }
    }
    groups
}

fn near(a: f64, b: f64, size: f64) -> bool {
    (a - b).abs() <= 1e-9 * size
}

fn check(answer: &Answer, query: &BoxQuery, expected: &Expected) {
    assert!(!answer.totals.is_spoilt());
    let filled: Vec<usize> = (0..answer.totals.groups()).filter(|&group| answer.totals.rows(group) > 0).collect();
    assert_eq!(filled.len(), expected.len(), "{query:?}");
    for group in filled {
        let (rows, measures) = &expected[&answer.keys.codes(group)];
        assert_eq!(answer.totals.rows(group), *rows);
        for (totals, &(count, sum, squares, min, max, exact)) in answer.totals.measures().iter().zip(measures) {
            let Wanted { sum: has_sum, squares: has_squares, min_max } = totals.of().wanted;
            assert_eq!(totals.count(group), count);
            let size = squares.sqrt() * (count as f64).sqrt();
            match totals.of().is_float {
                true => {
                    assert!(!has_sum || near(totals.float_sum(group), sum, size));
                    assert!(!has_squares || near(totals.float_squares(group), squares, squares));
                    assert!(!min_max || count == 0 || totals.float_bounds(group) == Some((min, max)));
                }
                false => {
                    assert!(!has_sum || totals.exact_sum(group) == exact);
                    assert!(!has_squares || near(totals.exact_squares(group) as f64, squares, squares));
                    let bounds = || totals.exact_bounds(group).map(|(min, max)| (min as f64, max as f64));
                    assert!(!min_max || count == 0 || bounds() == Some((min, max)));
                }
            }
        }
    }
}

fn set(random: &mut Random, members: u32, nulls: bool) -> CodeSet {
    match random.below(4) {
        0 => CodeSet::of_range(1 + random.below(members.into()) as u32, 1 + random.below(members.into()) as u32),
        1 => CodeSet::of_codes(vec![random.below(u64::from(members) + 1) as u32]),
        _ => {
            let share = 1 + random.below(9);
            CodeSet::of_codes((u32::from(!nulls)..=members).filter(|_| random.below(10) < share).collect())
        }
    }
}

fn question(random: &mut Random, members: &[u32], cuboid: &Cuboid, nulls: bool) -> BoxQuery {
    let mut query = BoxQuery::default();
    for &level in cuboid.levels() {
        let fine = members[dimension_of(level)];
        let own = if level.is_multiple_of(2) { fine.div_ceil(10) } else { fine };
        let mut levels = vec![(level, own)];
        // NULL at the finer level may be under any member of the coarser one, which a cuboid that lacks that refuses to tell.
        if !nulls && !level.is_multiple_of(2) && !cuboid.levels().contains(&(level - 1)) {
            levels.push((level - 1, fine.div_ceil(10)));
        }
        for (level, members) in levels {
            if random.below(2) == 0 {
                query.filters.push(LevelFilter { level, codes: set(random, members, nulls) });
            }
            if random.below(5) == 0 {
                query.groups.push(level);
            }
        }
    }
    for own in cuboid.measures() {
        if random.below(2) == 0 {
            let Wanted { sum, squares, min_max } = own.wanted;
            let wanted = Wanted {
                sum: sum && random.below(3) > 0,
                squares: squares && random.below(3) == 0,
                min_max: min_max && random.below(3) == 0,
            };
            query.measures.insert(0, WantedMeasure { wanted, ..*own });
        }
    }
    query
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]
    #[test]
    fn cuboids_are_the_model(
        seed: u64,
        members in prop::collection::vec(prop_oneof![1u32..4, 10u32..60], 1..6),
        sizes in prop::collection::vec(prop_oneof![9 => 1usize..400, 1 => 1_000usize..2_500], 1..4),
        nulls: bool,
        // Whether there is an axis for either level of the first dimension.
        is_path: bool,
    ) {
        let mut random = Random(seed);
        let parts: Vec<Rows> = sizes.iter().map(|&size| rows(&mut random, &members, size, nulls)).collect();
        let mut spans: Vec<GroupSpan> =
            members.iter().enumerate().map(|(at, &count)| GroupSpan { level: 2 * at + 1, first: 1, count: count + 3 }).collect();
        if is_path {
            spans.insert(0, GroupSpan { level: 0, first: 1, count: members[0].div_ceil(10) + 1 });
        }
        let mut measures: Vec<WantedMeasure> = Vec::new();
        for column in 0..5 {
            if random.below(2) == 0 {
                // Squares of large numbers pass 128 bits, and a cuboid then steps aside.
                let wanted = Wanted { sum: random.below(4) > 0, squares: !matches!(column, 1 | 2) && random.below(2) == 0, min_max: random.below(2) == 0 };
                measures.push(WantedMeasure { column: ColumnId(column), is_float: column >= 3, wanted });
            }
        }
        let Some(mut cuboid) = Cuboid::new(spans, measures, 3_000_000) else { return Ok(()) };
        for part in &parts {
            let columns: Vec<Option<ArrayRef>> =
                cuboid.measures().iter().map(|of| Some(Arc::clone(&part.measures[of.column.0 as usize]))).collect();
            let cut = random.below(part.count as u64 + 1) as usize;
            for rows in [0..cut, cut..part.count] {
                prop_assert!(cuboid.add_rows(&part.codes, &columns, rows).expect("adds"));
            }
        }
        let ancestor = |finer: usize, coarser: usize, code: u32| {
            assert_eq!(finer, coarser + 1);
            (code > 0).then(|| parent(code))
        };
        for _ in 0..20 {
            let query = question(&mut random, &members, &cuboid, nulls);
            let spans = query.groups.iter().map(|&level| cuboid.span_of(level, &dimension_of, &ancestor).expect("has it"));
            let keys = GroupKeys::new(spans.collect()).expect("counts");
            let mut answer = Answer::new(&query, keys);
            prop_assert!(cuboid.answer(&query, &dimension_of, &ancestor, &mut answer).is_some(), "{:?}", query);
            check(&answer, &query, &model(&query, &parts));
        }
    }
}

/// Of segments what counts is added, at first and later; dead rows are in no cell.
#[test]
fn cuboids_of_segments_have_no_dead_rows() {
    for (seed, distinct, levels) in [(5, 20, [CITY, ITEM]), (6, 60, [CITY, ITEM]), (7, 300, [ITEM, COUNTRY])] {
        let mut data = sample_model::data(seed, &[60_000, 20_000, 700], distinct);
        let mut random = common::Random(seed * 11);
        for _ in 0..8 {
            sample_model::any_question(&mut data, &mut random);
            for segment in 0..data.segments.len() {
                let rows = data.rows[segment].len() as u64;
                data.kill(segment, &kills(&mut random, rows, 7..19), 6 + random.below(14));
            }
            let whole = sample_model::question(&data, &[], &levels);
            let spans = sample_model::keys(&data, &whole).spans().to_vec();
            let mut cuboid = Cuboid::new(spans.clone(), whole.measures.clone(), 6_000_000).expect("few cells");
            let first = random.below(data.segments.len() as u64 + 1) as usize;
            for segments in [&data.segments[..first], &data.segments[first..]] {
                assert!(cuboid.add_segments(segments, 2).expect("adds"));
            }
            for groups in [vec![], vec![0], vec![0, 1]] {
                let some = |random: &mut common::Random| (0..distinct as u32).filter(|_| random.below(3) > 0).collect();
                let filters = [(levels[0], some(&mut random)), (levels[1], some(&mut random))];
                let filters = &filters[..random.below(3) as usize];
                let of_groups: Vec<usize> = groups.iter().map(|&at| levels[at]).collect();
                let query = sample_model::question(&data, filters, &of_groups);
                let keys = GroupKeys::new(groups.iter().map(|&at| spans[at]).collect()).expect("counts");
                let mut found = Answer::new(&query, keys);
                assert!(cuboid.answer(&query, &|level| level, &|_, _, _| None, &mut found).is_some());
                let is_in =
                    |row: &&Row| query.filters.iter().all(|filter| filter.codes.contains(row.codes[filter.level]));
                assert_is_the_rows(&found, &query, data.counted().filter(is_in));
            }
        }
    }
}

/// Of two cuboids that can answer, the better one is the one with fewer cells to visit, whatever their sizes.
#[test]
fn visits_are_told_before() {
    let cuboid = |members: &[u32], wanted: Wanted| {
        let spans = members.iter().enumerate().map(|(at, &count)| GroupSpan { level: 2 * at + 1, first: 1, count });
        let measures = vec![WantedMeasure { column: ColumnId(0), is_float: false, wanted }];
        Cuboid::new(spans.collect(), measures, u64::MAX).expect("few cells")
    };
    let visits = |cuboid: &Cuboid, codes: CodeSet, wanted: Wanted| {
        let measures = vec![WantedMeasure { column: ColumnId(0), is_float: false, wanted }];
        let filters = vec![LevelFilter { level: 1, codes }];
        cuboid.visits(&BoxQuery { filters, measures, ..BoxQuery::default() }, &dimension_of)
    };
    let (sum, min) = (Wanted { sum: true, ..Wanted::default() }, Wanted { min_max: true, ..Wanted::default() });
    let all = Wanted { sum: true, squares: false, min_max: true };
    let long = cuboid(&[99, 999], all);
    // Totals make axes that are not named cost one, and nine tenths of an axis a tenth.
    assert_eq!(visits(&long, CodeSet::of_range(1, 40), sum), 40);
    assert_eq!(visits(&long, CodeSet::of_range(1, 90), sum), 11);
    assert_eq!(visits(&long, CodeSet::of_range(1, 40), min), 40 + 40 * 1_000);
    let many = cuboid(&[99, 2, 2, 2, 2, 2], all);
    assert_eq!(visits(&many, CodeSet::of_range(1, 40), sum), 40 * 3u64.pow(5));
    assert!(many.cells() < long.cells());
}
