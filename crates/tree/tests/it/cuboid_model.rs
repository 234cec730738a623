//! A cuboid answers what adding up row by row gives, whatever is asked of it: dense and sparse sets, which are taken off totals or
//! added up, groups at its levels and coarser ones, sums that pass 64 bits, NULLs, floats of both kinds, bounds.

use crate::common::{self, kills};
use crate::sample_model::{self, CITY, COUNTRY, ITEM, Row, assert_is_the_rows};
use alluvia_space::LevelCodes;
use alluvia_tree::{
    Answer, BoxQuery, CodeSet, Cuboid, Dead, GroupKeys, GroupSpan, KilledRows, LevelFilter, Wanted, WantedMeasure,
};
use alluvia_types::{ColumnId, Version};
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Float64Array, Int64Array};
use arrow::compute::filter;
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

/// The rows that are left.
fn live(rows: &Rows, alive: &[bool]) -> Rows {
    let keep = BooleanArray::from(alive.to_vec());
    let kept = |codes: &Vec<u32>| codes.iter().zip(alive).filter(|(_, alive)| **alive).map(|(&code, _)| code).collect();
    Rows {
        codes: LevelCodes { levels: rows.codes.levels.iter().map(kept).collect() },
        measures: rows.measures.iter().map(|values| filter(values, &keep).expect("as long")).collect(),
        count: alive.iter().filter(|alive| **alive).count(),
    }
}

/// What was asked of cuboids whose rows are killed, and how much of it they told.
#[derive(Default, Debug)]
struct Told {
    asked: u64,
    of_bounds: u64,
    bounds_told: u64,
}

/// Rows come and go, and a cuboid that takes off and adds them is one of the rows that are left; a least or greatest value that it does
/// not know any more it does not tell.
fn follow_kills(seed: u64, told: &mut Told) {
    let mut random = Random(seed);
    let members: Vec<u32> = (0..1 + random.below(3)).map(|_| 2 + random.below(20) as u32).collect();
    let nulls = random.below(2) == 0;
    let spans: Vec<GroupSpan> =
        members.iter().enumerate().map(|(at, &count)| GroupSpan { level: 2 * at + 1, first: 1, count }).collect();
    let mut measures: Vec<WantedMeasure> = Vec::new();
    for column in 0..4 {
        // Squares of floats are lost.
        let squares = column == 0 && random.below(2) == 0;
        let wanted = Wanted { sum: random.below(4) > 0, squares, min_max: random.below(2) == 0 };
        measures.push(WantedMeasure { column: ColumnId(column), is_float: column >= 3, wanted });
    }
    // Of numbers that no decimal is, bounds alone can be followed.
    measures.push(WantedMeasure {
        column: ColumnId(4),
        is_float: true,
        wanted: Wanted { min_max: true, ..Wanted::default() },
    });
    let mut cuboid = Cuboid::new(spans, measures, u64::MAX).expect("few cells");
    let mut parts: Vec<(Rows, Vec<bool>)> = Vec::new();
    let columns = |cuboid: &Cuboid, rows: &Rows| -> Vec<Option<ArrayRef>> {
        cuboid.measures().iter().map(|of| Some(Arc::clone(&rows.measures[of.column.0 as usize]))).collect()
    };
    for _ in 0..1 + random.below(6) {
        // Seldom all rows go.
        let share = if random.below(6) == 0 { 10 } else { random.below(6) };
        for (rows, alive) in &mut parts {
            let of_rows = columns(&cuboid, rows);
            for (row, alive) in alive.iter_mut().enumerate() {
                if *alive && random.below(10) < share {
                    *alive = false;
                    assert!(cuboid.take_off_rows(&rows.codes, &of_rows, row..row + 1).expect("takes off"));
                }
            }
        }
        let count = 1 + random.below(120) as usize;
        let more = rows(&mut random, &members, count, nulls);
        assert!(cuboid.add_rows(&more.codes, &columns(&cuboid, &more), 0..count).expect("adds"));
        parts.push((more, vec![true; count]));
        let left: Vec<Rows> = parts.iter().map(|(rows, alive)| live(rows, alive)).collect();
        for _ in 0..6 {
            let query = question(&mut random, &members, &cuboid, nulls);
            let ancestor = |_: usize, _: usize, code: u32| (code > 0).then(|| parent(code));
            let of_group = |&level: &usize| cuboid.span_of(level, &dimension_of, &ancestor).expect("has it");
            let keys = GroupKeys::new(query.groups.iter().map(of_group).collect()).expect("counts");
            let mut answer = Answer::new(&query, keys);
            let is_told = cuboid.answer(&query, &dimension_of, &ancestor, &mut answer).is_some();
            let needs_bounds = query.measures.iter().any(|of| of.wanted.min_max);
            told.asked += 1;
            told.of_bounds += u64::from(needs_bounds);
            told.bounds_told += u64::from(needs_bounds && is_told);
            assert!(is_told || needs_bounds && parts.len() > 1, "{query:?}");
            if is_told {
                check(&answer, &query, &model(&query, &left));
            }
        }
    }
}

#[test]
fn cuboids_follow_kills() {
    let mut told = Told::default();
    for seed in 1..120 {
        follow_kills(seed, &mut told);
    }
    assert!(told.bounds_told * 4 > told.of_bounds && told.bounds_told < told.of_bounds, "{told:?}");
}

fn one_cell(wanted: Wanted, is_float: bool) -> Cuboid {
    let measures = vec![WantedMeasure { column: ColumnId(0), is_float, wanted }];
    Cuboid::new(vec![GroupSpan { level: 1, first: 1, count: 2 }], measures, u64::MAX).expect("few cells")
}

/// Codes of so many rows, all of one cell.
fn codes_of(rows: usize, code: u32) -> LevelCodes {
    LevelCodes { levels: vec![Vec::new(), vec![code; rows]] }
}

#[test]
fn bounds_are_told_as_long_as_they_are_known() {
    let wanted = Wanted { sum: true, min_max: true, ..Wanted::default() };
    let mut cuboid = one_cell(wanted, false);
    let integers =
        |values: &[i64]| -> Vec<Option<ArrayRef>> { vec![Some(Arc::new(Int64Array::from(values.to_vec())))] };
    let bounds = |cuboid: &Cuboid| -> Option<Option<(i128, i128)>> {
        let query = BoxQuery { measures: cuboid.measures().to_vec(), ..BoxQuery::default() };
        let mut answer = Answer::new(&query, GroupKeys::new(Vec::new()).expect("one group"));
        cuboid.answer(&query, &dimension_of, &|_, _, _| None, &mut answer)?;
        Some(answer.totals.measures()[0].exact_bounds(0))
    };
    let add = |cuboid: &mut Cuboid, code: u32, values: &[i64]| {
        assert!(cuboid.add_rows(&codes_of(values.len(), code), &integers(values), 0..values.len()).expect("adds"));
    };
    let take_off = |cuboid: &mut Cuboid, code: u32, values: &[i64]| {
        let rows = 0..values.len();
        assert!(cuboid.take_off_rows(&codes_of(values.len(), code), &integers(values), rows).expect("takes off"));
    };
    add(&mut cuboid, 1, &[10, 20, 30, 40]);
    take_off(&mut cuboid, 1, &[20]);
    assert_eq!(bounds(&cuboid), Some(Some((10, 40))), "it was neither");
    take_off(&mut cuboid, 1, &[40]);
    assert_eq!(bounds(&cuboid), None);
    add(&mut cuboid, 1, &[35]);
    assert_eq!(bounds(&cuboid), None, "nobody has said that no value is between");
    add(&mut cuboid, 1, &[40]);
    assert_eq!(bounds(&cuboid), Some(Some((10, 40))));
    take_off(&mut cuboid, 1, &[10]);
    assert_eq!(bounds(&cuboid), None);
    add(&mut cuboid, 2, &[5]);
    assert_eq!(bounds(&cuboid), Some(Some((5, 40))), "another cell has a lesser one");
    take_off(&mut cuboid, 2, &[5]);
    assert_eq!(bounds(&cuboid), None);
    take_off(&mut cuboid, 1, &[30, 35, 40]);
    assert_eq!(bounds(&cuboid), Some(None), "there is no value left");
    add(&mut cuboid, 1, &[7]);
    assert_eq!(bounds(&cuboid), Some(Some((7, 7))));
}

#[test]
fn what_is_not_there_is_not_taken_off_and_what_is_not_exact_is_lost() {
    let sum = Wanted { sum: true, ..Wanted::default() };
    let floats =
        |value: Option<f64>| -> Vec<Option<ArrayRef>> { vec![Some(Arc::new(Float64Array::from(vec![value])))] };
    let add = |cuboid: &mut Cuboid, value: Option<f64>| {
        assert!(cuboid.add_rows(&codes_of(1, 1), &floats(value), 0..1).expect("adds"));
    };
    let take_off = |cuboid: &mut Cuboid, value: Option<f64>| {
        cuboid.take_off_rows(&codes_of(1, 1), &floats(value), 0..1).expect("takes off")
    };
    let lost = |cuboid: &Cuboid, wanted: Wanted| {
        let measures = vec![WantedMeasure { column: ColumnId(0), is_float: true, wanted }];
        let query = BoxQuery { measures, ..BoxQuery::default() };
        let mut answer = Answer::new(&query, GroupKeys::new(Vec::new()).expect("one group"));
        let is_told = cuboid.answer(&query, &dimension_of, &|_, _, _| None, &mut answer).is_some();
        assert_eq!(is_told, !cuboid.has_lost(&query));
        !is_told
    };
    let mut cuboid = one_cell(sum, true);
    assert!(!take_off(&mut cuboid, Some(0.25)), "there is no such row");
    let mut cuboid = one_cell(sum, true);
    add(&mut cuboid, Some(0.25));
    add(&mut cuboid, Some(0.5));
    assert!(take_off(&mut cuboid, Some(0.25)) && !lost(&cuboid, sum));
    // The last row goes, and something would stay.
    assert!(!take_off(&mut cuboid, Some(0.75)));

    let squares = Wanted { squares: true, ..Wanted::default() };
    let count = Wanted::default();
    let mut cuboid = one_cell(Wanted { sum: true, squares: true, min_max: false }, true);
    add(&mut cuboid, Some(0.25));
    add(&mut cuboid, Some(0.5));
    add(&mut cuboid, None);
    assert!(take_off(&mut cuboid, None), "NULL is in no sum");
    assert!(!lost(&cuboid, sum) && !lost(&cuboid, squares));
    assert!(take_off(&mut cuboid, Some(0.5)));
    assert!(!lost(&cuboid, sum) && lost(&cuboid, squares));
    add(&mut cuboid, Some(1.0 / 3.0));
    assert!(!lost(&cuboid, sum));
    assert!(take_off(&mut cuboid, Some(1.0 / 3.0)));
    assert!(lost(&cuboid, sum) && lost(&cuboid, squares) && !lost(&cuboid, count));
    assert!(take_off(&mut cuboid, Some(0.25)), "all rows go");
}

/// Rows of segments that are killed between two versions are taken off, those that came meanwhile are not among them; and what came is
/// added.
#[test]
fn cuboids_of_segments_follow_kills() {
    let mut is_any_followed = false;
    for (seed, distinct, levels) in [(15, 20, [CITY, ITEM]), (16, 60, [CITY, ITEM]), (17, 300, [ITEM, COUNTRY])] {
        let mut data = sample_model::data(seed, &[30_000, 20_000, 700], distinct);
        let mut random = common::Random(seed * 13);
        // Sums of floats are not followed.
        let integers = |data: &sample_model::Data, groups: &[usize]| {
            let mut query = sample_model::question(data, &[], groups);
            query.measures.truncate(1);
            query
        };
        let whole = integers(&data, &levels);
        let spans = sample_model::keys(&data, &whole).spans().to_vec();
        for _ in 0..8 {
            let of_segments: Vec<BTreeMap<u64, u64>> =
                data.rows.iter().map(|rows| kills(&mut random, rows.len() as u64, 7..19)).collect();
            let dead: Vec<Arc<Dead>> = of_segments
                .iter()
                .map(|kills| Arc::new(Dead::new(kills.iter().map(|(&row, &killed)| (row, Version(killed))))))
                .collect();
            let (above, through) = (6 + random.below(6), 12 + random.below(8));
            let read_at = |data: &mut sample_model::Data, from: Option<u64>, at: u64| {
                for (segment, kills) in of_segments.iter().enumerate() {
                    data.kill(segment, kills, at);
                    data.segments[segment].above = from.map(Version);
                    data.segments[segment].through = Some(Version(at));
                }
            };
            let mut cuboid = Cuboid::new(spans.clone(), whole.measures.clone(), 6_000_000).expect("few cells");
            read_at(&mut data, None, above);
            assert!(cuboid.add_segments(&data.segments, 2).expect("adds"));
            let killed: Vec<KilledRows> = data
                .segments
                .iter()
                .zip(&dead)
                .filter_map(|(of, dead)| KilledRows::new(&of.segment, dead, Version(above), Version(through)))
                .collect();
            is_any_followed |= !killed.is_empty();
            assert!(cuboid.take_off_segments(&killed).expect("takes off"));
            read_at(&mut data, Some(above), through);
            assert!(cuboid.add_segments(&data.segments, 2).expect("adds"));
            read_at(&mut data, None, through);
            for groups in [vec![], vec![0], vec![0, 1]] {
                let of_groups: Vec<usize> = groups.iter().map(|&at| levels[at]).collect();
                let query = integers(&data, &of_groups);
                let keys = GroupKeys::new(groups.iter().map(|&at| spans[at]).collect()).expect("counts");
                let mut found = Answer::new(&query, keys);
                assert!(cuboid.answer(&query, &|level| level, &|_, _, _| None, &mut found).is_some());
                assert_is_the_integers(&found, &query, data.counted());
            }
        }
    }
    assert!(is_any_followed);
}

/// As [`assert_is_the_rows`], of a question for integers alone.
fn assert_is_the_integers<'a>(answer: &Answer, query: &BoxQuery, rows: impl Iterator<Item = &'a Row>) {
    let mut groups: BTreeMap<Vec<u32>, (u64, u64, i128)> = BTreeMap::new();
    for row in rows {
        let of_group = groups.entry(query.groups.iter().map(|&level| row.codes[level]).collect()).or_default();
        of_group.0 += 1;
        of_group.1 += u64::from(row.integer.is_some());
        of_group.2 += row.integer.map_or(0, i128::from);
    }
    let of_group = |group: usize| {
        let measure = &answer.totals.measures()[0];
        (answer.keys.codes(group), (answer.totals.rows(group), measure.count(group), measure.exact_sum(group)))
    };
    let filled = (0..answer.totals.groups()).filter(|&group| answer.totals.rows(group) > 0);
    assert_eq!(filled.map(of_group).collect::<BTreeMap<_, _>>(), groups);
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
