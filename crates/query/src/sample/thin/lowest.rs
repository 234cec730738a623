//! The rows that weigh least of those that came by.
//!
//! Invariants:
//! - Of what came by, the `keep` lowest weights and their rows are held; and at most about twice as many rows beside the last batch.
//! - A row that is as heavy as the heaviest kept may be dropped: of the rows that are shown, which weigh less, none depends on it.

use alluvia_types::Error;
use alluvia_values::compact::tight_batch;
use arrow::array::{AsArray, RecordBatch, UInt32Array};
use arrow::compute::{interleave_record_batch, take_record_batch};
use arrow::datatypes::UInt64Type;
use arrow::error::ArrowError;

/// Rows over those kept that are let pile up before the heaviest are dropped.
const SLACK_ROWS: usize = 8_192;

/// A row: its weight, its batch, its place there.
type Row = (u64, u32, u32);

/// Rows of least weight.
#[derive(Clone, Debug)]
pub(super) struct Lowest {
    keep: usize,
    batches: Vec<RecordBatch>,
    rows: Vec<Row>,
    /// Rows of this weight and above are not taken; `None` is no bound.
    bound: Option<u64>,
}

impl Lowest {
    /// Keeps the `keep` lowest.
    pub(super) fn new(keep: usize) -> Lowest {
        assert!(keep > 0);
        Lowest { keep, batches: Vec::new(), rows: Vec::new(), bound: None }
    }

    /// Takes in rows, whose weights are the last column.
    pub(super) fn push(&mut self, batch: RecordBatch) -> Result<(), ArrowError> {
        let weights = batch.columns().last().and_then(|weights| weights.as_primitive_opt::<UInt64Type>());
        let Some(weights) = weights.cloned() else {
            return Err(ArrowError::ExternalError(Box::new(Error::internal("rows to thin have no weights"))));
        };
        let of_batch = self.batches.len() as u32;
        let before = self.rows.len();
        match self.bound {
            None => {
                let rows = weights.values().iter().enumerate();
                self.rows.extend(rows.map(|(row, &weight)| (weight, of_batch, row as u32)));
                if batch.num_rows() > 0 {
                    self.batches.push(batch);
                }
            }
            Some(bound) => {
                let rows = weights.values().iter().enumerate().filter(|&(_, &weight)| weight < bound);
                let light: Vec<u32> = rows.map(|(row, _)| row as u32).collect();
                if !light.is_empty() {
                    let weight = |(at, &row): (usize, &u32)| (weights.value(row as usize), of_batch, at as u32);
                    self.rows.extend(light.iter().enumerate().map(weight));
                    self.batches.push(tight_batch(take_record_batch(&batch, &UInt32Array::from(light))?));
                }
            }
        }
        if self.rows.len() > before && self.rows.len() > 2 * self.keep + SLACK_ROWS {
            self.drop_heavy()?;
        }
        Ok(())
    }

    /// Drops all but the lowest, and what they do not need.
    fn drop_heavy(&mut self) -> Result<(), ArrowError> {
        if self.rows.len() > self.keep {
            self.rows.select_nth_unstable(self.keep - 1);
            self.rows.truncate(self.keep);
            self.bound = self.rows.iter().map(|&(weight, ..)| weight).max();
        }
        self.rows.sort_unstable_by_key(|&(_, batch, row)| (batch, row));
        if self.rows.is_empty() {
            return Ok(());
        }
        let batch = self.gather(&self.rows)?;
        for (at, row) in self.rows.iter_mut().enumerate() {
            *row = (row.0, 0, at as u32);
        }
        self.batches = vec![batch];
        Ok(())
    }

    /// Some of the rows, in this order.
    fn gather(&self, rows: &[Row]) -> Result<RecordBatch, ArrowError> {
        let batches: Vec<&RecordBatch> = self.batches.iter().collect();
        let places: Vec<(usize, usize)> = rows.iter().map(|&(_, batch, row)| (batch as usize, row as usize)).collect();
        Ok(tight_batch(interleave_record_batch(&batches, &places)?))
    }

    /// The weight that `count` rows are below, if more than that many are held: the next higher one.
    pub(super) fn weight_after(&mut self, count: usize) -> Option<u64> {
        if self.rows.len() <= count {
            return None;
        }
        Some(self.rows.select_nth_unstable(count).1.0)
    }

    /// The rows that weigh less than `below` (all, if there is no limit), in batches of at most `batch_rows`, as they came.
    pub(super) fn rows_below(mut self, below: Option<u64>, batch_rows: usize) -> Result<Vec<RecordBatch>, ArrowError> {
        self.rows.retain(|&(weight, ..)| below.is_none_or(|below| weight < below));
        self.rows.sort_unstable_by_key(|&(_, batch, row)| (batch, row));
        self.rows.chunks(batch_rows.max(1)).map(|rows| self.gather(rows)).collect()
    }

    /// Bytes of the batches that are held.
    pub(super) fn bytes(&self) -> usize {
        let batches: usize = self.batches.iter().map(RecordBatch::get_array_memory_size).sum();
        batches + self.rows.capacity() * size_of::<Row>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, StringViewArray, UInt64Array};
    use arrow::datatypes::{DataType, Field, Schema};
    use proptest::prelude::*;
    use std::sync::Arc;

    fn batch(weights: &[u64]) -> RecordBatch {
        let texts = weights.iter().map(|weight| format!("a row that weighs {weight}"));
        let schema = Schema::new(vec![
            Field::new("text", DataType::Utf8View, false),
            Field::new("_weight", DataType::UInt64, false),
        ]);
        let columns: Vec<ArrayRef> =
            vec![Arc::new(StringViewArray::from_iter_values(texts)), Arc::new(UInt64Array::from(weights.to_vec()))];
        RecordBatch::try_new(Arc::new(schema), columns).expect("two columns")
    }

    fn shown(batches: &[RecordBatch]) -> Vec<u64> {
        let mut shown = Vec::new();
        for batch in batches {
            let (texts, weights) = (batch.column(0).as_string_view(), batch.column(1).as_primitive::<UInt64Type>());
            for (text, weight) in texts.iter().zip(weights.values()) {
                assert_eq!(text, Some(format!("a row that weighs {weight}").as_str()));
                shown.push(*weight);
            }
        }
        shown.sort_unstable();
        shown
    }

    proptest! {
        #[test]
        fn the_lowest_are_kept_whatever_comes_in_which_order(
            sizes in prop::collection::vec(0usize..9_000, 0..12),
            keep in prop_oneof![1usize..5, 500usize..4_000],
            ties in prop::bool::ANY,
            seed in any::<u64>(),
        ) {
            let mut random = seed | 1;
            let mut weight = || {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                if ties { random >> 53 } else { random }
            };
            let mut lowest = Lowest::new(keep);
            let mut model: Vec<u64> = Vec::new();
            for size in sizes {
                let weights: Vec<u64> = (0..size).map(|_| weight()).collect();
                lowest.push(batch(&weights)).expect("takes");
                model.extend(weights);
                prop_assert!(lowest.rows.len() <= 2 * keep + SLACK_ROWS + 9_000);
            }
            model.sort_unstable();
            let after = lowest.weight_after(keep - 1);
            prop_assert_eq!(after, model.get(keep - 1).copied());
            let below: Vec<u64> = model.iter().copied().filter(|&weight| after.is_none_or(|after| weight < after)).collect();
            prop_assert_eq!(shown(&lowest.rows_below(after, 1_000).expect("gathers")), below);
        }
    }
}
