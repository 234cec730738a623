//! Validation of a table definition: the rules that it keeps, however it was made.
//!
//! Messages name the dimension, level or column; hints show what would do, of the same dimension and columns (see
//! `mend`), or say it in words. The parser of declarations relies on these checks, so each has one place.

use crate::constraint;
use crate::curve::{AXIS_BITS_MAX, KEY_BITS_MAX};
use crate::data_type::{CHARS_MAX, PRECISION_MAX};
use crate::dimensions::{
    DIMENSIONS_MAX, HALVINGS_DEFAULT, HALVINGS_MAX, LEVELS_MAX, QUANTILE_HALVINGS_MAX, example_of,
};
use crate::mend::mended;
use crate::row_op::OP_COLUMN;
use crate::rules;
use crate::schema::{
    Column, DataType, Dimension, KeyRange, LevelSource, ORDINAL_COLUMN, PrimaryKey, TableDef, VERSION_COLUMN,
};
use alluvia_types::{ColumnId, Error, ErrorKind, Result};
use std::collections::HashSet;

/// Most columns of a table.
const COLUMNS_MAX: usize = 1600;
/// Most columns of a key.
const KEY_COLUMNS_MAX: usize = 32;

impl TableDef {
    /// Refuses a definition that the rest of the engine must not meet.
    pub fn validate(&self) -> Result<()> {
        self.validate_all().map_err(|error| error.at(format!("table {}", self.name)))
    }

    fn validate_all(&self) -> Result<()> {
        if self.name.is_empty() || self.schema.is_empty() {
            return Err(invalid("a table needs a name"));
        }
        columns(&self.columns, self.next_column_id)?;
        if let Some(key) = &self.key {
            primary_key(key, &self.columns)?;
        }
        rules::validate(&self.rules, &self.columns)?;
        let kept = (self.columns.as_slice(), self.key.as_ref(), self.rules.checks.as_slice());
        constraint::validate(&self.indexes, &self.foreign_keys, kept)?;
        dimensions(&self.dimensions, &self.columns)?;
        for (at, &id) in self.measures.iter().enumerate() {
            let Some(column) = self.column_by_id(id) else {
                return Err(invalid(format!("measure {} is column {id}, which does not exist", at + 1)));
            };
            if !column.data_type.is_number() {
                let message = format!("measure {} is {}, which has no sum", column.name, column.data_type.sql_name());
                return Err(
                    invalid(message).with_hint("measures are numbers: SMALLINT, INT, BIGINT, REAL, DOUBLE, DECIMAL")
                );
            }
            if self.measures[..at].contains(&id) {
                return Err(invalid(format!("measure {} is named twice", column.name)));
            }
        }
        Ok(())
    }
}

fn columns(columns: &[Column], next_column_id: u32) -> Result<()> {
    if columns.is_empty() {
        return Err(invalid("a table needs at least one column"));
    }
    if columns.len() > COLUMNS_MAX {
        return Err(invalid(format!("{} columns are too many; a table has at most {COLUMNS_MAX}", columns.len())));
    }
    let (mut names, mut storage_names, mut ids) = (HashSet::new(), HashSet::new(), HashSet::new());
    for column in columns {
        let name = &column.name;
        if name.is_empty() || column.storage_name.is_empty() {
            return Err(invalid("a column needs a name"));
        }
        if [VERSION_COLUMN, ORDINAL_COLUMN].iter().any(|hidden| name == hidden || column.storage_name == *hidden) {
            return Err(invalid(format!("column {name} has a name that the database uses itself"))
                .with_hint("every row has its hidden _version and _ordinal already; choose another name"));
        }
        // Its name in storage may have been given before the word was taken.
        if name == OP_COLUMN {
            return Err(invalid(format!("column {name} has a name that the database uses itself"))
                .with_hint("rows that come may say in _op what each of them does; choose another name"));
        }
        if !names.insert(name) {
            return Err(Error::new(ErrorKind::DuplicateColumn, format!("column {name} is declared twice")));
        }
        if !storage_names.insert(&column.storage_name) || !ids.insert(column.id) || column.id.0 >= next_column_id {
            return Err(Error::internal(format!("column {name} shares its id or its name in storage with another")));
        }
        if let DataType::Decimal { precision, scale } = column.data_type
            && (precision == 0 || precision > PRECISION_MAX || scale > precision)
        {
            return Err(invalid(format!("column {name}: {} is not a possible decimal", column.data_type.sql_name()))
                .with_hint("precision is 1 to 38, scale 0 to the precision: DECIMAL(18, 2)"));
        }
        match column.chars_max {
            Some(_) if !matches!(column.data_type, DataType::Text | DataType::Char) => {
                return Err(Error::internal(format!("column {name} has a length, and is no text")));
            }
            None if column.data_type == DataType::Char => {
                return Err(Error::internal(format!("column {name} is a CHAR, and has no length")));
            }
            Some(chars_max) if !(1..=CHARS_MAX).contains(&chars_max) => {
                return Err(invalid(format!("column {name}: {} has no possible length", column.sql_type()))
                    .with_hint(format!("a length is 1 to {CHARS_MAX} characters; TEXT takes any")));
            }
            _ => {}
        }
    }
    Ok(())
}

fn primary_key(key: &PrimaryKey, columns: &[Column]) -> Result<()> {
    let ids = &key.columns;
    if ids.is_empty() {
        return Err(invalid("a primary key needs at least one column"));
    }
    if ids.len() > KEY_COLUMNS_MAX {
        let message = format!("{} columns are too many for a primary key; it has at most {KEY_COLUMNS_MAX}", ids.len());
        return Err(invalid(message));
    }
    for (at, &id) in ids.iter().enumerate() {
        let Some(column) = columns.iter().find(|column| column.id == id) else {
            return Err(invalid(format!("part {} of the primary key is column {id}, which does not exist", at + 1)));
        };
        if ids[..at].contains(&id) {
            return Err(invalid(format!("column {} is named twice in the primary key", column.name))
                .with_hint("name each column once"));
        }
        if let DataType::Json | DataType::Jsonb | DataType::Interval = column.data_type {
            let type_name = column.sql_type();
            let message = format!("column {} is {type_name}, which cannot be part of a primary key", column.name);
            return Err(Error::new(ErrorKind::NotSupported, message)
                .with_hint("keys are numbers, texts, bytes, UUIDs, dates and times"));
        }
        if column.nullable {
            return Err(invalid(format!("column {} is part of the primary key, and may be NULL", column.name))
                .with_hint("declare it NOT NULL"));
        }
    }
    Ok(())
}

/// Checks dimensions against the columns that they are made of.
pub(crate) fn dimensions(dimensions: &[Dimension], columns: &[Column]) -> Result<()> {
    if dimensions.len() > DIMENSIONS_MAX {
        return Err(invalid(format!("{} dimensions are too many; a table has at most 64", dimensions.len())));
    }
    let mut names = HashSet::new();
    let mut bits_total = 0;
    for (at, checked) in dimensions.iter().enumerate() {
        if checked.name.is_empty() {
            return Err(invalid("a dimension needs a name"));
        }
        if !names.insert(&checked.name) {
            return Err(invalid(format!("dimension {} is declared twice", checked.name))
                .with_hint(other_name(checked, at, dimensions, columns)));
        }
        check(checked, columns)
            .map_err(|error| hinted(error, checked, columns).at(format!("dimension {}", checked.name)))?;
        bits_total += checked.levels.iter().map(|level| u32::from(level.bits)).sum::<u32>();
    }
    assert!(bits_total <= KEY_BITS_MAX, "dimensions share out {bits_total} bits of a key");
    Ok(())
}

/// The error with a hint that shows the dimension as it would be right, where that can be told.
fn hinted(error: Error, wrong: &Dimension, columns: &[Column]) -> Error {
    match mended(wrong, columns).filter(|_| error.kind() == ErrorKind::InvalidDefinition) {
        Some(right) => error.with_hint(format!("write {right}")),
        None => error,
    }
}

/// What to do about a dimension, the one at `at`, whose name another one has.
fn other_name(twice: &Dimension, at: usize, dimensions: &[Dimension], columns: &[Column]) -> String {
    const OWN: &str = "give each dimension a name of its own";
    let same = |other: &Dimension| {
        let sources = |of: &Dimension| of.levels.iter().map(|level| level.source.clone()).collect::<Vec<_>>();
        other.name == twice.name
            && other.range == twice.range
            && other.zone == twice.zone
            && sources(other) == sources(twice)
    };
    if dimensions[..at].iter().any(same) {
        return "leave one of them out".to_owned();
    }
    let name = (2..).map(|number| format!("{}_{number}", twice.name));
    let free = name.take(DIMENSIONS_MAX).find(|name| dimensions.iter().all(|other| other.name != *name));
    let renamed = free.map(|name| Dimension { name, ..twice.clone() });
    match renamed.and_then(|renamed| mended(&renamed, columns)) {
        Some(right) => format!("{OWN}: {right}"),
        None => OWN.to_owned(),
    }
}

/// Checks one dimension. Hints are in words, or of what its column's type takes.
pub(crate) fn check(dimension: &Dimension, columns: &[Column]) -> Result<()> {
    let levels = &dimension.levels;
    let Some(first) = levels.first() else { return Err(invalid("it has no levels")) };
    if levels.len() > LEVELS_MAX {
        return Err(invalid(format!("{} levels are too many; a dimension has at most {LEVELS_MAX}", levels.len())));
    }
    let bits: u32 = levels.iter().map(|level| u32::from(level.bits)).sum();
    assert!(bits <= u32::from(AXIS_BITS_MAX), "dimension {} has {bits} bits", dimension.name);
    let mut path = Vec::with_capacity(levels.len());
    for level in levels {
        let id = level.source.column();
        let Some(column) = columns.iter().find(|column| column.id == id) else {
            return Err(Error::internal(format!("level {} is of column {id}, which does not exist", level.name)));
        };
        path.push(column);
    }
    let same_kind = |source: &LevelSource| std::mem::discriminant(source) == std::mem::discriminant(&first.source);
    let derived = !matches!(first.source, LevelSource::Column(_));
    if !levels.iter().all(|level| same_kind(&level.source) && (!derived || level.source.column() == path[0].id)) {
        return Err(invalid("its levels mix columns with parts of a column").with_hint("make them two dimensions"));
    }
    if matches!(first.source, LevelSource::Local(..)) != dimension.zone.is_some() {
        return Err(Error::internal("a zone is what makes time local"));
    }
    match first.source {
        LevelSource::Column(_) => columns_path(dimension, &path),
        LevelSource::Calendar(..) | LevelSource::Local(..) => calendar(dimension, path[0]),
        LevelSource::Halved { .. } => halved(dimension, path[0]),
        LevelSource::Hashed { .. } => {
            named_by_value(path[0])?;
            nested_counts(dimension, HALVINGS_MAX, "bits")?;
            no_range(dimension)
        }
    }?;
    let mut names = HashSet::new();
    match levels.iter().find(|level| level.name.is_empty() || !names.insert(&level.name)) {
        Some(level) => Err(Error::internal(format!("level {:?} has no name of its own", level.name))),
        None => Ok(()),
    }
}

fn columns_path(dimension: &Dimension, path: &[&Column]) -> Result<()> {
    for (at, column) in path.iter().enumerate() {
        if path[..at].iter().any(|above| above.id == column.id) {
            return Err(invalid(format!("column {} is in it twice", column.name))
                .with_hint("name each column once, coarse to fine"));
        }
        named_by_value(column)?;
    }
    no_range(dimension)
}

/// Refuses values that are no names: of intervals and JSON several texts are equal, or none is.
fn named_by_value(column: &Column) -> Result<()> {
    match column.data_type {
        DataType::Json | DataType::Jsonb | DataType::Interval => {
            let message = format!("column {} is {}, which no dimension is made of", column.name, column.sql_type());
            Err(Error::new(ErrorKind::NotSupported, message)
                .with_hint("put what it groups by into a column of its own"))
        }
        _ => Ok(()),
    }
}

fn no_range(dimension: &Dimension) -> Result<()> {
    match dimension.range {
        KeyRange::None => Ok(()),
        _ => Err(Error::internal("names and hashed ids have no range")),
    }
}

fn calendar(dimension: &Dimension, column: &Column) -> Result<()> {
    let name = &column.name;
    let type_name = column.data_type.sql_name();
    if !column.data_type.is_time() {
        return Err(invalid(format!("column {name} is {type_name}, which has no calendar parts")).with_hint(format!(
            "calendar parts are of a DATE or TIMESTAMP; for {name} write {}",
            example_of(&dimension.name, column)
        )));
    }
    if dimension.zone.is_some() && column.data_type != DataType::TimestampTz {
        let message = format!("column {name} is {type_name}, which has no moments that a zone's clocks show");
        return Err(
            invalid(message).with_hint("leave AT TIME ZONE out, or declare the column as TIMESTAMP WITH TIME ZONE")
        );
    }
    let units: Vec<_> = dimension
        .levels
        .iter()
        .filter_map(|level| match level.source {
            LevelSource::Calendar(_, unit) | LevelSource::Local(_, unit) => Some(unit),
            _ => None,
        })
        .collect();
    if let Some(pair) = units.windows(2).find(|pair| pair[0] >= pair[1]) {
        return Err(invalid(format!(
            "{} cannot stand below {}: levels go coarse to fine",
            pair[1].name(),
            pair[0].name()
        ))
        .with_hint("name each part once, coarse to fine"));
    }
    if let Some(unit) = units.iter().find(|unit| unit.name() == "hour" || unit.name() == "minute")
        && column.data_type == DataType::Date
    {
        return Err(invalid(format!("column {name} is a DATE, which has no {}", unit.name()))
            .with_hint(format!("write {}", example_of(&dimension.name, column))));
    }
    match dimension.range {
        KeyRange::Learnt => Ok(()),
        KeyRange::Linear { low, high } => linear(low, high),
        _ => Err(Error::internal("a calendar's range is linear")),
    }
}

/// The levels of a number of which no halvings are written.
pub(crate) fn default_halvings(column: ColumnId) -> [LevelSource; HALVINGS_DEFAULT.len()] {
    HALVINGS_DEFAULT.map(|halvings| LevelSource::Halved { column, halvings })
}

fn halved(dimension: &Dimension, column: &Column) -> Result<()> {
    let name = &column.name;
    if !column.data_type.is_number() {
        let message = format!("column {name} is {}, which cannot be cut in halves", column.data_type.sql_name());
        let example = example_of(&dimension.name, column);
        return Err(invalid(message).with_hint(format!("linear and quantiles are of numbers; write {example}")));
    }
    match &dimension.range {
        KeyRange::Learnt => nested_counts(dimension, HALVINGS_MAX, "halvings").map(drop),
        KeyRange::Linear { low, high } => {
            nested_counts(dimension, HALVINGS_MAX, "halvings")?;
            linear(*low, *high)
        }
        KeyRange::LearntQuantiles => nested_counts(dimension, QUANTILE_HALVINGS_MAX, "halvings").map(drop),
        KeyRange::Quantiles { cuts } => {
            let finest = nested_counts(dimension, QUANTILE_HALVINGS_MAX, "halvings")?;
            let needed = (1usize << finest) - 1;
            let is_default = dimension.levels.iter().map(|level| &level.source).eq(&default_halvings(column.id));
            if cuts.len() != needed && is_default {
                let parts = cuts.len() + 1;
                let of = if parts.is_power_of_two() { parts.ilog2().to_string() } else { "no count of".to_owned() };
                let words = "2^n - 1 cut points are for n halvings; leave them out to learn them from the first rows";
                return Err(
                    invalid(format!("a list of {} cut points is for {of} halvings", cuts.len())).with_hint(words)
                );
            }
            if cuts.len() != needed {
                return Err(invalid(format!("{finest} halvings need {needed} cut points, and it has {}", cuts.len()))
                    .with_hint("leave the cut points out to learn them from the first rows"));
            }
            if !cuts.iter().all(|cut| cut.is_finite()) || !cuts.is_sorted() {
                return Err(
                    invalid("its cut points do not ascend").with_hint("order them from the smallest to the largest")
                );
            }
            Ok(())
        }
        KeyRange::None => Err(Error::internal("a number has a range")),
    }
}

fn linear(low: f64, high: f64) -> Result<()> {
    if low < high && (high - low).is_finite() {
        return Ok(());
    }
    Err(invalid("its range does not end after it begins").with_hint("give the lower end first, or leave the range out"))
}

/// Halvings or bits ascend; returns the finest.
fn nested_counts(dimension: &Dimension, most: u8, what: &str) -> Result<u8> {
    let mut above = 0;
    for level in &dimension.levels {
        let (LevelSource::Halved { halvings: count, .. } | LevelSource::Hashed { bits: count, .. }) = level.source
        else {
            continue;
        };
        if count > most {
            return Err(invalid(format!("{count} {what} are too many; the most is {most}"))
                .with_hint(format!("give at most {most}")));
        }
        if count <= above {
            return Err(invalid(format!("{count} {what} cannot stand below {above}: levels go coarse to fine"))
                .with_hint(format!("let {what} ascend")));
        }
        above = count;
    }
    Ok(above)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidDefinition, message)
}
