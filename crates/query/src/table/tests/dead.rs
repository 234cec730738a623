//! Scans of tables with dead rows against the rows that live, for readers at several versions, which share what is kept between statements.

use super::{DIMENSIONS, predicate, rows, sales, values};
use crate::table::testing::{Fixture, Random, numbers, table, text};
use crate::table::{AlluviaTable, Draw, Part, Sample, Unit};
use alluvia_space::DataType;
use alluvia_space::weight::{weight, weight_limit};
use alluvia_tree::BLOCK_ROWS;
use alluvia_types::Version;
use arrow::array::{ArrayRef, AsArray, BooleanArray, Int64Array, RecordBatch};
use arrow::compute::{concat_batches, filter_record_batch};
use arrow::datatypes::Int64Type;
use datafusion::prelude::{DataFrame, SessionContext, col, lit};
use proptest::prelude::*;
use std::sync::{Arc, OnceLock};
use tokio::runtime::Runtime;

/// Every reader sees some kills that the one before does not, and none sees all.
const READERS: [Version; 3] = [Version(51), Version(80), Version(100)];

/// Rows of one place.
struct Given {
    rows: RecordBatch,
    /// Of all its rows; they are numbered from 0.
    version: Version,
    /// When each of them dies.
    deaths: Vec<Option<Version>>,
    /// Of a segment: which one it is, and where its rows lie there.
    lies: Option<(usize, Vec<usize>)>,
}

impl Given {
    fn of(rows: RecordBatch, version: Version) -> Given {
        let deaths = vec![None; rows.num_rows()];
        Given { rows, version, deaths, lies: None }
    }

    /// The rows that a reader sees, if they also pass.
    fn live(&self, at: Version, passes: impl Fn(usize) -> bool) -> RecordBatch {
        let lives = |place: usize| self.deaths[place].is_none_or(|death| death > at) && passes(place);
        let live: BooleanArray = (0..self.rows.num_rows()).map(|place| Some(lives(place))).collect();
        filter_record_batch(&self.rows, &live).expect("filters")
    }
}

struct Reader {
    at: Version,
    /// With the predicate cache, without, and with filters evaluated while Parquet is decoded.
    sessions: [SessionContext; 3],
    live: RecordBatch,
}

struct World {
    runtime: Runtime,
    fixture: Fixture,
    given: Vec<Given>,
    readers: Vec<Reader>,
}

/// When rows of a segment die, by their numbers: in one of several patterns.
fn deaths(random: &mut Random, pattern: u64, rows: usize) -> Vec<Option<Version>> {
    let mut die = |share: u64| (random.below(share) == 0).then(|| Version(2 + random.below(119)));
    match pattern {
        0 => vec![None; rows],
        1 => (0..rows).map(|_| die(3)).collect(),
        2 => (0..rows).map(|_| die(500)).collect(),
        // Runs, which begin and end within blocks.
        3 => {
            let runs: Vec<Option<Version>> = (0..=rows / 700).map(|_| die(2)).collect();
            (0..rows).map(|row| runs[row / 700]).collect()
        }
        // Whole blocks, and some rows of the others.
        4 => {
            let blocks: Vec<Option<Version>> = (0..=rows / BLOCK_ROWS).map(|_| die(2)).collect();
            (0..rows).map(|row| blocks[row / BLOCK_ROWS].or_else(|| die(900))).collect()
        }
        _ => vec![Some(Version(70)); rows],
    }
}

/// Segments of every kind with kills in a pattern each, a tail with kills, and pending rows.
fn made(seed: u64) -> World {
    let mut random = Random(seed);
    let sizes = [3 * BLOCK_ROWS + 17, 20_000, 2 * BLOCK_ROWS + 5, 1, 12_000, 300, 1, 400, 199];
    let mut first = 0;
    let mut batches = Vec::new();
    for size in sizes {
        batches.push(rows(&mut random, first, size));
        first += size as i64;
    }
    let mut fixture = Fixture::new(sales(), DIMENSIONS, &batches[1]);
    fixture.add_segment(&batches[0]);
    fixture.add_laddered_segment(&batches[1], false);
    fixture.add_laddered_segment(&batches[2], true);
    fixture.add_segment(&batches[3]);
    fixture.add_cut_segment(&batches[4], &rows(&mut random, 1_000_000, 9_000));
    let mut given = Vec::new();
    for (segment, rows) in batches[..5].iter().enumerate() {
        let places = fixture.places(segment);
        let mut of = Given::of(rows.clone(), Version(1));
        let mut lies = vec![0; rows.num_rows()];
        let deaths = deaths(&mut random, (seed + segment as u64) % 6, places.len());
        for (row, (&place, death)) in places.iter().zip(deaths).enumerate() {
            let place = place as usize;
            let is_later = place >= rows.num_rows();
            if let Some(death) = death {
                // Rows of later versions die later still.
                let death = if is_later { Version(death.0 + 200) } else { death };
                fixture.kill(segment, row as u64, death);
            }
            if !is_later {
                (of.deaths[place], lies[place]) = (death, row);
            }
        }
        given.push(Given { lies: Some((segment, lies)), ..of });
    }
    for (run, rows) in batches[5..8].iter().enumerate() {
        fixture.add_tail(rows);
        let mut of = Given::of(rows.clone(), Version(50));
        for row in (0..rows.num_rows()).filter(|_| random.below(5) == 0).collect::<Vec<_>>() {
            let death = Version(50 + random.below(70));
            fixture.kill_in_tail(run, row, death);
            of.deaths[row] = Some(death);
        }
        given.push(of);
    }
    fixture.pending = (0..199).map(|row| batches[8].slice(row, 1)).collect();
    given.push(Given::of(batches[8].clone(), Version(u64::MAX)));
    let mut reader = |at: Version| {
        let live: Vec<RecordBatch> = given.iter().map(|of| of.live(at, |_| true)).collect();
        let live = concat_batches(&sales().storage_schema(), &live).expect("one schema");
        fixture.version = at;
        let (kept, _) = fixture.session(&live);
        let (late, _) = fixture.session(&live);
        late.state_ref().write().config_mut().options_mut().execution.parquet.pushdown_filters = true;
        fixture.skips = false;
        let (forgetful, _) = fixture.session(&live);
        fixture.skips = true;
        Reader { at, sessions: [kept, forgetful, late], live }
    };
    let readers = READERS.map(&mut reader).into();
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
    World { runtime, fixture, given, readers }
}

/// Together they have every pattern in every kind of segment.
fn worlds() -> &'static [World; 6] {
    static WORLDS: OnceLock<[World; 6]> = OnceLock::new();
    WORLDS.get_or_init(|| [6, 7, 8, 9, 10, 11].map(made))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// Readers of any version take turns: what one has seen to match nowhere may match for another.
    #[test]
    fn filters_see_live_rows_and_no_other(
        predicate in predicate(),
        world in 0usize..6,
        first in 0usize..3,
        kind in 0usize..3,
    ) {
        let world = &worlds()[world];
        for reader in world.readers.iter().cycle().skip(first).take(3) {
            let session = &reader.sessions[kind];
            let ours = format!("SELECT n FROM sales WHERE {predicate} ORDER BY n");
            let plain = format!("SELECT n FROM memory.public.plain WHERE {predicate} ORDER BY n");
            world.runtime.block_on(async {
                assert_eq!(numbers(session, &ours).await, numbers(session, &plain).await, "{} at {}", predicate, reader.at);
            });
        }
    }
}

#[test]
fn queries_answer_as_over_live_rows() {
    let queries = [
        "SELECT count(*) FROM @",
        "SELECT count(*), count(price), count(country), min(sold_at), max(n), min(n), min(quantity), max(note) FROM @",
        "SELECT min(price), max(price) FROM @ WHERE price < 50",
        "SELECT count(DISTINCT country), sum(quantity) FROM @",
        "SELECT country, city, count(*), sum(quantity) FROM @ GROUP BY 1, 2 ORDER BY 1, 2",
        "SELECT n, country FROM @ ORDER BY sold_at DESC NULLS LAST, n LIMIT 20",
        "SELECT n FROM @ ORDER BY n LIMIT 50",
        "SELECT n FROM @ ORDER BY n DESC LIMIT 50",
        "SELECT count(*) FROM (SELECT n FROM @ LIMIT 30000)",
        "SELECT count(*) FROM (SELECT 1 FROM @ LIMIT 1000000)",
        "SELECT count(*) FROM (SELECT 1 FROM @ WHERE quantity > 3 LIMIT 10)",
        "SELECT a.n FROM @ a JOIN @ b ON a.id = b.n WHERE b.quantity = 4 AND a.country = 'country3' ORDER BY 1",
        "SELECT count(*) FROM @ WHERE n IN (SELECT id FROM @ WHERE city = 'city1')",
    ];
    for (number, world) in worlds().iter().enumerate() {
        for (at, reader) in world.readers.iter().enumerate() {
            let session = &reader.sessions[(number + at) % 3];
            for query in queries {
                world.runtime.block_on(async {
                    let ours = values(&text(session, &query.replace('@', "sales")).await);
                    let plain = values(&text(session, &query.replace('@', "memory.public.plain")).await);
                    assert_eq!(ours, plain, "{query} at {}", reader.at);
                });
            }
        }
    }
}

#[test]
fn a_limit_counts_live_rows() {
    for world in worlds() {
        for reader in &world.readers {
            let live = ascending(std::slice::from_ref(&reader.live));
            for limit in [1, 10, 5_000, 30_000, 1_000_000] {
                let sql = format!("SELECT n FROM sales LIMIT {limit}");
                let mut found = world.runtime.block_on(numbers(&reader.sessions[0], &sql));
                assert_eq!(found.len(), live.len().min(limit), "{sql} at {}", reader.at);
                found.sort_unstable();
                assert!(found.is_sorted_by(|a, b| a < b), "each row comes once");
                assert!(found.iter().all(|n| live.binary_search(n).is_ok()), "{sql} at {}", reader.at);
            }
        }
    }
}

/// Column n.
fn ascending(batches: &[RecordBatch]) -> Vec<i64> {
    let column = |batch: &RecordBatch| batch.column(0).as_primitive::<Int64Type>().values().to_vec();
    let mut numbers: Vec<i64> = batches.iter().flat_map(column).collect();
    numbers.sort_unstable();
    numbers
}

#[test]
fn samples_are_of_live_rows() {
    let own = sales().seed;
    let sample = |unit, share: f64| Some(Sample { unit, seed: 99, below: weight_limit(share) });
    let mut draws = Vec::new();
    for part in [Part::All, Part::Laddered, Part::Loose] {
        let of_part = |share: f64| Draw { below: weight_limit(share), part, ..Draw::default() };
        draws.extend([0.01, 0.06, 0.1, 0.3, 0.9].map(of_part));
        draws.push(Draw { below: weight_limit(0.2), sample: sample(Unit::Row, 0.5), part, ..Draw::default() });
    }
    draws.extend([0.02, 0.5].map(|share| Draw { sample: sample(Unit::Row, share), ..Draw::default() }));
    draws.extend([0.3, 0.7].map(|share| Draw { sample: sample(Unit::Block, share), ..Draw::default() }));
    for (number, world) in worlds().iter().enumerate() {
        let is_laddered = |segment: usize| !world.fixture.segments[segment].rungs().is_empty();
        assert!(is_laddered(1) && is_laddered(2) && !is_laddered(0));
        let is_drawn = |of: &Given, place: usize, draw: &Draw| {
            let weighs = |seed: u64| weight(of.version, place as u64, seed);
            let is_there = match draw.part {
                Part::All => true,
                Part::Laddered => of.lies.as_ref().is_some_and(|(segment, _)| is_laddered(*segment)),
                Part::Loose => of.lies.as_ref().is_none_or(|(segment, _)| !is_laddered(*segment)),
            };
            let in_sample = match (draw.sample, &of.lies) {
                (Some(sample), Some((segment, lies))) if sample.unit == Unit::Block => {
                    sample.has_block(&world.fixture.segments[*segment], lies[place] / BLOCK_ROWS)
                }
                (Some(Sample { unit: Unit::Block, seed, below }), None) => {
                    let weight = weight(of.version, (place / BLOCK_ROWS) as u64, !seed);
                    below.is_none_or(|below| weight < below)
                }
                (Some(Sample { seed, below, .. }), _) => below.is_none_or(|below| weighs(seed) < below),
                (None, _) => true,
            };
            is_there && in_sample && draw.below.is_none_or(|below| weighs(own) < below)
        };
        let reader = &world.readers[number % 3];
        for draw in &draws {
            let drawn = |of: &Given| of.live(reader.at, |place| is_drawn(of, place, draw));
            let wanted = ascending(&world.given.iter().map(drawn).collect::<Vec<_>>());
            let table = AlluviaTable::new(world.fixture.entry()).drawn(*draw);
            let found = world.runtime.block_on(async {
                let rows = reader.sessions[0].read_table(Arc::new(table)).expect("a table");
                let thirds = rows.clone().filter((col("n") % lit(3)).eq(lit(0))).expect("filters");
                let of = |rows: DataFrame| rows.select_columns(&["n"]).expect("n");
                (of(rows).collect().await.expect("runs"), of(thirds).collect().await.expect("runs"))
            });
            assert_eq!(ascending(&found.0), wanted, "{draw:?} at {}", reader.at);
            let thirds: Vec<i64> = wanted.into_iter().filter(|n| n % 3 == 0).collect();
            assert_eq!(ascending(&found.1), thirds, "{draw:?} at {}", reader.at);
        }
    }
}

/// A table of one column, whose rows lie in its order.
fn counted(rows: usize) -> (Fixture, RecordBatch) {
    let def = table("t", &[("n", DataType::Int64)]);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let rows = RecordBatch::try_new(def.storage_schema(), vec![numbers]).expect("one column");
    let mut fixture = Fixture::new(def, "number(n: linear 0..40000)", &rows);
    fixture.add_segment(&rows);
    (fixture, rows)
}

#[test]
fn blocks_of_dead_rows_are_not_read_and_rows_are_counted_that_are() {
    let (mut fixture, rows) = counted(4 * BLOCK_ROWS);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
    // Of the first block all rows, of the second every other one.
    (0..BLOCK_ROWS as u64).for_each(|row| fixture.kill(0, row, Version(60)));
    (BLOCK_ROWS as u64..2 * BLOCK_ROWS as u64).step_by(2).for_each(|row| fixture.kill(0, row, Version(70)));
    fixture.kill(0, 3 * BLOCK_ROWS as u64, Version(101));
    let mut read = |version: u64, sql: &str| {
        fixture.version = Version(version);
        let (session, used) = fixture.session(&rows);
        let found = runtime.block_on(numbers(&session, sql));
        let used = used.used();
        (found, used.blocks_read, used.rows_read, used.rows_to_read)
    };
    let block = BLOCK_ROWS as u64;
    let sum = "SELECT sum(n) FROM t";
    let all: i64 = (0..4 * BLOCK_ROWS as i64).sum();
    let first: i64 = (0..BLOCK_ROWS as i64).sum();
    let second: i64 = (BLOCK_ROWS as i64..2 * BLOCK_ROWS as i64).step_by(2).sum();
    assert_eq!(read(50, sum), (vec![all], 4, 4 * block, 4 * block));
    assert_eq!(read(60, sum), (vec![all - first], 3, 3 * block, 3 * block));
    assert_eq!(read(100, sum), (vec![all - first - second], 3, 5 * block / 2, 5 * block / 2));
    // What statistics do not know, rows say; what they do know, nobody counts.
    assert_eq!(read(50, "SELECT min(n) FROM t").0, [0]);
    assert_eq!(read(60, "SELECT min(n) FROM t").0, [BLOCK_ROWS as i64]);
    let (found, blocks, ..) = read(50, "SELECT count(*) FROM t");
    assert_eq!((found, blocks), (vec![4 * BLOCK_ROWS as i64], 0));
    assert_eq!(read(100, "SELECT count(*) FROM t").0, [5 * BLOCK_ROWS as i64 / 2]);
    // A few live rows are enough of a block for a LIMIT, dead ones are not.
    let (found, blocks, ..) = read(100, "SELECT n FROM t LIMIT 10");
    assert_eq!((found.len(), blocks), (10, 1));
}

#[test]
fn what_dead_rows_hide_is_not_taken_for_known() {
    let (mut fixture, rows) = counted(3 * BLOCK_ROWS);
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
    // Statistics do not tell where these are.
    let sql = format!("SELECT n FROM t WHERE n % {} = 7 ORDER BY n", 2 * BLOCK_ROWS);
    let matching = [7, 2 * BLOCK_ROWS as i64 + 7];
    // So many that the reader masks rows rather than to pass over runs of them.
    (0..BLOCK_ROWS as u64).step_by(2).for_each(|row| fixture.kill(0, row, Version(40)));
    fixture.kill(0, 7, Version(60));
    fixture.kill(0, 2 * BLOCK_ROWS as u64 + 9, Version(60));
    let mut read = |version: u64| {
        fixture.version = Version(version);
        let (session, used) = fixture.session(&rows);
        (runtime.block_on(numbers(&session, &sql)), used.used().blocks_read)
    };
    // For who does not see the first match, the first block has none: that is not so for others.
    assert_eq!(read(60), (vec![matching[1]], 3));
    assert_eq!(read(50), (matching.to_vec(), 2), "the second block is known to have none");
    assert_eq!(read(60), (vec![matching[1]], 2));
    let listed = fixture.predicates.list();
    assert!(listed.iter().all(|one| one.blocks_empty == 1 && one.blocks_seen == 3), "{listed:?}");
}
