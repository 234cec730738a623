//! Subqueries beside what they are for each row by itself: the values of the row around are written into the subquery's text, it is run
//! alone, and what EXISTS, IN, ANY, ALL and a value mean is said here.

use crate::testing;
use crate::testing::{Value, questions, rows, runtime};
use arrow::array::{Array, BooleanArray, Int64Array, RecordBatch};
use datafusion::prelude::SessionContext;
use proptest::prelude::*;
use std::sync::Arc;

/// The rows around: every pair of a few values and NULL.
fn rows_of_a() -> Vec<(i64, Value, Value)> {
    let values = [None, Some(1), Some(2), Some(3)];
    let pairs = values.iter().flat_map(|&x| values.iter().map(move |&y| (x, y)));
    pairs.enumerate().map(|(id, (x, y))| (id as i64, x, y)).collect()
}

fn listed() -> Vec<(i64, Value, Value)> {
    vec![
        (1, Some(1), Some(1)),
        (2, None, Some(2)),
        (3, Some(3), None),
        (4, Some(1), Some(2)),
        (5, None, Some(1)),
        (6, Some(2), Some(1)),
    ]
}

fn table(rows: &[(i64, Value, Value)]) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable([
        ("id", Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))) as _, false),
        ("x", Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.1))) as _, true),
        ("y", Arc::new(Int64Array::from_iter(rows.iter().map(|row| row.2))) as _, true),
    ])
    .expect("columns are of one length")
}

fn context() -> SessionContext {
    let context = testing::context();
    context.register_batch("a", table(&rows_of_a())).expect("a new table");
    context.register_batch("n", table(&listed())).expect("a new table");
    context
}

/// What is asked of a subquery, whose text has `{x}` and `{y}` for the columns of the row around.
#[derive(Clone, Debug)]
enum SubqueryForm {
    Exists { negated: bool },
    Quantified { of: &'static str, op: &'static str, is_any: bool },
    In { of: &'static str, negated: bool },
    Rows { negated: bool },
    Value,
}

impl SubqueryForm {
    fn sql(&self, subquery: &str) -> String {
        let not = |negated: bool| if negated { "NOT " } else { "" };
        match self {
            SubqueryForm::Exists { negated } => format!("{}EXISTS ({subquery})", not(*negated)),
            SubqueryForm::In { of, negated } => format!("a.{of} {}IN ({subquery})", not(*negated)),
            SubqueryForm::Quantified { of, op, is_any } => {
                format!("a.{of} {op} {} ({subquery})", if *is_any { "ANY" } else { "ALL" })
            }
            // As `alluvia_syntax::trees::row_comparisons` writes it.
            SubqueryForm::Rows { negated } => {
                format!("struct(a.x, a.y) {}IN (SELECT struct(v, w) FROM ({subquery}) AS rows (v, w))", not(*negated))
            }
            SubqueryForm::Value => format!("({subquery})"),
        }
    }

    /// What it is for one row, by the subquery's rows.
    fn of_rows(&self, (x, y): (Value, Value), rows: &[Vec<Value>]) -> Value {
        let truth = |truth: Option<bool>| truth.map(i64::from);
        let of = |name: &str| if name == "x" { x } else { y };
        let compare = |left: Value, op: &str, right: Value| {
            let (left, right) = (left?, right?);
            Some(match op {
                "=" => left == right,
                "<>" => left != right,
                "<" => left < right,
                _ => left >= right,
            })
        };
        let any = |all: &mut dyn Iterator<Item = Option<bool>>| {
            let mut found = Some(false);
            for one in all {
                match one {
                    Some(true) => return Some(true),
                    Some(false) => {}
                    None => found = None,
                }
            }
            found
        };
        match self {
            SubqueryForm::Exists { negated } => truth(Some(rows.is_empty() == *negated)),
            SubqueryForm::In { of: name, negated } => {
                let found = any(&mut rows.iter().map(|row| compare(of(name), "=", row[0])));
                truth(found.map(|found| found != *negated))
            }
            SubqueryForm::Quantified { of: name, op, is_any: true } => {
                truth(any(&mut rows.iter().map(|row| compare(of(name), op, row[0]))))
            }
            SubqueryForm::Quantified { of: name, op, is_any: false } => {
                let not = any(&mut rows.iter().map(|row| compare(of(name), op, row[0]).map(|is| !is)));
                truth(not.map(|not| !not))
            }
            SubqueryForm::Rows { negated } => {
                let found = any(&mut rows.iter().map(|row| match (compare(x, "=", row[0]), compare(y, "=", row[1])) {
                    (Some(false), _) | (_, Some(false)) => Some(false),
                    (Some(true), Some(true)) => Some(true),
                    _ => None,
                }));
                truth(found.map(|found| found != *negated))
            }
            SubqueryForm::Value => rows.first().and_then(|row| row[0]),
        }
    }
}

/// Panics unless what is asked is so for each row, wherever it stands. Gives whether it was answered.
async fn same(context: &SessionContext, asked: &SubqueryForm, subquery: &str) -> bool {
    let text = |x: &str, y: &str| subquery.replace("{x}", x).replace("{y}", y);
    let mut expected = Vec::new();
    for (id, x, y) in rows_of_a() {
        let written = |value: Value| value.map_or("CAST(NULL AS BIGINT)".to_owned(), |value| value.to_string());
        let alone = text(&written(x), &written(y));
        let alone = rows(context, &alone).await.unwrap_or_else(|error| panic!("{error}"));
        if matches!(asked, SubqueryForm::Value) && alone.len() > 1 {
            return false;
        }
        expected.push((id, asked.of_rows((x, y), &alone)));
    }
    let expr = asked.sql(&text("a.x", "a.y"));
    let check = async |sql: String, expected: Vec<Vec<Value>>| {
        let answer = rows(context, &sql).await;
        assert_eq!(answer.as_ref(), Ok(&expected), "{sql}");
    };
    let listed = expected.iter().map(|&(id, value)| vec![Some(id), value]).collect();
    check(format!("SELECT id, {expr} AS said FROM a ORDER BY id"), listed).await;
    if matches!(asked, SubqueryForm::Value) {
        let sum = expected.iter().filter_map(|(_, value)| *value).reduce(|a, b| a + b);
        check(format!("SELECT sum({expr}) FROM a"), vec![vec![sum]]).await;
        let large = expected.iter().filter(|(_, value)| value.is_some_and(|value| value > 1));
        check(format!("SELECT id FROM a WHERE {expr} > 1 ORDER BY id"), large.map(|(id, _)| vec![Some(*id)]).collect())
            .await;
        return true;
    }
    let ids = |of: &dyn Fn(Value) -> bool| -> Vec<Vec<Value>> {
        expected.iter().filter(|(_, value)| of(*value)).map(|(id, _)| vec![Some(*id)]).collect()
    };
    check(format!("SELECT id FROM a WHERE {expr} ORDER BY id"), ids(&|value| value == Some(1))).await;
    check(format!("SELECT id FROM a WHERE NOT ({expr}) ORDER BY id"), ids(&|value| value == Some(0))).await;
    check(format!("SELECT id FROM a WHERE ({expr}) IS NULL OR id = 3 ORDER BY id"), {
        expected.iter().filter(|(id, value)| value.is_none() || *id == 3).map(|(id, _)| vec![Some(*id)]).collect()
    })
    .await;
    let cases = expected.iter().filter(|(_, value)| *value == Some(1)).count() as i64;
    check(
        format!("SELECT sum(CASE WHEN {expr} THEN 1 ELSE 0 END), count(*) FILTER (WHERE {expr}) FROM a"),
        vec![vec![Some(cases), Some(cases)]],
    )
    .await;
    let mut sorted = expected.clone();
    sorted.sort_by_key(|&(id, value)| (value.is_none(), value, id));
    check(format!("SELECT id FROM a ORDER BY {expr}, id"), sorted.iter().map(|(id, _)| vec![Some(*id)]).collect())
        .await;
    let joined = expected.iter().map(|&(id, value)| vec![Some(id), (value == Some(1)).then_some(7)]);
    check(
        format!("SELECT a.id, b.seven FROM a LEFT JOIN (SELECT 7 AS seven) b ON {expr} ORDER BY a.id"),
        joined.collect(),
    )
    .await;
    let joined = expected.iter().filter(|(_, value)| *value == Some(1)).map(|&(id, _)| vec![Some(id), Some(7)]);
    check(format!("SELECT a.id, b.seven FROM a JOIN (SELECT 7 AS seven) b ON {expr} ORDER BY a.id"), joined.collect())
        .await;
    true
}

/// A condition on rows of `n`, or of the alias `m` of a second one.
fn condition(table: &'static str) -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just(format!("{table}.y = {{y}}")),
        2 => Just(format!("{table}.x = {{x}}")),
        2 => Just(format!("{table}.x < {{x}}")),
        1 => Just(format!("{table}.y + {{x}} > 3")),
        1 => Just(format!("{table}.x IS NOT DISTINCT FROM {{y}}")),
        1 => Just("{y} IS NULL".to_owned()),
        1 => Just(format!("({table}.x = {{x}} OR {table}.y > {{y}})")),
        1 => Just(format!("{table}.id > 2")),
        1 => Just(format!("{table}.x NOT IN (SELECT k.y FROM n k WHERE k.x = {table}.y)")),
        1 => Just(format!("EXISTS (SELECT 1 FROM n k WHERE k.x = {table}.x AND k.y = {{y}})")),
        1 => Just(format!("(SELECT max(k.y) FROM n k WHERE k.x = {table}.x AND k.id > {{x}}) = 1")),
        1 => Just("true".to_owned()),
    ]
}

/// A subquery of two columns, or of one.
fn subquery(columns: usize) -> impl Strategy<Value = String> {
    let pick = move |one: &str, two: &str| if columns == 1 { one.to_owned() } else { format!("{one}, {two}") };
    let conditions = || {
        prop::collection::vec(condition("n"), 0..3).prop_map(|all| {
            let all = std::iter::once("true".to_owned()).chain(all);
            all.collect::<Vec<_>>().join(" AND ")
        })
    };
    (conditions(), conditions(), condition("m"), 0..14_u8).prop_map(move |(wher, other, on, shape)| {
        let (xy, x_only) = (pick("n.x", "n.y"), pick("n.x", "1"));
        match shape {
            0 | 1 => format!("SELECT {xy} FROM n WHERE {wher}"),
            2 => format!("SELECT {} FROM n WHERE {wher}", pick("max(n.x)", "count(*)")),
            3 => format!("SELECT {} FROM n WHERE {wher}", pick("count(n.x)", "min(n.y)")),
            4 => format!("SELECT {} FROM n WHERE {wher} HAVING count(*) <> 1", pick("sum(n.x)", "count(*)")),
            5 => format!("SELECT {} FROM n WHERE {wher} GROUP BY n.y", pick("max(n.x)", "n.y")),
            6 => format!("SELECT DISTINCT {xy} FROM n WHERE {wher}"),
            7 => format!("SELECT {xy} FROM n WHERE {wher} ORDER BY n.id LIMIT 1"),
            8 => format!("SELECT {xy} FROM n WHERE {wher} ORDER BY n.id DESC LIMIT 2 OFFSET 1"),
            9 => format!("SELECT {xy} FROM n WHERE {wher} UNION ALL SELECT {x_only} FROM n WHERE {other}"),
            10 => format!("SELECT {xy} FROM n LEFT JOIN n m ON m.id = n.id AND {on} WHERE {wher}"),
            11 => format!("SELECT {} FROM n WHERE {wher}", pick("row_number() OVER (ORDER BY n.id)", "n.y")),
            12 => format!("SELECT {xy} FROM n WHERE {wher} EXCEPT SELECT {x_only} FROM n WHERE {other}"),
            _ => format!("SELECT {} FROM n WHERE {wher}", pick("n.x + {x}", "{y}")),
        }
    })
}

fn asked() -> impl Strategy<Value = SubqueryForm> {
    let of = || prop_oneof![Just("x"), Just("y")];
    let op = prop_oneof![Just("="), Just("<>"), Just("<"), Just(">=")];
    prop_oneof![
        2 => any::<bool>().prop_map(|negated| SubqueryForm::Exists { negated }),
        2 => (of(), any::<bool>()).prop_map(|(of, negated)| SubqueryForm::In { of, negated }),
        2 => (of(), op, any::<bool>()).prop_map(|(of, op, is_any)| SubqueryForm::Quantified { of, op, is_any }),
        1 => any::<bool>().prop_map(|negated| SubqueryForm::Rows { negated }),
        2 => Just(SubqueryForm::Value),
    ]
}

fn question() -> impl Strategy<Value = (SubqueryForm, String)> {
    asked().prop_flat_map(|asked| {
        let columns = if matches!(asked, SubqueryForm::Rows { .. }) { 2 } else { 1 };
        subquery(columns).prop_map(move |subquery| (asked.clone(), subquery))
    })
}

proptest! {
    #![proptest_config(questions())]
    #[test]
    fn subqueries_are_what_they_are_for_each_row((asked, subquery) in question()) {
        let answered = runtime().block_on(same(&context(), &asked, &subquery));
        // A value of more than one row is none.
        prop_assume!(answered);
    }
}

/// Panics unless a subquery of two columns beside rows of `a` gives each of them the rows that it has for this one alone.
async fn same_beside(context: &SessionContext, subquery: &str) {
    let text = |x: &str, y: &str| subquery.replace("{x}", x).replace("{y}", y);
    let (mut joined, mut kept, mut large) = (Vec::new(), Vec::new(), Vec::new());
    for (id, x, y) in rows_of_a() {
        let written = |value: Value| value.map_or("CAST(NULL AS BIGINT)".to_owned(), |value| value.to_string());
        let alone = rows(context, &text(&written(x), &written(y))).await.unwrap_or_else(|error| panic!("{error}"));
        let found: Vec<Vec<Value>> = alone.iter().map(|row| vec![Some(id), row[0], row[1]]).collect();
        let or_none = |found: Vec<Vec<Value>>| if found.is_empty() { vec![vec![Some(id), None, None]] } else { found };
        joined.extend(found.iter().chain(&found).cloned());
        large.extend(or_none(found.iter().filter(|row| row[1] > Some(1)).cloned().collect()));
        kept.extend(or_none(found));
    }
    let beside = text("a.x", "a.y");
    let check = async |from: String, mut expected: Vec<Vec<Value>>| {
        let sql = format!("SELECT a.id, z.v, z.w FROM {from}");
        let mut answer = rows(context, &sql).await.unwrap_or_else(|error| panic!("{error}"));
        answer.sort();
        expected.sort();
        assert_eq!(answer, expected, "{sql}");
    };
    let twice = "(SELECT * FROM a UNION ALL SELECT * FROM a) AS a";
    check(format!("{twice}, LATERAL ({beside}) AS z (v, w)"), joined.clone()).await;
    check(format!("(SELECT 1 AS one) o, {twice} CROSS JOIN LATERAL ({beside}) AS z (v, w)"), joined).await;
    check(format!("a LEFT JOIN LATERAL ({beside}) AS z (v, w) ON true"), kept).await;
    check(format!("a LEFT JOIN LATERAL ({beside}) AS z (v, w) ON z.v > 1"), large).await;
}

proptest! {
    #![proptest_config(questions())]
    #[test]
    fn laterals_are_what_they_are_for_each_row(subquery in subquery(2)) {
        runtime().block_on(same_beside(&context(), &subquery));
    }
}

#[test]
fn laterals_that_read_no_rows_are_what_they_are_for_each_row() {
    runtime().block_on(async {
        let context = context();
        for subquery in [
            "SELECT {x} + 1, {y}",
            "SELECT {x}, 9 WHERE {y} > 1",
            "SELECT s.v + {x}, s.w FROM (SELECT {y} AS v, 3 AS w) s",
            "VALUES ({x}, 1), ({y}, 2), (7, {x} + {y})",
            "SELECT s.v, s.w FROM (VALUES ({x}, 1), ({y}, 2)) s (v, w) WHERE s.v > 1",
            "SELECT s.v, s.w FROM (VALUES ({x}, 1), ({y}, 2)) s (v, w) ORDER BY s.w DESC LIMIT 1",
            "SELECT unnest(make_array({x}, {y}, 5)), 1",
            "SELECT unnest(generate_series(1, {x})), {y}",
            "SELECT s.v, count(*) FROM (SELECT unnest(make_array({x}, {y}, 3)) AS v) s GROUP BY s.v",
            "SELECT (SELECT count(*) FROM n WHERE n.x = {x}) AS c, (SELECT max(n.y) FROM n WHERE n.x < {y}) AS m",
            "SELECT s.v, s.w FROM n, LATERAL (SELECT n.x + {x} AS v, n.y AS w) s WHERE n.id > 2",
            "SELECT s.v, s.w FROM n, LATERAL (SELECT m.x AS v, m.y AS w FROM n m WHERE m.x = n.y AND m.y = {y}) s",
            "SELECT s.v, {x} AS w FROM n, LATERAL (SELECT m.x AS v FROM n m WHERE m.x = n.y ORDER BY m.id LIMIT 1) s",
        ] {
            same_beside(&context, subquery).await;
        }
    });
}

#[test]
fn queries_under_a_name_that_hides_what_chooses_their_rows() {
    runtime().block_on(async {
        let context = context();
        for query in [
            "SELECT count(*) FROM (SELECT DISTINCT n.x FROM n WHERE n.y = {y}) z",
            "SELECT count(z.x) FROM (SELECT n.x FROM n WHERE n.y = {y}) z",
            "SELECT z.c FROM (SELECT count(*) AS c FROM n WHERE n.y = {y}) z",
            "SELECT max(z.m) FROM (SELECT n.x + 1 AS m FROM n WHERE n.y = {y}) z",
        ] {
            same(&context, &SubqueryForm::Value, query).await;
            same(&context, &SubqueryForm::Exists { negated: false }, query).await;
        }
        for negated in [false, true] {
            let query = "SELECT z.x FROM (SELECT DISTINCT n.x FROM n WHERE n.y = {y}) z";
            same(&context, &SubqueryForm::In { of: "x", negated }, query).await;
            same(&context, &SubqueryForm::Exists { negated }, query).await;
        }
    });
}

#[test]
fn a_value_of_more_than_one_row_fails() {
    runtime().block_on(async {
        let context = context();
        let error = rows(&context, "SELECT (SELECT n.x FROM n WHERE n.y = a.y) FROM a").await.unwrap_err();
        assert!(error.contains("more than one row"), "{error}");
        // Nobody asks for it of a row that it would fail for.
        let of_one = rows(&context, "SELECT (SELECT n.x FROM n WHERE n.id = a.id) FROM a ORDER BY a.id LIMIT 3").await;
        assert_eq!(of_one, Ok(vec![vec![None], vec![Some(1)], vec![None]]));
    });
}

#[test]
fn what_is_not_grouped_is_told() {
    runtime().block_on(async {
        let context = context();
        for sql in [
            "SELECT x, EXISTS (SELECT 1 FROM n WHERE n.x = a.y) FROM a GROUP BY x",
            "SELECT x, (SELECT max(n.x) FROM n WHERE n.x = a.y) FROM a GROUP BY x",
            "SELECT x FROM a GROUP BY x HAVING a.y IN (SELECT n.x FROM n WHERE n.y = a.y)",
        ] {
            let error = rows(&context, sql).await.unwrap_err();
            assert!(error.contains("neither grouped by") || error.contains("GROUP BY"), "{error}");
        }
    });
}

#[test]
fn rows_around_that_are_drawn_anew_are_refused() {
    runtime().block_on(async {
        let sql = "SELECT (SELECT count(*) FROM n WHERE n.x < q.r) FROM (SELECT random() AS r FROM a) q";
        let error = rows(&context(), sql).await.unwrap_err();
        assert!(error.contains("not the same each time"), "{error}");
    });
}

#[test]
fn columns_keep_their_names() {
    runtime().block_on(async {
        let context = context();
        let sql = "SELECT id, EXISTS (SELECT 1 FROM n WHERE n.y = a.y), x IN (SELECT x FROM n) AS said FROM a";
        let frame = context.sql(sql).await.expect("a plan");
        let before: Vec<String> = frame.schema().fields().iter().map(|field| field.name().clone()).collect();
        let batches = frame.collect().await.expect("an answer");
        let after: Vec<String> = batches[0].schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(before, after);
        assert!(batches[0].column(1).as_any().is::<BooleanArray>());
    });
}
