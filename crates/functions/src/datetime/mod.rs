//! Functions of dates, timestamps, times and intervals.

pub mod date_part;
pub mod date_trunc;
pub mod generate_series;
pub mod in_zone;
pub mod made;
pub mod now;
pub mod session_zone;
pub mod timestamp_functions;
pub mod timezone;
pub mod to_timestamp;
