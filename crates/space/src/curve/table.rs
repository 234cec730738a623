//! Curves as state machines, for up to eight axes.
//!
//! At a level, what the curve does depends on the direction and on `word ^ entry` alone: the entry corner enters only by that
//! exclusive-or. So one look-up of 2^n entries per direction gives the key bits, the change of the entry corner and the next
//! direction; eight axes take 8 KiB, which the nearest cache holds. Levels where not all axes have a bit have tables of
//! their own, one for each set of axes. Z order is the machine with one state.

use super::hilbert::{State, extract};
use super::z;
use crate::schema::Curve;

/// More axes make tables that outgrow the cache.
pub(super) const AXES_MAX: usize = 8;

/// What to do at a level: key bits (8), change of entry (8), next direction (8), count of key bits (8).
type Step = u32;

/// Tables for one number of axes.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    /// One for each distinct set of active axes; indexed by direction << axes | (word ^ entry).
    steps: Vec<Vec<Step>>,
    /// For each level, finest first: which of them.
    of_level: Vec<usize>,
    axes: u32,
}

impl Tables {
    pub(super) fn new(curve: Curve, axes: u32, active: &[u64]) -> Tables {
        let mut sets: Vec<u64> = Vec::new();
        let mut of_level = Vec::with_capacity(active.len());
        for &set in active {
            let known = sets.iter().position(|&known| known == set);
            of_level.push(known.unwrap_or(sets.len()));
            if known.is_none() {
                sets.push(set);
            }
        }
        let steps = |&set: &u64| match curve {
            Curve::Hilbert => hilbert_steps(axes, set),
            Curve::Z => z_steps(axes, set),
        };
        let steps = sets.iter().map(steps).collect();
        Tables { steps, of_level, axes }
    }

    /// The key of a point given as one word of axis bits per level, finest first.
    #[inline]
    pub(super) fn encode(&self, words: &[u64]) -> u128 {
        let (mut entry, mut direction) = (0, 0);
        let mut key = 0;
        for (&table, &word) in self.of_level.iter().zip(words).rev() {
            let step = self.steps[table][direction << self.axes | (word as usize ^ entry)];
            key = key << (step >> 24) | u128::from(step & 0xff);
            entry ^= (step >> 8 & 0xff) as usize;
            direction = (step >> 16 & 0xff) as usize;
        }
        key
    }
}

fn hilbert_steps(axes: u32, active: u64) -> Vec<Step> {
    let mut steps = Vec::with_capacity((axes as usize) << axes);
    for direction in 0..axes {
        for word in 0..1u64 << axes {
            let state = State { entry: 0, direction };
            let rank = state.rank(axes, word);
            let (bits, count) = extract(rank, state.free(axes, active));
            let next = state.descend(axes, rank);
            steps.push(bits as u32 | (next.entry as u32) << 8 | next.direction << 16 | count << 24);
        }
    }
    steps
}

fn z_steps(axes: u32, active: u64) -> Vec<Step> {
    let count = active.count_ones();
    (0..1u64 << axes).map(|word| z::encode(&[active], &[word]) as u32 | count << 24).collect()
}
