//! Numbers of a sample, which are constants of the statement's text or its parameters.

use crate::statement::text_of;
use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, TableFactor, TableSample, TableSampleKind, UnaryOperator, Value,
};

/// What a number's place holds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Number {
    /// A number.
    Of(f64),
    /// NULL.
    Null,
    /// A parameter without a value.
    Unbound,
    /// Anything else.
    Other,
}

/// Reads a constant.
pub fn number_of(expr: &Expr) -> Number {
    match expr {
        Expr::Nested(inner) => number_of(inner),
        // As parameters are written into the text.
        Expr::Cast { expr, .. } => number_of(expr),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match number_of(expr) {
            Number::Of(number) => Number::Of(-number),
            other => other,
        },
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => number_of(expr),
        Expr::BinaryOp { left, op, right } => computed(number_of(left), op, number_of(right)),
        Expr::Value(value) => number_in(&value.value).unwrap_or_else(|| {
            let number = text_of(expr).and_then(|text| text.trim().parse().ok());
            number.map_or(Number::Other, Number::Of)
        }),
        _ => Number::Other,
    }
}

/// Sums, differences and products. Quotients are left out: of whole numbers they are whole.
fn computed(left: Number, op: &BinaryOperator, right: Number) -> Number {
    match (left, op, right) {
        (Number::Of(left), BinaryOperator::Plus, Number::Of(right)) => Number::Of(left + right),
        (Number::Of(left), BinaryOperator::Minus, Number::Of(right)) => Number::Of(left - right),
        (Number::Of(left), BinaryOperator::Multiply, Number::Of(right)) => Number::Of(left * right),
        _ => Number::Other,
    }
}

/// Reads a constant that is no text.
pub fn number_in(value: &Value) -> Option<Number> {
    match value {
        Value::Number(digits, _) => digits.replace('_', "").parse().ok().map(Number::Of),
        Value::Null => Some(Number::Null),
        Value::Placeholder(_) => Some(Number::Unbound),
        _ => None,
    }
}

fn sample_of(factor: &mut TableFactor) -> Option<&mut TableSample> {
    match factor {
        TableFactor::Table { sample: Some(sample), .. } => match sample {
            TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample) => Some(sample),
        },
        _ => None,
    }
}

/// Puts a parameter's value into the place of a seed, which is no expression and so is not found as one. `literal` gives the value
/// of a parameter by its name.
pub fn bind_seed<E>(factor: &mut TableFactor, literal: impl FnOnce(&str) -> Result<Expr, E>) -> Result<(), E> {
    let Some(seed) = sample_of(factor).and_then(|sample| sample.seed.as_mut()) else { return Ok(()) };
    let Value::Placeholder(name) = &seed.value.value else { return Ok(()) };
    let literal = literal(name)?;
    seed.value = match number_of(&literal) {
        Number::Of(number) => Value::Number(format!("{number:?}"), false).into(),
        Number::Null => Value::Null.into(),
        _ => Value::SingleQuotedString(literal.to_string()).into(),
    };
    Ok(())
}

/// The names of parameters that stand for numbers of a sample: those for whole numbers, and the others.
pub fn parameters_of(factor: &TableFactor) -> (Vec<&str>, Vec<&str>) {
    fn placeholder(value: &Value) -> Option<&str> {
        match value {
            Value::Placeholder(name) => Some(name),
            _ => None,
        }
    }
    fn of_expr(expr: &Expr) -> Option<&str> {
        match expr {
            Expr::Value(value) => placeholder(&value.value),
            _ => None,
        }
    }
    let (mut whole, mut others) = (Vec::new(), Vec::new());
    match factor {
        TableFactor::Table { sample: Some(sample), .. } => {
            let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = sample;
            others.extend(sample.quantity.as_ref().and_then(|quantity| of_expr(&quantity.value)));
            others.extend(sample.seed.as_ref().and_then(|seed| placeholder(&seed.value.value)));
        }
        TableFactor::Table { name, args: Some(args), .. } if super::thin::is_call(name) => {
            for arg in &args.args {
                if let FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } = arg {
                    match name.value.to_ascii_lowercase().as_str() {
                        "max_rows" => whole.extend(of_expr(expr)),
                        _ => others.extend(of_expr(expr)),
                    }
                }
            }
        }
        _ => {}
    }
    (whole, others)
}
