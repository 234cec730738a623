//! The grammar of COPY: the statement, its options, and which of them go together.

pub mod compatibility;
pub mod here;
pub mod options;
pub mod places;
pub mod statement;
pub mod streams;
