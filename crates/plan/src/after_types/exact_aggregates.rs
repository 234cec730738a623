//! Averages of BIGINT, and variances of integers and decimals, over exact sums.

use crate::expressions::changed;
use alluvia_functions::aggregates::exact::ExactAggregate;
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams, Cast, WindowFunction};
use datafusion::logical_expr::{AggregateUDF, Expr, ExprSchemable, LogicalPlan, WindowFunctionDefinition};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::sync::Arc;

/// Takes the casts to doubles that coercion puts in out of these functions, and ours in the place of DataFusion's.
#[derive(Debug)]
pub struct ExactSpreads;

impl AnalyzerRule for ExactSpreads {
    fn name(&self) -> &str {
        "exact_spreads"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let concerns = |expr: &Expr| match expr {
            Expr::AggregateFunction(call) => ExactAggregate::named(call.func.name()).is_some(),
            Expr::WindowFunction(call) => ExactAggregate::named(call.fun.name()).is_some(),
            _ => false,
        };
        changed(plan, concerns, |expr, schema| {
            Ok(match expr {
                Expr::AggregateFunction(mut call) => {
                    match ExactAggregate::named(call.func.name()).and_then(|of| exact(of, &mut call.params, schema)) {
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
    let (Some(of), [argument], false) =
        (ExactAggregate::named(call.fun.name()), params.args.as_slice(), params.distinct)
    else {
        return false;
    };
    let Some(inner) = counted(of, argument, schema) else { return false };
    params.args = vec![inner];
    call.fun = WindowFunctionDefinition::AggregateUDF(of.function());
    true
}

/// The function in the place of DataFusion's, whose argument is no double any more then.
fn exact(of: ExactAggregate, params: &mut AggregateFunctionParams, schema: &DFSchema) -> Option<Arc<AggregateUDF>> {
    let ([argument], false) = (params.args.as_slice(), params.distinct) else { return None };
    params.args = vec![counted(of, argument, schema)?];
    Some(of.function())
}

/// What a double was made of, if it is added up exactly.
fn counted(of: ExactAggregate, argument: &Expr, schema: &DFSchema) -> Option<Expr> {
    let Expr::Cast(Cast { expr, field }) = argument else { return None };
    let counts = match expr.get_type(schema).ok()? {
        DataType::Int64 => true,
        // 2^22 of the largest are added up exactly as doubles, and averages of decimals are decimals.
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::Decimal128(..) => of != ExactAggregate::Average,
        _ => false,
    };
    (counts && *field.data_type() == DataType::Float64).then(|| expr.as_ref().clone())
}
