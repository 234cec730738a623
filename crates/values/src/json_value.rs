//! Values of the types JSON and JSONB.
//!
//! Invariants:
//! - JSON is kept as it came: only its grammar is checked. A surrogate without its half and `\u0000` are let through, as PostgreSQL does.
//! - JSONB is written as PostgreSQL prints it: keys by their length, then by their bytes; of a key that comes twice the last; escapes decoded; numbers as NUMERIC
//!   shows them, with the zeros that they came with. Normalising twice changes nothing. Values are compared by their texts, which tell `1.0` from
//!   `1`, unlike PostgreSQL (docs/KNOWN.md).

use crate::json::{Nesting, resolve, scan_whole};
use crate::parse::Bad;
use std::borrow::Cow;

/// Digits of a number of JSONB before its point, and behind: PostgreSQL's bounds.
const DIGITS_MAX: i64 = 131_072;
const SCALE_MAX: i64 = 16_383;

/// Checks a value of JSON.
pub fn check_json(text: &[u8]) -> Result<(), Bad> {
    std::str::from_utf8(text).map_err(|_| Bad::Utf8)?;
    scan_whole(text, false).map_err(bad)
}

/// A value of JSONB, as PostgreSQL prints it.
pub fn normalized(text: &[u8]) -> Result<String, Bad> {
    std::str::from_utf8(text).map_err(|_| Bad::Utf8)?;
    scan_whole(text, true).map_err(bad)?;
    let mut reader = Reader { bytes: text, at: 0 };
    let tree = reader.value()?;
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    write(&tree, &mut out);
    Ok(out)
}

fn bad(nesting: Nesting) -> Bad {
    match nesting {
        Nesting::Wrong => Bad::Json,
        Nesting::TooDeep => Bad::Depth,
    }
}

/// A value, with the members of objects in their order.
enum Tree<'a> {
    Plain(Cow<'a, str>),
    String(Cow<'a, str>),
    Array(Vec<Tree<'a>>),
    Object(Vec<(Cow<'a, str>, Tree<'a>)>),
}

/// Reads a text whose grammar was checked.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&mut self) -> u8 {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied().unwrap_or(0)
    }

    /// As deep as the checked text is nested, which has a bound.
    fn value(&mut self) -> Result<Tree<'a>, Bad> {
        Ok(match self.peek() {
            b'"' => Tree::String(self.string()?),
            b'[' => {
                self.at += 1;
                let mut elements = Vec::new();
                while self.peek() != b']' {
                    elements.push(self.value()?);
                    if self.peek() == b',' {
                        self.at += 1;
                    }
                }
                self.at += 1;
                Tree::Array(elements)
            }
            b'{' => {
                self.at += 1;
                let mut members = Vec::new();
                while self.peek() != b'}' {
                    let key = self.string()?;
                    // The colon.
                    self.peek();
                    self.at += 1;
                    members.push((key, self.value()?));
                    if self.peek() == b',' {
                        self.at += 1;
                    }
                }
                self.at += 1;
                Tree::Object(ordered(members))
            }
            first => {
                let is_in = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
                let length = self.bytes[self.at..].iter().take_while(is_in).count();
                let text = utf8(&self.bytes[self.at..self.at + length])?;
                self.at += length;
                Tree::Plain(if first.is_ascii_alphabetic() { Cow::Borrowed(text) } else { number(text)? })
            }
        })
    }

    fn string(&mut self) -> Result<Cow<'a, str>, Bad> {
        self.peek();
        let start = self.at + 1;
        self.at = start;
        while let Some(byte) = self.bytes.get(self.at).filter(|byte| **byte != b'"') {
            self.at += if *byte == b'\\' { 2 } else { 1 };
        }
        let raw = self.bytes.get(start..self.at).ok_or(Bad::Json)?;
        self.at += 1;
        match resolve(raw) {
            Cow::Borrowed(bytes) => Ok(Cow::Borrowed(utf8(bytes)?)),
            Cow::Owned(bytes) if bytes.contains(&0) => Err(Bad::NullCharacter),
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|_| Bad::Json),
        }
    }
}

fn utf8(bytes: &[u8]) -> Result<&str, Bad> {
    std::str::from_utf8(bytes).map_err(|_| Bad::Utf8)
}

/// Members by the length of their keys, then by their bytes; of those with one key the last.
fn ordered<'a>(mut members: Vec<(Cow<'a, str>, Tree<'a>)>) -> Vec<(Cow<'a, str>, Tree<'a>)> {
    let order = |key: &str, other: &str| key.len().cmp(&other.len()).then_with(|| key.as_bytes().cmp(other.as_bytes()));
    members.sort_by(|(key, _), (other, _)| order(key, other));
    let mut kept: Vec<(Cow<'a, str>, Tree<'a>)> = Vec::with_capacity(members.len());
    for member in members {
        match kept.last_mut() {
            Some(last) if last.0 == member.0 => *last = member,
            _ => kept.push(member),
        }
    }
    kept
}

/// A number as NUMERIC shows it: without an exponent, and with as many digits behind the point as are written.
fn number(text: &str) -> Result<Cow<'_, str>, Bad> {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let has_exponent = digits.contains(['e', 'E']);
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let exponent: i64 = exponent.parse().map_err(|_| Bad::Range)?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_zero = mantissa.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    if !(has_exponent || is_zero && sign == "-") {
        let fits = whole.len() as i64 <= DIGITS_MAX && fraction.len() as i64 <= SCALE_MAX;
        return if fits { Ok(Cow::Borrowed(text)) } else { Err(Bad::Range) };
    }
    let scale = (fraction.len() as i64).saturating_sub(exponent).max(0);
    let before = (whole.len() as i64).saturating_add(exponent);
    if scale > SCALE_MAX || (!is_zero && before > DIGITS_MAX) {
        return Err(Bad::Range);
    }
    let scale = scale as usize;
    let mut all = format!("{whole}{fraction}");
    if is_zero {
        all = "0".repeat(scale + 1);
    } else {
        // Zeros behind, up to the point, and before, so that a digit stands before it.
        let zeros = exponent.saturating_sub(fraction.len() as i64).max(0) as usize;
        all.push_str(&"0".repeat(zeros));
        if all.len() <= scale {
            all.insert_str(0, &"0".repeat(scale + 1 - all.len()));
        }
    }
    let (whole, fraction) = all.split_at(all.len() - scale);
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let sign = if is_zero { "" } else { sign };
    Ok(Cow::Owned(if scale == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{fraction}") }))
}

fn write(tree: &Tree<'_>, out: &mut String) {
    match tree {
        Tree::Plain(text) => out.push_str(text),
        Tree::String(text) => write_string(text, out),
        Tree::Array(elements) => {
            out.push('[');
            for (at, element) in elements.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write(element, out);
            }
            out.push(']');
        }
        Tree::Object(members) => {
            out.push('{');
            for (at, (key, value)) in members.iter().enumerate() {
                out.push_str(if at > 0 { ", " } else { "" });
                write_string(key, out);
                out.push_str(": ");
                write(value, out);
            }
            out.push('}');
        }
    }
}

/// A string of JSON, with the escapes that PostgreSQL writes.
pub fn write_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> Result<String, Bad> {
        normalized(text.as_bytes())
    }

    /// What PostgreSQL 15 prints for the same.
    #[test]
    fn jsonb_is_what_postgresql_prints() {
        for (text, wanted) in [
            (r#" {"b":1, "aa":2,"a" : 3 } "#, r#"{"a": 3, "b": 1, "aa": 2}"#),
            (r#"{"a":1,"b":2,"a":3}"#, r#"{"a": 3, "b": 2}"#),
            ("[1.0, 1e3, 1E-2, -0, -0.0, 1.50e1, 0e5, 0.0e1, 120]", "[1.0, 1000, 0.01, 0, 0.0, 15.0, 0, 0, 120]"),
            ("[100e-2, 1.5e-3, -2e2, 12.5e0]", "[1.00, 0.0015, -200, 12.5]"),
            (r#""\u00e4\u0041\n\/\ud83d\ude00""#, "\"äA\\n/😀\""),
            ("\"\\u0001\\u007f\"", "\"\\u0001\u{7f}\""),
            ("[]", "[]"),
            ("{ }", "{}"),
            (" null ", "null"),
            ("true", "true"),
            (r#"{"z": {"y":[{"x":null}]}}"#, r#"{"z": {"y": [{"x": null}]}}"#),
            (r#"{"é":1,"zz":2,"z":3}"#, r#"{"z": 3, "zz": 2, "é": 1}"#),
        ] {
            assert_eq!(of(text).as_deref(), Ok(wanted), "{text}");
        }
        assert_eq!(of(r#""\u0000""#), Err(Bad::NullCharacter));
        assert_eq!(of("1e200000"), Err(Bad::Range));
        assert_eq!(of(r#""\ud800""#), Err(Bad::Json));
        for text in
            ["", "{", "[1,]", "{\"a\":}", "{a:1}", "tru", "01", "1.", "'a'", "1 2", "\"a", "\"\t\"", "NaN", "[1 2]"]
        {
            assert_eq!((of(text), check_json(text.as_bytes())), (Err(Bad::Json), Err(Bad::Json)), "{text}");
        }
        for text in [r#""\u0000""#, r#""\ud800""#, " [1, 2]  ", "\"\u{7f}\"", "1e200000"] {
            assert_eq!(check_json(text.as_bytes()), Ok(()), "{text}");
        }
        assert_eq!(check_json(b"\"\xff\""), Err(Bad::Utf8));
        let deep = format!("{}{}", "[".repeat(2_000), "]".repeat(2_000));
        assert_eq!((of(&deep), check_json(deep.as_bytes())), (Err(Bad::Depth), Err(Bad::Depth)));
    }

    fn any_json() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("null".to_owned()),
            any::<i64>().prop_map(|value| value.to_string()),
            (any::<i32>(), 0_u8..99, -20_i8..20)
                .prop_map(|(whole, part, exponent)| format!("{whole}.{part}e{exponent}")),
            any::<String>().prop_map(|text| serde_json::to_string(&text.replace('\0', "")).unwrap()),
        ];
        leaf.prop_recursive(4, 30, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(|all| format!("[{}]", all.join(" ,"))),
                prop::collection::vec(("[a-c]{0,3}", inner), 0..5).prop_map(|all| {
                    let members: Vec<String> = all.iter().map(|(key, value)| format!("\"{key}\" :{value}")).collect();
                    format!("{{{}}}", members.join(","))
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn normalising_twice_changes_nothing(text in any_json(), bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(check_json(text.as_bytes()), Ok(()));
            let once = of(&text).unwrap();
            prop_assert_eq!(of(&once), Ok(once.clone()));
            let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            // Doubles of serde tell 17 digits, and of both texts the same ones.
            prop_assert_eq!(value(&once).to_string().is_empty(), value(&text).to_string().is_empty());
            let _ = (normalized(&bytes), check_json(&bytes));
        }
    }
}
