//! Extensions of Flight SQL, and our own client (`alluvia-client`), which asks for them.

use crate::support::{Served, fetch, serve, serve_with, state};
use alluvia_access::{Access, Passwords, Tls, Verifier};
use alluvia_client::{Answer, Connection, IngestOptions, Number, Session, Target};
use alluvia_server_flight::ServerOptions;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use futures::{StreamExt, TryStreamExt, stream};
use std::sync::Arc;
use std::time::Duration;
use tonic::Code;

const ENDLESS: &str = "SELECT count(*) AS n FROM generate_series(1, 777777777777)";
const RUNNING: &str =
    "SELECT count(*) FROM alluvia.sessions WHERE sql LIKE '%777777777777%' AND sql NOT LIKE '%sessions%'";

fn target(served: &Served) -> Target {
    let timeout = Duration::from_secs(20);
    Target { host: served.address.ip().to_string(), port: served.address.port(), timeout, ..Target::default() }
}

pub async fn connect(served: &Served) -> Connection {
    Connection::open(&target(served)).await.unwrap()
}

pub async fn rows(answer: Answer) -> Result<Vec<RecordBatch>> {
    answer.into_rows().try_collect().await
}

pub async fn number(session: &Session, sql: &str) -> i64 {
    let batches = rows(session.execute(sql).await.unwrap()).await.unwrap();
    batches[0].column(0).as_primitive::<Int64Type>().value(0)
}

async fn shown(session: &Session, setting: &str) -> String {
    let batches = rows(session.execute(&format!("SHOW {setting}")).await.unwrap()).await.unwrap();
    batches[0].column(0).as_string::<i32>().value(0).to_owned()
}

fn numbers(name: &str, values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let column: ArrayRef = Arc::new(Int64Array::from_iter_values(values));
    RecordBatch::try_from_iter([(name, column)]).unwrap()
}

pub fn texts(name: &str, values: &[&str]) -> RecordBatch {
    let column: ArrayRef = Arc::new(StringArray::from(values.to_vec()));
    RecordBatch::try_from_iter([(name, column)]).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_one_connection_are_their_own() {
    let served = serve().await;
    let connection = connect(&served).await;
    let (one, other) = (connection.session().await.unwrap(), connection.session().await.unwrap());
    one.execute("SET freshness = '5s'").await.unwrap();
    assert_eq!((shown(&one, "freshness").await == "5s", shown(&other, "freshness").await == "5s"), (true, false));
    one.execute("CREATE TABLE t (a BIGINT)").await.unwrap();
    one.execute("BEGIN").await.unwrap();
    assert_eq!(one.ingest("t", None, stream::iter([Ok(numbers("a", [1, 2]))])).await.unwrap().version, None);
    assert_eq!((number(&one, "SELECT count(*) FROM t").await, number(&other, "SELECT count(*) FROM t").await), (2, 0));
    assert_eq!(one.state().await.unwrap().transaction, "open");
    assert_eq!(other.state().await.unwrap().transaction, "idle");
    assert!(one.execute("SELECT nothing FROM t").await.is_err());
    assert_eq!(one.state().await.unwrap().transaction, "failed");
    let refused = one.execute("SELECT 1").await.unwrap_err();
    assert_eq!((refused.kind(), refused.hint().is_some()), (ErrorKind::FailedTransaction, true));
    one.execute("ROLLBACK").await.unwrap();
    assert_eq!(number(&other, "SELECT count(*) FROM t").await, 0);
    // What a session holds goes with it.
    one.execute("BEGIN").await.unwrap();
    one.close().await.unwrap();
    let lost = one.execute("SELECT 1").await.unwrap_err();
    assert_eq!((lost.kind(), one.is_lost(), other.is_lost()), (ErrorKind::Authentication, true, false));
    served.becomes("SELECT count(*) FROM alluvia.sessions WHERE protocol = 'flight'", 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_tell_what_they_are_of_first_and_what_they_used_last() {
    let served = serve().await;
    served.sql("CREATE TABLE t (a BIGINT); INSERT INTO t VALUES (1), (2), (3)").await;
    let session = connect(&served).await.session().await.unwrap();
    let answer = session.execute("SELECT a + 0 AS a FROM t ORDER BY a").await.unwrap();
    let told = answer.told();
    let first = told.lock().clone();
    assert_eq!((first.tag.as_str(), first.is_complete, first.used.unwrap().version), ("SELECT", false, 2));
    assert!(answer.schema().metadata().is_empty() && !answer.is_estimate());
    let batches = rows(answer).await.unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
    let last = told.lock().clone();
    assert_eq!((last.is_complete, last.used.unwrap().rows_read), (true, 3));
    let done = session.execute("DROP TABLE IF EXISTS gone").await.unwrap();
    assert_eq!(done.schema().fields().len(), 0);
    let told = done.told().lock().clone();
    assert_eq!((told.tag.as_str(), told.notices.len(), told.used), ("DROP TABLE", 1, None));
    assert_eq!(session.execute("INSERT INTO t VALUES (4)").await.unwrap().told().lock().tag, "INSERT 0 1");
    // An error in the midst of rows is that error, and not an end.
    let fails = session.execute("SELECT 10 / (150000 - value) AS x FROM generate_series(1, 1000000)").await;
    let error = match fails {
        Ok(answer) => rows(answer).await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::DivisionByZero);
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_those_of_the_call_also_from_many_threads() {
    let served = serve().await;
    let session = connect(&served).await.session().await.unwrap();
    session.execute("CREATE TABLE t (a BIGINT)").await.unwrap();
    let calls = (0..20).map(|at| {
        let session = Arc::clone(&session);
        tokio::spawn(async move {
            let answer = session.execute_with("SELECT $1 * 10 AS x", &numbers("$1", [at])).await.unwrap();
            let found = rows(answer).await.unwrap()[0].column(0).as_primitive::<Int64Type>().value(0);
            assert_eq!(found, at * 10);
            let inserted = session.execute_with("INSERT INTO t VALUES ($1)", &numbers("$1", [at])).await.unwrap();
            assert_eq!(inserted.told().lock().tag, "INSERT 0 1");
        })
    });
    for call in futures::future::join_all(calls).await {
        call.unwrap();
    }
    assert_eq!(number(&session, "SELECT sum(a) FROM t").await, 190);
    // More texts than are kept.
    for at in 0..100 {
        let answer = session.execute_with(&format!("SELECT $1 + {at} AS x"), &numbers("$1", [1])).await.unwrap();
        assert_eq!(rows(answer).await.unwrap()[0].column(0).as_primitive::<Int64Type>().value(0), at + 1);
    }
    let wrong = session.execute_with("SELECT $1 + 1", &texts("$1", &["four"])).await;
    let wrong = match wrong {
        Ok(answer) => rows(answer).await.unwrap_err(),
        Err(error) => error,
    };
    assert!(!matches!(wrong.kind(), ErrorKind::Internal | ErrorKind::Protocol | ErrorKind::Io), "{wrong}");
    assert_eq!(session.execute_with("SELEC $1", &numbers("$1", [1])).await.unwrap_err().kind(), ErrorKind::Syntax);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_are_sent_are_one_batch_whatever_their_schemas() {
    let served = serve().await;
    let session = connect(&served).await.session().await.unwrap();
    session.execute("CREATE TABLE t (a BIGINT, b TEXT)").await.unwrap();
    let sent =
        [Ok(numbers("a", 0..1000)), Ok(numbers("a", 1000..2000)), Ok(texts("B", &["x"])), Ok(texts("a", &["7"]))];
    let taken = session.ingest("t", None, stream::iter(sent)).await.unwrap();
    assert_eq!((taken.rows, taken.version), (2002, Some(2)));
    assert_eq!(number(&session, "SELECT sum(a) FROM t").await, 1999 * 1000 + 7);
    assert_eq!(number(&session, "SELECT count(*) FROM t WHERE b = 'x' AND a IS NULL").await, 1);
    // A row is named by its number among all.
    let bad = [Ok(numbers("a", 0..1000)), Ok(texts("a", &["8", "eight"]))];
    let error = session.ingest("t", None, stream::iter(bad)).await.unwrap_err();
    assert!(error.message().starts_with("row 1002, column a"), "{error}");
    assert_eq!(session.ingest("t", None, stream::empty()).await.unwrap().version, None);
    assert_eq!(session.ingest("new", None, stream::empty()).await.unwrap_err().kind(), ErrorKind::UndefinedTable);
    // With its table, which is there also for no rows.
    let schema = numbers("a", []).schema();
    let none = session.ingest("empty", Some(Arc::clone(&schema)), stream::empty()).await.unwrap();
    assert_eq!((none.rows, none.version), (0, Some(3)));
    let taken = session.ingest("empty", Some(schema), stream::iter([Ok(numbers("a", [1]))])).await.unwrap();
    assert_eq!((taken.rows, taken.version), (1, Some(4)));
    assert_eq!(number(&session, "SELECT count(*) FROM t").await, 2002);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_numbered_batch_is_applied_once_and_its_number_can_be_asked_for() {
    let served = serve().await;
    let session = connect(&served).await.session().await.unwrap();
    session.execute("CREATE TABLE t (a BIGINT)").await.unwrap();
    let numbered = |sequence| Number { producer: "p".to_owned(), epoch: 1, sequence };
    let ten = || stream::iter([Ok(numbers("a", 0..10))]);
    assert_eq!(session.last_of("p").await.unwrap(), None);
    for (sequence, version, duplicate) in [(1, 2, false), (2, 3, false), (2, 3, true)] {
        let taken = session.ingest_numbered("t", &numbered(sequence), ten()).await.unwrap();
        assert_eq!((taken.rows, taken.version, taken.duplicate), (10, Some(version), duplicate));
    }
    assert_eq!(session.last_of("p").await.unwrap(), Some(numbered(2)));
    assert_eq!(number(&session, "SELECT count(*) FROM t").await, 20);
    // COMMIT has the number of a transaction's batch.
    session.execute("BEGIN").await.unwrap();
    let refused = session.ingest_numbered("t", &numbered(3), ten()).await.unwrap_err();
    assert_eq!((refused.kind(), refused.hint().is_some()), (ErrorKind::Transaction, true));
    session.execute("ROLLBACK").await.unwrap();
    assert_eq!(session.last_of("p").await.unwrap(), Some(numbered(2)));
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_break_leave_nothing_and_their_error_arrives() {
    let served = serve().await;
    let session = connect(&served).await.session().await.unwrap();
    session.execute("CREATE TABLE t (a BIGINT)").await.unwrap();
    let broken = || {
        let rows = (0..50).map(|at| Ok(numbers("a", at * 1000..(at + 1) * 1000)));
        stream::iter(rows.chain([Err(Error::new(ErrorKind::InvalidValue, "the source fails"))]))
    };
    for (table, created) in [("t", None), ("new", Some(numbers("a", []).schema()))] {
        let error = session.ingest(table, created, broken()).await.unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::InvalidValue, "the source fails"));
    }
    assert_eq!(number(&session, "SELECT count(*) FROM t").await, 0);
    assert_eq!(session.execute("SELECT * FROM new").await.unwrap_err().kind(), ErrorKind::UndefinedTable);
    // Whoever gives the call up has sent half of it.
    let half = stream::iter([Ok(numbers("a", 0..1000))]).chain(stream::pending());
    assert!(tokio::time::timeout(Duration::from_millis(300), session.ingest("t", None, half)).await.is_err());
    let quiet =
        "SELECT count(*) FROM alluvia.sessions WHERE sql LIKE '%rows from a program%' AND sql NOT LIKE '%sessions%'";
    served.becomes(quiet, 0).await;
    assert_eq!(served.count("t").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_session_runs_can_be_watched_and_stopped_from_beside() {
    let served = serve().await;
    let session = connect(&served).await.session().await.unwrap();
    session.cancel().await.unwrap();
    let running = {
        let session = Arc::clone(&session);
        tokio::spawn(async move { rows(session.execute(ENDLESS).await?).await })
    };
    served.becomes(RUNNING, 1).await;
    let state = session.state().await.unwrap();
    assert_eq!((state.transaction.as_str(), state.phase.as_str(), state.fraction), ("idle", "running", None));
    assert!(state.elapsed.is_some() && state.rows_per_second.is_some() && state.left.is_none(), "{state:?}");
    while !running.is_finished() {
        session.cancel().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(running.await.unwrap().unwrap_err().kind(), ErrorKind::Cancelled);
    served.becomes(RUNNING, 0).await;
    let state = session.state().await.unwrap();
    assert_eq!((state.phase.as_str(), state.elapsed, state.rows_per_second), ("idle", None, None));
    assert_eq!(number(&session, "SELECT 1").await, 1);
    // Rows that nobody wants any more stop their statement.
    let answer = session.execute("SELECT value FROM generate_series(1, 777777777777)").await.unwrap();
    let mut rows = answer.into_rows();
    assert!(rows.next().await.unwrap().unwrap().num_rows() > 0);
    served.becomes(RUNNING, 1).await;
    drop(rows);
    served.becomes(RUNNING, 0).await;
}

pub async fn many(served: &Served) {
    served
        .sql(
            "CREATE TABLE many (k TEXT, n BIGINT) WITH (dimensions = 'k', measures = 'n'); \
             INSERT INTO many SELECT 'k' || (value * 7919 % 1000), value % 100 FROM generate_series(1, 700000); \
             CALL alluvia.merge()",
        )
        .await;
}

pub const ESTIMATED: &str = "SELECT count(*) AS c, sum(n) AS s FROM many WHERE k < 'k7'";

#[tokio::test(flavor = "multi_thread")]
async fn bounds_of_estimates_come_to_whoever_asks_for_them() {
    let served = serve().await;
    many(&served).await;
    let session = connect(&served).await.session().await.unwrap();
    session.execute("SET cuboids = off").await.unwrap();
    let exact = session.execute(ESTIMATED).await.unwrap();
    assert!(!exact.is_estimate());
    let exact = rows(exact).await.unwrap();
    session.execute("SET max_error = 0.3").await.unwrap();
    for with_parameters in [false, true] {
        let answer = match with_parameters {
            false => session.execute(ESTIMATED).await.unwrap(),
            true => {
                let sql = "SELECT count(*) AS c, sum(n) AS s FROM many WHERE k < $1";
                session.execute_with(sql, &texts("$1", &["k7"])).await.unwrap()
            }
        };
        assert!(answer.is_estimate());
        let names: Vec<String> = answer.schema().fields().iter().map(|field| field.name().clone()).collect();
        assert_eq!(names, ["c", "s"]);
        let estimate = answer.estimate().await.unwrap();
        assert!(estimate.told.used.unwrap().rows_read > 0);
        for (at, bounds) in estimate.bounds.iter().enumerate() {
            let number = |array: &ArrayRef| {
                let array = arrow::compute::cast(array, &DataType::Int64).unwrap();
                array.as_primitive::<Int64Type>().value(0)
            };
            let bounds = bounds.as_ref().unwrap();
            assert_eq!(bounds.lower.data_type(), estimate.rows.column(at).data_type());
            let (low, value, high) = (number(&bounds.lower), number(estimate.rows.column(at)), number(&bounds.upper));
            let wanted = number(exact[0].column(at));
            assert!(low <= value && value <= high && low < high, "{low} {value} {high}");
            assert!(value as f64 / wanted as f64 > 0.7 && (value as f64 / wanted as f64) < 1.3, "{value} {wanted}");
        }
    }
    // What is to be written somewhere is not estimated.
    let written = session.execute_exactly(ESTIMATED).await.unwrap();
    assert!(!written.is_estimate());
    assert_eq!(rows(written).await.unwrap()[0].columns(), exact[0].columns());
    assert!(session.execute(ESTIMATED).await.unwrap().is_estimate(), "only that statement is exact");
    // Other clients see the statement's columns, and one that asks wrongly is told.
    let mut other = served.client().await;
    other.execute("SET max_error = 0.3".to_owned(), None).await.unwrap();
    let info = other.execute(ESTIMATED.to_owned(), None).await.unwrap();
    assert_eq!(fetch(&mut other, info).await.unwrap()[0].num_columns(), 2);
    other.set_header("alluvia-bounds", "everywhere");
    let refused = other.execute(ESTIMATED.to_owned(), None).await.unwrap_err();
    assert_eq!(state(refused), (Code::Unimplemented, "0A000".to_owned()));
}

fn passwords() -> Access {
    let mut passwords = Passwords::default();
    passwords.set("alluvia", Verifier::new("right").unwrap());
    Access::Passwords(passwords)
}

fn with_user(target: Target, password: &str) -> Target {
    Target { user: Some(("alluvia".to_owned(), password.to_owned())), ..target }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_connects_shows_a_password() {
    let served = serve_with(ServerOptions { access: passwords(), ..ServerOptions::default() }).await;
    let open = async |target: Target| Connection::open(&target).await?.session().await;
    for wrong in [target(&served), with_user(target(&served), "wrong")] {
        let error = open(wrong).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Authentication, "{error}");
    }
    let session = open(with_user(target(&served), "right")).await.unwrap();
    assert_eq!(number(&session, "SELECT count(*) FROM alluvia.sessions WHERE user_name = 'alluvia'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_is_with_the_server_that_is_trusted_alone() {
    let certificate = include_bytes!("certificate.pem");
    let tls = Tls::new(certificate, include_bytes!("key.pem")).unwrap();
    let served = serve_with(ServerOptions { access: passwords(), tls: Some(tls), ..ServerOptions::default() }).await;
    let trusting = Target { trusted: Some(certificate.to_vec()), ..with_user(target(&served), "right") };
    let session = Connection::open(&trusting).await.unwrap().session().await.unwrap();
    assert_eq!(number(&session, "SELECT 1").await, 1);
    // Without TLS there is a socket, and no answer.
    let plain = Target { timeout: Duration::from_secs(2), ..with_user(target(&served), "right") };
    let error = match Connection::open(&plain).await {
        Ok(connection) => connection.session().await.unwrap_err(),
        Err(error) => error,
    };
    assert_eq!(error.kind(), ErrorKind::Io, "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_or_comes_back_is_told_of() {
    let served = serve().await;
    let connection = connect(&served).await;
    let session = connection.session().await.unwrap();
    let place = target(&served);
    let (_db, _dir) = served.stop().await;
    let gone = session.execute("SELECT 1").await.unwrap_err();
    assert_eq!((gone.kind(), gone.hint().is_some(), session.is_lost()), (ErrorKind::Io, true, false), "{gone}");
    let nobody = Connection::open(&place).await.unwrap_err();
    assert_eq!((nobody.kind(), nobody.message().contains(&place.port.to_string())), (ErrorKind::Io, true), "{nobody}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_say_what_they_do_by_key() {
    let served = serve().await;
    let session = connect(&served).await.session().await.unwrap();
    session.execute("CREATE TABLE k (id BIGINT PRIMARY KEY, a BIGINT, b TEXT)").await.unwrap();
    let row = |columns: Vec<(&str, ArrayRef)>| Ok(RecordBatch::try_from_iter(columns).unwrap());
    let ids = |ids: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(ids.to_vec())) };
    let words = |words: &[&str]| -> ArrayRef { Arc::new(StringArray::from(words.to_vec())) };
    let said = |on_conflict: Option<&str>, op: Option<&str>| IngestOptions {
        on_conflict: on_conflict.map(str::to_owned),
        op: op.map(str::to_owned),
        ..IngestOptions::default()
    };
    let two = || stream::iter([row(vec![("id", ids(&[1, 2])), ("a", ids(&[10, 20])), ("b", words(&["x", "y"]))])]);
    assert_eq!(session.ingest("k", None, two()).await.unwrap().rows, 2);
    assert_eq!(session.ingest("k", None, two()).await.unwrap_err().kind(), ErrorKind::UniqueViolation);
    session.ingest_with("k", None, &said(Some("replace"), None), two()).await.unwrap();
    let patch = stream::iter([row(vec![("id", ids(&[2])), ("a", ids(&[21]))])]);
    session.ingest_with("k", None, &said(None, Some("patch")), patch).await.unwrap();
    let of_two = "SELECT a FROM k WHERE id = 2 AND b = 'y'";
    assert_eq!(number(&session, of_two).await, 21);
    // Batches have columns of their own: what one of them gives, its patches set.
    let mixed = [
        row(vec![
            ("id", ids(&[1, 3])),
            ("_op", words(&["delete", "upsert"])),
            ("a", ids(&[0, 30])),
            ("b", words(&["", "z"])),
        ]),
        row(vec![("id", ids(&[3, 2])), ("_op", words(&["patch", "patch"])), ("a", ids(&[31, 22]))]),
    ];
    session.ingest("k", None, stream::iter(mixed)).await.unwrap();
    assert_eq!((number(&session, of_two).await, number(&session, "SELECT count(*) FROM k").await), (22, 2));
    assert_eq!(number(&session, "SELECT a FROM k WHERE id = 3 AND b = 'z'").await, 31);
    let number_one = Number { producer: "p".to_owned(), epoch: 1, sequence: 1 };
    for duplicate in [false, true] {
        let options = IngestOptions { number: Some(number_one.clone()), ..said(None, Some("delete")) };
        let keys = stream::iter([Ok(numbers("id", [2]))]);
        assert_eq!(session.ingest_with("k", None, &options, keys).await.unwrap().duplicate, duplicate);
    }
    assert_eq!(number(&session, "SELECT count(*) FROM k").await, 1);
    session.execute("CREATE TABLE plain (id BIGINT)").await.unwrap();
    let ten = || stream::iter([Ok(numbers("id", 0..10))]);
    let error = session.ingest_with("plain", None, &said(Some("replace"), None), ten()).await.unwrap_err();
    assert_eq!((error.kind(), error.hint().is_some()), (ErrorKind::NoKey, true));
    let error = session.ingest_with("k", None, &said(None, Some("merge")), ten()).await.unwrap_err();
    assert_eq!(error.kind().sqlstate(), "22023");
}
