//! Conditions that are sets of members, or of times, however they are written: answered by the index, and as the general plan answers
//! them, beside others and below NOT and OR.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::index_answers::{compared, explained};
use crate::nested::{open, set};
use crate::statements::{CREATE, GeneratedStatement, rows};
use crate::support::Random;
use alluvia_query::Session;
use alluvia_snapshot::Admin;
use alluvia_types::Stage;

/// Answered without a plan.
const AT_ONCE: [&str; 31] = [
    "upper(country) = 'CHILE'",
    "'lima' <> lower(city)",
    "LOWER(s.city) >= 'lima'",
    "lower(city) NOT IN ('lima', 'paris')",
    "upper(city) LIKE '%A%'",
    "upper(city) NOT LIKE 'L%'",
    "country ILIKE 'c%'",
    "city NOT ILIKE '_AM%'",
    "item ILIKE 'ITEM 1%'",
    "city ILIKE 'k%'",
    "city ILIKE '%ς'",
    "city ILIKE 'a_b'",
    "city LIKE 'a_b'",
    "lower(city) = 'straße'",
    "upper(city) IN ('STRASSE', 'ΣΊΣΥΦΟΣ', 'A\nB')",
    "lower(city) LIKE 'i%'",
    "lower(city) NOT LIKE '%ς'",
    "extract(year FROM sold_at) = 2025",
    "date_part('year', seen_at) <> 2024",
    "2025 < extract(YEAR FROM day)",
    "extract(year FROM day) IN (2024, 2026)",
    "extract(year FROM seen_at) BETWEEN 2025 AND 2030",
    "country IS DISTINCT FROM 'Chile'",
    "'Lima' IS NOT DISTINCT FROM city",
    "country IS NOT DISTINCT FROM NULL",
    "shelf IS DISTINCT FROM 3",
    "open IS TRUE",
    "open IS NOT TRUE",
    "open IS NOT FALSE",
    "day IS NOT DISTINCT FROM '2025-03-05'",
    "sold_at IS DISTINCT FROM '2025-03-05 12:34:00'",
];

/// Answered in a plan.
const PLANNED: [&str; 14] = [
    "shelf + 1 < 5",
    "shelf % 7 = 3",
    "shelf < 2.5",
    "shelf IN (1, 2.0)",
    "length(city) > 5",
    "initcap(lower(city)) = 'Lima'",
    "city ~ '^L'",
    "nullif(country, 'Peru') = 'Chile'",
    "coalesce(country, 'Chile') = 'Chile'",
    "coalesce(country, 'Chile') <> 'Chile'",
    "CASE WHEN city = 'Lima' THEN NULL ELSE city END < 'M'",
    "(city = 'Lima') IS NOT TRUE",
    "open IS UNKNOWN",
    "split_part(item, ' ', 2) = '7'",
];

/// Panics unless the index answers each condition, alone, below NOT and below OR, and as the general plan does.
async fn answered(conditions: &[&str], fast: &Session, general: &Session) {
    for condition in conditions {
        for sql in [
            format!("SELECT count(*), sum(cents), max(cents) FROM sales s WHERE {condition}"),
            format!("SELECT country, count(*), sum(quantity) FROM sales s WHERE NOT ({condition}) GROUP BY country"),
            format!(
                "SELECT open, count(*), min(cents) FROM sales s WHERE item > 'item 3' AND ({condition}) GROUP BY open"
            ),
            format!("SELECT count(*), sum(cents) FROM sales s WHERE {condition} OR open"),
            format!("SELECT count(*), sum(cents) FROM sales s WHERE NOT ({condition} OR city = 'Lamu')"),
        ] {
            let asked = GeneratedStatement::of(sql);
            assert!(compared(&asked, fast, general).await, "{asked:?}");
            let plan = explained(fast, "EXPLAIN ANALYZE VERBOSE", &asked.sql).await.expect("is explained");
            assert!(plan.contains("IndexAnswer") && !plan.contains("refused="), "{asked:?}\n{plan}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_on_one_level_are_answered_by_the_index_however_written() {
    let mut random = Random(23);
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let (at_once, planned, general) = (db.session(), db.session(), db.session());
    set(&at_once, &["index_rule"]).await;
    set(&planned, &["short_path"]).await;
    set(&general, &["short_path", "index_rule", "cuboids", "predicate_cache"]).await;
    general.sql(CREATE).await.expect("creates");
    general.sql(&rows(&mut random, 900)).await.expect("inserts");
    db.core().organise(Stage::Merged).expect("organises");
    general.sql(&rows(&mut random, 90)).await.expect("inserts");
    answered(&AT_ONCE, &at_once, &general).await;
    // A plan holds what is answered without one as well.
    answered(&AT_ONCE, &planned, &general).await;
    answered(&PLANNED, &planned, &general).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_come_later_are_asked_too() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let (session, general) = (db.session(), db.session());
    set(&general, &["short_path", "index_rule", "cuboids", "predicate_cache"]).await;
    session.sql("CREATE TABLE t (a TEXT, m BIGINT) WITH (dimensions = 'a', measures = 'm')").await.expect("creates");
    session.sql("INSERT INTO t VALUES ('10', 1), ('7', 2), (NULL, 4)").await.expect("inserts");
    db.core().organise(Stage::Merged).expect("organises");
    session.sql("CALL alluvia.pin_cuboid('t', 'a')").await.expect("pins");
    let numbers = GeneratedStatement::of("SELECT sum(m), count(*) FROM t WHERE a::INT > 8".to_owned());
    let cases =
        GeneratedStatement::of("SELECT sum(m), count(*) FROM t WHERE lower(a) >= '7' OR upper(a) = 'SEVEN'".to_owned());
    for insert in ["('7', 8)", "('9', 16)", "('12', 32), (NULL, 64)"] {
        session.sql(&format!("INSERT INTO t VALUES {insert}")).await.expect("inserts");
        for asked in [&numbers, &cases] {
            for _ in 0..2 {
                assert!(compared(asked, &session, &general).await, "{asked:?}");
            }
            let plan = explained(&session, "EXPLAIN ANALYZE VERBOSE", &asked.sql).await.expect("is explained");
            assert!(plan.contains("IndexAnswer") && !plan.contains("refused="), "{asked:?}\n{plan}");
        }
    }
    // A member that the predicate fails for: it fails for whoever meets it in a row, and for no one else.
    session.sql("INSERT INTO t VALUES ('Seven', 128)").await.expect("inserts");
    assert!(!compared(&numbers, &session, &general).await);
    assert!(compared(&cases, &session, &general).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_come_below_a_level_are_counted_in_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let (session, general) = (db.session(), db.session());
    set(&general, &["short_path", "index_rule", "cuboids", "predicate_cache"]).await;
    let create = "CREATE TABLE t (country TEXT, city TEXT, item TEXT, m BIGINT) WITH (dimensions = 'place(country, city); item', measures = 'm')";
    session.sql(create).await.expect("creates");
    session.sql("INSERT INTO t VALUES ('Peru', 'Lima', 'pen', 1), ('Kenya', 'Lamu', 'pen', 2)").await.expect("inserts");
    db.core().organise(Stage::Merged).expect("organises");
    session.sql("CALL alluvia.pin_cuboid('t', 'city, item')").await.expect("pins");
    let of_country = GeneratedStatement::of("SELECT sum(m), count(*) FROM t WHERE upper(country) = 'PERU'".to_owned());
    let by_item = GeneratedStatement::of(
        "SELECT item, sum(m), count(*) FROM t WHERE country ILIKE '%n%' GROUP BY item".to_owned(),
    );
    for insert in [
        "('Peru', 'Cusco', 'pen', 4)",
        "('Kenya', 'Lima', 'cup', 8)",
        "('Benin', 'Cusco', 'cap', 16), (NULL, 'Ica', 'cup', 32)",
    ] {
        for asked in [&of_country, &by_item] {
            for _ in 0..3 {
                assert!(compared(asked, &session, &general).await, "{asked:?}");
            }
        }
        session.sql(&format!("INSERT INTO t VALUES {insert}")).await.expect("inserts");
    }
    for asked in [&of_country, &by_item] {
        assert!(compared(asked, &session, &general).await, "{asked:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_much_of_each_member_is_evaluated_on_few_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let (session, general) = (db.session(), db.session());
    set(&general, &["short_path", "index_rule", "cuboids", "predicate_cache"]).await;
    session.sql("CREATE TABLE t (a TEXT, m BIGINT) WITH (dimensions = 'a', measures = 'm')").await.expect("creates");
    let rows: Vec<String> = (0..3_000).map(|at| format!("('n{at:04}', {at})")).collect();
    session.sql(&format!("INSERT INTO t VALUES {}", rows.join(", "))).await.expect("inserts");
    db.core().organise(Stage::Merged).expect("organises");
    // Of all members at once it is more than the index may hold.
    let asked =
        GeneratedStatement::of("SELECT count(*), sum(m) FROM t WHERE right(repeat(a, 5000), 1) = '7'".to_owned());
    assert!(compared(&asked, &session, &general).await, "{asked:?}");
    let plan = explained(&session, "EXPLAIN ANALYZE VERBOSE", &asked.sql).await.expect("is explained");
    assert!(plan.contains("IndexAnswer") && !plan.contains("refused="), "{asked:?}\n{plan}");
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_fit_a_decimal_need_no_plan() {
    let dir = tempfile::tempdir().expect("a directory");
    let db = open(&dir);
    let (session, general) = (db.session(), db.session());
    set(&session, &["index_rule"]).await;
    set(&general, &["short_path", "index_rule", "cuboids", "predicate_cache"]).await;
    session
        .sql("CREATE TABLE t (d DECIMAL(8, 2), m BIGINT) WITH (dimensions = 'd', measures = 'm')")
        .await
        .expect("creates");
    session
        .sql("INSERT INTO t VALUES (1.5, 1), (-0.25, 2), (7, 4), (1.51, 8), (NULL, 16), (1.5, 32)")
        .await
        .expect("inserts");
    db.core().organise(Stage::Merged).expect("organises");
    for condition in ["d = 1.5", "d <> 1.50", "d > -0.25", "d IN (7, -0.25, 3)", "d BETWEEN 1 AND 1.5", "NOT (d < 7)"] {
        let asked = GeneratedStatement::of(format!("SELECT count(*), sum(m) FROM t WHERE {condition}"));
        assert!(compared(&asked, &session, &general).await, "{asked:?}");
        let plan = explained(&session, "EXPLAIN ANALYZE VERBOSE", &asked.sql).await.expect("is explained");
        assert!(plan.contains("IndexAnswer"), "{asked:?}\n{plan}");
    }
    for condition in ["d = 1.505", "d < 1e1", "d > 100000000"] {
        let asked = GeneratedStatement::of(format!("SELECT count(*), sum(m) FROM t WHERE {condition}"));
        assert!(compared(&asked, &session, &general).await, "{asked:?}");
    }
}
