//! Functions of regular expressions, and of the start of a text.

use super::entry::{Entry, Output};
use crate::in_slices::InSlices;
use crate::output_size::estimate::OutputSize;
use crate::regex::{Function, RegularExpression, Replaced};

pub(super) const ENTRIES: &[Entry] = &[
    Entry::datafusion("starts_with", Output::Small)
        .postgresql(&["starts_with"])
        .doc("Whether a text begins with another.")
        .example("starts_with('alluvia', 'all')", "true"),
    Entry::datafusion("regexp_like", Output::Small)
        .postgresql(&["regexp_like"])
        .doc("Whether a pattern matches anywhere in a text.")
        .example("regexp_like('Alluvia', 'L+U', 'i')", "true"),
    Entry::wrapping("regexp_count", Output::Small, InSlices::of)
        .postgresql(&["regexp_count"])
        .doc("The number of matches of a pattern in a text.")
        .example("regexp_count('banana', 'an')", "2"),
    Entry::wrapping("regexp_instr", Output::Small, InSlices::of)
        .postgresql(&["regexp_instr"])
        .doc("The position of a match of a pattern in a text, counted from 1, or 0 if there is none.")
        .example("regexp_instr('alluvia', 'u.')", "4"),
    Entry::scalar("regexp_substr", Output::NoMoreThanGiven, || RegularExpression::new(Function::Substr).into())
        .postgresql(&["regexp_substr"])
        .overloads(&[
            "regexp_substr(text, text) -> text",
            "regexp_substr(text, text, bigint) -> text",
            "regexp_substr(text, text, bigint, bigint) -> text",
            "regexp_substr(text, text, bigint, bigint, text) -> text",
            "regexp_substr(text, text, bigint, bigint, text, bigint) -> text",
        ])
        .doc(
            "The match of a pattern in a text, or one of its groups, by a place to start at and the number of \
             the match.",
        )
        .example("regexp_substr('a1b22', '[0-9]+', 1, 2)", "22"),
    Entry::scalar("regexp_match", Output::Counted(OutputSize::Captures), || {
        RegularExpression::new(Function::Match).into()
    })
    .postgresql(&["regexp_match"])
    .overloads(&["regexp_match(text, text) -> text[]", "regexp_match(text, text, text) -> text[]"])
    .doc(
        "The texts that the groups of a pattern match, or without groups the text that all of the pattern \
             matches, as a list.",
    )
    .example("regexp_match('2026-01', '([0-9]+)-([0-9]+)')", "{2026,01}"),
    Entry::scalar("regexp_replace", Output::Counted(OutputSize::PatternReplaced), || Replaced::default().into())
        .postgresql(&["regexp_replace"])
        .overloads(&[
            "regexp_replace(text, text, text) -> text",
            "regexp_replace(text, text, text, text) -> text",
            "regexp_replace(text, text, text, bigint) -> text",
            "regexp_replace(text, text, text, bigint, bigint) -> text",
            "regexp_replace(text, text, text, bigint, bigint, text) -> text",
        ])
        .doc("The text with another in the place of the first match of a pattern, or with the option g of all.")
        .example(r"regexp_replace('2026-01', '([0-9]+)-([0-9]+)', '\2/\1')", "01/2026"),
    Entry::scalar("regexp_split_to_array", Output::Counted(OutputSize::AllCaptures), || {
        RegularExpression::new(Function::Parts).into()
    })
    .postgresql(&["regexp_split_to_array"])
    .overloads(&["regexp_split_to_array(text, text) -> text[]", "regexp_split_to_array(text, text, text) -> text[]"])
    .doc("The parts of a text between matches of a pattern, as a list.")
    .example("regexp_split_to_array('a, b,c', ', *')", "{a,b,c}"),
];
