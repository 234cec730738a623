//! Prepared statements as a login holds them: a parsed statement, its lane, and rows of parameters that came before the call that
//! runs it.

use crate::lane::Lane;
use alluvia_query::{Described, Prepared, ScalarValue};
use parking_lot::Mutex;
use std::sync::Arc;

/// A prepared statement.
pub(crate) struct PreparedStatement {
    pub(crate) lane: Arc<Lane>,
    pub(crate) prepared: Prepared,
    pub(crate) described: Described,
    /// Rows of parameters that came before the call that runs it.
    pub(crate) bound: Mutex<Option<Vec<Vec<ScalarValue>>>>,
}

impl PreparedStatement {
    /// The bytes held for as long as the statement is kept: its text, and its tree, which is larger by far where the text is dense (a list of short
    /// numbers takes two hundred times as many bytes).
    pub(crate) fn bytes(&self) -> usize {
        self.prepared.statement().bytes()
    }
}
