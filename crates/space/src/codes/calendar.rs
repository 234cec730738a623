//! Calendar levels: dates and timestamps counted in years, quarters, months, days, hours or minutes since 1970.
//!
//! Invariants:
//! - A code is `1 + 2^31 + units since 1970`, so order is kept and neighbours in time are neighbours in code.
//! - Units past the ends of that (minutes before the year -2113 or after 6053, hours 245,000 years away) share the first or the
//!   last code, so the order is kept there too.
//! - The calendar is proleptic Gregorian; time zones play no part, as storage is UTC.

use crate::schema::CalendarUnit;
use std::fmt::Write;

/// Microseconds of a day.
pub const MICROS_PER_DAY: i64 = 86_400_000_000;
const MICROS_PER_HOUR: i64 = 3_600_000_000;
const MICROS_PER_MINUTE: i64 = 60_000_000;
/// The code of the unit that begins with 1970.
const EPOCH_CODE: i64 = 1 + (1 << 31);

/// Year, month and day of a day counted from 1970-01-01.
pub fn civil(days: i64) -> (i64, u32, u32) {
    // Eras of 400 years that begin on the first of March, so that leap days come last (Hinnant, chrono-compatible dates).
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097) as u32;
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + i64::from(year_of_era) + i64::from(month <= 2), month, day)
}

/// The day, counted from 1970-01-01, of a date of the calendar.
pub fn days_of(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = i64::from((153 * ((month + 9) % 12) + 2) / 5 + day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// Units since 1970 at the start of a day.
pub fn units_of_day(days: i64, unit: CalendarUnit) -> i64 {
    match unit {
        CalendarUnit::Year => civil(days).0 - 1970,
        CalendarUnit::Quarter => months(days).div_euclid(3),
        CalendarUnit::Month => months(days),
        CalendarUnit::Day => days,
        CalendarUnit::Hour => days * 24,
        CalendarUnit::Minute => days * 1440,
    }
}

fn months(days: i64) -> i64 {
    let (year, month, _) = civil(days);
    (year - 1970) * 12 + i64::from(month) - 1
}

/// Units since 1970 at a moment in microseconds.
pub fn units_of_micros(micros: i64, unit: CalendarUnit) -> i64 {
    match unit {
        CalendarUnit::Hour => micros.div_euclid(MICROS_PER_HOUR),
        CalendarUnit::Minute => micros.div_euclid(MICROS_PER_MINUTE),
        _ => units_of_day(micros.div_euclid(MICROS_PER_DAY), unit),
    }
}

/// The first moment, in microseconds, of a unit counted from 1970; clamped to what an `i64` holds.
pub fn start_micros(units: i64, unit: CalendarUnit) -> i64 {
    match unit {
        CalendarUnit::Hour => units.saturating_mul(MICROS_PER_HOUR),
        CalendarUnit::Minute => units.saturating_mul(MICROS_PER_MINUTE),
        _ => start_day(units, unit).saturating_mul(MICROS_PER_DAY),
    }
}

/// The first day of a unit counted from 1970; an hour or minute gives the day it is in.
pub fn start_day(units: i64, unit: CalendarUnit) -> i64 {
    match unit {
        CalendarUnit::Year => days_of(1970 + units, 1, 1),
        CalendarUnit::Quarter => start_day(units * 3, CalendarUnit::Month),
        CalendarUnit::Month => days_of(1970 + units.div_euclid(12), units.rem_euclid(12) as u32 + 1, 1),
        CalendarUnit::Day => units,
        CalendarUnit::Hour => units.div_euclid(24),
        CalendarUnit::Minute => units.div_euclid(1440),
    }
}

/// A moment truncated to the start of its unit.
pub fn truncate_micros(micros: i64, unit: CalendarUnit) -> i64 {
    start_micros(units_of_micros(micros, unit), unit)
}

/// A day truncated to the first day of its unit.
pub fn truncate_day(days: i64, unit: CalendarUnit) -> i64 {
    start_day(units_of_day(days, unit), unit)
}

/// The code of a unit counted from 1970.
#[inline]
pub fn code_of_units(units: i64) -> u32 {
    (units + EPOCH_CODE).clamp(1, i64::from(u32::MAX)) as u32
}

/// The unit of a code, counted from 1970. Code 0 is NULL and has none.
pub fn units_of_code(code: u32) -> Option<i64> {
    (code != 0).then(|| i64::from(code) - EPOCH_CODE)
}

/// The code of a moment in microseconds.
pub fn code_of_micros(micros: i64, unit: CalendarUnit) -> u32 {
    code_of_units(units_of_micros(micros, unit))
}

/// The code of a day.
pub fn code_of_day(days: i64, unit: CalendarUnit) -> u32 {
    code_of_units(units_of_day(days, unit))
}

/// How a unit reads: `2026`, `2026-Q4`, `2026-11`, `2026-11-21`, `2026-11-21 10:00`.
pub fn display(units: i64, unit: CalendarUnit) -> String {
    let (year, month, day) = civil(start_day(units, unit));
    let mut text = String::with_capacity(16);
    // Writing to a String cannot fail.
    let _ = match unit {
        CalendarUnit::Year => write!(text, "{year:04}"),
        CalendarUnit::Quarter => write!(text, "{year:04}-Q{}", (month - 1) / 3 + 1),
        CalendarUnit::Month => write!(text, "{year:04}-{month:02}"),
        CalendarUnit::Day => write!(text, "{year:04}-{month:02}-{day:02}"),
        CalendarUnit::Hour => write!(text, "{year:04}-{month:02}-{day:02} {:02}:00", units.rem_euclid(24)),
        CalendarUnit::Minute => {
            let minute = units.rem_euclid(1440);
            write!(text, "{year:04}-{month:02}-{day:02} {:02}:{:02}", minute / 60, minute % 60)
        }
    };
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const UNITS: [CalendarUnit; 6] = [
        CalendarUnit::Year,
        CalendarUnit::Quarter,
        CalendarUnit::Month,
        CalendarUnit::Day,
        CalendarUnit::Hour,
        CalendarUnit::Minute,
    ];

    #[test]
    fn the_calendar_counts_every_day_of_eight_centuries() {
        let (mut year, mut month, mut day) = (1600, 1, 1);
        for days in days_of(1600, 1, 1)..days_of(2400, 1, 1) {
            assert_eq!(civil(days), (year, month, day));
            assert_eq!(days_of(year, month, day), days);
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = [31, if leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31][month as usize - 1];
            day += 1;
            if day > length {
                (day, month) = (1, month + 1);
            }
            if month > 12 {
                (month, year) = (1, year + 1);
            }
        }
        assert_eq!(days_of(1970, 1, 1), 0);
    }

    #[test]
    fn members_read_as_people_write_them() {
        let micros = days_of(2026, 11, 21) * MICROS_PER_DAY + 10 * MICROS_PER_HOUR + 7 * MICROS_PER_MINUTE + 1;
        let shown = UNITS.map(|unit| display(units_of_micros(micros, unit), unit));
        assert_eq!(shown, ["2026", "2026-Q4", "2026-11", "2026-11-21", "2026-11-21 10:00", "2026-11-21 10:07"]);
        assert_eq!(code_of_micros(0, CalendarUnit::Hour), 1 + (1 << 31));
        assert_eq!(display(units_of_micros(-1, CalendarUnit::Minute), CalendarUnit::Minute), "1969-12-31 23:59");
    }

    proptest! {
        #[test]
        fn codes_keep_the_order_of_time(a in any::<i64>(), b in any::<i64>(), near in -1_000_000_000_000_000i64..1_000_000_000_000_000) {
            for unit in UNITS {
                let (low, high) = (a.min(b), a.max(b));
                prop_assert!(code_of_micros(low, unit) <= code_of_micros(high, unit));
                let next = near.saturating_add(MICROS_PER_MINUTE);
                prop_assert!(code_of_micros(near, unit) <= code_of_micros(next, unit));
            }
        }

        #[test]
        fn a_member_holds_exactly_the_moments_of_its_unit(micros in -60_000_000_000_000_000i64..120_000_000_000_000_000) {
            for unit in UNITS {
                let units = units_of_micros(micros, unit);
                let (start, end) = (start_micros(units, unit), start_micros(units + 1, unit));
                prop_assert!(start <= micros && micros < end);
                prop_assert_eq!(units_of_micros(start, unit), units);
                prop_assert_eq!(units_of_micros(end - 1, unit), units);
                prop_assert_eq!(truncate_micros(micros, unit), start);
                prop_assert_eq!(units_of_code(code_of_units(units)), Some(units));
            }
        }

        #[test]
        fn days_agree_with_their_first_moment(days in -100_000i64..3_000_000) {
            for unit in UNITS {
                prop_assert_eq!(units_of_day(days, unit), units_of_micros(days * MICROS_PER_DAY, unit));
                prop_assert_eq!(truncate_day(days, unit) * MICROS_PER_DAY, truncate_micros(days * MICROS_PER_DAY, unit).div_euclid(MICROS_PER_DAY) * MICROS_PER_DAY);
            }
        }
    }
}
