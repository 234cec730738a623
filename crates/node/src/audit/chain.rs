//! How lines of the audit log are chained: each ends with a hash over the line before and itself.
//!
//! Invariants:
//! - The last field of a line is `chain`: the first 32 hexadecimal digits of SHA-256 over the chain of the line before, as text, and the
//!   line without that field and without its end.
//! - The first line of a file has the chain of the line before in the field before, `after`, which is empty in the first line of all: so a
//!   file is verified by itself, also where those before it were moved away.
//!
//! It finds what was changed, cut or lost. It keeps no secret: who can write the files, and makes all lines from a place on anew, is not
//! found out. Copies that are elsewhere are.

use alluvia_types::{Error, Result};
use ring::digest::{SHA256, digest};
use std::fmt::Write;

const CHAIN_FIELD: &[u8] = b",\"chain\":\"";
const AFTER_FIELD: &[u8] = b",\"after\":\"";
const FIELD_END: &[u8] = b"\"}";
/// Digits of a chain.
const DIGITS: usize = 32;

/// What chains a line to the one before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    /// The chain of the line before, if this one says it: it is the first of its file.
    pub(crate) after: Option<String>,
    /// Its own.
    pub(crate) chain: String,
    /// The line without its chain.
    body: Vec<u8>,
}

impl Link {
    /// That of a line without its newline; `None` if it has none, as lines of earlier builds.
    pub(crate) fn of(line: &[u8]) -> Option<Link> {
        let (rest, chain) = take_field(line, CHAIN_FIELD)?;
        if chain.len() != DIGITS {
            return None;
        }
        let body = [rest, b"}"].concat();
        let after = take_field(&body, AFTER_FIELD).map(|(_, after)| after);
        Some(Link { after, chain, body })
    }

    /// Whether its chain is what follows from that of the line before.
    pub(crate) fn follows(&self, before: &str) -> bool {
        chain_of(before, &self.body) == self.chain
    }
}

/// Cuts off the last field of an object, if it has this name and is of hexadecimal digits.
fn take_field<'a>(object: &'a [u8], field: &[u8]) -> Option<(&'a [u8], String)> {
    let object = object.strip_suffix(FIELD_END)?;
    let value_at = object.iter().rposition(|byte| *byte == b'"')? + 1;
    let (head, value) = object.split_at(value_at);
    // Quotes within texts stand behind a backslash: no text can look like a field.
    let rest = head.strip_suffix(field)?;
    let is_hex = value.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    is_hex.then(|| (rest, value.iter().map(|byte| char::from(*byte)).collect()))
}

fn chain_of(before: &str, body: &[u8]) -> String {
    let hash = digest(&SHA256, &[before.as_bytes(), body].concat());
    let mut chain = String::with_capacity(DIGITS);
    for byte in &hash.as_ref()[..DIGITS / 2] {
        // Writing to a String does not fail.
        let _ = write!(chain, "{byte:02x}");
    }
    chain
}

/// Whole lines, chained to the one with the chain `before`, and the chain of the last. `begins` is whether they begin a file.
pub(crate) fn chained(lines: &[u8], before: &str, mut begins: bool) -> Result<(Vec<u8>, String)> {
    let (mut text, mut chain) = (Vec::with_capacity(lines.len() + 64), before.to_owned());
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        let Some(fields) = line.strip_suffix(b"}\n").filter(|fields| fields.len() > 1) else {
            return Err(Error::internal("a line of the audit log is no object with fields"));
        };
        let mut body = fields.to_vec();
        if std::mem::take(&mut begins) {
            body.extend_from_slice(&[AFTER_FIELD, chain.as_bytes(), b"\""].concat());
        }
        body.push(b'}');
        chain = chain_of(&chain, &body);
        body.pop();
        text.extend_from_slice(&[&body, CHAIN_FIELD, chain.as_bytes(), FIELD_END, b"\n"].concat());
    }
    Ok((text, chain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_follows_from_the_line_before_and_from_no_other() {
        let (text, chain) = chained(b"{\"a\":1}\n{\"a\":2}\n", "", true).unwrap();
        let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
        let [first, second] = [lines[0], lines[1]].map(|line| Link::of(line).unwrap());
        assert_eq!((first.after.as_deref(), second.after.as_deref()), (Some(""), None));
        assert!(first.follows("") && second.follows(&first.chain) && second.chain == chain);
        assert!(!second.follows("") && !first.follows(&second.chain));
        assert!(String::from_utf8_lossy(lines[0]).starts_with("{\"a\":1,\"after\":\"\",\"chain\":\""));
        for at in 0..lines[1].len() {
            let mut changed = lines[1].to_vec();
            changed[at] ^= 1;
            assert!(Link::of(&changed).is_none_or(|link| !link.follows(&first.chain)), "byte {at}");
        }
        for other in ["no object\n", "{}\n", "{\"a\":1}"] {
            chained(other.as_bytes(), "", true).unwrap_err();
        }
    }

    /// Its chains are sha256sum's.
    #[test]
    fn the_golden_file_is_chained() {
        let mut before = String::new();
        for line in include_str!("../../tests/golden/audit-02.ndjson").lines() {
            let link = Link::of(line.as_bytes()).unwrap();
            assert!(link.follows(&before), "{line}");
            before = link.chain;
        }
    }

    #[test]
    fn no_text_of_a_line_is_taken_for_its_chain() {
        for line in [
            "{\"event\":\"ddl\"}",
            "{\"sql\":\",\\\"chain\\\":\\\"0123456789abcdef0123456789abcdef\"}",
            "{\"a\":1,\"chain\":\"0123\"}",
            "{\"a\":1,\"chain\":\"0123456789ABCDEF0123456789ABCDEF\"}",
            "\"}",
            "",
        ] {
            assert_eq!(Link::of(line.as_bytes()), None, "{line}");
        }
    }
}
