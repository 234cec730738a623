//! Spans of scans: one a table and statement, with what was read in sum rather than a span a block.
//!
//! Invariants:
//! - A span opens with the first rows that are asked for, so a scan that is planned and never run has none.
//! - Without anybody who takes traces nothing is made and nothing counted.

use crate::used::UsedCounters;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use tracing::span::Id;
use tracing::{Span, field, info_span};

/// The span of one scan. Closed when the plan is let go.
#[derive(Debug)]
pub(crate) struct ScanSpan {
    parent: Id,
    table: String,
    span: OnceLock<Span>,
    parts: AtomicU64,
    blocks: AtomicU64,
    rows: AtomicU64,
    tail_rows: AtomicU64,
    bytes: AtomicU64,
}

impl ScanSpan {
    /// Of a scan of a table by the statement that counts with `used`; `None` if the statement is not traced.
    pub(crate) fn new(used: &UsedCounters, table: &str) -> Option<Arc<ScanSpan>> {
        Some(Arc::new(ScanSpan {
            parent: used.statement_span()?,
            table: table.to_owned(),
            span: OnceLock::new(),
            parts: AtomicU64::new(0),
            blocks: AtomicU64::new(0),
            rows: AtomicU64::new(0),
            tail_rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }))
    }

    fn open(&self) {
        self.span.get_or_init(|| {
            info_span!(
                parent: self.parent.clone(),
                "table scan",
                table = self.table,
                parts = field::Empty,
                blocks = field::Empty,
                rows = field::Empty,
                tail_rows = field::Empty,
                bytes = field::Empty
            )
        });
    }

    /// Part of a segment is opened.
    pub(crate) fn add_part(&self, blocks: u64, rows: u64) {
        self.open();
        self.parts.fetch_add(1, Ordering::Relaxed);
        self.blocks.fetch_add(blocks, Ordering::Relaxed);
        self.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Bytes of segments are read.
    pub(crate) fn add_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Rows of the tail are given.
    pub(crate) fn add_tail_rows(&self, rows: u64) {
        self.open();
        self.tail_rows.fetch_add(rows, Ordering::Relaxed);
    }
}

impl Drop for ScanSpan {
    fn drop(&mut self) {
        let Some(span) = self.span.get() else { return };
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        span.record("parts", get(&self.parts))
            .record("blocks", get(&self.blocks))
            .record("rows", get(&self.rows))
            .record("tail_rows", get(&self.tail_rows))
            .record("bytes", get(&self.bytes));
    }
}
