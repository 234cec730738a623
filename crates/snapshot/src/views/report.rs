//! Reports on the views, for system tables, metrics and the decisions of the pipeline.

use super::{TableKills, Views};
use crate::closed::ClosedTable;
use crate::ports::{BatchInfo, SegmentInfo, StageInfo};
use crate::tail::TailTable;
use alluvia_tree::{Segment, SegmentMeta};
use alluvia_types::{Stage, Version};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Views {
    /// Bytes of the tail, and how long the oldest batch that a sort would take has waited for it.
    pub fn tail_load(&self) -> (u64, Duration) {
        let state = self.state.read();
        let oldest = state.tails.values().filter_map(|tail| tail.first_above(state.base.through));
        let kills = state.kills.values().filter_map(TableKills::first).filter(|first| *first <= state.visible);
        let oldest = oldest.chain(kills).min();
        let staged = [&state.attached, &state.dropped].into_iter().filter_map(|loads| loads.keys().next().copied());
        let age = match oldest.into_iter().chain(staged).min() {
            Some(first) => state.times.lag(self.clock.monotonic(), Version(first.0 - 1)),
            None => Duration::ZERO,
        };
        (state.tail_bytes, age)
    }

    /// Bytes of what grows with the rows, and is no row: keys, and the kills. It looks at all of them.
    pub fn measure(&self) -> (u64, u64) {
        // Counted without the lock.
        let kills: Vec<TableKills> = self.state.read().kills.values().cloned().collect();
        (self.keys.measure(), kills.iter().map(TableKills::bytes).sum())
    }

    /// Bound of the tail, and writers that wait for room in it.
    pub fn room(&self) -> (u64, u64) {
        (self.bounds.bytes_max, self.writers_waiting.load(Ordering::Relaxed))
    }

    /// Recent batches, newest first.
    pub fn batches(&self, limit: usize) -> Vec<BatchInfo> {
        self.state.read().batches.iter().rev().take(limit).cloned().collect()
    }

    /// Every segment that the newest snapshot names.
    pub fn segments(&self) -> Vec<Arc<Segment>> {
        let state = self.state.read();
        let based = state.base.tables.values().flat_map(|table| table.sorted.iter().chain(table.merged()));
        let attached = state.attached.values().flatten().flat_map(|(_, segments)| segments);
        based.chain(attached).cloned().collect()
    }

    /// The same, with the rows of each that are dead; and those of tables that are closed.
    pub fn segment_infos(&self) -> Vec<SegmentInfo> {
        let state = self.state.read();
        let based = state.base.tables.values().flat_map(|table| table.sorted.iter().chain(table.merged()));
        let attached = state.attached.values().flatten().flat_map(|(_, segments)| segments);
        let info = |segment: &Arc<Segment>| SegmentInfo {
            meta: segment.meta().clone(),
            dead_rows: state.dead_rows_of(segment),
        };
        let closed = state.base.closed.values().flat_map(ClosedTable::segments);
        let closed = closed.map(|meta| SegmentInfo { meta: meta.clone(), dead_rows: 0 });
        based.chain(attached).map(info).chain(closed).collect()
    }

    /// Every segment that the manifest or a record of the log names: beside those of [`Views::segments`] what was
    /// staged for tables that were dropped since.
    pub fn named_segments(&self) -> Vec<Arc<Segment>> {
        let mut segments = self.segments();
        let state = self.state.read();
        segments.extend(state.dropped.values().flatten().flat_map(|(_, segments)| segments.iter().cloned()));
        segments
    }

    /// Every table's stages, least organised first.
    pub fn stages(&self) -> Vec<StageInfo> {
        let now = self.clock.monotonic();
        let state = self.state.read();
        let mut stages = Vec::new();
        for entry in state.catalog.tables() {
            let table = entry.def.id;
            let tail = state.tails.get(&table);
            let attached = state.attached.values().flatten().filter(|(owner, _)| *owner == table);
            let attached: Vec<&Arc<Segment>> = attached.flat_map(|(_, segments)| segments).collect();
            let based = state.base.tables.get(&table);
            for stage in [Stage::Ingested, Stage::Sorted, Stage::Merged] {
                let segments: Vec<&Arc<Segment>> = match (stage, based) {
                    (Stage::Sorted, based) => {
                        based.iter().flat_map(|base| &base.sorted).chain(attached.iter().copied()).collect()
                    }
                    (Stage::Merged, Some(base)) => base.merged().collect(),
                    _ => Vec::new(),
                };
                let closed = state.base.closed.get(&table).into_iter().flat_map(ClosedTable::segments);
                let closed: Vec<&SegmentMeta> = closed.filter(|meta| meta.stage == stage).collect();
                let in_tail = tail.filter(|_| stage == Stage::Ingested);
                let metas = || segments.iter().map(|segment| segment.meta()).chain(closed.iter().copied());
                let watermark = state.watermark(table, stage);
                let dead_in_tail = || state.kills.get(&table).map_or(0, |kills| kills.dead_in_tail(state.visible));
                let dead_in_tail = in_tail.map_or(0, |_| dead_in_tail());
                stages.push(StageInfo {
                    table,
                    stage,
                    watermark,
                    staleness: state.times.lag(now, watermark),
                    rows: in_tail.map_or(0, TailTable::rows) + metas().map(|meta| meta.rows).sum::<u64>(),
                    dead_rows: dead_in_tail + segments.iter().map(|s| state.dead_rows_of(s)).sum::<u64>(),
                    bytes: in_tail.map_or(0, TailTable::bytes) + metas().map(SegmentMeta::bytes).sum::<u64>(),
                    parts: in_tail.map_or(0, TailTable::runs) + metas().count() as u64,
                });
            }
        }
        stages
    }
}
