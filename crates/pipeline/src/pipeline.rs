//! The pipeline's parts in one place.

use crate::editor::Editing;
use crate::options::PipelineOptions;
use crate::workers::Workers;
use alluvia_log::Log;
use alluvia_snapshot::{KeyFiles, Manifest, Views};
use alluvia_tree::TreeContext;
use alluvia_types::{SegmentId, TableId};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Sorts, merges, stages loads, and writes the manifest.
#[derive(Debug)]
pub struct Pipeline {
    pub(crate) dir: PathBuf,
    pub(crate) database: u64,
    pub(crate) views: Arc<Views>,
    pub(crate) log: Arc<Log>,
    pub(crate) workers: Arc<dyn Workers>,
    pub(crate) options: PipelineOptions,
    /// Shared with the workers, which name what they write.
    pub(crate) next_segment: Arc<AtomicU64>,
    pub(crate) next_table: AtomicU32,
    /// The number of the next file of kills.
    pub(crate) next_kills: AtomicU64,
    pub(crate) keys: Mutex<KeyFiles>,
    /// Held while the manifest is computed, written and installed (P1).
    pub(crate) editing: Mutex<Editing>,
    /// Tables that a load was abandoned of: if it was to make the table, nothing else will forget its dictionaries.
    pub(crate) abandoned: Mutex<BTreeSet<TableId>>,
    /// One sort, and one merge, at a time.
    pub(crate) sorting: Mutex<()>,
    pub(crate) merging: Mutex<()>,
}

impl Pipeline {
    /// A pipeline over views that were opened by this manifest, which is durable. Ids from `next_segment`, `next_table` and
    /// `next_kills` on are free.
    #[allow(clippy::too_many_arguments)] // called once, by the composition root
    pub fn new(
        dir: PathBuf,
        manifest: &Manifest,
        views: Arc<Views>,
        log: Arc<Log>,
        workers: Arc<dyn Workers>,
        options: PipelineOptions,
        next_segment: u64,
        next_table: u32,
        next_kills: u64,
        keys: KeyFiles,
    ) -> Self {
        Pipeline {
            dir,
            database: manifest.database,
            views,
            log,
            workers,
            options,
            next_segment: Arc::new(AtomicU64::new(next_segment)),
            next_table: AtomicU32::new(next_table),
            next_kills: AtomicU64::new(next_kills),
            keys: Mutex::new(keys),
            editing: Mutex::new(Editing::new(manifest)),
            abandoned: Mutex::default(),
            sorting: Mutex::new(()),
            merging: Mutex::new(()),
        }
    }

    /// The options it runs with.
    pub fn options(&self) -> &PipelineOptions {
        &self.options
    }

    /// An id for a new segment.
    pub(crate) fn new_segment(&self) -> SegmentId {
        SegmentId(self.next_segment.fetch_add(1, Ordering::Relaxed))
    }

    /// An id for a new table.
    pub fn new_table_id(&self) -> TableId {
        TableId(self.next_table.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn tree(&self) -> &TreeContext {
        self.views.tree()
    }
}
