//! What to do where the sides of an operator have types that do not fit together.
//!
//! Invariant: a type that a hint names is one that the other side can be cast to.

/// What stands before the sides in DataFusion's messages, and what may stand behind them.
const BEFORE: &[&str] = &["arithmetic expression ", " operation ", "common type to coerce "];
const BEHIND: &[&str] = &[" to valid types", " in LIKE expression", " in SIMILAR TO expression"];

/// Operators between the sides; those that begin with another one stand before it.
const OPERATORS: &[&str] = &[
    " IS NOT DISTINCT FROM ",
    " IS DISTINCT FROM ",
    " AND ",
    " OR ",
    " and ",
    " !~* ",
    " !~ ",
    " ~* ",
    " ~ ",
    " <= ",
    " >= ",
    " != ",
    " <> ",
    " = ",
    " < ",
    " > ",
    " + ",
    " - ",
    " * ",
    " / ",
    " % ",
    " || ",
];

const GENERAL: &str = "cast one side to the type of the other";

/// The hint for a message, which has types by their names in SQL.
pub(super) fn hint(message: &str) -> String {
    let Some((left, operator, right)) = sides(message) else { return GENERAL.to_owned() };
    let either = |is: fn(&str) -> bool| is(left) || is(right);
    let other = if left == "TEXT" { right } else { left };
    match operator {
        "AND" | "OR" => return "both sides have to be conditions: compare, as in x <> 0 or x = 'a'".to_owned(),
        "and" | "~" | "~*" | "!~" | "!~*" => return "cast to text what is matched: CAST(x AS TEXT)".to_owned(),
        _ => {}
    }
    let is_arithmetic = matches!(operator, "+" | "-" | "*" | "/" | "%");
    if either(|side| side.ends_with("[]")) && !is_arithmetic {
        return match left.ends_with("[]") && right.ends_with("[]") {
            true => GENERAL.to_owned(),
            false => "to look for a value in a list, write x = ANY (list)".to_owned(),
        };
    }
    if either(is_number) && either(|side| side == "INTERVAL") && !is_arithmetic {
        return "write an interval: INTERVAL '1 day'".to_owned();
    }
    if either(is_point) && is_arithmetic {
        return match either(|side| side == "TEXT") {
            true => "write an interval: INTERVAL '1 day', or CAST(x AS INTERVAL) of a text".to_owned(),
            false => "write an interval: INTERVAL '1 day'".to_owned(),
        };
    }
    match (either(|side| side == "TEXT"), is_number(other)) {
        (true, true) => format!("{GENERAL}, as in CAST(x AS DOUBLE)"),
        (true, false) if is_point(other) || matches!(other, "INTERVAL" | "BOOLEAN") => {
            format!("{GENERAL}, as in CAST(x AS {other})")
        }
        (false, _) if either(is_number) && either(|side| side == "BOOLEAN") => {
            "a boolean is a condition by itself: write x, NOT x or x = true; a number is one by CAST(x AS BOOLEAN)"
                .to_owned()
        }
        _ => GENERAL.to_owned(),
    }
}

/// What is said instead of a message about a comparison: the operator that is not there.
pub(super) fn missing_operator(message: &str) -> Option<String> {
    if !message.to_lowercase().starts_with("cannot infer common argument type for comparison operation") {
        return None;
    }
    let (left, operator, right) = sides(message)?;
    Some(format!("there is no operator {left} {operator} {right}"))
}

/// What is said where a condition should be, and something else is: DataFusion's words tell what it is of.
pub(super) fn no_condition(message: &str) -> Option<(String, String)> {
    let rest = message.strip_prefix("Cannot create filter with non-boolean predicate '")?;
    let (of, data_type) = rest.rsplit_once("' returning ")?;
    // Of more than a column its text is not SQL.
    let is_column = of.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
    let name = if is_column { of } else { "x" };
    let hint = match data_type {
        "TEXT" => format!("compare it with a text in single quotes: {name} = 'a'"),
        number if is_number(number) => format!("compare it with a number: {name} <> 0"),
        _ => format!("compare it, or write {name} IS NOT NULL"),
    };
    let what = if is_column { of } else { "an expression" };
    Some((format!("{what} is {data_type}, and no condition"), hint))
}

fn is_number(name: &str) -> bool {
    matches!(name, "SMALLINT" | "INT" | "BIGINT" | "REAL" | "DOUBLE") || name.starts_with("DECIMAL")
}

/// Of time.
fn is_point(name: &str) -> bool {
    matches!(name, "DATE" | "TIME") || name.starts_with("TIMESTAMP")
}

/// The types of the sides, and the operator between them.
fn sides(message: &str) -> Option<(&str, &str, &str)> {
    let (_, rest) = BEFORE.iter().find_map(|before| message.split_once(*before))?;
    let rest = BEHIND.iter().find_map(|behind| rest.split_once(*behind)).map_or(rest, |(rest, _)| rest);
    let operator = OPERATORS.iter().find(|operator| rest.contains(**operator))?;
    let (left, right) = rest.split_once(*operator)?;
    Some((left.trim(), operator.trim(), right.trim()))
}

#[cfg(test)]
mod tests {
    use super::{hint, missing_operator, no_condition};

    #[test]
    fn what_is_missing_is_named() {
        let told = |sides: &str| {
            missing_operator(&format!("Cannot infer common argument type for comparison operation {sides}"))
        };
        assert_eq!(told("INT = BOOLEAN").as_deref(), Some("there is no operator INT = BOOLEAN"));
        assert_eq!(missing_operator("Cannot coerce arithmetic expression TEXT + BIGINT to valid types"), None);
        let told = |of: &str| no_condition(&format!("Cannot create filter with non-boolean predicate {of}"));
        let (message, hint) = told("'c.pinned' returning TEXT").unwrap();
        assert_eq!(message, "c.pinned is TEXT, and no condition");
        assert!(hint.ends_with("c.pinned = 'a'"));
        let (message, hint) = told("'t.a + Int64(1)' returning BIGINT").unwrap();
        assert_eq!(message, "an expression is BIGINT, and no condition");
        assert!(hint.ends_with("x <> 0"));
    }

    #[test]
    fn numbers_are_cast_to_only_where_there_are_some() {
        let comparison =
            |sides: &str| hint(&format!("cannot infer common argument type for comparison operation {sides}"));
        let arithmetic = |sides: &str| hint(&format!("cannot coerce arithmetic expression {sides} to valid types"));
        let general = "cast one side to the type of the other";
        assert_eq!(arithmetic("TEXT + BIGINT"), format!("{general}, as in CAST(x AS DOUBLE)"));
        assert!(comparison("INT = BOOLEAN").contains("x = true"));
        assert_eq!(comparison("INTERVAL = TEXT"), format!("{general}, as in CAST(x AS INTERVAL)"));
        assert_eq!(comparison("DATE = DECIMAL(10, 2)"), general);
        assert_eq!(comparison("TIMESTAMP WITH TIME ZONE > TIME"), general);
        assert_eq!(comparison("INTERVAL > BIGINT"), "write an interval: INTERVAL '1 day'");
        assert_eq!(arithmetic("TIMESTAMP + BIGINT"), "write an interval: INTERVAL '1 day'");
        assert!(arithmetic("DATE + TEXT").ends_with("CAST(x AS INTERVAL) of a text"));
        assert!(comparison("BIGINT[] = BIGINT").contains("= ANY (list)"));
        assert_eq!(arithmetic("BIGINT[] + BIGINT[]"), general);
        assert!(
            hint("cannot infer common argument type for logical boolean operation INT AND BOOLEAN").contains("x <> 0")
        );
        assert!(hint("there isn't a common type to coerce INT and TEXT in LIKE expression").contains("AS TEXT"));
        assert_eq!(hint("failed to coerce then (BIGINT) and else (BIGINT[])"), general);
    }
}
