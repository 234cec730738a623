//! Which rows of a table a scan gives: all of them, or those of low weight.
//!
//! Invariants:
//! - Whether a row is drawn depends on its identity (version, ordinal) and on a seed, never on its values, on where it lies or on
//!   what else is asked. So a sample is the same before and after a WHERE, and through sorting and merging.
//! - Of two samples with one seed the smaller is contained in the larger.
//! - Blocks (`TABLESAMPLE SYSTEM`) are drawn as they lie in segments, so another merge is another sample of blocks.
//!
//! Rows of the open transaction have no version yet: they stand under one that no batch has, counted on in the order they came.

use alluvia_space::weight::{weight, weight_limit};
use alluvia_space::{ORDINAL_COLUMN, VERSION_COLUMN};
use alluvia_tree::{BLOCK_ROWS, Segment};
use alluvia_types::{SegmentId, Version};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt64Array};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, UInt64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::expressions::{BinaryExpr, Column, lit};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use std::sync::Arc;

/// The column of a scan that tells rows' weights under the table's own seed; longer where a column is called so.
pub(crate) const WEIGHT_COLUMN: &str = "_weight";

/// What a sample is drawn of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Unit {
    /// Rows, each by itself: BERNOULLI.
    Row,
    /// Blocks of a segment; of the tail, as many neighbours of one batch: SYSTEM.
    Block,
}

/// A sample under a seed of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sample {
    /// Of what.
    pub unit: Unit,
    /// The seed of its weights.
    pub seed: u64,
    /// What weighs less is in it; `None` is everything.
    pub below: Option<u64>,
}

/// The segments that a scan reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Part {
    /// All, and the tail.
    #[default]
    All,
    /// Those with a ladder.
    Laddered,
    /// Those without, and the tail.
    Loose,
}

/// What a table shows of its rows behind its columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Behind {
    /// Nothing.
    #[default]
    Nothing,
    /// Their weights, in [`WEIGHT_COLUMN`].
    Weights,
    /// What they are known by: their versions, and behind these their ordinals.
    Identities,
}

/// The rows that a scan gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Draw {
    /// Those whose weight under the table's own seed is below this; `None` is all.
    pub below: Option<u64>,
    /// Of these, those in a sample under another seed.
    pub sample: Option<Sample>,
    /// Of these, those that lie here.
    pub part: Part,
    /// What the table shows of them.
    pub behind: Behind,
}

impl Draw {
    /// As this, of the rows of the session's sample.
    pub(crate) fn within(self, fraction: f64) -> Draw {
        Draw { below: least(self.below, weight_limit(fraction)), ..self }
    }

    /// Whether a scan leaves rows out.
    pub(crate) fn leaves_out(&self) -> bool {
        self.below.is_some() || self.sample.is_some_and(|sample| sample.below.is_some())
    }

    /// The blocks that are drawn, if blocks are.
    pub(crate) fn blocks(&self) -> Option<Sample> {
        self.sample.filter(|sample| sample.unit == Unit::Block)
    }
}

/// The lower of two limits, where `None` is none.
pub(crate) fn least(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (limit, None) | (None, limit) => limit,
    }
}

/// The share of all weights that lie below a limit.
pub(crate) fn share(below: Option<u64>) -> f64 {
    // Exact enough for estimates.
    below.map_or(1.0, |below| below as f64 / 18_446_744_073_709_551_616.0)
}

impl Sample {
    /// Whether it holds a block of a segment.
    pub(crate) fn has_block(&self, segment: &Segment, block: usize) -> bool {
        let SegmentId(segment) = segment.meta().id;
        self.below.is_none_or(|below| weight(Version(segment), block as u64, self.seed) < below)
    }
}

/// `weight < limit`, of rows whose version and ordinal are columns `at` and `at + 1` of `schema`.
pub(crate) fn lighter(schema: &Schema, at: usize, unit: Unit, seed: u64, below: u64) -> Result<Arc<dyn PhysicalExpr>> {
    let below = lit(ScalarValue::UInt64(Some(below)));
    Ok(Arc::new(BinaryExpr::new(weight_of(schema, at, unit, seed)?, Operator::Lt, below)))
}

/// The weights of rows whose version and ordinal are columns `at` and `at + 1` of `schema`.
pub(crate) fn weight_of(schema: &Schema, at: usize, unit: Unit, seed: u64) -> Result<Arc<dyn PhysicalExpr>> {
    assert!(schema.field(at).name() == VERSION_COLUMN && schema.field(at + 1).name() == ORDINAL_COLUMN);
    let column = |at: usize| Arc::new(Column::new(schema.field(at).name(), at)) as Arc<dyn PhysicalExpr>;
    let function = Arc::new(ScalarUDF::from(Weigh::new(unit, seed)));
    let options = Arc::new(ConfigOptions::default());
    Ok(Arc::new(ScalarFunctionExpr::try_new(function, vec![column(at), column(at + 1)], schema, options)?))
}

/// Rows without hidden columns, with those that they stand under until they are committed.
pub(crate) fn identified<'a>(runs: impl Iterator<Item = &'a RecordBatch>) -> Result<Vec<RecordBatch>> {
    let mut first = 0;
    let run = |run: &RecordBatch| {
        let rows = run.num_rows() as u64;
        let mut fields: Vec<Arc<Field>> = run.schema_ref().fields().iter().cloned().collect();
        fields.push(Arc::new(Field::new(VERSION_COLUMN, DataType::UInt64, true)));
        fields.push(Arc::new(Field::new(ORDINAL_COLUMN, DataType::UInt64, false)));
        let mut columns: Vec<ArrayRef> = run.columns().to_vec();
        columns.push(Arc::new(UInt64Array::from_value(alluvia_rows::PENDING_VERSION.0, run.num_rows())));
        columns.push(Arc::new(UInt64Array::from_iter_values(first..first + rows)));
        first += rows;
        Ok(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)?)
    };
    runs.map(run).collect()
}

/// The function from identities to weights.
#[derive(PartialEq, Eq, Hash, Debug)]
struct Weigh {
    unit: Unit,
    seed: u64,
    signature: Signature,
}

impl Weigh {
    fn new(unit: Unit, seed: u64) -> Weigh {
        let identity = vec![DataType::UInt64, DataType::UInt64];
        Weigh { unit, seed, signature: Signature::exact(identity, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Weigh {
    fn name(&self) -> &str {
        match self.unit {
            Unit::Row => "row_weight",
            Unit::Block => "block_weight",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt64)
    }

    fn return_field_from_args(&self, _arguments: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), DataType::UInt64, false)))
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let [versions, ordinals] = arrays.as_slice() else {
            return Err(DataFusionError::Internal("weights are of a version and an ordinal".to_owned()));
        };
        let (versions, ordinals) = (versions.as_primitive::<UInt64Type>(), ordinals.as_primitive::<UInt64Type>());
        let weighed = |(row, &ordinal): (usize, &u64)| {
            // Staged files do not know their version, and their rows' weights do not depend on it.
            let version = Version(if versions.is_valid(row) { versions.value(row) } else { 0 });
            match self.unit {
                Unit::Row => weight(version, ordinal, self.seed),
                // The seed is another one, lest a run of the tail stands or falls with the segment of its version's number.
                Unit::Block => weight(version, ordinal / BLOCK_ROWS as u64, !self.seed),
            }
        };
        let weights = UInt64Array::from_iter_values(ordinals.values().iter().enumerate().map(weighed));
        Ok(ColumnarValue::Array(Arc::new(weights)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_meet_at_the_lower() {
        assert_eq!((least(Some(3), None), least(None, Some(4)), least(Some(3), Some(4))), (Some(3), Some(4), Some(3)));
        assert_eq!(Draw { below: Some(1 << 62), ..Draw::default() }.within(0.5).below, Some(1 << 62));
        assert_eq!(Draw { below: Some(1 << 62), ..Draw::default() }.within(0.125).below, Some(1 << 61));
        assert_eq!((share(None), share(Some(1 << 61)), share(Some(0))), (1.0, 0.125, 0.0));
        assert!(!Draw::default().within(1.0).leaves_out());
    }

    #[test]
    fn pending_rows_are_counted_on_from_run_to_run() {
        let schema = Arc::new(Schema::new(vec![Field::new("n", DataType::UInt64, false)]));
        let run = |rows: u64| {
            let values = Arc::new(UInt64Array::from_iter_values(0..rows)) as ArrayRef;
            RecordBatch::try_new(Arc::clone(&schema), vec![values]).expect("one column")
        };
        let runs = [run(2), run(0), run(3)];
        let runs = identified(runs.iter()).expect("identities");
        let ordinals = runs.iter().flat_map(|run| run.column(2).as_primitive::<UInt64Type>().values().to_vec());
        assert_eq!(ordinals.collect::<Vec<u64>>(), [0, 1, 2, 3, 4]);
    }
}
