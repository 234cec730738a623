//! `pg_timezone_names` and `pg_timezone_abbrevs`: what a session can name, of the database of time zones that all of it goes by.
//!
//! Invariant: offsets are those of the moment at which the statement begins, as `now()` has it.

use crate::tables::{Row, Value, row};
use alluvia_catalog::PG_CATALOG;
use alluvia_values::time_zone::{Zone, all_abbreviations, all_names};
use datafusion::catalog::Session;

const NAMES: &str = "pg_timezone_names";
const ABBREVIATIONS: &str = "pg_timezone_abbrevs";

/// Whether a table is one of them.
pub(super) fn is_of_zones(schema: &str, table: &str) -> bool {
    schema == PG_CATALOG && matches!(table, NAMES | ABBREVIATIONS)
}

/// The rows of one of them.
pub(super) fn rows(table: &str, session: &dyn Session) -> Vec<Row> {
    let begun = session.execution_props().query_execution_start_time;
    let moment = begun.map_or(0, |begun| begun.timestamp_micros());
    if table == ABBREVIATIONS { abbreviations(moment) } else { names(moment) }
}

fn names(moment: i64) -> Vec<Row> {
    let row = |name: &'static str| {
        let clock = Zone::of_setting(name).ok()?.clock_at(moment);
        Some(
            row! { name: name, abbrev: clock.abbreviation, utc_offset: Value::Span(clock.offset), is_dst: clock.is_summer },
        )
    };
    all_names().filter_map(row).collect()
}

fn abbreviations(moment: i64) -> Vec<Row> {
    let row = |(abbreviation, offset, is_summer): (String, i64, bool)| {
        row! { abbrev: abbreviation, utc_offset: Value::Span(offset), is_dst: is_summer }
    };
    all_abbreviations(moment).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_those_of_a_moment() {
        let of = |moment: i64| {
            let rows = names(moment);
            let row = rows.into_iter().find(|row| matches!(&row["name"], Value::Text(name) if name == "Europe/Berlin"));
            format!("{:?}", row.expect("a zone"))
        };
        // January and July 2026.
        let (winter, summer) = (of(1_767_225_600_000_000), of(1_782_864_000_000_000));
        assert!(
            winter.contains("\"CET\"") && winter.contains("Span(3600)") && winter.contains("Bool(false)"),
            "{winter}"
        );
        assert!(summer.contains("CEST") && summer.contains("Span(7200)") && summer.contains("Bool(true)"), "{summer}");
        assert!(abbreviations(0).len() > 100 && names(0).len() > 400);
    }
}
