//! Estimates against the exact answer: intervals hold as often as they say, what is read in full is the exact answer bit for bit, and no
//! group is lost.

use crate::common::*;
use alluvia_space::{Ladder, TableDef, TableOptions};
use alluvia_tree::estimate::Aggregate;
use alluvia_tree::sample::{Estimates, Goal, Otherwise, STRATA_MIN, SampleRequest, Sampled, Source, sample};
use alluvia_tree::{
    Answer, BoxQuery, Boxes, CodeSet, GroupKeys, GroupSpan, LadderWriter, LevelFilter, RowChunk, Segment, SegmentRows,
    Wanted, WantedMeasure, answer,
};
use alluvia_types::{SegmentId, Stage, Version};
use arrow::array::*;
use arrow::datatypes::{Float64Type, Int32Type, UInt64Type};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Columns whose values the tests choose: an INT and a DOUBLE, both measures.
const INTEGER: usize = 2;
const FLOAT: usize = 5;
/// The column of [`COUNTRY`].
const COUNTRY_COLUMN: usize = TYPES.len();
/// The column of [`ITEM`].
const ITEM_COLUMN: usize = TYPES.len() + 2;

/// Levels: country, city, item.
pub const COUNTRY: usize = 0;
pub const CITY: usize = 1;
pub const ITEM: usize = 2;

pub struct Data {
    pub table: TableDef,
    pub segments: Vec<SegmentRows>,
    /// By segment, its rows as they lie.
    pub rows: Vec<Vec<Row>>,
    pub identities: Vec<Vec<(u64, u64)>>,
    /// [`SampleRequest::strata_min`] of what is asked of it.
    pub strata_min: usize,
    /// [`SampleRequest::by_cost`], likewise.
    pub by_cost: bool,
}

/// What a row of a segment is, and when it was killed.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    pub codes: [u32; 3],
    pub integer: Option<i32>,
    pub float: f64,
    pub version: u64,
    pub killed: Option<u64>,
}

impl Data {
    /// Kills rows of a segment, and reads it at a version from now on; nothing was killed before.
    pub fn kill(&mut self, segment: usize, kills: &BTreeMap<u64, u64>, at: u64) {
        let rows = &mut self.rows[segment];
        (0..)
            .zip(rows.iter_mut())
            .for_each(|(row, of)| of.killed = kills.get(&row).copied().filter(|killed| *killed <= at));
        self.segments[segment].dead = dead_rows(kills, at);
    }

    /// The rows that count.
    pub fn counted(&self) -> impl Iterator<Item = &Row> {
        self.segments.iter().zip(&self.rows).flat_map(|(of, rows)| {
            let above = of.above.map_or(0, |above| above.0);
            let through = of.through.map_or(u64::MAX, |through| through.0);
            rows.iter().filter(move |row| row.killed.is_none() && row.version > above && row.version <= through)
        })
    }
}

fn rows_of(lying: &RowChunk) -> Vec<Row> {
    let column = |at: usize| lying.rows.column(at);
    let (integers, floats) = (column(INTEGER).as_primitive::<Int32Type>(), column(FLOAT).as_primitive::<Float64Type>());
    let versions = column(lying.rows.num_columns() - 2).as_primitive::<UInt64Type>();
    let row = |row: usize| Row {
        codes: [COUNTRY, CITY, ITEM].map(|level| lying.codes.levels[level][row]),
        integer: integers.is_valid(row).then(|| integers.value(row)),
        float: floats.value(row),
        version: versions.value(row),
        killed: None,
    };
    (0..lying.len()).map(row).collect()
}

fn unit(random: &mut Random) -> f64 {
    (random.below(1 << 52) as f64 + 0.5) / (1u64 << 52) as f64
}

/// Random rows, of which some integers are NULL and floats are from a lognormal distribution.
fn skewed(table: &TableDef, random: &mut Random, count: usize, distinct: u64, sigma: f64) -> RecordBatch {
    let rows = rows(table, random, count, distinct, 0, 9);
    let mut columns = rows.columns().to_vec();
    let integers = (0..count).map(|_| (random.below(9) > 0).then(|| random.below(2_000) as i32 - 300));
    columns[INTEGER] = Arc::new(integers.collect::<Int32Array>());
    let floats = (0..count).map(|_| {
        let normal = (-2.0 * unit(random).ln()).sqrt() * (2.0 * std::f64::consts::PI * unit(random)).cos();
        (sigma * normal).exp()
    });
    columns[FLOAT] = Arc::new(floats.map(Some).collect::<Float64Array>());
    RecordBatch::try_new(rows.schema(), columns).expect("fits")
}

fn with_nan(rows: &RecordBatch, at: usize) -> RecordBatch {
    let mut columns = rows.columns().to_vec();
    let floats = columns[FLOAT].as_primitive::<Float64Type>().iter().enumerate();
    let spoilt = floats.map(|(row, value)| if row == at { Some(f64::NAN) } else { value });
    columns[FLOAT] = Arc::new(spoilt.collect::<Float64Array>());
    RecordBatch::try_new(rows.schema(), columns).expect("fits")
}

pub fn data(seed: u64, sizes: &[usize], distinct: u64) -> Data {
    data_of(seed, sizes, distinct, 1.0)
}

/// Segments of so many rows; those of less than a thousand have no ladder, those of more than 131,072, and others as [`Data::strata_min`] has it, are walked to nodes.
pub fn data_of(seed: u64, sizes: &[usize], distinct: u64, sigma: f64) -> Data {
    data_spoilt(seed, sizes, distinct, sigma, None)
}

/// Whose ladders begin at that rung.
pub fn data_laddered(ladder: Ladder, seed: u64, sizes: &[usize], distinct: u64) -> Data {
    let options = TableOptions { ladder, ..TableOptions::default() };
    data_in(TableDef { options, ..table(true) }, seed, sizes, (distinct, 1.0), None, |_, rows| rows)
}

/// With NaN in one row of each segment that has that item.
pub fn data_spoilt(seed: u64, sizes: &[usize], distinct: u64, sigma: f64, item: Option<u32>) -> Data {
    data_in(table(true), seed, sizes, (distinct, sigma), item, |_, rows| rows)
}

/// Whose items are called as is chosen of each row, and whose floats are so many times as large in each country.
pub fn data_of_items(
    seed: u64,
    sizes: &[usize],
    distinct: u64,
    mut item: impl FnMut(&mut Random) -> String,
    times: impl Fn(&str) -> f64,
) -> Data {
    data_in(table(true), seed, sizes, (distinct, 1.0), None, |random, rows| {
        let mut columns = rows.columns().to_vec();
        let countries = columns[COUNTRY_COLUMN].as_string_view().iter();
        let floats = columns[FLOAT].as_primitive::<Float64Type>().values().iter();
        let floats = floats.zip(countries).map(|(value, country)| Some(value * times(country.unwrap_or_default())));
        columns[FLOAT] = Arc::new(floats.collect::<Float64Array>());
        let items = (0..rows.num_rows()).map(|_| Some(item(random)));
        columns[ITEM_COLUMN] = Arc::new(items.collect::<StringViewArray>());
        RecordBatch::try_new(rows.schema(), columns).expect("fits")
    })
}

fn data_in(
    table: TableDef,
    seed: u64,
    sizes: &[usize],
    (distinct, sigma): (u64, f64),
    item: Option<u32>,
    mut change: impl FnMut(&mut Random, RecordBatch) -> RecordBatch,
) -> Data {
    let mut random = Random(seed | 1);
    let disk = disk();
    let dictionaries = dictionaries(&disk, &table);
    let context = context(&disk);
    let mut ids = 0;
    let (mut segments, mut lying) = (Vec::new(), Vec::new());
    for &size in sizes {
        let rows = skewed(&table, &mut random, size, distinct, sigma);
        let rows = change(&mut random, rows);
        let mut chunk = chunk(&table, &dictionaries, rows, vec![0; size]);
        if let Some(row) = chunk.codes.levels[ITEM].iter().position(|&code| Some(code) == item) {
            chunk.rows = with_nan(&chunk.rows, row);
        }
        let chunk = by_codes(&chunk);
        let new_id = || {
            ids += 1;
            SegmentId(ids)
        };
        let writer =
            LadderWriter::create(&context, new_id, &table, Stage::Merged, None, size as u64, 150).expect("creates");
        let mut writer = writer.banded();
        let chunk = banded(&chunk, table.seed);
        writer.write(&chunk).expect("writes");
        lying.push(rows_of(&chunk));
        let segment = Segment::open(&context, writer.finish().expect("finishes")).expect("opens");
        segments.push(SegmentRows { segment, above: None, through: None, dead: None });
    }
    let identities =
        segments.iter().map(|rows| rows.segment.identities(0..rows.segment.meta().rows).expect("reads")).collect();
    let rows = lying;
    Data { table, segments, rows, identities, strata_min: [2, 8, STRATA_MIN][seed as usize % 3], by_cost: false }
}

pub fn question(data: &Data, filters: &[(usize, Vec<u32>)], groups: &[usize]) -> BoxQuery {
    let wanted = Wanted { sum: true, ..Wanted::default() };
    let measure = |at: usize, is_float| WantedMeasure { column: data.table.columns[at].id, is_float, wanted };
    BoxQuery {
        filters: filters
            .iter()
            .map(|(level, codes)| LevelFilter { level: *level, codes: CodeSet::of_codes(codes.clone()) })
            .collect(),
        times: Vec::new(),
        groups: groups.to_vec(),
        measures: vec![measure(INTEGER, false), measure(FLOAT, true)],
    }
}

pub fn keys(data: &Data, question: &BoxQuery) -> GroupKeys {
    let span = |&level: &usize| {
        let mut bounds = (u32::MAX, 0);
        for SegmentRows { segment, .. } in &data.segments {
            for block in 0..segment.blocks() {
                for code in segment.codes(level, block).expect("reads").into_iter().filter(|&code| code > 0) {
                    bounds = (bounds.0.min(code), bounds.1.max(code));
                }
            }
        }
        let (first, last) = bounds;
        GroupSpan { level, first, count: if last >= first { last - first + 1 } else { 0 } }
    };
    GroupKeys::new(question.groups.iter().map(span).collect()).expect("few groups")
}

pub const GOALS: [Goal; 6] = [
    Goal { aggregate: Aggregate::Count, measure: None },
    Goal { aggregate: Aggregate::Count, measure: Some(0) },
    Goal { aggregate: Aggregate::Sum, measure: Some(0) },
    Goal { aggregate: Aggregate::Avg, measure: Some(0) },
    Goal { aggregate: Aggregate::Sum, measure: Some(1) },
    Goal { aggregate: Aggregate::Avg, measure: Some(1) },
];

pub fn truth(exact: &Answer, group: usize, goal: &Goal) -> f64 {
    let Some(measure) = goal.measure else { return exact.totals.rows(group) as f64 };
    let totals = &exact.totals.measures()[measure];
    let sum = if totals.of().is_float { totals.float_sum(group) } else { totals.exact_sum(group) as f64 };
    match goal.aggregate {
        Aggregate::Count => totals.count(group) as f64,
        Aggregate::Sum => sum,
        Aggregate::Avg => sum / totals.count(group) as f64,
    }
}

/// The exact answer, which is what rows one by one give.
pub fn exact(data: &Data, question: &BoxQuery) -> Answer {
    let mut exact = Answer::new(question, keys(data, question));
    assert!(answer(question, &data.segments, 1, &mut exact).expect("answers"));
    if !exact.totals.is_spoilt() {
        let is_in = |row: &Row| question.filters.iter().all(|filter| filter.codes.contains(row.codes[filter.level]));
        assert_is_the_rows(&exact, question, data.counted().filter(|row| is_in(row)));
    }
    exact
}

/// Panics unless an answer is that of some rows, the slow way.
pub fn assert_is_the_rows<'a>(answer: &Answer, question: &BoxQuery, rows: impl Iterator<Item = &'a Row>) {
    let mut groups: BTreeMap<Vec<u32>, (u64, u64, i128, f64)> = BTreeMap::new();
    for row in rows {
        let of_group = groups.entry(question.groups.iter().map(|&level| row.codes[level]).collect()).or_default();
        of_group.0 += 1;
        of_group.1 += u64::from(row.integer.is_some());
        of_group.2 += row.integer.map_or(0, i128::from);
        of_group.3 += row.float;
    }
    let found: Vec<usize> = (0..answer.totals.groups()).filter(|&group| answer.totals.rows(group) > 0).collect();
    assert_eq!(found.len(), groups.len());
    for group in found {
        let measures = answer.totals.measures();
        let (rows, values, sum, float) = groups[&answer.keys.codes(group)];
        assert_eq!(
            (answer.totals.rows(group), measures[0].count(group), measures[0].exact_sum(group)),
            (rows, values, sum)
        );
        assert!((measures[1].float_sum(group) - float).abs() <= 1e-9 * float.abs());
    }
}

/// How it is asked.
pub struct How<'a> {
    pub goals: &'a [Goal],
    pub max_error: f64,
    pub otherwise: Otherwise,
    /// `None` reads the ladder.
    pub seed: Option<u64>,
}

pub fn ask(data: &Data, question: &BoxQuery, keys: &GroupKeys, how: &How<'_>) -> (Sampled, Answer) {
    ask_boxes(data, &Boxes::from(question.clone()), keys, how)
}

pub fn ask_boxes(data: &Data, boxes: &Boxes, keys: &GroupKeys, how: &How<'_>) -> (Sampled, Answer) {
    let source = match how.seed {
        None => Source::Ladder,
        Some(seed) => Source::Seeded { seed, identities: &data.identities },
    };
    let asked = SampleRequest {
        boxes,
        group_codes: &[],
        goals: how.goals,
        max_error: how.max_error,
        confidence: 0.95,
        otherwise: how.otherwise,
        source,
        by_cost: data.by_cost,
        strata_min: data.strata_min,
        threads: 2,
    };
    let mut into = Answer::new(&boxes.each()[0], keys.clone());
    (sample(&asked, &data.segments, &mut into).expect("samples"), into)
}

/// Bit for bit, for what adds up exactly; other floats may differ in the last place, for rows come in another order. So may groups that are
/// numbered as they are met.
pub fn assert_same(found: &Answer, expected: &Answer) {
    let by_codes = |answer: &Answer| -> BTreeMap<Vec<u32>, usize> {
        let groups = (0..answer.totals.groups()).filter(|&group| answer.totals.rows(group) > 0);
        groups.map(|group| (answer.keys.codes(group), group)).collect()
    };
    let (of_found, of_expected) = (by_codes(found), by_codes(expected));
    assert_eq!(of_found.keys().collect::<Vec<_>>(), of_expected.keys().collect::<Vec<_>>());
    for (own, other) in of_found.into_values().zip(of_expected.into_values()) {
        assert_eq!(found.totals.rows(own), expected.totals.rows(other));
        let (found, expected) = (found.totals.measures(), expected.totals.measures());
        assert_eq!(found[0].count(own), expected[0].count(other));
        assert_eq!(found[0].exact_sum(own), expected[0].exact_sum(other));
        let (a, b) = (found[1].float_sum(own), expected[1].float_sum(other));
        assert!((a - b).abs() <= 1e-12 * b.abs(), "{a} {b}");
    }
}

pub fn codes(of: std::ops::Range<u32>) -> Vec<u32> {
    of.collect()
}

#[test]
fn a_ladder_is_what_its_seed_draws() {
    let data = data(3, &[150_000, 60_000, 700], 40);
    for (filters, groups) in [
        (vec![(ITEM, codes(1..20))], vec![]),
        (vec![(ITEM, vec![1, 5, 7, 9, 30]), (CITY, codes(3..25))], vec![]),
        (vec![(ITEM, codes(1..30))], vec![COUNTRY]),
    ] {
        let question = question(&data, &filters, &groups);
        let keys = keys(&data, &question);
        let how = |seed| How { goals: &GOALS[..4], max_error: 0.2, otherwise: Otherwise::Reached, seed };
        let (ladder, _) = ask(&data, &question, &keys, &how(None));
        let (seeded, _) = ask(&data, &question, &keys, &how(Some(data.table.seed)));
        let (Sampled::Estimates(ladder), Sampled::Estimates(seeded)) = (ladder, seeded) else {
            panic!("both are sampled")
        };
        assert!(ladder.rows_drawn > 0);
        assert_same_estimates(&ladder, &seeded);
    }
}

fn assert_same_estimates(found: &Estimates, expected: &Estimates) {
    let of = |estimates: &Estimates| (estimates.rows_drawn, estimates.rungs, estimates.look, estimates.groups.len());
    assert_eq!(of(found), of(expected));
    for ((group, a), (_, b)) in found.groups.iter().zip(&expected.groups) {
        for (a, b) in a.iter().zip(b) {
            let (a, b) = (a.interval, b.interval);
            for (a, b) in [(a.estimate, b.estimate), (a.lower, b.lower), (a.upper, b.upper)] {
                assert!((a - b).abs() <= 1e-9 * b.abs(), "group {group}: {a} {b}");
            }
        }
    }
}

/// The less error is asked for, the thicker the rung that is read, as far as the ladder goes.
#[test]
fn thick_rungs_are_what_their_seed_draws() {
    for ladder in Ladder::ALL {
        // The last one's ladder has thick rungs alone, if it has one.
        let data = data_laddered(ladder, 3, &[150_000, 60_000, 700], 40);
        let question = question(&data, &[(ITEM, codes(1..20))], &[]);
        let keys = keys(&data, &question);
        let mut most = 0.0f64;
        for max_error in [0.2, 0.02, 0.014, 0.011, 0.008, 0.006] {
            let how = |seed| How { goals: &GOALS[..1], max_error, otherwise: Otherwise::Reached, seed };
            let (found, _) = ask(&data, &question, &keys, &how(None));
            match (found, ask(&data, &question, &keys, &how(Some(data.table.seed))).0) {
                (Sampled::Estimates(found), Sampled::Estimates(expected)) => {
                    assert_same_estimates(&found, &expected);
                    most = most.max(found.rows_drawn as f64 / found.rows_cut as f64);
                }
                (Sampled::Exact, Sampled::Exact) => {}
                (found, expected) => panic!("{found:?} is not {expected:?}"),
            }
        }
        // Two looks at rungs up to 1/8 draw less.
        assert_eq!(most > 0.2, ladder != Ladder::Eighth, "from {} on {most} of the rows are drawn", ladder.name());
    }
}

/// Through the path that stops when the bound holds. Whoever reads everything holds the truth.
#[test]
fn intervals_hold_as_often_as_they_say() {
    let trials = std::env::var("SAMPLE_TRIALS").ok().and_then(|trials| trials.parse().ok()).unwrap_or(150u64);
    let data = data(5, &[150_000, 50_000, 900], 30);
    // Each error is a little above what is foreseen of a thin rung: then that one is read first.
    for (filters, goal, max_error) in [
        (vec![(ITEM, codes(1..12))], GOALS[0], 0.08),
        (vec![(ITEM, vec![2, 9])], GOALS[1], 0.25),
        (vec![(ITEM, codes(1..20))], GOALS[2], 0.085),
        (vec![(ITEM, codes(4..20)), (COUNTRY, codes(1..15))], GOALS[3], 0.11),
        (vec![(ITEM, codes(1..20))], GOALS[4], 0.11),
        (vec![(ITEM, codes(1..9))], GOALS[5], 0.15),
    ] {
        let question = question(&data, &filters, &[]);
        let keys = keys(&data, &question);
        let truth = truth(&exact(&data, &question), 0, &goal);
        let (mut held, mut sampled) = (0, 0);
        for seed in 0..trials {
            let how = How { goals: &[goal], max_error, otherwise: Otherwise::Exact, seed: Some(seed) };
            match ask(&data, &question, &keys, &how).0 {
                Sampled::Estimates(found) => {
                    let cell = found.groups[0].1[0].interval;
                    assert!(found.holds && cell.relative_error() <= max_error, "{found:?}");
                    sampled += 1;
                    held += u64::from(cell.lower <= truth && truth <= cell.upper);
                }
                Sampled::Exact => held += 1,
                Sampled::Cannot => panic!("it can"),
            }
        }
        let least = 0.95 - 4.0 * (0.95f64 * 0.05 / trials as f64).sqrt();
        println!("{goal:?} {filters:?}: {held} of {trials} hold, {sampled} sampled");
        assert!(held as f64 >= least * trials as f64, "{goal:?} {filters:?}: {held} of {trials}");
        assert!(sampled * 4 > trials, "{goal:?} {filters:?}: {sampled} of {trials} were sampled");
    }
}

/// Of a lognormal of sigma 2.5 a few rows in a thousand decide the sum: drawn like others, they would leave an error of a half.
#[test]
fn heavy_values_are_counted_exactly() {
    // A block of a rung has rows of many blocks of the segment: of one that is spoilt, too.
    for data in [None, Some(29)].map(|item| data_spoilt(13, &[150_000, 50_000, 900], 30, 2.5, item)) {
        heavy_values_of(&data);
    }
}

fn heavy_values_of(data: &Data) {
    let mut compared = 0;
    for (filters, groups) in [
        (vec![(ITEM, codes(1..20))], vec![]),
        (vec![(ITEM, codes(4..20)), (COUNTRY, codes(1..15))], vec![]),
        (vec![(ITEM, codes(1..25))], vec![COUNTRY]),
    ] {
        let question = question(data, &filters, &groups);
        let (keys, exact) = (keys(data, &question), exact(data, &question));
        let goals = &GOALS[4..];
        let ask = |seed| {
            let how = How { goals, max_error: 0.15, otherwise: Otherwise::Reached, seed };
            match ask(data, &question, &keys, &how).0 {
                Sampled::Estimates(found) => Some(found),
                // All of a handful of groups may have to be read.
                Sampled::Exact if !groups.is_empty() => None,
                other => panic!("{other:?} is no estimate"),
            }
        };
        let (ladder, seeded) = (ask(None), ask(Some(data.table.seed)));
        assert_eq!(ladder.is_some(), seeded.is_some());
        let (Some(ladder), Some(seeded)) = (ladder, seeded) else { continue };
        compared += 1;
        assert_eq!((ladder.rows_drawn, ladder.rungs), (seeded.rows_drawn, seeded.rungs));
        for ((_, a), (_, b)) in ladder.groups.iter().zip(&seeded.groups) {
            for (a, b) in a.iter().zip(b) {
                let (a, b) = (a.interval, b.interval);
                for (a, b) in [(a.estimate, b.estimate), (a.lower, b.lower), (a.upper, b.upper)] {
                    assert!((a - b).abs() <= 1e-9 * b.abs() || a == b || a.is_nan() && b.is_nan(), "{a} {b}");
                }
            }
        }
        let (mut held, mut values, mut narrow) = (0, 0, 0);
        for seed in 0..100 {
            for (group, cells) in ask(Some(seed)).into_iter().flat_map(|found| found.groups) {
                for (cell, goal) in cells.iter().zip(goals) {
                    let truth = truth(&exact, group, goal);
                    values += 1;
                    held += u64::from(cell.interval.lower <= truth && truth <= cell.interval.upper);
                    narrow += u64::from(cell.interval.relative_error() < 0.25);
                }
            }
        }
        println!("{filters:?} {groups:?}: {held} of {values} hold, {narrow} are narrow");
        let least = 0.95 - 4.0 * (0.95f64 * 0.05 / values as f64).sqrt();
        assert!(held as f64 >= least * values as f64, "{filters:?} {groups:?}: {held} of {values}");
        assert!(!groups.is_empty() || narrow * 10 > values * 9, "{narrow} of {values} are narrow");
    }
    assert!(compared >= 2, "estimates of {compared} questions were compared");
}

/// Any box with any groups, of any versions of the segments, some with dead rows.
pub fn any_question(data: &mut Data, random: &mut Random) -> BoxQuery {
    for segment in &mut data.segments {
        segment.through = (random.below(4) == 0).then(|| Version(9 + random.below(5)));
        segment.above = (random.below(5) == 0).then(|| Version(6 + random.below(4)));
    }
    for segment in 0..data.segments.len() {
        let rows = data.rows[segment].len() as u64;
        let kills = if random.below(4) == 0 { kills(random, rows, 7..19) } else { BTreeMap::new() };
        data.kill(segment, &kills, 6 + random.below(14));
    }
    let some = |random: &mut Random| {
        let share = 1 + random.below(9);
        (0..60).filter(|_| random.below(10) < share).collect::<Vec<u32>>()
    };
    let mut filters = vec![(ITEM, some(random))];
    if random.below(2) == 0 {
        filters.push((CITY, some(random)));
    }
    let groups: Vec<usize> = [COUNTRY, CITY, ITEM].into_iter().filter(|_| random.below(3) == 0).collect();
    question(data, &filters, &groups)
}

#[test]
fn what_is_read_in_full_is_the_exact_answer() {
    let mut data = data(7, &[140_000, 40_000, 500], 60);
    let mut random = Random(77);
    let mut estimated = 0;
    for round in 0..60 {
        let question = any_question(&mut data, &mut random);
        let (keys, expected) = (keys(&data, &question), exact(&data, &question));
        let how = How { goals: &GOALS, max_error: 0.0, otherwise: Otherwise::Exact, seed: None };
        let (found, into) = ask(&data, &question, &keys, &how);
        assert!(matches!(found, Sampled::Exact), "round {round}: {found:?}");
        assert_same(&into, &expected);
        // What is given where a sample is asked for has every group, or says how many it may lack.
        let max_error = [0.05, 0.3, 1e9][random.below(3) as usize];
        let otherwise = if random.below(2) == 0 { Otherwise::Exact } else { Otherwise::Reached };
        let how = How { goals: &GOALS, max_error, otherwise, seed: Some(random.below(1_000)) };
        match ask(&data, &question, &keys, &how) {
            (Sampled::Estimates(found), _) => {
                estimated += 1;
                check_groups(&found, &expected);
                assert!(found.holds || otherwise == Otherwise::Reached);
            }
            (Sampled::Exact, into) => assert_same(&into, &expected),
            (Sampled::Cannot, _) => panic!("it can"),
        }
    }
    assert!(estimated > 5, "{estimated} rounds were sampled");
}

pub fn check_groups(found: &Estimates, expected: &Answer) {
    let there: BTreeSet<usize> =
        (0..expected.totals.groups()).filter(|&group| expected.totals.rows(group) > 0).collect();
    let seen: BTreeSet<usize> = found.groups.iter().map(|(group, _)| *group).collect();
    let lost = there.difference(&seen).count() as u64;
    assert!(lost <= found.groups_unseen, "{lost} groups are lost, {} are said to be", found.groups_unseen);
    if found.holds {
        assert_eq!(lost, 0);
    }
}

/// Segments with dead rows are exact terms of an estimate: over the choice of the seed it is right in the mean, its interval holds, and it is
/// no estimate of the dead. The middle one of the segments has them, so that drawn rows of the last one are found by their identities.
#[test]
fn intervals_hold_beside_segments_with_dead_rows() {
    let trials = std::env::var("SAMPLE_TRIALS").ok().and_then(|trials| trials.parse().ok()).unwrap_or(100u64);
    for (seed, groups) in [(9, vec![]), (11, vec![COUNTRY])] {
        let mut data = data(seed, &[120_000, 30_000, 60_000], 12);
        // A third of the rows, and a block of those that are left.
        let kills: BTreeMap<u64, u64> = (0..30_000)
            .filter(|row| row % 3 == 0 || (8_192..16_384).contains(row))
            .map(|row| (row, 9 + row % 5))
            .collect();
        data.kill(1, &kills, 12);
        let question = question(&data, &[(ITEM, codes(1..8))], &groups);
        let (keys, expected) = (keys(&data, &question), exact(&data, &question));
        let goals = [GOALS[0], GOALS[2], GOALS[4]];
        let (mut held, mut values, mut sampled) = (0, 0, 0);
        let mut sums: BTreeMap<(usize, usize), Vec<f64>> = BTreeMap::new();
        for seed in 0..trials {
            let how = How { goals: &goals, max_error: 1e9, otherwise: Otherwise::Reached, seed: Some(seed) };
            let Sampled::Estimates(found) = ask(&data, &question, &keys, &how).0 else { continue };
            sampled += 1;
            check_groups(&found, &expected);
            for (group, cells) in &found.groups {
                for (at, (cell, goal)) in cells.iter().zip(&goals).enumerate() {
                    let (truth, cell) = (truth(&expected, *group, goal), cell.interval);
                    values += 1;
                    held += u64::from(cell.lower <= truth && truth <= cell.upper);
                    sums.entry((*group, at)).or_default().push(cell.estimate);
                }
            }
        }
        assert!(sampled * 10 > trials * 9, "{sampled} of {trials} were sampled");
        let least = 0.95 - 4.0 * (0.95f64 * 0.05 / sampled as f64).sqrt();
        assert!(held as f64 >= least * values as f64, "{held} of {values}");
        for ((group, at), estimates) in sums.iter().filter(|(_, estimates)| estimates.len() as u64 == sampled) {
            let (count, truth) = (estimates.len() as f64, truth(&expected, *group, &goals[*at]));
            let mean = estimates.iter().sum::<f64>() / count;
            let variance = estimates.iter().map(|estimate| (estimate - mean).powi(2)).sum::<f64>() / (count - 1.0);
            let off = (mean - truth).abs() / (variance / count).sqrt().max(1e-9 * truth.abs());
            assert!(
                off < 5.0,
                "group {group}, {:?}: {mean} in the mean instead of {truth}, {off} errors off",
                goals[*at]
            );
        }
    }
}

/// Where what is read decides: no estimate is begun that is expected to be dearer than the exact answer, and what is read in full is exact.
#[test]
fn estimates_are_made_where_they_are_expected_to_cost_less() {
    let mut data = data(19, &[560_000, 140_000, 700], 60);
    let mut random = Random(191);
    let (mut sampled, mut exactly) = (0, 0);
    for round in 0..60 {
        let question = if round % 3 == 0 {
            data.segments.iter_mut().for_each(|rows| (rows.above, rows.through) = (None, None));
            (0..data.segments.len()).for_each(|segment| data.kill(segment, &BTreeMap::new(), 0));
            question(&data, &[(ITEM, codes(1..40)), (CITY, codes(2..50))], &[])
        } else {
            any_question(&mut data, &mut random)
        };
        let (keys, expected) = (keys(&data, &question), exact(&data, &question));
        let boxes = Boxes::from(question.clone());
        let asked = SampleRequest {
            boxes: &boxes,
            group_codes: &[],
            goals: &GOALS[..1 + random.below(6) as usize],
            max_error: [0.0001, 0.01, 0.1, 0.5][random.below(4) as usize],
            confidence: 0.95,
            otherwise: if random.below(2) == 0 { Otherwise::Exact } else { Otherwise::Reached },
            source: Source::Ladder,
            by_cost: true,
            strata_min: data.strata_min,
            threads: 1 + random.below(3) as usize,
        };
        let mut into = Answer::new(&question, keys);
        match sample(&asked, &data.segments, &mut into).expect("samples") {
            Sampled::Estimates(found) => {
                sampled += 1;
                check_groups(&found, &expected);
                let foreseen = found.foreseen.as_ref().expect("it was foreseen");
                assert!(foreseen.nanos() < foreseen.exact_nanos(), "{foreseen:?}");
                if asked.otherwise == Otherwise::Exact {
                    // What is drawn first is little, or sure to be enough.
                    assert!(found.holds && 2.0 * foreseen.nanos() <= foreseen.exact_nanos(), "{foreseen:?}");
                }
            }
            Sampled::Exact => {
                exactly += 1;
                assert_same(&into, &expected);
            }
            Sampled::Cannot => panic!("it can"),
        }
    }
    assert!(sampled > 5 && exactly > 5, "{sampled} were sampled, {exactly} read in full");
}

/// Of more than 256 blocks nodes of nodes are looked at first. Scattered items leave all of them cut, and most of what lies below; countries
/// are neighbours, so of theirs all are looked into.
#[test]
fn nodes_of_nodes_are_looked_into_where_that_spares_much() {
    let data = Data { strata_min: 2, ..data(41, &[2_400_000], 40) };
    let scattered = question(&data, &[(ITEM, (1..40).step_by(2).collect())], &[]);
    let near = question(&data, &[(COUNTRY, vec![2])], &[]);
    let drawn = |question: &BoxQuery, max_error: f64, otherwise: Otherwise| {
        let keys = keys(&data, question);
        let (sampled, answer) =
            ask(&data, question, &keys, &How { goals: &GOALS[..4], max_error, otherwise, seed: None });
        (sampled, answer, exact(&data, question))
    };
    let (sampled, _, expected) = drawn(&scattered, 0.05, Otherwise::Reached);
    let Sampled::Estimates(coarse) = sampled else { panic!("{sampled:?}") };
    assert!(coarse.nodes_drawn < 20, "{} nodes", coarse.nodes_drawn);
    assert_eq!(coarse.rows_cut, 2_400_000);
    for (goal, found) in GOALS[..4].iter().zip(&coarse.groups[0].1) {
        let truth = truth(&expected, 0, goal);
        let (lower, upper) = (found.interval.lower, found.interval.upper);
        assert!(lower <= truth && truth <= upper, "{goal:?}: {truth} in {lower}..{upper}");
    }
    let (sampled, _, _) = drawn(&near, 0.05, Otherwise::Reached);
    let Sampled::Estimates(fine) = sampled else { panic!("{sampled:?}") };
    assert!(fine.rows_cut < 1_200_000, "{} rows are cut", fine.rows_cut);
    // What is below the nodes that stay is read in full where no sample suffices.
    for question in [&scattered, &near] {
        let (sampled, found, expected) = drawn(question, 1e-9, Otherwise::Exact);
        assert!(matches!(sampled, Sampled::Exact), "{sampled:?}");
        assert_same(&found, &expected);
    }
}
