//! The port of readers: the views of this process.
//!
//! Invariant: whoever waits for a version of a relaxed batch does not wait for the flusher: the batch is made durable
//! at once.

use super::Core;
use alluvia_catalog::Catalog;
use alluvia_snapshot::{HeapLoad, HeapSnapshot, Killed, Newer, Read, Snapshot, SnapshotRow, TableRead, Want};
use alluvia_space::key_code::{KeyCode, KeyCoder};
use alluvia_types::{Clock, Freshness, Result, TableId, Version};
use std::sync::Arc;
use std::time::Duration;

impl Read for Core {
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

    fn killed(&self, table: TableId, above: Version, through: Version) -> Option<Killed> {
        self.views.killed(table, above, through)
    }

    fn last_written(&self, table: TableId, codes: &[KeyCode], above: Version) -> Option<Version> {
        self.views.last_written(table, codes, above)
    }

    fn last_written_now(&self, table: TableId, codes: &[KeyCode], above: Version) -> Option<Option<Version>> {
        self.views.last_written_now(table, codes, above)
    }

    fn rows_in_memory(&self, tables: &[TableId], exactly: Option<Version>) -> Option<HeapSnapshot> {
        self.views.rows_in_memory(tables, exactly)
    }

    fn begin_heap(&self, table: TableId) -> Option<HeapLoad> {
        self.views.begin_heap(table)
    }

    fn find_keys(
        &self,
        version: Version,
        read: &TableRead,
        coder: &KeyCoder,
        codes: &[KeyCode],
    ) -> Result<Vec<Option<SnapshotRow>>> {
        self.views.find_keys(version, read, coder, codes)
    }

    fn find_keys_now(
        &self,
        version: Version,
        read: &TableRead,
        coder: &KeyCoder,
        codes: &[KeyCode],
    ) -> Result<Option<Vec<Option<SnapshotRow>>>> {
        self.views.find_keys_now(version, read, coder, codes)
    }

    fn wait_visible(&self, version: Version) -> Result<()> {
        if self.views.visible() < version {
            self.flush()?;
        }
        self.views.wait_visible(version)
    }
}
