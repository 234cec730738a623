//! Times that are told by a word, and functions of times in the form that planning knows.
//!
//! Invariants:
//! - A literal that is cast to a DATE or a TIMESTAMP may be `epoch`, `now`, `today`, `yesterday` or `tomorrow`, or a date with slashes whose year
//!   comes first (`2024/03/05`). It means what PostgreSQL reads there; texts of columns are read as ever.
//! - `localtimestamp` needs no parentheses. In double quotes it is the name of a column.
//! - `age(x)` is `age` from midnight of today, and `make_interval` has all seven arguments, in their order.

use super::rewriting::{call, call_of, rewrite};
use crate::names::name_of;
use alluvia_types::{Error, ErrorKind, Result};
use sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Query,
    TimezoneInfo, TypedString, Value,
};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Names of what is rewritten.
const NAMES: [&str; 3] = ["localtimestamp", "age", "make_interval"];
const WORDS: [&str; 5] = ["epoch", "now", "today", "yesterday", "tomorrow"];
/// The arguments of `make_interval`.
const FIELDS: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];

/// Whether a statement of these tokens may have one.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| match &token.token {
        Token::Word(word) => {
            word.quote_style.is_none() && NAMES.iter().any(|name| word.value.eq_ignore_ascii_case(name))
        }
        Token::SingleQuotedString(text) => is_word(text) || with_hyphens(text).is_some(),
        _ => false,
    })
}

/// Writes all of them as planning knows them.
pub fn write_out(query: &mut Query) -> Result<()> {
    rewrite(query, is_one, &mut |expr| {
        if let Some(written) = written(expr)? {
            *expr = written;
        }
        Ok(())
    })
}

fn is_one(expr: &Expr) -> bool {
    !matches!(written(expr), Ok(None))
}

fn is_word(text: &str) -> bool {
    WORDS.iter().any(|word| text.trim().eq_ignore_ascii_case(word))
}

fn written(expr: &Expr) -> Result<Option<Expr>> {
    Ok(match expr {
        Expr::Cast {
            kind: CastKind::Cast | CastKind::DoubleColon,
            expr: literal,
            data_type,
            array: false,
            format: None,
        } => match literal.as_ref() {
            Expr::Value(value) => of_text(&value.value, data_type),
            _ => None,
        },
        Expr::TypedString(TypedString { data_type, value, uses_odbc_syntax: false }) => {
            of_text(&value.value, data_type)
        }
        Expr::Function(function) if is_bare(function, "localtimestamp") => {
            Some(cast(call("now", Vec::new()), DataType::Timestamp(None, TimezoneInfo::None)))
        }
        Expr::Function(function) => match call_of(function) {
            // `pg_catalog.age` of a transaction is another one.
            Some((name, arguments)) if name == "age" && function.name.0.len() == 1 => match arguments.as_slice() {
                [from] => {
                    let today = cast(call("current_date", Vec::new()), DataType::Timestamp(None, TimezoneInfo::None));
                    Some(call("age", vec![today, (*from).clone()]))
                }
                _ => None,
            },
            Some((name, arguments)) if name == "make_interval" && arguments.len() == FIELDS.len() => None,
            _ if is_make_interval(function) => interval_of(function)?,
            _ => None,
        },
        _ => None,
    })
}

/// Whether it is a word of the grammar, or the same with nothing in its parentheses.
fn is_bare(function: &Function, name: &str) -> bool {
    let is_named = matches!(function.name.0.as_slice(), [part]
        if part.as_ident().is_some_and(|ident| ident.quote_style.is_none() && name_of(ident) == name));
    is_named && function.over.is_none() && matches!(function.args, FunctionArguments::None)
}

fn is_make_interval(function: &Function) -> bool {
    matches!(function.name.0.as_slice(), [part] if part.as_ident().is_some_and(|ident| name_of(ident) == "make_interval"))
}

/// All arguments in their places; those that are not given are 0.
fn interval_of(function: &Function) -> Result<Option<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return Ok(None) };
    if list.duplicate_treatment.is_some() || !list.clauses.is_empty() || function.over.is_some() {
        return Ok(None);
    }
    let refused = |what: String| {
        let hint = "arguments are years, months, weeks, days, hours, mins, secs: make_interval(days => 10)";
        Err(Error::new(ErrorKind::UndefinedFunction, what).with_hint(hint))
    };
    let mut given: [Option<Expr>; 7] = [const { None }; 7];
    for (at, argument) in list.args.iter().enumerate() {
        let (at, expr) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => (at, expr),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. } => {
                let name = name_of(name);
                match FIELDS.iter().position(|field| *field == name) {
                    Some(at) => (at, expr),
                    None => return refused(format!("make_interval has no argument {name}")),
                }
            }
            _ => return Ok(None),
        };
        match given.get_mut(at) {
            None => return refused("make_interval has seven arguments".to_owned()),
            Some(Some(_)) => return refused(format!("make_interval is given {} twice", FIELDS[at])),
            Some(place) => *place = Some(expr.clone()),
        }
    }
    let zero = || Expr::Value(Value::Number("0".to_owned(), false).into());
    let arguments = given.into_iter().map(|given| given.unwrap_or_else(zero)).collect();
    Ok(Some(call("make_interval", arguments)))
}

/// A literal that is cast to a type of times, if planning does not read it.
fn of_text(value: &Value, data_type: &DataType) -> Option<Expr> {
    let Value::SingleQuotedString(text) = value else { return None };
    let is_date = matches!(data_type, DataType::Date);
    if !is_date && !matches!(data_type, DataType::Timestamp(..)) {
        return None;
    }
    let literal = |text: String| cast(Expr::Value(Value::SingleQuotedString(text).into()), data_type.clone());
    if let Some(text) = with_hyphens(text) {
        return Some(literal(text));
    }
    let today = || call("current_date", Vec::new());
    let moved = |op: BinaryOperator| {
        let one = Expr::Value(Value::Number("1".to_owned(), false).into());
        Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(today()), op, right: Box::new(one) }))
    };
    let day = match text.trim().to_ascii_lowercase().as_str() {
        "epoch" if is_date => return Some(literal("1970-01-01".to_owned())),
        "epoch" => return Some(literal("1970-01-01 00:00:00".to_owned())),
        "now" if !is_date => return Some(cast(call("now", Vec::new()), data_type.clone())),
        "now" | "today" => today(),
        "yesterday" => moved(BinaryOperator::Minus),
        "tomorrow" => moved(BinaryOperator::Plus),
        _ => return None,
    };
    Some(if is_date { day } else { cast(day, data_type.clone()) })
}

fn cast(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// `2024/3/5 10:00` as `2024-03-05 10:00`; `None` of any other text.
fn with_hyphens(text: &str) -> Option<String> {
    let text = text.trim();
    let (date, rest) = text.split_at(text.find([' ', 'T']).unwrap_or(text.len()));
    let mut parts = date.split('/');
    let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
    let is_number = |part: &str, length: std::ops::RangeInclusive<usize>| {
        length.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_date = is_number(year, 4..=4) && is_number(month, 1..=2) && is_number(day, 1..=2) && parts.next().is_none();
    is_date.then(|| format!("{year}-{month:0>2}-{day:0>2}{rest}"))
}

#[cfg(test)]
mod tests {
    use crate::Kind;
    use crate::script::parse;

    fn written(sql: &str) -> String {
        match parse(sql).unwrap().remove(0).kind {
            Kind::Query(query) => query.to_string(),
            Kind::Refused(error) => error.message().to_owned(),
            _ => panic!("a query"),
        }
    }

    #[test]
    fn words_are_times() {
        for (expr, wanted) in [
            ("date 'epoch'", "CAST('1970-01-01' AS DATE)"),
            ("timestamp 'epoch'", "CAST('1970-01-01 00:00:00' AS TIMESTAMP)"),
            ("'now'::timestamp", "CAST(now() AS TIMESTAMP)"),
            ("'Today'::date", "current_date()"),
            ("'yesterday'::date", "(current_date() - 1)"),
            ("CAST('tomorrow' AS TIMESTAMP)", "CAST((current_date() + 1) AS TIMESTAMP)"),
            ("'2024/3/05'::date", "CAST('2024-03-05' AS DATE)"),
            ("'2024/03/05 10:00'::timestamp", "CAST('2024-03-05 10:00' AS TIMESTAMP)"),
            ("localtimestamp", "CAST(now() AS TIMESTAMP)"),
            ("age(b)", "age(CAST(current_date() AS TIMESTAMP), b)"),
            ("age(a, b)", "age(a, b)"),
            ("make_interval(1, secs => 2)", "make_interval(1, 0, 0, 0, 0, 0, 2)"),
            ("make_interval(days => a)", "make_interval(0, 0, 0, a, 0, 0, 0)"),
        ] {
            let found = written(&format!("SELECT 1 FROM t WHERE x = {expr}"));
            assert_eq!(found, format!("SELECT 1 FROM t WHERE x = {wanted}"), "{expr}");
        }
        assert_eq!(written("SELECT localtimestamp"), "SELECT CAST(now() AS TIMESTAMP) AS \"localtimestamp\"");
    }

    #[test]
    fn other_texts_and_names_stay() {
        for expr in
            ["'today'::TEXT", "'2024/03'::DATE", "'03/05/2024'::DATE", "a::DATE", "\"localtimestamp\"", "'epoch'"]
        {
            let sql = format!("SELECT 1 FROM t WHERE x = {expr}");
            assert_eq!(written(&sql), sql);
        }
        assert_eq!(written("SELECT make_interval(eons => 1)"), "make_interval has no argument eons");
        assert_eq!(written("SELECT make_interval(1, years => 1)"), "make_interval is given years twice");
    }
}
