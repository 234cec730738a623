//! Filters that go down a plan past columns of one name.
//!
//! Invariant: a filter that reaches an operator is of the columns that it was of above.
//!
//! DataFusion 55.2 finds a filter's columns in the operator below by their names, and takes the first of a name (apache/datafusion#21246,
//! #25244, #25262, #25263, #25264, #25296; mended behind 55.2 by #25259). Above a join of tables that both have an `id` there are two: in
//! `r RIGHT JOIN t ON r.big = t.id WHERE r.id IS NULL`, whose key is cast in a projection, `r.id IS NULL` reached the scan of `t`, and the
//! statement found nothing; what is behind `ORDER BY p.amount LIMIT 1` reached `o.amount`. So while filters are pushed, nothing passes an
//! operator that would look up a name which is not its column's alone. Filters that stay where they are cost time, and change no answer.

use super::less_known::{LessKnownExec, StillKnown};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use std::collections::HashSet;
use std::sync::Arc;

/// DataFusion's rule, kept from columns whose names are not theirs alone.
#[derive(Debug)]
pub(crate) struct FiltersOfTheirColumns(pub(crate) Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for FiltersOfTheirColumns {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let guarded = guarded(&plan, None)?;
        if Arc::ptr_eq(&guarded, &plan) {
            return self.0.optimize(plan, config);
        }
        freed(&self.0.optimize(guarded, config)?)
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// The plan, in which no filter passes where it could be taken for one of another column.
fn guarded(plan: &Arc<dyn ExecutionPlan>, above: Option<&Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    let children = plan.children().into_iter().map(|child| guarded(child, Some(plan)));
    let inner = replace_children_if_necessary(Arc::clone(plan), children.collect::<Result<_>>()?)?;
    let is_guarded = mistakes_columns(plan) || above.is_some_and(|above| is_mistaken(plan, above));
    Ok(if is_guarded { LessKnownExec::over(&inner, StillKnown::AllButFilters) } else { inner })
}

/// The plan as it was, but for the filters that were pushed.
fn freed(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(inner) = LessKnownExec::without_filters(plan) {
        return freed(inner);
    }
    let children = plan.children().into_iter().map(freed).collect::<Result<_>>()?;
    replace_children_if_necessary(Arc::clone(plan), children)
}

/// Whether an operator takes the filters that come to it for ones of other columns.
fn mistakes_columns(plan: &Arc<dyn ExecutionPlan>) -> bool {
    if let Some(filter) = plan.downcast_ref::<FilterExec>()
        && filter.projection().is_some()
        && has_repeated(filter.input())
    {
        return true;
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>()
        && aggregate.group_expr().expr().iter().any(|(key, name)| is_shadowed(key.downcast_ref(), name, aggregate))
    {
        return true;
    }
    // A join knows its columns by their places.
    has_repeated(plan) && !plan.is::<HashJoinExec>()
}

/// Whether a key of an aggregate has the name of another column of its input.
fn is_shadowed(key: Option<&Column>, name: &str, aggregate: &AggregateExec) -> bool {
    key.is_none_or(|key| key.name() != name) && aggregate.input().schema().index_of(name).is_ok()
}

/// Whether the operator above, as it finds columns below by their names, finds others.
fn is_mistaken(plan: &Arc<dyn ExecutionPlan>, above: &Arc<dyn ExecutionPlan>) -> bool {
    if above.is::<UnionExec>() || above.is::<InterleaveExec>() {
        let (own, schema) = (plan.schema(), above.schema());
        let mut names = own.fields().iter().zip(schema.fields());
        return names.any(|(own, name)| own.name() != name.name());
    }
    // Nothing comes to one that has repeated names itself, but for its own filters, which are right; projections go by places.
    has_repeated(plan) && !has_repeated(above) && !above.is::<ProjectionExec>()
}

/// Whether columns of an operator have the same name.
fn has_repeated(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let (schema, mut names) = (plan.schema(), HashSet::new());
    schema.fields().iter().any(|field| !names.insert(field.name()))
}

#[cfg(test)]
mod tests {
    use crate::checked::testing::{Value, context, questions, rows, runtime, table};
    use arrow::array::RecordBatch;
    use datafusion::prelude::ParquetReadOptions;
    use parquet::arrow::ArrowWriter;
    use proptest::prelude::*;

    /// Joins of tables whose columns have the same names, with filters above them and with what learns some while it runs.
    const QUESTIONS: [&str; 7] = [
        "SELECT t.id, t.v, r.v FROM r RIGHT JOIN r t ON r.v = CAST(t.id AS BIGINT) + 1 WHERE r.id IS NULL ORDER BY 1, 2, 3",
        "SELECT t.id, r.id FROM r t LEFT JOIN s r ON CAST(r.v AS DOUBLE) = CAST(t.id AS DOUBLE) WHERE r.v IS NULL ORDER BY 1, 2",
        "SELECT r.id, s.id, t.v FROM r JOIN s ON r.id = s.v JOIN r t ON s.id = t.id ORDER BY s.id, r.id, t.v LIMIT 3",
        "SELECT s.id, max(r.v) FROM r LEFT JOIN s ON r.v = s.v GROUP BY r.id, s.id HAVING s.id IS NULL OR s.id > 1 ORDER BY 1, 2",
        "SELECT x, y FROM (SELECT id AS x, v AS y FROM r UNION ALL SELECT v AS y, id AS x FROM s) u WHERE x > 1 ORDER BY x, y LIMIT 4",
        "SELECT a.id, b.i FROM r a JOIN (SELECT r.id, s.id AS i, s.v FROM r LEFT JOIN s ON r.v = s.id) b ON a.id = b.i ORDER BY b.i, a.id, b.id LIMIT 3",
        "SELECT b.k, a.v FROM r a JOIN (SELECT r.id, s.id AS k, s.v FROM r JOIN s ON r.v = s.v WHERE r.id + s.id > 2) b ON a.id = b.k ORDER BY 1, 2",
    ];

    fn pairs() -> impl Strategy<Value = Vec<[Value; 2]>> {
        let value = || prop::option::weighted(0.8, 0..5_i64);
        prop::collection::vec([value(), value()], 1..9)
    }

    async fn answers(tables: [&RecordBatch; 2], is_pushed: bool) -> Result<Vec<Vec<Vec<Value>>>, String> {
        let (context, folder) = (context(), tempfile::tempdir().expect("a folder"));
        for (name, batch) in ["r", "s"].into_iter().zip(tables) {
            if !is_pushed {
                // Takes no filter.
                context.register_batch(name, batch.clone()).expect("a new table");
                continue;
            }
            let mut file = Vec::new();
            let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), None).expect("a file");
            writer.write(batch).and_then(|()| writer.close()).expect("a file");
            let path = folder.path().join(format!("{name}.parquet"));
            tokio::fs::write(&path, file).await.expect("a file");
            let path = path.to_str().expect("a path of UTF-8");
            context.register_parquet(name, path, ParquetReadOptions::default()).await.expect("a new table");
        }
        rows(&context, "SET datafusion.execution.parquet.pushdown_filters = true").await?;
        let mut answers = Vec::new();
        for question in QUESTIONS {
            answers.push(rows(&context, question).await?);
        }
        Ok(answers)
    }

    proptest! {
        #![proptest_config(questions())]
        #[test]
        fn filters_find_their_own_columns(first in pairs(), second in pairs()) {
            let (first, second) = (table(["id", "v"], &first), table(["id", "v"], &second));
            let tables = [&first, &second];
            let found = runtime().block_on(async { (answers(tables, true).await, answers(tables, false).await) });
            prop_assert_eq!(found.0, found.1);
        }
    }
}
