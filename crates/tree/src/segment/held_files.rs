//! The files of a segment, as long as somebody has it open.
//!
//! Invariants:
//! - Files are opened when something is first read of them, so whoever has a segment may ask for them at any time: they go when it was
//!   retired and the last who has it lets go.
//! - A segment may be open twice, where something of it was made anew: both have the same of this, and none takes the other's files.

use crate::context::TreeContext;
use alluvia_types::SegmentId;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Keeps the two files of one segment, and removes them in the end if it was retired.
#[derive(Debug)]
pub struct HeldFiles {
    context: TreeContext,
    id: SegmentId,
    retired: AtomicBool,
}

impl HeldFiles {
    /// Of a segment that nobody else has open.
    pub(super) fn new(context: &TreeContext, id: SegmentId) -> Arc<HeldFiles> {
        Arc::new(HeldFiles { context: context.clone(), id, retired: AtomicBool::new(false) })
    }

    pub(super) fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }
}

impl Drop for HeldFiles {
    fn drop(&mut self) {
        if !*self.retired.get_mut() {
            return;
        }
        // Nothing names the files any more; what cannot be removed is removed as an orphan when the database is next
        // opened.
        for path in [self.context.parquet_path(self.id), self.context.side_path(self.id)] {
            let _ = self.context.disk.remove(&path);
        }
    }
}
