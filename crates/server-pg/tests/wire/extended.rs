//! Prepared statements: types, formats, portals, pipelines.

use crate::support::{serve, state, texts};
use futures::{TryStreamExt, future::try_join_all};
use tokio_postgres::types::{ToSql, Type};

#[tokio::test(flavor = "multi_thread")]
async fn parameters_have_the_types_of_what_they_meet() {
    let served = serve().await;
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE t (a INT, b BIGINT, c TEXT, d DOUBLE, e TIMESTAMP, f DECIMAL(10, 2), g BOOLEAN, h DATE, i BYTEA)")
        .await
        .unwrap();
    let insert = client.prepare("INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)").await.unwrap();
    let types = [
        Type::INT4,
        Type::INT8,
        Type::TEXT,
        Type::FLOAT8,
        Type::TIMESTAMP,
        Type::NUMERIC,
        Type::BOOL,
        Type::DATE,
        Type::BYTEA,
    ];
    assert_eq!(insert.params(), types);
    assert!(insert.columns().is_empty());
    for (sql, expected) in [
        ("SELECT * FROM t WHERE a = $1 AND c LIKE $2 LIMIT $3", vec![Type::INT4, Type::TEXT, Type::INT8]),
        ("SELECT $1::date, $2", vec![Type::DATE, Type::TEXT]),
        ("SELECT $1::varchar(3), CAST($2 AS CHARACTER VARYING(255))", vec![Type::TEXT, Type::TEXT]),
        ("SELECT a FROM t WHERE c LIKE $1 ESCAPE '/' OR c ILIKE $2 ESCAPE ''", vec![Type::TEXT, Type::TEXT]),
        ("SELECT a FROM t WHERE b BETWEEN $1 AND $2 OR d > $3", vec![Type::INT8, Type::INT8, Type::FLOAT8]),
        ("INSERT INTO t (c, a) SELECT $1, $2", vec![Type::TEXT, Type::INT4]),
        ("SHOW freshness", vec![]),
    ] {
        assert_eq!(client.prepare(sql).await.unwrap().params(), expected, "{sql}");
    }
    let named = client.prepare("SELECT a AS x, f, e FROM t").await.unwrap();
    let columns: Vec<(&str, Type)> =
        named.columns().iter().map(|column| (column.name(), column.type_().clone())).collect();
    assert_eq!(columns, [("x", Type::INT4), ("f", Type::NUMERIC), ("e", Type::TIMESTAMP)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_go_in_and_come_out_in_binary() {
    let served = serve().await;
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE t (a SMALLINT, b INT, c BIGINT, d REAL, e DOUBLE, f TEXT, g BOOLEAN, h BYTEA)")
        .await
        .unwrap();
    let insert = client.prepare("INSERT INTO t VALUES ($1, $2, $3, $4, $5, $6, $7, $8)").await.unwrap();
    let bytes: &[u8] = &[0, 1, 255];
    let row: [&(dyn ToSql + Sync); 8] =
        [&-5i16, &7i32, &i64::MIN, &1.5f32, &f64::NEG_INFINITY, &"it's\n\u{1F600}", &true, &bytes];
    assert_eq!(client.execute(&insert, &row).await.unwrap(), 1);
    let none: [&(dyn ToSql + Sync); 8] = [
        &None::<i16>,
        &None::<i32>,
        &None::<i64>,
        &None::<f32>,
        &None::<f64>,
        &None::<&str>,
        &None::<bool>,
        &None::<&[u8]>,
    ];
    client.execute(&insert, &none).await.unwrap();
    let found = client.query_one("SELECT * FROM t WHERE b = $1", &[&7i32]).await.unwrap();
    assert_eq!((found.get::<_, i16>(0), found.get::<_, i32>(1), found.get::<_, i64>(2)), (-5, 7, i64::MIN));
    assert_eq!((found.get::<_, f32>(3), found.get::<_, f64>(4)), (1.5, f64::NEG_INFINITY));
    assert_eq!((found.get::<_, &str>(5), found.get::<_, bool>(6)), ("it's\n\u{1F600}", true));
    assert_eq!(found.get::<_, &[u8]>(7), bytes);
    let nulls = client.query_one("SELECT * FROM t WHERE b IS NULL", &[]).await.unwrap();
    assert!((0..8).all(|at| nulls.try_get::<_, Option<i64>>(at).map_or(true, |value| value.is_none())));
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_found_by_bytes_and_by_text_that_stands_for_them() {
    let served = serve().await;
    let client = served.client().await;
    let create = r"CREATE TABLE t (a INT, b BYTEA); INSERT INTO t VALUES (1, '\x4142'), (2, 'a\\b')";
    client.batch_execute(create).await.unwrap();
    let bytes: &[u8] = b"AB";
    let found = client.query_one("SELECT a FROM t WHERE b = $1", &[&bytes]).await.unwrap();
    assert_eq!(found.get::<_, i32>(0), 1);
    let by_text = client.prepare_typed("SELECT a FROM t WHERE b = $1", &[Type::TEXT]).await.unwrap();
    for (text, expected) in [(r"\x4142", 1), (r"AB", 1), (r"a\\b", 2)] {
        assert_eq!(client.query_one(&by_text, &[&text]).await.unwrap().get::<_, i32>(0), expected, "{text}");
    }
    let wrong = client.query_one(&by_text, &[&r"\x4"]).await.unwrap_err();
    assert_eq!(state(&wrong), "22P02");
    let cast = client.query_one("SELECT $1::text::bytea, $2::bytea::text", &[&r"\x4142", &bytes]).await.unwrap();
    assert_eq!((cast.get::<_, &[u8]>(0), cast.get::<_, &str>(1)), (bytes, r"\x4142"));
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_go_in_and_come_out() {
    let served = serve().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE TABLE t (a INT, b BIGINT, c TEXT, d DOUBLE, e DATE, f SMALLINT, g BOOLEAN, h DECIMAL(10, 2));
             INSERT INTO t VALUES (1, 10, 'x', 0.5, '2026-11-21', 1, true, 1.50), (2, 20, 'y z', 1.5, '2026-11-22', 2, false, 2.25),
                                  (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        )
        .await
        .unwrap();
    // What a list is of follows from a cast, or from what it meets.
    for (sql, expected) in [
        ("SELECT a FROM t WHERE a = ANY($1)", Type::INT4_ARRAY),
        ("SELECT a FROM t WHERE a = ANY($1::int[])", Type::INT4_ARRAY),
        ("SELECT a FROM t WHERE a = ANY($1::bigint[])", Type::INT8_ARRAY),
        ("SELECT a FROM t WHERE b = ANY(($1))", Type::INT8_ARRAY),
        ("SELECT a FROM t WHERE c <> ALL($1)", Type::TEXT_ARRAY),
        ("SELECT a FROM t WHERE d = SOME($1)", Type::FLOAT8_ARRAY),
        ("SELECT a FROM t WHERE e = ANY($1)", Type::DATE_ARRAY),
        ("SELECT a FROM t WHERE f = ANY($1)", Type::INT2_ARRAY),
        ("SELECT a FROM t WHERE g = ANY($1)", Type::BOOL_ARRAY),
        ("SELECT a FROM t WHERE d < ANY($1)", Type::FLOAT8_ARRAY),
        ("SELECT oid FROM pg_type WHERE oid = ANY($1::oid[])", Type::OID_ARRAY),
        ("SELECT $1::text[]", Type::TEXT_ARRAY),
        ("SELECT a FROM t WHERE c = ANY($1::varchar(3)[])", Type::TEXT_ARRAY),
    ] {
        assert_eq!(client.prepare(sql).await.unwrap().params(), [expected], "{sql}");
    }
    let found =
        |rows: Vec<tokio_postgres::Row>| rows.iter().map(|row| row.get::<_, Option<i32>>(0)).collect::<Vec<_>>();
    let ints = client.query("SELECT a FROM t WHERE a = ANY($1) ORDER BY a", &[&vec![1i32, 7, 2]]).await.unwrap();
    assert_eq!(found(ints), [Some(1), Some(2)]);
    let cut = "SELECT a FROM t WHERE c = ANY($1::varchar(1)[]) AND b = $2";
    let cut = client.query(cut, &[&vec!["xyz", "y"], &10i64]).await.unwrap();
    assert_eq!(found(cut), [Some(1)]);
    let with_null = client.query("SELECT a FROM t WHERE a <> ALL($1)", &[&vec![Some(1i32), None]]).await.unwrap();
    assert_eq!(found(with_null), []);
    let none = client.query("SELECT a FROM t WHERE a = ANY($1)", &[&Vec::<i32>::new()]).await.unwrap();
    assert_eq!(found(none), []);
    let all = client.query("SELECT a FROM t WHERE a <> ALL($1) ORDER BY a", &[&Vec::<i32>::new()]).await.unwrap();
    assert_eq!(all.len(), 3);
    let null = client.query("SELECT a FROM t WHERE a = ANY($1)", &[&None::<Vec<i32>>]).await.unwrap();
    assert_eq!(found(null), []);
    let texts_of = client.query("SELECT a FROM t WHERE c = ANY($1)", &[&vec!["y z", "\"", "{}"]]).await.unwrap();
    assert_eq!(found(texts_of), [Some(2)]);
    let floats = client.query("SELECT a FROM t WHERE d = ANY($1)", &[&vec![0.5f64, f64::NAN]]).await.unwrap();
    assert_eq!(found(floats), [Some(1)]);
    let smaller = client.query("SELECT a FROM t WHERE d < ANY($1)", &[&vec![0.1f64, 1.0]]).await.unwrap();
    assert_eq!(found(smaller), [Some(1)]);
    let shorts = client.query("SELECT a FROM t WHERE f = ANY($1)", &[&vec![2i16]]).await.unwrap();
    assert_eq!(found(shorts), [Some(2)]);
    let truths = client.query("SELECT a FROM t WHERE g = ANY($1)", &[&vec![false]]).await.unwrap();
    assert_eq!(found(truths), [Some(2)]);

    let lists = client
        .query_one(
            "SELECT $1::int[], $2::bigint[], $3::text[], $4::float8[], $5::bool[], array_agg(a ORDER BY a) FROM t",
            &[
                &vec![Some(1i32), None],
                &Vec::<i64>::new(),
                &vec!["a", "b,\"c\"", ""],
                &vec![1.5f64],
                &vec![true, false],
            ],
        )
        .await
        .unwrap();
    let types: Vec<&Type> = lists.columns().iter().map(|column| column.type_()).collect();
    let expected =
        [Type::INT4_ARRAY, Type::INT8_ARRAY, Type::TEXT_ARRAY, Type::FLOAT8_ARRAY, Type::BOOL_ARRAY, Type::INT4_ARRAY];
    assert_eq!(types, expected.iter().collect::<Vec<_>>());
    assert_eq!(lists.get::<_, Vec<Option<i32>>>(0), [Some(1), None]);
    assert!(lists.get::<_, Vec<i64>>(1).is_empty());
    assert_eq!(lists.get::<_, Vec<&str>>(2), ["a", "b,\"c\"", ""]);
    assert_eq!(lists.get::<_, Vec<f64>>(3), [1.5]);
    assert_eq!(lists.get::<_, Vec<bool>>(4), [true, false]);
    assert_eq!(lists.get::<_, Vec<Option<i32>>>(5), [Some(1), Some(2), None]);

    // Many rows at once, as programs insert them.
    let inserted = client
        .execute(
            "INSERT INTO t (a, c) SELECT * FROM unnest($1::int[], $2::text[])",
            &[&vec![100i32, 101, 102], &vec![Some("p"), None, Some("q")]],
        )
        .await
        .unwrap();
    assert_eq!(inserted, 3);
    assert_eq!(texts(&client, "SELECT c FROM t WHERE a = ANY('{100,102}') ORDER BY a").await, ["p", "q"]);
    assert_eq!(state(&client.batch_execute("SELECT 1 FROM t WHERE a = ANY('100')").await.unwrap_err()), "22P02");
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_aggregates_take_the_short_path() {
    let served = serve().await;
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE sales (country TEXT, day DATE, price DOUBLE) WITH (dimensions = 'country; day(day: year, month, day)', measures = 'price')")
        .await
        .unwrap();
    let insert = client.prepare("INSERT INTO sales VALUES ($1, $2::text::date, $3)").await;
    drop(insert);
    client
        .batch_execute(
            "INSERT INTO sales VALUES ('fr', '2026-01-02', 1.5), ('fr', '2026-02-03', 2), ('cl', '2026-01-05', 4)",
        )
        .await
        .unwrap();
    let total = client.prepare("SELECT sum(price), count(*) FROM sales WHERE country = $1").await.unwrap();
    for (country, sum, count) in [("fr", Some(3.5), 2i64), ("cl", Some(4.0), 1), ("de", None, 0)] {
        let row = client.query_one(&total, &[&country]).await.unwrap();
        assert_eq!((row.get::<_, Option<f64>>(0), row.get::<_, i64>(1)), (sum, count), "{country}");
    }
    let plan = texts(&client, "EXPLAIN SELECT sum(price), count(*) FROM sales WHERE country = 'fr'").await;
    assert!(!plan.is_empty());
    let by_country = client
        .prepare("SELECT country, avg(price) FROM sales WHERE country IN ($1, $2) GROUP BY country ORDER BY country")
        .await
        .unwrap();
    let rows = client.query(&by_country, &[&"fr", &"cl"]).await.unwrap();
    let rows: Vec<(&str, f64)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    assert_eq!(rows, [("cl", 4.0), ("fr", 1.75)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn portals_give_rows_a_few_at_a_time() {
    let served = serve().await;
    let mut client = served.client().await;
    let transaction = client.transaction().await.unwrap();
    let portal = transaction.bind("SELECT value FROM generate_series(1, 25000)", &[]).await.unwrap();
    let mut seen = 0;
    loop {
        let rows = transaction.query_portal(&portal, 7_000).await.unwrap();
        if rows.is_empty() {
            break;
        }
        assert!(rows.iter().enumerate().all(|(at, row)| row.get::<_, i64>(0) == seen + at as i64 + 1));
        seen += rows.len() as i64;
    }
    assert_eq!(seen, 25_000);
    transaction.commit().await.unwrap();
    let all: Vec<_> = client
        .query_raw("SELECT value FROM generate_series(1, 100000)", Vec::<i32>::new())
        .await
        .unwrap()
        .try_collect()
        .await
        .unwrap();
    assert_eq!(all.len(), 100_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_told_and_the_rest_of_the_pipeline_goes_on_after_its_sync() {
    let served = serve().await;
    let client = served.client().await;
    client.batch_execute("CREATE TABLE t (a INT)").await.unwrap();
    assert_eq!(state(&client.prepare("SELECT nothing FROM t").await.err().unwrap()), "42703");
    assert_eq!(state(&client.prepare("SELECT 1; SELECT 2").await.err().unwrap()), "42601");
    let insert = client.prepare("INSERT INTO t VALUES ($1)").await.unwrap();
    let values: Vec<i32> = (0..200).collect();
    // tokio-postgres sends these without waiting for one another.
    try_join_all(values.iter().map(|value| {
        let (client, insert) = (&client, &insert);
        async move { client.execute(insert, &[value]).await }
    }))
    .await
    .unwrap();
    assert_eq!(texts(&client, "SELECT count(*), sum(a) FROM t").await, ["200"]);
    let divide = client.prepare("SELECT 10 / $1::int").await.unwrap();
    let zero = client.query(&divide, &[&0i32]);
    let two = client.query_one(&divide, &[&2i32]);
    let (zero, two) = tokio::join!(zero, two);
    assert_eq!(state(&zero.err().unwrap()), "22012");
    assert_eq!(two.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_see_what_ddl_has_changed_since_they_were_prepared() {
    let served = serve().await;
    let client = served.client().await;
    client.batch_execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (1)").await.unwrap();
    let all = client.prepare("SELECT * FROM t").await.unwrap();
    let one = client.prepare("SELECT a FROM t WHERE a = $1").await.unwrap();
    client.batch_execute("ALTER TABLE t ADD COLUMN b TEXT").await.unwrap();
    assert_eq!(client.query(&one, &[&1i32]).await.unwrap().len(), 1);
    assert_eq!(state(&client.query(&all, &[]).await.err().unwrap()), "0A000");
    client.batch_execute("DROP TABLE t").await.unwrap();
    assert_eq!(state(&client.query(&one, &[&1i32]).await.err().unwrap()), "42P01");
}

#[tokio::test(flavor = "multi_thread")]
async fn describing_has_the_time_of_a_statement_and_leaves_a_suspended_portal_stoppable() {
    let served = serve().await;
    let mut client = served.client().await;
    client.batch_execute("CREATE TABLE t (a BIGINT); SET statement_timeout = '1ms'").await.unwrap();
    // Each joins the one before twice: planning it takes long.
    let chain = (1..=13).map(|at| format!(", c{at} AS (SELECT x.a FROM c{0} x JOIN c{0} y ON x.a = y.a)", at - 1));
    let long = format!("WITH c0 AS (SELECT a FROM t){} SELECT count(*) FROM c13", chain.collect::<String>());
    assert_eq!(state(&client.prepare(&long).await.err().unwrap()), "57014");
    client.batch_execute("RESET statement_timeout").await.unwrap();
    let cancel = client.cancel_token();
    let transaction = client.transaction().await.unwrap();
    let portal = transaction.bind("SELECT value FROM generate_series(1, 1000000000000)", &[]).await.unwrap();
    assert_eq!(transaction.query_portal(&portal, 10).await.unwrap().len(), 10);
    let other = transaction.prepare("SELECT a FROM t").await.unwrap();
    assert_eq!(transaction.query_portal(&portal, 10).await.unwrap().len(), 10);
    cancel.cancel_query(tokio_postgres::NoTls).await.unwrap();
    assert_eq!(state(&transaction.query_portal(&portal, 0).await.unwrap_err()), "57014");
    drop(other);
    transaction.rollback().await.unwrap();
}
