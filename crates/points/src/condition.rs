//! Conditions of rows, of three values: true, false, and NULL for what is not known.

use crate::expr::{Expr, Rows};
use crate::names::Named;
use crate::value::Value;
use alluvia_space::DataType;
use datafusion_common::ScalarValue;
use sqlparser::ast::{self, BinaryOperator, UnaryOperator};
use std::cmp::Ordering;

/// A condition.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    Compared(Expr, Comparison, Expr),
    /// IS NULL, or IS NOT NULL.
    IsNull(Expr, bool),
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
}

/// How two values are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    fn of(operator: &BinaryOperator) -> Option<Comparison> {
        Some(match operator {
            BinaryOperator::Eq => Comparison::Equal,
            BinaryOperator::NotEq => Comparison::NotEqual,
            BinaryOperator::Lt => Comparison::Less,
            BinaryOperator::LtEq => Comparison::LessOrEqual,
            BinaryOperator::Gt => Comparison::Greater,
            BinaryOperator::GtEq => Comparison::GreaterOrEqual,
            _ => return None,
        })
    }

    /// The same with its sides changed.
    pub(crate) fn turned(self) -> Comparison {
        match self {
            Comparison::Less => Comparison::Greater,
            Comparison::LessOrEqual => Comparison::GreaterOrEqual,
            Comparison::Greater => Comparison::Less,
            Comparison::GreaterOrEqual => Comparison::LessOrEqual,
            same => same,
        }
    }

    fn holds(self, found: Ordering) -> bool {
        match self {
            Comparison::Equal => found.is_eq(),
            Comparison::NotEqual => found.is_ne(),
            Comparison::Less => found.is_lt(),
            Comparison::LessOrEqual => found.is_le(),
            Comparison::Greater => found.is_gt(),
            Comparison::GreaterOrEqual => found.is_ge(),
        }
    }
}

impl Condition {
    /// Compiles a condition; `None` of what is not in the list.
    pub(crate) fn of(expr: &ast::Expr, tables: &[Named<'_>]) -> Option<Condition> {
        let operand = |expr: &ast::Expr| Expr::of(expr, tables).filter(|operand| is_comparable(operand, tables));
        Some(match expr {
            ast::Expr::Nested(inner) => Condition::of(inner, tables)?,
            ast::Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                let (left, right) = (Condition::of(left, tables)?, Condition::of(right, tables)?);
                Condition::All(left.all().into_iter().chain(right.all()).collect())
            }
            ast::Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
                let (left, right) = (Condition::of(left, tables)?, Condition::of(right, tables)?);
                Condition::Any(left.any().into_iter().chain(right.any()).collect())
            }
            ast::Expr::BinaryOp { left, op, right } => {
                let comparison = Comparison::of(op)?;
                compared(operand(left)?, comparison, operand(right)?)?
            }
            ast::Expr::UnaryOp { op: UnaryOperator::Not, expr } => {
                Condition::Not(Box::new(Condition::of(expr, tables)?))
            }
            ast::Expr::IsNull(inner) => Condition::IsNull(column(operand(inner)?)?, true),
            ast::Expr::IsNotNull(inner) => Condition::IsNull(column(operand(inner)?)?, false),
            ast::Expr::InList { expr, list, negated: false } => {
                let one = |value: &ast::Expr| compared(operand(expr)?, Comparison::Equal, operand(value)?);
                Condition::Any(list.iter().map(one).collect::<Option<Vec<_>>>()?)
            }
            ast::Expr::Between { expr, negated: false, low, high } => Condition::All(vec![
                compared(operand(expr)?, Comparison::GreaterOrEqual, operand(low)?)?,
                compared(operand(expr)?, Comparison::LessOrEqual, operand(high)?)?,
            ]),
            _ => return None,
        })
    }

    /// Conditions that all must hold.
    pub(crate) fn all(self) -> Vec<Condition> {
        match self {
            Condition::All(all) => all,
            other => vec![other],
        }
    }

    /// Conditions of which one must hold.
    pub(crate) fn any(self) -> Vec<Condition> {
        match self {
            Condition::Any(any) => any,
            other => vec![other],
        }
    }

    /// Whether it reads a row of a table, by its place, of which this does not hold.
    pub(crate) fn reads_other_than(&self, is_there: &dyn Fn(usize) -> bool) -> bool {
        match self {
            Condition::Compared(left, _, right) => left.reads_other_than(is_there) || right.reads_other_than(is_there),
            Condition::IsNull(of, _) => of.reads_other_than(is_there),
            Condition::All(of) | Condition::Any(of) => of.iter().any(|of| of.reads_other_than(is_there)),
            Condition::Not(of) => of.reads_other_than(is_there),
        }
    }

    /// Whether it holds; inside, `None` where that is not known, and `None` where it is for planning.
    pub(crate) fn holds(&self, parameters: &[ScalarValue], rows: Rows<'_>) -> Option<Option<bool>> {
        Some(match self {
            Condition::Compared(left, comparison, right) => {
                match (left.value(parameters, rows)?, right.value(parameters, rows)?) {
                    (Value::Null, _) | (_, Value::Null) => None,
                    (left, right) => Some(comparison.holds(left.ordered(&right)?)),
                }
            }
            Condition::IsNull(of, wanted) => Some((of.value(parameters, rows)? == Value::Null) == *wanted),
            Condition::All(all) => {
                let mut known = Some(true);
                for of in all {
                    match of.holds(parameters, rows)? {
                        Some(false) => return Some(Some(false)),
                        Some(true) => {}
                        None => known = None,
                    }
                }
                known
            }
            Condition::Any(any) => {
                let mut known = Some(false);
                for of in any {
                    match of.holds(parameters, rows)? {
                        Some(true) => return Some(Some(true)),
                        Some(false) => {}
                        None => known = None,
                    }
                }
                known
            }
            Condition::Not(of) => of.holds(parameters, rows)?.map(|holds| !holds),
        })
    }
}

/// A comparison in which a column takes part: what two constants are, planning knows.
fn compared(left: Expr, comparison: Comparison, right: Expr) -> Option<Condition> {
    (left.reads_row() || right.reads_row()).then_some(Condition::Compared(left, comparison, right))
}

fn column(expr: Expr) -> Option<Expr> {
    matches!(expr, Expr::Column(_)).then_some(expr)
}

/// Whether values are compared here as planning compares them. That one is NULL without being a column is for planning.
fn is_comparable(expr: &Expr, tables: &[Named<'_>]) -> bool {
    match expr {
        Expr::Constant(value) => *value != Value::Null,
        Expr::Parameter(_) => true,
        Expr::Column(place) => {
            let column = tables.get(place.table).and_then(|of| of.def.columns.get(place.column));
            column.is_some_and(|column| is_compared(column.data_type))
        }
        Expr::Negated(inner) => is_comparable(inner, tables),
        Expr::Computed(left, _, right) => is_comparable(left, tables) && is_comparable(right, tables),
    }
}

/// Types whose values are compared here.
pub(crate) fn is_compared(data_type: DataType) -> bool {
    matches!(
        data_type,
        DataType::Boolean
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Decimal { .. }
            | DataType::Text
            | DataType::Date
            | DataType::Timestamp
            | DataType::TimestampTz
    )
}
