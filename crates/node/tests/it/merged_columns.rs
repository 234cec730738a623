//! Joins that merge columns, against nested loops: chains of USING and NATURAL joins of every kind over small tables with NULLs and
//! keys that come twice.
//!
//! `ALLUVIA_TEST_SEED` begins elsewhere, `ALLUVIA_TEST_STATEMENTS` tries so many.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::{Random, variable};
use alluvia_node::Database;
use alluvia_query::Session;
use arrow::array::{Array, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};

type Value = Option<i64>;

/// Rows under the names that `*` has, and what each table's own columns are.
#[derive(Clone)]
struct Rows {
    names: Vec<String>,
    rows: Vec<Vec<Value>>,
    /// The tables' columns beside, which are said with the table's name.
    own: Vec<String>,
    own_rows: Vec<Vec<Value>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Inner,
    Left,
    Right,
    Full,
}

impl Kind {
    fn keeps_left(self) -> bool {
        matches!(self, Kind::Left | Kind::Full)
    }

    fn keeps_right(self) -> bool {
        matches!(self, Kind::Right | Kind::Full)
    }

    fn sql(self) -> &'static str {
        match self {
            Kind::Inner => "JOIN",
            Kind::Left => "LEFT JOIN",
            Kind::Right => "RIGHT JOIN",
            Kind::Full => "FULL JOIN",
        }
    }
}

/// The join of two sides whose columns of these names become one.
fn joined(left: &Rows, right: &Rows, kind: Kind, names: &[String]) -> Rows {
    let place = |rows: &Rows, name: &String| rows.names.iter().position(|other| other == name).expect("a column");
    let pairs: Vec<(usize, usize)> = names.iter().map(|name| (place(left, name), place(right, name))).collect();
    let rest = |rows: &Rows| (0..rows.names.len()).filter(|at| !names.contains(&rows.names[*at])).collect::<Vec<_>>();
    let (left_rest, right_rest) = (rest(left), rest(right));
    let named = |rows: &Rows, places: &[usize]| places.iter().map(|at| rows.names[*at].clone()).collect::<Vec<_>>();
    let mut all = Rows {
        names: [names.to_vec(), named(left, &left_rest), named(right, &right_rest)].concat(),
        rows: Vec::new(),
        own: [left.own.clone(), right.own.clone()].concat(),
        own_rows: Vec::new(),
    };
    let mut add = |of_left: Option<usize>, of_right: Option<usize>| {
        let value = |rows: &Rows, row: Option<usize>, at: usize| row.and_then(|row| rows.rows[row][at]);
        let merged = pairs.iter().map(|(l, r)| match kind {
            Kind::Inner | Kind::Left => value(left, of_left, *l),
            Kind::Right => value(right, of_right, *r),
            Kind::Full => value(left, of_left, *l).or(value(right, of_right, *r)),
        });
        let rest = left_rest.iter().map(|at| value(left, of_left, *at));
        let rest = rest.chain(right_rest.iter().map(|at| value(right, of_right, *at)));
        all.rows.push(merged.chain(rest).collect());
        let own = |rows: &Rows, row: Option<usize>| match row {
            Some(row) => rows.own_rows[row].clone(),
            None => vec![None; rows.own.len()],
        };
        all.own_rows.push([own(left, of_left), own(right, of_right)].concat());
    };
    let mut met = vec![false; right.rows.len()];
    for l in 0..left.rows.len() {
        let mut is_met = false;
        for r in 0..right.rows.len() {
            let equal = |(a, b): &(usize, usize)| left.rows[l][*a].is_some() && left.rows[l][*a] == right.rows[r][*b];
            if pairs.iter().all(equal) {
                add(Some(l), Some(r));
                is_met = true;
                met[r] = true;
            }
        }
        if !is_met && kind.keeps_left() {
            add(Some(l), None);
        }
    }
    for r in (0..right.rows.len()).filter(|r| !met[*r]) {
        if kind.keeps_right() {
            add(None, Some(r));
        }
    }
    all
}

async fn answer(session: &Session, sql: &str) -> Vec<Vec<Value>> {
    let outcome = session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    let batches = outcome.collect().await.unwrap_or_else(|error| panic!("{sql}\n{error}"));
    let mut rows = Vec::new();
    for batch in &batches {
        let columns: Vec<_> =
            batch.columns().iter().map(|column| cast(column, &DataType::Int64).expect("numbers")).collect();
        rows.extend((0..batch.num_rows()).map(|row| {
            let value = |column: &arrow::array::ArrayRef| {
                (!column.is_null(row)).then(|| column.as_primitive::<Int64Type>().value(row))
            };
            columns.iter().map(value).collect::<Vec<_>>()
        }));
    }
    rows.sort();
    rows
}

#[test]
fn merged_columns_are_those_of_nested_loops() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut random = Random(variable("ALLUVIA_TEST_SEED").unwrap_or(7) | 1);
    let statements = variable("ALLUVIA_TEST_STATEMENTS").unwrap_or(60);
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    let session = db.session();
    let mut tables: Vec<Rows> = Vec::new();
    runtime.block_on(async {
        for (table, names) in [("a", ["k", "j", "x"]), ("b", ["j", "k", "y"]), ("c", ["z", "k", "j"])] {
            session
                .sql(&format!("CREATE TABLE {table} ({} INT, {} INT, {} INT)", names[0], names[1], names[2]))
                .await
                .unwrap();
            let rows: Vec<Vec<Value>> = (0..7)
                .map(|_| (0..3).map(|_| Some(random.below(5) as i64).filter(|value| *value > 0)).collect())
                .collect();
            let text = |row: &Vec<Value>| {
                let values = row.iter().map(|value| value.map_or("NULL".to_owned(), |value| value.to_string()));
                format!("({})", values.collect::<Vec<_>>().join(", "))
            };
            let values = rows.iter().map(text).collect::<Vec<_>>().join(", ");
            session.sql(&format!("INSERT INTO {table} VALUES {values}")).await.unwrap();
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let own = names.iter().map(|name| format!("{table}.{name}")).collect();
            tables.push(Rows { names, own_rows: rows.clone(), rows, own });
        }
    });
    for _ in 0..statements {
        let mut order: Vec<usize> = vec![0, 1, 2];
        order.rotate_left(random.below(3) as usize);
        let mut rows = tables[order[0]].clone();
        let mut from = ["a", "b", "c"][order[0]].to_owned();
        for next in order[1..].iter().take(1 + random.below(2) as usize) {
            let kind = [Kind::Inner, Kind::Left, Kind::Right, Kind::Full][random.below(4) as usize];
            let right = &tables[*next];
            let table = ["a", "b", "c"][*next];
            let common: Vec<String> = rows.names.iter().filter(|name| right.names.contains(name)).cloned().collect();
            let names = match random.below(3) {
                // The other column of both would be there twice.
                0 | 1 => common.clone(),
                _ => common.iter().rev().cloned().collect(),
            };
            from = if random.below(3) == 0 && names == common {
                format!("{from} NATURAL {} {table}", kind.sql())
            } else {
                format!("{from} {} {table} USING ({})", kind.sql(), names.join(", "))
            };
            rows = joined(&rows, right, kind, &names);
        }
        let merged = ["k", "j"].map(|name| rows.names.iter().position(|other| other == name).expect("merged"));
        let wanted = |rows: Vec<Vec<Value>>| {
            let mut rows = rows;
            rows.sort();
            rows
        };
        runtime.block_on(async {
            let sql = format!("SELECT * FROM {from}");
            assert_eq!(answer(&session, &sql).await, wanted(rows.rows.clone()), "{sql}");
            let sql = format!("SELECT k, j FROM {from}");
            let both = rows.rows.iter().map(|row| merged.iter().map(|at| row[*at]).collect()).collect();
            assert_eq!(answer(&session, &sql).await, wanted(both), "{sql}");
            let sql = format!("SELECT {} FROM {from}", rows.own.join(", "));
            assert_eq!(answer(&session, &sql).await, wanted(rows.own_rows.clone()), "{sql}");
            let sql = format!("SELECT k FROM {from} WHERE k > 1 AND j IS NOT NULL");
            let passes = |row: &&Vec<Value>| row[merged[0]] > Some(1) && row[merged[1]].is_some();
            let passed = rows.rows.iter().filter(passes).map(|row| vec![row[merged[0]]]).collect();
            assert_eq!(answer(&session, &sql).await, wanted(passed), "{sql}");
            let sql = format!("SELECT v FROM (VALUES (1), (2), (3)) n(v) WHERE v IN (SELECT k FROM {from})");
            let there = (1..4).filter(|value| rows.rows.iter().any(|row| row[merged[0]] == Some(*value)));
            assert_eq!(answer(&session, &sql).await, there.map(|value| vec![Some(value)]).collect::<Vec<_>>(), "{sql}");
        });
    }
}
