//! Values of parameters: as literals of the index's own words, and as literals in a statement's tree.
//!
//! Invariant: a value becomes the literal that a user would write for it, with its type where that is not plain, or the statement is
//! refused.

use crate::answer::Literal;
use crate::dialect::Kind;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::datatypes::{DataType as Arrow, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, ExactNumberInfo, Expr, Query, TimezoneInfo, TypedString, Value, visit_expressions,
    visit_expressions_mut,
};
use std::ops::ControlFlow;

/// Parameters that a statement has at most, as in PostgreSQL's protocol.
const PARAMETERS_MAX: usize = 65_535;

/// Stack for walking a statement's tree, which `dialect::depth` bounds.
const STACK_BYTES: usize = 32 << 20;

/// The highest number among a statement's parameters.
pub(super) fn number_of_parameters(kind: &Kind) -> Result<usize> {
    let Some(query) = query_of(kind) else { return Ok(0) };
    let mut highest = 0;
    let found = on_large_stack(|| {
        visit_expressions(query, |expr| match number_of(expr) {
            None => ControlFlow::Continue(()),
            Some(Ok(number)) => {
                highest = highest.max(number);
                ControlFlow::Continue(())
            }
            Some(Err(error)) => ControlFlow::Break(error),
        })
    });
    match found {
        ControlFlow::Continue(()) => Ok(highest),
        ControlFlow::Break(error) => Err(error),
    }
}

/// Puts values in the places of a statement's parameters; there is one for each.
pub(super) fn substitute(kind: &mut Kind, values: &[ScalarValue]) -> Result<()> {
    if values.is_empty() {
        return Ok(());
    }
    let Some(query) = query_of_mut(kind) else { return Ok(()) };
    let literals = values.iter().enumerate().map(|(at, value)| expression(value, at + 1));
    let literals = literals.collect::<Result<Vec<Expr>>>()?;
    let found = on_large_stack(|| {
        visit_expressions_mut(query, |expr| {
            match number_of(expr) {
                None => {}
                Some(Err(error)) => return ControlFlow::Break(error),
                Some(Ok(number)) => *expr = literals[number - 1].clone(),
            }
            ControlFlow::Continue(())
        })
    });
    match found {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn query_of(kind: &Kind) -> Option<&Query> {
    match kind {
        Kind::Query(query) | Kind::Explain { query, .. } => Some(query),
        Kind::Insert(insert) => Some(&insert.source),
        _ => None,
    }
}

fn query_of_mut(kind: &mut Kind) -> Option<&mut Query> {
    match kind {
        Kind::Query(query) | Kind::Explain { query, .. } => Some(query),
        Kind::Insert(insert) => Some(&mut insert.source),
        _ => None,
    }
}

fn on_large_stack<T>(walk: impl FnOnce() -> T) -> T {
    stacker::maybe_grow(1 << 20, STACK_BYTES, walk)
}

/// The number of a parameter, if the expression is one.
fn number_of(expr: &Expr) -> Option<Result<usize>> {
    let Expr::Value(value) = expr else { return None };
    let Value::Placeholder(name) = &value.value else { return None };
    let number = name.strip_prefix('$').and_then(|number| number.parse::<usize>().ok());
    Some(number.filter(|number| (1..=PARAMETERS_MAX).contains(number)).ok_or_else(|| {
        Error::new(ErrorKind::Syntax, format!("{name} is no parameter"))
            .with_hint(format!("parameters are $1 to ${PARAMETERS_MAX}"))
    }))
}

/// The value as the index reads constants; `None` where only a plan can.
pub(super) fn literal_of(value: &ScalarValue) -> Option<Literal> {
    Some(match value {
        ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)) | ScalarValue::LargeUtf8(Some(text)) => {
            Literal::Text(text.clone())
        }
        ScalarValue::Boolean(Some(value)) => Literal::Boolean(*value),
        ScalarValue::Date32(Some(_)) => Literal::Date(text_of(value)?),
        ScalarValue::TimestampMicrosecond(Some(_), None) => Literal::Time(text_of(value)?),
        _ if value.data_type().is_integer() && !value.is_null() => Literal::Number(text_of(value)?),
        _ => return None,
    })
}

fn text_of(value: &ScalarValue) -> Option<String> {
    match value.cast_to(&Arrow::Utf8).ok()? {
        ScalarValue::Utf8(text) => text,
        _ => None,
    }
}

/// The value as a statement's text would have it.
fn expression(value: &ScalarValue, number: usize) -> Result<Expr> {
    let refused = || {
        let message = format!("a value of type {} for parameter ${number} is not supported", value.data_type());
        Error::new(ErrorKind::NotSupported, message).with_hint("pass it as text, and cast the parameter")
    };
    if value.is_null() {
        return Ok(Expr::value(Value::Null));
    }
    let text = || text_of(value).ok_or_else(refused);
    let typed = |data_type: DataType| {
        let value = Value::SingleQuotedString(text()?).into();
        Ok(Expr::TypedString(TypedString { data_type, value, uses_odbc_syntax: false }))
    };
    let cast = |data_type: DataType| {
        let expr = Box::new(Expr::value(Value::SingleQuotedString(text()?)));
        Ok(Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None })
    };
    match value.data_type() {
        Arrow::Utf8 | Arrow::Utf8View | Arrow::LargeUtf8 => Ok(Expr::value(Value::SingleQuotedString(text()?))),
        Arrow::Boolean => Ok(Expr::value(Value::Boolean(*value == ScalarValue::Boolean(Some(true))))),
        integer if integer.is_integer() => Ok(Expr::value(Value::Number(text()?, false))),
        Arrow::Float32 => cast(DataType::Real),
        Arrow::Float64 => cast(DataType::DoublePrecision),
        Arrow::Decimal128(precision, scale) => {
            cast(DataType::Decimal(ExactNumberInfo::PrecisionAndScale(precision.into(), scale.into())))
        }
        Arrow::Date32 => typed(DataType::Date),
        Arrow::Timestamp(TimeUnit::Microsecond, None) => typed(DataType::Timestamp(None, TimezoneInfo::None)),
        Arrow::Timestamp(TimeUnit::Microsecond, Some(_)) => {
            typed(DataType::Timestamp(None, TimezoneInfo::WithTimeZone))
        }
        Arrow::Binary | Arrow::BinaryView | Arrow::LargeBinary => match value {
            ScalarValue::Binary(Some(bytes))
            | ScalarValue::BinaryView(Some(bytes))
            | ScalarValue::LargeBinary(Some(bytes)) => {
                let hexadecimal = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                Ok(Expr::value(Value::HexStringLiteral(hexadecimal)))
            }
            _ => Err(refused()),
        },
        _ => Err(refused()),
    }
}
