//! What unmodified clients need: columns that name their tables, functions in FROM with parameters, settings that queries set, comments.

use crate::support::{rows, serve, state, texts};
use tokio_postgres::types::{ToSql, Type};

#[tokio::test(flavor = "multi_thread")]
async fn plain_columns_name_their_tables() {
    let served = serve().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE TABLE t (a INT PRIMARY KEY, b TEXT); CREATE TABLE u (a INT, c TEXT); INSERT INTO t VALUES (1, 'x')",
        )
        .await
        .unwrap();
    let oid = |name: &'static str| {
        let client = &client;
        async move { texts(client, &format!("SELECT '{name}'::regclass::oid")).await.remove(0).parse::<u32>().unwrap() }
    };
    let (t, u) = (oid("t").await, oid("u").await);
    for (sql, expected) in [
        ("SELECT b, a, a + 1, upper(b) FROM t", vec![Some((t, 2)), Some((t, 1)), None, None]),
        ("SELECT b AS x FROM t WHERE a = 1", vec![Some((t, 2))]),
        (
            "SELECT * FROM t AS x JOIN u ON x.a = u.a ORDER BY b",
            vec![Some((t, 1)), Some((t, 2)), Some((u, 1)), Some((u, 2))],
        ),
        ("SELECT s.b FROM (SELECT b, a FROM t LIMIT 5) AS s", vec![Some((t, 2))]),
        ("SELECT b::varchar(3), 7 FROM t", vec![None, None]),
        ("SELECT a FROM t UNION ALL SELECT a FROM u", vec![None]),
    ] {
        let prepared = client.prepare(sql).await.unwrap();
        let found: Vec<Option<(u32, i16)>> =
            prepared.columns().iter().map(|column| column.table_oid().zip(column.column_id())).collect();
        assert_eq!(found, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn functions_in_from_take_parameters() {
    let served = serve().await;
    let client = served.client().await;
    let value: &(dyn ToSql + Sync) = &"abc";
    let found = client.query_typed("select * from upper($1) as result", &[(value, Type::VARCHAR)]).await.unwrap();
    assert_eq!((found[0].get::<_, &str>(0), found[0].columns()[0].name()), ("ABC", "result"));
    let found = client.query("SELECT * FROM current_schema()", &[]).await.unwrap();
    assert_eq!((found[0].get::<_, &str>(0), found[0].columns()[0].name()), ("public", "current_schema"));
}

#[tokio::test(flavor = "multi_thread")]
async fn adbc_finds_types_and_keys() {
    let served = serve().await;
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE games (id BIGINT, kind TEXT, n INT CHECK (n > 0), PRIMARY KEY (id, kind))")
        .await
        .unwrap();
    let types = rows(&client, crate::tools::statement_for(crate::tools::ADBC, "types")).await;
    let of = |name: &str| types.iter().find(|row| row[1] == name).map(|row| (row[2].clone(), row[5].clone()));
    assert_eq!(of("int8"), Some(("int8recv".to_owned(), "1016".to_owned())));
    assert_eq!(of("_int8"), None);
    let constraints = crate::tools::statement_for(crate::tools::ADBC, "constraints");
    let mut found = Vec::new();
    for row in client.query(constraints, &[&"public", &"games"]).await.unwrap() {
        found.push((row.get::<_, String>(0), row.get::<_, String>(1), row.get::<_, Vec<String>>(2).join(",")));
    }
    found.sort();
    let row = |name: &str, kind: &str, columns: &str| (name.to_owned(), kind.to_owned(), columns.to_owned());
    assert_eq!(found, [row("games_n_check", "CHECK", "n"), row("games_pkey", "PRIMARY KEY", "id,kind")]);
    let columns = crate::tools::statement_for(crate::tools::ADBC, "columns");
    client.batch_execute("COMMENT ON COLUMN games.n IS 'how many'").await.unwrap();
    let found = client.query(columns, &[&"public", &"games"]).await.unwrap();
    let told: Vec<(String, Option<String>)> = found.iter().map(|row| (row.get(0), row.get(2))).collect();
    assert_eq!(told[2], ("n".to_owned(), Some("how many".to_owned())));
    assert_eq!(told[0], ("id".to_owned(), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_set_settings_and_take_locks() {
    let served = serve().await;
    let (client, other) = (served.client().await, served.client().await);
    let set = client.query_one("SELECT set_config($1, $2, false)", &[&"application_name", &"mine"]).await.unwrap();
    assert_eq!(set.get::<_, &str>(0), "mine");
    assert_eq!(texts(&client, "SHOW application_name").await, ["mine"]);
    client.batch_execute("BEGIN").await.unwrap();
    let taken = client.query_one("SELECT pg_try_advisory_xact_lock(77433833903597)", &[]).await.unwrap();
    assert!(taken.get::<_, bool>(0));
    let taken = other.query_one("SELECT pg_try_advisory_lock($1::bigint)", &[&77_433_833_903_597_i64]).await.unwrap();
    assert!(!taken.get::<_, bool>(0));
    client.batch_execute("ROLLBACK").await.unwrap();
    other.query_one("SELECT pg_advisory_lock($1::bigint)", &[&77_433_833_903_597_i64]).await.unwrap();
    client.batch_execute("SET statement_timeout = '50ms'").await.unwrap();
    let error = client.batch_execute("SELECT pg_advisory_lock(77433833903597)").await.unwrap_err();
    assert_eq!(state(&error), "57014");
    drop(other);
    client.batch_execute("SET statement_timeout = '30s'; SELECT pg_advisory_lock(77433833903597)").await.unwrap();
    let own = "SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND granted";
    assert_eq!(texts(&client, own).await, ["1"]);
}
