//! A wrong dimension with its mistakes mended, as a hint shows it.
//!
//! Invariants:
//! - What is shown has the name and the columns of what was declared, and `validate` accepts it.
//! - Only checks are asked here, and none of them asks back for a hint: nothing recurses.

use crate::dimensions::{HALVINGS_MAX, QUANTILE_HALVINGS_MAX, level_name, show};
use crate::schema::{CalendarUnit, Column, DataType, Dimension, KeyRange, Level, LevelSource};
use crate::validate::{check, default_halvings};

/// The longest declaration that a hint shows: cut points may be many.
const SHOWN_BYTES_MAX: usize = 200;
/// Fewer cut points than these, of which nothing says how many were meant, are filled up.
const FILLED_UP_MAX: usize = 16;

/// What to write instead of a wrong dimension, where that can be told: as it was meant, else with a range learnt from the rows.
pub(crate) fn mended(wrong: &Dimension, columns: &[Column]) -> Option<String> {
    let first = wrong.levels.first()?;
    let same_kind = |level: &Level| std::mem::discriminant(&level.source) == std::mem::discriminant(&first.source);
    if !wrong.levels.iter().all(same_kind) {
        return None;
    }
    let sources = sources(wrong, columns);
    let (range, learnt) = match wrong.range.clone() {
        KeyRange::Linear { low, high } if high < low => {
            (KeyRange::Linear { low: high, high: low }, Some(KeyRange::Learnt))
        }
        range @ KeyRange::Linear { .. } => (range, Some(KeyRange::Learnt)),
        KeyRange::Quantiles { mut cuts } => {
            cuts.sort_by(f64::total_cmp);
            if sources == default_halvings(first.source.column()) && cuts.len() < FILLED_UP_MAX {
                fill_up(&mut cuts);
            }
            (KeyRange::Quantiles { cuts }, Some(KeyRange::LearntQuantiles))
        }
        range => (range, None),
    };
    let meant = match &range {
        KeyRange::Quantiles { cuts } => for_cuts(&sources, cuts.len()),
        _ => sources.clone(),
    };
    let meant = declared(wrong, meant, range, columns);
    let learns = |range| {
        declared(wrong, sources, range, columns).map(|text| format!("{text} to learn the range from the first rows"))
    };
    meant.or_else(|| learnt.and_then(learns))
}

/// Adds cut points, as far apart as the last ones, until they make a power of two of parts.
fn fill_up(cuts: &mut Vec<f64>) {
    let wanted = (cuts.len() + 1).next_power_of_two() - 1;
    let step = match cuts.as_slice() {
        [.., before, last] if last > before => last - before,
        _ => 1.0,
    };
    while cuts.len() < wanted
        && let Some(&last) = cuts.last()
    {
        cuts.push(last + step);
    }
}

/// The levels, each once and coarse to fine, with no more halvings or bits and no finer parts than there may be.
fn sources(wrong: &Dimension, columns: &[Column]) -> Vec<LevelSource> {
    let is_date = |id| columns.iter().any(|column| column.id == id && column.data_type == DataType::Date);
    let is_moment = |id| columns.iter().any(|column| column.id == id && column.data_type == DataType::TimestampTz);
    let halvings_max = match wrong.range {
        KeyRange::LearntQuantiles | KeyRange::Quantiles { .. } => QUANTILE_HALVINGS_MAX,
        _ => HALVINGS_MAX,
    };
    let mut sources: Vec<LevelSource> = Vec::new();
    for level in &wrong.levels {
        let source = match level.source {
            LevelSource::Column(column) => LevelSource::Column(column),
            LevelSource::Local(column, unit) if is_moment(column) => LevelSource::Local(column, unit),
            LevelSource::Calendar(column, unit) | LevelSource::Local(column, unit) if is_date(column) => {
                LevelSource::Calendar(column, unit.min(CalendarUnit::Day))
            }
            LevelSource::Calendar(column, unit) | LevelSource::Local(column, unit) => {
                LevelSource::Calendar(column, unit)
            }
            LevelSource::Halved { column, halvings } => {
                LevelSource::Halved { column, halvings: halvings.clamp(1, halvings_max) }
            }
            LevelSource::Hashed { column, bits } => LevelSource::Hashed { column, bits: bits.clamp(1, HALVINGS_MAX) },
        };
        if !sources.contains(&source) {
            sources.push(source);
        }
    }
    // A path of columns keeps its order: the sort is stable.
    sources.sort_by_key(|source| match *source {
        LevelSource::Column(_) => 0,
        LevelSource::Calendar(_, unit) | LevelSource::Local(_, unit) => unit as u8,
        LevelSource::Halved { halvings: count, .. } | LevelSource::Hashed { bits: count, .. } => count,
    });
    sources
}

/// Levels of which the finest has as many parts as cut points make, where that is a power of two.
fn for_cuts(sources: &[LevelSource], cuts: usize) -> Vec<LevelSource> {
    let parts = cuts + 1;
    let mut right = sources.to_vec();
    if let (true, Some(LevelSource::Halved { column, .. })) = (parts.is_power_of_two(), sources.last()) {
        let finest = LevelSource::Halved { column: *column, halvings: parts.ilog2() as u8 };
        right.retain(
            |source| matches!(source, LevelSource::Halved { halvings, .. } if u32::from(*halvings) < parts.ilog2()),
        );
        right.push(finest);
    }
    right
}

/// The declaration of these levels, if it is a right one that is not too long to be shown.
fn declared(wrong: &Dimension, sources: Vec<LevelSource>, range: KeyRange, columns: &[Column]) -> Option<String> {
    let level = |source| Level { name: level_name(&source, columns), source, bits: 0 };
    let is_local = sources.iter().any(|source| matches!(source, LevelSource::Local(..)));
    let right = Dimension {
        name: wrong.name.clone(),
        levels: sources.into_iter().map(level).collect(),
        range,
        zone: wrong.zone.clone().filter(|_| is_local),
    };
    check(&right, columns).ok()?;
    let text = show(&[right], columns);
    // The default is not spelt out.
    let text = text.strip_suffix(", 4, 8, 12)").map_or_else(|| text.clone(), |start| format!("{start})"));
    (text.len() <= SHOWN_BYTES_MAX).then_some(text)
}
