//! Floats as decimals: the number of a float's first digits, as PostgreSQL assigns it.

use crate::errors::wrap;
use alluvia_types::{Error, ErrorKind};
use datafusion_common::DataFusionError;

/// A cast of a float to a decimal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Digits of the decimal in all.
    pub precision: u8,
    /// Digits of the decimal behind the point.
    pub scale: i8,
    /// Whether PostgreSQL has the float as NUMERIC.
    pub is_exact: bool,
    /// Whether what does not fit is NULL.
    pub is_tried: bool,
}

/// Units of the scale that a double is which is assigned to a decimal; `None` if it does not fit. Where the scale is behind the digits that it
/// is sure of it keeps more, since an average or a product that is assigned may be what PostgreSQL has as NUMERIC.
pub fn assigned_double(value: f64, precision: u8, scale: u8) -> Option<i128> {
    assigned(precision, scale)?.of_double(value)
}

/// The same of a REAL.
pub fn assigned_real(value: f32, precision: u8, scale: u8) -> Option<i128> {
    assigned(precision, scale)?.of_real(value)
}

fn assigned(precision: u8, scale: u8) -> Option<Target> {
    Some(Target { precision, scale: i8::try_from(scale).ok()?, is_exact: true, is_tried: true })
}

impl Target {
    /// The unscaled decimal that a DOUBLE becomes; `None` if out of range, infinite or NaN.
    pub fn of_double(self, value: f64) -> Option<i128> {
        let scale = i64::from(self.scale);
        let found = nearly(value, scale).or_else(|| {
            let sure = format!("{value:.14e}");
            let has_more = self.is_exact && !reaches(&sure, scale);
            units(&if has_more { format!("{value:e}") } else { sure }, scale)
        });
        found.filter(|units| self.fits(*units))
    }

    /// The unscaled decimal that a REAL becomes, of 6 significant digits; `None` if out of range, infinite or NaN.
    pub fn of_real(self, value: f32) -> Option<i128> {
        units(&format!("{value:.5e}"), i64::from(self.scale)).filter(|units| self.fits(*units))
    }

    fn fits(self, units: i128) -> bool {
        10_u128.checked_pow(u32::from(self.precision)).is_some_and(|limit| units.unsigned_abs() < limit)
    }

    /// The error for a float that is out of range for the decimal.
    pub fn does_not_fit(self, value: &dyn std::fmt::Debug) -> DataFusionError {
        let message = format!("{value:?} is out of range for DECIMAL({}, {})", self.precision, self.scale);
        wrap(Error::new(ErrorKind::OutOfRange, message))
    }
}

/// Units of the scale, by the double's own arithmetic, if it is far enough from where rounding turns.
pub fn nearly(value: f64, scale: i64) -> Option<i128> {
    const SURE_MAX: f64 = 1e14;
    let scale = i32::try_from(scale).ok().filter(|scale| (0..=15).contains(scale))?;
    // A power of ten up to 1e22 is a double.
    let scaled = value * 10_f64.powi(scale);
    let from_turn = (scaled.abs().fract() - 0.5).abs();
    // Taking 15 digits moves it by 5e-15 of itself at most, and the product is off by less.
    (scaled.abs() < SURE_MAX && from_turn > scaled.abs() * 2e-14).then(|| scaled.round() as i128)
}

/// Whether the last of the digits of `-1.2500e3` is behind a place behind the point.
fn reaches(text: &str, scale: i64) -> bool {
    parts(text).is_some_and(|(_, exponent)| exponent < -scale)
}

/// Digits and the exponent of the last one, of `-1.2500e3`; nothing is not a number, or without end.
fn parts(text: &str) -> Option<(i128, i64)> {
    let (mantissa, exponent) = text.split_once('e')?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}").parse().ok()?;
    Some((digits, exponent.parse::<i64>().ok()? - fraction.len() as i64))
}

/// Units of the scale, by decimal digits.
pub fn units(text: &str, scale: i64) -> Option<i128> {
    let (digits, exponent) = parts(text)?;
    let shift = exponent + scale;
    if digits == 0 {
        return Some(0);
    }
    if let Ok(shift) = u32::try_from(shift) {
        return digits.checked_mul(10_i128.checked_pow(shift)?);
    }
    // There are no more than 17 digits.
    let unit = u32::try_from(shift.unsigned_abs()).ok().filter(|dropped| *dropped <= 18).map(|of| 10_i128.pow(of));
    Some(unit.map_or(0, |unit| (digits.abs() + unit / 2) / unit * digits.signum()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn target(precision: u8, scale: i8, is_exact: bool) -> Target {
        Target { precision, scale, is_exact, is_tried: false }
    }

    /// PostgreSQL 15's `x::double precision::numeric(p, s)`.
    #[test]
    fn decimals_are_as_postgresql_has_them() {
        for (value, precision, scale, expected) in [
            (10.1 * 1.15, 10, 2, Some(1162)),
            (-10.1 * 1.15, 10, 2, Some(-1162)),
            (2.675, 10, 2, Some(268)),
            (1.005, 10, 2, Some(101)),
            (0.1 + 0.2, 38, 20, Some(30_000_000_000_000_000_000)),
            (123_456_789_012_345_680.0, 20, 0, Some(123_456_789_012_346_000)),
            (14_197_530_736_419.744, 20, 2, Some(1_419_753_073_641_970)),
            (99_999_999.995, 10, 2, None),
            (99_999_999.994, 10, 2, Some(9_999_999_999)),
            (1e20, 10, 2, None),
            (1e300, 38, 10, None),
            (-1e-300, 10, 2, Some(0)),
            (-0.0, 10, 2, Some(0)),
            (f64::NAN, 10, 2, None),
            (f64::NEG_INFINITY, 10, 2, None),
        ] {
            assert_eq!(target(precision, scale, false).of_double(value), expected, "{value}");
        }
        // What PostgreSQL has as NUMERIC.
        assert_eq!(target(20, 2, true).of_double(14_197_530_736_419.744), Some(1_419_753_073_641_974));
        assert_eq!(target(20, 2, true).of_double(1_234_567_890_123.455), Some(123_456_789_012_346));
        assert_eq!(target(10, 2, true).of_double(10.1 * 1.15), Some(1162));
        assert_eq!(target(20, 2, true).of_double(5e15), Some(500_000_000_000_000_000));
        assert_eq!(target(10, 2, false).of_real(2.675), Some(268));
        assert_eq!(target(10, 0, false).of_real(16_777_216.0), Some(16_777_200));
    }

    proptest! {
        #[test]
        fn the_quick_way_rounds_as_the_digits_say(
            value in prop_oneof![-1e6..1e6_f64, (-1_000_000_i64..1_000_000).prop_map(|n| n as f64 / 1000.0), any::<f64>()],
            scale in 0..=15_i64,
        ) {
            if let Some(quick) = nearly(value, scale) {
                prop_assert_eq!(Some(quick), units(&format!("{value:.14e}"), scale), "{} at {}", value, scale);
            }
        }
    }
}
