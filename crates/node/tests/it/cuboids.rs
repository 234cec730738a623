//! Cuboids over the life of a database: they stay as new as the log whatever stage rows are in, and their shapes come back.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::support::real::block_on;
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::{ScalarValue, Session};
use alluvia_snapshot::Admin;
use alluvia_types::{ErrorKind, Stage};
use arrow::util::display::array_value_to_string;
use std::path::Path;

const CREATE: &str = "CREATE TABLE sales (sold_at TIMESTAMP, country TEXT, city TEXT, item TEXT, price DOUBLE, quantity INT) WITH \
    (dimensions = 'store(country, city); item; time(sold_at: year, month, day)', measures = 'price, quantity')";

/// All rows, each as its values joined by '|'.
async fn rows(session: &Session, sql: &str) -> Vec<String> {
    let run = async { session.sql(sql).await?.collect().await };
    shown(&run.await.unwrap_or_else(|error| panic!("{sql}\n{error}")))
}

fn shown(batches: &[arrow::array::RecordBatch]) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cell = |column: &arrow::array::ArrayRef| array_value_to_string(column, row).expect("shows");
            rows.push(batch.columns().iter().map(cell).collect::<Vec<_>>().join("|"));
        }
    }
    rows
}

async fn run(session: &Session, sql: &str) {
    rows(session, sql).await;
}

/// Rows `first..first + count`, which no two of these numbers share.
fn insert(first: usize, count: usize) -> String {
    let row = |n: usize| {
        let (day, hour) = (1 + n % 28, n % 24);
        format!(
            "('2026-11-{day:02} {hour:02}:00:00', 'country {}', 'city {}', 'item {}', {}.25, {})",
            n % 4,
            n % 12,
            n % 7,
            n,
            n % 100
        )
    };
    let values: Vec<String> = (first..first + count).map(row).collect();
    format!("INSERT INTO sales VALUES {}", values.join(", "))
}

fn open(dir: &Path) -> Database {
    Database::open_with(dir, DatabaseOptions { memory_limit_bytes: 1 << 30, ..DatabaseOptions::default() }).unwrap()
}

const QUESTION: &str = "SELECT city, count(*), sum(price), max(quantity) FROM sales \
    WHERE item IN ('item 1', 'item 4') GROUP BY city ORDER BY city";

/// What the general way answers.
async fn general(db: &Database, sql: &str) -> Vec<String> {
    let session = db.session();
    run(&session, "SET short_path = off").await;
    run(&session, "SET index_rule = off").await;
    rows(&session, sql).await
}

async fn hits(session: &Session) -> u64 {
    rows(session, "SELECT coalesce(sum(hits), 0) FROM alluvia.cuboids").await[0].parse().unwrap()
}

#[test]
fn a_cuboid_is_carried_through_sorts_and_merges() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    block_on(async {
        let session = db.session();
        run(&session, CREATE).await;
        run(&session, &insert(0, 500)).await;
        run(&session, "CALL alluvia.merge()").await;
        run(&session, "CALL alluvia.pin_cuboid('sales', 'city, item')").await;
        let built = rows(&session, "SELECT build_seconds FROM alluvia.cuboids").await;
        for step in 0..8 {
            run(&session, &insert(500 + 40 * step, 40)).await;
            match step % 4 {
                1 => run(&session, "CALL alluvia.flush()").await,
                3 => run(&session, "CALL alluvia.merge()").await,
                _ => {}
            }
            let before = hits(&session).await;
            assert_eq!(rows(&session, QUESTION).await, general(&db, QUESTION).await);
            assert_eq!(hits(&session).await, before + 1, "step {step}");
        }
        // It is the same one all the time.
        assert_eq!(rows(&session, "SELECT build_seconds FROM alluvia.cuboids").await, built);
        // A statement of a text that was answered needs no more; new members are seen, too.
        run(&session, "INSERT INTO sales VALUES ('2026-12-01', 'country 1', 'city new', 'item 4', 1, 1)").await;
        let found = rows(&session, QUESTION).await;
        assert!(found.iter().any(|row| row == "city new|1|1.0|1"), "{found:?}");
        let other = "SELECT count(*) FROM sales WHERE city <> 'city 1' AND item = 'item 4'";
        let count: u64 = rows(&session, other).await[0].parse().unwrap();
        run(&session, "INSERT INTO sales VALUES ('2026-12-01', 'country 1', 'city newer', 'item 4', 1, 1)").await;
        assert_eq!(rows(&session, other).await, [(count + 1).to_string()]);
    });
}

/// Upserts of rows `first..first + count`, whose values depend on `turn`, too.
fn upsert(first: usize, count: usize, turn: usize) -> String {
    let row = |n: usize| {
        let mixed = n * 31 + turn * 17;
        format!("({n}, 'city {}', 'item {}', {}.25, {})", mixed % 12, mixed % 7, mixed % 100, mixed % 1_000)
    };
    let values: Vec<String> = (first..first + count).map(row).collect();
    format!(
        "INSERT INTO stock VALUES {} ON CONFLICT (id) DO UPDATE SET \
            city = excluded.city, item = excluded.item, price = excluded.price, quantity = excluded.quantity",
        values.join(", ")
    )
}

#[test]
fn a_cuboid_follows_upserts_and_deletes_through_sorts_and_merges() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    block_on(async {
        let (session, tree) = (db.session(), db.session());
        run(&tree, "SET cuboids = off").await;
        run(
            &session,
            "CREATE TABLE stock (id BIGINT PRIMARY KEY, city TEXT, item TEXT, price DOUBLE, quantity INT) \
                WITH (dimensions = 'city; item', measures = 'price, quantity')",
        )
        .await;
        run(&session, &upsert(0, 1_000, 0)).await;
        run(&session, "CALL alluvia.merge()").await;
        run(&session, "CALL alluvia.pin_cuboid('stock', 'city, item')").await;
        let sums = "SELECT city, count(*), count(price), sum(price), avg(quantity) FROM stock \
            WHERE item IN ('item 1', 'item 4') GROUP BY city ORDER BY city";
        let bounds =
            "SELECT item, min(price), max(price), min(quantity), max(quantity) FROM stock GROUP BY item ORDER BY item";
        let spread = "SELECT city, stddev(quantity) FROM stock GROUP BY city ORDER BY city";
        let squares = "SELECT stddev(price) FROM stock WHERE city = 'city 3'";
        let number = |rows: Vec<String>| rows[0].parse::<f64>().expect("a number");
        for step in 0..24 {
            match step % 6 {
                0 => run(&session, &upsert(step * 13, 60, step)).await,
                1 => run(&session, &format!("DELETE FROM stock WHERE id % 53 = {step}")).await,
                2 => {
                    run(
                        &session,
                        &format!("UPDATE stock SET price = price + 1, city = 'city 3' WHERE id % 41 = {step}"),
                    )
                    .await
                }
                // The same keys twice before anybody asks: rows that come and go between.
                3 => {
                    run(&session, &upsert(900, 150, step)).await;
                    run(&session, &upsert(950, 50, step + 1)).await;
                }
                // A city and an item without rows.
                4 if step == 16 => run(&session, "DELETE FROM stock WHERE city = 'city 5' OR item = 'item 4'").await,
                4 => run(&session, "UPDATE stock SET quantity = NULL WHERE id < 20").await,
                _ => run(&session, &upsert(0, 1_000, step)).await,
            }
            match step % 5 {
                1 => run(&session, "CALL alluvia.flush()").await,
                3 => run(&session, "CALL alluvia.merge()").await,
                _ => {}
            }
            for sql in [sums, spread] {
                let found = rows(&session, sql).await;
                assert_eq!(found, rows(&tree, sql).await, "step {step}: {sql}");
                let explained = rows(&session, &format!("EXPLAIN ANALYZE {sql}")).await.join("\n");
                assert!(explained.contains("cuboid: resident"), "step {step}: {sql}\n{explained}");
            }
            for sql in [sums, bounds] {
                assert_eq!(rows(&session, sql).await, general(&db, sql).await, "step {step}: {sql}");
            }
            let (found, expected) = (number(rows(&session, squares).await), number(rows(&tree, squares).await));
            assert!((found - expected).abs() <= 1e-9 * expected, "step {step}: {found} is not {expected}");
        }
        assert_eq!(rows(&session, "SELECT count(*) FROM alluvia.cuboids WHERE pinned = 'YES'").await, ["1"]);
        run(&session, "DELETE FROM stock").await;
        assert_eq!(rows(&session, sums).await, Vec::<String>::new());
        assert_eq!(rows(&session, "SELECT count(*) FROM stock WHERE city = 'city 3'").await, ["0"]);
    });
}

#[test]
fn shapes_and_pins_come_back_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let listed = "SELECT table_name, levels, measures, pinned FROM alluvia.cuboids WHERE cells > 0 ORDER BY 1, 2";
    let before = {
        let db = open(&path);
        block_on(async {
            let session = db.session();
            run(&session, CREATE).await;
            run(&session, &insert(0, 300)).await;
            run(&session, "CREATE TABLE gone (a TEXT, b INT) WITH (dimensions = 'a', measures = 'b')").await;
            run(&session, "INSERT INTO gone VALUES ('x', 1)").await;
            run(&session, "CALL alluvia.merge()").await;
            run(&session, "CALL alluvia.pin_cuboid('sales', 'country, month', 'sum(price)')").await;
            run(&session, "CALL alluvia.pin_cuboid('gone', 'a')").await;
            run(&session, QUESTION).await;
            run(&session, "CALL alluvia.build_cuboids()").await;
            run(&session, QUESTION).await;
            rows(&session, listed).await
        })
    };
    assert_eq!(before.len(), 3, "{before:?}");
    let after = {
        let db = open(&path);
        block_on(async {
            let session = db.session();
            run(&session, "CALL alluvia.build_cuboids()").await;
            let after = rows(&session, listed).await;
            let hits_before = hits(&session).await;
            assert_eq!(rows(&session, QUESTION).await, general(&db, QUESTION).await);
            assert_eq!(hits(&session).await, hits_before + 1);
            run(&session, "DROP TABLE gone").await;
            run(&session, "ALTER TABLE sales ADD COLUMN more TEXT").await;
            after
        })
    };
    assert_eq!(after, before);
    // What was dropped stays so; what was altered otherwise comes back.
    let db = open(&path);
    block_on(async {
        let session = db.session();
        run(&session, "CALL alluvia.build_cuboids()").await;
        let after = rows(&session, listed).await;
        assert_eq!(after, before.iter().filter(|row| row.starts_with("sales")).cloned().collect::<Vec<_>>());
        run(&session, "ALTER TABLE sales DROP COLUMN price").await;
        run(&session, "CALL alluvia.build_cuboids()").await;
        let left = rows(&session, listed).await;
        assert!(left.iter().all(|row| !row.contains("price")), "both had the dropped measure: {left:?}");
        assert_eq!(left.iter().filter(|row| row.ends_with("YES")).count(), 1, "a pin outlives its measure: {left:?}");
    });
}

#[test]
fn a_damaged_memory_of_shapes_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    {
        let db = open(&path);
        block_on(async {
            let session = db.session();
            run(&session, CREATE).await;
            run(&session, &insert(0, 300)).await;
            run(&session, "CALL alluvia.merge()").await;
            run(&session, "CALL alluvia.pin_cuboid('sales', 'country')").await;
        });
    }
    let file = path.join("cuboids");
    let mut bytes = std::fs::read(&file).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let db = open(&path);
    block_on(async {
        let session = db.session();
        assert!(rows(&session, "SELECT * FROM alluvia.cuboids").await.is_empty());
        assert!(path.join("cuboids.damaged").exists());
        run(&session, "CALL alluvia.pin_cuboid('sales', 'country')").await;
        assert_eq!(rows(&session, "SELECT pinned FROM alluvia.cuboids").await, ["YES"]);
    });
    drop(db);
    let report = alluvia_node::check(&path, &mut |_| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn a_pinned_cuboid_goes_on_without_a_measure_that_is_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    block_on(async {
        let session = db.session();
        run(&session, CREATE).await;
        run(&session, &insert(0, 300)).await;
        run(&session, "CALL alluvia.merge()").await;
        run(&session, "CALL alluvia.pin_cuboid('sales', 'country')").await;
        run(&session, "ALTER TABLE sales DROP COLUMN price").await;
        run(&session, "CALL alluvia.build_cuboids()").await;
        assert_eq!(rows(&session, "SELECT pinned FROM alluvia.cuboids").await, ["YES"]);
        let measures = rows(&session, "SELECT measures FROM alluvia.cuboids").await;
        assert!(measures.len() == 1 && !measures[0].contains("price") && !measures[0].is_empty(), "{measures:?}");
        run(&session, "CALL alluvia.unpin_cuboid('sales', 'country')").await;
    });
}

#[test]
fn of_several_cuboids_the_one_with_the_fewest_cells_to_visit_answers() {
    for order in [["item, time.day", "item, country"], ["item, country", "item, time.day"]] {
        let dir = tempfile::tempdir().unwrap();
        let db = open(&dir.path().join("db"));
        block_on(async {
            let session = db.session();
            run(&session, CREATE).await;
            run(&session, &insert(0, 500)).await;
            run(&session, "CALL alluvia.merge()").await;
            for levels in order {
                run(&session, &format!("CALL alluvia.pin_cuboid('sales', '{levels}')")).await;
            }
            // The least value is asked cell by cell: 31 days more than 5 countries.
            run(&session, "SELECT min(price) FROM sales WHERE item = 'item 3'").await;
            let used = rows(&session, "SELECT levels FROM alluvia.cuboids WHERE hits > 0").await;
            assert_eq!(used, ["store.country, item.item"]);
        });
    }
}

#[test]
fn a_pin_that_does_not_fit_is_refused_with_both_sizes() {
    let dir = tempfile::tempdir().unwrap();
    let options = DatabaseOptions { memory_limit_bytes: 128 << 20, ..DatabaseOptions::default() };
    let db = Database::open_with(dir.path().join("db"), options).unwrap();
    block_on(async {
        let session = db.session();
        run(
            &session,
            "CREATE TABLE wide (a INT, b INT, c INT, d DOUBLE) WITH (dimensions = 'a; b; c', measures = 'd')",
        )
        .await;
        run(
            &session,
            "INSERT INTO wide SELECT value AS a, value AS b, value AS c, value AS d FROM generate_series(1, 500)",
        )
        .await;
        run(&session, "CALL alluvia.merge()").await;
        let error = session.sql("CALL alluvia.pin_cuboid('wide', 'a, b, c')").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(error.message().contains(" MB") && error.message().contains("cells"), "{error}");
        assert!(rows(&session, "SELECT * FROM alluvia.cuboids").await.is_empty());
        run(&session, "CALL alluvia.pin_cuboid('wide', 'a', 'sum(d)')").await;
        assert_eq!(rows(&session, "SELECT pinned FROM alluvia.cuboids").await, ["YES"]);
        // NaN is nothing that totals hold.
        run(&session, "INSERT INTO wide VALUES (1, 1, 1, 'NaN')").await;
        let error = session.sql("CALL alluvia.pin_cuboid('wide', 'b')").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        assert!(error.message().contains("over b.b cannot be built: measure d "), "{error}");
    });
}

/// Squares of large numbers are more than totals hold; their sums are not.
#[test]
fn a_measure_too_wide_for_a_pin_is_named_with_what_can_be_pinned() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    block_on(async {
        let session = db.session();
        run(&session, "CREATE TABLE w (k TEXT, n INT, big BIGINT) WITH (dimensions = 'k', measures = 'n, big')").await;
        let big = "('a', 1, 9000000000000000000), ('b', 2, -9000000000000000000)";
        run(&session, &format!("INSERT INTO w VALUES {big}, {big}, {big}")).await;
        run(&session, "CALL alluvia.merge()").await;
        let error = session.sql("CALL alluvia.pin_cuboid('w', 'k')").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidValue);
        assert!(error.message().contains("over k.k cannot be built: measure big "), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("'n, sum(big), min(big)'")), "{error:?}");
        let error = session.sql("CALL alluvia.pin_cuboid('w', '')").await.unwrap_err();
        assert!(error.message().contains("'w' without levels cannot be built"), "{error}");
        run(&session, "CALL alluvia.pin_cuboid('w', 'k', 'n, sum(big), min(big)')").await;
        assert_eq!(rows(&session, "SELECT pinned FROM alluvia.cuboids").await, ["YES"]);
    });
}

#[test]
fn prepared_statements_take_parameters_wherever_they_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    block_on(async {
        let session = db.session();
        run(&session, CREATE).await;
        let into = session.prepare("INSERT INTO sales VALUES ($1, $2, $3, $4, $5, $6)").unwrap();
        assert_eq!(into.parameters(), 6);
        for n in 0..60i64 {
            let values = [
                ScalarValue::TimestampMicrosecond(Some(1_793_000_000_000_000 + n * 3_600_000_000), None),
                ScalarValue::from(format!("country {}", n % 3)),
                if n % 10 == 0 { ScalarValue::Utf8(None) } else { ScalarValue::from(format!("city {}", n % 6)) },
                ScalarValue::from("o'item"),
                ScalarValue::Float64(Some(n as f64 / 4.0)),
                ScalarValue::Int32(Some(n as i32 - 30)),
            ];
            session.execute_prepared(&into, &values).await.unwrap();
        }
        run(&session, "CALL alluvia.merge()").await;
        let text = "SELECT country, count(*), sum(quantity) FROM sales \
            WHERE item = $1 AND sold_at >= $2 AND country IN ($3, 'country 2') GROUP BY country ORDER BY country";
        let prepared = session.prepare(text).unwrap();
        assert_eq!(prepared.parameters(), 3);
        let general = db.session();
        run(&general, "SET short_path = off").await;
        run(&general, "SET index_rule = off").await;
        let before = hits(&session).await;
        for turn in 0..30 {
            let day = ScalarValue::Date32(Some(20_752 + turn % 4));
            let values = [ScalarValue::from("o'item"), day, ScalarValue::from(format!("country {}", turn % 3))];
            let found = session.execute_prepared(&prepared, &values).await.unwrap().collect().await.unwrap();
            let expected = general.execute_prepared(&prepared, &values).await.unwrap().collect().await.unwrap();
            assert_eq!(shown(&found), shown(&expected));
            if turn == 0 {
                run(&session, "CALL alluvia.build_cuboids()").await;
            }
        }
        assert!(hits(&session).await >= before + 28, "answered by a cuboid");
        let wrong = session.execute_prepared(&prepared, &[]).await.unwrap_err();
        assert!(wrong.message().contains("3 parameters, and 0 values"), "{wrong}");
        assert!(session.prepare("SELECT 1; SELECT 2").is_err());
        let plain = session.prepare("SELECT $1 + 1, $2::text").unwrap();
        let values = [ScalarValue::Int64(Some(41)), ScalarValue::from("x")];
        let found = session.execute_prepared(&plain, &values).await.unwrap().collect().await.unwrap();
        assert_eq!(shown(&found), ["42|x"]);
        // Inside a transaction a statement reads the version of BEGIN, also when its text was answered before.
        let question = "SELECT count(*) FROM sales WHERE country = 'country 1'";
        let first = rows(&session, question).await;
        run(&session, "CALL alluvia.build_cuboids()").await;
        assert_eq!(rows(&session, question).await, first);
        run(&session, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
        run(&db.session(), "INSERT INTO sales VALUES ('2026-11-01', 'country 1', 'c', 'i', 1, 1)").await;
        assert_eq!(rows(&session, question).await, first);
        run(&session, "COMMIT").await;
        assert_ne!(rows(&session, question).await, first);
        db.core().organise(Stage::Merged).unwrap();
        assert_ne!(rows(&session, question).await, first);
    });
}

/// Cities that are NULL are under no country that is known: a cuboid of cities cannot tell countries, and one of countries is learnt.
#[test]
fn a_finer_cuboid_that_cannot_tell_is_no_bar_to_a_coarser_one() {
    let dir = tempfile::tempdir().unwrap();
    let db = open(&dir.path().join("db"));
    block_on(async {
        let session = db.session();
        run(&session, CREATE).await;
        run(&session, &insert(0, 500)).await;
        run(&session, "INSERT INTO sales VALUES ('2026-11-03', 'country 2', NULL, 'item 4', 1, 1)").await;
        run(&session, "CALL alluvia.merge()").await;
        run(&session, "CALL alluvia.pin_cuboid('sales', 'city, item', 'sum(price)')").await;
        let question = "SELECT country, count(*), sum(price) FROM sales GROUP BY country ORDER BY country";
        let before = hits(&session).await;
        assert_eq!(rows(&session, question).await, general(&db, question).await);
        assert_eq!(hits(&session).await, before);
        run(&session, "CALL alluvia.build_cuboids()").await;
        let levels = "SELECT levels FROM alluvia.cuboids WHERE cells > 0 ORDER BY levels";
        assert_eq!(rows(&session, levels).await, ["store.city, item.item", "store.country"]);
        for _ in 0..2 {
            assert_eq!(rows(&session, question).await, general(&db, question).await);
        }
        assert_eq!(hits(&session).await, before + 2);
        // A condition on cities leaves out rows without one: the cuboid of cities tells. Cities beside their countries need a cuboid of both.
        // Once there, it is not built anew.
        let built = "SELECT levels, build_seconds FROM alluvia.cuboids ORDER BY levels";
        let mut last = rows(&session, built).await;
        let some = "SELECT country, count(*) FROM sales WHERE city <> 'city 1' AND item <> 'item 1' GROUP BY country ORDER BY country";
        assert_eq!(rows(&session, some).await, general(&db, some).await);
        run(&session, "CALL alluvia.build_cuboids()").await;
        assert_eq!((hits(&session).await, rows(&session, built).await), (before + 3, last.clone()));
        let both = "SELECT country, city, count(*) FROM sales WHERE item <> 'item 1' GROUP BY country, city ORDER BY country, city";
        for learnt in [1, 0] {
            assert_eq!(rows(&session, both).await, general(&db, both).await);
            run(&session, "CALL alluvia.build_cuboids()").await;
            let now = rows(&session, built).await;
            assert_eq!((now.len(), &now[..last.len()]), (last.len() + learnt, &last[..]));
            last = now;
        }
        let both_levels = ["store.city, item.item", "store.country", "store.country, store.city, item.item"];
        assert_eq!(rows(&session, levels).await, both_levels);
        // NULL is under its country, also when it comes later, and other questions of both levels have their answers there.
        run(&session, "INSERT INTO sales VALUES ('2026-11-04', 'country 3', NULL, 'item 5', 1, 1)").await;
        run(&session, "INSERT INTO sales VALUES ('2026-11-04', NULL, NULL, 'item 5', 1, 1)").await;
        for sql in [
            some,
            both,
            "SELECT city, count(*) FROM sales WHERE country = 'country 3' AND item = 'item 5' GROUP BY city ORDER BY city",
            "SELECT country, city, count(*) FROM sales WHERE item IN ('item 4', 'item 5') GROUP BY country, city ORDER BY country, city",
            "SELECT count(*) FROM sales WHERE country <> 'country 1' AND city IS NULL AND item <> 'item 7'",
        ] {
            let before = hits(&session).await;
            assert_eq!(rows(&session, sql).await, general(&db, sql).await, "{sql}");
            assert_eq!(hits(&session).await, before + 1, "{sql}");
        }
        // By name, of a dimension the finest level counts.
        run(&session, "CALL alluvia.drop_cuboid('sales', 'country, city, item')").await;
        assert_eq!(rows(&session, levels).await, ["store.country"]);
    });
}
