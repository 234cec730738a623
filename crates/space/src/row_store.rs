//! Where a table's rows are kept beside its segments: `WITH (rows = '...')`.

use alluvia_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// Where rows are kept one by one, for statements about few of them. What statements mean does not depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RowStore {
    /// In memory, while there is room: in a heap.
    Memory,
    /// Nowhere.
    None,
}

impl RowStore {
    /// As WITH (rows = '...') has it.
    pub fn name(self) -> &'static str {
        match self {
            RowStore::Memory => "memory",
            RowStore::None => "none",
        }
    }

    /// What an option says; `None` of 'auto', which is what is not said.
    ///
    /// # Errors
    /// `InvalidDefinition` of anything else.
    pub fn parse(text: &str) -> Result<Option<RowStore>> {
        match text.trim().to_ascii_lowercase().as_str() {
            "memory" => Ok(Some(RowStore::Memory)),
            "none" => Ok(Some(RowStore::None)),
            "auto" => Ok(None),
            _ => Err(Error::new(ErrorKind::InvalidDefinition, format!("there is no place {text:?} for rows"))
                .with_hint("rows is 'memory', 'none', or 'auto': in memory where a table has a key and no dimensions or measures")),
        }
    }
}
