//! What templates show of a moment, a time of day or a length of time.
//!
//! Invariant: as in PostgreSQL, a length of time has its months as years and months, its days as days and the rest as hours, each with its
//! own sign; a difference of moments has days of 24 hours, and a time of day is a length of time.

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, DurationMicrosecondType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use chrono::{DateTime, NaiveTime, Utc};
use datafusion_common::{Result, exec_err};

const SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400 * SECOND;
/// The first day of 1970, counted from the year -4712.
const EPOCH_DAYS: i64 = 2_440_588;

/// Whose fields these are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldSource {
    /// A moment of a zone; also a date.
    Zoned,
    /// A TIMESTAMP.
    Unzoned,
    /// A time of day.
    Time,
    /// An interval, or a difference of timestamps.
    Span,
}

/// Calendar and clock fields of one value. Those of a span may be negative, each with its own sign.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fields {
    /// What the value is.
    pub of: FieldSource,
    /// The year 0 is that before the year 1.
    pub year: i64,
    /// From 1 to 12; of a span the months beyond whole years.
    pub month: i64,
    /// The day of the month, from 1; of a span its number of days.
    pub day: i64,
    /// From 0 to 23; of a span without bound.
    pub hour: i64,
    /// From 0 to 59.
    pub minute: i64,
    /// From 0 to 59.
    pub second: i64,
    /// Microseconds of the second, from 0 to 999,999.
    pub micros: i64,
    /// Of the year, from 1; of a span about so many days in all.
    pub day_of_year: i64,
    /// From 0, a Sunday.
    pub(super) weekday: i64,
    /// Microseconds since 1970, or since midnight.
    since: i64,
}

impl Fields {
    /// The fields of a value, of a type that [`super::wanted`] asks for.
    pub fn at(values: &ArrayRef, row: usize) -> Result<Fields> {
        match values.data_type() {
            DataType::Date32 => {
                let days = i64::from(values.as_primitive::<Date32Type>().value(row));
                Ok(Fields::of_moment(days, 0, FieldSource::Zoned))
            }
            DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                let of = if zone.is_some() { FieldSource::Zoned } else { FieldSource::Unzoned };
                let since = values.as_primitive::<TimestampMicrosecondType>().value(row);
                Ok(Fields::of_moment(since.div_euclid(DAY), since.rem_euclid(DAY), of))
            }
            DataType::Time64(TimeUnit::Microsecond) => {
                let since = values.as_primitive::<Time64MicrosecondType>().value(row);
                Ok(Fields { of: FieldSource::Time, since, ..Fields::of_span(0, 0, since) })
            }
            DataType::Duration(TimeUnit::Microsecond) => {
                let micros = values.as_primitive::<DurationMicrosecondType>().value(row);
                Ok(Fields::of_span(0, micros / DAY, micros % DAY))
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                let span = values.as_primitive::<IntervalMonthDayNanoType>().value(row);
                let IntervalMonthDayNano { months, days, nanoseconds } = span;
                Ok(Fields::of_span(i64::from(months), i64::from(days), nanoseconds / 1_000))
            }
            other => exec_err!("to_char came with a value of type {other}"),
        }
    }

    /// The fields of a moment as clocks of a zone show it, by what these are ahead of UTC.
    pub fn of_clock(moment: i64, offset: i64) -> Fields {
        let shown = moment.saturating_add(offset.saturating_mul(SECOND));
        Fields::of_moment(shown.div_euclid(DAY), shown.rem_euclid(DAY), FieldSource::Zoned)
    }

    /// Of a day, counted from 1970 on, and microseconds of it.
    fn of_moment(days: i64, time: i64, of: FieldSource) -> Fields {
        let (year, month, day) = date_of(days);
        let first = julian(year, 1, 1);
        let day_of_year = days + EPOCH_DAYS - first + 1;
        // The first day of 1970 was a Thursday.
        let weekday = (days + 4).rem_euclid(7);
        // Dates that are further away than a timestamp can be have no form of `strftime`.
        let since = days.checked_mul(DAY).and_then(|since| since.checked_add(time)).unwrap_or(i64::MAX);
        Fields { of, year, month, day, day_of_year, weekday, since, ..Fields::of_span(0, 0, time) }
    }

    fn of_span(months: i64, days: i64, micros: i64) -> Fields {
        let (seconds, micros) = (micros / SECOND, micros % SECOND);
        Fields {
            of: FieldSource::Span,
            year: months / 12,
            month: months % 12,
            day: days,
            hour: seconds / 3_600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            micros,
            day_of_year: months * 30 + days,
            weekday: 0,
            since: 0,
        }
    }

    /// Whether the value is a length of time, or a time of day, which is treated as one.
    pub fn is_duration(&self) -> bool {
        matches!(self.of, FieldSource::Span | FieldSource::Time)
    }

    /// The day, counted from the year -4712.
    pub(super) fn julian_day(&self) -> i64 {
        julian(self.year, self.month, self.day)
    }

    /// The year that the week belongs to by ISO 8601, and how many days are before this one from its first Monday on.
    pub(super) fn iso_year(&self) -> (i64, i64) {
        let day = self.julian_day();
        let first_of = |year: i64| {
            let fourth = julian(year, 1, 4);
            fourth - fourth.rem_euclid(7)
        };
        let year = [self.year + 1, self.year].into_iter().find(|year| first_of(*year) <= day).unwrap_or(self.year - 1);
        (year, day - first_of(year))
    }

    /// The moment; `None` of what is none.
    pub fn moment(&self) -> Option<DateTime<Utc>> {
        if self.is_duration() { None } else { DateTime::from_timestamp_micros(self.since) }
    }

    /// The time of day; `None` of what is none.
    pub fn time(&self) -> Option<NaiveTime> {
        if self.of != FieldSource::Time {
            return None;
        }
        let seconds = u32::try_from(self.since / SECOND).ok()?;
        let nanos = u32::try_from(self.since % SECOND).ok()? * 1_000;
        NaiveTime::from_num_seconds_from_midnight_opt(seconds, nanos)
    }
}

/// Days from the year -4712 on, as PostgreSQL counts them also where a month or a day is none of the calendar's.
fn julian(year: i64, month: i64, day: i64) -> i64 {
    let (month, year) = if month > 2 { (month + 1, year + 4_800) } else { (month + 13, year + 4_799) };
    let century = year.div_euclid(100);
    let leap_days = year.div_euclid(4) - century + century.div_euclid(4);
    year * 365 - 32_167 + leap_days + 7_834 * month / 256 + day
}

/// The year, the month and the day of a count of days since 1970.
fn date_of(days: i64) -> (i64, i64, i64) {
    // Years begin with March, so that the day of a leap year is the last; there are 400 of them in 146,097 days.
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::{Datelike, Days, NaiveDate};

    #[test]
    fn days_are_those_of_the_calendar() {
        let epoch = NaiveDate::from_ymd_opt(1970, 1, 1).unwrap();
        for days in (-800_000_i64..800_000).step_by(37).chain(-800..800) {
            let date = match u64::try_from(days) {
                Ok(days) => epoch.checked_add_days(Days::new(days)),
                Err(_) => epoch.checked_sub_days(Days::new(days.unsigned_abs())),
            };
            let date = date.unwrap();
            let fields = Fields::of_moment(days, 1, FieldSource::Zoned);
            let expected = (i64::from(date.year()), i64::from(date.month()), i64::from(date.day()));
            assert_eq!((fields.year, fields.month, fields.day), expected, "{days}");
            assert_eq!(fields.julian_day(), days + EPOCH_DAYS, "{days}");
            assert_eq!(fields.day_of_year, i64::from(date.ordinal()), "{days}");
            assert_eq!(fields.weekday, i64::from(date.weekday().num_days_from_sunday()), "{days}");
            let week = date.iso_week();
            let (year, before) = fields.iso_year();
            assert_eq!((year, before / 7 + 1), (i64::from(week.year()), i64::from(week.week())), "{days}");
        }
    }

    #[test]
    fn spans_have_fields_of_their_signs() {
        let fields = Fields::of_span(-14, 3, -(26 * 3_600 + 62) * SECOND - 5);
        let found = (fields.year, fields.month, fields.day, fields.hour, fields.minute, fields.second, fields.micros);
        assert_eq!(found, (-1, -2, 3, -26, -1, -2, -5));
    }
}
