//! Purges by age: dead rows that are older than `purge_after` go by themselves, segment by segment.
//!
//! Invariants:
//! - How old a kill is, is told by marks, which may be lost: then it takes longer until it goes. None goes early that somebody may
//!   still ask for.
//! - A database of which no table is purged by age notes nothing and writes nothing.

use super::Core;
use crate::memos;
use alluvia_pipeline::Ages;
use alluvia_snapshot::{Admin, Memo};
use alluvia_space::PurgeAfter;
use alluvia_storage::Disk;
use alluvia_types::{Error, Result, TableId, Version};
use parking_lot::Mutex;
use std::path::Path;
use std::time::Duration;

/// The marks.
pub(crate) const MEMO: Memo = Memo { name: "ages", magic: b"ALVAGE01" };
/// Between marks lies this part of the shortest age that is asked for, but never more than an hour.
const PARTS: u32 = 16;
const GAP_MAX: Duration = Duration::from_secs(3_600);

/// What is known of the ages of kills.
#[derive(Debug)]
pub(super) struct Aged {
    marks: Mutex<Ages>,
    /// Of tables that do not say it.
    default: PurgeAfter,
}

impl Aged {
    /// As far as the last process knew.
    pub(super) fn recall(disk: &dyn Disk, dir: &Path, default: PurgeAfter) -> Result<Aged> {
        let kept = memos::recall(disk, dir, &MEMO)?;
        let marks = kept.and_then(|bytes| {
            let failed =
                |error: &Error| tracing::warn!(%error, "what was known of the ages of deleted rows is learnt anew");
            Ages::from_bytes(&bytes).inspect_err(failed).ok()
        });
        Ok(Aged { marks: Mutex::new(marks.unwrap_or_default()), default })
    }
}

/// Whether the memo's content can be read.
pub(crate) fn check(content: &[u8]) -> Result<()> {
    Ages::from_bytes(content).map(drop)
}

impl Core {
    /// Writes one segment anew, without its dead rows, that has some which are older than their table lets them become. Returns
    /// whether there was one.
    pub fn purge_old(&self) -> Result<bool> {
        let catalog = self.views.catalog();
        let ages = catalog.tables().filter_map(|entry| {
            let after = entry.def.options.purge_after.unwrap_or(self.aged.default);
            after.age().map(|age| (entry.def.id, age))
        });
        let ages: Vec<(TableId, Duration)> = ages.collect();
        let Some(shortest) = ages.iter().map(|(_, age)| *age).min() else { return Ok(false) };
        // In this order: by the time that is noted the version is visible.
        let visible = self.views.visible();
        let now = self.clock.wall_micros();
        let mut marks = self.aged.marks.lock();
        if marks.note(now, visible, (shortest / PARTS).min(GAP_MAX)) {
            self.memorise(&MEMO, &marks.to_bytes())?;
        }
        let old = ages.into_iter().map(|(table, age)| (table, marks.through(now, age)));
        let old: Vec<(TableId, Version)> = old.filter(|(_, through)| *through > Version(0)).collect();
        drop(marks);
        let Some((table, rewritten)) = self.pipeline.rewrite_old(&old)? else { return Ok(false) };
        tracing::debug!(
            table = table.0,
            segments = rewritten.segments,
            bytes = rewritten.bytes,
            "old deleted rows have gone"
        );
        Ok(true)
    }
}
