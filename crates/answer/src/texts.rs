//! Conditions on texts that the planner's functions tell of each member: ILIKE, and comparisons of `lower(column)` and `upper(column)`.
//!
//! Invariant: a predicate is what the planner makes of the expression for a column of type TEXT, and it is asked of no other column.

use super::member_predicate::MemberPredicate;
use super::predicate::{Columns, literal_of};
use super::statement::{Condition, Literal, Test};
use alluvia_syntax::trees::rewriting::call_of;
use datafusion::common::Column;
use datafusion::functions::expr_fn::{lower, upper};
use datafusion::logical_expr::{Expr, Operator, binary_expr};
use datafusion::prelude::lit;
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr as Parsed};

/// The condition; `None` of any other expression.
pub(super) fn condition_of(expr: &Parsed, columns: &Columns<'_>) -> Option<Condition> {
    let (column, predicate) = match expr {
        Parsed::ILike { negated, any: false, expr, pattern, escape_char: None } => {
            let (column, text) = text_of(expr, columns)?;
            let pattern = constant(pattern)?;
            (column, if *negated { text.not_ilike(pattern) } else { text.ilike(pattern) })
        }
        Parsed::Like { negated, any: false, expr, pattern, escape_char: None } => {
            let (column, text) = text_of(expr, columns)?;
            let pattern = constant(pattern)?;
            (column, if *negated { text.not_like(pattern) } else { text.like(pattern) })
        }
        // To be in no list is true of NULL, too.
        Parsed::InList { list, .. } if list.is_empty() => return None,
        Parsed::InList { expr, list, negated } => {
            let (column, text) = text_of(expr, columns)?;
            let list = list.iter().map(constant).collect::<Option<Vec<_>>>()?;
            (column, text.in_list(list, *negated))
        }
        Parsed::BinaryOp { left, op, right } => {
            let (of, op, with) = match constant(right) {
                Some(with) => (left, operator(op)?, with),
                None => (right, operator(op)?.swap()?, constant(left)?),
            };
            let (column, text) = text_of(of, columns)?;
            (column, binary_expr(text, op, with))
        }
        _ => return None,
    };
    Some(Condition::Column(column, Test::Holds(MemberPredicate::of_text(predicate))))
}

/// A column, as it is or in one case, and its name.
fn text_of(expr: &Parsed, columns: &Columns<'_>) -> Option<(String, Expr)> {
    let own = |expr: &Parsed| {
        let name = columns(expr)?;
        let column = Expr::Column(Column::new_unqualified(name.clone()));
        Some((name, column))
    };
    match expr {
        Parsed::Nested(inner) => text_of(inner, columns),
        Parsed::Function(function) => {
            let (function, arguments) = call_of(function)?;
            let &[argument] = arguments.as_slice() else { return None };
            let (name, column) = own(argument)?;
            match function.as_str() {
                "lower" => Some((name, lower(column))),
                "upper" => Some((name, upper(column))),
                _ => None,
            }
        }
        column => own(column),
    }
}

fn constant(expr: &Parsed) -> Option<Expr> {
    match literal_of(expr)? {
        Literal::Text(text) => Some(lit(text)),
        _ => None,
    }
}

/// A comparison, as the planner has it.
pub(super) fn operator(op: &BinaryOperator) -> Option<Operator> {
    Some(match op {
        BinaryOperator::Eq => Operator::Eq,
        BinaryOperator::NotEq => Operator::NotEq,
        BinaryOperator::Lt => Operator::Lt,
        BinaryOperator::LtEq => Operator::LtEq,
        BinaryOperator::Gt => Operator::Gt,
        BinaryOperator::GtEq => Operator::GtEq,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::testing::recognised;
    use super::*;
    use datafusion::prelude::col;

    fn condition(sql: &str) -> Option<Condition> {
        recognised(sql, condition_of)
    }

    fn holds(predicate: Expr) -> Option<Condition> {
        Some(Condition::Column("a".to_owned(), Test::Holds(MemberPredicate::of_text(predicate))))
    }

    #[test]
    fn texts_in_one_case_are_compared_with_constants() {
        assert_eq!(condition("lower(a) = 'x'"), holds(lower(col("a")).eq(lit("x"))));
        assert_eq!(condition("'x' < (UPPER(a))"), holds(upper(col("a")).gt(lit("x"))));
        assert_eq!(
            condition("lower(a) NOT IN ('x', 'y')"),
            holds(lower(col("a")).in_list(vec![lit("x"), lit("y")], true))
        );
        assert_eq!(condition("lower(a) LIKE 'x%'"), holds(lower(col("a")).like(lit("x%"))));
        assert_eq!(condition("a ILIKE '%x'"), holds(col("a").ilike(lit("%x"))));
        assert_eq!(condition("a NOT ILIKE '%x'"), holds(col("a").not_ilike(lit("%x"))));
    }

    #[test]
    fn what_is_more_is_refused() {
        for sql in [
            "lower(a) = b",
            "lower(a) = 3",
            "lower(a) = NULL",
            "lower(a) IN ('x', NULL)",
            "lower(a) IN ('x', $1)",
            "lower(a, b) = 'x'",
            "initcap(a) = 'X'",
            "lower(a || b) = 'x'",
            "lower(lower(a)) = 'x'",
            "a ILIKE b",
            "a ILIKE 'x' ESCAPE '!'",
            "lower(a) || 'x' = 'y'",
        ] {
            assert_eq!(condition(sql), None, "{sql}");
        }
    }
}
