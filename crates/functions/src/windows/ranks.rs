//! `row_number`, `rank`, `dense_rank` and `ntile` as BIGINT.
//!
//! Invariant: what they count is a whole number like any other: `row_number() OVER () / 2` is one, too.
//!
//! DataFusion 55.2 has them as unsigned numbers, which beside a BIGINT become decimals. All else is DataFusion's.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: row_number, rank, ntile, UInt64, Int64).
//! Held by `slt/bounds.slt` (`row_number() OVER (ORDER BY id) / 2`).

use arrow::array::{ArrayRef, AsArray};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, UInt64Type};
use datafusion_common::{Result, ScalarValue, exec_datafusion_err};
use datafusion_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowFunctionSimplification, WindowUDFFieldArgs,
};
use datafusion_expr::window_state::WindowAggState;
use datafusion_expr::{
    Documentation, LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF, WindowUDFImpl,
};
use datafusion_physical_expr::PhysicalExpr;
use std::ops::Range;
use std::sync::Arc;

/// One of the functions, around DataFusion's.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct SignedRank {
    inner: Arc<WindowUDF>,
}

impl SignedRank {
    /// Around DataFusion's function that counts rows.
    pub(crate) fn new(inner: Arc<WindowUDF>) -> SignedRank {
        SignedRank { inner }
    }
}

impl WindowUDFImpl for SignedRank {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn expressions(&self, args: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.inner().expressions(args)
    }

    fn partition_evaluator(&self, args: PartitionEvaluatorArgs) -> Result<Box<dyn PartitionEvaluator>> {
        Ok(Box::new(Evaluator { inner: self.inner.inner().partition_evaluator(args)? }))
    }

    fn simplify(&self) -> Option<WindowFunctionSimplification> {
        self.inner.inner().simplify()
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let field = self.inner.inner().field(args)?;
        Ok(Arc::new(Field::clone(&field).with_data_type(DataType::Int64)))
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.inner.inner().sort_options()
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.inner().coerce_types(arg_types)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        self.inner.inner().reverse_expr()
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.inner().documentation()
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.inner.inner().limit_effect(args)
    }
}

#[derive(Debug)]
struct Evaluator {
    inner: Box<dyn PartitionEvaluator>,
}

/// Counts of rows are below 2^63.
fn signed(counts: &ArrayRef) -> ArrayRef {
    let counts = counts.as_primitive::<UInt64Type>();
    Arc::new(counts.unary::<_, Int64Type>(|count| count as i64)) as ArrayRef
}

impl PartitionEvaluator for Evaluator {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.inner.memoize(state)
    }

    fn get_range(&self, idx: usize, n_rows: usize) -> Result<Range<usize>> {
        self.inner.get_range(idx, n_rows)
    }

    fn is_causal(&self) -> bool {
        self.inner.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], num_rows: usize) -> Result<ArrayRef> {
        Ok(signed(&self.inner.evaluate_all(values, num_rows)?))
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        match self.inner.evaluate(values, range)? {
            ScalarValue::UInt64(count) => Ok(ScalarValue::Int64(count.map(|count| count as i64))),
            other => Err(exec_datafusion_err!("a count of rows is {other}")),
        }
    }

    fn evaluate_all_with_rank(&self, num_rows: usize, ranks_in_partition: &[Range<usize>]) -> Result<ArrayRef> {
        Ok(signed(&self.inner.evaluate_all_with_rank(num_rows, ranks_in_partition)?))
    }

    fn supports_bounded_execution(&self) -> bool {
        self.inner.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.inner.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.inner.include_rank()
    }
}
