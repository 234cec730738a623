//! Templates of `to_char` and `to_number`, parsed.

pub mod literals;
pub mod picture;
