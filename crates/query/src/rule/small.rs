//! Reading small tables before the index is asked.
//!
//! Invariants:
//! - What is read is bounded, and accounted as the statement's memory for as long as it is held.
//! - Keys are values of the table's column: a number that is too large for it is equal to none of its values, and NULL is neither.

use crate::answer::Ordinals;
use arrow::array::{Array, ArrayRef, UInt32Array, new_empty_array};
use arrow::compute::{CastOptions, cast_with_options, concat, filter, is_not_null, take};
use arrow::datatypes::DataType as ArrowType;
use arrow::row::{Row, RowConverter, SortField};
use datafusion::common::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use std::collections::HashMap;
use std::sync::Arc;

/// Rows beyond which keys narrow nothing.
pub(super) const KEY_ROWS_MAX: usize = 100_000;
/// Rows beyond which a join is the plan's.
pub(super) const JOINED_ROWS_MAX: usize = 1 << 20;

/// The rows of a small table.
pub(super) struct SmallRows {
    /// Not NULL.
    pub(super) keys: ArrayRef,
    /// What the table is grouped by, each with a value for each key.
    pub(super) attributes: Vec<ArrayRef>,
    /// What all this takes.
    pub(super) held: MemoryReservation,
}

/// What a plan gives, with keys of this type in its first column; `None` if it is too much.
pub(super) async fn read(
    plan: Arc<dyn ExecutionPlan>,
    to: ArrowType,
    rows_max: usize,
    task: Arc<TaskContext>,
) -> Result<Option<SmallRows>> {
    let held = MemoryConsumer::new("IndexAnswerExec").register(task.memory_pool());
    let schema = plan.schema();
    let mut batches = plan.execute(0, task)?;
    let (mut kept, mut count) = (Vec::new(), 0);
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        count += batch.num_rows();
        // Batches may be pieces of one.
        let sizes = batch.columns().iter().map(|column| column.to_data().get_slice_memory_size());
        if count > rows_max || held.try_grow(sizes.sum::<std::result::Result<usize, _>>()?).is_err() {
            return Ok(None);
        }
        kept.push(batch);
    }
    let column = |place: usize| -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = kept.iter().map(|batch| batch.column(place).as_ref()).collect();
        Ok(match parts.is_empty() {
            true => new_empty_array(schema.field(place).data_type()),
            false => concat(&parts)?,
        })
    };
    let keys = cast_with_options(&column(0)?, &to, &CastOptions { safe: true, ..CastOptions::default() })?;
    let attributes = (1..schema.fields().len()).map(column).collect::<Result<Vec<_>>>()?;
    drop(kept);
    let bytes = attributes.iter().chain([&keys]).map(|column| column.get_array_memory_size()).sum();
    if held.try_resize(bytes).is_err() {
        return Ok(None);
    }
    if keys.null_count() == 0 {
        return Ok(Some(SmallRows { keys, attributes, held }));
    }
    let known = is_not_null(&keys)?;
    let with_key = |column: &ArrayRef| Ok(filter(column, &known)?);
    let attributes = attributes.iter().map(with_key).collect::<Result<_>>()?;
    Ok(Some(SmallRows { keys: with_key(&keys)?, attributes, held }))
}

impl SmallRows {
    /// What is grouped by, without repetition, and each key's place there, from 1 on. `None` if memory does not suffice to tell.
    pub(super) fn tuples(&self) -> Result<Option<(Ordinals, Vec<ArrayRef>)>> {
        let fields = self.attributes.iter().map(|column| SortField::new(column.data_type().clone())).collect();
        let rows = RowConverter::new(fields)?.convert_columns(&self.attributes)?;
        let bytes = rows.size() + self.keys.len() * (size_of::<Row<'_>>() + 2 * size_of::<u32>());
        if self.held.try_grow(bytes).is_err() {
            return Ok(None);
        }
        let mut known: HashMap<Row<'_>, u32> = HashMap::new();
        let mut firsts: Vec<u32> = Vec::new();
        let mut of_keys = Vec::with_capacity(self.keys.len());
        for (place, row) in rows.iter().enumerate() {
            of_keys.push(*known.entry(row).or_insert_with(|| {
                firsts.push(place as u32);
                firsts.len() as u32
            }));
        }
        let count = firsts.len() as u32;
        let firsts = UInt32Array::from(firsts);
        let distinct = self.attributes.iter().map(|column| Ok(take(column, &firsts, None)?)).collect::<Result<_>>()?;
        Ok(Some((Ordinals { of_keys, count }, distinct)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{AsArray, Int32Array, StringArray};
    use arrow::datatypes::Int32Type;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};

    fn rows(attributes: Vec<ArrayRef>, bytes_max: usize) -> SmallRows {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes_max));
        let held = MemoryConsumer::new("test").register(&pool);
        SmallRows { keys: Arc::new(Int32Array::from_iter_values(0..attributes[0].len() as i32)), attributes, held }
    }

    #[test]
    fn equal_tuples_are_one_and_null_is_a_value() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("a"), None, Some("b")]));
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![Some(1), Some(2), Some(1), Some(2), None]));
        let (ordinals, distinct) = rows(vec![texts, numbers], 1 << 20).tuples().expect("tells").expect("fits");
        assert_eq!((ordinals.of_keys, ordinals.count), (vec![1, 2, 1, 2, 3], 3));
        assert_eq!(distinct[0].as_string::<i32>(), &StringArray::from(vec![Some("a"), None, Some("b")]));
        assert_eq!(distinct[1].as_primitive::<Int32Type>(), &Int32Array::from(vec![Some(1), Some(2), None]));
    }

    #[test]
    fn without_memory_there_is_no_answer() {
        let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..100));
        assert!(rows(vec![numbers], 64).tuples().expect("tells").is_none());
    }
}
