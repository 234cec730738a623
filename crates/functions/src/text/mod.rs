//! Functions of texts.

pub mod format;
pub mod pad;
pub mod to_hex;
