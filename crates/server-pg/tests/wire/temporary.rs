//! Temporary tables as clients use them: dbt's second incremental run, Tableau's check and extract, ibis' tables in memory, pools.

use crate::support::{rows, serve, state, texts};
use futures::{SinkExt, TryStreamExt};
use tokio_postgres::SimpleQueryMessage;

#[tokio::test(flavor = "multi_thread")]
async fn a_second_incremental_run_of_dbt() {
    let served = serve().await;
    let client = served.client().await;
    client
        .batch_execute("CREATE TABLE m (id BIGINT PRIMARY KEY, v TEXT); INSERT INTO m VALUES (1, 'a')")
        .await
        .unwrap();
    for sql in [
        "BEGIN",
        r#"create temporary table "m__dbt_tmp202611271200" as (select * from (values (1, 'A'), (2, 'b')) as s (id, v))"#,
        r#"delete from "alluvia"."public"."m" where (id) in (select (id) from "m__dbt_tmp202611271200")"#,
        r#"insert into "alluvia"."public"."m" ("id", "v") (select "id", "v" from "m__dbt_tmp202611271200")"#,
        "COMMIT",
    ] {
        client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}\n{error:?}"));
    }
    assert_eq!(rows(&client, "SELECT * FROM m ORDER BY id").await, [["1", "A"], ["2", "b"]]);
    // It drops what it made by its bare name.
    client.batch_execute(r#"drop table if exists "m__dbt_tmp202611271200" cascade"#).await.unwrap();
    assert_eq!(state(&client.batch_execute(r#"SELECT * FROM "m__dbt_tmp202611271200""#).await.unwrap_err()), "42P01");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_tableau_tries_when_it_connects() {
    let served = serve().await;
    let client = served.client().await;
    let other = served.client().await;
    for sql in [
        r##"CREATE LOCAL TEMPORARY TABLE "#Tableau_1_Connect_Check" ("COL" INTEGER) ON COMMIT PRESERVE ROWS"##,
        r##"INSERT INTO "#Tableau_1_Connect_Check" ("COL") VALUES (1)"##,
    ] {
        client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}\n{error:?}"));
    }
    let all = r##"SELECT "COL" FROM "#Tableau_1_Connect_Check""##;
    assert_eq!(texts(&client, all).await, ["1"]);
    assert_eq!(state(&other.batch_execute(all).await.unwrap_err()), "42P01");
    client.batch_execute(r##"DROP TABLE "#Tableau_1_Connect_Check""##).await.unwrap();
    assert_eq!(texts(&client, "SELECT 1").await, ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_in_memory_of_ibis_and_prepared_statements() {
    let served = serve().await;
    let client = served.client().await;
    client
        .batch_execute(
            r#"CREATE TEMPORARY TABLE "ibis_pandas_memtable_x" ("a" BIGINT, "b" TEXT, "c" DOUBLE PRECISION)"#,
        )
        .await
        .unwrap();
    let insert =
        client.prepare(r#"INSERT INTO "ibis_pandas_memtable_x" ("a", "b", "c") VALUES ($1, $2, $3)"#).await.unwrap();
    for at in 0..20i64 {
        let text = format!("b{}", at % 3);
        assert_eq!(client.execute(&insert, &[&at, &text, &0.5f64]).await.unwrap(), 1);
    }
    let select = client
        .prepare(
            r#"SELECT b, count(*) AS n, sum(a) AS s FROM "ibis_pandas_memtable_x" WHERE a >= $1 GROUP BY b ORDER BY b"#,
        )
        .await
        .unwrap();
    for least in [0i64, 10] {
        let rows = client.query(&select, &[&least]).await.unwrap();
        let counted: i64 = rows.iter().map(|row| row.get::<_, i64>("n")).sum();
        assert_eq!((rows.len(), counted), (3, 20 - least));
    }
    // COPY in and out, in text.
    let mut sink =
        Box::pin(client.copy_in::<_, bytes::Bytes>(r#"COPY ibis_pandas_memtable_x (a, b) FROM STDIN"#).await.unwrap());
    sink.send(bytes::Bytes::from_static(b"100\tx\n101\t\\N\n")).await.unwrap();
    assert_eq!(sink.as_mut().finish().await.unwrap(), 2);
    let out = "COPY (SELECT a, b FROM ibis_pandas_memtable_x WHERE a >= 100 ORDER BY a) TO STDOUT";
    let copied: Vec<bytes::Bytes> = client.copy_out(out).await.unwrap().try_collect().await.unwrap();
    assert_eq!(copied.concat(), b"100\tx\n101\t\\N\n");
    assert_eq!(
        rows(&client, "SELECT * FROM ibis_pandas_memtable_x WHERE a >= 100 ORDER BY a").await,
        [["100", "x", "NULL"], ["101", "NULL", "NULL"]]
    );
    // The plan of a statement that was prepared before its table became another.
    let before = client.prepare("SELECT count(*) FROM ibis_pandas_memtable_x").await.unwrap();
    client
        .batch_execute("DROP TABLE ibis_pandas_memtable_x; CREATE TEMP TABLE ibis_pandas_memtable_x (z INT)")
        .await
        .unwrap();
    assert_eq!(client.query_one(&before, &[]).await.unwrap().get::<_, i64>(0), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_that_takes_a_connection_back_finds_no_tables() {
    let served = serve().await;
    let client = served.client().await;
    client.batch_execute("CREATE TEMP TABLE t AS SELECT 1 AS a; CREATE TABLE kept AS SELECT 2 AS a").await.unwrap();
    client.batch_execute("DISCARD ALL").await.unwrap();
    assert_eq!(state(&client.batch_execute("SELECT * FROM t").await.unwrap_err()), "42P01");
    assert_eq!(texts(&client, "SELECT a FROM kept").await, ["2"]);
    client.batch_execute("CREATE TEMP TABLE t AS SELECT 3 AS a").await.unwrap();
    // As in PostgreSQL, it says what it did.
    let messages = client.simple_query("DISCARD TEMP").await.unwrap();
    assert!(matches!(messages.last(), Some(SimpleQueryMessage::CommandComplete(_))));
    assert_eq!(state(&client.batch_execute("SELECT * FROM t").await.unwrap_err()), "42P01");
}

#[tokio::test(flavor = "multi_thread")]
async fn catalogs_tell_temporary_tables_from_others() {
    let served = serve().await;
    let client = served.client().await;
    let other = served.client().await;
    client.batch_execute("CREATE TABLE stays (a INT); CREATE TEMP TABLE goes (a INT, b TEXT)").await.unwrap();
    let persistence =
        "SELECT relname, relpersistence FROM pg_class WHERE relname IN ('stays', 'goes') ORDER BY relname";
    assert_eq!(rows(&client, persistence).await, [["goes", "t"], ["stays", "p"]]);
    assert_eq!(rows(&other, persistence).await, [["stays", "p"]]);
    let kinds =
        "SELECT table_name, table_type FROM information_schema.tables WHERE table_name IN ('stays', 'goes') ORDER BY 1";
    assert_eq!(rows(&client, kinds).await, [["goes", "LOCAL TEMPORARY"], ["stays", "BASE TABLE"]]);
    let schema = "SELECT n.nspname LIKE 'pg_temp_%', n.oid = pg_my_temp_schema() FROM pg_class c \
                  JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relname = 'goes'";
    assert_eq!(rows(&client, schema).await, [["t", "t"]]);
    assert_eq!(texts(&client, "SELECT 'goes'::regclass").await, ["goes"]);
    let columns =
        "SELECT column_name FROM information_schema.columns WHERE table_name = 'goes' ORDER BY ordinal_position";
    assert_eq!(texts(&client, columns).await, ["a", "b"]);
}
