//! Forms and scans against evaluation of every row: what implies another is TRUE for no other row, and no answer changes.

use crate::table::testing::{Fixture, Random, numbers, table, text, texts};
use alluvia_skipping::{Form, Parts};
use alluvia_space::{DataType, TableDef};
use alluvia_tree::BLOCK_ROWS;
use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int64Array,
    RecordBatch, TimestampMicrosecondArray,
};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ToDFSchema};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::prelude::SessionContext;
use std::sync::Arc;

const DAY: i64 = 86_400_000_000;

fn def() -> TableDef {
    table(
        "t",
        &[
            ("n", DataType::Int64),
            ("i", DataType::Int64),
            ("f", DataType::Double),
            ("r", DataType::Real),
            ("s", DataType::Text),
            ("d", DataType::Date),
            ("z", DataType::TimestampTz),
            ("m", DataType::Decimal { precision: 5, scale: 2 }),
            ("b", DataType::Boolean),
        ],
    )
}

const TEXTS: [&str; 12] = ["", "a", "ab", "abc", "abd", "b", "B", "é", "éa", "zz", "a%", "a_c"];
const FLOATS: [f64; 9] = [f64::NAN, f64::INFINITY, -0.0, 0.0, 1.5, -1.5, 1e300, -f64::NAN, f64::NEG_INFINITY];

/// Rows of which a block has few values of each column, so that many blocks lack any.
fn rows(random: &mut Random, first: i64, count: usize) -> RecordBatch {
    let mut near = |row: usize, of: usize| (row / BLOCK_ROWS * 5 + random.below(3) as usize) % of;
    let mut places: Vec<[Option<usize>; 8]> = Vec::with_capacity(count);
    for row in 0..count {
        places.push([12, 9, 9, 12, 9, 9, 11, 2].map(|of| Some(near(row, of))));
    }
    for row in &mut places {
        for place in row {
            // Some blocks have NULLs.
            if random.below(9_000) == 0 {
                *place = None;
            }
        }
    }
    let column = |at: usize| places.iter().map(move |row| row[at]);
    let days = |at: usize| column(at).map(|place| place.map(|place| 20_000 + place as i64));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(first..first + count as i64)),
        Arc::new(Int64Array::from_iter(column(0).map(|place| place.map(|place| place as i64 - 4)))),
        Arc::new(Float64Array::from_iter(column(1).map(|place| place.map(|place| FLOATS[place])))),
        Arc::new(Float32Array::from_iter(column(2).map(|place| place.map(|place| FLOATS[place] as f32)))),
        texts(column(3).map(|place| place.map(|place| TEXTS[place].to_owned())).collect()),
        Arc::new(Date32Array::from_iter(days(4).map(|day| day.map(|day| day as i32)))),
        Arc::new(
            TimestampMicrosecondArray::from_iter(days(5).map(|day| day.map(|day| day * DAY))).with_timezone("UTC"),
        ),
        Arc::new(
            Decimal128Array::from_iter(column(6).map(|place| place.map(|place| place as i128 * 25 - 100)))
                .with_precision_and_scale(5, 2)
                .expect("fits"),
        ),
        Arc::new(BooleanArray::from_iter(column(7).map(|place| place.map(|place| place == 1)))),
    ];
    RecordBatch::try_new(def().storage_schema(), columns).expect("rows of t")
}

fn literal(random: &mut Random, column: &str) -> String {
    let below = |random: &mut Random, end: u64| random.below(end) as i64;
    match column {
        "i" => match random.below(8) {
            // Of other types: these are cast.
            0 => format!("{}.5", below(random, 12) - 4),
            1 => format!("{}::int", below(random, 12) - 4),
            _ => (below(random, 14) - 5).to_string(),
        },
        "f" => ["'NaN'::double", "'Infinity'::double", "-0.0", "0.0", "1.5", "-1.5", "0", "1e300"]
            [random.below(8) as usize]
            .to_owned(),
        "r" => ["'NaN'::real", "-0.0::real", "0.0::real", "1.5::real", "-1.5", "0", "2"][random.below(7) as usize]
            .to_owned(),
        "s" => format!("'{}'", TEXTS[random.below(12) as usize]),
        "d" => match random.below(4) {
            0 => format!("'2024-10-{:02} 12:00:00'::timestamp", 3 + below(random, 12)),
            _ => format!("'2024-10-{:02}'::date", 3 + below(random, 12)),
        },
        "z" => match random.below(4) {
            0 => format!("'2024-10-{:02} 00:00:00'::timestamp", 3 + below(random, 12)),
            1 => format!("'2024-10-{:02}T02:00:00+02:00'::timestamptz", 3 + below(random, 12)),
            _ => format!("'2024-10-{:02}T00:00:00Z'::timestamptz", 3 + below(random, 12)),
        },
        _ => match random.below(4) {
            0 => format!("{}.125", below(random, 4) - 1),
            _ => format!("{}.{}", below(random, 4) - 1, ["00", "25", "50", "75"][random.below(4) as usize]),
        },
    }
}

fn atom(random: &mut Random) -> String {
    let column = ["i", "i", "f", "r", "s", "s", "d", "z", "m"][random.below(9) as usize];
    let operator = ["=", "<>", "<", "<=", ">", ">="][random.below(6) as usize];
    let list = |random: &mut Random, count: u64| {
        let mut values: Vec<String> = (0..1 + random.below(count)).map(|_| literal(random, column)).collect();
        if random.below(12) == 0 {
            values.push("NULL".to_owned());
        }
        values.join(", ")
    };
    match random.below(16) {
        0 => format!("{column} IS NULL"),
        1 => format!("{column} IS NOT NULL"),
        2 | 3 => format!("{column} IN ({})", list(random, 6)),
        4 => format!("{column} NOT IN ({})", list(random, 5)),
        5 | 6 => {
            let (low, high) = (literal(random, column), literal(random, column));
            format!("{column} BETWEEN {low} AND {high}")
        }
        7 => ["b", "NOT b", "b IS NULL", "b = true", "b IS NOT TRUE", "b <> true"][random.below(6) as usize].to_owned(),
        8 => {
            let patterns = ["a%", "ab%", "%", "a\\%%", "a_%", "é%", "%b", "", "abc", "A%", "a%c%"];
            let negated = if random.below(4) == 0 { "NOT " } else { "" };
            let like = if random.below(5) == 0 { "ILIKE" } else { "LIKE" };
            format!("s {negated}{like} '{}'", patterns[random.below(11) as usize])
        }
        9 => format!("i % 3 = {}", random.below(3)),
        10 => format!("upper(s) = '{}'", TEXTS[random.below(12) as usize].to_uppercase()),
        11 => format!("({column} {operator} {} OR i = {})", literal(random, column), random.below(6)),
        _ => format!("{column} {operator} {}", literal(random, column)),
    }
}

fn predicate(random: &mut Random) -> String {
    let parts: Vec<String> = (0..1 + random.below(3)).map(|_| atom(random)).collect();
    let all = parts.join(" AND ");
    if random.below(8) == 0 { format!("NOT ({all})") } else { all }
}

/// The predicate as the planner leaves it; `None` if it is always or never TRUE.
async fn planned(session: &SessionContext, predicate: &str) -> Option<Expr> {
    let sql = format!("SELECT n FROM memory.public.plain WHERE {predicate}");
    let plan = session.sql(&sql).await.expect(&sql).into_optimized_plan().expect(&sql);
    let mut found = None;
    plan.apply(|node| {
        if let LogicalPlan::Filter(filter) = node {
            found = Some(filter.predicate.clone()).filter(|expr| !expr.to_string().contains("__common_expr"));
        }
        Ok(TreeNodeRecursion::Continue)
    })
    .expect("walks");
    found
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().build().expect("runtime")
}

#[test]
fn what_implies_another_is_true_for_no_other_row() {
    let mut random = Random(7);
    let def = def();
    let batches: Vec<RecordBatch> = (0..6).map(|part| rows(&mut random, part * 9_000, 9_000).slice(0, 300)).collect();
    let all = arrow::compute::concat_batches(&def.storage_schema(), &batches).expect("one schema");
    let (session, _) = Fixture::new(def.clone(), "", &all).session(&all);
    let schema = all.schema().to_dfschema().expect("names differ");
    let mut known: Vec<(String, Form, Vec<bool>)> = Vec::new();
    let mut understood = 0;
    runtime().block_on(async {
        for _ in 0..700 {
            let sql = predicate(&mut random);
            let Some(expr) = planned(&session, &sql).await else { continue };
            let parts = Parts::new(std::slice::from_ref(&expr), &def);
            // What the planner computes once for several conditions is no column of the table.
            let Some(form) = parts.known().map(|form| form.as_ref().clone()) else { continue };
            understood += usize::from(form.opaque().is_empty());
            let schema: DFSchema = unqualified(&schema);
            let physical = session.create_physical_expr(strip(expr), &schema).expect(&sql);
            let array = physical.evaluate(&all).expect(&sql).into_array(all.num_rows()).expect(&sql);
            let array = array.as_boolean();
            let is_true = (0..array.len()).map(|row| array.is_valid(row) && array.value(row)).collect();
            known.push((sql, form, is_true));
        }
    });
    let mut implied = 0;
    for (asked, form, rows) in &known {
        for (remembered, other, others) in &known {
            if form.implies(other) {
                implied += usize::from(form != other);
                let wrong = rows.iter().zip(others).position(|(own, other)| *own && !*other);
                let shown = (form.show(Some(&def)), other.show(Some(&def)));
                assert_eq!(wrong, None, "{asked}\ndoes not imply\n{remembered}\n{shown:?}");
            } else {
                assert_ne!(asked, remembered, "a predicate implies itself");
            }
        }
    }
    assert!(known.len() > 500 && understood > known.len() / 3, "{} of {}", understood, known.len());
    assert!(implied > 500, "only {implied} implications were seen");
}

fn unqualified(schema: &DFSchema) -> DFSchema {
    DFSchema::try_from(Arc::clone(schema.inner())).expect("names differ")
}

/// Without the table's name before columns, as scans get their filters.
fn strip(expr: Expr) -> Expr {
    datafusion::logical_expr::expr_rewriter::unnormalize_col(expr)
}

/// Whole segments, a cut one, a tail.
fn fixture(random: &mut Random) -> (Fixture, RecordBatch) {
    let sizes = [5 * BLOCK_ROWS + 17, 3 * BLOCK_ROWS, 1, 2 * BLOCK_ROWS - 1, 700];
    let mut first = 0;
    let mut batches = Vec::new();
    for size in sizes {
        batches.push(rows(random, first, size));
        first += size as i64;
    }
    let mut fixture = Fixture::new(def(), "n(n: linear 0..1000000)", &batches[0]);
    batches[..3].iter().for_each(|batch| fixture.add_segment(batch));
    fixture.add_cut_segment(&batches[3], &rows(random, 2_000_000, 9_000));
    fixture.add_tail(&batches[4]);
    let plain = arrow::compute::concat_batches(&def().storage_schema(), &batches).expect("one schema");
    (fixture, plain)
}

fn set_batch_size(session: &SessionContext, rows: usize) {
    let state = session.state_ref();
    let mut state = state.write();
    let config = std::mem::take(state.config_mut());
    *state.config_mut() = config.with_batch_size(rows);
}

#[test]
fn no_answer_changes_by_what_is_remembered() {
    let mut random = Random(11);
    let (mut fixture, plain) = fixture(&mut random);
    let (session, used) = fixture.session(&plain);
    let (narrow, _) = fixture.session(&plain);
    // Batches that are not of one block each.
    set_batch_size(&narrow, 1_000);
    let (wide, _) = fixture.session(&plain);
    set_batch_size(&wide, 20_000);
    fixture.skips = false;
    let (model, _) = fixture.session(&plain);
    runtime().block_on(async {
        let mut asked: Vec<String> = Vec::new();
        for round in 0..400 {
            let sql = match asked.len() {
                0..5 => predicate(&mut random),
                known => match random.below(4) {
                    0 => asked[random.below(known as u64) as usize].clone(),
                    1 => format!("{} AND {}", asked[random.below(known as u64) as usize], atom(&mut random)),
                    _ => predicate(&mut random),
                },
            };
            let session = [&session, &narrow, &wide][round % 3];
            let want = match random.below(4) {
                0 => format!("SELECT n FROM # WHERE {sql} ORDER BY f, n DESC LIMIT 7"),
                1 => format!("SELECT count(*) FROM (SELECT 1 FROM # WHERE {sql} LIMIT 5)"),
                // What the join's own filter leaves out is not known to match nothing.
                2 => format!(
                    "SELECT a.n FROM (SELECT n FROM # WHERE {sql}) a \
                     JOIN (SELECT n FROM # WHERE n % 1000 = 7) b ON a.n = b.n ORDER BY 1"
                ),
                _ => format!("SELECT n FROM # WHERE {sql} ORDER BY n"),
            };
            let found = numbers(session, &want.replace('#', "t")).await;
            assert!(found == numbers(&model, &want.replace('#', "t")).await, "{want}");
            assert!(found == numbers(&model, &want.replace('#', "memory.public.plain")).await, "{want}");
            asked.push(sql);
        }
    });
    let listed = fixture.predicates.list();
    let skipped: u64 = listed.iter().map(|one| one.skipped).sum();
    assert!(skipped > 300, "{skipped} blocks were spared");
    assert!(used.used().blocks_skipped > 100, "{}", used.used());
    assert!(listed.iter().all(|one| one.blocks_empty <= one.blocks_seen && one.blocks_seen <= one.blocks));
}

#[test]
fn a_second_run_reads_only_blocks_that_match_and_explain_says_why() {
    let mut random = Random(13);
    let (mut fixture, plain) = fixture(&mut random);
    let count = "SELECT count(*) FROM t WHERE i % 100 = -3";
    let read = |fixture: &Fixture, sql: &str| {
        let (session, used) = fixture.session(&plain);
        (runtime().block_on(numbers(&session, sql))[0], used.used().blocks_read)
    };
    let (found, first) = read(&fixture, count);
    assert!(found > 0);
    let (again, second) = read(&fixture, count);
    assert_eq!((found, first), (again, 12), "6, 3 and 1 blocks, and those of the cut segment that are old enough");
    assert!(second < first - 4, "{second} of {first} blocks");
    // Narrower, and wider.
    let (_, narrower) = read(&fixture, "SELECT count(*) FROM t WHERE s <> 'zz' AND i % 100 = -3");
    assert!(narrower <= second, "{narrower}");
    assert_eq!(read(&fixture, "SELECT count(*) FROM t WHERE i % 100 < -2").1, first);
    let (session, _) = fixture.session(&plain);
    let plan = runtime().block_on(text(&session, &format!("EXPLAIN (ANALYZE, FORMAT indent) {count}")));
    let spared = first - second;
    for part in [format!("blocks_skipped_by_cache={spared}"), "predicate_cache_hits=".to_owned()] {
        assert!(plan.contains(&part), "{part} is missing in\n{plan}");
    }
    // Another session that does not use it.
    fixture.skips = false;
    assert_eq!(read(&fixture, count).1, first);
    // A LIMIT ends before all blocks were looked at.
    fixture.skips = true;
    read(&fixture, "SELECT count(*) FROM (SELECT 1 FROM t WHERE length(s) >= 0 AND n >= 0 LIMIT 3)");
    let partial = fixture.predicates.list().into_iter().filter(|one| one.form.show(None).contains("character_length"));
    assert!(partial.clone().all(|one| one.blocks_empty == 0));
    assert!(partial.map(|one| one.blocks_seen).sum::<usize>() <= 9);
}

#[test]
fn what_may_change_by_itself_is_not_remembered() {
    let mut random = Random(17);
    let (fixture, plain) = fixture(&mut random);
    let (session, _) = fixture.session(&plain);
    runtime().block_on(async {
        numbers(&session, "SELECT n FROM t WHERE random() < 0.0").await;
        numbers(&session, "SELECT n FROM t WHERE i > 2 AND i > (SELECT max(i) FROM t)").await;
        let forms: Vec<String> =
            fixture.predicates.list().iter().map(|one| one.form.show(Some(&fixture.def))).collect();
        assert!(forms.iter().all(|form| form == "i >= 3"), "{forms:?}");
        // `now()` is a constant by the time of the scan.
        numbers(&session, "SELECT n FROM t WHERE z > now()").await;
        let forms: Vec<String> =
            fixture.predicates.list().iter().map(|one| one.form.show(Some(&fixture.def))).collect();
        assert!(forms.iter().all(|form| !form.contains("now")), "{forms:?}");
    });
}

#[test]
fn columns_are_known_by_id() {
    let mut random = Random(19);
    let (mut fixture, plain) = fixture(&mut random);
    let ask = |fixture: &Fixture, sql: &str| {
        let (session, used) = fixture.session(&plain);
        (runtime().block_on(numbers(&session, sql)), used.used().blocks_skipped)
    };
    let (found, _) = ask(&fixture, "SELECT n FROM t WHERE upper(s) = 'ABC' ORDER BY n");
    let (_, skipped) = ask(&fixture, "SELECT n FROM t WHERE upper(s) = 'ABC' ORDER BY n");
    assert!(skipped > 0 && !found.is_empty());
    // `s` gets another name, and another column gets that.
    fixture.tail.clear();
    let mut added = crate::table::testing::column(30, "s", DataType::Text);
    added.storage_name = "s~30".to_owned();
    fixture.now.columns[4].name = "renamed".to_owned();
    fixture.now.columns.push(added);
    fixture.altered();
    let (renamed, same) = ask(&fixture, "SELECT n FROM t WHERE upper(renamed) = 'ABC' AND n < 1000000 ORDER BY n");
    assert!(renamed.len() <= found.len() && !renamed.is_empty());
    assert!(same >= skipped);
    for _ in 0..2 {
        let (new, _) = ask(&fixture, "SELECT n FROM t WHERE upper(s) = 'ABC'");
        assert!(new.is_empty(), "it is NULL everywhere");
        let (nulls, _) = ask(&fixture, "SELECT count(*) FROM t WHERE s IS NULL");
        assert_eq!(nulls, [plain.num_rows() as i64 - 700]);
    }
    // Without either.
    fixture.now.columns.retain(|column| column.storage_name != "s" && column.storage_name != "s~30");
    fixture.altered();
    let (count, _) = ask(&fixture, "SELECT count(*) FROM t WHERE i > -100 OR i IS NULL");
    assert_eq!(count, [plain.num_rows() as i64 - 700]);
    let shown: Vec<String> = fixture.predicates.list().iter().map(|one| one.form.show(Some(&fixture.now))).collect();
    assert!(shown.iter().any(|form| form.contains("(dropped column 4)")), "{shown:?}");
}
