//! Checks that the segments of a table hold every row exactly once.
//!
//! Invariants:
//! - Rows of one batch in one table are numbered 0, 1, 2, ... by their `_ordinal`. Those of a staged load are numbered
//!   within the segment that they were staged as, which their ordinal names, whatever version the load got. Whoever
//!   sorts or merges keeps every row (P2) but the dead that it counts (K6), and a row is in one segment (V2): so over
//!   all segments of a table the numbers of each *origin* are 0, 1, 2, ..., each once, and the gaps are no more than the
//!   rows that were left out. Rows in the log are of later versions than those of segments, but for staged ones, so they
//!   are others.
//! - Memory is bounded: a pass holds about [`PASS_ROWS`] rows of 16 bytes. More rows take more passes, each over whole
//!   origins, which are small: a batch in the log and a staged segment have bounds of their own.
//!
//! What cannot be seen: that the last rows of an origin are missing, or all of them; and, in a table of which rows were
//! left out, that others are missing in their place.

use super::CheckReport;
use alluvia_space::weight::STAGED_ORDINAL_MIN;
use alluvia_tree::{Segment, SegmentMeta, TreeContext};
use alluvia_types::{Error, ErrorKind, Result, SegmentId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Rows that a pass holds, about.
pub(super) const PASS_ROWS: u64 = 8 << 20;
/// Rows of a segment that are read at a time: those of a row group.
const PIECE_ROWS: u64 = 1 << 20;
/// Marks the segment that rows were staged as; versions do not reach it.
const STAGED: u64 = 1 << 63;

/// A segment that was checked by itself.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) meta: SegmentMeta,
    /// Whether nothing was wrong with the segment.
    pub(super) is_sound: bool,
}

/// A row: its origin in the upper half, then its number there, then the segment it lies in, by its place among the
/// table's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Row(u128);

impl Row {
    fn new(origin: u64, number: u32, segment: u32) -> Row {
        Row(u128::from(origin) << 64 | u128::from(number) << 32 | u128::from(segment))
    }

    fn origin(self) -> u64 {
        (self.0 >> 64) as u64
    }

    fn number(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn segment(self) -> u32 {
        self.0 as u32
    }
}

/// Where a row comes from, and its number there.
fn origin_of(version: u64, ordinal: u64) -> (u64, u32) {
    let origin = if ordinal < STAGED_ORDINAL_MIN { version } else { STAGED | ordinal >> 32 };
    (origin, ordinal as u32)
}

/// A row as messages name it.
fn shown(origin: u64, number: u64) -> String {
    match origin & STAGED {
        0 => format!("number {number} of version {origin}"),
        _ => format!("number {number} of the load that was staged as segment {}", origin & !STAGED),
    }
}

/// What is wrong with the rows of a table.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wrong {
    /// By two segments, which may be the same: how many rows both hold, and the first one.
    twice: BTreeMap<(u32, u32), (u64, (u64, u64))>,
    /// How many rows are missing, and the first one.
    missing: Option<(u64, (u64, u64))>,
}

impl Wrong {
    /// Adds all rows of some origins, and sorts them.
    fn add_rows(&mut self, rows: &mut [Row]) {
        rows.sort_unstable();
        for origin in rows.chunk_by(|a, b| a.origin() == b.origin()) {
            let (mut next, mut last) = (0, None);
            for row in origin {
                let number = u64::from(row.number());
                if number > next {
                    self.missing.get_or_insert((0, (row.origin(), next))).0 += number - next;
                }
                if let Some(segment) = last.filter(|_| number < next) {
                    let first = (row.origin(), number);
                    self.twice.entry((segment, row.segment())).or_insert((0, first)).0 += 1;
                }
                (next, last) = (number + 1, Some(row.segment()));
            }
        }
    }
}

/// Reads the identities of all rows in the segments of a table, and reports rows that are there twice or missing, if
/// more are missing than the `dropped` that were left out because they were dead. A pass holds about `pass_rows` rows.
pub(super) fn check_rows_once(
    tree: &TreeContext,
    table: &str,
    segments: &[Checked],
    dropped: u64,
    pass_rows: u64,
    progress: &mut dyn FnMut(&str),
    report: &mut CheckReport,
) -> Result<()> {
    // What cannot be read was said already where the segment was found damaged. Its rows are missed by nobody here.
    let mut is_whole = true;
    let mut open: Vec<Arc<Segment>> = Vec::with_capacity(segments.len());
    for Checked { meta, is_sound } in segments {
        let id = meta.id;
        // The file says as well how many rows there are.
        let opened = Segment::open(tree, meta.clone()).and_then(|segment| segment.parquet_metadata().map(|_| segment));
        match opened {
            Ok(segment) => open.push(segment),
            Err(error) => note_unreadable(id, error, *is_sound, &mut is_whole, report)?,
        }
    }
    let sound: BTreeMap<SegmentId, bool> = segments.iter().map(|of| (of.meta.id, of.is_sound)).collect();
    let rows: u64 = open.iter().map(|segment| segment.meta().rows).sum();
    let passes = rows.div_ceil(pass_rows).max(1);
    let mut wrong = Wrong::default();
    for pass in 0..passes {
        progress(&format!("which rows table '{table}' has, pass {} of {passes}", pass + 1));
        let mut seen = Vec::with_capacity((rows / passes) as usize);
        for (at, segment) in (0..).zip(&open) {
            let read = for_each_identity(segment, |version, ordinal| {
                let (origin, number) = origin_of(version, ordinal);
                if pass_of(origin, passes) == pass {
                    seen.push(Row::new(origin, number, at));
                }
            });
            if let Err(error) = read {
                let id = segment.meta().id;
                let is_news = pass == 0 && sound.get(&id).is_some_and(|is_sound| *is_sound);
                note_unreadable(id, error, is_news, &mut is_whole, report)?;
            }
        }
        wrong.add_rows(&mut seen);
    }
    let id = |at: &u32| open[*at as usize].meta().id;
    for ((one, other), (count, first)) in &wrong.twice {
        let first = shown(first.0, first.1);
        let what = if one == other {
            format!("table '{table}': segment {} holds {count} of its rows twice, first {first}", id(one))
        } else {
            let (one, other) = (id(one), id(other));
            format!("table '{table}': segments {one} and {other} hold {count} rows both, first {first}")
        };
        report.add_finding(Error::new(ErrorKind::Corrupt, what).with_hint(
            "each of these rows counts twice; the manifest must not name both segments: restore the data directory from a copy",
        ))?;
    }
    if let Some((count, first)) = wrong.missing.filter(|(count, _)| is_whole && *count > dropped) {
        let first = shown(first.0, first.1);
        let but = match dropped {
            0 => String::new(),
            dropped => format!(", and {dropped} were left out because they were dead"),
        };
        let what = format!("table '{table}': {count} rows are in no segment, first {first}{but}");
        report.add_finding(
            Error::new(ErrorKind::Corrupt, what)
                .with_hint("later rows of the same batches are there; restore the data directory from a copy"),
        )?;
    }
    Ok(())
}

/// Notes that not all rows are known; the error is a finding if it is news.
fn note_unreadable(
    id: SegmentId,
    error: Error,
    is_news: bool,
    is_whole: &mut bool,
    report: &mut CheckReport,
) -> Result<()> {
    *is_whole = false;
    if is_news { report.add_finding(error.at(format_args!("segment {id}"))) } else { Ok(()) }
}

/// Which pass an origin is of. Versions that follow one another are spread.
fn pass_of(origin: u64, passes: u64) -> u64 {
    (origin.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) % passes
}

/// Calls `each` with the version and the ordinal of every row.
pub(super) fn for_each_identity(segment: &Segment, mut each: impl FnMut(u64, u64)) -> Result<()> {
    let meta = segment.meta();
    let mut from = 0;
    while from < meta.rows {
        let to = (from + PIECE_ROWS).min(meta.rows);
        for (version, ordinal) in segment.identities(from..to)? {
            each(meta.fixed_version.map_or(version, |fixed| fixed.0), ordinal);
        }
        from = to;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row by row, without order.
    fn naive(rows: &[Row]) -> (u64, u64) {
        let mut counts: BTreeMap<u64, BTreeMap<u32, u64>> = BTreeMap::new();
        rows.iter().for_each(|row| *counts.entry(row.origin()).or_default().entry(row.number()).or_default() += 1);
        let (mut twice, mut missing) = (0, 0);
        for numbers in counts.values() {
            twice += numbers.values().map(|count| count - 1).sum::<u64>();
            let last = numbers.keys().max().copied().unwrap_or(0);
            missing += u64::from(last) + 1 - numbers.len() as u64;
        }
        (twice, missing)
    }

    #[test]
    fn rows_that_are_there_twice_or_missing_are_counted_in_any_number_of_passes() {
        let mut state = 7u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let (mut sound, mut damaged) = (0, 0);
        for round in 0..300 {
            let mut rows = Vec::new();
            for at in 0..random(30) {
                let version = 3 + at / 2;
                let staged = at % 2 == 1;
                for number in 0..random(40) {
                    let ordinal = if staged { version << 32 | number } else { number };
                    let (origin, number) = origin_of(version, ordinal);
                    rows.push(Row::new(origin, number, random(4) as u32));
                }
            }
            for _ in 0..round % 3 {
                let len = rows.len() as u64;
                if len > 0 {
                    rows.remove(random(len) as usize);
                }
                if let Some(&row) = rows.get(random(len + 1) as usize) {
                    rows.push(Row::new(row.origin(), row.number(), random(4) as u32));
                }
            }
            let expected = naive(&rows);
            let passes = 1 + random(5);
            let mut wrong = Wrong::default();
            for pass in 0..passes {
                let mut seen: Vec<Row> =
                    rows.iter().filter(|row| pass_of(row.origin(), passes) == pass).copied().collect();
                wrong.add_rows(&mut seen);
            }
            let twice = wrong.twice.values().map(|(count, _)| count).sum::<u64>();
            assert_eq!((twice, wrong.missing.map_or(0, |(count, _)| count)), expected, "round {round}");
            (sound, damaged) = (sound + u32::from(expected == (0, 0)), damaged + u32::from(expected != (0, 0)));
        }
        assert!(sound > 90 && damaged > 90, "{sound} sound, {damaged} damaged");
    }

    #[test]
    fn origins_are_told_apart_and_shown() {
        assert_eq!(origin_of(9, 5), (9, 5));
        assert_eq!(origin_of(9, 7 << 32 | 5), (STAGED | 7, 5));
        assert_eq!(shown(9, 5), "number 5 of version 9");
        assert_eq!(shown(STAGED | 7, 5), "number 5 of the load that was staged as segment 7");
        let row = Row::new(STAGED | 7, u32::MAX, 3);
        assert_eq!((row.origin(), row.number(), row.segment()), (STAGED | 7, u32::MAX, 3));
    }
}
