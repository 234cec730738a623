//! Where segments live, and what they share.

use crate::answer::Passes;
use crate::meta::SegmentMeta;
use crate::pool::Pool;
use alluvia_storage::{Cache, Disk};
use alluvia_types::SegmentId;
use std::path::PathBuf;
use std::sync::Arc;

/// Bytes of summaries and Parquet footers that all open segments together keep loaded, unless told otherwise.
const LOADED_BYTES_MAX: u64 = 256 << 20;

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
    /// Passes over its segments' blocks, shared by questions.
    pub(crate) passes: Arc<Passes>,
}

impl TreeContext {
    /// A context with the default bound on loaded summaries.
    pub fn new(disk: Arc<dyn Disk>, cache: Arc<Cache>, dir: impl Into<PathBuf>) -> TreeContext {
        TreeContext {
            disk,
            cache,
            dir: dir.into(),
            pool: Arc::new(Pool::new(LOADED_BYTES_MAX)),
            passes: Arc::default(),
        }
    }

    /// Another bound on the bytes of summaries and Parquet footers that stay loaded.
    pub fn with_loaded_bytes_max(mut self, bytes_max: u64) -> TreeContext {
        self.pool = Arc::new(Pool::new(bytes_max));
        self
    }

    /// Bytes of summaries and Parquet footers that are loaded now.
    pub fn loaded_bytes(&self) -> u64 {
        self.pool.bytes()
    }

    /// Removes the files of a segment that nothing names any more, or ever did, and of its ladder. What cannot be removed now goes
    /// when the database is next opened.
    pub fn remove_files(&self, meta: &SegmentMeta) {
        for id in meta.with_rungs().map(|meta| meta.id) {
            for path in [self.parquet_path(id), self.side_path(id)] {
                let _ = self.disk.remove(&path);
            }
        }
    }

    pub(crate) fn parquet_path(&self, id: SegmentId) -> PathBuf {
        self.dir.join(format!("seg-{id}.parquet"))
    }

    pub(crate) fn side_path(&self, id: SegmentId) -> PathBuf {
        self.dir.join(format!("seg-{id}.side"))
    }
}

/// The segment that a file of this name belongs to, if it is a segment's file.
pub fn segment_of_file(name: &str) -> Option<SegmentId> {
    let id = name.strip_prefix("seg-")?;
    let id = id.strip_suffix(".parquet").or_else(|| id.strip_suffix(".side"))?;
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
        for other in ["seg-.side", "seg-+1.side", "seg-1.side.tmp", "manifest", "seg-99999999999999999999.side"] {
            assert_eq!(segment_of_file(other), None, "{other}");
        }
    }
}
