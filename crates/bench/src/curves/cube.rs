//! The rows that every structure of `curves` holds: points of so many hierarchical dimensions, and one measure.
//!
//! All dimensions are alike: a path of [`LEVELS`] levels whose members have [`CHILDREN`] children. A point is one leaf, a
//! byte, for each dimension; the member that it has at a coarser level is its top bits. Values are quarters, so sums of
//! doubles are exact in any order and answers must be equal, not near.

use crate::retail::Random;

/// Levels of every dimension, coarse to fine.
pub const LEVELS: usize = 3;
/// Children of a member, level by level.
pub const CHILDREN: [usize; LEVELS] = [4, 8, 8];
/// Leaves of a dimension.
pub const LEAVES: usize = 256;
/// Bits of a leaf below those that name its member at each level.
pub const BITS_BELOW: [u32; LEVELS] = [6, 3, 0];
/// Bits of a leaf.
pub const LEAF_BITS: u32 = 8;

/// Count and sum of some rows.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Totals {
    pub count: u64,
    pub sum: f64,
}

impl Totals {
    pub fn add_row(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
    }

    pub fn add(&mut self, other: Totals) {
        self.count += other.count;
        self.sum += other.sum;
    }
}

/// Leaves of rows, one after the other, and their values.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    pub dimensions: usize,
    pub leaves: Vec<u8>,
    pub values: Vec<f64>,
}

impl Rows {
    pub fn new(dimensions: usize) -> Rows {
        Rows { dimensions, leaves: Vec::new(), values: Vec::new() }
    }

    /// Rows whose leaves are drawn by [`shares`], each dimension by itself.
    pub fn random(dimensions: usize, count: usize, zipf: u32, seed: u64) -> Rows {
        let mut random = Random(seed);
        let mut sum = 0.0;
        let edges: Vec<f64> = shares(zipf)
            .into_iter()
            .map(|share| {
                sum += share;
                sum
            })
            .collect();
        let mut rows = Rows::new(dimensions);
        rows.leaves.reserve_exact(dimensions * count);
        for _ in 0..dimensions * count {
            let leaf = match zipf {
                0 => random.next() >> (64 - LEAF_BITS),
                _ => {
                    let at = (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
                    edges.partition_point(|edge| *edge <= at).min(LEAVES - 1) as u64
                }
            };
            rows.leaves.push(leaf as u8);
        }
        rows.values = (0..count).map(|_| (random.next() % 4_000) as f64 / 4.0).collect();
        rows
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The leaves of a row, one for each dimension.
    pub fn row(&self, at: usize) -> &[u8] {
        &self.leaves[at * self.dimensions..(at + 1) * self.dimensions]
    }

    pub fn push(&mut self, leaves: &[u8], value: f64) {
        debug_assert_eq!(leaves.len(), self.dimensions);
        self.leaves.extend_from_slice(leaves);
        self.values.push(value);
    }

    /// Puts a row before the one at `at`.
    pub fn insert(&mut self, at: usize, leaves: &[u8], value: f64) {
        self.leaves.splice(at * self.dimensions..at * self.dimensions, leaves.iter().copied());
        self.values.insert(at, value);
    }

    /// Takes the rows from `at` on.
    pub fn split_off(&mut self, at: usize) -> Rows {
        Rows {
            dimensions: self.dimensions,
            leaves: self.leaves.split_off(at * self.dimensions),
            values: self.values.split_off(at),
        }
    }
}

/// Share of the rows that each leaf of a dimension has: Zipf's law (exponent 0: all alike) among the children of each member.
pub fn shares(zipf: u32) -> Vec<f64> {
    let mut shares = vec![1.0];
    for children in CHILDREN {
        let weights: Vec<f64> = (0..children).map(|rank| ((rank + 1) as f64).powi(zipf as i32).recip()).collect();
        let total: f64 = weights.iter().sum();
        shares = shares.iter().flat_map(|share| weights.iter().map(move |weight| share * weight / total)).collect();
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_leaves_add_up_and_rows_follow_them() {
        for zipf in [0, 1, 2] {
            let shares = shares(zipf);
            assert_eq!(shares.len(), LEAVES);
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            let rows = Rows::random(3, 20_000, zipf, 5);
            let first = (0..rows.len()).filter(|&at| rows.row(at)[1] < 64).count() as f64 / rows.len() as f64;
            let wanted: f64 = shares[..64].iter().sum();
            assert!((first - wanted).abs() < 0.02, "{first} of the rows, and {wanted} are expected");
        }
    }

    #[test]
    fn rows_come_apart_where_they_are_cut() {
        let mut rows = Rows::random(5, 10, 0, 1);
        let whole = rows.clone();
        let mut behind = rows.split_off(4);
        behind.insert(0, whole.row(0), -1.0);
        assert_eq!((rows.len(), behind.len()), (4, 7));
        assert_eq!(behind.row(0), whole.row(0));
        assert_eq!(behind.row(3), whole.row(6));
        assert_eq!(behind.values[3], whole.values[6]);
    }
}
