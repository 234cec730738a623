//! Passes on the tree of a statement: PostgreSQL's forms, written as DataFusion plans them with the same meaning.
//!
//! Each pass is a file. [`rewrite`] has the passes in their order; [`prepare`] has those that a query needs before its names are looked at.
//! [`visit`] and [`rewriting`] are what passes walk trees with. Types are not known here: what needs them is a rule of `plan`.

pub(crate) mod arg_min_max;
pub mod array_subqueries;
pub(crate) mod at_time_zone;
pub(crate) mod cast_keys;
pub(crate) mod column_labels;
pub(crate) mod constants_right;
pub(crate) mod decimal_literals;
pub mod dependent_columns;
pub(crate) mod display_names;
pub(crate) mod estimate_bounds;
pub(crate) mod frame_bounds;
pub mod generate_series;
pub(crate) mod group_lists;
pub(crate) mod group_positions;
pub(crate) mod hypothetical_ranks;
pub(crate) mod interval_literals;
pub(crate) mod json_calls;
pub(crate) mod lag_lead;
pub(crate) mod lateral_functions;
pub(crate) mod like_any;
pub mod like_escape;
pub(crate) mod list_calls;
pub mod list_literals;
pub mod merged_columns;
pub mod named_queries;
pub(crate) mod operators;
pub(crate) mod outer_aggregates;
pub mod qualified_wildcards;
pub(crate) mod regex_calls;
pub mod regex_literals;
pub(crate) mod relations;
pub mod repeated_names;
pub mod rewriting;
pub(crate) mod row_comparisons;
pub(crate) mod similar_to;
pub mod sort_keys;
pub(crate) mod spellings;
pub(crate) mod templates;
pub(crate) mod timestamps;
pub(crate) mod unknown_literals;
pub mod value_rows;
pub mod varchar_casts;
pub mod visit;
pub(crate) mod wide_integers;
pub(crate) mod window_names;

use crate::parameters;
use crate::statement::Kind;
use alluvia_types::Result;
use sqlparser::ast::Query;
use sqlparser::tokenizer::TokenWithSpan;

/// Whether a statement of these tokens may hold what a pass looks for.
type MayHave = fn(&[TokenWithSpan]) -> bool;
/// Writes it out; an error refuses the statement by name.
type WriteOut = fn(&mut Query) -> Result<()>;

/// The passes in their order. A pass sees what those above it have written.
const PASSES: [(MayHave, WriteOut); 31] = [
    // First: whatever compares with a constant has it on the right from here on.
    (constants_right::may_have, |query| {
        constants_right::constants_right(query);
        Ok(())
    }),
    (qualified_wildcards::may_have, qualified_wildcards::write_out),
    // Positions and names of the select list are taken before any of its expressions changes.
    (sort_keys::may_have, sort_keys::write_out),
    (group_positions::may_have, group_positions::write_out),
    (outer_aggregates::may_have, outer_aggregates::write_out),
    (array_subqueries::may_have, array_subqueries::write_out),
    (hypothetical_ranks::may_have, hypothetical_ranks::write_out),
    (frame_bounds::may_have, frame_bounds::write_out),
    // Operators and special forms become calls, and calls get the names that planning knows.
    (operators::may_have, operators::write_out),
    (arg_min_max::may_have, arg_min_max::write_out),
    (regex_calls::may_have, regex_calls::write_out),
    (regex_literals::may_have, regex_literals::write_out),
    (json_calls::may_have, json_calls::write_out),
    (generate_series::may_have, generate_series::write_out),
    (lag_lead::may_have, lag_lead::write_out),
    (interval_literals::may_have, interval_literals::write_out),
    (timestamps::may_have, timestamps::write_out),
    (spellings::may_have, spellings::write_out),
    // Rows and lists: rows first, since a list of rows is no list; lists that are written before lists that are computed.
    (row_comparisons::may_have, row_comparisons::write_out),
    (list_literals::may_have, list_literals::write_out),
    (like_any::may_have, like_any::write_out),
    (list_literals::may_have, list_literals::call_computed),
    (list_calls::may_have, list_calls::write_out),
    // Numbers and texts that keep their digits and lengths.
    (decimal_literals::may_have, decimal_literals::write_out),
    (wide_integers::may_have, wide_integers::write_out),
    (varchar_casts::may_have, varchar_casts::write_out),
    (like_escape::may_have, like_escape::write_out),
    (templates::may_have, templates::write_out),
    (at_time_zone::may_have, at_time_zone::write_out),
    // Columns are called after their text, which says the names of windows.
    (window_names::may_have, window_names::write_out),
    // Last: behind all that looks for texts.
    (unknown_literals::may_have, unknown_literals::write_out),
];

/// Writes a statement's query in forms that planning takes as PostgreSQL does; what cannot be is refused. Each pass walks the tree only if
/// the tokens may hold what it looks for.
pub(crate) fn rewrite(tokens: &[TokenWithSpan], kind: &mut Kind) {
    for (may_have, write_out) in PASSES {
        if may_have(tokens)
            && let Err(error) = parameters::queries_of(kind).into_iter().try_for_each(write_out)
        {
            *kind = Kind::Refused(error);
        }
    }
    if !value_rows::may_have(tokens) {
        return;
    }
    let is_insert = matches!(kind, Kind::Insert(_));
    // The first query of an INSERT is what its rows come from.
    let mut queries = parameters::queries_of(kind).into_iter().enumerate();
    if let Err(error) = queries.try_for_each(|(at, query)| value_rows::write_out(query, is_insert && at == 0)) {
        *kind = Kind::Refused(error);
    }
}

/// A query as planning takes it: nothing in it is ignored, and no two columns have one name unless they were named so.
pub(crate) fn prepare(mut query: Box<Query>) -> Result<Box<Query>> {
    regex_calls::unnest(&mut query);
    json_calls::unnest(&mut query);
    lateral_functions::write_out(&mut query);
    named_queries::order(&mut query)?;
    // Behind the forms that are known by now: what is left of them is refused.
    crate::refuse::query(&query)?;
    crate::sample::thin::gather(&mut query)?;
    column_labels::distinguish(&mut query);
    group_lists::write_out(&mut query);
    cast_keys::tell_apart(&mut query);
    Ok(query)
}
