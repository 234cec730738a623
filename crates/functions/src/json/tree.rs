//! A value of JSON as a tree, for what looks into it or changes it.
//!
//! Invariants:
//! - Strings and keys are as they are written, with their escapes; numbers keep their digits.
//! - A text has no more levels than the scanner takes, so nothing here is deeper than that.

use super::access::not_json;
use super::text::{checked, only};
use crate::casts::kinds::plain_number;
use alluvia_values::json::{Members, NotJson, Value, elements, resolve};
use alluvia_values::json_value::write_string;
use datafusion_common::Result;

/// A value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Node {
    Null,
    /// A number, `true` or `false`.
    Plain(String),
    /// Without its quotes.
    Text(String),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    /// Of a text, or its error.
    pub fn of(text: &str) -> Result<Node> {
        let whole = |text: &str| -> std::result::Result<Node, NotJson> {
            let bytes = text.trim_ascii().as_bytes();
            only(bytes)?;
            Ok(match bytes {
                b"null" => Node::Null,
                [b'"', inner @ .., b'"'] => Node::Text(utf8(inner)),
                [b'{' | b'[', ..] => nested(bytes)?,
                plain => Node::Plain(utf8(plain)),
            })
        };
        // What is no JSON is told as casts tell it; anything else that cannot be read is an error too, and never a value.
        whole(text).map_err(|wrong| checked(text).err().unwrap_or_else(|| not_json(text, &wrong)))
    }

    /// As JSONB is written, but for the order of its keys.
    pub fn write(&self) -> String {
        let mut out = String::new();
        self.write_to(&mut out);
        out
    }

    fn write_to(&self, out: &mut String) {
        match self {
            Node::Null => out.push_str("null"),
            Node::Plain(plain) => out.push_str(plain),
            Node::Text(inner) => {
                out.push('"');
                out.push_str(inner);
                out.push('"');
            }
            Node::Array(elements) => {
                out.push('[');
                for (at, element) in elements.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    element.write_to(out);
                }
                out.push(']');
            }
            Node::Object(members) => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    out.push_str(if at > 0 { ", " } else { "" });
                    write_string(&key_text(key), out);
                    out.push_str(": ");
                    value.write_to(out);
                }
                out.push('}');
            }
        }
    }

    /// Without any spaces, as functions of JSON write it.
    pub fn write_tight(&self, out: &mut String) {
        match self {
            Node::Array(elements) => {
                out.push('[');
                for (at, element) in elements.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    element.write_tight(out);
                }
                out.push(']');
            }
            Node::Object(members) => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    out.push('"');
                    out.push_str(key);
                    out.push_str("\":");
                    value.write_tight(out);
                }
                out.push('}');
            }
            other => out.push_str(&other.write()),
        }
    }

    /// In lines, with four spaces for each level.
    pub fn write_lines(&self, level: usize, out: &mut String) {
        let line = |level: usize, out: &mut String| {
            out.push('\n');
            out.push_str(&"    ".repeat(level));
        };
        match self {
            Node::Array(elements) => {
                out.push('[');
                for (at, element) in elements.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    line(level + 1, out);
                    element.write_lines(level + 1, out);
                }
                line(level, out);
                out.push(']');
            }
            Node::Object(members) => {
                out.push('{');
                for (at, (key, value)) in members.iter().enumerate() {
                    if at > 0 {
                        out.push(',');
                    }
                    line(level + 1, out);
                    out.push('"');
                    out.push_str(key);
                    out.push_str("\": ");
                    value.write_lines(level + 1, out);
                }
                line(level, out);
                out.push('}');
            }
            other => out.push_str(&other.write()),
        }
    }

    /// What `json_typeof` says of it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Node::Null => "null",
            Node::Plain(plain) if matches!(plain.as_str(), "true" | "false") => "boolean",
            Node::Plain(_) => "number",
            Node::Text(_) => "string",
            Node::Array(_) => "array",
            Node::Object(_) => "object",
        }
    }

    /// What it says as text; `None` of `null`.
    pub fn text(&self) -> Option<String> {
        match self {
            Node::Null => None,
            Node::Text(inner) => Some(key_text(inner)),
            other => Some(other.write()),
        }
    }

    /// Whether a scalar is another.
    fn is_same(&self, other: &Node) -> bool {
        match (self, other) {
            (Node::Plain(a), Node::Plain(b)) => plain_number(a) == plain_number(b),
            (Node::Text(a), Node::Text(b)) => a == b || key_text(a) == key_text(b),
            (Node::Null, Node::Null) => true,
            _ => false,
        }
    }

    /// Whether another lies within it, as `@>` has it of parts.
    fn has(&self, other: &Node) -> bool {
        match (self, other) {
            (Node::Object(members), Node::Object(wanted)) => wanted.iter().all(|(key, wanted)| {
                let found = members.iter().find(|(name, _)| key_text(name) == key_text(key));
                found.is_some_and(|(_, found)| found.has(wanted))
            }),
            (Node::Array(elements), Node::Array(wanted)) => {
                wanted.iter().all(|wanted| elements.iter().any(|element| element.has(wanted)))
            }
            (one, other) => one.is_same(other),
        }
    }

    /// Whether it contains another: an array contains a scalar, too.
    pub fn contains(&self, other: &Node) -> bool {
        match (self, other) {
            (Node::Array(elements), scalar) if !matches!(scalar, Node::Array(_) | Node::Object(_)) => {
                elements.iter().any(|element| element.is_same(scalar))
            }
            (one, other) => one.has(other),
        }
    }

    /// Whether a text is one of its keys, or of its elements.
    pub fn names(&self, wanted: &str) -> bool {
        match self {
            Node::Object(members) => members.iter().any(|(key, _)| key_text(key) == wanted),
            Node::Array(elements) => {
                elements.iter().any(|element| matches!(element, Node::Text(inner) if key_text(inner) == wanted))
            }
            Node::Text(inner) => key_text(inner) == wanted,
            _ => false,
        }
    }

    /// Without members that are `null`.
    pub fn stripped(self) -> Node {
        match self {
            Node::Object(members) => {
                let members = members.into_iter().filter(|(_, value)| *value != Node::Null);
                Node::Object(members.map(|(key, value)| (key, value.stripped())).collect())
            }
            Node::Array(elements) => Node::Array(elements.into_iter().map(Node::stripped).collect()),
            other => other,
        }
    }
}

fn utf8(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a string or a key says.
pub(crate) fn key_text(inner: &str) -> String {
    String::from_utf8_lossy(&resolve(inner.as_bytes())).into_owned()
}

/// Loops and not iterators, since each level of what is stored takes a stretch of the stack.
fn nested(bytes: &[u8]) -> std::result::Result<Node, NotJson> {
    let node = |value: Value<'_>| match value {
        Value::Null => Ok(Node::Null),
        Value::Plain(plain) => Ok(Node::Plain(utf8(plain))),
        Value::String(inner) => Ok(Node::Text(utf8(inner))),
        Value::Nested(inner) => nested(inner),
    };
    if bytes.first() == Some(&b'[') {
        let mut nodes = Vec::new();
        for element in elements(bytes)? {
            nodes.push(node(element)?);
        }
        return Ok(Node::Array(nodes));
    }
    let mut scan = Members::of_stored(bytes);
    let mut members = Vec::new();
    while let Some((key, value)) = scan.next_member()? {
        members.push((utf8(key), node(value)?));
    }
    Ok(Node::Object(members))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containment_is_postgresqls() {
        for (one, other, wanted) in [
            (r#"{"a": 1, "b": 2}"#, r#"{"a": 1}"#, true),
            ("[1,2,3]", "[3,1]", true),
            ("[1,[2,3]]", "[[2]]", true),
            (r#"["a"]"#, r#""a""#, true),
            (r#""a""#, r#"["a"]"#, false),
            (r#"{"a": {"b": 1, "c": 2}}"#, r#"{"a": {"b": 1}}"#, true),
            (r#"{"a": [1, 2]}"#, r#"{"a": 1}"#, false),
            (r#"{"a": 1.0}"#, r#"{"a": 1}"#, true),
            ("[1, [2]]", "2", false),
            ("{}", "[]", false),
        ] {
            assert_eq!(Node::of(one).unwrap().contains(&Node::of(other).unwrap()), wanted, "{one} @> {other}");
        }
    }

    #[test]
    fn lines_and_strips_are_postgresqls() {
        let mut lines = String::new();
        Node::of(r#"{"a": [1, {"b": 2}], "c": {}}"#).unwrap().write_lines(0, &mut lines);
        let wanted =
            "{\n    \"a\": [\n        1,\n        {\n            \"b\": 2\n        }\n    ],\n    \"c\": {\n    }\n}";
        assert_eq!(lines, wanted);
        let stripped = Node::of(r#"{"a": null, "b": {"c": null, "d": [null]}}"#).unwrap().stripped();
        assert_eq!(stripped.write(), r#"{"b": {"d": [null]}}"#);
        assert!(Node::of("{").is_err() && Node::of("1 2").is_err());
    }

    #[test]
    fn what_is_stored_is_read_as_deep_as_it_is() {
        for (open, close, depth) in [("[", "]", 201), ("[", "]", 1_000), ("{\"a\": ", "}", 1_000)] {
            let text = format!("{}7{}", open.repeat(depth), close.repeat(depth));
            assert_eq!(Node::of(&text).unwrap().write(), text);
        }
        for text in [format!("{}{}", "[".repeat(1_001), "]".repeat(1_001)), r#"["\ud800"]"#.to_owned()] {
            assert!(Node::of(&text).is_err(), "{text}");
        }
    }
}
