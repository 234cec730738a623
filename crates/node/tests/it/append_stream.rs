//! `Session::append_stream`: streams of batches, each with columns of its own, are one batch or none; the model is INSERT. And what
//! appends log.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use alluvia_copy::Hints;
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::{Ingest, Session};
use alluvia_syntax::copy::options::CopyOptions;
use alluvia_types::{Error, ErrorKind, Result};
use arrow::array::{
    ArrayRef, BinaryArray, DictionaryArray, Int32Array, Int64Array, RecordBatch, RunArray, StringArray,
};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Int32Type, Schema, UnionFields, UnionMode};
use arrow::util::pretty::pretty_format_batches;
use proptest::prelude::*;
use std::sync::Arc;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

fn opened() -> (TempDir, Database, Runtime) {
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    let runtime = Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    (scratch, db, runtime)
}

async fn answer(session: &Session, sql: &str) -> String {
    let batches = session.sql(sql).await.unwrap().collect().await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let field = |(name, array): &(&str, ArrayRef)| Field::new(*name, array.data_type().clone(), true);
    let schema = Schema::new(columns.iter().map(field).collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns.into_iter().map(|(_, array)| array).collect()).unwrap()
}

fn stream(batches: Vec<Result<RecordBatch>>) -> impl futures::Stream<Item = Result<RecordBatch>> + Send + Unpin {
    futures::stream::iter(batches)
}

/// A column of some values, in one of the types that hold them.
fn column(values: &[Option<i32>], kind: u8) -> ArrayRef {
    match kind {
        0 => Arc::new(Int32Array::from(values.to_vec())),
        1 => Arc::new(values.iter().map(|value| value.map(i64::from)).collect::<Int64Array>()),
        _ => Arc::new(values.iter().map(|value| value.map(|value| value.to_string())).collect::<StringArray>()),
    }
}

/// The columns that a batch has, by kind; `None` where it lacks one.
type Shape = (Option<u8>, Option<u8>, bool);

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_stream_is_what_inserting_its_rows_is(
        batches in prop::collection::vec(
            ((prop::option::of(0_u8..3), prop::option::of(0_u8..3), any::<bool>()),
             prop::collection::vec((prop::option::of(-50_i32..50), prop::option::of(-50_i32..50)), 0..20)),
            1..6),
        in_transaction in any::<bool>(),
    ) {
        let (_scratch, db, runtime) = opened();
        runtime.block_on(async {
            let session = db.session();
            session.sql("CREATE TABLE ours (a INT, b BIGINT, n INT)").await.unwrap();
            session.sql("CREATE TABLE model (a INT, b BIGINT, n INT)").await.unwrap();
            let mut sent = Vec::new();
            let mut count = 0;
            for (shape, rows) in &batches {
                let (a, b, swapped): Shape = *shape;
                let of = |first: bool| rows.iter().map(|row| if first { row.0 } else { row.1 }).collect::<Vec<_>>();
                let numbers: Vec<Option<i32>> = (count..count + rows.len() as i32).map(Some).collect();
                let mut columns = vec![("n", column(&numbers, 0))];
                columns.extend(a.map(|kind| ("A", column(&of(true), kind))));
                columns.extend(b.map(|kind| ("b", column(&of(false), kind))));
                if swapped {
                    columns.reverse();
                }
                sent.push(Ok(batch(columns)));
                for (at, row) in rows.iter().enumerate() {
                    let text = |kept: bool, value: Option<i32>| match value {
                        Some(value) if kept => value.to_string(),
                        _ => "NULL".to_owned(),
                    };
                    let (a, b) = (text(a.is_some(), row.0), text(b.is_some(), row.1));
                    session.sql(&format!("INSERT INTO model VALUES ({a}, {b}, {})", count + at as i32)).await.unwrap();
                }
                count += rows.len() as i32;
            }
            if in_transaction {
                session.sql("BEGIN").await.unwrap();
            }
            let taken = session.append_stream("ours", stream(sent)).await.unwrap();
            assert_eq!(taken.rows, count as u64);
            assert_eq!(taken.committed.is_some(), count > 0 && !in_transaction);
            let expected = answer(&session, "SELECT * FROM model ORDER BY n").await;
            assert_eq!(answer(&session, "SELECT * FROM ours ORDER BY n").await, expected);
            if in_transaction {
                session.sql("COMMIT").await.unwrap();
                assert_eq!(answer(&db.session(), "SELECT * FROM ours ORDER BY n").await, expected);
            }
        });
    }
}

#[test]
fn many_rows_are_one_version_and_an_error_after_them_leaves_nothing() {
    let (_scratch, db, runtime) = opened();
    runtime.block_on(async {
        let session = db.session();
        session.sql("CREATE TABLE t (a BIGINT, words TEXT)").await.unwrap();
        // More than travels in the log: it is staged.
        let text = "x".repeat(100);
        let part = |from: i64| {
            let numbers = Arc::new(Int64Array::from_iter_values(from..from + 50_000)) as ArrayRef;
            let words = Arc::new(StringArray::from_iter_values((0..50_000).map(|_| &text))) as ArrayRef;
            Ok(batch(vec![("a", numbers), ("words", words)]))
        };
        let parts = || (0..10).map(|at| part(at * 50_000)).collect::<Vec<Result<RecordBatch>>>();
        let broken = Err(Error::new(ErrorKind::Io, "the source broke"));
        let error =
            session.append_stream("t", stream(parts().into_iter().chain([broken]).collect())).await.unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Io, "the source broke"));
        let late = Ok(batch(vec![("a", Arc::new(StringArray::from(vec!["1", "one"])) as ArrayRef)]));
        let error = session.append_stream("t", stream(parts().into_iter().chain([late]).collect())).await.unwrap_err();
        assert!(error.message().contains("row 500002, column a"), "{error}");
        assert!(answer(&session, "SELECT count(*) AS n FROM t").await.contains("| 0 "));
        let taken = session.append_stream("t", stream(parts())).await.unwrap();
        assert_eq!(taken.rows, 500_000);
        assert_eq!(taken.committed.unwrap().version.0, 2, "what was refused took no version");
        let found = answer(&session, "SELECT count(*) AS n, count(DISTINCT a) AS d, sum(a) AS s FROM t").await;
        assert!(found.contains("| 500000 | 500000 | 124999750000 |"), "{found}");
    });
}

/// Sessions may be shared: what fails the transaction while its rows come must not make a batch of them.
#[test]
fn rows_of_a_transaction_that_fails_meanwhile_are_nobodys() {
    let (_scratch, db, runtime) = opened();
    runtime.block_on(async {
        let session = db.session();
        session.sql("CREATE TABLE t (a INT)").await.unwrap();
        let one = batch(vec![("a", column(&[Some(1)], 0))]);
        for is_new in [false, true] {
            session.sql("BEGIN").await.unwrap();
            let rows = futures::stream::once(async {
                assert!(session.prepare("SELEC").is_err());
                Ok(one.clone())
            });
            let taken = match is_new {
                false => session.append_stream("t", rows).await,
                true => session.append_to_new("u", one.schema_ref(), rows).await,
            };
            assert_eq!(taken.unwrap_err().kind(), ErrorKind::FailedTransaction);
            session.sql("ROLLBACK").await.unwrap();
            assert!(answer(&session, "SELECT count(*) AS n FROM t").await.contains("| 0 "));
            assert_eq!(session.sql("SELECT * FROM u").await.unwrap_err().kind(), ErrorKind::UndefinedTable);
        }
        // What is a batch of its own is none beside a transaction.
        session.sql("BEGIN").await.unwrap();
        let body = Ingest {
            table: "t".into(),
            columns: Vec::new(),
            options: CopyOptions::default(),
            is_array: false,
            key: None,
            name: "the body".to_owned(),
            bytes_max: 1 << 20,
            hints: Hints::default(),
        };
        let error = session.ingest(body, Box::new("7\n".as_bytes())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Transaction);
        session.sql("ROLLBACK").await.unwrap();
        assert!(answer(&session, "SELECT count(*) AS n FROM t").await.contains("| 0 "));
    });
}

#[test]
fn rows_for_a_table_that_cannot_be_made_fail_their_transaction() {
    let (_scratch, db, runtime) = opened();
    runtime.block_on(async {
        let session = db.session();
        session.sql("CREATE TABLE t (a INT)").await.unwrap();
        let schema = Schema::new(vec![Field::new("s", DataType::Union(UnionFields::empty(), UnionMode::Sparse), true)]);
        for may_be_there in [false, true] {
            session.sql("BEGIN").await.unwrap();
            session.sql("INSERT INTO t VALUES (1)").await.unwrap();
            let taken = match may_be_there {
                false => session.append_to_new("u", &schema, stream(Vec::new())).await,
                true => session.append_creating("u", &schema, stream(Vec::new())).await,
            };
            assert_eq!(taken.unwrap_err().kind(), ErrorKind::NotSupported);
            assert_eq!(session.sql("COMMIT").await.unwrap().tag, "ROLLBACK");
            assert!(answer(&session, "SELECT count(*) AS n FROM t").await.contains("| 0 "));
        }
    });
}

/// A batch of a few rows over a dictionary of many members, or cut from many rows, holds neither.
#[test]
fn an_append_logs_its_own_rows_alone() {
    let (_scratch, db, runtime) = opened();
    runtime.block_on(async {
        let session = db.session();
        session.sql("CREATE TABLE t (a TEXT, b TEXT, c BYTEA)").await.unwrap();
        let names: Vec<String> = (0..50_000).map(|at| format!("a name that is too long for a view {at}")).collect();
        let all = Arc::new(StringArray::from_iter_values(&names)) as ArrayRef;
        let keys = Int32Array::from_iter_values((0..100).map(|at| at * 7));
        let members = Arc::new(DictionaryArray::try_new(keys, Arc::clone(&all)).unwrap()) as ArrayRef;
        let views = cast(&all, &DataType::Utf8View).unwrap().slice(40_000, 100);
        let bytes = cast(&all, &DataType::BinaryView).unwrap().slice(7, 100);
        let rows = batch(vec![("a", members), ("b", views), ("c", bytes)]);
        session.append("t", vec![rows.clone()]).await.unwrap();
        session.append_stream("t", stream(vec![Ok(rows)])).await.unwrap();
        let logged =
            answer(&session, "SELECT count(*) AS n, max(bytes) < 40000 AS few FROM alluvia.batches WHERE rows = 100")
                .await;
        assert!(logged.contains("| 2 | true |"), "{logged}");
        let found = answer(&session, "SELECT DISTINCT a, b, c FROM t WHERE a LIKE '% 693'").await;
        assert!(found.contains(&names[99 * 7]) && found.contains(&names[40_099]), "{found}");
    });
}

#[test]
fn appended_texts_keep_to_the_length_of_their_column() {
    let (_scratch, db, runtime) = opened();
    runtime.block_on(async {
        let session = db.session();
        session.sql("CREATE TABLE t (a VARCHAR(3), b VARCHAR(2)) WITH (dimensions = 'b')").await.unwrap();
        let texts = |a: &[&str], b: &[&str]| {
            let plain: ArrayRef = Arc::new(StringArray::from_iter_values(a));
            let dictionary: DictionaryArray<Int32Type> = b.iter().copied().collect();
            vec![Ok(batch(vec![("a", plain), ("b", Arc::new(dictionary) as ArrayRef)]))]
        };
        let good = || stream(texts(&["äöü", "ab    "], &["ä", "xy "]));
        assert_eq!(session.append_stream("t", good()).await.unwrap().rows, 2);
        for (a, b, place) in [
            (["abc", "abcd"], ["x", "y"], "row 2, column a: 'abcd' is too long for VARCHAR(3)"),
            (["abc", "ab"], ["xyz", "y"], "row 1, column b: 'xyz' is too long for VARCHAR(2)"),
        ] {
            let error = session.append_stream("t", stream(texts(&a, &b))).await.unwrap_err();
            assert_eq!((error.kind(), error.message()), (ErrorKind::TooLong, place));
        }
        session.sql("BEGIN").await.unwrap();
        session.append_stream("t", good()).await.unwrap();
        session.sql("COMMIT").await.unwrap();
        let found = answer(&session, "SELECT a || '.' AS a, b || '.' AS b, count(*) AS n FROM t GROUP BY a, b").await;
        for row in ["| äöü. | ä.  | 2 |", "| ab . | xy. | 2 |"] {
            assert!(found.contains(row), "{found}");
        }
    });
}

#[test]
fn what_does_not_fit_is_named() {
    let (_scratch, db, runtime) = opened();
    runtime.block_on(async {
        let session = db.session();
        session.sql("CREATE TABLE t (a INT NOT NULL, b INT)").await.unwrap();
        let one = |name: &str| vec![Ok(batch(vec![(name, column(&[Some(1)], 0))]))];
        let error = session.append_stream("t", stream(one("c"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::UndefinedColumn);
        assert_eq!(error.hint(), Some("the table's columns are a, b"));
        assert_eq!(session.append_stream("t", stream(one("b"))).await.unwrap_err().kind(), ErrorKind::NotNull);
        assert_eq!(session.append_stream("u", stream(one("a"))).await.unwrap_err().kind(), ErrorKind::UndefinedTable);
        session.sql("BEGIN").await.unwrap();
        assert_eq!(session.append_stream("t", stream(one("b"))).await.unwrap_err().kind(), ErrorKind::NotNull);
        assert_eq!(
            session.append_stream("t", stream(one("a"))).await.unwrap_err().kind(),
            ErrorKind::FailedTransaction
        );
        session.sql("ROLLBACK").await.unwrap();
        assert_eq!(session.append_stream("t", stream(one("a"))).await.unwrap().rows, 1);
        let nothing = session.append_stream("t", stream(Vec::new())).await.unwrap();
        assert_eq!((nothing.rows, nothing.committed), (0, None));
    });
}

#[test]
fn a_session_that_only_reads_takes_no_rows() {
    let (_scratch, db, runtime) = opened();
    runtime.block_on(async {
        let session = db.session();
        session.sql("CREATE TABLE t (a INT)").await.unwrap();
        let one = || batch(vec![("a", column(&[Some(1)], 0))]);
        for (begin, end) in [
            ("BEGIN READ ONLY", "ROLLBACK"),
            ("SET default_transaction_read_only = on", "SET default_transaction_read_only = off"),
        ] {
            session.sql(begin).await.unwrap();
            let error = session.append_stream("t", stream(vec![Ok(one())])).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::ReadOnlyTransaction);
            assert_eq!(error.message(), "cannot execute INSERT in a read-only transaction");
            session.sql(end).await.unwrap();
        }
        session.sql("SET default_transaction_read_only = on").await.unwrap();
        let error = session.append("t", vec![one()]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnlyTransaction);
        let schema = one().schema();
        let error = session.append_to_new("u", &schema, stream(vec![Ok(one())])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ReadOnlyTransaction);
        session.sql("RESET default_transaction_read_only").await.unwrap();
        assert_eq!(session.append_stream("t", stream(vec![Ok(one())])).await.unwrap().rows, 1);
        assert!(answer(&session, "SELECT count(*) FROM t").await.contains("| 1 "));
    });
}

#[test]
fn a_new_table_comes_with_its_rows_or_not_at_all() {
    let (_scratch, db, runtime) = opened();
    runtime.block_on(async {
        let session = db.session();
        let part = |from: i64| {
            let numbers = Arc::new(Int64Array::from_iter_values(from..from + 50_000)) as ArrayRef;
            let words = Arc::new(StringArray::from_iter_values((0..50_000).map(|at| format!("{at:0100}")))) as ArrayRef;
            batch(vec![("A", numbers), ("words", words)])
        };
        let schema = part(0).schema();
        let parts = |count: i64| (0..count).map(|at| Ok(part(at * 50_000))).collect::<Vec<Result<RecordBatch>>>();
        // With rows that are staged, and with rows that travel in the log.
        for count in [10, 0] {
            let broken = Err(Error::new(ErrorKind::Io, "the source broke"));
            let all = parts(count).into_iter().chain([broken]).collect();
            let error = session.append_to_new("t", &schema, stream(all)).await.unwrap_err();
            assert_eq!(error.message(), "the source broke");
            assert_eq!(session.sql("SELECT * FROM t").await.unwrap_err().kind(), ErrorKind::UndefinedTable);
        }
        let taken = session.append_to_new("t", &schema, stream(parts(10))).await.unwrap();
        assert_eq!((taken.rows, taken.committed.unwrap().version.0), (500_000, 1), "one batch, and the first");
        let found =
            answer(&session, "SELECT count(DISTINCT a) AS d, sum(a) AS s, max(length(words)) AS l FROM t").await;
        assert!(found.contains("| 500000 | 124999750000 | 100 |"), "{found}");
        let error = session.append_to_new("t", &schema, stream(parts(1))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::DuplicateTable);
        let empty = session.append_to_new("empty", &schema, stream(Vec::new())).await.unwrap();
        assert!(empty.rows == 0 && empty.committed.is_some());
        // Whatever is there: the table that is, or a new one in the batch of its rows.
        let broken = vec![Ok(part(0)), Err(Error::new(ErrorKind::Io, "the source broke"))];
        assert!(session.append_creating("v", &schema, stream(broken)).await.is_err());
        assert_eq!(session.sql("SELECT * FROM v").await.unwrap_err().kind(), ErrorKind::UndefinedTable);
        let made = session.append_creating("v", &schema, stream(parts(1))).await.unwrap();
        let added = session.append_creating("v", &schema, stream(parts(1))).await.unwrap();
        let [made, added] = [made, added].map(|taken| (taken.rows, taken.committed.unwrap().version.0));
        assert_eq!((made, added), ((50_000, made.1), (50_000, made.1 + 1)), "each is one batch");
        session.sql("BEGIN").await.unwrap();
        assert_eq!(session.append_creating("v", &schema, stream(parts(1))).await.unwrap().committed, None);
        let taken = session.append_to_new("u", &schema, stream(parts(1))).await.unwrap();
        assert_eq!((taken.rows, taken.committed), (50_000, None));
        assert!(answer(&session, "SELECT count(*) AS n FROM u").await.contains("| 50000 |"));
        assert_eq!(db.session().sql("SELECT * FROM u").await.unwrap_err().kind(), ErrorKind::UndefinedTable);
        session.sql("ROLLBACK").await.unwrap();
        assert_eq!(session.sql("SELECT * FROM u").await.unwrap_err().kind(), ErrorKind::UndefinedTable);
    });
}

#[test]
fn siblings_share_settings_and_see_one_anothers_rows() {
    let (_scratch, db, runtime) = opened();
    runtime.block_on(async {
        let home = db.session();
        home.sql("CREATE TABLE t (a INT)").await.unwrap();
        home.sql("SET freshness = 'merged'").await.unwrap();
        home.sql("INSERT INTO t VALUES (1)").await.unwrap();
        let (first, second) = (home.sibling().unwrap(), home.sibling().unwrap());
        for (session, value) in [(&first, 2), (&second, 3)] {
            assert_eq!(session.setting_value("freshness").unwrap(), "merged");
            session.sql("BEGIN").await.unwrap();
            session.sql(&format!("INSERT INTO t VALUES ({value})")).await.unwrap();
        }
        let count = "SELECT count(*) AS n FROM t";
        assert!(answer(&first, count).await.contains("| 2 "));
        assert!(answer(&home, count).await.contains("| 1 "));
        first.sql("SET max_error = 0.5").await.unwrap();
        first.sql("COMMIT").await.unwrap();
        home.follow(&first, true);
        assert!(answer(&home, count).await.contains("| 2 "), "own rows are seen, however old an answer may be");
        assert_eq!(home.setting_value("max_error").unwrap(), "0.5");
        second.sql("SET max_error = 0.25").await.unwrap();
        second.sql("ROLLBACK").await.unwrap();
        home.follow(&second, false);
        assert_eq!(home.setting_value("max_error").unwrap(), "0.5", "what was not kept sets nothing");
        assert!(answer(&home, "SELECT sum(a) AS s FROM t").await.contains("| 3 "));
        home.sql("SET producer = 'loader'").await.unwrap();
        assert_eq!(home.sibling().map(|_| ()).unwrap_err().kind(), ErrorKind::NotSupported);
    });
}

#[test]
fn a_value_that_many_rows_share_is_written_out_piece_by_piece() {
    let (_scratch, db, runtime) = opened();
    runtime.block_on(async {
        let session = db.session();
        session.sql("CREATE TABLE texts (a TEXT)").await.unwrap();
        session.sql("CREATE TABLE bytes (a BYTEA)").await.unwrap();
        // 100 MB of one value of 512 KB.
        let (rows, value) = (200, "x".repeat(512 << 10));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![value.as_str()]));
        let bytes: ArrayRef = Arc::new(BinaryArray::from(vec![value.as_bytes()]));
        for (table, values) in [("texts", texts), ("bytes", bytes)] {
            let ends = Int32Array::from(vec![rows]);
            let run: ArrayRef = Arc::new(RunArray::<Int32Type>::try_new(&ends, values.as_ref()).unwrap());
            let keys = Int32Array::from(vec![0; rows as usize]);
            let dictionary: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values).unwrap());
            for column in [run, dictionary] {
                let shown = column.data_type().clone();
                let taken = session.append_stream(table, stream(vec![Ok(batch(vec![("a", column)]))])).await.unwrap();
                assert_eq!(taken.rows, rows as u64, "{shown}");
            }
            let found = answer(&session, &format!("SELECT count(*), count(DISTINCT a) FROM {table}")).await;
            assert!(found.contains("| 400 ") && found.contains("| 1 "), "{found}");
        }
    });
}

#[test]
fn shared_values_fit_a_transaction_by_what_they_come_to() {
    let scratch = tempfile::tempdir().unwrap();
    let options = DatabaseOptions { memory_limit_bytes: 128 << 20, ..DatabaseOptions::default() };
    let db = Database::open_with(scratch.path().join("db"), options).unwrap();
    let runtime = Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    runtime.block_on(async {
        let session = db.session();
        session.sql("CREATE TABLE t (a TEXT)").await.unwrap();
        session.sql("BEGIN").await.unwrap();
        // 10 GB, if each row had its own.
        let keys = Int32Array::from(vec![0; 10_000]);
        let values = Arc::new(StringArray::from(vec!["x".repeat(1 << 20)]));
        let column: ArrayRef = Arc::new(DictionaryArray::<Int32Type>::try_new(keys, values).unwrap());
        let error = session.append_stream("t", stream(vec![Ok(batch(vec![("a", column)]))])).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{error}");
        session.sql("ROLLBACK").await.unwrap();
        assert!(answer(&session, "SELECT count(*) AS n FROM t").await.contains("| 0 "));
    });
}
