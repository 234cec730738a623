//! Handles of the prepared statements that the server keeps for a session, by their texts.
//!
//! Invariant: there are at most [`KEPT_MAX`] handles, which is less than the server keeps for a login.

use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::HashMap;

/// Statements that are kept.
const KEPT_MAX: usize = 64;

/// The prepared statements of a session.
#[derive(Default)]
pub(crate) struct PreparedHandles {
    /// Held while a statement with parameters runs.
    pub(crate) turn: tokio::sync::Mutex<()>,
    /// The server's handles, by text.
    pub(crate) kept: Mutex<HashMap<String, Bytes>>,
}

impl PreparedHandles {
    /// Keeps a handle; gives one that had to make room.
    pub(crate) fn keep(&self, sql: &str, handle: Bytes) -> Option<Bytes> {
        let mut kept = self.kept.lock();
        let evicted = match kept.len() < KEPT_MAX {
            true => None,
            false => kept.keys().next().cloned().and_then(|any| kept.remove(&any)),
        };
        kept.insert(sql.to_owned(), handle);
        evicted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_are_kept_and_the_rest_are_given_up() {
        let prepared = PreparedHandles::default();
        let handles: Vec<Bytes> = (0..KEPT_MAX + 10).map(|at| at.to_string().into()).collect();
        let evicted = handles.iter().filter_map(|handle| prepared.keep(&format!("SELECT {handle:?}"), handle.clone()));
        assert_eq!(evicted.count(), 10);
        assert_eq!(prepared.kept.lock().len(), KEPT_MAX);
    }
}
