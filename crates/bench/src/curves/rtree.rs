//! An R-tree (Guttman, SIGMOD 1984, quadratic split) whose nodes hold totals (Papadias, Kalnis, Zhang, Tao: aR-tree, SSTD
//! 2001), one row at a time. Boxes are ranges of leaves in each dimension: they know nothing of hierarchies.
//!
//! Invariants:
//! - Each child stands in its parent with the smallest box around its rows and their totals.
//! - All data nodes are at the same depth; no node but the root has fewer than [`FILL`] of its places taken.
//!
//! No library: those at hand keep no totals in their nodes, and would have to visit every row of a large answer.

use crate::curves::cube::{LEAVES, Rows, Totals};
use crate::curves::question::{Question, Relation};

/// Most rows of a data node.
const ROWS_MAX: usize = 64;
/// Most children of a directory node.
const CHILDREN_MAX: usize = 32;
/// Least share of places, as Guttman found best.
const FILL: f64 = 0.4;

/// The tree.
pub struct RTree {
    dimensions: usize,
    root: Node,
}

enum Node {
    Data(Rows),
    Directory(Vec<Child>),
}

struct Child {
    bounds: Bounds,
    totals: Totals,
    node: Box<Node>,
}

/// Ranges of leaves, ends included.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Bounds {
    low: Box<[u8]>,
    high: Box<[u8]>,
}

impl Bounds {
    fn of_row(leaves: &[u8]) -> Bounds {
        Bounds { low: leaves.into(), high: leaves.into() }
    }

    fn add(&mut self, low: &[u8], high: &[u8]) {
        self.low.iter_mut().zip(low).for_each(|(own, other)| *own = (*own).min(*other));
        self.high.iter_mut().zip(high).for_each(|(own, other)| *own = (*own).max(*other));
    }

    /// Share of the space within.
    fn volume(&self) -> f64 {
        self.volume_with(&self.low, &self.high)
    }

    /// The same, were another box added.
    fn volume_with(&self, low: &[u8], high: &[u8]) -> f64 {
        let own = self.low.iter().zip(&*self.high);
        let sides = own.zip(low.iter().zip(high)).map(|((low, high), (other_low, other_high))| {
            f64::from((*high).max(*other_high) - (*low).min(*other_low)) + 1.0
        });
        sides.map(|side| side / LEAVES as f64).product()
    }

    fn relation(&self, question: &Question) -> Relation {
        let mut whole = Relation::Covered;
        for (dimension, set) in &question.sets {
            match set.of_range(self.low[*dimension], self.high[*dimension]) {
                Relation::Disjoint => return Relation::Disjoint,
                relation => whole = whole.min(relation),
            }
        }
        whole
    }
}

impl RTree {
    pub fn new(dimensions: usize) -> RTree {
        RTree { dimensions, root: Node::Data(Rows::new(dimensions)) }
    }

    /// Adds a row.
    pub fn insert(&mut self, leaves: &[u8], value: f64) {
        if let Some(second) = self.root.insert(leaves, value) {
            let first = std::mem::replace(&mut self.root, Node::Data(Rows::new(self.dimensions)));
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
        let mut totals = Totals::default();
        let bounds = match &node {
            Node::Data(rows) => {
                let mut bounds = Bounds::of_row(rows.row(0));
                for at in 0..rows.len() {
                    bounds.add(rows.row(at), rows.row(at));
                    totals.add_row(rows.values[at]);
                }
                bounds
            }
            Node::Directory(children) => {
                let mut bounds = children[0].bounds.clone();
                for child in children {
                    bounds.add(&child.bounds.low, &child.bounds.high);
                    totals.add(child.totals);
                }
                bounds
            }
        };
        Child { bounds, totals, node: Box::new(node) }
    }
}

impl Node {
    /// Adds a row; gives the second part, if the node had to be split.
    fn insert(&mut self, leaves: &[u8], value: f64) -> Option<Node> {
        match self {
            Node::Data(rows) => {
                rows.push(leaves, value);
                if rows.len() <= ROWS_MAX {
                    return None;
                }
                let bounds: Vec<Bounds> = (0..rows.len()).map(|at| Bounds::of_row(rows.row(at))).collect();
                let in_second = quadratic_split(&bounds);
                let (mut first, mut second) = (Rows::new(rows.dimensions), Rows::new(rows.dimensions));
                for (at, moves) in in_second.into_iter().enumerate() {
                    let part = if moves { &mut second } else { &mut first };
                    part.push(rows.row(at), rows.values[at]);
                }
                *rows = first;
                Some(Node::Data(second))
            }
            Node::Directory(children) => {
                let at = least_enlarged(children, leaves);
                let child = &mut children[at];
                match child.node.insert(leaves, value) {
                    None => {
                        child.bounds.add(leaves, leaves);
                        child.totals.add_row(value);
                        None
                    }
                    Some(second) => {
                        let first = std::mem::replace(&mut *child.node, Node::Directory(Vec::new()));
                        *child = Child::new(first);
                        children.push(Child::new(second));
                        if children.len() <= CHILDREN_MAX {
                            return None;
                        }
                        let bounds: Vec<Bounds> = children.iter().map(|child| child.bounds.clone()).collect();
                        let mut in_second = quadratic_split(&bounds).into_iter();
                        let second: Vec<Child> =
                            children.extract_if(.., |_| in_second.next().unwrap_or(false)).collect();
                        Some(Node::Directory(second))
                    }
                }
            }
        }
    }

    fn ask(&self, question: &Question, totals: &mut Totals) {
        match self {
            Node::Data(rows) => {
                for at in 0..rows.len() {
                    if question.holds(rows.row(at)) {
                        totals.add_row(rows.values[at]);
                    }
                }
            }
            Node::Directory(children) => {
                for child in children {
                    match child.bounds.relation(question) {
                        Relation::Disjoint => {}
                        Relation::Covered => totals.add(child.totals),
                        Relation::Cut => child.node.ask(question, totals),
                    }
                }
            }
        }
    }
}

/// The child whose box grows least; of equals, the smallest (Guttman's ChooseLeaf).
fn least_enlarged(children: &[Child], leaves: &[u8]) -> usize {
    let (mut best, mut best_at) = ((f64::INFINITY, f64::INFINITY), 0);
    for (at, child) in children.iter().enumerate() {
        let volume = child.bounds.volume();
        let worth = (child.bounds.volume_with(leaves, leaves) - volume, volume);
        if worth < best {
            (best, best_at) = (worth, at);
        }
    }
    best_at
}

/// Which entries go to the second part (Guttman's PickSeeds and PickNext).
fn quadratic_split(bounds: &[Bounds]) -> Vec<bool> {
    let volumes: Vec<f64> = bounds.iter().map(Bounds::volume).collect();
    let (mut waste, mut seeds) = (f64::NEG_INFINITY, (0, 1));
    for a in 0..bounds.len() {
        for b in a + 1..bounds.len() {
            let dead = bounds[a].volume_with(&bounds[b].low, &bounds[b].high) - volumes[a] - volumes[b];
            if dead > waste {
                (waste, seeds) = (dead, (a, b));
            }
        }
    }
    let least = (bounds.len() as f64 * FILL) as usize;
    let mut parts = [bounds[seeds.0].clone(), bounds[seeds.1].clone()];
    let mut counts = [1, 1];
    let mut in_second = vec![false; bounds.len()];
    in_second[seeds.1] = true;
    let mut left: Vec<usize> = (0..bounds.len()).filter(|at| *at != seeds.0 && *at != seeds.1).collect();
    while !left.is_empty() {
        // A part that would come out too small gets the rest.
        let short = (0..2).find(|part| counts[*part] + left.len() <= least);
        let own = [parts[0].volume(), parts[1].volume()];
        let growth = |at: usize| {
            let entry = &bounds[at];
            [0, 1].map(|part: usize| parts[part].volume_with(&entry.low, &entry.high) - own[part])
        };
        let (mut most, mut next, mut grows) = (f64::NEG_INFINITY, 0, [0.0; 2]);
        for (place, at) in left.iter().enumerate() {
            let grown = growth(*at);
            let preference = (grown[0] - grown[1]).abs();
            if preference > most {
                (most, next, grows) = (preference, place, grown);
            }
            if short.is_some() {
                break;
            }
        }
        let at = left.swap_remove(next);
        let worth = |part: usize| (grows[part], own[part], counts[part] as f64);
        let part = short.unwrap_or(usize::from(worth(1) < worth(0)));
        parts[part].add(&bounds[at].low, &bounds[at].high);
        counts[part] += 1;
        in_second[at] = part == 1;
    }
    in_second
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curves::question::{Coverage, random_box};
    use crate::retail::Random;

    /// Depth, after checking what every node must hold.
    fn check(node: &Node, is_root: bool) -> usize {
        let filled = |len: usize, max: usize| len <= max && (is_root || len as f64 >= (max as f64 * FILL).floor());
        match node {
            Node::Data(rows) => {
                assert!(filled(rows.len(), ROWS_MAX));
                1
            }
            Node::Directory(children) => {
                assert!(filled(children.len(), CHILDREN_MAX) && children.len() > 1);
                let depths: Vec<usize> = children.iter().map(|child| check(&child.node, false)).collect();
                assert!(depths.windows(2).all(|pair| pair[0] == pair[1]), "leaves lie at one depth");
                for child in children {
                    let rows = gathered(&child.node);
                    let whole = Child::new(Node::Data(rows));
                    assert_eq!((whole.totals, &whole.bounds), (child.totals, &child.bounds));
                }
                depths[0] + 1
            }
        }
    }

    fn gathered(node: &Node) -> Rows {
        match node {
            Node::Data(rows) => rows.clone(),
            Node::Directory(children) => {
                let mut all = gathered(&children[0].node);
                for child in &children[1..] {
                    let rows = gathered(&child.node);
                    (0..rows.len()).for_each(|at| all.push(rows.row(at), rows.values[at]));
                }
                all
            }
        }
    }

    #[test]
    fn the_tree_answers_as_a_scan_does() {
        for (seed, dimensions) in [2, 4, 9, 64].into_iter().enumerate() {
            let rows = Rows::random(dimensions, 6_000, seed as u32 % 3, seed as u64);
            let mut tree = RTree::new(dimensions);
            for at in 0..rows.len() {
                tree.insert(rows.row(at), rows.values[at]);
            }
            assert!(check(&tree.root, true) >= 3);
            let mut random = Random(7);
            for round in 0..90 {
                let aim = Coverage::ALL[round % 3];
                let question = random_box(dimensions, seed as u32 % 3, aim, &mut random).expect("there are boxes");
                assert_eq!(tree.ask(&question), question.scan(&rows));
            }
        }
    }

    #[test]
    fn rows_of_one_point_are_split_all_the_same() {
        let mut tree = RTree::new(3);
        (0..1_000).for_each(|_| tree.insert(&[7, 7, 7], 0.25));
        check(&tree.root, true);
        let question = random_box(3, 0, Coverage::High, &mut Random(2)).expect("there is a box");
        let wanted = if question.holds(&[7, 7, 7]) { 1_000 } else { 0 };
        assert_eq!(tree.ask(&question).count, wanted);
    }
}
