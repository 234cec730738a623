//! Answering from rows that are in no segment yet.

use super::question::BoxQuery;
use super::segments::Answer;
use crate::filter::{MASK_ROWS, Mask, PackedTest, filter};
use crate::nodes::CodeSet;
use crate::packed::scaled_integer;
use crate::summary::integer_at;
use alluvia_space::LevelCodes;
use alluvia_types::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, Float32Type, Float64Type, ToByteSlice};
use std::ops::Range;

/// Adds those of some rows that lie in the box, which has no ranges of times. `codes` has the rows' codes at every
/// level that the query names (others may be empty); `measures` the values of each of the query's measures, `None` for
/// a column that the rows lack, which is NULL.
pub fn add_rows(
    query: &BoxQuery,
    codes: &LevelCodes,
    measures: &[Option<ArrayRef>],
    rows: Range<usize>,
    into: &mut Answer,
) -> Result<()> {
    assert!(query.times.is_empty(), "a box with ranges of times has edges, which are told by values");
    add_rows_with_times(query, codes, (measures, &[]), rows, into)
}

/// As [`add_rows`], of any box. `times` has the values of each of the query's ranges' columns, `None` as of measures.
pub fn add_rows_with_times(
    query: &BoxQuery,
    codes: &LevelCodes,
    (measures, times): (&[Option<ArrayRef>], &[Option<ArrayRef>]),
    rows: Range<usize>,
    into: &mut Answer,
) -> Result<()> {
    into.counters.tail_rows += rows.len() as u64;
    let (mut first, mut words) = (rows.start, Vec::new());
    while first < rows.end {
        let piece = first..rows.end.min(first + MASK_ROWS);
        first = piece.end;
        let mut mask = Mask::all(piece.len());
        for filter in &query.filters {
            filter_plain(&codes.levels[filter.level][piece.clone()], &filter.codes, &mut mask, &mut words);
            if mask.is_empty() {
                break;
            }
        }
        for (range, values) in query.times.iter().zip(times) {
            let mut at_edges = mask.clone();
            filter_plain(&codes.levels[range.level][piece.clone()], &range.edges, &mut at_edges, &mut words);
            mask.and_not_with(&at_edges);
            match values {
                Some(values) => range.narrow(values, piece.start, &mut at_edges),
                None => at_edges.clear(),
            }
            mask.or_with(&at_edges);
        }
        add_selected(query, codes, measures, piece.start, &mask, into)?;
    }
    Ok(())
}

/// Keeps the rows whose codes, as they are, lie in a set.
fn filter_plain(codes: &[u32], set: &CodeSet, mask: &mut Mask, words: &mut Vec<u64>) {
    match set.runs() {
        // NULL is code 0.
        [(low, high)] if !set.holds_null() => {
            filter(codes.to_byte_slice(), 4, &PackedTest::Range { low: *low, high: *high }, mask);
        }
        // Bits are only worth copying where more rows than words are looked at.
        [.., (_, last)] if set.has_bitmap() && (*last as usize) / 64 < mask.count() => {
            set.words(0, *last as usize / 64 + 1, words);
            words[0] = words[0] & !1 | u64::from(set.holds_null());
            filter(codes.to_byte_slice(), 4, &PackedTest::Set(words), mask);
        }
        _ => mask.retain(|row| set.contains(codes[row])),
    }
}

/// Adds the selected rows, of which the first that there can be is row `first`.
fn add_selected(
    query: &BoxQuery,
    codes: &LevelCodes,
    measures: &[Option<ArrayRef>],
    first: usize,
    mask: &Mask,
    into: &mut Answer,
) -> Result<()> {
    for row in mask.rows().map(|row| first + row) {
        let index = into.keys.index_of(query.groups.iter().map(|&level| codes.levels[level][row]));
        let index = index.ok_or_else(|| Error::internal("a row has a code that its table does not"))?;
        let group = into.group(index);
        into.totals.add_rows(group, 1);
        for (at, values) in measures.iter().enumerate() {
            if let Some(values) = values.as_ref().filter(|values| values.is_valid(row)) {
                add_value(values, row, at, group, into);
            }
        }
    }
    Ok(())
}

fn add_value(values: &ArrayRef, row: usize, measure: usize, group: usize, into: &mut Answer) {
    let float = match values.data_type() {
        DataType::Float32 => f64::from(values.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => values.as_primitive::<Float64Type>().value(row),
        _ => {
            match integer_at(values, row) {
                Some(value) => into.totals.add_integer(measure, group, value),
                None => into.totals.spoil(),
            }
            return;
        }
    };
    match scaled_integer(float) {
        Some((integer, scale)) => into.totals.add_scaled(measure, group, integer.into(), scale),
        None => into.totals.add_float(measure, group, float),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{GroupKeys, GroupSpan, LevelFilter};
    use proptest::prelude::*;

    /// Codes of a level of so many members, with NULLs.
    fn level(seed: u64, members: u32, rows: usize) -> Vec<u32> {
        let mut state = seed | 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as u32
        };
        (0..rows).map(|_| if next() % 9 == 0 { 0 } else { 1 + next() % members }).collect()
    }

    proptest! {
        #[test]
        fn rows_are_counted_as_one_by_one(
            rows in prop_oneof![0usize..200, 8_000usize..20_000],
            cut in 0usize..150,
            members in prop::sample::select(vec![3u32, 300, 70_000, 20_000_000]),
            seed: u64,
            sets in prop::collection::vec((1u32..40, any::<bool>(), any::<bool>()), 0..3),
        ) {
            let levels = vec![level(seed, members, rows), level(seed ^ 77, 50, rows), level(seed ^ 99, 4, rows)];
            let codes = LevelCodes { levels };
            let set = |&(every, is_range, null): &(u32, bool, bool), level: usize| match is_range {
                true => CodeSet::of_range_and_null(members / every / 2, members / every, null),
                false => {
                    let some = codes.levels[level].iter().copied().filter(|code| code % every == 0 && (null || *code > 0));
                    CodeSet::of_codes(some.collect())
                }
            };
            let filters: Vec<LevelFilter> =
                sets.iter().enumerate().map(|(level, of)| LevelFilter { level, codes: set(of, level) }).collect();
            let query = BoxQuery { filters, groups: vec![2], ..BoxQuery::default() };
            let keys = GroupKeys::new(vec![GroupSpan { level: 2, first: 1, count: 4 }]).expect("few groups");
            let mut found = Answer::new(&query, keys);
            let counted = cut.min(rows)..rows;
            add_rows(&query, &codes, &[], counted.clone(), &mut found).expect("adds");
            prop_assert_eq!(found.counters.tail_rows, counted.len() as u64);
            for group in 0..5 {
                let matches = |row: &usize| {
                    codes.levels[2][*row] == group
                        && query.filters.iter().all(|filter| filter.codes.contains(codes.levels[filter.level][*row]))
                };
                let expected = counted.clone().filter(matches).count() as u64;
                prop_assert_eq!(found.totals.rows(group as usize), expected, "group {}", group);
            }
        }
    }
}
