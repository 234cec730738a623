//! Random tables through SQL: cuboids, the tree and a scan each say what their rows say one by one, at whatever version they answer,
//! while rows come in and are sorted and merged.
//!
//! `ALLUVIA_TEST_SEED` is the first world's seed, so that a failure, which says its seed, replays; `ALLUVIA_TEST_SECONDS` goes on for so
//! long.

#![allow(clippy::disallowed_methods)] // this test runs on the real machine

mod question;
mod table;

use crate::nested::{seconds, set};
use crate::support::{Random, variable};
use alluvia_node::{Database, DatabaseOptions};
use alluvia_pipeline::PipelineOptions;
use alluvia_query::Session;
use alluvia_snapshot::Admin;
use alluvia_types::{ErrorKind, Stage, Version};
use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use parking_lot::Mutex;
use question::Question;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use table::{Level, Row, Table};

/// Worlds of a run at least.
const WORLDS: u64 = 4;
/// Questions of each of two readers while rows come in.
const QUESTIONS: u64 = 20;
const ROWS_MAX: usize = 8_000;

/// Every row with the version that brought it.
#[derive(Default)]
struct Log {
    batches: Vec<(Version, Arc<Vec<Row>>)>,
    /// Nothing through this version is missing.
    through: Version,
}

struct World {
    db: Database,
    table: Table,
    /// What is pinned as a cuboid, if anything.
    pinned: Vec<Level>,
    log: Mutex<Log>,
    _dir: tempfile::TempDir,
}

/// What a run has come across.
#[derive(Clone, Copy, Default, Debug)]
struct Seen {
    answers: u64,
    /// Answers at a version that was not the newest by then.
    older: u64,
    explained: u64,
    by_the_index: u64,
    by_cuboids: u64,
}

async fn rows(session: &Session, sql: &str) -> (Vec<RecordBatch>, Version) {
    let outcome = session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let version = outcome.used().map_or(Version(0), |used| used.version);
    (outcome.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}")), version)
}

impl World {
    async fn new(random: &mut Random, dimensions: usize) -> World {
        let table = Table::new(random, dimensions);
        println!("{}", table.create);
        let dir = tempfile::tempdir().expect("a directory");
        // Small data makes several segments and partitions.
        let pipeline = PipelineOptions {
            segment_rows: 700,
            merge_segments: 3,
            partition_rows_max: 900,
            chunk_rows: 200,
            rung_rows_min: 20,
            ..PipelineOptions::default()
        };
        let options = DatabaseOptions { memory_limit_bytes: 1 << 30, pipeline, ..DatabaseOptions::default() };
        let db = Database::open_with(dir.path().join("db"), options).expect("opens");
        let session = db.session();
        rows(&session, &table.create).await;
        let mut world = World { db, table, pinned: Vec::new(), log: Mutex::default(), _dir: dir };
        let first = world.table.rows(random, 400);
        world.insert(&session, first).await;
        // Before its first sort a table has no codes: the index steps aside, and what is pinned is built later.
        if random.below(4) > 0 {
            world.db.core().organise(Stage::Sorted).expect("organises");
        }
        world.pin(&session, random).await;
        world
    }

    /// Pins a cuboid of one or two levels of several dimensions.
    async fn pin(&mut self, session: &Session, random: &mut Random) {
        let mut levels: Vec<Level> = Vec::new();
        let named: Vec<&Level> = self.table.levels.iter().filter(|level| level.name.is_some()).collect();
        let count = if named.is_empty() { 0 } else { 1 + random.below(2) };
        for _ in 0..count {
            let level = named[random.below(named.len() as u64) as usize];
            let dimension = |level: &Level| level.name.as_deref().map(|name| name.split('.').next().map(str::to_owned));
            if levels.iter().all(|known| dimension(known) != dimension(level)) {
                levels.push(level.clone());
            }
        }
        let names: Vec<&str> = levels.iter().filter_map(|level| level.name.as_deref()).collect();
        if names.is_empty() {
            return;
        }
        match session.sql(&format!("CALL alluvia.pin_cuboid('t', '{}')", names.join(", "))).await {
            Ok(_) => {}
            // Wide ones have more cells than there is memory for.
            Err(error) if error.kind() == ErrorKind::OutOfMemory => return,
            Err(error) => panic!("{names:?}: {error}"),
        }
        self.pinned = levels;
    }

    async fn insert(&self, session: &Session, batch: Vec<Row>) {
        rows(session, &self.table.insert(&batch)).await;
        // Nobody else writes.
        let version = self.db.core().info().visible;
        let mut log = self.log.lock();
        assert!(version > log.through, "{version} after {}", log.through);
        log.batches.push((version, Arc::new(batch)));
        log.through = version;
    }

    /// The rows of a version, as soon as they are in the log; and whether there are newer ones.
    async fn rows_at(&self, version: Version) -> (Vec<Arc<Vec<Row>>>, bool) {
        for _ in 0..30_000 {
            {
                let log = self.log.lock();
                if log.through >= version {
                    let seen = log.batches.iter().filter(|(of, _)| *of <= version);
                    return (seen.map(|(_, rows)| Arc::clone(rows)).collect(), log.through > version);
                }
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("an answer is of version {version}, which nobody wrote");
    }

    /// Asks one session, and compares with the rows of the version that it answers at, which is given.
    async fn check(&self, session: &Session, question: &Question, who: &str, seen: &mut Seen) -> Version {
        let sql = question.sql(&self.table);
        let (batches, version) = rows(session, &sql).await;
        let (expected, is_older) = self.rows_at(version).await;
        let expected = question.expected(&self.table, expected.iter().flat_map(|rows| rows.iter()));
        question.agrees(&question.found(&batches), &expected, &|| format!("{who} at version {version}: {sql}"));
        seen.answers += 1;
        seen.older += u64::from(is_older);
        version
    }

    fn question(&self, random: &mut Random) -> Question {
        let within = if random.below(3) == 0 { self.pinned.as_slice() } else { &[] };
        Question::new(random, &self.table, within)
    }
}

/// Sessions, and by whom each is answered.
struct Sessions([(Session, &'static str); 3]);

impl Sessions {
    async fn new(db: &Database, random: &mut Random) -> Sessions {
        let (cuboids, tree, scan) = (db.session(), db.session(), db.session());
        set(&tree, &["cuboids"]).await;
        set(&scan, &["short_path", "index_rule", "cuboids"]).await;
        if random.below(2) == 0 {
            set(&scan, &["predicate_cache"]).await;
        }
        // Some are answered inside a plan.
        if random.below(4) == 0 {
            set(&tree, &["short_path"]).await;
        }
        Sessions([(cuboids, "cuboids"), (tree, "the tree"), (scan, "a scan")])
    }

    /// Each of them, at the newest version or as old as it may be.
    async fn ask(&self, world: &World, question: &Question, seen: &mut Seen) {
        for (session, who) in &self.0 {
            world.check(session, question, who, seen).await;
        }
    }

    /// Each of them at one version of its own, several times.
    async fn ask_pinned(&self, world: &World, random: &mut Random, seen: &mut Seen) {
        for (session, _) in &self.0 {
            rows(session, "BEGIN ISOLATION LEVEL REPEATABLE READ").await;
        }
        let mut versions: [Option<Version>; 3] = [None; 3];
        for _ in 0..2 + random.below(4) {
            let question = world.question(random);
            for ((session, who), version) in self.0.iter().zip(&mut versions) {
                let found = world.check(session, &question, who, seen).await;
                assert_eq!(*version.get_or_insert(found), found, "{who} reads the version of BEGIN");
            }
            tokio::time::sleep(Duration::from_millis(random.below(30))).await;
        }
        for (session, _) in &self.0 {
            rows(session, "COMMIT").await;
        }
    }
}

/// Asks while rows come in.
async fn reader(world: Arc<World>, seed: u64) -> Seen {
    let (mut random, mut seen) = (Random(seed | 1), Seen::default());
    let sessions = Sessions::new(&world.db, &mut random).await;
    for _ in 0..QUESTIONS {
        match random.below(6) {
            0 => sessions.ask_pinned(&world, &mut random, &mut seen).await,
            1 => {
                let freshness = random.pick(&["merged", "200ms", "1h"]);
                for (session, _) in &sessions.0 {
                    rows(session, &format!("SET freshness = '{freshness}'")).await;
                }
                sessions.ask(&world, &world.question(&mut random), &mut seen).await;
                for (session, _) in &sessions.0 {
                    rows(session, "RESET freshness").await;
                }
            }
            _ => sessions.ask(&world, &world.question(&mut random), &mut seen).await,
        }
    }
    seen
}

/// Rows come in, and are organised by whatever is next.
async fn writer(world: Arc<World>, seed: u64, stop: Arc<AtomicBool>) {
    let (mut random, session) = (Random(seed | 1), world.db.session());
    let mut rows = 0;
    while !stop.load(Ordering::Relaxed) {
        if rows < ROWS_MAX {
            let count = [1, 1 + random.below(9), 1 + random.below(150)][random.below(3) as usize];
            let batch = world.table.rows(&mut random, count);
            rows += batch.len();
            world.insert(&session, batch).await;
        }
        match random.below(12) {
            0 => world.db.core().organise(Stage::Sorted).expect("organises"),
            1 => world.db.core().organise(Stage::Merged).expect("organises"),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(random.below(20))).await;
    }
}

async fn world(seed: u64) -> Seen {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    // Few and many, the most that there may be among them.
    let dimensions = match seed % 4 {
        0 => 1 + random.below(3) as usize,
        1 => 64,
        2 => 3 + random.below(6) as usize,
        _ => 9 + random.below(30) as usize,
    };
    let world = Arc::new(World::new(&mut random, dimensions).await);
    let stop = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn(writer(Arc::clone(&world), random.below(u64::MAX), Arc::clone(&stop)));
    let readers: Vec<_> = (0..2).map(|_| tokio::spawn(reader(Arc::clone(&world), random.below(u64::MAX)))).collect();
    let mut seen = Seen::default();
    for reader in readers {
        match reader.await {
            Ok(other) => {
                seen.answers += other.answers;
                seen.older += other.older;
            }
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    stop.store(true, Ordering::Relaxed);
    if let Err(error) = writer.await {
        std::panic::resume_unwind(error.into_panic());
    }
    quiet(&world, &mut random, &mut seen).await;
    let World { db, _dir: dir, .. } = Arc::into_inner(world).expect("nobody else has it");
    drop(db);
    let report = alluvia_node::check(&dir.path().join("db"), &mut |_| {}).expect("checks");
    assert_eq!(report.findings, Vec::<String>::new(), "a check of a healthy database, seed {seed}");
    seen
}

/// The same questions at one version: of the tail and more, of sorted and of merged segments.
async fn quiet(world: &World, random: &mut Random, seen: &mut Seen) {
    let sessions = Sessions::new(&world.db, random).await;
    let questions: Vec<Question> = (0..8).map(|_| world.question(random)).collect();
    let last = world.table.rows(random, 30);
    world.insert(&sessions.0[2].0, last).await;
    for stage in [None, Some(Stage::Sorted), Some(Stage::Merged)] {
        if let Some(stage) = stage {
            world.db.core().organise(stage).expect("organises");
        }
        for question in &questions {
            sessions.ask(world, question, seen).await;
            let (session, sql) = (&sessions.0[0].0, question.sql(&world.table));
            let (plan, _) = rows(session, &format!("EXPLAIN {sql}")).await;
            let plan = arrow::util::pretty::pretty_format_batches(&plan).expect("shows").to_string();
            seen.explained += 1;
            seen.by_the_index += u64::from(plan.contains("IndexAnswer"));
        }
    }
    let (hits, _) = rows(&sessions.0[2].0, "SELECT coalesce(sum(hits), 0)::bigint FROM alluvia.cuboids").await;
    seen.by_cuboids += hits[0].column(0).as_primitive::<Int64Type>().value(0) as u64;
}

#[tokio::test(flavor = "multi_thread")]
async fn any_table_says_what_its_rows_say_at_any_version() {
    let (time, start) = (seconds(12), Instant::now());
    let first = variable("ALLUVIA_TEST_SEED").unwrap_or(1);
    let mut all = Seen::default();
    for seed in first.. {
        if seed - first >= WORLDS && start.elapsed() >= time {
            break;
        }
        println!("ALLUVIA_TEST_SEED={seed}");
        let seen = world(seed).await;
        println!("{seen:?}");
        all.answers += seen.answers;
        all.older += seen.older;
        all.explained += seen.explained;
        all.by_the_index += seen.by_the_index;
        all.by_cuboids += seen.by_cuboids;
    }
    println!("{all:?}");
    // By each way some of it: what is never asked is not tested.
    let Seen { answers, older, explained, by_the_index, by_cuboids } = all;
    assert!(older * 50 > answers, "hardly anybody read while rows came in: {all:?}");
    assert!(by_the_index * 8 > explained && by_cuboids * 200 > answers, "{all:?}");
}
