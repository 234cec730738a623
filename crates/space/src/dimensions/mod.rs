//! The declaration of dimensions: `WITH (dimensions = '...')`, read and written.
//!
//! ```text
//! dimensions := dimension { ';' dimension } [ ';' ]
//! dimension  := column                                                a column as it is
//!             | name '(' column { ',' column } ')'                    a path of columns, coarse to fine
//!             | name '(' column [ zone ] ':' unit { ',' unit } [ span ] ')'
//!                                                                   a calendar: year quarter month day hour minute
//!             | name '(' column ':' 'linear' [ low '..' high ] { ',' halvings } ')'
//!             | name '(' column ':' 'quantiles' [ '(' cut { ',' cut } ')' ] { ',' halvings } ')'
//!             | name '(' column ':' 'hash' [ [ ',' ] bits { ',' bits } ] ')'
//! zone       := 'at' 'time' 'zone' name                               Europe/Berlin, or in quotes '<+02>-02'
//! span       := 'from' moment 'to' moment                             2020-01-01 or 2020-01-01 12:30:00
//! ```
//!
//! Names follow SQL: folded to lower case unless in double quotes.
//!
//! Invariants:
//! - `parse(show(dimensions)) == dimensions` for everything that `parse` or `TableDef::validate` accepts, so that
//!   SHOW CREATE TABLE makes the same table.
//! - An error names the dimension and the part of it, and shows a declaration that would do, made of the table's own columns.

mod bits;
mod error;
mod lexer;
mod parser;
pub(crate) mod show;
#[cfg(test)]
mod tests;
mod when;

pub(crate) use error::example_of;
pub use show::{show, show_names};

use crate::definition::undefined_column;
use crate::schema::{CalendarUnit, Column, Dimension, Level, LevelSource};
use crate::zone::ZoneRules;
use alluvia_types::{ColumnId, Error, ErrorKind, Result};
use lexer::{Lexer, Token};

/// Most dimensions of a table.
pub const DIMENSIONS_MAX: usize = 64;
/// Most levels of a dimension.
pub const LEVELS_MAX: usize = 16;
/// Most halvings of a number, and bits of a hash.
pub const HALVINGS_MAX: u8 = 31;
/// Most halvings of a number that is cut at quantiles: 2^16 - 1 cuts are kept.
pub const QUANTILE_HALVINGS_MAX: u8 = 16;
/// Halvings of a number's levels, when the declaration gives none.
pub const HALVINGS_DEFAULT: [u8; 3] = [4, 8, 12];
/// Bits of a hashed level, when the declaration gives none.
pub const HASH_BITS_DEFAULT: u8 = 12;

/// Reads a declaration of dimensions over these columns. The result has its key bits shared out, and is valid.
pub fn parse(text: &str, columns: &[Column]) -> Result<Vec<Dimension>> {
    let unknown = |name: &str| {
        Err(Error::new(ErrorKind::NotSupported, format!("time zone {name} is not known here"))
            .with_hint("leave AT TIME ZONE out"))
    };
    parse_with_zones(text, columns, &unknown)
}

/// The rules of a time zone by its name; `None` where it is UTC.
pub type Zones<'a> = &'a dyn Fn(&str) -> Result<Option<ZoneRules>>;

/// [`parse`] of a declaration that may name time zones.
pub fn parse_with_zones(text: &str, columns: &[Column], zones: Zones<'_>) -> Result<Vec<Dimension>> {
    let mut dimensions = parser::parse(text, columns, zones)?;
    bits::share(&mut dimensions);
    crate::validate::dimensions(&dimensions, columns)?;
    Ok(dimensions)
}

/// Reads a list of measures: `price, quantity`. They are checked by `TableDef::validate`.
pub fn parse_measures(text: &str, columns: &[Column]) -> Result<Vec<ColumnId>> {
    let mut lexer = Lexer::new(text);
    let mut measures = Vec::new();
    loop {
        match lexer.next()? {
            Token::End if measures.is_empty() => return Ok(measures),
            Token::Name(name) => {
                let column = columns.iter().find(|column| column.name == name);
                let id = column.ok_or_else(|| undefined_column(&name, columns).at("measures"))?.id;
                if measures.contains(&id) {
                    return Err(Error::new(ErrorKind::InvalidDefinition, format!("measure {name} is named twice")));
                }
                measures.push(id);
            }
            other => return Err(measures_error("a column", &other, columns)),
        }
        match lexer.next()? {
            Token::End => return Ok(measures),
            Token::Symbol(',') => {}
            other => return Err(measures_error("a comma", &other, columns)),
        }
    }
}

fn measures_error(expected: &str, found: &Token, columns: &[Column]) -> Error {
    let numbers = columns.iter().filter(|column| column.data_type.is_number()).take(2);
    let ids: Vec<ColumnId> = numbers.map(|column| column.id).collect();
    let hint = match ids.as_slice() {
        [] => "measures are columns of numbers, separated by commas".to_owned(),
        ids => format!(
            "measures are columns of numbers, separated by commas: write for instance measures = '{}'",
            show_names(ids, columns).replace('\'', "''")
        ),
    };
    Error::new(ErrorKind::InvalidDefinition, format!("measures: expected {expected}, found {found}")).with_hint(hint)
}

/// The name of a level: its column's, the calendar part's, or the column's with halvings or bits (`price_8`). After a
/// column is renamed, its levels take their names from here again.
pub fn level_name(source: &LevelSource, columns: &[Column]) -> String {
    let column = columns.iter().find(|column| column.id == source.column()).map_or("", |column| &column.name);
    match source {
        LevelSource::Column(_) => column.to_owned(),
        LevelSource::Calendar(_, unit) | LevelSource::Local(_, unit) => unit.name().to_owned(),
        LevelSource::Halved { halvings: parts, .. } | LevelSource::Hashed { bits: parts, .. } => {
            format!("{column}_{parts}")
        }
    }
}

/// A level without key bits yet.
fn level(source: LevelSource, columns: &[Column]) -> Level {
    Level { name: level_name(&source, columns), source, bits: 0 }
}

impl CalendarUnit {
    /// All units, coarse to fine.
    pub const ALL: [CalendarUnit; 6] = [
        CalendarUnit::Year,
        CalendarUnit::Quarter,
        CalendarUnit::Month,
        CalendarUnit::Day,
        CalendarUnit::Hour,
        CalendarUnit::Minute,
    ];

    /// What SQL calls it: `year`.
    pub fn name(self) -> &'static str {
        match self {
            CalendarUnit::Year => "year",
            CalendarUnit::Quarter => "quarter",
            CalendarUnit::Month => "month",
            CalendarUnit::Day => "day",
            CalendarUnit::Hour => "hour",
            CalendarUnit::Minute => "minute",
        }
    }

    /// The unit that SQL calls so, in small letters.
    pub fn named(name: &str) -> Option<CalendarUnit> {
        CalendarUnit::ALL.into_iter().find(|unit| unit.name() == name)
    }
}
