//! Statements that spill end: with their rows, or refused for lack of memory.
#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use alluvia_node::Database;
use alluvia_types::ErrorKind;
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;

/// Groups of groups: both inputs of a repartition spill while the one above it reads.
const GROUPS_OF_GROUPS: &str = "SELECT count(*), sum(c)::bigint FROM (SELECT g, count(t) AS c FROM ( \
     SELECT (x % 1000)::text || 'a group' AS g, (x * 7919 % 100000)::text || 'a longer text' AS t \
     FROM generate_series(1, 150000) a(x) GROUP BY 1, 2) GROUP BY g)";

/// A minute of such a statement is a standstill: it takes well under a second.
const STANDSTILL: &str = "SET statement_timeout = '60s'";

#[test]
fn a_repartition_that_spills_does_not_wait_for_itself() {
    let scratch = tempfile::tempdir().unwrap();
    let db = Database::open(scratch.path().join("db")).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().thread_stack_size(8 << 20).build().unwrap();
    runtime.block_on(async {
        let session = db.session();
        for statement in [STANDSTILL, "SET threads = 2"] {
            session.sql(statement).await.unwrap().collect().await.unwrap();
        }
        let mut answered = 0;
        for kilobytes in [2_500, 4_000, 6_000, 8_000, 10_000, 14_000, 100_000].repeat(4) {
            session.sql(&format!("SET memory_limit = '{kilobytes}kB'")).await.unwrap().collect().await.unwrap();
            let rows = async { session.sql(GROUPS_OF_GROUPS).await?.collect().await }.await;
            match rows {
                Ok(rows) => {
                    let figure = |column: usize| rows[0].column(column).as_primitive::<Int64Type>().value(0);
                    assert_eq!((figure(0), figure(1)), (1_000, 100_000));
                    answered += 1;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::OutOfMemory, "{kilobytes} kB: {error}"),
            }
        }
        assert!(answered >= 4, "with enough memory each is answered: {answered}");
    });
}
