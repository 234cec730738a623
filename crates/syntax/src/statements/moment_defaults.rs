//! Moments that defaults write without an offset: they are of the time zone of who declares them, as in PostgreSQL.
//!
//! Invariants:
//! - What is kept has an offset, so that it is the same moment in every session; what has one already is kept as it was written.
//! - A bare text for a TIMESTAMPTZ column that is kept without an offset is of UTC: so are those that were declared before.

use crate::statements::parse::syntax;
use crate::trees::visit::visit_mut;
use crate::{grammar::Grammar, tokens::depth};
use alluvia_space::{ColumnDefault, DataType, TableDef};
use alluvia_types::{ColumnId, Result};
use alluvia_values::text::write_timestamptz;
use alluvia_values::time_zone::{Zone, parse_timestamptz};
use sqlparser::ast::{self, Expr, TimezoneInfo, TypedString, Value, VisitorMut};
use sqlparser::parser::Parser;
use std::ops::ControlFlow;

/// Gives moments in the defaults of these columns the offset that clocks of a zone have at them.
pub fn fix_moments(def: &mut TableDef, columns: &[ColumnId], zone: &Zone) -> Result<()> {
    let of = |id: ColumnId| def.columns.iter().find(|column| column.id == id).map(|column| column.data_type);
    let mut defaults = def.rules.defaults.clone();
    for ColumnDefault { column, sql } in defaults.iter_mut().filter(|default| columns.contains(&default.column)) {
        if let Some(fixed) = fixed(sql, of(*column) == Some(DataType::TimestampTz), zone)? {
            *sql = fixed;
        }
    }
    def.rules.defaults = defaults;
    Ok(())
}

/// The expression with offsets; `None` where it has no moment that lacks one.
fn fixed(sql: &str, is_moment: bool, zone: &Zone) -> Result<Option<String>> {
    let grammar = Grammar::for_tokens(sql.len());
    let mut expr = Parser::new(&grammar)
        .with_recursion_limit(depth::DEPTH_MAX)
        .try_with_sql(sql)
        .and_then(|mut parser| parser.parse_expr())
        .map_err(syntax)?;
    let mut offsets = Offsets { zone, is_changed: false };
    if is_moment && !zone.is_utc() {
        offsets.fix(&mut expr);
    }
    let _ = visit_mut(&mut expr, &mut offsets);
    Ok(offsets.is_changed.then(|| expr.to_string()))
}

/// Writes offsets behind texts that are cast to TIMESTAMPTZ.
struct Offsets<'a> {
    zone: &'a Zone,
    is_changed: bool,
}

impl Offsets<'_> {
    fn fix(&mut self, expr: &mut Expr) {
        match expr {
            Expr::Nested(inner) => self.fix(inner),
            Expr::Value(value) => self.fix_value(&mut value.value),
            _ => {}
        }
    }

    fn fix_value(&mut self, value: &mut Value) {
        if let Value::SingleQuotedString(text) = value
            && let Some(fixed) = with_offset(text, self.zone)
        {
            *text = fixed;
            self.is_changed = true;
        }
    }
}

impl VisitorMut for Offsets<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Cast { expr: of, data_type, .. } if is_moment(data_type) => self.fix(of),
            Expr::TypedString(TypedString { data_type, value, .. }) if is_moment(data_type) => {
                self.fix_value(&mut value.value);
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_moment(data_type: &ast::DataType) -> bool {
    matches!(data_type, ast::DataType::Timestamp(None, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz))
}

/// A moment without an offset, with it; `None` of one that has an offset or a zone, and of what is no moment.
fn with_offset(text: &str, zone: &Zone) -> Option<String> {
    let moment = parse_timestamptz(text.as_bytes(), zone).ok()?;
    // What says its zone is the same moment wherever it is read.
    let elsewhere = Zone::of_setting(if zone.offset_at(moment) == 0 { "-1" } else { "UTC" }).ok()?;
    if parse_timestamptz(text.as_bytes(), &elsewhere).ok() == Some(moment) {
        return None;
    }
    let mut fixed = String::new();
    write_timestamptz(&mut fixed, moment, zone).ok()?;
    Some(fixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_get_the_offset_of_their_zone() {
        let berlin = Zone::of_setting("Europe/Berlin").unwrap();
        let fixed_in = |zone: &Zone, sql: &str| fixed(sql, true, zone).unwrap();
        for (sql, expected) in [
            ("'2026-07-01'", "'2026-07-01 00:00:00+02'"),
            ("('2026-01-01 10:00')", "('2026-01-01 10:00:00+01')"),
            ("'2026-01-01 10:00'::TIMESTAMPTZ", "'2026-01-01 10:00:00+01'::TIMESTAMPTZ"),
            (
                "TIMESTAMP WITH TIME ZONE '2026-01-01' + INTERVAL '1 day'",
                "TIMESTAMP WITH TIME ZONE '2026-01-01 00:00:00+01' + INTERVAL '1 day'",
            ),
        ] {
            assert_eq!(fixed_in(&berlin, sql).as_deref(), Some(expected));
        }
        for sql in [
            "'2026-07-01 00:00+02'",
            "'2026-07-01 00:00Z'",
            "'2026-07-01 00:00 America/New_York'",
            "'now'",
            "now()",
            "'2026-07-01'::DATE",
            "TIMESTAMP '2026-07-01 00:00'",
        ] {
            assert_eq!(fixed_in(&berlin, sql), None, "{sql}");
        }
        // A bare text is of UTC as it is kept; one that is cast is read in the zone of whoever inserts.
        let utc = Zone::utc();
        assert_eq!(fixed_in(&utc, "'2026-07-01'"), None);
        assert_eq!(
            fixed_in(&utc, "'2026-07-01'::timestamptz").as_deref(),
            Some("'2026-07-01 00:00:00+00'::TIMESTAMPTZ")
        );
        // Of another column a text stays what it is.
        assert_eq!(fixed("'2026-07-01'", false, &berlin).unwrap(), None);
    }
}
