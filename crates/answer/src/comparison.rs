//! Conditions of predicates that compare a column, its year, or the unit that it is cut to, with constants.
//!
//! Invariants:
//! - A condition is true for exactly the rows for which the predicate is, and its negation for exactly those for which
//!   the predicate is false. NOT is moved to the columns, where false can be told from unknown.
//! - What a form of a predicate means is said here alone. Who has expressions of its own tells their forms
//!   ([`Expressions`]): `predicate` those of statements' trees, `rule::condition` of `query` those of plans.

use super::statement::{Condition, Literal, Test};
use super::units::{Cut, test_of};
use super::years;
use datafusion::logical_expr::Operator;

/// The form of a predicate whose parts are expressions of type `E`.
pub enum PredicateForm<'a, E> {
    /// `NOT operand`
    Not(&'a E),
    /// The operands of a chain of AND.
    All(Vec<&'a E>),
    /// The operands of a chain of OR.
    Any(Vec<&'a E>),
    /// `left op right`. The operator is one of the six comparisons, or says whether both sides are distinct.
    Compared(&'a E, Operator, &'a E),
    /// `of IN (list)`
    In {
        /// What is looked for.
        of: &'a E,
        /// Where.
        list: &'a [E],
        /// Whether it is `NOT IN`.
        is_negated: bool,
    },
    /// `of BETWEEN low AND high`
    Between {
        /// What is compared.
        of: &'a E,
        /// The least.
        low: &'a E,
        /// The greatest.
        high: &'a E,
        /// Whether it is `NOT BETWEEN`.
        is_negated: bool,
    },
    /// LIKE with the escape that is the default.
    Like {
        /// The text.
        of: &'a E,
        /// The pattern.
        pattern: &'a E,
        /// Whether it is `NOT LIKE`.
        is_negated: bool,
    },
    /// `of IS NULL`
    IsNull {
        /// The value.
        of: &'a E,
        /// Whether it is `IS NOT NULL`.
        is_negated: bool,
    },
    /// `of IS TRUE` or `of IS FALSE`, by the value.
    IsBoolean {
        /// What is tested.
        of: &'a E,
        /// For what.
        value: bool,
        /// Whether it is `IS NOT`.
        is_negated: bool,
    },
    /// A value of type BOOLEAN by itself, which binding sees to.
    Value(&'a E),
}

/// What is compared with constants: a column, or something of the column with this name.
#[derive(Debug)]
pub enum Subject {
    /// The column.
    Column(String),
    /// Its year.
    Year(String),
    /// The unit that it is cut to.
    Cut(String, Cut),
}

/// Expressions of one kind, which tell the forms of predicates.
pub trait Expressions {
    /// An expression.
    type Expr;

    /// The form of a predicate; `None` of one that has none of these forms.
    fn form<'a>(&self, expr: &'a Self::Expr) -> Option<PredicateForm<'a, Self::Expr>>;

    /// What of the table's columns an expression is.
    fn subject(&self, expr: &Self::Expr) -> Option<Subject>;

    /// A constant that is not NULL.
    fn literal(&self, expr: &Self::Expr) -> Option<Literal>;

    /// Whether it is the constant NULL.
    fn is_null(&self, expr: &Self::Expr) -> bool;

    /// A constant pattern.
    fn pattern(&self, expr: &Self::Expr) -> Option<String>;

    /// The condition of a predicate of which no form gives one.
    fn otherwise(&self, expr: &Self::Expr) -> Option<Condition>;
}

/// The condition of a predicate; `None` of what is not understood.
pub fn condition_of<L: Expressions>(expressions: &L, expr: &L::Expr) -> Option<Condition> {
    compared(expressions, expr).or_else(|| expressions.otherwise(expr))
}

/// The conditions of all parts.
fn conditions_of<L: Expressions>(expressions: &L, parts: Vec<&L::Expr>) -> Option<Vec<Condition>> {
    parts.into_iter().map(|part| condition_of(expressions, part)).collect()
}

fn compared<L: Expressions>(expressions: &L, expr: &L::Expr) -> Option<Condition> {
    let column = |of: &L::Expr| match expressions.subject(of)? {
        Subject::Column(column) => Some(column),
        Subject::Year(_) | Subject::Cut(..) => None,
    };
    let (condition, is_negated) = match expressions.form(expr)? {
        PredicateForm::Not(inner) => (condition_of(expressions, inner)?, true),
        PredicateForm::All(parts) => (Condition::All(conditions_of(expressions, parts)?), false),
        PredicateForm::Any(parts) => (Condition::Any(conditions_of(expressions, parts)?), false),
        PredicateForm::Compared(left, op @ (Operator::IsDistinctFrom | Operator::IsNotDistinctFrom), right) => {
            let (column, with) = match column(left) {
                Some(column) => (column, right),
                None => (column(right)?, left),
            };
            let same = if expressions.is_null(with) {
                Condition::Column(column, Test::Null)
            } else {
                Condition::is_value(column, expressions.literal(with)?)
            };
            (same, op == Operator::IsDistinctFrom)
        }
        PredicateForm::Compared(left, op, right) => {
            let condition = match (expressions.subject(left), expressions.literal(right)) {
                (Some(subject), Some(literal)) => subject.compared(op, literal)?,
                _ => expressions.subject(right)?.compared(op.swap()?, expressions.literal(left)?)?,
            };
            (condition, false)
        }
        // To be in no list is true of NULL, too.
        PredicateForm::In { list: [], .. } => return None,
        PredicateForm::In { of, list, is_negated } => {
            let subject = expressions.subject(of)?;
            let literals = list.iter().map(|literal| expressions.literal(literal)).collect::<Option<Vec<_>>>()?;
            (subject.one_of(literals)?, is_negated)
        }
        PredicateForm::Between { of, low, high, is_negated } => {
            let subject = expressions.subject(of)?;
            (subject.between(expressions.literal(low)?, expressions.literal(high)?)?, is_negated)
        }
        PredicateForm::Like { of, pattern, is_negated } => {
            (Condition::Column(column(of)?, Test::Like(expressions.pattern(pattern)?)), is_negated)
        }
        PredicateForm::IsNull { of, is_negated } => (Condition::Column(column(of)?, Test::Null), is_negated),
        PredicateForm::IsBoolean { of, value, is_negated } => {
            (Condition::is_value(column(of)?, Literal::Boolean(value)), is_negated)
        }
        PredicateForm::Value(of) => (Condition::Column(column(of)?, Test::In(vec![Literal::Boolean(true)])), false),
    };
    Some(if is_negated { condition.negated() } else { condition })
}

impl Subject {
    /// What makes the comparison with a constant true.
    pub fn compared(&self, op: Operator, literal: Literal) -> Option<Condition> {
        match self {
            Subject::Column(column) => Some(Condition::Column(column.clone(), comparison(op, literal)?)),
            Subject::Year(column) => years::compared(column, op, years::number(&literal)?),
            Subject::Cut(column, cut) => Some(Condition::Column(column.clone(), test_of(*cut, op, literal)?)),
        }
    }

    fn one_of(self, literals: Vec<Literal>) -> Option<Condition> {
        if let Subject::Column(column) = self {
            return Some(Condition::Column(column, Test::In(literals)));
        }
        let each = literals.into_iter().map(|literal| self.compared(Operator::Eq, literal));
        each.collect::<Option<_>>().map(Condition::Any)
    }

    fn between(self, low: Literal, high: Literal) -> Option<Condition> {
        if let Subject::Column(column) = self {
            return Some(Condition::Column(column, Test::Range(Some((low, true)), Some((high, true)))));
        }
        Some(Condition::All(vec![self.compared(Operator::GtEq, low)?, self.compared(Operator::LtEq, high)?]))
    }
}

fn comparison(op: Operator, literal: Literal) -> Option<Test> {
    Some(match op {
        Operator::Eq => Test::In(vec![literal]),
        Operator::NotEq => Test::Not(Box::new(Test::In(vec![literal]))),
        Operator::Lt => Test::Range(None, Some((literal, false))),
        Operator::LtEq => Test::Range(None, Some((literal, true))),
        Operator::Gt => Test::Range(Some((literal, false)), None),
        Operator::GtEq => Test::Range(Some((literal, true)), None),
        _ => return None,
    })
}
