//! Statements that are asked about while they run.

use crate::support::{Client, fetch, serve, serve_with, text};
use alluvia_server_flight::ServerOptions;
use arrow_flight::sql::{CommandGetTableTypes, CommandStatementQuery, ProstMessageExt};
use arrow_flight::{
    Action, CancelFlightInfoRequest, CancelFlightInfoResult, CancelStatus, FlightDescriptor, FlightInfo, PollInfo,
};
use prost::Message;
use std::time::Duration;
use tonic::{Code, Status};

const LONG: &str = "SELECT count(*) AS n FROM generate_series(1, 888888888888)";
const RUNNING: &str =
    "SELECT count(*) FROM alluvia.sessions WHERE sql LIKE '%888888888888%' AND sql NOT LIKE '%sessions%'";

fn statement(sql: &str) -> FlightDescriptor {
    let command = CommandStatementQuery { query: sql.to_owned(), transaction_id: None };
    FlightDescriptor::new_cmd(command.as_any().encode_to_vec())
}

async fn poll(client: &mut Client, asked: FlightDescriptor) -> Result<PollInfo, Status> {
    client.inner_mut().poll_flight_info(asked).await.map(|response| response.into_inner())
}

/// Asks until the statement has ended.
async fn whole(client: &mut Client, asked: FlightDescriptor) -> Result<FlightInfo, Status> {
    let mut told = poll(client, asked).await?;
    while let Some(again) = told.flight_descriptor {
        told = poll(client, again).await?;
    }
    assert_eq!(told.progress, Some(1.0));
    Ok(told.info.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_is_asked_about_gives_what_others_do() {
    let served = serve().await;
    served.sql("CREATE TABLE t (a INT)").await;
    let mut client = served.client().await;
    let info = whole(&mut client, statement("SELECT value AS a FROM generate_series(1, 100000)")).await.unwrap();
    let rows = fetch(&mut client, info.clone()).await.unwrap();
    assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 100_000);
    assert_eq!(arrow::datatypes::Schema::try_from(info).unwrap().field(0).name(), "a");
    let none = whole(&mut client, statement("SELECT a FROM t")).await.unwrap();
    assert_eq!(fetch(&mut client, none).await.unwrap().iter().map(|batch| batch.num_rows()).sum::<usize>(), 0);
    let info = whole(&mut client, statement("INSERT INTO t SELECT value FROM generate_series(1, 1000)")).await.unwrap();
    assert_eq!((info.total_records, info.endpoint.len(), served.count("t").await), (1_000, 0, 1_000));
    let lists = FlightDescriptor::new_cmd(CommandGetTableTypes {}.as_any().encode_to_vec());
    let lists = whole(&mut client, lists).await.unwrap();
    assert_eq!(fetch(&mut client, lists).await.unwrap()[0].num_rows(), 3);
    for (sql, code) in [("SELECT * FROM nothing", Code::NotFound), ("SELEC", Code::InvalidArgument)] {
        assert_eq!(whole(&mut client, statement(sql)).await.unwrap_err().code(), code, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_statement_tells_how_far_it_is_and_can_be_cancelled() {
    let served = serve().await;
    let mut client = served.client().await;
    let mut told = poll(&mut client, statement(LONG)).await.unwrap();
    for _ in 0..2 {
        let info = told.info.unwrap();
        let progress: serde_json::Value = serde_json::from_slice(&info.app_metadata).unwrap();
        assert!(progress["progress"]["rows_per_second"].is_number(), "{progress}");
        assert!(info.endpoint.is_empty() && told.progress.is_none_or(|share| (0.0..=1.0).contains(&share)));
        told = poll(&mut client, told.flight_descriptor.unwrap()).await.unwrap();
    }
    // Of another login it is nothing.
    let again = told.flight_descriptor.clone().unwrap();
    let stranger = poll(&mut served.client().await, again.clone()).await.unwrap_err();
    assert_eq!(stranger.code(), Code::NotFound);
    let cancel = CancelFlightInfoRequest { info: told.info };
    let action = Action { r#type: "CancelFlightInfo".to_owned(), body: cancel.encode_to_vec().into() };
    let result = client.do_action(action).await.unwrap().message().await.unwrap().unwrap();
    assert_eq!(CancelFlightInfoResult::decode(result.body).unwrap().status(), CancelStatus::Cancelled);
    let ended = loop {
        match poll(&mut client, again.clone()).await {
            Ok(_) => {}
            Err(ended) => break ended,
        }
    };
    assert_eq!(ended.code(), Code::Cancelled, "{ended:?}");
    served.becomes(RUNNING, 0).await;
    // Its end was told.
    assert_eq!(poll(&mut client, again).await.unwrap_err().code(), Code::NotFound);
    assert!(text(&mut client, "SELECT 1 AS a").await.contains("| 1 |"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_nobody_asks_about_ends() {
    let options = ServerOptions { ticket_timeout: Duration::from_secs(3), ..ServerOptions::default() };
    let served = serve_with(options).await;
    let mut client = served.client().await;
    let told = poll(&mut client, statement(LONG)).await.unwrap();
    assert!(told.flight_descriptor.is_some());
    served.becomes(RUNNING, 1).await;
    served.becomes(RUNNING, 0).await;
    // Nor does a lost connection keep one.
    let mut other = served.client().await;
    poll(&mut other, statement(LONG)).await.unwrap();
    served.becomes(RUNNING, 1).await;
    drop(other);
    served.becomes(RUNNING, 0).await;
}
