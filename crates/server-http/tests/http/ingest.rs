//! `POST /ingest/TABLE`: formats, atomicity, keys.

use crate::support::{Served, database, serve, serve_with};
use alluvia_server_http::{Server, ServerOptions};
use arrow::array::{ArrayRef, BinaryArray, DictionaryArray, Int32Array, RecordBatch, RunArray, StringArray};
use arrow::datatypes::Int32Type;
use arrow::ipc::writer::{FileWriter, StreamWriter};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::Arc;

async fn table(served: &Served) {
    assert_eq!(served.query("CREATE TABLE t (a INT NOT NULL, b TEXT)").await.status, 200);
}

fn batch() -> RecordBatch {
    let (a, b) = (Int32Array::from(vec![1, 2, 3]), StringArray::from(vec![Some("x"), None, Some("ä,\"")]));
    RecordBatch::try_from_iter([("a", Arc::new(a) as _), ("b", Arc::new(b) as _)]).unwrap()
}

/// The same three rows in every format.
pub fn bodies() -> Vec<(&'static str, Vec<u8>)> {
    let batch = batch();
    let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    stream.write(&batch).unwrap();
    let mut file = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    file.write(&batch).unwrap();
    let mut parquet = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    parquet.write(&batch).unwrap();
    vec![
        ("text/csv", b"a,b\n1,x\n2,\n3,\"\xc3\xa4,\"\"\"\n".to_vec()),
        ("application/x-ndjson", "{\"a\":1,\"b\":\"x\"}\n{\"a\":2}\n{\"b\":\"ä,\\\"\",\"a\":3}\n".into()),
        ("application/json", "[{\"a\": 1, \"b\": \"x\"},\n {\"a\": 2}, {\"b\": \"ä,\\\"\",\n\"a\": 3}]\n".into()),
        ("application/vnd.apache.arrow.stream", stream.into_inner().unwrap()),
        ("application/vnd.apache.arrow.file", file.into_inner().unwrap()),
        ("application/vnd.apache.parquet", parquet.into_inner().unwrap()),
    ]
}

pub fn packed(body: &[u8], encoding: &str) -> Vec<u8> {
    match encoding {
        "gzip" => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            out.write_all(body).unwrap();
            out.finish().unwrap()
        }
        "zstd" => zstd::encode_all(body, 1).unwrap(),
        _ => body.to_vec(),
    }
}

async fn count(served: &Served) -> Value {
    served.rows("SELECT count(*) AS n FROM t").await[0]["n"].clone()
}

#[tokio::test(flavor = "multi_thread")]
#[allow(clippy::disallowed_methods)] // it looks at what is left on the disk
async fn every_format_and_packing_brings_the_same_rows() {
    let served = serve().await;
    table(&served).await;
    let mut version = 1;
    for (content_type, body) in bodies() {
        for encoding in ["identity", "gzip", "zstd"] {
            let ask = served
                .ask("POST", "/ingest/t")
                .header("content-type", content_type)
                .header("content-encoding", encoding);
            let body = packed(&body, encoding);
            let answer = if version % 2 == 0 { ask.body(body).chunked() } else { ask.body(body) }.send().await;
            version += 1;
            assert_eq!(answer.status, 200, "{content_type} {encoding}: {}", answer.text());
            assert_eq!(answer.json(), json!({"rows": 3, "version": version, "duplicate": false}));
        }
    }
    let rows = served.rows("SELECT a, b, count(*) AS n FROM t GROUP BY a, b ORDER BY a").await;
    assert_eq!(
        rows,
        json!([{"a": 1, "b": "x", "n": 18}, {"a": 2, "b": null, "n": 18}, {"a": 3, "b": "ä,\"", "n": 18}])
    );
    // What was spooled is gone.
    let folders = std::fs::read_dir(served.dir.path().join("db/spill")).unwrap();
    let left: usize = folders.map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap().count()).sum();
    assert_eq!(left, 0);
    // Nothing, as a body, is no batch.
    let nothing = served.ask("POST", "/ingest/t").header("content-type", "text/csv").send().await;
    assert_eq!(nothing.json(), json!({"rows": 0, "version": null, "duplicate": false}));
    // A table in a schema is named with it.
    for sql in ["CREATE SCHEMA s", "CREATE TABLE s.t (a INT)"] {
        assert_eq!(served.query(sql).await.status, 200);
    }
    for path in ["/ingest/s.t", "/ingest/t?search_path=s"] {
        let taken = served.ask("POST", path).header("content-type", "text/csv").body("a\n7\n").send().await;
        assert_eq!(taken.status, 200, "{path}: {}", taken.text());
    }
    assert_eq!(served.rows("SELECT a, count(*) AS n FROM s.t GROUP BY a").await, json!([{"a": 7, "n": 2}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn options_say_how_csv_is_read() {
    let served = serve().await;
    table(&served).await;
    let ask = |path: &str, body: &str| served.ask("POST", path).header("content-type", "text/csv").body(body).send();
    assert_eq!(ask("/ingest/t?header=false&delimiter=;&null=NA&columns=b,a", "x;1\nNA;2\n").await.status, 200);
    assert_eq!(served.rows("SELECT * FROM t ORDER BY a").await, json!([{"a": 1, "b": "x"}, {"a": 2, "b": null}]));
    for (path, status) in [
        ("/ingest/t?delimiter=long", 400),
        ("/ingest/t?colour=red", 400),
        ("/ingest/t?columns=c", 400),
        ("/ingest/nothing", 404),
        ("/ingest/t/x", 404),
        ("/ingest/%FF", 400),
    ] {
        assert_eq!(ask(path, "1,x\n").await.status, status, "{path}");
    }
    let ndjson =
        served.ask("POST", "/ingest/t?delimiter=;").header("content-type", "application/x-ndjson").body("{}").send();
    assert_eq!(ndjson.await.error(), (400, "22023".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_is_too_long_is_refused_in_every_format() {
    let served = serve().await;
    // The third row's text has three characters, and four bytes.
    for (chars_max, status) in [(2, 400), (3, 200)] {
        let sql = format!("CREATE TABLE t{chars_max} (a INT NOT NULL, b VARCHAR({chars_max}))");
        assert_eq!(served.query(&sql).await.status, 200);
        for (content_type, body) in bodies() {
            let ask = served.ask("POST", &format!("/ingest/t{chars_max}")).header("content-type", content_type);
            let answer = ask.body(body).send().await;
            assert_eq!(answer.status, status, "{content_type}: {}", answer.text());
            if status == 400 {
                assert_eq!(answer.error(), (400, "22001".to_owned()), "{content_type}");
                assert!(answer.text().contains("is too long for VARCHAR(2)"), "{}", answer.text());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_row_is_named_and_nothing_is_applied() {
    let served = serve().await;
    table(&served).await;
    let good = "1,x\n".repeat(50_000);
    for (content_type, body, status, state, place) in [
        ("text/csv", format!("{good}four,y\n"), 400, "22P02", "the body, line 50001, column a"),
        ("text/csv", "1,x\n,y\n".to_owned(), 400, "23502", "the body, line 2, column a"),
        ("application/json", "[{\"a\":1},\n\n{\"a\":null}]".to_owned(), 400, "23502", "the body, line 2, column a"),
        ("application/x-ndjson", "{\"a\":1}\n{\"a\":\n".to_owned(), 400, "22000", "the body, line 2"),
        ("application/x-ndjson", "{\"a\":1}\n{\"a\":2,\"c\":3}\n".to_owned(), 400, "22000", "the body, line 2"),
    ] {
        let answer = served.ask("POST", "/ingest/t").header("content-type", content_type).body(body).send().await;
        assert_eq!(answer.error(), (status, state.to_owned()), "{}", answer.text());
        assert_eq!(answer.json()["error"]["where"].as_str(), Some(place), "{}", answer.text());
    }
    for (content_type, body) in bodies() {
        if content_type.contains("apache") {
            for cut in [0, 3, body.len() / 2] {
                let answer = served
                    .ask("POST", "/ingest/t")
                    .header("content-type", content_type)
                    .body(&body[..cut])
                    .send()
                    .await;
                assert_eq!(answer.status, 400, "{content_type} cut at {cut}: {}", answer.text());
            }
        }
        let ask =
            served.ask("POST", "/ingest/t").header("content-type", content_type).header("content-encoding", "gzip");
        assert_eq!(ask.body(body.clone()).send().await.status / 100, 4, "{content_type}, which is not packed");
    }
    let lengths = [&[0xff; 4][..], &i32::MAX.to_le_bytes(), b"x"].concat();
    let answer = served
        .ask("POST", "/ingest/t")
        .header("content-type", "application/vnd.apache.arrow.stream")
        .body(lengths)
        .send();
    assert_eq!(answer.await.error(), (413, "54000".to_owned()));
    assert_eq!(count(&served).await, json!(0));
}

/// What COPY has and a request has not is in no hint.
#[tokio::test(flavor = "multi_thread")]
async fn hints_name_what_a_request_has() {
    let served = serve().await;
    table(&served).await;
    let ask = |path: &str, content_type: &str, body: Vec<u8>| {
        served.ask("POST", path).header("content-type", content_type).body(body).send()
    };
    let mut other = StreamWriter::try_new(
        Vec::new(),
        &RecordBatch::try_from_iter([("zzz", Arc::new(Int32Array::from(vec![1])) as _)]).unwrap().schema(),
    )
    .unwrap();
    other.finish().unwrap();
    let csv = |text: &str| ("text/csv", text.as_bytes().to_vec());
    for (path, (content_type, body), state, hint) in [
        ("/ingest/t", csv("four,y\n"), "22P02", "correct the row, and send all again"),
        ("/ingest/t?header=true", csv("a,zzz\n1,2\n"), "42703", "list the columns to load: ?columns=a,b"),
        (
            "/ingest/t",
            ("application/vnd.apache.arrow.stream", other.into_inner().unwrap()),
            "42703",
            "list the columns to load: ?columns=a,b",
        ),
        ("/ingest/t?columns=zzz", csv("1\n"), "42703", "the table's columns are a, b"),
    ] {
        let answer = ask(path, content_type, body).await;
        assert_eq!(answer.error(), (400, state.to_owned()), "{path}: {}", answer.text());
        let told = answer.json()["error"]["hint"].as_str().unwrap_or_default().to_owned();
        assert!(told.contains(hint) && !told.contains("COPY") && !told.contains("ON_ERROR"), "{path}: {told}");
    }
    assert_eq!(count(&served).await, json!(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_with_a_key_is_applied_once_also_after_a_restart() {
    let served = serve().await;
    table(&served).await;
    assert_eq!(served.query("CREATE TABLE u (a INT, b TEXT)").await.status, 200);
    let body = "1,x\n2,y\n";
    let ask = |served: &Served, table: &str, key: &str, body: &str| {
        let path = format!("/ingest/{table}");
        served.ask("POST", &path).header("content-type", "text/csv").header("idempotency-key", key).body(body).send()
    };
    let first = ask(&served, "t", "k1", body).await.json();
    assert_eq!((&first["rows"], &first["duplicate"]), (&json!(2), &json!(false)));
    let repeated = json!({"rows": 2, "version": first["version"], "duplicate": true});
    assert_eq!(ask(&served, "t", "\"k1\"", body).await.json(), repeated);
    // The body of one that is known is not looked at.
    assert_eq!(ask(&served, "t", "k1", "nonsense").await.json(), repeated);
    // Another table, another key: another batch. One that failed has not used its key.
    assert_eq!(ask(&served, "u", "k1", body).await.json()["duplicate"], json!(false));
    assert_eq!(ask(&served, "t", "k2", "x,y\n").await.status, 400);
    assert_eq!(ask(&served, "t", "k2", "3,z\n").await.json()["duplicate"], json!(false));
    // All at once: one of them is applied.
    let racing = (0..8).map(|_| ask(&served, "t", "k3", "4,r\n"));
    let raced = futures::future::join_all(racing).await;
    assert_eq!(raced.iter().filter(|answer| answer.json()["duplicate"] == json!(false)).count(), 1);
    assert_eq!(count(&served).await, json!(4));
    // One key is in a file, the others in the log; then all are in files.
    for sort in [false, true, true] {
        if sort {
            assert_eq!(served.query("CALL alluvia.flush()").await.status, 200);
            assert_eq!(ask(&served, "t", "k1", body).await.json(), repeated);
        }
    }
    let (db, dir) = served.stop().await;
    drop(db);
    let db = database(dir.path().join("db"));
    let server =
        Server::bind("127.0.0.1:0".parse().unwrap(), ServerOptions::default(), Arc::clone(db.engine())).await.unwrap();
    let address = server.local_addr().unwrap();
    tokio::spawn(server.run(std::future::pending()));
    let ask = |key: &str| {
        crate::client::Asking::new(address, "POST", "/ingest/t")
            .header("content-type", "text/csv")
            .header("idempotency-key", key)
            .body(body)
            .send()
    };
    assert_eq!(ask("k1").await.json(), repeated);
    for key in ["k2", "k3"] {
        assert_eq!(ask(key).await.json()["duplicate"], json!(true), "{key}");
    }
    for wrong in ["", "\u{e4}", &"x".repeat(256)] {
        assert_eq!(ask(wrong).await.status, 400, "{wrong:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_body_is_one_batch_too() {
    let served = serve_with(ServerOptions { body_bytes_max: 200 << 20, ..ServerOptions::default() }).await;
    table(&served).await;
    let line = format!("1,{}\n", "x".repeat(120));
    let body = line.repeat(300_000);
    let ask = || {
        served
            .ask("POST", "/ingest/t")
            .header("content-type", "text/csv")
            .header("idempotency-key", "large")
            .body(body.clone())
            .send()
    };
    let answer = ask().await;
    assert_eq!(answer.json(), json!({"rows": 300_000, "version": 2, "duplicate": false}), "{}", answer.text());
    assert_eq!(ask().await.json(), json!({"rows": 300_000, "version": 2, "duplicate": true}));
    assert_eq!(count(&served).await, json!(300_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_file_that_unpacks_to_many_rows_is_refused_at_the_bound() {
    let served = serve_with(ServerOptions { body_bytes_max: 1 << 20, ..ServerOptions::default() }).await;
    table(&served).await;
    let rows = 1_000_000;
    let text = "x".repeat(1_000);
    let all = [
        RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from(vec![7; rows])) as _)]),
        RecordBatch::try_from_iter([
            ("a", Arc::new(Int32Array::from(vec![7; 2_000])) as _),
            ("b", Arc::new(StringArray::from(vec![text.as_str(); 2_000])) as _),
        ]),
    ];
    for batch in all {
        let batch = batch.unwrap();
        let mut parquet = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        parquet.write(&batch).unwrap();
        let body = parquet.into_inner().unwrap();
        assert!(body.len() < 100_000, "{}", body.len());
        let ask = served.ask("POST", "/ingest/t").header("content-type", "application/vnd.apache.parquet").body(body);
        let answer = ask.send().await;
        assert_eq!(answer.error(), (413, "54000".to_owned()), "{}", answer.text());
        assert!(answer.text().contains("unpacks to more than 1048576 bytes"), "{}", answer.text());
    }
    assert_eq!(count(&served).await, json!(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_a_small_body_names_many_times_counts_as_often() {
    let served = serve_with(ServerOptions { body_bytes_max: 4 << 20, ..ServerOptions::default() }).await;
    served.query("CREATE TABLE texts (b TEXT)").await;
    served.query("CREATE TABLE bytes (b BYTEA)").await;
    // Written out it would be 100 GB.
    let rows = 100_000;
    let value = "x".repeat(1 << 20);
    let texts: ArrayRef = Arc::new(StringArray::from(vec![value.as_str()]));
    let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![value.as_bytes()]));
    for (table, values) in [("texts", &texts), ("bytes", &bytes), ("bytes", &texts), ("texts", &bytes)] {
        let keys = Int32Array::from(vec![0; rows]);
        let dictionary: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::try_new(keys, Arc::clone(values)).unwrap());
        let ends = Int32Array::from(vec![rows as i32]);
        let run: ArrayRef = Arc::new(RunArray::<Int32Type>::try_new(&ends, values.as_ref()).unwrap());
        for column in [dictionary, run] {
            let shown = format!("{} into {table}", column.data_type());
            let batch = RecordBatch::try_from_iter([("b", column)]).unwrap();
            let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
            stream.write(&batch).unwrap();
            let body = stream.into_inner().unwrap();
            assert!(body.len() < 2 << 20, "{shown}: {}", body.len());
            let ask = served.ask("POST", &format!("/ingest/{table}"));
            let answer = ask.header("content-type", "application/vnd.apache.arrow.stream").body(body).send().await;
            assert_eq!(answer.error(), (413, "54000".to_owned()), "{shown}: {}", answer.text());
        }
        // A dictionary's page of Parquet does the same.
        let short = &value[..64 << 10];
        let column: ArrayRef = Arc::new(vec![short; 500].into_iter().collect::<DictionaryArray<Int32Type>>());
        let batch = RecordBatch::try_from_iter([("b", column)]).unwrap();
        let mut parquet = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
        parquet.write(&batch).unwrap();
        let body = parquet.into_inner().unwrap();
        assert!(body.len() < 200_000, "{}", body.len());
        let ask = served.ask("POST", &format!("/ingest/{table}"));
        let answer = ask.header("content-type", "application/vnd.apache.parquet").body(body).send().await;
        assert_eq!(answer.error(), (413, "54000".to_owned()), "{table}: {}", answer.text());
    }
    assert_eq!(served.rows("SELECT count(*) AS n FROM texts").await, json!([{"n": 0}]));
    assert_eq!(served.rows("SELECT count(*) AS n FROM bytes").await, json!([{"n": 0}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_say_what_they_do_by_key() {
    let served = serve().await;
    served.query("CREATE TABLE k (id BIGINT PRIMARY KEY, a INT, b TEXT NOT NULL)").await;
    let ask = |path: &str, body: &str| {
        served.ask("POST", &format!("/ingest/{path}")).header("content-type", "application/x-ndjson").body(body).send()
    };
    let rows = || served.rows("SELECT id, a, b FROM k ORDER BY id");
    let two = "{\"id\": 1, \"a\": 1, \"b\": \"x\"}\n{\"id\": 2, \"a\": 2, \"b\": \"y\"}\n";
    assert_eq!(ask("k", two).await.status, 200);
    let twice = ask("k", two).await;
    assert_eq!(twice.error(), (409, "23505".to_owned()));
    assert_eq!(twice.json()["error"]["where"], "the body, line 1");
    assert_eq!(ask("k?on_conflict=nothing", "{\"id\": 2, \"b\": \"no\"}").await.status, 200);
    assert_eq!(ask("k?on_conflict=replace", "{\"id\": 2, \"b\": \"z\"}").await.status, 200);
    assert_eq!(rows().await, json!([{"id": 1, "a": 1, "b": "x"}, {"id": 2, "a": null, "b": "z"}]));
    // A patch sets what each row gives, and NULL only where it says so.
    let patches = "{\"id\": 1, \"b\": \"xx\"}\n{\"a\": 7, \"id\": 2}\n{\"id\": 1, \"a\": null}\n";
    assert_eq!(ask("k?op=patch", patches).await.status, 200);
    assert_eq!(rows().await, json!([{"id": 1, "a": null, "b": "xx"}, {"id": 2, "a": 7, "b": "z"}]));
    assert_eq!(ask("k?op=patch", "{\"id\": 9, \"a\": 1}").await.error(), (400, "23502".to_owned()));
    // Each row says it, in the order of the rows.
    let mixed = "{\"_op\": \"delete\", \"id\": 1}\n{\"id\": 3, \"b\": \"new\"}\n{\"_op\": \"patch\", \"id\": 3, \"a\": 5}\n\
                 {\"_op\": \"upsert\", \"id\": 2, \"b\": \"whole\"}\n{\"_op\": \"d\", \"id\": 77}\n";
    assert_eq!(ask("k", mixed).await.status, 200);
    let now = json!([{"id": 2, "a": null, "b": "whole"}, {"id": 3, "a": 5, "b": "new"}]);
    assert_eq!(rows().await, now);
    // Of an array, and of other formats by their columns.
    let array = "[{\"_op\": \"u\", \"id\": 4, \"b\": \"four\"}, {\"_op\": \"d\", \"id\": 2}]";
    let of_array = served.ask("POST", "/ingest/k").header("content-type", "application/json").body(array).send().await;
    assert_eq!(of_array.status, 200, "{}", of_array.text());
    let csv = served.ask("POST", "/ingest/k?header=true").header("content-type", "text/csv");
    assert_eq!(csv.body("id,_op\n4,delete\n").send().await.status, 200);
    assert_eq!(rows().await, json!([{"id": 3, "a": 5, "b": "new"}]));
    // What is refused applies nothing.
    let late = "{\"_op\": \"delete\", \"id\": 3}\n{\"_op\": \"upsert\", \"id\": 5}\n";
    let error = ask("k", late).await;
    assert_eq!(error.error(), (400, "23502".to_owned()));
    assert_eq!(error.json()["error"]["where"], "the body, line 2, column b");
    assert_eq!(ask("k", "{\"_op\": \"merge\", \"id\": 3}").await.error(), (400, "22P02".to_owned()));
    assert_eq!(ask("k?op=merge", two).await.error(), (400, "22023".to_owned()));
    assert_eq!(ask("k?on_conflict=replace&op=delete", two).await.error(), (400, "22023".to_owned()));
    assert_eq!(rows().await, json!([{"id": 3, "a": 5, "b": "new"}]));
    table(&served).await;
    assert_eq!(ask("t", "{\"a\": 1, \"_op\": \"delete\"}").await.error(), (400, "42P10".to_owned()));
    for path in ["t?on_conflict=replace", "t?op=delete"] {
        assert_eq!(ask(path, "{\"a\": 1}").await.error(), (400, "42P10".to_owned()), "{path}");
    }
}
