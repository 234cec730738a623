//! Reading drawn rows: filters and sums on the packed codes and values of a rung's blocks, with as many threads as pay.
//!
//! Invariants:
//! - A rung's block is filtered once, from the first stratum's rows to the last one's; each stratum then takes its rows
//!   of the mask.
//! - What several boxes cut is drawn once: its mask is the union of theirs. A box's filters that are open in any
//!   stratum are tested on all rows, so that none is taken for one of a box that ends beside it.
//! - What is drawn of a stratum without regard to the box comes from sums that were taken once ([`RungSums`]).
//! - A dead row is drawn as any other, and matches nothing: it is one of the stratum's rows, and its value one of those
//!   that summaries and [`RungSums`] are of.
//! - What comes out does not depend on the number of threads, but for the order in which floats are added.

use super::moments::{Moments, moments};
use super::rung_sums::RungSums;
use super::strata::Run;
use super::tally::{Samples, Tally};
use super::{SampleRequest, Source};
use crate::answer::{Answer, BoxQuery, Boxes, GroupKeys, Reading, Wanted, WantedMeasure, filter_codes};
use crate::filter::Mask;
use crate::heavy::{Heavy, heavy_rows};
use crate::layout::{BLOCK_ROWS, rung_limit};
use crate::packed::{Value, code_at, value_at};
use crate::segment::{Segment, values_of};
use crate::visible::{Drawn, Laddered};
use alluvia_space::weight::weight;
use alluvia_types::{Error, Result, Version};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Rows below which a second thread costs more than it saves.
pub(super) const ROWS_PER_THREAD: u64 = 1 << 17;

/// Some of a stratum's rows in a block of a rung.
struct Piece {
    block: usize,
    run: usize,
    /// Within the block.
    rows: Range<usize>,
}

/// What is drawn from one rung of one segment.
struct OfRung {
    /// Its segment among those that were asked for.
    at: usize,
    rung: u32,
    source: Drawn,
    /// Boxes that any of the strata may have rows of.
    boxes: u16,
    reading: Reading,
    /// By measure of the question.
    apart: Vec<Apart>,
    /// By block, then by row.
    pieces: Vec<Piece>,
}

/// Which rows of what is read are heavy, and so are not drawn for a measure.
enum Apart {
    None,
    OfRung(Arc<RungSums>),
    OfSegment(Arc<Heavy>),
}

impl Apart {
    /// Those among some rows.
    fn rows(&self, rows: Range<usize>) -> &[u32] {
        match self {
            Apart::None => &[],
            Apart::OfRung(sums) => sums.heavy(rows),
            Apart::OfSegment(heavy) => heavy.rows(heavy.places(rows.start as u64..rows.end as u64)),
        }
    }
}

/// Draws runs at the rungs that they stand at; gives how many rows were drawn.
pub(super) fn draw(
    asked: &SampleRequest<'_>,
    segments: &[Laddered],
    runs: &[Run],
    which: &[usize],
    tally: &mut Tally,
    into: &mut Answer,
) -> Result<u64> {
    let wanted = Wanted { sum: true, squares: true, min_max: false };
    let measures = asked.shape().measures.iter().map(|of| WantedMeasure { wanted, ..*of }).collect();
    let question = BoxQuery { measures, ..asked.shape().clone() };
    let mut which = which.to_vec();
    which.sort_by_key(|&run| (runs[run].segment, runs[run].rung, run));
    let mut rungs = Vec::new();
    let mut drawn = 0;
    for of_rung in which.chunk_by(|&a, &b| (runs[a].segment, runs[a].rung) == (runs[b].segment, runs[b].rung)) {
        let Run { segment, rung, .. } = runs[of_rung[0]];
        let rows = &segments[segment];
        let source = match asked.source {
            Source::Seeded { .. } => rows.whole(),
            Source::Ladder => rows.rung(rung)?,
        };
        let apart = apart_of(asked, rows, source.segment())?;
        if let Source::Ladder = asked.source {
            drawn += draw_all(source.segment(), &apart, runs, of_rung, tally)?;
        }
        rungs.push(of_rung_of(asked, &question, (source, apart), runs, of_rung)?);
    }
    let drawing = Drawing { asked, question: &question, keys: &into.keys, frames: tally.strata.len() };
    for part in in_threads(&drawing, &rungs, asked.threads)? {
        drawn += part.drawn;
        for (run, frame, moments) in part.all {
            tally.strata[frame][run].draw_many(moments.count, moments.sum, moments.squares);
        }
        for (group, samples) in part.samples.all() {
            let group = into.group(part.keys.index(*group));
            tally.samples.add(group, samples);
        }
    }
    into.counters.rows_filtered += drawn;
    Ok(drawn)
}

/// Which rows of a segment's rung, or of itself, are not drawn, by measure of the question.
fn apart_of(asked: &SampleRequest<'_>, rows: &Laddered, source: &Arc<Segment>) -> Result<Vec<Apart>> {
    let of = &rows.segment;
    let place_in = |segment: &Segment, of: &WantedMeasure| -> Result<Option<usize>> {
        Ok(segment.index()?.table.measures.iter().position(|(id, _)| *id == of.column))
    };
    let apart = asked.shape().measures.iter().map(|measure| -> Result<Apart> {
        let Some(place) = place_in(of, measure)? else { return Ok(Apart::None) };
        let heavy = heavy_rows(of, place)?;
        match asked.source {
            Source::Seeded { .. } => Ok(Apart::OfSegment(heavy)),
            Source::Ladder => match place_in(source, measure)? {
                Some(place) => Ok(Apart::OfRung(RungSums::of_measure(source, place, heavy.limit)?)),
                None => Ok(Apart::None),
            },
        }
    });
    apart.collect()
}

/// Takes in what is drawn of runs, whether it matches or not.
fn draw_all(rung: &Arc<Segment>, apart: &[Apart], runs: &[Run], which: &[usize], tally: &mut Tally) -> Result<u64> {
    let first_rows = rung.first_rows()?;
    let mut drawn = 0;
    for &run in which {
        for part in &runs[run].parts {
            let all = first_rows[part.start] as usize..first_rows[part.end] as usize;
            let rows = all.len() as u64;
            drawn += rows;
            tally.strata[0][run].draw_many(rows, rows as f64, rows as f64);
            for (strata, apart) in tally.strata[1..].iter_mut().zip(apart) {
                let (sum, squares) = match apart {
                    Apart::OfRung(sums) => sums.of(part.clone()),
                    Apart::None | Apart::OfSegment(_) => (0.0, 0.0),
                };
                strata[run].draw_many(rows - apart.rows(all.clone()).len() as u64, sum, squares);
            }
        }
    }
    Ok(drawn)
}

/// Where the drawn rows of runs may lie.
fn of_rung_of(
    asked: &SampleRequest<'_>,
    question: &BoxQuery,
    (source, apart): (Drawn, Vec<Apart>),
    runs: &[Run],
    which: &[usize],
) -> Result<OfRung> {
    let first_rows = match asked.source {
        Source::Ladder => Some(source.segment().first_rows()?),
        Source::Seeded { .. } => None,
    };
    let row = |block: usize| match &first_rows {
        Some(first_rows) => first_rows[block] as usize,
        None => (block * BLOCK_ROWS).min(source.segment().meta().rows as usize),
    };
    let mut pieces: Vec<Piece> = Vec::new();
    for &run in which {
        for part in &runs[run].parts {
            let (mut from, end) = (row(part.start), row(part.end));
            while from < end {
                let block = from / BLOCK_ROWS;
                let to = end.min((block + 1) * BLOCK_ROWS);
                pieces.push(Piece { block, run, rows: from - block * BLOCK_ROWS..to - block * BLOCK_ROWS });
                from = to;
            }
        }
    }
    let (boxes, open) =
        which.iter().fold((0, 0), |(boxes, open), &run| (boxes | runs[run].boxes, open | runs[run].open));
    // Filters of boxes that no row is of are not tested.
    let open = asked.boxes.among(boxes).fold(0, |tested, (_, bits)| tested | bits & open);
    let Run { segment: at, rung, .. } = runs[which[0]];
    let reading = Reading::new(question, source.segment(), open)?;
    Ok(OfRung { at, rung, source, boxes, reading, apart, pieces })
}

/// What one thread drew.
struct Part {
    samples: Samples,
    keys: GroupKeys,
    /// By run and frame, of the drawn rows whether they match or not; of a ladder these are known.
    all: Vec<(usize, usize, Moments)>,
    drawn: u64,
    /// Filters of one box: the share of codes that each keeps, and its place.
    order: Vec<(f64, usize)>,
    words: Vec<u64>,
    indices: Vec<u64>,
}

/// The pieces of one block.
type Task<'a> = (&'a OfRung, &'a [Piece]);

fn in_threads(drawing: &Drawing<'_>, rungs: &[OfRung], threads: usize) -> Result<Vec<Part>> {
    let tasks: Vec<Task<'_>> = rungs
        .iter()
        .flat_map(|of| of.pieces.chunk_by(|a, b| a.block == b.block).map(move |pieces| (of, pieces)))
        .collect();
    let rows = |task: &Task<'_>| task.1.last().map_or(0, |last| last.rows.end - task.1[0].rows.start) as u64;
    let all: u64 = tasks.iter().map(rows).sum();
    let threads = (threads as u64).min(all / ROWS_PER_THREAD + 1).max(1);
    let mut chunks: Vec<&[Task<'_>]> = Vec::new();
    let (mut start, mut before) = (0, 0);
    for (at, task) in tasks.iter().enumerate() {
        before += rows(task);
        if before * threads >= all * (chunks.len() as u64 + 1) {
            chunks.push(&tasks[start..=at]);
            start = at + 1;
        }
    }
    let Some((first, others)) = chunks.split_first() else { return Ok(Vec::new()) };
    if others.is_empty() {
        return Ok(vec![drawing.run(first)?]);
    }
    let panicked = || Error::internal("a thread that drew rows panicked");
    let mut parts: Vec<Result<Part>> = others.iter().map(|_| Err(panicked())).collect();
    // Threads that stay: one that is begun for this takes longer to get its first memory than to draw.
    let own = rayon_core::in_place_scope(|scope| {
        for (part, tasks) in parts.iter_mut().zip(others) {
            scope.spawn(move |_| {
                if let Ok(drawn) = catch_unwind(AssertUnwindSafe(|| drawing.run(tasks))) {
                    *part = drawn;
                }
            });
        }
        drawing.run(first)
    });
    std::iter::once(own).chain(parts).collect()
}

/// What all threads share.
struct Drawing<'a> {
    asked: &'a SampleRequest<'a>,
    question: &'a BoxQuery,
    keys: &'a GroupKeys,
    frames: usize,
}

impl Drawing<'_> {
    fn run(&self, tasks: &[Task<'_>]) -> Result<Part> {
        let mut part = Part {
            samples: Samples::new(self.frames),
            keys: self.keys.clone(),
            all: Vec::new(),
            drawn: 0,
            order: Vec::new(),
            words: Vec::new(),
            indices: Vec::new(),
        };
        for (of, pieces) in tasks {
            self.block(of, pieces, &mut part)?;
        }
        Ok(part)
    }

    /// Takes in the pieces of one block.
    fn block(&self, of: &OfRung, pieces: &[Piece], into: &mut Part) -> Result<()> {
        let reading = &of.reading;
        let Some((first, last)) = pieces.first().zip(pieces.last()) else { return Ok(()) };
        let (block, low, high) = (first.block, first.rows.start / 64 * 64, last.rows.end);
        let mut mask = Mask::all(high - low);
        let seeded = match self.asked.source {
            Source::Ladder => None,
            Source::Seeded { seed, identities } => {
                let start = reading.segment.block_rows(block).start as usize + low;
                let limit = rung_limit(of.rung).unwrap_or(u64::MAX);
                let identities = &identities[of.at][start..];
                mask.retain(|row| {
                    let (version, ordinal) = identities[row];
                    weight(Version(version), ordinal, seed) < limit
                });
                Some(mask.clone())
            }
        };
        of.source.drop_dead(block, low..high, &mut mask);
        self.keep_rows_of_boxes(of, block, low..high, &mut mask, into);
        let only = into.keys.only_index(self.question.groups.iter().map(|&level| {
            let bounds = reading.index.table.levels[level].code_bounds(block);
            (bounds.min, bounds.max, bounds.has_null)
        }));
        for of_run in pieces.chunk_by(|a, b| a.run == b.run) {
            let (first, last) = (&of_run[0], &of_run[of_run.len() - 1]);
            let words = (first.rows.start - low) / 64..(last.rows.end - low).div_ceil(64);
            let start = low + 64 * words.start;
            let mut own = Mask::none();
            of_run.iter().for_each(|piece| own.insert_rows(piece.rows.start - start..piece.rows.end - start));
            let rows = start..last.rows.end;
            if let Some(drawn) = &seeded {
                self.all(of, first, rows.clone(), &own.and_words(drawn, words.clone()), into);
            }
            let matching = own.and_words(&mask, words);
            self.matching(of, first, rows, &matching, only, into)?;
        }
        Ok(())
    }

    /// Keeps the rows that are of any of the boxes, among some of a block; the first of them is row 0 of the mask.
    fn keep_rows_of_boxes(&self, of: &OfRung, block: usize, rows: Range<usize>, mask: &mut Mask, into: &mut Part) {
        let (reading, Part { order, words, .. }) = (&of.reading, into);
        let mut keep = |bits: u64, mask: &mut Mask| {
            let bounds_of = |place: usize| {
                let filter = &self.question.filters[place];
                (&filter.codes, reading.index.table.levels[filter.level].code_bounds(block))
            };
            order.clear();
            let read = Boxes::open_of(bits, u64::MAX).filter(|&place| reading.filters[place].is_some());
            order.extend(read.map(|place| {
                let (codes, bounds) = bounds_of(place);
                (codes.share(bounds.min, bounds.max, None), place)
            }));
            // What keeps the fewest rows first: the others then look at few.
            order.sort_unstable_by(|(one, _), (other, _)| one.total_cmp(other));
            for &(_, place) in order.iter() {
                let Some(stream) = &reading.filters[place] else { continue };
                if mask.is_empty() {
                    return;
                }
                let (codes, bounds) = bounds_of(place);
                let width = bounds.width();
                let packed = &stream.block(block)[rows.start * width..rows.end * width];
                filter_codes(packed, bounds, codes, mask, words);
            }
        };
        let mut boxes = self.asked.boxes.among(of.boxes);
        let Some((_, first)) = boxes.next() else { return mask.clear() };
        let mut others = boxes.peekable();
        if others.peek().is_none() {
            return keep(first, mask);
        }
        let mut any = mask.clone();
        keep(first, &mut any);
        for (_, bits) in others {
            let mut own = mask.clone();
            keep(bits, &mut own);
            any.or_with(&own);
        }
        *mask = any;
    }

    /// Takes in what was drawn of a run, whether it matches or not.
    fn all(&self, of: &OfRung, piece: &Piece, rows: Range<usize>, drawn: &Mask, into: &mut Part) {
        let count = drawn.count() as u64;
        into.drawn += count;
        into.all.push((piece.run, 0, Moments { count, sum: count as f64, squares: count as f64 }));
        for (measure, wanted) in self.question.measures.iter().enumerate() {
            let light = light(&of.apart[measure], piece.block, &rows, drawn);
            let drawn = light.as_ref().unwrap_or(drawn);
            let moments = moments(&of.reading, measure, wanted.is_float, piece.block, rows.clone(), drawn);
            // NULL is 0: it counts here.
            into.all.push((piece.run, 1 + measure, Moments { count: drawn.count() as u64, ..moments }));
        }
    }

    /// Takes in the matching rows of a run; `only` is their group if they can be of one only.
    fn matching(
        &self,
        of: &OfRung,
        piece: &Piece,
        rows: Range<usize>,
        matching: &Mask,
        only: Option<u64>,
        into: &mut Part,
    ) -> Result<()> {
        let matches = matching.count() as u64;
        if matches == 0 {
            return Ok(());
        }
        let Some(only) = only else { return self.grouped(of, piece, rows, matching, into) };
        let run = piece.run as u32;
        let group = into.samples.of_group(into.keys.number(only));
        group[0].add_many(run, matches, matches as f64, matches as f64);
        for (measure, wanted) in self.question.measures.iter().enumerate() {
            let light = light(&of.apart[measure], piece.block, &rows, matching);
            let matching = light.as_ref().unwrap_or(matching);
            let Moments { count, sum, squares } =
                moments(&of.reading, measure, wanted.is_float, piece.block, rows.clone(), matching);
            group[1 + measure].add_many(run, count, sum, squares);
        }
        Ok(())
    }

    /// Takes in matching rows that lie in several groups; row 0 of the mask is the first of `rows`.
    fn grouped(&self, of: &OfRung, piece: &Piece, rows: Range<usize>, matching: &Mask, into: &mut Part) -> Result<()> {
        let (reading, start) = (&of.reading, rows.start);
        let missing = || Error::internal("a block has a code that its table does not");
        let Part { samples, keys, indices, .. } = into;
        indices.clear();
        indices.resize(matching.count(), 0);
        for (at, stream) in reading.groups.iter().enumerate() {
            let (level, stride) = (keys.spans()[at].level, keys.strides()[at]);
            let bounds = reading.index.table.levels[level].code_bounds(piece.block);
            let (packed, width) = (stream.block(piece.block), bounds.width());
            for (index, row) in indices.iter_mut().zip(matching.rows()) {
                let code = code_at(packed, bounds, width, start + row);
                *index += keys.digit(at, code).ok_or_else(missing)? * stride;
            }
        }
        let run = piece.run as u32;
        for &index in indices.iter() {
            samples.of_group(keys.number(index))[0].add(run, 1.0);
        }
        for (measure, wanted) in self.question.measures.iter().enumerate() {
            let Some((place, stream)) = &reading.measures[measure] else { continue };
            let (_, has_nulls) = values_of(&reading.index, *place, &reading.segment, piece.block);
            let encoding = reading.index.table.measures[*place].1.encodings[piece.block];
            let packed = stream.block(piece.block);
            let light = light(&of.apart[measure], piece.block, &rows, matching);
            let mask = light.as_ref().unwrap_or(matching);
            for (&index, row) in indices.iter().zip(matching.rows()) {
                if light.is_some() && mask.words()[row / 64] >> (row % 64) & 1 == 0 {
                    continue;
                }
                let group = samples.of_group(keys.number(index));
                match value_at(packed, encoding, has_nulls, wanted.is_float, start + row) {
                    Value::Null => {}
                    Value::Integer(value) => group[1 + measure].add(run, value as f64),
                    Value::Float(value) => group[1 + measure].add(run, value),
                }
            }
        }
        Ok(())
    }
}

/// A selection of some rows of a block without those that are heavy; `None` if none of them is.
fn light(apart: &Apart, block: usize, rows: &Range<usize>, mask: &Mask) -> Option<Mask> {
    let start = block * BLOCK_ROWS + rows.start;
    let heavy = apart.rows(start..block * BLOCK_ROWS + rows.end);
    (!heavy.is_empty()).then(|| {
        let mut light = mask.clone();
        heavy.iter().for_each(|&row| light.remove(row as usize - start));
        light
    })
}
