//! Grouping sets of rows of which nothing is known.
//!
//! Invariant: what a plan says of an aggregate's order, constants and partitions is true of every one of its grouping sets.
//!
//! DataFusion 55.2 takes over for all sets what it knows of the rows below: after `WHERE k = 1` it has `k` for a constant although it is
//! NULL in the total of `ROLLUP (k)`. So `ORDER BY k LIMIT 1` gave any row, and groups were told as ended that were not
//! (the issue upstream is about order alone). Here nothing is known of the rows below such an aggregate.
//!
//! Mends apache/datafusion#24421 (in 55.2).

use super::less_known::{LessKnownExec, StillKnown};
use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::{ChildrenPropertiesMode, ExecutionPlan, ReplaceChildrenOptions};
use std::sync::Arc;

/// The rule. It must come before those that trust what is known.
#[derive(Debug)]
pub struct GroupingSetsOfUnknownRows;

impl PhysicalOptimizerRule for GroupingSetsOfUnknownRows {
    fn name(&self) -> &str {
        "grouping_sets_of_unknown_rows"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let unknown = plan.transform_up(|plan| {
            let has_sets = plan.downcast_ref::<AggregateExec>().is_some_and(|of| of.group_expr().has_grouping_set());
            if !has_sets {
                return Ok(Transformed::no(plan));
            }
            let unknown = |rows: &Arc<dyn ExecutionPlan>| LessKnownExec::over(rows, StillKnown::Nothing);
            let rows = plan.children().into_iter().map(unknown).collect();
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            plan.replace_children(rows, options).map(Transformed::yes)
        })?;
        Ok(unknown.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Value, context, questions, rows, runtime, table};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// As they are written, and which of `k` and `j` each set has.
    const SETS: &[(&str, &[[bool; 2]])] = &[
        ("ROLLUP (k)", &[[true, false], [false, false]]),
        ("ROLLUP (k, j)", &[[true, true], [true, false], [false, false]]),
        ("ROLLUP (j, k)", &[[true, true], [false, true], [false, false]]),
        ("CUBE (k, j)", &[[true, true], [true, false], [false, true], [false, false]]),
        ("GROUPING SETS ((k), (j))", &[[true, false], [false, true]]),
        ("GROUPING SETS ((k, j), (j), ())", &[[true, true], [false, true], [false, false]]),
    ];

    /// What is known of the rows below: nothing, or a constant, or their order.
    const BELOW: [&str; 4] = [
        "FROM t",
        "FROM t WHERE k = 1",
        "FROM t WHERE k = 1 AND j = 2",
        "FROM (SELECT * FROM t WHERE k > 0 ORDER BY k, j LIMIT 100) t",
    ];

    fn is_below(place: usize, [k, j, _]: &[Value; 3]) -> bool {
        match place {
            0 => true,
            1 => *k == Some(1),
            2 => *k == Some(1) && *j == Some(2),
            _ => k.is_some_and(|k| k > 0),
        }
    }

    fn some_rows() -> impl Strategy<Value = Vec<[Value; 3]>> {
        let value = || prop_oneof![1 => Just(None), 3 => Just(Some(1)), 3 => Just(Some(2))];
        prop::collection::vec((value(), value(), 0..9_i64).prop_map(|(k, j, v)| [k, j, Some(v)]), 1..20)
    }

    proptest! {
        #![proptest_config(questions())]
        #[test]
        fn each_set_is_a_group_by_of_its_own(
            of in some_rows(),
            (sets, members) in prop::sample::select(SETS),
            place in 0..BELOW.len(),
            is_descending in any::<bool>(),
            limit in 1..12_usize,
        ) {
            let below: Vec<&[Value; 3]> = of.iter().filter(|row| is_below(place, row)).collect();
            // Of no rows at all there are other totals in PostgreSQL than here.
            prop_assume!(!below.is_empty());
            let mut expected: Vec<Vec<Value>> = Vec::new();
            for has in members {
                let mut groups: BTreeMap<[Value; 2], (i64, i64)> = BTreeMap::new();
                for row in &below {
                    let key = [0, 1].map(|at| if has[at] { row[at] } else { None });
                    let group = groups.entry(key).or_default();
                    *group = (group.0 + 1, group.1 + row[2].unwrap_or(0));
                }
                expected.extend(groups.into_iter().map(|([k, j], (n, s))| vec![k, j, Some(n), Some(s)]));
            }
            expected.sort_unstable();
            let order = if is_descending { "DESC NULLS LAST" } else { "ASC NULLS FIRST" };
            if is_descending {
                expected.reverse();
            }
            expected.truncate(limit);
            // By `j` nothing is grouped then.
            let j = if sets == "ROLLUP (k)" { "CAST(NULL AS BIGINT)" } else { "j" };
            let sql = format!(
                "SELECT k, {j} AS j, count(*) AS n, sum(v) AS s {} GROUP BY {sets} ORDER BY 1 {order}, 2 {order}, 3 {order}, 4 {order} LIMIT {limit}",
                BELOW[place]
            );
            let context = context();
            context.register_batch("t", table(["k", "j", "v"], &of)).expect("a new table");
            let found = runtime().block_on(rows(&context, &sql)).unwrap_or_else(|error| panic!("{error}"));
            prop_assert_eq!(found, expected, "{}", sql);
        }
    }
}
