//! Text literals that meet a BOOLEAN, a TIMESTAMP, a TIME, a UUID, a JSONB or a CHAR(n).
//!
//! Invariants:
//! - Text that a BOOLEAN or a TIMESTAMP is compared with is read by what reads it for INSERT, so whatever can be stored can be asked for.
//! - In lists and ranges that holds on either side, if what the text meets is of one type; in `CASE x WHEN 'text'` behind WHEN; and in `coalesce`.
//!   Other functions (`NULLIF`) are not asked: what they take is theirs to say.
//! - A literal that is cast to a TIMESTAMP may do without seconds, as one that is compared with one.
//! - Text that is computed is not compared with a UUID: that there is no such operator is an error (42883).
//! - Text that is no BOOLEAN, TIME or UUID is an error. Of a TIMESTAMP, what INSERT does not read is left as it is: DataFusion takes a few forms more,
//!   and has its error for the rest. So is what INSERT would round, where the other side is finer than what is stored.
//!
//! DataFusion 55.2 knows no type in common for a boolean and text, and its times want seconds.

use crate::expressions::changed_as_written;
use alluvia_functions::bytes::text_literal;
use alluvia_functions::casts::kinds::{Kind, UUID, kind_of};
use alluvia_functions::casts::pg_typeof::type_name;
use alluvia_functions::casts::typed;
use alluvia_functions::datetime::session_zone::session_zone;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use alluvia_values::parse::{parse_bool, parse_timestamp, shown};
use alluvia_values::time_of_day::parse_time;
use alluvia_values::time_zone::{Zone, parse_timestamptz};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Cast, InList};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Between, BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans comparisons with text. Here, since the types of a statement's columns follow from them; but what is compared with a TIMESTAMPTZ is
/// for [`ListedText`], which knows the session's time zone.
#[derive(Debug)]
pub struct ComparedText;

impl ExprPlanner for ComparedText {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
        let RawBinaryExpr { op, mut left, mut right } = expr;
        if matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq) && !read(&mut right, &left, schema, None)? {
            read(&mut left, &right, schema, None)?;
            refuse_texts(&op, &left, &right, schema)?;
        }
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

/// Refuses a UUID beside a text that is computed, whose bytes DataFusion would compare.
fn refuse_texts(op: &BinaryOperator, left: &Expr, right: &Expr, schema: &DFSchema) -> Result<()> {
    let (Ok(of_left), Ok(of_right)) = (left.get_type(schema), right.get_type(schema)) else { return Ok(()) };
    let is_read = |of: &DataType| *of == UUID || of.is_null();
    if (of_left == UUID) == (of_right == UUID) || is_read(&of_left) && is_read(&of_right) {
        return Ok(());
    }
    let message = format!("operator does not exist: {} {op} {}", type_name(&of_left), type_name(&of_right));
    let hint = "cast the other side to UUID: x::uuid";
    Err(wrap(Error::new(ErrorKind::UndefinedFunction, message).with_hint(hint)))
}

/// The same for comparisons that are planned without asking: lists, ranges, CASE, IS DISTINCT FROM, and all with a TIMESTAMPTZ. Types must
/// not have been coerced.
#[derive(Debug)]
pub struct ListedText;

impl AnalyzerRule for ListedText {
    fn name(&self) -> &str {
        "listed_text"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let zone = session_zone(config);
        changed_as_written(plan, meets_text, |expr, schema| compared(expr, schema, &zone))
    }
}

fn meets_text(expr: &Expr) -> bool {
    let is_text = |expr: &Expr| text_literal(expr).is_some();
    match expr {
        Expr::InList(InList { expr, list, .. }) => is_text(expr) || list.iter().any(is_text),
        Expr::Between(Between { expr, low, high, .. }) => is_text(expr) || is_text(low) || is_text(high),
        Expr::Case(Case { expr: Some(_), when_then_expr, .. }) => when_then_expr.iter().any(|(when, _)| is_text(when)),
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let is_read = |expr: &Expr| match is_distinction(*op) {
                true => is_text(expr),
                // Others were read where they were planned.
                false => text_literal(expr).flatten().is_some_and(may_be_moment),
            };
            is_comparison(*op) && (is_read(left) || is_read(right))
        }
        Expr::Cast(Cast { expr, field }) => is_text(expr) && matches!(field.data_type(), DataType::Timestamp(..)),
        Expr::ScalarFunction(function) => function.name() == "coalesce" && function.args.iter().any(is_text),
        _ => false,
    }
}

fn is_distinction(op: Operator) -> bool {
    matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
}

/// Whether a text begins as a date does: most texts do not, and are told apart without walking through what is around them.
fn may_be_moment(text: &str) -> bool {
    let text = text.trim_start().trim_start_matches(['+', '-']).as_bytes();
    text.len() >= 8 && text[..4].iter().all(u8::is_ascii_digit)
}

fn is_comparison(op: Operator) -> bool {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom)
}

fn compared(mut expr: Expr, schema: &DFSchema, zone: &Zone) -> Result<Transformed<Expr>> {
    let zone = Some(zone);
    if let Expr::Cast(Cast { expr: literal, field }) = &expr {
        return Ok(match read_moment(literal, field.data_type(), zone) {
            Some(moment) => Transformed::yes(Expr::Literal(moment, None)),
            None => Transformed::no(expr),
        });
    }
    let is_changed = match &mut expr {
        Expr::InList(InList { expr: of, list, .. }) => {
            let mut any = read_beside(of, list.iter(), schema, zone)?;
            for member in list {
                any |= read(member, of, schema, zone)?;
            }
            any
        }
        Expr::Between(Between { expr: of, low, high, .. }) => {
            let mut any = read_beside(of, [&**low, &**high], schema, zone)?;
            for end in [low, high] {
                any |= read(end, of, schema, zone)?;
            }
            any
        }
        Expr::Case(Case { expr: Some(of), when_then_expr, .. }) => {
            let mut any = false;
            for (when, _) in when_then_expr {
                any |= read(when, of, schema, zone)?;
            }
            any
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => {
            read(right, left, schema, zone)? || read(left, right, schema, zone)?
        }
        // What other functions take beside a value is theirs to say.
        Expr::ScalarFunction(function) if function.name() == "coalesce" => {
            let others = function.args.clone();
            let mut any = false;
            for arg in &mut function.args {
                any |= read_beside(arg, &others, schema, zone)?;
            }
            any
        }
        _ => false,
    };
    Ok(if is_changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// Reads a literal as the type of what it is compared with, and says whether it did.
fn read(literal: &mut Expr, beside: &Expr, schema: &DFSchema, zone: Option<&Zone>) -> Result<bool> {
    if text_literal(literal).is_none() {
        return Ok(false);
    }
    let Ok(wanted) = beside.get_type(schema) else { return Ok(false) };
    match kind_beside(beside, &wanted, schema) {
        Some(kind) => read_kind(literal, kind),
        None => read_as(literal, &wanted, zone),
    }
}

/// The kind that a literal beside an expression becomes, where its type does not tell. What chains of texts are is not asked for, since each
/// level would name all below it.
fn kind_beside(beside: &Expr, wanted: &DataType, schema: &DFSchema) -> Option<Kind> {
    if *wanted == UUID {
        return Some(Kind::Uuid);
    }
    if !wanted.is_string() || matches!(beside, Expr::BinaryExpr(_)) {
        return None;
    }
    let (_, field) = beside.to_field(schema).ok()?;
    Some(kind_of(&field)).filter(|kind| matches!(kind, Kind::Jsonb | Kind::Char))
}

fn read_kind(literal: &mut Expr, kind: Kind) -> Result<bool> {
    let Some(Some(text)) = text_literal(literal) else { return Ok(false) };
    *literal = typed::literal(text, kind)?;
    Ok(true)
}

/// The same of a literal that is compared with several: as the type of those that are neither texts themselves nor NULL, if it is one.
fn read_beside<'a>(
    literal: &mut Expr,
    several: impl IntoIterator<Item = &'a Expr>,
    schema: &DFSchema,
    zone: Option<&Zone>,
) -> Result<bool> {
    if text_literal(literal).is_none() {
        return Ok(false);
    }
    let mut wanted: Option<DataType> = None;
    let mut kind = None;
    for one in several.into_iter().filter(|one| text_literal(one).is_none()) {
        match one.get_type(schema) {
            Ok(DataType::Null) => {}
            Ok(found) if wanted.as_ref().is_none_or(|wanted| *wanted == found) => {
                kind = kind.or_else(|| kind_beside(one, &found, schema));
                wanted = Some(found);
            }
            _ => return Ok(false),
        }
    }
    match (wanted, kind) {
        (_, Some(kind)) => read_kind(literal, kind),
        (Some(wanted), None) => read_as(literal, &wanted, zone),
        (None, None) => Ok(false),
    }
}

fn read_as(literal: &mut Expr, wanted: &DataType, zone: Option<&Zone>) -> Result<bool> {
    let Some(Some(text)) = text_literal(literal) else { return Ok(false) };
    let Some(value) = value_of(text, wanted, zone)? else { return Ok(false) };
    *literal = Expr::Literal(value, None);
    Ok(true)
}

/// What a text means as a value of this type; `None` where DataFusion is to say, and of a TIMESTAMPTZ while the session's time zone is not
/// known.
pub fn value_of(text: &str, wanted: &DataType, session: Option<&Zone>) -> Result<Option<ScalarValue>> {
    match wanted {
        DataType::Boolean => match parse_bool(text.as_bytes()) {
            Ok(value) => Ok(Some(ScalarValue::Boolean(Some(value)))),
            Err(bad) => {
                let message = bad.describe(&shown(text.as_bytes()), "BOOLEAN");
                Err(wrap(Error::new(bad.kind(), message).with_hint("write true or false")))
            }
        },
        DataType::Time64(TimeUnit::Microsecond) => match parse_time(text.as_bytes()) {
            Ok(micros) => Ok(Some(ScalarValue::Time64Microsecond(Some(micros)))),
            Err(bad) => Err(wrap(Error::new(bad.kind(), bad.describe(&shown(text.as_bytes()), "TIME")))),
        },
        DataType::Timestamp(TimeUnit::Microsecond | TimeUnit::Nanosecond, zone)
            if zone.as_deref().is_none_or(|zone| matches!(zone, "UTC" | "+00:00")) =>
        {
            let is_rounded =
                matches!(wanted, DataType::Timestamp(TimeUnit::Nanosecond, _)) && is_finer_than_micros(text);
            let micros = match (zone, session) {
                (None, _) => parse_timestamp(text.as_bytes()),
                (Some(_), Some(session)) => parse_timestamptz(text.as_bytes(), session),
                (Some(_), None) => return Ok(None),
            };
            let micros = micros.ok().filter(|_| !is_rounded);
            let value = micros.map(|micros| ScalarValue::TimestampMicrosecond(Some(micros), zone.clone()));
            Ok(value.and_then(|value| value.cast_to(wanted).ok()))
        }
        _ => Ok(None),
    }
}

/// A text that is cast to a TIMESTAMP, of a form that INSERT reads and DataFusion does not: without seconds, or of another zone than UTC.
fn read_moment(literal: &Expr, wanted: &DataType, session: Option<&Zone>) -> Option<ScalarValue> {
    let text = text_literal(literal)??;
    let is_in_zone =
        session.is_some_and(|session| !session.is_utc()) && matches!(wanted, DataType::Timestamp(_, Some(_)));
    let is_read = !is_in_zone && ScalarValue::Utf8(Some(text.to_owned())).cast_to(wanted).is_ok();
    value_of(text, wanted, session).ok()?.filter(|_| !is_read)
}

/// Whether a moment has more than six digits behind its point.
fn is_finer_than_micros(text: &str) -> bool {
    text.split_once('.').is_some_and(|(_, fraction)| fraction.bytes().take_while(u8::is_ascii_digit).count() > 6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_space::DataType as Stored;
    use alluvia_values::builders::{ColumnBuilder, TextAs};

    /// What INSERT stores of a text, if anything.
    fn stored(text: &str, data_type: Stored) -> Option<ScalarValue> {
        let mut builder = ColumnBuilder::new(data_type, TextAs::Plain, 1);
        builder.append(text.as_bytes()).ok()?;
        ScalarValue::try_from_array(&builder.finish(), 0).ok()
    }

    #[test]
    fn text_means_what_insert_makes_of_it() {
        let texts = [
            "yes",
            "ON",
            "t",
            "1",
            " true ",
            "no",
            "off",
            "F",
            "0",
            "maybe",
            "",
            "2",
            "2026-11-01T10:00",
            "2026-11-01",
            "2026-11-01 10:00+02",
            "2026-11-01 10:00:01.1234567",
            "2026-11-01 10:00Z",
            "9999-12-31 24:00",
            "10:00",
            "2026-02-30",
            "infinity",
            "-0044-03-15 12:00",
        ];
        let mut read = 0;
        for text in texts {
            for data_type in [Stored::Boolean, Stored::Timestamp, Stored::TimestampTz] {
                let wanted = stored(text, data_type);
                let found = value_of(text, &data_type.to_arrow(), Some(&Zone::utc())).ok().flatten();
                assert_eq!(found, wanted, "{text} as {data_type:?}");
                read += usize::from(found.is_some());
            }
        }
        assert_eq!(read, 9 + 2 * 7, "every form above that INSERT takes");
    }

    #[test]
    fn moments_that_nanoseconds_cannot_hold_are_left_alone() {
        let nanos = DataType::Timestamp(TimeUnit::Nanosecond, None);
        assert!(value_of("2026-11-01T10:00", &nanos, None).unwrap().is_some());
        assert!(value_of("9999-12-31", &nanos, None).unwrap().is_none());
        let second = 1_793_527_201_000_000_000;
        for (fraction, read) in [(".123456", Some(123_456_000)), (".1234565", None), (".123456001Z", None)] {
            let value = read.map(|nanos| ScalarValue::TimestampNanosecond(Some(second + nanos), None));
            assert_eq!(value_of(&format!("2026-11-01 10:00:01{fraction}"), &nanos, None).unwrap(), value);
        }
        assert!(
            value_of("maybe", &DataType::Boolean, None).is_err()
                && value_of("7", &DataType::Int32, None).unwrap().is_none()
        );
    }
}
