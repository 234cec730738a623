//! Lists with computed members, as `k IN (1, coalesce(s, 0))`.
//!
//! Invariants:
//! - What a list has is computed for every row, unless all of it is constant: `IN` and `NOT IN` are NULL, true or false as in PostgreSQL.
//! - What is looked for, and each member, stays in its one place, and is computed once.
//! - Columns are called what they were called.
//!
//! DataFusion 55.2 takes for constants what is a constant where there are no rows at all, and there CASE, of which `coalesce` becomes one, is
//! its last branch (`try_evaluate_constant_list`). So a function is put around one of the members, which is an array also then.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: IN list, coalesce, CASE,
//! try_evaluate_constant_list, empty batch).

use crate::expressions::each_named;
use alluvia_functions::internal::computed::{NAME, computed};
use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// Puts the function into lists that vary. It must come after the rules that make lists, and CASE of functions.
#[derive(Debug)]
pub struct ComputedLists;

impl OptimizerRule for ComputedLists {
    fn name(&self) -> &str {
        "computed_lists"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let names = NamePreserver::new(&plan);
        let change = |expr: Expr| expr.transform_up(|expr| Ok(told(expr)));
        plan.map_expressions(|expr| {
            if expr.exists(|expr| Ok(mistaken(expr).is_some()))? {
                each_named(&names, expr, &change)
            } else {
                Ok(Transformed::no(expr))
            }
        })
    }
}

/// Which member of a list varies, if the list may be taken for constants.
fn mistaken(expr: &Expr) -> Option<usize> {
    let Expr::InList(InList { list, .. }) = expr else { return None };
    // A column is never a constant.
    let is_known = list.iter().any(|member| matches!(member, Expr::Column(_)) || is_computed(member));
    if is_known { None } else { list.iter().position(|member| member.any_column_refs() || member.is_volatile()) }
}

fn is_computed(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(function) if function.name() == NAME)
}

fn told(mut expr: Expr) -> Transformed<Expr> {
    let Some(varying) = mistaken(&expr) else { return Transformed::no(expr) };
    if let Expr::InList(InList { list, .. }) = &mut expr
        && let Some(member) = list.get_mut(varying)
    {
        *member = computed(std::mem::take(member));
    }
    Transformed::yes(expr)
}

#[cfg(test)]
mod tests {
    use crate::testing::{Value, context, questions, rows, runtime, table};
    use proptest::prelude::*;

    /// `value IN (list)`; truth is 1 and 0.
    fn is_in(value: Value, list: &[Value]) -> Value {
        let value = value?;
        if list.contains(&Some(value)) {
            Some(1)
        } else if list.contains(&None) {
            None
        } else {
            Some(0)
        }
    }

    fn not(truth: Value) -> Value {
        truth.map(|truth| 1 - truth)
    }

    proptest! {
        #![proptest_config(questions())]
        #[test]
        fn lists_are_computed_for_every_row(
            of in prop::collection::vec(prop::array::uniform2(prop::option::of(-1..6_i64)), 1..20),
        ) {
            let numbered: Vec<[Value; 3]> = of.iter().zip(1..).map(|(&[k, s], id)| [Some(id), k, s]).collect();
            let more = |value: Value, than: i64| value.is_some_and(|value| value > than);
            let expected: Vec<Vec<Value>> = numbered
                .iter()
                .map(|&[id, k, s]| {
                    let first = s.or(k).or(Some(0));
                    let chosen = if more(k, 3) { s } else if more(k, 1) { Some(3) } else { None };
                    let last = if more(s, 2) { k } else { None };
                    let next = s.map(|s| s + 1);
                    vec![
                        id,
                        is_in(k, &[Some(1), first]),
                        not(is_in(k, &[Some(1), chosen])),
                        is_in(k, &[Some(0), Some(2), Some(4), next, last]),
                        not(is_in(k.map(|k| k + 1), &[Some(9), Some(1), first])),
                    ]
                })
                .collect();
            let (first, chosen) = ("coalesce(s, k, 0)", "CASE WHEN k > 3 THEN s WHEN k > 1 THEN 3 END");
            let context = context();
            context.register_batch("t", table(["id", "k", "s"], &numbered)).expect("a new table");
            let asked = |sql: &str| runtime().block_on(rows(&context, sql)).unwrap_or_else(|error| panic!("{error}"));
            let found = asked(&format!(
                "SELECT id, k IN (1, {first}) AS a, k NOT IN (1, {chosen}) AS b, \
                 k IN (0, 2, 4, s + 1, CASE WHEN s > 2 THEN k END) AS c, k + 1 NOT IN (9, 1, {first}) AS d FROM t ORDER BY id"
            ));
            prop_assert_eq!(found, expected.clone());
            // The same as conditions.
            for (at, condition) in [(1, format!("k IN (1, {first})")), (2, format!("k NOT IN (1, {chosen})"))] {
                let found = asked(&format!("SELECT id FROM t WHERE {condition} ORDER BY id"));
                let kept = expected.iter().filter(|row| row[at] == Some(1)).map(|row| vec![row[0]]);
                prop_assert_eq!(found, kept.collect::<Vec<_>>(), "{}", condition);
            }
        }
    }
}
