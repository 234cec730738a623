//! Zones as PostgreSQL has them, and against the database of time zones.

use super::*;
use crate::parse::Bad;
use chrono::{LocalResult, NaiveDateTime};
use proptest::prelude::*;

/// 2026-03-29 01:00 UTC, when clocks of Berlin go from 2 to 3.
const SPRING: i64 = 1_774_746_000 * SECOND;
/// 2026-10-25 01:00 UTC, when they go from 3 back to 2.
const AUTUMN: i64 = 1_792_890_000 * SECOND;
const HOUR: i64 = 3_600 * SECOND;

fn zone(text: &str) -> Zone {
    Zone::of_setting(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn clocks_that_go_forward_and_back_are_read_as_postgresql_reads_them() {
    let berlin = zone("europe/berlin");
    assert_eq!(berlin.shown_at(SPRING - 1), Some(SPRING + HOUR - 1));
    assert_eq!(berlin.shown_at(SPRING), Some(SPRING + 2 * HOUR));
    // 02:30 is never shown, and read as half an hour behind the change.
    assert_eq!(berlin.moment_of(SPRING + HOUR + HOUR / 2), Some(SPRING + HOUR / 2));
    assert_eq!(berlin.moment_of(SPRING + 2 * HOUR), Some(SPRING));
    // 02:30 is shown twice, and read as winter time.
    assert_eq!(berlin.moment_of(AUTUMN + HOUR + HOUR / 2), Some(AUTUMN + HOUR / 2));
    assert_eq!(berlin.moment_of(AUTUMN + HOUR - 1), Some(AUTUMN - HOUR - 1));
    assert_eq!(berlin.shown_at(i64::MAX), None);
}

/// As PostgreSQL 15 names them, with their offset at 2026-07-01.
#[test]
fn settings_name_zones_as_postgresql_does() {
    const SUMMER: i64 = 1_782_864_000 * SECOND;
    for (text, name, minutes) in [
        ("+02", "<+02>-02", 120),
        ("+02:00", "+02:00", -120),
        ("-3.5", "<-03:30>+03:30", -210),
        ("5", "<+05>-05", 300),
        ("EST5EDT,M3.2.0,M11.1.0", "EST5EDT,M3.2.0,M11.1.0", -240),
        ("<+05>-5", "<+05>-5", 300),
        ("europe/berlin", "Europe/Berlin", 120),
        ("us/pacific", "US/Pacific", -420),
        ("INTERVAL '+02:00'", "<+02>-02", 120),
        ("interval '-03:30' HOUR TO MINUTE", "<-03:30>+03:30", -210),
        ("INTERVAL '+00:00' HOUR TO MINUTE", "<+00>-00", 0),
        ("utc", "UTC", 0),
        ("UTC+3", "UTC+3", -180),
        ("EST", "EST", -300),
        ("PST8PDT", "PST8PDT", -420),
        ("gmt", "GMT", 0),
        ("Etc/GMT+5", "Etc/GMT+5", -300),
        ("+24", "<+24>-24", 1_440),
        ("cet", "CET", 120),
        ("Asia/Calcutta", "Asia/Calcutta", 330),
        ("Asia/Saigon", "Asia/Saigon", 420),
        ("Europe/Kiev", "Europe/Kiev", 180),
        ("America/Buenos_Aires", "America/Buenos_Aires", -180),
        ("utc0", "UTC0", 0),
        ("interval '36 hours'", "<+36>-36", 2_160),
    ] {
        let zone = zone(text);
        assert_eq!((zone.name(), zone.offset_at(SUMMER)), (name, minutes * 60), "{text}");
        // What SHOW prints is the same zone.
        let again = Zone::named(name).expect("a zone").expect("a zone");
        assert_eq!(again.offset_at(SUMMER), minutes * 60, "{name}");
    }
    for text in ["ABC", "Foo/Bar", "interval '1 month'", "interval '1 day'", "200", "CEST", "", "-02:30:15", "a b"] {
        let error = Zone::of_setting(text).expect_err(text);
        assert_eq!(error.kind(), ErrorKind::InvalidSetting, "{error}");
    }
    assert!(["UTC", "utc", "GMT", "Etc/UTC", "Zulu", "0", "UTC0"].iter().all(|text| zone(text).is_utc()));
    assert!(!zone("Europe/London").is_utc());
}

#[test]
fn statements_know_abbreviations_too() {
    let offset = |text: &str, moment| Zone::of_statement(text).map(|zone| zone.offset_at(moment) / 60).ok();
    for (text, minutes) in
        [("PST", -480), ("pdt", -420), ("CET", 60), ("CEST", 120), ("MSK", 180), ("Z", 0), ("IST", 120), ("5", -300)]
    {
        assert_eq!(offset(text, SPRING + 90 * DAY), Some(minutes), "{text}");
    }
    assert_eq!(offset("Europe/Atlantis", 0), None);
}

#[test]
fn a_sessions_zone_is_itself_as_an_argument() {
    const SUMMER: i64 = 1_782_864_000 * SECOND;
    for name in ["CET", "MET", "EET", "WET", "EST", "Europe/Berlin", "2.5", "EST5EDT,M3.2.0,M11.1.0", "Etc/UTC"] {
        let of = zone(name);
        let again = Zone::of_statement(&of.argument()).expect("a zone");
        for moment in [SUMMER, SUMMER + 180 * DAY] {
            assert_eq!((&again, again.offset_at(moment)), (&of, of.offset_at(moment)), "{name}");
        }
    }
    // What a statement writes is the abbreviation.
    assert_ne!(Zone::of_statement("CET").expect("a zone").offset_at(SUMMER), zone("CET").offset_at(SUMMER));
    assert_eq!(zone("Europe/Berlin").argument(), "Europe/Berlin");
}

#[test]
fn texts_are_moments_of_their_zone_or_of_the_sessions() {
    let kolkata = zone("Asia/Kolkata");
    let read = |text: &str| parse_timestamptz(text.as_bytes(), &kolkata);
    let midnight = Ok(1_767_225_600 * SECOND);
    for text in [
        "2026-01-01 05:30",
        "2026-01-01T05:30:00",
        "2026-01-01 00:00:00Z",
        "2026-01-01 00:00:00+00",
        "2026-01-01 02:00 +2",
        "2025-12-31 16:00 PST",
        "2025-12-31 19:00 EST",
        "2026-01-01 02:00:00 CEST",
        "2026-01-01 01:00 Europe/Berlin",
        "2026-01-01 05:30+0530",
        "2026-01-01 00:53:28+00:53:28",
    ] {
        assert_eq!(read(text), midnight, "{text}");
    }
    assert_eq!(read("2026-01-01"), Ok((1_767_225_600 - 19_800) * SECOND));
    assert_eq!(read("2026-01-01 +02"), Ok((1_767_225_600 - 7_200) * SECOND));
    for text in ["2026-01-01 10:00 XYZZY", "2026-01-01 10:00 +", "yesterday", "2026-01-01 10:00+1:2:3:4"] {
        assert_eq!(read(text), Err(Bad::Form), "{text}");
    }
    assert_eq!(read("2026-01-01 10:00+16"), Err(Bad::Range));
    // pgjdbc's dates.
    assert_eq!(parse_timestamp_without_zone(b"2020-06-01 +02"), Ok(1_590_969_600 * SECOND));
    assert_eq!(parse_date_in_zone(b"2020-06-01 +02"), Ok(18_414));
    assert_eq!(parse_date_in_zone(b"2020-06-01 23:00-05"), Ok(18_414));
}

#[test]
fn summer_times_of_posix_are_those_that_are_written() {
    let (written, named) = (zone("XXX5YYY,M3.2.0,M11.1.0"), zone("America/New_York"));
    // From 2007 on.
    for hours in 0..20 * 8_766 {
        let moment = (1_167_609_600 + hours * 3_600) * SECOND;
        assert_eq!(written.offset_at(moment), named.offset_at(moment), "{moment}");
    }
    // South of the equator the summer is at the turn of the year.
    let (written, named) = (zone("AEST-10AEDT,M10.1.0,M4.1.0/3"), zone("Australia/Sydney"));
    for hours in 0..10 * 8_766 {
        let moment = (1_230_768_000 + hours * 3_600) * SECOND;
        assert_eq!(written.offset_at(moment), named.offset_at(moment), "{moment}");
    }
    assert_eq!(written.clock_at(SPRING).abbreviation, "AEDT");
    let julian = zone("AAA0BBB,J60,300/1:30");
    assert_eq!((julian.offset_at(0), julian.clock_at(0).abbreviation), (0, "AAA".to_owned()));
}

fn changes_of(zone: Tz) -> impl Strategy<Value = i64> {
    // Hours of a hundred years; about a change the property looks closer.
    (0_i64..100 * 8_766).prop_map(move |hour| {
        let at = |moment: i64| {
            let utc = DateTime::from_timestamp_micros(moment).expect("a moment").naive_utc();
            zone.offset_from_utc_datetime(&utc).fix().local_minus_utc()
        };
        let start = (hour - 40 * 8_766) * HOUR;
        (0..9_000).map(|step| start + step * HOUR).find(|&moment| at(moment) != at(moment + HOUR)).unwrap_or(start)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn times_that_are_shown_are_those_of_the_database(
        (zone, change) in prop::sample::select(chrono_tz::TZ_VARIANTS.to_vec())
            .prop_flat_map(|zone| (Just(zone), changes_of(zone))),
        seconds in -100_000_i64..100_000,
    ) {
        let ours = Zone::of_setting(zone.name()).expect("a zone");
        let moment = change + seconds * SECOND;
        let utc = DateTime::from_timestamp_micros(moment).expect("a moment").naive_utc();
        let shown = utc + chrono::Duration::seconds(zone.offset_from_utc_datetime(&utc).fix().local_minus_utc().into());
        let micros = |time: NaiveDateTime| time.and_utc().timestamp_micros();
        prop_assert_eq!(ours.shown_at(moment), Some(micros(shown)));
        // Any time, shown or not, as chrono has it.
        let time = utc;
        let read = ours.moment_of(micros(time));
        match zone.from_local_datetime(&time) {
            LocalResult::Single(only) => prop_assert_eq!(read, Some(only.timestamp_micros())),
            LocalResult::Ambiguous(_, later) => prop_assert_eq!(read, Some(later.timestamp_micros())),
            LocalResult::None => {
                let before = ours.offset_at(micros(time) - DAY);
                prop_assert_eq!(read, Some(micros(time) - before * SECOND));
            }
        }
    }

    /// Around changes, where it may fail.
    #[test]
    fn what_is_shown_from_a_time_on_begins_at_a_moment(
        (zone, change) in prop::sample::select(chrono_tz::TZ_VARIANTS.to_vec())
            .prop_flat_map(|zone| (Just(zone), changes_of(zone))),
        minutes in -3_000_i64..3_000,
        midnight: bool,
    ) {
        let zone = Zone::of_setting(zone.name()).expect("a zone");
        let time = zone.shown_at(change + minutes * 60 * SECOND).expect("a time");
        let time = if midnight { time.div_euclid(DAY) * DAY } else { time };
        if let Some(begin) = zone.begins(time) {
            for moment in (-3_000..3_000).map(|minutes| begin + minutes * 60 * SECOND).chain([begin - 1]) {
                let shown = zone.shown_at(moment).expect("a time");
                prop_assert_eq!(shown >= time, moment >= begin, "{} {} {}", zone.name(), begin, moment);
            }
        }
    }

    #[test]
    fn a_moment_is_read_back_as_it_is_written(moment in -60_000_000_000_i64..60_000_000_000, of in 0_usize..600) {
        let zone = chrono_tz::TZ_VARIANTS[of % chrono_tz::TZ_VARIANTS.len()];
        let zone = Zone::of_setting(zone.name()).expect("a zone");
        let mut text = String::new();
        let moment = moment * SECOND;
        crate::text::write_timestamptz(&mut text, moment, &zone).expect("a String takes every text");
        // Also of a time that is shown twice: the offset is written.
        prop_assert_eq!(parse_timestamptz(text.as_bytes(), &Zone::utc()), Ok(moment), "{}", text);
    }
}
