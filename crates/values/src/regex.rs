//! PostgreSQL's regular expressions as the `regex` crate reads them.

/// A pattern of PostgreSQL's as Rust's expressions have it; `None` if it is the same.
pub fn translated(pattern: &str) -> Option<String> {
    if !pattern.contains(['\\', '[']) {
        return None;
    }
    let mut made = String::with_capacity(pattern.len() + 16);
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            '\\' => {
                let Some(escaped) = rest.chars().next() else {
                    made.push(c);
                    break;
                };
                rest = &rest[escaped.len_utf8()..];
                match escaped {
                    'm' => made.push_str(r"\b{start}"),
                    'M' => made.push_str(r"\b{end}"),
                    'y' => made.push_str(r"\b"),
                    'Y' => made.push_str(r"\B"),
                    'Z' => made.push_str(r"\z"),
                    other => made.extend([c, other]),
                }
            }
            '[' => match (rest.strip_prefix("[:<:]]"), rest.strip_prefix("[:>:]]")) {
                (Some(after), _) => {
                    made.push_str(r"\b{start}");
                    rest = after;
                }
                (_, Some(after)) => {
                    made.push_str(r"\b{end}");
                    rest = after;
                }
                _ => rest = push_bracket(&mut made, rest),
            },
            other => made.push(other),
        }
    }
    (made != pattern).then_some(made)
}

/// What is behind `[`, through the `]` that ends it; gives what is behind that.
fn push_bracket<'a>(made: &mut String, mut rest: &'a str) -> &'a str {
    made.push('[');
    if let Some(after) = rest.strip_prefix('^') {
        made.push('^');
        rest = after;
    }
    // It is a member where there is none yet.
    if let Some(after) = rest.strip_prefix(']') {
        made.push_str(r"\]");
        rest = after;
    }
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        rest = after;
        match c {
            ']' => {
                made.push(c);
                return rest;
            }
            '\\' => {
                made.push(c);
                if let Some(escaped) = after.chars().next() {
                    made.push(escaped);
                    rest = &after[escaped.len_utf8()..];
                }
            }
            '[' => match after.find(":]").filter(|_| after.starts_with(':')) {
                Some(end) => {
                    made.push(c);
                    made.push_str(&after[..end + 2]);
                    rest = &after[end + 2..];
                }
                None => made.push_str(r"\["),
            },
            // Twice they are operators between brackets.
            '&' | '~' if after.starts_with(c) => made.extend(['\\', c]),
            other => made.push(other),
        }
    }
    rest
}
