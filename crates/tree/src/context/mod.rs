//! The directory of segments: its disk, its caches, and what segments and questions share.
//!
//! Rooms above keep one value of each type beside a context ([`TreeContext::shared`]), which knows none of them.

mod pool;

pub(crate) use pool::{Pool, Slot};

use crate::layout::BLOCK_ROWS;
use crate::meta::SegmentMeta;
use alluvia_storage::{Cache, Disk, DiskFile};
use alluvia_types::SegmentId;
use parking_lot::Mutex;
use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of summaries and Parquet footers that all open segments together keep loaded, unless told otherwise.
const LOADED_BYTES_MAX: u64 = 256 << 20;
/// What the writer of one segment holds of a row group, and again of a stripe, unless told otherwise.
const WAITING_BYTES_MAX: usize = 256 << 20;
/// What the writer of one column holds beside its values, about: buffers of its encoder, which has a megabyte for differences, and the packed
/// values of a block of a measure.
const COLUMN_BYTES: usize = 512 << 10;

/// The directory of segments, its disk and its caches. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct TreeContext {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// Verified chunks of files.
    pub cache: Arc<Cache>,
    /// The directory; it exists.
    pub dir: PathBuf,
    pub(crate) pool: Arc<Pool>,
    /// What the writer of one segment holds of a row group, and again of a stripe.
    pub(crate) waiting_bytes_max: usize,
    pub(crate) shared: Arc<Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>>,
}

impl TreeContext {
    /// A context with the default bound on loaded summaries.
    pub fn new(disk: Arc<dyn Disk>, cache: Arc<Cache>, dir: impl Into<PathBuf>) -> TreeContext {
        TreeContext {
            disk,
            cache,
            dir: dir.into(),
            pool: Arc::new(Pool::new(LOADED_BYTES_MAX)),
            waiting_bytes_max: WAITING_BYTES_MAX,
            shared: Arc::default(),
        }
    }

    /// Another bound on the bytes of summaries and Parquet footers that stay loaded.
    pub fn with_loaded_bytes_max(mut self, bytes_max: u64) -> TreeContext {
        self.pool = Arc::new(Pool::new(bytes_max));
        self
    }

    /// Another bound on what the writer of one segment holds of a row group, and again of a stripe: row groups end earlier then, and stripes
    /// wait in a file.
    pub fn with_waiting_bytes_max(mut self, bytes_max: usize) -> TreeContext {
        self.waiting_bytes_max = bytes_max;
        self
    }

    /// What is held of the values of wide rows while they are written column by column: what may wait of a row group, which then does not.
    pub(crate) fn wide_bytes_max(&self) -> usize {
        self.waiting_bytes_max
    }

    /// Whether so many rows of so many columns, each of so many bytes, are written column by column ([`crate::WideWriter`]): because a block
    /// of them, or what the writers of their columns hold, is more than may wait.
    pub fn is_wide(&self, rows: u64, row_bytes: usize, columns: usize) -> bool {
        let block = rows.min(BLOCK_ROWS as u64) as usize;
        row_bytes.saturating_mul(block) > self.wide_bytes_max() || columns * COLUMN_BYTES > self.wide_bytes_max()
    }

    /// Bytes of summaries and Parquet footers that are loaded now.
    pub fn loaded_bytes(&self) -> u64 {
        self.pool.bytes()
    }

    /// Removes the files of a segment that nothing names any more, or ever did, and of its ladder. What cannot be
    /// removed now goes when the database is next opened.
    pub fn remove_files(&self, meta: &SegmentMeta) {
        for id in meta.with_rungs().map(|meta| meta.id) {
            for path in [self.parquet_path(id), self.side_path(id)] {
                let _ = self.disk.remove(&path);
            }
        }
    }

    /// The value of this type that all clones of the context share: the default until somebody changes it.
    pub(crate) fn shared<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let mut shared = self.shared.lock();
        let value = shared.entry(TypeId::of::<T>()).or_insert_with(|| Arc::new(T::default()));
        Arc::clone(value).downcast().expect("a value is of the type that it is found by")
    }

    /// The Parquet file of a segment.
    pub fn parquet_path(&self, id: SegmentId) -> PathBuf {
        self.dir.join(format!("seg-{id}.parquet"))
    }

    /// What waits to be written to the side file of a segment. The name is there for a moment.
    pub(crate) fn waiting_path(&self, id: SegmentId) -> PathBuf {
        self.dir.join(format!("seg-{id}.waiting"))
    }

    /// The side file of a segment.
    pub fn side_path(&self, id: SegmentId) -> PathBuf {
        self.dir.join(format!("seg-{id}.side"))
    }
}

/// A file for what waits. Who holds it reads and writes it; nobody finds it, also after a crash: its name is there for a moment.
pub(crate) fn nameless_file(disk: &dyn Disk, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
    let file = disk.create(path)?;
    disk.remove(path)?;
    Ok(file)
}

/// The segment that a file of this name belongs to, if it is a segment's file.
pub fn segment_of_file(name: &str) -> Option<SegmentId> {
    let id = name.strip_prefix("seg-")?;
    let id = [".parquet", ".side", ".waiting"].iter().find_map(|kind| id.strip_suffix(kind))?;
    let digits = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| id.parse().ok().map(SegmentId)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segment_of_file_knows_its_own_names_only() {
        assert_eq!(segment_of_file("seg-17.parquet"), Some(SegmentId(17)));
        assert_eq!(segment_of_file("seg-17.side"), Some(SegmentId(17)));
        assert_eq!(segment_of_file("seg-17.waiting"), Some(SegmentId(17)));
        for other in ["seg-.side", "seg-+1.side", "seg-1.side.tmp", "manifest", "seg-99999999999999999999.side"] {
            assert_eq!(segment_of_file(other), None, "{other}");
        }
    }
}
