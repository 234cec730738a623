//! Rows of a segment with its ladder, as a reader sees them: which rungs he may draw from, and what is dead in them.
//!
//! Invariants:
//! - A rung has the rows of its segment of low weight, dead ones among them; of these it has just those that its segment
//!   has (K7). Where it says which rows they are ([`Segment::places`]) they are found there, by the segment's own
//!   [`DeadRows`] as of the reader's version.
//! - A rung that does not say so is none to a reader for whom rows of its segment are dead. One that is known to be damaged is none to all.
//! - Who draws gets what he draws from as [`Drawn`], which knows the dead; who scans a rung gets the dead among its rows
//!   ([`SegmentRows::rung_for`]).

use super::{DeadRows, SegmentRows};
use crate::filter::Mask;
use crate::layout::BLOCK_ROWS;
use crate::segment::{Rung, Segment};
use alluvia_types::{Error, Result, planted};
use std::borrow::Borrow;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// Of so few dead rows, against drawn ones, each is looked for among these; of more all drawn rows are looked at.
const FEW_DEAD: usize = 16;

/// Rows of a segment, and the rungs of its ladder that may be drawn from.
#[derive(Clone, Debug)]
pub(crate) struct Laddered {
    rows: SegmentRows,
    rungs: Vec<u32>,
}

impl Laddered {
    /// Each of some segments.
    pub(crate) fn all(segments: &[SegmentRows]) -> Result<Vec<Laddered>> {
        segments.iter().map(Laddered::new).collect()
    }

    fn new(rows: &SegmentRows) -> Result<Laddered> {
        let mut rungs = Vec::with_capacity(rows.segment.rungs().len());
        for rung in rows.segment.rungs() {
            if !rung.segment.is_damaged() && (rows.dead.is_none() || rung.segment.has_places()?) {
                rungs.push(rung.rung);
            }
        }
        Ok(Laddered { rows: rows.clone(), rungs })
    }

    /// The rungs, the thickest first.
    pub(crate) fn rungs(&self) -> &[u32] {
        &self.rungs
    }

    /// One of the rungs, to be drawn from.
    pub(crate) fn rung(&self, rung: u32) -> Result<Drawn> {
        let has = self.rungs.contains(&rung).then(|| self.rows.segment.rungs().iter().find(|of| of.rung == rung));
        let lacking = || Error::internal("a rung was to be read that its segment does not have");
        let segment = Arc::clone(&has.flatten().ok_or_else(lacking)?.segment);
        let dead = match &self.rows.dead {
            None => DeadIn::None,
            Some(dead) => DeadIn::Rung(dead.clone(), Places::of(&segment)?),
        };
        Ok(Drawn { segment, dead })
    }

    /// The segment itself, to be drawn from as if it were one of its rungs.
    pub(crate) fn whole(&self) -> Drawn {
        let dead = self.rows.dead.clone().map_or(DeadIn::None, DeadIn::Segment);
        Drawn { segment: Arc::clone(&self.rows.segment), dead }
    }

    /// How many rows of some blocks are dead.
    pub(crate) fn count_dead(&self, blocks: Range<usize>) -> u64 {
        let Some(dead) = &self.rows.dead else { return 0 };
        blocks.map(|block| dead.count_in(block) as u64).sum()
    }

    /// Rows of some blocks that are looked at for being dead when all rows are drawn, about.
    pub(crate) fn looked_at(&self, blocks: Range<usize>) -> f64 {
        let Some(dead) = &self.rows.dead else { return 0.0 };
        blocks.map(|block| (FEW_DEAD * dead.count_in(block)).min(BLOCK_ROWS) as f64).sum()
    }

    /// Whether a row, by its number in the segment, is dead.
    pub(crate) fn is_dead(&self, row: u64) -> bool {
        self.rows.dead.as_ref().is_some_and(|dead| dead.contains(row))
    }
}

impl SegmentRows {
    /// The thinnest rung that holds every row whose weight is below `limit`, and which of its rows are dead. `None` if only
    /// the segment does, or if rows of it are dead and the rung does not say which rows it has.
    pub fn rung_for(&self, limit: u64) -> Result<Option<(Rung, Option<DeadRows>)>> {
        let Some(rung) = self.segment.rung_for(limit) else { return Ok(None) };
        let dead = match &self.dead {
            None => None,
            Some(_) if !rung.segment.has_places()? => return Ok(None),
            Some(dead) => Places::of(&rung.segment)?.dead_in_rung(dead),
        };
        Ok(Some((rung.clone(), dead)))
    }
}

impl Deref for Laddered {
    type Target = SegmentRows;

    fn deref(&self) -> &SegmentRows {
        &self.rows
    }
}

impl Borrow<SegmentRows> for Laddered {
    fn borrow(&self) -> &SegmentRows {
        &self.rows
    }
}

/// What rows are drawn from: a rung, or a segment itself.
#[derive(Debug)]
pub(crate) struct Drawn {
    segment: Arc<Segment>,
    dead: DeadIn,
}

/// Which rows are dead.
#[derive(Debug)]
enum DeadIn {
    None,
    /// Those of the segment that is drawn from.
    Segment(DeadRows),
    /// Those of the segment that the rung hangs from.
    Rung(DeadRows, Places),
}

impl Drawn {
    /// Its codes and values are those of all rows, dead ones among them.
    pub(crate) fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Drops the dead from a selection of rows of a block, the first of which is row 0 of the mask.
    pub(crate) fn drop_dead(&self, block: usize, rows: Range<usize>, mask: &mut Mask) {
        let start = block * BLOCK_ROWS + rows.start;
        match &self.dead {
            DeadIn::None => {}
            DeadIn::Segment(dead) => {
                if dead.count_in(block) > 0 {
                    mask.retain(|row| !dead.contains((start + row) as u64));
                }
            }
            DeadIn::Rung(..) if planted("rung not masked") => {}
            DeadIn::Rung(dead, places) => places.drop_dead(dead, start..start + rows.len(), mask),
        }
    }
}

/// Which rows of its segment a rung has.
#[derive(Debug)]
struct Places {
    /// By block of the segment, how many of the rung's rows lie before it.
    first_rows: Arc<Vec<u32>>,
    /// Of each row where it lies in its block.
    places: Arc<Option<Vec<u16>>>,
}

impl Places {
    fn of(rung: &Segment) -> Result<Places> {
        Ok(Places { first_rows: rung.first_rows()?, places: rung.places()? })
    }

    /// The dead rows of the rung, by their numbers there.
    fn dead_in_rung(&self, dead: &DeadRows) -> Option<DeadRows> {
        let places = self.places.as_deref().unwrap_or_default();
        let of_block = |block: usize| {
            let (first, end) = (self.first_rows[block] as usize, self.first_rows[block + 1] as usize);
            let rows = dead.rows_in(block).into_iter();
            rows.filter_map(move |row| Some((first + places[first..end].binary_search(&row).ok()?) as u64))
        };
        dead.in_other_rows((0..self.first_rows.len() - 1).flat_map(of_block))
    }

    /// Drops the dead among some rows of the rung, the first of which is row 0 of the mask.
    fn drop_dead(&self, dead: &DeadRows, rows: Range<usize>, mask: &mut Mask) {
        let places = self.places.as_deref().unwrap_or_default();
        let before = |block: usize| self.first_rows[block] as usize;
        // The last block that begins no later: those before it that begin there, too, have no rows.
        let first = self.first_rows.partition_point(|&first| first as usize <= rows.start).saturating_sub(1);
        for block in (first..self.first_rows.len() - 1).take_while(|&block| before(block) < rows.end) {
            let of_block = before(block).max(rows.start)..before(block + 1).min(rows.end);
            let count = dead.count_in(block);
            if count == 0 || of_block.is_empty() {
                continue;
            }
            let start = of_block.start - rows.start;
            let places = &places[of_block];
            if FEW_DEAD * count < places.len() {
                let found = dead.each_in(block).filter_map(|row| places.binary_search(&row).ok());
                found.for_each(|at| mask.remove(start + at));
            } else if let Some(dead) = dead.mask(block) {
                let of_dead = (start..).zip(places).filter(|(_, place)| dead.contains(usize::from(**place)));
                of_dead.for_each(|(at, _)| mask.remove(at));
            }
        }
    }
}
