//! Functions of texts.

pub mod format;
pub(crate) mod format_specifiers;
pub mod pad;
pub mod to_hex;
