//! Refinements: answers that are sent again and again until they are exact, by our own client and by others.

use crate::extensions::{ESTIMATED, connect, many, number, rows, texts};
use crate::support::{fetch, serve};
use alluvia_client::{Refinement, Refinements, Refining};
use alluvia_types::{ErrorKind, Result};
use arrow::array::{ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use futures::{StreamExt, TryStreamExt};

const PROGRESSIVE: &str =
    "SELECT count(*) FROM alluvia.queries WHERE status = 'running' AND sql LIKE '%k < %' AND sql NOT LIKE '%queries%'";

fn looks(refining: Refining) -> Refinements {
    match refining {
        Refining::Looks(refinements) => refinements,
        Refining::Rows(answer) => panic!("not refined: {answer:?}"),
    }
}

fn value(array: &ArrayRef) -> i64 {
    cast(array, &DataType::Int64).unwrap().as_primitive::<Int64Type>().value(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn refinements_get_better_and_end_in_the_answer() {
    let served = serve().await;
    many(&served).await;
    let session = connect(&served).await.session().await.unwrap();
    session.execute("SET cuboids = off").await.unwrap();
    let exact = rows(session.execute(ESTIMATED).await.unwrap()).await.unwrap();
    let exact = [value(exact[0].column(0)), value(exact[0].column(1))];
    for with_parameters in [false, true] {
        let refining = match with_parameters {
            false => session.refine(ESTIMATED).await.unwrap(),
            true => {
                let sql = "SELECT count(*) AS c, sum(n) AS s FROM many WHERE k < $1";
                session.refine_with(sql, &texts("$1", &["k7"])).await.unwrap()
            }
        };
        let mut refinements = looks(refining);
        let first = refinements.told();
        assert_eq!((first.tag.as_str(), first.is_complete, first.used.unwrap().version > 0), ("SELECT", false, true));
        let mut all: Vec<Refinement> = Vec::new();
        while let Some(refinement) = refinements.next().await {
            all.push(refinement.unwrap());
        }
        let told = refinements.told();
        assert!(told.is_complete && told.used.is_some());
        let last = all.pop().unwrap();
        assert!(all.len() > 2, "{all:?}");
        let mut before = 0.0;
        for refinement in &all {
            let names: Vec<String> =
                refinement.rows.schema().fields().iter().map(|field| field.name().clone()).collect();
            assert_eq!(names, ["c", "s"]);
            assert!(
                refinement.fraction > before
                    && refinement.fraction < 1.0
                    && !refinement.is_last
                    && !refinement.is_exact
            );
            assert!(refinement.look >= 1 && refinement.look <= refinement.looks);
            assert_eq!((refinement.version, refinement.confidence), (last.version, 0.95));
            before = refinement.fraction;
            for (at, wanted) in exact.iter().enumerate() {
                let bounds = refinement.bounds[at].as_ref().unwrap();
                let (low, found, high) =
                    (value(&bounds.lower), value(refinement.rows.column(at)), value(&bounds.upper));
                assert!(low <= found && found <= high, "{low} {found} {high}");
                assert!((found as f64 / *wanted as f64 - 1.0).abs() < 0.2, "{found} {wanted}");
            }
        }
        assert!(last.is_last && last.is_exact && last.bounds.iter().all(Option::is_none));
        assert_eq!([value(last.rows.column(0)), value(last.rows.column(1))], exact);
    }
    // One that is near enough is the last.
    session.execute("SET max_error = 0.3").await.unwrap();
    let all: Vec<Refinement> = looks(session.refine(ESTIMATED).await.unwrap()).try_collect().await.unwrap();
    let last = all.last().unwrap();
    assert!(last.is_last && !last.is_exact && last.error <= 0.3 && last.bounds[0].is_some(), "{last:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_never_estimated_is_answered_as_ever() {
    let served = serve().await;
    let session = connect(&served).await.session().await.unwrap();
    let Refining::Rows(answer) = session.refine("SELECT value AS n FROM generate_series(1, 100000)").await.unwrap()
    else {
        panic!("refined");
    };
    assert_eq!(rows(answer).await.unwrap().iter().map(|batch| batch.num_rows()).sum::<usize>(), 100_000);
    let Refining::Rows(done) = session.refine("CREATE TABLE t (a INT)").await.unwrap() else { panic!("refined") };
    assert_eq!((done.has_rows(), done.told().lock().tag.as_str()), (false, "CREATE TABLE"));
    assert_eq!(session.refine("SELECT nothing").await.unwrap_err().kind(), ErrorKind::UndefinedColumn);
    assert_eq!(session.refine("SELECT 1; SELECT 2").await.unwrap_err().kind(), ErrorKind::Syntax);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_stops_has_stopped_the_statement() {
    let served = serve().await;
    many(&served).await;
    let session = connect(&served).await.session().await.unwrap();
    session.execute("SET cuboids = off").await.unwrap();
    let mut refinements = looks(session.refine(ESTIMATED).await.unwrap());
    assert!(!refinements.next().await.unwrap().unwrap().is_last);
    drop(refinements);
    served.becomes(PROGRESSIVE, 0).await;
    // One that is stopped from beside ends with an error, unless it was over by then; never with an estimate as its answer.
    let mut refinements = looks(session.refine(ESTIMATED).await.unwrap());
    session.cancel().await.unwrap();
    let mut last: Option<Result<Refinement>> = None;
    while let Some(next) = refinements.next().await {
        last = Some(next);
    }
    match last.unwrap() {
        Ok(last) => assert!(last.is_last),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Cancelled),
    }
    assert_eq!(number(&session, "SELECT 1").await, 1);
}

/// To another client it is a header to send, and a word in the metadata of each message that ends a refinement.
#[tokio::test(flavor = "multi_thread")]
async fn other_clients_can_ask_for_them() {
    let served = serve().await;
    many(&served).await;
    let mut client = served.client().await;
    client.execute("SET cuboids = off".to_owned(), None).await.unwrap();
    client.set_header("alluvia-bounds", "refinements");
    let info = client.execute(ESTIMATED.to_owned(), None).await.unwrap();
    let schema = info.clone().try_decode_schema().unwrap();
    assert_eq!(schema.metadata()["alluvia.refinements"], "on");
    let names: Vec<&str> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, ["c", "s", "lower_bound(c)", "upper_bound(c)", "lower_bound(s)", "upper_bound(s)"]);
    let batches = fetch(&mut client, info).await.unwrap();
    assert!(batches.iter().filter(|batch| batch.num_rows() == 1).count() > 3);
    let plain = client.execute("SELECT 1 AS a".to_owned(), None).await.unwrap().try_decode_schema().unwrap();
    assert!(!plain.metadata().contains_key("alluvia.refinements"));
}
