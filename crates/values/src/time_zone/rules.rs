//! The rules of a zone, as definitions of tables keep them.
//!
//! Invariants:
//! - By its rules a zone's clocks show at each moment what [`Zone::shown_at`] says.
//! - They are a list of changes, which has an end: a zone whose rules go on for ever (POSIX' form, with summer time) has none.

use super::{DAY, Rules, SECOND, Zone, names};
use alluvia_space::ZoneRules;
use alluvia_types::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};

/// Before the year 1800 no zone of the database has changed, and from the year 2110 on none is known to.
const FIRST: i64 = -62_091 * DAY;
const LAST: i64 = 51_134 * DAY;

/// Rules by name: a zone's changes are looked for once.
static KNOWN: LazyLock<HashMap<&str, OnceLock<ZoneRules>>> =
    LazyLock::new(|| names::all().map(|name| (name, OnceLock::new())).collect());

/// The rules of the zone that a declaration of a table names, as `AT TIME ZONE` names it; `None` of UTC.
pub fn declared_rules(name: &str) -> Result<Option<ZoneRules>> {
    let zone = Zone::of_statement(name)?;
    if zone.is_utc() { Ok(None) } else { zone.rules().map(Some) }
}

impl Zone {
    /// Its rules.
    pub fn rules(&self) -> Result<ZoneRules> {
        match &self.0.rules {
            Rules::Fixed(offset) => ZoneRules::new(self.name().to_owned(), seconds(*offset)?, &[]),
            Rules::Database(_) => {
                let Some(known) = KNOWN.get(self.name()) else { return self.made() };
                if let Some(rules) = known.get() {
                    return Ok(rules.clone());
                }
                let made = self.made()?;
                Ok(known.get_or_init(|| made).clone())
            }
            Rules::Posix(_) => {
                let message = format!("time zone \"{}\" changes its clocks for ever", self.name());
                Err(Error::new(ErrorKind::NotSupported, message)
                    .with_hint("name a zone of the database of time zones, as in America/New_York"))
            }
        }
    }

    fn made(&self) -> Result<ZoneRules> {
        let first = self.offset_at(FIRST);
        let (mut at, mut offset) = (FIRST, first);
        let mut changes = Vec::new();
        while at < LAST {
            // No two changes are within two days of one another.
            let next = at + DAY;
            match self.change_between(at, next, offset) {
                Some(change) => {
                    offset = self.offset_at(change);
                    changes.push((change.div_euclid(SECOND), seconds(offset)?));
                    at = change;
                }
                None => at = next,
            }
        }
        ZoneRules::new(self.name().to_owned(), seconds(first)?, &changes)
    }
}

fn seconds(offset: i64) -> Result<i32> {
    i32::try_from(offset).map_err(|_| Error::internal("an offset of a time zone is more than a week"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ZONES: [&str; 12] = [
        "Europe/Berlin",
        "America/New_York",
        "America/St_Johns",
        "America/Juneau",
        "Australia/Lord_Howe",
        "Pacific/Apia",
        "Pacific/Kwajalein",
        "Africa/Casablanca",
        "Asia/Manila",
        "Antarctica/Troll",
        "UTC",
        "-3.5",
    ];

    fn rules_of(name: &str) -> (Zone, ZoneRules) {
        let zone = Zone::of_setting(name).unwrap();
        let rules = zone.rules().unwrap();
        (zone, rules)
    }

    #[test]
    fn a_definition_keeps_them_in_seconds() {
        let rules =
            ZoneRules::new("Somewhere".to_owned(), 3_208, &[(-2_422_054_408, 3_600), (-1_693_706_400, 7_200)]).unwrap();
        let text = serde_json::to_string(&rules).unwrap();
        assert_eq!(text, r#"{"name":"Somewhere","offset":3208,"changes":[[-2422054408,3600],[-1693706400,7200]]}"#);
        assert_eq!(serde_json::from_str::<ZoneRules>(&text).unwrap(), rules);
        let fixed: ZoneRules = serde_json::from_str(r#"{"name":"<+02>-02","offset":7200}"#).unwrap();
        assert!(!fixed.has_changes() && fixed.offset_at(0) == 7_200 * SECOND);
        assert!(serde_json::from_str::<ZoneRules>(r#"{"name":"z","offset":0,"changes":[[5,0],[4,0]]}"#).is_err());
    }

    #[test]
    fn a_zone_without_an_end_of_changes_has_no_rules() {
        let error = Zone::of_setting("EST5EDT,M3.2.0,M11.1.0").unwrap().rules().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotSupported);
        assert!(Zone::of_setting("EST5").unwrap().rules().is_ok_and(|rules| !rules.has_changes()));
    }

    #[test]
    fn names_of_one_place_have_the_same_rules() {
        let of = |name: &str| rules_of(name).1;
        assert!(of("Asia/Calcutta").is_same(&of("asia/kolkata")) && of("UTC").is_same(&of("Etc/UTC")));
        assert!(!of("Europe/Berlin").is_same(&of("Europe/London")));
    }

    proptest! {
        #[test]
        fn rules_say_what_the_database_says(
            name in prop::sample::select(ZONES.to_vec()),
            far in any::<i64>(),
            near in -6_000_000_000_000_000i64..5_000_000_000_000_000,
            change in any::<prop::sample::Index>(),
            beside in -200_000_000_000i64..200_000_000_000,
        ) {
            let (zone, rules) = rules_of(name);
            let stored = serde_json::to_value(&rules).unwrap();
            let changes: Vec<i64> = match stored["changes"].as_array() {
                Some(changes) => changes.iter().map(|change| change[0].as_i64().unwrap() * SECOND).collect(),
                None => vec![0],
            };
            let change = *change.get(&changes);
            for moment in [far, near, change, change - 1, change + beside] {
                prop_assert_eq!(rules.offset_at(moment), zone.offset_at(moment) * SECOND, "{} {}", name, moment);
                prop_assert_eq!(rules.moment_of(moment), zone.moment_of(moment), "{} {}", name, moment);
                if let Some(shown) = zone.shown_at(moment) {
                    prop_assert_eq!(rules.shown_at(moment), shown);
                }
            }
        }
    }
}
