//! Codes of level members.
//!
//! Invariants:
//! - A code is a `u32`; 0 is the NULL member of every level.
//! - Levels made of a column get their codes from dictionaries (`catalog`). All others are arithmetic: the code follows from
//!   the value alone, and is computed here. Calendar: `1 + 2^31 + units since 1970`. Halved: `1 + part`. Hashed: `1 + bucket`.
//! - Calendar and halved codes keep the order of values, so a range of values is a range of codes. Codes of local time keep that of the times
//!   that clocks show: moments that they show as the same unit have one code, also those of an hour that comes twice.
//! - A coarser arithmetic level is a function of a finer one.

pub mod calendar;
pub(crate) mod hash;

use crate::dimensions::show::number;
use crate::numbers::{Numbers, Position};
use crate::schema::{CalendarUnit, Dimension, KeyRange, LevelSource};
use alluvia_types::{Error, Result};
use arrow::array::{Array, AsArray, TimestampMicrosecondArray};
use arrow::datatypes::{DataType as ArrowType, Date32Type, TimeUnit, TimestampMicrosecondType};
use hash::Hashes;

/// Rows that are worked on at a time, so that scratch space stays in the nearest cache.
const CHUNK_ROWS: usize = 1024;

/// Codes of rows: one vector per level in [`TableDef::levels`](crate::TableDef::levels) order, one code per row.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LevelCodes {
    /// Levels, each as long as there are rows.
    pub levels: Vec<Vec<u32>>,
}

/// Whether codes of the dimension follow from values alone, without a dictionary.
pub fn is_arithmetic(dimension: &Dimension) -> bool {
    dimension.levels.iter().all(|level| !matches!(level.source, LevelSource::Column(_)))
}

/// Codes of an arithmetic dimension's levels, coarse to fine, for values of its column in storage form. A number's range
/// must be fixed. Works as well on one value, to find the code that a constant of a predicate has.
pub fn arithmetic(dimension: &Dimension, column: &dyn Array) -> Result<Vec<Vec<u32>>> {
    let mut codes = Vec::with_capacity(dimension.levels.len());
    let shown = shown(dimension, column)?;
    for level in &dimension.levels {
        codes.push(match level.source {
            LevelSource::Calendar(_, unit) => calendar_codes(column, unit)?,
            LevelSource::Local(_, unit) => match &shown {
                Some(shown) => calendar_codes(shown, unit)?,
                None => return Err(Error::internal(format!("dimension {} has local time of no zone", dimension.name))),
            },
            LevelSource::Halved { halvings, .. } => halved_codes(&dimension.range, halvings, column)?,
            LevelSource::Hashed { bits, .. } => hashed_codes(bits, column)?,
            LevelSource::Column(_) => {
                let place = format!("level {} of dimension {}", level.name, dimension.name);
                return Err(Error::internal(format!("{place} has a dictionary, not arithmetic codes")));
            }
        });
    }
    Ok(codes)
}

/// The times that clocks of the dimension's zone show at its moments, if it has one.
fn shown(dimension: &Dimension, column: &dyn Array) -> Result<Option<TimestampMicrosecondArray>> {
    let Some(zone) = &dimension.zone else { return Ok(None) };
    let Some(moments) = column.as_primitive_opt::<TimestampMicrosecondType>() else {
        return Err(Error::internal(format!("a column of local time has type {}", column.data_type())));
    };
    let shown = zone.shown_at_all(moments.values());
    Ok(Some(TimestampMicrosecondArray::new(shown.into(), moments.nulls().cloned())))
}

fn calendar_codes(column: &dyn Array, unit: CalendarUnit) -> Result<Vec<u32>> {
    let mut codes: Vec<u32> = match column.data_type() {
        ArrowType::Date32 => {
            coded(column.as_primitive::<Date32Type>().values(), |&days| calendar::code_of_day(i64::from(days), unit))
        }
        ArrowType::Timestamp(TimeUnit::Microsecond, _) => {
            coded(column.as_primitive::<TimestampMicrosecondType>().values(), |&micros| {
                calendar::code_of_micros(micros, unit)
            })
        }
        other => return Err(Error::internal(format!("a calendar level's column has type {other}"))),
    };
    if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
        codes.iter_mut().zip(nulls).filter(|(_, valid)| !valid).for_each(|(code, _)| *code = 0);
    }
    Ok(codes)
}

/// Applies `code`, which is costly, once per run of equal values: times arrive in runs and dates repeat.
fn coded<T: PartialEq>(values: &[T], code: impl Fn(&T) -> u32) -> Vec<u32> {
    let mut codes = Vec::with_capacity(values.len());
    for run in values.chunk_by(|a, b| a == b) {
        codes.resize(codes.len() + run.len(), code(&run[0]));
    }
    codes
}

fn halved_codes(range: &KeyRange, halvings: u8, column: &dyn Array) -> Result<Vec<u32>> {
    let numbers = Numbers::new(column)?;
    let position = Position::new(range, halvings)?;
    let mut codes = vec![0; column.len()];
    let mut values = [0.0; CHUNK_ROWS];
    for (chunk, codes) in codes.chunks_mut(CHUNK_ROWS).enumerate() {
        let values = &mut values[..codes.len()];
        numbers.fill(chunk * CHUNK_ROWS, values);
        position.fill(values, codes);
        codes.iter_mut().for_each(|code| *code += 1);
    }
    if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
        codes.iter_mut().zip(nulls).filter(|(_, valid)| !valid).for_each(|(code, _)| *code = 0);
    }
    Ok(codes)
}

fn hashed_codes(bits: u8, column: &dyn Array) -> Result<Vec<u32>> {
    let hashes = Hashes::new(column)?;
    let mut codes = vec![0; column.len()];
    let mut values = [0; CHUNK_ROWS];
    for (chunk, codes) in codes.chunks_mut(CHUNK_ROWS).enumerate() {
        let values = &mut values[..codes.len()];
        hashes.fill(chunk * CHUNK_ROWS, values);
        for (code, hash) in codes.iter_mut().zip(values) {
            *code = 1 + (*hash >> (64 - bits)) as u32;
        }
    }
    if let Some(nulls) = hashes.nulls() {
        codes.iter_mut().zip(nulls).filter(|(_, valid)| !valid).for_each(|(code, _)| *code = 0);
    }
    Ok(codes)
}

/// How the member with this code of an arithmetic level reads: `2026-11`, `[250, 312.5)`, `#17`, `NULL`. `None` for a level
/// with a dictionary, for a code that the level cannot have, and for a number's part while its range is not fixed.
pub fn display(dimension: &Dimension, level: usize, code: u32) -> Option<String> {
    let source = &dimension.levels.get(level)?.source;
    if let LevelSource::Column(_) = source {
        return None;
    }
    let Some(part) = code.checked_sub(1) else { return Some("NULL".into()) };
    match *source {
        LevelSource::Calendar(_, unit) | LevelSource::Local(_, unit) => {
            Some(calendar::display(calendar::units_of_code(code)?, unit))
        }
        LevelSource::Hashed { bits, .. } => (u64::from(part) < 1 << bits).then(|| format!("#{part}")),
        LevelSource::Halved { halvings, .. } => {
            let (low, high) = part_bounds(&dimension.range, halvings, part)?;
            Some(match (low, high) {
                (Some(low), Some(high)) => format!("[{}, {})", number(low), number(high)),
                (Some(low), None) => format!(">= {}", number(low)),
                (None, Some(high)) => format!("< {}", number(high)),
                (None, None) => "all".into(),
            })
        }
        LevelSource::Column(_) => None,
    }
}

/// The bounds `[low, high)` of a part; `None` at an end that clamps.
pub fn part_bounds(range: &KeyRange, halvings: u8, part: u32) -> Option<(Option<f64>, Option<f64>)> {
    let parts = 1u64 << halvings;
    let part = u64::from(part);
    if part >= parts {
        return None;
    }
    let bound = |at: u64| match range {
        _ if at == 0 || at == parts => Some(None),
        KeyRange::Linear { low, high } => Some(Some(low + (high - low) * (at as f64 / parts as f64))),
        KeyRange::Quantiles { cuts } => {
            let step = (cuts.len() as u64 + 1) / parts;
            cuts.get((at * step).checked_sub(1)? as usize).map(|&cut| Some(cut))
        }
        KeyRange::None | KeyRange::Learnt | KeyRange::LearntQuantiles => None,
    };
    Some((bound(part)?, bound(part + 1)?))
}

#[cfg(test)]
mod tests;
