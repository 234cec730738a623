//! Strata, and the frame that holds all strata of one query.
//!
//! Invariants:
//! - A row belongs to one stratum at most. Given how many rows were drawn, those drawn are a simple random sample
//!   without replacement, for all were drawn by one threshold on a weight that depends on nothing else.
//! - Only strata of the same rung are pooled: rows drawn at different rates are no simple random sample of the union.
//! - What is pooled depends on how many rows were drawn, never on what is in them.

/// Strata are pooled until each has so many drawn rows.
pub const MIN_SAMPLED: u64 = 30;

/// What the summaries know of the measure over all rows of a stratum, whether or not a row matches.
///
/// NULL counts as 0, as in the sample. A stratum with NaN or an infinity cannot be estimated: read it in full.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Known {
    /// Sum.
    pub sum: f64,
    /// Sum of squares.
    pub squares: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

impl Known {
    /// Of no values.
    pub const NOTHING: Known = Known { sum: 0.0, squares: 0.0, min: 0.0, max: 0.0 };

    /// Of one value.
    pub fn of(value: f64) -> Known {
        Known { sum: value, squares: value * value, min: value, max: value }
    }

    /// Of the rows of both.
    #[inline]
    pub fn and(self, other: Known) -> Known {
        Known {
            sum: self.sum + other.sum,
            squares: self.squares + other.squares,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

/// A cut block or node, without its heavy rows: these are read always and are part of [`super::GroupSample::add_exact`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stratum {
    /// Rows that a match may be among.
    pub rows: u64,
    /// How many of them have a value that is not NULL: all, unless it is said.
    pub values: u64,
    /// How many of them are known not to match, whatever is asked, because they are dead: none, unless it is said.
    pub dead: u64,
    /// Rows drawn so far.
    pub sampled: u64,
    /// The rung they were drawn from, 0 for the thinnest.
    pub rung: u32,
    /// Sum of the measure over the drawn rows, whether they match or not.
    pub sampled_sum: f64,
    /// The same of the squares.
    pub sampled_squares: f64,
    /// The summary, if there is one for the measure.
    pub known: Option<Known>,
    /// The share of rows expected to match *before* sampling (how far the box covers the block), for
    /// [`super::next_allocation`] only.
    pub expected_share: Option<f64>,
}

impl Stratum {
    /// A stratum of which nothing has been read.
    pub fn new(rows: u64, known: Option<Known>) -> Stratum {
        Stratum {
            rows,
            values: rows,
            dead: 0,
            sampled: 0,
            rung: 0,
            sampled_sum: 0.0,
            sampled_squares: 0.0,
            known: known.filter(|known| known.sum.is_finite() && known.squares.is_finite()),
            expected_share: None,
        }
    }

    /// Forgets what was drawn and begins a new rung, which contains the old one.
    pub fn restart(&mut self, rung: u32) {
        (self.sampled, self.rung, self.sampled_sum, self.sampled_squares) = (0, rung, 0.0, 0.0);
    }

    /// Takes in a drawn row, matching or not; NULL is 0.
    pub fn draw(&mut self, x: f64) {
        self.draw_many(1, x, x * x);
    }

    /// Takes in drawn rows, matching or not: how many, and of their measure, NULL as 0, the sum and the sum of squares.
    pub fn draw_many(&mut self, rows: u64, sum: f64, squares: f64) {
        self.sampled += rows;
        self.sampled_sum += sum;
        self.sampled_squares += squares;
    }

    /// Whether every row was drawn: nothing is left to chance.
    pub fn is_complete(&self) -> bool {
        self.sampled >= self.rows
    }

    /// The mean of the measure's values and of their squares, without NULL: by the summary, or else by the drawn rows, whose NULLs are 0.
    pub(super) fn typical(&self) -> (f64, f64) {
        let (sum, squares, count) = match self.known {
            Some(known) => (known.sum, known.squares, self.values),
            None => (self.sampled_sum, self.sampled_squares, self.sampled),
        };
        let count = count.max(1) as f64;
        (sum / count, squares / count)
    }

    fn pool(&mut self, other: &Stratum) {
        self.rows += other.rows;
        self.values += other.values;
        self.dead += other.dead;
        self.sampled += other.sampled;
        self.sampled_sum += other.sampled_sum;
        self.sampled_squares += other.sampled_squares;
        self.known = self.known.zip(other.known).map(|(a, b)| a.and(b));
    }
}

/// All strata of a query at one look, pooled to at least [`MIN_SAMPLED`] drawn rows where there are so many.
#[derive(Clone, Debug)]
pub struct Frame {
    strata: Vec<Stratum>,
    pools: Vec<Stratum>,
    pool_of: Vec<u32>,
    pub(super) open: Open,
}

/// What holds for all pools that were not read in full.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Open {
    /// Rows, drawn or not.
    pub rows: f64,
    /// Rows not drawn.
    pub undrawn: f64,
    /// Rows that one drawn row of the most thinly read pool stands for.
    pub weight: f64,
    /// The range of the measure.
    pub min: f64,
    pub max: f64,
    /// What the rows that were not drawn can add to a sum at most, and at least.
    pub most: f64,
    pub least: f64,
    /// Pools from which too little was drawn to estimate a variance.
    pub unread: bool,
}

impl Frame {
    /// Pools the strata, whose places in `strata` name them from here on.
    pub fn new(strata: Vec<Stratum>) -> Frame {
        let mut pools: Vec<Stratum> = Vec::new();
        let mut pool_of = Vec::with_capacity(strata.len());
        // Of each rung, the last pool; it takes strata in until it is large enough.
        let mut last: Vec<(u32, u32)> = Vec::new();
        for stratum in &strata {
            assert!(stratum.sampled <= stratum.rows, "a stratum of {} rows has {}", stratum.rows, stratum.sampled);
            let open = last.iter_mut().find(|(rung, _)| *rung == stratum.rung);
            match open {
                Some((_, at)) if !stratum.is_complete() && pools[*at as usize].sampled < MIN_SAMPLED => {
                    pools[*at as usize].pool(stratum);
                    pool_of.push(*at);
                }
                open => {
                    let at = pools.len() as u32;
                    match open {
                        _ if stratum.is_complete() => (),
                        Some(open) => open.1 = at,
                        None => last.push((stratum.rung, at)),
                    }
                    pools.push(*stratum);
                    pool_of.push(at);
                }
            }
        }
        Frame::close(&mut pools, &mut pool_of, &last);
        let open = Open::of(&pools);
        Frame { strata, pools, pool_of, open }
    }

    /// A last pool that stayed small joins the one of its rung before it.
    fn close(pools: &mut [Stratum], pool_of: &mut [u32], last: &[(u32, u32)]) {
        for &(rung, small) in last {
            let pool = pools[small as usize];
            let before = (0..small as usize).rev().find(|&at| {
                let before = &pools[at];
                before.rung == rung && before.rows > 0 && !before.is_complete()
            });
            if let Some(before) = before.filter(|_| pool.sampled < MIN_SAMPLED) {
                pools[before].pool(&pool);
                pools[small as usize] = Stratum::new(0, None);
                pool_of.iter_mut().filter(|at| **at == small).for_each(|at| *at = before as u32);
            }
        }
    }

    /// The strata as given.
    pub fn strata(&self) -> &[Stratum] {
        &self.strata
    }

    /// The pooled strata; some may have no rows.
    pub(super) fn pools(&self) -> &[Stratum] {
        &self.pools
    }

    pub(super) fn pool_of(&self, stratum: u32) -> u32 {
        self.pool_of[stratum as usize]
    }

    /// Whether every stratum was read in full.
    pub fn is_complete(&self) -> bool {
        self.pools.iter().all(Stratum::is_complete)
    }

    /// Rows drawn.
    pub fn sampled(&self) -> u64 {
        self.strata.iter().map(|stratum| stratum.sampled).sum()
    }
}

impl Open {
    fn of(pools: &[Stratum]) -> Open {
        let mut open = Open { min: f64::INFINITY, max: f64::NEG_INFINITY, ..Open::default() };
        for pool in pools.iter().filter(|pool| !pool.is_complete()) {
            let undrawn = (pool.rows - pool.sampled) as f64;
            open.rows += pool.rows as f64;
            open.undrawn += undrawn;
            open.unread |= pool.sampled < 2;
            open.weight = open.weight.max(pool.rows as f64 / pool.sampled.max(1) as f64);
            let (min, max) = pool.known.map_or((f64::NEG_INFINITY, f64::INFINITY), |known| (known.min, known.max));
            let rest = pool.known.map_or(f64::INFINITY, |known| known.sum - pool.sampled_sum);
            (open.min, open.max) = (open.min.min(min), open.max.max(max));
            // Of values of one sign, the rest of the stratum's sum bounds that of any subset.
            let most = undrawn * max.max(0.0);
            let least = undrawn * min.min(0.0);
            open.most += if min >= 0.0 { most.min(rest.max(0.0)) } else { most };
            open.least += if max <= 0.0 { least.max(rest.min(0.0)) } else { least };
        }
        open
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stratum(rows: u64, sampled: u64, rung: u32) -> Stratum {
        Stratum { sampled, rung, ..Stratum::new(rows, Some(Known { sum: 1.0, squares: 2.0, min: 0.0, max: 1.0 })) }
    }

    #[test]
    fn small_strata_are_pooled_within_their_rung() {
        let frame = Frame::new(vec![
            stratum(1000, 10, 0),
            stratum(1000, 10, 1),
            stratum(1000, 15, 0),
            stratum(1000, 16, 0),
            stratum(1000, 40, 1),
            stratum(1000, 5, 0),
            stratum(7, 7, 0),
        ]);
        assert_eq!(frame.pool_of, [0, 1, 0, 0, 1, 0, 3]);
        assert_eq!((frame.pools[0].rows, frame.pools[0].sampled), (4000, 46));
        assert_eq!((frame.pools[1].rows, frame.pools[1].sampled), (2000, 50));
        assert_eq!((frame.pools[2].rows, frame.pools[2].sampled), (0, 0));
        assert_eq!(frame.pools[0].known, Some(Known { sum: 4.0, squares: 8.0, min: 0.0, max: 1.0 }));
        assert!(!frame.is_complete() && !frame.open.unread);
        assert_eq!(frame.sampled(), 103);
    }

    #[test]
    fn what_was_never_drawn_from_is_known_as_unread() {
        assert!(Frame::new(vec![stratum(1000, 0, 0), stratum(50, 50, 1)]).open.unread);
        assert!(!Frame::new(vec![stratum(1000, 0, 0), stratum(1000, 40, 0)]).open.unread);
        assert!(Frame::new(vec![stratum(50, 50, 2)]).is_complete());
        assert!(Frame::new(Vec::new()).is_complete());
    }
}
