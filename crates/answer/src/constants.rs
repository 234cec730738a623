//! Constants of time that are computed: `now() - INTERVAL '1 hour'`, `DATE '2026-01-31' + INTERVAL '1 month'`, `'2026-01-01'::timestamp`.
//!
//! Invariants:
//! - A constant is the day or the moment that the planner makes of the expression. What is not understood, or might mean something else to it,
//!   is refused: intervals of less than a microsecond, texts with more than a date where one is read, units that are no calendar's.
//! - What is computed of the moment at which a statement begins stays an expression until the statement is bound: the same text has another
//!   moment each time it runs.
//!
//! Sessions have one zone, which is UTC, so a moment is the same with a zone and without.

use super::conditions::{is_plain_time, without_zone};
use super::predicate::literal_of;
use super::statement::Literal;
use alluvia_space::CalendarUnit;
use alluvia_space::codes::calendar::{self, MICROS_PER_DAY};
use alluvia_syntax::names::name_of;
use alluvia_syntax::trees::rewriting::call_of;
use arrow::compute::kernels::cast_utils::{
    IntervalParseConfig, IntervalUnit as Unit, parse_interval_month_day_nano_config,
};
use arrow::datatypes::{DataType, TimeUnit};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType as SqlType, Expr, Function, FunctionArguments, Interval, TimezoneInfo, Value,
};

/// Deeper expressions are left to the planner, which has a stack for them.
const DEPTH_MAX: usize = 16;

/// Of more days that are added as a number the planner says what they are.
const DAYS_MAX: i64 = 100_000;

/// A day or a moment, or what becomes one when the statement begins.
#[derive(Clone, PartialEq, Debug)]
pub enum Constant {
    /// The moment at which the statement begins.
    Now,
    Known(Time),
    /// So much later.
    Later(Box<Constant>, IntervalParts),
    /// The start of the unit that it lies in.
    Truncated(Box<Constant>, CalendarUnit),
    /// The day that it lies in.
    DayOf(Box<Constant>),
    /// The moment at which it begins.
    MomentOf(Box<Constant>),
}

/// A day since 1970, or a moment in microseconds since then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Time {
    Day(i64),
    Moment(i64),
}

/// An interval. Months are added first, then days, then time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IntervalParts {
    months: i64,
    days: i64,
    micros: i64,
}

/// A constant that is computed, as a literal; `None` of anything else.
pub(super) fn computed(expr: &Expr) -> Option<Literal> {
    if let Some(number) = whole_number(expr) {
        return Some(number);
    }
    let constant = constant_of(expr, DEPTH_MAX)?;
    if constant.is_of_now() {
        return Some(Literal::Computed(Box::new(constant)));
    }
    constant.literal(0)
}

/// A written number that is cast to an integer's type that holds it.
fn whole_number(expr: &Expr) -> Option<Literal> {
    let Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, array: false, format: None } = expr
    else {
        return None;
    };
    let Literal::Number(text) = literal_of(expr)? else { return None };
    let value: i64 = text.parse().ok()?;
    let fits = match data_type {
        SqlType::SmallInt(None) => i16::try_from(value).is_ok(),
        SqlType::Int(None) | SqlType::Integer(None) => i32::try_from(value).is_ok(),
        SqlType::BigInt(None) => true,
        _ => false,
    };
    fits.then_some(Literal::Number(text))
}

fn constant_of(expr: &Expr, depth: usize) -> Option<Constant> {
    let depth = depth.checked_sub(1)?;
    match expr {
        Expr::Nested(inner) => constant_of(inner, depth),
        Expr::Cast { kind: CastKind::Cast | CastKind::DoubleColon, expr, data_type, array: false, format: None } => {
            cast(expr, data_type, depth)
        }
        Expr::TypedString(typed) => match &typed.value.value {
            Value::SingleQuotedString(text) => text_as(text, &typed.data_type),
            _ => None,
        },
        Expr::BinaryOp { left, op: BinaryOperator::Plus, right } => match Added::of(right) {
            Some(added) => added.to(constant_of(left, depth)?),
            None => Added::of(left)?.to(constant_of(right, depth)?),
        },
        Expr::BinaryOp { left, op: BinaryOperator::Minus, right } => {
            Added::of(right)?.negated().to(constant_of(left, depth)?)
        }
        Expr::Function(function) => function_of(function, depth),
        _ => None,
    }
}

/// What is added to a time.
enum Added {
    IntervalParts(IntervalParts),
    /// A number beside a date.
    Days(i64),
}

impl Added {
    fn of(expr: &Expr) -> Option<Added> {
        if let Some(span) = interval_of(expr) {
            return Some(Added::IntervalParts(span));
        }
        let Literal::Number(text) = literal_of(expr)? else { return None };
        // The planner counts more of them in too small a number of nanoseconds.
        text.parse::<i64>().ok().filter(|days| (-DAYS_MAX..=DAYS_MAX).contains(days)).map(Added::Days)
    }

    fn negated(self) -> Added {
        match self {
            Added::IntervalParts(IntervalParts { months, days, micros }) => {
                Added::IntervalParts(IntervalParts { months: -months, days: -days, micros: -micros })
            }
            Added::Days(days) => Added::Days(-days),
        }
    }

    fn to(self, constant: Constant) -> Option<Constant> {
        let span = match self {
            Added::IntervalParts(span) => span,
            Added::Days(days) => constant.is_day().then_some(IntervalParts { months: 0, days, micros: 0 })?,
        };
        Some(Constant::Later(Box::new(constant), span))
    }
}

/// `now()`, `current_date` and their kin, and `date_trunc` of a constant.
fn function_of(function: &Function, depth: usize) -> Option<Constant> {
    // Written without brackets; all else that a call may have is nothing that it can have then.
    if matches!(function.args, FunctionArguments::None) {
        let [part] = function.name.0.as_slice() else { return None };
        if function.over.is_some() || function.filter.is_some() {
            return None;
        }
        return clock(&name_of(part.as_ident()?));
    }
    let (name, arguments) = call_of(function)?;
    match (name.as_str(), arguments.as_slice()) {
        (name, []) => clock(name),
        ("date_trunc", [unit, of]) => {
            let Literal::Text(unit) = literal_of(unit)? else { return None };
            let unit = CalendarUnit::named(&unit.to_ascii_lowercase())?;
            Some(Constant::Truncated(Box::new(constant_of(of, depth)?), unit))
        }
        _ => None,
    }
}

fn clock(name: &str) -> Option<Constant> {
    match name {
        "now" | "current_timestamp" => Some(Constant::Now),
        "current_date" => Some(Constant::DayOf(Box::new(Constant::Now))),
        _ => None,
    }
}

fn cast(expr: &Expr, to: &SqlType, depth: usize) -> Option<Constant> {
    if let Some(Literal::Text(text)) = literal_of(expr) {
        return text_as(&text, to);
    }
    let of = Box::new(constant_of(expr, depth)?);
    match to {
        SqlType::Date => Some(Constant::DayOf(of)),
        SqlType::Timestamp(None, _) => Some(Constant::MomentOf(of)),
        _ => None,
    }
}

/// A text as a value of a type of times.
fn text_as(text: &str, of: &SqlType) -> Option<Constant> {
    let time = match of {
        SqlType::Date => Time::Day(day_of(text)?),
        SqlType::Timestamp(None, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            Time::Moment(timestamp_of(text)?)
        }
        SqlType::Timestamp(None, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => {
            is_plain_time(without_zone(text)).then_some(())?;
            Time::Moment(micros_of(text, Some("UTC".into()))?)
        }
        _ => return None,
    };
    Some(Constant::Known(time))
}

/// The day that a text of a date alone names.
pub(super) fn day_of(text: &str) -> Option<i64> {
    if text.len() != 10 {
        return None;
    }
    match ScalarValue::from(text).cast_to(&DataType::Date32).ok()? {
        ScalarValue::Date32(Some(days)) => Some(days.into()),
        _ => None,
    }
}

/// The moment that a text names without a zone.
pub(super) fn timestamp_of(text: &str) -> Option<i64> {
    is_plain_time(text).then(|| micros_of(text, None))?
}

fn micros_of(text: &str, zone: Option<std::sync::Arc<str>>) -> Option<i64> {
    match ScalarValue::from(text).cast_to(&DataType::Timestamp(TimeUnit::Microsecond, zone)).ok()? {
        ScalarValue::TimestampMicrosecond(micros, _) => micros,
        _ => None,
    }
}

/// An interval that is written out; `None` of parts of microseconds, which are rounded here and there.
fn interval_of(expr: &Expr) -> Option<IntervalParts> {
    let text_of = |expr: &Expr| match literal_of(expr)? {
        Literal::Text(text) => Some(text),
        _ => None,
    };
    // What a number without a unit counts depends on how the interval is written.
    let (text, unit) = match expr {
        Expr::Nested(inner) => return interval_of(inner),
        Expr::Interval(Interval {
            value,
            leading_field,
            leading_precision: None,
            last_field: None,
            fractional_seconds_precision: None,
        }) => match leading_field {
            Some(field) => (format!("{} {field}", text_of(value)?), Unit::Second),
            None => (text_of(value)?, Unit::Second),
        },
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr,
            data_type: SqlType::Interval { fields: None, precision: None },
            array: false,
            format: None,
        } => (text_of(expr)?, Unit::Month),
        _ => return None,
    };
    let span = parse_interval_month_day_nano_config(&text, IntervalParseConfig::new(unit)).ok()?;
    (span.nanoseconds % 1_000 == 0).then(|| IntervalParts {
        months: span.months.into(),
        days: span.days.into(),
        micros: span.nanoseconds / 1_000,
    })
}

impl Constant {
    /// Whether it is another one each time the statement runs.
    fn is_of_now(&self) -> bool {
        match self {
            Constant::Now => true,
            Constant::Known(_) => false,
            Constant::Later(of, _) | Constant::Truncated(of, _) | Constant::DayOf(of) | Constant::MomentOf(of) => {
                of.is_of_now()
            }
        }
    }

    /// Whether it is a day, and not the moment at which one begins.
    fn is_day(&self) -> bool {
        match self {
            Constant::Known(Time::Day(_)) | Constant::DayOf(_) => true,
            Constant::Later(of, span) => of.is_day() && span.micros % MICROS_PER_DAY == 0,
            Constant::Now | Constant::Known(Time::Moment(_)) | Constant::Truncated(..) | Constant::MomentOf(_) => false,
        }
    }

    /// What it is in a statement that begins at a moment in microseconds.
    pub(super) fn literal(&self, now: i64) -> Option<Literal> {
        match self.time(now)? {
            Time::Day(days) => text_of_day(days).map(Literal::Date),
            Time::Moment(micros) => text_of_timestamp(micros).map(Literal::Time),
        }
    }

    fn time(&self, now: i64) -> Option<Time> {
        Some(match self {
            Constant::Now => Time::Moment(now),
            Constant::Known(time) => *time,
            Constant::Later(of, span) => of.time(now)?.later(*span)?,
            Constant::Truncated(of, unit) => Time::Moment(calendar::truncate_micros(of.time(now)?.micros()?, *unit)),
            Constant::DayOf(of) => Time::Day(of.time(now)?.micros()?.div_euclid(MICROS_PER_DAY)),
            Constant::MomentOf(of) => Time::Moment(of.time(now)?.micros()?),
        })
    }

    /// Bytes in memory, about.
    pub(super) fn bytes(&self) -> usize {
        let of_parts = match self {
            Constant::Now | Constant::Known(_) => 0,
            Constant::Later(of, _) | Constant::Truncated(of, _) | Constant::DayOf(of) | Constant::MomentOf(of) => {
                of.bytes()
            }
        };
        size_of::<Constant>() + of_parts
    }
}

impl Time {
    /// The moment, or the one at which the day begins.
    fn micros(self) -> Option<i64> {
        match self {
            Time::Day(days) => days.checked_mul(MICROS_PER_DAY),
            Time::Moment(micros) => Some(micros),
        }
    }

    /// A day stays one if it is moved by whole days (`alluvia_plan::before_types::timestamps`).
    fn later(self, span: IntervalParts) -> Option<Time> {
        let micros = self.micros()?;
        let days = months_later(micros.div_euclid(MICROS_PER_DAY), span.months) + span.days;
        let begins = days.checked_mul(MICROS_PER_DAY)?;
        let later = begins.checked_add(micros.rem_euclid(MICROS_PER_DAY))?.checked_add(span.micros)?;
        Some(match self {
            Time::Day(_) if span.micros % MICROS_PER_DAY == 0 => Time::Day(later.div_euclid(MICROS_PER_DAY)),
            _ => Time::Moment(later),
        })
    }
}

/// The same day so many months later, or the last of its month.
fn months_later(days: i64, months: i64) -> i64 {
    if months == 0 {
        return days;
    }
    let (year, month, day) = calendar::civil(days);
    let at = year * 12 + i64::from(month) - 1 + months;
    let first_of = |at: i64| calendar::days_of(at.div_euclid(12), at.rem_euclid(12) as u32 + 1, 1);
    (first_of(at) + i64::from(day) - 1).min(first_of(at + 1) - 1)
}

/// A day as it is written; `None` of years without four digits.
fn text_of_day(days: i64) -> Option<String> {
    let (year, month, day) = calendar::civil(days);
    (0..=9999).contains(&year).then(|| format!("{year:04}-{month:02}-{day:02}"))
}

/// A moment in microseconds as it is written; `None` of years without four digits.
pub(super) fn text_of_timestamp(micros: i64) -> Option<String> {
    let day = text_of_day(micros.div_euclid(MICROS_PER_DAY))?;
    let time = micros.rem_euclid(MICROS_PER_DAY);
    let (seconds, fraction) = (time / 1_000_000, time % 1_000_000);
    let text = format!("{day} {:02}:{:02}:{:02}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    Some(if fraction == 0 { text } else { format!("{text}.{fraction:06}") })
}

#[cfg(test)]
mod tests {
    use super::super::testing::parsed;
    use super::*;

    fn literal(sql: &str) -> Option<Literal> {
        computed(&parsed(sql))
    }

    fn day(text: &str) -> Option<Literal> {
        Some(Literal::Date(text.to_owned()))
    }

    fn moment(text: &str) -> Option<Literal> {
        Some(Literal::Time(text.to_owned()))
    }

    #[test]
    fn what_needs_no_clock_is_computed_at_once() {
        for (sql, expected) in [
            ("'2026-01-05'::date", day("2026-01-05")),
            ("CAST('2026-01-05' AS DATE)", day("2026-01-05")),
            ("'2026-01-05'::timestamp", moment("2026-01-05 00:00:00")),
            ("'2026-01-05 10:11:12.5'::timestamp", moment("2026-01-05 10:11:12.500000")),
            ("'2026-01-05T10:11:12+02:00'::timestamptz", moment("2026-01-05 08:11:12")),
            ("TIMESTAMPTZ '2026-01-05 10:11:12Z'", moment("2026-01-05 10:11:12")),
            ("'2026-01-05 10:11:12'::timestamp::date", day("2026-01-05")),
            ("'2026-01-05'::date::timestamp", moment("2026-01-05 00:00:00")),
            ("DATE '2026-01-31' + INTERVAL '1 month'", day("2026-02-28")),
            ("INTERVAL '1 month' + DATE '2024-01-31'", day("2024-02-29")),
            ("DATE '2026-01-31' - INTERVAL '1' DAY", day("2026-01-30")),
            ("DATE '2026-01-31' + INTERVAL '24 hours'", day("2026-02-01")),
            ("DATE '2026-01-31' - INTERVAL '90 minutes'", moment("2026-01-30 22:30:00")),
            ("TIMESTAMP '2026-03-31 01:00:00' - INTERVAL '1 month 2 hours'", moment("2026-02-27 23:00:00")),
            ("(DATE '2026-03-31' - '1 year'::interval)", day("2025-03-31")),
            ("date_trunc('MONTH', DATE '2026-03-31')", moment("2026-03-01 00:00:00")),
            ("date_trunc('hour', '1969-12-31 23:59:59'::timestamp)", moment("1969-12-31 23:00:00")),
            ("5::int", Some(Literal::Number("5".to_owned()))),
            ("CAST(-32768 AS smallint)", Some(Literal::Number("-32768".to_owned()))),
        ] {
            assert_eq!(literal(sql), expected, "{sql}");
        }
    }

    #[test]
    fn what_is_of_now_is_computed_when_the_statement_begins() {
        // 2026-03-31 12:34:56.789
        let now = (calendar::days_of(2026, 3, 31) * 86_400 + 45_296) * 1_000_000 + 789_000;
        for (sql, expected) in [
            ("now()", moment("2026-03-31 12:34:56.789000")),
            ("current_timestamp", moment("2026-03-31 12:34:56.789000")),
            ("current_date", day("2026-03-31")),
            ("now()::date", day("2026-03-31")),
            ("now() - INTERVAL '1 hour'", moment("2026-03-31 11:34:56.789000")),
            ("now() - INTERVAL '1 month'", moment("2026-02-28 12:34:56.789000")),
            ("current_date - INTERVAL '30 days'", day("2026-03-01")),
            ("date_trunc('month', now()) - INTERVAL '1 month'", moment("2026-02-01 00:00:00")),
            ("current_date - 7", day("2026-03-24")),
            ("1 + now()::date", day("2026-04-01")),
            ("date_trunc('quarter', current_date)", moment("2026-01-01 00:00:00")),
            ("date_trunc('day', now() - INTERVAL '1 day')::date", day("2026-03-30")),
        ] {
            let found = literal(sql);
            let Some(Literal::Computed(constant)) = &found else { panic!("{sql}: {found:?}") };
            assert_eq!(constant.literal(now), expected, "{sql}");
        }
    }

    #[test]
    fn what_may_mean_something_else_is_refused() {
        let deep = format!("now(){}", " - INTERVAL '1 day'".repeat(100));
        for sql in [
            "now() - 7",
            "7 - current_date",
            "current_date + 1.5",
            "current_date - 200000",
            "current_date::timestamp + 1",
            "now() - now()",
            "now() - 3 * INTERVAL '1 day'",
            "now() - INTERVAL '1 nanosecond'",
            "now() - '1 hour'",
            "now() - t",
            "now() AT TIME ZONE 'Europe/Berlin'",
            "current_time",
            "localtimestamp",
            "now(3)",
            "date_trunc('week', now())",
            "date_trunc('month', '2026-01-05')",
            "'2026-01-05 10:00:00'::date",
            "'2026-01-05 10:00:00+02:00'::timestamp",
            "'2026-13-05'::date",
            "'2026-01-05'::timestamp(3)",
            "'yesterday'::timestamp",
            "TRY_CAST('2026-01-05' AS DATE)",
            "now()::text",
            "'x'::text",
            "99999::smallint",
            "1.5::int",
            "t::date",
            "DATE '9999-12-31' + INTERVAL '1 day'",
            deep.as_str(),
        ] {
            assert_eq!(literal(sql), None, "{sql}");
        }
    }
}
