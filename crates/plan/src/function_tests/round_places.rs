//! `round(x, n)` of decimals in statements, beside other numbers.

use crate::testing::{Value, context, nearest, questions, rows, runtime, table};
use proptest::prelude::*;
use std::collections::BTreeMap;

proptest! {
    #![proptest_config(questions())]
    #[test]
    fn decimals_are_rounded_at_each_place_whatever_they_stand_beside(
        of in prop::collection::vec(prop::option::of(-1_000_000..1_000_000_i64), 1..20),
        places in -5..5_i64,
    ) {
        let of: Vec<[Value; 2]> = of.into_iter().zip(1..).map(|(n, id)| [Some(id), n]).collect();
        let context = context();
        context.register_batch("t", table(["id", "n"], &of)).expect("a new table");
        let unit = 10_i64.pow(u32::try_from(3 - places.min(3)).expect("no less than 0"));
        // In thousandths, as the numbers.
        let rounded = |n: i64| nearest(n, unit, false) * unit;
        let rounds = [
            format!("round(p, {places})"),
            format!("round(p, {places}::int)"),
            format!("round(p, {} + 7)", places - 7),
            format!("round(p, id * 0 + {places})"),
            format!("round(CASE WHEN n > 0 THEN p ELSE p END, {places})"),
            format!("round(CASE WHEN n IS NULL THEN 0 ELSE p END, {places})"),
        ];
        for round in rounds {
            let sql = format!(
                "SELECT id, CAST({round} * 1000 AS BIGINT) AS a, CAST((CASE WHEN id % 2 = 0 THEN {round} ELSE id END) * 1000 AS BIGINT) AS b, \
                 {round} > id AS c, CAST(greatest({round}, id) * 1000 AS BIGINT) AS d \
                 FROM (SELECT id, n, CAST(n AS DECIMAL(12, 0)) * CAST('0.001' AS DECIMAL(4, 3)) AS p FROM t) q WHERE n IS NOT NULL ORDER BY id"
            );
            let found = runtime().block_on(rows(&context, &sql)).unwrap_or_else(|error| panic!("{error}"));
            let expected = of.iter().filter_map(|&[id, n]| {
                let (id, rounded) = (id?, rounded(n?));
                let chosen = if id % 2 == 0 { rounded } else { id * 1000 };
                let is_more = i64::from(rounded > id * 1000);
                Some([id, rounded, chosen, is_more, rounded.max(id * 1000)].map(Some).to_vec())
            });
            prop_assert_eq!(found, expected.collect::<Vec<_>>(), "{}", sql);
        }
        let sql = format!(
            "SELECT CAST(r * 1000 AS BIGINT) AS a, n FROM (SELECT r, count(*) AS n FROM (SELECT round(p, {places}) AS r FROM \
             (SELECT CAST(n AS DECIMAL(12, 0)) * CAST('0.001' AS DECIMAL(4, 3)) AS p FROM t) q) w GROUP BY r) g ORDER BY a"
        );
        let found = runtime().block_on(rows(&context, &sql)).unwrap_or_else(|error| panic!("{error}"));
        let mut groups = BTreeMap::new();
        for &[_, n] in &of {
            // NULL comes last.
            *groups.entry(n.map_or((true, None), |n| (false, Some(rounded(n))))).or_insert(0) += 1;
        }
        let expected: Vec<Vec<Value>> = groups.into_iter().map(|((_, r), count)| vec![r, Some(count)]).collect();
        prop_assert_eq!(found, expected, "{}", sql);
    }
}
