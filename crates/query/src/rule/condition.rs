//! From a plan's predicates to conditions that the index may hold.
//!
//! Invariant: a condition is true for exactly the rows for which its predicate is, and its negation for exactly those for which the
//! predicate is false. Constants have the types of the columns that they are compared with: the planner has seen to that, and
//! where it left a cast on the column, the predicate is no comparison of the column.
//!
//! Any other predicate that looks at one column alone, and is the same each time, is evaluated on the members of the column's level: so
//! `length(city) > 4` is a set of codes as well as `city = 'Lima'`.

use super::times::{condition_of_unit, condition_of_year, is_cut, year_of, year_of_constant};
use crate::answer::{Condition, Literal, MemberPredicate, Test, in_years};
use crate::skipping::canonical;
use alluvia_space::TableDef;
use datafusion::common::ScalarValue;
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
    parts.into_iter().map(|part| condition_of(part, def)).collect()
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

fn condition_of(expr: &Expr, def: &TableDef) -> Option<Condition> {
    compared(expr, def).or_else(|| evaluated(expr, def))
}

/// What compares columns with constants.
fn compared(expr: &Expr, def: &TableDef) -> Option<Condition> {
    let all =
        |op: Operator| chain(expr, op).into_iter().map(|part| condition_of(part, def)).collect::<Option<Vec<_>>>();
    let negated = |condition: Condition, negated: bool| if negated { condition.negated() } else { condition };
    match expr {
        Expr::Not(expr) => Some(condition_of(expr, def)?.negated()),
        Expr::BinaryExpr(BinaryExpr { op: Operator::And, .. }) => Some(Condition::All(all(Operator::And)?)),
        Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }) => Some(Condition::Any(all(Operator::Or)?)),
        Expr::BinaryExpr(BinaryExpr {
            left,
            op: op @ (Operator::IsDistinctFrom | Operator::IsNotDistinctFrom),
            right,
        }) => {
            let (column, literal) = match column_of(left) {
                Some(column) => (column, literal_of(right)?),
                None => (column_of(right)?, literal_of(left)?),
            };
            Some(negated(Condition::is_value(column, literal), *op == Operator::IsDistinctFrom))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (column_of(left), literal_of(right)) {
            (Some(column), Some(literal)) => Some(Condition::Column(column, comparison(*op, literal)?)),
            _ => condition_of_unit(left, *op, right, def)
                .or_else(|| condition_of_unit(right, op.swap()?, left, def))
                .or_else(|| condition_of_year(left, *op, right))
                .or_else(|| condition_of_year(right, op.swap()?, left))
                .or_else(|| Some(Condition::Column(column_of(right)?, comparison(op.swap()?, literal_of(left)?)?))),
        },
        // Of no list it is known of NULL, too, whether that is in it.
        Expr::InList(InList { list, .. }) if list.is_empty() => None,
        Expr::InList(InList { expr, list, negated: is_negated }) if year_of(expr).is_some() => {
            let years = list.iter().map(year_of_constant).collect::<Option<Vec<_>>>()?;
            Some(negated(in_years(&year_of(expr)?, years)?, *is_negated))
        }
        Expr::InList(InList { expr, list, negated: is_negated }) if is_cut(expr, def) => {
            let each = list.iter().map(|with| condition_of_unit(expr, Operator::Eq, with, def));
            Some(negated(Condition::Any(each.collect::<Option<_>>()?), *is_negated))
        }
        Expr::InList(InList { expr, list, negated: is_negated }) => {
            let list: Vec<Literal> = list.iter().map(literal_of).collect::<Option<_>>()?;
            Some(negated(Condition::Column(column_of(expr)?, Test::In(list)), *is_negated))
        }
        Expr::Between(Between { expr, negated: is_negated, low, high }) if is_cut(expr, def) => {
            let low = condition_of_unit(expr, Operator::GtEq, low, def)?;
            let high = condition_of_unit(expr, Operator::LtEq, high, def)?;
            Some(negated(Condition::All(vec![low, high]), *is_negated))
        }
        Expr::Between(Between { expr, negated: is_negated, low, high }) => {
            let range = Test::Range(Some((literal_of(low)?, true)), Some((literal_of(high)?, true)));
            Some(negated(Condition::Column(column_of(expr)?, range), *is_negated))
        }
        Expr::Like(Like { negated: is_negated, expr, pattern, escape_char: None, case_insensitive: false }) => {
            let Expr::Literal(pattern, _) = pattern.as_ref() else { return None };
            let pattern = pattern.try_as_str()??.to_owned();
            Some(negated(Condition::Column(column_of(expr)?, Test::Like(pattern)), *is_negated))
        }
        Expr::IsNull(expr) => Some(Condition::Column(column_of(expr)?, Test::Null)),
        Expr::IsNotNull(expr) => Some(Condition::Column(column_of(expr)?, Test::Known)),
        // A predicate that is a column is one of type BOOLEAN.
        expr => {
            let literal = Literal::Typed(ScalarValue::Boolean(Some(true)));
            Some(Condition::Column(column_of(expr)?, Test::In(vec![literal])))
        }
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

/// The name of a column of the table, if the expression is one.
pub(super) fn column_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Column(column) => Some(column.name.clone()),
        _ => None,
    }
}

/// A constant, not NULL.
fn literal_of(expr: &Expr) -> Option<Literal> {
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
