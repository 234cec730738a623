//! Sessions: what stays between calls, and transactions.

use crate::support::{fetch, serve, state, table, text};
use arrow_flight::sql::{CommandGetTables, EndTransaction};
use tonic::Code;

#[tokio::test(flavor = "multi_thread")]
async fn settings_stay_with_their_connection_or_their_token() {
    let served = serve().await;
    let (mut client, mut other) = (served.client().await, served.client().await);
    client.execute("SET freshness = '5s'".to_owned(), None).await.unwrap();
    assert!(text(&mut client, "SHOW freshness").await.contains("5s"));
    assert!(!text(&mut other, "SHOW freshness").await.contains("5s"));
    // A token is a session, on whatever connection.
    other.handshake("me", "any").await.unwrap();
    other.execute("SET max_error = 0.5".to_owned(), None).await.unwrap();
    let mut third = served.client().await;
    third.set_token(other.token().unwrap().clone());
    assert!(text(&mut third, "SHOW max_error").await.contains("0.5"));
    let sessions = text(&mut third, "SELECT user_name, protocol FROM alluvia.sessions WHERE user_name = 'me'").await;
    assert!(sessions.contains("flight") && sessions.matches("| me").count() == 1, "{sessions}");
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_batches_and_do_not_mix() {
    let served = serve().await;
    served.sql("CREATE TABLE t (a INT)").await;
    let mut client = served.client().await;
    let insert = |value: i32| format!("INSERT INTO t VALUES ({value})");
    let first = client.begin_transaction().await.unwrap();
    let second = client.begin_transaction().await.unwrap();
    assert_eq!(client.execute_update(insert(1), Some(first.clone())).await.unwrap(), 1);
    assert_eq!(client.execute_update(insert(2), Some(first.clone())).await.unwrap(), 1);
    assert_eq!(client.execute_update(insert(3), Some(second.clone())).await.unwrap(), 1);
    assert_eq!(served.count("t").await, 0);
    let info = client.execute("SELECT sum(a) AS s FROM t".to_owned(), Some(first.clone())).await.unwrap();
    assert!(table(&fetch(&mut client, info).await.unwrap()).contains("| 3 |"), "a transaction sees its own rows");
    let before = served.db.engine().figures().visible.0;
    client.end_transaction(first.clone(), EndTransaction::Commit).await.unwrap();
    assert_eq!((served.count("t").await, served.db.engine().figures().visible.0), (2, before + 1));
    client.end_transaction(second.clone(), EndTransaction::Rollback).await.unwrap();
    assert_eq!(served.count("t").await, 2);
    for gone in [first, second, "made up".into()] {
        let failed = client.execute_update(insert(4), Some(gone.clone())).await.unwrap_err();
        assert_eq!(state(failed), (Code::NotFound, "42704".to_owned()));
        assert!(client.end_transaction(gone, EndTransaction::Commit).await.is_err());
    }
    // Own writes are seen at once, whatever the freshness.
    client.execute("SET freshness = '1h'".to_owned(), None).await.unwrap();
    let third = client.begin_transaction().await.unwrap();
    client.execute_update(insert(5), Some(third.clone())).await.unwrap();
    client.end_transaction(third, EndTransaction::Commit).await.unwrap();
    assert!(text(&mut client, "SELECT sum(a) AS s FROM t").await.contains("| 8 |"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_failed_commits_nothing_and_says_so() {
    let served = serve().await;
    served.sql("CREATE TABLE t (a INT)").await;
    let mut client = served.client().await;
    let name = client.begin_transaction().await.unwrap();
    client.execute_update("INSERT INTO t VALUES (1)".to_owned(), Some(name.clone())).await.unwrap();
    let failed = client.execute_update("INSERT INTO t VALUES ('x')".to_owned(), Some(name.clone())).await.unwrap_err();
    assert_eq!(state(failed).0, Code::InvalidArgument);
    let failed = client.execute_update("INSERT INTO t VALUES (2)".to_owned(), Some(name.clone())).await.unwrap_err();
    assert_eq!(state(failed), (Code::FailedPrecondition, "25P02".to_owned()));
    let failed = client.end_transaction(name, EndTransaction::Commit).await.unwrap_err();
    assert_eq!(state(failed), (Code::FailedPrecondition, "25P02".to_owned()));
    assert_eq!(served.count("t").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_would_end_a_transaction_behind_its_name_is_refused() {
    let served = serve().await;
    served.sql("CREATE TABLE t (a INT)").await;
    let mut client = served.client().await;
    let name = client.begin_transaction().await.unwrap();
    for sql in ["COMMIT", "ROLLBACK", "BEGIN"] {
        let failed = client.execute(sql.to_owned(), Some(name.clone())).await.unwrap_err();
        assert_eq!(state(failed).0, Code::Unimplemented, "{sql}");
    }
    client.execute_update("INSERT INTO t VALUES (1)".to_owned(), Some(name.clone())).await.unwrap();
    // Settings of a transaction are those of the login once it commits.
    client.execute("SET max_error = 0.25".to_owned(), Some(name.clone())).await.unwrap();
    client.end_transaction(name, EndTransaction::Commit).await.unwrap();
    assert!(text(&mut client, "SHOW max_error").await.contains("0.25"));
    assert_eq!(served.count("t").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_prepared_statement_goes_on_in_the_next_transaction() {
    let served = serve().await;
    served.sql("CREATE TABLE t (a INT)").await;
    let mut client = served.client().await;
    let first = client.begin_transaction().await.unwrap();
    let mut insert = client.prepare("INSERT INTO t VALUES (1)".to_owned(), Some(first.clone())).await.unwrap();
    assert_eq!(insert.execute_update().await.unwrap(), 1);
    client.end_transaction(first, EndTransaction::Commit).await.unwrap();
    // Without one it does not run on its own behind its client's back.
    assert_eq!(state(insert.execute_update().await.unwrap_err()).0, Code::FailedPrecondition);
    let second = client.begin_transaction().await.unwrap();
    assert_eq!(insert.execute_update().await.unwrap(), 1);
    assert_eq!(served.count("t").await, 1);
    client.end_transaction(second, EndTransaction::Commit).await.unwrap();
    assert_eq!(served.count("t").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_of_a_transaction_are_kept_if_it_is_and_undo_no_others() {
    let served = serve().await;
    let mut client = served.client().await;
    for (end, freshness, error) in
        [(EndTransaction::Rollback, "default", "0.5"), (EndTransaction::Commit, "5s", "0.25")]
    {
        let transaction = client.begin_transaction().await.unwrap();
        client.execute("SET freshness = '5s'".to_owned(), Some(transaction.clone())).await.unwrap();
        client.execute(format!("SET max_error = {error}"), None).await.unwrap();
        client.end_transaction(transaction, end).await.unwrap();
        let shown = (text(&mut client, "SHOW freshness").await, text(&mut client, "SHOW max_error").await);
        assert!(shown.0.contains(freshness) && shown.1.contains(error), "{shown:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn batches_of_a_producer_are_never_taken_for_one_another() {
    let served = serve().await;
    served.sql("CREATE TABLE t (a INT)").await;
    let mut client = served.client().await;
    client.execute("SET producer = 'p'".to_owned(), None).await.unwrap();
    let refused = client.begin_transaction().await.unwrap_err();
    assert_eq!(state(refused), (Code::Unimplemented, "0A000".to_owned()));
    for value in 1..=2 {
        assert_eq!(client.execute_update(format!("INSERT INTO t VALUES ({value})"), None).await.unwrap(), 1);
    }
    assert_eq!(served.count("t").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_stays_who_it_is_whatever_becomes_of_the_name() {
    let served = serve().await;
    served.sql("CREATE TABLE shown (a INT); CREATE TABLE secret (a INT); CREATE ROLE bob LOGIN; GRANT SELECT ON shown TO bob").await;
    let mut client = served.client().await;
    client.handshake("bob", "any").await.unwrap();
    // Columns of all tables are everybody's to know.
    let tables =
        client.get_tables(CommandGetTables { include_schema: true, ..CommandGetTables::default() }).await.unwrap();
    let tables = table(&fetch(&mut client, tables).await.unwrap());
    assert!(tables.contains("secret") && tables.contains("shown"), "{tables}");
    served.sql("ALTER ROLE bob RENAME TO rob; CREATE ROLE bob LOGIN SUPERUSER").await;
    let transaction = client.begin_transaction().await.unwrap();
    let shown = client.execute("SELECT count(*) FROM shown".to_owned(), Some(transaction.clone())).await.unwrap();
    assert!(table(&fetch(&mut client, shown).await.unwrap()).contains("| 0 "));
    let refused = client.execute("SELECT * FROM secret".to_owned(), Some(transaction)).await.unwrap_err();
    assert_eq!(state(refused), (Code::PermissionDenied, "42501".to_owned()));
}
