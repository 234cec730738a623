//! The rows of a segment that were killed, and when.
//!
//! A segment never changes. That a row of it was deleted, or replaced by another with its key, is told beside the segment:
//! the row's number and the version that killed it.
//!
//! Invariants:
//! - A row is killed once (K3): a second kill of the same row changes nothing, and says so.
//! - A [`Dead`] that a reader holds never changes: who kills rows copies what readers hold (`Arc::make_mut`).
//! - A reader at version `v` sees the kills of versions `<= v` and no other, so that one `Dead` serves all readers, also
//!   those of versions that are not durable yet.
//! - Whether a node has dead rows below it is one look, whoever reads at whatever version: walks ask it of node after
//!   node.

use crate::filter::Mask;
use crate::layout::BLOCK_ROWS;
use crate::nodes::FANOUT;
use alluvia_types::Version;
use std::sync::Arc;

/// Heights of nodes that kills are known of: so many are above the blocks of 2^32 rows, which no segment has.
const HEIGHTS: usize = 6;
/// Before the first kill.
const NEVER: Version = Version(u64::MAX);

/// The kills of one segment.
#[derive(Clone, Debug, Default)]
pub struct Dead {
    /// By block; `None` where no row was killed. Blocks behind the last one that has kills are left out.
    blocks: Vec<Option<Arc<BlockDead>>>,
    /// By height above the blocks and by node the version of the first kill below it, [`NEVER`] where there is none. As
    /// blocks, nodes behind the last one that has kills are left out.
    firsts: [Vec<Version>; HEIGHTS],
    /// The same of the last kill, or of a later version.
    lasts: [Vec<Version>; HEIGHTS],
    /// Of all blocks.
    rows: u64,
}

/// The kills of one block.
#[derive(Clone, Debug)]
struct BlockDead {
    /// Rows that were killed at whatever version.
    mask: Mask,
    /// Version and row of each kill, ascending.
    kills: Vec<(Version, u16)>,
}

impl BlockDead {
    fn kill(&mut self, row: u16, version: Version) -> bool {
        if self.mask.contains(row.into()) {
            return false;
        }
        self.mask.insert(row.into());
        // Kills come in the order of versions, but for those that a hand-over brings.
        let at = self.kills.partition_point(|kill| *kill <= (version, row));
        self.kills.insert(at, (version, row));
        true
    }

    /// Kills of versions through `at`.
    fn count(&self, at: Version) -> usize {
        self.kills.partition_point(|(version, _)| *version <= at)
    }

    /// Whether a row was killed by version `at`.
    fn is_killed_by(&self, row: u16, at: Version) -> bool {
        if !self.mask.contains(row.into()) {
            return false;
        }
        let (by_then, later) = self.kills.split_at(self.count(at));
        let has = |kills: &[(Version, u16)]| kills.iter().any(|&(_, dead)| dead == row);
        // It is among one of them: the fewer are looked through, which mostly are none.
        if by_then.len() < later.len() { has(by_then) } else { !has(later) }
    }
}

impl Dead {
    /// The rows that were killed, each with its version, in whatever order.
    pub fn new(kills: impl IntoIterator<Item = (u64, Version)>) -> Dead {
        let mut dead = Dead::default();
        kills.into_iter().for_each(|(row, version)| {
            dead.kill(row, version);
        });
        dead
    }

    /// Kills a row; `false` if it was dead already, and stays what it was.
    pub fn kill(&mut self, row: u64, version: Version) -> bool {
        let block = (row / BLOCK_ROWS as u64) as usize;
        if self.blocks.len() <= block {
            self.blocks.resize(block + 1, None);
        }
        let empty = || Arc::new(BlockDead { mask: Mask::none(), kills: Vec::new() });
        let of_block = self.blocks[block].get_or_insert_with(empty);
        // Nothing is copied for a row that is dead already.
        let row = (row % BLOCK_ROWS as u64) as u16;
        let is_new = !of_block.mask.contains(row.into()) && Arc::make_mut(of_block).kill(row, version);
        self.rows += u64::from(is_new);
        if is_new {
            self.note(block, version);
        }
        is_new
    }

    /// Bytes of memory that it takes, about.
    pub fn bytes(&self) -> usize {
        let with_kills = self.blocks.iter().flatten().count();
        let nodes: usize = self.firsts.iter().map(Vec::len).sum();
        with_kills * size_of::<BlockDead>()
            + self.rows as usize * size_of::<(Version, u16)>()
            + self.blocks.len() * size_of::<Option<Arc<BlockDead>>>()
            + 2 * nodes * size_of::<Version>()
    }

    /// Takes in a kill of a block, for all nodes above it.
    fn note(&mut self, block: usize, version: Version) {
        let mut node = block;
        for (firsts, lasts) in self.firsts.iter_mut().zip(&mut self.lasts) {
            if firsts.len() <= node {
                firsts.resize(node + 1, NEVER);
                lasts.resize(node + 1, Version(0));
            }
            firsts[node] = firsts[node].min(version);
            lasts[node] = lasts[node].max(version);
            node /= FANOUT;
        }
    }

    /// Blocks with kills of versions above one, ascending, and maybe such of which these were taken back. It costs what is
    /// found, not what there is.
    fn blocks_killed_above(&self, above: Version) -> Vec<usize> {
        let mut nodes = vec![0];
        for (height, lasts) in self.lasts.iter().enumerate().rev() {
            if height + 1 < HEIGHTS {
                nodes = nodes.into_iter().flat_map(|node| node * FANOUT..(node + 1) * FANOUT).collect();
            }
            nodes.retain(|&node| lasts.get(node).is_some_and(|last| *last > above));
        }
        nodes
    }

    /// Kills of a block of the versions above one and through another.
    fn kills_in(&self, block: usize, above: Version, through: Version) -> &[(Version, u16)] {
        let Some(of_block) = self.blocks.get(block).and_then(Option::as_ref) else { return &[] };
        let first = of_block.count(above);
        &of_block.kills[first..of_block.count(through).max(first)]
    }

    /// Blocks in which rows were killed above one version and through another, ascending.
    pub(super) fn blocks_between(&self, above: Version, through: Version) -> impl Iterator<Item = usize> {
        let blocks = self.blocks_killed_above(above).into_iter();
        blocks.filter(move |&block| !self.kills_in(block, above, through).is_empty())
    }

    /// How many rows of a block were killed above one version and through another.
    pub(super) fn count_between(&self, block: usize, above: Version, through: Version) -> usize {
        self.kills_in(block, above, through).len()
    }

    /// The rows of a block that were killed above one version and through another.
    pub(super) fn mask_between(&self, block: usize, above: Version, through: Version) -> Mask {
        let mut mask = Mask::none();
        self.kills_in(block, above, through).iter().for_each(|&(_, row)| mask.insert(row.into()));
        mask
    }

    /// The version of the first kill below a node.
    fn first_below(&self, height: usize, node: usize) -> Option<Version> {
        self.firsts[height].get(node).copied().filter(|first| *first != NEVER)
    }

    /// Takes back the kills of versions above one: their batches were never durable.
    pub fn take_back(&mut self, above: Version) {
        for of_block in &mut self.blocks {
            let Some(block) = of_block else { continue };
            let kept = block.count(above);
            if kept == block.kills.len() {
                continue;
            }
            self.rows -= (block.kills.len() - kept) as u64;
            let block = Arc::make_mut(block);
            for (_, row) in block.kills.drain(kept..) {
                block.mask.remove(row.into());
            }
            if block.kills.is_empty() {
                *of_block = None;
            }
        }
        // A node whose first kill is taken back has no other left.
        self.firsts.iter_mut().flatten().filter(|first| **first > above).for_each(|first| *first = NEVER);
        self.lasts.iter_mut().flatten().for_each(|last| *last = (*last).min(above));
    }

    /// When a row was killed.
    pub fn killed_at(&self, row: u64) -> Option<Version> {
        let of_block = self.blocks.get((row / BLOCK_ROWS as u64) as usize)?.as_ref()?;
        let row = (row % BLOCK_ROWS as u64) as u16;
        if !of_block.mask.contains(row.into()) {
            return None;
        }
        of_block.kills.iter().find(|kill| kill.1 == row).map(|kill| kill.0)
    }

    /// Whether a row was killed by version `at`. Cheaper than [`Dead::killed_at`], which looks for the row's kill among
    /// those of its block.
    pub fn is_killed_by(&self, row: u64, at: Version) -> bool {
        let of_block = self.blocks.get((row / BLOCK_ROWS as u64) as usize).and_then(Option::as_ref);
        of_block.is_some_and(|of_block| of_block.is_killed_by((row % BLOCK_ROWS as u64) as u16, at))
    }

    /// The version of the first kill; `None` if there is none.
    pub fn first_kill(&self) -> Option<Version> {
        self.first_below(HEIGHTS - 1, 0)
    }

    /// Rows that were killed at whatever version.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Rows that were killed by a version. It costs the kills above that one.
    pub fn rows_by(&self, at: Version) -> u64 {
        self.rows - self.kills_between(at, NEVER).count() as u64
    }

    /// Every kill: row and version, by block, in the order of versions within one.
    pub fn kills(&self) -> impl Iterator<Item = (u64, Version)> + '_ {
        let blocks = self.blocks.iter().enumerate().filter_map(|(at, block)| Some((at, block.as_ref()?)));
        blocks.flat_map(|(at, block)| {
            let first = (at * BLOCK_ROWS) as u64;
            block.kills.iter().map(move |&(version, row)| (first + u64::from(row), version))
        })
    }

    /// The kills of versions above one and through another.
    pub fn kills_between(&self, above: Version, through: Version) -> impl Iterator<Item = (u64, Version)> + '_ {
        self.blocks_killed_above(above).into_iter().flat_map(move |block| {
            let first = (block * BLOCK_ROWS) as u64;
            let kills = self.kills_in(block, above, through).iter();
            kills.map(move |&(version, row)| (first + u64::from(row), version))
        })
    }
}

/// The kills of a segment as a reader at a version sees them.
#[derive(Clone, Debug)]
pub struct DeadRows {
    dead: Arc<Dead>,
    at: Version,
}

impl DeadRows {
    /// The kills through version `at`; `None` if there are none.
    pub fn new(dead: &Arc<Dead>, at: Version) -> Option<DeadRows> {
        let any = dead.first_kill().is_some_and(|first| first <= at);
        any.then(|| DeadRows { dead: Arc::clone(dead), at })
    }

    /// These kills, and those of further rows by the reader himself, who reads at version `at`: nobody else sees them. Kills
    /// that come later for everybody are forgotten: he kills such a row before them.
    pub fn and(known: Option<&DeadRows>, rows: impl IntoIterator<Item = u64>, at: Version) -> Option<DeadRows> {
        let mut dead = match known {
            Some(known) => {
                let mut dead = Dead::clone(&known.dead);
                dead.take_back(known.at);
                dead
            }
            None => Dead::default(),
        };
        rows.into_iter().for_each(|row| {
            dead.kill(row, at);
        });
        DeadRows::new(&Arc::new(dead), at)
    }

    /// The same rows, as they are numbered elsewhere. `None` if there are none.
    pub(super) fn in_other_rows(&self, rows: impl IntoIterator<Item = u64>) -> Option<DeadRows> {
        DeadRows::and(None, rows, self.at)
    }

    /// Whether any row below a node is dead.
    #[inline]
    pub(crate) fn any_below(&self, height: usize, node: usize) -> bool {
        self.dead.first_below(height, node).is_some_and(|first| first <= self.at)
    }

    /// How many rows are dead.
    pub fn count(&self) -> u64 {
        self.dead.blocks.iter().flatten().map(|block| block.count(self.at) as u64).sum()
    }

    /// How many rows of a block are dead.
    pub fn count_in(&self, block: usize) -> usize {
        self.block(block).map_or(0, |block| block.count(self.at))
    }

    /// Whether a row, by its number in the segment, is dead.
    pub fn contains(&self, row: u64) -> bool {
        self.dead.is_killed_by(row, self.at)
    }

    /// Numbers within their block of the dead rows of a block, ascending.
    pub fn rows_in(&self, block: usize) -> Vec<u16> {
        match self.mask(block) {
            Some(mask) => mask.rows().map(|row| row as u16).collect(),
            None => Vec::new(),
        }
    }

    /// The same, in whatever order, without a mask.
    pub(super) fn each_in(&self, block: usize) -> impl Iterator<Item = u16> {
        let kills = self.block(block).map_or(&[][..], |block| &block.kills[..block.count(self.at)]);
        kills.iter().map(|&(_, row)| row)
    }

    /// The dead rows of a block; `None` if there are none.
    pub(crate) fn mask(&self, block: usize) -> Option<Mask> {
        let of_block = self.block(block)?;
        let count = of_block.count(self.at);
        if count == 0 {
            return None;
        }
        let mut mask = of_block.mask.clone();
        of_block.kills[count..].iter().for_each(|&(_, row)| mask.remove(row.into()));
        Some(mask)
    }

    fn block(&self, block: usize) -> Option<&BlockDead> {
        self.dead.blocks.get(block)?.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn who_kills_rows_by_himself_sees_them_dead_and_nobody_else_does() {
        let dead = Arc::new(Dead::new([(1, Version(3)), (2, Version(9)), (20_000, Version(9))]));
        let everybody = DeadRows::new(&dead, Version(5)).unwrap();
        let own = DeadRows::and(Some(&everybody), [2, 7], Version(5)).unwrap();
        let rows = |rows: &DeadRows| (0..30_000).filter(|&row| rows.contains(row)).collect::<Vec<_>>();
        assert_eq!((rows(&own), own.count()), (vec![1, 2, 7], 3));
        assert_eq!((own.any_below(0, 0), own.any_below(0, 2)), (true, false));
        assert_eq!((rows(&everybody), dead.rows()), (vec![1], 3));
        assert_eq!(rows(&DeadRows::and(None, [4], Version(5)).unwrap()), [4]);
        assert!(DeadRows::and(None, [], Version(5)).is_none());
    }

    proptest! {
        /// Against the obvious model: a map from rows to the versions that killed them.
        #[test]
        fn readers_see_the_kills_through_their_version(
            kills in prop::collection::vec((prop_oneof![0u64..30_000, 0u64..5_000_000], 1u64..20), 0..200),
            at in prop_oneof![9 => 0u64..22, 1 => Just(u64::MAX)],
            taken_back in prop::option::of(0u64..22),
        ) {
            let (mut dead, mut model) = (Arc::new(Dead::default()), BTreeMap::new());
            let mut held = Vec::new();
            for (step, &(row, version)) in kills.iter().enumerate() {
                if step % 50 == 0 {
                    held.push((Arc::clone(&dead), model.clone()));
                }
                let is_new = Arc::make_mut(&mut dead).kill(row, Version(version));
                prop_assert_eq!(is_new, !model.contains_key(&row));
                model.entry(row).or_insert(Version(version));
            }
            if let Some(above) = taken_back {
                Arc::make_mut(&mut dead).take_back(Version(above));
                model.retain(|_, version| version.0 <= above);
            }
            held.push((dead, model));
            for (dead, model) in &held {
                prop_assert_eq!(dead.rows(), model.len() as u64);
                let by = model.values().filter(|version| version.0 <= at).count();
                prop_assert_eq!(dead.rows_by(Version(at)), by as u64);
                prop_assert_eq!(dead.first_kill(), model.values().copied().min());
                let mut all: Vec<(u64, Version)> = dead.kills().collect();
                all.sort();
                prop_assert_eq!(all, model.iter().map(|(&row, &version)| (row, version)).collect::<Vec<_>>());
                let seen: Vec<u64> = model.iter().filter(|(_, version)| version.0 <= at).map(|(&row, _)| row).collect();
                let Some(rows) = DeadRows::new(dead, Version(at)) else {
                    prop_assert!(seen.is_empty());
                    continue;
                };
                prop_assert_eq!(rows.count(), seen.len() as u64);
                let above = at / 2;
                let mut between: Vec<(u64, Version)> = dead.kills_between(Version(above), Version(at)).collect();
                between.sort();
                let is_between = |killed: &Version| killed.0 > above && killed.0 <= at;
                let expected = model.iter().filter(|(_, killed)| is_between(killed)).map(|(&row, &killed)| (row, killed));
                prop_assert_eq!(between, expected.collect::<Vec<_>>());
                let is_seen = |row: &u64| rows.contains(*row);
                prop_assert_eq!(model.keys().copied().filter(is_seen).collect::<Vec<_>>(), seen.clone());
                let blocks = 5_000_000 / BLOCK_ROWS + 1;
                let found: Vec<u64> = (0..blocks)
                    .flat_map(|block| rows.rows_in(block).into_iter().map(move |row| (block * BLOCK_ROWS) as u64 + u64::from(row)))
                    .collect();
                prop_assert_eq!(&found, &seen);
                for height in 0..HEIGHTS {
                    let size = (BLOCK_ROWS * FANOUT.pow(height as u32)) as u64;
                    for node in 0..=5_000_000 / size + 1 {
                        let is_below = |row: &u64| (node * size..(node + 1) * size).contains(row);
                        prop_assert_eq!(rows.any_below(height, node as usize), seen.iter().any(is_below));
                    }
                }
                prop_assert!(seen.iter().all(|&row| rows.contains(row) && dead.killed_at(row) == model.get(&row).copied()));
            }
        }
    }
}
