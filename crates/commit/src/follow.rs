//! Following: batches that were decided elsewhere come with their versions, and are here what they are there.
//!
//! A follower's log, views and files are those of a database that had decided itself: its log has every version, so that it recovers,
//! sorts and merges as any other. Whoever follows decides nothing of its own.
//!
//! Invariants:
//! - Versions come in order, without gaps; one that was taken back for want of room on the disk comes again.
//! - A batch that was let in where it was decided is let in here; one that cannot be is damage, and nothing of it is applied.
//! - Room in the tail is waited for; the bounds of dictionaries refuse nothing, as when the log is replayed.

use crate::changes::Changes;
use crate::codec::decode;
use crate::committer::{Committer, Placing};
use crate::prepared::tail_bytes;
use crate::replay::{Recovered, not_as_it_was};
use alluvia_log::Record;
use alluvia_snapshot::{NewBatch, RowChange};
use alluvia_types::{Error, ErrorKind, Result, Version};

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

/// What a batch would do to rows that are there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LookedAt {
    /// Its tables were looked at as they are after this version.
    pub version: Version,
    /// So many of its rows would change nothing.
    pub passed_over: u64,
}

impl Committer {
    /// Looks what the rows of a batch would do, and does nothing. Where no row of its tables is written between the version that is given
    /// and the batch's own, the batch does that. `computed_at` is of each of its parts, in their order.
    ///
    /// Errors: what would refuse it: `UniqueViolation`; `Conflict`: a key was written since the row was computed. `UndefinedTable`: a
    /// table is not here.
    pub fn look(&self, body: &[u8], computed_at: &[Option<Version>]) -> Result<LookedAt> {
        // Rows that it names by their identities must be visible.
        self.flush()?;
        let (_, catalog) = self.newest();
        let mut rows = decode(body)?.rows(&catalog)?;
        for (rows, at) in rows.iter_mut().zip(computed_at) {
            rows.computed_at = *at;
        }
        if let Some(rows) = rows.iter().find(|rows| catalog.by_id(rows.table).is_none()) {
            return Err(Error::new(ErrorKind::UndefinedTable, format!("table {} is not here", rows.table)));
        }
        let batch = NewBatch { rows, ..NewBatch::default() };
        let changes = Changes::new(&batch, &catalog, self.views())?;
        let locks = self.views().keys().locks(&changes.tables());
        let mut keys = locks.lock();
        loop {
            let made_in = self.views().keys().generation();
            let effects = changes.resolve(self.views(), &mut keys, made_in);
            // Under the locks of its tables: what was given a version before this has done to them what it does.
            let (version, _) = self.newest();
            if self.views().keys().generation() == made_in {
                return Ok(LookedAt { version, passed_over: effects?.passed_over });
            }
        }
    }

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
        let Recovered { batch, .. } = Recovered::new(&record, &catalog, None)?;
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
