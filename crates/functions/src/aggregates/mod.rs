//! Aggregate functions.

pub mod bool_and_or;
pub(crate) mod decimal_sum;
pub(crate) mod distinct_sum;
pub mod exact;
pub(crate) mod interval_avg;
pub(crate) mod interval_sum;
pub mod linear;
pub mod min_max;
pub mod moving_frames;
pub mod percentiles;
pub mod sum;
pub(crate) mod variance_of_one;
