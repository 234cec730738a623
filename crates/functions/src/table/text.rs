//! Functions of texts: cutting, padding, searching, joining.

use super::entry::{Entry, Output};
use crate::arrays::concatenated::ShortTruths;
use crate::bytes::forms::{OfBytes, Work};
use crate::in_slices::InSlices;
use crate::output_size::estimate::OutputSize;
use crate::text::format::Format;
use crate::text::pad::Padded;
use crate::text::to_hex::ToHex;

pub(super) const ENTRIES: &[Entry] = &[
    Entry::wrapping("character_length", Output::Small, |inner| OfBytes::new(inner, Work::Octets).into())
        .postgresql(&["character_length", "length", "char_length"])
        .doc("The number of characters of a text, or of bytes of a BYTEA.")
        .example("character_length('café')", "4"),
    Entry::wrapping("octet_length", Output::Small, |inner| OfBytes::new(inner, Work::Octets).into())
        .postgresql(&["octet_length"])
        .doc("The number of bytes of a text in UTF-8, or of a BYTEA.")
        .example("octet_length('café')", "5"),
    Entry::wrapping("bit_length", Output::Small, |inner| OfBytes::new(inner, Work::Bits).into())
        .postgresql(&["bit_length"])
        .doc("The number of bits of a text in UTF-8, or of a BYTEA.")
        .example("bit_length('ab')", "16"),
    Entry::datafusion("lower", Output::NoMoreThanGiven)
        .postgresql(&["lower"])
        .doc("The text in lower case.")
        .example("lower('ABC')", "abc"),
    Entry::datafusion("upper", Output::NoMoreThanGiven)
        .postgresql(&["upper"])
        .doc("The text in upper case.")
        .example("upper('abc')", "ABC"),
    Entry::datafusion("initcap", Output::NoMoreThanGiven)
        .postgresql(&["initcap"])
        .doc("The text with the first letter of each word in upper case and all others in lower case.")
        .example("initcap('hello WORLD')", "Hello World"),
    Entry::wrapping("concat", Output::Counted(OutputSize::AllArguments), |inner| ShortTruths::new(inner).into())
        .postgresql(&["concat"])
        .overloads(&["concat(VARIADIC any) -> text"])
        .doc("The texts of all arguments in one, where NULL is the empty text.")
        .example("concat('a', 1, NULL, true)", "a1t"),
    Entry::wrapping("concat_ws", Output::Counted(OutputSize::JoinedBy), |inner| ShortTruths::new(inner).into())
        .postgresql(&["concat_ws"])
        .overloads(&["concat_ws(text, VARIADIC any) -> text"])
        .doc("The texts of all arguments but the first and NULL, with the first between them.")
        .example("concat_ws('-', 'a', NULL, 'b')", "a-b"),
    Entry::scalar("format", Output::Counted(OutputSize::Formatted), || Format::default().into())
        .postgresql(&["format"])
        .overloads(&["format(text, VARIADIC any) -> text"])
        .doc("A text with values in the places that %s, %I and %L mark.")
        .example("format('%s is %s', 'a', 1)", "a is 1"),
    Entry::datafusion("repeat", Output::Counted(OutputSize::Copies))
        .postgresql(&["repeat"])
        .doc("The text as often as the number says, one after the other.")
        .example("repeat('ab', 3)", "ababab"),
    Entry::datafusion("replace", Output::Counted(OutputSize::Replaced))
        .postgresql(&["replace"])
        .doc("The text with the third text in all places of the second.")
        .example("replace('banana', 'an', 'o')", "booa"),
    Entry::datafusion("translate", Output::NoMoreThanGiven)
        .postgresql(&["translate"])
        .doc(
            "The text with each character of the second text replaced by the one at the same place of the \
             third, or left out.",
        )
        .example("translate('12345', '143', 'ax')", "a2x5"),
    Entry::wrapping("overlay", Output::Counted(OutputSize::AllArguments), |inner| {
        OfBytes::new(inner, Work::Overlaid).into()
    })
    .postgresql(&["overlay"])
    .overloads(&[
        "overlay(text, text, bigint) -> text",
        "overlay(text, text, bigint, bigint) -> text",
        "overlay(bytea, bytea, bigint) -> bytea",
        "overlay(bytea, bytea, bigint, bigint) -> bytea",
    ])
    .doc("The text with another in the place of its characters from a position on.")
    .example("overlay('Txxxxas' PLACING 'hom' FROM 2 FOR 4)", "Thomas"),
    Entry::wrapping("reverse", Output::NoMoreThanGiven, |inner| OfBytes::new(inner, Work::Reversed).into())
        .postgresql(&["reverse"])
        .doc("The characters of a text, or the bytes of a BYTEA, in reverse order.")
        .example("reverse('abc')", "cba"),
    Entry::datafusion("left", Output::NoMoreThanGiven)
        .postgresql(&["left"])
        .doc(
            "So many characters of a text from its start, or all but so many at its end where the number is \
             below zero.",
        )
        .example("left('alluvia', 3)", "all"),
    Entry::datafusion("right", Output::NoMoreThanGiven)
        .postgresql(&["right"])
        .doc(
            "So many characters of a text at its end, or all but so many at its start where the number is \
             below zero.",
        )
        .example("right('alluvia', 3)", "via"),
    Entry::wrapping("substr", Output::NoMoreThanGiven, |inner| OfBytes::new(inner, Work::Part).into())
        .postgresql(&["substr", "substring"])
        .doc(
            "The characters of a text from a position on, counted from 1, at most as many as a third argument \
             says.",
        )
        .example("substr('alluvia', 2, 3)", "llu"),
    Entry::datafusion("substr_index", Output::NoMoreThanGiven)
        .doc(
            "The part of a text before the given occurrence of a delimiter, or behind it, counted from the \
             end, where the number is below zero.",
        )
        .example("substr_index('www.example.org', '.', 2)", "www.example"),
    Entry::datafusion("split_part", Output::NoMoreThanGiven)
        .postgresql(&["split_part"])
        .doc("The part of a text of the given number, counted from 1, between occurrences of a delimiter.")
        .example("split_part('a,b,c', ',', 2)", "b"),
    Entry::wrapping("lpad", Output::Counted(OutputSize::Characters), |inner| Padded::new(inner).into())
        .postgresql(&["lpad"])
        .doc(
            "The text made as long as the number says by blanks, or by a third text, at its start, or else \
             cut at its end.",
        )
        .example("lpad('7', 3, '0')", "007"),
    Entry::wrapping("rpad", Output::Counted(OutputSize::Characters), |inner| Padded::new(inner).into())
        .postgresql(&["rpad"])
        .doc(
            "The text made as long as the number says by blanks, or by a third text, at its end, or else cut \
             there.",
        )
        .example("rpad('7', 3, '.')", "7.."),
    Entry::wrapping("btrim", Output::NoMoreThanGiven, |inner| {
        OfBytes::new(inner, Work::Trimmed { start: true, end: true }).into()
    })
    .postgresql(&["btrim", "trim"])
    .doc("The text without blanks, or without the characters of a second text, at its start and end.")
    .example("btrim('xxhixx', 'x')", "hi"),
    Entry::wrapping("ltrim", Output::NoMoreThanGiven, |inner| {
        OfBytes::new(inner, Work::Trimmed { start: true, end: false }).into()
    })
    .postgresql(&["ltrim"])
    .doc("The text without blanks, or without the characters of a second text, at its start.")
    .example("ltrim('xxhixx', 'x')", "hixx"),
    Entry::wrapping("rtrim", Output::NoMoreThanGiven, |inner| {
        OfBytes::new(inner, Work::Trimmed { start: false, end: true }).into()
    })
    .postgresql(&["rtrim"])
    .doc("The text without blanks, or without the characters of a second text, at its end.")
    .example("rtrim('xxhixx', 'x')", "xxhi"),
    Entry::wrapping("strpos", Output::Small, |inner| OfBytes::new(inner, Work::Position).into())
        .postgresql(&["strpos", "position"])
        .doc(
            "The position of the first occurrence of the second text in the first, counted from 1, or 0 if \
             there is none.",
        )
        .example("strpos('alluvia', 'u')", "4"),
    Entry::datafusion("contains", Output::Small)
        .doc("Whether a text has another within it.")
        .example("contains('alluvia', 'luv')", "true"),
    Entry::datafusion("ends_with", Output::Small)
        .doc("Whether a text ends with another.")
        .example("ends_with('alluvia', 'via')", "true"),
    Entry::datafusion("find_in_set", Output::Small)
        .doc(
            "The position of a text among the parts of a list that commas separate, counted from 1, or 0 if \
             no part is equal.",
        )
        .example("find_in_set('b', 'a,b,c')", "2"),
    Entry::wrapping("levenshtein", Output::Small, InSlices::of)
        .doc("The least number of characters to insert, delete or replace that makes one text of the other.")
        .example("levenshtein('kitten', 'sitting')", "3"),
    Entry::datafusion("ascii", Output::Small)
        .postgresql(&["ascii"])
        .doc("The code point of the first character of a text.")
        .example("ascii('A')", "65"),
    Entry::datafusion("chr", Output::Small)
        .postgresql(&["chr"])
        .doc("The character of a code point.")
        .example("chr(65)", "A"),
    Entry::wrapping("to_hex", Output::Small, |inner| ToHex::new(inner).into())
        .postgresql(&["to_hex"])
        .doc("The hexadecimal digits of a whole number, of a negative one as it is held in its bytes.")
        .example("to_hex(255)", "ff"),
];
