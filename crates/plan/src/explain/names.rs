//! What operators are called: the words that PostgreSQL has for them, and what they do.

use super::expressions::{all, list, plain, written};
use super::figures::told;
use arrow::compute::SortOptions;
use datafusion::common::JoinType;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::display::DisplayableExecutionPlan;
use datafusion::physical_plan::joins::utils::{JoinFilter, JoinOnRef};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, displayable};
use std::sync::Arc;

/// Operators that hand on the rows that they get, maybe in another order or on other threads.
const MOVERS: [&str; 9] = [
    "BufferExec",
    "CoalesceBatchesExec",
    "CoalescePartitionsExec",
    "CooperativeExec",
    "OutputRequirementExec",
    "RepartitionExec",
    "SortPreservingMergeExec",
    "UnfilteredExec",
    "UnknownRowsExec",
];

/// Columns that scans read for themselves.
const OWN_COLUMNS: [&str; 2] = ["_segment", "_row"];

/// Whether an operator hands on all rows of its input as they are, under other names at most.
pub(super) fn only_moves(plan: &dyn ExecutionPlan, input: &dyn ExecutionPlan) -> bool {
    let is_column = |expr: &Arc<dyn PhysicalExpr>| expr.downcast_ref::<Column>().is_some();
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return projection.expr().iter().all(|one| is_column(&one.expr));
    }
    let limits = plan.fetch().is_some() && plan.fetch() != input.fetch();
    let skips = plan.downcast_ref::<GlobalLimitExec>().is_none_or(|limit| limit.skip() > 0);
    (MOVERS.contains(&plan.name()) || !skips) && !limits
}

/// What an operator does.
pub(super) fn title_of(plan: &dyn ExecutionPlan, metrics: &MetricsSet) -> String {
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return aggregate_title(aggregate);
    }
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        let first = sort.fetch().map_or_else(|| "Sort".to_owned(), |fetch| format!("Top {fetch}"));
        return format!("{first} by {}", order(sort.expr().iter()));
    }
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return join_title("Hash", join.join_type(), join.on(), join.filter());
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        return join_title("Merge", &join.join_type(), join.on(), join.filter().as_ref());
    }
    if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        return join_title("Nested Loop", join.join_type(), &[], join.filter());
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let computed = projection.expr().iter().map(|one| &one.expr);
        return format!("Project: {}", list(computed.filter(|expr| expr.downcast_ref::<Column>().is_none())));
    }
    if let Some(window) = plan.downcast_ref::<WindowAggExec>() {
        return window_title(window.window_expr().iter().map(|expr| expr.name()));
    }
    if let Some(window) = plan.downcast_ref::<BoundedWindowAggExec>() {
        return window_title(window.window_expr().iter().map(|expr| expr.name()));
    }
    if let Some(scan) = plan.downcast_ref::<DataSourceExec>() {
        return scan_title(scan, metrics);
    }
    let limit = plan.fetch().map(|fetch| format!("Limit {fetch}"));
    match plan.name() {
        "FilterExec" | "ScanFilterExec" => {
            let limit = limit.map_or_else(String::new, |limit| format!(", {}", limit.to_lowercase()));
            format!("Filter: {}{limit}", all(&conditions(plan)))
        }
        "GlobalLimitExec" => {
            let skip = plan.downcast_ref::<GlobalLimitExec>().map_or(0, GlobalLimitExec::skip);
            let offset = (skip > 0).then(|| format!("Offset {skip}"));
            [limit, offset].into_iter().flatten().collect::<Vec<_>>().join(", ")
        }
        "LocalLimitExec" => limit.unwrap_or_default(),
        mover if MOVERS.contains(&mover) => limit.unwrap_or_else(|| words(mover)),
        "UnionExec" | "InterleaveExec" => "Union".to_owned(),
        "CrossJoinExec" => "Nested Loop".to_owned(),
        "PlaceholderRowExec" => "One row".to_owned(),
        "EmptyExec" => "No rows".to_owned(),
        "RecursiveQueryExec" => "Recursive Union".to_owned(),
        "WorkTableExec" => "Scan of the rows of the last round".to_owned(),
        "ScalarSubqueryExec" => "With the values of subqueries".to_owned(),
        "AnswersExec" => answers_title(plan, metrics),
        "SharedRowsExec" => "Shared rows".to_owned(),
        other => words(other),
    }
}

/// The name of an operator, in words: `LazyMemoryExec` is `Lazy Memory`.
fn words(name: &str) -> String {
    let name = name.strip_suffix("Exec").filter(|name| !name.is_empty()).unwrap_or(name);
    let mut words = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_uppercase() && words.ends_with(char::is_lowercase) {
            words.push(' ');
        }
        words.push(letter);
    }
    words
}

/// The conditions of a filter.
fn conditions(plan: &dyn ExecutionPlan) -> Vec<Arc<dyn PhysicalExpr>> {
    let mut found = Vec::new();
    // It cannot fail: nothing is done with what is seen.
    let _ = plan.apply_expressions(&mut |expr| {
        found.push(Arc::clone(expr));
        Ok(TreeNodeRecursion::Continue)
    });
    found
}

fn order<'a>(keys: impl Iterator<Item = &'a PhysicalSortExpr>) -> String {
    let key = |key: &PhysicalSortExpr| {
        let SortOptions { descending, nulls_first } = key.options;
        let direction = if descending { " DESC" } else { "" };
        // As in PostgreSQL, NULL is the largest value.
        let nulls = match nulls_first {
            same if same == descending => "",
            true => " NULLS FIRST",
            false => " NULLS LAST",
        };
        format!("{}{direction}{nulls}", written(&key.expr))
    };
    keys.map(key).collect::<Vec<_>>().join(", ")
}

fn aggregate_title(aggregate: &AggregateExec) -> String {
    let is_part = matches!(aggregate.mode(), AggregateMode::Partial | AggregateMode::PartialReduce);
    let first = if is_part { "Aggregate, in part" } else { "Aggregate" };
    // What the last part groups by is the names that the first part gives.
    let told = first_part(aggregate).unwrap_or(aggregate);
    let groups = told.group_expr();
    let by = match (groups.is_single(), list(groups.expr().iter().map(|(expr, _)| expr))) {
        (_, none) if none.is_empty() => String::new(),
        (true, by) => format!(" by {by}"),
        (false, by) => format!(" by {} sets of {by}", groups.groups().len()),
    };
    let functions: Vec<String> =
        told.aggr_expr().iter().zip(told.filter_expr()).map(|(one, filter)| function(one, filter.as_ref())).collect();
    let limit = aggregate.limit_options().map_or_else(String::new, |limit| format!(", limit {}", limit.limit()));
    match functions.is_empty() {
        true => format!("{first}{}{limit}", if by.is_empty() { ": nothing" } else { &by }),
        false => format!("{first}: {}{by}{limit}", functions.join(", ")),
    }
}

/// The part of an aggregate that sees its rows first, if that is another operator.
fn first_part(aggregate: &AggregateExec) -> Option<&AggregateExec> {
    let mut at: &Arc<dyn ExecutionPlan> = aggregate.input();
    loop {
        if let Some(part) = at.downcast_ref::<AggregateExec>() {
            let is_first = *part.mode() == AggregateMode::Partial && *aggregate.mode() != AggregateMode::Partial;
            return is_first.then_some(part);
        }
        let [input] = at.children()[..] else { return None };
        if !MOVERS.contains(&at.name()) {
            return None;
        }
        at = input;
    }
}

fn function(of: &AggregateFunctionExpr, filter: Option<&Arc<dyn PhysicalExpr>>) -> String {
    let arguments = of.expressions();
    let name = of.fun().name();
    let shown = match arguments.as_slice() {
        // Of rows, whatever they hold.
        [one] if name == "count" && one.downcast_ref::<Literal>().is_some() => "*".to_owned(),
        all => list(all),
    };
    let distinct = if of.is_distinct() { "DISTINCT " } else { "" };
    let filter = filter.map_or_else(String::new, |filter| format!(" where {}", written(filter)));
    format!("{name}({distinct}{shown}){filter}")
}

fn join_title(how: &str, join_type: &JoinType, on: JoinOnRef<'_>, filter: Option<&JoinFilter>) -> String {
    let which = match join_type {
        JoinType::Inner => "",
        JoinType::Left => " Left",
        JoinType::Right => " Right",
        JoinType::Full => " Full",
        JoinType::LeftSemi | JoinType::RightSemi => " Semi",
        JoinType::LeftAnti | JoinType::RightAnti => " Anti",
        JoinType::LeftMark | JoinType::RightMark => " Mark",
    };
    let same = on.iter().map(|(left, right)| format!("{} = {}", written(left), written(right)));
    let conditions: Vec<String> = same.chain(filter.map(|filter| written(filter.expression()))).collect();
    let conditions = conditions.join(" AND ");
    if conditions.is_empty() { format!("{how}{which} Join") } else { format!("{how}{which} Join: {conditions}") }
}

fn window_title<'a>(names: impl Iterator<Item = &'a str>) -> String {
    format!("Window: {}", names.map(plain).collect::<Vec<_>>().join(", "))
}

fn scan_title(scan: &DataSourceExec, metrics: &MetricsSet) -> String {
    let shown = displayable(scan as &dyn ExecutionPlan);
    let what = what_of(&shown);
    let table = told(metrics, "table");
    let schema = scan.schema();
    let names = schema.fields().iter().map(|field| field.name().as_str());
    let columns: Vec<&str> = names.filter(|name| !OWN_COLUMNS.contains(name)).collect();
    let columns = if columns.is_empty() { String::new() } else { format!(": {}", columns.join(", ")) };
    match (table, what.as_str()) {
        (Some(table), "tail") => format!("Scan of the tail of {table}{columns}"),
        (Some(table), "key lookup") => format!("Key lookup in {table}{columns}"),
        (Some(table), _) => format!("Scan {table}{columns}"),
        (None, _) if scan.data_source().downcast_ref::<MemorySourceConfig>().is_some() => {
            format!("Rows in memory{columns}")
        }
        (None, _) => format!("Scan{columns}"),
    }
}

/// What other machines were asked for.
fn answers_title(plan: &dyn ExecutionPlan, metrics: &MetricsSet) -> String {
    let line = displayable(plan).one_line().to_string();
    let asked = line.trim().strip_prefix("AnswersExec: table=").unwrap_or_default();
    let figure = |name: &str| metrics.sum_by_name(name).map_or(0, |value| value.as_usize());
    let (shards, bytes) = (figure("shards_asked"), figure("bytes_received"));
    format!("Asked of {shards} shards, {bytes} bytes: {asked}")
}

/// What kind of rows a source says that it has: `tail`, `key lookup`; of files something else.
fn what_of(shown: &DisplayableExecutionPlan<'_>) -> String {
    let line = shown.one_line().to_string();
    let what = line.trim_start().strip_prefix("DataSourceExec: ").unwrap_or_default();
    what.split([',', '\n']).next().unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::Shown;
    use super::*;
    use datafusion::prelude::{SessionConfig, SessionContext};

    /// The titles of a plan that has run, from above.
    async fn titles(context: &SessionContext, sql: &str) -> Vec<String> {
        let plan = context.sql(sql).await.expect("is planned").create_physical_plan().await.expect("is planned");
        let rows = datafusion::physical_plan::collect(Arc::clone(&plan), context.task_ctx());
        rows.await.expect("runs");
        let shown = Shown::of(&plan, &|_, _| None);
        shown.all().iter().map(|shown| shown.title.clone()).collect()
    }

    #[tokio::test]
    async fn operators_have_words() {
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
        context.sql("CREATE TABLE t AS VALUES (1, 'x'), (2, 'y'), (3, NULL)").await.expect("creates");
        for (sql, wanted) in [
            (
                "SELECT column1 % 2, count(*), max(column1) FROM t WHERE column2 <> 'z' GROUP BY 1",
                vec![
                    "Aggregate: count(*), max(column1) by column1 % 2",
                    "Aggregate, in part: count(*), max(column1) by column1 % 2",
                    "Filter: column2 != 'z'",
                    "Rows in memory: column1, column2",
                ],
            ),
            (
                "SELECT column1 FROM t ORDER BY column1 DESC LIMIT 2",
                vec!["Top 2 by column1 DESC", "Rows in memory: column1"],
            ),
            (
                "SELECT a.column1 + 1 FROM t a LEFT JOIN t b ON a.column1 = b.column1 WHERE a.column2 LIKE 'x%'",
                vec![
                    "Project: column1 + 1",
                    "Hash Left Join: column1 = column1",
                    "Filter: column2 LIKE 'x%'",
                    "Rows in memory: column1",
                    "Rows in memory: column1, column2",
                ],
            ),
            ("SELECT 1", vec!["Project: 1", "One row"]),
        ] {
            assert_eq!(titles(&context, sql).await, wanted, "{sql}");
        }
        assert_eq!(words("LazyMemoryExec"), "Lazy Memory");
        assert_eq!(words("Exec"), "Exec");
    }
}
