//! COPY over the wire, in every format.

use crate::support::{serve, state, texts};
use futures::{SinkExt, TryStreamExt};
use std::pin::pin;
use tokio_postgres::Client;

async fn copy_in(client: &Client, sql: &str, data: &[u8]) -> Result<u64, tokio_postgres::Error> {
    let mut sink = pin!(client.copy_in::<_, bytes::Bytes>(sql).await?);
    for chunk in data.chunks(1_000) {
        sink.send(bytes::Bytes::copy_from_slice(chunk)).await?;
    }
    sink.finish().await
}

async fn copy_out(client: &Client, sql: &str) -> Vec<u8> {
    let stream = client.copy_out(sql).await.unwrap();
    stream
        .try_fold(Vec::new(), |mut all, bytes| async move {
            all.extend_from_slice(&bytes);
            Ok(all)
        })
        .await
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_out_comes_in_in_every_format() {
    let served = serve().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE TABLE t (a INT, b TEXT, c DOUBLE, d DECIMAL(12, 3), e TIMESTAMP, f TIMESTAMPTZ, g DATE, h BYTEA, i BOOLEAN);
             CREATE TABLE u (a INT, b TEXT, c DOUBLE, d DECIMAL(12, 3), e TIMESTAMP, f TIMESTAMPTZ, g DATE, h BYTEA, i BOOLEAN)",
        )
        .await
        .unwrap();
    client
        .batch_execute(
            "INSERT INTO t VALUES (1, 'a,\"b\"\t\\\n', 0.1, -12.345, '2026-01-02 03:04:05.678', '2026-01-02 03:04:05+01', '1999-12-31', '\\x00ff', true),
             (NULL, '', 'NaN', 0, '1969-12-31 23:59:59', NULL, NULL, '\\x', false), (-7, NULL, NULL, NULL, NULL, NULL, '2026-02-28', NULL, NULL)",
        )
        .await
        .unwrap();
    for options in [
        "",
        "(FORMAT csv)",
        "(FORMAT csv, HEADER true, DELIMITER ';', NULL 'none')",
        "(FORMAT binary)",
        "(FORMAT ndjson)",
        "(DELIMITER '|', NULL '')",
    ] {
        // An empty text and NULL are one in the last one.
        let columns = if options.contains("NULL ''") { "(a, c, d)" } else { "" };
        let data = copy_out(&client, &format!("COPY t {columns} TO STDOUT {options}")).await;
        let rows = copy_in(&client, &format!("COPY u {columns} FROM STDIN {options}"), &data).await.unwrap();
        assert_eq!(rows, 3, "{options}");
        let select = if columns.is_empty() { "*" } else { "a, c, d" };
        let differ = format!("SELECT count(*) FROM (SELECT {select} FROM t EXCEPT SELECT {select} FROM u) AS x");
        assert_eq!(texts(&client, &differ).await, ["0"], "{options}: {}", String::from_utf8_lossy(&data));
        client.batch_execute("DROP TABLE u; CREATE TABLE u (a INT, b TEXT, c DOUBLE, d DECIMAL(12, 3), e TIMESTAMP, f TIMESTAMPTZ, g DATE, h BYTEA, i BOOLEAN)").await.unwrap();
    }
    let text = copy_out(&client, "COPY (SELECT a, b, c FROM t ORDER BY a) TO STDOUT").await;
    assert_eq!(String::from_utf8(text).unwrap(), "-7\t\\N\t\\N\n1\ta,\"b\"\\t\\\\\\n\t0.1\n\\N\t\tNaN\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_row_refuses_all_and_says_where() {
    let served = serve().await;
    let client = served.client().await;
    client.batch_execute("CREATE TABLE t (a INT, b TEXT)").await.unwrap();
    let error = copy_in(&client, "COPY t FROM STDIN", b"1\tx\n2\ty\nthree\tz\n").await.unwrap_err();
    assert_eq!(state(&error), "22P02");
    let message = error.as_db_error().unwrap().message().to_owned();
    assert_eq!(message, "standard input, line 3, column a: 'three' is not a valid INT");
    let error = copy_in(&client, "COPY t FROM STDIN (FORMAT csv)", b"1,x,y\n").await.unwrap_err();
    assert!(error.as_db_error().unwrap().message().contains("line 1: 3 fields where 2 are expected"), "{error:?}");
    for (sql, expected) in [
        ("COPY nothing FROM STDIN", "42P01"),
        ("COPY t (c) FROM STDIN", "42703"),
        ("COPY t FROM STDIN (BATCH_ROWS 5)", "0A000"),
        ("COPY t FROM STDIN (QUOTE 'x')", "22023"),
    ] {
        // The driver sends another Sync after a COPY that does not begin, so each has a connection of its own.
        let client = served.client().await;
        assert_eq!(state(&copy_in(&client, sql, b"").await.unwrap_err()), expected, "{sql}");
    }
    assert_eq!(
        copy_in(&client, "COPY t FROM STDIN (FORMAT binary)", b"1\tx\n").await.map_err(|error| state(&error)),
        Err("22000".to_owned())
    );
    assert_eq!(texts(&client, "SELECT count(*) FROM t").await, ["0"]);
    assert_eq!(copy_in(&client, "COPY t FROM STDIN", b"1\tx\n\\.\n").await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_in_the_middle_has_loaded_nothing() {
    let served = serve().await;
    let client = served.client().await;
    client.batch_execute("CREATE TABLE t (a INT)").await.unwrap();
    {
        let mut sink = pin!(client.copy_in::<_, bytes::Bytes>("COPY t FROM STDIN").await.unwrap());
        sink.send(bytes::Bytes::from_static(b"1\n2\n")).await.unwrap();
        // Dropped: the driver sends CopyFail.
    }
    assert_eq!(texts(&client, "SELECT count(*) FROM t").await, ["0"]);
    let rows: Vec<u8> = (0..300_000).flat_map(|row| format!("{row}\n").into_bytes()).collect();
    assert_eq!(copy_in(&client, "COPY t FROM STDIN", &rows).await.unwrap(), 300_000);
    assert_eq!(texts(&client, "SELECT sum(a) FROM t").await, ["44999850000"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_say_what_they_do_by_key() {
    let served = serve().await;
    let client = served.client().await;
    client.batch_execute("CREATE TABLE k (id INT PRIMARY KEY, a INT, b TEXT)").await.unwrap();
    let rows =
        || texts(&client, "SELECT id || ' ' || coalesce(a::text, '-') || ' ' || coalesce(b, '-') FROM k ORDER BY id");
    assert_eq!(copy_in(&client, "COPY k FROM STDIN", b"1\t1\tx\n2\t2\ty\n").await.unwrap(), 2);
    let error = copy_in(&client, "COPY k FROM STDIN", b"2\t3\tz\n").await.unwrap_err();
    assert_eq!(state(&error), "23505");
    assert_eq!(
        copy_in(&client, "COPY k FROM STDIN WITH (ON_CONFLICT nothing)", b"2\t3\tz\n3\t3\tw\n").await.unwrap(),
        1
    );
    assert_eq!(copy_in(&client, "COPY k FROM STDIN WITH (ON_CONFLICT replace)", b"2\t3\tz\n").await.unwrap(), 1);
    assert_eq!(rows().await, ["1 1 x", "2 3 z", "3 3 w"]);
    copy_in(&client, "COPY k (id, b) FROM STDIN WITH (OP patch)", b"1\txx\n").await.unwrap();
    copy_in(&client, "COPY k (_op, id, a) FROM STDIN", b"d\t3\t\\N\np\t2\t4\nu\t1\t9\n").await.unwrap();
    assert_eq!(rows().await, ["1 9 -", "2 4 z"]);
    let binary = copy_out(&client, "COPY (SELECT 2::int AS id, 5::int AS a) TO STDOUT (FORMAT binary)").await;
    copy_in(&client, "COPY k (id, a) FROM STDIN (FORMAT binary, OP patch)", &binary).await.unwrap();
    assert_eq!(rows().await, ["1 9 -", "2 5 z"]);
    client.batch_execute("CREATE TABLE plain (id INT)").await.unwrap();
    let error = copy_in(&client, "COPY plain FROM STDIN WITH (ON_CONFLICT replace)", b"1\n").await.unwrap_err();
    assert_eq!(state(&error), "42P10");
}
