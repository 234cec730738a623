//! Long chains of AND and OR, as trees that are not deep: the parser would make one as deep as the chain is long.
//!
//! Invariants:
//! - A chain of AND, or of OR, means the same however it is bracketed, and in whatever order: only such chains are made otherwise.
//! - Chains of up to [`AS_READ`] operands are what the parser makes of them; what is longer is as deep as a list.

use sqlparser::ast::{BinaryOperator, Expr, Value};

/// Operands of a chain that stay as they are read. A tree of this depth is none to speak of.
pub(crate) const AS_READ: usize = 64;

/// Operators of one chain: planning makes one tree of all conditions again, as deep as they are many.
pub(crate) const LONGEST: usize = 4_000;

/// A chain as a tree.
pub(crate) fn tree(op: &BinaryOperator, operands: Vec<Expr>) -> Option<Expr> {
    if operands.len() <= AS_READ {
        return operands.into_iter().reduce(|left, right| joined(op, left, right));
    }
    halved(op, with_lists(op, operands))
}

fn joined(op: &BinaryOperator, left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) }
}

fn halved(op: &BinaryOperator, mut operands: Vec<Expr>) -> Option<Expr> {
    if operands.len() <= 1 {
        return operands.pop();
    }
    let right = operands.split_off(operands.len() / 2);
    Some(joined(op, halved(op, operands)?, halved(op, right)?))
}

/// `a = 1 OR a = 2 ...` as `a IN (1, 2, ...)`, and `a <> 1 AND a <> 2 ...` as `a NOT IN (1, 2, ...)`.
fn with_lists(op: &BinaryOperator, operands: Vec<Expr>) -> Vec<Expr> {
    let (wanted, negated) = match op {
        BinaryOperator::Or => (BinaryOperator::Eq, false),
        _ => (BinaryOperator::NotEq, true),
    };
    let mut lists: Vec<(Expr, bool, Vec<Expr>)> = Vec::new();
    let mut rest = Vec::new();
    for operand in operands {
        match operand {
            Expr::BinaryOp { left, op, right } if op == wanted => match (is_column(&left), literal(&right)) {
                (true, Some(is_text)) => {
                    match lists.iter_mut().find(|(column, texts, _)| *column == *left && *texts == is_text) {
                        Some((_, _, list)) => list.push(*right),
                        None => lists.push((*left, is_text, vec![*right])),
                    }
                }
                _ => rest.push(Expr::BinaryOp { left, op, right }),
            },
            other => rest.push(other),
        }
    }
    let list = |(column, _, mut list): (Expr, bool, Vec<Expr>)| match (list.len(), list.pop()) {
        (1, Some(only)) => joined(&wanted, column, only),
        (_, last) => {
            list.extend(last);
            Expr::InList { expr: Box::new(column), list, negated }
        }
    };
    lists.into_iter().map(list).chain(rest).collect()
}

fn is_column(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
}

/// Whether an expression is a literal that may stand in a list beside others of its kind: texts, or whole numbers.
fn literal(expr: &Expr) -> Option<bool> {
    let Expr::Value(value) = expr else { return None };
    match &value.value {
        Value::SingleQuotedString(_) => Some(true),
        Value::Number(digits, _) if digits.bytes().all(|digit| digit.is_ascii_digit()) => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::script::parse;

    fn condition(sql: &str) -> Expr {
        let Kind::Query(query) = parse(&format!("SELECT 1 FROM t WHERE {sql}")).unwrap().remove(0).kind else {
            panic!("a query")
        };
        let sqlparser::ast::SetExpr::Select(select) = *query.body else { panic!("a SELECT") };
        select.selection.unwrap()
    }

    fn depth(expr: &Expr) -> usize {
        match expr {
            Expr::BinaryOp { left, right, .. } => 1 + depth(left).max(depth(right)),
            _ => 0,
        }
    }

    fn chain(operand: impl Fn(usize) -> String, by: &str, count: usize) -> String {
        (0..count).map(operand).collect::<Vec<_>>().join(by)
    }

    #[test]
    fn long_chains_are_shallow_and_short_ones_as_they_were() {
        let short = condition(&chain(|n| format!("a{n}"), " OR ", AS_READ));
        assert_eq!(depth(&short), AS_READ - 1);
        for by in [" OR ", " AND "] {
            let long = condition(&chain(|n| format!("a{n} > {n}"), by, 3_000));
            assert!(depth(&long) < 16, "{by}");
        }
        let mixed = condition(&chain(|n| format!("a = {n} AND b BETWEEN {n} AND 7"), " OR ", 1_000));
        assert!(depth(&mixed) < 16);
        assert!(parse(&format!("SELECT {}", chain(|_| "a".to_owned(), " OR ", LONGEST + 600))).is_err());
    }

    #[test]
    fn equal_to_many_values_is_in_a_list() {
        let shown = |sql: &str| condition(sql).to_string();
        let ids = (0..100).map(|n| n.to_string()).collect::<Vec<_>>().join(", ");
        assert_eq!(
            shown(&format!("{} OR false", chain(|n| format!("id = {n}"), " OR ", 100))),
            format!("id IN ({ids}) OR false")
        );
        assert_eq!(shown(&chain(|n| format!("t.id <> {n}"), " AND ", 100)), format!("t.id NOT IN ({ids})"));
        let words = shown(&format!("{} OR b = 'x'", chain(|n| format!("id = {n}"), " OR ", 100)));
        assert_eq!(words, format!("id IN ({ids}) OR b = 'x'"));
    }
}
