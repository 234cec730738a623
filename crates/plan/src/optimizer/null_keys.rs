//! Joins in which NULL equals NULL, among others.
//!
//! Invariant: a condition of a join means the same wherever the join is moved.
//!
//! DataFusion 55.2 makes `a IS NOT DISTINCT FROM b` a join of the keys `a` and `b` that takes NULL for equal, and then puts the keys of
//! neighbouring joins and of WHERE together under what the uppermost of them takes for equal; and an `=` that becomes a condition of such a
//! join later (of an outer one that turned out to be an inner one) it makes one of its keys. So before it moves joins, and before it makes
//! keys of conditions, such keys become conditions again, and at the end keys.
//!
//! Mends DataFusion (in 55.2): no issue upstream known (searched 2026-11-27: join, IS NOT DISTINCT FROM, NullEquality,
//! eliminate_cross_join, extract_equijoin_predicate).

use super::below_subqueries::conditions_below;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan, Operator, binary_expr};
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// DataFusion's rule, which sees no inner join in which NULL equals NULL, and all conditions of those that there are.
#[derive(Debug, Default)]
pub struct JoinsKeepingNulls(EliminateCrossJoin);

impl OptimizerRule for JoinsKeepingNulls {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let conditions = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Join(join) if has_null_keys(&join) => Ok(Transformed::yes(without_keys(join))),
            other => Ok(Transformed::no(other)),
        })?;
        let lowered = conditions_below(conditions.data)?;
        let is_changed = conditions.transformed || lowered.transformed;
        let rewritten = self.0.rewrite(lowered.data, config)?;
        Ok(Transformed::new_transformed(rewritten.data, rewritten.transformed || is_changed))
    }
}

/// DataFusion's rule, which makes keys of one kind alone: of `=`, or where there is none of `IS NOT DISTINCT FROM`.
#[derive(Debug, Default)]
pub struct KeysOfOneKind(ExtractEquijoinPredicate);

impl OptimizerRule for KeysOfOneKind {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Join(join) if takes_null_for_equal(&join) && join.filter.is_some() => {
                let rewritten = self.0.rewrite(without_keys(join), config)?;
                Ok(Transformed::yes(rewritten.data))
            }
            other => self.0.rewrite(other, config),
        }
    }
}

fn has_null_keys(join: &Join) -> bool {
    join.join_type == JoinType::Inner && takes_null_for_equal(join)
}

fn takes_null_for_equal(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty()
}

fn without_keys(mut join: Join) -> LogicalPlan {
    let keys = std::mem::take(&mut join.on);
    let same = keys.into_iter().map(|(left, right)| binary_expr(left, Operator::IsNotDistinctFrom, right));
    let conditions: Vec<Expr> = same.chain(join.filter.take()).collect();
    join.filter = conjunction(conditions);
    join.null_equality = NullEquality::NullEqualsNothing;
    LogicalPlan::Join(join)
}

#[cfg(test)]
mod tests {
    use crate::testing::{Value, context, questions, rows, runtime, table};
    use proptest::prelude::*;

    /// Rows of three tables side by side; NULLs stand for a row that an outer join lacks.
    type Joined = [[Value; 3]; 3];

    const TABLES: [&str; 3] = ["a", "b", "c"];
    const COLUMNS: [&str; 3] = ["id", "x", "y"];

    /// `=` or `IS NOT DISTINCT FROM` of two columns, each of a table by its number.
    #[derive(Clone, Debug)]
    struct Condition {
        left: (usize, usize),
        right: (usize, usize),
        takes_null_for_equal: bool,
    }

    impl Condition {
        fn sql(&self) -> String {
            let column = |(table, column): (usize, usize)| format!("{}.{}", TABLES[table], COLUMNS[column]);
            let operator = if self.takes_null_for_equal { "IS NOT DISTINCT FROM" } else { "=" };
            // The parser alone would take what follows for a part of the right side.
            format!("({} {operator} {})", column(self.left), column(self.right))
        }

        fn holds(&self, row: &Joined) -> bool {
            let [left, right] = [self.left, self.right].map(|(table, column)| row[table][column]);
            left == right && (self.takes_null_for_equal || left.is_some())
        }
    }

    fn all_hold(conditions: &[Condition], row: &Joined) -> bool {
        conditions.iter().all(|condition| condition.holds(row))
    }

    fn written(conditions: &[Condition]) -> String {
        let all = std::iter::once("true".to_owned()).chain(conditions.iter().map(Condition::sql));
        all.collect::<Vec<_>>().join(" AND ")
    }

    /// Rows with those of one more table, pair by pair.
    fn joined(rows: &[Joined], at: usize, with: &[[Value; 3]], on: &[Condition], is_outer: bool) -> Vec<Joined> {
        let mut found = Vec::new();
        for row in rows {
            let before = found.len();
            for other in with {
                let mut pair = *row;
                pair[at] = *other;
                if all_hold(on, &pair) {
                    found.push(pair);
                }
            }
            if is_outer && found.len() == before {
                found.push(*row);
            }
        }
        found
    }

    /// Conditions between two tables of which the second is this one.
    fn conditions(second: usize, count: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Condition>> {
        let column = || 1..COLUMNS.len();
        let condition = (0..second, column(), column(), any::<bool>()).prop_map(
            move |(first, left, right, takes_null_for_equal)| Condition {
                left: (first, left),
                right: (second, right),
                takes_null_for_equal,
            },
        );
        prop::collection::vec(condition, count)
    }

    /// Few values, so that many are equal, NULLs among them.
    fn some_rows() -> impl Strategy<Value = Vec<[Value; 3]>> {
        let value = || prop_oneof![Just(None), Just(Some(1)), Just(Some(2))];
        let numbered = |rows: Vec<(Value, Value)>| -> Vec<[Value; 3]> {
            rows.into_iter().enumerate().map(|(id, (x, y))| [Some(id as i64), x, y]).collect()
        };
        prop::collection::vec((value(), value()), 1..6).prop_map(numbered)
    }

    proptest! {
        #![proptest_config(questions())]
        #[test]
        fn joins_are_what_pairs_give(
            tables in [some_rows(), some_rows(), some_rows()],
            to_second in conditions(1, 1..3),
            to_third in conditions(2, 1..3),
            mut wher in conditions(2, 0..2),
            shape in 0..5_u8,
        ) {
            let context = context();
            for (name, rows) in TABLES.into_iter().zip(&tables) {
                context.register_batch(name, table(COLUMNS, rows)).expect("a new table");
            }
            let (second, third) = (written(&to_second), written(&to_third));
            // Whether the second and the third are joined by LEFT JOIN, and whose conditions stand in WHERE.
            let (from, outer, in_where) = match shape {
                0 => ("a, b, c".to_owned(), [false; 2], [true; 2]),
                1 => (format!("a JOIN b ON {second} JOIN c ON {third}"), [false; 2], [false; 2]),
                2 => (format!("a LEFT JOIN b ON {second} JOIN c ON {third}"), [true, false], [false; 2]),
                3 => (format!("a JOIN b ON {second} LEFT JOIN c ON {third}"), [false, true], [false; 2]),
                _ => (format!("a LEFT JOIN b ON {second}, c"), [true, false], [false, true]),
            };
            let start: Vec<Joined> = tables[0].iter().map(|row| [*row, [None; 3], [None; 3]]).collect();
            let on = |conditions: &[Condition], is_in_where: bool| {
                if is_in_where { Vec::new() } else { conditions.to_vec() }
            };
            let pairs = joined(&start, 1, &tables[1], &on(&to_second, in_where[0]), outer[0]);
            let all = joined(&pairs, 2, &tables[2], &on(&to_third, in_where[1]), outer[1]);
            if in_where[0] {
                wher.extend(to_second);
            }
            if in_where[1] {
                wher.extend(to_third);
            }
            let ids = all.iter().filter(|row| all_hold(&wher, row)).map(|row| row.map(|part| part[0]).to_vec());
            let mut expected: Vec<Vec<Value>> = ids.collect();
            expected.sort_unstable();
            let sql = format!("SELECT a.id, b.id, c.id FROM {from} WHERE {}", written(&wher));
            let mut found = runtime().block_on(rows(&context, &sql)).unwrap_or_else(|error| panic!("{error}"));
            found.sort_unstable();
            prop_assert_eq!(found, expected, "{}", sql);
        }
    }
}
