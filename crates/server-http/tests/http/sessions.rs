//! Sessions that see one another, figures, and ending what another session runs.

use crate::client::answered;
use crate::support::serve;
use serde_json::json;
use std::time::Duration;
use tokio::io::AsyncReadExt;

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_listed_and_its_statement_can_be_ended() {
    let served = serve().await;
    let own =
        served.rows("SELECT protocol, state, sql, client_address IS NOT NULL AS known FROM alluvia.sessions").await;
    let sql = "SELECT protocol, state, sql, client_address IS NOT NULL AS known FROM alluvia.sessions";
    assert_eq!(own, json!([{"protocol": "http", "state": "active", "sql": sql, "known": true}]));
    let embedded = served.db.session();
    let mut long =
        served.ask("POST", "/query").body("SELECT count(*) FROM generate_series(1, 1000000000000)").begin().await;
    let find = "SELECT session_id AS id FROM alluvia.sessions WHERE sql LIKE '%1000000000000)' AND protocol = 'http' AND sql NOT LIKE '%alluvia%'";
    let id = loop {
        if let Some(row) = served.rows(find).await.get(0) {
            break row["id"].clone();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    };
    assert_eq!(
        served.rows("SELECT state FROM alluvia.sessions WHERE protocol = 'embedded'").await,
        json!([{"state": "idle"}])
    );
    assert_eq!(served.query(&format!("CALL alluvia.cancel({id})")).await.status, 200);
    let mut all = Vec::new();
    long.read_to_end(&mut all).await.unwrap();
    assert_eq!(answered(&all).error(), (499, "57014".to_owned()));
    while served.rows(find).await != json!([]) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for (call, status) in [
        (format!("CALL alluvia.cancel({})", embedded.id()), 404),
        ("CALL alluvia.cancel(999999)".to_owned(), 404),
        ("CALL alluvia.cancel('x')".to_owned(), 400),
        ("CALL alluvia.cancel()".to_owned(), 400),
    ] {
        assert_eq!(served.query(&call).await.status, status, "{call}");
    }
    embedded.sql("BEGIN").await.unwrap();
    assert_eq!(
        served.rows("SELECT state FROM alluvia.sessions WHERE protocol = 'embedded'").await,
        json!([{"state": "idle in transaction"}])
    );
    drop(embedded);
    assert_eq!(served.rows("SELECT count(*) AS n FROM alluvia.sessions").await, json!([{"n": 1}]));
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_what_happened() {
    let served = serve().await;
    served.query("CREATE TABLE \"a\"\"b\" (a INT)").await;
    served.query("INSERT INTO \"a\"\"b\" VALUES (1), (2)").await;
    served.query("SELEC").await;
    served.query("SELECT 1/0").await;
    served.query("SELECT 1").await;
    let rows = served.ask("POST", "/ingest/a%22b").header("content-type", "text/csv").body("3\n4\n5\n").send().await;
    assert_eq!(rows.status, 200, "{}", rows.text());
    let metrics = served.ask("GET", "/metrics").send().await;
    assert_eq!(metrics.content_type(), "text/plain");
    let text = metrics.text();
    let value = |series: &str| {
        let line = text.lines().find(|line| line.rsplit_once(' ').is_some_and(|(name, _)| name == series));
        line.unwrap_or_else(|| panic!("no {series} in {text}")).rsplit(' ').next().unwrap().parse::<f64>().unwrap()
    };
    for (series, wanted) in [
        ("alluvia_statements_total{kind=\"query\",outcome=\"done\"}", 1.0),
        ("alluvia_statements_total{kind=\"query\",outcome=\"refused\"}", 1.0),
        ("alluvia_statements_total{kind=\"insert\",outcome=\"done\"}", 1.0),
        ("alluvia_statements_total{kind=\"ingest\",outcome=\"done\"}", 1.0),
        ("alluvia_statement_seconds_count{kind=\"query\"}", 2.0),
        ("alluvia_statement_seconds_bucket{kind=\"query\",le=\"+Inf\"}", 2.0),
        ("alluvia_http_requests_total{route=\"/query\",status=\"200\"}", 3.0),
        ("alluvia_http_requests_total{route=\"/query\",status=\"400\"}", 2.0),
        ("alluvia_http_requests_total{route=\"/ingest\",status=\"200\"}", 1.0),
        ("alluvia_batches_total", 3.0),
        ("alluvia_rows_ingested_total", 5.0),
        ("alluvia_visible_version", 3.0),
        ("alluvia_read_only", 0.0),
        ("alluvia_http_connections_busy", 1.0),
        ("alluvia_stage_watermark{table=\"a\\\"b\",stage=\"ingested\"}", 3.0),
    ] {
        assert_eq!(value(series), wanted, "{series}");
    }
    assert!(value("alluvia_log_syncs_total") >= 1.0 && value("alluvia_bytes_ingested_total") > 0.0);
    // Every series has its family described before it.
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().unwrap();
        let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
        assert!(text.contains(&format!("# TYPE {family} ")) || text.contains(&format!("# TYPE {name} ")), "{line}");
    }
    assert_eq!(served.ask("GET", "/readyz").send().await.json()["version"], json!(3));
}
