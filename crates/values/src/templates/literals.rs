//! Literal texts within templates of numbers and of timestamps.
//!
//! Invariant: as in PostgreSQL, a text in double quotes stands for itself, in which a backslash stands before a character that is taken as it
//! is; outside of quotes it does so before a quote alone. Letters that are no pattern stand for themselves, too.

/// A piece of a template.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<K> {
    /// A pattern.
    Key(K),
    /// What stands for itself.
    Text(String),
}

/// Takes what stands for itself from the front of a template, a quoted text or one character; what follows it.
pub fn after_text<'a, K>(rest: &'a str, pieces: &mut Vec<Piece<K>>) -> &'a str {
    let mut text = String::new();
    let behind = match rest.strip_prefix('"') {
        Some(quoted) => {
            let mut characters = quoted.char_indices();
            let mut behind = "";
            while let Some((at, character)) = characters.next() {
                match character {
                    '"' => {
                        behind = quoted.get(at + 1..).unwrap_or_default();
                        break;
                    }
                    // The last character of a template is itself.
                    '\\' => text.push(characters.next().map_or('\\', |(_, taken)| taken)),
                    other => text.push(other),
                }
            }
            behind
        }
        None => {
            let rest = if rest.starts_with("\\\"") { &rest[1..] } else { rest };
            let mut characters = rest.chars();
            text.extend(characters.next());
            characters.as_str()
        }
    };
    match pieces.last_mut() {
        Some(Piece::Text(before)) => before.push_str(&text),
        _ if text.is_empty() => {}
        _ => pieces.push(Piece::Text(text)),
    }
    behind
}

/// The first pattern of a list that a template begins with, and what follows it.
pub fn key<'a, K: Copy>(rest: &'a str, keys: &[(&str, K)]) -> Option<(K, &'a str)> {
    keys.iter().find_map(|(name, key)| Some((*key, rest.strip_prefix(*name)?)))
}

/// What is written behind a number that ends in these digits: `st` of 1, `th` of 11.
pub fn ordinal(digits: &str, is_upper: bool) -> &'static str {
    let mut last = digits.bytes().rev();
    let (ones, tens) = (last.next(), last.next());
    let (upper, lower) = match ones {
        _ if tens == Some(b'1') => ("TH", "th"),
        Some(b'1') => ("ST", "st"),
        Some(b'2') => ("ND", "nd"),
        Some(b'3') => ("RD", "rd"),
        _ => ("TH", "th"),
    };
    if is_upper { upper } else { lower }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of a template, of which `AB` and `A` are patterns.
    fn pieces(template: &str) -> Vec<Piece<u8>> {
        let (mut pieces, mut rest) = (Vec::new(), template);
        while !rest.is_empty() {
            rest = match key(rest, &[("AB", 2), ("A", 1)]) {
                Some((key, behind)) => {
                    pieces.push(Piece::Key(key));
                    behind
                }
                None => after_text(rest, &mut pieces),
            };
        }
        pieces
    }

    #[test]
    fn what_is_no_pattern_stands_for_itself() {
        let text = |text: &str| -> Piece<u8> { Piece::Text(text.to_owned()) };
        for (template, expected) in [
            ("", vec![]),
            ("A", vec![Piece::Key(1)]),
            ("ABA", vec![Piece::Key(2), Piece::Key(1)]),
            ("a-A", vec![text("a-"), Piece::Key(1)]),
            ("\"AB\"A", vec![text("AB"), Piece::Key(1)]),
            ("\"AB", vec![text("AB")]),
            ("\"A\\\"B\\\\\"", vec![text("A\"B\\")]),
            ("\"A\\", vec![text("A\\")]),
            ("\\\"A", vec![text("\""), Piece::Key(1)]),
            ("\\A", vec![text("\\"), Piece::Key(1)]),
            ("\"\"A", vec![Piece::Key(1)]),
            ("äA€", vec![text("ä"), Piece::Key(1), text("€")]),
        ] {
            assert_eq!(pieces(template), expected, "{template}");
        }
    }

    #[test]
    fn ordinals_are_those_of_the_last_digits() {
        for (digits, expected) in [
            ("1", "st"),
            ("2", "nd"),
            ("3", "rd"),
            ("4", "th"),
            ("0", "th"),
            ("11", "th"),
            ("12", "th"),
            ("113", "th"),
            ("21", "st"),
        ] {
            assert_eq!(ordinal(digits, false), expected, "{digits}");
            assert_eq!(ordinal(digits, true), expected.to_uppercase(), "{digits}");
        }
    }
}
