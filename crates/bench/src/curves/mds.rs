//! Minimum describing sets: what a node of a DC-tree says of the rows below it (Ester, Kohlhammer, Kriegel, "The DC-Tree: A
//! Fully Dynamic Index Structure for Data Warehouses", ICDE 2000; kept by the PDC tree and by VOLAP).
//!
//! Invariants:
//! - For each dimension there is one level and at most [`MEMBERS_MAX`] of its members, ascending; every row below the node
//!   has one of them.
//! - The level is the finest at which they are few enough, as far as additions one by one can tell: a side only ever becomes
//!   coarser. The coarsest level has fewer members than [`MEMBERS_MAX`], so there always is one.

use crate::curves::cube::{BITS_BELOW, CHILDREN, LEAF_BITS, LEVELS};
use crate::curves::question::{Question, Relation};

/// Most members that a side names.
pub const MEMBERS_MAX: usize = 8;
const _: () = assert!(CHILDREN[0] <= MEMBERS_MAX);

/// One dimension of a describing set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Side {
    level: u8,
    len: u8,
    members: [u8; MEMBERS_MAX],
}

impl Side {
    fn of_leaf(leaf: u8) -> Side {
        let mut members = [0; MEMBERS_MAX];
        members[0] = leaf;
        Side { level: LEVELS as u8 - 1, len: 1, members }
    }

    fn members(&self) -> &[u8] {
        &self.members[..usize::from(self.len)]
    }

    fn bits_below(&self) -> u32 {
        BITS_BELOW[usize::from(self.level)]
    }

    /// Adds a member of the side's level; coarsens where there is no room for it.
    fn add(&mut self, mut member: u8) {
        loop {
            let Err(at) = self.members().binary_search(&member) else { return };
            let len = usize::from(self.len);
            if len < MEMBERS_MAX {
                self.members.copy_within(at..len, at + 1);
                self.members[at] = member;
                self.len += 1;
                return;
            }
            let up = self.coarsen();
            member >>= up;
        }
    }

    /// Goes up a level; gives the bits by which members became shorter.
    fn coarsen(&mut self) -> u32 {
        let below = self.bits_below();
        self.level -= 1;
        let up = self.bits_below() - below;
        let mut len = 0;
        for at in 0..usize::from(self.len) {
            let parent = self.members[at] >> up;
            if len == 0 || self.members[len - 1] != parent {
                self.members[len] = parent;
                len += 1;
            }
        }
        self.len = len as u8;
        up
    }

    fn at_level(mut self, level: u8) -> Side {
        while self.level > level {
            self.coarsen();
        }
        self
    }
}

/// A describing set: one side for each dimension.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mds(Box<[Side]>);

impl Mds {
    pub fn of_row(leaves: &[u8]) -> Mds {
        Mds(leaves.iter().map(|leaf| Side::of_leaf(*leaf)).collect())
    }

    pub fn add_row(&mut self, leaves: &[u8]) {
        for (side, leaf) in self.0.iter_mut().zip(leaves) {
            side.add(leaf >> side.bits_below());
        }
    }

    /// Describes the other's rows, too.
    pub fn add(&mut self, other: &Mds) {
        for (side, other) in self.0.iter_mut().zip(&other.0) {
            while side.level > other.level {
                side.coarsen();
            }
            for member in other.members() {
                // The side may become coarser while members are added.
                side.add(member >> (side.bits_below() - BITS_BELOW[usize::from(other.level)]));
            }
        }
    }

    /// Share of the space that lies in both.
    pub fn overlap(&self, other: &Mds) -> f64 {
        let mut share = 1.0;
        for (a, b) in self.0.iter().zip(&other.0) {
            let level = a.level.min(b.level);
            let (a, b) = (a.at_level(level), b.at_level(level));
            let both = a.members().iter().filter(|member| b.members().binary_search(member).is_ok()).count();
            share *= both as f64 / f64::from(1_u32 << (LEAF_BITS - a.bits_below()));
        }
        share
    }

    /// How the rows described lie to a box.
    pub fn relation(&self, question: &Question) -> Relation {
        let mut whole = Relation::Covered;
        for (dimension, set) in &question.sets {
            let side = &self.0[*dimension];
            let of = |member: &u8| set.of_member(usize::from(side.level), *member);
            let (mut least, mut most) = (Relation::Covered, Relation::Disjoint);
            for relation in side.members().iter().map(of) {
                (least, most) = (least.min(relation), most.max(relation));
            }
            if most == Relation::Disjoint {
                return Relation::Disjoint;
            }
            if least != Relation::Covered {
                whole = Relation::Cut;
            }
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curves::cube::Rows;
    use crate::curves::question::{Coverage, random_box};
    use crate::retail::Random;

    fn describes(mds: &Mds, leaves: &[u8]) -> bool {
        mds.0.iter().zip(leaves).all(|(side, leaf)| side.members().contains(&(leaf >> side.bits_below())))
    }

    fn is_valid(mds: &Mds) -> bool {
        mds.0.iter().all(|side| {
            let ascending = side.members().windows(2).all(|pair| pair[0] < pair[1]);
            ascending && side.len > 0 && usize::from(side.len) <= MEMBERS_MAX
        })
    }

    #[test]
    fn a_describing_set_describes_its_rows_however_they_are_added() {
        for seed in 0..40 {
            let rows = Rows::random(5, 2 + seed as usize * 3, seed as u32 % 3, seed);
            let mut whole = Mds::of_row(rows.row(0));
            let mut parts = Vec::new();
            for at in 0..rows.len() {
                whole.add_row(rows.row(at));
                match at % 7 {
                    0 => parts.push(Mds::of_row(rows.row(at))),
                    _ => parts.last_mut().expect("there is one").add_row(rows.row(at)),
                }
            }
            let mut joined = parts[0].clone();
            parts.iter().for_each(|part| joined.add(part));
            for mds in [&whole, &joined] {
                assert!(is_valid(mds));
                assert!((0..rows.len()).all(|at| describes(mds, rows.row(at))));
            }
            // Few rows are described by their leaves.
            if rows.len() <= MEMBERS_MAX {
                assert!(whole.0.iter().all(|side| usize::from(side.level) == LEVELS - 1));
            }
            assert!(parts.iter().all(|part| part.overlap(&joined) > 0.0));
        }
    }

    #[test]
    fn covered_and_disjoint_are_never_said_of_rows_that_are_not() {
        let mut random = Random(8);
        let mut seen = [0; 3];
        for round in 0..600 {
            let rows = Rows::random(4, 1 + round % 9, 2, round as u64 + 100);
            let mut mds = Mds::of_row(rows.row(0));
            (0..rows.len()).for_each(|at| mds.add_row(rows.row(at)));
            let aim = Coverage::ALL[round % 3];
            let question = random_box(4, 2, aim, &mut random).expect("there are such boxes");
            let inside = question.scan(&rows).count;
            let relation = mds.relation(&question);
            match relation {
                Relation::Disjoint => assert_eq!(inside, 0),
                Relation::Covered => assert_eq!(inside, rows.len() as u64),
                Relation::Cut => {}
            }
            seen[relation as usize] += 1;
        }
        assert!(seen.iter().all(|count| *count > 20), "{seen:?}");
    }

    #[test]
    fn what_lies_apart_does_not_overlap() {
        let (low, high) = (Mds::of_row(&[1, 2]), Mds::of_row(&[1, 250]));
        assert_eq!(low.overlap(&high), 0.0);
        assert_eq!(low.overlap(&low), 1.0 / 65_536.0);
    }
}
