//! The operators of integers, and the rule that puts them and those of floats and decimals in place.

use super::expressions::changed;
use super::{floats, quotients};
use arrow::array::{ArrayRef, Datum};
use arrow::compute::kernels::numeric::{add, mul, neg, sub};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::utils::take_function_args;
use datafusion::common::{ExprSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::physical_expr_common::datum::apply;
use datafusion::scalar::ScalarValue;
use std::sync::{Arc, LazyLock};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Operation {
    Add,
    Subtract,
    Multiply,
    Negate,
}

impl Operation {
    fn of(operator: Operator) -> Option<Operation> {
        match operator {
            Operator::Plus => Some(Operation::Add),
            Operator::Minus => Some(Operation::Subtract),
            Operator::Multiply => Some(Operation::Multiply),
            _ => None,
        }
    }

    /// As EXPLAIN shows it.
    fn name(self) -> &'static str {
        match self {
            Operation::Add => "int_add",
            Operation::Subtract => "int_subtract",
            Operation::Multiply => "int_multiply",
            Operation::Negate => "int_negate",
        }
    }

    fn function(self) -> Arc<ScalarUDF> {
        static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 4]> = LazyLock::new(|| {
            use Operation::{Add, Multiply, Negate, Subtract};
            [Add, Subtract, Multiply, Negate].map(|operation| Arc::new(ScalarUDF::from(Checked::new(operation))))
        });
        Arc::clone(&FUNCTIONS[self as usize])
    }
}

/// One operator on integers of one type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Checked {
    operation: Operation,
    signature: Signature,
}

impl Checked {
    fn new(operation: Operation) -> Checked {
        let arguments = if operation == Operation::Negate { 1 } else { 2 };
        Checked { operation, signature: Signature::any(arguments, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        self.operation.name()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        // As the operator's own.
        Ok(match (self.operation, args) {
            (Operation::Add, [left, right]) => format!("{} + {}", left.schema_name(), right.schema_name()),
            (Operation::Subtract, [left, right]) => format!("{} - {}", left.schema_name(), right.schema_name()),
            (Operation::Multiply, [left, right]) => format!("{} * {}", left.schema_name(), right.schema_name()),
            (_, args) => format!("(- {})", args.iter().map(|arg| arg.schema_name().to_string()).collect::<String>()),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        Ok(arg_types[0].clone())
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if self.operation == Operation::Negate {
            let [value] = take_function_args(self.name(), args.args)?;
            return Ok(match value {
                ColumnarValue::Array(values) => ColumnarValue::Array(neg(values.as_ref())?),
                ColumnarValue::Scalar(value) => {
                    let negated = neg(value.to_array()?.as_ref())?;
                    ColumnarValue::Scalar(ScalarValue::try_from_array(&negated, 0)?)
                }
            });
        }
        let [left, right] = take_function_args(self.name(), args.args)?;
        let kernel: fn(&dyn Datum, &dyn Datum) -> std::result::Result<ArrayRef, ArrowError> = match self.operation {
            Operation::Add => add,
            Operation::Subtract => sub,
            _ => mul,
        };
        apply(&left, &right, kernel)
    }
}

/// Puts checked operators where integers are added, subtracted, multiplied or negated, where floats are, or are divided, and where decimals are divided. Types must have
/// been coerced.
#[derive(Debug)]
pub(crate) struct CheckedArithmetic;

impl AnalyzerRule for CheckedArithmetic {
    fn name(&self) -> &str {
        "checked_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        changed(plan, is_arithmetic, |expr, schema| Ok(checked_expr(expr, schema)))
    }
}

fn is_arithmetic(expr: &Expr) -> bool {
    match expr {
        Expr::Negative(_) => true,
        Expr::BinaryExpr(binary) => floats::operation(binary.op).is_some(),
        _ => false,
    }
}

fn checked_expr(expr: Expr, schema: &dyn ExprSchema) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let of = left.get_type(schema).ok();
            let function = match (of, right.get_type(schema).ok()) {
                (Some(of), Some(beside)) if of == beside && of.is_integer() => {
                    Operation::of(op).map(Operation::function)
                }
                (Some(of), Some(beside)) if of == beside && is_float(&of) => floats::operation(op),
                (Some(of), Some(beside)) if op == Operator::Divide => quotients::quotient(&of, &beside),
                _ => None,
            };
            match function {
                Some(function) => {
                    Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![*left, *right])))
                }
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        Expr::Negative(inner) => match inner.get_type(schema) {
            Ok(of) if of.is_signed_integer() => {
                let function = ScalarFunction::new_udf(Operation::Negate.function(), vec![*inner]);
                Transformed::yes(Expr::ScalarFunction(function))
            }
            Ok(of) if is_float(&of) => Transformed::yes(floats::negated(*inner)),
            _ => Transformed::no(Expr::Negative(inner)),
        },
        other => Transformed::no(other),
    }
}

fn is_float(of: &DataType) -> bool {
    matches!(of, DataType::Float32 | DataType::Float64)
}
