//! Averages of BIGINT, and variances and deviations of integers and decimals, from exact sums.
//!
//! Invariants:
//! - What is added up is exact: the value does not depend on the order of the rows, nor on the threads, and is the one that the index gives.
//! - Only the last step, a quotient (and a root), is rounded to a double.
//! - Types stay: all of these are doubles. So do names.
//!
//! DataFusion 55.2 makes doubles of all values first: the average of epochs in microseconds is off by microseconds, and numbers of 19 digits
//! that differ in their last have no variance. Variances as PostgreSQL has them of `numeric` (`numeric_stddev_internal`): n times the sum of
//! squares less the square of the sum, over n times n (or n - 1).
//!
//! DISTINCT is DataFusion's, and so are doubles.

mod accumulators;
mod sums;

use super::expressions::changed;
use accumulators::{Alone, Groups};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, Cast, WindowFunction};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, ExprSchemable, GroupsAccumulator, LogicalPlan, Signature,
    Volatility, WindowFunctionDefinition,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::sync::Arc;
use sums::{Exact, Squares, Total};

/// Takes the casts to doubles that coercion puts in out of these functions, and ours in the place of DataFusion's.
#[derive(Debug)]
pub(crate) struct ExactSpreads;

impl AnalyzerRule for ExactSpreads {
    fn name(&self) -> &str {
        "exact_spreads"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let concerns = |expr: &Expr| match expr {
            Expr::AggregateFunction(call) => Of::named(call.func.name()).is_some(),
            Expr::WindowFunction(call) => Of::named(call.fun.name()).is_some(),
            _ => false,
        };
        changed(plan, concerns, |expr, schema| {
            Ok(match expr {
                Expr::AggregateFunction(mut call) => {
                    match Of::named(call.func.name()).and_then(|of| exact(of, &mut call.params, schema)) {
                        Some(func) => Transformed::yes(Expr::AggregateFunction(AggregateFunction { func, ..call })),
                        None => Transformed::no(Expr::AggregateFunction(call)),
                    }
                }
                Expr::WindowFunction(mut call) => {
                    if exact_in_window(&mut call, schema) {
                        Transformed::yes(Expr::WindowFunction(call))
                    } else {
                        Transformed::no(Expr::WindowFunction(call))
                    }
                }
                expr => Transformed::no(expr),
            })
        })
    }
}

fn exact_in_window(call: &mut WindowFunction, schema: &DFSchema) -> bool {
    let params = &mut call.params;
    let (Some(of), [argument], false) = (Of::named(call.fun.name()), params.args.as_slice(), params.distinct) else {
        return false;
    };
    let Some(inner) = counted(of, argument, schema) else { return false };
    params.args = vec![inner];
    call.fun = WindowFunctionDefinition::AggregateUDF(of.function());
    true
}

/// The function in the place of DataFusion's, whose argument is no double any more then.
fn exact(of: Of, params: &mut AggregateFunctionParams, schema: &DFSchema) -> Option<Arc<AggregateUDF>> {
    let ([argument], false) = (params.args.as_slice(), params.distinct) else { return None };
    params.args = vec![counted(of, argument, schema)?];
    Some(of.function())
}

/// What a double was made of, if it is added up exactly.
fn counted(of: Of, argument: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::Cast(Cast { expr, field }) = argument else { return None };
    let counts = match expr.get_type(schema).ok()? {
        DataType::Int64 => true,
        // 2^22 of the largest are added up exactly as doubles, and averages of decimals are decimals.
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Decimal128(..) => of != Of::Average,
        _ => false,
    };
    (counts && *field.data_type() == DataType::Float64).then(|| expr.as_ref().clone())
}

/// What is made of sums.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Of {
    Average,
    Variance { of_sample: bool },
    Deviation { of_sample: bool },
}

impl Of {
    fn named(name: &str) -> Option<Of> {
        Some(match name {
            "avg" => Of::Average,
            "var" => Of::Variance { of_sample: true },
            "var_pop" => Of::Variance { of_sample: false },
            "stddev" => Of::Deviation { of_sample: true },
            "stddev_pop" => Of::Deviation { of_sample: false },
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Of::Average => "avg",
            Of::Variance { of_sample: true } => "var",
            Of::Variance { of_sample: false } => "var_pop",
            Of::Deviation { of_sample: true } => "stddev",
            Of::Deviation { of_sample: false } => "stddev_pop",
        }
    }

    fn function(self) -> Arc<AggregateUDF> {
        Arc::new(AggregateUDF::from(Exactly { of: self, signature: Signature::any(1, Volatility::Immutable) }))
    }
}

/// One of them.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Exactly {
    of: Of,
    signature: Signature,
}

impl AggregateUDFImpl for Exactly {
    fn name(&self) -> &str {
        self.of.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let fields = if self.of == Of::Average { Total::fields() } else { Squares::fields() };
        let field = |(part, of)| Field::new(format_state_name(args.name, part), of, true).into();
        Ok(fields.into_iter().map(field).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(match self.of {
            Of::Average => Box::new(Alone::<Total>::new(self.of, scale_of(&args))),
            _ => Box::new(Alone::<Squares>::new(self.of, scale_of(&args))),
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(match self.of {
            Of::Average => Box::new(Groups::<Total>::new(self.of, scale_of(&args))),
            _ => Box::new(Groups::<Squares>::new(self.of, scale_of(&args))),
        })
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Digits behind the point of what is added up.
fn scale_of(args: &AccumulatorArgs) -> i8 {
    match args.expr_fields.first().map(|field| field.data_type()) {
        Some(DataType::Decimal128(_, scale)) => *scale,
        _ => 0,
    }
}
