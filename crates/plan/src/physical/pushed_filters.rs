//! Filters that go down a plan past columns of one name.
//!
//! Invariant: a filter that reaches an operator is of the columns that it was of above.
//!
//! DataFusion 55.2 finds a filter's columns in the operator below by their names, and takes the first of a name (mended
//! behind 55.2 by apache/datafusion#25259). Above a join of tables that both have an `id` there are two: in
//! `r RIGHT JOIN t ON r.big = t.id WHERE r.id IS NULL`, whose key is cast in a projection, `r.id IS NULL` reached the scan of `t`, and the
//! statement found nothing; what is behind `ORDER BY p.amount LIMIT 1` reached `o.amount`. So while filters are pushed, no column passes an
//! operator that would look up a name which is not its alone. Filters that stay where they are cost time, and change no answer.
//!
//! Mends apache/datafusion#21246, #25244, #25262, #25263, #25264, #25296 (in 55.2).

use super::unfiltered::UnfilteredExec;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{JoinType, Result};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::union::{InterleaveExec, UnionExec};
use datafusion::physical_plan::{ExecutionPlan, replace_children_if_necessary};
use std::collections::HashMap;
use std::sync::Arc;

/// DataFusion's rule, kept from columns whose names are not theirs alone.
#[derive(Debug)]
pub struct FiltersOfTheirColumns(pub Arc<dyn PhysicalOptimizerRule + Send + Sync>);

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

/// The plan, in which nothing passes where it could be taken for a filter of another column.
fn guarded(plan: &Arc<dyn ExecutionPlan>, above: Option<&Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
    let children = plan.children().into_iter().map(|child| guarded(child, Some(plan)));
    let input = replace_children_if_necessary(Arc::clone(plan), children.collect::<Result<_>>()?)?;
    let mut open = sure_below(plan);
    if let Some(above) = above {
        close_mistaken(plan, above, &mut open);
    }
    let is_open = open.iter().all(|open| *open);
    Ok(if is_open { input } else { Arc::new(UnfilteredExec { input, open: open.into() }) })
}

/// The plan as it was, but for the filters that were pushed.
fn freed(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some(kept) = plan.downcast_ref::<UnfilteredExec>() {
        return freed(&kept.input);
    }
    let children = plan.children().into_iter().map(freed).collect::<Result<_>>()?;
    replace_children_if_necessary(Arc::clone(plan), children)
}

/// Of each column of an operator, whether its name is its own, there and in what the operator reads: then the name finds it, whoever looks.
fn sure_below(plan: &Arc<dyn ExecutionPlan>) -> Vec<bool> {
    let (own, below) = (names_of(plan), plan.children().into_iter().map(names_of).collect::<Vec<_>>());
    let schema = plan.schema();
    let is_sure =
        |name: &String| own[name] == 1 && below.iter().all(|names| names.get(name).is_none_or(|&times| times == 1));
    let mut sure: Vec<bool> = schema.fields().iter().map(|field| is_sure(field.name())).collect();
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        // A key that has the name of another column of its input.
        for (sure, (key, name)) in sure.iter_mut().zip(aggregate.group_expr().expr()) {
            let is_itself = key.downcast_ref::<Column>().is_some_and(|key| key.name() == name);
            *sure &= is_itself || aggregate.input().schema().index_of(name).is_err();
        }
    }
    sure
}

/// Closes columns that the operator above takes for others, as it finds them by the names of its own.
fn close_mistaken(plan: &Arc<dyn ExecutionPlan>, above: &Arc<dyn ExecutionPlan>, open: &mut [bool]) {
    let schema = plan.schema();
    if above.is::<UnionExec>() || above.is::<InterleaveExec>() {
        let names = above.schema();
        for (open, (own, name)) in open.iter_mut().zip(schema.fields().iter().zip(names.fields())) {
            *open &= own.name() == name.name();
        }
    }
    // Filters of a semi join's keys are put to the side that it does not give, too, by the names that they have on the other.
    let Some(join) = above.downcast_ref::<HashJoinExec>() else { return };
    let keys = join.on().iter();
    let keys: Vec<_> = match join.join_type() {
        JoinType::LeftSemi if Arc::ptr_eq(plan, join.right()) => keys.map(|(left, right)| (left, right)).collect(),
        JoinType::RightSemi if Arc::ptr_eq(plan, join.left()) => keys.map(|(left, right)| (right, left)).collect(),
        _ => return,
    };
    for (given, own) in keys {
        let Some(given) = given.downcast_ref::<Column>() else { continue };
        if let Ok(found) = schema.index_of(given.name())
            && own.downcast_ref::<Column>().is_none_or(|own| own.index() != found)
        {
            open[found] = false;
        }
    }
}

/// How many columns have each name.
fn names_of(plan: &Arc<dyn ExecutionPlan>) -> HashMap<String, usize> {
    let mut names = HashMap::new();
    for field in plan.schema().fields() {
        *names.entry(field.name().clone()).or_default() += 1;
    }
    names
}

#[cfg(test)]
mod tests {
    use crate::testing::{Value, context, questions, rows, runtime, table};
    use arrow::array::RecordBatch;
    use datafusion::prelude::ParquetReadOptions;
    use parquet::arrow::ArrowWriter;
    use proptest::prelude::*;

    /// Joins of tables whose columns have the same names, with filters above them and with what learns some while it runs.
    const QUESTIONS: [&str; 10] = [
        "SELECT t.id, t.v, r.v FROM r RIGHT JOIN r t ON r.v = CAST(t.id AS BIGINT) + 1 WHERE r.id IS NULL ORDER BY 1, 2, 3",
        "SELECT t.id, r.id FROM r t LEFT JOIN s r ON CAST(r.v AS DOUBLE) = CAST(t.id AS DOUBLE) WHERE r.v IS NULL ORDER BY 1, 2",
        "SELECT r.id, s.id, t.v FROM r JOIN s ON r.id = s.v JOIN r t ON s.id = t.id ORDER BY s.id, r.id, t.v LIMIT 3",
        "SELECT s.id, max(r.v) FROM r LEFT JOIN s ON r.v = s.v GROUP BY r.id, s.id HAVING s.id IS NULL OR s.id > 1 ORDER BY 1, 2",
        "SELECT x, y FROM (SELECT id AS x, v AS y FROM r UNION ALL SELECT v AS y, id AS x FROM s) u WHERE x > 1 ORDER BY x, y LIMIT 4",
        "SELECT a.id, b.i FROM r a JOIN (SELECT r.id, s.id AS i, s.v FROM r LEFT JOIN s ON r.v = s.id) b ON a.id = b.i ORDER BY b.i, a.id, b.id LIMIT 3",
        "SELECT b.k, a.v FROM r a JOIN (SELECT r.id, s.id AS k, s.v FROM r JOIN s ON r.v = s.v WHERE r.id + s.id > 2) b ON a.id = b.k ORDER BY 1, 2",
        "SELECT x.id, t.v, b.id FROM (SELECT DISTINCT id FROM r) x JOIN (r a JOIN s b ON a.v = b.v JOIN r t ON t.v = a.v) ON x.id = b.id ORDER BY 1, 2, 3",
        "SELECT count(*) FROM s x JOIN (SELECT id, v FROM r WHERE EXISTS (SELECT 1 FROM s WHERE s.v = r.id AND s.id > r.v)) t ON x.v = t.id",
        "SELECT id FROM (SELECT id, v FROM r WHERE v IN (SELECT id FROM s)) t WHERE v > 1 ORDER BY v, id LIMIT 3",
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
