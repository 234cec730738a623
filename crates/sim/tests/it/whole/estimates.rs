//! Estimates of random boxes, held against the sum over the model's rows.
//!
//! What is said to be exact is; bounds that need no probability hold; of intervals of chance it is counted how often
//! they hold, over all seeds ([`Tally::judge`]). The same seeds draw the same rows, so that count is no matter of luck.

use super::world::World;
use crate::keyed::world::Checked;
use alluvia_sim::Random;
use alluvia_sim::rows::{Row, Value, table_batch};
use alluvia_snapshot::Snapshot;
use alluvia_space::{LevelCodes, TableDef};
use alluvia_tree::estimate::{Aggregate, Interval, Kind};
use alluvia_tree::sample::{Goal, Otherwise, SampleRequest, Sampled, Source, sample};
use alluvia_tree::{
    Answer, BoxQuery, Boxes, CodeSet, GroupKeys, GroupSpan, LevelFilter, Wanted, WantedMeasure, add_rows,
};
use alluvia_types::TableId;
use arrow::array::ArrayRef;
use std::collections::BTreeMap;

/// How often an interval has to hold.
const CONFIDENCE: f64 = 0.95;

const GOALS: [Goal; 5] = [
    Goal { aggregate: Aggregate::Count, measure: None },
    Goal { aggregate: Aggregate::Count, measure: Some(0) },
    Goal { aggregate: Aggregate::Sum, measure: Some(0) },
    Goal { aggregate: Aggregate::Avg, measure: Some(0) },
    Goal { aggregate: Aggregate::Sum, measure: Some(1) },
];

/// What intervals have said, and what was true.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub struct Tally {
    /// Intervals of chance, by goal.
    pub drawn: [u64; 5],
    /// Those of them that do not hold.
    pub missed: [u64; 5],
    /// By goal, how far estimates were off, in half widths of their intervals, with the sign.
    off: [f64; 5],
    /// Values that were said to be exact, or to lie within bounds that need no chance.
    pub certain: u64,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        for at in 0..GOALS.len() {
            self.drawn[at] += other.drawn[at];
            self.missed[at] += other.missed[at];
            self.off[at] += other.off[at];
        }
        self.certain += other.certain;
    }

    /// Whether intervals held as often as they say, and are off to both sides.
    pub fn judge(&self) -> Checked {
        for (at, goal) in GOALS.iter().enumerate() {
            let (drawn, missed) = (self.drawn[at] as f64, self.missed[at] as f64);
            let share = 1.0 - CONFIDENCE;
            // Several values of one table hang together, so the spread is more than that of a binomial.
            let most = share * drawn + 6.0 * (share * drawn).sqrt() + 3.0;
            if missed > most {
                return Err(format!("{goal:?}: of {drawn} intervals {missed} do not hold, and {most:.0} may not"));
            }
            let (off, most) = (self.off[at] / drawn.max(1.0), 0.1 + 6.0 / drawn.max(1.0).sqrt());
            if off.abs() > most {
                return Err(format!("{goal:?}: {drawn} estimates are off by {off:.3} half widths in the mean"));
            }
        }
        Ok(())
    }
}

/// Rows that match, and of each measure its values and their sum: floats in quarters.
type Truth = (u64, [(u64, i128); 2]);

/// Estimates a random box of a snapshot's table, whose rows are `rows`. Says what differs.
pub fn compare(world: &World, snapshot: &Snapshot, table: TableId, rows: &[Row], random: &mut Random) -> Checked {
    let engine = world.engine();
    let read = &snapshot.tables[&table];
    let def = &read.entry.def;
    let said = |error: alluvia_types::Error| format!("an estimate: {error}");
    let space = engine.views().spaces().get(def).map_err(said)?;
    let dictionaries = &space.dictionaries;
    let codes = dictionaries.remap(def, &table_batch(def, rows)).map_err(said)?;
    let query = random_box(def, &codes, random);
    let span = |&level: &usize| GroupSpan { level, first: 1, count: dictionaries.len(level) };
    let keys = GroupKeys::new(query.groups.iter().map(span).collect()).expect("few groups");
    let mut into = Answer::new(&query, keys);
    for run in &read.tail {
        let codes = dictionaries.remap(def, &run.rows).map_err(said)?;
        let column = |wanted: &WantedMeasure| -> Option<ArrayRef> {
            run.rows.column_by_name(&def.column_by_id(wanted.column)?.storage_name).cloned()
        };
        let measures: Vec<Option<ArrayRef>> = query.measures.iter().map(column).collect();
        add_rows(&query, &codes, &measures, 0..run.rows.num_rows(), &mut into).map_err(said)?;
    }
    let boxes = Boxes::from(query.clone());
    let asked = SampleRequest {
        boxes: &boxes,
        group_codes: &[],
        goals: &GOALS,
        max_error: [0.02, 0.1, 0.5, 10.0][random.below(4) as usize],
        confidence: CONFIDENCE,
        otherwise: if random.one_in(3) { Otherwise::Exact } else { Otherwise::Reached },
        source: Source::Ladder,
        by_cost: false,
        strata_min: [2, 8, 64][random.below(3) as usize],
        threads: 1,
    };
    let sampled = sample(&asked, &read.segments, &mut into).map_err(said)?;
    let truth = truth(&query, &codes, rows);
    match sampled {
        Sampled::Cannot => Err(format!("a segment cannot answer {query:?}")),
        Sampled::Exact => {
            world.trace.say(format_args!(" estimate: exact, {} groups", truth.len()));
            let found: BTreeMap<Vec<u32>, Truth> = (0..into.totals.groups())
                .filter(|&group| into.totals.rows(group) > 0)
                .map(|group| (into.keys.codes(group), exact_of(&into, group)))
                .collect();
            if found == truth { Ok(()) } else { Err(format!("{query:?} is {found:?} and not {truth:?}")) }
        }
        Sampled::Estimates(estimates) => {
            let mut tally = Tally::default();
            let mut left = truth.clone();
            for (group, values) in &estimates.groups {
                let codes = into.keys.codes(*group);
                let truth = left.remove(&codes).unwrap_or_default();
                for (at, (goal, value)) in GOALS.iter().zip(values).enumerate() {
                    tally.hold(at, true_value(goal, &truth), &value.interval).map_err(|what| {
                        format!("{query:?}, group {codes:?}, {goal:?}: {what}: {:?}", value.interval)
                    })?;
                }
            }
            let drawn: u64 = tally.drawn.iter().sum();
            world.trace.say(format_args!(" estimate: {drawn} intervals, {:?}, {} unseen", tally, left.len()));
            if left.len() as u64 > estimates.groups_unseen {
                return Err(format!("{query:?}: groups {left:?} are not told, and {} said", estimates.groups_unseen));
            }
            world.state.lock().tally.add(&tally);
            Ok(())
        }
    }
}

impl Tally {
    /// Holds an interval against the truth; `None` is NULL.
    fn hold(&mut self, at: usize, truth: Option<f64>, interval: &Interval) -> Checked {
        let Some(truth) = truth else { return Ok(()) };
        // Sums are of quarters; the bounds are computed by multiplying.
        let slack = 1e-9 * truth.abs().max(1.0);
        let holds = interval.lower - slack <= truth && truth <= interval.upper + slack;
        match interval.kind {
            Kind::Exact if interval.estimate.is_nan() => Err(format!("NULL is said, and it is {truth}")),
            Kind::Exact | Kind::Bounds => {
                self.certain += 1;
                if holds { Ok(()) } else { Err(format!("it is {truth}")) }
            }
            Kind::Planned { .. } => {
                self.drawn[at] += 1;
                self.missed[at] += u64::from(!holds);
                let half = (interval.upper - interval.lower) / 2.0;
                if half > 0.0 && interval.estimate.is_finite() {
                    self.off[at] += ((interval.estimate - truth) / half).clamp(-4.0, 4.0);
                }
                Ok(())
            }
        }
    }
}

fn random_box(def: &TableDef, codes: &LevelCodes, random: &mut Random) -> BoxQuery {
    let wanted = Wanted { sum: true, ..Wanted::default() };
    let is_float = |column| def.column_by_id(column).is_some_and(|of| of.data_type == alluvia_space::DataType::Double);
    let measure = |&column: &_| WantedMeasure { column, is_float: is_float(column), wanted };
    let mut query = BoxQuery { measures: def.measures.iter().map(measure).collect(), ..BoxQuery::default() };
    for (level, codes) in codes.levels.iter().enumerate() {
        if random.one_in(2) {
            let every = 2 + random.below(2) as u32;
            let some = codes.iter().copied().filter(|code| code % every == 0).chain([1]);
            query.filters.push(LevelFilter { level, codes: CodeSet::of_codes(some.collect()) });
        } else if query.groups.is_empty() && random.one_in(3) {
            query.groups.push(level);
        }
    }
    query
}

/// The sum over rows, one by one. Measures are the fourth and third columns from the end.
fn truth(query: &BoxQuery, codes: &LevelCodes, rows: &[Row]) -> BTreeMap<Vec<u32>, Truth> {
    let mut groups: BTreeMap<Vec<u32>, Truth> = BTreeMap::new();
    for (at, row) in rows.iter().enumerate() {
        if !query.filters.iter().all(|filter| filter.codes.contains(codes.levels[filter.level][at])) {
            continue;
        }
        let of_group = groups.entry(query.groups.iter().map(|&level| codes.levels[level][at]).collect()).or_default();
        of_group.0 += 1;
        for (sum, value) in of_group.1.iter_mut().zip(&row[row.len() - 4..row.len() - 2]) {
            if let Value::Number(value) | Value::Quarters(value) = value {
                *sum = (sum.0 + 1, sum.1 + i128::from(*value));
            }
        }
    }
    groups
}

fn exact_of(found: &Answer, group: usize) -> Truth {
    let measures = found.totals.measures();
    let quarters = (measures[1].float_sum(group) * 4.0) as i128;
    let integers = (measures[0].count(group), measures[0].exact_sum(group));
    (found.totals.rows(group), [integers, (measures[1].count(group), quarters)])
}

fn true_value(goal: &Goal, (rows, measures): &Truth) -> Option<f64> {
    let Some(measure) = goal.measure else { return Some(*rows as f64) };
    let (count, sum) = measures[measure];
    let sum = if measure == 0 { sum as f64 } else { sum as f64 / 4.0 };
    match goal.aggregate {
        Aggregate::Count => Some(count as f64),
        _ if count == 0 => None,
        Aggregate::Sum => Some(sum),
        Aggregate::Avg => Some(sum / count as f64),
    }
}
