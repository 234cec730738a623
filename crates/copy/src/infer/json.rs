//! What table would hold NDJSON files: a column for each key, in the order they come.

use super::seen::Seen;
use super::{Inferred, folded, sample_of};
use crate::peeked::Sampled;
use crate::records::Cut;
use alluvia_syntax::copy::compatibility::ARRAY_HINT;
use alluvia_syntax::copy::options::{CopyOptions, Format};
use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::json::{Members, NotJson, Value, resolve as resolve_escapes};
use std::collections::HashMap;

pub(super) fn infer_json(files: &[Sampled<'_>], options: &CopyOptions) -> Result<Inferred> {
    let mut order: Vec<String> = Vec::new();
    let mut seen: HashMap<String, Seen> = HashMap::new();
    let mut wrong: Option<Error> = None;
    for file in files {
        let sample = sample_of(file, options, Cut::Lines)?;
        if sample.trim_ascii_start().starts_with(b"[") {
            let message = format!("{} holds a JSON array, which cannot be loaded", file.name());
            return Err(Error::new(ErrorKind::NotSupported, message).with_hint(ARRAY_HINT));
        }
        for line in sample.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
            let mut members = Members::new(line);
            loop {
                let (key, value) = match members.next_member() {
                    Ok(Some(member)) => member,
                    Ok(None) => break,
                    // Lines that are no objects are left to the load, which says where they are, unless there is nothing else.
                    Err(found) => {
                        let NotJson { expected, at } = found;
                        let message = format!("{}: not JSON: expected {expected} at character {at}", file.name());
                        wrong.get_or_insert_with(|| Error::new(ErrorKind::InvalidValue, message));
                        break;
                    }
                };
                let key = String::from_utf8_lossy(&resolve_escapes(key)).into_owned();
                let seen = seen.entry(key.clone()).or_insert_with(|| {
                    order.push(key);
                    Seen::default()
                });
                match value {
                    Value::Null => {}
                    Value::Plain(text) => seen.text(text),
                    Value::String(text) => seen.time_or_text(&resolve_escapes(text)),
                    Value::Nested(_) => seen.other(),
                }
            }
        }
    }
    if let (true, Some(wrong)) = (order.is_empty(), wrong) {
        return Err(wrong);
    }
    let found: Vec<Seen> = order.iter().map(|name| seen[name].clone()).collect();
    let columns = folded(order).into_iter().zip(found).map(|(name, seen)| seen.column(name)).collect();
    let options = CopyOptions { format: Some(Format::JsonLines), ..options.clone() };
    Ok(Inferred::new(columns, options))
}
