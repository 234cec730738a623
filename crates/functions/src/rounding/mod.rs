//! Rounding of floats and decimals as PostgreSQL rounds: `round`, `floor`, `ceil`, `trunc`, `sign`, casts to integers.

pub mod divisors;
pub mod float_to_decimal;
pub mod floor_ceil;
pub mod places;
pub mod round;
pub mod scales;
pub mod sign;
