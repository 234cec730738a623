//! Expressions that DataFusion would get wrong: integer arithmetic that fails where its result does not fit, instead of wrapping around,
//! simplification, joins and subqueries that leave NULL alone, subqueries wherever an expression may stand, conditions that stay where they
//! belong, INTERSECT ALL and EXCEPT ALL that count, dates that become moments, numbers that are rounded, zeros that are one number,
//! and text that becomes bytes, booleans and moments.
//!
//! Invariants:
//! - What a statement says does not depend on what its expressions are simplified to.
//! - `a + b`, `a - b`, `a * b` and `- a` of integers are exact, or the statement fails with SQLSTATE 22003. So are sums of BIGINT, whatever
//!   order and threads they were added in: on the way they have 128 bits. Sums of DECIMAL have more.
//! - What arithmetic of floats makes has one NaN, and quotients of decimals are rounded.
//! - A condition, a cast or a set operation means what PostgreSQL means by it, or is refused by name.
//! - Columns are called what they would be called without this.
//!
//! DataFusion's `BinaryExpr` can check, but nothing it plans asks it to, and its sums cannot. So a rule puts functions of ours where
//! integers and floats are added and decimals divided, after types are known and before constants are folded; its aggregates are replaced where they lose something, and so are
//! functions that read, cut or write moments, numbers and bytes otherwise than PostgreSQL.

mod arithmetic;
mod arrays;
mod bare_distinct;
mod bools;
mod bytea;
mod casts;
mod coalesce;
mod computed_lists;
mod constants;
mod counted_rows;
mod decimal_sum;
mod decimals;
mod distinct_sum;
mod exact_spreads;
mod expressions;
mod extremes;
mod false_keys;
mod float_ranges;
mod floats;
mod format;
mod given;
mod grouping_sets;
mod intervals;
mod join_sides;
mod less_known;
mod literals;
mod lone_values;
mod longest;
mod moment_functions;
mod moments;
mod moving;
mod multisets;
mod now;
mod null_keys;
mod opaque;
mod operators;
mod ordered_keys;
mod outer_types;
mod padded;
mod parts;
mod passed_on;
mod patterns;
mod peer_frames;
mod percentiles;
mod pushed_filters;
mod quotients;
mod ranks;
mod read_intervals;
mod read_moments;
mod reals;
mod rounding;
mod series;
mod sign;
mod simplify;
mod sizes;
mod skipped_rows;
mod span_averages;
mod spans;
mod subqueries;
mod sum;
#[cfg(test)]
mod testing;
mod texts;
mod to_char;
mod to_hex;
mod together;
mod told_types;
mod truncated;
mod type_names;
mod unfiltered;
mod unions;
mod unknown_texts;
mod wholes;
mod window_lists;
mod zeros;
mod zones;

pub(crate) use arithmetic::CheckedArithmetic;
pub(crate) use arrays::PlannedArrays;
pub(crate) use bare_distinct::BareDistinct;
pub(crate) use bytea::{BytesOfLiterals, PlannedCuts, WrittenBytes};
pub(crate) use casts::LosslessCasts;
pub(crate) use computed_lists::ComputedLists;
pub(crate) use constants::PushDownKeepingConstants;
pub(crate) use counted_rows::CountedRows;
pub(crate) use decimals::NumbersTogether;
pub(crate) use exact_spreads::ExactSpreads;
pub(crate) use false_keys::NoFalseKeys;
pub(crate) use format::literal as quoted_literal;
pub(crate) use given::by_arrays;
pub(crate) use grouping_sets::GroupingSetsOfUnknownRows;
pub(crate) use join_sides::JoinSidesLessKnown;
pub(crate) use literals::ListedText;
pub(crate) use multisets::CountedMultisets;
pub(crate) use null_keys::{JoinsKeepingNulls, KeysOfOneKind};
pub(crate) use operators::has_operator;
pub(crate) use ordered_keys::{OrderedKeys, with_sign};
pub(crate) use outer_types::TypesFromAround;
pub(crate) use parts::PlannedParts;
pub(crate) use peer_frames::FramesOfPeers;
pub(crate) use pushed_filters::FiltersOfTheirColumns;
pub(crate) use rounding::{RoundedFloats, assigned_double, assigned_real};
pub(crate) use simplify::SimplifyKeepingNulls;
pub(crate) use sizes::{CountedFunctions, HeldConstants, StatementLimits};
pub(crate) use skipped_rows::OrdersOfSkippedRows;
pub(crate) use spans::ComparedSpans;
pub(crate) use subqueries::SubqueriesKeepingNulls;
pub(crate) use sum::{WIDE, narrowed_sum};
pub(crate) use to_char::scale_of;
pub(crate) use together::MomentsTogether;
pub(crate) use told_types::told_schema;
pub(crate) use unions::NamesOfUnions;
pub(crate) use unknown_texts::UnknownTexts;
pub(crate) use zeros::{EqualZeros, with_both};

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};
use std::sync::Arc;

/// Adds functions of PostgreSQL that DataFusion lacks, puts ours in the place of those that mean something else there (each in the module that
/// says what), plans dates with intervals, intervals with numbers, spans and what literals meet, and holds functions to the statement's memory.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    state.register_udf(Arc::new(ScalarUDF::from(format::Format::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(zones::TimeZoned::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(to_char::ToChar::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(to_char::ToNumber::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(truncated::Truncated::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(now::Now::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(parts::Parts::default())))?;
    for function in moment_functions::all() {
        state.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    for name in ["to_timestamp", "to_date"] {
        let read = read_moments::ReadMoment::of(state.udf(name)?);
        state.register_udf(Arc::new(ScalarUDF::from(read)))?;
    }
    state.register_udaf(Arc::new(AggregateUDF::from(sum::CheckedSum::default())))?;
    state.register_udaf(Arc::new(AggregateUDF::from(extremes::Extreme::least())))?;
    state.register_udaf(Arc::new(AggregateUDF::from(extremes::Extreme::greatest())))?;
    for moving in moving::Moving::functions() {
        state.register_udaf(Arc::new(AggregateUDF::from(moving)))?;
    }
    for ranks in ranks::functions() {
        state.register_udwf(Arc::new(ranks))?;
    }
    state.register_udaf(Arc::new(AggregateUDF::from(bools::Quantifier::all())))?;
    state.register_udaf(Arc::new(AggregateUDF::from(bools::Quantifier::any())))?;
    for whole in wholes::Whole::all() {
        state.register_udf(Arc::new(ScalarUDF::from(whole)))?;
    }
    for ordered in percentiles::Ordered::all() {
        state.register_udaf(Arc::new(AggregateUDF::from(ordered)))?;
    }
    state.register_udf(Arc::new(ScalarUDF::from(sign::Sign::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(coalesce::ReadingCoalesce::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(type_names::TypeName::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(unknown_texts::TextBeside::default())))?;
    for function in patterns::all() {
        state.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    state.register_udf(Arc::new(ScalarUDF::from(patterns::Replaced::default())))?;
    padded::register(state)?;
    let to_hex = to_hex::ToHex::of(state.udf("to_hex")?);
    state.register_udf(Arc::new(ScalarUDF::from(to_hex)))?;
    bytea::register(state)?;
    arrays::register(state)?;
    state.register_expr_planner(Arc::new(moments::DatesAsMoments))?;
    state.register_expr_planner(Arc::new(spans::WrittenSpans))?;
    state.register_expr_planner(Arc::new(intervals::ScaledIntervals))?;
    state.register_expr_planner(Arc::new(bytea::JoinedBytes))?;
    state.register_expr_planner(Arc::new(reals::RealsAsDoubles))?;
    state.register_expr_planner(Arc::new(literals::ComparedText))?;
    series::register(state);
    for series in series::lists() {
        state.register_udf(Arc::new(series))?;
    }
    sizes::register(state)
}
