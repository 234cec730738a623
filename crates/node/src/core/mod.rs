//! The engine without threads: log, commit, views and pipeline over one disk and one clock.
//!
//! `core/read.rs`, `core/ingest.rs` and `core/admin.rs` implement the ports of `alluvia_snapshot` for [`Core`].
//!
//! Invariants:
//! - A start removes only files that nothing names, and only after the manifest's own name is durable (P4).
//! - What a batch had staged is removed once the batch is certainly not in the log, and never while it may be there.

mod admin;
mod aged;
mod ingest;
mod read;
mod recovery;
mod start;

pub(crate) use aged::{MEMO as AGES, check as check_ages};
pub use recovery::Recovery;
pub(crate) use recovery::{BEHIND_HEADER, lost_mark};

use crate::audit::AuditLog;
use crate::directory::{LOCK_NAME, LOG_DIR, SEGMENTS_DIR, cannot_make, refuse_foreign};
use crate::holder::{announce, locked};
use crate::options::DatabaseOptions;
use aged::Aged;
use alluvia_commit::{Committer, RecoveredLog};
use alluvia_pipeline::{Pipeline, Workers, discard, named_kills, named_segments, remove_orphans};
use alluvia_snapshot::Views;
use alluvia_storage::{Cache, Disk, DiskLock};
use alluvia_tree::TreeContext;
use alluvia_types::{Clock, Error, Result};
use start::{Started, start};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The audit log goes on in another file past this.
const AUDIT_FILE_BYTES_MAX: u64 = 16 << 20;

/// One open data directory.
#[derive(Debug)]
pub struct Core {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    clock: Arc<dyn Clock>,
    views: Arc<Views>,
    committer: Committer,
    pipeline: Arc<Pipeline>,
    cache: Arc<Cache>,
    audit: AuditLog,
    aged: Aged,
    /// Set by `organise`: the threads should not wait for their intervals.
    hurry_sort: AtomicBool,
    /// What notes of dead rows held when it was last looked.
    kill_bytes: AtomicU64,
    hurry_merge: AtomicBool,
    relaxed: AtomicBool,
    recovery: Option<Recovery>,
    _lock: Box<dyn DiskLock>,
}

impl Core {
    /// States where the directory is served.
    pub(crate) fn announce(&self, places: &[String]) {
        announce(self.disk.as_ref(), &self.dir, places);
    }

    /// Opens or creates the database in `dir`, recovering what a crash left. `seed` is used only to name a new
    /// database.
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        clock: Arc<dyn Clock>,
        options: &DatabaseOptions,
        workers: Arc<dyn Workers>,
        seed: u64,
    ) -> Result<Core> {
        let io = |doing: &'static str, path: PathBuf| move |error: std::io::Error| Error::io(&path, doing, &error);
        disk.create_dir_all(dir).map_err(|error| cannot_make(dir, &error))?;
        refuse_foreign(disk.as_ref(), dir)?;
        let lock_path = dir.join(LOCK_NAME);
        let lock = disk.try_lock(&lock_path).map_err(io("locking", lock_path))?.ok_or_else(|| {
            locked(disk.as_ref(), dir, "one process at a time may open a data directory: stop the other one first")
        })?;
        let segments_dir = dir.join(SEGMENTS_DIR);
        disk.create_dir_all(&segments_dir).map_err(io("creating", segments_dir.clone()))?;
        let log_dir = dir.join(LOG_DIR);
        disk.create_dir_all(&log_dir).map_err(io("creating", log_dir.clone()))?;
        // The last process may have died, or failed, between renaming a manifest into place and syncing its name. What
        // is built on the one that is read below, and removed because it does not name it, must not meet an older one
        // after a loss of power.
        disk.sync_dir(dir).map_err(io("syncing", dir.into()))?;

        let cache = Arc::new(Cache::new(options.cache_bytes_max()));
        let tree = TreeContext::new(Arc::clone(&disk), Arc::clone(&cache), segments_dir.clone())
            .with_loaded_bytes_max(options.index_bytes_max())
            .with_waiting_bytes_max(options.waiting_bytes_max());
        let begins = clock.monotonic();
        let Started { manifest, spaces, views, key_files, keys, recovered } =
            start(&disk, dir, &clock, options, &tree, seed)?;
        views.heaps().set_bytes_max(options.row_bytes_max() as usize);
        let RecoveredLog { log, commit_micros, next_table, batches, rows } = recovered;
        let next_table = next_table.max(manifest.next_table);
        let recovery = (!log.found().is_closed).then(|| Recovery {
            batches,
            rows,
            through: log.durable(),
            torn: log.found().torn,
            is_behind_header: log.found().is_behind_header,
            elapsed: clock.monotonic().saturating_sub(begins),
        });
        if let Some(Recovery { batches, rows, through, torn, is_behind_header, elapsed }) = recovery {
            let (through, seconds) = (through.0, elapsed.as_secs_f64());
            tracing::info!(batches, rows, through, seconds, "recovered: the last process had not stopped cleanly");
            if let Some(torn) = torn {
                tracing::warn!(through, "cut off the end of the {torn}; everything through this version is there");
            } else if is_behind_header {
                tracing::warn!(through, "{}", BEHIND_HEADER);
            }
        }
        if manifest.marked && !log.found().has_mark {
            tracing::warn!(error = %lost_mark(&log_dir), "whether the log goes as far as it did is not known");
        }
        if let Some(error) = log.damaged_mark() {
            tracing::warn!(%error, "whether the log goes as far as it did at the last clean stop is not known");
        }
        let log = Arc::new(log);

        let named = named_segments(&views);
        let mut next_segment = manifest.next_segment;
        let kills = named_kills(&views.base());
        let tables = spaces.required();
        let (highest, highest_kills) = remove_orphans(disk.as_ref(), dir, &segments_dir, &named, &tables, &kills)?;
        key_files.remove_orphans(disk.as_ref())?;
        next_segment = next_segment.max(highest.0 + 1);
        let next_kills = manifest.next_kills.max(highest_kills + 1);
        let pipeline = Arc::new(Pipeline::new(
            dir.into(),
            &manifest,
            Arc::clone(&views),
            Arc::clone(&log),
            workers,
            options.pipeline_options(),
            next_segment,
            next_table,
            next_kills,
            key_files,
        ));
        pipeline.catch_up()?;
        let committer = Committer::new(log, Arc::clone(&views), commit_micros, options.batch_bytes_max(), keys);
        let audit = AuditLog::new(Arc::clone(&disk), dir, AUDIT_FILE_BYTES_MAX);
        let aged = Aged::recall(disk.as_ref(), dir, options.purge_after)?;
        Ok(Core {
            disk,
            dir: dir.into(),
            clock,
            views,
            committer,
            pipeline,
            cache,
            audit,
            aged,
            hurry_sort: AtomicBool::new(false),
            kill_bytes: AtomicU64::new(0),
            hurry_merge: AtomicBool::new(false),
            relaxed: AtomicBool::new(false),
            recovery,
            _lock: lock,
        })
    }

    /// What opening had to bring back; `None` after a clean stop.
    pub fn recovery(&self) -> Option<&Recovery> {
        self.recovery.as_ref()
    }

    /// Why tables are closed, for each that is.
    pub fn closed(&self) -> Vec<Error> {
        let (base, catalog) = (self.views.base(), self.views.catalog());
        base.closed.keys().filter_map(|&table| base.check_open(table, &catalog).err()).collect()
    }

    /// The data directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// All views.
    pub fn views(&self) -> &Arc<Views> {
        &self.views
    }

    /// Runs one sort cycle now.
    pub fn sort(&self) -> Result<bool> {
        self.pipeline.sort()
    }

    /// Merges every table that is due, or, in a hurry, that has anything to merge. One that cannot be merged keeps no
    /// other from it; the first one's error is returned.
    pub fn merge(&self, hurry: bool) -> Result<bool> {
        let merge = |table| self.pipeline.merge(table);
        let merged: Vec<Result<bool>> = self.pipeline.tables_to_merge(hurry).into_iter().map(merge).collect();
        merged.into_iter().try_fold(false, |any, merged| Ok(any | merged?))
    }

    /// Makes anew what reads, or the start, have found damaged and can be made anew.
    pub fn mend(&self) -> Result<bool> {
        let told = self.pipeline.mend()?;
        told.iter().for_each(|sentence| tracing::warn!("{sentence}"));
        Ok(!told.is_empty())
    }

    /// Makes relaxed batches durable and visible.
    pub fn flush(&self) -> Result<()> {
        let flushed = self.committer.flush();
        self.discard_dropped();
        flushed
    }

    /// Removes what batches had staged that a full disk took back.
    fn discard_dropped(&self) {
        discard(&self.pipeline, &self.committer.take_dropped());
    }

    /// The way of batches into the log.
    pub(crate) fn committer(&self) -> &Committer {
        &self.committer
    }

    /// Ends the log with a statement that all of it is durable, and it and the audit log with a mark of how far they go, so that
    /// later damage to their ends is told from a torn write.
    pub(crate) fn seal(&self) -> Result<()> {
        self.committer.flush()?;
        self.committer.log().seal()?;
        // First: the log's mark says which one the audit log's is, so that it is missed.
        let audit = self.audit.mark_end();
        let note = audit.as_ref().copied().unwrap_or(0);
        self.committer.log().mark_end(note).and(audit.map(drop))
    }

    /// Whether a relaxed batch came since the last call.
    pub(crate) fn take_relaxed(&self) -> bool {
        self.relaxed.swap(false, Ordering::Relaxed)
    }

    /// Whether a sort should begin now: it empties the tail, and gives back what dropped tables take of the disk.
    pub fn sort_is_due(&self) -> bool {
        let options = self.pipeline.options();
        let (bytes, age) = self.views.tail_load();
        let waiting = self.views.room().1 > 0;
        self.hurry_sort.swap(false, Ordering::Relaxed)
            || waiting
            || bytes >= options.sort_bytes
            || age >= options.sort_interval
            || self.views.has_dropped()
    }

    /// Looks what is held that grows with the rows.
    pub(crate) fn measure(&self) -> u64 {
        let (keys, kills) = self.views.measure();
        self.kill_bytes.store(kills, Ordering::Relaxed);
        keys + kills
    }

    /// Whether a merge should not wait for its interval.
    pub(crate) fn take_hurry_merge(&self) -> bool {
        self.hurry_merge.swap(false, Ordering::Relaxed)
    }

    /// What sorts and merges.
    pub(crate) fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }
}
