//! Texts of intervals, written so that DataFusion reads in them what PostgreSQL does.
//!
//! Invariants:
//! - [`interval_of`] alone says what a text means.
//! - A text in which DataFusion reads the same stays as it is. So does one that is no interval: who reads it refuses
//!   it.

use crate::interval::interval_of;
use arrow::compute::kernels::cast_utils::parse_interval_month_day_nano;
use arrow::datatypes::IntervalMonthDayNano;

/// The text of the same interval in months, days and microseconds; `None` of a text that stays as it is.
pub fn in_units(text: &str) -> Option<String> {
    let (months, days, nanos) = interval_of(text)?;
    let wanted = IntervalMonthDayNano::new(months, days, nanos);
    // DataFusion 55.2 takes a number without a unit for months in a cast, and for seconds elsewhere: of 0 both are the
    // same.
    let is_read_alike = parse_interval_month_day_nano(text).is_ok_and(|found| found == wanted);
    (!is_read_alike).then(|| format!("{months} months {days} days {} microseconds", nanos / 1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_means_what_was_written() {
        for text in
            ["1:30.5", "90", "1.55 months", "1 day, 2:03", "P1M2DT3.5S", "-1-2", "0.0000001 s", "3 millennia ago"]
        {
            let written = in_units(text).unwrap_or_else(|| panic!("{text} is written otherwise"));
            assert_eq!(interval_of(&written), interval_of(text), "{text}");
            let (months, days, nanos) = interval_of(text).expect("an interval");
            let wanted = IntervalMonthDayNano::new(months, days, nanos);
            assert_eq!(parse_interval_month_day_nano(&written).expect("DataFusion reads it"), wanted, "{text}");
        }
    }
}
