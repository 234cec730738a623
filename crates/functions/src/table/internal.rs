//! Functions that operators and forms of the grammar become, and functions that no statement here gives a value.

use super::entry::{Entry, Output};
use crate::arrays::quantified::Quantified;
use crate::datetime::in_zone::{InZone, ZoneOperation};
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
    Entry::scalar("text_in_zone", Output::NoMoreThanGiven, || InZone::new(ZoneOperation::Text).into())
        .overloads(&["text_in_zone(any, text) -> text"])
        .doc("The text of a value in a session of a time zone.")
        .example("text_in_zone(TIMESTAMPTZ '2026-01-01 00:00:00+00', 'Asia/Kolkata')", "2026-01-01 05:30:00+05:30"),
    Entry::scalar("json_in_zone", Output::NoMoreThanGiven, || InZone::new(ZoneOperation::Json).into())
        .overloads(&["json_in_zone(any, text) -> any"])
        .doc("A value whose moments are the texts that JSON has of them in a session of a time zone.")
        .example("json_in_zone(TIMESTAMPTZ '2026-01-01 00:00:00+00', 'Asia/Kolkata')", "2026-01-01T05:30:00+05:30"),
    Entry::scalar("texts_in_zone", Output::NoMoreThanGiven, || InZone::new(ZoneOperation::Texts).into())
        .overloads(&["texts_in_zone(any, text) -> any"])
        .doc("A value whose moments are their texts in a session of a time zone.")
        .example(
            "array_to_string(texts_in_zone(ARRAY[TIMESTAMPTZ '2026-01-01 00:00:00+00'], 'Asia/Kolkata'), ',')",
            "2026-01-01 05:30:00+05:30",
        ),
    Entry::scalar("timestamptz_in_zone", Output::Small, || InZone::new(ZoneOperation::Moment).into())
        .overloads(&[
            "timestamptz_in_zone(text, text) -> timestamptz",
            "timestamptz_in_zone(text, text, boolean) -> timestamptz",
        ])
        .doc("The moment that a text names in a session of a time zone.")
        .example("timestamptz_in_zone('2026-01-01 05:30', 'Asia/Kolkata')", "2026-01-01 00:00:00+00"),
    Entry::scalar("plus_in_zone", Output::Small, || InZone::new(ZoneOperation::Plus).into())
        .overloads(&["plus_in_zone(timestamptz, interval, text) -> timestamptz"])
        .doc("A moment and an interval, whose months and days clocks of a time zone count.")
        .example(
            "plus_in_zone(TIMESTAMPTZ '2026-03-28 11:00:00+00', INTERVAL '1 day', 'Europe/Berlin')",
            "2026-03-29 10:00:00+00",
        ),
    Entry::scalar("offset_in_zone", Output::Small, || InZone::new(ZoneOperation::Offset).into())
        .overloads(&["offset_in_zone(timestamptz, text) -> int"])
        .doc("Seconds by which clocks of a time zone are ahead of UTC at a moment.")
        .example("offset_in_zone(TIMESTAMPTZ '2026-01-01 00:00:00+00', 'Asia/Kolkata')", "19800"),
    // It bounds its rows itself.
    Entry::scalar("series_in_zone", Output::Small, || InZone::new(ZoneOperation::Series).into())
        .overloads(&["series_in_zone(timestamptz, timestamptz, interval, text, boolean) -> timestamptz[]"])
        .doc("The moments from one to another by a step that clocks of a time zone count.")
        .example(
            "series_in_zone(TIMESTAMPTZ '2026-03-28 23:00:00+00', TIMESTAMPTZ '2026-03-29 22:00:00+00', INTERVAL '1 day', 'Europe/Berlin', true)",
            "{\"2026-03-28 23:00:00+00\",\"2026-03-29 22:00:00+00\"}",
        ),
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
