//! Time zones of sessions: from the connection, as the client is told of them, and of values in both formats.

use crate::support::{rows, serve, state, texts};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio_postgres::types::Type;

/// 2026-01-01 00:00 UTC.
const MOMENT: u64 = 1_767_225_600;

#[tokio::test(flavor = "multi_thread")]
async fn every_zone_connects_and_shows_the_same_moment() {
    let served = serve().await;
    served
        .client()
        .await
        .batch_execute("CREATE TABLE t (at TIMESTAMPTZ); INSERT INTO t VALUES ('2026-01-01 00:00:00Z')")
        .await
        .unwrap();
    for (zone, shown) in [
        ("Europe/Kyiv", "2026-01-01 02:00:00+02"),
        ("Europe/Kiev", "2026-01-01 02:00:00+02"),
        ("Asia/Calcutta", "2026-01-01 05:30:00+05:30"),
        ("us/pacific", "2025-12-31 16:00:00-08"),
        ("Asia/Saigon", "2026-01-01 07:00:00+07"),
        ("America/Buenos_Aires", "2025-12-31 21:00:00-03"),
        ("PST8PDT", "2025-12-31 16:00:00-08"),
        ("Etc/GMT+5", "2025-12-31 19:00:00-05"),
        ("GMT", "2026-01-01 00:00:00+00"),
        ("UTC", "2026-01-01 00:00:00+00"),
    ] {
        let mut config = served.config();
        config.options(format!("-c TimeZone={zone}"));
        let client = served.client_with(&config).await.unwrap();
        assert_eq!(texts(&client, "SELECT at FROM t").await, [shown], "{zone}");
        assert_eq!(texts(&client, "SELECT extract(epoch FROM at)::bigint FROM t").await, ["1767225600"], "{zone}");
        // RESET goes back to what the connection began with.
        client.batch_execute("SET SESSION TIMEZONE TO 'Australia/Perth'").await.unwrap();
        assert_eq!(texts(&client, "SELECT at FROM t").await, ["2026-01-01 08:00:00+08"]);
        client.batch_execute("RESET timezone").await.unwrap();
        assert_eq!(texts(&client, "SELECT at FROM t").await, [shown], "{zone}");
    }
    let mut wrong = served.config();
    wrong.options("-c TimeZone=Europe/Atlantis");
    assert_eq!(state(&served.client_with(&wrong).await.err().unwrap()), "22023");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_has_a_zone_and_a_transaction_may_have_its_own() {
    let served = serve().await;
    let client = served.client().await;
    client.batch_execute("CREATE ROLE ann LOGIN; ALTER ROLE ann SET timezone = 'Asia/Tokyo'").await.unwrap();
    let mut config = served.config();
    config.user("ann");
    let ann = served.client_with(&config).await.unwrap();
    assert_eq!(texts(&ann, "SHOW timezone").await, ["Asia/Tokyo"]);
    client.batch_execute("BEGIN; SET LOCAL TIME ZONE 'America/New_York'").await.unwrap();
    assert_eq!(texts(&client, "SELECT TIMESTAMPTZ '2026-01-01 00:00Z'").await, ["2025-12-31 19:00:00-05"]);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(texts(&client, "SELECT TIMESTAMPTZ '2026-01-01 00:00Z'").await, ["2026-01-01 00:00:00+00"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_are_the_same_moment_in_both_formats() {
    let served = serve().await;
    let client = served.client().await;
    client.batch_execute("SET TIME ZONE 'America/New_York'; CREATE TABLE t (id INT, at TIMESTAMPTZ)").await.unwrap();
    client.batch_execute("INSERT INTO t VALUES (1, '2025-12-31 19:00')").await.unwrap();
    let moment = UNIX_EPOCH + Duration::from_secs(MOMENT);
    // Binary.
    let row = client.query_one("SELECT at FROM t", &[]).await.unwrap();
    assert_eq!(row.get::<_, SystemTime>(0), moment);
    let found = client.query("SELECT id FROM t WHERE at = $1", &[&moment]).await.unwrap();
    assert_eq!(found.len(), 1);
    // Text, in lists too, and by COPY.
    assert_eq!(
        rows(&client, "SELECT at, ARRAY[at] FROM t").await,
        [["2025-12-31 19:00:00-05", "{\"2025-12-31 19:00:00-05\"}"]]
    );
    assert_eq!(
        texts(&client, "SELECT count(*) FROM t WHERE at >= '2025-12-31 19:00:00' AND at::date = '2025-12-31'").await,
        ["1"]
    );
    let statement = client.prepare_typed("SELECT $1::text", &[Type::TIMESTAMPTZ]).await.unwrap();
    let shown = client.query_one(&statement, &[&moment]).await.unwrap();
    assert_eq!(shown.get::<_, String>(0), "2025-12-31 19:00:00-05");
}

/// What is kept of a text is never given to a session of another zone.
#[tokio::test(flavor = "multi_thread")]
async fn answers_by_text_are_of_their_zone() {
    let served = serve().await;
    let (utc, berlin) = (served.client().await, served.client().await);
    utc.batch_execute(
        "CREATE TABLE t (at TIMESTAMPTZ, v INT) WITH (dimensions = 'time(at: year, month, day, hour)', measures = 'v');
         INSERT INTO t SELECT '2026-03-28 00:00Z'::timestamptz + INTERVAL '30 minutes' * n, n FROM (SELECT value AS n FROM generate_series(0, 200)) AS g;
         CALL alluvia.merge()",
    )
    .await
    .unwrap();
    berlin.batch_execute("SET TIME ZONE 'Europe/Berlin'").await.unwrap();
    let sql = "SELECT count(*) FROM t WHERE at::date = '2026-03-29'";
    let grouped = "SELECT date_trunc('day', at), count(*) FROM t GROUP BY date_trunc('day', at) ORDER BY 1";
    for _ in 0..3 {
        assert_eq!(texts(&utc, sql).await, ["48"]);
        assert_eq!(texts(&berlin, sql).await, ["46"]);
        let first = rows(&utc, grouped).await;
        assert_eq!(first[1], ["2026-03-29 00:00:00+00", "48"]);
        let first = rows(&berlin, grouped).await;
        assert_eq!(
            (first[0][1].as_str(), first[1].clone()),
            ("46", vec!["2026-03-29 00:00:00+01".to_owned(), "46".to_owned()])
        );
    }
}
