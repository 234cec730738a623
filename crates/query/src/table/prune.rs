//! Which blocks of a table's segments a predicate can match.
//!
//! Invariants:
//! - Pruning is conservative: a block is left out only if no row in it can make the predicate true. Whatever is not
//!   understood, unknown, or fails to evaluate keeps the block.
//! - The predicate is evaluated once for all blocks of all segments, on arrays of bounds: its cost does not grow with the
//!   number of segments, of which a fresh snapshot can have many.
//!
//! Two kinds of knowledge are used, in turn: bounds and NULL counts of columns, through DataFusion's `PruningPredicate`;
//! and the codes present at the levels of dimensions, through [`crate::members`].

use crate::members::LevelCodes;
use alluvia_skipping::Chosen;
use alluvia_space::TableDef;
use alluvia_tree::{BlockSummaries, ColumnSummary};
use arrow::array::{ArrayRef, BooleanArray, UInt64Array, new_null_array};
use arrow::compute::{cast, concat};
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use std::collections::HashSet;
use std::sync::Arc;

/// Lists of more values than this are not compared with the bounds one by one.
const IN_LIST_MAX: usize = 256;

/// The blocks of each segment that may hold a row for which `predicate` is true.
pub(crate) fn prune(
    def: &TableDef,
    schema: &SchemaRef,
    predicate: &Arc<dyn PhysicalExpr>,
    codes: &[LevelCodes],
    summaries: &[Arc<BlockSummaries>],
) -> Vec<Chosen> {
    let mut chosen = by_bounds(def, schema, predicate, summaries);
    for (segment, summaries) in summaries.iter().enumerate() {
        for LevelCodes { level, codes } in codes {
            if let Some(level) = summaries.level(*level) {
                let present = level.blocks_with_any(codes);
                chosen[segment].iter_mut().zip(present).for_each(|(chosen, present)| *chosen &= present);
            }
        }
    }
    chosen.into_iter().map(Chosen::new).collect()
}

fn by_bounds(
    def: &TableDef,
    schema: &SchemaRef,
    predicate: &Arc<dyn PhysicalExpr>,
    summaries: &[Arc<BlockSummaries>],
) -> Vec<Vec<bool>> {
    let blocks = summaries.iter().map(|summaries| summaries.blocks()).sum();
    let pruning = PruningPredicateBuilder::new()
        .with_file_schema(Arc::clone(schema))
        .with_max_in_list_size(IN_LIST_MAX)
        .build(Arc::clone(predicate));
    let statistics = BlockStatistics { def, summaries, blocks };
    let kept = match pruning.map(|pruning| pruning.prune(&statistics)) {
        Some(Ok(kept)) => kept,
        // A predicate that does not evaluate on bounds may still evaluate on rows, or fail there with a better message.
        Some(Err(_)) | None => vec![true; blocks],
    };
    let mut rest = kept.as_slice();
    let split = summaries.iter().map(|summaries| {
        let (segment, others) = rest.split_at(summaries.blocks());
        rest = others;
        segment.to_vec()
    });
    split.collect()
}

/// The bounds of all blocks, one segment after the other.
struct BlockStatistics<'a> {
    def: &'a TableDef,
    summaries: &'a [Arc<BlockSummaries>],
    blocks: usize,
}

impl BlockStatistics<'_> {
    fn gather(
        &self,
        column: &Column,
        known: impl Fn(&ColumnSummary) -> ArrayRef,
        added_later: impl Fn(&BlockSummaries, &DataType) -> ArrayRef,
    ) -> Option<ArrayRef> {
        let column = self.def.columns.iter().find(|known| known.name == column.name)?;
        let data_type = column.data_type.to_arrow();
        let arrays: Vec<ArrayRef> = self
            .summaries
            .iter()
            .map(|summaries| match summaries.column(column.id) {
                Some(summary) => known(summary),
                None => added_later(summaries, &data_type),
            })
            .collect();
        let arrays: Vec<_> = arrays.iter().map(|array| array.as_ref()).collect();
        concat(&arrays).ok()
    }
}

fn row_counts(summaries: &BlockSummaries) -> impl Iterator<Item = u64> {
    let rows = |block| summaries.block_rows(block).end - summaries.block_rows(block).start;
    (0..summaries.blocks()).map(rows)
}

impl PruningStatistics for BlockStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        let none = |summaries: &BlockSummaries, data_type: &DataType| new_null_array(data_type, summaries.blocks());
        self.gather(column, |summary| Arc::clone(&summary.mins), none)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        let none = |summaries: &BlockSummaries, data_type: &DataType| new_null_array(data_type, summaries.blocks());
        self.gather(column, |summary| Arc::clone(&summary.maxs), none)
    }

    fn num_containers(&self) -> usize {
        self.blocks
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let all_null = |summaries: &BlockSummaries, _: &DataType| -> ArrayRef {
            Arc::new(UInt64Array::from_iter_values(row_counts(summaries)))
        };
        // Widening an integer cannot fail.
        let wide = |summary: &ColumnSummary| {
            cast(&summary.nulls, &DataType::UInt64).unwrap_or_else(|_| Arc::clone(&summary.nulls))
        };
        self.gather(column, wide, all_null)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let rows = self.summaries.iter().flat_map(|summaries| row_counts(summaries));
        Some(Arc::new(UInt64Array::from_iter_values(rows)))
    }

    /// Membership is decided by [`crate::members`], which knows whole paths.
    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
