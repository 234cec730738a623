//! Operators whose rows are counted.

use super::meter::{Meter, MeteredRows};
use crate::wrapped_operator::WrappedOperator;
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::ExecutionPlan;
use std::sync::Arc;

/// The operator's rows go through the meter.
impl WrappedOperator for Arc<Meter> {
    fn of(&self, _operator: &Arc<dyn ExecutionPlan>) -> Result<Arc<Meter>> {
        Ok(Arc::clone(self))
    }

    fn execute(
        &self,
        operator: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = operator.execute(partition, context)?;
        Ok(Box::pin(MeteredRows::new(rows, Arc::clone(self))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wrapped_operator::WrappedOperatorExec;
    use arrow::datatypes::Schema;
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::empty::EmptyExec;
    use datafusion::physical_plan::{displayable, replace_children_if_necessary};

    #[test]
    fn a_metered_operator_is_the_operator_to_whoever_looks() {
        let empty: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        let plain: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(Arc::clone(&empty)));
        let metered: Arc<dyn ExecutionPlan> = Arc::new(WrappedOperatorExec::new(Arc::clone(&plain), Meter::new(1)));
        assert!(metered.is::<CoalescePartitionsExec>() && !metered.is::<WrappedOperatorExec<Arc<Meter>>>());
        assert_eq!(metered.name(), "CoalescePartitionsExec");
        let text = |plan: &Arc<dyn ExecutionPlan>| displayable(plan.as_ref()).indent(true).to_string();
        assert_eq!(text(&metered), text(&plain));
        assert!(Arc::ptr_eq(metered.properties(), plain.properties()));
        let other: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(empty.schema()));
        let again = replace_children_if_necessary(metered, vec![other]).expect("one child");
        assert_eq!(text(&again), text(&plain));
    }
}
