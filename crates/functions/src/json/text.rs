//! Texts that are to be JSON: checked, or written anew as JSONB.

use crate::casts::typed::bad_value;
use alluvia_values::json::{NotJson, elements};
use alluvia_values::json_value::{check_json, normalized};
use datafusion_common::Result;

/// Whether a text is one value of JSON; the error says what is wrong.
pub(crate) fn checked(text: &str) -> Result<()> {
    check_json(text.as_bytes()).map_err(|bad| bad_value(text, bad, "JSON"))
}

/// A text as JSONB.
pub(crate) fn normalised(text: &str) -> Result<String> {
    normalized(text.as_bytes()).map_err(|bad| bad_value(text, bad, "JSONB"))
}

/// Whether it is one value by itself, as an array of it alone would be.
pub(crate) fn only(json: &[u8]) -> std::result::Result<(), NotJson> {
    let mut alone = Vec::with_capacity(json.len() + 2);
    alone.push(b'[');
    alone.extend_from_slice(json);
    alone.push(b']');
    match elements(&alone) {
        Ok(values) if values.len() == 1 => Ok(()),
        Ok(_) => Err(NotJson { at: 1, expected: "a value" }),
        Err(NotJson { at, expected }) => Err(NotJson { at: at.saturating_sub(1).max(1), expected }),
    }
}
