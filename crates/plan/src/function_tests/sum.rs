//! Sums in statements: in groups, of distinct values, over frames.

use crate::testing::{self, Value};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// What a sum is, or that it has no BIGINT.
fn narrowed<'a>(values: impl Iterator<Item = &'a Value>) -> Result<Value, ()> {
    let values: Vec<i128> = values.flatten().map(|&value| i128::from(value)).collect();
    if values.is_empty() {
        return Ok(None);
    }
    let sum = values.iter().sum::<i128>();
    i64::try_from(sum).map(Some).map_err(|_| ())
}

fn some_rows() -> impl Strategy<Value = Vec<(i64, Value)>> {
    let value = prop_oneof![
        1 => Just(None),
        4 => (-9..9_i64).prop_map(Some),
        1 => any::<i64>().prop_map(Some),
        1 => prop::sample::select(vec![Some(i64::MIN), Some(i64::MAX), Some(i64::MAX - 5)]),
    ];
    prop::collection::vec((0..3_i64, value), 1..30)
}

proptest! {
    #![proptest_config(testing::questions())]
    #[test]
    fn sums_of_statements_are_exact_or_refused(of in some_rows()) {
        let numbered: Vec<[Value; 3]> =
            of.iter().enumerate().map(|(id, &(k, v))| [Some(id as i64), Some(k), v]).collect();
        let context = testing::context();
        context.register_batch("t", testing::table(["id", "k", "v"], &numbered)).expect("a new table");
        let check = |sql: &str, expected: Result<Vec<Vec<Value>>, ()>| {
            match (testing::runtime().block_on(testing::rows(&context, sql)), expected) {
                (Ok(found), expected) => assert_eq!(Ok(found), expected, "{sql} of {of:?}"),
                (Err(error), expected) => {
                    assert!(expected.is_err() && error.contains("bigint out of range"), "{error} of {of:?}");
                }
            }
        };
        let all: Vec<Value> = of.iter().map(|row| row.1).collect();
        check("SELECT sum(v) FROM t", narrowed(all.iter()).map(|sum| vec![vec![sum]]));
        let distinct: BTreeSet<Value> = all.iter().copied().collect();
        check("SELECT sum(DISTINCT v) FROM t", narrowed(distinct.iter()).map(|sum| vec![vec![sum]]));
        let groups: BTreeSet<i64> = of.iter().map(|row| row.0).collect();
        let of_group = |group: &i64| narrowed(of.iter().filter(|row| row.0 == *group).map(|row| &row.1));
        let by_group = groups.iter().map(|group| of_group(group).map(|sum| vec![Some(*group), sum]));
        check("SELECT k, sum(v) FROM t GROUP BY k ORDER BY k", by_group.collect());
        let frames = (0..all.len()).map(|at| narrowed(all[at.saturating_sub(2)..=at].iter()).map(|sum| vec![sum]));
        check(
            "SELECT s FROM (SELECT id, sum(v) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s FROM t) q ORDER BY id",
            frames.collect(),
        );
    }
}
