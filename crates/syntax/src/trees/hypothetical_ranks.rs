//! `rank(3) WITHIN GROUP (ORDER BY x)` and its kin: the place that a row would have among others.
//!
//! Invariants, as in PostgreSQL:
//! - A row stands before the hypothetical one as ORDER BY says, NULLs with it.
//! - `rank` is one more than the rows before it, `dense_rank` one more than their different values, `percent_rank` the part of all rows that
//!   are before it, and `cume_dist` the part of all, itself among them, that are not behind it.
//!
//! For the binder: `SELECT rank(3) WITHIN GROUP (ORDER BY x) FROM t`, since these are counts with a FILTER.

use super::rewriting::{call, rewrite};
use crate::names::name_of;
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, OrderByExpr, Query, Value,
};
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Whether a statement of these tokens may have one.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if word.keyword == Keyword::WITHIN))
}

/// Writes them out as counts.
pub fn write_out(query: &mut Query) -> Result<()> {
    rewrite(query, is_hypothetical, &mut |expr| {
        if is_hypothetical(expr)
            && let Expr::Function(function) = expr
        {
            *expr = Expr::Nested(Box::new(counted(function)?));
        }
        Ok(())
    })
}

fn is_hypothetical(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if !function.within_group.is_empty() && kind_of(function).is_some())
}

#[derive(Clone, Copy)]
enum Kind {
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
}

fn kind_of(function: &Function) -> Option<Kind> {
    let [name] = function.name.0.as_slice() else { return None };
    Some(match name_of(name.as_ident()?).as_str() {
        "rank" => Kind::Rank,
        "dense_rank" => Kind::DenseRank,
        "percent_rank" => Kind::PercentRank,
        "cume_dist" => Kind::CumeDist,
        _ => return None,
    })
}

fn counted(function: &Function) -> Result<Expr> {
    let Some(kind) = kind_of(function) else { return Err(Error::internal("a rank was expected")) };
    let keys = &function.within_group;
    let FunctionArguments::List(list) = &function.args else {
        return Err(not_supported(format!("{} of a query", function.name)));
    };
    let value = |argument: &FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(nested(expr.clone())),
        _ => None,
    };
    let values: Option<Vec<Expr>> = list.args.iter().map(value).collect();
    let Some(values) = values.filter(|values| values.len() == keys.len()) else {
        let message = format!(
            "function {} has {} arguments for {} keys of WITHIN GROUP",
            function.name,
            list.args.len(),
            keys.len()
        );
        return Err(Error::new(ErrorKind::UndefinedFunction, message)
            .with_hint("hypothetical-set aggregates have one argument for each key of ORDER BY"));
    };
    let pairs: Vec<(&OrderByExpr, Expr)> = keys.iter().zip(values).collect();
    let all = filtered(count(Vec::new(), false), function.filter.as_deref().cloned());
    let before = before(&pairs);
    let among = |condition: Expr| match function.filter.as_deref() {
        Some(filter) => and(nested(filter.clone()), condition),
        None => condition,
    };
    let rows_before = filtered(count(Vec::new(), false), Some(among(before.clone())));
    Ok(match kind {
        Kind::Rank => plus(one(), rows_before),
        Kind::DenseRank => {
            let [(key, _)] = pairs.as_slice() else {
                return Err(not_supported("dense_rank WITHIN GROUP of several keys"));
            };
            let key = nested(key.expr.clone());
            let values = filtered(count(vec![key.clone()], true), Some(among(before.clone())));
            // All NULLs are one value, which is not counted among the others.
            let nulls = and(before, Expr::IsNull(Box::new(key)));
            let nulls = filtered(count(Vec::new(), false), Some(among(nulls)));
            plus(plus(one(), values), call("least", vec![nulls, one()]))
        }
        // Of no rows none is before it.
        Kind::PercentRank => {
            let part = binary(double(rows_before), BinaryOperator::Divide, call("nullif", vec![all, number(0)]));
            call("coalesce", vec![part, double(number(0))])
        }
        Kind::CumeDist => {
            let same = pairs.iter().map(|(key, value)| is_same(key, value)).reduce(and);
            let not_behind = match same {
                Some(same) => or(before, same),
                None => before,
            };
            let not_behind = filtered(count(Vec::new(), false), Some(among(not_behind)));
            binary(double(nested(plus(not_behind, one()))), BinaryOperator::Divide, nested(plus(all, one())))
        }
    })
}

/// Whether a row stands before the one that has these values for its keys.
fn before(pairs: &[(&OrderByExpr, Expr)]) -> Expr {
    let mut before: Option<Expr> = None;
    for (key, value) in pairs.iter().rev() {
        let first = stands_before(key, value);
        before = Some(match before {
            Some(rest) => or(first, and(is_same(key, value), rest)),
            None => first,
        });
    }
    before.unwrap_or_else(|| Expr::Value(Value::Boolean(false).into()))
}

fn stands_before(key: &OrderByExpr, value: &Expr) -> Expr {
    let (own, value) = (nested(key.expr.clone()), value.clone());
    let descends = key.options.asc == Some(false);
    let nulls_first = key.options.nulls_first.unwrap_or(descends);
    let op = if descends { BinaryOperator::Gt } else { BinaryOperator::Lt };
    let (null, other) = if nulls_first { (own.clone(), value.clone()) } else { (value.clone(), own.clone()) };
    let of_null = and(Expr::IsNull(Box::new(null)), Expr::IsNotNull(Box::new(other)));
    // NULL of the comparison, where one of both is NULL, is false.
    or(call("coalesce", vec![binary(own, op, value), Expr::Value(Value::Boolean(false).into())]), of_null)
}

fn is_same(key: &OrderByExpr, value: &Expr) -> Expr {
    nested(Expr::IsNotDistinctFrom(Box::new(nested(key.expr.clone())), Box::new(value.clone())))
}

fn count(arguments: Vec<Expr>, is_distinct: bool) -> Expr {
    let is_of_rows = arguments.is_empty();
    let mut counted = call("count", arguments);
    if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut counted {
        if is_of_rows {
            list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Wildcard));
        }
        list.duplicate_treatment = is_distinct.then_some(DuplicateTreatment::Distinct);
    }
    counted
}

fn filtered(mut counted: Expr, condition: Option<Expr>) -> Expr {
    if let Expr::Function(function) = &mut counted {
        function.filter = condition.map(Box::new);
    }
    counted
}

fn nested(expr: Expr) -> Expr {
    match expr {
        Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Nested(_) => expr,
        expr => Expr::Nested(Box::new(expr)),
    }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn and(left: Expr, right: Expr) -> Expr {
    nested(binary(left, BinaryOperator::And, right))
}

fn or(left: Expr, right: Expr) -> Expr {
    nested(binary(left, BinaryOperator::Or, right))
}

fn plus(left: Expr, right: Expr) -> Expr {
    binary(left, BinaryOperator::Plus, right)
}

fn number(number: u64) -> Expr {
    Expr::Value(Value::Number(number.to_string(), false).into())
}

fn one() -> Expr {
    number(1)
}

fn double(expr: Expr) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: DataType::DoublePrecision,
        array: false,
        format: None,
    }
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::parameters::query_of;
    use crate::script::parse;

    #[test]
    fn ranks_are_counts() {
        let sql = "SELECT rank(3) WITHIN GROUP (ORDER BY x) AS r FROM t";
        let written = query_of(&mut parse(sql).unwrap().remove(0).kind).unwrap().to_string();
        let wanted = "SELECT (1 + count(*) FILTER (WHERE (coalesce(x < 3, false) OR (3 IS NULL AND x IS NOT NULL)))) AS r FROM t";
        assert_eq!(written, wanted);
        for (sql, told) in [
            ("SELECT rank(1, 2) WITHIN GROUP (ORDER BY x) FROM t", "2 arguments for 1 keys"),
            ("SELECT dense_rank(1, 2) WITHIN GROUP (ORDER BY x, y) FROM t", "several keys"),
        ] {
            let Kind::Refused(error) = parse(sql).unwrap().remove(0).kind else { panic!("refused") };
            assert!(error.message().contains(told), "{error}");
        }
    }
}
