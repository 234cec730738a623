//! Random box queries, binned by the share of rows that match, as VOLAP bins them.
//!
//! A box restricts 1 to 8 dimensions, each at a random level, to a scattered set of members (IN), a range (BETWEEN) or one
//! member (=). Low coverage comes by itself: sets of at most half a level's members, over any number of dimensions. Medium
//! and high coverage need few dimensions and sets of most members: the wanted share is split over the dimensions. The shares
//! that members have by construction only aim; the bin is decided by the exact count, which the caller gets from a peer.

use crate::Anything;
use crate::boxes::answer::Answer;
use crate::boxes::data::{Data, Weights, below, shuffle, unit};
use crate::retail::{DIMENSIONS, Random};

/// The table of every engine.
pub const TABLE: &str = "retail";

/// Candidates for one question before the bin counts as out of reach.
const TRIES: usize = 60;

/// Boxes thrown away unseen, because their members' shares miss the bin, before one is tried all the same.
const AIMS: usize = 500;

/// VOLAP's bins of coverage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bin {
    Low,
    Medium,
    High,
}

impl Bin {
    pub const ALL: [Bin; 3] = [Bin::Low, Bin::Medium, Bin::High];

    pub fn name(self) -> &'static str {
        match self {
            Bin::Low => "low",
            Bin::Medium => "medium",
            Bin::High => "high",
        }
    }

    fn of(coverage: f64) -> Bin {
        match coverage {
            low if low < 0.33 => Bin::Low,
            medium if medium <= 0.66 => Bin::Medium,
            _ => Bin::High,
        }
    }
}

/// One query, with the answer that every engine must give.
pub struct Question {
    pub sql: String,
    pub bin: Bin,
    /// Share of the rows that match.
    pub coverage: f64,
    /// Dimensions that are restricted.
    pub dimensions: usize,
    pub grouped: bool,
    pub reference: Answer,
    conditions: String,
}

/// A candidate.
struct RandomBox {
    conditions: String,
    dimensions: usize,
    /// Coverage, if dimensions were independent.
    estimate: f64,
}

/// A stream of random boxes.
pub struct Generator {
    random: Random,
    rows: u64,
    /// Shares of the members of each level of each dimension.
    weights: Vec<Vec<Vec<f64>>>,
    list_max: usize,
}

impl Generator {
    /// Lists that would be longer than `list_max` move to a coarser level.
    pub fn new(seed: u64, data: &Data, list_max: usize) -> Generator {
        let weights = Weights::new(data);
        let of = |dimension: usize| {
            let levels = 0..DIMENSIONS[dimension].1.len();
            levels.map(|level| weights.level(dimension, level)).collect::<Vec<_>>()
        };
        let weights = (0..DIMENSIONS.len()).map(of).collect();
        Generator { random: Random(seed), rows: data.rows, weights, list_max }
    }

    /// As many questions for each bin. `ask` answers SQL exactly.
    pub fn questions(&mut self, each: usize, mut ask: impl FnMut(&str) -> Anything<Answer>) -> Anything<Vec<Question>> {
        let mut found: Vec<Question> = Vec::new();
        for aim in Bin::ALL {
            let has = |found: &[Question], bin: Bin| found.iter().filter(|question| question.bin == bin).count();
            let mut tries = 0;
            while has(&found, aim) < each {
                tries += 1;
                if tries > TRIES * each {
                    let why = format!("{} of {each} boxes of {} coverage", has(&found, aim), aim.name());
                    return Err(format!("only {why} were found: take another --seed").into());
                }
                let candidate = self.aimed(aim);
                let sql = aggregate(&candidate.conditions, None);
                let reference = ask(&sql)?;
                let coverage = reference.count() as f64 / self.rows as f64;
                let bin = Bin::of(coverage);
                // Engines differ in what they say of no rows at all; and nobody asks for them.
                if reference.count() == 0 || has(&found, bin) >= each {
                    continue;
                }
                let RandomBox { conditions, dimensions, .. } = candidate;
                found.push(Question { sql, bin, coverage, dimensions, grouped: false, reference, conditions });
            }
            eprintln!("{} boxes of {} coverage ({tries} tried)", has(&found, aim), aim.name());
        }
        Ok(found)
    }

    /// The same boxes, each grouped by the coarsest level of a random dimension.
    pub fn grouped(
        &mut self,
        questions: &[Question],
        mut ask: impl FnMut(&str) -> Anything<Answer>,
    ) -> Anything<Vec<Question>> {
        let mut grouped = Vec::new();
        for question in questions {
            let level = DIMENSIONS[below(&mut self.random, DIMENSIONS.len())].1[0].0;
            let conditions = question.conditions.clone();
            let sql = aggregate(&conditions, Some(level));
            let reference = ask(&sql)?;
            grouped.push(Question { sql, grouped: true, reference, conditions, ..*question });
        }
        Ok(grouped)
    }

    fn aimed(&mut self, aim: Bin) -> RandomBox {
        let mut candidate = self.candidate(aim);
        for _ in 0..AIMS {
            if Bin::of(candidate.estimate) == aim && candidate.estimate * self.rows as f64 >= 1.0 {
                break;
            }
            candidate = self.candidate(aim);
        }
        candidate
    }

    fn candidate(&mut self, aim: Bin) -> RandomBox {
        let shares = self.shares(aim);
        let mut dimensions: Vec<usize> = (0..DIMENSIONS.len()).collect();
        shuffle(&mut dimensions, &mut self.random);
        dimensions.truncate(shares.len());
        let mut estimate = 1.0;
        let mut conditions = Vec::new();
        for (dimension, share) in dimensions.into_iter().zip(shares) {
            let (condition, weight) = self.condition(dimension, share, aim);
            conditions.push(condition);
            estimate *= weight;
        }
        RandomBox { dimensions: conditions.len(), conditions: conditions.join(" AND "), estimate }
    }

    /// The share of rows that each restricted dimension should leave.
    fn shares(&mut self, aim: Bin) -> Vec<f64> {
        let (least, most, dimensions_max) = match aim {
            Bin::Low => {
                let count = 1 + below(&mut self.random, DIMENSIONS.len());
                return (0..count).map(|_| unit(&mut self.random) / 2.0).collect();
            }
            Bin::Medium => (0.35, 0.64, 4),
            Bin::High => (0.68, 0.97, 3),
        };
        let coverage: f64 = least + unit(&mut self.random) * (most - least);
        let count = 1 + below(&mut self.random, dimensions_max);
        let parts: Vec<f64> = (0..count).map(|_| 0.05 + unit(&mut self.random)).collect();
        let total: f64 = parts.iter().sum();
        parts.iter().map(|part| coverage.powf(part / total)).collect()
    }

    /// One dimension's condition, and the share of rows that its members have.
    fn condition(&mut self, dimension: usize, share: f64, aim: Bin) -> (String, f64) {
        let levels = DIMENSIONS[dimension].1;
        let mut level = below(&mut self.random, levels.len());
        while level > 0 && share * self.weights[dimension][level].len() as f64 > self.list_max as f64 {
            level -= 1;
        }
        let weights = &self.weights[dimension][level];
        let column = levels[level].0;
        let member = |code: usize| format!("'{column}-{code:05}'");
        match below(&mut self.random, 100) {
            0..15 if aim == Bin::Low => {
                let code = below(&mut self.random, weights.len());
                (format!("{column} = {}", member(code)), weights[code])
            }
            0..35 => {
                let (from, to) = range(weights, share, &mut self.random);
                let weight: f64 = weights[from..=to].iter().sum();
                (format!("{column} BETWEEN {} AND {}", member(from), member(to)), weight)
            }
            _ => {
                let codes = scattered(weights, share, &mut self.random);
                let weight: f64 = codes.iter().map(|code| weights[*code]).sum();
                let list: Vec<String> = codes.into_iter().map(member).collect();
                (format!("{column} IN ({})", list.join(", ")), weight)
            }
        }
    }
}

/// The statement that every engine gets, letter for letter.
fn aggregate(conditions: &str, group: Option<&str>) -> String {
    let (item, clause) = match group {
        Some(level) => (format!("{level}, "), format!(" GROUP BY {level}")),
        None => (String::new(), String::new()),
    };
    format!("SELECT {item}count(*) AS n, sum(price) AS s, avg(quantity) AS a FROM {TABLE} WHERE {conditions}{clause}")
}

/// Random members that have about `share` of the rows: at least one, and never all, which would restrict nothing.
fn scattered(weights: &[f64], share: f64, random: &mut Random) -> Vec<usize> {
    let mut codes: Vec<usize> = (0..weights.len()).collect();
    shuffle(&mut codes, random);
    let (mut count, mut sum) = (0, 0.0);
    while count + 1 < codes.len() && (count == 0 || sum + weights[codes[count]] / 2.0 < share) {
        sum += weights[codes[count]];
        count += 1;
    }
    codes.truncate(count.max(1));
    codes
}

/// First and last of neighbouring members that have about `share` of the rows, never all.
fn range(weights: &[f64], share: f64, random: &mut Random) -> (usize, usize) {
    let start = below(random, weights.len());
    let (mut from, mut to, mut sum) = (start, start, weights[start]);
    while to - from + 2 < weights.len() {
        // Upwards as far as there are members, then downwards.
        let next = if to + 1 < weights.len() { to + 1 } else { from - 1 };
        if sum + weights[next] / 2.0 >= share {
            break;
        }
        sum += weights[next];
        (from, to) = (from.min(next), to.max(next));
    }
    (from, to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_have_about_the_wanted_share_and_never_all() {
        let weights = vec![0.01; 100];
        let mut random = Random(5);
        for percent in [1, 10, 50, 90, 100] {
            let share = f64::from(percent) / 100.0;
            let wanted = percent.min(99) as usize;
            assert!(scattered(&weights, share, &mut random).len().abs_diff(wanted) <= 1);
            let (from, to) = range(&weights, share, &mut random);
            assert!((to - from + 1).abs_diff(wanted) <= 1);
        }
    }

    #[test]
    fn boxes_aim_at_their_bins_and_a_seed_gives_them_again() {
        let data = Data { rows: 20_000_000, zipf: 0, correlated: false };
        for aim in Bin::ALL {
            let make = || Generator::new(3, &data, usize::MAX).aimed(aim);
            let candidate = make();
            assert_eq!(Bin::of(candidate.estimate), aim);
            assert!((1..=8).contains(&candidate.dimensions));
            assert_eq!(candidate.conditions, make().conditions);
        }
    }
}
