//! What is said of a function that is not there for the types of its arguments.
//!
//! DataFusion tells of it in words alone, in the same words as of a defect of its own, and with the names of Arrow's types. Here the words
//! are read, and told as PostgreSQL does: by the function with its arguments' types as SQL has them, and what it takes instead.

use crate::lower_first;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::calls::QUANTIFIED_CALL;
use alluvia_values::errors::clean;
use arrow::datatypes::DataType;

/// Forms of a function that a hint lists.
const FORMS_MAX: usize = 5;

/// The user's error, if a message tells that no form of a function takes its arguments.
pub fn missing_form(message: &str) -> Option<Error> {
    let message = message.split("\n\nbacktrace:").next().unwrap_or(message);
    let Some((before, rest)) = message.split_once("No function matches the given name and argument types '") else {
        // Where it is told without its arguments.
        let name = name_alone(message)?;
        let error = Error::new(ErrorKind::UndefinedFunction, format!("{name} does not take arguments of these types"));
        return Some(error.with_hint(hint(&[], &[], None)));
    };
    let (call, rest) = rest.split_once("'. You might need")?;
    let (name, types) = call.strip_suffix(')')?.split_once('(')?;
    let types: Vec<String> = parts(types).into_iter().map(type_name).collect();
    if let (QUANTIFIED_CALL, [_, value, list]) = (name, types.as_slice()) {
        let message = format!("a value of type {value} is not compared with the elements of {list}");
        let error = Error::new(ErrorKind::UndefinedFunction, message);
        return Some(error.with_hint("behind ANY and ALL stands a list, such as ARRAY[1, 2] or '{1,2}'::int[]"));
    }
    let listed = rest.split_once("Candidate functions:\n").map_or("", |(_, listed)| listed);
    let mut forms: Vec<String> = Vec::new();
    for form in listed.lines().filter_map(|line| form(line.trim(), name)) {
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    let error = Error::new(ErrorKind::UndefinedFunction, format!("there is no function {name}({})", types.join(", ")));
    Some(error.with_hint(hint(&types, &forms, reason(before).as_deref())))
}

/// The function's name, in messages that do not list its arguments.
fn name_alone(message: &str) -> Option<&str> {
    let all = [
        ("Function '", "' failed to match any signature"),
        ("Function '", "' user-defined coercion failed with"),
        ("Failed to coerce arguments to satisfy a call to '", "' function"),
    ];
    all.iter().find_map(|(before, after)| {
        let (name, rest) = message.split_once(before)?.1.split_once('\'')?;
        rest.starts_with(&after[1..]).then_some(name)
    })
}

/// What a function that checks its arguments itself says of them.
fn reason(before: &str) -> Option<String> {
    let (_, reason) = before.rsplit_once("user-defined coercion failed with: ")?;
    let reason = reason.trim().trim_end_matches('.');
    let plain = ["Error during planning: ", "Execution error: ", "Internal error: "];
    let reason = plain.iter().fold(reason, |reason, prefix| reason.strip_prefix(prefix).unwrap_or(reason));
    if reason.starts_with("fail to find the coerced type") {
        return Some("its arguments have no type in common: cast them to one".to_owned());
    }
    let reason = with_sql_types(&clean(reason));
    (!reason.is_empty()).then(|| lower_first(&reason))
}

fn hint(given: &[String], forms: &[String], reason: Option<&str>) -> String {
    let cast = example(given, forms).map_or_else(String::new, |name| format!(", as in CAST(x AS {name})"));
    match (forms, reason) {
        ([], None) => "cast the arguments to types that it takes".to_owned(),
        ([], Some(reason)) => reason.to_owned(),
        ([only], _) => format!("there is {only}: cast the arguments to that{cast}"),
        (all, _) => {
            let more = if all.len() > FORMS_MAX { ", ..." } else { "" };
            let all = all.iter().take(FORMS_MAX).map(String::as_str).collect::<Vec<&str>>().join(", ");
            format!("there are {all}{more}: cast the arguments to one of these{cast}")
        }
    }
}

/// The first type that a form with as many arguments has and the call has not, if one can be cast to the other.
fn example(given: &[String], forms: &[String]) -> Option<String> {
    let wanted = forms.iter().find_map(|form| {
        let inside = form.strip_suffix(')')?.split_once('(')?.1;
        let wanted = parts(inside);
        (wanted.len() == given.len()).then_some(wanted)
    })?;
    let (given, wanted) = given.iter().zip(wanted).find(|(given, wanted)| given.as_str() != *wanted)?;
    let wanted = wanted.split('/').next().unwrap_or_default();
    let is_number = |name: &str| {
        let numbers = ["SMALLINT", "INT", "INTEGER", "BIGINT", "REAL", "DOUBLE", "NUMERIC"];
        numbers.contains(&name) || name.starts_with("DECIMAL")
    };
    match wanted {
        "TEXT" => Some("TEXT".to_owned()),
        number if is_number(number) && (is_number(given) || matches!(given.as_str(), "TEXT" | "BOOLEAN")) => {
            Some("DOUBLE".to_owned())
        }
        "DATE" | "TIME" | "TIMESTAMP" | "INTERVAL" | "BOOLEAN" if given == "TEXT" => Some(wanted.to_owned()),
        "TIMESTAMP" if given == "DATE" => Some(wanted.to_owned()),
        _ => None,
    }
}

/// One form of a function, `f(Int64, Utf8)`, as SQL has it; `None` if nothing is known of its arguments.
fn form(line: &str, name: &str) -> Option<String> {
    let inside = line.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')')?;
    // So many arguments of a kind.
    let counted = inside.strip_suffix(')').and_then(|text| text.split_once('('));
    let counted = counted.and_then(|(kind, count)| Some((kind, count.parse::<usize>().ok()?)));
    let arguments = match (inside, counted) {
        ("UserDefined", _) => return None,
        ("NullAry()", _) => Vec::new(),
        (_, Some((kind @ ("String" | "Numeric" | "Comparable"), count))) => vec![class_name(kind); count],
        _ => parts(inside).into_iter().map(class_name).collect(),
    };
    Some(format!("{name}({})", arguments.join(", ")))
}

/// What stands between commas that are in no brackets and no quotes.
fn parts(text: &str) -> Vec<&str> {
    let (mut all, mut start, mut depth, mut is_quoted) = (Vec::new(), 0, 0_usize, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                all.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    let last = text[start..].trim();
    if !last.is_empty() {
        all.push(last);
    }
    all
}

/// What a form takes in one place: a type, a class of types, or some of them; perhaps with the argument's name before it.
fn class_name(text: &str) -> String {
    let text = text.rsplit_once(": ").map_or(text, |(_, text)| text);
    let name = match text {
        "Any" | "Comparable" | "element" => "ANY",
        "Integer" => "INTEGER",
        "Float" => "DOUBLE",
        "Numeric" => "NUMERIC",
        "Decimal" => "DECIMAL",
        "String" => "TEXT",
        "Date" => "DATE",
        "Time" => "TIME",
        "Timestamp" => "TIMESTAMP",
        "Interval" | "Duration" => "INTERVAL",
        "array" | "recursive_array" => "ARRAY",
        "map_array" => "MAP",
        "index" => "BIGINT",
        ".." => "...",
        _ => {
            let mut names: Vec<String> = Vec::new();
            for name in text.split('/').map(type_name) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            return names.join("/");
        }
    };
    name.to_owned()
}

/// A message with the names of types that Arrow has and SQL has not, outside of quotes, as SQL has them.
pub fn with_sql_types(message: &str) -> String {
    let mut told = String::with_capacity(message.len());
    let (mut rest, mut is_quoted) = (message, false);
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let word = rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())].trim_end_matches('.');
        let taken = match word {
            "" => first.len_utf8(),
            _ if is_quoted => word.len(),
            _ => match arrow_name(rest, word) {
                Some((name, len)) => {
                    told += &name;
                    rest = &rest[len..];
                    continue;
                }
                None => word.len(),
            },
        };
        if matches!(first, '\'' | '"') {
            // An apostrophe within a word, as in "can't", neither opens nor closes.
            let beside = if is_quoted { rest[taken..].chars().next() } else { told.chars().next_back() };
            is_quoted ^= !beside.is_some_and(char::is_alphanumeric);
        }
        told += &rest[..taken];
        rest = &rest[taken..];
    }
    told
}

/// SQL's name of the type of Arrow's that a text begins with, and how long Arrow's is. What SQL has by the same name, and literals, are none.
fn arrow_name(text: &str, word: &str) -> Option<(String, usize)> {
    let behind = &text[word.len()..];
    if !behind.starts_with('(') && matches!(word, "Decimal128" | "Decimal256") {
        return Some(("DECIMAL".to_owned(), word.len()));
    }
    let is_arrows = match word {
        "Boolean" | "Timestamp" | "Duration" | "Interval" => true,
        "List" | "LargeList" | "FixedSizeList" | "Struct" | "Map" | "Dictionary" => behind.starts_with('('),
        _ => word.ends_with("View") || word.ends_with(|c: char| c.is_ascii_digit()),
    };
    if !is_arrows {
        return None;
    }
    let len = if behind.starts_with('(') { word.len() + bracketed(behind)? } else { word.len() };
    // What structs are made of may be more than Arrow reads.
    if word == "Struct" {
        return Some((A_STRUCT.to_owned(), len));
    }
    Some((sql_name(&text[..len].parse::<DataType>().ok()?), len))
}

/// How long the bracket is that a text begins with.
fn bracketed(text: &str) -> Option<usize> {
    let (mut depth, mut quote) = (0_usize, None);
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (Some(open), _) => quote = (open != byte).then_some(open),
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'(') => depth += 1,
            (None, b')') if depth == 1 => return Some(at + 1),
            (None, b')') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// A type that is written as Arrow does, as SQL has it.
fn type_name(text: &str) -> String {
    text.parse::<DataType>().map_or_else(|_| text.to_uppercase(), |data_type| sql_name(&data_type))
}

/// What SQL has no name for.
const A_STRUCT: &str = "a struct";

/// A type of Arrow's as SQL has it.
pub fn sql_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "NULL".to_owned(),
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::ListView(element)
        | DataType::LargeListView(element)
        | DataType::FixedSizeList(element, _) => format!("{}[]", sql_name(element.data_type())),
        DataType::Struct(_) => A_STRUCT.to_owned(),
        DataType::Map(..) => "a map".to_owned(),
        DataType::Dictionary(_, values) => sql_name(values),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".to_owned(),
        DataType::Interval(_) | DataType::Duration(_) => "INTERVAL".to_owned(),
        DataType::Decimal256(precision, scale) => format!("DECIMAL({precision}, {scale})"),
        other => alluvia_values::sql_type::sql_type(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(message: &str) -> (String, String) {
        let error = missing_form(message).unwrap_or_else(|| panic!("{message}"));
        assert_eq!(error.kind(), ErrorKind::UndefinedFunction);
        (error.message().to_owned(), error.hint().unwrap_or_default().to_owned())
    }

    fn unmatched(before: &str, call: &str, forms: &[&str]) -> String {
        let forms: Vec<String> = forms.iter().map(|form| format!("\t{form}")).collect();
        format!(
            "{before}. No function matches the given name and argument types '{call}'. You might need to add explicit type casts.\n\
             \tCandidate functions:\n{}",
            forms.join("\n")
        )
    }

    #[test]
    fn a_function_is_named_with_its_types_and_what_it_takes() {
        let before = "Internal error: Function 'sum' failed to match any signature, errors: Error during planning: Function 'sum' \
                      requires Decimal, but received String (DataType: Utf8View)..\nThis issue was likely caused by a bug in \
                      DataFusion's code. Please help us to resolve this by filing a bug report in our issue tracker";
        let forms = ["sum(Decimal)", "sum(UInt64)", "sum(Int64)", "sum(Float64)", "sum(Duration)", "sum(Interval)"];
        let (message, hint) = told(&unmatched(before, "sum(Utf8View)", &forms));
        assert_eq!(message, "there is no function sum(TEXT)");
        assert!(hint.starts_with("there are sum(DECIMAL), sum(BIGINT), sum(DOUBLE), sum(INTERVAL): cast"), "{hint}");
        assert!(!hint.contains("bug") && !hint.contains("DataFusion"), "{hint}");
    }

    #[test]
    fn types_and_forms_of_every_kind_have_sql_names() {
        let call = "f(Int32, Decimal128(10, 2), Timestamp(µs, \"UTC\"), List(Utf8), Null, Interval(MonthDayNano))";
        let forms = ["f(string: String, start_pos: Int64)", "f(Numeric(2))", "f(NullAry())", "f(Any, .., Any)"];
        let (message, hint) = told(&unmatched("x", call, &forms));
        let types = "INT, DECIMAL(10, 2), TIMESTAMP WITH TIME ZONE, TEXT[], NULL, INTERVAL";
        assert_eq!(message, format!("there is no function f({types})"));
        assert!(hint.starts_with("there are f(TEXT, BIGINT), f(NUMERIC, NUMERIC), f(), f(ANY, ..., ANY): "), "{hint}");
        let (message, hint) = told(&unmatched("'g' does not support zero arguments", "g()", &["g(Utf8/Utf8View)"]));
        assert_eq!((message.as_str(), hint.split(':').next()), ("there is no function g()", Some("there is g(TEXT)")));
        let many: Vec<String> = (1..9).map(|count| format!("h({})", vec!["Int64"; count].join(", "))).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(told(&unmatched("x", "h(Utf8)", &many)).1.contains(", ...: cast"));
    }

    #[test]
    fn types_of_arrow_are_told_as_sql_has_them_outside_of_quotes() {
        for (message, told) in [
            ("Cannot coerce Utf8View + Int64 to valid types", "Cannot coerce TEXT + BIGINT to valid types"),
            ("of Timestamp(µs, \"UTC\"), of Date32.", "of TIMESTAMP WITH TIME ZONE, of DATE."),
            ("Decimal128(10, 2) and List(Utf8)", "DECIMAL(10, 2) and TEXT[]"),
            ("List(List(Int64)) = List(Date32), Decimal128", "BIGINT[][] = DATE[], DECIMAL"),
            ("Duration(µs) > Interval(MonthDayNano) = Boolean", "INTERVAL > INTERVAL = BOOLEAN"),
            ("Struct(\"a)\": Int64, \"b\": List(Int64)) + Int64", "a struct + BIGINT"),
            ("Boolean(true), Interval, List of 3", "Boolean(true), Interval, List of 3"),
            (
                "Cannot cast string 'Int64 é' to value of Int64 type",
                "Cannot cast string 'Int64 é' to value of BIGINT type",
            ),
            ("Can't cast value 40000 to type Int16", "Can't cast value 40000 to type SMALLINT"),
            ("value 'can't of Int32' of Int32", "value 'can't of Int32' of INT"),
            ("n.a - Int64(1), a.Int32, sha256, Null … x1.", "n.a - Int64(1), a.Int32, sha256, Null … x1."),
        ] {
            assert_eq!(with_sql_types(message), told);
        }
    }

    #[test]
    fn what_a_function_says_itself_is_the_hint() {
        let before = "Execution error: Function 'min' user-defined coercion failed with: Error during planning: Min was called with 2 \
                      arguments. It requires only 1.";
        let (message, hint) = told(&unmatched(before, "min(Int64, Int64)", &["min(UserDefined)"]));
        assert_eq!(message, "there is no function min(BIGINT, BIGINT)");
        assert_eq!(hint, "min was called with 2 arguments. It requires only 1");
    }

    #[test]
    fn other_words_are_of_other_errors() {
        let alone = told("Function 'avg' failed to match any signature, errors: x").0;
        assert_eq!(alone, "avg does not take arguments of these types");
        let coerced = "Failed to coerce arguments to satisfy a call to 'f' function: coercion from Utf8 to the signature x failed";
        assert_eq!(told(coerced).0, "f does not take arguments of these types");
        for other in ["Function 'f' is odd", "no plan", ""] {
            assert!(missing_form(other).is_none(), "{other}");
        }
    }
}
