//! Functions of regular expressions that DataFusion lacks, or has otherwise than PostgreSQL: `regexp_match`, `regexp_substr`,
//! `regexp_split_to_array`, `regexp_replace`, and what `substring(x FROM 'pattern')` and `regexp_matches` become (`alluvia_syntax`).
//!
//! Invariants, as in PostgreSQL:
//! - Patterns are translated ([`alluvia_values::regex::translated`]), whether they are written or computed. A dot is any character, a line's end among them, unless
//!   options say otherwise. (Of several ways to match, Rust's expressions take the first alternative, and PostgreSQL's the longest.)
//! - A group that takes no part in a match is NULL. NULL in, NULL out.
//! - After a match the next one is looked for where it ended, or one character on if it was empty.

mod compiled;
mod replaced;

pub use replaced::Replaced;

use crate::columnar::by_arrays;
use crate::stopping::Worked;
use alluvia_types::{Error, ErrorKind};
use alluvia_values::calls::{ALL_MATCHES, PARTS, SUBSTRING};
use alluvia_values::errors::wrap;
use arrow::array::{Array, ArrayRef, AsArray, ListBuilder, StringViewBuilder};
use arrow::datatypes::{DataType, Field, Int64Type};
use compiled::{Compiled, Patterns};
use datafusion_common::{Result, exec_err};
use datafusion_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use std::sync::Arc;

/// What a function gives of a text by a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Function {
    /// What the first group matches, or else the whole pattern.
    Substring,
    /// `regexp_substr(text, pattern, start, n, options, group)`.
    Substr,
    /// What the groups match, or else the whole pattern, as a list.
    Match,
    /// The same of all matches, as a list of lists.
    AllMatches,
    /// What lies between matches, as a list.
    Parts,
}

/// One of the functions.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct RegularExpression {
    function: Function,
    signature: Signature,
}

/// The arguments of one row that are texts; the rest are numbers.
struct Row<'a> {
    text: &'a str,
    pattern: &'a str,
    options: &'a str,
}

impl RegularExpression {
    /// The function that gives this.
    pub(crate) fn new(function: Function) -> RegularExpression {
        RegularExpression { function, signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// Where the options stand.
    fn options_at(&self) -> usize {
        if self.function == Function::Substr { 4 } else { 2 }
    }

    fn row<'a>(&self, args: &'a [ArrayRef], row: usize) -> Option<Row<'a>> {
        if args.iter().any(|arg| arg.is_null(row)) {
            return None;
        }
        let text = |at: usize| args.get(at).map(|texts| texts.as_string_view().value(row));
        Some(Row { text: text(0)?, pattern: text(1)?, options: text(self.options_at()).unwrap_or_default() })
    }

    fn array(&self, args: &[ArrayRef]) -> Result<ArrayRef> {
        let rows = args.first().map_or(0, |texts| texts.len());
        let (mut patterns, mut worked) = (Patterns::default(), Worked::default());
        let all: ArrayRef = match self.function {
            Function::Substring | Function::Substr => {
                let mut found = StringViewBuilder::with_capacity(rows);
                for row in 0..rows {
                    let Some(Row { text, pattern, options }) = self.row(args, row) else {
                        found.append_null();
                        continue;
                    };
                    worked.add(text.len())?;
                    let pattern = self.compiled(&mut patterns, pattern, options)?;
                    found.append_option(match self.function {
                        Function::Substring => pattern.substring(text),
                        _ => substr(pattern, text, args, row)?,
                    });
                }
                Arc::new(found.finish())
            }
            Function::Match | Function::Parts => {
                let mut found = ListBuilder::new(StringViewBuilder::new());
                for row in 0..rows {
                    let Some(Row { text, pattern, options }) = self.row(args, row) else {
                        found.append(false);
                        continue;
                    };
                    worked.add(text.len())?;
                    let pattern = self.compiled(&mut patterns, pattern, options)?;
                    let mut is_found = self.function == Function::Parts;
                    match self.function {
                        Function::Parts => pattern.each_part(text, |part| found.values().append_value(part)),
                        _ => pattern.each_match(text, 0, |groups| {
                            is_found = true;
                            groups.iter().for_each(|group| found.values().append_option(*group));
                            false
                        }),
                    }
                    found.append(is_found);
                }
                Arc::new(found.finish())
            }
            Function::AllMatches => {
                let mut found = ListBuilder::new(ListBuilder::new(StringViewBuilder::new()));
                for row in 0..rows {
                    let Some(Row { text, pattern, options }) = self.row(args, row) else {
                        found.append(false);
                        continue;
                    };
                    worked.add(text.len())?;
                    let pattern = self.compiled(&mut patterns, pattern, options)?;
                    let mut is_stopped = Ok(());
                    pattern.each_match(text, 0, |groups| {
                        groups.iter().for_each(|group| found.values().values().append_option(*group));
                        found.values().append(true);
                        is_stopped = worked.add(0);
                        pattern.is_global() && is_stopped.is_ok()
                    });
                    is_stopped?;
                    found.append(true);
                }
                Arc::new(found.finish())
            }
        };
        Ok(all)
    }

    fn compiled<'p>(&self, patterns: &'p mut Patterns, pattern: &str, options: &str) -> Result<&'p Compiled> {
        let compiled = patterns.of(pattern, options).map_err(wrap)?;
        if compiled.is_global() && self.function != Function::AllMatches {
            let error = refused(format!("{}() does not take the option \"g\"", self.name()));
            return Err(wrap(match self.function {
                Function::Match => error.with_hint("regexp_matches gives all matches"),
                _ => error,
            }));
        }
        Ok(compiled)
    }
}

/// The match that is asked for by its number, or a group of it.
fn substr<'t>(pattern: &Compiled, text: &'t str, args: &[ArrayRef], row: usize) -> Result<Option<&'t str>> {
    let number = |at: usize| args.get(at).map(|numbers| numbers.as_primitive::<Int64Type>().value(row));
    let (start, nth, group) = (number(2).unwrap_or(1), number(3).unwrap_or(1), number(5).unwrap_or(0));
    for (name, value, least) in [("start", start, 1), ("n", nth, 1), ("subexpr", group, 0)] {
        if value < least {
            return Err(wrap(refused(format!("invalid value for parameter \"{name}\" of regexp_substr(): {value}"))));
        }
    }
    let before = usize::try_from(start - 1).unwrap_or(usize::MAX);
    let Some(from) = text.char_indices().map(|(at, _)| at).chain([text.len()]).nth(before) else { return Ok(None) };
    let group = usize::try_from(group).unwrap_or(usize::MAX);
    Ok(pattern.nth(text, from, nth, group))
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::InvalidSetting, message)
}

impl ScalarUDFImpl for RegularExpression {
    fn name(&self) -> &str {
        match self.function {
            Function::Substring => SUBSTRING,
            Function::Substr => "regexp_substr",
            Function::Match => "regexp_match",
            Function::AllMatches => ALL_MATCHES,
            Function::Parts => PARTS,
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let most = match self.function {
            Function::Substring => 2,
            Function::Substr => 6,
            _ => 3,
        };
        let is_number = |at: usize| self.function == Function::Substr && matches!(at, 2 | 3 | 5);
        let fits = |(at, of): (usize, &DataType)| match of {
            DataType::Null => true,
            of if is_number(at) => of.is_integer(),
            of => of.is_string(),
        };
        if !(2..=most).contains(&types.len()) || !types.iter().enumerate().all(fits) {
            return exec_err!("{} takes a text, a pattern and options", self.name());
        }
        let taken = |at: usize| if is_number(at) { DataType::Int64 } else { DataType::Utf8View };
        Ok((0..types.len()).map(taken).collect())
    }

    fn return_type(&self, _arg_types: &[DataType]) -> Result<DataType> {
        let list = |of: DataType| DataType::List(Arc::new(Field::new("item", of, true)));
        Ok(match self.function {
            Function::Substring | Function::Substr => DataType::Utf8View,
            Function::Match | Function::Parts => list(DataType::Utf8View),
            Function::AllMatches => list(list(DataType::Utf8View)),
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        by_arrays(&args.args, |arrays| self.array(&arrays))
    }
}
