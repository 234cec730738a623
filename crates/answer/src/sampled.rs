//! Answers from samples: which statements may have one, and what its columns are.
//!
//! Invariants:
//! - Only counts, sums and averages are estimated, over boxes that share no row and are told by codes (their edges are read before), and only where `max_error` allows it; a statement that
//!   asks for anything else is answered exactly as a whole.
//! - An answer looks the same whether it was estimated or not: the same columns, names and types.
//! - What HAVING and ORDER BY look at is estimated as what is shown is, and within the same error. Groups are chosen when reading has
//!   stopped, so what is chosen has no part in when it stops.

use super::bound::{Bound, without_edges};
use super::columns::{self, finish, floats, group_column, integers, shown};
use super::damage::going_on;
use super::group_codes;
use super::run::{Asking, Begun, add_segments};
use super::statement::{Aggregate, Item};
use crate::used::SampleUsed;
use alluvia_syntax::Sureness;
use alluvia_tree::estimate::{self, Interval, Kind};
use alluvia_tree::sample::{Estimated, Estimates, Goal, Otherwise, SampleRequest, Sampled, Source, sample};
use alluvia_tree::{Answer, BoxQuery, Boxes, Counters};
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{ArrayRef, BooleanArray, Float64Array, RecordBatch};
use arrow::datatypes::{DataType as ArrowType, Field, FieldRef, Schema, SchemaRef};
use std::sync::Arc;

/// How exact an answer must be.
#[derive(Clone, Copy, Debug)]
pub struct Accuracy {
    /// The largest relative error of a value.
    pub max_error: f64,
    /// How often an interval must hold.
    pub confidence: f64,
    /// What to do where a sample does not reach that.
    pub missed: Missed,
}

/// What becomes of a statement whose sample does not suffice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missed {
    /// It is answered exactly.
    Escalate,
    /// It fails.
    Error,
    /// It gives what was reached, and says so.
    Mark,
}

/// Why an answer that might be estimated is exact.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhyExact {
    /// A cuboid had the exact answer.
    Cuboid,
    /// It asks for more than counts, sums and averages, or is of too many boxes.
    Never,
    /// Most of what it reads are units that a range of times begins or ends in, which are always read.
    Edges,
    /// No sample was near enough, or would have read less.
    Read,
}

/// The answer's rows, what they took, and the sample that they are from, or why they are from none.
pub type Answered = (RecordBatch, Counters, Result<SampleUsed, WhyExact>);

/// The answer, from a sample if one may and does suffice. `None` where the general way must answer.
pub fn run_within(asking: &Asking<'_>, schema: &SchemaRef, accuracy: &Accuracy) -> Result<Option<Answered>> {
    going_on(asking.read, || run_within_once(asking, schema, accuracy))
}

fn run_within_once(asking: &Asking<'_>, schema: &SchemaRef, accuracy: &Accuracy) -> Result<Option<Answered>> {
    let Asking { bound, threads, .. } = *asking;
    let Some(begun) = asking.begin()? else { return Ok(None) };
    let (questions, edges) = without_edges(&begun.questions);
    let mut goals = goals_of(bound, &questions).ok_or(WhyExact::Never);
    if goals.is_ok() && begun.is_mostly(&edges)? {
        goals = Err(WhyExact::Edges);
    }
    let goals = match goals {
        Ok(goals) => goals,
        Err(why) => {
            let found = begun.all(threads)?;
            return Ok(found.and_then(|found| exactly(bound, &found, schema, why)));
        }
    };
    let Begun { segments, found, .. } = begun;
    let Some(mut found) = add_segments(&edges, &segments, threads, found)? else { return Ok(None) };
    let codes = group_codes::of(bound, &questions);
    let asked = SampleRequest {
        boxes: &goals.boxes,
        group_codes: &codes,
        goals: &goals.values,
        max_error: accuracy.max_error,
        confidence: accuracy.confidence,
        otherwise: if accuracy.missed == Missed::Escalate { Otherwise::Exact } else { Otherwise::Reached },
        source: Source::Ladder,
        by_cost: true,
        strata_min: alluvia_tree::sample::STRATA_MIN,
        threads,
    };
    match sample(&asked, &segments, &mut found)? {
        Sampled::Cannot => Ok(None),
        Sampled::Exact => Ok(exactly(bound, &found, schema, WhyExact::Read)),
        Sampled::Estimates(estimates) => {
            if !estimates.holds && accuracy.missed == Missed::Error {
                return Err(missed(accuracy, &estimates));
            }
            let used = used_of(accuracy, alluvia_tree::sample::LOOKS, &estimates);
            let batch = batch(bound, &found, &goals, &estimates, schema);
            Ok(batch.map(|batch| (batch, found.counters, Ok(used))))
        }
    }
}

fn exactly(bound: &Bound, found: &Answer, schema: &SchemaRef, why: WhyExact) -> Option<Answered> {
    columns::batch(bound, found, schema).map(|batch| (batch, found.counters, Err(why)))
}

/// The values to estimate, of which boxes, and which of them each item is about.
pub(super) struct Goals {
    pub(super) boxes: Boxes,
    pub(super) values: Vec<Goal>,
    /// `None` for a group.
    of_item: Vec<Option<usize>>,
}

/// What a statement asks for, by boxes without edges; `None` if it may not be estimated.
pub(super) fn goals_of(bound: &Bound, questions: &[BoxQuery]) -> Option<Goals> {
    let boxes = Boxes::new(questions.to_vec())?;
    let mut goals = Goals { boxes, values: Vec::new(), of_item: Vec::with_capacity(bound.items.len()) };
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
        nodes_drawn: estimates.nodes_drawn,
        groups_unseen: estimates.groups_unseen,
        holds: estimates.holds,
    }
}

/// Rows, and for each column that is estimated its bounds, which have its type.
pub struct Bounded {
    /// The rows.
    pub rows: RecordBatch,
    /// Of each column, its bounds; `None` of a column that is exact.
    pub bounds: Vec<Option<(ArrayRef, ArrayRef)>>,
}

fn batch(
    bound: &Bound,
    found: &Answer,
    goals: &Goals,
    estimates: &Estimates,
    schema: &SchemaRef,
) -> Option<RecordBatch> {
    shown(bound, finish(bound, columns_of(bound, found, goals, estimates, schema)?, schema)?)
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
    let width = columns.len() - bound.hidden;
    let mut places = Vec::with_capacity(width);
    for ((item, field), goal) in bound.items.iter().zip(schema.fields()).zip(&goals.of_item).take(width) {
        places.push(match (item, goal) {
            (Item::Aggregate(..), Some(goal)) => {
                let place = columns.len();
                let unit = unit_of(bound, goals.values[*goal], field.data_type())?;
                for part in [Part::Lower, Part::Upper] {
                    columns.push(values(cells(estimates, *goal), part, unit, field.data_type())?);
                    fields.push(Arc::new(Field::new(field.name(), field.data_type().clone(), true)));
                }
                Some(place)
            }
            _ => None,
        });
    }
    let all = finish(bound, columns, &Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())))?;
    let bounds = places.into_iter().map(|place| {
        let place = place?;
        Some((Arc::clone(all.column(place)), Arc::clone(all.column(place + 1))))
    });
    let bounds = bounds.collect();
    let rows = all.project(&(0..width).collect::<Vec<_>>()).ok()?;
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
        let is_known =
            |goal: usize| cells(goal).all(|cell| is_exact(&cell) || cell.lower.is_finite() && cell.upper.is_finite());
        if let (Item::Sureness(..), Some(goal), Some(_)) = (item, goal, &bound.having)
            && !is_known(*goal)
        {
            // HAVING would leave out groups whose bounds nothing is known of yet.
            return None;
        }
        let part = |goal: usize, part: Part| {
            values(cells(goal), part, unit_of(bound, goals.values[goal], field.data_type())?, field.data_type())
        };
        columns.push(match (item, goal) {
            (Item::Group(at), _) => group_column(bound, found, *at, &groups, field.data_type())?,
            (Item::Aggregate(..), Some(goal)) => part(*goal, Part::Estimate)?,
            (Item::Sureness(sureness, ..), Some(goal)) => match sureness {
                Sureness::Lower => part(*goal, Part::Lower)?,
                Sureness::Upper => part(*goal, Part::Upper)?,
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
    cell.kind == Kind::Exact
}

/// Up to this a double holds every whole number.
const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

#[derive(Clone, Copy)]
enum Part {
    Estimate,
    Lower,
    Upper,
}

/// How many units of the shown type make one unit of the column: more than one of averages of decimals alone, which have more digits than
/// the decimals. `None` if they have fewer.
fn unit_of(bound: &Bound, goal: Goal, to: &ArrowType) -> Option<f64> {
    let column = goal.measure.and_then(|measure| bound.def.column_by_id(bound.measures[measure].column));
    match (goal.aggregate, column.and_then(|column| column.data_type.digits()), to) {
        (estimate::Aggregate::Avg, Some((_, scale)), ArrowType::Decimal128(_, of_mean)) => {
            let more = u8::try_from(*of_mean).ok()?.checked_sub(scale)?;
            Some(10f64.powi(more.into()))
        }
        _ => Some(1.0),
    }
}

/// How far from a whole number of units a value may be that is one, for the rounding of doubles.
const WHOLE_SLACK: f64 = 1e-6;

/// One part of each interval, in units of its column; whole numbers of whole numbers, bounds rounded away from the estimate.
fn values(cells: impl Iterator<Item = Interval>, part: Part, unit: f64, to: &ArrowType) -> Option<ArrayRef> {
    let is_whole = !matches!(to, ArrowType::Float64 | ArrowType::Float32);
    // What is known exactly, and is a whole number that no double holds or an average with more digits than its type has: only the general
    // way tells all digits, and how they are cut off.
    let is_beyond = |cell: &Interval| {
        let is_cut = unit != 1.0 && (cell.estimate - cell.estimate.round()).abs() > WHOLE_SLACK;
        is_whole && cell.lower == cell.upper && (cell.estimate.abs() >= WHOLE_MAX || is_cut)
    };
    let in_units = |cell: Interval| {
        let Interval { estimate, lower, upper, kind } = cell;
        Interval { estimate: estimate * unit, lower: lower * unit, upper: upper * unit, kind }
    };
    let cells: Vec<Interval> = cells.map(in_units).collect();
    if cells.iter().any(is_beyond) {
        return None;
    }
    let cells = cells.into_iter();
    let pick = |cell: Interval| {
        let value = match part {
            // NULL.
            _ if is_exact(&cell) && cell.estimate.is_nan() => cell.estimate,
            // What is exact was multiplied by a power of ten, which may have left it a little beside its whole number.
            _ if is_whole && cell.lower == cell.upper => cell.estimate.round(),
            Part::Estimate if is_whole => cell.estimate.round().clamp(cell.lower.floor(), cell.upper.ceil()),
            Part::Estimate => cell.estimate,
            Part::Lower if is_whole => cell.lower.floor(),
            Part::Lower => cell.lower,
            Part::Upper if is_whole => cell.upper.ceil(),
            Part::Upper => cell.upper,
        };
        // A sum or an average of nothing, or a bound that nothing is known of.
        (!value.is_nan() && (!is_whole || value.is_finite())).then_some(value)
    };
    match to {
        ArrowType::Float64 | ArrowType::Float32 => floats(cells.map(pick), to),
        _ => integers(cells.map(pick).map(|value| value.map(|value| value as i128)), to),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::AsArray;
    use arrow::datatypes::{Decimal128Type, Int64Type};

    fn interval(estimate: f64, lower: f64, upper: f64) -> Interval {
        Interval { estimate, lower, upper, kind: Kind::Planned { looks: 2 } }
    }

    #[test]
    fn averages_of_decimals_have_more_digits_and_bounds_that_hold() {
        let to = ArrowType::Decimal128(16, 6);
        let part = |cells: &[Interval], part| values(cells.iter().copied(), part, 1e4, &to);
        let cells =
            [interval(2.0 / 3.0, 0.25, 1.000_01), interval(-2.0 / 3.0, -0.700_09, -0.5), interval(f64::NAN, -1.0, 1.0)];
        let digits = |which| {
            let column = part(&cells, which).expect("fits");
            column.as_primitive::<Decimal128Type>().iter().collect::<Vec<_>>()
        };
        assert_eq!(digits(Part::Estimate), [Some(6_667), Some(-6_667), None]);
        assert_eq!(digits(Part::Lower)[..2], [Some(2_500), Some(-7_001)]);
        assert_eq!(digits(Part::Upper)[..2], [Some(10_001), Some(-5_000)]);
        // Exact values: 1.0007 is not a double, nor is ten thousand times as much the whole number that it stands for.
        let exact = interval(1.0007, 1.0007, 1.0007);
        for which in [Part::Estimate, Part::Lower, Part::Upper] {
            assert_eq!(part(&[exact], which).expect("fits").as_primitive::<Decimal128Type>().value(0), 10_007);
        }
        // The planner cuts off what is left over of two thirds.
        assert!(part(&[interval(2.0 / 3.0, 2.0 / 3.0, 2.0 / 3.0)], Part::Estimate).is_none());
    }

    #[test]
    fn whole_numbers_lie_between_whole_bounds() {
        let whole = |cell: Interval, part| {
            let column = values([cell].into_iter(), part, 1.0, &ArrowType::Int64)?;
            Some(column.as_primitive::<Int64Type>().iter().next().flatten())
        };
        let cell = interval(10.4, 9.7, 12.1);
        assert_eq!(
            [Part::Lower, Part::Estimate, Part::Upper].map(|part| whole(cell, part)),
            [9, 10, 13].map(|value| Some(Some(value)))
        );
        assert_eq!(whole(interval(f64::NAN, f64::NEG_INFINITY, f64::INFINITY), Part::Upper), Some(None));
        assert_eq!(whole(interval(1e17, 1e17, 1e17), Part::Estimate), None);
        // A sum of no values is NULL, and so are its bounds.
        assert_eq!([Part::Lower, Part::Estimate, Part::Upper].map(|part| whole(Interval::NULL, part)), [Some(None); 3]);
    }
}
