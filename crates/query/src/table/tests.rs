//! Scans of segments, tail and pending rows against the same rows in a plain table.

mod dead;
mod keys;
mod skipping;

use super::testing::{Fixture, Random, column, numbers, table, text, texts};
use alluvia_space::DataType;
use alluvia_tree::BLOCK_ROWS;
use arrow::array::{
    ArrayRef, Float64Array, Int32Array, Int64Array, RecordBatch, TimestampMicrosecondArray, new_null_array,
};
use arrow::datatypes::{DataType as ArrowType, Field, Schema};
use datafusion::prelude::SessionContext;
use proptest::prelude::*;
use std::sync::{Arc, OnceLock};
use tokio::runtime::Runtime;

const DAY: i64 = 86_400_000_000;
const DIMENSIONS: &str =
    "store(country, city); time(sold_at: year, month, day); id(id: hash 10); price(price: linear -50..150, 4)";

fn sales() -> alluvia_space::TableDef {
    table(
        "sales",
        &[
            ("n", DataType::Int64),
            ("country", DataType::Text),
            ("city", DataType::Text),
            ("sold_at", DataType::Timestamp),
            ("id", DataType::Int64),
            ("price", DataType::Double),
            ("quantity", DataType::Int32),
            ("note", DataType::Text),
        ],
    )
}

/// Rows with NULLs, NaN, both zeroes, cities of one name in several countries.
fn rows(random: &mut Random, first: i64, count: usize) -> RecordBatch {
    let mut country = Vec::new();
    let mut city = Vec::new();
    let mut sold_at = Vec::new();
    let mut id = Vec::new();
    let mut price = Vec::new();
    let mut quantity = Vec::new();
    let mut note = Vec::new();
    for row in 0..count {
        let land = random.below(12);
        country.push((land > 0).then(|| format!("country{land}")));
        let town = random.below(9);
        city.push((town > 0).then(|| if town < 4 { format!("city{town}") } else { format!("city{land}x{town}") }));
        sold_at.push((random.below(50) > 0).then(|| random.below(700) as i64 * DAY));
        id.push((random.below(50) > 0).then(|| random.below(5_000) as i64));
        price.push(match random.below(40) {
            0 => None,
            1 => Some(f64::NAN),
            2 => Some(-0.0),
            3 => Some(0.0),
            _ => Some(random.below(10_000) as f64 / 100.0),
        });
        // Follows the row number: its bounds are narrow where rows of one time lie together.
        quantity.push((random.below(30) > 0).then_some((row / 100) as i32));
        note.push(
            (random.below(3) > 0).then(|| format!("{}{}", "n".repeat(random.below(90) as usize), random.below(100))),
        );
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(first..first + count as i64)),
        texts(country),
        texts(city),
        Arc::new(TimestampMicrosecondArray::from(sold_at)),
        Arc::new(Int64Array::from(id)),
        Arc::new(Float64Array::from(price)),
        Arc::new(Int32Array::from(quantity)),
        texts(note),
    ];
    RecordBatch::try_new(sales().storage_schema(), columns).expect("rows of sales")
}

struct World {
    runtime: Runtime,
    session: SessionContext,
    /// The same, with filters evaluated while Parquet is decoded.
    late: SessionContext,
    fixture: Fixture,
    plain: RecordBatch,
}

/// Segments, one of them cut, some tail and some pending rows.
fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let mut random = Random(42);
        let sizes = [3 * BLOCK_ROWS + 17, 60_000, 1, 12_000, 900];
        let mut first = 0;
        let mut batches = Vec::new();
        for size in sizes {
            batches.push(rows(&mut random, first, size));
            first += size as i64;
        }
        let mut fixture = Fixture::new(sales(), DIMENSIONS, &batches[1]);
        fixture.add_segment(&batches[0]);
        fixture.add_segment(&batches[1]);
        fixture.add_segment(&batches[2]);
        fixture.add_cut_segment(&batches[3], &rows(&mut random, 1_000_000, 9_000));
        fixture.add_tail(&batches[4].slice(0, 300));
        fixture.add_tail(&batches[4].slice(300, 1));
        fixture.add_tail(&batches[4].slice(301, 400));
        fixture.pending = (701..900).map(|row| batches[4].slice(row, 1)).collect();
        let plain = arrow::compute::concat_batches(&sales().storage_schema(), &batches).expect("one schema");
        let (session, _) = fixture.session(&plain);
        let (late, _) = fixture.session(&plain);
        late.state_ref().write().config_mut().options_mut().execution.parquet.pushdown_filters = true;
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
        World { runtime, session, late, fixture, plain }
    })
}

fn country() -> impl Strategy<Value = String> {
    (0u32..14).prop_map(|land| format!("'country{land}'"))
}

fn city() -> impl Strategy<Value = String> {
    (0u32..14, 0u32..10).prop_map(|(land, town)| match land {
        0..4 => format!("'city{town}'"),
        _ => format!("'city{land}x{town}'"),
    })
}

fn atom() -> impl Strategy<Value = String> {
    let comparison = || prop::sample::select(vec!["=", "<>", "<", "<=", ">", ">="]);
    let number = prop_oneof![
        (-10i64..110).prop_map(|value| value.to_string()),
        Just("0.0".to_owned()),
        Just("-0.0".to_owned()),
        Just("'NaN'::double".to_owned()),
    ];
    let day = || (-20i64..720).prop_map(|day| format!("to_timestamp_micros({})", day * DAY));
    prop_oneof![
        3 => (comparison(), country()).prop_map(|(op, value)| format!("country {op} {value}")),
        2 => (comparison(), city()).prop_map(|(op, value)| format!("city {op} {value}")),
        2 => prop::collection::vec(country(), 1..4).prop_map(|values| format!("country IN ({})", values.join(", "))),
        2 => prop::collection::vec(city(), 1..30).prop_map(|values| format!("city IN ({})", values.join(", "))),
        1 => prop::collection::vec(country(), 1..4).prop_map(|values| format!("country NOT IN ({})", values.join(", "))),
        1 => (0u32..10).prop_map(|digit| format!("country LIKE '%{digit}'")),
        1 => (0u32..14).prop_map(|land| format!("city NOT LIKE 'city{land}%'")),
        1 => Just("upper(city) = 'CITY2'".to_owned()),
        2 => (comparison(), number).prop_map(|(op, value)| format!("price {op} {value}")),
        3 => (comparison(), day()).prop_map(|(op, value)| format!("sold_at {op} {value}")),
        2 => (day(), day()).prop_map(|(from, to)| format!("sold_at BETWEEN {from} AND {to}")),
        1 => (1i64..13).prop_map(|month| format!("extract(month FROM sold_at) = {month}")),
        2 => (-5i64..5_010).prop_map(|id| format!("id = {id}")),
        1 => prop::collection::vec(0i64..5_000, 1..5)
            .prop_map(|ids| format!("id IN ({})", ids.iter().map(i64::to_string).collect::<Vec<_>>().join(", "))),
        2 => (comparison(), -3i64..620).prop_map(|(op, value)| format!("quantity {op} {value}")),
        1 => (-3i64..620).prop_map(|value| format!("quantity % 7 = {value}")),
        1 => "n{0,70}".prop_map(|value| format!("note > '{value}'")),
        1 => "n{0,90}[0-9]{1,2}".prop_map(|value| format!("note = '{value}'")),
        1 => "n{0,40}".prop_map(|value| format!("note LIKE '{value}%'")),
        1 => prop::sample::select(vec!["country", "city", "sold_at", "id", "price", "quantity", "note"])
            .prop_map(|column| format!("{column} IS NULL")),
        1 => prop::sample::select(vec!["country", "city", "sold_at", "id", "price", "quantity", "note"])
            .prop_map(|column| format!("{column} IS NOT NULL")),
        1 => (country(), city(), country(), city())
            .prop_map(|(a, b, c, d)| format!("((country = {a} AND city = {b}) OR (country = {c} AND city = {d}))")),
    ]
}

fn predicate() -> impl Strategy<Value = String> {
    atom().prop_recursive(3, 8, 3, |inner| {
        prop_oneof![
            3 => prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" AND "))),
            2 => prop::collection::vec(inner.clone(), 2..4).prop_map(|parts| format!("({})", parts.join(" OR "))),
            1 => inner.prop_map(|part| format!("NOT ({part})")),
        ]
    })
}

proptest! {
    #[test]
    fn pruned_scan_returns_what_the_filter_does(predicate in predicate(), late: bool) {
        let world = world();
        let session = if late { &world.late } else { &world.session };
        let ours = format!("SELECT n FROM sales WHERE {predicate} ORDER BY n");
        let plain = format!("SELECT n FROM memory.public.plain WHERE {predicate} ORDER BY n");
        world.runtime.block_on(async {
            assert_eq!(numbers(session, &ours).await, numbers(session, &plain).await, "{predicate}");
        });
    }
}

/// A printed result without its headings, which name the table.
fn values(printed: &str) -> Vec<Vec<String>> {
    let row = |line: &str| line.split('|').map(|value| value.trim().to_owned()).collect::<Vec<_>>();
    printed.lines().skip(3).filter(|line| line.starts_with('|')).map(row).collect()
}

#[test]
fn queries_answer_as_over_a_plain_table() {
    let world = world();
    let queries = [
        "SELECT count(*) FROM @",
        "SELECT count(*), count(price), count(country), min(sold_at), max(n), min(quantity), max(note), min(note) FROM @",
        "SELECT min(price), max(price) FROM @ WHERE price < 50",
        "SELECT country, city, count(*), sum(quantity) FROM @ GROUP BY 1, 2 ORDER BY 1, 2",
        "SELECT n, country FROM @ ORDER BY sold_at DESC NULLS LAST, n LIMIT 20",
        "SELECT n FROM @ ORDER BY price, n LIMIT 50",
        "SELECT count(*) FROM (SELECT n FROM @ LIMIT 30000)",
        "SELECT count(*) FROM (SELECT 1 FROM @ WHERE quantity > 3 LIMIT 10)",
        "SELECT a.n FROM @ a JOIN @ b ON a.id = b.n WHERE b.quantity = 4 AND a.country = 'country3' ORDER BY 1",
        "SELECT n, row_number() OVER (PARTITION BY country ORDER BY n) FROM @ WHERE id < 10 ORDER BY 1",
        "SELECT count(*) FROM @ WHERE n IN (SELECT id FROM @ WHERE city = 'city1')",
        "SELECT sum(quantity) FROM @ WHERE country = (SELECT max(country) FROM @)",
    ];
    world.runtime.block_on(async {
        for query in queries {
            let ours = values(&text(&world.session, &query.replace('@', "sales")).await);
            let plain = values(&text(&world.session, &query.replace('@', "memory.public.plain")).await);
            assert_eq!(ours, plain, "{query}");
        }
    });
}

#[test]
fn a_path_of_two_names_skips_blocks_that_neither_name_alone_does() {
    let mut random = Random(5);
    let rows = rows(&mut random, 0, 30 * BLOCK_ROWS);
    let mut fixture = Fixture::new(sales(), "store(country, city)", &rows);
    fixture.add_segment(&rows);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
    let read = |sql: &str| {
        let (session, used) = fixture.session(&rows);
        let found = runtime.block_on(numbers(&session, sql))[0];
        (found, used.used())
    };
    let (found, both) = read("SELECT count(*) FROM sales WHERE country = 'country3' AND city = 'city2'");
    assert!(found > 0);
    let (_, city) = read("SELECT count(*) FROM sales WHERE city = 'city2'");
    let (_, nowhere) = read("SELECT count(*) FROM sales WHERE country = 'country3' AND city = 'city4x5'");
    assert!(both.blocks_read <= 3, "{both}");
    assert!(city.blocks_read > both.blocks_read, "{city}");
    assert_eq!((nowhere.blocks_read, nowhere.blocks_skipped), (0, 30), "{nowhere}");
    assert_eq!(nowhere.segments_skipped, 1);
    assert_eq!(both.blocks_read + both.blocks_skipped, 30);
    let (_, id) = read("SELECT count(*) FROM sales WHERE n = 77");
    assert!(id.blocks_read >= 1 && id.blocks_read < 30, "{id}");
}

#[test]
fn a_limit_reads_no_more_blocks_than_it_needs() {
    let world = world();
    let (session, used) = world.fixture.session(&world.plain);
    let found = world.runtime.block_on(numbers(&session, "SELECT n FROM sales LIMIT 10"));
    assert_eq!(found.len(), 10);
    // One block of the whole segments, and however many the cut segment has.
    assert!(used.used().blocks_read <= 4, "{}", used.used());
}

#[test]
fn count_of_all_merged_rows_reads_nothing() {
    let mut random = Random(6);
    let rows = rows(&mut random, 0, 20_000);
    let mut fixture = Fixture::new(sales(), DIMENSIONS, &rows);
    fixture.add_segment(&rows);
    let (session, used) = fixture.session(&rows);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
    assert_eq!(runtime.block_on(numbers(&session, "SELECT count(*) FROM sales")), [20_000]);
    assert_eq!(used.used().blocks_read, 0);
}

/// One aggregate's bounds say nothing of the rows that another one needs.
#[test]
fn several_minima_are_of_all_rows() {
    let mut random = Random(10);
    let all = rows(&mut random, 0, 3 * BLOCK_ROWS);
    let mut fixture = Fixture::new(sales(), DIMENSIONS, &all);
    fixture.add_segment(&all);
    let (session, _) = fixture.session(&all);
    session.state_ref().write().config_mut().options_mut().execution.target_partitions = 1;
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
    runtime.block_on(async {
        let of = |columns: &str| format!("SELECT {columns} FROM @ WHERE n % 2 = 1");
        let sql = of("max(n), min(quantity), min(n + quantity), max(CASE WHEN n < 70 THEN n END)");
        let ours = values(&text(&session, &sql.replace('@', "sales")).await);
        assert_eq!(ours, values(&text(&session, &sql.replace('@', "memory.public.plain")).await));
    });
}

#[test]
fn what_is_answered_from_statistics_is_what_rows_say() {
    let mut random = Random(9);
    let all = rows(&mut random, 0, 30_000);
    let mut fixture = Fixture::new(sales(), DIMENSIONS, &all);
    fixture.add_segment(&all.slice(0, 9_000));
    fixture.add_segment(&all.slice(9_000, 1));
    // A segment all of whose notes are NULL, and one that was written before there was a column for them.
    let mut columns = all.slice(9_001, 12_999).columns().to_vec();
    columns[7] = new_null_array(&ArrowType::Utf8View, 12_999);
    let noteless = RecordBatch::try_new(all.schema(), columns).expect("rows of sales");
    fixture.add_segment(&noteless);
    fixture.def.columns.pop();
    fixture.add_segment(&all.slice(22_000, 8_000).project(&[0, 1, 2, 3, 4, 5, 6]).expect("seven columns"));
    let mut columns = all.slice(22_000, 8_000).columns().to_vec();
    columns[7] = new_null_array(&ArrowType::Utf8View, 8_000);
    let last = RecordBatch::try_new(all.schema(), columns).expect("rows of sales");
    let parts = [&all.slice(0, 9_001), &noteless, &last];
    let plain = arrow::compute::concat_batches(&all.schema(), parts).expect("one schema");
    let (session, _) = fixture.session(&plain);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
    runtime.block_on(async {
        for column in ["n", "country", "city", "sold_at", "id", "price", "quantity", "note"] {
            let sql = format!("SELECT count(*), count({column}), min({column}), max({column}) FROM @");
            let ours = values(&text(&session, &sql.replace('@', "sales")).await);
            let plain = values(&text(&session, &sql.replace('@', "memory.public.plain")).await);
            assert_eq!(ours, plain, "{sql}");
        }
    });
}

#[test]
fn renamed_added_and_dropped_columns_are_read_from_old_segments() {
    let mut random = Random(8);
    let all = rows(&mut random, 0, 20_000);
    let mut fixture = Fixture::new(sales(), DIMENSIONS, &all);
    fixture.add_segment(&all.slice(0, 15_000));
    fixture.add_tail(&all.slice(15_000, 4_000));
    fixture.now.columns.retain(|column| column.name != "note");
    fixture.now.columns[1].name = "land".to_owned();
    fixture.now.columns[6].name = "amount".to_owned();
    fixture.now.columns.push(column(20, "added", DataType::Int64));
    fixture.now.columns.push({
        let mut again = column(21, "note", DataType::Text);
        again.storage_name = "note~21".to_owned();
        again
    });
    // Rows written since are in the new storage schema.
    let mut fields: Vec<Arc<Field>> = all.schema().fields()[..7].to_vec();
    fields.push(Arc::new(Field::new("added", ArrowType::Int64, true)));
    fields.push(Arc::new(Field::new("note~21", ArrowType::Utf8View, true)));
    let mut columns: Vec<ArrayRef> = all.slice(19_000, 1_000).columns()[..7].to_vec();
    columns.push(Arc::new(Int64Array::from_iter_values(0..1_000)));
    columns.push(new_null_array(&ArrowType::Utf8View, 1_000));
    fixture.pending = vec![RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("new rows")];
    let (session, used) = fixture.session(&all);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
    runtime.block_on(async {
        let pairs = [
            (
                "SELECT n FROM sales WHERE land = 'country2' ORDER BY n",
                "SELECT n FROM plain WHERE country = 'country2' ORDER BY n",
            ),
            (
                "SELECT sum(amount) FROM sales WHERE land LIKE '%1'",
                "SELECT sum(quantity) FROM plain WHERE country LIKE '%1'",
            ),
            ("SELECT count(*) FROM sales WHERE added IS NULL", "SELECT 19000"),
            ("SELECT n FROM sales WHERE added >= 998 ORDER BY n", "SELECT n FROM plain WHERE n >= 19998 ORDER BY n"),
            ("SELECT count(*) FROM sales WHERE note IS NULL", "SELECT 20000"),
            ("SELECT min(added) FROM sales", "SELECT 0"),
            ("SELECT max(amount)::bigint FROM sales", "SELECT max(quantity)::bigint FROM plain"),
        ];
        for (ours, plain) in pairs {
            let plain = plain.replace("FROM plain", "FROM memory.public.plain");
            assert_eq!(numbers(&session, ours).await, numbers(&session, &plain).await, "{ours}");
        }
        assert!(used.used().tail_rows > 0);
    });
}

#[test]
fn explain_analyze_shows_the_snapshot_and_what_was_read() {
    let world = world();
    let (session, _) = world.fixture.session(&world.plain);
    let plan = world.runtime.block_on(text(
        &session,
        "EXPLAIN (ANALYZE, FORMAT indent) SELECT sum(quantity) FROM sales WHERE quantity = 500",
    ));
    for part in [
        "snapshot=version 100, lag 250ms, stage ingested",
        "blocks_read=",
        "blocks_skipped=",
        "segments_read=",
        "tail, rows=900",
    ] {
        assert!(plan.contains(part), "{part} is missing in\n{plan}");
    }
}

#[test]
fn system_tables_tell_of_store_and_definitions() {
    let world = world();
    world.runtime.block_on(async {
        for name in crate::system::TABLE_NAMES {
            text(&world.session, &format!("SELECT * FROM alluvia.{name}")).await;
        }
        let stages = text(&world.session, "SELECT table_name, staleness_seconds FROM alluvia.stages").await;
        assert!(stages.contains("sales") && stages.contains("1.5"), "{stages}");
        let batches = text(&world.session, "SELECT tables, committed_at FROM alluvia.batches").await;
        assert!(batches.contains("sales, (dropped table 5)") && batches.contains("1970-01-01T00:00:01Z"), "{batches}");
        let sql = "SELECT count(*) FROM alluvia.dimensions WHERE dimension = 'store'";
        assert_eq!(numbers(&world.session, sql).await, [2]);
        let sql = "SELECT count(*) FROM alluvia.columns WHERE role = 'dimension'";
        assert_eq!(numbers(&world.session, sql).await, [5]);
    });
}
