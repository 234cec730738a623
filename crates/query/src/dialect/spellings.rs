//! Other spellings of what planning knows: `mod(a, b)`, `date(x)`, `year(x)`, `ceiling(x)`, `count_if(x)`, `num_nulls(a, b, ...)`, `|/ x`, `@ x`, and
//! `x::json`, which is the text that it is stored as.
//!
//! Invariant: only calls that have nothing but their arguments are brought to an expression; with more in them they are left to planning,
//! which knows no such function.

use super::names::name_of;
use super::rewriting::{call, call_of, rewrite};
use alluvia_types::Result;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DateTimeField, Expr, ExtractSyntax, Function, Ident, ObjectName, Query,
    UnaryOperator, Value,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Functions by other names, as the function is called.
const RENAMED: [(&str, &str); 9] = [
    ("approx_count_distinct", "approx_distinct"),
    ("ceiling", "ceil"),
    // There is one moment in a statement.
    ("clock_timestamp", "now"),
    ("gen_random_uuid", "uuid"),
    ("jsonb_array_length", "json_array_length"),
    ("jsonb_extract_path", "json_extract_path"),
    ("jsonb_extract_path_text", "json_extract_path_text"),
    ("statement_timestamp", "now"),
    ("transaction_timestamp", "now"),
];
/// Functions of one argument that are a field of it.
const ARGUMENTS_MAX: usize = 100;

const FIELDS: [(&str, DateTimeField); 7] = [
    ("year", DateTimeField::Year),
    ("quarter", DateTimeField::Quarter),
    ("month", DateTimeField::Month),
    ("day", DateTimeField::Day),
    ("dayofweek", DateTimeField::Dow),
    ("hour", DateTimeField::Hour),
    ("minute", DateTimeField::Minute),
];

/// Whether a statement of these tokens may have one.
pub(super) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let others = RENAMED.iter().map(|(name, _)| *name).chain(FIELDS.iter().map(|(name, _)| *name));
    let names: Vec<&str> = others.chain(["mod", "date", "count_if", "num_nulls", "num_nonnulls"]).collect();
    let is_sign = |token: &Token| matches!(token, Token::PGSquareRoot | Token::PGCubeRoot | Token::AtSign);
    if tokens.iter().any(|token| is_sign(&token.token)) {
        return true;
    }
    let is_one = |word: &str| names.iter().any(|name| word.eq_ignore_ascii_case(name));
    let is_json = |word: &str| word.eq_ignore_ascii_case("json") || word.eq_ignore_ascii_case("jsonb");
    if tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if is_json(&word.value))) {
        return true;
    }
    // A name is called where a parenthesis follows it.
    let mut words =
        tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).map(|token| &token.token);
    let mut next = words.next();
    while let Some(token) = next {
        next = words.next();
        if matches!((token, next), (Token::Word(word), Some(Token::LParen)) if is_one(&word.value)) {
            return true;
        }
    }
    false
}

/// Brings all of them to what planning knows.
pub(super) fn write_out(query: &mut Query) -> Result<()> {
    rewrite(query, |expr| spelt(expr).is_some(), &mut |expr| {
        if let Some(spelt) = spelt(expr) {
            *expr = spelt;
        }
        Ok(())
    })
}

fn spelt(expr: &Expr) -> Option<Expr> {
    if let Expr::Cast { kind, expr, data_type: DataType::JSON | DataType::JSONB, array, format } = expr {
        let (kind, expr, array, format) = (kind.clone(), expr.clone(), *array, format.clone());
        return Some(Expr::Cast { kind, expr, data_type: DataType::Text, array, format });
    }
    if let Expr::UnaryOp { op, expr } = expr {
        let name = match op {
            UnaryOperator::PGSquareRoot => "sqrt",
            UnaryOperator::PGCubeRoot => "cbrt",
            UnaryOperator::PGAbs => "abs",
            _ => return None,
        };
        return Some(call(name, vec![(**expr).clone()]));
    }
    let Expr::Function(function) = expr else { return None };
    if let Some(name) = renamed(function) {
        let name = ObjectName::from(vec![Ident::new(name)]);
        return Some(Expr::Function(Function { name, ..function.clone() }));
    }
    let (name, arguments) = call_of(function)?;
    match (name.as_str(), arguments.as_slice()) {
        ("mod", [of, by]) => {
            let side = |side: &Expr| Box::new(Expr::Nested(Box::new(side.clone())));
            let remainder = Expr::BinaryOp { left: side(of), op: BinaryOperator::Modulo, right: side(by) };
            Some(Expr::Nested(Box::new(remainder)))
        }
        // What is not true is NULL, which is not counted.
        ("count_if", [of]) => {
            let not_false = call("nullif", vec![(*of).clone(), Expr::Value(Value::Boolean(false).into())]);
            Some(call("count", vec![not_false]))
        }
        // PostgreSQL's functions take no more arguments, and a longer sum is a deeper tree.
        ("num_nulls" | "num_nonnulls", [_, ..]) if arguments.len() > ARGUMENTS_MAX => None,
        ("num_nulls", [_, ..]) => Some(counted(&arguments, |of| Expr::IsNull(Box::new(of)))),
        ("num_nonnulls", [_, ..]) => Some(counted(&arguments, |of| Expr::IsNotNull(Box::new(of)))),
        ("date", [of]) => Some(Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new((*of).clone()),
            data_type: DataType::Date,
            array: false,
            format: None,
        }),
        (name, [of]) => {
            let (_, field) = FIELDS.iter().find(|(field, _)| *field == name)?;
            Some(Expr::Extract { field: field.clone(), syntax: ExtractSyntax::From, expr: Box::new((*of).clone()) })
        }
        _ => None,
    }
}

/// How many of some expressions a condition is true of.
fn counted(of: &[&Expr], condition: fn(Expr) -> Expr) -> Expr {
    let one = |of: &&Expr| Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(condition(Expr::Nested(Box::new((*of).clone())))),
        data_type: DataType::Integer(None),
        array: false,
        format: None,
    };
    let sum = of.iter().map(one).reduce(|sum, of| Expr::BinaryOp {
        left: Box::new(sum),
        op: BinaryOperator::Plus,
        right: Box::new(of),
    });
    Expr::Nested(Box::new(sum.unwrap_or(Expr::Value(Value::Null.into()))))
}

fn renamed(function: &Function) -> Option<&'static str> {
    let [part] = function.name.0.as_slice() else { return None };
    let name = name_of(part.as_ident()?);
    RENAMED.iter().find(|(spelt, _)| *spelt == name).map(|(_, known)| *known)
}
