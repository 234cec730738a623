//! PostgreSQL's text and Arrow's values: how each type is read from text, written as text, converted and measured.
//!
//! Invariants:
//! - What is read back from what is written is the same value, for every type.
//! - Nothing is rounded, cut or taken for NULL in silence: what does not fit is an error that names the value.
//! - Nothing here knows SQL, tables or sessions.

pub mod builders;
pub mod calls;
pub mod compact;
pub mod convert;
pub mod decimal;
pub mod display;
pub mod errors;
pub mod excerpt;
pub mod float_digits;
pub mod float_to_decimal;
pub mod interval;
pub mod interval_units;
pub mod json;
pub mod json_value;
pub mod list_text;
pub mod nan;
pub mod nested_json;
pub mod numeric;
pub mod parse;
pub mod regex;
pub mod sql_type;
pub mod templates;
pub mod text;
pub mod thousands;
pub mod time_of_day;
pub mod time_zone;
pub mod unique_names;
pub mod uuid;
pub mod varchar;
pub mod widths;
