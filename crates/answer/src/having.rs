//! HAVING: which groups of an answer are in it, by values that are told.
//!
//! Invariants:
//! - What is compared is what the answer says: of an estimate the estimate, or its bounds, as they would be shown.
//! - A comparison is what the planner's would be, or there is none: the whole answer is left to the general way.

use super::predicate::{chain, literal_of};
use super::statement::{Aggregate, Item, Literal};
use alluvia_syntax::Sureness;
use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Datum, Float64Array, Int64Array};
use arrow::compute::kernels::cmp;
use arrow::compute::{and_kleene, cast, not, or_kleene};
use arrow::datatypes::{DataType as ArrowType, Decimal128Type, Int64Type};
use arrow::error::ArrowError;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, UnaryOperator};
use std::cmp::Ordering;

/// Up to this a double holds every whole number.
const WHOLE_MAX: u64 = 1 << 53;
/// Digits of a number that a double tells from all others.
const DIGITS_MAX: usize = 15;

/// What a group must be to be in the answer.
#[derive(Clone, PartialEq, Debug)]
pub enum Having {
    /// An item, by its place, compared with a constant.
    Compared(usize, Comparison, Literal),
    /// An item that is true or false.
    Is(usize),
    All(Vec<Having>),
    Any(Vec<Having>),
    Not(Box<Having>),
}

impl Having {
    /// Bytes in memory, about.
    pub(super) fn bytes(&self) -> usize {
        let of_parts = match self {
            Having::Compared(_, _, literal) => literal.bytes(),
            Having::Is(_) => 0,
            Having::All(parts) | Having::Any(parts) => parts.iter().map(Having::bytes).sum(),
            Having::Not(part) => part.bytes(),
        };
        size_of::<Having>() + of_parts
    }
}

/// How a value lies to a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    AtMost,
    More,
    AtLeast,
}

/// The place of an item, if the expression is one.
pub(super) type Places<'a> = dyn FnMut(&Expr) -> Option<usize> + 'a;

/// The condition of a HAVING; `None` if it is of any other kind.
pub(super) fn having_of(expr: &Expr, place: &mut Places<'_>) -> Option<Having> {
    match expr {
        Expr::Nested(inner) => having_of(inner, place),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => Some(Having::Not(Box::new(having_of(expr, place)?))),
        Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } => {
            let parts = chain(expr, op).into_iter().map(|part| having_of(part, place)).collect::<Option<Vec<_>>>()?;
            Some(if *op == BinaryOperator::And { Having::All(parts) } else { Having::Any(parts) })
        }
        Expr::BinaryOp { left, op, right } => {
            let comparison = Comparison::of(op)?;
            Some(match literal_of(right) {
                Some(literal) => Having::Compared(place(left)?, comparison, literal),
                None => Having::Compared(place(right)?, comparison.mirrored(), literal_of(left)?),
            })
        }
        Expr::Between { expr, negated, low, high } => {
            let at = place(expr)?;
            let range = Having::All(vec![
                Having::Compared(at, Comparison::AtLeast, literal_of(low)?),
                Having::Compared(at, Comparison::AtMost, literal_of(high)?),
            ]);
            Some(if *negated { Having::Not(Box::new(range)) } else { range })
        }
        item => Some(Having::Is(place(item)?)),
    }
}

impl Having {
    /// Whether all items are of a kind that can be compared so, and all constants are numbers, or are to become known.
    pub(super) fn fits(&self, items: &[Item]) -> bool {
        match self {
            Having::Compared(at, _, literal) => {
                let is_number = match &items[*at] {
                    Item::Aggregate(aggregate, _) => {
                        matches!(aggregate, Aggregate::Count | Aggregate::Sum | Aggregate::Avg)
                    }
                    Item::Sureness(sureness, ..) => *sureness != Sureness::IsExact,
                    Item::Group(_) => false,
                };
                is_number && matches!(literal, Literal::Number(_) | Literal::Parameter(_))
            }
            Having::Is(at) => matches!(&items[*at], Item::Sureness(Sureness::IsExact, ..)),
            Having::All(parts) | Having::Any(parts) => parts.iter().all(|part| part.fits(items)),
            Having::Not(part) => part.fits(items),
        }
    }

    /// With values for parameters; `None` if one of them has none.
    pub(super) fn with_parameters(&self, values: &[Literal]) -> Option<Having> {
        let all = |parts: &[Having]| parts.iter().map(|part| part.with_parameters(values)).collect::<Option<_>>();
        Some(match self {
            Having::Compared(at, comparison, Literal::Parameter(number)) => {
                Having::Compared(*at, *comparison, values.get(number.checked_sub(1)?)?.clone())
            }
            Having::Compared(..) | Having::Is(_) => self.clone(),
            Having::All(parts) => Having::All(all(parts)?),
            Having::Any(parts) => Having::Any(all(parts)?),
            Having::Not(part) => Having::Not(Box::new(part.with_parameters(values)?)),
        })
    }

    /// Which rows pass, by the items' columns: those for which it is true, neither false nor unknown. `None` where the planner might
    /// compare otherwise.
    pub(super) fn passing(&self, columns: &[ArrayRef]) -> Option<BooleanArray> {
        type Connect = fn(&BooleanArray, &BooleanArray) -> Result<BooleanArray, ArrowError>;
        let connected = |parts: &[Having], connect: Connect| -> Option<BooleanArray> {
            let (first, others) = parts.split_first()?;
            let first = first.passing(columns)?;
            others.iter().try_fold(first, |before, part| connect(&before, &part.passing(columns)?).ok())
        };
        match self {
            Having::Compared(at, comparison, Literal::Number(number)) => comparison.with(columns.get(*at)?, number),
            Having::Compared(..) => None,
            Having::Is(at) => columns.get(*at)?.as_boolean_opt().cloned(),
            Having::All(parts) => connected(parts, and_kleene),
            Having::Any(parts) => connected(parts, or_kleene),
            Having::Not(part) => not(&part.passing(columns)?).ok(),
        }
    }
}

impl Comparison {
    fn of(op: &BinaryOperator) -> Option<Comparison> {
        Some(match op {
            BinaryOperator::Eq => Comparison::Equal,
            BinaryOperator::NotEq => Comparison::NotEqual,
            BinaryOperator::Lt => Comparison::Less,
            BinaryOperator::LtEq => Comparison::AtMost,
            BinaryOperator::Gt => Comparison::More,
            BinaryOperator::GtEq => Comparison::AtLeast,
            _ => return None,
        })
    }

    /// With its sides exchanged.
    fn mirrored(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::More,
            Comparison::AtMost => Comparison::AtLeast,
            Comparison::More => Comparison::Less,
            Comparison::AtLeast => Comparison::AtMost,
            same => same,
        }
    }

    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::Less => ordering.is_lt(),
            Comparison::AtMost => ordering.is_le(),
            Comparison::More => ordering.is_gt(),
            Comparison::AtLeast => ordering.is_ge(),
        }
    }

    /// Of all values with a number as it is written.
    fn with(self, values: &ArrayRef, number: &str) -> Option<BooleanArray> {
        let integer = number.parse::<i64>().ok();
        // The planner reads a whole number as one, which has no negative zero.
        let float = || integer.map_or_else(|| number.parse::<f64>().ok(), |integer| Some(integer as f64));
        match (values.data_type(), integer) {
            (ArrowType::Int64, Some(integer)) => self.of_arrays(values, &Int64Array::new_scalar(integer)),
            (ArrowType::Int64, None) => {
                let mut integers = values.as_primitive::<Int64Type>().iter().flatten();
                if integers.any(|value| value.unsigned_abs() >= WHOLE_MAX) {
                    return None;
                }
                self.of_arrays(&cast(values, &ArrowType::Float64).ok()?, &Float64Array::new_scalar(float()?))
            }
            (ArrowType::Float64, _) => self.of_arrays(values, &Float64Array::new_scalar(float()?)),
            (ArrowType::Decimal128(_, scale), _) => {
                let (digits, places) = decimal_of(number)?;
                let scale = u32::try_from(*scale).ok()?;
                let by = |places: u32| 10i128.checked_pow(places);
                let (of_number, of_values) = (by(scale.saturating_sub(places))?, by(places.saturating_sub(scale))?);
                let number = digits.checked_mul(of_number)?;
                let compared = values.as_primitive::<Decimal128Type>().iter().map(|value| match value {
                    Some(value) => Some(Some(self.holds(value.checked_mul(of_values)?.cmp(&number)))),
                    None => Some(None),
                });
                compared.collect::<Option<Vec<_>>>().map(BooleanArray::from)
            }
            _ => None,
        }
    }

    fn of_arrays(self, values: &ArrayRef, constant: &dyn Datum) -> Option<BooleanArray> {
        let compared = match self {
            Comparison::Equal => cmp::eq(values, constant),
            Comparison::NotEqual => cmp::neq(values, constant),
            Comparison::Less => cmp::lt(values, constant),
            Comparison::AtMost => cmp::lt_eq(values, constant),
            Comparison::More => cmp::gt(values, constant),
            Comparison::AtLeast => cmp::gt_eq(values, constant),
        };
        compared.ok()
    }
}

/// A number's digits, and how many of them are behind the point; `None` if it is written otherwise, or a double may have lost some.
fn decimal_of(number: &str) -> Option<(i128, u32)> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let written = whole.trim_start_matches('-').len() + fraction.len();
    let is_plain = fraction.bytes().all(|byte| byte.is_ascii_digit());
    let digits = format!("{whole}{fraction}").parse::<i128>().ok()?;
    (is_plain && written <= DIGITS_MAX).then_some((digits, fraction.len() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Decimal128Array;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;
    use std::sync::Arc;

    /// Items are `a`, `b`, `c` and `d`, in this order.
    fn having(sql: &str) -> Option<Having> {
        let parsed = Parser::new(&PostgreSqlDialect {}).try_with_sql(sql).and_then(|mut parser| parser.parse_expr());
        having_of(&parsed.expect("parses"), &mut |expr| {
            ["a", "b", "c", "d"].iter().position(|name| *name == expr.to_string())
        })
    }

    fn passing(sql: &str) -> Vec<Option<bool>> {
        let decimals = Decimal128Array::from(vec![Some(1_050), Some(1_000), Some(-5), None]);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int64Array::from(vec![Some(1), Some(2), Some(3), None])),
            Arc::new(Float64Array::from(vec![Some(0.5), Some(1.0), Some(-0.25), Some(9.0)])),
            Arc::new(BooleanArray::from(vec![true, false, true, false])),
            Arc::new(decimals.with_precision_and_scale(20, 2).expect("fits")),
        ];
        having(sql).and_then(|having| having.passing(&columns)).expect(sql).iter().collect()
    }

    #[test]
    fn groups_pass_as_they_do_in_sql() {
        let (yes, no, unknown) = (Some(true), Some(false), None);
        for (sql, expected) in [
            ("a > 1", [no, yes, yes, unknown]),
            ("2 <= a", [no, yes, yes, unknown]),
            ("a < 2.5", [yes, yes, no, unknown]),
            ("a <> 2 AND b >= 0.5", [yes, no, no, unknown]),
            // What is unknown decides nothing that the other side has decided.
            ("a = 1 OR b = 9", [yes, no, no, yes]),
            ("a = 1 AND b < 5", [yes, no, no, no]),
            ("NOT (a > 1)", [yes, no, no, unknown]),
            ("b > -1", [yes, yes, yes, yes]),
            ("a NOT BETWEEN 2 AND 3", [yes, no, no, unknown]),
            ("b BETWEEN -0.25 AND 0.5", [yes, no, yes, no]),
            ("c", [yes, no, yes, no]),
            ("NOT c OR a = 3", [no, yes, yes, yes]),
            ("d > 10", [yes, no, no, unknown]),
            ("d >= 10.00 AND d < 10.501", [yes, yes, no, unknown]),
            ("d = -0.05", [no, no, yes, unknown]),
        ] {
            assert_eq!(passing(sql), expected, "{sql}");
        }
    }

    #[test]
    fn what_might_be_compared_otherwise_is_not() {
        for sql in ["a + 1 > 2", "a > b", "upper(a) = 'X'", "a IS NULL", "a IN (1, 2)", "e > 1"] {
            assert_eq!(having(sql), None, "{sql}");
        }
        let items = [
            Item::Aggregate(Aggregate::Sum, Some("x".to_owned())),
            Item::Sureness(Sureness::RelativeError, Aggregate::Count, None),
            Item::Sureness(Sureness::IsExact, Aggregate::Count, None),
            Item::Aggregate(Aggregate::Max, Some("x".to_owned())),
        ];
        for (sql, fits) in [
            ("a > 1 AND NOT c", true),
            ("b < 0.1 OR a = $1", true),
            ("a > 'x'", false),
            ("a", false),
            ("c = 1", false),
            ("a > 1 AND d > 1", false),
        ] {
            assert_eq!(having(sql).expect(sql).fits(&items), fits, "{sql}");
        }
        let large: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(vec![i64::MAX]))];
        assert!(having("a > 0.5").expect("fits").passing(&large).is_none());
        assert!(having("a > 5").expect("fits").passing(&large).is_some());
        // More digits than a double has.
        assert_eq!(
            (decimal_of("1234567890.123456"), decimal_of("-12.5"), decimal_of("1e3")),
            (None, Some((-125, 1)), None)
        );
        let given =
            having("a > $2").expect("fits").with_parameters(&[Literal::Boolean(true), Literal::Number("7".to_owned())]);
        assert_eq!(given, having("a > 7"));
        assert_eq!(having("a > $2").expect("fits").with_parameters(&[Literal::Boolean(true)]), None);
    }
}
