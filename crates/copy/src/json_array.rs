//! A JSON array of objects, as one object a line: what the NDJSON reader reads.
//!
//! Invariants:
//! - Nothing of an element is changed but the white space around its parts; whether it is an object, and a right one, is the reader's
//!   to say, with the number of the element as its line.
//! - What is no array is an error: an element that is missing, an end that is missing, anything after the end.

use alluvia_types::{Error, ErrorKind};
use std::io::{self, Read};

/// Puts each element of an array on a line of its own.
pub struct Elements<R> {
    inner: R,
    place: ArrayPosition,
    /// Brackets that are open within the element.
    depth: u32,
    in_string: bool,
    escaped: bool,
    /// Elements that were begun.
    count: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ArrayPosition {
    BeforeArray,
    /// Before an element; the array may end only if it has none.
    BeforeElement,
    Element,
    AfterArray,
}

impl<R: Read> Elements<R> {
    pub fn new(inner: R) -> Elements<R> {
        Elements { inner, place: ArrayPosition::BeforeArray, depth: 0, in_string: false, escaped: false, count: 0 }
    }

    fn wrong(&self, what: &str) -> io::Error {
        let message = format!("the body is no JSON array: {what} after {} elements", self.count);
        let hint = "it is [{...}, {...}]; one object a line is application/x-ndjson";
        io::Error::other(Error::new(ErrorKind::InvalidValue, message).with_hint(hint))
    }

    /// What stands in a byte's place.
    fn step(&mut self, byte: u8) -> io::Result<u8> {
        let is_space = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        match (self.place, byte) {
            (ArrayPosition::BeforeArray, b'[') => self.place = ArrayPosition::BeforeElement,
            (ArrayPosition::BeforeElement, b']') if self.count == 0 => self.place = ArrayPosition::AfterArray,
            (ArrayPosition::BeforeArray | ArrayPosition::BeforeElement | ArrayPosition::AfterArray, _) if is_space => {}
            (ArrayPosition::BeforeArray | ArrayPosition::AfterArray, _) => {
                return Err(self.wrong("something else comes"));
            }
            (ArrayPosition::BeforeElement, b',' | b']') => return Err(self.wrong("an element is missing")),
            (ArrayPosition::BeforeElement, _) => {
                self.place = ArrayPosition::Element;
                self.count += 1;
                return self.within(byte);
            }
            (ArrayPosition::Element, _) => return self.within(byte),
        }
        Ok(b' ')
    }

    fn within(&mut self, byte: u8) -> io::Result<u8> {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            // A line end in a string is no JSON: left as it is, it makes the row a bad one.
            return Ok(byte);
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b']' if self.depth == 0 => {
                self.place = ArrayPosition::AfterArray;
                return Ok(b'\n');
            }
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b',' if self.depth == 0 => {
                self.place = ArrayPosition::BeforeElement;
                return Ok(b'\n');
            }
            b'\n' | b'\r' => return Ok(b' '),
            _ => {}
        }
        Ok(byte)
    }
}

impl<R: Read> Read for Elements<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        if count == 0 && !buffer.is_empty() && self.place != ArrayPosition::AfterArray {
            return Err(self.wrong("it ends"));
        }
        for byte in &mut buffer[..count] {
            *byte = self.step(*byte)?;
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn lines(text: &str) -> io::Result<Vec<String>> {
        let mut out = String::new();
        Elements::new(text.as_bytes()).read_to_string(&mut out)?;
        Ok(out.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect())
    }

    #[test]
    fn elements_become_lines() {
        assert_eq!(lines(" [ {\"a\": \"],\\\"[{\",\n \"b\": [1, {}]} ,{}\n]\n").unwrap().len(), 2);
        assert_eq!(lines("[]").unwrap().len(), 0);
        for wrong in ["", "{}", "[", "[{}", "[{},]", "[,{}]", "[{},,{}]", "[]x", "[][]", "[{}] {}"] {
            assert!(lines(wrong).is_err(), "{wrong}");
        }
    }

    fn value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i32>().prop_map(|n| json!(n)),
            "[\\PC\"\\\\\\[\\]{},]{0,8}".prop_map(|s| json!(s)),
            Just(Value::Null)
        ];
        leaf.prop_recursive(3, 20, 4, |inner| {
            let pairs = prop::collection::vec(("[a-z\",]{0,3}", inner.clone()), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::Array),
                pairs.prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
            ]
        })
    }

    proptest! {
        /// The model is a parser of whole JSON.
        #[test]
        fn lines_are_the_elements(elements in prop::collection::vec(value(), 0..6), pretty in any::<bool>()) {
            let array = Value::Array(elements.clone());
            let text = if pretty { serde_json::to_string_pretty(&array) } else { serde_json::to_string(&array) }.unwrap();
            let read: Vec<Value> = lines(&text).unwrap().iter().map(|line| serde_json::from_str(line).unwrap()).collect();
            prop_assert_eq!(read, elements);
        }
    }
}
