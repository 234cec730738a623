//! What table would hold CSV files: their separator, whether they have a header, and the types of their fields.

use super::seen::Seen;
use super::{Inferred, folded, sample_of};
use crate::csv_in::{cut_of, field_texts, may_be_name, name_at, scanner_of};
use crate::peeked::Sampled;
use crate::records::{Cut, check_header};
use alluvia_space::DataType;
use alluvia_syntax::copy::options::{CopyOptions, Dialect, Format, Header};
use alluvia_types::Result;

/// Characters of a first line that are shown.
const LINE_SHOWN_MAX: usize = 60;

pub(super) fn infer_csv(files: &[Sampled<'_>], options: &CopyOptions) -> Result<Inferred> {
    let mut dialect = options.dialect(files[0].file_name().as_deref());
    if options.delimiter.is_none() && dialect.delimiter == b',' {
        dialect.delimiter = sniff_delimiter(&sample_of(&files[0], options, Cut::Lines)?, &dialect);
    }
    let first = sample_of(&files[0], options, cut_of(&dialect))?;
    let mut scanner = scanner_of(&dialect);
    let Some(record) = scanner.next(&first, 0) else {
        return Ok(Inferred::new(Vec::new(), options.clone()));
    };
    let names = field_texts(&scanner, &first);
    let header = match options.header {
        Header::Yes | Header::Match => true,
        Header::No => false,
        Header::Auto => looks_like_names(&names),
    };
    // A line of names is no row because one of them comes twice.
    let may_name = match options.header {
        Header::Yes | Header::Match => true,
        Header::No => false,
        Header::Auto => are_texts(&names) && names.iter().all(|name| name.is_empty() || may_be_name(name)),
    };
    let repeated_name = repeated(&names).filter(|_| may_name).map(|name| (files[0].name(), name.clone()));
    let first_line = String::from_utf8_lossy(&first[..record.content_end]);
    let row_at_first = (options.header == Header::Auto && !header).then(|| shortened(&first_line, LINE_SHOWN_MAX));
    if header {
        check_header(&first[..record.content_end], cut_of(&dialect), &files[0].name())?;
    }
    let mut seen: Vec<Seen> = vec![Seen::default(); names.len()];
    look_at(&first[if header { record.end } else { 0 }..], &dialect, &mut seen);
    for file in &files[1..] {
        let sample = sample_of(file, options, cut_of(&dialect))?;
        let start = scanner.next(&sample, 0).filter(|_| header).map_or(0, |record| record.end);
        look_at(&sample[start..], &dialect, &mut seen);
    }
    let names = names.iter().enumerate().map(|(at, name)| name_at(at, if header { name } else { "" }));
    let names = folded(names.collect());
    let columns = names.into_iter().zip(&seen).map(|(name, seen)| seen.column(name)).collect();
    let options = CopyOptions {
        format: Some(Format::Csv),
        delimiter: Some(dialect.delimiter),
        header: match options.header {
            Header::Match => Header::Match,
            _ if header => Header::Yes,
            _ => Header::No,
        },
        ..options.clone()
    };
    Ok(Inferred { columns, options, row_at_first, repeated_name })
}

/// Takes in the values of whole records; records of another length are left to the load.
fn look_at(bytes: &[u8], dialect: &Dialect, seen: &mut [Seen]) {
    let mut scanner = scanner_of(dialect);
    let mut at = 0;
    while let Some(record) = scanner.next(bytes, at) {
        at = record.end;
        if scanner.len() != seen.len() || record.malformed.is_some() {
            continue;
        }
        for (field, seen) in seen.iter_mut().enumerate() {
            let (text, quoted) = scanner.field(bytes, field);
            if !text.is_empty() && (quoted || text != dialect.null) {
                seen.text(text);
            }
        }
    }
}

/// The separator that splits all of the first records into the same number of fields, the larger number winning; a comma where
/// none does.
fn sniff_delimiter(sample: &[u8], dialect: &Dialect) -> u8 {
    const RECORDS: usize = 100;
    let fields_with = |delimiter: u8| {
        let mut scanner = scanner_of(&Dialect { delimiter, ..dialect.clone() });
        let (mut at, mut counts) = (0, Vec::new());
        while let Some(record) = scanner.next(sample, at).filter(|_| counts.len() < RECORDS) {
            if record.content_end > at {
                counts.push(scanner.len());
            }
            at = record.end;
        }
        let first = counts.first().copied().unwrap_or(0);
        if counts.iter().all(|count| *count == first) { first } else { 0 }
    };
    let candidates = [b',', b';', b'\t', b'|'].map(|delimiter| (fields_with(delimiter), delimiter));
    let best = candidates.iter().rev().max_by_key(|(fields, _)| *fields);
    best.filter(|(fields, _)| *fields > 1).map_or(b',', |(_, delimiter)| *delimiter)
}

/// Names are distinct and none is a value of another type than text.
fn looks_like_names(fields: &[String]) -> bool {
    let distinct = fields.iter().enumerate().all(|(at, field)| !fields[..at].contains(field));
    distinct && are_texts(fields)
}

/// Whether no field is a value of another type than text, and one is a text.
fn are_texts(fields: &[String]) -> bool {
    let typed =
        |field: &String| !field.is_empty() && Seen::default().with(field.as_bytes()).data_type() != DataType::Text;
    !fields.iter().any(typed) && fields.iter().any(|field| !field.is_empty())
}

/// The first name that has come before.
fn repeated(names: &[String]) -> Option<&String> {
    let comes_again = |(at, name): &(usize, &String)| !name.is_empty() && names[..*at].contains(name);
    names.iter().enumerate().find(comes_again).map(|(_, name)| name)
}

/// The first characters of a line, with dots if there are more; what is no character to show is replaced.
fn shortened(line: &str, chars_max: usize) -> String {
    let shown = |shown: char| if shown.is_control() { char::REPLACEMENT_CHARACTER } else { shown };
    let start: String = line.chars().map(shown).take(chars_max).collect();
    if line.chars().nth(chars_max).is_some() { start + "..." } else { start }
}
