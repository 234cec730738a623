//! Box queries over segments and unsorted rows give what adding up row by row gives, also where codes are grouped by what maps make
//! of them.

use crate::common::*;
use alluvia_catalog::Dictionaries;
use alluvia_space::codes::calendar;
use alluvia_space::{CalendarUnit, TableDef};
use alluvia_tree::{
    Answer, BoxQuery, CodeMap, CodeSet, Cuboid, GroupKeys, GroupSpan, LevelFilter, RowChunk, Segment, SegmentRows,
    SegmentWriter, TimeRange, Wanted, WantedMeasure, add_rows, answer,
};
use alluvia_types::{SegmentId, Stage, Version};
use arrow::array::*;
use arrow::datatypes::*;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a group's measure is: values that are not NULL, exact or as floats.
#[derive(Default, Debug)]
pub struct Expected {
    count: u64,
    integers: Vec<i128>,
    floats: Vec<f64>,
}

/// The groups of an answer: rows, and each measure.
pub type Groups = BTreeMap<Vec<u32>, (u64, Vec<Expected>)>;

/// For each group's level the digits of codes, if it has a map.
pub type Digits = Vec<Option<BTreeMap<u32, u32>>>;

/// Which rows of a chunk count: those of versions above one and through another that nobody has killed through a third.
#[derive(Clone, Debug)]
pub struct Counted {
    pub above: u64,
    pub through: u64,
    /// The versions of the kills, by row.
    pub kills: Arc<BTreeMap<u64, u64>>,
    pub at: u64,
}

impl Counted {
    /// All rows.
    pub fn all() -> Counted {
        Counted { above: 0, through: u64::MAX, kills: Arc::default(), at: 0 }
    }

    /// Whether a row of the chunk counts.
    pub fn has(&self, chunk: &RowChunk, row: usize) -> bool {
        let versions = chunk.rows.column(chunk.rows.num_columns() - 2).as_primitive::<UInt64Type>();
        let is_dead = self.kills.get(&(row as u64)).is_some_and(|killed| *killed <= self.at);
        versions.value(row) > self.above && versions.value(row) <= self.through && !is_dead
    }

    /// The rows of the chunk's segment that count.
    pub fn of_segment(&self, segment: &Arc<Segment>) -> SegmentRows {
        SegmentRows {
            segment: Arc::clone(segment),
            above: (self.above > 0).then_some(Version(self.above)),
            through: (self.through < u64::MAX).then_some(Version(self.through)),
            dead: dead_rows(&self.kills, self.at),
        }
    }
}

/// A row's own value of a range's column.
fn time_of(chunk: &RowChunk, range: &TimeRange, row: usize) -> Option<i64> {
    let times = chunk.rows.column_by_name(&range.storage_name).expect("a column");
    times.is_valid(row).then(|| times.as_primitive::<TimestampMicrosecondType>().value(row))
}

/// The slow way: those rows of chunks that count.
pub fn model(table: &TableDef, query: &BoxQuery, digits: &Digits, chunks: &[(RowChunk, Counted)]) -> Groups {
    model_of(table, query, digits, chunks.iter().map(|(chunk, counted)| (chunk, counted)))
}

pub fn model_of<'a>(
    table: &TableDef,
    query: &BoxQuery,
    digits: &Digits,
    chunks: impl Iterator<Item = (&'a RowChunk, &'a Counted)>,
) -> Groups {
    let mut groups = Groups::new();
    for (chunk, counted) in chunks {
        let column = |measure: &WantedMeasure| {
            let name = &table.column_by_id(measure.column).expect("a column").storage_name;
            chunk.rows.column_by_name(name).expect("a column")
        };
        let columns: Vec<&ArrayRef> = query.measures.iter().map(column).collect();
        for row in 0..chunk.len() {
            let matches = |filter: &LevelFilter| filter.codes.contains(chunk.codes.levels[filter.level][row]);
            let lies = |range: &TimeRange| {
                let is_edge = range.edges.contains(chunk.codes.levels[range.level][row]);
                !is_edge || time_of(chunk, range, row).is_some_and(|time| range.contains(time))
            };
            if !query.filters.iter().all(matches) || !query.times.iter().all(lies) || !counted.has(chunk, row) {
                continue;
            }
            let of_level = |(&level, digits): (&usize, &Option<BTreeMap<u32, u32>>)| {
                let code = chunk.codes.levels[level][row];
                digits.as_ref().map_or(code, |digits| digits.get(&code).copied().unwrap_or(0))
            };
            let key = query.groups.iter().zip(digits).map(of_level).collect();
            let (rows, measures) =
                groups.entry(key).or_insert_with(|| (0, query.measures.iter().map(|_| Expected::default()).collect()));
            *rows += 1;
            for (values, expected) in columns.iter().zip(measures) {
                if values.is_null(row) {
                    continue;
                }
                expected.count += 1;
                match values.data_type() {
                    DataType::Int16 => expected.integers.push(values.as_primitive::<Int16Type>().value(row).into()),
                    DataType::Int32 => expected.integers.push(values.as_primitive::<Int32Type>().value(row).into()),
                    DataType::Int64 => expected.integers.push(values.as_primitive::<Int64Type>().value(row).into()),
                    DataType::Decimal128(..) => {
                        expected.integers.push(values.as_primitive::<Decimal128Type>().value(row));
                    }
                    DataType::Float32 => {
                        expected.floats.push(values.as_primitive::<Float32Type>().value(row).into());
                    }
                    _ => expected.floats.push(values.as_primitive::<Float64Type>().value(row)),
                }
            }
        }
    }
    groups
}

/// Whether 128 bits hold a sum of the values' squares (or of the values).
fn fits(values: &[i128], wanted: Wanted) -> bool {
    let sum = values.iter().try_fold(0i128, |sum, &value| sum.checked_add(value)).is_some();
    let square = |sum: i128, &value: &i128| sum.checked_add(value.checked_mul(value)?);
    (!wanted.sum || sum) && (!wanted.squares || values.iter().try_fold(0i128, square).is_some())
}

/// Panics unless an answer is what the slow way gives, or says that it is none.
pub fn check(answer: &Answer, query: &BoxQuery, expected: &Groups) {
    let special = |expected: &Expected| expected.floats.iter().any(|value| !value.is_finite() || value.abs() > 1e140);
    let tame = expected.values().all(|(_, measures)| {
        measures
            .iter()
            .zip(&query.measures)
            .all(|(expected, of)| !special(expected) && fits(&expected.integers, of.wanted))
    });
    if answer.totals.is_spoilt() {
        // Sums of partial sums may pass 128 bits where the whole does not: refused then, never wrong.
        let wide = expected
            .values()
            .flat_map(|(_, measures)| measures)
            .any(|expected| expected.integers.iter().any(|value| value.unsigned_abs() > 1 << 48) || special(expected));
        // Squares are taken of distances from a block's least value, which may be far from the rows that match.
        let far = query.measures.iter().any(|measure| measure.wanted.squares && !measure.is_float);
        assert!(!tame || wide || far, "spoilt without a reason");
        return;
    }
    let mut found = 0;
    for group in 0..answer.totals.groups() {
        if answer.totals.rows(group) == 0 {
            continue;
        }
        found += 1;
        let codes = answer.keys.codes(group);
        let (rows, measures) = expected.get(&codes).unwrap_or_else(|| panic!("a group too many: {codes:?}"));
        assert_eq!(answer.totals.rows(group), *rows);
        for (totals, expected) in answer.totals.measures().iter().zip(measures) {
            let wanted = totals.of().wanted;
            assert_eq!(totals.count(group), expected.count);
            if !totals.of().is_float {
                if wanted.sum {
                    assert_eq!(totals.exact_sum(group), expected.integers.iter().sum::<i128>());
                }
                if wanted.squares {
                    assert_eq!(totals.exact_squares(group), expected.integers.iter().map(|v| v * v).sum::<i128>());
                }
                if wanted.min_max {
                    let bounds = expected.integers.iter().min().zip(expected.integers.iter().max());
                    assert_eq!(totals.exact_bounds(group), bounds.map(|(min, max)| (*min, *max)));
                }
            } else {
                let size: f64 = expected.floats.iter().map(|value| value.abs()).sum();
                if wanted.sum {
                    let sum: f64 = expected.floats.iter().sum();
                    assert!((totals.float_sum(group) - sum).abs() <= 1e-9 * size, "{} {sum}", totals.float_sum(group));
                }
                if wanted.squares {
                    let squares: f64 = expected.floats.iter().map(|value| value * value).sum();
                    let found = totals.float_squares(group);
                    assert!((found - squares).abs() <= 1e-9 * squares, "{found} {squares}");
                }
                if wanted.min_max {
                    let min = expected.floats.iter().copied().reduce(f64::min);
                    let max = expected.floats.iter().copied().reduce(f64::max);
                    assert_eq!(totals.float_bounds(group), min.zip(max));
                }
            }
        }
    }
    assert_eq!(found, expected.len(), "groups are missing");
}

/// A set of codes that rows have, and some others.
pub fn set(random: &mut Random, codes: &[u32]) -> CodeSet {
    let mut present: Vec<u32> = codes.to_vec();
    present.sort_unstable();
    present.dedup();
    match random.below(4) {
        0 => CodeSet::of_codes(vec![present[random.below(present.len() as u64) as usize]]),
        1 => {
            let a = present[random.below(present.len() as u64) as usize];
            let b = present[random.below(present.len() as u64) as usize];
            CodeSet::of_range(a.min(b), a.max(b))
        }
        _ => {
            let share = 1 + random.below(9);
            CodeSet::of_codes(present.into_iter().filter(|_| random.below(10) < share).collect())
        }
    }
}

/// The codes that rows have at a level.
pub fn span(level: usize, chunks: &[(RowChunk, Counted)]) -> GroupSpan {
    let codes =
        || chunks.iter().flat_map(|(chunk, _)| chunk.codes.levels[level].iter().copied()).filter(|&code| code > 0);
    let first = codes().min().unwrap_or(1);
    GroupSpan { level, first, count: codes().max().map_or(0, |last| last - first + 1) }
}

/// Digits of some codes of the groups' levels that have members, neighbours often of one; there are few of them.
fn digits(random: &mut Random, data: &Data, query: &BoxQuery) -> Digits {
    let of_level = |&level: &usize| {
        if level > 3 || random.below(3) == 0 {
            return None;
        }
        let (few, near, share) = (1 + random.below(6) as u32, 1 + random.below(40) as u32, 1 + random.below(10));
        let present = data.chunks.iter().flat_map(|(chunk, _)| chunk.codes.levels[level].iter().copied());
        let present: std::collections::BTreeSet<u32> = present.collect();
        let kept = present.into_iter().filter(|_| random.below(10) < share);
        Some(kept.map(|code| (code, 1 + code / near % few)).collect())
    };
    query.groups.iter().map(of_level).collect()
}

pub fn keys(data: &Data, query: &BoxQuery, digits: &Digits) -> Option<GroupKeys> {
    let spans = query.groups.iter().map(|&level| span(level, &data.chunks)).collect();
    let map = |digits: &BTreeMap<u32, u32>| {
        let last = digits.keys().next_back().map_or(0, |last| last + 1);
        let pairs = digits.iter().map(|(&code, &digit)| (code, digit));
        Arc::new(CodeMap::new(pairs, last, digits.values().max().copied().unwrap_or(0)).expect("each once"))
    };
    GroupKeys::mapped(spans, digits.iter().map(|digits| digits.as_ref().map(map)).collect())
}

pub struct Data {
    pub table: TableDef,
    pub chunks: Vec<(RowChunk, Counted)>,
    pub segments: Vec<SegmentRows>,
    pub dictionaries: Dictionaries,
}

pub fn data(seed: u64, sizes: &[usize], distinct: u64, nulls: u64) -> Data {
    let mut random = Random(seed | 1);
    let disk = disk();
    let table = table(true);
    let dictionaries = dictionaries(&disk, &table);
    let context = context(&disk);
    let (mut chunks, mut segments) = (Vec::new(), Vec::new());
    for (at, &size) in sizes.iter().enumerate() {
        let rows = rows(&table, &mut random, size, distinct, nulls, 9);
        let chunk = by_codes(&chunk(&table, &dictionaries, rows, vec![0; size]));
        let id = SegmentId(at as u64 + 1);
        let mut writer = SegmentWriter::create(&context, id, &table, Stage::Merged, None).expect("creates");
        writer.write(&chunk).expect("writes");
        let segment = Segment::open(&context, writer.finish().expect("finishes")).expect("opens");
        let through = if random.below(2) == 0 { 7 + random.below(10) } else { u64::MAX };
        let above = if random.below(3) == 0 { 5 + random.below(8) } else { 0 };
        let kills = if random.below(3) > 0 { kills(&mut random, size as u64, 7..19) } else { BTreeMap::new() };
        let counted = Counted { above, through, kills: Arc::new(kills), at: 6 + random.below(14) };
        segments.push(counted.of_segment(&segment));
        chunks.push((chunk, counted));
    }
    Data { table, chunks, segments, dictionaries }
}

pub fn question(random: &mut Random, data: &Data) -> BoxQuery {
    let levels = data.chunks[0].0.codes.levels.len();
    let mut query = BoxQuery::default();
    for level in 0..levels {
        if random.below(3) == 0 {
            let codes = &data.chunks[random.below(data.chunks.len() as u64) as usize].0.codes.levels[level];
            query.filters.push(LevelFilter { level, codes: set(random, codes) });
        }
        if random.below(4) == 0 && query.groups.len() < 3 {
            query.groups.push(level);
        }
    }
    for (at, &column) in data.table.measures.iter().enumerate() {
        if random.below(3) == 0 {
            let wanted =
                Wanted { sum: random.below(2) == 0, squares: random.below(3) == 0, min_max: random.below(2) == 0 };
            // Real and Double are the fourth and fifth.
            query.measures.push(WantedMeasure { column, is_float: at == 3 || at == 4, wanted });
        }
    }
    query
}

/// Dimensions of the levels: store (country, city), item, number, time (year, day).
fn dimension_of(level: usize) -> usize {
    [0, 0, 1, 2, 3, 3][level]
}

/// The values of a measure.
pub fn values(data: &Data, chunk: &RowChunk, measure: &WantedMeasure) -> Option<ArrayRef> {
    let column = data.table.column_by_id(measure.column).expect("a column");
    chunk.rows.column_by_name(&column.storage_name).cloned()
}

/// The same by a cuboid that has the question's levels, or finer ones.
fn by_cuboid(random: &mut Random, data: &Data, query: &BoxQuery, keys: GroupKeys, expected: &Groups) {
    let named = query.filters.iter().map(|filter| filter.level).chain(query.groups.iter().copied());
    let mut finest: BTreeMap<usize, usize> = BTreeMap::new();
    for level in named {
        let finer = if random.below(3) == 0 { level.max([1, 1, 2, 3, 5, 5][level]) } else { level };
        let known = finest.entry(dimension_of(level)).or_insert(finer);
        *known = finer.max(*known);
    }
    let spans = finest.values().map(|&level| span(level, &data.chunks)).collect();
    let measures = query
        .measures
        .iter()
        .rev()
        .map(|measure| WantedMeasure { wanted: Wanted { sum: true, ..measure.wanted }, ..*measure });
    let Some(mut cuboid) = Cuboid::new(spans, measures.collect(), 2_000_000) else { return };
    // As a cuboid gets its rows: some segments at first, some later, some rows while they are in no segment.
    let first = random.below(data.segments.len() as u64 + 1) as usize;
    let (early, late) = data.segments.split_at(first);
    if !cuboid.add_segments(early, 2).expect("adds") {
        return;
    }
    for (segment, (chunk, counted)) in late.iter().zip(&data.chunks[first..]) {
        let is_added = match chunk.len() < 400 {
            false => cuboid.add_segments(std::slice::from_ref(segment), 1).expect("adds"),
            true => {
                let measures: Vec<Option<ArrayRef>> =
                    cuboid.measures().iter().map(|of| values(data, chunk, of)).collect();
                let mut rows = (0..chunk.len()).filter(|&row| counted.has(chunk, row));
                rows.all(|row| cuboid.add_rows(&chunk.codes, &measures, row..row + 1).expect("adds"))
            }
        };
        if !is_added {
            return;
        }
    }
    let ancestor = |finer: usize, coarser: usize, code: u32| match (finer, coarser) {
        (1, 0) => (code > 0).then(|| data.dictionaries.parent(1, code)),
        (5, 4) => Some(calendar::units_of_code(code).map_or(0, |day| {
            calendar::code_of_micros(calendar::start_micros(day, CalendarUnit::Day), CalendarUnit::Year)
        })),
        _ => None,
    };
    let mut answer = Answer::new(query, keys);
    let answered = cuboid.answer(query, &dimension_of, &ancestor, &mut answer);
    // A NULL city may be in any country, so a cuboid of cities refuses questions about countries.
    if answered.is_some() {
        check(&answer, query, expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn answers_are_the_model(
        seed: u64,
        sizes in prop::collection::vec(prop_oneof![1usize..300, 8_000usize..20_000], 1..4),
        distinct in prop::sample::select(vec![8u64, 30, 300, 5_000]),
        nulls in prop::sample::select(vec![0u64, 2, 20]),
        threads in 1usize..4,
    ) {
        let data = data(seed, &sizes, distinct, nulls);
        let mut random = Random(seed.rotate_left(7) | 1);
        for _ in 0..12 {
            let query = question(&mut random, &data);
            let digits = match random.below(2) {
                0 => query.groups.iter().map(|_| None).collect(),
                _ => digits(&mut random, &data, &query),
            };
            let Some(keys) = keys(&data, &query, &digits) else { continue };
            let expected = model(&data.table, &query, &digits, &data.chunks);

            let mut by_segments = Answer::new(&query, keys.clone());
            assert!(answer(&query, &data.segments, threads, &mut by_segments).expect("answers"));
            check(&by_segments, &query, &expected);

            let mut by_rows = Answer::new(&query, keys.clone());
            for (chunk, counted) in &data.chunks {
                let measures: Vec<Option<ArrayRef>> =
                    query.measures.iter().map(|measure| values(&data, chunk, measure)).collect();
                for row in (0..chunk.len()).filter(|&row| counted.has(chunk, row)) {
                    add_rows(&query, &chunk.codes, &measures, row..row + 1, &mut by_rows).expect("adds");
                }
            }
            check(&by_rows, &query, &expected);
            by_cuboid(&mut random, &data, &query, keys, &expected);
        }
    }
}
