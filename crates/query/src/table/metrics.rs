//! What EXPLAIN ANALYZE shows beside figures: of a scan and of an answer of the index the snapshot, and what intervals its values have.

use alluvia_snapshot::Snapshot;
use alluvia_space::TableDef;
use datafusion::physical_plan::metrics::{CustomMetricValue, ExecutionPlanMetricsSet, MetricBuilder, MetricValue};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A text as a metric: what all of one name in a statement have in common, as its snapshot.
#[derive(Clone, PartialEq, Eq, Debug)]
struct TextMetric {
    text: String,
    number: u64,
}

impl fmt::Display for TextMetric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl CustomMetricValue for TextMetric {
    /// Metrics of one name are summed into an empty one; a text is its own sum.
    fn new_empty(&self) -> Arc<dyn CustomMetricValue> {
        Arc::new(self.clone())
    }

    fn aggregate(&self, _other: Arc<dyn CustomMetricValue>) {}

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_usize(&self) -> usize {
        self.number as usize
    }

    fn is_eq(&self, other: &Arc<dyn CustomMetricValue>) -> bool {
        other.as_any().downcast_ref::<Self>() == Some(self)
    }
}

/// Adds the table's name, `snapshot` and counters fixed at planning to a scan's metrics; and that its rows are all there are, unless some
/// are left out.
pub(crate) fn describe(
    metrics: &ExecutionPlanMetricsSet,
    table: &TableDef,
    snapshot: &Snapshot,
    is_drawn: bool,
    counters: &[(&'static str, u64)],
) {
    tell(metrics, "table", table.name.clone(), table.id.0.into());
    describe_snapshot(metrics, snapshot);
    if !is_drawn {
        tell(metrics, "interval", "exact".to_owned(), 0);
    }
    counters.iter().for_each(|&(name, value)| count(metrics, name, value));
}

/// Adds `snapshot`.
pub(crate) fn describe_snapshot(metrics: &ExecutionPlanMetricsSet, snapshot: &Snapshot) {
    let text = format!("version {}, lag {:?}, stage {}", snapshot.version, snapshot.lag, snapshot.stage);
    tell(metrics, "snapshot", text, snapshot.version.0);
}

/// Adds a text, which stands for a number.
pub(crate) fn tell(metrics: &ExecutionPlanMetricsSet, name: &'static str, text: String, number: u64) {
    let value = Arc::new(TextMetric { text, number });
    MetricBuilder::new(metrics).build(MetricValue::Custom { name: name.into(), value });
}

/// Adds a counter fixed at planning.
pub(crate) fn count(metrics: &ExecutionPlanMetricsSet, name: &'static str, value: u64) {
    MetricBuilder::new(metrics).global_counter(name).add(value as usize);
}
