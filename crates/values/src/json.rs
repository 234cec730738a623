//! One JSON text, scanned strictly (RFC 8259) without building a tree.
//!
//! Invariants:
//! - A value is handed out as the bytes it has in the file: numbers keep every digit, objects and arrays stay as written.
//! - Nothing recurses: nesting is a counter with a limit, so no input overflows the stack.

use std::borrow::Cow;

/// Deepest nesting of objects and arrays within a value.
const DEPTH_MAX: usize = 200;

/// Deepest nesting of a value that is stored as JSON.
const STORED_DEPTH_MAX: usize = 1_000;

const TOO_DEEP: &str = "at most 200 levels of nesting";
const STORED_TOO_DEEP: &str = "at most 1,000 levels of nesting";

/// What a value is, with its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value<'a> {
    /// `null`.
    Null,
    /// `true`, `false` or a number, as written.
    Plain(&'a [u8]),
    /// A string, without its quotes, escapes unresolved.
    String(&'a [u8]),
    /// An object or an array, as written.
    Nested(&'a [u8]),
}

/// What is wrong, and at which character (from 1) of the text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotJson {
    /// The number of the character, from 1.
    pub at: usize,
    /// What should stand there, for messages: `a comma or }`.
    pub expected: &'static str,
}

/// Walks through one object's members.
#[derive(Debug)]
pub struct Members<'a> {
    bytes: &'a [u8],
    at: usize,
    state: State,
    /// Whether halves of surrogate pairs must be whole.
    has_pairs: bool,
    /// The deepest nesting that is let through.
    depth_max: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Start,
    Inside,
    Ended,
}

impl<'a> Members<'a> {
    /// Over the object that `bytes` is to be.
    pub fn new(bytes: &'a [u8]) -> Members<'a> {
        Members { bytes, at: 0, state: State::Start, has_pairs: true, depth_max: DEPTH_MAX }
    }

    /// Over the object of a value that may be stored, which is let through as deep as what is stored.
    pub fn of_stored(bytes: &'a [u8]) -> Members<'a> {
        Members { depth_max: STORED_DEPTH_MAX, ..Members::new(bytes) }
    }

    /// The next member: its key, escapes unresolved, and its value. `None` after the last one, once nothing else follows.
    pub fn next_member(&mut self) -> Result<Option<(&'a [u8], Value<'a>)>, NotJson> {
        match self.state {
            State::Ended => return Ok(None),
            State::Start => {
                self.expect(b'{', "an object")?;
                if self.peek() == Some(b'}') {
                    return self.end();
                }
            }
            State::Inside => {
                if self.peek() == Some(b'}') {
                    return self.end();
                }
                self.expect(b',', "a comma or }")?;
            }
        }
        self.state = State::Inside;
        self.expect(b'"', "a key in quotes")?;
        let key = self.string()?;
        self.expect(b':', "a colon")?;
        Ok(Some((key, self.value()?)))
    }

    fn end(&mut self) -> Result<Option<(&'a [u8], Value<'a>)>, NotJson> {
        self.at += 1;
        self.state = State::Ended;
        if self.peek().is_some() { Err(self.wrong("the end of the line")) } else { Ok(None) }
    }

    /// Fails if something follows the value that has been taken.
    fn end_of_text(&mut self) -> Result<(), NotJson> {
        if self.peek().is_some() { Err(self.wrong("the end of the text")) } else { Ok(()) }
    }

    fn wrong(&self, expected: &'static str) -> NotJson {
        let before = &self.bytes[..self.at.min(self.bytes.len())];
        NotJson { at: String::from_utf8_lossy(before).chars().count() + 1, expected }
    }

    /// The next byte that is not white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.bytes.get(self.at) {
            self.at += 1;
        }
        self.bytes.get(self.at).copied()
    }

    fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), NotJson> {
        if self.peek() != Some(byte) {
            return Err(self.wrong(expected));
        }
        self.at += 1;
        Ok(())
    }

    /// The rest of a string whose quote has been taken.
    fn string(&mut self) -> Result<&'a [u8], NotJson> {
        let start = self.at;
        loop {
            match self.bytes.get(self.at) {
                None => return Err(self.wrong("a closing quote")),
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(0..=0x1f) => return Err(self.wrong("an escape for a control character")),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        Ok(&self.bytes[start..self.at - 1])
    }

    fn escape(&mut self) -> Result<(), NotJson> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => return self.code(),
            _ => return Err(self.wrong("a valid escape")),
        }
        Ok(())
    }

    /// A code point in four digits, and its other half where it is one of two.
    fn code(&mut self) -> Result<(), NotJson> {
        match hex4(self.bytes, self.at + 2) {
            Some(_) if !self.has_pairs => self.at += 6,
            Some(0xd800..=0xdbff) => {
                let has_other = self.bytes[self.at + 6..].starts_with(b"\\u");
                if !has_other || !matches!(hex4(self.bytes, self.at + 8), Some(0xdc00..=0xdfff)) {
                    return Err(self.wrong("both halves of a surrogate pair"));
                }
                self.at += 12;
            }
            Some(0xdc00..=0xdfff) => return Err(self.wrong("both halves of a surrogate pair")),
            Some(_) => self.at += 6,
            None => return Err(self.wrong("a valid escape")),
        }
        Ok(())
    }

    fn value(&mut self) -> Result<Value<'a>, NotJson> {
        match self.peek() {
            Some(b'"') => {
                self.at += 1;
                Ok(Value::String(self.string()?))
            }
            Some(b'{' | b'[') => self.nested(),
            Some(b'-' | b'0'..=b'9') => Ok(Value::Plain(self.number()?)),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Value<'a>, NotJson> {
        let rest = &self.bytes[self.at..];
        for (word, null) in [(b"true".as_slice(), false), (b"false", false), (b"null", true)] {
            if rest.starts_with(word) && !rest.get(word.len()).is_some_and(u8::is_ascii_alphanumeric) {
                self.at += word.len();
                return Ok(if null { Value::Null } else { Value::Plain(&rest[..word.len()]) });
            }
        }
        Err(self.wrong("a value"))
    }

    fn number(&mut self) -> Result<&'a [u8], NotJson> {
        let start = self.at;
        if self.bytes[self.at] == b'-' {
            self.at += 1;
        }
        let whole = self.digits()?;
        if whole > 1 && self.bytes[self.at - whole] == b'0' {
            self.at -= whole;
            return Err(self.wrong("a number without leading zeros"));
        }
        if self.bytes.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.bytes.get(self.at) {
            self.at += 1;
            if let Some(b'+' | b'-') = self.bytes.get(self.at) {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(&self.bytes[start..self.at])
    }

    fn digits(&mut self) -> Result<usize, NotJson> {
        let count = self.bytes[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return Err(self.wrong("a digit"));
        }
        self.at += count;
        Ok(count)
    }

    /// An object or array, with everything in it checked.
    fn nested(&mut self) -> Result<Value<'a>, NotJson> {
        let start = self.at;
        // For each open object or array, which it is.
        let mut open: Vec<u8> = Vec::new();
        loop {
            match self.peek() {
                Some(kind @ (b'{' | b'[')) => {
                    if open.len() == self.depth_max {
                        let is_stored = self.depth_max == STORED_DEPTH_MAX;
                        return Err(self.wrong(if is_stored { STORED_TOO_DEEP } else { TOO_DEEP }));
                    }
                    self.at += 1;
                    open.push(kind);
                    match (kind, self.peek()) {
                        (b'{', Some(b'}')) | (b'[', Some(b']')) => {}
                        (b'{', _) => {
                            self.key()?;
                            continue;
                        }
                        _ => continue,
                    }
                }
                Some(b'"') => {
                    self.at += 1;
                    self.string()?;
                }
                Some(b'-' | b'0'..=b'9') => {
                    self.number()?;
                }
                _ => {
                    self.word()?;
                }
            }
            // A value has ended: close what ends with it, or go on to the next one.
            while let Some(&kind) = open.last() {
                match (kind, self.peek()) {
                    (b'{', Some(b'}')) | (b'[', Some(b']')) => {
                        self.at += 1;
                        open.pop();
                    }
                    (_, Some(b',')) => {
                        self.at += 1;
                        if kind == b'{' {
                            self.key()?;
                        }
                        break;
                    }
                    _ => return Err(self.wrong(if kind == b'{' { "a comma or }" } else { "a comma or ]" })),
                }
            }
            if open.is_empty() {
                return Ok(Value::Nested(&self.bytes[start..self.at]));
            }
        }
    }

    fn key(&mut self) -> Result<(), NotJson> {
        self.expect(b'"', "a key in quotes")?;
        self.string()?;
        self.expect(b':', "a colon")
    }
}

fn hex4(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 4)?;
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
}

/// The elements of the array that `bytes` is to be, of a value that may be stored.
pub fn elements(bytes: &[u8]) -> Result<Vec<Value<'_>>, NotJson> {
    let mut scan = Members::of_stored(bytes);
    scan.expect(b'[', "an array")?;
    let mut elements = Vec::new();
    if scan.peek() != Some(b']') {
        loop {
            elements.push(scan.value()?);
            match scan.peek() {
                Some(b',') => scan.at += 1,
                Some(b']') => break,
                _ => return Err(scan.wrong("a comma or ]")),
            }
        }
    }
    scan.end()?;
    Ok(elements)
}

/// Why a text is no value of JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nesting {
    /// It breaks the grammar.
    Wrong,
    /// It is nested deeper than is let through.
    TooDeep,
}

/// Checks that a text is one value of JSON; with `has_pairs` surrogates must come in pairs.
pub(crate) fn scan_whole(bytes: &[u8], has_pairs: bool) -> Result<(), Nesting> {
    let mut scan = Members { has_pairs, ..Members::of_stored(bytes) };
    scan.value().and_then(|_| scan.end_of_text()).map_err(|wrong| match wrong.expected {
        STORED_TOO_DEEP => Nesting::TooDeep,
        _ => Nesting::Wrong,
    })
}

/// A scanned string with its escapes resolved.
pub fn resolve(string: &[u8]) -> Cow<'_, [u8]> {
    if !string.contains(&b'\\') {
        return Cow::Borrowed(string);
    }
    let mut out = Vec::with_capacity(string.len());
    let mut at = 0;
    while let Some(&byte) = string.get(at) {
        if byte != b'\\' {
            out.push(byte);
            at += 1;
            continue;
        }
        let escaped = string[at + 1];
        at += 2;
        match escaped {
            b'b' => out.push(8),
            b'f' => out.push(12),
            b'n' => out.push(b'\n'),
            b'r' => out.push(b'\r'),
            b't' => out.push(b'\t'),
            b'u' => {
                let first = hex4(string, at).unwrap_or(0xfffd);
                at += 4;
                let second = if string[at..].starts_with(b"\\u") { hex4(string, at + 2) } else { None };
                let code = match (first, second) {
                    (0xd800..=0xdbff, Some(low @ 0xdc00..=0xdfff)) => {
                        at += 6;
                        0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00)
                    }
                    _ => first,
                };
                let c = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
                out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
            }
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn members(text: &str) -> Result<Vec<(String, String)>, NotJson> {
        let mut scan = Members::new(text.as_bytes());
        let mut out = Vec::new();
        while let Some((key, value)) = scan.next_member()? {
            let value = match value {
                Value::Null => "null".into(),
                Value::Plain(bytes) | Value::Nested(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
                Value::String(bytes) => serde_json::to_string(std::str::from_utf8(&resolve(bytes)).unwrap()).unwrap(),
            };
            out.push((String::from_utf8(resolve(key).into_owned()).unwrap(), value));
        }
        Ok(out)
    }

    #[test]
    fn what_is_wrong_is_said_with_its_character() {
        for (text, at, expected) in [
            ("", 1, "an object"),
            ("[1]", 1, "an object"),
            ("{\"a\" 1}", 6, "a colon"),
            ("{\"ä\":1,}", 8, "a key in quotes"),
            ("{\"a\":01}", 6, "a number without leading zeros"),
            ("{\"a\":tru}", 6, "a value"),
            ("{\"a\":\"x}", 9, "a closing quote"),
            ("{\"a\":\"\\x\"}", 7, "a valid escape"),
            ("{\"a\":\"\\u12\"}", 7, "a valid escape"),
            ("{\"a\":\"\\ud83d\"}", 7, "both halves of a surrogate pair"),
            ("{\"a\":\"x\\ude00\"}", 8, "both halves of a surrogate pair"),
            ("{\"a\":\"\\ud83d\\ud83d\"}", 7, "both halves of a surrogate pair"),
            ("{\"\\ude00\":1}", 3, "both halves of a surrogate pair"),
            ("{\"a\":1} x", 9, "the end of the line"),
            ("{\"a\":[1 2]}", 9, "a comma or ]"),
            ("{\"a\":{\"b\":1]}", 12, "a comma or }"),
        ] {
            assert_eq!(members(text), Err(NotJson { at, expected }), "{text}");
        }
        let deep = format!("{{\"a\":{}", "[".repeat(1_000_000));
        assert!(members(&deep).is_err());
    }

    #[test]
    fn escapes_resolve() {
        assert_eq!(&*resolve(br#"a\n\"\u00e4\ud83d\ude00\/"#), "a\n\"ä😀/".as_bytes());
        assert_eq!(&*resolve(br"\ud83dx"), "\u{fffd}x".as_bytes());
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            Just(serde_json::Value::Null),
            any::<bool>().prop_map(Into::into),
            any::<i64>().prop_map(Into::into),
            any::<i32>().prop_map(|value| (f64::from(value) / 8.0).into()),
            any::<String>().prop_map(Into::into),
        ];
        leaf.prop_recursive(4, 20, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
                proptest::collection::hash_map(any::<String>(), inner, 0..4)
                    .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn values_agree_with_serde_json(map in proptest::collection::hash_map(any::<String>(), json(), 0..5), pretty in any::<bool>()) {
            let object = serde_json::Value::Object(map.into_iter().collect());
            let text = if pretty { serde_json::to_string_pretty(&object) } else { serde_json::to_string(&object) }.unwrap();
            let found = members(&text).unwrap();
            let back: serde_json::Map<String, serde_json::Value> =
                found.into_iter().map(|(key, value)| (key, serde_json::from_str(&value).unwrap())).collect();
            prop_assert_eq!(serde_json::Value::Object(back), object);
        }

        /// Taken exactly when serde_json takes it; never a panic.
        #[test]
        fn texts_are_accepted_as_serde_json_does(text in "[{}\\[\\]\",:\\\\a0-9.e+ -]{0,24}", wrap in any::<bool>()) {
            let text = if wrap { format!("{{\"a\":{text}}}") } else { text };
            let accepted = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text);
            // serde_json also refuses numbers beyond f64; the scanner leaves range to the column.
            let range = accepted.as_ref().is_err_and(|error| error.to_string().contains("out of range"));
            prop_assert!(range || members(&text).is_ok() == accepted.is_ok(), "{} {:?}", text, accepted);
        }
    }
}
