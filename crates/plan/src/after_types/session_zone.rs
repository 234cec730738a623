//! What the time zone of a session means in expressions, in sessions of another zone than UTC; and in every session the moments, timestamps
//! and dates of texts that are cast.
//!
//! Invariants, as in PostgreSQL:
//! - A TIMESTAMPTZ is a moment of UTC in every plan. Where it becomes text, a TIMESTAMP, a DATE or a time, where it is made of one of these,
//!   where it is cut to a unit or has a part taken of it, and where days or months are added to it, clocks of the session's zone say what is
//!   made. The zone is then an argument: the expression means the same in every session.
//! - Values have the type that they had.
//! - A day, or a unit of the zone, that is compared with a constant is a range of moments, so that bounds of moments can skip what does not
//!   match; but where clocks show the constant's time, go back and show an earlier one, it is compared row by row.
//!
//! For the binder: `SET timezone = 'America/New_York'; SELECT count(*) FROM t WHERE at::date = '2025-12-31'`. A binder that knows the
//! session's zone makes these functions where it makes casts.

use crate::expressions::changed_in_session;
use alluvia_functions::datetime::date_trunc::{Truncated, starts_around};
use alluvia_functions::datetime::in_zone::{ZoneOperation, call, moment_type};
use alluvia_functions::datetime::now::Now;
use alluvia_functions::datetime::session_zone::session_zone;
use alluvia_functions::datetime::timezone::TimeZoned;
use alluvia_values::time_zone::Zone;
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{Between, Cast, InList, ScalarFunction, TryCast};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, ScalarUDF, cast, lit};
use datafusion::optimizer::analyzer::AnalyzerRule;
use datafusion::scalar::ScalarValue;
use std::sync::{Arc, LazyLock};

const DAY: i64 = 86_400_000_000;
/// SQL's TIMESTAMP.
const SHOWN: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);
/// Values of a list that become ranges.
const RANGES_MAX: usize = 32;

/// Puts functions of the session's time zone where casts and operators are. Types must have been coerced.
#[derive(Debug)]
pub struct SessionZone;

impl AnalyzerRule for SessionZone {
    fn name(&self) -> &str {
        "session_zone"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let zone = session_zone(config);
        if zone.is_utc() {
            let is_cast = |expr: &Expr| matches!(expr, Expr::Cast(_) | Expr::TryCast(_));
            return changed_in_session(plan, is_cast, |expr, schema| texts_read(expr, schema, &zone));
        }
        changed_in_session(plan, may_concern, |expr, schema| in_zone(expr, schema, &zone))
    }
}

fn may_concern(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Cast(_)
            | Expr::TryCast(_)
            | Expr::BinaryExpr(_)
            | Expr::ScalarFunction(_)
            | Expr::Between(_)
            | Expr::InList(_)
    ) || matches!(expr, Expr::AggregateFunction(function) if makes_json(function.func.name()))
}

fn is_moment(of: &DataType) -> bool {
    matches!(of, DataType::Timestamp(_, Some(_)))
}

fn is_text(of: &DataType) -> bool {
    match of {
        DataType::Dictionary(_, values) => values.is_string(),
        of => of.is_string(),
    }
}

/// Whether it is a list, at whatever depth, of moments.
fn has_moments(of: &DataType) -> bool {
    match of {
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => {
            has_moments(element.data_type())
        }
        of => is_moment(of),
    }
}

/// Whether it is a moment, or a list or row with some.
fn holds_moments(of: &DataType) -> bool {
    match of {
        DataType::List(element) => holds_moments(element.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_moments(field.data_type())),
        of => is_moment(of),
    }
}

/// Functions that write values as JSON.
fn makes_json(name: &str) -> bool {
    const NAMES: [&str; 12] = [
        "to_json",
        "to_jsonb",
        "array_to_json",
        "row_to_json",
        "json_build_object",
        "jsonb_build_object",
        "json_build_array",
        "jsonb_build_array",
        "json_agg",
        "jsonb_agg",
        "json_object_agg",
        "jsonb_object_agg",
    ];
    NAMES.contains(&name)
}

/// Arguments of which moments are written by a function itself; `None` if there are no moments.
fn written(
    args: &[Expr],
    schema: &DFSchema,
    zone: &Zone,
    operation: ZoneOperation,
    holds: fn(&DataType) -> bool,
) -> Option<Vec<Expr>> {
    let mut is_changed = false;
    let written = args.iter().map(|arg| match arg.get_type(schema) {
        Ok(of) if holds(&of) => {
            is_changed = true;
            call(operation, vec![arg.clone()], zone, None)
        }
        _ => arg.clone(),
    });
    let written: Vec<Expr> = written.collect();
    is_changed.then_some(written)
}

/// A cast of texts in a session of UTC.
fn texts_read(expr: Expr, schema: &DFSchema, zone: &Zone) -> Result<Transformed<Expr>> {
    let made = match &expr {
        Expr::Cast(Cast { expr: of, field }) => cast_of_text(of, field.data_type(), false, schema, zone),
        Expr::TryCast(TryCast { expr: of, field }) => cast_of_text(of, field.data_type(), true, schema, zone),
        _ => None,
    };
    Ok(made.map_or_else(|| Transformed::no(expr), Transformed::yes))
}

/// The cast of a text to a moment, a timestamp or a date, read as COPY and literals read it: DataFusion's wants seconds, takes no date with a
/// time for a date, and counts nanoseconds. What is written is known by its value, and stays.
fn cast_of_text(of: &Expr, to: &DataType, is_try: bool, schema: &DFSchema, zone: &Zone) -> Option<Expr> {
    let is_read = |to: &DataType| matches!(to, DataType::Timestamp(..) | DataType::Date32 | DataType::Date64);
    if !is_read(to) || matches!(of, Expr::Literal(..)) || !of.get_type(schema).is_ok_and(|from| is_text(&from)) {
        return None;
    }
    let text = cast(of.clone(), DataType::Utf8View);
    if is_moment(to) {
        let made = call(ZoneOperation::Moment, vec![text], zone, Some(is_try));
        return Some(as_type(made, &moment_type(), to));
    }
    // Clocks of UTC show what the text says.
    let made = call(ZoneOperation::Moment, vec![text], &Zone::utc(), Some(is_try));
    Some(as_type(cast(made, SHOWN), &SHOWN, to))
}

/// An expression whose parts are done.
fn in_zone(expr: Expr, schema: &DFSchema, zone: &Zone) -> Result<Transformed<Expr>> {
    let made = match &expr {
        Expr::Cast(Cast { expr: of, field }) => cast_in_zone(of, field.data_type(), false, schema, zone)?,
        Expr::TryCast(TryCast { expr: of, field }) => cast_in_zone(of, field.data_type(), true, schema, zone)?,
        Expr::BinaryExpr(binary) => match added(binary, schema, zone)? {
            None => compared(binary, schema, zone),
            added => added,
        },
        Expr::Between(between) => ranged(between, schema, zone),
        Expr::InList(list) => listed(list, schema, zone),
        Expr::ScalarFunction(function) => called(function, schema, zone)?,
        Expr::AggregateFunction(function) if makes_json(function.func.name()) => {
            let args = written(&function.params.args, schema, zone, ZoneOperation::Json, holds_moments);
            args.map(|args| {
                let mut made = function.clone();
                made.params.args = args;
                Expr::AggregateFunction(made)
            })
        }
        _ => None,
    };
    Ok(made.map_or_else(|| Transformed::no(expr), Transformed::yes))
}

/// A moment in the type of those that are stored.
fn stored(of: &Expr, schema: &DFSchema) -> Expr {
    match of.get_type(schema) {
        Ok(found) if found == moment_type() => of.clone(),
        _ => cast(of.clone(), moment_type()),
    }
}

/// A value of a type, as one of another type that says the same.
fn as_type(of: Expr, made: &DataType, wanted: &DataType) -> Expr {
    if made == wanted { of } else { cast(of, wanted.clone()) }
}

/// `timezone(zone, time)`: what clocks show at a moment, or when they show it.
fn timezone(time: Expr, zone: &Zone) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(ScalarUDF::from(TimeZoned::default())));
    let name = Expr::Literal(ScalarValue::Utf8View(Some(zone.argument())), None);
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&FUNCTION), vec![name, time]))
}

fn cast_in_zone(of: &Expr, to: &DataType, is_try: bool, schema: &DFSchema, zone: &Zone) -> Result<Option<Expr>> {
    let Ok(from) = of.get_type(schema) else { return Ok(None) };
    Ok(match (&from, to) {
        (from, to) if is_moment(to) && is_text(from) => {
            let made = call(ZoneOperation::Moment, vec![cast(of.clone(), DataType::Utf8View)], zone, Some(is_try));
            Some(as_type(made, &moment_type(), to))
        }
        (from, to) if is_text(from) => cast_of_text(of, to, is_try, schema, zone),
        (DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64, to) if is_moment(to) => {
            let time = if from == SHOWN { of.clone() } else { cast(of.clone(), SHOWN) };
            Some(as_type(timezone(time, zone), &moment_type(), to))
        }
        (from, DataType::Timestamp(_, None) | DataType::Date32 | DataType::Date64) if is_moment(from) => {
            Some(as_type(timezone(stored(of, schema), zone), &SHOWN, to))
        }
        (from, DataType::Time32(_) | DataType::Time64(_)) if is_moment(from) => {
            Some(cast(timezone(stored(of, schema), zone), to.clone()))
        }
        (from, to) if has_moments(from) && is_text(to) => {
            let value = if is_moment(from) { stored(of, schema) } else { of.clone() };
            Some(as_type(call(ZoneOperation::Text, vec![value], zone, None), &DataType::Utf8View, to))
        }
        _ => None,
    })
}

/// A moment and an interval with days or months.
fn added(binary: &BinaryExpr, schema: &DFSchema, zone: &Zone) -> Result<Option<Expr>> {
    let BinaryExpr { left, op, right } = binary;
    if !matches!(op, Operator::Plus | Operator::Minus) {
        return Ok(None);
    }
    let (Ok(left_type), Ok(right_type)) = (left.get_type(schema), right.get_type(schema)) else { return Ok(None) };
    let is_span = |of: &DataType| matches!(of, DataType::Interval(_));
    let (moment, span, made) = match op {
        _ if is_moment(&left_type) && is_span(&right_type) => (left, right, &left_type),
        Operator::Plus if is_span(&left_type) && is_moment(&right_type) => (right, left, &right_type),
        _ => return Ok(None),
    };
    if is_time_alone(span) {
        return Ok(None);
    }
    let span_type = DataType::Interval(IntervalUnit::MonthDayNano);
    let span = cast_unless(span, &span_type, schema);
    let span = if *op == Operator::Minus { Expr::Negative(Box::new(span)) } else { span };
    let later = call(ZoneOperation::Plus, vec![stored(moment, schema), span], zone, None);
    Ok(Some(as_type(later, &moment_type(), made)))
}

fn cast_unless(of: &Expr, wanted: &DataType, schema: &DFSchema) -> Expr {
    match of.get_type(schema) {
        Ok(found) if found == *wanted => of.clone(),
        _ => cast(of.clone(), wanted.clone()),
    }
}

/// Whether it is a written interval without days and months.
fn is_time_alone(span: &Expr) -> bool {
    match span {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(span)), _) => span.months == 0 && span.days == 0,
        Expr::Literal(ScalarValue::IntervalDayTime(Some(span)), _) => span.days == 0,
        _ => false,
    }
}

/// Functions that go by clocks.
fn called(function: &ScalarFunction, schema: &DFSchema, zone: &Zone) -> Result<Option<Expr>> {
    let args = &function.args;
    let moment_at = |at: usize| args.get(at).is_some_and(|arg| arg.get_type(schema).is_ok_and(|of| is_moment(&of)));
    let again = |args: Vec<Expr>| Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&function.func), args));
    let now = || Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(ScalarUDF::from(Now::default())), vec![]));
    Ok(match (function.name(), args.as_slice()) {
        ("date_trunc", [unit, of]) if moment_at(1) => {
            static FUNCTION: LazyLock<Arc<ScalarUDF>> =
                LazyLock::new(|| Arc::new(ScalarUDF::from(Truncated::default())));
            let args = vec![unit.clone(), stored(of, schema), lit(zone.argument())];
            let made = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&FUNCTION), args));
            Some(as_type(made, &moment_type(), &of.get_type(schema)?))
        }
        ("date_part", [Expr::Literal(part, metadata), of]) if moment_at(1) => {
            let Some(name) = part.try_as_str().flatten() else { return Ok(None) };
            let name = name.trim_matches(['\'', '"']).to_ascii_lowercase();
            let offset = || call(ZoneOperation::Offset, vec![stored(of, schema)], zone, None);
            let divided = |by: i32| {
                Expr::BinaryExpr(BinaryExpr {
                    left: Box::new(offset()),
                    op: Operator::Divide,
                    right: Box::new(lit(by)),
                })
            };
            match name.as_str() {
                "epoch" => None,
                "timezone" => Some(offset()),
                "timezone_hour" | "timezone_h" => Some(divided(3_600)),
                "timezone_minute" | "timezone_m" => Some(Expr::BinaryExpr(BinaryExpr {
                    left: Box::new(divided(60)),
                    op: Operator::Modulo,
                    right: Box::new(lit(60_i32)),
                })),
                _ => {
                    let part = Expr::Literal(part.clone(), metadata.clone());
                    Some(again(vec![part, timezone(stored(of, schema), zone)]))
                }
            }
        }
        ("to_char", [of, template]) if moment_at(0) => {
            Some(again(vec![stored(of, schema), template.clone(), lit(zone.name())]))
        }
        ("to_timestamp", [text, ..]) if is_of_text(text, schema) => {
            let made =
                args.first().map_or(Ok(moment_type()), |_| Expr::ScalarFunction(function.clone()).get_type(schema))?;
            match args.as_slice() {
                [text] if is_moment(&made) => {
                    let text = cast_unless(text, &DataType::Utf8View, schema);
                    Some(as_type(call(ZoneOperation::Moment, vec![text], zone, Some(false)), &moment_type(), &made))
                }
                // What a form reads is a time, which is shown; of one with a zone it is a moment.
                [_, Expr::Literal(form, _)] if !form.try_as_str().flatten().is_some_and(names_zone) => {
                    let shown = cast(Expr::ScalarFunction(function.clone()), SHOWN);
                    let wanted = if is_moment(&made) { made } else { SHOWN };
                    let shown = if is_moment(&wanted) { timezone(shown, zone) } else { return Ok(None) };
                    Some(as_type(shown, &moment_type(), &wanted))
                }
                _ => None,
            }
        }
        ("make_timestamptz", [.., _]) if args.len() == 6 => {
            let mut args = args.clone();
            args.push(Expr::Literal(ScalarValue::Utf8View(Some(zone.argument())), None));
            Some(again(args))
        }
        ("current_date", []) => Some(cast(timezone(now(), zone), DataType::Date32)),
        ("current_time", []) => {
            let wanted = Expr::ScalarFunction(function.clone()).get_type(schema)?;
            Some(cast(timezone(now(), zone), wanted))
        }
        ("generate_series" | "range", [from, to, step]) if moment_at(0) && moment_at(1) => {
            let inclusive = function.name() == "generate_series";
            let args = vec![stored(from, schema), stored(to, schema), step.clone()];
            Some(call(ZoneOperation::Series, args, zone, Some(inclusive)))
        }
        // They write values themselves.
        (
            "format" | "concat" | "concat_ws" | "quote_literal" | "quote_nullable" | "bpchar_of_text" | "bpchar_if_any",
            _,
        ) => written(args, schema, zone, ZoneOperation::Text, has_moments).map(again),
        ("array_to_string", _) => written(args, schema, zone, ZoneOperation::Texts, has_moments).map(again),
        (name, _) if makes_json(name) => written(args, schema, zone, ZoneOperation::Json, holds_moments).map(again),
        _ => None,
    })
}

fn is_of_text(of: &Expr, schema: &DFSchema) -> bool {
    of.get_type(schema).is_ok_and(|of| is_text(&of))
}

/// Whether a form of `strftime` has an offset, a zone or seconds since 1970.
fn names_zone(form: &str) -> bool {
    ["%z", "%Z", "%:z", "%::z", "%#z", "%+", "%s"].iter().any(|item| form.contains(item))
}

/// A moment that is cut to the day or unit of the zone that it lies in.
struct CutMoment<'a> {
    moment: &'a Expr,
    /// `None` of a day that is a DATE.
    unit: Option<&'a str>,
}

impl CutMoment<'_> {
    /// `CAST(timezone(zone, moment) AS DATE)` or `date_trunc(unit, moment, zone)`, of this zone.
    fn of<'a>(expr: &'a Expr, zone: &Zone) -> Option<CutMoment<'a>> {
        let wanted = zone.argument();
        let is_zone = |expr: &Expr| {
            matches!(expr, Expr::Literal(name, _)
            if name.try_as_str().flatten() == Some(wanted.as_str()))
        };
        match expr {
            Expr::Cast(Cast { expr, field }) if *field.data_type() == DataType::Date32 => match expr.as_ref() {
                Expr::ScalarFunction(function) if function.name() == "timezone" => match function.args.as_slice() {
                    [name, moment] if is_zone(name) => Some(CutMoment { moment, unit: None }),
                    _ => None,
                },
                _ => None,
            },
            Expr::ScalarFunction(function) if function.name() == "date_trunc" => match function.args.as_slice() {
                [Expr::Literal(unit, _), moment, name] if is_zone(name) => {
                    Some(CutMoment { moment, unit: Some(unit.try_as_str().flatten()?) })
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// The first moment of the unit that a constant is the start of, or lies in, and the first of the next one; and whether the constant is
    /// that start. `None` where it is no constant, or where clocks do not go forward there.
    fn around(&self, constant: &Expr, zone: &Zone) -> Option<(i64, i64, bool)> {
        let value = crate::constants::value_of(constant).ok()??;
        let (shown, moment) = match (&value, self.unit) {
            (ScalarValue::Date32(Some(day)), None) => (i64::from(*day).checked_mul(DAY)?, None),
            (ScalarValue::TimestampMicrosecond(Some(moment), Some(_)), Some(_)) => {
                (zone.shown_at(*moment)?, Some(*moment))
            }
            _ => return None,
        };
        let (start, next) = match self.unit {
            None => (shown, shown.checked_add(DAY)?),
            Some(unit) => starts_around(shown, unit)?,
        };
        let (begin, end) = (zone.begins(start)?, zone.begins(next)?);
        // `date_trunc` gives the moment that its start is read as: of one that is shown twice it is the later one.
        let cut = zone.moment_of(start)?;
        Some((begin, end, moment.is_none_or(|moment| moment == cut)))
    }
}

fn bound(moment: &Expr, op: Operator, at: i64) -> Expr {
    let at = Expr::Literal(ScalarValue::TimestampMicrosecond(Some(at), Some("UTC".into())), None);
    Expr::BinaryExpr(BinaryExpr { left: Box::new(moment.clone()), op, right: Box::new(at) })
}

/// A unit that is compared with a constant, as a range of moments.
fn compared(binary: &BinaryExpr, _schema: &DFSchema, zone: &Zone) -> Option<Expr> {
    let BinaryExpr { left, op, right } = binary;
    match CutMoment::of(left, zone) {
        Some(cut) => compared_with(&cut, *op, right, zone),
        None => compared_with(&CutMoment::of(right, zone)?, op.swap()?, left, zone),
    }
}

fn compared_with(cut: &CutMoment<'_>, op: Operator, constant: &Expr, zone: &Zone) -> Option<Expr> {
    let (begin, end, is_start) = cut.around(constant, zone)?;
    let at = |op, at| bound(cut.moment, op, at);
    // Only of its start is a unit equal to a constant; the next unit is the first that is greater than one within.
    Some(match op {
        Operator::Eq if is_start => at(Operator::GtEq, begin).and(at(Operator::Lt, end)),
        Operator::NotEq if is_start => at(Operator::Lt, begin).or(at(Operator::GtEq, end)),
        Operator::Lt => at(Operator::Lt, if is_start { begin } else { end }),
        Operator::LtEq => at(Operator::Lt, end),
        Operator::Gt => at(Operator::GtEq, end),
        Operator::GtEq => at(Operator::GtEq, if is_start { begin } else { end }),
        _ => return None,
    })
}

fn ranged(between: &Between, _schema: &DFSchema, zone: &Zone) -> Option<Expr> {
    let cut = CutMoment::of(&between.expr, zone)?;
    let low = compared_with(&cut, Operator::GtEq, &between.low, zone)?;
    let both = low.and(compared_with(&cut, Operator::LtEq, &between.high, zone)?);
    Some(if between.negated { Expr::Not(Box::new(both)) } else { both })
}

fn listed(list: &InList, _schema: &DFSchema, zone: &Zone) -> Option<Expr> {
    let cut = CutMoment::of(&list.expr, zone)?;
    if list.list.len() > RANGES_MAX {
        return None;
    }
    let each = list.list.iter().map(|value| compared_with(&cut, Operator::Eq, value, zone));
    let any = each.collect::<Option<Vec<Expr>>>()?.into_iter().reduce(Expr::or)?;
    Some(if list.negated { Expr::Not(Box::new(any)) } else { any })
}
