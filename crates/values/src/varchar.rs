//! The length of a `VARCHAR(n)`, where values are assigned to its column.
//!
//! Invariants, as in PostgreSQL:
//! - A length counts characters (code points), not bytes.
//! - Of a text that is longer only spaces are cut, down to the length; any other character too many makes the row bad. (An explicit
//!   cast to `VARCHAR(n)` cuts whatever is too much: that is `alluvia_syntax`'s.)
//! - NULL has no length.
//!
//! A text of no more bytes than the length has no more characters, so characters are counted only in texts of more. Whatever rows come
//! as, they pass one of two places: [`fitted`], by which [`crate::builders::ColumnBuilder`] takes text a value at a time, or [`fit`], by
//! which `alluvia_copy::Assigner` takes arrays.

use crate::parse::Bad;
use alluvia_types::{Error, Result};
use arrow::array::{Array, ArrayRef, AsArray, StringArray, StringDictionaryBuilder, StringViewBuilder};
use arrow::datatypes::{DataType, Int32Type};
use std::sync::Arc;

/// What a column of at most `chars_max` characters stores of a text.
#[inline]
pub fn fitted(text: &str, chars_max: Option<u32>) -> Result<&str, Bad> {
    match chars_max {
        Some(chars_max) if text.len() > chars_max as usize => cut_spaces(text, chars_max),
        _ => Ok(text),
    }
}

fn cut_spaces(text: &str, chars_max: u32) -> Result<&str, Bad> {
    let Some((end, _)) = text.char_indices().nth(chars_max as usize) else { return Ok(text) };
    let (kept, excess) = text.split_at(end);
    if excess.bytes().all(|byte| byte == b' ') { Ok(kept) } else { Err(Bad::Length) }
}

/// A column of text, plain or as a dictionary, as a column of at most `chars_max` characters stores it; `bad` gets the rows whose value
/// is too long, and NULL stands there.
pub fn fit(array: &ArrayRef, chars_max: u32, bad: &mut Vec<(usize, Bad)>) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Utf8View => {
            let texts = array.as_string_view();
            if texts.lengths().all(|bytes| bytes <= chars_max) {
                return Ok(Arc::clone(array));
            }
            let mut builder = StringViewBuilder::with_capacity(texts.len());
            each(texts.iter(), chars_max, bad, |text| builder.append_option(text));
            Ok(Arc::new(builder.finish()))
        }
        DataType::Dictionary(..) => {
            let dictionary = array.as_dictionary_opt::<Int32Type>();
            let Some(texts) = dictionary.and_then(|texts| texts.downcast_dict::<StringArray>()) else {
                return Err(no_text(array));
            };
            if texts.values().offsets().lengths().all(|bytes| bytes <= chars_max as usize) {
                return Ok(Arc::clone(array));
            }
            let mut builder = StringDictionaryBuilder::<Int32Type>::new();
            each(texts.into_iter(), chars_max, bad, |text| builder.append_option(text));
            Ok(Arc::new(builder.finish()))
        }
        _ => Err(no_text(array)),
    }
}

/// Gives every value as it is stored to `append`, in order.
fn each<'a>(
    texts: impl Iterator<Item = Option<&'a str>>,
    chars_max: u32,
    bad: &mut Vec<(usize, Bad)>,
    mut append: impl FnMut(Option<&'a str>),
) {
    for (row, text) in texts.enumerate() {
        match text.map(|text| fitted(text, Some(chars_max))).transpose() {
            Ok(text) => append(text),
            Err(why) => {
                bad.push((row, why));
                append(None);
            }
        }
    }
}

fn no_text(array: &ArrayRef) -> Error {
    Error::internal(format!("a column with a length was assigned values of type {}", array.data_type()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builders::{ColumnBuilder, TextAs};
    use alluvia_space::{ColumnType, DataType as Stored};
    use arrow::array::{DictionaryArray, StringViewArray};

    use proptest::prelude::*;

    /// What is stored, taking away one character after the other; `None` for what is too long.
    fn model(text: &str, chars_max: u32) -> Option<String> {
        let mut chars: Vec<char> = text.chars().collect();
        while chars.len() > chars_max as usize {
            if chars.pop() != Some(' ') {
                return None;
            }
        }
        Some(chars.into_iter().collect())
    }

    #[test]
    fn characters_count_and_only_spaces_are_cut() {
        for (text, chars_max, expected) in [
            ("abc", 3, Ok("abc")),
            ("abcd", 3, Err(Bad::Length)),
            ("äöü", 3, Ok("äöü")),
            ("äöüß", 3, Err(Bad::Length)),
            ("😀😀", 2, Ok("😀😀")),
            ("abc  ", 3, Ok("abc")),
            ("ab   ", 3, Ok("ab ")),
            ("     ", 3, Ok("   ")),
            ("abc\t", 3, Err(Bad::Length)),
            ("abc \u{a0}", 3, Err(Bad::Length)),
            ("abc d", 3, Err(Bad::Length)),
            ("", 1, Ok("")),
        ] {
            assert_eq!(fitted(text, Some(chars_max)), expected, "{text:?} in {chars_max}");
            assert_eq!(fitted(text, None), Ok(text));
        }
    }

    #[test]
    fn what_is_short_stays_the_same_array_and_what_is_no_text_is_a_defect() {
        let short: ArrayRef = Arc::new(StringViewArray::from(vec![Some("a"), None, Some("ab")]));
        assert!(Arc::ptr_eq(&fit(&short, 2, &mut Vec::new()).unwrap(), &short));
        let short: ArrayRef = Arc::new(["a", "ab"].into_iter().collect::<DictionaryArray<Int32Type>>());
        assert!(Arc::ptr_eq(&fit(&short, 2, &mut Vec::new()).unwrap(), &short));
        let number: ArrayRef = Arc::new(arrow::array::Int32Array::from(vec![1]));
        assert!(fit(&number, 2, &mut Vec::new()).is_err());
    }

    #[test]
    fn values_that_no_row_has_are_nobodys_fault() {
        let texts: DictionaryArray<Int32Type> = ["far too long", "b", "c"].into_iter().collect();
        let (texts, mut bad) = (Arc::new(texts.slice(1, 2)) as ArrayRef, Vec::new());
        let fitted = fit(&texts, 3, &mut bad).unwrap();
        assert_eq!((bad.len(), fitted.len(), fitted.null_count()), (0, 2, 0));
    }

    proptest! {
        #[test]
        fn every_way_in_keeps_to_the_model(
            texts in proptest::collection::vec(proptest::option::of("[aé漢😀 ]{0,6} {0,3}"), 0..20),
            chars_max in 1u32..7,
        ) {
            let want: Vec<Option<Option<String>>> =
                texts.iter().map(|text| text.as_ref().map(|text| model(text, chars_max))).collect();
            let want_bad: Vec<usize> = (0..want.len()).filter(|row| want[*row] == Some(None)).collect();
            let want: Vec<Option<String>> = want.into_iter().map(Option::flatten).collect();

            let plain: ArrayRef = Arc::new(texts.iter().map(Option::as_deref).collect::<StringViewArray>());
            let dictionary: DictionaryArray<Int32Type> = texts.iter().map(Option::as_deref).collect();
            for array in [plain.clone(), Arc::new(dictionary) as ArrayRef] {
                let mut bad = Vec::new();
                let stored = fit(&array, chars_max, &mut bad).unwrap();
                prop_assert_eq!(stored.data_type(), array.data_type());
                let stored = arrow::compute::cast(&stored, &DataType::Utf8View).unwrap();
                let stored: Vec<Option<String>> = stored.as_string_view().iter().map(|text| text.map(str::to_owned)).collect();
                prop_assert_eq!(&stored, &want);
                prop_assert_eq!(bad.iter().map(|(row, _)| *row).collect::<Vec<_>>(), want_bad.clone());
                prop_assert!(bad.iter().all(|(_, why)| *why == Bad::Length));
            }

            let declared = ColumnType { data_type: Stored::Text, chars_max: Some(chars_max) };
            for text in [TextAs::Plain, TextAs::Dictionary] {
                let mut builder = ColumnBuilder::new(declared, text, texts.len());
                let mut bad = Vec::new();
                for (row, text) in texts.iter().enumerate() {
                    let appended = text.as_ref().map(|text| builder.append(text.as_bytes()));
                    if appended != Some(Ok(())) {
                        bad.extend(appended.map(|_| row));
                        builder.append_null();
                    }
                }
                let built = arrow::compute::cast(&builder.finish(), &DataType::Utf8View).unwrap();
                let built: Vec<Option<String>> = built.as_string_view().iter().map(|text| text.map(str::to_owned)).collect();
                prop_assert_eq!(&built, &want);
                prop_assert_eq!(&bad, &want_bad);
            }
        }
    }
}
