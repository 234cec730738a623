//! Templates of `to_char`, `to_date` and `to_timestamp`, as PostgreSQL's clients write them: `'YYYY-MM-DD HH24:MI:SS.US'`.
//!
//! Invariants:
//! - DataFusion's functions take forms of `strftime` (`'%Y-%m-%d'`), and would take a template's letters for themselves: `to_char(t, 'YYYY')`
//!   was `YYYY`. So a template that is written becomes the form that means the same, or is refused by the name of what has none.
//! - What has a `%` in it is a form already, and stays.
//! - `TZ` is the zone that every TIMESTAMPTZ is shown in, and nothing for a TIMESTAMP: which of both it is, planning knows
//!   (`checked::zone_forms`).

use crate::dialect::names::parts_of;
use crate::dialect::refuse::not_supported;
use crate::dialect::rewriting::{call, contains, rewrite};
use crate::dialect::statement::text_of;
use alluvia_types::Result;
use datafusion::sql::sqlparser::ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Value};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Functions that take templates behind their first argument.
const FUNCTIONS: [&str; 3] = ["to_char", "to_date", "to_timestamp"];

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
pub(crate) fn write_out(query: &mut Query) -> Result<()> {
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
    let shown = match list.args.first() {
        // What itself has templates is not written twice, which would double with each call within another; `to_timestamp` has a zone.
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(shown)))
            if name == "to_char" && !contains(shown, takes_template) =>
        {
            Some(shown.clone())
        }
        _ => None,
    };
    for argument in list.args.iter_mut().skip(1) {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(template)) = argument else { continue };
        let Some(text) = text_of(template).filter(|text| !text.contains('%')) else { continue };
        let form = form_of(&text, true).map_err(|pattern| {
            not_supported(format!("{pattern} in a template of {name}"))
                .with_hint("write the template in the forms of strftime: '%Y-%m-%d %H:%M:%S%.6f'")
        })?;
        if name == "to_timestamp" && !tells_a_time(&form) {
            return Err(not_supported(
                "a time without its minutes, its seconds, or its AM or PM in a template of to_timestamp",
            )
            .with_hint("write them, or none of the time: 'YYYY-MM-DD HH24:MI:SS', 'YYYY-MM-DD'"));
        }
        let without = form_of(&text, false).ok().filter(|without| *without != form);
        let literal = |form: String| Expr::Value(Value::SingleQuotedString(form).into());
        *template = match (&shown, without) {
            (Some(shown), Some(without)) => call("form_by_zone", vec![shown.clone(), literal(form), literal(without)]),
            _ => literal(form),
        };
    }
    Ok(())
}

/// Whether a form has all of a time of day, or nothing of it: of a part alone DataFusion takes the date, and says nothing.
fn tells_a_time(form: &str) -> bool {
    let has = |letter: &str| form.contains(&format!("%{letter}")) || form.contains(&format!("%-{letter}"));
    let half = has("p") || has("P");
    let hour = has("H") || has("I") && half;
    let fraction = has("3f") || has("6f");
    let any = has("H") || has("I") || half || has("M") || has("S") || fraction;
    !any || hour && has("M") && (has("S") || !fraction)
}

/// A template as a form, with the zone or without, or the pattern that has none.
fn form_of(template: &str, has_zone: bool) -> std::result::Result<String, String> {
    let mut form = String::new();
    let mut rest = template;
    while let Some(first) = rest.chars().next() {
        if let Some((word, written)) = WORDS.iter().find(|(word, _)| rest.starts_with(word)) {
            form.push_str(written.ok_or_else(|| (*word).to_owned())?);
            rest = &rest[word.len()..];
            continue;
        }
        if let Some((zone, written)) = ZONES.iter().find(|(zone, _)| rest.starts_with(zone)) {
            form.push_str(if has_zone { written } else { "" });
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
    use crate::dialect::{Kind, parse};

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
            assert_eq!(form_of(template, true), form.map(str::to_owned).map_err(str::to_owned), "{template}");
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
            "SELECT to_char(at, '%Y') AS \"to_char(at, 'YYYY')\" FROM t"
        );
        assert_eq!(
            written("SELECT to_char(at, 'HH24 TZ') AS h FROM t"),
            "SELECT to_char(at, form_by_zone(at, '%H UTC', '%H ')) AS h FROM t"
        );
        assert_eq!(written("SELECT to_char(at, '%Y') AS y FROM t"), "SELECT to_char(at, '%Y') AS y FROM t");
        assert!(written("SELECT to_char(at, 'Month') AS m FROM t").contains("Month in a template of to_char"));
    }
}
