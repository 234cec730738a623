//! Definitions of temporary tables over those of the database.

use alluvia_catalog::rights::RoleId;
use alluvia_catalog::{Catalog, CommentOn, TableEntry, ViewEntry};
use alluvia_rows::waiting;
use std::sync::Arc;

/// Versions of what a session sees stand apart from those of definitions that wait.
const FIRST_VERSION: u64 = 1 << 61;

/// What the session saw last.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    /// What lies beneath, and both together.
    seen: Option<(Arc<Catalog>, Arc<Catalog>)>,
    /// How often it was made: each has a version of its own.
    made: u64,
}

impl Overlay {
    /// The tables change.
    pub(super) fn forget(&mut self) {
        self.seen = None;
    }

    /// The definitions with these tables and views, their owners, and comments on them.
    pub(super) fn over<'a>(
        &mut self,
        beneath: &Arc<Catalog>,
        tables: impl Iterator<Item = (&'a Arc<TableEntry>, RoleId)>,
        views: impl Iterator<Item = (&'a Arc<ViewEntry>, RoleId)>,
        comments: impl Iterator<Item = (&'a CommentOn, &'a String)>,
    ) -> Arc<Catalog> {
        if let Some((known, seen)) = &self.seen
            && Arc::ptr_eq(known, beneath)
        {
            return Arc::clone(seen);
        }
        self.made += 1;
        let seen = Arc::new(beneath.with_temporary(waiting(FIRST_VERSION | self.made), tables, views, comments));
        self.seen = Some((Arc::clone(beneath), Arc::clone(&seen)));
        seen
    }
}
