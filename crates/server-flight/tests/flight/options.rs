//! Session options: settings by Flight's own actions, in bytes that are written here by hand.

use crate::extensions::connect;
use crate::support::{Client, fetch, serve, table, text};
use arrow::array::AsArray;
use arrow_flight::Action;
use arrow_flight::sql::EndTransaction;
use futures::StreamExt;
use prost::Message;
use std::collections::BTreeMap;

/// A field of bytes, all shorter than 128.
fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, bytes.len() as u8][..], bytes].concat()
}

fn option(name: &str, value: &[u8]) -> Vec<u8> {
    field(1, &[field(1, name.as_bytes()), field(2, value)].concat())
}

fn real(number: f64) -> Vec<u8> {
    [&[4 << 3 | 1][..], &number.to_le_bytes()].concat()
}

async fn act(client: &mut Client, name: &str, body: Vec<u8>) -> Vec<u8> {
    let action = Action { r#type: name.to_owned(), body: body.into() };
    let mut results = client.inner_mut().do_action(action).await.unwrap().into_inner();
    let result = results.message().await.unwrap().unwrap();
    assert!(results.message().await.unwrap().is_none());
    result.body.to_vec()
}

/// What a server tells of all options, each of which is text.
#[derive(Clone, PartialEq, Message)]
struct StatementStatus {
    #[prost(btree_map = "string, message", tag = "1")]
    options: BTreeMap<String, Value>,
}

#[derive(Clone, PartialEq, Message)]
struct Value {
    #[prost(string, tag = "1")]
    text: String,
}

async fn told(client: &mut Client, name: &str) -> String {
    let told = StatementStatus::decode(act(client, "GetSessionOptions", Vec::new()).await.as_slice()).unwrap();
    told.options[name].text.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn options_are_settings_of_the_session() {
    let served = serve().await;
    let mut client = served.client().await;
    assert_eq!(told(&mut client, "freshness").await, "default");
    let all =
        [option("freshness", &field(1, b"5s")), option("max_error", &real(0.01)), option("cuboids", &[2 << 3, 0])];
    assert_eq!(act(&mut client, "SetSessionOptions", all.concat()).await, b"");
    for (name, wanted) in [("freshness", "5s"), ("max_error", "0.01"), ("cuboids", "off")] {
        assert_eq!(told(&mut client, name).await, wanted);
        assert!(text(&mut client, &format!("SHOW {name}")).await.contains(wanted), "{name}");
    }
    // Without a value it goes back; what is refused says why by its code, and the rest holds.
    let wrong = [
        option("freshness", b""),
        option("max_error", &real(7.0)),
        option("no such", &field(1, b"x")),
        option("server_version", &field(1, b"x")),
    ];
    let refused = act(&mut client, "SetSessionOptions", wrong.concat()).await;
    let code = |name: &str, code: u8| option(name, &[1 << 3, code]);
    assert!(refused.starts_with(&code("max_error", 2)), "{refused:?}");
    let no_name = code("no such", 1);
    assert!(refused.windows(no_name.len()).any(|bytes| bytes == no_name), "{refused:?}");
    assert_eq!(told(&mut client, "freshness").await, "default");
    assert_eq!(told(&mut client, "max_error").await, "0.01");
    // Another connection's session has its own.
    let other = connect(&served).await.session().await.unwrap();
    let mut batches = other.execute("SHOW max_error").await.unwrap().into_rows();
    let batch = batches.next().await.unwrap().unwrap();
    assert_eq!(batch.column(0).as_string::<i32>().value(0), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn options_hold_in_transactions_that_are_open() {
    let served = serve().await;
    let mut client = served.client().await;
    let transaction = client.begin_transaction().await.unwrap();
    act(&mut client, "SetSessionOptions", option("max_error", &field(1, b"0.05"))).await;
    let info = client.execute("SHOW max_error".to_owned(), Some(transaction.clone())).await.unwrap();
    let rows = fetch(&mut client, info).await.unwrap();
    assert!(table(&rows).contains("0.05"));
    client.end_transaction(transaction, EndTransaction::Commit).await.unwrap();
    assert_eq!(told(&mut client, "max_error").await, "0.05");
}
