//! UUIDs as PostgreSQL reads and writes them.
//!
//! Invariant: digits in either case are read, with or without braces around them, and with a dash behind any group of four; what is written is the
//! standard form.

use crate::parse::Bad;
use std::fmt::{Result as Written, Write};

/// Bytes of a UUID.
pub const BYTES: usize = 16;

/// The bytes of a UUID that is written as PostgreSQL reads it.
pub fn parse_uuid(text: &[u8]) -> Result<[u8; BYTES], Bad> {
    let nibble = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8).ok_or(Bad::Form);
    let mut rest = match text {
        [b'{', inner @ .., b'}'] => inner,
        text => text,
    };
    let mut bytes = [0; BYTES];
    for (at, byte) in bytes.iter_mut().enumerate() {
        let [high, low, after @ ..] = rest else { return Err(Bad::Form) };
        *byte = nibble(*high)? << 4 | nibble(*low)?;
        rest = match after {
            [b'-', after @ ..] if at % 2 == 1 && at < BYTES - 1 => after,
            after => after,
        };
    }
    if rest.is_empty() { Ok(bytes) } else { Err(Bad::Form) }
}

/// `a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11`.
pub fn write_uuid(out: &mut impl Write, bytes: &[u8]) -> Written {
    for (at, byte) in bytes.iter().enumerate() {
        if let 4 | 6 | 8 | 10 = at {
            out.write_char('-')?;
        }
        write!(out, "{byte:02x}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(bytes: &[u8]) -> String {
        let mut out = String::new();
        write_uuid(&mut out, bytes).unwrap();
        out
    }

    /// What PostgreSQL 15 takes and refuses.
    #[test]
    fn all_spellings_are_read() {
        let standard = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for text in [
            standard,
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc99-9c0b4ef8-bb6d6bb9-bd380a11}",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        ] {
            assert_eq!(written(&parse_uuid(text.as_bytes()).unwrap()), standard, "{text}");
        }
        for text in [
            "",
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0eebc999c0b4ef8bb6d6bb9bd380a1",
            "a0eebc999c0b4ef8bb6d6bb9bd380a111",
            "a0-eebc999c0b4ef8bb6d6bb9bd380a11",
            "a0eebc999c0b4ef8bb6d6bb9bd380a11-",
            " a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
            "g0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11",
        ] {
            assert_eq!(parse_uuid(text.as_bytes()), Err(Bad::Form), "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(bytes in any::<[u8; BYTES]>(), any in proptest::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(parse_uuid(written(&bytes).as_bytes()), Ok(bytes));
            let _ = parse_uuid(&any);
        }
    }
}
