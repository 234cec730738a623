//! Other spellings of what planning knows: `mod(a, b)`, `date(x)`, `to_hex(-5)`, `year(x)`, `ceiling(x)`, `count_if(x)`, `num_nulls(a, b, ...)`, `|/ x`, `@ x`,
//! `current_schema` without parentheses.
//!
//! Invariants:
//! - Only calls that have nothing but their arguments are brought to an expression; with more in them they are left to planning,
//!   which knows no such function.
//! - In double quotes `current_schema` is the name of a column.

use super::rewriting::{call, call_of, rewrite};
use crate::names::name_of;
use alluvia_types::{Error, ErrorKind, Result};
use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DateTimeField, Expr, ExtractSyntax, Function, Ident, ObjectName, Query,
    UnaryOperator, Value,
};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// What is called without parentheses, too.
const SCHEMA: &str = "current_schema";
/// Functions by other names, as the function is called.
const RENAMED: [(&str, &str); 6] = [
    ("approx_count_distinct", "approx_distinct"),
    ("ceiling", "ceil"),
    // There is one moment in a statement.
    ("clock_timestamp", "now"),
    ("jsonb_array_length", "json_array_length"),
    ("statement_timestamp", "now"),
    ("transaction_timestamp", "now"),
];
/// Arguments of a call at most, as in PostgreSQL: what is made of more is a deeper tree.
const ARGUMENTS_MAX: usize = 100;

/// Functions of one argument that are a field of it.
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
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    let others = RENAMED.iter().map(|(name, _)| *name).chain(FIELDS.iter().map(|(name, _)| *name));
    let names: Vec<&str> = others.chain(["mod", "date", "count_if", "num_nulls", "num_nonnulls", "to_hex"]).collect();
    let is_sign = |token: &Token| matches!(token, Token::PGSquareRoot | Token::PGCubeRoot | Token::AtSign);
    if tokens.iter().any(|token| is_sign(&token.token)) {
        return true;
    }
    let is_one = |word: &str| names.iter().any(|name| word.eq_ignore_ascii_case(name));
    let is_bare = |word: &str| word.eq_ignore_ascii_case(SCHEMA);
    if tokens.iter().any(|token| matches!(&token.token, Token::Word(word) if is_bare(&word.value))) {
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
pub fn write_out(query: &mut Query) -> Result<()> {
    rewrite(query, |expr| spelt(expr).is_some(), &mut |expr| {
        refuse_long(expr)?;
        if let Some(spelt) = spelt(expr) {
            *expr = spelt;
        }
        Ok(())
    })
}

/// Refuses lists that are longer than a call may have.
fn refuse_long(expr: &Expr) -> Result<()> {
    let Expr::Function(function) = expr else { return Ok(()) };
    match call_of(function) {
        Some((name, arguments)) if is_count_of_nulls(&name) && arguments.len() > ARGUMENTS_MAX => {
            let message = format!("cannot pass more than {ARGUMENTS_MAX} arguments to a function");
            Err(Error::new(ErrorKind::TooLarge, message)
                .with_hint("add up what it is of parts of the list: num_nulls(a, b) + num_nulls(c, d)"))
        }
        _ => Ok(()),
    }
}

fn is_count_of_nulls(name: &str) -> bool {
    matches!(name, "num_nulls" | "num_nonnulls")
}

fn spelt(expr: &Expr) -> Option<Expr> {
    if let Expr::Identifier(ident) = expr {
        let is_schema = ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case(SCHEMA);
        return is_schema.then(|| call(SCHEMA, Vec::new()));
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
        // Refused before it is asked for.
        (name, _) if is_count_of_nulls(name) && arguments.len() > ARGUMENTS_MAX => None,
        ("num_nulls", [_, ..]) => Some(counted(&arguments, |of| Expr::IsNull(Box::new(of)))),
        ("num_nonnulls", [_, ..]) => Some(counted(&arguments, |of| Expr::IsNotNull(Box::new(of)))),
        ("date", [of]) => Some(cast(of, DataType::Date)),
        // Of an INT there are other digits than of a BIGINT, which planning takes every number for that is written.
        ("to_hex", [of]) if is_int(of) => Some(call("to_hex", vec![cast(of, DataType::Integer(None))])),
        (name, [of]) => {
            let (_, field) = FIELDS.iter().find(|(field, _)| *field == name)?;
            Some(Expr::Extract { field: field.clone(), syntax: ExtractSyntax::From, expr: Box::new((*of).clone()) })
        }
        _ => None,
    }
}

fn cast(of: &Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(of.clone()), data_type, array: false, format: None }
}

/// Whether it is a number that is written and no more than an INT has.
fn is_int(of: &Expr) -> bool {
    match of {
        Expr::Nested(of) => is_int(of),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => is_int(expr),
        Expr::Value(value) => matches!(&value.value, Value::Number(digits, _) if digits.parse::<i32>().is_ok()),
        _ => false,
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

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::script::parse;

    fn written(expr: &str) -> String {
        match parse(&format!("SELECT 1 FROM t WHERE x = {expr}")).unwrap().remove(0).kind {
            Kind::Query(query) => query.to_string().replace("SELECT 1 FROM t WHERE x = ", ""),
            Kind::Refused(error) => format!("{} {}", error.kind().sqlstate(), error.message()),
            _ => panic!("a query"),
        }
    }

    #[test]
    fn spellings_are_what_planning_knows() {
        for (expr, wanted) in [
            ("current_schema", "current_schema()"),
            ("\"current_schema\"", "\"current_schema\""),
            ("|/ 25 + 11", "sqrt(25 + 11)"),
            ("(@ a - b)", "(abs(a - b))"),
            ("(2 * ||/ a)", "(2 * cbrt(a))"),
            ("to_hex(-5)", "to_hex(CAST(-5 AS INTEGER))"),
            ("to_hex(-5::bigint)", "to_hex(-5::BIGINT)"),
            ("to_hex(3000000000)", "to_hex(3000000000)"),
        ] {
            assert_eq!(written(expr), wanted, "{expr}");
        }
    }

    #[test]
    fn long_lists_are_refused() {
        let of = |count: usize| written(&format!("num_nulls({})", vec!["a"; count].join(", ")));
        assert!(of(100).starts_with("(CAST((a) IS NULL AS "), "{}", of(100));
        for count in [101, 20_000] {
            assert_eq!(of(count), "54000 cannot pass more than 100 arguments to a function");
        }
    }
}
