//! What is kept of tables between statements. Invariant: of tables that are gone nothing is kept, once [`Kept::retain`] was told.

use super::names::Names;
use super::tail::CodedTails;
use alluvia_types::TableId;

/// What is kept of tables between statements.
#[derive(Debug, Default)]
pub struct Kept {
    /// Tails with their codes.
    pub(crate) tails: CodedTails,
    /// Names that members share.
    pub(crate) names: Names,
}

impl Kept {
    /// Drops what is kept of tables that are gone.
    pub fn retain(&self, exists: impl Fn(TableId) -> bool) {
        self.tails.retain(&exists);
        self.names.retain(exists);
    }
}
