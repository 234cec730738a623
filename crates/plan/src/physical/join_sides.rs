//! What a plan may be told of the two sides of a join.
//!
//! Invariants:
//! - What it says of an outer join's constants is true of the rows, too, that are filled with NULLs.
//! - What it says of a join's order does not depend on the order of the side that is kept in memory.
//!
//! DataFusion 55.2 takes over what it knows of both sides (`EquivalenceGroup::join`, `join_equivalence_properties`):
//! - After `LEFT JOIN s ON f.k = s.id AND s.region = 'N'` it has `s.region` for a constant, although it is NULL where nothing joins. So `ORDER
//!   BY s.region` was not in order, groups came several times, and windows had pieces of their partitions, wherever there was more than one
//!   batch. Here the values of such a side are not known above it; that columns of it are equal holds for NULLs as well.
//! - Of a hash join whose probed side is ordered by `b` and whose other side by `a` it says that it is ordered by `b, a`; but rows of one `b`
//!   are several, and each begins with the first `a` again. So `ORDER BY b, a` was left out. Here the other side has no order.
//!
//! Which side is probed is chosen by `JoinSelection`, so the rule comes before and after it.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: outer join, EquivalenceGroup::join,
//! constants, ORDER BY, NULL).
//! Mends apache/datafusion#25052 (in 55.2).

use super::less_known::{LessKnownExec, StillKnown, has_order, is_known_by_value};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{
    HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec, SymmetricHashJoinExec,
};
use datafusion::physical_plan::{
    ChildrenPropertiesMode, ExecutionPlan, ExecutionPlanProperties, ReplaceChildrenOptions,
};
use std::sync::Arc;

/// The rule. It must come before those that trust what is known.
#[derive(Debug)]
pub struct JoinSidesLessKnown;

impl PhysicalOptimizerRule for JoinSidesLessKnown {
    fn name(&self) -> &str {
        "join_sides_less_known"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let mended = plan.transform_up(|plan| {
            let Some(join_type) = join_type_of(&plan) else { return Ok(Transformed::no(plan)) };
            let filled = [
                matches!(join_type, JoinType::Right | JoinType::Full),
                matches!(join_type, JoinType::Left | JoinType::Full),
            ];
            let is_hash_join = plan.downcast_ref::<HashJoinExec>().is_some();
            let still_known = |at: usize, side: &Arc<dyn ExecutionPlan>| {
                let known = side.equivalence_properties();
                if filled[at] && (is_known_by_value(known) || has_order(known)) {
                    Some(StillKnown::EqualColumns)
                } else if at == 0 && is_hash_join && has_order(known) {
                    Some(StillKnown::AllButOrder)
                } else {
                    None
                }
            };
            let sides = plan.children();
            let still_known: Vec<_> = sides.iter().enumerate().map(|(at, side)| still_known(at, side)).collect();
            if still_known.iter().all(Option::is_none) {
                return Ok(Transformed::no(plan));
            }
            let side = |(side, known): (&&Arc<dyn ExecutionPlan>, &Option<StillKnown>)| {
                known.map_or_else(|| Arc::clone(side), |known| LessKnownExec::over(side, known))
            };
            let sides = sides.iter().zip(&still_known).map(side).collect();
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            plan.replace_children(sides, options).map(Transformed::yes)
        })?;
        Ok(mended.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The type of a join; `None` of what is none.
fn join_type_of(plan: &Arc<dyn ExecutionPlan>) -> Option<JoinType> {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        Some(*join.join_type())
    } else if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        Some(join.join_type())
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        Some(*join.join_type())
    } else if let Some(join) = plan.downcast_ref::<SymmetricHashJoinExec>() {
        Some(*join.join_type())
    } else {
        plan.downcast_ref::<PiecewiseMergeJoinExec>().map(PiecewiseMergeJoinExec::join_type)
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Value, context, questions, rows, runtime, table};
    use proptest::prelude::*;

    /// Rows `k, v` joined to those of `id, r` whose `r` is 1, which all outer joins have that fill these with NULLs.
    const JOINS: [&str; 5] = [
        "f LEFT JOIN s ON k = id AND r = 1",
        "s RIGHT JOIN f ON k = id AND r = 1",
        "f LEFT JOIN (SELECT id, 1 AS r FROM s WHERE r = 1) s ON k = id",
        "f LEFT JOIN (SELECT id, r FROM s WHERE r = 1) s ON k = id AND v >= 0",
        "f FULL JOIN (SELECT id, r FROM s WHERE r = 1) s ON k = id",
    ];

    const FULL: usize = 4;

    /// `k`, `v` and `r` of what is joined.
    fn joined(join: usize, facts: &[[Value; 2]], small: &[[Value; 2]]) -> Vec<[Value; 3]> {
        let small: Vec<Value> = small.iter().filter(|[_, r]| *r == Some(1)).map(|[id, _]| *id).collect();
        let meets = |k: Value, id: Value| k.is_some() && k == id;
        let mut joined = Vec::new();
        for &[k, v] in facts {
            let times = small.iter().filter(|&&id| meets(k, id)).count();
            joined.extend(std::iter::repeat_n([k, v, Some(1)], times));
            if times == 0 {
                joined.push([k, v, None]);
            }
        }
        if join == FULL {
            let alone = small.iter().filter(|&&id| !facts.iter().any(|[k, _]| meets(*k, id)));
            joined.extend(alone.map(|_| [None, None, Some(1)]));
        }
        joined
    }

    fn some_rows(most: usize) -> impl Strategy<Value = Vec<[Value; 2]>> {
        let key = || prop_oneof![1 => Just(None), 9 => (0..5_i64).prop_map(Some)];
        let value = prop_oneof![Just(Some(1)), Just(Some(2))];
        prop::collection::vec((key(), value).prop_map(<[Value; 2]>::from), 1..most)
    }

    proptest! {
        #![proptest_config(questions())]
        #[test]
        fn what_a_join_fills_with_nulls_is_no_constant(
            facts in some_rows(40),
            small in some_rows(8),
            join in 0..JOINS.len(),
            threads in 1..3_usize,
            limit in 1..20_usize,
        ) {
            let from = JOINS[join];
            let all = joined(join, &facts, &small);
            let count = |r: Value| all.iter().filter(|row| row[2] == r).count() as i64;
            let mut groups: Vec<Vec<Value>> =
                [None, Some(1)].iter().filter(|&&r| count(r) > 0).map(|&r| vec![r, Some(count(r))]).collect();
            groups.sort_unstable();
            let mut ordered: Vec<Vec<Value>> = all.iter().map(|&[k, v, r]| vec![r, k, v]).collect();
            ordered.sort_unstable();
            let limited = ordered[..limit.min(ordered.len())].to_vec();
            let mut counted: Vec<Vec<Value>> = all.iter().map(|&[_, v, r]| vec![r, v, Some(count(r))]).collect();
            counted.sort_unstable();
            let order = "NULLS FIRST";
            let questions = [
                (format!("SELECT r, count(*) AS n FROM {from} GROUP BY r"), groups.clone()),
                (format!("SELECT DISTINCT r, 0 AS n FROM {from}"), groups.iter().map(|of| vec![of[0], Some(0)]).collect()),
                (format!("SELECT r, v, count(*) OVER (PARTITION BY r) AS c FROM {from}"), counted),
            ];
            let context = context();
            context.register_batch("f", table(["k", "v"], &facts)).expect("a new table");
            context.register_batch("s", table(["id", "r"], &small)).expect("a new table");
            let asked = async {
                // What is wrong shows where there are several batches.
                for set in ["batch_size = 3".to_owned(), format!("target_partitions = {threads}")] {
                    rows(&context, &format!("SET datafusion.execution.{set}")).await?;
                }
                for (sql, expected) in questions {
                    let mut found = rows(&context, &sql).await?;
                    found.sort_unstable();
                    if found != expected {
                        return Err(format!("{found:?} and not {expected:?}: {sql}"));
                    }
                }
                let sql = format!("SELECT r, k, v FROM {from} ORDER BY r {order}, k {order}, v {order} LIMIT {limit}");
                let found = rows(&context, &sql).await?;
                if found == limited { Ok(()) } else { Err(format!("{found:?} and not {limited:?}: {sql}")) }
            };
            let asked: Result<(), String> = runtime().block_on(asked);
            prop_assert_eq!(asked, Ok(()));
        }
    }
}
