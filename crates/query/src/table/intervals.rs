//! Intervals of segments: their Parquet files have 16 bytes of each, which no reader of DataFusion's takes for what they are.

use super::columns::Projected;
use alluvia_tree::intervals;
use arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use std::sync::Arc;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The rows of `source`, which gives the columns of `projected` as files have them and maybe others behind these, with intervals.
pub(super) fn decoded(source: Arc<dyn ExecutionPlan>, projected: &Projected) -> Result<Arc<dyn ExecutionPlan>> {
    let is_interval = |at: usize| projected.schema.fields().get(at).is_some_and(|field| *field.data_type() == INTERVAL);
    let schema = source.schema();
    if !(0..schema.fields().len()).any(is_interval) {
        return Ok(source);
    }
    let expr = |(at, field): (usize, &Arc<arrow::datatypes::Field>)| {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), at));
        let expr = if is_interval(at) {
            let function = Arc::new(ScalarUDF::from(StoredInterval::new()));
            let options = Arc::new(ConfigOptions::default());
            Arc::new(ScalarFunctionExpr::try_new(function, vec![column], &schema, options)?) as Arc<dyn PhysicalExpr>
        } else {
            column
        };
        Ok((expr, field.name().clone()))
    };
    let exprs = schema.fields().iter().enumerate().map(expr).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(ProjectionExec::try_new(exprs, source)?))
}

/// The function from 16 bytes to an interval.
#[derive(PartialEq, Eq, Hash, Debug)]
struct StoredInterval {
    signature: Signature,
}

impl StoredInterval {
    fn new() -> StoredInterval {
        let bytes = vec![DataType::FixedSizeBinary(16)];
        StoredInterval { signature: Signature::exact(bytes, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for StoredInterval {
    fn name(&self) -> &str {
        "stored_interval"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _arguments: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&arguments.args)?;
        let spans = arrays.first().and_then(intervals);
        let spans = spans.ok_or_else(|| DataFusionError::Internal("an interval is stored in 16 bytes".to_owned()))?;
        Ok(ColumnarValue::Array(spans))
    }
}
