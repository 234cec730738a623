//! The engine without threads: log, commit, views and pipeline over one disk and one clock.

use crate::audit::AuditLog;
use crate::directory::{LOCK_NAME, LOG_DIR, SEGMENTS_DIR, cannot_make, refuse_others};
use crate::memos;
use crate::options::DatabaseOptions;
use alluvia_catalog::{Catalog, LevelBounds};
use alluvia_commit::{Committer, Replayed};
use alluvia_log::Log;
use alluvia_pipeline::{Loader, Pipeline, Workers, discard, open, remove_orphans};
use alluvia_snapshot::{
    BatchInfo, BatchKey, Committed, Done, Durability, KeyFiles, KeyRecord, Load, Memo, NewBatch, Newer, Snapshot,
    Spaces, StageInfo, Store, StoreInfo, Views, Want,
};
use alluvia_space::TableDef;
use alluvia_storage::{Cache, Disk, DiskLock};
use alluvia_tree::{SegmentMeta, TreeContext};
use alluvia_types::{Clock, Error, ErrorKind, Freshness, ProducerMark, Result, Stage, TableId, Version};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The audit log goes on in another file past this.
const AUDIT_FILE_BYTES_MAX: u64 = 16 << 20;

/// Batches up to this size may wait for their fsync without a thread of their own; to encode and copy a larger one takes
/// too long for a thread that must not block.
const SMALL_BYTES_MAX: usize = 64 << 10;
/// The same of changes of definitions, each of which may be a table of many columns.
const SMALL_CHANGES_MAX: usize = 8;

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
    /// Set by `organise`: the threads should not wait for their intervals.
    hurry_sort: AtomicBool,
    hurry_merge: AtomicBool,
    relaxed: AtomicBool,
    _lock: Box<dyn DiskLock>,
}

impl Core {
    /// Opens or creates the database in `dir`, recovering what a crash left. `seed` is used only to name a new database.
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
        refuse_others(disk.as_ref(), dir)?;
        let lock_path = dir.join(LOCK_NAME);
        let lock = disk.try_lock(&lock_path).map_err(io("locking", lock_path))?.ok_or_else(|| {
            Error::new(ErrorKind::Locked, format!("{} is open in another process", dir.display()))
                .with_hint("one process at a time may open a data directory; stop the other one first")
        })?;
        let segments_dir = dir.join(SEGMENTS_DIR);
        disk.create_dir_all(&segments_dir).map_err(io("creating", segments_dir.clone()))?;
        let log_dir = dir.join(LOG_DIR);
        disk.create_dir_all(&log_dir).map_err(io("creating", log_dir.clone()))?;
        // The last process may have died, or failed, between renaming a manifest into place and syncing its name. What is built on the
        // one that is read below, and removed because it does not name it, must not meet an older one after a loss of power.
        disk.sync_dir(dir).map_err(io("syncing", dir.into()))?;

        let cache = Arc::new(Cache::new(options.cache_bytes_max()));
        let tree = TreeContext::new(Arc::clone(&disk), Arc::clone(&cache), segments_dir.clone())
            .with_loaded_bytes_max(options.index_bytes_max());
        let bounds = LevelBounds::new(options.level_bytes_max, options.tail_bytes_max());
        let spaces = Arc::new(Spaces::new(Arc::clone(&disk), dir.into()).with_bounds(bounds));
        let opened = open(disk.as_ref(), dir, &tree, &spaces, seed)?;
        let manifest = opened.manifest;
        let views = Arc::new(Views::new(
            Arc::clone(&clock),
            tree,
            Arc::clone(&spaces),
            manifest.catalog.clone(),
            manifest.producers.clone(),
            opened.base,
            options.tail_bytes_max(),
        ));

        let mut commit_micros = 0;
        let mut next_table = manifest.next_table;
        let log_options = options.log(manifest.database, &clock);
        let log = Log::open(Arc::clone(&disk), &log_dir, log_options, manifest.through, &mut |record| {
            commit_micros = record.commit_micros;
            let Replayed { published, highest_created } = Committer::replay(&record, &views.catalog(), &spaces)?;
            // Also those of tables that were dropped since: keys and files outlive them, and know them by their ids.
            next_table = next_table.max(highest_created.map_or(0, |table| table.0 + 1));
            views.publish(&mut vec![published], true)
        })?;
        let log = Arc::new(log);

        let named = views.named_segments();
        let named = named.iter().flat_map(|segment| segment.meta().with_rungs()).map(|meta| meta.id).collect();
        let mut next_segment = manifest.next_segment;
        let highest = remove_orphans(disk.as_ref(), dir, &segments_dir, &named, &spaces.required())?;
        next_segment = next_segment.max(highest.0 + 1);
        let (key_files, keys) = KeyFiles::load(disk.as_ref(), dir)?;
        let pipeline = Arc::new(Pipeline::new(
            dir.into(),
            &manifest,
            Arc::clone(&views),
            Arc::clone(&log),
            workers,
            options.pipeline(),
            next_segment,
            next_table,
            key_files,
        ));
        let committer = Committer::new(log, Arc::clone(&views), commit_micros, options.batch_bytes_max(), keys);
        let audit = AuditLog::new(Arc::clone(&disk), dir, AUDIT_FILE_BYTES_MAX);
        Ok(Core {
            disk,
            dir: dir.into(),
            clock,
            views,
            committer,
            pipeline,
            cache,
            audit,
            hurry_sort: AtomicBool::new(false),
            hurry_merge: AtomicBool::new(false),
            relaxed: AtomicBool::new(false),
            _lock: lock,
        })
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

    /// Merges every table that is due, or, in a hurry, that has anything to merge. One that cannot be merged keeps no other from it;
    /// the first one's error is returned.
    pub fn merge(&self, hurry: bool) -> Result<bool> {
        let merge = |table| self.pipeline.merge(table);
        let merged: Vec<Result<bool>> = self.pipeline.tables_to_merge(hurry).into_iter().map(merge).collect();
        merged.into_iter().try_fold(false, |any, merged| Ok(any | merged?))
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

    /// Ends the log with a statement that all of it is durable, so that later damage to its end is told from a torn write.
    pub(crate) fn seal(&self) -> Result<()> {
        self.committer.flush()?;
        self.committer.log().seal()
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

    /// Whether a merge should not wait for its interval.
    pub(crate) fn take_hurry_merge(&self) -> bool {
        self.hurry_merge.swap(false, Ordering::Relaxed)
    }

    /// What sorts and merges.
    pub(crate) fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }
}

fn rows_bytes(batch: &NewBatch) -> usize {
    batch.rows.iter().flat_map(|rows| &rows.batches).map(|rows| rows.get_array_memory_size()).sum()
}

/// Whether a batch is certainly not in the log: it was sent before, did not pass the checks, or found the disk full, which the log tells only
/// once what it had written is cut off for good (definite refusal). After any other failure of the log or its disk only recovery can tell.
fn is_refused(submitted: &Result<Committed>) -> bool {
    use ErrorKind::{Corrupt, Internal, Io, Poisoned, Shutdown};
    match submitted {
        Ok(committed) => committed.duplicate,
        Err(error) => !matches!(error.kind(), Corrupt | Internal | Io | Poisoned | Shutdown),
    }
}

impl Store for Core {
    fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.views.catalog()
    }

    fn snapshot(&self, want: &Want) -> Result<Snapshot> {
        self.views.snapshot(want)
    }

    fn required(&self, freshness: Freshness, at_least: Version) -> Version {
        self.views.required(freshness, at_least)
    }

    fn lag(&self, version: Version) -> Duration {
        self.views.lag(version)
    }

    fn newer(&self, table: TableId, above: Version, from: Version) -> Option<Newer> {
        self.views.newer(table, above, from)
    }

    fn submit(&self, batch: NewBatch, durability: Durability) -> Result<Committed> {
        let staged = batch.loads.clone();
        let submitted = self.committer.submit(batch, durability);
        // Once it is among those that a flush takes: told before, one may come between, and nobody else would ask for another.
        if submitted.is_ok() && durability == Durability::Relaxed {
            self.relaxed.store(true, Ordering::Relaxed);
        }
        if is_refused(&submitted) {
            discard(&self.pipeline, &staged);
        }
        if submitted.is_err() {
            self.discard_dropped();
        }
        submitted
    }

    fn submit_then(&self, batch: NewBatch, done: Done) -> Option<(NewBatch, Done)> {
        let is_few = batch.loads.is_empty() && batch.changes.len() <= SMALL_CHANGES_MAX;
        let is_small = is_few && rows_bytes(&batch) <= SMALL_BYTES_MAX;
        if is_small { self.committer.submit_then(batch, done) } else { Some((batch, done)) }
    }

    fn wait_visible(&self, version: Version) -> Result<()> {
        if self.views.visible() < version {
            self.flush()?;
        }
        self.views.wait_visible(version)
    }

    fn new_table_id(&self) -> TableId {
        self.pipeline.new_table_id()
    }

    fn begin_load(&self, table: &Arc<TableDef>, checked_at: Version) -> Result<Box<dyn Load>> {
        Ok(Box::new(Loader::begin(Arc::clone(&self.pipeline), Arc::clone(table), checked_at)?))
    }

    fn discard(&self, batch: NewBatch) {
        discard(&self.pipeline, &batch.loads);
    }

    fn producer(&self, name: &str) -> Option<(ProducerMark, Version)> {
        let state = self.views.producer(name)?;
        let mark = ProducerMark { name: name.to_owned(), epoch: state.epoch, sequence: state.sequence };
        Some((mark, state.version))
    }

    fn keyed(&self, key: BatchKey) -> Option<KeyRecord> {
        self.committer.keyed(key)
    }

    fn organise(&self, stage: Stage) -> Result<()> {
        self.flush()?;
        let (version, before) = (self.views.visible(), self.views.failures());
        self.hurry_sort.store(true, Ordering::Relaxed);
        if stage == Stage::Merged {
            self.views.wait_organised(Stage::Sorted, version, before)?;
            self.hurry_merge.store(true, Ordering::Relaxed);
        }
        self.views.wait_organised(stage, version, before)
    }

    fn recall(&self, memo: &Memo) -> Result<Option<Vec<u8>>> {
        memos::recall(self.disk.as_ref(), &self.dir, memo)
    }

    fn memorise(&self, memo: &Memo, content: &[u8]) -> Result<()> {
        memos::memorise(self.disk.as_ref(), &self.dir, memo, content)
    }

    fn audit(&self, lines: &[u8]) -> Result<()> {
        self.audit.append(lines)
    }

    fn audited(&self, bytes_max: u64) -> Result<Vec<u8>> {
        self.audit.tail(bytes_max)
    }

    fn batches(&self, limit: usize) -> Vec<BatchInfo> {
        self.views.batches(limit)
    }

    fn stages(&self) -> Vec<StageInfo> {
        self.views.stages()
    }

    fn segments(&self) -> Vec<SegmentMeta> {
        self.views.segments().iter().map(|segment| segment.meta().clone()).collect()
    }

    fn info(&self) -> StoreInfo {
        let (tail_bytes_max, writers_waiting) = self.views.room();
        let log = self.committer.log();
        StoreInfo {
            visible: self.views.visible(),
            tail_bytes: self.views.tail_load().0,
            tail_bytes_max,
            writers_waiting,
            log_bytes: log.bytes_on_disk(),
            log_groups: log.groups(),
            published: self.views.published(),
            read_only: log.failure().map(|error| error.to_string()),
            cache_bytes: self.cache.used_bytes(),
            pipeline_error: self.views.pipeline_error().map(|error| error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alluvia_catalog::Change;
    use alluvia_pipeline::Inline;
    use alluvia_space::{Column, DataType, TableOptions};
    use alluvia_storage::FaultDisk;
    use alluvia_types::{ColumnId, ManualClock};

    fn submit(core: &Core, change: Change) -> Result<Committed> {
        core.submit(NewBatch { changes: vec![change], ..NewBatch::default() }, Durability::Relaxed)
    }

    /// A flush that is asked for before the batch has its version leaves it, and takes the request with it.
    #[test]
    fn a_relaxed_batch_is_told_of_once_it_has_its_version() {
        let clock = Arc::new(ManualClock::default());
        let options = DatabaseOptions::default();
        let core = Core::open(FaultDisk::new(), Path::new("/db"), clock, &options, Arc::new(Inline), 42).unwrap();
        submit(&core, Change::DropTable { id: TableId(99) }).expect_err("there is no such table");
        assert!(!core.take_relaxed(), "there is nothing to flush");
        let column = Column {
            id: ColumnId(0),
            name: "id".to_owned(),
            storage_name: "id".to_owned(),
            data_type: DataType::Int64,
            nullable: true,
            chars_max: None,
        };
        let def = TableDef {
            id: core.new_table_id(),
            name: "t".to_owned(),
            columns: vec![column],
            next_column_id: 1,
            dimensions: Vec::new(),
            measures: Vec::new(),
            seed: 7,
            options: TableOptions::default(),
        };
        submit(&core, Change::CreateTable { def }).unwrap();
        assert!(core.take_relaxed());
    }
}
