//! Templates of `to_date`, `to_timestamp` and `to_number`, as PostgreSQL's clients write them: `'YYYY-MM-DD HH24:MI:SS.US'`.
//!
//! Invariants:
//! - DataFusion's functions take forms of `strftime` (`'%Y-%m-%d'`), and would take a template's letters for themselves. So a template
//!   that is written becomes the form that means the same, or is refused by the name of what has none.
//! - What has a `%` in it is a form already, and stays.
//! - How many digits `to_number` reads behind a point is written behind its template, so that its type never changes while it is planned.
//! - Columns are called after these functions as they were written, `to_char` among them.

use crate::names::parts_of;
use crate::statement::text_of;
use crate::trees::rewriting::rewrite;
use alluvia_types::Result;
use alluvia_values::errors::not_supported;
use alluvia_values::templates::picture::scale_of;
use sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Value};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// Functions that take templates behind their first argument.
const FUNCTIONS: [&str; 4] = ["to_char", "to_date", "to_number", "to_timestamp"];

/// Patterns in any case, with their forms; `None` for what has none. Longer ones come first.
const PATTERNS: [(&str, Option<&str>); 19] = [
    ("SSSSS", None),
    ("SSSS", None),
    ("HH24", Some("%H")),
    ("HH12", Some("%I")),
    ("IYYY", Some("%G")),
    ("YYYY", Some("%Y")),
    ("DDD", Some("%j")),
    ("FF3", Some("%3f")),
    ("FF6", Some("%6f")),
    ("DD", Some("%d")),
    ("HH", Some("%I")),
    ("IW", Some("%V")),
    ("MI", Some("%M")),
    ("MM", Some("%m")),
    ("MS", Some("%3f")),
    ("SS", Some("%S")),
    ("US", Some("%6f")),
    ("YY", Some("%y")),
    ("Q", Some("%q")),
];

/// Patterns whose case is that of what they write; whole names are filled with blanks, unless FM says that they are not.
const WORDS: [(&str, Option<&str>); 10] = [
    ("FMMonth", Some("%B")),
    ("Month", None),
    ("FMDay", Some("%A")),
    ("Day", None),
    ("Mon", Some("%b")),
    ("Dy", Some("%a")),
    ("AM", Some("%p")),
    ("PM", Some("%p")),
    ("am", Some("%P")),
    ("pm", Some("%P")),
];

/// The zone that every time with a zone is shown in.
const ZONES: [(&str, &str); 2] = [("TZ", "UTC"), ("tz", "utc")];

/// Whether a statement of these tokens may have a template.
pub(crate) fn may_have(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| match &token.token {
        Token::Word(word) => FUNCTIONS.iter().any(|name| word.value.eq_ignore_ascii_case(name)),
        _ => false,
    })
}

/// Brings all templates of a query to forms.
pub fn write_out(query: &mut Query) -> Result<()> {
    rewrite(query, takes_template, &mut expand)
}

/// The function's name, if it takes templates.
fn function_of(expr: &Expr) -> Option<String> {
    let Expr::Function(function) = expr else { return None };
    let name = parts_of(&function.name).ok()?.pop()?;
    FUNCTIONS.contains(&name.as_str()).then_some(name)
}

/// Whether [`expand`] may change it.
fn takes_template(expr: &Expr) -> bool {
    function_of(expr).is_some()
}

fn expand(expr: &mut Expr) -> Result<()> {
    let Some(name) = function_of(expr) else { return Ok(()) };
    let Expr::Function(function) = expr else { return Ok(()) };
    let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
    // Those of `to_char` mean what PostgreSQL means by them (`alluvia_functions::to_char`).
    if name == "to_char" {
        return Ok(());
    }
    if name == "to_number" {
        if let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(template))] = list.args.as_slice()
            && let Some(scale) = text_of(template).and_then(|text| scale_of(&text))
        {
            let scale = Expr::Value(Value::Number(scale.to_string(), false).into());
            list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(scale)));
        }
        return Ok(());
    }
    for argument in list.args.iter_mut().skip(1) {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(template)) = argument else { continue };
        let Some(text) = text_of(template).filter(|text| !text.contains('%')) else { continue };
        let form = form_of(&text).map_err(|pattern| {
            not_supported(format!("{pattern} in a template of {name}"))
                .with_hint("write the template in the forms of strftime: '%Y-%m-%d %H:%M:%S%.6f'")
        })?;
        *template = Expr::Value(Value::SingleQuotedString(form).into());
    }
    Ok(())
}

/// A template as a form, or the pattern that has none.
fn form_of(template: &str) -> std::result::Result<String, String> {
    let mut form = String::new();
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        if let Some((word, written)) = WORDS.iter().find(|(word, _)| rest.starts_with(word)) {
            form.push_str(written.ok_or_else(|| (*word).to_owned())?);
            rest = &rest[word.len()..];
            continue;
        }
        if let Some((zone, written)) = ZONES.iter().find(|(zone, _)| rest.starts_with(zone)) {
            form.push_str(written);
            rest = &rest[zone.len()..];
            continue;
        }
        // Quotes are around what stands for itself.
        if let Some(quoted) = rest.strip_prefix('"') {
            let end = quoted.find('"').unwrap_or(quoted.len());
            form.push_str(&quoted[..end]);
            rest = quoted.get(end + 1..).unwrap_or_default();
            continue;
        }
        if !first.is_ascii_alphabetic() {
            form.push(first);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let unfilled = strip(rest, "FM");
        let of = unfilled.unwrap_or(rest);
        let known = PATTERNS.iter().find_map(|(pattern, form)| Some((*form, strip(of, pattern)?)));
        let Some((Some(written), after)) = known else {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            return Err(rest[..end].to_owned());
        };
        match (unfilled, written.strip_prefix('%')) {
            // Numbers without the zeros that fill them.
            (Some(_), Some(letter)) if letter.len() == 1 => {
                form.push_str("%-");
                form.push_str(letter);
            }
            _ => form.push_str(written),
        }
        rest = after;
    }
    Ok(form)
}

/// What follows a pattern that a text begins with, in any case.
fn strip<'a>(text: &'a str, pattern: &str) -> Option<&'a str> {
    let (head, rest) = (text.get(..pattern.len())?, text.get(pattern.len()..)?);
    head.eq_ignore_ascii_case(pattern).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;
    use crate::script::parse;

    #[test]
    fn templates_become_forms() {
        for (template, form) in [
            ("YYYY-MM-DD HH24:MI:SS.US", Ok("%Y-%m-%d %H:%M:%S.%6f")),
            ("yyyy-mm-dd\"T\"hh24:mi:ss.ms", Ok("%Y-%m-%dT%H:%M:%S.%3f")),
            ("FMDD Mon YY, HH12:MI AM", Ok("%-d %b %y, %I:%M %p")),
            ("FMMonth IYYY-IW DDD Q", Ok("%B %G-%V %j %q")),
            ("HH24 TZ", Ok("%H UTC")),
            ("", Ok("")),
            ("ä-DD", Ok("ä-%d")),
            ("YYYY Month", Err("Month")),
            ("YYY", Err("Y")),
            ("SSSS", Err("SSSS")),
            ("DDth", Err("th")),
        ] {
            assert_eq!(form_of(template), form.map(str::to_owned).map_err(str::to_owned), "{template}");
        }
    }

    #[test]
    fn calls_have_forms_and_keep_their_names() {
        let written = |sql: &str| match parse(sql).unwrap().remove(0).kind {
            Kind::Query(query) => query.to_string(),
            Kind::Refused(error) => error.message().to_owned(),
            _ => panic!("a query"),
        };
        assert_eq!(
            written("SELECT a FROM t WHERE at >= TO_TIMESTAMP('2026-11-21', 'YYYY-MM-DD')"),
            "SELECT a FROM t WHERE at >= TO_TIMESTAMP('2026-11-21', '%Y-%m-%d')"
        );
        assert_eq!(
            written("SELECT to_char(at, 'YYYY') FROM t"),
            "SELECT to_char(at, 'YYYY') AS \"to_char(at, 'YYYY')\" FROM t"
        );
        assert_eq!(
            written("SELECT to_number(a, '9G999D99') AS n, to_number(a, b) AS m FROM t"),
            "SELECT to_number(a, '9G999D99', 2) AS n, to_number(a, b) AS m FROM t"
        );
        let refused = written("SELECT to_date(a, 'Month') AS m FROM t");
        assert!(refused.contains("Month in a template of to_date"), "{refused}");
    }
}
