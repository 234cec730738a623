//! Casts that are functions, because DataFusion's own mean something else.

pub mod float_ranges;
pub mod interval_input;
pub mod kinds;
pub mod pg_typeof;
pub mod text_output;
pub mod typed;
pub mod uuids;
