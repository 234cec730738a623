//! Statements without a name that came lately. Drivers that prepare nothing send the same texts anew each time, and parsing one, and
//! planning it for the types of its parameters, takes longer than to run it.
//!
//! Invariants:
//! - What is known of a text is used for as long as what it follows from is the same: definitions, and the settings of the session.
//! - They are bounded in number, and each in its bytes.

use crate::portal::Prepared;
use alluvia_query::{DescribedBy, Session};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// How many are kept.
const COUNT_MAX: usize = 16;
/// The most bytes of one: its text and its tree.
const BYTES_MAX: usize = 32 << 10;

/// Those of a connection, the last one first.
#[derive(Default)]
pub(crate) struct Recent {
    kept: VecDeque<Kept>,
}

struct Kept {
    sql: String,
    prepared: Arc<Prepared>,
    by: DescribedBy,
}

impl Recent {
    /// The statement of this text and these types, with what is known of it, if that is still so.
    pub(crate) fn take(&mut self, sql: &str, types: &[u32], session: &Session) -> Option<Arc<Prepared>> {
        let at = self.kept.iter().position(|kept| kept.prepared.types == types && kept.sql == sql)?;
        let mut kept = self.kept.remove(at).filter(|kept| session.describes_by(&kept.by))?;
        // This time the client was told nothing yet.
        let Prepared { statement, types, bytes, described, .. } = kept.prepared.as_ref();
        let described = Mutex::new(described.lock().clone());
        let (statement, types, is_told) = (statement.clone(), types.clone(), AtomicBool::new(false));
        kept.prepared = Arc::new(Prepared { statement, types, bytes: *bytes, described, is_told });
        let prepared = Arc::clone(&kept.prepared);
        self.kept.push_front(kept);
        Some(prepared)
    }

    /// Keeps a statement that was parsed, by what was known before.
    pub(crate) fn keep(&mut self, sql: &str, prepared: &Arc<Prepared>, by: Option<DescribedBy>) {
        if let Some(by) = by.filter(|_| prepared.bytes <= BYTES_MAX) {
            self.kept.truncate(COUNT_MAX - 1);
            self.kept.push_front(Kept { sql: sql.to_owned(), prepared: Arc::clone(prepared), by });
        }
    }
}
