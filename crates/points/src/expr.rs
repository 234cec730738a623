//! The closed list of expressions: constants, parameters, columns of the row, and `+`, `-`, `*` of numbers.

use crate::names::{ColumnPlace, Named, column_of};
use crate::value::{Operator, Value};
use alluvia_heap::RowRef;
use alluvia_space::TableDef;
use arrow::array::RecordBatch;
use datafusion_common::ScalarValue;
use sqlparser::ast::{self, BinaryOperator, UnaryOperator};

/// Rows that an expression may read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rows<'a> {
    None,
    /// One of the statement's only table, which has all columns in the order of the definition.
    Batch(&'a TableDef, &'a RecordBatch, usize),
    /// One of each table, in the order of the statement, as far as they are there.
    Heap(&'a [&'a TableDef], &'a [Option<RowRef<'a>>]),
}

impl Rows<'_> {
    fn value(&self, ColumnPlace { table, column }: ColumnPlace) -> Option<Value> {
        match self {
            Rows::None => None,
            Rows::Batch(def, rows, row) => Value::of_column(def.columns.get(column)?, rows.column(column), *row),
            Rows::Heap(defs, rows) => {
                let row = rows.get(table)?.as_ref()?;
                Value::of_cell(defs.get(table)?.columns.get(column)?, row.cell(column))
            }
        }
    }
}

/// An expression.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Constant(Value),
    /// By number, from 1.
    Parameter(usize),
    Column(ColumnPlace),
    Negated(Box<Expr>),
    Computed(Box<Expr>, Operator, Box<Expr>),
}

impl Expr {
    /// Compiles an expression; `None` of what is not in the list.
    pub(crate) fn of(expr: &ast::Expr, tables: &[Named<'_>]) -> Option<Expr> {
        Some(match expr {
            ast::Expr::Nested(inner) => Expr::of(inner, tables)?,
            ast::Expr::Value(value) => match &value.value {
                ast::Value::Null => Expr::Constant(Value::Null),
                ast::Value::Boolean(truth) => Expr::Constant(Value::Boolean(*truth)),
                ast::Value::Number(digits, false) => Expr::Constant(Value::of_digits(&digits.to_string())?),
                ast::Value::SingleQuotedString(text) => Expr::Constant(Value::Text(text.clone())),
                ast::Value::Placeholder(name) => Expr::Parameter(name.strip_prefix('$')?.parse().ok()?),
                _ => return None,
            },
            ast::Expr::Identifier(_) | ast::Expr::CompoundIdentifier(_) => Expr::Column(column_of(expr, tables)?),
            ast::Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Expr::Negated(Box::new(Expr::of(expr, tables)?)),
            ast::Expr::BinaryOp { left, op, right } => {
                let operator = match op {
                    BinaryOperator::Plus => Operator::Plus,
                    BinaryOperator::Minus => Operator::Minus,
                    BinaryOperator::Multiply => Operator::Times,
                    _ => return None,
                };
                let (left, right) = (Expr::of(left, tables)?, Expr::of(right, tables)?);
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

    /// Whether it reads rows.
    pub(crate) fn reads_row(&self) -> bool {
        self.reads_other_than(&|_| false)
    }

    /// Whether it reads a row of a table, by its place, of which this does not hold.
    pub(crate) fn reads_other_than(&self, is_there: &dyn Fn(usize) -> bool) -> bool {
        match self {
            Expr::Column(place) => !is_there(place.table),
            Expr::Constant(_) | Expr::Parameter(_) => false,
            Expr::Negated(inner) => inner.reads_other_than(is_there),
            Expr::Computed(left, _, right) => left.reads_other_than(is_there) || right.reads_other_than(is_there),
        }
    }

    /// Its value; `None` where that is for planning.
    pub(crate) fn value(&self, parameters: &[ScalarValue], rows: Rows<'_>) -> Option<Value> {
        match self {
            Expr::Constant(value) => Some(value.clone()),
            Expr::Parameter(number) => Value::of_parameter(parameters.get(number.checked_sub(1)?)?),
            Expr::Column(place) => rows.value(*place),
            Expr::Negated(inner) => inner.value(parameters, rows)?.negated(),
            Expr::Computed(left, operator, right) => {
                left.value(parameters, rows)?.computed(*operator, right.value(parameters, rows)?)
            }
        }
    }
}
