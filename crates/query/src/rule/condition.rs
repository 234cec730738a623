//! The forms of a plan's predicates, from which conditions become that the index may hold (`answer::comparison`).
//!
//! Invariant: constants have the types of the columns that they are compared with: the planner has seen to that, and
//! where it left a cast on the column, the predicate is no comparison of the column.
//!
//! Any other predicate that looks at one column alone, and is the same each time, is evaluated on the members of the column's level: so
//! `length(city) > 4` is a set of codes as well as `city = 'Lima'`.

use super::times::subject_of;
use crate::answer::{Condition, Expressions, Literal, MemberPredicate, PredicateForm, Subject, Test, condition_of};
use alluvia_skipping::canonical;
use alluvia_space::TableDef;
use datafusion::logical_expr::expr::{InList, Like};
use datafusion::logical_expr::{Between, BinaryExpr, Expr, Operator};

/// All of the predicates on a table's columns, each once.
pub(super) fn conditions_of(predicates: &[Expr], def: &TableDef) -> Option<Vec<Condition>> {
    let mut parts: Vec<&Expr> = Vec::new();
    for part in predicates.iter().flat_map(|predicate| chain(predicate, Operator::And)) {
        // What is pushed into a scan stands above it, too.
        if !parts.contains(&part) {
            parts.push(part);
        }
    }
    parts.into_iter().map(|part| condition_of(&Plans { def }, part)).collect()
}

/// The operands of a chain of one operator, which is a tree as deep as it is long.
fn chain(expr: &Expr, op: Operator) -> Vec<&Expr> {
    let mut operands = Vec::new();
    let mut open = vec![expr];
    while let Some(expr) = open.pop() {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: own, right }) if *own == op => {
                open.extend([right.as_ref(), left.as_ref()]);
            }
            operand => operands.push(operand),
        }
    }
    operands
}

/// Expressions of plans over one table.
struct Plans<'a> {
    def: &'a TableDef,
}

impl Expressions for Plans<'_> {
    type Expr = Expr;

    fn form<'a>(&self, expr: &'a Expr) -> Option<PredicateForm<'a, Expr>> {
        Some(match expr {
            Expr::Not(inner) => PredicateForm::Not(inner),
            Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) => PredicateForm::All(chain(expr, Operator::And)),
            Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => PredicateForm::Any(chain(expr, Operator::Or)),
            Expr::BinaryExpr(BinaryExpr { left, op, right }) => PredicateForm::Compared(left, *op, right),
            Expr::InList(InList { expr: of, list, negated }) => PredicateForm::In { of, list, is_negated: *negated },
            Expr::Between(Between { expr: of, negated, low, high }) => {
                PredicateForm::Between { of, low, high, is_negated: *negated }
            }
            Expr::Like(Like { negated, expr: of, pattern, escape_char: None, case_insensitive: false }) => {
                PredicateForm::Like { of, pattern, is_negated: *negated }
            }
            Expr::IsNull(of) => PredicateForm::IsNull { of, is_negated: false },
            Expr::IsNotNull(of) => PredicateForm::IsNull { of, is_negated: true },
            value => PredicateForm::Value(value),
        })
    }

    fn subject(&self, expr: &Expr) -> Option<Subject> {
        subject_of(expr, self.def)
    }

    fn literal(&self, expr: &Expr) -> Option<Literal> {
        literal_of(expr)
    }

    fn is_null(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::Literal(value, _) if value.is_null())
    }

    fn pattern(&self, expr: &Expr) -> Option<String> {
        let Expr::Literal(pattern, _) = expr else { return None };
        pattern.try_as_str().flatten().map(str::to_owned)
    }

    fn otherwise(&self, expr: &Expr) -> Option<Condition> {
        evaluated(expr, self.def)
    }
}

/// What is the same for all rows of a member.
fn evaluated(expr: &Expr, def: &TableDef) -> Option<Condition> {
    let columns = expr.column_refs();
    let column = columns.iter().next().filter(|_| columns.len() == 1)?;
    // What may change by itself has no text.
    canonical(expr, def)?;
    let predicate = MemberPredicate::planned(expr.clone());
    Some(Condition::Column(column.name.clone(), Test::Holds(predicate)))
}

/// The name of a column of the table, if the expression is one.
pub(super) fn column_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Column(column) => Some(column.name.clone()),
        _ => None,
    }
}

/// A constant, not NULL.
pub(super) fn literal_of(expr: &Expr) -> Option<Literal> {
    match expr {
        Expr::Literal(value, _) if !value.is_null() => Some(Literal::Typed(value.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::testing;
    use alluvia_space::DataType;
    use datafusion::common::ScalarValue;
    use datafusion::functions::expr_fn::random;
    use datafusion::prelude::{col, lit};

    fn conditions(predicates: &[Expr]) -> Option<Vec<Condition>> {
        let def = testing::table("t", &[("a", DataType::Int32), ("b", DataType::Int32)]);
        conditions_of(predicates, &def)
    }

    fn typed(value: i32) -> Literal {
        Literal::Typed(ScalarValue::Int32(Some(value)))
    }

    #[test]
    fn constants_on_either_side_compare_the_same() {
        let below = Condition::Column("a".to_owned(), Test::Range(None, Some((typed(5), false))));
        assert_eq!(conditions(&[col("a").lt(lit(5))]), Some(vec![below.clone()]));
        assert_eq!(conditions(&[lit(5).gt(col("a"))]), Some(vec![below]));
    }

    #[test]
    fn a_predicate_that_stands_twice_is_held_once() {
        let (one, other) = (col("a").eq(lit(1)), col("b").is_not_null());
        let conditions = conditions(&[one.clone().and(other.clone()), other, one]).expect("held");
        assert_eq!(conditions.len(), 2, "{conditions:?}");
    }

    #[test]
    fn to_be_distinct_is_never_unknown() {
        let same = Condition::is_value("a".to_owned(), typed(5));
        let is = |op| datafusion::logical_expr::binary_expr(lit(5), op, col("a"));
        assert_eq!(conditions(&[is(Operator::IsNotDistinctFrom)]), Some(vec![same.clone()]));
        assert_eq!(conditions(&[is(Operator::IsDistinctFrom)]), Some(vec![same.negated()]));
        let is_null = |op| datafusion::logical_expr::binary_expr(col("a"), op, lit(ScalarValue::Int32(None)));
        let of = |test| Some(vec![Condition::Column("a".to_owned(), test)]);
        assert_eq!(conditions(&[is_null(Operator::IsNotDistinctFrom)]), of(Test::Null));
        assert_eq!(conditions(&[is_null(Operator::IsDistinctFrom)]), of(Test::Known));
    }

    #[test]
    fn what_looks_at_one_column_is_evaluated() {
        for expr in [
            col("a").eq(lit(ScalarValue::Int32(None))),
            (col("a") + lit(1)).gt(lit(2)),
            col("a").in_list(vec![lit(1), lit(ScalarValue::Int32(None))], false),
            col("a").in_list(Vec::new(), false),
            col("a").in_list(Vec::new(), true),
            col("a").is_true(),
            (col("a") * col("a")).gt(lit(2)),
        ] {
            let holds = |expr: Expr| Condition::Column("a".to_owned(), Test::Holds(MemberPredicate::planned(expr)));
            assert_eq!(conditions(std::slice::from_ref(&expr)), Some(vec![holds(expr.clone())]), "{expr}");
            // Its negation is evaluated, too: what it is not true of it may be unknown of.
            let negated = Expr::Not(Box::new(expr));
            assert_eq!(conditions(std::slice::from_ref(&negated)), Some(vec![holds(negated.clone())]), "{negated}");
        }
    }

    #[test]
    fn what_is_no_condition_on_one_column_is_refused() {
        for expr in [
            col("a").eq(col("b")),
            lit(true),
            col("a").eq(lit(1)).or(col("a").like(col("b"))),
            random().lt(lit(0.5)),
            (col("a") + random()).gt(lit(1)),
            col("unknown").is_true(),
        ] {
            assert_eq!(conditions(std::slice::from_ref(&expr)), None, "{expr}");
        }
    }

    #[test]
    fn not_is_moved_to_the_columns() {
        let expr = !(col("a").eq(lit(1)).and(col("b").is_null()));
        let not_one = Test::Not(Box::new(Test::In(vec![typed(1)])));
        let expected = Condition::Any(vec![
            Condition::Column("a".to_owned(), not_one),
            Condition::Column("b".to_owned(), Test::Known),
        ]);
        assert_eq!(conditions(&[expr]), Some(vec![expected]));
    }
}
