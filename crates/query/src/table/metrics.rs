//! What EXPLAIN ANALYZE shows of a scan's snapshot.

use alluvia_snapshot::Snapshot;
use datafusion::physical_plan::metrics::{CustomMetricValue, ExecutionPlanMetricsSet, MetricBuilder, MetricValue};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The snapshot of a statement, as a metric: every scan of the statement has the same one.
#[derive(Clone, PartialEq, Eq, Debug)]
struct SnapshotMetric {
    text: String,
    version: u64,
}

impl fmt::Display for SnapshotMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl CustomMetricValue for SnapshotMetric {
    /// Metrics of one name are summed into an empty one; a snapshot is its own sum.
    fn new_empty(&self) -> Arc<dyn CustomMetricValue> {
        Arc::new(self.clone())
    }

    fn aggregate(&self, _other: Arc<dyn CustomMetricValue>) {}

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_usize(&self) -> usize {
        self.version as usize
    }

    fn is_eq(&self, other: &Arc<dyn CustomMetricValue>) -> bool {
        other.as_any().downcast_ref::<Self>() == Some(self)
    }
}

/// Adds `snapshot` and counters fixed at planning to a scan's metrics.
pub(crate) fn describe(metrics: &ExecutionPlanMetricsSet, snapshot: &Snapshot, counters: &[(&'static str, u64)]) {
    let text = format!("version {}, lag {:?}, stage {}", snapshot.version, snapshot.lag, snapshot.stage);
    let value = Arc::new(SnapshotMetric { text, version: snapshot.version.0 });
    MetricBuilder::new(metrics).build(MetricValue::Custom { name: "snapshot".into(), value });
    counters.iter().for_each(|&(name, value)| count(metrics, name, value));
}

/// Adds a counter fixed at planning.
pub(crate) fn count(metrics: &ExecutionPlanMetricsSet, name: &'static str, value: u64) {
    MetricBuilder::new(metrics).global_counter(name).add(value as usize);
}
