//! The pipeline's parts in one place.

use crate::editor::Editing;
use crate::options::PipelineOptions;
use crate::workers::Workers;
use alluvia_log::Log;
use alluvia_snapshot::{KeyFiles, Manifest, Views};
use alluvia_tree::{HeldFiles, TreeContext};
use alluvia_types::{SegmentId, TableId};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

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
    /// Segments that were retired, and the rungs of them, until their files are gone.
    pub(crate) retired: Mutex<Vec<Retired>>,
    /// Loads that are not over: their codes are in no view.
    pub(crate) loading: Mutex<Vec<(TableId, Weak<()>)>>,
    /// One purge at a time, and while it asks which members are used no sort and no merge: in this order.
    pub(crate) purging: Mutex<()>,
    /// Segments of which damage could not be mended: that was told.
    pub(crate) unmendable: Mutex<BTreeSet<SegmentId>>,
    /// The table of which old dead rows have gone last.
    pub(crate) served_last: Mutex<Option<TableId>>,
    /// One sort, and one merge, at a time.
    pub(crate) sorting: Mutex<()>,
    pub(crate) merging: Mutex<()>,
}

/// A segment that no manifest names any more.
#[derive(Debug)]
pub(crate) struct Retired {
    pub(crate) table: TableId,
    pub(crate) id: SegmentId,
    /// Its files go with the last who holds them.
    pub(crate) files: Weak<HeldFiles>,
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
            retired: Mutex::default(),
            loading: Mutex::default(),
            purging: Mutex::new(()),
            unmendable: Mutex::default(),
            served_last: Mutex::default(),
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
