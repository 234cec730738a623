//! The time zone of a statement's session, as functions and rules find it.
//!
//! Invariant: it is what `execution.time_zone` of the statement's options names, and UTC where that is nothing that can be read: sessions
//! set no other.

use alluvia_space::ZoneRules;
use alluvia_values::time_zone::Zone;
use datafusion_common::config::ConfigOptions;

/// The time zone of the session.
pub fn session_zone(options: &ConfigOptions) -> Zone {
    match options.execution.time_zone.as_deref() {
        None | Some("UTC" | "+00:00") => Zone::utc(),
        Some(name) => Zone::of_setting(name).unwrap_or_default(),
    }
}

/// The rules of the zone that functions know by a name; `None` if they know none, or it has no list of them.
pub fn rules_of(name: &str) -> Option<ZoneRules> {
    Zone::of_statement(name).ok()?.rules().ok()
}
