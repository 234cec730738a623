//! Functions, operators and constants that make much of little, held to the statement's memory.
//!
//! Invariant: what they would make of a batch is known before it is made; a statement that may not hold it fails, as one whose operators
//! need too much does. (DataFusion accounts for what operators hold, and not for what functions give: 2 GB of text came of a statement of
//! 30 characters, and a list of 2,000,000,000 numbers ended the process.)
//!
//! [`crate::table`] says which functions these are; [`estimate`] counts; [`joined`] is `||`; [`held`] is a constant that
//! is written out for every row. Rules of `alluvia_plan` (`after_types::output_size`, `optimizer::held_constants`) have them counted in plans.
//!
//! Mends apache/datafusion#5415, #12919 (in 55.2).
//! Held by `slt/errors.slt` (`length(repeat('x', 500000000))`, `cardinality(range(1, 50000000))`).

pub mod estimate;
pub mod held;
pub mod joined;

pub(crate) use joined::JOINED;

use crate::codec::{StateReader, StateWriter, Stateful};
use crate::delegate::delegate_scalar;
use crate::output_size::estimate::OutputSize;
use crate::table;
use alluvia_values::widths::Widths;
use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use datafusion_common::config::{ConfigExtension, ConfigOptions};
use datafusion_common::{DataFusionError, Result, extensions_options, internal_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl};
use std::sync::Arc;

extensions_options! {
    /// What one statement may use, for functions to know.
    pub struct StatementLimits {
        /// Bytes.
        pub memory_bytes: u64, default = u64::MAX
    }
}

impl StatementLimits {
    /// A statement that may hold so many bytes.
    pub fn new(memory_bytes: u64) -> StatementLimits {
        StatementLimits { memory_bytes }
    }
}

impl ConfigExtension for StatementLimits {
    const PREFIX: &'static str = "statement";
}

/// What each of so many that hold what they make at a time may make.
fn limit(shares: usize, options: &ConfigOptions) -> u128 {
    let limit = options.extensions.get::<StatementLimits>().map_or(u64::MAX, |limits| limits.memory_bytes);
    u128::from(limit) / shares.max(1) as u128
}

/// Refuses to make so many bytes where `what` may make fewer.
pub fn within_limit(what: &str, bytes: u128, shares: usize, options: &ConfigOptions) -> Result<()> {
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
pub struct Bounded {
    inner: Arc<ScalarUDF>,
    size: OutputSize,
    /// How many columns of its node of the plan are made by such functions.
    shares: usize,
}

impl Stateful for Bounded {
    const CODE: &'static str = "bounded";

    fn write(&self, state: &mut StateWriter) -> Result<()> {
        state.number(self.shares as i64);
        // What is counted is the table's own function, or DataFusion's: either is known by its name.
        match table::counted(self.name()) {
            Some(counted) if self.is_around_the_same_as(&counted) => state.scalar(&counted),
            _ => state.scalar(&self.inner),
        }
    }

    fn read(state: &mut StateReader<'_>) -> Result<Self> {
        let (shares, inner) = (state.number()?, state.scalar()?);
        match (table::output_size_of(inner.name()), usize::try_from(shares)) {
            (Some(size), Ok(shares)) => Ok(Bounded::new(inner, size, shares)),
            _ => internal_err!("{} is not counted", inner.name()),
        }
    }
}

impl Bounded {
    /// Whether another function counts the same one, in however many columns.
    fn is_around_the_same_as(&self, other: &ScalarUDF) -> bool {
        other.inner().downcast_ref::<Bounded>().is_some_and(|other| other.inner == self.inner)
    }

    /// Counts what `function` makes, which is one of `shares` columns. One that is counted already is counted anew.
    pub fn new(function: Arc<ScalarUDF>, size: OutputSize, shares: usize) -> Bounded {
        let counted = function.inner().downcast_ref::<Bounded>().map(|counted| Arc::clone(&counted.inner));
        Bounded { inner: counted.unwrap_or(function), size, shares }
    }

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
    delegate_scalar!(
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
        let told = self.size.of_rows(&args.args, rows);
        let bytes: u128 = told.iter().sum();
        if bytes <= limit(self.shares, &args.config_options) {
            return self.inner.invoke_with_args(args);
        }
        if is_constant || !self.size.is_guess() {
            within_limit(self.name(), bytes, self.shares, &args.config_options)?;
        }
        self.in_pieces(&args, &told).map(ColumnarValue::Array)
    }
}
