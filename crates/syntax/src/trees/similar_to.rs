//! `SIMILAR TO`: SQL's regular expressions.
//!
//! Invariants, as in PostgreSQL:
//! - A pattern is of the whole text. `%` is any text and `_` any character; `|`, `*`, `+`, `?`, `{...}`, brackets and parentheses are those of
//!   regular expressions, and all else stands for itself. What is behind the escape does, too.
//! - It becomes the regular expression that means the same, or is refused by name: DataFusion 55.2 takes the pattern itself for one.
//!
//! Mends apache/datafusion#22263 (in 55.2).
//! Held by `slt/meaning.slt` (`'abc' SIMILAR TO 'a%'`, `'abc' SIMILAR TO 'b'`).

use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;

/// The regular expression of a pattern.
pub fn regular(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut made = String::with_capacity(pattern.len() + 12);
    made.push_str("^(?s:");
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            let escaped = chars.next().ok_or_else(|| {
                Error::new(ErrorKind::InvalidValue, "a pattern of SIMILAR TO ends with its escape")
                    .with_hint("write the escape twice where it stands for itself")
            })?;
            // PostgreSQL reads escapes of its regular expressions there.
            if escaped.is_ascii_alphanumeric() {
                return Err(not_supported(format!("{c}{escaped} in a pattern of SIMILAR TO"))
                    .with_hint("use ~ with a regular expression"));
            }
            push_plain(&mut made, escaped);
            continue;
        }
        match c {
            '%' => made.push_str(".*"),
            '_' => made.push('.'),
            '(' => made.push_str("(?:"),
            ')' | '|' | '*' | '+' | '?' | '{' | '}' => made.push(c),
            '[' => push_bracket(&mut made, &mut chars, escape)?,
            other => push_plain(&mut made, other),
        }
    }
    made.push_str(")$");
    Ok(made)
}

/// A character that stands for itself.
fn push_plain(made: &mut String, c: char) {
    if c.is_ascii_punctuation()
        && !matches!(c, '_' | '<' | '>' | '%' | '"' | '\'' | '/' | ',' | ';' | ':' | '=' | '@' | '!' | '`')
    {
        made.push('\\');
    }
    made.push(c);
}

/// What is behind `[`, through the `]` that ends it.
fn push_bracket(
    made: &mut String,
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    escape: Option<char>,
) -> Result<()> {
    made.push('[');
    if chars.next_if_eq(&'^').is_some() {
        made.push('^');
    }
    let mut is_first = true;
    while let Some(c) = chars.next() {
        match c {
            ']' if !is_first => {
                made.push(']');
                return Ok(());
            }
            '[' if chars.peek() == Some(&':') => {
                made.push('[');
                for c in chars.by_ref() {
                    made.push(c);
                    if c == ']' {
                        break;
                    }
                }
            }
            '-' if !is_first && chars.peek() != Some(&']') => made.push('-'),
            c if Some(c) == escape => match chars.next() {
                Some(escaped) if !escaped.is_ascii_alphanumeric() => push_member(made, escaped),
                _ => return Err(not_supported("an escape in brackets of a pattern of SIMILAR TO")),
            },
            c => push_member(made, c),
        }
        is_first = false;
    }
    Err(Error::new(ErrorKind::InvalidValue, "brackets of a pattern of SIMILAR TO are not closed"))
}

/// A character that stands for itself in brackets.
fn push_member(made: &mut String, c: char) {
    if matches!(c, '[' | ']' | '\\' | '^' | '-' | '&' | '~') {
        made.push('\\');
    }
    made.push(c);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_become_regular_expressions_of_the_whole_text() {
        for (pattern, expected) in [
            ("abc", "^(?s:abc)$"),
            ("a%", "^(?s:a.*)$"),
            ("_b|(c|d)+", "^(?s:.b|(?:c|d)+)$"),
            ("a.b^c$", r"^(?s:a\.b\^c\$)$"),
            (r"50\%\_", "^(?s:50%_)$"),
            ("[a-c%_.]{2,3}", "^(?s:[a-c%_.]{2,3})$"),
            ("[^]^&-]", r"^(?s:[^\]\^\&\-])$"),
            ("[[:digit:]x]", "^(?s:[[:digit:]x])$"),
            ("é#", r"^(?s:é\#)$"),
        ] {
            assert_eq!(regular(pattern, Some('\\')).unwrap(), expected);
        }
        assert_eq!(regular(r"a\!%", Some('!')).unwrap(), r"^(?s:a\\%)$");
        assert_eq!(regular(r"\%", None).unwrap(), r"^(?s:\\.*)$");
        assert_eq!(regular("a\\", Some('\\')).unwrap_err().kind(), ErrorKind::InvalidValue);
        assert_eq!(regular("[a", Some('\\')).unwrap_err().kind(), ErrorKind::InvalidValue);
        assert_eq!(regular(r"\d", Some('\\')).unwrap_err().kind(), ErrorKind::NotSupported);
    }
}
