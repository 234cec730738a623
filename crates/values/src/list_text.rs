//! PostgreSQL's text of lists, `{1,NULL,"a b"}`: its elements are cut out, and quoted.
//!
//! Invariant: what [`quoted_element`] writes, [`array_elements`] reads back. Both take PostgreSQL's six characters for
//! white space, and no others.

use std::borrow::Cow;

/// Whether a character is white space around an element, as in PostgreSQL.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

/// An element as it is written within the text of a list: in quotes if it has no characters, is `NULL` in any case, or
/// has quotes, backslashes, braces, commas or white space.
pub fn quoted_element(text: &str) -> Cow<'_, str> {
    let is_special = |c: char| matches!(c, '"' | '\\' | '{' | '}' | ',') || is_space(c);
    if !text.is_empty() && !text.eq_ignore_ascii_case("null") && !text.contains(is_special) {
        return Cow::Borrowed(text);
    }
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        if matches!(c, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    quoted.push('"');
    Cow::Owned(quoted)
}

/// The elements of a list's text, `{1,NULL,"a \"b\""}`; `None` for NULL. No text of a list gives `None`, nor does a list of lists.
pub fn array_elements(text: &str) -> Option<Vec<Option<String>>> {
    let inside = text.trim_matches(is_space).strip_prefix('{')?.strip_suffix('}')?;
    let mut elements = Vec::new();
    let mut chars = inside.chars().peekable();
    if inside.chars().all(is_space) {
        return Some(elements);
    }
    loop {
        while chars.next_if(|c| is_space(*c)).is_some() {}
        let mut element = String::new();
        let mut quoted = false;
        if chars.next_if_eq(&'"').is_some() {
            quoted = true;
            loop {
                match chars.next()? {
                    '"' => break,
                    '\\' => element.push(chars.next()?),
                    c => element.push(c),
                }
            }
        } else {
            while let Some(c) = chars.next_if(|c| *c != ',') {
                match c {
                    // A list of lists, or what only quotes may hold.
                    '{' | '}' | '"' => return None,
                    '\\' => element.push(chars.next()?),
                    c => element.push(c),
                }
            }
            element.truncate(element.trim_end_matches(is_space).len());
            // As in PostgreSQL, an element without characters is written in quotes.
            if element.is_empty() {
                return None;
            }
        }
        let is_null = !quoted && element.eq_ignore_ascii_case("null");
        elements.push((!is_null).then_some(element));
        while chars.next_if(|c| is_space(*c)).is_some() {}
        match chars.next() {
            None => return Some(elements),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn elements_are_quoted_where_they_could_not_be_read_without() {
        for (text, quoted) in [
            ("plain_1", "plain_1"),
            ("Gross", "Gross"),
            ("a b", "\"a b\""),
            ("a,b", "\"a,b\""),
            ("say \"no\"", "\"say \\\"no\\\"\""),
            ("a\\b", "\"a\\\\b\""),
            ("{x}", "\"{x}\""),
            ("null", "\"null\""),
            ("", "\"\""),
            ("\x0b", "\"\x0b\""),
            ("\u{a0}é", "\u{a0}é"),
        ] {
            assert_eq!(quoted_element(text), quoted);
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(texts in prop::collection::vec("[ a{}\",\\\\nNulL\t\x0b\u{a0}]{0,6}", 1..6)) {
            let written: Vec<Cow<'_, str>> = texts.iter().map(|text| quoted_element(text)).collect();
            let found = array_elements(&format!("{{{}}}", written.join(",")));
            prop_assert_eq!(found, Some(texts.iter().cloned().map(Some).collect()));
        }
    }
}
