//! How DataFusion's Parquet scan reads segments: through the checked cache, with footers that are loaded once.
//!
//! Invariants:
//! - No object store, no path: a part names its segment, and the segment's file is open already.
//! - A part is counted as read when it is opened, so blocks that a dynamic filter or a LIMIT spares are not counted.

use super::traced::ScanSpan;
use crate::used::UsedCounters;
use alluvia_storage::CheckedFile;
use alluvia_tree::Segment;
use bytes::Bytes;
use datafusion::common::DataFusionError;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder};
use futures::FutureExt;
use futures::future::{BoxFuture, ready};
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use std::ops::Range;
use std::sync::Arc;

/// Part of a segment: what one [`PartitionedFile`] stands for.
#[derive(Clone, Debug)]
pub(crate) struct SegmentPart {
    /// The segment.
    pub segment: Arc<Segment>,
    /// Its footer and page index.
    pub metadata: Arc<ParquetMetaData>,
    /// Blocks to read; none where another part reads the first rows of the same.
    pub blocks: u64,
    /// Rows of these blocks.
    pub rows: u64,
}

/// Makes readers of segments.
#[derive(Debug)]
pub(crate) struct SegmentReaderFactory {
    used: Arc<UsedCounters>,
    span: Option<Arc<ScanSpan>>,
}

impl SegmentReaderFactory {
    pub(crate) fn new(used: Arc<UsedCounters>, span: Option<Arc<ScanSpan>>) -> Arc<Self> {
        Arc::new(SegmentReaderFactory { used, span })
    }
}

impl ParquetFileReaderFactory for SegmentReaderFactory {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        _metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> Result<Box<dyn AsyncFileReader + Send>, DataFusionError> {
        let part = file.extension::<SegmentPart>().ok_or_else(|| {
            DataFusionError::Internal(format!("{} is not part of a segment", file.object_meta.location))
        })?;
        let count = |name: &'static str, value: u64| {
            MetricBuilder::new(metrics).counter(name, partition).add(value as usize);
        };
        count("blocks_read", part.blocks);
        count("rows_read", part.rows);
        self.used.add_blocks(part.blocks, 0);
        self.used.add_rows(part.rows);
        if let Some(span) = &self.span {
            span.add_part(part.blocks, part.rows);
        }
        Ok(Box::new(SegmentReader {
            file: part.segment.parquet_file().map_err(alluvia_values::errors::wrap)?,
            metadata: Arc::clone(&part.metadata),
            bytes_scanned: MetricBuilder::new(metrics).counter("bytes_scanned", partition),
            used: Arc::clone(&self.used),
            span: self.span.clone(),
        }))
    }
}

/// Reads one part. Reads block: what is cached costs a hash look-up, and handing the rest to another thread and back costs
/// more than reading a page from the system's cache.
struct SegmentReader {
    file: CheckedFile,
    metadata: Arc<ParquetMetaData>,
    bytes_scanned: Count,
    used: Arc<UsedCounters>,
    span: Option<Arc<ScanSpan>>,
}

impl SegmentReader {
    fn read(&self, range: Range<u64>) -> Result<Bytes, ParquetError> {
        let bytes = range.end - range.start;
        self.bytes_scanned.add(bytes as usize);
        self.used.add_bytes(bytes);
        if let Some(span) = &self.span {
            span.add_bytes(bytes);
        }
        self.file.read(range).map_err(|error| ParquetError::External(Box::new(error)))
    }
}

impl AsyncFileReader for SegmentReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes, ParquetError>> {
        ready(self.read(range)).boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>, ParquetError>> {
        ready(ranges.into_iter().map(|range| self.read(range)).collect()).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        _options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>, ParquetError>> {
        ready(Ok(Arc::clone(&self.metadata))).boxed()
    }
}
