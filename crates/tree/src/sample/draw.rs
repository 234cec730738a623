//! Reading drawn rows: filters and sums on the packed codes and values of a rung's blocks.
//!
//! A rung's block holds the drawn rows of many runs, one after the other. It is filtered once, from the first run's rows to the last
//! one's; each run then takes its part of the mask.

use super::strata::Run;
use super::tally::Tally;
use super::{Asked, Source};
use crate::answer::{
    Answer, BoxQuery, Reading, SegmentRows, Wanted, WantedMeasure, code_at, filter_codes, is_special, values_of,
    without_zeros,
};
use crate::filter::{self, Mask};
use crate::ladder::rung_limit;
use crate::layout::BLOCK_ROWS;
use crate::segment::Segment;
use crate::side::{Encoding, Value, powi, value_at};
use alluvia_space::weight::weight;
use alluvia_types::{Error, Result, Version};
use std::ops::Range;
use std::sync::Arc;

/// A run's rows in a block of a rung.
struct Piece {
    segment: usize,
    rung: u32,
    block: usize,
    run: usize,
    /// Within the block.
    rows: Range<usize>,
}

/// Draws runs at the rungs that they stand at; gives how many rows were drawn.
pub(super) fn draw(
    asked: &Asked<'_>,
    segments: &[SegmentRows],
    runs: &[Run],
    which: &[usize],
    tally: &mut Tally,
    into: &mut Answer,
) -> Result<u64> {
    let mut pieces = Vec::with_capacity(2 * which.len());
    for &run in which {
        add_pieces(asked, segments, &runs[run], run, &mut pieces)?;
    }
    pieces.sort_unstable_by_key(|piece| (piece.segment, piece.rung, piece.block, piece.rows.start));
    let wanted = Wanted { sum: true, squares: true, min_max: false };
    let measures = asked.question.measures.iter().map(|of| WantedMeasure { wanted, ..*of }).collect();
    let question = BoxQuery { measures, ..asked.question.clone() };
    let mut drawing = Drawing { question: &question, tally, into, words: Vec::new(), indices: Vec::new() };
    let mut drawn = 0;
    for of_rung in pieces.chunk_by(|a, b| (a.segment, a.rung) == (b.segment, b.rung)) {
        let read = source_of(asked, segments, &of_rung[0])?;
        let open = of_rung.iter().fold(0, |open, piece| open | runs[piece.run].open);
        let reading = Reading::new(&question, &read, open)?;
        for of_block in of_rung.chunk_by(|a, b| a.block == b.block) {
            drawn += drawing.block(asked, runs, &reading, of_block)?;
        }
    }
    into.counters.rows_filtered += drawn;
    Ok(drawn)
}

/// The segment that a piece lies in.
fn source_of(asked: &Asked<'_>, segments: &[SegmentRows], piece: &Piece) -> Result<Arc<Segment>> {
    let segment = &segments[piece.segment].segment;
    if let Source::Seeded { .. } = asked.source {
        return Ok(Arc::clone(segment));
    }
    let rung = segment.rungs().iter().find(|rung| rung.rung == piece.rung);
    let rung = rung.ok_or_else(|| Error::internal("a rung was to be read that its segment does not have"))?;
    Ok(Arc::clone(&rung.segment))
}

/// Where the drawn rows of a run may lie.
fn add_pieces(
    asked: &Asked<'_>,
    segments: &[SegmentRows],
    run: &Run,
    at: usize,
    pieces: &mut Vec<Piece>,
) -> Result<()> {
    let (segment, rung) = (run.segment, run.rung);
    let mut add = |block: usize, rows: Range<usize>| pieces.push(Piece { segment, rung, block, run: at, rows });
    let of = &segments[segment].segment;
    if let Source::Seeded { .. } = asked.source {
        for block in run.blocks.clone() {
            let rows = of.block_rows(block);
            add(block, 0..(rows.end - rows.start) as usize);
        }
        return Ok(());
    }
    let first_rows =
        source_of(asked, segments, &Piece { segment, rung, block: 0, run: at, rows: 0..0 })?.first_rows()?;
    let (start, end) = (first_rows[run.blocks.start] as usize, first_rows[run.blocks.end] as usize);
    let mut from = start;
    while from < end {
        let block = from / BLOCK_ROWS;
        let to = end.min((block + 1) * BLOCK_ROWS);
        add(block, from - block * BLOCK_ROWS..to - block * BLOCK_ROWS);
        from = to;
    }
    Ok(())
}

/// What blocks share one after the other.
struct Drawing<'a> {
    question: &'a BoxQuery,
    tally: &'a mut Tally,
    into: &'a mut Answer,
    words: Vec<u64>,
    indices: Vec<u64>,
}

impl Drawing<'_> {
    /// Takes in the pieces of one block; gives how many rows were drawn.
    fn block(&mut self, asked: &Asked<'_>, runs: &[Run], reading: &Reading, pieces: &[Piece]) -> Result<u64> {
        let Some((first, last)) = pieces.first().zip(pieces.last()) else { return Ok(0) };
        let (block, low, high) = (first.block, first.rows.start, last.rows.end);
        let drawn = drawn_mask(asked, reading, first, low..high);
        let mut mask = drawn.clone();
        let open = pieces.iter().fold(0, |open, piece| open | runs[piece.run].open);
        for (place, filter) in self.question.filters.iter().enumerate().filter(|(place, _)| open >> place & 1 == 1) {
            let Some(stream) = &reading.filters[place] else { continue };
            let bounds = reading.index.table.levels[filter.level].code_bounds(block);
            let width = bounds.width();
            filter_codes(
                &stream.block(block)[low * width..high * width],
                bounds,
                &filter.codes,
                &mut mask,
                &mut self.words,
            );
        }
        let mut count = 0;
        for piece in pieces {
            let part = piece.rows.start - low..piece.rows.end - low;
            let (all, matching) = (drawn.slice(part.clone()), mask.slice(part));
            count += self.piece(reading, piece, &all, &matching)?;
        }
        Ok(count)
    }

    fn piece(&mut self, reading: &Reading, piece: &Piece, all: &Mask, matching: &Mask) -> Result<u64> {
        let run = piece.run as u32;
        let (drawn, matches) = (all.count() as u64, matching.count() as u64);
        self.tally.strata[0][piece.run].draw_many(drawn, drawn as f64, drawn as f64);
        for measure in 0..self.question.measures.len() {
            let (_, sum, squares) = self.moments(reading, piece, measure, all);
            self.tally.strata[1 + measure][piece.run].draw_many(drawn, sum, squares);
        }
        if matches == 0 {
            return Ok(drawn);
        }
        let only = self.question.groups.iter().map(|&level| {
            let bounds = reading.index.table.levels[level].code_bounds(piece.block);
            (bounds.min == bounds.max && !bounds.has_null).then_some(bounds.min)
        });
        let only: Option<Vec<u32>> = only.collect();
        match only.and_then(|codes| self.into.keys.index_of(codes.into_iter())) {
            Some(index) => {
                let group = self.into.group(index);
                self.tally.of_group(group)[0].add_many(run, matches, matches as f64, matches as f64);
                for measure in 0..self.question.measures.len() {
                    let (count, sum, squares) = self.moments(reading, piece, measure, matching);
                    self.tally.of_group(group)[1 + measure].add_many(run, count, sum, squares);
                }
            }
            None => self.grouped(reading, piece, matching)?,
        }
        Ok(drawn)
    }

    /// Takes in the matching rows of a piece that lie in several groups.
    fn grouped(&mut self, reading: &Reading, piece: &Piece, matching: &Mask) -> Result<()> {
        let missing = || Error::internal("a block has a code that its table does not");
        self.indices.clear();
        self.indices.resize(matching.count(), 0);
        for (at, stream) in reading.groups.iter().enumerate() {
            let (span, stride) = (self.into.keys.spans()[at], self.into.keys.strides()[at]);
            let bounds = reading.index.table.levels[span.level].code_bounds(piece.block);
            let (packed, width) = (stream.block(piece.block), bounds.width());
            for (index, row) in self.indices.iter_mut().zip(matching.rows()) {
                let code = code_at(packed, bounds, width, piece.rows.start + row);
                *index += span.digit(code).ok_or_else(missing)? * stride;
            }
        }
        let run = piece.run as u32;
        for (at, row) in matching.rows().enumerate() {
            let group = self.into.group(self.indices[at]);
            let samples = self.tally.of_group(group);
            samples[0].add(run, 1.0);
            for (measure, of) in self.question.measures.iter().enumerate() {
                let Some((place, stream)) = &reading.measures[measure] else { continue };
                let (_, has_nulls) = values_of(&reading.index, *place, &reading.segment, piece.block);
                let encoding = reading.index.table.measures[*place].1.encodings[piece.block];
                let packed = stream.block(piece.block);
                match value_at(packed, encoding, has_nulls, of.is_float, piece.rows.start + row) {
                    Value::Null => {}
                    Value::Integer(value) => samples[1 + measure].add(run, value as f64),
                    Value::Float(value) => samples[1 + measure].add(run, value),
                }
            }
        }
        Ok(())
    }

    /// How many of the selected rows of a piece have a value of a measure, their sum and sum of squares.
    fn moments(&self, reading: &Reading, piece: &Piece, measure: usize, mask: &Mask) -> (u64, f64, f64) {
        let Some((place, stream)) = &reading.measures[measure] else { return (0, 0.0, 0.0) };
        let (count, has_nulls) = values_of(&reading.index, *place, &reading.segment, piece.block);
        if count == 0 {
            return (0, 0.0, 0.0);
        }
        let summary = &reading.index.table.measures[*place].1;
        let (encoding, of) = (summary.encodings[piece.block], self.question.measures[measure]);
        let width = encoding.width();
        let packed = &stream.block(piece.block)[piece.rows.start * width..piece.rows.end * width];
        let wanted = filter::Wanted { sum: true, squares: true, min_max: false };
        match encoding {
            Encoding::Integers { base, width: 0, scale } => {
                let (n, value) = (mask.count() as f64, base as f64 / powi(scale));
                (mask.count() as u64, n * value, n * value * value)
            }
            Encoding::Integers { base, width, scale } => {
                let width = usize::from(width);
                let kept = has_nulls.then(|| without_zeros(packed, width, mask));
                let sums = filter::sum_masked_packed(packed, width, kept.as_ref().unwrap_or(mask), wanted);
                let (n, base) = (sums.count as f64, base as f64);
                let sum = sums.sum as f64;
                let packed_squares = sums.squares as f64 + f64::from(sums.squares_carry) * 2f64.powi(128);
                // Sum of (base + p)^2.
                let squares = (n * base * base + 2.0 * base * sum + packed_squares).max(0.0);
                (sums.count, (n * base + sum) / powi(scale), squares / powi(scale) / powi(scale))
            }
            Encoding::Floats => {
                let kept = has_nulls.then(|| {
                    let mut kept = mask.clone();
                    kept.retain(|row| value_at(packed, encoding, true, true, row) != Value::Null);
                    kept
                });
                let finite = !is_special(summary, piece.block);
                let sums = filter::sum_masked_f64(packed, kept.as_ref().unwrap_or(mask), wanted, finite);
                let (sum, squares) = (sums.sum.total(), sums.squares.total());
                (sums.count, sum.0 + sum.1, squares.0 + squares.1)
            }
            Encoding::Wide => mask.rows().fold((0, 0.0, 0.0), |(count, sum, squares), row| {
                match value_at(packed, encoding, has_nulls, of.is_float, row) {
                    Value::Integer(value) => (count + 1, sum + value as f64, squares + (value as f64).powi(2)),
                    _ => (count, sum, squares),
                }
            }),
        }
    }
}

/// The drawn ones among some rows of a block: of a rung all are.
fn drawn_mask(asked: &Asked<'_>, reading: &Reading, piece: &Piece, rows: Range<usize>) -> Mask {
    let mut drawn = Mask::all(rows.end - rows.start);
    if let Source::Seeded { seed, identities } = asked.source {
        let first = reading.segment.block_rows(piece.block).start as usize + rows.start;
        let limit = rung_limit(piece.rung).unwrap_or(u64::MAX);
        let identities = &identities[piece.segment];
        drawn.retain(|row| {
            let (version, ordinal) = identities[first + row];
            weight(Version(version), ordinal, seed) < limit
        });
    }
    drawn
}
