//! From the planner's expressions to normal forms.
//!
//! Invariants:
//! - An expression is understood only where it compares a bare column with literals of the column's own type; everything else that
//!   depends on the row alone is known by its text, and the rest not at all.
//! - Lists of floats are not taken apart: what holds of `=` and `<` on zeroes and NaN is not said of `IN`.

use crate::canonical::canonical;
use crate::constraint::{Constraint, End};
use crate::form::Form;
use crate::value::Value;
use alluvia_space::{Column, DataType, TableDef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, Operator};
use std::collections::BTreeSet;

/// Longer lists are known by their text.
const VALUES_MAX: usize = 1_024;

/// The normal form of a predicate over a table; `None` if it may not depend on the row alone.
pub(crate) fn normal_form(predicate: &Expr, def: &TableDef) -> Option<Form> {
    let mut form = Form::default();
    for part in split_conjunction(predicate) {
        let own = match understood(part, def) {
            Some((column, constraint)) => Form::of_column(column.id, constraint),
            None => Form::of_text(canonical(part, def)?),
        };
        form = form.and(own);
    }
    Some(form)
}

/// What an expression asks of its one column, if that is all it does.
fn understood<'d>(expr: &Expr, def: &'d TableDef) -> Option<(&'d Column, Constraint)> {
    let column = |expr: &Expr| match expr {
        Expr::Column(column) => def.columns.iter().find(|known| known.name == column.name),
        _ => None,
    };
    match expr {
        Expr::Alias(alias) => understood(&alias.expr, def),
        Expr::Column(_) => {
            let column = column(expr).filter(|column| column.data_type == DataType::Boolean)?;
            Some((column, one_of([Value::Whole(1)])))
        }
        Expr::Not(inner) => {
            let column = column(inner).filter(|column| column.data_type == DataType::Boolean)?;
            Some((column, one_of([Value::Whole(0)])))
        }
        Expr::IsNull(inner) => Some((column(inner)?, Constraint::Null)),
        Expr::IsNotNull(inner) => Some((column(inner)?, Constraint::not_null())),
        Expr::Between(between) if !between.negated => {
            let column = column(&between.expr)?;
            let end = |expr| Some(End { value: value(expr, column)?, inclusive: true });
            Some((column, Constraint::between(Some(end(&between.low)?), Some(end(&between.high)?))))
        }
        Expr::InList(list) => {
            let column = column(&list.expr).filter(|column| !is_float(column))?;
            if list.list.len() > VALUES_MAX {
                return None;
            }
            let is_null = |expr: &Expr| matches!(expr, Expr::Literal(value, _) if value.is_null());
            let values = list.list.iter().filter(|expr| !is_null(expr)).map(|expr| value(expr, column));
            let values = values.collect::<Option<BTreeSet<Value>>>()?;
            let constraint = match (list.negated, list.list.iter().any(is_null)) {
                // `x IN (1, NULL)` is TRUE where `x = 1` is; `x NOT IN (1, NULL)` nowhere.
                (false, _) => Constraint::OneOf(values),
                (true, false) => Constraint::none_of(values),
                (true, true) => Constraint::OneOf(BTreeSet::new()),
            };
            Some((column, constraint))
        }
        Expr::Like(like) if !like.negated && !like.case_insensitive => {
            let column = column(&like.expr).filter(|column| column.data_type == DataType::Text)?;
            let Value::Bytes(pattern) = value(&like.pattern, column)? else { return None };
            let prefix = pattern.strip_suffix(b"%").filter(|prefix| !prefix.is_empty())?;
            let special =
                |byte: &u8| matches!(byte, b'%' | b'_' | b'\\') || like.escape_char == Some(char::from(*byte));
            if prefix.iter().any(special) || like.escape_char == Some('%') {
                return None;
            }
            let low = End { value: Value::Bytes(prefix.to_vec()), inclusive: true };
            let high = End { value: Value::after_prefix(prefix)?, inclusive: false };
            Some((column, Constraint::between(Some(low), Some(high))))
        }
        Expr::BinaryExpr(binary) => match binary.op {
            Operator::Or => {
                let ((left, mut a), (right, b)) = (understood(&binary.left, def)?, understood(&binary.right, def)?);
                match (&mut a, b) {
                    (Constraint::OneOf(a), Constraint::OneOf(b)) if left.id == right.id && !is_float(left) => {
                        a.extend(b);
                        if a.len() > VALUES_MAX {
                            return None;
                        }
                    }
                    _ => return None,
                }
                Some((left, a))
            }
            Operator::And => {
                let ((left, a), (right, b)) = (understood(&binary.left, def)?, understood(&binary.right, def)?);
                (left.id == right.id).then(|| (left, a.and(b)))
            }
            operator => match (column(&binary.left), column(&binary.right)) {
                (Some(column), None) => compared(column, operator, &binary.right),
                (None, Some(column)) => compared(column, operator.swap()?, &binary.left),
                _ => None,
            },
        },
        _ => None,
    }
}

fn compared<'d>(column: &'d Column, operator: Operator, literal: &Expr) -> Option<(&'d Column, Constraint)> {
    let value = value(literal, column)?;
    let end = |inclusive| Some(End { value: value.clone(), inclusive });
    let constraint = match operator {
        Operator::Eq => one_of([value]),
        Operator::NotEq => Constraint::none_of(BTreeSet::from([value])),
        Operator::Lt => Constraint::between(None, end(false)),
        Operator::LtEq => Constraint::between(None, end(true)),
        Operator::Gt => Constraint::between(end(false), None),
        Operator::GtEq => Constraint::between(end(true), None),
        _ => return None,
    };
    Some((column, constraint))
}

fn one_of<const N: usize>(values: [Value; N]) -> Constraint {
    Constraint::OneOf(BTreeSet::from(values))
}

fn is_float(column: &Column) -> bool {
    matches!(column.data_type, DataType::Real | DataType::Double)
}

/// A literal that is not NULL, of the column's type.
fn value(expr: &Expr, column: &Column) -> Option<Value> {
    let literal: &ScalarValue = match expr {
        Expr::Literal(literal, _) => literal,
        _ => return None,
    };
    Value::of_literal(literal, &column.data_type)
}
