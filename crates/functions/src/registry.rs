//! Puts the functions of this room into a session.

use crate::{
    aggregates, arrays, bytes, casts, conditional, datetime, internal, json, output_size, regex, rounding, text,
    to_char, windows,
};
use datafusion_common::Result;
use datafusion_expr::registry::FunctionRegistry;
use datafusion_expr::{AggregateUDF, ScalarUDF};
use std::sync::Arc;

/// Adds functions of PostgreSQL that DataFusion lacks, puts ours in the place of those that mean something else there (each in the module
/// that says what), and holds functions to the statement's memory.
pub fn register(state: &mut dyn FunctionRegistry) -> Result<()> {
    state.register_udf(Arc::new(ScalarUDF::from(text::format::Format::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(datetime::timezone::TimeZoned::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(to_char::ToChar::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(to_char::ToNumber::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(datetime::date_trunc::Truncated::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(datetime::now::Now::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(datetime::date_part::Parts::default())))?;
    for function in datetime::timestamp_functions::all() {
        state.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    for name in ["to_timestamp", "to_date"] {
        let read = datetime::to_timestamp::ReadMoment::of(state.udf(name)?);
        state.register_udf(Arc::new(ScalarUDF::from(read)))?;
    }
    state.register_udaf(Arc::new(AggregateUDF::from(aggregates::sum::CheckedSum::default())))?;
    state.register_udaf(Arc::new(AggregateUDF::from(aggregates::min_max::Extreme::least())))?;
    state.register_udaf(Arc::new(AggregateUDF::from(aggregates::min_max::Extreme::greatest())))?;
    for moving in aggregates::moving_frames::Moving::functions() {
        state.register_udaf(Arc::new(AggregateUDF::from(moving)))?;
    }
    for ranks in windows::ranks::functions() {
        state.register_udwf(Arc::new(ranks))?;
    }
    state.register_udaf(Arc::new(AggregateUDF::from(aggregates::bool_and_or::Quantifier::all())))?;
    state.register_udaf(Arc::new(AggregateUDF::from(aggregates::bool_and_or::Quantifier::any())))?;
    for whole in rounding::floor_ceil::Whole::all() {
        state.register_udf(Arc::new(ScalarUDF::from(whole)))?;
    }
    for ordered in aggregates::percentiles::Ordered::all() {
        state.register_udaf(Arc::new(AggregateUDF::from(ordered)))?;
    }
    state.register_udf(Arc::new(ScalarUDF::from(rounding::sign::Sign::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(conditional::coalesce::ReadingCoalesce::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(casts::pg_typeof::TypeName::default())))?;
    state.register_udf(Arc::new(ScalarUDF::from(internal::text_beside::TextBeside::default())))?;
    for function in regex::all() {
        state.register_udf(Arc::new(ScalarUDF::from(function)))?;
    }
    state.register_udf(Arc::new(ScalarUDF::from(regex::Replaced::default())))?;
    text::pad::register(state)?;
    let to_hex = text::to_hex::ToHex::of(state.udf("to_hex")?);
    state.register_udf(Arc::new(ScalarUDF::from(to_hex)))?;
    bytes::register(state)?;
    arrays::register(state)?;
    json::register(state)?;
    for series in datetime::generate_series::lists() {
        state.register_udf(Arc::new(series))?;
    }
    // Last: it stands in the place of functions that are registered by now.
    output_size::register(state)
}
