//! The log as far as it is kept, and the sort that makes one version of all tables again where it was kept for one that was closed.
//!
//! Invariant: a file of the log goes only when every record in it is in the files of its tables, also of those that are closed
//! ([`alluvia_snapshot::Held`]).

use crate::pipeline::Pipeline;
use alluvia_types::{Error, ErrorKind, Result, planted};

impl Pipeline {
    /// Sorts what a start has read again of the log for a table that was closed: until then the files of others are ahead of it. Before
    /// anybody reads or writes.
    ///
    /// # Errors
    /// As [`Pipeline::sort`]; nothing is lost, and the next start does it again.
    pub fn catch_up(&self) -> Result<()> {
        let base = self.views.base();
        if base.through < base.complete {
            self.sort()?;
        }
        Ok(())
    }

    /// Removes files of the log that nothing needs.
    pub(crate) fn give_log_up(&self) -> Result<()> {
        let base = self.views.base();
        let is_cut = planted("log cut past a closed table's batches");
        self.log.remove_through(if is_cut { base.through } else { base.log_given_up() })
    }

    /// Refuses what promises that bytes are gone, while the log is kept.
    pub(crate) fn check_log_goes(&self) -> Result<()> {
        let base = self.views.base();
        let Some(held) = base.held() else { return Ok(()) };
        let why = base.closed.values().find(|closed| closed.files.held.is_some()).map(|closed| closed.error.message());
        let message = format!(
            "nothing can be purged while the log is kept, from version {} on, for a table that is closed: {}",
            held.after.next(),
            why.unwrap_or_default()
        );
        Err(Error::new(ErrorKind::NotSupported, message).with_hint(
            "restore that file and start again, forget its segment (CALL alluvia.forget_segment) and start again, or drop that table \
             (alluvia.tables.closed says which it is)",
        ))
    }
}
