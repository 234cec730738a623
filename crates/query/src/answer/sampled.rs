//! Answers from samples: which statements may have one, and what its columns are.
//!
//! Invariants:
//! - Only counts, sums and averages over one box are estimated, and only where `max_error` allows it; a statement that asks for anything
//!   else is answered exactly as a whole.
//! - An answer looks the same whether it was estimated or not: the same columns, names and types.

use super::columns::{self, finish, floats, group_column, integers};
use super::run::{Begun, Bound, begin};
use super::statement::{Aggregate, Item};
use super::{Kept, group_codes};
use crate::dialect::Sureness;
use crate::table::SampleUsed;
use alluvia_snapshot::TableRead;
use alluvia_space::DataType;
use alluvia_tree::estimate::{self, Interval, Kind};
use alluvia_tree::sample::{Asked, Estimated, Estimates, Goal, Otherwise, Sampled, Source, sample};
use alluvia_tree::{Answer, BoxQuery, Counters, answer};
use alluvia_types::{Error, ErrorKind, Result, Version};
use arrow::array::{ArrayRef, BooleanArray, Float64Array, RecordBatch};
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Schema, SchemaRef};
use std::sync::Arc;

/// How exact an answer must be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Accuracy {
    /// The largest relative error of a value.
    pub(crate) max_error: f64,
    /// How often an interval must hold.
    pub(crate) confidence: f64,
    /// What to do where a sample does not reach that.
    pub(crate) missed: Missed,
}

/// What becomes of a statement whose sample does not suffice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Missed {
    /// It is answered exactly.
    Escalate,
    /// It fails.
    Error,
    /// It gives what was reached, and says so.
    Mark,
}

/// The answer's rows, what they took, and the sample that they are from, if they are from one.
pub(crate) type Answered = (RecordBatch, Counters, Option<SampleUsed>);

/// The answer, from a sample if one may and does suffice. `None` where the general way must answer.
pub(crate) fn run_within(
    bound: &Bound,
    read: &TableRead,
    version: Version,
    kept: &Kept,
    threads: usize,
    schema: &SchemaRef,
    accuracy: &Accuracy,
) -> Result<Option<Answered>> {
    let Some(Begun { segments, questions, mut found }) = begin(bound, read, version, kept)? else { return Ok(None) };
    let goals = goals_of(bound, kept, &questions);
    let Some(goals) = goals else {
        for question in questions.iter() {
            if !answer(question, &segments, threads, &mut found)? {
                return Ok(None);
            }
        }
        return Ok(exactly(bound, &found, kept, schema));
    };
    let codes = group_codes::of(bound, &questions[0]);
    let asked = Asked {
        question: &questions[0],
        group_codes: &codes,
        goals: &goals.values,
        max_error: accuracy.max_error,
        confidence: accuracy.confidence,
        otherwise: if accuracy.missed == Missed::Escalate { Otherwise::Exact } else { Otherwise::Reached },
        source: Source::Ladder,
        by_cost: true,
        threads,
    };
    match sample(&asked, &segments, &mut found)? {
        Sampled::Cannot => Ok(None),
        Sampled::Exact => Ok(exactly(bound, &found, kept, schema)),
        Sampled::Estimates(estimates) => {
            if !estimates.holds && accuracy.missed == Missed::Error {
                return Err(missed(accuracy, &estimates));
            }
            let used = used_of(accuracy, alluvia_tree::sample::LOOKS, &estimates);
            let batch = batch(bound, &found, &goals, &estimates, schema);
            Ok(batch.map(|batch| (batch, found.counters, Some(used))))
        }
    }
}

fn exactly(bound: &Bound, found: &Answer, kept: &Kept, schema: &SchemaRef) -> Option<Answered> {
    columns::batch(bound, found, &kept.names, schema).map(|batch| (batch, found.counters, None))
}

/// The values to estimate, and which of them each item is about.
pub(super) struct Goals {
    pub(super) values: Vec<Goal>,
    /// `None` for a group.
    of_item: Vec<Option<usize>>,
}

/// What a statement asks for; `None` if it may not be estimated.
pub(super) fn goals_of(bound: &Bound, kept: &Kept, questions: &[BoxQuery]) -> Option<Goals> {
    if questions.len() != 1 || columns::shares_names(bound, &kept.names)? {
        return None;
    }
    let mut goals = Goals { values: Vec::new(), of_item: Vec::with_capacity(bound.items.len()) };
    for (item, &measure) in bound.items.iter().zip(&bound.item_measures) {
        let Some((aggregate, _)) = item.aggregate() else {
            goals.of_item.push(None);
            continue;
        };
        let aggregate = match aggregate {
            Aggregate::Count => estimate::Aggregate::Count,
            Aggregate::Sum => estimate::Aggregate::Sum,
            Aggregate::Avg => estimate::Aggregate::Avg,
            _ => return None,
        };
        let column = measure.and_then(|measure| bound.def.column_by_id(bound.measures[measure].column));
        let is_decimal = column.is_some_and(|column| matches!(column.data_type, DataType::Decimal { .. }));
        if aggregate == estimate::Aggregate::Avg && is_decimal {
            return None;
        }
        let goal = Goal { aggregate, measure };
        let at = goals.values.iter().position(|known| *known == goal);
        goals.of_item.push(Some(at.unwrap_or(goals.values.len())));
        if at.is_none() {
            goals.values.push(goal);
        }
    }
    (!goals.values.is_empty()).then_some(goals)
}

fn missed(accuracy: &Accuracy, estimates: &Estimates) -> Error {
    let Accuracy { max_error, confidence, .. } = accuracy;
    let reached = match estimates.groups_unseen {
        0 => format!("a sample reaches {:.6}", estimates.error),
        groups => format!("a sample reaches {:.6}, and may lack {groups} groups", estimates.error),
    };
    let message = format!("max_error {max_error} at confidence {confidence} is not met: {reached}");
    Error::new(ErrorKind::Inaccurate, message)
        .with_hint("SET error_action = 'escalate' to answer exactly then, or 'mark' to take what is reached")
}

pub(super) fn used_of(accuracy: &Accuracy, looks: u32, estimates: &Estimates) -> SampleUsed {
    SampleUsed {
        looks,
        look: estimates.look,
        rungs: estimates.rungs,
        rows_drawn: estimates.rows_drawn,
        rows_cut: estimates.rows_cut,
        error: estimates.error,
        confidence: accuracy.confidence,
        groups_unseen: estimates.groups_unseen,
        holds: estimates.holds,
    }
}

/// Rows, and for each column that is estimated its bounds, which have its type.
pub(crate) struct Bounded {
    pub(crate) rows: RecordBatch,
    pub(crate) bounds: Vec<Option<(ArrayRef, ArrayRef)>>,
}

fn batch(
    bound: &Bound,
    found: &Answer,
    goals: &Goals,
    estimates: &Estimates,
    schema: &SchemaRef,
) -> Option<RecordBatch> {
    finish(bound, columns_of(bound, found, goals, estimates, schema)?, schema)
}

/// As [`batch`], with bounds. They go through order and limit as columns of the answer do.
pub(super) fn bounded(
    bound: &Bound,
    found: &Answer,
    goals: &Goals,
    estimates: &Estimates,
    schema: &SchemaRef,
) -> Option<Bounded> {
    let mut columns = columns_of(bound, found, goals, estimates, schema)?;
    let mut fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
    let width = columns.len();
    let mut places = Vec::with_capacity(width);
    for ((item, field), goal) in bound.items.iter().zip(schema.fields()).zip(&goals.of_item) {
        places.push(match (item, goal) {
            (Item::Aggregate(..), Some(goal)) => {
                let place = columns.len();
                for part in [Part::Lower, Part::Upper] {
                    columns.push(values(cells(estimates, *goal), part, field.data_type())?);
                    fields.push(Arc::new(Field::new(field.name(), field.data_type().clone(), true)));
                }
                Some(place)
            }
            _ => None,
        });
    }
    let all = finish(bound, columns, &Arc::new(Schema::new(fields)))?;
    let bounds = places.into_iter().map(|place| {
        let place = place?;
        Some((Arc::clone(all.column(place)), Arc::clone(all.column(place + 1))))
    });
    let bounds = bounds.collect();
    let rows = RecordBatch::try_new(Arc::clone(schema), all.columns()[..width].to_vec()).ok()?;
    Some(Bounded { rows, bounds })
}

/// A goal of all groups.
fn cells(estimates: &Estimates, goal: usize) -> impl Iterator<Item = Interval> {
    estimates.groups.iter().map(move |(_, cells): &(usize, Vec<Estimated>)| cells[goal].interval)
}

fn columns_of(
    bound: &Bound,
    found: &Answer,
    goals: &Goals,
    estimates: &Estimates,
    schema: &SchemaRef,
) -> Option<Vec<ArrayRef>> {
    if schema.fields().len() != bound.items.len() {
        return None;
    }
    let groups: Vec<usize> = estimates.groups.iter().map(|(group, _)| *group).collect();
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(bound.items.len());
    for ((item, field), goal) in bound.items.iter().zip(schema.fields()).zip(&goals.of_item) {
        let cells = |goal: usize| cells(estimates, goal);
        columns.push(match (item, goal) {
            (Item::Group(at), _) => group_column(bound, found, *at, &groups, field.data_type())?,
            (Item::Aggregate(..), Some(goal)) => values(cells(*goal), Part::Estimate, field.data_type())?,
            (Item::Sureness(sureness, ..), Some(goal)) => match sureness {
                Sureness::Lower => values(cells(*goal), Part::Lower, field.data_type())?,
                Sureness::Upper => values(cells(*goal), Part::Upper, field.data_type())?,
                Sureness::RelativeError => {
                    Arc::new(cells(*goal).map(|cell| Some(cell.relative_error())).collect::<Float64Array>())
                }
                Sureness::IsExact => Arc::new(cells(*goal).map(|cell| Some(is_exact(&cell))).collect::<BooleanArray>()),
            },
            (_, None) => return None,
        });
    }
    Some(columns)
}

fn is_exact(cell: &Interval) -> bool {
    cell.kind == Kind::Exact || cell.lower == cell.upper
}

/// Up to this a double holds every whole number.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

#[derive(Clone, Copy)]
enum Part {
    Estimate,
    Lower,
    Upper,
}

/// One part of each interval; whole numbers of whole numbers, bounds rounded away from the estimate.
fn values(cells: impl Iterator<Item = Interval>, part: Part, to: &ArrowType) -> Option<ArrayRef> {
    let is_whole = !matches!(to, ArrowType::Float64 | ArrowType::Float32);
    // A whole number that is known exactly and that no double holds: only the general way tells all of its digits.
    let is_beyond = |cell: &Interval| is_whole && cell.lower == cell.upper && cell.estimate.abs() >= WHOLE_MAX;
    let cells: Vec<Interval> = cells.collect();
    if cells.iter().any(is_beyond) {
        return None;
    }
    let cells = cells.into_iter();
    let pick = |cell: Interval| {
        let value = match part {
            Part::Estimate if is_whole => cell.estimate.round().clamp(cell.lower.floor(), cell.upper.ceil()),
            Part::Estimate => cell.estimate,
            Part::Lower if is_whole => cell.lower.floor(),
            Part::Lower => cell.lower,
            Part::Upper if is_whole => cell.upper.ceil(),
            Part::Upper => cell.upper,
        };
        // An average of nothing, or a bound that nothing is known of.
        (!value.is_nan() && (!is_whole || value.is_finite())).then_some(value)
    };
    match to {
        ArrowType::Float64 | ArrowType::Float32 => floats(cells.map(pick), to),
        _ => integers(cells.map(pick).map(|value| value.map(|value| value as i128)), to),
    }
}
