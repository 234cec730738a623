//! Types and operators that planning does not know, by the names that they have in SQL.
//!
//! Invariant: what a hint tells to write is there.

use crate::dialect::not_supported;
use alluvia_types::Error;

/// Operators as the parser calls them.
const OPERATORS: &[(&str, &str)] = &[
    ("PGAbs", "@"),
    ("PGSquareRoot", "|/"),
    ("PGCubeRoot", "||/"),
    ("PGPostfixFactorial", "!"),
    ("PGPrefixFactorial", "!!"),
    ("BitwiseNot", "~"),
    ("PGBitwiseNot", "~"),
    ("PGExp", "^"),
    ("PGOverlap", "&&"),
    ("PGStartsWith", "^@"),
    ("LtDashGt", "<->"),
    ("AtAt", "@@"),
    ("Overlaps", "OVERLAPS"),
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
            .find_map(|before| message.strip_prefix(before))?;
    let (_, shown) = OPERATORS.iter().find(|(known, _)| *known == operator.trim())?;
    Some(not_supported(format!("the operator {shown}")))
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
    }
}
