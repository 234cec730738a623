//! The closed list of expressions: constants, parameters, columns of the row, and `+`, `-`, `*` of numbers.

use crate::value::{Operator, Value};
use alluvia_space::TableDef;
use alluvia_syntax::names::name_of;
use arrow::array::RecordBatch;
use datafusion_common::ScalarValue;
use sqlparser::ast::{self, BinaryOperator, Ident, UnaryOperator};

/// An expression.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Constant(Value),
    /// By number, from 1.
    Parameter(usize),
    /// By its place in the definition.
    Column(usize),
    Negated(Box<Expr>),
    Computed(Box<Expr>, Operator, Box<Expr>),
}

impl Expr {
    /// Compiles an expression; `None` of what is not in the list.
    pub(crate) fn of(expr: &ast::Expr, def: &TableDef, alias: &Ident) -> Option<Expr> {
        Some(match expr {
            ast::Expr::Nested(inner) => Expr::of(inner, def, alias)?,
            ast::Expr::Value(value) => match &value.value {
                ast::Value::Null => Expr::Constant(Value::Null),
                ast::Value::Boolean(truth) => Expr::Constant(Value::Boolean(*truth)),
                ast::Value::Number(digits, false) => Expr::Constant(Value::of_digits(&digits.to_string())?),
                ast::Value::SingleQuotedString(text) => Expr::Constant(Value::Text(text.clone())),
                ast::Value::Placeholder(name) => Expr::Parameter(name.strip_prefix('$')?.parse().ok()?),
                _ => return None,
            },
            ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) => Expr::Column(column_of(expr, def, alias)?),
            ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr } => {
                Expr::Negated(Box::new(Expr::of(expr, def, alias)?))
            }
            ast::Expr::BinaryOp { left, op, right } => {
                let operator = match op {
                    BinaryOperator::Plus => Operator::Plus,
                    BinaryOperator::Minus => Operator::Minus,
                    BinaryOperator::Multiply => Operator::Times,
                    _ => return None,
                };
                let (left, right) = (Expr::of(left, def, alias)?, Expr::of(right, def, alias)?);
                // Without a column both sides may be of a type that only planning knows.
                let is_known = |side: &Expr| !matches!(side, Expr::Constant(Value::Null | Value::Text(_)));
                if !is_known(&left) || !is_known(&right) {
                    return None;
                }
                Expr::Computed(Box::new(left), operator, Box::new(right))
            }
            _ => return None,
        })
    }

    /// Whether it reads the row.
    pub(crate) fn reads_row(&self) -> bool {
        match self {
            Expr::Column(_) => true,
            Expr::Constant(_) | Expr::Parameter(_) => false,
            Expr::Negated(inner) => inner.reads_row(),
            Expr::Computed(left, _, right) => left.reads_row() || right.reads_row(),
        }
    }

    /// Its value in a row of the table, which has all columns in the order of the definition.
    pub(crate) fn value(
        &self,
        parameters: &[ScalarValue],
        row: Option<(&TableDef, &RecordBatch, usize)>,
    ) -> Option<Value> {
        match self {
            Expr::Constant(value) => Some(value.clone()),
            Expr::Parameter(number) => Value::of_parameter(parameters.get(number.checked_sub(1)?)?),
            Expr::Column(at) => {
                let (def, rows, row) = row?;
                Value::of_column(&def.columns[*at], rows.column(*at), row)
            }
            Expr::Negated(inner) => inner.value(parameters, row)?.negated(),
            Expr::Computed(left, operator, right) => {
                left.value(parameters, row)?.computed(*operator, right.value(parameters, row)?)
            }
        }
    }
}

/// The place of the column that an expression is.
pub(crate) fn column_of(expr: &ast::Expr, def: &TableDef, alias: &Ident) -> Option<usize> {
    let name = match expr {
        ast::Expr::Nested(inner) => return column_of(inner, def, alias),
        ast::Expr::Identifier(name) => name,
        ast::Expr::CompoundIdentifier(names) => match names.as_slice() {
            [table, name] if name_of(table) == name_of(alias) => name,
            _ => return None,
        },
        _ => return None,
    };
    let name = name_of(name);
    def.columns.iter().position(|column| column.name == name)
}
