//! Scans of rows that filters name by their keys, against the same rows in a plain table.

use super::{DIMENSIONS, rows, sales, values};
use crate::table::testing::{Fixture, Random, numbers, text};
use alluvia_space::{OnConflict, PrimaryKey};
use alluvia_tree::BLOCK_ROWS;
use alluvia_types::{ColumnId, Version};
use arrow::array::{AsArray, BooleanArray, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::Int64Type;
use tokio::runtime::Runtime;

/// Segments, one of them cut, a tail and pending rows, of which every seventh is dead where it is not pending; and the
/// rows that live.
fn keyed() -> (Fixture, RecordBatch) {
    let mut random = Random(11);
    let batches: Vec<RecordBatch> = [(0, 2 * BLOCK_ROWS + 5), (20_000, 9_000), (30_000, 50), (31_000, 7)]
        .into_iter()
        .map(|(first, count)| rows(&mut random, first, count))
        .collect();
    let mut def = sales();
    def.key = Some(PrimaryKey { columns: vec![ColumnId(0)], secret: [3, 4], on_conflict: OnConflict::Error });
    let mut fixture = Fixture::new(def, DIMENSIONS, &batches[0]);
    fixture.add_segment(&batches[0]);
    fixture.add_cut_segment(&batches[1], &rows(&mut random, 29_000, 500));
    fixture.add_tail(&batches[2]);
    fixture.pending = vec![batches[3].clone()];
    for (segment, batch) in batches[..2].iter().enumerate() {
        for (row, place) in (0..).zip(fixture.places(segment)) {
            if place % 7 == 3 && place < batch.num_rows() as u64 {
                fixture.kill(segment, row, Version(90));
            }
        }
    }
    for row in (3..50).step_by(7) {
        fixture.kill_in_tail(0, row, Version(90));
    }
    let live = |rows: &RecordBatch| {
        let live: BooleanArray = (0..rows.num_rows()).map(|row| Some(row % 7 != 3)).collect();
        filter_record_batch(rows, &live).expect("filters")
    };
    let parts = [live(&batches[0]), live(&batches[1]), live(&batches[2]), batches[3].clone()];
    let plain = concat_batches(&batches[0].schema(), &parts).expect("one schema");
    (fixture, plain)
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().build().expect("runtime")
}

#[test]
fn rows_that_are_named_by_keys_are_those_of_a_plain_table() {
    let (fixture, plain) = keyed();
    let (session, _) = fixture.session(&plain);
    let numbers_there = plain.column(0).as_primitive::<Int64Type>().values().to_vec();
    assert!(!numbers_there.contains(&3) && numbers_there.contains(&31_003), "dead, and pending");
    let queries = [
        "SELECT * FROM @ WHERE n = 4",
        "SELECT * FROM @ WHERE n = 3",
        "SELECT * FROM @ WHERE 16388 = n",
        "SELECT country, n FROM @ WHERE n = 20004 AND (quantity > 3 OR quantity IS NULL)",
        "SELECT count(*) FROM @ WHERE n = 20004",
        "SELECT count(*), max(price) FROM @ WHERE n = 29001",
        "SELECT note FROM @ WHERE n = 30004 OR n = 31003 ORDER BY n",
        "SELECT n, city FROM @ WHERE n IN (31003, 4, 4, 3, 29001, 77777, 20004, 8191, 8192, 8193) ORDER BY n",
        "SELECT n FROM @ WHERE n IN (5, 6, 7) AND country IS NOT NULL ORDER BY n",
        "SELECT n FROM @ WHERE n = 5 AND n = 6",
        "SELECT n FROM @ WHERE n = 5 AND random() < 2",
        "SELECT a.n, b.note FROM @ a JOIN @ b ON a.id = b.id WHERE a.n = 4 AND b.n < 200 ORDER BY 1, 2",
        "SELECT n FROM @ WHERE n IN (1, 2) ORDER BY n LIMIT 1 OFFSET 1",
        "SELECT min(n), max(n) FROM @ WHERE n IN (1, 2, 20005)",
    ];
    runtime().block_on(async {
        for query in queries {
            let ours = values(&text(&session, &query.replace('@', "sales")).await);
            let plain = values(&text(&session, &query.replace('@', "memory.public.plain")).await);
            assert_eq!(ours, plain, "{query}");
        }
    });
}

#[test]
fn a_row_that_is_named_by_its_key_is_read_alone() {
    let (fixture, plain) = keyed();
    let read = |sql: &str| {
        let (session, used) = fixture.session(&plain);
        let found = runtime().block_on(numbers(&session, sql));
        (found, used.used())
    };
    let (found, used) = read("SELECT n FROM sales WHERE n = 8191 AND n > 0");
    assert_eq!(found, [8191]);
    // The pending rows are looked at as ever.
    assert_eq!((used.blocks_read, used.blocks_skipped, used.rows_read, used.tail_rows), (1, 4, 8, 7), "{used}");
    assert_eq!((used.segments, used.segments_skipped), (1, 1));
    let (found, used) = read("SELECT n FROM sales WHERE n IN (30001, 77777)");
    assert_eq!((found, used.blocks_read, used.rows_read, used.tail_rows), (vec![30_001], 0, 8, 8));
    let (session, _) = fixture.session(&plain);
    runtime().block_on(async {
        let plan =
            text(&session, "EXPLAIN (ANALYZE, FORMAT indent) SELECT note FROM sales WHERE n IN (1, 2, 2, 20004)").await;
        assert!(plan.contains("key lookup, keys=3, rows=3") && plan.contains("snapshot=version 100"), "{plan}");
        for scanned in ["n > 5 AND n < 7", "n = 5 OR country = 'country1'", "n % 10 = 5", "n = quantity", "n <> 5"] {
            let plan = text(&session, &format!("EXPLAIN SELECT note FROM sales WHERE {scanned}")).await;
            assert!(!plan.contains("key lookup"), "{scanned}\n{plan}");
        }
    });
}
