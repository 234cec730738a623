//! INTERSECT ALL and EXCEPT ALL that count rows.
//!
//! Invariant: a row that is m times on the left and n times on the right is min(m, n) times in the intersection, and max(m - n, 0) times
//! in the difference.
//!
//! DataFusion 55.2 plans both as it plans their kin without ALL: a row on the right keeps, or takes away, all its like on the left.
//! So equal rows are numbered on both sides, and the number becomes one more column to compare.
//!
//! Mends apache/datafusion#12955, #12956 (in 55.2).

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, NullEquality, Result};
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt, Join, JoinType, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::analyzer::AnalyzerRule;
use std::sync::Arc;

/// The rule. Types must have been coerced.
#[derive(Debug)]
pub struct CountedMultisets;

impl AnalyzerRule for CountedMultisets {
    fn name(&self) -> &str {
        "counted_multisets"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let counted = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Join(join) if is_of_multisets(&join) => counted(join).map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(counted.data)
    }
}

/// Nothing else is planned as a join in which NULL equals NULL, before the optimizer. Without ALL the left side is distinct, and with ALL
/// it may be: then the join is right as it is.
fn is_of_multisets(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && !matches!(*join.left, LogicalPlan::Distinct(_))
}

fn counted(join: Join) -> Result<LogicalPlan> {
    let Join { left, right, mut on, join_type, join_constraint, null_equality, .. } = join;
    let columns: Vec<Expr> = left.schema().columns().into_iter().map(Expr::Column).collect();
    let (left_keys, right_keys): (Vec<Expr>, Vec<Expr>) = on.iter().cloned().unzip();
    let left = numbered(left, left_keys, "number on the left")?;
    let right = numbered(right, right_keys, "number on the right")?;
    on.push((left.1, right.1));
    let join = Join::try_new(left.0, right.0, on, None, join_type, join_constraint, null_equality, false)?;
    LogicalPlanBuilder::from(LogicalPlan::Join(join)).project(columns)?.build()
}

/// The rows with a number among those of the same keys.
fn numbered(rows: Arc<LogicalPlan>, keys: Vec<Expr>, name: &str) -> Result<(Arc<LogicalPlan>, Expr)> {
    let mut columns: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
    let number = row_number().partition_by(keys).build()?;
    columns.push(Expr::Column(Column::from_name(number.schema_name().to_string())).alias(name));
    let rows = LogicalPlanBuilder::from(Arc::unwrap_or_clone(rows)).window([number])?.project(columns)?.build()?;
    Ok((Arc::new(rows), Expr::Column(Column::from_name(name))))
}

#[cfg(test)]
mod tests {
    use crate::testing::{Value, context, questions, rows, runtime, table};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// How often each row is there.
    type Counts = BTreeMap<Vec<Value>, usize>;

    const OPERATORS: &[&str] = &["INTERSECT ALL", "EXCEPT ALL", "UNION ALL", "INTERSECT", "EXCEPT", "UNION"];

    fn counts(rows: impl IntoIterator<Item = Vec<Value>>) -> Counts {
        let mut counts = Counts::new();
        for row in rows {
            *counts.entry(row).or_default() += 1;
        }
        counts
    }

    fn combined(left: &Counts, operator: &str, right: &Counts) -> Counts {
        let of = |row: &Vec<Value>| {
            let [m, n] = [left, right].map(|side| side.get(row).copied().unwrap_or(0));
            match operator {
                "INTERSECT ALL" => m.min(n),
                "EXCEPT ALL" => m.saturating_sub(n),
                "UNION ALL" => m + n,
                "INTERSECT" => usize::from(m > 0 && n > 0),
                "EXCEPT" => usize::from(m > 0 && n == 0),
                _ => 1,
            }
        };
        left.keys().chain(right.keys()).map(|row| (row.clone(), of(row))).filter(|(_, count)| *count > 0).collect()
    }

    /// Few values, so that many rows are equal, NULLs among them.
    fn some_rows() -> impl Strategy<Value = Vec<[Value; 2]>> {
        let value = || prop_oneof![Just(None), Just(Some(1)), Just(Some(2))];
        prop::collection::vec((value(), value()).prop_map(|(x, y)| [x, y]), 0..14)
    }

    proptest! {
        #![proptest_config(questions())]
        #[test]
        fn sets_are_what_counting_gives(
            tables in [some_rows(), some_rows(), some_rows()],
            first in prop::sample::select(OPERATORS),
            second in prop::sample::select(OPERATORS),
            is_left_first in any::<bool>(),
        ) {
            let context = context();
            for (name, rows) in ["a", "b", "c"].into_iter().zip(&tables) {
                context.register_batch(name, table(["x", "y"], rows)).expect("a new table");
            }
            let [a, b, c] = tables.map(|rows| counts(rows.into_iter().map(Vec::from)));
            let (sql, expected) = if is_left_first {
                let sql = format!("(SELECT x, y FROM a {first} SELECT x, y FROM b) {second} SELECT x, y FROM c");
                (sql, combined(&combined(&a, first, &b), second, &c))
            } else {
                let sql = format!("SELECT x, y FROM a {first} (SELECT x, y FROM b {second} SELECT x, y FROM c)");
                (sql, combined(&a, first, &combined(&b, second, &c)))
            };
            let found = runtime().block_on(rows(&context, &sql)).unwrap_or_else(|error| panic!("{error}"));
            prop_assert_eq!(counts(found), expected, "{}", sql);
        }
    }
}
