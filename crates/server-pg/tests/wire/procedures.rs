//! Procedures over the wire: parameters by the extended protocol, rows of outputs, notices with their levels.

use crate::support::{rows, serve, state, texts};
use futures::StreamExt;
use tokio_postgres::{AsyncMessage, NoTls, SimpleQueryMessage};

#[tokio::test(flavor = "multi_thread")]
async fn a_call_has_parameters_and_gives_a_row() {
    let served = serve().await;
    let client = served.client().await;
    client
        .batch_execute(
            "CREATE TABLE t (id INT PRIMARY KEY, n BIGINT, name TEXT);
             INSERT INTO t VALUES (1, 10, 'a');
             CREATE PROCEDURE add(which INT, more BIGINT, OUT n BIGINT, INOUT name TEXT DEFAULT 'x') LANGUAGE plpgsql AS $$
             BEGIN
               UPDATE t SET n = t.n + more, name = t.name || add.name WHERE id = which RETURNING t.n, t.name INTO n, name;
             END $$;
             CREATE PROCEDURE quiet(which INT) LANGUAGE sql AS $$ UPDATE t SET n = 0 WHERE id = which $$",
        )
        .await
        .unwrap();
    let prepared = client.prepare("CALL add($1, $2, NULL, $3)").await.unwrap();
    let types: Vec<&str> = prepared.params().iter().map(|known| known.name()).collect();
    assert_eq!(types, ["int4", "int8", "text"]);
    let columns: Vec<(&str, &str)> =
        prepared.columns().iter().map(|column| (column.name(), column.type_().name())).collect();
    assert_eq!(columns, [("n", "int8"), ("name", "text")]);
    for (more, n, name) in [(5i64, 15i64, "ab"), (-15, 0, "abb")] {
        let row = client.query_one(&prepared, &[&1i32, &more, &"b"]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, &str>(1)), (n, name));
    }
    let row = client.query_one("CALL add(more => $1, which => 1, n => NULL)", &[&7i64]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, &str>(1)), (7, "abbx"));
    assert_eq!(client.execute("CALL quiet($1)", &[&1i32]).await.unwrap(), 0);
    assert_eq!(rows(&client, "SELECT n, name FROM t").await, [["0", "abbx"]]);
    assert_eq!(rows(&client, "CALL add(1, 3, NULL)").await, [["3", "abbxx"]]);
    let tag = client.simple_query("CALL quiet(1)").await.unwrap();
    assert!(matches!(tag.as_slice(), [SimpleQueryMessage::CommandComplete(0)]), "{tag:?}");
    client.batch_execute("UPDATE t SET n = 1").await.unwrap();
    let error = client.query("CALL add(1, $1, NULL)", &[&i64::MAX]).await.unwrap_err();
    assert_eq!(state(&error), "22003");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_raised_has_its_level() {
    let served = serve().await;
    let (client, mut connection) = served.config().connect(NoTls).await.unwrap();
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let messages = futures::stream::poll_fn(move |context| connection.poll_message(context));
    tokio::spawn(messages.for_each(move |message| {
        if let Ok(AsyncMessage::Notice(notice)) = message {
            let told = (notice.severity().to_owned(), notice.code().code().to_owned(), notice.message().to_owned());
            drop(sender.send(told));
        }
        std::future::ready(())
    }));
    let raise = "DO $$ BEGIN RAISE NOTICE 'one %', 1; RAISE WARNING USING MESSAGE = 'two', ERRCODE = '01004'; RAISE INFO 'three'; \
                 RAISE DEBUG 'none'; END $$";
    client.batch_execute(raise).await.unwrap();
    for (level, code, message) in
        [("NOTICE", "00000", "one 1"), ("WARNING", "01004", "two"), ("INFO", "00000", "three")]
    {
        assert_eq!(receiver.recv().await.unwrap(), (level.to_owned(), code.to_owned(), message.to_owned()));
    }
    client.batch_execute(&format!("SET client_min_messages = 'warning'; {raise}")).await.unwrap();
    assert_eq!(receiver.recv().await.unwrap().0, "WARNING");
    let error =
        client.batch_execute("DO $$ BEGIN\n RAISE EXCEPTION 'no' USING ERRCODE = 'AB123'; END $$").await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!((error.code().code(), error.message()), ("AB123", "no"));
    assert_eq!(error.where_(), Some("PL/pgSQL procedure inline_code_block line 2 at RAISE"));
    assert_eq!(texts(&client, "SELECT 1").await, ["1"]);
}
