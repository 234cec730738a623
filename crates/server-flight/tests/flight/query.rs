//! Queries, prepared statements, updates; what comes with them, and how they end.

use crate::support::{fetch, serve, serve_with, state, status, table, text};
use alluvia_server_flight::ServerOptions;
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int64Type, Schema};
use arrow_flight::decode::{DecodedPayload, FlightDataDecoder};
use arrow_flight::sql::{Any, CommandStatementQuery, ProstMessageExt, TicketStatementQuery};
use arrow_flight::{Action, CancelFlightInfoRequest, CancelFlightInfoResult, FlightDescriptor, FlightInfo, Ticket};
use futures::{StreamExt, TryStreamExt};
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use tonic::Code;

fn row(columns: Vec<ArrayRef>) -> RecordBatch {
    let names = (1..).map(|at| format!("${at}"));
    RecordBatch::try_from_iter_with_nullable(names.zip(columns).map(|(name, array)| (name, array, true))).unwrap()
}

fn numbers(values: Vec<Option<i64>>) -> ArrayRef {
    Arc::new(Int64Array::from(values))
}

fn texts(values: Vec<Option<&str>>) -> ArrayRef {
    Arc::new(StringArray::from(values))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_tells_its_columns_first_and_its_rows_once() {
    let served = serve().await;
    let mut client = served.client().await;
    let info = client.execute("SELECT 1 AS a, 'x' AS b".to_owned(), None).await.unwrap();
    let schema = Schema::try_from(info.clone()).unwrap();
    let columns: Vec<(&str, &DataType)> =
        schema.fields().iter().map(|field| (field.name().as_str(), field.data_type())).collect();
    assert_eq!(columns, [("a", &DataType::Int64), ("b", &DataType::Utf8)]);
    assert_eq!((info.endpoint.len(), info.total_records), (1, -1));
    let rows = fetch(&mut client, info.clone()).await.unwrap();
    assert!(table(&rows).contains("| 1 | x |"), "{}", table(&rows));
    // A ticket is good once.
    assert_eq!(state(fetch(&mut client, info).await.unwrap_err()), (Code::NotFound, "42704".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_used_comes_in_metadata() {
    let served = serve().await;
    served.sql("CREATE TABLE t (a INT); INSERT INTO t VALUES (1), (2)").await;
    let mut client = served.client().await;
    let info = client.execute("SELECT a FROM t WHERE a > 0 ORDER BY a".to_owned(), None).await.unwrap();
    let schema = Schema::try_from(info.clone()).unwrap();
    assert!(schema.metadata()["alluvia.version"].parse::<u64>().unwrap() >= 2, "{:?}", schema.metadata());
    assert!(schema.metadata().contains_key("alluvia.lag_seconds") && schema.metadata().contains_key("alluvia.stage"));
    let messages = client.inner_mut().do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap().into_inner();
    let messages: Vec<_> =
        FlightDataDecoder::new(messages.map_err(|status| status.into())).try_collect().await.unwrap();
    let last = messages.last().unwrap();
    let told: serde_json::Value = serde_json::from_slice(&last.inner.app_metadata).unwrap();
    assert_eq!((told["tag"].as_str(), told["used"]["tail_rows"].as_u64()), (Some("SELECT"), Some(2)), "{told}");
    assert!(matches!(&last.payload, DecodedPayload::RecordBatch(batch) if batch.num_rows() == 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn tickets_are_of_their_login_and_cannot_be_made_up() {
    let served = serve().await;
    let (mut client, mut other) = (served.client().await, served.client().await);
    let info = client.execute("SELECT 1".to_owned(), None).await.unwrap();
    assert_eq!(state(fetch(&mut other, info.clone()).await.unwrap_err()).0, Code::NotFound);
    let made_up = TicketStatementQuery { statement_handle: "guess".into() }.as_any().encode_to_vec();
    for (ticket, code) in [
        (made_up, Code::NotFound),
        (b"\xff\xff\xff".to_vec(), Code::InvalidArgument),
        (Vec::new(), Code::Unimplemented),
        (Any { type_url: "x/y".to_owned(), value: "z".into() }.encode_to_vec(), Code::Unimplemented),
    ] {
        let failed = client.do_get(Ticket { ticket: ticket.clone().into() }).await.unwrap_err();
        assert_eq!(state(failed).0, code, "{ticket:?}");
    }
    // It is still there for whom it was made.
    assert_eq!(fetch(&mut client, info).await.unwrap().iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_codes_sqlstates_and_hints() {
    let served = serve().await;
    served.sql("CREATE TABLE sales (price DOUBLE)").await;
    let mut client = served.client().await;
    for (sql, code, sqlstate) in [
        ("SELEC 1", Code::InvalidArgument, "42601"),
        ("SELECT * FROM sale", Code::NotFound, "42P01"),
        ("SELECT prise FROM sales", Code::InvalidArgument, "42703"),
        ("CREATE TABLE sales (a INT)", Code::AlreadyExists, "42P07"),
        ("SELECT 1; SELECT 2", Code::InvalidArgument, "42601"),
        ("SELECT $1::INT", Code::InvalidArgument, "42601"),
        ("COPY sales FROM STDIN", Code::Unimplemented, "0A000"),
        ("COPY sales TO STDOUT", Code::Unimplemented, "0A000"),
        ("SET nothing = 1", Code::InvalidArgument, "22023"),
        ("COMMIT", Code::FailedPrecondition, "25000"),
    ] {
        let failed = client.execute(sql.to_owned(), None).await.unwrap_err();
        assert_eq!(state(failed), (code, sqlstate.to_owned()), "{sql}");
    }
    let failed = client.execute("SELECT prise FROM sales".to_owned(), None).await.unwrap_err();
    assert!(status(failed).message().contains("hint: did you mean price?"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_fails_half_way_ends_with_its_error() {
    let served = serve().await;
    let mut client = served.client().await;
    let sql = "SELECT 10 / (150000 - value) FROM generate_series(1, 1000000)";
    let info = client.execute(sql.to_owned(), None).await.unwrap();
    assert_eq!(state(fetch(&mut client, info).await.unwrap_err()), (Code::InvalidArgument, "22012".to_owned()));
    assert!(text(&mut client, "SELECT 2 AS a").await.contains("| 2 |"));
}

#[tokio::test(flavor = "multi_thread")]
async fn prepared_statements_take_typed_parameters() {
    let served = serve().await;
    served.sql("CREATE TABLE t (a INT, b TEXT, c BOOLEAN); INSERT INTO t VALUES (1, 'x', true), (2, 'y', NULL)").await;
    let mut client = served.client().await;
    let mut query = client.prepare("SELECT a, b FROM t WHERE a >= $1 AND b = $2".to_owned(), None).await.unwrap();
    let schema = |schema: &Schema| {
        schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect::<Vec<_>>()
    };
    let named = |name: &str, data_type| (name.to_owned(), data_type);
    assert_eq!(schema(query.dataset_schema().unwrap()), [named("a", DataType::Int32), named("b", DataType::Utf8)]);
    assert_eq!(schema(query.parameter_schema().unwrap()), [named("$1", DataType::Int32), named("$2", DataType::Utf8)]);
    for (number, word, wanted) in [(1, "x", "| 1 | x |"), (0, "y", "| 2 | y |"), (1, "x", "| 1 | x |")] {
        query.set_parameters(row(vec![numbers(vec![Some(number)]), texts(vec![Some(word)])])).unwrap();
        let info = query.execute().await.unwrap();
        let rows = fetch(&mut client, info).await.unwrap();
        assert!(table(&rows).contains(wanted), "{}", table(&rows));
    }
    // Types and numbers that do not fit are refused, each by what is wrong.
    for (values, code, word) in [
        (row(vec![numbers(vec![Some(1)])]), Code::InvalidArgument, "2 parameters"),
        (row(vec![texts(vec![Some("one")]), texts(vec![Some("x")])]), Code::InvalidArgument, "one"),
        (row(vec![numbers(vec![Some(1), Some(2)]), texts(vec![Some("x"); 2])]), Code::Unimplemented, "2 rows"),
    ] {
        query.set_parameters(values).unwrap();
        let failed = match query.execute().await {
            Err(failed) => failed,
            Ok(info) => fetch(&mut client, info).await.unwrap_err(),
        };
        let status = status(failed);
        assert_eq!(status.code(), code, "{status:?}");
        assert!(status.message().contains(word), "{status:?}");
    }
    query.close().await.unwrap();
    assert_eq!(state(client.prepare("SELECT nothing FROM t".to_owned(), None).await.unwrap_err()).1, "42703");
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_count_rows_and_many_rows_are_one_batch() {
    let served = serve().await;
    let mut client = served.client().await;
    let create = "CREATE TABLE t (a INT NOT NULL, b TEXT)".to_owned();
    assert_eq!(client.execute_update(create, None).await.unwrap(), -1);
    assert_eq!(client.execute_update("INSERT INTO t VALUES (1, 'x'), (2, 'y')".to_owned(), None).await.unwrap(), 2);
    let failed = client.execute_update("SELECT 1".to_owned(), None).await.unwrap_err();
    assert_eq!(state(failed).0, Code::Unimplemented);
    // A statement without rows has run when its FlightInfo is there.
    let info = client.execute("INSERT INTO t VALUES (3, 'z')".to_owned(), None).await.unwrap();
    assert_eq!((info.endpoint.len(), info.total_records), (0, 1));
    assert_eq!(served.count("t").await, 3);

    let mut insert = client.prepare("INSERT INTO t VALUES ($1, $2)".to_owned(), None).await.unwrap();
    let version = || async { served.db.engine().figures().visible };
    let before = version().await;
    let values = row(vec![numbers((0..1000).map(Some).collect()), texts(vec![Some("many"); 1000])]);
    insert.set_parameters(values).unwrap();
    assert_eq!(insert.execute_update().await.unwrap(), 1000);
    assert_eq!(version().await.0, before.0 + 1, "1000 rows are one batch");
    assert!(text(&mut client, "SELECT count(*) AS n FROM t WHERE b = 'many'").await.contains("| 1000 |"));
    // One bad row among many: nothing of them.
    let bad = row(vec![numbers(vec![Some(1), None, Some(3)]), texts(vec![None, None, None])]);
    insert.set_parameters(bad).unwrap();
    let status = status(insert.execute_update().await.unwrap_err());
    assert!(status.message().starts_with("row 2 of the parameters: "), "{status:?}");
    assert_eq!(served.count("t").await, 1003);
    // Types.
    let wrong = row(vec![Arc::new(BooleanArray::from(vec![true])), texts(vec![Some("x")])]);
    insert.set_parameters(wrong).unwrap();
    assert_eq!(state(insert.execute_update().await.unwrap_err()).0, Code::InvalidArgument);
    let none = row(vec![Arc::new(Int32Array::from(Vec::<i32>::new())), texts(Vec::new())]);
    insert.set_parameters(none).unwrap();
    assert_eq!(insert.execute_update().await.unwrap(), 0);
    assert_eq!(served.count("t").await, 1003);
}

async fn cancel(client: &mut crate::support::Client, info: &FlightInfo) -> i32 {
    let body = CancelFlightInfoRequest { info: Some(info.clone()) }.encode_to_vec();
    let action = Action { r#type: "CancelFlightInfo".to_owned(), body: body.into() };
    let result = client.do_action(action).await.unwrap().message().await.unwrap().unwrap();
    CancelFlightInfoResult::decode(result.body).unwrap().status
}

const RUNNING: &str =
    "SELECT count(*) FROM alluvia.sessions WHERE sql LIKE '%999999999999%' AND sql NOT LIKE '%sessions%'";

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_answer_ends_waiting_or_half_sent() {
    let served = serve().await;
    let mut client = served.client().await;
    let sql = "SELECT value FROM generate_series(1, 999999999999)".to_owned();
    let info = client.execute(sql.clone(), None).await.unwrap();
    served.becomes(RUNNING, 1).await;
    assert_eq!(cancel(&mut client, &info).await, 1, "cancelled");
    served.becomes(RUNNING, 0).await;
    assert_eq!(cancel(&mut client, &info).await, 3, "nothing is there to be cancelled");
    assert_eq!(state(fetch(&mut client, info).await.unwrap_err()).0, Code::NotFound);

    let info = client.execute(sql.clone(), None).await.unwrap();
    let mut rows = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    assert!(rows.next().await.unwrap().unwrap().num_rows() > 0);
    assert_eq!(cancel(&mut client, &info).await, 1);
    let failed = loop {
        match rows.next().await.unwrap() {
            Ok(_) => {}
            Err(failed) => break failed,
        }
    };
    assert_eq!(state(failed), (Code::Cancelled, "57014".to_owned()));
    served.becomes(RUNNING, 0).await;

    // Whoever goes, cancels.
    let info = client.execute(sql, None).await.unwrap();
    let mut rows = client.do_get(info.endpoint[0].ticket.clone().unwrap()).await.unwrap();
    rows.next().await.unwrap().unwrap();
    served.becomes(RUNNING, 1).await;
    drop(rows);
    served.becomes(RUNNING, 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_given_up_cancels_its_statement() {
    let served = serve().await;
    let mut client = served.client().await;
    let sql = "CREATE TABLE big AS SELECT value AS a FROM generate_series(1, 999999999999)".to_owned();
    let call = tokio::time::timeout(Duration::from_secs(1), client.execute(sql, None)).await;
    assert!(call.is_err());
    served.becomes(RUNNING, 0).await;
    assert_eq!(state(client.execute("SELECT * FROM big".to_owned(), None).await.unwrap_err()).1, "42P01");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_nobody_fetches_ends() {
    let options = ServerOptions { ticket_timeout: Duration::from_millis(200), ..ServerOptions::default() };
    let served = serve_with(options).await;
    let mut client = served.client().await;
    let sql = "SELECT value FROM generate_series(1, 999999999999)".to_owned();
    let info = client.execute(sql, None).await.unwrap();
    served.becomes(RUNNING, 0).await;
    assert_eq!(state(fetch(&mut client, info).await.unwrap_err()).0, Code::NotFound);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_comes_whole() {
    let served = serve().await;
    let mut client = served.client().await;
    let sql = "SELECT value, 'text ' || value AS t FROM generate_series(1, 500000)".to_owned();
    let info = client.execute(sql, None).await.unwrap();
    let rows = fetch(&mut client, info).await.unwrap();
    let sum: i64 = rows.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec()).sum();
    assert_eq!((sum, rows.len() > 1), (500_000 * 500_001 / 2, true));
    let bytes: usize =
        rows.iter().flat_map(|batch| batch.column(1).as_string::<i32>().iter()).map(|text| text.unwrap().len()).sum();
    let digits: usize = (1..=500_000_usize).map(|value| value.to_string().len() + 5).sum();
    assert_eq!(bytes, digits);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_can_be_asked_for_without_running() {
    let served = serve().await;
    served.sql("CREATE TABLE t (a INT NOT NULL, b TEXT)").await;
    let mut client = served.client().await;
    let command = CommandStatementQuery { query: "SELECT * FROM t".to_owned(), transaction_id: None };
    let asked = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    let schema = client.inner_mut().get_schema(asked).await.unwrap().into_inner();
    let schema = Schema::try_from(&schema).unwrap();
    let fields: Vec<_> = schema.fields().iter().map(|field| (field.name().as_str(), field.is_nullable())).collect();
    assert_eq!(fields, [("a", false), ("b", true)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_and_preparing_have_the_time_of_a_statement() {
    let served = serve().await;
    served.sql("CREATE TABLE t (a BIGINT)").await;
    let mut client = served.client().await;
    client.execute("SET statement_timeout = '1ms'".to_owned(), None).await.unwrap();
    // Each joins the one before twice: planning it takes long.
    let chain = (1..=13).map(|at| format!(", c{at} AS (SELECT x.a FROM c{0} x JOIN c{0} y ON x.a = y.a)", at - 1));
    let long = format!("WITH c0 AS (SELECT a FROM t){} SELECT count(*) FROM c13", chain.collect::<String>());
    let failed = client.prepare(long.clone(), None).await.unwrap_err();
    assert_eq!(state(failed), (Code::DeadlineExceeded, "57014".to_owned()));
    let command = CommandStatementQuery { query: long, transaction_id: None };
    let asked = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    let failed = client.inner_mut().get_schema(asked).await.unwrap_err();
    assert_eq!(failed.code(), Code::DeadlineExceeded, "{failed:?}");
}
