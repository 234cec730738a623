//! Functions, operators and constants that make much of little, held to the statement's memory.
//!
//! Invariant: what they would make of a batch is known before it is made; a statement that may not hold it fails, as one whose operators
//! need too much does. (DataFusion accounts for what operators hold, and not for what functions give: 2 GB of text came of a statement of
//! 30 characters, and a list of 2,000,000,000 numbers ended the process.)
//!
//! `lists` says which functions these are, and why the others are not; `makes` counts; `rule` has them counted in plans, whoever put them
//! there; `joined` is `||`; `constants` looks at what is written out for every row.

mod constants;
mod joined;
mod lists;
mod makes;
mod rule;

pub(crate) use constants::HeldConstants;
pub(super) use joined::JOINED;
pub(crate) use rule::CountedFunctions;

use crate::checked::passed_on::calls_passed_on;
use crate::copy::Widths;
use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use datafusion::common::config::{ConfigExtension, ConfigOptions};
use datafusion::common::{DataFusionError, Result, extensions_options};
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use lists::BOUNDED;
use makes::Makes;
use std::sync::Arc;

extensions_options! {
    /// What one statement may use, for functions to know.
    pub(crate) struct StatementLimits {
        /// Bytes.
        pub(crate) memory_bytes: u64, default = u64::MAX
    }
}

impl ConfigExtension for StatementLimits {
    const PREFIX: &'static str = "statement";
}

/// Bounds the functions, also where no rule sees them: expressions that are evaluated by themselves.
pub(super) fn register(state: &mut SessionState) -> Result<()> {
    for (name, makes) in BOUNDED {
        let inner = state.udf(name)?;
        state.register_udf(Arc::new(ScalarUDF::from(Bounded { inner, makes, shares: 1 })))?;
    }
    Ok(())
}

/// What each of so many that hold what they make at a time may make.
fn limit(shares: usize, options: &ConfigOptions) -> u128 {
    let limit = options.extensions.get::<StatementLimits>().map_or(u64::MAX, |limits| limits.memory_bytes);
    u128::from(limit) / shares.max(1) as u128
}

/// Refuses to make so many bytes where `what` may make fewer.
fn within_limit(what: &str, bytes: u128, shares: usize, options: &ConfigOptions) -> Result<()> {
    let limit = limit(shares, options);
    if bytes <= limit {
        return Ok(());
    }
    let each = if shares > 1 { format!(" for each of {shares} columns") } else { String::new() };
    let message = format!("{what} would make {bytes} bytes, and the statement may hold {limit}{each}");
    Err(DataFusionError::ResourcesExhausted(message))
}

/// A function that asks first.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    makes: Makes,
    /// How many columns of its node of the plan are made by such functions.
    shares: usize,
}

impl Bounded {
    /// Does the work in pieces which each make no more than is allowed, until all of them have made more: where only the work tells how
    /// much it makes, it was told too much.
    fn in_pieces(&self, args: &ScalarFunctionArgs, told: &[u128]) -> Result<ArrayRef> {
        let limit = limit(self.shares, &args.config_options);
        let (mut made, mut bytes, mut from): (Vec<ArrayRef>, u128, usize) = (Vec::new(), 0, 0);
        while from < told.len() {
            let (mut to, mut of_piece) = (from + 1, told[from]);
            while to < told.len() && of_piece + told[to] <= limit {
                of_piece += told[to];
                to += 1;
            }
            within_limit(self.name(), of_piece, self.shares, &args.config_options)?;
            let slice = |arg: &ColumnarValue| match arg {
                ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(from, to - from)),
                ColumnarValue::Scalar(scalar) => ColumnarValue::Scalar(scalar.clone()),
            };
            let piece = ScalarFunctionArgs {
                args: args.args.iter().map(slice).collect(),
                arg_fields: args.arg_fields.clone(),
                number_rows: to - from,
                return_field: Arc::clone(&args.return_field),
                config_options: Arc::clone(&args.config_options),
            };
            let piece = self.inner.invoke_with_args(piece)?.into_array(to - from)?;
            bytes += u128::from(Widths::of(piece.as_ref()).sum());
            within_limit(self.name(), bytes, self.shares, &args.config_options)?;
            made.push(piece);
            from = to;
        }
        let made: Vec<&dyn Array> = made.iter().map(|piece| piece.as_ref()).collect();
        Ok(concat(&made)?)
    }
}

impl ScalarUDFImpl for Bounded {
    calls_passed_on!(
        name,
        aliases,
        signature,
        return_type,
        return_field_from_args,
        coerce_types,
        is_strict,
        documentation
    );

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let is_constant = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let rows = if is_constant { 1 } else { args.number_rows };
        let told = self.makes.of_rows(&args.args, rows);
        let bytes: u128 = told.iter().sum();
        if bytes <= limit(self.shares, &args.config_options) {
            return self.inner.invoke_with_args(args);
        }
        if is_constant || !self.makes.is_guess() {
            within_limit(self.name(), bytes, self.shares, &args.config_options)?;
        }
        self.in_pieces(&args, &told).map(ColumnarValue::Array)
    }
}

#[cfg(test)]
mod tests {
    use super::lists::{CASTS, NO_MORE_THAN_GIVEN, SMALL};
    use super::*;
    use crate::checked::testing::context;
    use datafusion::prelude::SessionContext;
    use std::collections::BTreeSet;

    /// A session whose statements may hold so much, in batches of 1,000 rows.
    fn within(memory_bytes: u64) -> SessionContext {
        let mut state = context().state();
        let options = state.config_mut().options_mut();
        options.extensions.insert(StatementLimits { memory_bytes });
        options.execution.batch_size = "1000".parse().unwrap();
        SessionContext::new_with_state(state)
    }

    async fn refusal(context: &SessionContext, sql: &str) -> Option<String> {
        let answered = async { context.sql(sql).await?.collect().await };
        answered.await.err().map(|error| error.to_string())
    }

    #[test]
    fn every_function_is_counted_or_cannot_make_much() {
        let bounded = BOUNDED.iter().map(|(name, _)| *name);
        let all: Vec<&str> = bounded.chain([SMALL, NO_MORE_THAN_GIVEN, CASTS].concat()).collect();
        let known: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(known.len(), all.len(), "a function is in two lists");
        let context = context();
        let state = context.state();
        let registered: BTreeSet<&str> = state.scalar_functions().values().map(|function| function.name()).collect();
        let new: Vec<&&str> = registered.difference(&known).collect();
        assert!(new.is_empty(), "say in lists.rs whether these can make much of little, and why not: {new:?}");
    }

    #[tokio::test]
    async fn what_would_take_too_much_is_refused_before_it_is_made() {
        let context = within(10_000_000);
        for sql in [
            "SELECT array_repeat(1, 2000000000)",
            "SELECT list_repeat(1, 2000000000)",
            "SELECT array_resize([1], 2000000000, 7)",
            "SELECT array_resize([1], 2000000000)",
            "SELECT length(replace(repeat('a', 100000), 'a', repeat('b', 100000)))",
            "SELECT length(regexp_replace(repeat('a', 100000), 'a', repeat('b', 100000), 'g'))",
            "SELECT length(concat_ws(repeat('a', 2000000), 1, 2, 3, 4, 5, 6, 7, 8))",
            "SELECT array_replace_all(array_repeat('a', 100000), 'a', repeat('b', 100000))",
            "SELECT length(array_to_string(array_repeat('a', 100000), repeat('b', 100000)))",
            "SELECT generate_series(TIMESTAMP '2000-01-01', TIMESTAMP '2026-01-01', INTERVAL '1 microsecond')",
            "SELECT cardinality(l || l) FROM (SELECT range(1, 1000000) AS l)",
            "SELECT length(s || s) FROM (SELECT repeat('x', 4000000) || repeat('y', 4000000) AS s)",
            "SELECT [s, s, s] FROM (SELECT repeat(value::text, 2000) AS s FROM generate_series(1, 2000))",
            "SELECT length(format(repeat('%1$s', 100000), repeat('x', 100000)))",
            "SELECT array_agg(repeat('x', 1000000)) FROM generate_series(1, 9000)",
            "SELECT length(string_agg(repeat('x', 1000000), ',')) FROM generate_series(1, 9000)",
            "SELECT length(string_agg(value::text, repeat('x', 100000))) FROM generate_series(1, 9000)",
            "SELECT repeat('x', 1000000), value FROM generate_series(1, 9000)",
        ] {
            let refusal = refusal(&context, sql).await;
            let refusal = refusal.unwrap_or_else(|| panic!("it is answered: {sql}"));
            assert!(refusal.contains("may hold"), "{sql}: {refusal}");
        }
        let refused = refusal(&context, "SELECT arrow_cast(NULL, 'FixedSizeBinary(2000000000)')").await;
        assert!(refused.is_some_and(|refused| refused.contains("every value takes")), "a type is wide");
    }

    #[tokio::test]
    async fn what_the_statement_may_hold_is_made() {
        let context = within(10_000_000);
        for (sql, want) in [
            ("SELECT cardinality(array_repeat(1, 1000))", 1_000),
            ("SELECT cardinality(array_resize([1], 1000, 7))", 1_000),
            ("SELECT length(replace(repeat('a', 1000), 'a', 'bc'))", 2_000),
            ("SELECT length(repeat('a', 5000000))", 5_000_000),
            ("SELECT sum(length(value::text || '-' || value::text)) FROM generate_series(1, 9)", 27),
            ("SELECT sum(length(NULL || value::text)) IS NULL FROM generate_series(1, 9)", 1),
            ("SELECT cardinality([1, 2] || 3)", 3),
            ("SELECT count(*) FROM generate_series(1, 9000) WHERE value::text = repeat('x', 1000000)", 0),
            // Told by its length, one pattern in a text of 10,000 characters could match everywhere.
            (
                "SELECT max(length(regexp_replace(repeat(value::text, 1000), '^1', repeat('b', 100), 'g'))) FROM generate_series(1, 500)",
                3_099,
            ),
        ] {
            let rows = crate::checked::testing::rows(&context, sql).await.unwrap();
            assert_eq!(rows, [[Some(want)]], "{sql}");
        }
    }
}
