//! Joins by a whole key, and those that are none; the keys of rows of their other side.

use super::*;
use alluvia_fixture::{Random, table, texts};
use alluvia_space::key_code::KeyCoder;
use alluvia_space::{DataType as SqlType, OnConflict, PrimaryKey};
use alluvia_types::ColumnId;
use arrow::array::{Decimal128Array, Float64Array, Int64Array};
use arrow::compute::cast;
use arrow::util::pretty::pretty_format_batches;
use datafusion::common::TableReference;
use datafusion::datasource::MemTable;
use datafusion::execution::session_state::SessionState;
use datafusion::physical_plan::collect;
use datafusion::prelude::{SessionConfig, SessionContext};
use std::collections::HashSet;

const NAMED: TableName = ("given", "target");

fn keyed(columns: &[(&str, SqlType)], key: usize) -> TableDef {
    let columns_of_key = (0..key as u32).map(ColumnId).collect();
    let key = PrimaryKey { columns: columns_of_key, secret: [1, 2], on_conflict: OnConflict::Error };
    TableDef { key: Some(key), ..table("t", columns) }
}

/// Values of a column, each of which may be NULL where they are of the other side.
fn values(random: &mut Random, data_type: &DataType, rows: usize, nulls: u64) -> ArrayRef {
    let mut some = |most: u64| (nulls == 0 || random.below(nulls) > 0).then(|| random.below(most) as i64);
    let numbers: Vec<Option<i64>> = (0..rows).map(|_| some(40).map(|value| value - 10)).collect();
    match data_type {
        DataType::Utf8View => texts(numbers.iter().map(|value| value.map(|value| format!("b{}", value % 3))).collect()),
        DataType::Utf8 => {
            let texts = texts(numbers.iter().map(|value| value.map(|value| format!("b{}", value % 3))).collect());
            cast(&texts, &DataType::Utf8).expect("texts")
        }
        // Halves, and numbers that no key holds.
        DataType::Decimal128(precision, scale) => {
            let unit = 10i128.pow(*scale as u32);
            let value =
                |value: i64| if value > 25 && *precision > 10 { 10i128.pow(11) } else { i128::from(value) * unit / 2 };
            let values: Decimal128Array = numbers.iter().map(|number| number.map(value)).collect();
            Arc::new(values.with_precision_and_scale(*precision, *scale).expect("decimals"))
        }
        DataType::Float64 => {
            Arc::new(numbers.iter().map(|value| value.map(|value| value as f64 / 2.0)).collect::<Float64Array>())
        }
        DataType::Int64 => {
            let far = |value: i64| if value > 25 { value + (1 << 40) } else { value };
            Arc::new(numbers.iter().map(|value| value.map(far)).collect::<Int64Array>())
        }
        other => cast(&numbers.into_iter().collect::<Int64Array>(), other).expect("numbers"),
    }
}

/// Rows of the table, no two with one key.
fn target(random: &mut Random, def: &TableDef) -> RecordBatch {
    let key = def.key_columns().expect("a key");
    let column = |(at, column): (usize, &alluvia_space::Column)| {
        let data_type = column.data_type.to_arrow();
        (column.name.clone(), values(random, &data_type, 60, if key.contains(&at) { 0 } else { 5 }))
    };
    let columns: Vec<_> = def.columns.iter().enumerate().map(column).collect();
    let rows = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(name, values)| (name, values, true)));
    let rows = rows.expect("rows");
    let mut seen = HashSet::new();
    let codes = KeyCoder::new(def).expect("a key").codes(&rows).expect("codes");
    let is_first: BooleanArray = codes.into_iter().map(|code| Some(seen.insert(code))).collect();
    filter_record_batch(&rows, &is_first).expect("rows")
}

fn lines(batches: &[RecordBatch]) -> Vec<String> {
    let shown = pretty_format_batches(batches).expect("shown").to_string();
    let mut lines: Vec<String> =
        shown.lines().skip(3).filter(|line| line.starts_with('|')).map(str::to_owned).collect();
    lines.iter_mut().for_each(|line| line.retain(|c| c != ' '));
    lines.sort_unstable();
    lines
}

async fn answer(state: &SessionState, plan: &LogicalPlan) -> Vec<RecordBatch> {
    let physical = state.query_planner().create_physical_plan(plan, state).await.expect("planned");
    collect(physical, state.task_ctx()).await.expect("rows")
}

fn context(target: &RecordBatch, source: &RecordBatch) -> SessionContext {
    let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
    let catalog = context.catalog("datafusion").expect("a catalog");
    catalog.register_schema("given", Arc::new(datafusion::catalog::MemorySchemaProvider::new())).expect("a schema");
    let table = |rows: &RecordBatch| MemTable::try_new(rows.schema(), vec![vec![rows.clone()]]).expect("a table");
    let named = TableReference::partial(NAMED.0, NAMED.1);
    context.register_table(named, Arc::new(table(target))).expect("registered");
    context.register_table("s", Arc::new(table(source))).expect("registered");
    context
}

/// The answers of a query, in general and by the key; and how many rows of the table were left then.
async fn both(
    context: &SessionContext,
    def: &TableDef,
    rows: &RecordBatch,
    sql: &str,
) -> (Vec<String>, Option<(Vec<String>, usize)>) {
    let state = context.state();
    let plan = state.create_logical_plan(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let plan = state.optimize(&plan).expect("optimized");
    let general = lines(&answer(&state, &plan).await);
    let join = joined_scan(&plan, NAMED).and_then(|_| KeyJoin::of(&plan, NAMED, def, state.execution_props()));
    let Some(join) = join else { return (general, None) };
    let source = answer(&state, join.source()).await;
    let coder = KeyCoder::new(def).expect("a key");
    let keys = join.keys(&source).expect("keys");
    let codes: HashSet<u128> = keys.iter().flat_map(|keys| coder.codes(keys).expect("codes")).collect();
    let is_found: BooleanArray =
        coder.codes(rows).expect("codes").iter().map(|code| Some(codes.contains(code))).collect();
    let found = filter_record_batch(rows, &is_found).expect("rows");
    let left = found.num_rows();
    let fields = join.source().schema().as_arrow().fields().iter().enumerate();
    let fields: Vec<Field> = fields.map(|(at, field)| field.as_ref().clone().with_name(format!("c{at}"))).collect();
    let schema = Arc::new(Schema::new(fields));
    let renamed = |rows: &RecordBatch| {
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        RecordBatch::try_new_with_options(Arc::clone(&schema), rows.columns().to_vec(), &options).expect("renamed")
    };
    let source = MemTable::try_new(Arc::clone(&schema), vec![source.iter().map(renamed).collect()]).expect("a table");
    let source: Arc<dyn TableProvider> = Arc::new(source);
    let table: Arc<dyn TableProvider> =
        Arc::new(MemTable::try_new(found.schema(), vec![vec![found]]).expect("a table"));
    let replaced = join.replaced(plan.clone(), &source, Some(&table)).expect("replaced");
    let scanned = join.replaced(plan, &source, None).expect("replaced");
    assert_eq!(lines(&answer(&state, &scanned).await), general, "{sql}");
    (general, Some((lines(&answer(&state, &replaced).await), left)))
}

const FORMS: [(&str, bool); 11] = [
    ("SELECT t.n, s.* FROM given.target AS t JOIN s ON {on}", true),
    ("SELECT t.*, s.z FROM given.target AS t RIGHT JOIN s ON {on}", true),
    ("SELECT t.*, s.z FROM s LEFT JOIN given.target AS t ON {on} AND t.n > 5", true),
    ("SELECT t.*, s.x FROM given.target AS t, s WHERE {on} AND s.z > 3 AND t.n < 20", true),
    ("SELECT t.* FROM given.target AS t WHERE EXISTS (SELECT 1 FROM s WHERE {on})", true),
    ("SELECT t.*, s.x, u.z AS uz FROM given.target AS t, s, s AS u WHERE {on} AND u.z = s.z", true),
    (
        "SELECT t.n, s.x, s.k FROM given.target AS t RIGHT JOIN (SELECT *, true AS k FROM (SELECT x, y, max(z) AS z \
         FROM s GROUP BY x, y) AS s) AS s ON {on} WHERE t.n IS NULL OR s.z > 7",
        true,
    ),
    ("SELECT t.*, s.z FROM given.target AS t LEFT JOIN s ON {on}", false),
    ("SELECT t.*, s.z FROM given.target AS t FULL JOIN s ON {on}", false),
    ("SELECT t.* FROM given.target AS t WHERE NOT EXISTS (SELECT 1 FROM s WHERE {on})", false),
    ("SELECT t.*, s.x FROM given.target AS t, s, given.target AS u WHERE {on} AND u.n = t.n", false),
];

/// A condition of a join, and of which types `x` may be for it to be one by the key.
type Condition = (&'static str, &'static [DataType]);

/// Tables, and conditions of joins of them.
fn tables() -> Vec<(TableDef, Vec<Condition>)> {
    const ALL: &[DataType] =
        &[DataType::Int16, DataType::Int32, DataType::Int64, DataType::Decimal128(14, 3), DataType::Decimal128(12, 2)];
    const NONE: &[DataType] = &[];
    let n = ("n", SqlType::Int64);
    vec![
        (
            keyed(&[("a", SqlType::Int32), n], 1),
            vec![("t.a = s.x", ALL), ("s.x = t.a", ALL), ("t.a + 0 = s.x", NONE), ("t.n = s.x", NONE), ("true", NONE)],
        ),
        (
            keyed(&[("a", SqlType::Int32), ("b", SqlType::Text), n], 2),
            vec![
                ("t.a = s.x AND t.b = s.y", ALL),
                ("t.b = s.y AND t.a = s.x AND t.n > s.z", ALL),
                ("t.b = s.y AND t.a = 5", ALL),
                ("t.a = s.x", NONE),
                ("t.a = s.x AND t.b > s.y", NONE),
            ],
        ),
        (
            keyed(&[("a", SqlType::Decimal { precision: 9, scale: 2 }), n], 1),
            // Of larger numbers, both sides become another decimal, of which not all are the column's.
            vec![("t.a = s.x", &[DataType::Decimal128(14, 3), DataType::Decimal128(12, 2)])],
        ),
        (keyed(&[("a", SqlType::Double), n], 1), vec![("t.a = s.x", NONE)]),
    ]
}

#[test]
fn what_is_joined_by_the_key_is_what_is_joined_in_general() {
    let mut random = Random(3);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (mut taken, mut fewer) = (0, 0);
    for (def, conditions) in tables() {
        for data_type in [
            DataType::Int16,
            DataType::Int32,
            DataType::Int64,
            DataType::Decimal128(14, 3),
            DataType::Decimal128(12, 2),
            DataType::Float64,
        ] {
            let rows = target(&mut random, &def);
            let count = random.below(30) as usize;
            let texts = if random.below(2) == 0 { DataType::Utf8 } else { DataType::Utf8View };
            let source = RecordBatch::try_from_iter_with_nullable([
                ("x", values(&mut random, &data_type, count, 6), true),
                ("y", values(&mut random, &texts, count, 6), true),
                ("z", values(&mut random, &DataType::Int64, count, 6), true),
            ]);
            let context = context(&rows, &source.expect("rows"));
            for (condition, types) in &conditions {
                for (form, leaves_out) in FORMS {
                    let sql = form.replace("{on}", condition);
                    let (general, by_key) = runtime.block_on(both(&context, &def, &rows, &sql));
                    let Some((by_key, left)) = by_key else {
                        // Where an outer join becomes an inner one, more is by the key than is said here.
                        assert!(!leaves_out || !types.contains(&data_type), "not by the key, {data_type}: {sql}");
                        continue;
                    };
                    assert!(!types.is_empty(), "by the key, {data_type}: {sql}");
                    assert_eq!(by_key, general, "{data_type}: {sql}");
                    taken += 1;
                    fewer += usize::from(left < rows.num_rows());
                }
            }
        }
    }
    assert!(taken > 150 && fewer * 2 > taken, "{fewer} of {taken}");
}

#[test]
fn what_gives_something_else_each_time_is_left_where_it_is() {
    let mut random = Random(5);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let def = keyed(&[("a", SqlType::Int32), ("n", SqlType::Int64)], 1);
    let rows = target(&mut random, &def);
    let source = RecordBatch::try_from_iter([("x", values(&mut random, &DataType::Int32, 9, 0))]).expect("rows");
    let context = context(&rows, &source);
    let is_by_key = |sql: &str| {
        let state = context.state();
        let plan = runtime.block_on(state.create_logical_plan(sql)).expect("planned");
        let plan = state.optimize(&plan).expect("optimized");
        joined_scan(&plan, NAMED).and_then(|_| KeyJoin::of(&plan, NAMED, &def, state.execution_props())).is_some()
    };
    for (sql, expected) in [
        ("SELECT * FROM given.target AS t JOIN (SELECT x, random() AS r FROM s) AS s ON t.a = s.x", true),
        ("SELECT * FROM given.target AS t JOIN s ON t.a = s.x AND t.n > s.x * random()", false),
        ("SELECT * FROM given.target AS t JOIN s ON t.a = s.x + (random() * 3)::int", false),
        ("SELECT * FROM (SELECT *, random() AS r FROM given.target) AS t JOIN s ON t.a = s.x", false),
        ("SELECT * FROM (SELECT * FROM given.target LIMIT 5) AS t JOIN s ON t.a = s.x", false),
        ("SELECT * FROM (SELECT a, count(*) FROM given.target GROUP BY a) AS t JOIN s ON t.a = s.x", false),
        ("SELECT * FROM given.target AS t JOIN s ON t.a IS NOT DISTINCT FROM s.x", false),
        ("SELECT * FROM given.target AS t WHERE t.a NOT IN (SELECT x FROM s)", false),
    ] {
        assert_eq!(is_by_key(sql), expected, "{sql}");
    }
}

#[test]
fn values_of_other_types_are_keys_where_a_cast_leads_back() {
    let as_key = |values: ArrayRef, data_type: SqlType| {
        let (keys, is_same) = as_key(&values, &data_type.to_arrow()).expect("casts");
        let keys = cast(&keys, &DataType::Int64).expect("numbers");
        let keys = keys.as_any().downcast_ref::<Int64Array>().expect("numbers").clone();
        (0..keys.len()).filter(|&row| is_same.value(row)).map(|row| keys.value(row)).collect::<Vec<_>>()
    };
    let numbers = Int64Array::from(vec![Some(7), None, Some(1 << 31), Some(-(1 << 31)), Some(i64::MAX)]);
    assert_eq!(as_key(Arc::new(numbers), SqlType::Int32), [7, -(1 << 31)]);
    let decimals = Decimal128Array::from(vec![Some(700), Some(750), None, Some(799), Some(-100), Some(10i128.pow(20))]);
    let decimals = decimals.with_precision_and_scale(30, 2).expect("decimals");
    assert_eq!(as_key(Arc::new(decimals), SqlType::Int32), [7, -1]);
    assert!(is_exact(&DataType::Int64, &DataType::Decimal128(21, 2)));
    for (from, to) in [
        (DataType::Int64, DataType::Decimal128(20, 2)),
        (DataType::Int64, DataType::Float64),
        (DataType::Int32, DataType::Float64),
        (DataType::Int64, DataType::Int32),
        (DataType::Decimal128(9, 2), DataType::Decimal128(9, 3)),
        (DataType::Decimal128(9, 2), DataType::Decimal128(12, 1)),
        (DataType::Int32, DataType::Utf8View),
        (DataType::Utf8View, DataType::Int32),
    ] {
        assert!(!is_exact(&from, &to), "{from} to {to}");
    }
}
