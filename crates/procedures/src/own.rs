//! Expressions that the interpreter evaluates itself: constants, variables, whole numbers and decimals, comparisons, logic, `||` of texts.
//!
//! Invariants:
//! - What is given is what `SELECT expression` gives: NULL by SQL's three values, whole numbers of 4 or 8 bytes, an error where they overflow or
//!   are divided by zero, texts by their bytes. Sums, differences and products of decimals are exact, with the digits behind the point that
//!   planning gives them; quotients, and numbers of many digits, are planning's.
//! - It refuses rather than errs. An expression with anything else in it is not compiled; with values of other types, or types that do
//!   not fit together, [`Own::evaluate`] gives `None`, and the host evaluates all of it. Evaluating has no effects, so that nothing is done twice.

mod reading;
mod values;

use alluvia_types::Result;
use datafusion_common::ScalarValue;
use std::borrow::Cow;
use std::cmp::Ordering;
use values::{compared, computed, joined, whole};

pub(crate) use values::refuse_long;

/// The deepest expression that is evaluated here: evaluating is recursive.
const DEPTH_MAX: usize = 64;

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
