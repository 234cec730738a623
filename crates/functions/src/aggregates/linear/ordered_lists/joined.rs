//! Texts of groups, joined.

use crate::stopping::Worked;
use arrow::array::{ArrayAccessor, ArrayRef, AsArray, LargeStringBuilder};
use arrow::datatypes::DataType;
use datafusion_common::{Result, exec_err, internal_err};
use std::fmt::Write;
use std::sync::Arc;

/// The texts of each group, which goes from where it begins to where the next does; NULL is left out, and of no text there is NULL.
pub fn joined(texts: &ArrayRef, starts: &[usize], between: &str) -> Result<ArrayRef> {
    match texts.data_type() {
        DataType::Utf8 => join(texts.as_string::<i32>(), starts, between),
        DataType::LargeUtf8 => join(texts.as_string::<i64>(), starts, between),
        DataType::Utf8View => join(texts.as_string_view(), starts, between),
        other => internal_err!("{other} is no text"),
    }
}

fn join<'a>(texts: impl ArrayAccessor<Item = &'a str>, starts: &[usize], between: &str) -> Result<ArrayRef> {
    let length = |row| if texts.is_valid(row) { texts.value(row).len() + between.len() } else { 0 };
    let mut out = LargeStringBuilder::with_capacity(starts.len(), (0..texts.len()).map(length).sum());
    let mut worked = Worked::default();
    for group in starts.windows(2) {
        let mut is_empty = true;
        for row in (group[0]..group[1]).filter(|&row| texts.is_valid(row)) {
            let (text, before) = (texts.value(row), if is_empty { "" } else { between });
            worked.add(before.len() + text.len())?;
            if out.write_str(before).and_then(|()| out.write_str(text)).is_err() {
                return exec_err!("a text could not be written");
            }
            is_empty = false;
        }
        if is_empty {
            out.append_null();
        } else {
            // Ends what was written.
            out.append_value("");
        }
    }
    Ok(Arc::new(out.finish()))
}
