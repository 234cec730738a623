//! Parts of plans that run where rows lie, on other machines.
//!
//! A [part] is a logical plan over one table: its rows, filtered, some of their columns; or aggregates of them. It travels as bytes
//! (`datafusion-proto`, functions by [`alluvia_functions::codec`]), is [planned](mod@plan) where it arrives over the rows that are there, and
//! what it gives is [put together](answers) where it was asked: rows as they come, aggregates by their states, which DataFusion's final
//! aggregation merges.
//!
//! Whoever asks for an aggregate asks for values that make its states ([`values`]), where there are such: values an index answers, and
//! caches. Else it asks for states themselves, which a partial aggregation of the rows gives.
//!
//! Invariants:
//! - What travels comes out as it went in, or it does not travel: whoever sends a part has read it back.
//! - What does not travel is done where it was asked, on rows that do.
//! - A part means the same on any of the table's rows: no clock, no session, nothing random is in it.

pub mod aggregate;
pub mod answers;
mod node;
pub mod part;
pub mod plan;
mod values;

pub use aggregate::elsewhere;
pub use answers::{AnswersExec, Source};
pub use node::ElsewherePlanner;
pub use part::{Form, Part};
pub use plan::planned;
