//! `regexp_replace`, as PostgreSQL has it.
//!
//! Invariants:
//! - In what is put in the place of a match `\1` to `\9` are what its groups matched, `\&` is all of it and `\\` a backslash; everything
//!   else is what it is. A group that takes no part, or is not there, is nothing.
//! - The first match is replaced, or with the option `g` all; where a number says which, that one alone, or of 0 all.
//!
//! DataFusion 55.2 reads what is put in as Rust's expressions do, to whom `$5` is a group, and has neither a start nor a number.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: regexp_replace, replacement, dollar sign,
//! backslash, group).
//! Held by `slt/replacements.slt` (`regexp_replace('cost', 'cost', '$5 cost')`).

use super::compiled::{Compiled, Patterns, next};
use super::refused;
use crate::columnar::by_arrays;
use crate::stopping::Worked;
use alluvia_types::Result;
use alluvia_values::errors::wrap;
use arrow::array::{Array, ArrayRef, AsArray, StringViewBuilder};
use arrow::datatypes::{DataType, Int64Type};
use datafusion_common::{Result as Planned, exec_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use regex::CaptureLocations;
use std::sync::Arc;

/// `regexp_replace(text, pattern, by [, options])`, `regexp_replace(text, pattern, by, start [, n [, options]])`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Replaced {
    signature: Signature,
}

impl Default for Replaced {
    fn default() -> Replaced {
        Replaced { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

/// What is put in the place of a match, in its order.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Text(String),
    Group(usize),
}

fn pieces_of(by: &str) -> Vec<Piece> {
    let (mut pieces, mut own) = (Vec::new(), String::new());
    let mut rest = by.chars().peekable();
    while let Some(c) = rest.next() {
        let escaped = if c == '\\' { rest.peek().copied() } else { None };
        let group = match escaped {
            Some('&') => 0,
            Some(digit @ '1'..='9') => digit as usize - '0' as usize,
            other => {
                own.push(c);
                if other == Some('\\') {
                    rest.next();
                }
                continue;
            }
        };
        rest.next();
        if !own.is_empty() {
            pieces.push(Piece::Text(std::mem::take(&mut own)));
        }
        pieces.push(Piece::Group(group));
    }
    if !own.is_empty() {
        pieces.push(Piece::Text(own));
    }
    pieces
}

/// An expression, what is put in its places, and what was found last.
struct Replacement {
    pattern: String,
    options: String,
    by: String,
    compiled: Arc<Compiled>,
    groups: CaptureLocations,
    pieces: Vec<Piece>,
    has_groups: bool,
    /// Where all of a text becomes what the one group matched: the expression without what is behind it, which need not be matched.
    beginning: Option<(Arc<Compiled>, CaptureLocations)>,
}

impl Replacement {
    fn new(patterns: &mut Patterns, pattern: &str, options: &str, by: &str) -> Result<Replacement> {
        let compiled = patterns.shared(pattern, options)?;
        let pieces = pieces_of(by);
        let is_whole = pieces == [Piece::Group(1)] && compiled.regex().captures_len() == 2;
        let beginning = match beginning(pattern, options).filter(|_| is_whole) {
            Some(beginning) => {
                let compiled = patterns.shared(beginning, options)?;
                let groups = compiled.regex().capture_locations();
                Some((compiled, groups))
            }
            None => None,
        };
        let groups = compiled.regex().capture_locations();
        let has_groups = pieces.iter().any(|piece| matches!(piece, Piece::Group(_)));
        let [pattern, options, by] = [pattern, options, by].map(str::to_owned);
        Ok(Replacement { pattern, options, by, compiled, groups, pieces, has_groups, beginning })
    }

    fn is_of(&self, pattern: &str, options: &str, by: &str) -> bool {
        self.pattern == pattern && self.options == options && self.by == by
    }

    /// A text with the match of this number replaced that there is from a place of it on, or of 0 with all of them. It is made in a text
    /// that is empty, if at all.
    fn replaced<'t>(&mut self, text: &'t str, from: usize, nth: i64, made: &'t mut String) -> &'t str {
        if from == 0
            && nth <= 1
            && let Some((beginning, groups)) = &mut self.beginning
        {
            return match beginning.regex().captures_read(groups, text) {
                Some(_) => groups.get(1).map_or("", |(start, end)| &text[start..end]),
                None => text,
            };
        }
        let regex = self.compiled.regex();
        let (mut at, mut copied, mut matches) = (Some(from), 0, 0);
        while let Some(start) = at {
            let found = match self.has_groups {
                true => regex.captures_read_at(&mut self.groups, text, start),
                false => regex.find_at(text, start),
            };
            let Some(found) = found else { break };
            matches += 1;
            at = next(text, found.start(), found.end());
            if nth > 0 && matches != nth {
                continue;
            }
            made.push_str(&text[copied..found.start()]);
            for piece in &self.pieces {
                match piece {
                    Piece::Text(own) => made.push_str(own),
                    Piece::Group(group) => {
                        let (start, end) = self.groups.get(*group).unwrap_or_default();
                        made.push_str(&text[start..end]);
                    }
                }
            }
            copied = found.end();
            if nth > 0 {
                break;
            }
        }
        if copied == 0 && made.is_empty() {
            return text;
        }
        made.push_str(&text[copied..]);
        made
    }
}

/// An expression of the form `^...(...)....*$` up to its `.*$`, which matches whatever is behind the rest: an end of a line is a character
/// like others. `None` of one that may mean something else.
fn beginning<'p>(pattern: &'p str, options: &str) -> Option<&'p str> {
    let beginning = pattern.strip_suffix(".*$")?;
    let is_plain = pattern.starts_with('^') && !beginning.ends_with('\\') && !beginning.contains('|');
    let has_no_flags = beginning.match_indices("(?").all(|(at, _)| beginning[at..].starts_with("(?:"));
    let keeps_lines = options.chars().all(|option| matches!(option, 'g' | 'i' | 'c' | 's' | 't' | 'e'));
    (is_plain && has_no_flags && keeps_lines).then_some(beginning)
}

impl Replaced {
    fn array(&self, args: &[ArrayRef]) -> Planned<ArrayRef> {
        let rows = args.first().map_or(0, |texts| texts.len());
        let mut all = StringViewBuilder::with_capacity(rows);
        let (mut patterns, mut made) = (Patterns::default(), String::new());
        let (mut last, mut worked): (Option<Replacement>, _) = (None, Worked::default());
        for row in 0..rows {
            if args.iter().any(|arg| arg.is_null(row)) {
                all.append_null();
                continue;
            }
            let text = |at: usize| args.get(at)?.as_string_view_opt().map(|texts| texts.value(row));
            let number = |at: usize| args.get(at)?.as_primitive_opt::<Int64Type>().map(|numbers| numbers.value(row));
            let (Some(of), Some(pattern), Some(by)) = (text(0), text(1), text(2)) else {
                all.append_null();
                continue;
            };
            worked.add(of.len())?;
            // Behind numbers or in the place of them.
            let options = text(3).or_else(|| text(5)).unwrap_or_default();
            let replacement = match last.take().filter(|last| last.is_of(pattern, options, by)) {
                Some(known) => last.insert(known),
                None => last.insert(Replacement::new(&mut patterns, pattern, options, by).map_err(wrap)?),
            };
            let start = number(3).unwrap_or(1);
            let nth = number(4).unwrap_or(i64::from(!replacement.compiled.is_global()));
            for (name, value, least) in [("start", start, 1), ("n", nth, 0)] {
                if value < least {
                    return Err(wrap(refused(format!("invalid value for parameter \"{name}\": {value}"))));
                }
            }
            let before = usize::try_from(start - 1).unwrap_or(usize::MAX);
            let from = match before {
                0 => Some(0),
                before => of.char_indices().map(|(at, _)| at).chain([of.len()]).nth(before),
            };
            made.clear();
            all.append_value(match from {
                Some(from) => replacement.replaced(of, from, nth, &mut made),
                None => of,
            });
        }
        Ok(Arc::new(all.finish()))
    }
}

impl ScalarUDFImpl for Replaced {
    fn name(&self) -> &str {
        "regexp_replace"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Planned<Vec<DataType>> {
        let is_text = |of: &DataType| match of {
            DataType::Dictionary(_, of) => of.is_string(),
            of => of.is_string() || of.is_null(),
        };
        let is_number = |of: &DataType| of.is_integer() || of.is_null();
        let has_numbers = types.len() > 4 || types.get(3).is_some_and(|of| of.is_integer());
        let takes_number = |at: usize| has_numbers && matches!(at, 3 | 4);
        let fits = |(at, of): (usize, &DataType)| if takes_number(at) { is_number(of) } else { is_text(of) };
        if !(3..=6).contains(&types.len()) || !types.iter().enumerate().all(fits) {
            return exec_err!(
                "regexp_replace takes a text, a pattern, what is put in its place, and options or the place to start at and the number of the match"
            );
        }
        let taken = |at: usize| if takes_number(at) { DataType::Int64 } else { DataType::Utf8View };
        Ok((0..types.len()).map(taken).collect())
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Planned<DataType> {
        Ok(DataType::Utf8View)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Planned<ColumnarValue> {
        by_arrays(&args.args, |arrays| self.array(&arrays))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn replaced(text: &str, pattern: &str, by: &str, options: &str, (from, nth): (usize, i64)) -> String {
        let mut made = String::new();
        let mut replacement = Replacement::new(&mut Patterns::default(), pattern, options, by).unwrap();
        replacement.replaced(text, from, nth, &mut made).to_owned()
    }

    /// Every expected value is PostgreSQL 15's.
    #[test]
    fn what_is_put_in_is_what_postgresql_puts_in() {
        for (text, pattern, by, nth, wanted) in [
            ("price 5", r"(\d)", r"$\1", 1, "price $5"),
            ("cost", "cost", "$5 cost", 1, "$5 cost"),
            ("abc", "b", r"[$0$$${1}\&\\\0\x\", 1, r"a[$0$$${1}b\\0\x\c"),
            ("abc", "(b)", r"\12\2", 1, "ab2c"),
            ("ab", "a*", "X", 0, "XXbX"),
            ("abcabc", "b|c", "-", 3, "abca-c"),
            ("abc", "^(a)|b.*$", r"\1", 1, "abc"),
            ("a\nb", "^(a).*$", r"<\1>", 1, "<a>"),
        ] {
            assert_eq!(replaced(text, pattern, by, "", (0, nth)), wanted, "{text} {pattern} {by}");
        }
        assert_eq!(replaced("aéa", "a", "x", "", (1, 1)), "aéx");
    }

    proptest! {
        #[test]
        fn what_is_left_of_a_whole_text_is_what_its_group_matched(
            text in "[ab/\n]{0,8}", group in "[ab/.*?+]{0,4}", global in any::<bool>(),
        ) {
            let pattern = format!("^a?({group}).*$");
            let options = if global { "g" } else { "" };
            if Compiled::new(&pattern, options).is_ok() {
                prop_assert!(beginning(&pattern, options).is_some());
                let found = replaced(&text, &pattern, r"\1", options, (0, i64::from(!global)));
                // Behind a text of nothing the way is the long one.
                prop_assert_eq!(found, replaced(&text, &format!("(?:){pattern}"), r"\1", options, (0, i64::from(!global))));
            }
        }
    }
}
