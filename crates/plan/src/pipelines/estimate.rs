//! How much of its work a tree of operators has done, by the rows that drive it.
//!
//! The driver-node estimator of Chaudhuri, Narasayya and Ramamurthy ("Estimating progress of execution for SQL queries", SIGMOD 2004), with
//! the refinement of totals while a pipeline runs of Luo, Naughton, Ellmann and Watzke ("Toward a progress indicator for database
//! queries", SIGMOD 2004). Operators that give rows as they take them are one *pipeline*. What begins one is its *driver*: a source, or an
//! operator that takes in all before it gives anything (a sort, an aggregate, a window). The share is of the rows of all drivers: those
//! that they have given, of those that they will have given.
//!
//! Invariants:
//! - What has ended is exact: its total is what it gave, and beneath it nothing is left to do.
//! - A total that nothing bounds is unknown, and then so is the share of the whole: no number is made up in its place.
//! - Nothing here remembers anything; that a share does not go back is [`alluvia_types::reported_share`]'s.

use super::meter::Meter;
use super::source::ScannedParts;
use std::sync::Arc;

/// Memory that a group takes at the least: its key, its hash and its place in the table, and one state.
const GROUP_BYTES: f64 = 32.0;

/// Rows that drivers have given, and that they will have given in all; `None` where nobody knows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Work {
    pub done: f64,
    pub total: Option<f64>,
}

impl Work {
    const NONE: Work = Work { done: 0.0, total: Some(0.0) };

    fn and(self, other: Work) -> Work {
        Work { done: self.done + other.done, total: plus(self.total, other.total) }
    }

    /// From 0 to 1; `None` where nobody knows, or where there is nothing to do.
    pub fn share(self) -> Option<f64> {
        self.total.filter(|total| *total > 0.0).map(|total| (self.done / total).min(1.0))
    }
}

fn plus(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    one.zip(other).map(|(one, other)| one + other)
}

/// The less of what is known.
fn least(one: Option<f64>, other: Option<f64>) -> Option<f64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// What an operator does with rows.
#[derive(Debug)]
pub enum Role {
    /// Gives rows that are no operator's; of segments it is known which parts were opened.
    Source(Option<ScannedParts>),
    /// Gives rows as it takes them: as many, or more, or fewer.
    Passes { as_many: bool },
    /// Takes in all, and then gives it: a sort, a window. Of an aggregate without groups, or a sort with a limit, at most so many.
    Keeps { at_most: Option<u64> },
    /// Takes in all, and then gives one row for each group of it. What it takes in may be groups already, of so many partitions.
    Groups { of_partitions: Option<usize>, at_most: Option<u64> },
    /// Gives rows of the index; or, if that refuses, those of its first input, which begins only then.
    Stands,
}

/// An operator of a plan.
#[derive(Debug)]
pub struct Operator {
    pub role: Role,
    /// `None` where its rows are its inputs'.
    pub meter: Option<Arc<Meter>>,
    /// How many rows the optimizer expects of it, where nothing else tells.
    pub foreseen: Option<u64>,
    pub inputs: Vec<Input>,
}

/// What an operator takes in.
#[derive(Debug)]
pub struct Input {
    pub operator: Operator,
    /// Whether it is held as a whole before any row is given (a join's table, a subquery's value): it is of no pipeline of its reader's.
    pub(super) is_held: bool,
}

/// What flows out of an operator.
struct Flow {
    /// The work of the drivers of its pipeline.
    drivers: Work,
    /// How many rows it will have been.
    rows: Option<f64>,
}

/// What is done of a plan. `held_bytes` is the memory that all of its operators hold now; `written` how many of its rows have been
/// written, if that is what they are for.
pub fn work(root: &Operator, held_bytes: usize, written: Option<u64>) -> Work {
    let mut all = Work::NONE;
    let flow = root.flow(false, held_bytes as f64, &mut all);
    match written.map(|rows| rows as f64) {
        None => all,
        // Whoever writes is the last driver: its rows come from the plan, and are done when they are written.
        Some(written) => all.and(Work { done: written, total: flow.rows.map(|rows| rows.max(written)) }),
    }
}

impl Operator {
    fn rows_out(&self) -> f64 {
        self.meter.as_ref().map_or(0.0, |meter| meter.rows() as f64)
    }

    fn has_ended(&self) -> bool {
        self.meter.as_ref().is_some_and(|meter| meter.has_ended())
    }

    fn has_begun(&self) -> bool {
        self.meter.as_ref().is_some_and(|meter| meter.has_begun())
            || self.inputs.iter().any(|input| input.operator.has_begun())
    }

    /// Whether it gives rows of its own in the place of its first input's.
    fn stands_alone(&self) -> bool {
        matches!(self.role, Role::Stands) && !self.inputs.first().is_some_and(|input| input.operator.has_begun())
    }

    /// Adds the work of all drivers from here down. Nothing more is wanted of what `is_over`.
    fn flow(&self, is_over: bool, held_bytes: f64, all: &mut Work) -> Flow {
        let is_over = is_over || self.has_ended();
        let stands_alone = self.stands_alone();
        let mut taken = Flow { drivers: Work::NONE, rows: Some(0.0) };
        for input in self.inputs.iter().skip(usize::from(stands_alone)) {
            let flow = input.operator.flow(is_over, held_bytes, all);
            if !input.is_held {
                taken.drivers = taken.drivers.and(flow.drivers);
                taken.rows = plus(taken.rows, flow.rows);
            }
        }
        let given = self.rows_out();
        let passes = matches!(self.role, Role::Passes { .. } | Role::Stands) && !stands_alone;
        if passes {
            let rows = self.passed(&taken, is_over);
            return Flow { drivers: taken.drivers, rows };
        }
        let done = match &self.role {
            Role::Source(Some(parts)) => given.max(parts.rows_done(is_over) as f64),
            _ => given,
        };
        let total = if is_over { Some(done) } else { self.total(&taken, held_bytes).map(|total| total.max(done)) };
        let driver = Work { done, total };
        *all = all.and(driver);
        Flow { drivers: driver, rows: if is_over { Some(given) } else { total } }
    }

    /// How many rows something that passes rows on will have given.
    fn passed(&self, taken: &Flow, is_over: bool) -> Option<f64> {
        if self.meter.is_none() {
            return taken.rows;
        }
        let given = self.rows_out();
        if is_over {
            return Some(given);
        }
        let foreseen = self.foreseen.map(|rows| rows as f64);
        match (taken.drivers.share(), foreseen) {
            // The less there is to come, the less what was foreseen counts.
            (Some(share), Some(foreseen)) => Some(given + (1.0 - share) * foreseen),
            (Some(share), None) if share > 0.0 => Some(given / share),
            (Some(_), None) => taken.drivers.total,
            (None, foreseen) => foreseen.map(|foreseen| foreseen.max(given)),
        }
    }

    /// How many rows a driver that has not ended will have given, as far as anything bounds that.
    fn total(&self, taken: &Flow, held_bytes: f64) -> Option<f64> {
        let foreseen = self.foreseen.map(|rows| rows as f64);
        match &self.role {
            Role::Source(Some(parts)) => Some(parts.rows() as f64),
            Role::Source(None) => foreseen,
            Role::Keeps { at_most } => least(taken.rows, at_most.map(|rows| rows as f64)),
            Role::Groups { of_partitions, at_most } => {
                let most = least(taken.rows, at_most.map(|rows| rows as f64));
                match of_partitions {
                    // Each group came at least once, and at most once of each partition: the mean of these two.
                    Some(partitions) => most.map(|most| most / (*partitions as f64).max(1.0).sqrt()),
                    // What was not given yet is in memory, as far as it was read.
                    None => {
                        let known = self.rows_out() + held_bytes / GROUP_BYTES;
                        let by_memory = taken.drivers.share().filter(|share| *share > 0.0).map(|share| known / share);
                        least(most, by_memory)
                    }
                }
            }
            // While the index is asked, nobody knows what it will take.
            Role::Stands => foreseen.filter(|_| self.rows_out() > 0.0),
            Role::Passes { .. } => taken.rows,
        }
    }
}
