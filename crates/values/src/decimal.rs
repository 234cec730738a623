//! Decimals by the digits that a user wrote.

use std::fmt;

/// Digits of a decimal at most.
const DIGITS_MAX: usize = 38;

/// A decimal: so many of its digits stand behind the point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrittenDecimal {
    /// The unscaled value: the number times ten to the power of `scale`.
    pub digits: i128,
    /// Digits in all, without leading zeros before the point; at least 1.
    pub precision: u8,
    /// Digits behind the point.
    pub scale: u8,
}

impl fmt::Display for WrittenDecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, scale) = (if self.digits < 0 { "-" } else { "" }, usize::from(self.scale));
        let digits = format!("{:0>width$}", self.digits.unsigned_abs(), width = scale + 1);
        let (whole, part) = digits.split_at(digits.len() - scale);
        write!(f, "{sign}{whole}{}{part}", if scale > 0 { "." } else { "" })
    }
}

/// The decimal that a text without an exponent is, with as many digits as are written; `None` where that is none, or too long.
pub fn written_decimal(text: &str) -> Option<WrittenDecimal> {
    let (unsigned, sign) = match text.strip_prefix('-') {
        Some(unsigned) => (unsigned, -1),
        None => (text, 1),
    };
    let (whole, part) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let whole = whole.trim_start_matches('0');
    let digits = format!("{whole}{part}");
    let is_number =
        unsigned.bytes().any(|byte| byte.is_ascii_digit()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number || digits.len() > DIGITS_MAX {
        return None;
    }
    let value = if digits.is_empty() { 0 } else { digits.parse::<i128>().ok()? };
    let (precision, scale) = (digits.len().max(1) as u8, part.len() as u8);
    Some(WrittenDecimal { digits: sign * value, precision, scale })
}
