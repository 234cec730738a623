//! Expressions that the interpreter evaluates itself: constants, variables, whole numbers and decimals, comparisons, logic, `||` of texts.
//!
//! Invariants:
//! - What is given is what `SELECT expression` gives: NULL by SQL's three values, whole numbers of 4 or 8 bytes, an error where they overflow or
//!   are divided by zero, texts by their bytes. Sums, differences and products of decimals are exact, with the digits behind the point that
//!   planning gives them; quotients, and numbers of many digits, are planning's.
//! - It refuses rather than errs. An expression with anything else in it is not compiled; with values of other types, or types that do
//!   not fit together, [`Own::evaluate`] gives `None`, and the host evaluates all of it. Evaluating has no effects, so that nothing is done twice.

use alluvia_space::data_type::{NUMERIC_PRECISION, NUMERIC_SCALE};
use alluvia_types::{Error, ErrorKind, Result};
use datafusion_common::ScalarValue;
use sqlparser::ast::{BinaryOperator, Expr, Query, SelectItem, SetExpr, UnaryOperator, Value};
use std::borrow::Cow;
use std::cmp::Ordering;

/// The deepest expression that is evaluated here: evaluating is recursive.
const DEPTH_MAX: usize = 64;
/// Digits that a decimal may have here: past these planning may go over to other types.
const DIGITS_MAX: u32 = 28;
/// Digits behind its point: past these products are rounded.
const SCALE_MAX: u32 = NUMERIC_SCALE as u32;
/// The most bytes of a text that is made here.
pub(crate) const TEXT_BYTES_MAX: usize = 64 << 20;

/// A compiled expression.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Own {
    Constant(ScalarValue),
    /// The n-th of the values that its statement is run with.
    Source(usize),
    Not(Box<Own>),
    Minus(Box<Own>),
    Arithmetic(Arithmetic, Box<Own>, Box<Own>),
    Compare(Comparison, Box<Own>, Box<Own>),
    And(Box<Own>, Box<Own>),
    Or(Box<Own>, Box<Own>),
    Join(Box<Own>, Box<Own>),
    /// IS NULL, IS TRUE, IS FALSE, or the opposite.
    Is(Test, bool, Box<Own>),
    /// IN of a list, or the opposite.
    In(Box<Own>, Vec<Own>, bool),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arithmetic {
    Plus,
    Minus,
    Times,
    Divide,
    Modulo,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Test {
    Null,
    True,
    False,
}

impl Own {
    /// The one expression of `SELECT expression`, if it is of the closed list.
    pub fn of_query(query: &Query) -> Option<Own> {
        let Query { with: None, body, order_by: None, limit_clause: None, fetch: None, locks, .. } = query else {
            return None;
        };
        let SetExpr::Select(select) = body.as_ref() else { return None };
        let is_plain = locks.is_empty()
            && select.from.is_empty()
            && select.distinct.is_none()
            && select.selection.is_none()
            && select.having.is_none()
            && select.qualify.is_none()
            && select.named_window.is_empty()
            && select.lateral_views.is_empty()
            && matches!(&select.group_by, sqlparser::ast::GroupByExpr::Expressions(by, modifiers)
                if by.is_empty() && modifiers.is_empty());
        match select.projection.as_slice() {
            [SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }] if is_plain => of(expr, DEPTH_MAX),
            _ => None,
        }
    }
}

fn of(expr: &Expr, depth: usize) -> Option<Own> {
    let depth = depth.checked_sub(1)?;
    let part = |expr: &Expr| of(expr, depth).map(Box::new);
    let is = |test, positive, expr: &Expr| Some(Own::Is(test, positive, part(expr)?));
    match expr {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, false) => number(digits).map(Own::Constant),
            Value::SingleQuotedString(text) => Some(Own::Constant(ScalarValue::Utf8(Some(text.clone())))),
            Value::Boolean(value) => Some(Own::Constant(ScalarValue::Boolean(Some(*value)))),
            Value::Null => Some(Own::Constant(ScalarValue::Null)),
            Value::Placeholder(name) => {
                let number: usize = name.strip_prefix('$')?.parse().ok()?;
                Some(Own::Source(number.checked_sub(1)?))
            }
            _ => None,
        },
        Expr::Nested(inner) => of(inner, depth),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => Some(Own::Not(part(expr)?)),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Some(Own::Minus(part(expr)?)),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => of(expr, depth),
        Expr::IsNull(expr) => is(Test::Null, true, expr),
        Expr::IsNotNull(expr) => is(Test::Null, false, expr),
        Expr::IsTrue(expr) => is(Test::True, true, expr),
        Expr::IsNotTrue(expr) => is(Test::True, false, expr),
        Expr::IsFalse(expr) => is(Test::False, true, expr),
        Expr::IsNotFalse(expr) => is(Test::False, false, expr),
        Expr::InList { expr, list, negated } => {
            let list = list.iter().map(|one| of(one, depth)).collect::<Option<Vec<Own>>>()?;
            Some(Own::In(part(expr)?, list, *negated))
        }
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (part(left)?, part(right)?);
            let arithmetic = |op, left, right| Some(Own::Arithmetic(op, left, right));
            let compare = |op, left, right| Some(Own::Compare(op, left, right));
            match op {
                BinaryOperator::Plus => arithmetic(Arithmetic::Plus, left, right),
                BinaryOperator::Minus => arithmetic(Arithmetic::Minus, left, right),
                BinaryOperator::Multiply => arithmetic(Arithmetic::Times, left, right),
                BinaryOperator::Divide => arithmetic(Arithmetic::Divide, left, right),
                BinaryOperator::Modulo => arithmetic(Arithmetic::Modulo, left, right),
                BinaryOperator::Eq => compare(Comparison::Equal, left, right),
                BinaryOperator::NotEq => compare(Comparison::NotEqual, left, right),
                BinaryOperator::Lt => compare(Comparison::Less, left, right),
                BinaryOperator::LtEq => compare(Comparison::LessOrEqual, left, right),
                BinaryOperator::Gt => compare(Comparison::Greater, left, right),
                BinaryOperator::GtEq => compare(Comparison::GreaterOrEqual, left, right),
                BinaryOperator::And => Some(Own::And(left, right)),
                BinaryOperator::Or => Some(Own::Or(left, right)),
                BinaryOperator::StringConcat => Some(Own::Join(left, right)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// A number as it is written: a whole one, or a decimal.
fn number(digits: &str) -> Option<ScalarValue> {
    match digits.split_once('.') {
        None => integer(digits),
        Some((whole, fraction)) => {
            let is_plain = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            if !is_plain(whole) || !is_plain(fraction) {
                return None;
            }
            let unscaled = format!("{whole}{fraction}").parse().ok()?;
            decimal(unscaled, u32::try_from(fraction.len()).ok()?)
        }
    }
}

/// A whole number as it is written: of 4 bytes if it fits, else of 8.
fn integer(digits: &str) -> Option<ScalarValue> {
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: i64 = digits.parse().ok()?;
    Some(match i32::try_from(number) {
        Ok(number) => ScalarValue::Int32(Some(number)),
        Err(_) => ScalarValue::Int64(Some(number)),
    })
}

/// What gives the values of sources: `None` for one of a type that is not evaluated here.
pub(crate) type Sources<'a> = dyn Fn(usize) -> Option<&'a ScalarValue> + 'a;

impl Own {
    /// The expression's value, or `None` if it takes more than is known here.
    pub fn evaluate(&self, sources: &Sources<'_>) -> Result<Option<ScalarValue>> {
        Ok(self.value(sources)?.map(Cow::into_owned))
    }

    fn value<'a>(&'a self, sources: &'a Sources<'_>) -> Result<Option<Cow<'a, ScalarValue>>> {
        let given = match self {
            Own::Constant(value) => return Ok(Some(Cow::Borrowed(value))),
            Own::Source(number) => return Ok(sources(*number).map(Cow::Borrowed)),
            Own::And(left, right) => return logic(left, right, false, sources),
            Own::Or(left, right) => return logic(left, right, true, sources),
            Own::Not(of) => of.truth(sources)?.map(|truth| ScalarValue::Boolean(truth.map(|truth| !truth))),
            Own::Minus(of) => match of.value(sources)?.and_then(|value| whole(&value)) {
                Some((number, width)) => Some(width.scalar(number.map(|number| -number))?),
                None => None,
            },
            Own::Is(test, positive, of) => {
                of.tested(*test, sources)?.map(|is| ScalarValue::Boolean(Some(is == *positive)))
            }
            Own::Arithmetic(op, left, right) => match both(left, right, sources)? {
                Some((left, right)) => computed(*op, &left, &right)?,
                None => None,
            },
            Own::Compare(op, left, right) => both(left, right, sources)?
                .and_then(|(left, right)| compared(&left, &right))
                .map(|order| ScalarValue::Boolean(order.map(|order| op.holds(order)))),
            Own::Join(left, right) => match both(left, right, sources)? {
                Some((left, right)) => joined(&left, &right)?,
                None => None,
            },
            Own::In(of, list, negated) => {
                of.is_in(list, sources)?.map(|found| ScalarValue::Boolean(found.map(|found| found != *negated)))
            }
        };
        Ok(given.map(Cow::Owned))
    }

    /// As a condition; the outer `None` if it is none that is known here.
    fn truth(&self, sources: &Sources<'_>) -> Result<Option<Option<bool>>> {
        Ok(match self.value(sources)?.as_deref() {
            Some(ScalarValue::Boolean(truth)) => Some(*truth),
            Some(ScalarValue::Null) => Some(None),
            _ => None,
        })
    }

    fn tested(&self, test: Test, sources: &Sources<'_>) -> Result<Option<bool>> {
        Ok(match test {
            Test::Null => self.value(sources)?.map(|value| value.is_null()),
            Test::True => self.truth(sources)?.map(|truth| truth == Some(true)),
            Test::False => self.truth(sources)?.map(|truth| truth == Some(false)),
        })
    }

    fn is_in(&self, list: &[Own], sources: &Sources<'_>) -> Result<Option<Option<bool>>> {
        let Some(value) = self.value(sources)? else { return Ok(None) };
        // All are looked at, so that a type that does not fit is found wherever it stands.
        let mut found = Some(false);
        for one in list {
            let Some(order) = one.value(sources)?.and_then(|one| compared(&value, &one)) else { return Ok(None) };
            found = match (found, order) {
                (Some(true), _) | (_, Some(Ordering::Equal)) => Some(true),
                (_, None) => None,
                (found, Some(_)) => found,
            };
        }
        Ok(Some(found))
    }
}

type Pair<'a> = (Cow<'a, ScalarValue>, Cow<'a, ScalarValue>);

fn both<'a>(left: &'a Own, right: &'a Own, sources: &'a Sources<'_>) -> Result<Option<Pair<'a>>> {
    let Some(left) = left.value(sources)? else { return Ok(None) };
    Ok(right.value(sources)?.map(|right| (left, right)))
}

/// AND, or OR if `decides` is true: one operand that decides is enough.
fn logic<'a>(left: &Own, right: &Own, decides: bool, sources: &Sources<'_>) -> Result<Option<Cow<'a, ScalarValue>>> {
    let Some(first) = left.truth(sources)? else { return Ok(None) };
    let truth = match first {
        Some(truth) if truth == decides => Some(decides),
        first => {
            let Some(second) = right.truth(sources)? else { return Ok(None) };
            match (first, second) {
                (_, Some(truth)) if truth == decides => Some(decides),
                (Some(_), Some(_)) => Some(!decides),
                _ => None,
            }
        }
    };
    Ok(Some(Cow::Owned(ScalarValue::Boolean(truth))))
}

/// How wide a whole number is. Sums of two bytes are of four, as numbers that are written are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Width {
    Four,
    Eight,
}

impl Width {
    fn scalar(self, number: Option<i128>) -> Result<ScalarValue> {
        let out_of_range = |name| Error::new(ErrorKind::OutOfRange, format!("{name} out of range"));
        Ok(match self {
            Width::Four => ScalarValue::Int32(match number {
                Some(number) => Some(i32::try_from(number).map_err(|_| out_of_range("integer"))?),
                None => None,
            }),
            Width::Eight => ScalarValue::Int64(match number {
                Some(number) => Some(i64::try_from(number).map_err(|_| out_of_range("bigint"))?),
                None => None,
            }),
        })
    }
}

/// A whole number and its width; an untyped NULL is one of the least.
fn whole(value: &ScalarValue) -> Option<(Option<i128>, Width)> {
    Some(match value {
        ScalarValue::Int16(number) => (number.map(i128::from), Width::Four),
        ScalarValue::Int32(number) => (number.map(i128::from), Width::Four),
        ScalarValue::Int64(number) => (number.map(i128::from), Width::Eight),
        _ => return None,
    })
}

/// Two whole numbers, of which one may be an untyped NULL.
type Wholes = (Option<i128>, Option<i128>, Width);

fn wholes(left: &ScalarValue, right: &ScalarValue) -> Option<Wholes> {
    match (whole(left), whole(right)) {
        (Some((left, a)), Some((right, b))) => Some((left, right, a.max(b))),
        (Some((left, width)), None) if matches!(right, ScalarValue::Null) => Some((left, None, width)),
        (None, Some((right, width))) if matches!(left, ScalarValue::Null) => Some((None, right, width)),
        _ => None,
    }
}

/// A number without its point, and digits behind the point.
type Parts = (Option<i128>, u32);

fn parts(value: &ScalarValue) -> Option<Parts> {
    match value {
        ScalarValue::Decimal128(unscaled, _, scale) => {
            let scale = u32::try_from(*scale).ok().filter(|scale| *scale <= SCALE_MAX)?;
            Some((*unscaled, scale))
        }
        value => whole(value).map(|(number, _)| (number, 0)),
    }
}

/// Two numbers of which at least one is a decimal, neither of them an untyped NULL.
fn decimals(left: &ScalarValue, right: &ScalarValue) -> Option<(Parts, Parts)> {
    let is_decimal = |value: &ScalarValue| matches!(value, ScalarValue::Decimal128(..));
    if is_decimal(left) || is_decimal(right) { parts(left).zip(parts(right)) } else { None }
}

/// The same numbers with as many digits behind the point as the one that has more.
fn aligned((left, a): (i128, u32), (right, b): (i128, u32)) -> Option<(i128, i128, u32)> {
    let scale = a.max(b);
    let with = |number: i128, has: u32| number.checked_mul(10i128.checked_pow(scale - has)?);
    Some((with(left, a)?, with(right, b)?, scale))
}

/// A decimal, unless it has more digits than are known here.
fn decimal(unscaled: i128, scale: u32) -> Option<ScalarValue> {
    let fits = scale <= SCALE_MAX && unscaled.unsigned_abs() < 10u128.pow(DIGITS_MAX);
    fits.then_some(ScalarValue::Decimal128(Some(unscaled), NUMERIC_PRECISION, scale as i8))
}

/// Sums, differences and products of decimals; `None` for all else.
fn computed_exactly(op: Arithmetic, left: &ScalarValue, right: &ScalarValue) -> Option<ScalarValue> {
    let ((Some(left), a), (Some(right), b)) = decimals(left, right)? else { return None };
    match op {
        Arithmetic::Times => decimal(left.checked_mul(right)?, a + b),
        Arithmetic::Plus | Arithmetic::Minus => {
            let (left, right, scale) = aligned((left, a), (right, b))?;
            let result = if op == Arithmetic::Plus { left.checked_add(right) } else { left.checked_sub(right) };
            decimal(result?, scale)
        }
        Arithmetic::Divide | Arithmetic::Modulo => None,
    }
}

fn computed(op: Arithmetic, left: &ScalarValue, right: &ScalarValue) -> Result<Option<ScalarValue>> {
    if let Some(result) = computed_exactly(op, left, right) {
        return Ok(Some(result));
    }
    let Some((left, right, width)) = wholes(left, right) else { return Ok(None) };
    let (Some(left), Some(right)) = (left, right) else { return width.scalar(None).map(Some) };
    if right == 0 && matches!(op, Arithmetic::Divide | Arithmetic::Modulo) {
        return Err(Error::new(ErrorKind::DivisionByZero, "division by zero"));
    }
    // None of these overflows: two numbers of 64 bits.
    let result = match op {
        Arithmetic::Plus => left + right,
        Arithmetic::Minus => left - right,
        Arithmetic::Times => left * right,
        Arithmetic::Divide => left / right,
        Arithmetic::Modulo => left % right,
    };
    width.scalar(Some(result)).map(Some)
}

/// How two values of one sort stand to each other, `Some(None)` if one is NULL; `None` if they are of different sorts.
fn compared(left: &ScalarValue, right: &ScalarValue) -> Option<Option<Ordering>> {
    if let Some((left, right, _)) = wholes(left, right) {
        return Some(left.zip(right).map(|(left, right)| left.cmp(&right)));
    }
    if let Some(((left, a), (right, b))) = decimals(left, right) {
        let (Some(left), Some(right)) = (left, right) else { return Some(None) };
        return aligned((left, a), (right, b)).map(|(left, right, _)| Some(left.cmp(&right)));
    }
    match (left, right) {
        (ScalarValue::Utf8(left), ScalarValue::Utf8(right)) => {
            Some(left.as_ref().zip(right.as_ref()).map(|(left, right)| left.cmp(right)))
        }
        (ScalarValue::Boolean(left), ScalarValue::Boolean(right)) => {
            Some(left.zip(*right).map(|(left, right)| left.cmp(&right)))
        }
        (ScalarValue::Null, ScalarValue::Utf8(_) | ScalarValue::Boolean(_) | ScalarValue::Null)
        | (ScalarValue::Utf8(_) | ScalarValue::Boolean(_), ScalarValue::Null) => Some(None),
        _ => None,
    }
}

impl Comparison {
    fn holds(self, order: Ordering) -> bool {
        match self {
            Comparison::Equal => order.is_eq(),
            Comparison::NotEqual => order.is_ne(),
            Comparison::Less => order.is_lt(),
            Comparison::LessOrEqual => order.is_le(),
            Comparison::Greater => order.is_gt(),
            Comparison::GreaterOrEqual => order.is_ge(),
        }
    }
}

/// Two texts, one behind the other.
fn joined(left: &ScalarValue, right: &ScalarValue) -> Result<Option<ScalarValue>> {
    let text = match (left, right) {
        (ScalarValue::Utf8(Some(left)), ScalarValue::Utf8(Some(right))) => {
            if left.len() + right.len() > TEXT_BYTES_MAX {
                let message = format!("a text of {} bytes is longer than {TEXT_BYTES_MAX}", left.len() + right.len());
                return Err(Error::new(ErrorKind::TooLarge, message).with_hint("keep the parts as rows of a table"));
            }
            Some([left.as_str(), right].concat())
        }
        (ScalarValue::Utf8(_), ScalarValue::Utf8(_) | ScalarValue::Null)
        | (ScalarValue::Null, ScalarValue::Utf8(_)) => None,
        _ => return Ok(None),
    };
    Ok(Some(ScalarValue::Utf8(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_syntax::Kind;

    fn compiled(expression: &str) -> Option<Own> {
        let statement = alluvia_syntax::parse(&format!("SELECT {expression}")).unwrap().remove(0);
        match statement.kind {
            Kind::Query(query) => Own::of_query(&query),
            other => panic!("{expression}: {other:?}"),
        }
    }

    fn value(expression: &str, values: &[ScalarValue]) -> Result<Option<ScalarValue>> {
        let own = compiled(expression).unwrap_or_else(|| panic!("{expression} is not compiled"));
        own.evaluate(&|at| values.get(at))
    }

    fn shown(expression: &str) -> String {
        let values = [
            ScalarValue::Int32(Some(7)),
            ScalarValue::Int32(None),
            ScalarValue::Int64(Some(1 << 40)),
            ScalarValue::Utf8(Some("abc".to_owned())),
            ScalarValue::Boolean(None),
            ScalarValue::Int16(Some(30_000)),
            ScalarValue::Utf8(None),
            ScalarValue::Decimal128(Some(1050), 12, 2),
            ScalarValue::Decimal128(None, 12, 2),
            ScalarValue::Decimal128(Some(10i128.pow(27)), 38, 16),
        ];
        match value(expression, &values) {
            Ok(Some(value)) => format!("{value:?}"),
            Ok(None) => "host".to_owned(),
            Err(error) => format!("{} {}", error.sqlstate(), error.message()),
        }
    }

    #[test]
    fn values_are_those_of_sql() {
        for (expression, expected) in [
            ("1 + 2 * $1", "Int32(15)"),
            ("($1 - 10) / 2", "Int32(-1)"),
            ("-7 % 4", "Int32(-3)"),
            ("$1 + $3", "Int64(1099511627783)"),
            ("2147483647 + 1", "22003 integer out of range"),
            ("2147483648 + 1", "Int64(2147483649)"),
            ("9223372036854775807 + 1", "22003 bigint out of range"),
            ("$6 + $6", "Int32(60000)"),
            ("(-2147483647 - 1) / -1", "22003 integer out of range"),
            ("-(-2147483647 - 1)", "22003 integer out of range"),
            ("1 / 0", "22012 division by zero"),
            ("1 % 0", "22012 division by zero"),
            ("NULL / 0", "Int32(NULL)"),
            ("$2 + 1", "Int32(NULL)"),
            ("NULL + 1", "Int32(NULL)"),
            ("$1 > 6 AND $1 <= 7", "Boolean(true)"),
            ("$2 = 1", "Boolean(NULL)"),
            ("$2 = 1 AND false", "Boolean(false)"),
            ("$2 = 1 OR true", "Boolean(true)"),
            ("$2 = 1 OR false", "Boolean(NULL)"),
            ("NOT $5", "Boolean(NULL)"),
            ("$5 IS NULL", "Boolean(true)"),
            ("$5 IS NOT TRUE", "Boolean(true)"),
            ("$5 IS FALSE", "Boolean(false)"),
            ("false AND 1 / 0 = 1", "Boolean(false)"),
            ("$4 || 'd'", "Utf8(\"abcd\")"),
            ("$4 || $7", "Utf8(NULL)"),
            ("$4 || NULL", "Utf8(NULL)"),
            ("$4 < 'b'", "Boolean(true)"),
            ("'B' < 'a'", "Boolean(true)"),
            ("$4 <> 'abc'", "Boolean(false)"),
            ("$1 IN (1, 7)", "Boolean(true)"),
            ("$1 IN (1, NULL)", "Boolean(NULL)"),
            ("$1 NOT IN (1, 2)", "Boolean(true)"),
            ("$2 IN (1)", "Boolean(NULL)"),
            ("$8 * 3", "Decimal128(31.50,38,2)"),
            ("$8 + 1.125", "Decimal128(11.625,38,3)"),
            ("1 - $8", "Decimal128(-9.50,38,2)"),
            ("$8 * $8", "Decimal128(110.2500,38,4)"),
            ("$8 > 10", "Boolean(true)"),
            ("$8 = 10.5", "Boolean(true)"),
            ("$9 < 1", "Boolean(NULL)"),
            ("$8 IN (1, 10.5)", "Boolean(true)"),
            ("$9 + 1", "host"),
            ("$8 / 2", "host"),
            ("$10 * 100", "host"),
            ("$10 * 1.5", "host"),
            // A literal of another type, and what is not of one sort.
            ("$1 = '7'", "host"),
            ("$4 || 1", "host"),
            ("$4 + 1", "host"),
            ("NULL + NULL", "host"),
            ("$1 AND true", "host"),
        ] {
            assert_eq!(shown(expression), expected, "{expression}");
        }
    }

    #[test]
    fn what_is_not_in_the_list_is_not_compiled() {
        for expression in [
            "a",
            "f(1)",
            "$1::bigint",
            "count(*)",
            "1 WHERE true",
            "1 UNION SELECT 2",
            "1, 2",
            "1e3",
            "$1 ^ 2",
            "$1 & 1",
            "CASE WHEN $1 = 1 THEN 2 END",
            "(SELECT 1)",
            "$1 LIKE 'a'",
            "DISTINCT 1",
            "1 LIMIT 0",
            "99999999999999999999",
        ] {
            assert_eq!(compiled(expression), None, "{expression}");
        }
        let deep = format!("{}1", "- ".repeat(DEPTH_MAX));
        assert_eq!(compiled(&deep), None);
    }
}
