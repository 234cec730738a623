//! Following: batches that were decided elsewhere come with their versions, and are here what they are there.
//!
//! A follower's log, views and files are those of a database that had decided itself: its log has every version, so that it recovers,
//! sorts and merges as any other. Whoever follows decides nothing of its own.
//!
//! Invariants:
//! - Versions come in order, without gaps; one that was taken back for want of room on the disk comes again.
//! - A batch that was let in where it was decided is let in here; one that cannot be is damage, and nothing of it is applied.
//! - Room in the tail is waited for; the bounds of dictionaries refuse nothing, as when the log is replayed.

use crate::codec::decode;
use crate::committer::{Committer, Placing};
use crate::prepared::tail_bytes;
use crate::replay::{Recovered, not_as_it_was};
use alluvia_log::Record;
use alluvia_snapshot::RowChange;
use alluvia_types::{Error, Result, Version};

/// A batch that was decided elsewhere.
#[derive(Clone, Debug)]
pub struct Followed {
    /// Its version.
    pub version: Version,
    /// Its time of commit.
    pub commit_micros: i64,
    /// What it is ([`encode`](crate::encode)).
    pub body: Vec<u8>,
}

impl Committer {
    /// Takes the next version. It is durable and visible after [`Committer::flush`].
    ///
    /// Errors: [`ErrorKind::DiskFull`](alluvia_types::ErrorKind): it is not in the log, nor may be others before it; follow again from what is visible.
    /// `Corrupt`: it does not fit to what was before it. Errors of the log.
    pub fn follow(&self, followed: Followed) -> Result<()> {
        let Followed { version, commit_micros, body } = followed;
        let of_version = |error: Error| error.at(format_args!("version {version}"));
        let (last, catalog) = self.newest();
        if version != last.next() {
            return Err(Error::internal(format!("version {version} is followed after version {last}")));
        }
        let read = decode(&body).map_err(of_version)?;
        let defines = !read.changes.is_empty();
        if defines || !read.loads.is_empty() || read.names_rows() {
            // What it names must be visible: tables, files, rows by their identities.
            self.flush()?;
        }
        let record = Record { version, commit_micros, body: &body };
        let Recovered { batch, .. } = Recovered::new(&record, &catalog, self.views().spaces())?;
        let room = match batch.rows.iter().any(|rows| rows.change != RowChange::DeleteRows) {
            false => None,
            true => Some(self.views().wait_room(tail_bytes(&batch.rows, body.len() as u64), &mut || self.flush())?),
        };
        let placing = Placing::Followed { version, commit_micros };
        self.sequence(batch, body, room, placing, None).map_err(not_as_it_was).map_err(of_version)?;
        if defines {
            // Rows that come next are read by these definitions.
            self.flush()?;
        }
        Ok(())
    }
}
