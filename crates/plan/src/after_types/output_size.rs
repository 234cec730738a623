//! The rule that has functions and operators counted wherever a statement names them: in its planning some are taken from DataFusion
//! itself, and not from those that are registered (`[a, b]`, `list || x`, `OVERLAY`).
//!
//! Invariant: a function that makes much of little is counted in every plan, and what the columns of one node may make together is
//! bounded: each has its share of the statement's memory. A type whose every value, and every NULL, has more than [`WIDTH_MAX`] bytes is
//! refused.
//!
//! Mends apache/datafusion#5415 (in 55.2).

use crate::expressions::changed_by_count;
use alluvia_functions::operators::type_of;
use alluvia_functions::output_size::Bounded;
use alluvia_functions::output_size::estimate::OutputSize;
use alluvia_functions::output_size::joined::{is_joined, joined};
use alluvia_functions::table;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::sync::Arc;

/// The widest values of one width.
const WIDTH_MAX: u64 = 1 << 20;

/// Puts counting functions in the place of those that make much of little. Types must have been coerced.
#[derive(Debug)]
pub struct CountedFunctions;

impl AnalyzerRule for CountedFunctions {
    fn name(&self) -> &str {
        "counted_functions"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        changed_by_count(plan, concerns, counted)
    }
}

/// What is counted of the function, if it is.
fn size_of(function: &ScalarFunction) -> Option<OutputSize> {
    let size_of = table::output_size_of(function.name())?;
    // A list that is written out is no longer than the statement, and other rules know it by its function.
    let is_written = function.name() == "make_array" && function.args.iter().all(is_written);
    (!is_written).then_some(size_of)
}

fn is_written(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) | Expr::Placeholder(_) => true,
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) | Expr::Negative(expr) => is_written(expr),
        _ => false,
    }
}

fn concerns(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(binary) => binary.op == Operator::StringConcat,
        Expr::ScalarFunction(function) => size_of(function).is_some() || is_cast(function),
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => width(field.data_type()) > WIDTH_MAX,
        _ => false,
    }
}

fn is_cast(function: &ScalarFunction) -> bool {
    table::is_cast(function.name())
}

fn counted(expr: Expr, schema: &DFSchema, shares: usize) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right }) => {
            let (of, other) = (type_of(&left, schema)?, type_of(&right, schema)?);
            if of == other && is_joined(&of) {
                return Ok(Transformed::yes(joined(*left, *right, shares)));
            }
            Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op: Operator::StringConcat, right })))
        }
        Expr::ScalarFunction(function) => {
            if is_cast(&function) {
                let cast = Expr::ScalarFunction(function);
                check_width(&cast.get_type(schema)?)?;
                return Ok(Transformed::no(cast));
            }
            let Some(size_of) = size_of(&function) else { return Ok(Transformed::no(Expr::ScalarFunction(function))) };
            let ScalarFunction { func, args } = function;
            let counted = Arc::new(ScalarUDF::from(Bounded::new(func, size_of, shares)));
            Ok(Transformed::yes(Expr::ScalarFunction(ScalarFunction { func: counted, args })))
        }
        Expr::Cast(Cast { ref field, .. }) | Expr::TryCast(TryCast { ref field, .. }) => {
            check_width(field.data_type())?;
            Ok(Transformed::no(expr))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Bytes of every value of a type, also of NULL.
fn width(of: &DataType) -> u64 {
    match of {
        DataType::FixedSizeBinary(bytes) => u64::try_from(*bytes).unwrap_or(0),
        DataType::FixedSizeList(element, count) => {
            width(element.data_type()).saturating_mul(u64::try_from(*count).unwrap_or(0))
        }
        DataType::Struct(fields) => fields.iter().map(|field| width(field.data_type())).fold(0, u64::saturating_add),
        DataType::List(element) | DataType::LargeList(element) => width(element.data_type()),
        DataType::Dictionary(_, values) => width(values),
        DataType::RunEndEncoded(_, values) => width(values.data_type()),
        _ => 16,
    }
}

fn check_width(of: &DataType) -> Result<()> {
    if width(of) <= WIDTH_MAX {
        return Ok(());
    }
    let message = format!("a cast to {of}, whose every value takes {} bytes, is not supported", width(of));
    Err(wrap(Error::new(ErrorKind::NotSupported, message).with_hint("cast to a type of any length: BYTEA, or a list")))
}
