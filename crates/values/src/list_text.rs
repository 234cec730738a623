//! PostgreSQL's text of lists, `{1,NULL,"a b"}`, cut into its elements.

/// The elements of a list's text, `{1,NULL,"a \"b\""}`; `None` for NULL. No text of a list gives `None`, nor does a list of lists.
pub fn array_elements(text: &str) -> Option<Vec<Option<String>>> {
    let inside = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut elements = Vec::new();
    let mut chars = inside.chars().peekable();
    if inside.trim().is_empty() {
        return Some(elements);
    }
    loop {
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
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
            element.truncate(element.trim_end().len());
            // As in PostgreSQL, an element without characters is written in quotes.
            if element.is_empty() {
                return None;
            }
        }
        let is_null = !quoted && element.eq_ignore_ascii_case("null");
        elements.push((!is_null).then_some(element));
        while chars.next_if(|c| c.is_whitespace()).is_some() {}
        match chars.next() {
            None => return Some(elements),
            Some(',') => {}
            Some(_) => return None,
        }
    }
}
