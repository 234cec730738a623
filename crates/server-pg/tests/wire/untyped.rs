//! Texts in the place of parameters of which nobody said what they are, as node-postgres, libpq and pgbench send them; and what drivers ask of a
//! server between statements.

use crate::raw_messages::{RawClient, message, startup};
use crate::support::{serve, state, texts};
use tokio_postgres::types::Type;

const TABLE: &str = "CREATE TABLE t (id INT, name TEXT, price DECIMAL(10, 2), at TIMESTAMP);
    INSERT INTO t VALUES (1, 'ab@x', 1.50, '2024-01-01 10:00:00'), (2, 'cd@y', 2.25, '2024-01-02 10:00:00'), (3, 'ef@z', 4, '2024-01-03 10:00:00')";

/// The rows of a statement with these values, without a Describe of it, as their texts.
async fn asked(raw: &mut RawClient, sql: &str, values: &[&str]) -> Vec<String> {
    let parse = message(b'P', &[b"\0", sql.as_bytes(), b"\0\0\0"].concat());
    let value = |value: &&str| [&(value.len() as u32).to_be_bytes()[..], value.as_bytes()].concat();
    let values: Vec<Vec<u8>> = values.iter().map(value).collect();
    let count = (values.len() as u16).to_be_bytes();
    let bind = message(b'B', &[&b"\0\0\0\0"[..], &count, &values.concat(), b"\0\0"].concat());
    raw.send_raw(&[parse, bind, message(b'E', b"\0\0\0\0\0"), message(b'S', b"")].concat()).await;
    let messages = raw.until_ready().await;
    let error = messages.iter().find(|(kind, _)| *kind == b'E').map(|(_, body)| String::from_utf8_lossy(body));
    assert!(error.is_none(), "{sql}: {error:?}");
    // Rows of one column: how many there are, its length, its text.
    let rows = messages.iter().filter(|(kind, _)| *kind == b'D');
    rows.map(|(_, body)| String::from_utf8_lossy(&body[6..]).into_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_are_what_the_statement_says() {
    let served = serve().await;
    served.client().await.batch_execute(TABLE).await.unwrap();
    let mut raw = RawClient::connect(&served).await;
    raw.send_raw(&startup("alluvia")).await;
    raw.until_ready().await;
    let cases: &[(&str, &[&str], &[&str])] = &[
        ("SELECT id FROM t ORDER BY id LIMIT $1", &["2"], &["1", "2"]),
        ("SELECT id FROM t ORDER BY id LIMIT $1 OFFSET $2", &["1", "1"], &["2"]),
        ("SELECT id FROM t WHERE id = $1 + 1", &["2"], &["3"]),
        ("SELECT id FROM t WHERE id = $1", &["2"], &["2"]),
        ("SELECT mod(id, $1) FROM t WHERE id = 3", &["2"], &["1"]),
        ("SELECT id FROM t WHERE $1 ORDER BY id LIMIT 1", &["t"], &["1"]),
        ("SELECT at + $1 * interval '1 day' FROM t WHERE id = 1", &["2"], &["2024-01-03 10:00:00"]),
        ("SELECT at + $1 FROM t WHERE id = 1", &["1 day"], &["2024-01-02 10:00:00"]),
        ("SELECT left(name, $1) FROM t WHERE at = $2", &["2", "2024-01-02 10:00:00"], &["cd"]),
        ("SELECT split_part(name, '@', $1) FROM t WHERE id = 1", &["2"], &["x"]),
        ("SELECT value FROM generate_series(1, $1)", &["2"], &["1", "2"]),
        ("SELECT id FROM t WHERE name = $1 OR id = $2", &["ab@x", "3"], &["1", "3"]),
        ("SELECT name || $1 FROM t WHERE id = 1", &["!"], &["ab@x!"]),
        ("SELECT coalesce($1, id) FROM t WHERE id = 1", &["7"], &["7"]),
    ];
    for (sql, values, expected) in cases {
        assert_eq!(asked(&mut raw, sql, values).await, *expected, "{sql}");
    }
    // Beside JSONB it is JSONB, in whatever form it is written; and its first character makes no list of it.
    let docs = "CREATE TABLE docs (id INT, b JSONB); INSERT INTO docs VALUES (1, '{\"b\": 1, \"aa\": 2}'), (2, '[1]')";
    served.client().await.batch_execute(docs).await.unwrap();
    for (sql, value, expected) in [
        ("SELECT id FROM docs WHERE b = $1", "{\"aa\":2,\"b\":1}", ["1"]),
        ("SELECT id FROM docs WHERE $1 = b", "[1]", ["2"]),
        ("SELECT id FROM docs WHERE b <> $1", "[1]", ["1"]),
        ("SELECT id FROM docs WHERE b @> $1", "{\"b\":1}", ["1"]),
        ("SELECT b || $1 FROM docs WHERE id = 2", "{\"c\":3}", ["[1, {\"c\": 3}]"]),
    ] {
        assert_eq!(asked(&mut raw, sql, &[value]).await, expected, "{sql}");
    }
    // It has the digits of both, not those of the column alone.
    assert_eq!(asked(&mut raw, "SELECT price * $1 FROM t WHERE id = 1", &["0.155"]).await, ["0.23250"]);
    assert!(
        asked(&mut raw, "INSERT INTO t VALUES ($1, $2, $3, $4)", &["4", "n", "1.5", "2024-02-01"]).await.is_empty()
    );
    assert_eq!(asked(&mut raw, "SELECT price FROM t WHERE id = $1", &["4"]).await, ["1.50"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn places_say_what_parameters_are() {
    let served = serve().await;
    let client = served.client().await;
    client.batch_execute(TABLE).await.unwrap();
    for (sql, expected) in [
        ("SELECT $1::numeric, $2::interval, $3::time", vec![Type::NUMERIC, Type::INTERVAL, Type::TIME]),
        ("SELECT now() - $1::interval", vec![Type::INTERVAL]),
        ("SELECT left(name, $1), round(price, $2), power(2, $3) FROM t", vec![Type::INT4, Type::INT4, Type::FLOAT8]),
        (
            "SELECT coalesce($1, id), nullif(id, $2), greatest(price, $3) FROM t",
            vec![Type::INT4, Type::INT4, Type::NUMERIC],
        ),
        ("SELECT lag(id, $1, $2) OVER (ORDER BY id) FROM t", vec![Type::INT4, Type::INT4]),
        ("SELECT percentile_cont($1) WITHIN GROUP (ORDER BY id) FROM t", vec![Type::FLOAT8]),
        ("SELECT at + $1, $2 * interval '1 day' FROM t", vec![Type::INTERVAL, Type::FLOAT8]),
        ("SELECT at - $1 FROM t WHERE $2", vec![Type::TIMESTAMP, Type::BOOL]),
        ("SELECT value FROM generate_series(1, $1)", vec![Type::INT8]),
        ("SELECT value FROM generate_series($1::int, $2::int)", vec![Type::INT4, Type::INT4]),
        ("SELECT * FROM unnest($1::int[], $2::text[]) AS u(a, b)", vec![Type::INT4_ARRAY, Type::TEXT_ARRAY]),
        // The first that it meets.
        ("SELECT 1 FROM t WHERE id = $1 OR price = $1", vec![Type::INT4]),
    ] {
        assert_eq!(client.prepare(sql).await.unwrap().params(), expected, "{sql}");
    }
    let rows = "SELECT a, b FROM unnest($1::int[], $2::int[]) AS u(a, b) ORDER BY a";
    let rows = client.query(rows, &[&vec![1i32, 2], &vec![1i32, 2]]).await.unwrap();
    assert_eq!(rows.iter().map(|row| (row.get(0), row.get(1))).collect::<Vec<(i32, i32)>>(), [(1, 1), (2, 2)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_pool_sends_is_taken() {
    let served = serve().await;
    let client = served.client().await;
    client.batch_execute("SELECT pg_advisory_unlock_all(); CLOSE ALL; UNLISTEN *; RESET ALL;").await.unwrap();
    assert_eq!(texts(&client, "SELECT pg_advisory_unlock_all()").await, [""]);
}

#[tokio::test(flavor = "multi_thread")]
async fn changed_columns_are_told_as_postgresql_tells_them() {
    let served = serve().await;
    let client = served.client().await;
    client.batch_execute("CREATE TABLE t (a INT)").await.unwrap();
    let all = client.prepare("SELECT * FROM t").await.unwrap();
    client.batch_execute("ALTER TABLE t ADD COLUMN b TEXT").await.unwrap();
    // Also of a table without rows.
    let error = client.query(&all, &[]).await.unwrap_err();
    let told = error.as_db_error().unwrap();
    assert_eq!(
        (told.message(), told.routine()),
        ("cached plan must not change result type", Some("RevalidateCachedQuery"))
    );
    assert_eq!(state(&error), "0A000");
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_that_come_again_follow_definitions() {
    let served = serve().await;
    let client = served.client().await;
    client.batch_execute("CREATE TABLE t (a INT); INSERT INTO t VALUES (7)").await.unwrap();
    let mut raw = RawClient::connect(&served).await;
    raw.send_raw(&startup("alluvia")).await;
    raw.until_ready().await;
    let sql = "SELECT a FROM t WHERE a = $1";
    for _ in 0..3 {
        assert_eq!(asked(&mut raw, sql, &["007"]).await, ["7"]);
    }
    client.batch_execute("DROP TABLE t; CREATE TABLE t (a TEXT); INSERT INTO t VALUES ('007'), ('7')").await.unwrap();
    for _ in 0..2 {
        assert_eq!(asked(&mut raw, sql, &["007"]).await, ["007"]);
    }
    // The session's own hides it.
    raw.send_raw(&message(b'Q', b"CREATE TEMPORARY TABLE t (a INT); INSERT INTO t VALUES (8)\0")).await;
    raw.until_ready().await;
    for _ in 0..2 {
        assert_eq!(asked(&mut raw, sql, &["08"]).await, ["8"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_of_varchar_say_their_length() {
    let served = serve().await;
    let client = served.client().await;
    let table = "CREATE TABLE names (id INT PRIMARY KEY, name VARCHAR(10), rest TEXT, code CHAR(3));
        INSERT INTO names VALUES (1, 'a', 'b', 'c')";
    client.batch_execute(table).await.unwrap();
    let statement = client.prepare("SELECT name, rest, upper(name), code FROM names n ORDER BY id").await.unwrap();
    let types: Vec<&Type> = statement.columns().iter().map(|column| column.type_()).collect();
    assert_eq!(types, [&Type::VARCHAR, &Type::TEXT, &Type::TEXT, &Type::BPCHAR]);
    let mut raw = RawClient::connect(&served).await;
    raw.send_raw(&startup("alluvia")).await;
    raw.until_ready().await;
    for sql in
        ["SELECT name FROM names", "SELECT x.name FROM (SELECT * FROM names) x", "SELECT name FROM names WHERE id = 1"]
    {
        raw.send_raw(&message(b'Q', &[sql.as_bytes(), b"\0"].concat())).await;
        let messages = raw.until_ready().await;
        let (_, described) = messages.iter().find(|(kind, _)| *kind == b'T').unwrap();
        // VARCHAR, of any size, of 10 characters and 4 more, as text.
        assert!(described.ends_with(&[0, 0, 4, 19, 255, 255, 0, 0, 0, 14, 0, 0]), "{sql}: {described:?}");
    }
}
