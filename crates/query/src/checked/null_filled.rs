//! Sides of outer joins that are filled with NULLs.
//!
//! Invariant: what a plan says of an outer join's constants is true of the rows, too, that it fills with NULLs.
//!
//! DataFusion 55.2 takes over what it knows of both sides: after `LEFT JOIN s ON f.k = s.id AND s.region = 'N'` it has `s.region` for a
//! constant, although it is NULL where nothing joins (`EquivalenceGroup::join`). So `ORDER BY s.region` was not in order, groups came several
//! times, and windows had pieces of their partitions, wherever there was more than one batch. Here the values of such a side are not known
//! above it; that columns of it are equal holds for NULLs as well.

use super::less_known::{LessKnownExec, StillKnown, is_known_by_value};
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
pub(crate) struct NullFilledSidesOfUnknownValues;

impl PhysicalOptimizerRule for NullFilledSidesOfUnknownValues {
    fn name(&self) -> &str {
        "null_filled_sides_of_unknown_values"
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let unknown = plan.transform_up(|plan| {
            let filled = filled_sides(&plan);
            let is_mended = |(filled, side): (&bool, &&Arc<dyn ExecutionPlan>)| {
                *filled && is_known_by_value(side.equivalence_properties())
            };
            let sides = plan.children();
            if !filled.iter().zip(&sides).any(is_mended) {
                return Ok(Transformed::no(plan));
            }
            let mended = |pair: (&bool, &&Arc<dyn ExecutionPlan>)| match is_mended(pair) {
                true => LessKnownExec::over(pair.1, StillKnown::Columns),
                false => Arc::clone(pair.1),
            };
            let sides = filled.iter().zip(&sides).map(mended).collect();
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            plan.replace_children(sides, options).map(Transformed::yes)
        })?;
        Ok(unknown.data)
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Whether the left and the right side of a join are filled with NULLs; neither of what is no join.
fn filled_sides(plan: &Arc<dyn ExecutionPlan>) -> [bool; 2] {
    let join_type = if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        *join.join_type()
    } else if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        join.join_type()
    } else if let Some(join) = plan.downcast_ref::<NestedLoopJoinExec>() {
        *join.join_type()
    } else if let Some(join) = plan.downcast_ref::<SymmetricHashJoinExec>() {
        *join.join_type()
    } else if let Some(join) = plan.downcast_ref::<PiecewiseMergeJoinExec>() {
        join.join_type()
    } else {
        return [false; 2];
    };
    [matches!(join_type, JoinType::Right | JoinType::Full), matches!(join_type, JoinType::Left | JoinType::Full)]
}

#[cfg(test)]
mod tests {
    use crate::checked::testing::{Value, context, questions, rows, runtime, table};
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
