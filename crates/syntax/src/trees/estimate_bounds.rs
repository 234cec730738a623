//! `lower_bound`, `upper_bound`, `relative_error` and `is_exact` of a count, sum or average.
//!
//! Where the index answers, it says how sure it is. Every other answer is exact, so there these functions become the aggregate
//! itself, 0 and true, wherever they stand: as items, in HAVING and ORDER BY, in subqueries. Types and names are the same either way.

use super::rewriting::{contains, rewrite};
use crate::names::name_of;
use alluvia_types::{Error, ErrorKind, Result};
use sqlparser::ast::{
    CaseWhen, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Value,
    helpers::attached_token::AttachedToken,
};

/// What is said of how sure an aggregate is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Sureness {
    /// `lower_bound`: the exact value is not below this.
    Lower,
    /// `upper_bound`: the exact value is not above this.
    Upper,
    /// `relative_error`: the largest error that the value can have, relative to the exact one.
    RelativeError,
    /// `is_exact`.
    IsExact,
}

impl Sureness {
    /// By the function's name.
    pub fn of(name: &str) -> Option<Sureness> {
        Some(match name {
            "lower_bound" => Sureness::Lower,
            "upper_bound" => Sureness::Upper,
            "relative_error" => Sureness::RelativeError,
            "is_exact" => Sureness::IsExact,
            _ => return None,
        })
    }
}

/// Brings these functions to what an exact answer has in their place; gives whether there were any.
pub fn rewrite_sureness(query: &mut Query) -> Result<bool> {
    let is_asked = contains(query, is_sureness);
    if is_asked {
        rewrite(query, is_sureness, &mut exact)?;
    }
    Ok(is_asked)
}

/// Which of the functions a call is of.
fn of_call(function: &Function) -> Option<(Sureness, String)> {
    let [part] = function.name.0.as_slice() else { return None };
    let name = name_of(part.as_ident()?);
    Some((Sureness::of(&name)?, name))
}

fn is_sureness(expr: &Expr) -> bool {
    matches!(expr, Expr::Function(function) if of_call(function).is_some())
}

/// Puts what it is of an exact answer in the place of one of the functions.
fn exact(expr: &mut Expr) -> Result<()> {
    let Expr::Function(function) = expr else { return Ok(()) };
    let Some((sureness, name)) = of_call(function) else { return Ok(()) };
    let Some(aggregate) = aggregate_of(function) else {
        let message = format!("{name} takes one count(...), sum(...) or avg(...), as in {name}(sum(x))");
        return Err(Error::new(ErrorKind::UndefinedFunction, message));
    };
    // Of any value the same, and still an aggregate.
    let always = |value: Value| {
        let value = || Box::new(Expr::Value(value.clone().into()));
        let condition = Expr::IsNull(Box::new(aggregate.clone()));
        Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![CaseWhen { condition, result: *value() }],
            else_result: Some(value()),
        }
    };
    *expr = match sureness {
        Sureness::Lower | Sureness::Upper => aggregate,
        Sureness::RelativeError => always(Value::Number("0.0".to_owned(), false)),
        Sureness::IsExact => always(Value::Boolean(true)),
    };
    Ok(())
}

/// The count, sum or average that is the only argument.
fn aggregate_of(function: &Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))] = list.args.as_slice() else { return None };
    let is_plain = function.over.is_none() && function.filter.is_none() && list.duplicate_treatment.is_none();
    let Expr::Function(inner) = argument else { return None };
    let [part] = inner.name.0.as_slice() else { return None };
    let name = name_of(part.as_ident()?);
    let is_known = matches!(name.as_str(), "count" | "sum" | "avg" | "mean") && inner.over.is_none();
    (is_plain && is_known).then(|| argument.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::script::parse;

    fn rewritten(sql: &str) -> Result<String> {
        let Kind::Query(mut query) = parse(sql)?.remove(0).kind else { panic!("a query") };
        rewrite_sureness(&mut query).map(|_| query.to_string())
    }

    #[test]
    fn an_exact_answer_bounds_itself() {
        assert_eq!(
            rewritten("SELECT lower_bound(sum(x)), upper_bound(count(*)) AS u FROM t ORDER BY upper_bound(sum(x))")
                .unwrap(),
            "SELECT sum(x) AS \"lower_bound(sum(x))\", count(*) AS u FROM t ORDER BY sum(x)"
        );
        assert_eq!(
            rewritten("SELECT g FROM t GROUP BY g HAVING is_exact(avg(x)) AND relative_error(avg(x)) < 1").unwrap(),
            "SELECT g FROM t GROUP BY g HAVING CASE WHEN avg(x) IS NULL THEN true ELSE true END AND \
             CASE WHEN avg(x) IS NULL THEN 0.0 ELSE 0.0 END < 1"
        );
        assert_eq!(rewritten("SELECT sum(x) FROM t").unwrap(), "SELECT sum(x) FROM t");
    }

    #[test]
    fn only_counts_sums_and_averages_have_bounds() {
        for sql in [
            "SELECT lower_bound(x) FROM t",
            "SELECT upper_bound(max(x)) FROM t",
            "SELECT is_exact(sum(x), 1) FROM t",
            "SELECT relative_error(sum(x) OVER ()) FROM t",
            "SELECT lower_bound(sum(x)) OVER () FROM t",
        ] {
            let error = rewritten(sql).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::UndefinedFunction, "{sql}");
        }
    }
}
