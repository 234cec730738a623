//! The port of administration: the pipeline, the files beside the data and the views of this process.
//!
//! Invariant: a stage that is asked for is complete through what was visible at the call, also if it was there relaxed.

use super::Core;
use crate::memos;
use alluvia_snapshot::{
    Admin, BatchInfo, ClosedTable, HeapInfo, Memo, PurgeWait, Purged, Read, SegmentInfo, StageInfo, StoreInfo,
};
use alluvia_types::{Result, SegmentId, Stage, TableId};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

/// How often a purge looks whether what it waits for is gone.
const PURGE_LOOK: Duration = Duration::from_millis(20);
/// How often it is looked whether a sort is done.
const SORT_LOOK: Duration = Duration::from_millis(2);

impl Admin for Core {
    fn organise(&self, stage: Stage) -> Result<()> {
        self.flush()?;
        let (version, before) = (self.views.visible(), self.views.failures());
        self.hurry_sort.store(true, Ordering::Relaxed);
        if stage == Stage::Merged {
            self.views.wait_organised(Stage::Sorted, version, before)?;
            // Staged rows count as sorted before a sort has put them where merges look: one that looked before would find nothing.
            while self.views.base().through < version && self.views.failures() == before {
                thread::sleep(SORT_LOOK);
            }
            self.hurry_merge.store(true, Ordering::Relaxed);
        }
        self.views.wait_organised(stage, version, before)
    }

    fn purge(&self, table: TableId, wait: &mut dyn FnMut(&PurgeWait) -> Result<()>) -> Result<Purged> {
        self.flush()?;
        let closed = self.pipeline.close_log()?;
        Read::wait_visible(self, closed)?;
        let purged = self.pipeline.purge(table, closed, &mut |what| {
            wait(what)?;
            if *what != PurgeWait::Working {
                thread::sleep(PURGE_LOOK);
            }
            Ok(())
        })?;
        // Nobody reads them again, and a memo of predicates has values of rows.
        memos::remove_damaged(self.disk.as_ref(), &self.dir)?;
        Ok(purged)
    }

    fn closed(&self) -> BTreeMap<TableId, String> {
        let base = self.views.base();
        let why = |closed: &ClosedTable| match base.held().filter(|_| closed.files.held.is_some()) {
            Some(held) => {
                format!("{}; the log is kept for it from version {} on", closed.error.message(), held.after.next())
            }
            None => closed.error.message().to_owned(),
        };
        base.closed.iter().map(|(&table, closed)| (table, why(closed))).collect()
    }

    fn forget_segment(&self, table: TableId, segment: SegmentId, is_told: bool) -> Result<Vec<String>> {
        let name = self.views.catalog().by_id(table).map_or_else(String::new, |entry| entry.def.shown());
        let lost = self.pipeline.forget_segment(table, segment, is_told, &mut || self.flush())?;
        let mut told =
            vec![format!("table '{name}' {} {}: {}", lost.verb(is_told), lost.forgotten, lost.why.message())];
        told.extend(lost.mended.iter().map(|sentence| format!("table '{name}': {sentence}")));
        match (is_told, &lost.still_closed) {
            (false, _) => told.push(
                "nothing was changed: restore the file from a copy if there is one; a third argument, force => true, forgets the segment"
                    .to_owned(),
            ),
            (true, Some(why)) => told.push(format!("table '{name}' is still closed: {}", why.message())),
            (true, None) => tracing::warn!(table = %name, lost = %lost.forgotten, "a segment was forgotten, as somebody has told"),
        }
        Ok(told)
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

    fn heaps(&self) -> Vec<HeapInfo> {
        self.views.heap_infos()
    }

    fn segments(&self) -> Vec<SegmentInfo> {
        self.views.segment_infos()
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
            key_bytes: self.views.keys().bytes(),
            kill_bytes: self.kill_bytes.load(Ordering::Relaxed),
            pipeline_error: self.views.pipeline_error().map(|error| error.to_string()),
        }
    }
}
