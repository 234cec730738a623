//! `POST /query` in every format.

use crate::client::answered;
use crate::support::{Served, serve};
use arrow::array::RecordBatch;
use arrow::ipc::reader::StreamReader;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::json;
use std::time::Duration;
use tokio::io::AsyncReadExt;

const NUMBERS: &str = "SELECT value AS n, 'text ' || (value % 3) AS t FROM generate_series(1, 30000) ORDER BY n";

#[tokio::test(flavor = "multi_thread")]
async fn json_has_columns_rows_and_what_was_used() {
    let served = serve().await;
    assert_eq!(served.query("CREATE TABLE t (a INT, b TEXT, c DECIMAL(10, 2), d TIMESTAMP)").await.status, 200);
    let inserted =
        served.query("INSERT INTO t VALUES (1, 'ä\"', 1.50, '2026-11-21 10:00:00'), (2, NULL, NULL, NULL)").await;
    let json = inserted.json();
    assert_eq!((&json["tag"], &json["rows"], &json["columns"]), (&json!("INSERT 0 2"), &json!([]), &json!([])));
    let answer = served.query("SELECT a, b, c FROM t ORDER BY a").await;
    assert_eq!((answer.status, answer.content_type(), answer.whole), (200, "application/json", true));
    assert_eq!(answer.headers["alluvia-version"], "2");
    let json = answer.json();
    let columns =
        json!([{"name": "a", "type": "INT"}, {"name": "b", "type": "TEXT"}, {"name": "c", "type": "DECIMAL(10, 2)"}]);
    assert_eq!(json["columns"], columns);
    assert_eq!(json["rows"][0], json!({"a": 1, "b": "ä\"", "c": json["rows"][0]["c"]}));
    assert_eq!(json["rows"][1], json!({"a": 2, "b": null, "c": null}));
    assert_eq!((&json["row_count"], &json["tag"], &json["used"]["version"]), (&json!(2), &json!("SELECT"), &json!(2)));
    assert_eq!(json["used"]["lag_seconds"], json!(0.0));
    assert!(json["used"].as_object().unwrap().contains_key("sample") && json["used"]["sample"].is_null(), "{json}");
    // No rows is an empty array, in whatever way the query ends.
    for empty in ["SELECT a FROM t WHERE a = 9", "SELECT a FROM t LIMIT 0"] {
        assert_eq!(served.rows(empty).await, json!([]), "{empty}");
    }
    assert_eq!(served.rows("SHOW TABLES").await.as_array().unwrap().len(), 1);
    let repeated = served.query("SELECT x.a, y.a FROM t AS x JOIN t AS y ON x.a = y.a").await;
    assert_eq!(repeated.error(), (400, "42701".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn moments_are_texts_of_the_zone_that_is_asked_for() {
    let served = serve().await;
    let sql = "SELECT '2026-07-01 00:00Z'::timestamptz AS at";
    let ask = |path: &str, accept: &str| served.ask("POST", path).header("accept", accept).body(sql).send();
    let zoned = "/query?timezone=Europe/Berlin";
    let rows = |at: &str| json!([{ "at": at }]);
    assert_eq!(ask(zoned, "application/json").await.json()["rows"], rows("2026-07-01T02:00:00+02:00"));
    assert_eq!(ask("/query", "application/json").await.json()["rows"], rows("2026-07-01T00:00:00Z"));
    assert_eq!(ask(zoned, "text/csv").await.text(), "at\n2026-07-01 02:00:00+02\n");
    let events = ask(zoned, "text/event-stream").await.text();
    assert!(events.contains(r#"[{"at":"2026-07-01T02:00:00+02:00"}]"#), "{events}");
}

/// Every format gives the rows that the session itself gives.
#[tokio::test(flavor = "multi_thread")]
async fn all_formats_have_the_same_rows() {
    let served = serve().await;
    let ask = |accept: &str| served.ask("POST", "/query").header("accept", accept).body(NUMBERS).send();
    let expected = |at: usize| (at as i64 + 1, format!("text {}", (at + 1) % 3));
    let json = served.query(NUMBERS).await.json();
    assert_eq!((json["row_count"].as_u64(), json["rows"].as_array().map(Vec::len)), (Some(30_000), Some(30_000)));
    let lines = ask("application/x-ndjson").await;
    assert!(lines.whole && lines.text().lines().count() == 30_000);
    for (at, line) in lines.text().lines().enumerate() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!((row["n"].as_i64().unwrap(), row["t"].as_str().unwrap().to_owned()), expected(at));
        assert_eq!(json["rows"][at], row);
    }
    let csv = ask("text/csv").await.text();
    assert_eq!(csv.lines().next(), Some("n,t"));
    assert!(csv.lines().skip(1).enumerate().all(|(at, line)| line == format!("{},{}", expected(at).0, expected(at).1)));
    let arrow = ask("application/vnd.apache.arrow.stream").await;
    let arrow: Vec<RecordBatch> =
        StreamReader::try_new(arrow.body.as_slice(), None).unwrap().map(Result::unwrap).collect();
    let parquet = ask("application/vnd.apache.parquet").await;
    assert_eq!((parquet.content_type(), parquet.whole), ("application/vnd.apache.parquet", true));
    let parquet = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(parquet.body)).unwrap().build().unwrap();
    let parquet: Vec<RecordBatch> = parquet.map(Result::unwrap).collect();
    for batches in [arrow, parquet] {
        let text =
            |array: &dyn arrow::array::Array, row| arrow::util::display::array_value_to_string(array, row).unwrap();
        let mut at = 0;
        for batch in &batches {
            for row in 0..batch.num_rows() {
                let (n, t) = expected(at);
                assert_eq!((text(batch.column(0), row), text(batch.column(1), row)), (n.to_string(), t));
                at += 1;
            }
        }
        assert_eq!(at, 30_000);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_and_settings_are_taken_or_refused_by_name() {
    let served = serve().await;
    let ask = |path: &str, body: serde_json::Value| {
        served.ask("POST", path).header("content-type", "application/json").body(body.to_string()).send()
    };
    let body = json!({"sql": "SELECT $1 + 1 AS a, $2 AS b, $3 IS NULL AS c", "parameters": [41, "x'y", null]});
    assert_eq!(ask("/query", body).await.json()["rows"], json!([{"a": 42, "b": "x'y", "c": true}]));
    let show = json!({"sql": "SHOW freshness", "settings": {"freshness": "5s", "threads": 1}});
    assert_eq!(ask("/query?durability=relaxed", show.clone()).await.json()["rows"], json!([{"freshness": "5s"}]));
    assert_eq!(
        served.ask("POST", "/query?freshness=merged").body("SHOW freshness").send().await.json()["rows"],
        json!([{"freshness": "merged"}])
    );
    for (path, body, place) in [
        ("/query?freshness=1s", show.clone(), "freshness"),
        ("/query?freshnes=1s", json!({"sql": "SELECT 1"}), "setting freshnes"),
        ("/query", json!({"sql": "SELECT 1", "settings": {"freshness": "soon"}}), "setting freshness"),
        ("/query", json!({"sql": "SELECT 1", "parameters": [[1]]}), "parameters[0]"),
    ] {
        let answer = ask(path, body).await;
        assert_eq!((answer.status, answer.json()["error"]["where"].as_str()), (400, Some(place)), "{}", answer.text());
    }
    assert_eq!(ask("/query", json!({"sql": "SELECT $1"})).await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_a_status_a_state_and_what_to_do() {
    let served = serve().await;
    served.query("CREATE TABLE t (a INT)").await;
    for (sql, status, state) in [
        ("SELEC 1", 400, "42601"),
        ("", 400, "42601"),
        ("SELECT 1; SELECT 2", 400, "42601"),
        ("SELECT * FROM nothing", 404, "42P01"),
        ("SELECT b FROM t", 400, "42703"),
        ("SELECT 1/0", 400, "22012"),
        ("CREATE TABLE t (a INT)", 409, "42P07"),
        ("BEGIN", 501, "0A000"),
        ("SET freshness = '1s'", 501, "0A000"),
        ("COPY t FROM STDIN", 501, "0A000"),
    ] {
        assert_eq!(served.query(sql).await.error(), (status, state.to_owned()), "{sql}");
    }
    let near = served.query("SELECT b FROM t").await.json();
    assert!(near["error"]["hint"].as_str().unwrap().contains('a'), "{near}");
    assert_eq!(
        served
            .ask("POST", "/query?statement_timeout=50ms")
            .body("SELECT count(*) FROM generate_series(1, 1000000000000)")
            .send()
            .await
            .error(),
        (504, "57014".to_owned())
    );
}

/// A division by zero after many rows.
const LATE: &str = "SELECT 10 / (150000 - value) AS n FROM generate_series(1, 1000000)";

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_fails_half_way_is_seen_to_be_cut() {
    let served = serve().await;
    for accept in ["application/json", "application/x-ndjson", "text/csv", "application/vnd.apache.arrow.stream"] {
        let answer = served.ask("POST", "/query?threads=1").header("accept", accept).body(LATE).send().await;
        assert_eq!((answer.status, answer.whole), (200, false), "{accept}");
        if accept == "application/json" {
            let text = answer.text();
            assert!(text.contains("],\"error\":{\"code\":\"22012\""), "{}", &text[text.len().saturating_sub(200)..]);
            assert!(serde_json::from_str::<serde_json::Value>(&text).is_err());
        }
    }
    assert_eq!(served.rows("SELECT 1 AS a").await, json!([{"a": 1}]));
}

/// The end of time, which no calendar here knows.
const NO_FORM: &str = "SELECT arrow_cast(9223372036854775807, 'Timestamp(Microsecond, None)') AS a";
/// The same after many rows.
const NO_FORM_LATE: &str = "SELECT arrow_cast(CASE WHEN value = 150000 THEN 9223372036854775807 ELSE value END, \
     'Timestamp(Microsecond, None)') AS a FROM generate_series(1, 200000)";

#[tokio::test(flavor = "multi_thread")]
async fn a_value_that_json_has_no_form_for_is_an_error_and_no_data() {
    let served = serve().await;
    let ask = |accept: &str, sql: &str| {
        served.ask("POST", "/query?threads=1").header("accept", accept).body(sql.to_owned()).send()
    };
    for accept in ["application/json", "application/x-ndjson"] {
        assert_eq!(ask(accept, NO_FORM).await.error(), (400, "22000".to_owned()), "{accept}");
        let late = ask(accept, NO_FORM_LATE).await;
        assert_eq!((late.status, late.whole), (200, false), "{accept}");
        let text = late.text();
        assert!(!text.contains("ERROR") && !text.contains("Cast error"), "{accept}");
        if accept == "application/json" {
            assert!(text.contains("],\"error\":{\"code\":\"22000\""), "{}", &text[text.len().saturating_sub(300)..]);
        }
    }
    let events_of = ask("text/event-stream", NO_FORM).await;
    let text = events_of.text();
    assert_eq!(events(&text, "error")[0]["error"]["code"], json!("22000"), "{text}");
    assert!(events(&text, "rows").is_empty() && events(&text, "end").is_empty(), "{text}");
    // What has a form for it has it still.
    for accept in ["text/csv", "application/vnd.apache.arrow.stream"] {
        let answer = ask(accept, NO_FORM).await;
        assert_eq!((answer.status, answer.whole), (200, true), "{accept}");
    }
}

/// Waits until so many statements like this run.
async fn until_running(served: &Served, like: &str, count: u64) {
    let sql = format!(
        "SELECT count(*) AS n FROM alluvia.queries WHERE status = 'running' AND sql LIKE '{like}' AND sql NOT LIKE '%alluvia%'"
    );
    while served.rows(&sql).await[0]["n"] != json!(count) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_cancels_its_statement() {
    let served = serve().await;
    // Before the answer, and in the middle of it.
    for sql in
        ["SELECT count(*) FROM generate_series(1, 1000000000000)", "SELECT * FROM generate_series(1, 1000000000000)"]
    {
        let mut stream = served.ask("POST", "/query").body(sql).begin().await;
        until_running(&served, "%1000000000000)", 1).await;
        if sql.starts_with("SELECT *") {
            let _ = stream.read(&mut [0; 1000]).await.unwrap();
        }
        drop(stream);
        until_running(&served, "%1000000000000)", 0).await;
    }
}

/// The data of all events of a name.
fn events(text: &str, name: &str) -> Vec<serde_json::Value> {
    let data = text
        .split("\n\n")
        .filter(|event| event.starts_with(&format!("event: {name}\n")))
        .map(|event| event.lines().skip(1).map(|line| line.strip_prefix("data: ").unwrap()).collect::<String>());
    data.map(|data| serde_json::from_str(&data).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn events_tell_of_refinements_where_they_are_asked_for() {
    let served = serve().await;
    for sql in [
        "CREATE TABLE many (k TEXT, n BIGINT) WITH (dimensions = 'k', measures = 'n')",
        "INSERT INTO many SELECT 'k' || (value * 7919 % 1000), value % 100 FROM generate_series(1, 700000)",
        "CALL alluvia.merge()",
    ] {
        let answer = served.ask("POST", "/query").body(sql).send().await;
        assert!(answer.status < 300, "{}", answer.text());
    }
    let ask = |settings: &str| {
        let request = served.ask("POST", &format!("/query?cuboids=off{settings}"));
        request
            .header("accept", "text/event-stream")
            .body("SELECT count(*) AS c, sum(n) AS s FROM many WHERE k < 'k7'")
            .send()
    };
    let (plain, progressive) = (ask("").await, ask("&progressive=on").await);
    let (plain, progressive) = (plain.text(), progressive.text());
    for name in ["columns", "rows"] {
        assert_eq!(events(&plain, name), events(&progressive, name));
    }
    assert_eq!(events(&progressive, "end")[0]["row_count"], json!(1));
    assert!(events(&plain, "refinement").is_empty());
    let refinements = events(&progressive, "refinement");
    let exact = &events(&plain, "rows")[0][0];
    assert!(refinements.len() > 2, "{progressive}");
    let mut before = 0.0;
    for refinement in &refinements {
        let fraction = refinement["fraction"].as_f64().unwrap();
        assert!(fraction > before && fraction < 1.0, "{refinement}");
        before = fraction;
        let (lower, upper) = (&refinement["lower"][0], &refinement["upper"][0]);
        for column in ["c", "s"] {
            let [low, value, high, exact] =
                [lower, &refinement["rows"][0], upper, exact].map(|row| row[column].as_f64().unwrap());
            assert!(low <= value && value <= high && (value / exact - 1.0).abs() < 0.2, "{refinement}");
        }
        assert_eq!((&refinement["confidence"], &refinement["version"]), (&json!(0.95), &refinements[0]["version"]));
    }
    // A statement that is never estimated is answered as ever.
    let request = served.ask("POST", "/query?progressive=on").header("accept", "text/event-stream");
    let answer = request.body("SELECT 1 AS a").send().await.text();
    assert_eq!((events(&answer, "rows"), events(&answer, "refinement").len()), (vec![json!([{"a": 1}])], 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn events_tell_of_progress_and_then_the_answer() {
    let served = serve().await;
    let ask = |sql: &str| served.ask("POST", "/query").header("accept", "text/event-stream").body(sql).send();
    let answer = ask("SELECT value AS n FROM generate_series(1, 20000)").await;
    assert_eq!((answer.status, answer.content_type(), answer.whole), (200, "text/event-stream", true));
    let text = answer.text();
    let event = |name: &str| events(&text, name);
    assert_eq!(event("columns"), [json!([{"name": "n", "type": "BIGINT"}])]);
    let rows: Vec<serde_json::Value> = event("rows").iter().flat_map(|rows| rows.as_array().unwrap().clone()).collect();
    assert!(rows.len() == 20_000 && rows.iter().enumerate().all(|(at, row)| row["n"] == json!(at + 1)));
    assert_eq!(event("end")[0]["row_count"], json!(20_000));
    // One that fails says so as its last event.
    let failed = ask("SELECT 1/0").await;
    assert!(
        failed.whole && failed.text().contains("event: error\ndata: {\"error\":{\"code\":\"22012\""),
        "{}",
        failed.text()
    );
    // A long one tells how far it is.
    let mut stream = served
        .ask("POST", "/query?statement_timeout=900ms")
        .header("accept", "text/event-stream")
        .body("SELECT count(*) FROM generate_series(1, 1000000000000)")
        .begin()
        .await;
    let mut all = Vec::new();
    stream.read_to_end(&mut all).await.unwrap();
    let text = answered(&all).text();
    assert!(text.contains("event: progress") && text.contains("elapsed_seconds") && text.ends_with("\n\n"), "{text}");
    assert!(text.contains("57014"), "{text}");
}
