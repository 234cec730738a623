//! Functions that operators and forms of the grammar become, and functions that no statement here gives a value.

use super::entry::{Entry, Output};
use crate::arrays::quantified::Quantified;
use crate::internal::text_beside::TextBeside;
use crate::output_size::estimate::OutputSize;
use crate::regex::{Function, RegularExpression};
use alluvia_values::calls::{ALL_MATCHES, QUANTIFIED_CALL, SUBSTRING, TEXT_BESIDE};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::scalar(QUANTIFIED_CALL, Output::Small, || Quantified::default().into())
        .overloads(&["any_or_all(text, any, anyarray) -> boolean"])
        .doc("Whether a comparison of a value with the elements of a list is true, as `x = ANY (list)` becomes.")
        .example("", ""),
    Entry::scalar(TEXT_BESIDE, Output::NoMoreThanGiven, || TextBeside::default().into())
        .overloads(&["text_beside(any, any) -> any"])
        .doc("A literal that has the type of the expression beside it.")
        .example("", ""),
    Entry::scalar(SUBSTRING, Output::NoMoreThanGiven, || RegularExpression::new(Function::Substring).into())
        .overloads(&["regexp_substring(text, text) -> text"])
        .doc(
            "The text that the first group of a pattern matches, or else the whole pattern, as `substring(x \
             FROM p)` becomes.",
        )
        .example("regexp_substring('a1b2', '[a-z]([0-9])')", "1"),
    Entry::scalar(ALL_MATCHES, Output::Counted(OutputSize::AllCaptures), || {
        RegularExpression::new(Function::AllMatches).into()
    })
    .overloads(&["regexp_all_matches(text, text) -> text[]", "regexp_all_matches(text, text, text) -> text[]"])
    .doc("The texts that the groups of a pattern match, a list for each match, as `regexp_matches` becomes.")
    .example("regexp_all_matches('a1b2', '[0-9]', 'g')", "{{1},{2}}"),
    Entry::datafusion("union_extract", Output::NoMoreThanGiven)
        .overloads(&["union_extract(any, text) -> any"])
        .doc("The value of a field of one of Arrow's unions, or NULL where another field is there.")
        .example("", ""),
    Entry::datafusion("union_tag", Output::Small)
        .overloads(&["union_tag(any) -> text"])
        .doc("The name of the field that one of Arrow's unions has.")
        .example("", ""),
    Entry::datafusion("input_file_name", Output::Small)
        .doc("The name of the file that a row comes from, where a scan of files knows it.")
        .example("", ""),
    Entry::datafusion("file_row_index", Output::Small)
        .doc("The place of a row in the file that it comes from, where a scan of files knows it.")
        .example("", ""),
];
