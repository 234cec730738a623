//! `alluvia.stages`, `alluvia.segments`, `alluvia.batches`: where rows are, and how they came.
//!
//! Invariant: whoever may not read a table is told neither how many rows it has, nor when they came.

use super::build::{Cell, Kind};
use crate::system::SystemContext;
use alluvia_snapshot::SegmentInfo;
use alluvia_space::PUBLIC_SCHEMA;
use alluvia_types::{TableId, Version};

/// Batches that `alluvia.batches` shows at most.
const BATCHES_MAX: usize = 4_096;

/// Columns of `alluvia.stages`.
pub(crate) const STAGES: &[(&str, Kind)] = &[
    ("table_name", Kind::Text),
    ("stage", Kind::Text),
    ("watermark", Kind::Count),
    ("staleness_seconds", Kind::Seconds),
    ("rows", Kind::Count),
    ("bytes", Kind::Count),
    ("parts", Kind::Count),
    ("table_schema", Kind::Text),
];

/// Columns of `alluvia.heaps`.
pub(crate) const HEAPS: &[(&str, Kind)] = &[
    ("table_name", Kind::Text),
    ("state", Kind::Text),
    ("version", Kind::Count),
    ("keys", Kind::Count),
    ("waiting", Kind::Count),
    ("bytes", Kind::Count),
    ("table_schema", Kind::Text),
];

/// Columns of `alluvia.segments`.
pub(crate) const SEGMENTS: &[(&str, Kind)] = &[
    ("segment_id", Kind::Count),
    ("table_name", Kind::Text),
    ("stage", Kind::Text),
    ("rows", Kind::Count),
    ("min_version", Kind::Count),
    ("max_version", Kind::Count),
    ("key_min", Kind::Text),
    ("key_max", Kind::Text),
    ("parquet_bytes", Kind::Count),
    ("side_bytes", Kind::Count),
    ("ladder", Kind::Text),
    ("ladder_bytes", Kind::Count),
    ("file", Kind::Text),
    ("table_schema", Kind::Text),
    ("dead_rows", Kind::Count),
];

/// Columns of `alluvia.batches`.
pub(crate) const BATCHES: &[(&str, Kind)] = &[
    ("version", Kind::Count),
    ("committed_at", Kind::Time),
    ("rows", Kind::Count),
    ("tables", Kind::Text),
    ("changes", Kind::Count),
    ("bytes", Kind::Count),
    ("producer", Kind::Text),
    ("epoch", Kind::Count),
    ("sequence", Kind::Count),
];

pub(crate) fn stages(context: &SystemContext) -> Vec<Vec<Cell>> {
    let row = |stage: alluvia_snapshot::StageInfo| {
        vec![
            table_name(context, stage.table),
            stage.stage.to_string().into(),
            stage.watermark.0.into(),
            stage.staleness.into(),
            stage.rows.into(),
            stage.bytes.into(),
            stage.parts.into(),
            table_schema(context, stage.table),
        ]
    };
    context.admin.stages().into_iter().filter(|stage| may_know_of(context, stage.table)).map(row).collect()
}

pub(crate) fn heaps(context: &SystemContext) -> Vec<Vec<Cell>> {
    let row = |heap: alluvia_snapshot::HeapInfo| {
        vec![
            table_name(context, heap.table),
            if heap.is_ready { "ready" } else { "loading" }.to_owned().into(),
            heap.version.0.into(),
            heap.keys.into(),
            heap.waiting.into(),
            heap.bytes.into(),
            table_schema(context, heap.table),
        ]
    };
    context.admin.heaps().into_iter().filter(|heap| may_know_of(context, heap.table)).map(row).collect()
}

pub(crate) fn segments(context: &SystemContext) -> Vec<Vec<Cell>> {
    let row = |SegmentInfo { meta, dead_rows }: SegmentInfo| {
        // A staged segment learns its version when its batch is attached.
        let version = |known: Version| Some(known.0).filter(|&version| version > 0);
        vec![
            meta.id.0.into(),
            table_name(context, meta.table),
            meta.stage.to_string().into(),
            meta.rows.into(),
            version(meta.min_version).into(),
            version(meta.max_version).into(),
            format!("{:032x}", meta.key_min).into(),
            format!("{:032x}", meta.key_max).into(),
            meta.parquet_bytes.into(),
            meta.side.len.into(),
            meta.rungs.first().map(|thickest| format!("1/{}", 1u64 << thickest.rung)).into(),
            meta.ladder_bytes().into(),
            format!("seg-{}.parquet", meta.id).into(),
            table_schema(context, meta.table),
            dead_rows.into(),
        ]
    };
    let mut segments = context.admin.segments();
    segments.sort_by_key(|segment| segment.meta.id);
    segments.into_iter().filter(|segment| may_know_of(context, segment.meta.table)).map(row).collect()
}

pub(crate) fn batches(context: &SystemContext) -> Vec<Vec<Cell>> {
    let row = |batch: alluvia_snapshot::BatchInfo| {
        let names: Vec<String> = batch.tables.iter().map(|&table| shown_name(context, table)).collect();
        let producer = batch.producer.as_ref();
        vec![
            batch.version.0.into(),
            Cell::Time(batch.commit_micros),
            batch.rows.into(),
            names.join(", ").into(),
            batch.changes.into(),
            batch.bytes.into(),
            producer.map(|mark| mark.name.clone()).into(),
            producer.map(|mark| mark.epoch).into(),
            producer.map(|mark| mark.sequence).into(),
        ]
    };
    // Its figures are of all of its tables together.
    let is_known = |batch: &alluvia_snapshot::BatchInfo| batch.tables.iter().all(|&table| may_know_of(context, table));
    context.admin.batches(BATCHES_MAX).into_iter().filter(is_known).map(row).collect()
}

pub(super) fn may_know_of(context: &SystemContext, table: TableId) -> bool {
    context.authoriser.may_know_of(table, &context.snapshot.catalog)
}

pub(super) fn table_name(context: &SystemContext, table: TableId) -> Cell {
    name(context, table).into()
}

/// Of a table that was dropped since there is none.
pub(super) fn table_schema(context: &SystemContext, table: TableId) -> Cell {
    context.snapshot.catalog.by_id(table).map(|entry| entry.def.schema.clone()).into()
}

/// Behind its schema, unless that is `public`.
fn shown_name(context: &SystemContext, table: TableId) -> String {
    match context.snapshot.catalog.by_id(table) {
        Some(entry) if entry.def.schema != PUBLIC_SCHEMA => format!("{}.{}", entry.def.schema, entry.def.name),
        _ => name(context, table),
    }
}

/// A table that was dropped since has no name any more.
fn name(context: &SystemContext, table: TableId) -> String {
    match context.snapshot.catalog.by_id(table) {
        Some(entry) => entry.def.name.clone(),
        None => format!("(dropped table {table})"),
    }
}
