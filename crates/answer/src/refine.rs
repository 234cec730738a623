//! Refining answers: which statements have them, and what the columns of each are.
//!
//! Invariants:
//! - A statement is refined if it may be estimated, whatever `max_error` is; everything else is answered as ever.
//! - Each refinement looks like the answer: the same columns, names, types, order and limit. The last one is the answer.

use super::bound::{Bound, without_edges};
use super::run::{Asking, Begun, add_segments};
use super::sampled::{Accuracy, Bounded, Goals, bounded, goals_of, used_of};
use super::statement::Item;
use super::{Kept, columns, group_codes};
use crate::used::SampleUsed;
use alluvia_snapshot::TableRead;
use alluvia_tree::Counters;
use alluvia_tree::sample::{Estimates, Refine, Refiner, SAMPLE_ROWS_MIN, STRATA_MIN, Step};
use alluvia_types::{Result, Version};
use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use std::sync::Arc;

/// A statement on its way from its first estimate to its answer.
pub struct Refining {
    bound: Arc<Bound>,
    schema: SchemaRef,
    goals: Goals,
    accuracy: Accuracy,
    refiner: Refiner,
}

/// What a step has come to.
pub enum Refined {
    /// More was read.
    Read,
    /// An estimate; whether it is as exact as `max_error` asks.
    Look {
        /// Which look, from 1.
        look: u32,
        /// What it estimates.
        estimate: Bounded,
        /// What that is from.
        sample: SampleUsed,
        /// The most that a value is off, as a share of it or of its estimate, whichever is less.
        share_off: f64,
        /// Whether it is exact enough.
        is_enough: bool,
    },
    /// The answer; `None` where the general way must give it.
    Exact(Option<Bounded>),
}

/// Whether a statement may have estimates.
pub fn may_refine(bound: &Bound) -> bool {
    goals_of(bound, &without_edges(bound.asked()).0).is_some()
}

/// A statement about to be refined. With a `max_error` of 0 only its exact answer is enough. `None` if it must be answered as ever.
pub fn refine(
    bound: Arc<Bound>,
    read: &TableRead,
    version: Version,
    kept: &Kept,
    threads: usize,
    schema: SchemaRef,
    accuracy: Accuracy,
) -> Result<Option<Refining>> {
    let asking = Asking { bound: &bound, read, version, kept, threads };
    let Some(begun) = asking.begin()? else { return Ok(None) };
    let (questions, edges) = without_edges(&begun.questions);
    let Some(goals) = goals_of(&bound, &questions) else { return Ok(None) };
    let Begun { segments, found, .. } = begun;
    let Some(found) = add_segments(&edges, &segments, threads, found)? else { return Ok(None) };
    let asked = Refine {
        group_codes: group_codes::of(&bound, &questions),
        boxes: goals.boxes.clone(),
        goals: goals.values.clone(),
        max_error: accuracy.max_error,
        confidence: accuracy.confidence,
        reseeded: None,
        rows_min: SAMPLE_ROWS_MIN,
        strata_min: STRATA_MIN,
        threads,
    };
    let Some(refiner) = Refiner::new(asked, segments, found)? else { return Ok(None) };
    Ok(Some(Refining { bound, schema, goals, accuracy, refiner }))
}

impl Refining {
    /// A bounded piece of work.
    pub fn step(&mut self) -> Result<Refined> {
        Ok(match self.refiner.step()? {
            Step::Read => Refined::Read,
            Step::Exact => Refined::Exact(self.exact()),
            Step::Look(estimates) => self.look(&estimates).unwrap_or(Refined::Read),
        })
    }

    /// `None` where not all values can be written down: the answer will be exact.
    fn look(&self, estimates: &Estimates) -> Option<Refined> {
        let estimate = bounded(&self.bound, self.refiner.answer(), &self.goals, estimates, &self.schema)?;
        let sample = used_of(&self.accuracy, self.refiner.looks(), estimates);
        let is_enough = self.accuracy.max_error > 0.0 && estimates.holds;
        Some(Refined::Look { look: estimates.look, estimate, sample, share_off: estimates.share_off, is_enough })
    }

    fn exact(&self) -> Option<Bounded> {
        let rows: RecordBatch = columns::batch(&self.bound, self.refiner.answer(), &self.schema)?;
        let of_item = self.bound.items.iter().zip(rows.columns());
        let bounds = of_item.map(|(item, column)| {
            matches!(item, Item::Aggregate(..)).then(|| (Arc::clone(column), Arc::clone(column)))
        });
        Some(Bounded { bounds: bounds.collect(), rows })
    }

    /// Looks at samples that are planned.
    pub fn looks(&self) -> u32 {
        self.refiner.looks()
    }

    /// Rows read so far, and rows that the exact answer reads.
    pub fn rows(&self) -> (u64, u64) {
        (self.refiner.rows_read(), self.refiner.rows())
    }

    /// What it took so far.
    pub fn counters(&self) -> Counters {
        self.refiner.answer().counters
    }

    /// How often all looks hold.
    pub fn confidence(&self) -> f64 {
        self.accuracy.confidence
    }
}
