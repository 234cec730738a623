//! `encode` and `decode`: bytes as texts of hexadecimal digits, of base64, or with backslashes, and back.
//!
//! Invariants:
//! - `encode` writes what PostgreSQL does: base64 is padded, and has a line feed behind 76 characters; `escape` has octal numbers for zero
//!   and for what is above 127.
//! - `decode` of what `encode` wrote is what was encoded. White space between digits is passed over, and base64 may lack its padding.
//!
//! DataFusion 55.2 writes base64 without padding and in one line, and has no `escape`. Its `base64pad` is understood.

use super::arguments::{Bytes, Texts};
use super::forms::{all_bytes, bytes_or_text};
use crate::columnar::{as_columnar, is_constant, rows_made};
use alluvia_types::{Error, ErrorKind};
use alluvia_values::errors::wrap;
use arrow::array::{ArrayRef, StringViewBuilder};
use arrow::datatypes::DataType;
use datafusion_common::Result;
use datafusion_common::types::logical_string;
use datafusion_common::utils::take_function_args;
use datafusion_expr::{
    Coercion, ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignatureClass, Volatility,
};
use std::borrow::Cow;
use std::sync::Arc;

const DIGITS: &[u8; 16] = b"0123456789abcdef";
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Characters of a line of base64.
const LINE: usize = 76;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Code {
    Hex,
    Base64 { in_lines: bool },
    Escape,
}

impl Code {
    fn of(name: &str) -> Result<Code> {
        match name.to_ascii_lowercase().as_str() {
            "hex" => Ok(Code::Hex),
            "base64" => Ok(Code::Base64 { in_lines: true }),
            "base64pad" => Ok(Code::Base64 { in_lines: false }),
            "escape" => Ok(Code::Escape),
            _ => Err(wrap(
                Error::new(ErrorKind::InvalidValue, format!("there is no encoding '{name}'"))
                    .with_hint("encodings are hex, base64, escape"),
            )),
        }
    }

    fn encoded(self, bytes: &[u8]) -> String {
        match self {
            Code::Hex => bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect(),
            Code::Base64 { in_lines } => base64(bytes, in_lines),
            Code::Escape => escaped(bytes),
        }
    }

    fn decoded(self, text: &[u8]) -> Option<Vec<u8>> {
        match self {
            Code::Hex => of_hex(text),
            Code::Base64 { .. } => of_base64(text),
            Code::Escape => of_escaped(text),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Code::Hex => "hex",
            Code::Base64 { .. } => "base64",
            Code::Escape => "escape",
        }
    }
}

fn digit(value: u8) -> char {
    char::from(DIGITS[usize::from(value & 15)])
}

fn base64(bytes: &[u8], in_lines: bool) -> String {
    let mut text = String::with_capacity(bytes.len() / 3 * 4 + bytes.len() / 57 + 4);
    let mut of_line = 0;
    for group in bytes.chunks(3) {
        let at = |place: usize| u32::from(group.get(place).copied().unwrap_or(0));
        let bits = (at(0) << 16) | (at(1) << 8) | at(2);
        for place in 0..4 {
            let value = (bits >> (18 - 6 * place)) & 63;
            text.push(if place <= group.len() { char::from(BASE64[value as usize]) } else { '=' });
        }
        of_line += 4;
        // Not behind the last characters of a text that are padded, as PostgreSQL has it.
        if in_lines && of_line == LINE && group.len() == 3 {
            text.push('\n');
            of_line = 0;
        }
    }
    text
}

fn escaped(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            1..=127 => text.push(char::from(*byte)),
            _ => {
                text.push('\\');
                text.extend([byte >> 6, (byte >> 3) & 7, byte & 7].map(digit));
            }
        }
    }
    text
}

/// What is not white space.
fn meaning(text: &[u8]) -> impl Iterator<Item = u8> {
    text.iter().copied().filter(|byte| !matches!(byte, b' ' | b'\n' | b'\t' | b'\r'))
}

fn of_hex(text: &[u8]) -> Option<Vec<u8>> {
    let value = |digit: u8| char::from(digit).to_digit(16);
    let mut bytes = Vec::with_capacity(text.len() / 2);
    let mut digits = meaning(text);
    while let Some(first) = digits.next() {
        bytes.push(((value(first)? << 4) | value(digits.next()?)?) as u8);
    }
    Some(bytes)
}

fn of_base64(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut count, mut padding) = (0_u32, 0_usize, 0_usize);
    for character in meaning(text) {
        let value = match character {
            b'A'..=b'Z' => character - b'A',
            b'a'..=b'z' => character - b'a' + 26,
            b'0'..=b'9' => character - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' => {
                padding += 1;
                continue;
            }
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        bits = (bits << 6) | u32::from(value);
        count += 1;
        if count.is_multiple_of(4) {
            bytes.extend([(bits >> 16) as u8, (bits >> 8) as u8, bits as u8]);
            bits = 0;
        }
    }
    match count % 4 {
        0 => {}
        2 => bytes.push((bits >> 4) as u8),
        3 => bytes.extend([(bits >> 10) as u8, (bits >> 2) as u8]),
        _ => return None,
    }
    (padding == 0 || padding < 3 && (count + padding).is_multiple_of(4)).then_some(bytes)
}

fn of_escaped(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        match behind {
            [b'\\', ..] => {
                bytes.push(b'\\');
                rest = &behind[1..];
            }
            [high @ b'0'..=b'3', middle @ b'0'..=b'7', low @ b'0'..=b'7', ..] => {
                bytes.push(((high - b'0') << 6) | ((middle - b'0') << 3) | (low - b'0'));
                rest = &behind[3..];
            }
            _ => return None,
        }
    }
    Some(bytes)
}

/// `encode` or `decode`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Coded {
    name: &'static str,
    /// Whether it makes texts of bytes.
    encodes: bool,
    signature: Signature,
}

impl Coded {
    /// `encode`, or else `decode`.
    pub(crate) fn new(encodes: bool) -> Coded {
        let text = Coercion::new_exact(TypeSignatureClass::Native(logical_string()));
        let signature = Signature::coercible(vec![bytes_or_text(), text], Volatility::Immutable);
        Coded { name: if encodes { "encode" } else { "decode" }, encodes, signature }
    }
}

fn encoded(of: &Bytes, codes: &Texts, rows: usize) -> Result<ArrayRef> {
    let mut builder = StringViewBuilder::with_capacity(rows);
    for row in 0..rows {
        let both = of.at(row).zip(codes.at(row));
        builder.append_option(both.map(|(bytes, code)| Code::of(code).map(|code| code.encoded(bytes))).transpose()?);
    }
    Ok(Arc::new(builder.finish()))
}

fn decoded(of: &Bytes, codes: &Texts, rows: usize) -> Result<ArrayRef> {
    all_bytes(rows, |row| {
        let Some((text, code)) = of.at(row).zip(codes.at(row)) else { return Ok(None) };
        let code = Code::of(code)?;
        code.decoded(text).map(|bytes| Some(Cow::Owned(bytes))).ok_or_else(|| {
            let message = format!("a text is no {}, which decode was to read", code.name());
            wrap(Error::new(ErrorKind::InvalidText, message))
        })
    })
}

impl ScalarUDFImpl for Coded {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        Ok(if self.encodes { DataType::Utf8View } else { DataType::BinaryView })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = rows_made(&args.args, args.number_rows);
        let [of, codes] = take_function_args(self.name, &args.args)?;
        let (of, codes) = (Bytes::of(of)?, Texts::of(codes)?);
        let made = if self.encodes { encoded(&of, &codes, rows) } else { decoded(&of, &codes, rows) };
        as_columnar(made?, is_constant(&args.args))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [&str; 4] = ["hex", "base64", "base64pad", "escape"];

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for code in ALL {
                let code = Code::of(code).unwrap();
                let text = code.encoded(&bytes);
                prop_assert_eq!(code.decoded(text.as_bytes()), Some(bytes.clone()), "{:?}", code);
                if let Code::Base64 { .. } = code {
                    let bare = text.trim_end_matches(['=', '\n']);
                    prop_assert_eq!(of_base64(bare.as_bytes()), Some(bytes.clone()));
                    prop_assert!(text.lines().all(|line| line.len().is_multiple_of(4)));
                }
            }
        }
    }

    /// As PostgreSQL 15 has them.
    #[test]
    fn codes_are_written_as_postgresql_does() {
        for (code, bytes, text) in [
            ("hex", &b"\xea_"[..], "ea5f"),
            ("base64", &b"\xea_"[..], "6l8="),
            ("base64", &b"a"[..], "YQ=="),
            ("base64", &b"abc"[..], "YWJj"),
            ("BASE64", &b""[..], ""),
            ("escape", &b"a\\\x00\x7f\x80\xff"[..], "a\\\\\\000\x7f\\200\\377"),
        ] {
            assert_eq!(Code::of(code).unwrap().encoded(bytes), text);
        }
        let lines = |count: usize| base64(&vec![0; count], true).split('\n').map(str::len).collect::<Vec<usize>>();
        assert_eq!((lines(56), lines(57), lines(58)), (vec![76], vec![76, 0], vec![76, 4]));
    }

    #[test]
    fn what_is_in_no_code_is_told() {
        for (code, text) in [
            ("hex", "abc"),
            ("hex", "xy"),
            ("base64", "a"),
            ("base64", "6l8==="),
            ("base64", "6l=8"),
            ("base64", "6l8*"),
            ("escape", "a\\"),
            ("escape", "\\400"),
        ] {
            assert_eq!(Code::of(code).unwrap().decoded(text.as_bytes()), None, "{code} {text}");
        }
        assert_eq!(of_hex(b" ea 5F\n"), Some(b"\xea_".to_vec()));
        assert!(Code::of("rot13").is_err());
    }
}
