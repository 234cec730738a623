//! Types and operators that planning does not know, by the names that they have in SQL.
//!
//! Invariant: what a hint tells to write is there.

use alluvia_types::Error;
use alluvia_values::errors::not_supported;

/// Operators as the parser calls them.
const OPERATORS: &[(&str, &str)] = &[
    ("PGPostfixFactorial", "!"),
    ("PGPrefixFactorial", "!!"),
    ("BitwiseNot", "~"),
    ("PGBitwiseNot", "~"),
    ("PGExp", "^"),
    ("LtDashGt", "<->"),
    ("AtAt", "@@"),
    ("AtArrow", "@>"),
    ("ArrowAt", "<@"),
    ("AtQuestion", "@?"),
    ("Question", "?"),
    ("QuestionAnd", "?&"),
    ("QuestionPipe", "?|"),
    ("HashMinus", "#-"),
];

/// What is said of a message that tells of one; `None` of any other.
pub(super) fn not_known(message: &str) -> Option<Error> {
    if let Some(rest) = message.strip_prefix("Unsupported SQL type ") {
        let name = rest.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
        let error = not_supported(format!("the type {name}"));
        return Some(match name.as_str() {
            "UUID" => error.with_hint("use TEXT: it is compared as it is written, in small letters as a rule"),
            "MONEY" => error.with_hint("use DECIMAL(p, s)"),
            "XML" | "INET" | "CIDR" | "MACADDR" | "CITEXT" => error.with_hint("use TEXT"),
            _ => error,
        });
    }
    let operator =
        ["Unsupported binary operator: ", "Unsupported SQL unary operator ", "Unsupported SQL binary operator "]
            .iter()
            .find_map(|before| message.strip_prefix(before))
            .or_else(|| {
                message.strip_prefix("Binary operator '")?.strip_suffix("' is not supported in the physical expr")
            })?;
    let (_, shown) = OPERATORS.iter().find(|(known, _)| *known == operator.trim())?;
    let error = not_supported(format!("the operator {shown} of these operands"));
    Some(match *shown {
        "@>" | "<@" => error
            .with_hint("compare the fields of JSON, x ->> 'a' = 'b'; of lists both sides are lists, x @> ARRAY['b']"),
        "?" | "?&" | "?|" => error.with_hint("ask for the fields of JSON: x -> 'a' IS NOT NULL"),
        _ => not_supported(format!("the operator {shown}")),
    })
}

/// What is said of a list that is cast to what is none.
pub(super) fn cast_of_list(message: &str) -> Option<Error> {
    let (list, to) = message.strip_prefix("Unsupported CAST from ")?.split_once(" to ")?;
    let error = || {
        not_supported(format!("a cast from {list} to {to}")).with_hint(
            "put what makes rows in FROM: SELECT x::DATE FROM generate_series(...) AS t(x); an element of a list is list[1]",
        )
    };
    (list.ends_with("[]") && !to.ends_with("[]")).then(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_operators_have_the_names_that_were_written() {
        let told = |message: &str| not_known(message).map(|error| error.message().to_owned());
        assert_eq!(told("Unsupported SQL type UUID").as_deref(), Some("the type UUID is not supported"));
        assert_eq!(told("Unsupported SQL type inet").as_deref(), Some("the type INET is not supported"));
        let operator = told("Unsupported binary operator: LtDashGt");
        assert_eq!(operator.as_deref(), Some("the operator <-> is not supported"));
        assert_eq!(told("Unsupported binary operator: Other"), None);
        let operator = told("Binary operator 'AtArrow' is not supported in the physical expr");
        assert_eq!(operator.as_deref(), Some("the operator @> of these operands is not supported"));
        let cast = |message: &str| cast_of_list(message).map(|error| error.message().to_owned());
        let told = cast("Unsupported CAST from TIMESTAMP[] to DATE");
        assert_eq!(told.as_deref(), Some("a cast from TIMESTAMP[] to DATE is not supported"));
        assert_eq!(cast("Unsupported CAST from DATE to BIGINT[]"), None);
    }
}
