//! Functions in whole statements: what they mean once all rules have run.

mod output_size;
mod round_places;
mod sum;
mod table;
mod to_char;
