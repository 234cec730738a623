//! The engine without SQL and without threads.
//!
//! Invariant: what a refused batch had staged is removed, as `node::Core` does it.

use alluvia_catalog::{Catalog, Change, LevelBounds, TableEntry};
use alluvia_commit::{Committer, Followed, RecoveredLog};
use alluvia_log::LogOptions;
use alluvia_pipeline::{
    Inline, Loader, Lost, Pipeline, PipelineOptions, discard, named_kills, named_segments, open, remove_orphans,
};
use alluvia_snapshot::{
    Committed, Done, Durability, KeyFiles, Load, NewBatch, PurgeWait, Purged, Snapshot, SnapshotRow, Spaces, TableRead,
    TailBounds, Views, Want,
};
use alluvia_space::TableDef;
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_storage::{Cache, Disk, DiskLock};
use alluvia_tree::TreeContext;
use alluvia_types::{Clock, Error, ErrorKind, Freshness, Result, SegmentId, TableId, Version};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The data directory on every simulated disk.
pub const DIR: &str = "/db";
/// A seed that names every new database alike.
const DATABASE_SEED: u64 = 42;

/// Sizes that are chosen when the engine is opened.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// The pipeline.
    pub pipeline: PipelineOptions,
    /// Bytes of a log file before the next one begins.
    pub log_file_bytes_max: u64,
    /// Bytes of the tail past which batches wait; half as many may be in one batch.
    pub tail_bytes_max: u64,
    /// About what one sort takes of the tail at a time, where more waits.
    pub sort_step_bytes: u64,
    /// Bytes of the cache of files, and of what is loaded of segments.
    pub cache_bytes_max: u64,
    /// What the writer of a segment holds; rows of which a block has more are written column by column.
    pub waiting_bytes_max: usize,
}

impl Default for EngineOptions {
    /// Options that make small data exercise every stage.
    fn default() -> EngineOptions {
        let pipeline = PipelineOptions {
            segment_rows: 64,
            merge_segments: 2,
            partition_rows_max: 200,
            chunk_rows: 32,
            rung_rows_min: 3,
            ..PipelineOptions::default()
        };
        EngineOptions {
            pipeline,
            log_file_bytes_max: 4 << 10,
            tail_bytes_max: 32 << 20,
            sort_step_bytes: 1_000,
            cache_bytes_max: 32 << 20,
            waiting_bytes_max: 32 << 20,
        }
    }
}

/// One open data directory.
#[derive(Debug)]
pub struct Engine {
    views: Arc<Views>,
    committer: Committer,
    pipeline: Arc<Pipeline>,
    _lock: Box<dyn DiskLock>,
}

impl Engine {
    /// Opens or creates the database in [`DIR`], recovering what a crash left.
    ///
    /// Errors: as the log, the manifest and the disk have them; `Locked` where it is open.
    pub fn open(disk: Arc<dyn Disk>, clock: Arc<dyn Clock>, options: &EngineOptions) -> Result<Engine> {
        let dir = Path::new(DIR);
        let io = |doing: &'static str, path: PathBuf| move |error: std::io::Error| Error::io(&path, doing, &error);
        disk.create_dir_all(dir).map_err(io("creating", dir.into()))?;
        let lock_path = dir.join("lock");
        let lock = disk.try_lock(&lock_path).map_err(io("locking", lock_path))?;
        let lock = lock.ok_or_else(|| Error::new(ErrorKind::Locked, "the directory is open"))?;
        let (segments_dir, log_dir) = (dir.join("segments"), dir.join("log"));
        for dir in [&segments_dir, &log_dir] {
            disk.create_dir_all(dir).map_err(io("creating", dir.clone()))?;
        }
        disk.sync_dir(dir).map_err(io("syncing", dir.into()))?;

        let cache = Arc::new(Cache::new(options.cache_bytes_max));
        let tree = TreeContext::new(Arc::clone(&disk), cache, segments_dir.clone())
            .with_loaded_bytes_max(options.cache_bytes_max)
            .with_waiting_bytes_max(options.waiting_bytes_max);
        let bounds = LevelBounds::new(2 << 30, options.tail_bytes_max);
        let mut closing = BTreeMap::new();
        let (manifest, spaces, views, key_files, keys, recovered) = loop {
            let spaces = Arc::new(Spaces::new(Arc::clone(&disk), dir.into()).with_bounds(bounds.clone()));
            let opened = open(disk.as_ref(), dir, &tree, &spaces, DATABASE_SEED, &closing)?;
            let catalog = opened.catalog().clone();
            let manifest = opened.manifest;
            let (key_files, keys) = KeyFiles::load(disk.as_ref(), dir, manifest.keys.as_deref())?;
            let views = Arc::new(Views::new(
                Arc::clone(&clock),
                tree.clone(),
                Arc::clone(&spaces),
                catalog,
                manifest.producers.clone(),
                opened.base,
                opened.dead,
                TailBounds { bytes_max: options.tail_bytes_max, step_bytes: options.sort_step_bytes },
            ));
            let log_options = LogOptions {
                file_bytes_max: options.log_file_bytes_max,
                clock: Arc::clone(&clock),
                ..LogOptions::new(manifest.database)
            };
            match Committer::recover(Arc::clone(&disk), &log_dir, log_options, &views) {
                Ok(recovered) => break (manifest, spaces, views, key_files, keys, recovered),
                Err(stopped) => match stopped.to_close().filter(|table| !closing.contains_key(table)) {
                    Some(table) => drop(closing.insert(table, stopped.error)),
                    None => return Err(stopped.error),
                },
            }
        };
        let RecoveredLog { log, commit_micros, next_table, .. } = recovered;
        let next_table = next_table.max(manifest.next_table);
        let log = Arc::new(log);

        let named = named_segments(&views);
        let kills = named_kills(&views.base());
        let tables = spaces.required();
        let (highest, highest_kills) = remove_orphans(disk.as_ref(), dir, &segments_dir, &named, &tables, &kills)?;
        key_files.remove_orphans(disk.as_ref())?;
        let next_segment = manifest.next_segment.max(highest.0 + 1);
        let pipeline = Arc::new(Pipeline::new(
            dir.into(),
            &manifest,
            Arc::clone(&views),
            Arc::clone(&log),
            Arc::new(Inline),
            options.pipeline.clone(),
            next_segment,
            next_table,
            manifest.next_kills.max(highest_kills + 1),
            key_files,
        ));
        pipeline.catch_up()?;
        let committer = Committer::new(log, Arc::clone(&views), commit_micros, options.tail_bytes_max / 2, keys);
        Ok(Engine { views, committer, pipeline, _lock: lock })
    }

    /// Makes anew what is damaged and can be made anew, as `Core::mend`.
    pub fn mend(&self) -> Result<Vec<String>> {
        self.pipeline.mend()
    }

    /// As `Admin::forget_segment`.
    pub fn forget_segment(&self, table: TableId, segment: SegmentId, is_told: bool) -> Result<Lost> {
        self.pipeline.forget_segment(table, segment, is_told, &mut || self.flush())
    }

    /// All views.
    pub fn views(&self) -> &Arc<Views> {
        &self.views
    }

    /// The newest visible definitions.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.views.catalog()
    }

    /// The newest visible definition of a table.
    pub fn entry(&self, table: TableId) -> Option<Arc<TableEntry>> {
        self.catalog().by_id(table).cloned()
    }

    /// Pins a snapshot of some tables, as fresh as asked.
    pub fn snapshot(&self, freshness: Freshness, at_least: Version, tables: &[TableId]) -> Result<Snapshot> {
        self.views.snapshot(&Want { freshness, at_least, exactly: None, tables: tables.to_vec() })
    }

    /// Pins a snapshot of some tables at a version that may be asked for.
    pub fn snapshot_at(&self, version: Version, tables: &[TableId]) -> Result<Snapshot> {
        let (freshness, at_least) = (Freshness::Within(Duration::ZERO), Version(0));
        self.views.snapshot(&Want { freshness, at_least, exactly: Some(version), tables: tables.to_vec() })
    }

    /// Keeps a version that may be asked for readable as long as the result lives: a snapshot of no tables.
    pub fn pin(&self, version: Version) -> Result<Snapshot> {
        self.snapshot_at(version, &[])
    }

    /// Where the rows with these keys are in a table of a snapshot, as `Read::find_keys`.
    pub fn find_keys(
        &self,
        version: Version,
        read: &TableRead,
        coder: &KeyCoder,
        codes: &[KeyCode],
    ) -> Result<Vec<Option<SnapshotRow>>> {
        self.views.find_keys(version, read, coder, codes)
    }

    /// Commits a batch, as `Ingest::submit`.
    pub fn submit(&self, batch: NewBatch, durability: Durability) -> Result<Committed> {
        let staged = batch.loads.clone();
        let submitted = self.committer.submit(batch, durability);
        if is_refused(&submitted) {
            discard(&self.pipeline, &staged);
        }
        if submitted.is_err() {
            self.discard_dropped();
        }
        submitted
    }

    /// Takes a version that was decided elsewhere, as a worker of a cluster does; durable and visible after [`Engine::flush`].
    pub fn follow(&self, followed: Followed) -> Result<()> {
        self.committer.follow(followed)
    }

    /// Commits a batch without waiting, as `Ingest::submit_then`.
    pub fn submit_then(&self, batch: NewBatch, done: Done) -> Option<(NewBatch, Done)> {
        self.committer.submit_then(batch, done)
    }

    /// Whether threads are in [`Engine::serve`], which batches that do not wait need.
    pub fn set_served(&self, is_served: bool) {
        self.committer.set_served(is_served);
    }

    /// Makes waiting batches durable; returns after so long without any.
    pub fn serve(&self, patience: Duration) {
        self.committer.serve(patience);
    }

    /// Makes relaxed batches durable and visible.
    pub fn flush(&self) -> Result<()> {
        let flushed = self.committer.flush();
        self.discard_dropped();
        flushed
    }

    /// Commits new tables, of definitions that take the ids they are given.
    pub fn create(&self, make: &[&dyn Fn(TableId) -> TableDef]) -> Result<Vec<TableId>> {
        let defs: Vec<TableDef> = make.iter().map(|make| make(self.pipeline.new_table_id())).collect();
        let ids = defs.iter().map(|def| def.id).collect();
        let changes = defs.into_iter().map(|def| Change::CreateTable { def }).collect();
        self.submit(NewBatch { changes, ..NewBatch::default() }, Durability::Sync)?;
        Ok(ids)
    }

    /// Starts staging a large batch for a table that is there.
    pub fn begin_load(&self, entry: &TableEntry) -> Result<Box<dyn Load>> {
        let loader = Loader::begin(Arc::clone(&self.pipeline), Arc::clone(&entry.def), entry.changed_at)?;
        Ok(Box::new(loader))
    }

    /// Starts a copy of a table that is elsewhere, as a worker of a cluster does.
    pub fn begin_copy(&self, def: &Arc<TableDef>) -> Result<Box<dyn Load>> {
        Ok(Box::new(Loader::begin_copy(Arc::clone(&self.pipeline), Arc::clone(def))?))
    }

    /// Runs one sort cycle.
    pub fn sort(&self) -> Result<bool> {
        self.pipeline.sort()
    }

    /// Merges every table that has anything to merge.
    pub fn merge(&self) -> Result<bool> {
        let tables = self.pipeline.tables_to_merge(true);
        tables.into_iter().try_fold(false, |any, table| Ok(any | self.pipeline.merge(table)?))
    }

    /// Removes what was deleted of a table from the files. `wait` is told of what that waits for.
    pub fn purge(&self, table: TableId, wait: &mut dyn FnMut(&PurgeWait) -> Result<()>) -> Result<Purged> {
        self.flush()?;
        let closed = self.pipeline.close_log()?;
        self.views.wait_visible(closed)?;
        self.pipeline.purge(table, closed, wait)
    }

    fn discard_dropped(&self) {
        discard(&self.pipeline, &self.committer.take_dropped());
    }
}

/// Whether a batch is certainly not in the log.
fn is_refused(submitted: &Result<Committed>) -> bool {
    use ErrorKind::{Corrupt, Internal, Io, Poisoned, Shutdown};
    match submitted {
        Ok(committed) => committed.duplicate,
        Err(error) => !matches!(error.kind(), Corrupt | Internal | Io | Poisoned | Shutdown),
    }
}
