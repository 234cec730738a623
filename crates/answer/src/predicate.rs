//! The forms of conditions in a statement's tree, and its constants.
//!
//! Invariant: what is not understood is refused. What is understood means what [`super::comparison`] says.

use super::comparison::{Expressions, PredicateForm, Subject};
use super::statement::{Condition, Literal};
use super::texts::operator;
use super::{comparison, constants, texts, units, years};
use datafusion::logical_expr::Operator;
use datafusion::sql::sqlparser::ast::{self, BinaryOperator, DataType as SqlType, Expr, UnaryOperator, Value};

/// The name of a column of the table, if the expression is one.
pub type Columns<'a> = dyn Fn(&Expr) -> Option<String> + 'a;

/// The parts of a conjunction.
pub fn conjunction(expr: &Expr, columns: &Columns<'_>) -> Option<Vec<Condition>> {
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

/// The condition that an expression is; `None` of what is not understood.
pub(super) fn condition_of(expr: &Expr, columns: &Columns<'_>) -> Option<Condition> {
    comparison::condition_of(&Trees { columns }, expr)
}

/// Expressions of statements' trees, and what of them are columns.
struct Trees<'a> {
    columns: &'a Columns<'a>,
}

impl Expressions for Trees<'_> {
    type Expr = Expr;

    fn form<'a>(&self, expr: &'a Expr) -> Option<PredicateForm<'a, Expr>> {
        Some(match without_brackets(expr) {
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => PredicateForm::Not(expr),
            Expr::BinaryOp { op: BinaryOperator::And, .. } => PredicateForm::All(chain(expr, &BinaryOperator::And)),
            Expr::BinaryOp { op: BinaryOperator::Or, .. } => PredicateForm::Any(chain(expr, &BinaryOperator::Or)),
            Expr::BinaryOp { left, op, right } => PredicateForm::Compared(left, operator(op)?, right),
            Expr::IsDistinctFrom(left, right) => PredicateForm::Compared(left, Operator::IsDistinctFrom, right),
            Expr::IsNotDistinctFrom(left, right) => PredicateForm::Compared(left, Operator::IsNotDistinctFrom, right),
            Expr::InList { expr: of, list, negated } => PredicateForm::In { of, list, is_negated: *negated },
            Expr::Between { expr: of, negated, low, high } => {
                PredicateForm::Between { of, low, high, is_negated: *negated }
            }
            Expr::Like { negated, any: false, expr: of, pattern, escape_char: None } => {
                PredicateForm::Like { of, pattern, is_negated: *negated }
            }
            Expr::IsTrue(of) => PredicateForm::IsBoolean { of, value: true, is_negated: false },
            Expr::IsFalse(of) => PredicateForm::IsBoolean { of, value: false, is_negated: false },
            Expr::IsNotTrue(of) => PredicateForm::IsBoolean { of, value: true, is_negated: true },
            Expr::IsNotFalse(of) => PredicateForm::IsBoolean { of, value: false, is_negated: true },
            Expr::IsNull(of) => PredicateForm::IsNull { of, is_negated: false },
            Expr::IsNotNull(of) => PredicateForm::IsNull { of, is_negated: true },
            value => PredicateForm::Value(value),
        })
    }

    fn subject(&self, expr: &Expr) -> Option<Subject> {
        if let Some(column) = (self.columns)(expr) {
            return Some(Subject::Column(column));
        }
        let year = years::year_of(expr, self.columns).map(Subject::Year);
        year.or_else(|| units::cut_of(expr, self.columns).map(|(column, cut)| Subject::Cut(column, cut)))
    }

    fn literal(&self, expr: &Expr) -> Option<Literal> {
        constant(expr)
    }

    fn is_null(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Value(value) if value.value == Value::Null)
    }

    fn pattern(&self, expr: &Expr) -> Option<String> {
        match literal_of(expr)? {
            Literal::Text(pattern) => Some(pattern),
            _ => None,
        }
    }

    fn otherwise(&self, expr: &Expr) -> Option<Condition> {
        texts::condition_of(without_brackets(expr), self.columns)
    }
}

fn without_brackets(mut expr: &Expr) -> &Expr {
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
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
