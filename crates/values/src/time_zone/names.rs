//! Names of the database of time zones, in any case, as PostgreSQL reads them.

use chrono_tz::{TZ_VARIANTS, Tz};
use std::collections::HashMap;
use std::sync::LazyLock;

static BY_NAME: LazyLock<HashMap<String, Tz>> =
    LazyLock::new(|| TZ_VARIANTS.iter().map(|zone| (zone.name().to_ascii_lowercase(), *zone)).collect());

/// The name as the database spells it, and its zone.
pub(super) fn find(name: &str) -> Option<(&'static str, Tz)> {
    let zone = *BY_NAME.get(&name.to_ascii_lowercase())?;
    Some((zone.name(), zone))
}

/// Every name, as the database spells it.
pub fn all() -> impl Iterator<Item = &'static str> {
    TZ_VARIANTS.iter().map(|zone| zone.name())
}

/// Whether a zone is UTC by one of its names.
pub(super) fn is_utc(zone: Tz) -> bool {
    let name = zone.name();
    let name = name.strip_prefix("Etc/").unwrap_or(name);
    matches!(name, "UTC" | "UCT" | "Universal" | "Zulu" | "GMT" | "GMT0" | "GMT+0" | "GMT-0" | "Greenwich")
}
