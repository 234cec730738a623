//! A Hilbert PDC tree: the tree of VOLAP (Dehne, Robillard, Rau-Chaplin, Burke, IEEE Cluster 2016, section III), one row at a time.
//!
//! Invariants:
//! - Rows lie in the order of their keys: those of a node before those of the next. A row goes where its key belongs, so no
//!   describing set is looked at on the way down (a Hilbert R-tree's rule: Kamel and Faloutsos, VLDB 1994).
//! - Each child stands in its parent with the largest key below it, a describing set of its rows and their totals.
//! - All data nodes are at the same depth; no node but the root has fewer than a third of its places taken.
//!
//! A full node is cut, in key order, where the describing sets of its two parts overlap least.

use crate::curves::cube::{Rows, Totals};
use crate::curves::mds::Mds;
use crate::curves::question::{Question, Relation};

/// Most rows of a data node.
const ROWS_MAX: usize = 64;
/// Most children of a directory node.
const CHILDREN_MAX: usize = 32;

/// The tree.
pub struct PdcTree {
    dimensions: usize,
    root: Node,
}

enum Node {
    Data { keys: Vec<u128>, rows: Rows },
    Directory(Vec<Child>),
}

struct Child {
    key_max: u128,
    mds: Mds,
    totals: Totals,
    node: Box<Node>,
}

impl PdcTree {
    pub fn new(dimensions: usize) -> PdcTree {
        PdcTree { dimensions, root: Node::Data { keys: Vec::new(), rows: Rows::new(dimensions) } }
    }

    /// Adds a row under its key.
    pub fn insert(&mut self, key: u128, leaves: &[u8], value: f64) {
        if let Some(second) = self.root.insert(key, leaves, value) {
            let empty = Node::Data { keys: Vec::new(), rows: Rows::new(self.dimensions) };
            let first = std::mem::replace(&mut self.root, empty);
            self.root = Node::Directory(vec![Child::new(first), Child::new(second)]);
        }
    }

    /// Totals of the rows in a box.
    pub fn ask(&self, question: &Question) -> Totals {
        let mut totals = Totals::default();
        self.root.ask(question, &mut totals);
        totals
    }
}

impl Child {
    fn new(node: Node) -> Child {
        match &node {
            Node::Data { keys, rows } => {
                let mut mds = Mds::of_row(rows.row(0));
                let mut totals = Totals::default();
                for at in 0..rows.len() {
                    mds.add_row(rows.row(at));
                    totals.add_row(rows.values[at]);
                }
                Child { key_max: keys[keys.len() - 1], mds, totals, node: Box::new(node) }
            }
            Node::Directory(children) => {
                let mut mds = children[0].mds.clone();
                let mut totals = Totals::default();
                for child in children {
                    mds.add(&child.mds);
                    totals.add(child.totals);
                }
                Child { key_max: children[children.len() - 1].key_max, mds, totals, node: Box::new(node) }
            }
        }
    }
}

impl Node {
    /// Adds a row; gives the second part, if the node had to be cut.
    fn insert(&mut self, key: u128, leaves: &[u8], value: f64) -> Option<Node> {
        match self {
            Node::Data { keys, rows } => {
                let at = keys.partition_point(|other| *other <= key);
                keys.insert(at, key);
                rows.insert(at, leaves, value);
                if keys.len() <= ROWS_MAX {
                    return None;
                }
                let of_row = |at: usize| Mds::of_row(rows.row(at));
                let at = cut(keys.len(), &of_row);
                Some(Node::Data { keys: keys.split_off(at), rows: rows.split_off(at) })
            }
            Node::Directory(children) => {
                let at = children.partition_point(|child| child.key_max < key).min(children.len() - 1);
                let child = &mut children[at];
                match child.node.insert(key, leaves, value) {
                    None => {
                        child.key_max = child.key_max.max(key);
                        child.mds.add_row(leaves);
                        child.totals.add_row(value);
                        None
                    }
                    Some(second) => {
                        let empty = Node::Directory(Vec::new());
                        let first = std::mem::replace(&mut *child.node, empty);
                        *child = Child::new(first);
                        children.insert(at + 1, Child::new(second));
                        if children.len() <= CHILDREN_MAX {
                            return None;
                        }
                        let at = cut(children.len(), &|at| children[at].mds.clone());
                        Some(Node::Directory(children.split_off(at)))
                    }
                }
            }
        }
    }

    fn ask(&self, question: &Question, totals: &mut Totals) {
        match self {
            Node::Data { rows, .. } => {
                for at in 0..rows.len() {
                    if question.holds(rows.row(at)) {
                        totals.add_row(rows.values[at]);
                    }
                }
            }
            Node::Directory(children) => {
                for child in children {
                    match child.mds.relation(question) {
                        Relation::Disjoint => {}
                        Relation::Covered => totals.add(child.totals),
                        Relation::Cut => child.node.ask(question, totals),
                    }
                }
            }
        }
    }
}

/// Where to cut so many entries, in their order, so that the parts overlap least; of equals, nearest to the middle. Each part
/// keeps a third.
fn cut(len: usize, of: &dyn Fn(usize) -> Mds) -> usize {
    // behind[i] describes the entries from i on.
    let mut behind: Vec<Mds> = Vec::with_capacity(len);
    for at in (0..len).rev() {
        let mut mds = of(at);
        if let Some(last) = behind.last() {
            mds.add(last);
        }
        behind.push(mds);
    }
    behind.reverse();
    let least = len / 3;
    let mut before = of(0);
    let (mut best, mut best_at) = ((f64::INFINITY, usize::MAX), len / 2);
    for (at, behind) in behind.iter().enumerate().skip(1) {
        if (least..=len - least).contains(&at) {
            let worth = (before.overlap(behind), at.abs_diff(len / 2));
            if worth < best {
                (best, best_at) = (worth, at);
            }
        }
        before.add(&of(at));
    }
    best_at
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curves::question::{Coverage, random_box};
    use crate::retail::Random;

    /// Depth, after checking what every node must hold.
    fn check(node: &Node, is_root: bool, dimensions: usize) -> usize {
        match node {
            Node::Data { keys, rows } => {
                assert!(keys.is_sorted() && keys.len() == rows.len() && keys.len() <= ROWS_MAX);
                assert!(is_root || keys.len() >= ROWS_MAX / 3);
                assert_eq!(rows.dimensions, dimensions);
                1
            }
            Node::Directory(children) => {
                assert!(children.len() <= CHILDREN_MAX && children.len() >= if is_root { 2 } else { CHILDREN_MAX / 3 });
                assert!(children.windows(2).all(|pair| pair[0].key_max <= pair[1].key_max));
                let depths: Vec<usize> = children.iter().map(|child| check(&child.node, false, dimensions)).collect();
                assert!(depths.windows(2).all(|pair| pair[0] == pair[1]), "leaves lie at one depth");
                for child in children {
                    let (mut totals, mut key_max) = (Totals::default(), 0);
                    visit(&child.node, &mut |key, value| {
                        totals.add_row(value);
                        key_max = key;
                    });
                    assert_eq!(totals, child.totals);
                    assert_eq!(key_max, child.key_max);
                }
                depths[0] + 1
            }
        }
    }

    fn visit(node: &Node, see: &mut dyn FnMut(u128, f64)) {
        match node {
            Node::Data { keys, rows } => keys.iter().zip(&rows.values).for_each(|(key, value)| see(*key, *value)),
            Node::Directory(children) => children.iter().for_each(|child| visit(&child.node, see)),
        }
    }

    #[test]
    fn the_tree_answers_as_a_scan_does() {
        for (seed, dimensions) in [2, 4, 9, 64].into_iter().enumerate() {
            let rows = Rows::random(dimensions, 6_000, seed as u32 % 3, seed as u64);
            let mut tree = PdcTree::new(dimensions);
            let none = random_box(dimensions, 0, Coverage::Low, &mut Random(1)).expect("there is a box");
            assert_eq!(tree.ask(&none), Totals::default());
            for at in 0..rows.len() {
                // Any order of keys is right; many equal ones are, too.
                let key = rows.row(at)[..2].iter().fold(0, |key, leaf| key << 8 | u128::from(*leaf)) >> (at % 3);
                tree.insert(key, rows.row(at), rows.values[at]);
            }
            assert!(check(&tree.root, true, dimensions) >= 3);
            let mut random = Random(7);
            for round in 0..90 {
                let aim = Coverage::ALL[round % 3];
                let question = random_box(dimensions, seed as u32 % 3, aim, &mut random).expect("there are boxes");
                assert_eq!(tree.ask(&question), question.scan(&rows));
            }
        }
    }

    #[test]
    fn entries_are_cut_where_their_parts_lie_apart() {
        let leaves: Vec<[u8; 2]> = (0..30).map(|at| [if at < 12 { 3 } else { 230 }, 9]).collect();
        assert_eq!(cut(leaves.len(), &|at| Mds::of_row(&leaves[at])), 12);
    }
}
