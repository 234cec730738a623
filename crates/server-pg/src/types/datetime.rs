//! Days, times and intervals as PostgreSQL writes them.

use alluvia_space::codes::calendar::civil;
use alluvia_values::display;
use alluvia_values::time_zone::{Zone, write_offset};
use bytes::{BufMut, BytesMut};
use std::fmt::Write;

/// Days from 1970-01-01 to PostgreSQL's first day, 2000-01-01.
pub(crate) const EPOCH_DAYS: i32 = 10_957;
/// The same in microseconds.
pub(crate) const EPOCH_MICROS: i64 = EPOCH_DAYS as i64 * 86_400_000_000;

fn put(out: &mut BytesMut, text: std::fmt::Arguments<'_>) {
    // A buffer takes every text.
    let _ = out.write_fmt(text);
}

/// `2026-11-21`, `0044-03-15 BC` (whose year is -43).
pub(crate) fn put_date(out: &mut BytesMut, days: i64) {
    let (year, month, day) = civil(days);
    put_day(out, year, month, day);
    if year <= 0 {
        out.put_slice(b" BC");
    }
}

fn put_day(out: &mut BytesMut, year: i64, month: u32, day: u32) {
    let year = if year <= 0 { 1 - year } else { year };
    put(out, format_args!("{year:04}-{month:02}-{day:02}"));
}

/// `2026-11-21 10:11:12.5`, or what clocks of a zone show then, with their offset.
pub(crate) fn put_timestamp(out: &mut BytesMut, micros: i64, zone: Option<&Zone>) {
    let offset = zone.map(|zone| if zone.is_utc() { 0 } else { zone.offset_at(micros) });
    let micros = micros.saturating_add(offset.unwrap_or(0) * 1_000_000);
    let (days, of_day) = (micros.div_euclid(86_400_000_000), micros.rem_euclid(86_400_000_000));
    let (year, month, day) = civil(days);
    put_day(out, year, month, day);
    out.put_u8(b' ');
    put_time(out, of_day);
    if let Some(offset) = offset {
        let _ = write_offset(out, offset);
    }
    if year <= 0 {
        out.put_slice(b" BC");
    }
}

/// `10:11:12.5`; hours may pass 24 in intervals.
pub(crate) fn put_time(out: &mut BytesMut, micros: i64) {
    // A buffer takes every text.
    let _ = display::write_time(out, micros);
}

/// `1 year 2 mons -3 days +04:05:06`, as `intervalstyle = postgres`.
pub(crate) fn put_interval(out: &mut BytesMut, months: i32, days: i32, micros: i64) {
    let _ = display::write_interval(out, months, days, micros);
}

/// What lies between two moments.
pub(crate) fn put_difference(out: &mut BytesMut, micros: i64) {
    let _ = display::write_difference(out, micros);
}

/// `1.5`, `1e+20`, `Infinity`.
pub(crate) fn put_double(out: &mut BytesMut, value: f64) {
    let _ = display::write_double(out, value);
}

/// The same of single precision.
pub(crate) fn put_real(out: &mut BytesMut, value: f32) {
    let _ = display::write_real(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(write: impl FnOnce(&mut BytesMut)) -> String {
        let mut out = BytesMut::new();
        write(&mut out);
        String::from_utf8(out.to_vec()).unwrap()
    }

    /// What `psql` of PostgreSQL 15 prints for the same values.
    #[test]
    fn values_look_as_in_postgresql() {
        assert_eq!(text(|out| put_double(out, 1e20)), "1e+20");
        assert_eq!(text(|out| put_real(out, 0.1)), "0.1");
        assert_eq!(text(|out| put_interval(out, 0, 1, 7_200_000_000)), "1 day 02:00:00");
        assert_eq!(text(|out| put_date(out, 0)), "1970-01-01");
        assert_eq!(text(|out| put_date(out, -735_160)), "0044-03-15 BC");
        assert_eq!(text(|out| put_timestamp(out, -1, Some(&Zone::utc()))), "1969-12-31 23:59:59.999999+00");
        assert_eq!(text(|out| put_timestamp(out, 951_782_400_500_000, None)), "2000-02-29 00:00:00.5");
    }
}
