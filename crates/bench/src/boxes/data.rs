//! The retail table with skew: Zipf's law within each level, and an item that follows the store.
//!
//! Members of a level are drawn with shares 1 / rank^s among the children of one parent, so every level is skewed and not
//! the leaves alone; ranks are shuffled, so that the frequent members are not neighbours in code order. [`Weights`] are the
//! same shares, for a generator of queries that wants a certain coverage. Uniform data is the file that `load` uses too.

use crate::Anything;
use crate::retail::{DIMENSIONS, Random, Retail, parquet_file, write_once};
use arrow::array::{ArrayRef, AsArray, DictionaryArray, Float64Array, Int32Array};
use arrow::datatypes::{Int32Type, SchemaRef};
use arrow::record_batch::RecordBatch;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Of a hundred rows, those whose dimension 2 follows dimension 1, if they are correlated.
const FOLLOWING: u64 = 80;

/// What the rows are like.
#[derive(Clone, Copy, Debug)]
pub struct Data {
    pub rows: u64,
    /// Zipf's exponent; 0 is uniform.
    pub zipf: u32,
    pub correlated: bool,
}

impl Data {
    /// The Parquet file of these rows, made the first time.
    pub fn parquet(&self, folder: &Path) -> Anything<PathBuf> {
        if self.zipf == 0 && !self.correlated {
            return parquet_file(folder, self.rows);
        }
        let correlated = if self.correlated { "-correlated" } else { "" };
        let path = folder.join(format!("retail-{}-zipf{}{correlated}.parquet", self.rows, self.zipf));
        let mut rows = Skewed::new(self)?;
        let schema = Arc::clone(&rows.schema);
        write_once(path, &schema, self.rows, |count| rows.batch(count))
    }
}

/// A whole number below `end`.
pub fn below(random: &mut Random, end: usize) -> usize {
    (random.next() % end as u64) as usize
}

/// From 0 to 1, without 1.
pub fn unit(random: &mut Random) -> f64 {
    (random.next() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Fisher and Yates.
pub fn shuffle<T>(values: &mut [T], random: &mut Random) {
    for at in (1..values.len()).rev() {
        values.swap(at, below(random, at + 1));
    }
}

/// Share of the rows that each leaf of each dimension has.
pub struct Weights(Vec<Vec<f64>>);

impl Weights {
    pub fn new(data: &Data) -> Weights {
        let mut all: Vec<Vec<f64>> = (0..DIMENSIONS.len()).map(|dimension| leaves(dimension, data.zipf)).collect();
        if data.correlated {
            let share = FOLLOWING as f64 / 100.0;
            let mut mixed: Vec<f64> = all[1].iter().map(|weight| weight * (1.0 - share)).collect();
            let (first, second) = (all[0].len(), all[1].len());
            for (leaf, weight) in all[0].iter().enumerate() {
                for step in 0..second {
                    mixed[follower(leaf, first, step, second)] += share * weight / second as f64;
                }
            }
            all[1] = mixed;
        }
        Weights(all)
    }

    /// Share of the rows that each member of a level has, in code order.
    pub fn level(&self, dimension: usize, level: usize) -> Vec<f64> {
        let below: usize = DIMENSIONS[dimension].1[level + 1..].iter().map(|level| level.1).product();
        self.0[dimension].chunks(below).map(|leaves| leaves.iter().sum()).collect()
    }
}

/// Zipf's shares of a dimension's leaves: the product of the shares along the path.
fn leaves(dimension: usize, zipf: u32) -> Vec<f64> {
    let mut order = Random(dimension as u64 + 77);
    let mut weights = vec![1.0];
    for (_, children) in DIMENSIONS[dimension].1 {
        let mut shares: Vec<f64> = (0..*children).map(|rank| ((rank + 1) as f64).powi(zipf as i32).recip()).collect();
        shuffle(&mut shares, &mut order);
        let total: f64 = shares.iter().sum();
        let mut finer = Vec::with_capacity(weights.len() * children);
        for weight in &weights {
            finer.extend(shares.iter().map(|share| weight * share / total));
        }
        weights = finer;
    }
    weights
}

/// The leaf of `second` that follows a leaf of `first`. It keeps the order, so coarse levels are correlated too; where there
/// are several, `step` (below `second`) chooses.
fn follower(leaf: usize, first: usize, step: usize, second: usize) -> usize {
    (leaf * second + step) / first
}

/// A generator of batches.
struct Skewed {
    random: Random,
    schema: SchemaRef,
    /// Member names of every level, as [`Retail`] has them.
    members: Vec<ArrayRef>,
    /// For each dimension, the running sum of its leaves' shares.
    edges: Vec<Vec<f64>>,
    correlated: bool,
}

impl Skewed {
    fn new(data: &Data) -> Anything<Skewed> {
        let like = Retail::new(1).batch(1)?;
        let levels: usize = DIMENSIONS.iter().map(|(_, levels)| levels.len()).sum();
        let members =
            like.columns()[..levels].iter().map(|column| Arc::clone(column.as_dictionary::<Int32Type>().values()));
        let edges = (0..DIMENSIONS.len()).map(|dimension| {
            let mut sum = 0.0;
            let running = leaves(dimension, data.zipf).into_iter().map(|weight| {
                sum += weight;
                sum
            });
            running.collect::<Vec<f64>>()
        });
        Ok(Skewed {
            random: Random(1),
            schema: like.schema(),
            members: members.collect(),
            edges: edges.collect(),
            correlated: data.correlated,
        })
    }

    fn pick(&mut self, dimension: usize) -> usize {
        let at = unit(&mut self.random);
        let edges = &self.edges[dimension];
        edges.partition_point(|edge| *edge <= at).min(edges.len() - 1)
    }

    fn picks(&mut self, dimension: usize, rows: usize, first: &[usize]) -> Vec<usize> {
        let follows = self.correlated && dimension == 1;
        let (parents, own) = (self.edges[0].len(), self.edges[dimension].len());
        (0..rows)
            .map(|row| match follows && self.random.next() % 100 < FOLLOWING {
                true => follower(first[row], parents, below(&mut self.random, own), own),
                false => self.pick(dimension),
            })
            .collect()
    }

    fn batch(&mut self, rows: usize) -> Anything<RecordBatch> {
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.schema.fields().len());
        let mut first = Vec::new();
        for (dimension, (_, levels)) in DIMENSIONS.iter().enumerate() {
            let picks = self.picks(dimension, rows, &first);
            let mut below = self.edges[dimension].len();
            for (_, children) in *levels {
                below /= children;
                let keys = Int32Array::from_iter_values(picks.iter().map(|pick| (pick / below) as i32));
                let members = Arc::clone(&self.members[columns.len()]);
                columns.push(Arc::new(DictionaryArray::<Int32Type>::try_new(keys, members)?));
            }
            if dimension == 0 {
                first = picks;
            }
        }
        let prices = (0..rows).map(|_| (self.random.next() % 100_000) as f64 / 100.0);
        columns.push(Arc::new(Float64Array::from_iter_values(prices)));
        let quantities = (0..rows).map(|_| 1 + (self.random.next() % 9) as i32);
        columns.push(Arc::new(Int32Array::from_iter_values(quantities)));
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_every_level_add_up_to_all_rows() {
        for (zipf, correlated) in [(0, false), (1, false), (2, true)] {
            let weights = Weights::new(&Data { rows: 1, zipf, correlated });
            for (dimension, (_, levels)) in DIMENSIONS.iter().enumerate() {
                let mut members = 1;
                for (level, (_, children)) in levels.iter().enumerate() {
                    members *= children;
                    let shares = weights.level(dimension, level);
                    assert_eq!(shares.len(), members);
                    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
                }
            }
        }
    }

    #[test]
    fn followers_stay_in_their_dimension() {
        assert_eq!(follower(0, 1440, 0, 4800), 0);
        assert_eq!(follower(1439, 1440, 4799, 4800), 4799);
    }
}
