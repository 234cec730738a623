//! Boxes: of some dimensions, a scattered set of members at one level. Binned by coverage, as VOLAP bins them.
//!
//! A set answers in constant time what each structure asks of it: whether a leaf is in it, whether a member of any level
//! touches it or lies inside it, and how many of a range of leaves are in it.

use crate::curves::cube::{BITS_BELOW, LEAVES, LEVELS, Rows, Totals, shares};
use crate::retail::Random;

/// How a node's rows lie to a box, in one dimension or in all.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Relation {
    /// No row can be in the box.
    Disjoint,
    /// Some may be.
    Cut,
    /// All are.
    Covered,
}

/// One bit for each leaf, or member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Bits([u64; LEAVES / 64]);

impl Bits {
    fn has(&self, at: u8) -> bool {
        self.0[usize::from(at >> 6)] >> (at & 63) & 1 == 1
    }

    fn put(&mut self, at: u8) {
        self.0[usize::from(at >> 6)] |= 1 << (at & 63);
    }
}

/// Leaves of one dimension.
#[derive(Clone, Debug)]
pub struct Set {
    /// The level that names them.
    pub level: usize,
    /// Its members.
    pub members: Vec<u8>,
    touched: [Bits; LEVELS],
    inside: [Bits; LEVELS],
    /// How many leaves before each leaf are in it.
    before: [u16; LEAVES + 1],
}

impl Set {
    pub fn new(level: usize, members: Vec<u8>) -> Set {
        let mut leaves = Bits::default();
        let chosen = |leaf: usize| members.contains(&((leaf >> BITS_BELOW[level]) as u8));
        let mut before = [0; LEAVES + 1];
        for leaf in 0..LEAVES {
            before[leaf + 1] = before[leaf];
            if chosen(leaf) {
                leaves.put(leaf as u8);
                before[leaf + 1] += 1;
            }
        }
        let (mut touched, mut inside) = ([Bits::default(); LEVELS], [Bits::default(); LEVELS]);
        for level in 0..LEVELS {
            let below = 1 << BITS_BELOW[level];
            for member in 0..LEAVES / below {
                match usize::from(before[(member + 1) * below] - before[member * below]) {
                    0 => {}
                    all if all == below => {
                        touched[level].put(member as u8);
                        inside[level].put(member as u8);
                    }
                    _ => touched[level].put(member as u8),
                }
            }
        }
        Set { level, members, touched, inside, before }
    }

    pub fn has(&self, leaf: u8) -> bool {
        self.inside[LEVELS - 1].has(leaf)
    }

    /// How a member of some level lies to the set.
    pub fn of_member(&self, level: usize, member: u8) -> Relation {
        match (self.inside[level].has(member), self.touched[level].has(member)) {
            (true, _) => Relation::Covered,
            (_, true) => Relation::Cut,
            _ => Relation::Disjoint,
        }
    }

    /// How the leaves from `low` to `high`, ends included, lie to the set.
    pub fn of_range(&self, low: u8, high: u8) -> Relation {
        let (low, high) = (usize::from(low), usize::from(high));
        match usize::from(self.before[high + 1] - self.before[low]) {
            0 => Relation::Disjoint,
            all if all == high - low + 1 => Relation::Covered,
            _ => Relation::Cut,
        }
    }
}

/// A box; all sets must hold.
#[derive(Clone, Debug)]
pub struct Question {
    /// Dimensions and their sets.
    pub sets: Vec<(usize, Set)>,
}

impl Question {
    pub fn holds(&self, leaves: &[u8]) -> bool {
        self.sets.iter().all(|(dimension, set)| set.has(leaves[*dimension]))
    }

    /// The totals of some rows that are in the box, row by row: what every structure must find.
    pub fn scan(&self, rows: &Rows) -> Totals {
        let mut totals = Totals::default();
        for at in 0..rows.len() {
            if self.holds(rows.row(at)) {
                totals.add_row(rows.values[at]);
            }
        }
        totals
    }
}

/// VOLAP's bins of coverage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Coverage {
    Low,
    Medium,
    High,
}

impl Coverage {
    pub const ALL: [Coverage; 3] = [Coverage::Low, Coverage::Medium, Coverage::High];

    pub fn name(self) -> &'static str {
        match self {
            Coverage::Low => "low",
            Coverage::Medium => "medium",
            Coverage::High => "high",
        }
    }

    pub fn of(share: f64) -> Coverage {
        match share {
            low if low < 0.33 => Coverage::Low,
            medium if medium <= 0.66 => Coverage::Medium,
            _ => Coverage::High,
        }
    }
}

/// Boxes thrown away, because they miss the bin, before the bin counts as out of reach.
const TRIES: usize = 100_000;
/// Most dimensions that a box restricts.
const RESTRICTED_MAX: usize = 8;

/// A random box of that coverage of rows drawn under this exponent; `None` if none is found.
pub fn random_box(dimensions: usize, zipf: u32, aim: Coverage, random: &mut Random) -> Option<Question> {
    let shares = shares(zipf);
    for _ in 0..TRIES {
        let unit = |random: &mut Random| (random.next() >> 11) as f64 / (1_u64 << 53) as f64;
        let (least, most, count_max) = match aim {
            Coverage::Low => (0.0, 0.5, RESTRICTED_MAX),
            Coverage::Medium => (0.35, 0.64, 4),
            Coverage::High => (0.68, 0.97, 3),
        };
        let count = 1 + (random.next() % count_max.min(dimensions) as u64) as usize;
        // Of low coverage each dimension has a share of its own; else they share one out.
        let whole: f64 = least + unit(random) * (most - least);
        let mut free: Vec<usize> = (0..dimensions).collect();
        let mut estimate = 1.0;
        let mut sets = Vec::new();
        for _ in 0..count {
            let dimension = free.swap_remove((random.next() % free.len() as u64) as usize);
            let share = match aim {
                Coverage::Low => unit(random) / 2.0,
                _ => whole.powf((count as f64).recip()),
            };
            let (set, weight) = random_set(&shares, share, random);
            estimate *= weight;
            sets.push((dimension, set));
        }
        if Coverage::of(estimate) == aim {
            return Some(Question { sets });
        }
    }
    None
}

/// Scattered members of a random level that have about this share of the rows, at least one and never all, and their share.
fn random_set(shares: &[f64], share: f64, random: &mut Random) -> (Set, f64) {
    let level = (random.next() % LEVELS as u64) as usize;
    let below = 1 << BITS_BELOW[level];
    let weight = |member: u8| shares[usize::from(member) * below..][..below].iter().sum::<f64>();
    let mut left: Vec<u8> = (0..(LEAVES / below) as u64).map(|member| member as u8).collect();
    let (mut members, mut sum) = (Vec::new(), 0.0);
    while left.len() > 1 {
        let member = left.swap_remove((random.next() % left.len() as u64) as usize);
        if !members.is_empty() && sum + weight(member) / 2.0 >= share {
            break;
        }
        sum += weight(member);
        members.push(member);
    }
    members.sort_unstable();
    (Set::new(level, members), sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_and_ranges_lie_to_a_set_as_their_leaves_do() {
        let mut random = Random(3);
        for _ in 0..200 {
            let (set, _) = random_set(&shares(0), 0.4, &mut random);
            let relation = |leaves: std::ops::Range<usize>| {
                let inside =
                    leaves.clone().filter(|&leaf| set.members.contains(&((leaf >> BITS_BELOW[set.level]) as u8)));
                match inside.count() {
                    0 => Relation::Disjoint,
                    all if all == leaves.len() => Relation::Covered,
                    _ => Relation::Cut,
                }
            };
            for (level, bits) in BITS_BELOW.into_iter().enumerate() {
                let below = 1 << bits;
                for member in 0..LEAVES / below {
                    assert_eq!(set.of_member(level, member as u8), relation(member * below..(member + 1) * below));
                }
            }
            let (one, other) = (random.next() as u8, random.next() as u8);
            let (low, high) = (one.min(other), one.max(other));
            assert_eq!(set.of_range(low, high), relation(usize::from(low)..usize::from(high) + 1));
            assert_eq!(set.has(one), relation(usize::from(one)..usize::from(one) + 1) == Relation::Covered);
        }
    }

    #[test]
    fn boxes_have_the_coverage_that_they_aim_at() {
        for zipf in [0, 1] {
            let rows = Rows::random(6, 20_000, zipf, 9);
            let mut random = Random(4);
            for aim in Coverage::ALL {
                let mut hits = 0;
                for _ in 0..20 {
                    let question = random_box(6, zipf, aim, &mut random).expect("there are such boxes");
                    let share = question.scan(&rows).count as f64 / rows.len() as f64;
                    hits += usize::from(Coverage::of(share) == aim);
                }
                assert!(hits >= 18, "{hits} of 20 boxes are of {} coverage", aim.name());
            }
        }
    }
}
