//! Recognising conditions that the index may hold, from a statement's tree.
//!
//! Invariant: a condition is true for exactly the rows for which the expression is; NOT is moved to the columns, where it can be
//! told from unknown. What is not understood is refused.

use super::statement::{Condition, Literal, Test};
use super::{constants, texts, units, years};
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, DataType as SqlType, Expr, UnaryOperator, Value};

/// The name of a column of the table, if the expression is one.
pub(crate) type Columns<'a> = dyn Fn(&Expr) -> Option<String> + 'a;

/// The parts of a conjunction.
pub(crate) fn conjunction(expr: &Expr, columns: &Columns<'_>) -> Option<Vec<Condition>> {
    let conditions = chain(expr, &BinaryOperator::And).into_iter().map(|part| condition_of(part, columns));
    conditions.collect()
}

/// The operands of a chain of one operator, which is a tree as deep as it is long.
pub(super) fn chain<'a>(expr: &'a Expr, op: &BinaryOperator) -> Vec<&'a Expr> {
    let mut operands = Vec::new();
    let mut open = vec![expr];
    while let Some(expr) = open.pop() {
        match expr {
            Expr::BinaryOp { left, op: own, right } if own == op => open.extend([right.as_ref(), left.as_ref()]),
            Expr::Nested(inner) => open.push(inner),
            operand => operands.push(operand),
        }
    }
    operands
}

fn condition_of(expr: &Expr, columns: &Columns<'_>) -> Option<Condition> {
    of_columns(expr, columns)
        .or_else(|| texts::condition_of(expr, columns))
        .or_else(|| years::condition_of(expr, columns))
        .or_else(|| units::condition_of(expr, columns))
}

/// What compares columns with constants.
fn of_columns(expr: &Expr, columns: &Columns<'_>) -> Option<Condition> {
    let condition = |column: &Expr, test: Test| Some(Condition::Column(columns(column)?, test));
    let negated = |condition: Condition, negated: bool| if negated { condition.negated() } else { condition };
    match expr {
        Expr::Nested(inner) => condition_of(inner, columns),
        Expr::UnaryOp { op: UnaryOperator::Not, expr } => Some(condition_of(expr, columns)?.negated()),
        Expr::BinaryOp { op: BinaryOperator::And, .. } => Some(Condition::All(conjunction(expr, columns)?)),
        Expr::BinaryOp { op: BinaryOperator::Or, .. } => {
            let parts = chain(expr, &BinaryOperator::Or).into_iter().map(|part| condition_of(part, columns));
            Some(Condition::Any(parts.collect::<Option<_>>()?))
        }
        Expr::BinaryOp { left, op, right } => match (columns(left), constant(right)) {
            (Some(_), Some(literal)) => condition(left, comparison(op, literal)?),
            _ => condition(right, comparison(&mirrored(op)?, constant(left)?)?),
        },
        // To be in no list is true of NULL, too.
        Expr::InList { list, .. } if list.is_empty() => None,
        Expr::InList { expr, list, negated: is_negated } => {
            let list: Vec<Literal> = list.iter().map(constant).collect::<Option<_>>()?;
            Some(negated(condition(expr, Test::In(list))?, *is_negated))
        }
        Expr::Between { expr, negated: is_negated, low, high } => {
            let range = Test::Range(Some((constant(low)?, true)), Some((constant(high)?, true)));
            Some(negated(condition(expr, range)?, *is_negated))
        }
        Expr::Like { negated: is_negated, any: false, expr, pattern, escape_char: None } => {
            let Literal::Text(pattern) = literal_of(pattern)? else { return None };
            Some(negated(condition(expr, Test::Like(pattern))?, *is_negated))
        }
        Expr::IsNotDistinctFrom(left, right) => of_value(left, right, columns),
        Expr::IsDistinctFrom(left, right) => Some(of_value(left, right, columns)?.negated()),
        Expr::IsTrue(column) => of_boolean(column, true, columns),
        Expr::IsFalse(column) => of_boolean(column, false, columns),
        Expr::IsNotTrue(column) => Some(of_boolean(column, true, columns)?.negated()),
        Expr::IsNotFalse(column) => Some(of_boolean(column, false, columns)?.negated()),
        Expr::IsNull(column) => condition(column, Test::Null),
        Expr::IsNotNull(column) => condition(column, Test::Known),
        // A column of type BOOLEAN, which binding sees to.
        column => condition(column, Test::In(vec![Literal::Boolean(true)])),
    }
}

/// One side is a column, and its value is what the other one is, which may be NULL.
fn of_value(left: &Expr, right: &Expr, columns: &Columns<'_>) -> Option<Condition> {
    let (column, with) = match columns(left) {
        Some(column) => (column, right),
        None => (columns(right)?, left),
    };
    match with {
        Expr::Value(value) if value.value == Value::Null => Some(Condition::Column(column, Test::Null)),
        other => Some(Condition::is_value(column, constant(other)?)),
    }
}

/// A column of type BOOLEAN, which binding sees to, is this and not NULL.
fn of_boolean(column: &Expr, value: bool, columns: &Columns<'_>) -> Option<Condition> {
    Some(Condition::is_value(columns(column)?, Literal::Boolean(value)))
}

fn comparison(op: &BinaryOperator, literal: Literal) -> Option<Test> {
    Some(match op {
        BinaryOperator::Eq => Test::In(vec![literal]),
        BinaryOperator::NotEq => Test::Not(Box::new(Test::In(vec![literal]))),
        BinaryOperator::Lt => Test::Range(None, Some((literal, false))),
        BinaryOperator::LtEq => Test::Range(None, Some((literal, true))),
        BinaryOperator::Gt => Test::Range(Some((literal, false)), None),
        BinaryOperator::GtEq => Test::Range(Some((literal, true)), None),
        _ => return None,
    })
}

fn mirrored(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq => BinaryOperator::Eq,
        BinaryOperator::NotEq => BinaryOperator::NotEq,
        BinaryOperator::Lt => BinaryOperator::Gt,
        BinaryOperator::LtEq => BinaryOperator::GtEq,
        BinaryOperator::Gt => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::LtEq,
        _ => return None,
    })
}

/// A constant, written or computed.
pub(super) fn constant(expr: &Expr) -> Option<Literal> {
    literal_of(expr).or_else(|| constants::computed(expr))
}

/// A constant that is written.
pub(super) fn literal_of(expr: &Expr) -> Option<Literal> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(Literal::Text(text.clone())),
            Value::Number(text, false) => Some(Literal::Number(text.clone())),
            Value::Boolean(value) => Some(Literal::Boolean(*value)),
            Value::Placeholder(name) => name.strip_prefix('$')?.parse().ok().map(Literal::Parameter),
            _ => None,
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => match literal_of(expr)? {
            Literal::Number(text) if !text.starts_with('-') => Some(Literal::Number(format!("-{text}"))),
            _ => None,
        },
        Expr::TypedString(typed) => match (&typed.data_type, &typed.value.value) {
            (SqlType::Date, Value::SingleQuotedString(text)) => Some(Literal::Date(text.clone())),
            (SqlType::Timestamp(None, ast::TimezoneInfo::None), Value::SingleQuotedString(text)) => {
                Some(Literal::Time(text.clone()))
            }
            _ => None,
        },
        Expr::Nested(inner) => literal_of(inner),
        _ => None,
    }
}
