//! Bands: in which order the rows of a block lie, so that a sample of any share is read by its first rows.
//!
//! Invariants:
//! - In a *banded* segment the rows of each block lie in [`BANDS`] bands of equal shares by weight, the lightest first;
//!   within a band they ascend by curve key. So the rows that weigh less than a limit are among the first of each
//!   block, and a sample of any share reads that share of every block, rounded up to a band.
//! - Blocks ascend by curve key as ever: no key of a block is above one of the next. What skips blocks knows nothing of
//!   bands.
//! - Where bands end is told by a section of the side file. Segments without it have each block's rows in key order.
//!
//! Qbeast (2019) orders a cube's rows by weight and sends what is heavier down its tree, so that a sample is read from
//! the top. A block is the smallest thing that is skipped here, so the order within it costs skipping nothing: what a
//! cube's depth does there, a place in the block does here, and the rows of a box stay together. Rows need not be in
//! full order of weight: sixteen bands keep runs of like values long enough to be packed well.

use super::{BLOCK_ROWS, block_rows, blocks_of};

/// How many bands a block has.
const BANDS: usize = 1 << BAND_BITS;
/// The first bits of a weight tell its band.
const BAND_BITS: u32 = 4;
/// Bytes of a block in the section.
const BLOCK_BYTES: usize = 2 * BANDS;

/// Where bands end: for each block, how many of its rows lie in each band and those before.
type Ends = [u16; BANDS];

fn band_of(weight: u64) -> usize {
    (weight >> (u64::BITS - BAND_BITS)) as usize
}

/// The limit of the bands that hold all rows which weigh less than `limit`; `None` if these are all bands.
pub fn band_limit(limit: u64) -> Option<u64> {
    let bands = limit.checked_sub(1).map_or(0, |heaviest| band_of(heaviest) + 1);
    (bands < BANDS).then_some((bands as u64) << (u64::BITS - BAND_BITS))
}

/// The limit of the bands that hold only rows which weigh less than `limit`; 0 if none does.
pub fn whole_bands_limit(limit: u64) -> u64 {
    limit >> (u64::BITS - BAND_BITS) << (u64::BITS - BAND_BITS)
}

/// The order in which the rows of one block lie, by their places in key order; `weights` are in key order.
pub fn by_band(weights: &[u64]) -> Vec<u32> {
    let mut next = [0u32; BANDS];
    weights.iter().for_each(|&weight| next[band_of(weight)] += 1);
    let mut before = 0;
    for next in &mut next {
        before += std::mem::replace(next, before);
    }
    let mut order = vec![0; weights.len()];
    for (place, &weight) in weights.iter().enumerate() {
        let next = &mut next[band_of(weight)];
        order[*next as usize] = place as u32;
        *next += 1;
    }
    order
}

/// The bands of a segment's blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bands {
    ends: Vec<Ends>,
}

impl Bands {
    /// How many of a block's rows, from its first on, hold all of its rows that weigh less than `limit`.
    pub fn rows_below(&self, block: usize, limit: u64) -> u64 {
        limit.checked_sub(1).map_or(0, |heaviest| u64::from(self.ends[block][band_of(heaviest)]))
    }

    /// Where a block's bands begin and end among its rows.
    pub(crate) fn of_block(&self, block: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
        let ends = &self.ends[block];
        (0..BANDS).map(|band| if band == 0 { 0 } else { ends[band - 1] as usize }..ends[band] as usize)
    }

    pub(crate) fn bytes(&self) -> u64 {
        (self.ends.len() * BLOCK_BYTES) as u64
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        self.ends.iter().flatten().flat_map(|end| end.to_le_bytes()).collect()
    }

    /// The bands of a segment of so many rows; what is wrong, if the bytes are none.
    pub(crate) fn decode(bytes: &[u8], rows: u64) -> Result<Bands, &'static str> {
        if bytes.len() != blocks_of(rows) * BLOCK_BYTES {
            return Err("it has the wrong length");
        }
        let ends: Vec<Ends> = bytes
            .chunks_exact(BLOCK_BYTES)
            .map(|block| std::array::from_fn(|band| u16::from_le_bytes([block[2 * band], block[2 * band + 1]])))
            .collect();
        let counts_up = |(block, ends): (usize, &Ends)| {
            let of_block = block_rows(block, rows);
            ends.is_sorted() && u64::from(ends[BANDS - 1]) == of_block.end - of_block.start
        };
        if !ends.iter().enumerate().all(counts_up) {
            return Err("its bands do not count up to the blocks' rows");
        }
        Ok(Bands { ends })
    }
}

/// Counts bands while rows come.
#[derive(Debug, Default)]
pub(crate) struct BandCounter {
    /// How many rows each band has, by block.
    counts: Vec<Ends>,
    /// Rows of the last block.
    rows: usize,
    /// The band of the last row.
    last: usize,
}

impl BandCounter {
    /// Adds rows by their weights. Whether the rows of each block lie in bands until now.
    pub(crate) fn add(&mut self, weights: &[u64]) -> bool {
        let mut ascend = true;
        for &weight in weights {
            if self.counts.is_empty() || self.rows == BLOCK_ROWS {
                self.counts.push([0; BANDS]);
                (self.rows, self.last) = (0, 0);
            }
            let band = band_of(weight);
            ascend &= band >= self.last;
            self.last = band;
            self.rows += 1;
            if let Some(block) = self.counts.last_mut() {
                block[band] += 1;
            }
        }
        ascend
    }

    pub(crate) fn finish(self) -> Bands {
        let mut ends = self.counts;
        for block in &mut ends {
            let mut before = 0;
            for end in block.iter_mut() {
                before += *end;
                *end = before;
            }
        }
        Bands { ends }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn limits_of_bands_are_sixteenths_rounded_up() {
        let sixteenth = 1u64 << 60;
        let limits = [0, 1, sixteenth, sixteenth + 1, 15 * sixteenth, 15 * sixteenth + 1, u64::MAX];
        let expected =
            [Some(0), Some(sixteenth), Some(sixteenth), Some(2 * sixteenth), Some(15 * sixteenth), None, None];
        assert_eq!(limits.map(band_limit), expected);
    }

    proptest! {
        #[test]
        fn first_rows_hold_the_light_ones(
            weights in prop::collection::vec(any::<u64>(), 1..20_000),
            limits in prop::collection::vec(prop_oneof![any::<u64>(), (0u64..16).prop_map(|band| band << 60)], 1..8),
        ) {
            let mut counter = BandCounter::default();
            let mut placed = Vec::new();
            for block in weights.chunks(BLOCK_ROWS) {
                let order = by_band(block);
                let mut places = order.clone();
                places.sort_unstable();
                prop_assert!(places.iter().copied().eq(0..block.len() as u32), "every row has one place");
                let of = |band: usize| order.iter().filter(move |&&at| band_of(block[at as usize]) == band);
                for band in 0..BANDS {
                    prop_assert!(of(band).is_sorted(), "rows of one band stay in order");
                }
                placed.extend(order.iter().map(|&at| block[at as usize]));
            }
            // In pieces of any size.
            for piece in placed.chunks(777) {
                prop_assert!(counter.add(piece));
            }
            let bands = counter.finish();
            let rows = weights.len() as u64;
            prop_assert_eq!(&Bands::decode(&bands.encode(), rows), &Ok(bands.clone()));
            prop_assert!(Bands::decode(&bands.encode(), rows + 1).is_err());
            for (block, placed) in placed.chunks(BLOCK_ROWS).enumerate() {
                for &limit in &limits {
                    let (first, rest) = placed.split_at(bands.rows_below(block, limit) as usize);
                    prop_assert!(rest.iter().all(|&weight| weight >= limit));
                    prop_assert!(band_limit(limit).is_none_or(|most| first.iter().all(|&weight| weight < most)));
                }
                let ranges: Vec<_> = bands.of_block(block).collect();
                prop_assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
            }
        }
    }

    #[test]
    fn rows_out_of_their_bands_are_seen() {
        let mut counter = BandCounter::default();
        assert!(counter.add(&[0, 1 << 60, 5 << 60]));
        assert!(!counter.add(&[4 << 60]));
        // The next block begins anew.
        let mut counter = BandCounter::default();
        assert!(counter.add(&vec![u64::MAX; BLOCK_ROWS]) && counter.add(&[0]));
    }
}
