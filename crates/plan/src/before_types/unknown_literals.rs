//! Quoted literals among the results of a CASE and the columns of a UNION, as `CASE WHEN n > 0 THEN n ELSE '0' END`.
//!
//! Invariants:
//! - A quoted literal beside numbers alone is a number, and one beside booleans alone a boolean, or the statement fails with SQLSTATE 22P02:
//!   as in PostgreSQL such a literal has no type of its own. One beside text stays text.
//! - In a UNION that are literals which a SELECT of it has as a column by themselves.
//! - What else a literal may stand beside (dates, moments, bytes) is brought together elsewhere, and left alone here.
//!
//! DataFusion 55.2 makes text of numbers that stand beside text, and knows no type in common for booleans and text. It takes a CASE for what
//! its first result is while it plans: where that is a literal, [`text_beside`](alluvia_functions::internal::text_beside) says what is beside it.

use super::literals::value_of;
use crate::expressions::{changed_as_written, parts_of_case};
use alluvia_functions::bytes::text_literal;
use alluvia_functions::casts::kinds::Kind;
use alluvia_functions::casts::typed;
use alluvia_functions::internal::text_beside::read_as;
use alluvia_types::Error;
use alluvia_values::calls::TEXT_BESIDE;
use alluvia_values::decimal::written_decimal;
use alluvia_values::errors::wrap;
use alluvia_values::parse::{Bad, parse_decimal, parse_f32, parse_f64, parse_i64, shown};
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Case, Distinct, Expr, ExprSchemable, LogicalPlan, Projection, Union};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::scalar::ScalarValue;
use std::sync::Arc;

/// Gives literals the type of what they are beside. Types must not have been coerced.
#[derive(Debug)]
pub struct UnknownTexts;

impl AnalyzerRule for UnknownTexts {
    fn name(&self) -> &str {
        "unknown_texts"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(in_union)?.data;
        changed_as_written(plan, has_text, in_case)
    }
}

fn has_text(expr: &Expr) -> bool {
    let Expr::Case(Case { when_then_expr, else_expr, .. }) = expr else { return false };
    let mut results = when_then_expr.iter().map(|(_, then)| then).chain(else_expr);
    results.any(|result| text_of(result).is_some() || is_known_beside(result))
}

/// Whether it is a parameter that turned out to be no text. What it is beside would be computed where CASE does not come to it.
fn is_known_beside(expr: &Expr) -> bool {
    let Expr::ScalarFunction(function) = expr else { return false };
    let is_known = |of: &Expr| of.get_type(&DFSchema::empty()).is_ok_and(|of| !of.is_string());
    function.name() == TEXT_BESIDE && function.args.first().is_some_and(is_known)
}

/// The text that a result or a column is, if it is a literal.
fn text_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Alias(alias) => text_of(&alias.expr),
        Expr::ScalarFunction(function) if function.name() == TEXT_BESIDE => function.args.first().and_then(text_of),
        other => text_literal(other).flatten(),
    }
}

fn in_case(mut expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::Case(case) = &mut expr else { return Ok(Transformed::no(expr)) };
    let (_, mut results) = parts_of_case(case);
    let mut is_changed = false;
    for result in &mut results {
        if let Expr::ScalarFunction(function) = &mut **result
            && function.name() == TEXT_BESIDE
            && !function.args.is_empty()
        {
            let text = function.args.swap_remove(0);
            **result = text;
            is_changed = true;
        }
    }
    let others = results.iter().filter(|result| text_of(result).is_none()).map(|result| result.get_type(schema).ok());
    let wanted = others.collect::<Option<Vec<DataType>>>().and_then(|others| read_as(&others));
    if let Some(wanted) = wanted {
        for result in results {
            if let Some(value) = text_of(result).map(|text| read(text, &wanted)).transpose()? {
                *result = Expr::Literal(value, None);
                is_changed = true;
            }
        }
    }
    Ok(if is_changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

fn in_union(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Union(union) = plan else { return Ok(Transformed::no(plan)) };
    let mut values: Vec<Vec<Option<ScalarValue>>> = vec![Vec::new(); union.inputs.len()];
    let mut is_changed = false;
    for at in 0..union.schema.fields().len() {
        let others = union.inputs.iter().filter(|input| text_in(input, at).is_none());
        let others: Option<Vec<DataType>> =
            others.map(|input| Some(input.schema().fields().get(at)?.data_type().clone())).collect();
        let wanted = others.filter(|others| others.len() < union.inputs.len()).and_then(|others| read_as(&others));
        for (input, values) in union.inputs.iter().zip(&mut values) {
            let text = wanted.as_ref().and_then(|wanted| Some((text_in(input, at)?, wanted)));
            let value = text.map(|(text, wanted)| read(text, wanted)).transpose()?;
            is_changed |= value.is_some();
            values.push(value);
        }
    }
    if !is_changed {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union.inputs.into_iter().zip(values).map(|(input, values)| {
        if values.iter().all(Option::is_none) {
            return Ok(input);
        }
        Ok(Arc::new(with_values(Arc::unwrap_or_clone(input), &values)?))
    });
    let inputs = inputs.collect::<Result<Vec<Arc<LogicalPlan>>>>()?;
    Ok(Transformed::yes(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?)))
}

/// The text that a query selects as a column by itself.
fn text_in(query: &LogicalPlan, at: usize) -> Option<&str> {
    match query {
        LogicalPlan::Projection(projection) => projection.expr.get(at).and_then(text_of),
        LogicalPlan::Limit(limit) => text_in(&limit.input, at),
        LogicalPlan::Sort(sort) => text_in(&sort.input, at),
        LogicalPlan::Distinct(Distinct::All(input)) => text_in(input, at),
        _ => None,
    }
}

/// The query with these values in the place of its columns, which keep their names.
fn with_values(query: LogicalPlan, values: &[Option<ScalarValue>]) -> Result<LogicalPlan> {
    let changed = query.transform_down(|plan| {
        let LogicalPlan::Projection(projection) = plan else { return Ok(Transformed::no(plan)) };
        let Projection { expr, input, .. } = projection;
        let columns = expr.into_iter().zip(values).map(|(column, value)| match value {
            Some(value) => in_place_of(column, value.clone()),
            None => column,
        });
        let projection = Projection::try_new(columns.collect(), input)?;
        Ok(Transformed::new(LogicalPlan::Projection(projection), true, TreeNodeRecursion::Stop))
    })?;
    Ok(changed.data)
}

fn in_place_of(column: Expr, value: ScalarValue) -> Expr {
    let value = Expr::Literal(value, None);
    match column {
        Expr::Alias(mut alias) => {
            *alias.expr = value;
            Expr::Alias(alias)
        }
        other => value.alias(other.schema_name().to_string()),
    }
}

/// What a text is as a value of this type. A decimal has as many digits as are written.
fn read(text: &str, wanted: &DataType) -> Result<ScalarValue> {
    let value = match wanted {
        DataType::FixedSizeBinary(16) => match typed::literal(text, Kind::Uuid)? {
            Expr::Literal(value, _) => return Ok(value),
            _ => Err(Bad::Form),
        },
        DataType::Boolean => match value_of(text, wanted, None)? {
            Some(value) => return Ok(value),
            None => Err(Bad::Form),
        },
        DataType::Decimal128(_, scale) => decimal(text, *scale),
        DataType::Float32 => parse_f32(text.as_bytes()).map(|value| ScalarValue::Float32(Some(value))),
        of if of.is_floating() => parse_f64(text.as_bytes()).map(|value| ScalarValue::Float64(Some(value))),
        of if of.is_integer() => parse_i64(text.as_bytes()).map(|value| ScalarValue::Int64(Some(value))),
        _ => Ok(ScalarValue::from(text)),
    };
    let value = match (value, wanted) {
        (Ok(value), DataType::Decimal128(..)) => Ok(value),
        (Ok(value), wanted) => value.cast_to(wanted).map_err(|_| Bad::Range),
        (Err(bad), _) => Err(bad),
    };
    value.map_err(|bad| {
        let message = bad.describe(&shown(text.as_bytes()), &alluvia_values::sql_type::sql_type(wanted));
        let hint = "a text in quotes has the type of what stands beside it in CASE and UNION: CAST the others to TEXT";
        wrap(Error::new(bad.kind(), message).with_hint(hint))
    })
}

fn decimal(text: &str, scale: i8) -> Result<ScalarValue, Bad> {
    const DIGITS_MAX: u8 = 38;
    let text = text.trim();
    if let Some(written) = written_decimal(text.strip_prefix('+').unwrap_or(text)) {
        let (precision, scale) = (written.precision, i8::try_from(written.scale).unwrap_or(0));
        return Ok(ScalarValue::Decimal128(Some(written.digits), precision, scale));
    }
    let digits = parse_decimal(text.as_bytes(), DIGITS_MAX, u8::try_from(scale).unwrap_or(0))?;
    Ok(ScalarValue::Decimal128(Some(digits), DIGITS_MAX, scale.max(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{context, rows, runtime};

    #[test]
    fn texts_are_read_as_numbers() {
        let decimal = |digits, precision, scale| ScalarValue::Decimal128(Some(digits), precision, scale);
        for (text, wanted, value) in [
            (" 5 ", DataType::Int32, Some(ScalarValue::Int32(Some(5)))),
            ("-7", DataType::Int64, Some(ScalarValue::Int64(Some(-7)))),
            ("3000000000", DataType::Int32, None),
            ("5.5", DataType::Int64, None),
            ("", DataType::Int64, None),
            ("1.234", DataType::Decimal128(10, 2), Some(decimal(1_234, 4, 3))),
            ("+1e1", DataType::Decimal128(10, 2), Some(decimal(1_000, 38, 2))),
            ("x", DataType::Decimal128(10, 2), None),
            (" 1e3", DataType::Float64, Some(ScalarValue::Float64(Some(1_000.0)))),
            ("1e999", DataType::Float64, None),
            ("Infinity", DataType::Float64, Some(ScalarValue::Float64(Some(f64::INFINITY)))),
            ("off", DataType::Boolean, Some(ScalarValue::Boolean(Some(false)))),
            ("maybe", DataType::Boolean, None),
        ] {
            assert_eq!(read(text, &wanted).ok(), value, "{text} as {wanted}");
        }
    }

    #[test]
    fn texts_beside_numbers_alone_are_numbers() {
        let (int, text) = (DataType::Int32, DataType::Utf8View);
        for (others, wanted) in [
            (vec![int.clone(), DataType::Null, DataType::Int64], Some(DataType::Int64)),
            (vec![DataType::Boolean], Some(DataType::Boolean)),
            (vec![int.clone(), text.clone()], None),
            (vec![DataType::Null], None),
            (vec![DataType::Date32], None),
            (vec![], None),
        ] {
            assert_eq!(read_as(&others), wanted, "{others:?}");
        }
    }

    #[test]
    fn queries_have_numbers() {
        for (sql, expected) in [
            ("SELECT max(CASE WHEN v > 0 THEN v ELSE '0' END) FROM (VALUES (8), (11)) t(v)", 11),
            ("SELECT max(x) FROM (SELECT 10 AS x UNION ALL SELECT '9') t", 10),
            ("SELECT max(x) FROM (SELECT '9' AS x UNION SELECT v FROM (VALUES (10)) t(v)) u", 10),
            ("SELECT count(x) FROM (SELECT true AS x UNION ALL SELECT 'no') u WHERE NOT x", 1),
        ] {
            assert_eq!(runtime().block_on(rows(&context(), sql)), Ok(vec![vec![Some(expected)]]), "{sql}");
        }
    }
}
