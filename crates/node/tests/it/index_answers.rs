//! Whatever answers first gives what the general plan gives, or steps aside: generated statements of all kinds against a session
//! that knows neither index nor caches, while rows lie in the tail, in sorted and in merged segments.
//!
//! `ALLUVIA_TEST_SECONDS=600 cargo test ... --test it index_answers` runs longer, `ALLUVIA_TEST_STATEMENTS=100000` at least so many
//! statements (`make soak` does), `ALLUVIA_TEST_SEED` begins elsewhere; a failure prints its statement.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

use crate::nested::set;
use crate::stars::small_tables;
use crate::statements::{CREATE, GeneratedStatement, PINNED, any, rows};
use crate::support::{Random, variable};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_query::Session;
use alluvia_snapshot::Admin;
use alluvia_types::{Result, Stage};
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type};
use std::cmp::Ordering;
use std::time::{Duration, Instant};

/// Databases side by side, each with one client, so that a seed asks the same on every run.
const WORLDS: u64 = 2;

/// One value.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Cell {
    Text(String),
    Float(f64),
}

/// Rows, sorted by what is no float unless the statement orders them: groups are told apart by that.
pub(crate) fn shown(batches: &[RecordBatch], is_ordered: bool) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in 0..batch.num_rows() {
            let cell = |column: &ArrayRef| {
                if column.data_type().is_floating() && column.is_valid(row) {
                    let wide = cast(column, &DataType::Float64).expect("widens");
                    return Cell::Float(wide.as_primitive::<Float64Type>().value(row));
                }
                let text = arrow::util::display::array_value_to_string(column, row).expect("shows");
                Cell::Text(if column.is_null(row) { "NULL".to_owned() } else { text })
            };
            rows.push(batch.columns().iter().map(cell).collect::<Vec<_>>());
        }
    }
    if !is_ordered {
        let texts = |row: &[Cell]| -> Vec<String> {
            let texts = row.iter().filter_map(|cell| match cell {
                Cell::Text(text) => Some(text.clone()),
                Cell::Float(_) => None,
            });
            texts.collect()
        };
        // Keys come before what is aggregated, and may be floats themselves.
        let floats = |a: &[Cell], b: &[Cell]| {
            let both = a.iter().zip(b).map(|cells| match cells {
                (Cell::Float(a), Cell::Float(b)) => a.total_cmp(b),
                _ => Ordering::Equal,
            });
            both.fold(Ordering::Equal, Ordering::then)
        };
        rows.sort_by(|a: &Vec<Cell>, b| texts(a).cmp(&texts(b)).then_with(|| floats(a, b)));
    }
    rows
}

/// Whether two answers say the same; floats may differ in the last digits.
pub(crate) fn agree(a: &[Vec<Cell>], b: &[Vec<Cell>]) -> bool {
    let near = |(a, b): (&Cell, &Cell)| match (a, b) {
        (Cell::Float(a), Cell::Float(b)) => a == b || (a - b).abs() <= 1e-6 * a.abs().max(b.abs()),
        (a, b) => a == b,
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(near))
}

/// The columns and the rows of an answer; once more, too, where the statement is prepared.
async fn answer(session: &Session, asked: &GeneratedStatement) -> Result<(Vec<(String, DataType)>, Vec<Vec<Cell>>)> {
    let outcome = match asked.values.as_slice() {
        [] => session.sql(&asked.sql).await?,
        values => {
            let prepared = session.prepare(&asked.sql)?;
            // What has found its cuboid is asked by a shorter way from then on.
            session.execute_prepared(&prepared, values).await?.collect().await?;
            session.execute_prepared(&prepared, values).await?
        }
    };
    let schema = outcome.rows.as_ref().expect("a query has columns").schema();
    let columns = schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect();
    Ok((columns, shown(&outcome.collect().await?, asked.is_ordered)))
}

/// Panics unless both sessions say the same; whether they answer.
pub(crate) async fn compared(asked: &GeneratedStatement, fast: &Session, general: &Session) -> bool {
    match (answer(fast, asked).await, answer(general, asked).await) {
        (Ok((columns, found)), Ok((expected_columns, expected))) => {
            assert_eq!(columns, expected_columns, "{asked:?}");
            assert!(agree(&found, &expected), "{asked:?}\n{found:?}\n{expected:?}");
            true
        }
        (Err(found), Err(expected)) => {
            assert_eq!(found.kind(), expected.kind(), "{asked:?}\n{found}\n{expected}");
            false
        }
        (found, expected) => panic!("{asked:?}\n{found:?}\n{expected:?}"),
    }
}

/// What EXPLAIN says; `None` of a statement that is refused.
pub(crate) async fn explained(session: &Session, explain: &str, sql: &str) -> Option<String> {
    let plan = session.sql(&format!("{explain} {sql}")).await.ok()?.collect().await.ok()?;
    Some(arrow::util::pretty::pretty_format_batches(&plan).expect("shows").to_string())
}

/// How statements were answered.
#[derive(Clone, Copy, Default, Debug)]
struct Shares {
    asked: u64,
    /// By both sessions alike.
    refused: u64,
    /// Of how many it was asked who answers.
    explained: u64,
    by_cuboids: u64,
    by_the_tree: u64,
    by_the_plan: u64,
}

impl Shares {
    fn add(&mut self, other: Shares) {
        self.asked += other.asked;
        self.refused += other.refused;
        self.explained += other.explained;
        self.by_cuboids += other.by_cuboids;
        self.by_the_tree += other.by_the_tree;
        self.by_the_plan += other.by_the_plan;
    }

    async fn explain(&mut self, session: &Session, sql: &str) {
        let plan = explained(session, "EXPLAIN", sql).await.expect("what is answered is explained");
        self.explained += 1;
        if !plan.contains("IndexAnswer") {
            self.by_the_plan += 1;
            return;
        }
        // What the index holds may turn out not to do when it is asked.
        let plan = explained(session, "EXPLAIN ANALYZE VERBOSE", sql).await.expect("what is answered is explained");
        if plan.contains("cuboid: resident") || plan.contains("cuboid=1") {
            self.by_cuboids += 1;
        } else if plan.contains("IndexAnswer") && !plan.contains("refused=") {
            self.by_the_tree += 1;
        } else {
            self.by_the_plan += 1;
        }
    }
}

/// A table of its own for some hundred statements. Before its first sort a table has no codes, and the index steps aside.
async fn fill(db: &Database, session: &Session, random: &mut Random, is_sorted: bool) {
    session.sql("DROP TABLE IF EXISTS sales").await.expect("drops");
    session.sql(CREATE).await.expect("creates");
    session.sql(&rows(random, 2_000)).await.expect("inserts");
    if is_sorted {
        db.core().organise(Stage::Merged).expect("organises");
        for levels in PINNED {
            session.sql(&format!("CALL alluvia.pin_cuboid('sales', '{levels}')")).await.expect("pins");
        }
    }
}

async fn world(seed: u64, time: Duration, least: u64) -> Shares {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let dir = tempfile::tempdir().expect("a directory");
    let options = DatabaseOptions { memory_limit_bytes: 1 << 30, ..DatabaseOptions::default() };
    let db = Database::open_with(dir.path().join("db"), options).expect("opens");
    let (fast, tree, general) = (db.session(), db.session(), db.session());
    set(&tree, &["cuboids"]).await;
    set(&general, &["short_path", "index_rule", "cuboids", "predicate_cache"]).await;
    small_tables(&general, &mut random).await;
    fill(&db, &general, &mut random, true).await;
    let mut shares = Shares::default();
    let mut recent: Vec<GeneratedStatement> = Vec::new();
    let start = Instant::now();
    while start.elapsed() < time || shares.asked < least {
        match random.below(600) {
            0 => {
                let is_sorted = random.below(4) > 0;
                fill(&db, &general, &mut random, is_sorted).await;
            }
            1..25 => {
                let count = 1 + random.below(60);
                general.sql(&rows(&mut random, count)).await.expect("inserts");
            }
            25..29 => db.core().organise(Stage::Sorted).expect("organises"),
            _ => {}
        }
        let is_new = recent.len() < 20 || random.below(8) > 0;
        let asked = if is_new { any(&mut random) } else { recent.swap_remove(random.below(20) as usize) };
        let session = if random.below(3) == 0 { &tree } else { &fast };
        let is_answered = compared(&asked, session, &general).await;
        shares.asked += 1;
        shares.refused += u64::from(!is_answered);
        let rarely = if shares.asked < 2_000 { 2 } else { 5 };
        if is_answered && asked.values.is_empty() && random.below(rarely) == 0 {
            shares.explain(session, &asked.sql).await;
        }
        recent.push(asked);
        if recent.len() > 40 {
            recent.swap_remove(random.below(40) as usize);
        }
    }
    shares
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_answers_says_what_the_general_plan_says() {
    let time = Duration::from_secs(variable("ALLUVIA_TEST_SECONDS").unwrap_or(15));
    let least = variable("ALLUVIA_TEST_STATEMENTS").unwrap_or(600).div_ceil(WORLDS);
    let seed = variable("ALLUVIA_TEST_SEED").unwrap_or(0x5eed);
    println!("ALLUVIA_TEST_SEED={seed}");
    let worlds: Vec<_> = (0..WORLDS).map(|at| tokio::spawn(world(seed + at, time, least))).collect();
    let mut shares = Shares::default();
    for world in worlds {
        match world.await {
            Ok(other) => shares.add(other),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    println!("{shares:?}");
    // None of them is so rare that it is hardly tested.
    let Shares { asked, refused, explained, by_cuboids, by_the_tree, by_the_plan } = shares;
    assert!(explained * 10 > asked && refused * 4 < asked && refused > 0, "{shares:?}");
    assert!(by_cuboids * 50 > explained && by_the_tree * 10 > explained && by_the_plan * 10 > explained, "{shares:?}");
}
