//! The short path gives what the general plan gives, or steps aside: generated statements against the general plan, while rows
//! lie in the tail, in sorted and in merged segments.
//!
//! `ALLUVIA_TEST_SECONDS=600 cargo test ... --test it index_answers` runs longer, `ALLUVIA_TEST_STATEMENTS=100000` at least so many
//! statements; a failure prints its statement.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::Random;
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::Session;
use alluvia_snapshot::Store;
use alluvia_types::Stage;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, Int64Type};
use std::time::{Duration, Instant};

pub(crate) const CREATE: &str = "CREATE TABLE sales (
    sold_at TIMESTAMP, day DATE, country TEXT, city TEXT, item TEXT NOT NULL, shelf INT, open BOOLEAN, weight DOUBLE,
    price DOUBLE, quantity INT, cents BIGINT NOT NULL, amount DECIMAL(12, 2), share REAL)
    WITH (dimensions = 'store(country, city); item; shelf; open; time(sold_at: year, month, day, hour); date(day: year, month, day); weight(weight: linear 0..100)',
          measures = 'price, quantity, cents, amount, share')";

pub(crate) fn rows(random: &mut Random, count: u64) -> String {
    let rows: Vec<String> = (0..count)
        .map(|_| {
            let country = match random.below(13) {
                0 => "NULL".to_owned(),
                other => format!("'{}'", ["Chile", "France", "Peru", "Kenya"][other as usize % 4]),
            };
            let city = match random.below(15) {
                0 => "NULL".to_owned(),
                other => format!("'{}'", ["Lima", "Paris", "Old Town", "Lakeside", "Lamu"][other as usize % 5]),
            };
            let (month, day, hour) = (1 + random.below(12), 1 + random.below(28), random.below(24));
            let year = 2024 + random.below(3);
            let time = format!("{year}-{month:02}-{day:02} {hour:02}:{:02}:00", random.below(60));
            let price = match random.below(20) {
                0 => "NULL".to_owned(),
                1 => format!("{}", random.below(1 << 50) as f64 / 7.0),
                _ => format!("{}.{:02}", random.below(500), random.below(100)),
            };
            let quantity = if random.below(9) == 0 { "NULL".to_owned() } else { (random.below(40) as i64 - 5).to_string() };
            let cents = random.below(1 << 40) as i64 - (1 << 39);
            let amount = match random.below(9) {
                0 => "NULL".to_owned(),
                sign => format!("{}{}.{:02}", if sign < 5 { "-" } else { "" }, random.below(90_000), random.below(100)),
            };
            let (shelf, weight) = (random.below(30), random.below(10_000) as f64 / 100.0);
            let open = random.pick(&["true", "false", "NULL"]);
            let item = if random.below(40) == 0 { 50 + random.below(2_000) } else { random.below(50) };
            format!(
                "('{time}', '{}', {country}, {city}, 'item {item}', {shelf}, {open}, {weight}, {price}, {quantity}, {cents}, {amount}, {}.5)",
                &time[..10],
                random.below(100)
            )
        })
        .collect();
    format!("INSERT INTO sales VALUES {}", rows.join(", "))
}

/// Conditions, mostly one.
pub(crate) fn condition(random: &mut Random) -> String {
    match random.below(12) {
        0 => format!("({} AND {} OR {})", condition(random), simple(random), condition(random)),
        1 => format!("({} OR {})", condition(random), condition(random)),
        2 => format!("NOT ({} AND {})", simple(random), simple(random)),
        3 => format!("NOT ({} OR {})", simple(random), condition(random)),
        _ => simple(random),
    }
}

fn simple(random: &mut Random) -> String {
    let country = ["'Chile'", "'France'", "'Peru'", "'Kenya'", "'Nowhere'"];
    let city = ["'Lima'", "'Paris'", "'Old Town'", "'Lakeside'", "'Lamu'"];
    let times =
        ["'2025-01-01'", "'2024-07-01 00:00:00'", "'2025-03-05 12:00:00'", "'2025-03-05 12:34:56.789'", "'2026-02-01'"];
    let days = ["'2025-01-01'", "'2024-02-29'", "'2026-11-30'"];
    let op = random.pick(&["=", "<>", "<", "<=", ">", ">="]);
    match random.below(25) {
        0 => format!("country {op} {}", random.pick(&country)),
        1 => format!("country IN ({}, {})", random.pick(&country), random.pick(&country)),
        2 => format!("city NOT IN ({}, {})", random.pick(&city), random.pick(&city)),
        3 => format!("city {op} {}", random.pick(&city)),
        4 => format!("{} {op} city", random.pick(&city)),
        5 => format!("country LIKE '{}%'", random.pick(&["C", "Fr", "", "x", "P_"])),
        6 => format!(
            "{} IS {}NULL",
            random.pick(&["country", "city", "sold_at", "shelf", "day"]),
            random.pick(&["", "NOT "])
        ),
        7 => format!("sold_at {op} {}", random.pick(&times)),
        8 => format!("sold_at BETWEEN {} AND {}", random.pick(&times), random.pick(&times)),
        9 => format!("day {op} {}", random.pick(&days)),
        10 => format!("day BETWEEN {} AND DATE {}", random.pick(&days), random.pick(&days)),
        11 if random.below(2) == 0 => {
            let (low, high) = (50 + random.below(2_000), random.below(100));
            format!("item {} 'item {low}' AND item <> 'item {high}'", random.pick(&[">", "<", "<>"]))
        }
        11 => format!("shelf {op} {}", random.below(32)),
        12 => format!("shelf BETWEEN {} AND {}", random.below(32), random.below(32)),
        13 => format!("(item = 'item {}' OR item = 'item {}')", random.below(50), random.below(50)),
        14 => format!("open = {}", random.pick(&["true", "false"])),
        15 => format!("weight < {}", random.below(100)),
        16 => format!("shelf NOT BETWEEN {} AND {}", random.below(32), random.below(32)),
        17 => {
            format!("city {}LIKE '{}'", random.pick(&["", "NOT "]), random.pick(&["%a%", "Lim_", "Paris", "L%", "%"]))
        }
        18 => format!("{}open", random.pick(&["", "NOT "])),
        19 => format!("sold_at NOT BETWEEN {} AND {}", random.pick(&times), random.pick(&times)),
        20 => format!("(country = {} OR shelf {op} {})", random.pick(&country), random.below(32)),
        21 => format!("(item LIKE 'item 1%' AND shelf < {} OR day >= {})", random.below(32), random.pick(&days)),
        22 => format!("(country = {} OR city = {})", random.pick(&country), random.pick(&city)),
        23 => {
            // Boxes that differ at one level, and one that differs at two.
            let (country, item) = (random.pick(&country), random.below(50));
            let of = |item: u64| format!("country = {country} AND item = 'item {item}'");
            format!("({} OR {} OR city = {} AND shelf < 9)", of(item), of(item + 1), random.pick(&city))
        }
        _ => format!("s.item LIKE 'item {}%'", random.below(9)),
    }
}

fn statement(random: &mut Random) -> String {
    let groups = [
        "country",
        "city",
        "item",
        "shelf",
        "open",
        "date_trunc('month', sold_at)",
        "date_trunc('day', sold_at)",
        "day",
    ];
    let columns = ["price", "quantity", "cents", "amount", "share"];
    let functions = ["sum", "avg", "min", "max", "count", "var_pop", "stddev"];
    let mut items = Vec::new();
    let mut grouped: Vec<&str> = Vec::new();
    for _ in 0..random.below(3) {
        let group = random.pick(&groups);
        if !grouped.contains(&group) {
            grouped.push(group);
            items.push(if random.below(3) == 0 { format!("{group} AS g{}", items.len()) } else { group.to_owned() });
        }
    }
    let keys = items.len();
    for _ in 0..1 + random.below(3) {
        let text = match random.below(4) {
            0 => "count(*)".to_owned(),
            _ => format!("{}({})", random.pick(&functions), random.pick(&columns)),
        };
        items.push(format!("{text} AS a{}", items.len()));
    }
    let mut sql = format!("SELECT {} FROM sales s", items.join(", "));
    let conditions: Vec<String> = (0..random.below(4)).map(|_| condition(random)).collect();
    if !conditions.is_empty() {
        sql += &format!(" WHERE {}", conditions.join(" AND "));
    }
    if !grouped.is_empty() {
        sql += &format!(" GROUP BY {}", grouped.join(", "));
        if random.below(3) == 0 {
            // All keys, so that the order is one.
            let order: Vec<String> =
                (1..=keys).map(|place| format!("{place} {}", random.pick(&["", "DESC", "ASC NULLS FIRST"]))).collect();
            sql += &format!(" ORDER BY {}", order.join(", "));
            if random.below(2) == 0 {
                sql += &format!(" LIMIT {} OFFSET {}", random.below(6), random.below(3));
            }
        }
    }
    sql
}

/// One value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Cell {
    Text(String),
    Float(f64),
}

/// Rows, sorted by what is no float unless the statement orders them: groups are told apart by that.
pub(crate) fn shown(batches: &[RecordBatch], is_ordered: bool) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cell = |column: &ArrayRef| {
                if column.data_type().is_floating() && column.is_valid(row) {
                    let wide = cast(column, &DataType::Float64).expect("widens");
                    return Cell::Float(wide.as_primitive::<Float64Type>().value(row));
                }
                let text = arrow::util::display::array_value_to_string(column, row).expect("shows");
                Cell::Text(if column.is_null(row) { "NULL".to_owned() } else { text })
            };
            rows.push(batch.columns().iter().map(cell).collect::<Vec<_>>());
        }
    }
    if !is_ordered {
        let text = |row: &Vec<Cell>| -> Vec<String> {
            let texts = row.iter().filter_map(|cell| match cell {
                Cell::Text(text) => Some(text.clone()),
                Cell::Float(_) => None,
            });
            texts.collect()
        };
        rows.sort_by_key(text);
    }
    rows
}

/// Whether two answers say the same; floats may differ in the last digits.
pub(crate) fn agree(a: &[Vec<Cell>], b: &[Vec<Cell>]) -> bool {
    let near = |(a, b): (&Cell, &Cell)| match (a, b) {
        (Cell::Float(a), Cell::Float(b)) => a == b || (a - b).abs() <= 1e-6 * a.abs().max(b.abs()),
        (a, b) => a == b,
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(near))
}

async fn both(fast: &Session, general: &Session, sql: &str) -> bool {
    let expected = general.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let expected_schema = expected.rows.as_ref().map(|rows| rows.schema());
    let expected = expected.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let found = fast.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let schema = found.rows.as_ref().map(|rows| rows.schema());
    let found = found.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let names = |schema: Option<arrow::datatypes::SchemaRef>| -> Vec<(String, DataType)> {
        let schema = schema.expect("a query has columns");
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
    };
    assert_eq!(names(schema), names(expected_schema), "{sql}");
    let is_ordered = sql.contains("ORDER BY");
    let (found, expected) = (shown(&found, is_ordered), shown(&expected, is_ordered));
    assert!(agree(&found, &expected), "{sql}\n{found:?}\n{expected:?}");
    let plan = fast.sql(&format!("EXPLAIN {sql}")).await.expect("explains").collect().await.expect("explains");
    arrow::util::pretty::pretty_format_batches(&plan).expect("shows").to_string().contains("IndexAnswer")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_short_path_is_the_general_plan() {
    let seconds = std::env::var("ALLUVIA_TEST_SECONDS").ok().and_then(|seconds| seconds.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(20));
    let least = std::env::var("ALLUVIA_TEST_STATEMENTS").ok().and_then(|count| count.parse().ok()).unwrap_or(300);
    let seed = std::env::var("ALLUVIA_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x5eed_u64);
    println!("ALLUVIA_TEST_SEED={seed}");
    let mut random = Random(seed | 1);
    let dir = tempfile::tempdir().expect("a directory");
    let db = Database::open_with(dir.path().join("db"), DatabaseOptions::default()).expect("opens");
    let (fast, tree, general) = (db.session(), db.session(), db.session());
    tree.sql("SET cuboids = off").await.expect("sets");
    general.sql("SET short_path = off").await.expect("sets");
    for session in [&fast, &tree, &general] {
        session.sql("SET index_rule = off").await.expect("sets");
    }
    general.sql(CREATE).await.expect("creates");
    general.sql(&rows(&mut random, 3_000)).await.expect("inserts");
    db.core().organise(Stage::Merged).expect("organises");
    let start = Instant::now();
    let (mut asked, mut answered) = (0, 0);
    while start.elapsed() < time || asked < least {
        if random.below(12) == 0 {
            let count = 1 + random.below(60);
            general.sql(&rows(&mut random, count)).await.expect("inserts");
        }
        if random.below(150) == 0 {
            db.core().organise(Stage::Sorted).expect("organises");
        }
        let sql = statement(&mut random);
        let session = if random.below(2) == 0 { &tree } else { &fast };
        answered += u64::from(both(session, &general, &sql).await);
        asked += 1;
    }
    let hits = general.sql("SELECT coalesce(sum(hits), 0) FROM alluvia.cuboids").await.expect("asks");
    let hits = hits.collect().await.expect("asks")[0].column(0).as_primitive::<Int64Type>().value(0);
    println!("{asked} statements, {answered} by the index, {hits} by resident cuboids");
    assert!(hits > 0, "no cuboid was ever used");
    assert!(answered * 3 > asked, "the index answered {answered} of {asked} statements only");
}
