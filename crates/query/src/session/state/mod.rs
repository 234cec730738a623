//! What a session remembers between statements.

pub(crate) mod definitions;
pub(crate) mod sibling;
pub(crate) mod transaction;
