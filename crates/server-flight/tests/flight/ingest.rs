//! Bulk ingest: one batch, or nothing.

use crate::support::{Client, serve, serve_with, state, status, text};
use alluvia_server_flight::ServerOptions;
use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_flight::encode::FlightDataEncoderBuilder;
use arrow_flight::error::FlightError;
use arrow_flight::sql::{
    CommandStatementIngest, EndTransaction, ProstMessageExt, TableDefinitionOptions, TableExistsOption,
    TableNotExistOption,
};
use arrow_flight::{FlightData, FlightDescriptor};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use prost::Message;
use std::sync::Arc;
use std::time::Duration;
use tonic::Code;

const CREATE: (TableNotExistOption, TableExistsOption) = (TableNotExistOption::Create, TableExistsOption::Fail);
const APPEND: (TableNotExistOption, TableExistsOption) = (TableNotExistOption::Fail, TableExistsOption::Append);
const BOTH: (TableNotExistOption, TableExistsOption) = (TableNotExistOption::Create, TableExistsOption::Append);
const REPLACE: (TableNotExistOption, TableExistsOption) = (TableNotExistOption::Create, TableExistsOption::Replace);

fn rows(from: i64, count: i64) -> RecordBatch {
    let numbers = Int64Array::from_iter_values(from..from + count);
    let texts = StringArray::from_iter_values((from..from + count).map(|value| format!("text {}", value % 5)));
    RecordBatch::try_from_iter([("a", Arc::new(numbers) as ArrayRef), ("b", Arc::new(texts) as ArrayRef)]).unwrap()
}

fn command(table: &str, mode: (TableNotExistOption, TableExistsOption)) -> CommandStatementIngest {
    let options = TableDefinitionOptions { if_not_exist: mode.0 as i32, if_exists: mode.1 as i32 };
    CommandStatementIngest {
        table_definition_options: Some(options),
        table: table.to_owned(),
        ..CommandStatementIngest::default()
    }
}

async fn ingest(
    client: &mut Client,
    command: CommandStatementIngest,
    batches: Vec<RecordBatch>,
) -> Result<i64, FlightError> {
    client.execute_ingest(command, stream::iter(batches.into_iter().map(Ok))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_created_appended_and_are_one_batch_each() {
    let served = serve().await;
    let mut client = served.client().await;
    let batches: Vec<RecordBatch> = (0..20).map(|at| rows(at * 10_000, 10_000)).collect();
    let visible = || served.db.engine().figures().visible.0;
    let before = visible();
    assert_eq!(ingest(&mut client, command("t", CREATE), batches).await.unwrap(), 200_000);
    assert_eq!(visible(), before + 1, "table and rows are one batch");
    assert_eq!(ingest(&mut client, command("t", APPEND), vec![rows(200_000, 10)]).await.unwrap(), 10);
    assert_eq!(ingest(&mut client, command("t", BOTH), vec![rows(200_010, 10)]).await.unwrap(), 10);
    assert_eq!(ingest(&mut client, command("u", BOTH), vec![rows(0, 10)]).await.unwrap(), 10);
    let found = text(&mut client, "SELECT count(*) AS n, sum(a) AS s, count(DISTINCT b) AS d FROM t").await;
    let count: i64 = 200_020;
    assert!(found.contains(&format!("| {count} | {} | 5 |", count * (count - 1) / 2)), "{found}");
    assert_eq!(served.count("u").await, 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_supported_or_does_not_fit_is_refused_by_name() {
    let served = serve().await;
    served.sql("CREATE TABLE t (a BIGINT, b TEXT)").await;
    let mut client = served.client().await;
    let few = || vec![rows(0, 3)];
    let named =
        |name: &str| RecordBatch::try_from_iter([(name, Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
    for (asked, batches, code, word) in [
        (command("t", CREATE), few(), Code::AlreadyExists, "'t' already exists"),
        (command("nowhere", APPEND), few(), Code::NotFound, "nowhere"),
        (command("t", REPLACE), few(), Code::Unimplemented, "replacing a table"),
        (CommandStatementIngest { temporary: true, ..command("t", APPEND) }, few(), Code::NotFound, "pg_temp.t"),
        (command("t", APPEND), vec![named("c")], Code::InvalidArgument, "c"),
        (command("", APPEND), few(), Code::InvalidArgument, "no table"),
        (
            CommandStatementIngest { transaction_id: Some("made up".into()), ..command("t", APPEND) },
            few(),
            Code::NotFound,
            "transaction",
        ),
    ] {
        let status = status(ingest(&mut client, asked, batches).await.unwrap_err());
        assert_eq!(status.code(), code, "{status:?}");
        assert!(status.message().contains(word), "{status:?}");
    }
    assert_eq!(served.count("t").await, 0);
}

/// What the client under test would not send: the messages of an ingest, and then what the test does.
async fn messages(command: CommandStatementIngest, batches: Vec<RecordBatch>) -> Vec<FlightData> {
    let descriptor = FlightDescriptor::new_cmd(command.as_any().encode_to_vec());
    let encoder = FlightDataEncoderBuilder::new().with_flight_descriptor(Some(descriptor));
    encoder.build(stream::iter(batches.into_iter().map(Ok))).try_collect().await.unwrap()
}

async fn put(client: &mut Client, messages: Vec<FlightData>) -> tonic::Status {
    match client.inner_mut().do_put(stream::iter(messages)).await {
        Err(status) => status,
        Ok(response) => response.into_inner().message().await.unwrap_err(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn half_an_ingest_is_nothing() {
    let options = ServerOptions { transfer_timeout: Duration::from_secs(1), ..ServerOptions::default() };
    let served = serve_with(options).await;
    served.sql("CREATE TABLE t (a BIGINT NOT NULL, b TEXT)").await;
    let mut client = served.client().await;
    // Many rows, so that what came before is staged already; then one that does not fit.
    let mut batches: Vec<RecordBatch> = (0..40).map(|at| rows(at * 10_000, 10_000)).collect();
    let null: ArrayRef = Arc::new(Int64Array::from(vec![None]));
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["x"]));
    let schema = Arc::new(arrow::datatypes::Schema::new(vec![
        arrow::datatypes::Field::new("a", arrow::datatypes::DataType::Int64, true),
        arrow::datatypes::Field::new("b", arrow::datatypes::DataType::Utf8, true),
    ]));
    batches = batches
        .into_iter()
        .map(|batch| RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec()).unwrap())
        .chain([RecordBatch::try_new(Arc::clone(&schema), vec![null, texts]).unwrap()])
        .collect();
    let status = status(ingest(&mut client, command("t", APPEND), batches.clone()).await.unwrap_err());
    assert!(status.message().contains("a"), "{status:?}");
    assert_eq!(served.count("t").await, 0);
    // The client breaks off: its connection goes with it.
    let (count, all) = (batches.len(), messages(command("new", CREATE), batches).await);
    let mut breaks = served.client().await;
    let half = stream::iter(all[..count / 2].to_vec()).chain(stream::pending());
    let call = tokio::time::timeout(Duration::from_millis(300), breaks.inner_mut().do_put(half)).await;
    assert!(call.is_err());
    drop(breaks);
    // The client rests for too long.
    let mut rests = served.client().await;
    let half = stream::iter(all[..count / 2].to_vec()).chain(stream::pending());
    let status = match rests.inner_mut().do_put(half).await {
        Err(status) => status,
        Ok(response) => response.into_inner().message().await.unwrap_err(),
    };
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    served
        .becomes("SELECT count(*) FROM alluvia.sessions WHERE sql LIKE '%into new%' AND sql NOT LIKE '%sessions%'", 0)
        .await;
    assert_eq!(served.count("t").await, 0);
    assert_eq!(state(client.execute("SELECT * FROM new".to_owned(), None).await.unwrap_err()).1, "42P01");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ingest_in_a_transaction_is_part_of_it() {
    let served = serve().await;
    served.sql("CREATE TABLE t (a BIGINT, b TEXT)").await;
    let mut client = served.client().await;
    for (end, count) in [(EndTransaction::Rollback, 0), (EndTransaction::Commit, 5)] {
        let name = client.begin_transaction().await.unwrap();
        let asked = CommandStatementIngest { transaction_id: Some(name.clone()), ..command("t", APPEND) };
        assert_eq!(ingest(&mut client, asked, vec![rows(0, 5)]).await.unwrap(), 5);
        assert_eq!(served.count("t").await, 0);
        client.end_transaction(name, end).await.unwrap();
        assert_eq!(served.count("t").await, count);
    }
    let name = client.begin_transaction().await.unwrap();
    let asked = CommandStatementIngest { transaction_id: Some(name.clone()), ..command("u", CREATE) };
    assert_eq!(ingest(&mut client, asked, vec![rows(0, 5)]).await.unwrap(), 5);
    assert_eq!(state(client.execute("SELECT * FROM u".to_owned(), None).await.unwrap_err()).1, "42P01");
    client.end_transaction(name, EndTransaction::Commit).await.unwrap();
    assert_eq!(served.count("u").await, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ingest_that_cannot_begin_fails_its_transaction() {
    let served = serve().await;
    served.sql("CREATE TABLE t (a BIGINT, b TEXT)").await;
    let mut client = served.client().await;
    for mode in [CREATE, BOTH] {
        let name = client.begin_transaction().await.unwrap();
        let asked = CommandStatementIngest { transaction_id: Some(name.clone()), ..command("t", APPEND) };
        assert_eq!(ingest(&mut client, asked, vec![rows(0, 5)]).await.unwrap(), 5);
        let asked = CommandStatementIngest { transaction_id: Some(name.clone()), ..command("u", mode) };
        let descriptor = FlightDescriptor::new_cmd(asked.as_any().encode_to_vec());
        let status = put(&mut client, vec![FlightData::new().with_descriptor(descriptor)]).await;
        assert!(status.message().contains("without a schema"), "{status:?}");
        let failed = client.end_transaction(name, EndTransaction::Commit).await.unwrap_err();
        assert_eq!(state(failed), (Code::FailedPrecondition, "25P02".to_owned()));
        assert_eq!(served.count("t").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_that_lie_are_refused() {
    let served = serve().await;
    served.sql("CREATE TABLE t (a BIGINT, b TEXT)").await;
    let mut client = served.client().await;
    let all = messages(command("t", APPEND), vec![rows(0, 1000)]).await;
    let rows_at = all.iter().position(|message| !message.data_body.is_empty()).unwrap();
    // A body that is cut: its buffers lie outside.
    let mut cut = all.clone();
    cut[rows_at].data_body = cut[rows_at].data_body.slice(..100);
    assert_eq!(put(&mut client, cut).await.code(), Code::InvalidArgument);
    let mut none = all.clone();
    none[rows_at].data_body = Bytes::new();
    assert_eq!(put(&mut client, none).await.code(), Code::InvalidArgument);
    assert_eq!(put(&mut client, all[1..].to_vec()).await.code(), Code::InvalidArgument, "no descriptor");
    // Every byte of the head, changed: an error, or other rows, and never the end of the server.
    for at in 0..all[rows_at].data_header.len() {
        let mut changed = all.clone();
        let mut header = changed[rows_at].data_header.to_vec();
        header[at] ^= 0xff;
        changed[rows_at].data_header = header.into();
        let _ = client.inner_mut().do_put(stream::iter(changed)).await;
    }
    let garbage = FlightData { data_header: "no flatbuffer".into(), ..FlightData::default() };
    let mut followed = all.clone();
    followed.insert(rows_at, garbage);
    assert_eq!(put(&mut client, followed).await.code(), Code::InvalidArgument);
    assert!(text(&mut client, "SELECT 1 AS a").await.contains("| 1 |"));
}
