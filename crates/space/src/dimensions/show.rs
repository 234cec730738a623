//! Dimensions, written as `parse` reads them.

use super::when;
use crate::keywords::quoted_for_letters;
use crate::schema::{Column, DataType, Dimension, KeyRange, LevelSource};
use alluvia_types::ColumnId;

/// The declaration that makes these dimensions.
pub fn show(dimensions: &[Dimension], columns: &[Column]) -> String {
    dimensions.iter().map(|dimension| show_one(dimension, columns)).collect::<Vec<_>>().join("; ")
}

/// Names of columns as SQL writes them, separated by commas.
pub fn show_names(ids: &[ColumnId], columns: &[Column]) -> String {
    ids.iter().map(|&id| column_name(id, columns)).collect::<Vec<_>>().join(", ")
}

fn show_one(dimension: &Dimension, columns: &[Column]) -> String {
    let name = quoted_for_letters(&dimension.name);
    let parts = dimension.levels.iter().map(|level| match level.source {
        LevelSource::Column(column) => column_name(column, columns),
        LevelSource::Calendar(_, unit) | LevelSource::Local(_, unit) => unit.name().to_owned(),
        LevelSource::Halved { halvings: parts, .. } | LevelSource::Hashed { bits: parts, .. } => parts.to_string(),
    });
    let parts = parts.collect::<Vec<_>>().join(", ");
    let Some(first) = dimension.levels.first() else { return name };
    let column = columns.iter().find(|column| column.id == first.source.column());
    let column_name = column.map_or_else(String::new, |column| quoted_for_letters(&column.name));
    match first.source {
        LevelSource::Column(_) if dimension.levels.len() == 1 && column_name == name => name,
        LevelSource::Column(_) => format!("{name}({parts})"),
        LevelSource::Calendar(..) | LevelSource::Local(..) => {
            let in_days = column.is_some_and(|column| column.data_type == DataType::Date);
            let moment = |at: f64| when::show(if in_days { at * 86_400e6 } else { at } as i64);
            let span = match dimension.range {
                KeyRange::Linear { low, high } => format!(" from {} to {}", moment(low), moment(high)),
                _ => String::new(),
            };
            let zone = dimension.zone.as_ref().map_or_else(String::new, |zone| zone_clause(zone.name()));
            format!("{name}({column_name}{zone}: {parts}{span})")
        }
        LevelSource::Hashed { .. } => format!("{name}({column_name}: hash {parts})"),
        LevelSource::Halved { .. } => {
            let range = match &dimension.range {
                KeyRange::Linear { low, high } => format!("linear {}..{}", number(*low), number(*high)),
                KeyRange::Quantiles { cuts } => {
                    format!("quantiles ({})", cuts.iter().map(|&cut| number(cut)).collect::<Vec<_>>().join(", "))
                }
                KeyRange::LearntQuantiles => "quantiles".into(),
                KeyRange::None | KeyRange::Learnt => "linear".into(),
            };
            format!("{name}({column_name}: {range}, {parts})")
        }
    }
}

/// ` AT TIME ZONE Europe/Berlin`: in quotes where there is more to a name than words, as of an offset.
fn zone_clause(name: &str) -> String {
    if is_plain_zone(name) {
        return format!(" AT TIME ZONE {name}");
    }
    format!(" AT TIME ZONE '{}'", name.replace('\'', "''"))
}

/// Whether a zone's name needs no quotes.
fn is_plain_zone(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+');
    name.starts_with(|first: char| first.is_ascii_alphabetic()) && name.chars().all(is_plain)
}

fn column_name(id: ColumnId, columns: &[Column]) -> String {
    columns.iter().find(|column| column.id == id).map_or_else(String::new, |column| quoted_for_letters(&column.name))
}

/// A number as short as it reads back exactly.
pub(crate) fn number(number: f64) -> String {
    let size = number.abs();
    if size == 0.0 || (1e-5..1e16).contains(&size) { format!("{number}") } else { format!("{number:e}") }
}
