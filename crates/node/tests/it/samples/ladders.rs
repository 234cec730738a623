//! Tables whose ladders begin at thicker rungs: the same rows in every sample, from rungs that are near to it in size.

use super::*;
use alluvia_node::check;
use alluvia_space::Ladder;

const LADDERS: [&str; 3] = ["1/2", "1/4", "1/8"];

const BOXES: [&str; 2] = ["true", "x BETWEEN 10 AND 40 AND y < 50"];

const FRACTIONS: [f64; 10] = [0.001, 0.1, 0.125, 0.126, 0.2, 0.25, 0.3, 0.5, 0.501, 0.99];

/// Merged segments of points whose thickest rung is this one.
async fn segments(world: &World, ladder: &str) -> i64 {
    let sql = format!(
        "SELECT count(*) FROM alluvia.segments WHERE table_name = 'points' AND stage = 'merged' AND ladder = '{ladder}'"
    );
    world.number(&sql).await
}

/// Every sample has the rows of low weight, and no others.
async fn check_samples(world: &World, told: &str) {
    let weights = world.weights(None).await;
    for condition in BOXES {
        let matching = world.id_set(&format!("SELECT id FROM points WHERE {condition}")).await;
        let of = |rows: BTreeSet<i64>| -> BTreeSet<i64> { rows.intersection(&matching).copied().collect() };
        for fraction in FRACTIONS {
            let sql = format!("SELECT /*+ sample_fraction({fraction}) */ id FROM points WHERE {condition}");
            assert_eq!(world.id_set(&sql).await, of(lighter(&weights, fraction)), "{told}: {sql}");
        }
        let mut light: Vec<(u64, i64)> = matching.iter().map(|id| (weights[id], *id)).collect();
        light.sort_unstable();
        for max_rows in [100, 2_000, 5_000] {
            let sql = format!("SELECT id FROM thin(points, max_rows => {max_rows}) WHERE {condition}");
            let lightest: BTreeSet<i64> = light.iter().take(max_rows).map(|(_, id)| *id).collect();
            assert_eq!(world.id_set(&sql).await, lightest, "{told}: {sql}");
        }
    }
}

impl World {
    /// Closed, checked and opened again.
    fn reopened(self) -> World {
        let World { db, session, _dir: dir } = self;
        drop(session);
        drop(db);
        let path = dir.path().join("db");
        let report = check(&path, &mut |_| {}).expect("checks");
        assert_eq!(report.findings, Vec::<String>::new());
        let db = open(&path);
        let session = db.session();
        World { db, session, _dir: dir }
    }

    fn ladder(&self) -> Ladder {
        self.db.core().catalog().table("points").expect("exists").def.options.ladder
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_are_the_same_whatever_the_ladder() {
    for ladder in ["1/2", "1/4"] {
        for lie in LIES {
            let world = World::laddered(ladder, lie, 16_000).await;
            check_samples(&world, &format!("from {ladder} on, {lie:?}")).await;
        }
    }
    // Rungs have the rows that a scan without them finds.
    let world = World::laddered("1/2", Lie::Sorted, 16_000).await;
    let sample = "SELECT /*+ sample_fraction(0.3) */ id FROM points";
    let sorted = world.id_set(sample).await;
    world.organise(Stage::Merged);
    assert!(segments(&world, "1/2").await > 0);
    assert_eq!(world.id_set(sample).await, sorted);
}

/// Or, above the thickest rung, the bands that hold it: sixteenths of each block.
#[tokio::test(flavor = "multi_thread")]
async fn a_fraction_reads_the_thinnest_rung_that_holds_it() {
    const ROWS: f64 = 60_000.0;
    let bands = |sixteenths: u32| f64::from(sixteenths) / 16.0;
    for (ladder, reads) in [
        ("1/2", [(0.125, 0.125), (0.126, 0.25), (0.25, 0.25), (0.3, 0.5), (0.5, 0.5), (0.51, bands(9))]),
        ("1/4", [(0.125, 0.125), (0.126, 0.25), (0.25, 0.25), (0.3, bands(5)), (0.5, bands(8)), (0.51, bands(9))]),
        ("1/8", [(0.125, 0.125), (0.126, bands(3)), (0.25, bands(4)), (0.3, bands(5)), (0.5, bands(8)), (0.94, 1.0)]),
    ] {
        let thickest = match ladder {
            "1/2" => 0.5,
            "1/4" => 0.25,
            _ => 0.125,
        };
        let world = World::laddered(ladder, Lie::Merged, ROWS as u64).await;
        for (fraction, share) in reads {
            let told = |read: f64| format!("from {ladder} on, {fraction}: {read} rows read");
            let plan = world.explained(&format!("SELECT /*+ sample_fraction({fraction}) */ sum(x) FROM points")).await;
            let read = plan.metric("rows_read") as f64;
            assert!((read - share * ROWS).abs() < 0.02 * ROWS, "{}\n{}", told(read), plan.text);
            assert_eq!(plan.text.contains("rungs_read"), fraction <= thickest, "{}\n{}", told(read), plan.text);
            world.run(&format!("SET sample_fraction = {fraction}")).await;
            world.run("SELECT sum(y) FROM points").await;
            world.run("SET sample_fraction = 1").await;
            let used = "SELECT rows_read FROM alluvia.queries WHERE sql = 'SELECT sum(y) FROM points' ORDER BY query_id DESC LIMIT 1";
            let read = world.number(used).await as f64;
            assert!((read - share * ROWS).abs() < 0.02 * ROWS, "{}", told(read));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_altered_ladder_is_that_of_later_merges() {
    let world = World::new(Lie::Merged, 24_000).await;
    let first = segments(&world, "1/8").await;
    assert!(first > 0);
    let altered = world.session.sql("ALTER TABLE points SET (ladder = '1/2')").await.expect("alters");
    assert!(altered.notices().len() == 1 && altered.notices()[0].contains("begin at 1/2"), "{:?}", altered.notices());
    let same = world.session.sql("ALTER TABLE points SET (ladder = '1/2', freshness = '0s')").await.expect("alters");
    assert!(same.notices().is_empty(), "{:?}", same.notices());
    // What is merged already keeps what it has.
    world.organise(Stage::Merged);
    assert_eq!((segments(&world, "1/8").await, segments(&world, "1/2").await), (first, 0));

    world.run(&insert(24_000, 6_000)).await;
    world.organise(Stage::Merged);
    assert_eq!((segments(&world, "1/8").await, segments(&world, "1/2").await), (first, 1));
    check_samples(&world, "of two ladders").await;

    // The last ones are merged together.
    world.run("ALTER TABLE points SET (ladder = '1/4')").await;
    world.run(&insert(30_000, 6_000)).await;
    world.organise(Stage::Merged);
    let found = [segments(&world, "1/8").await, segments(&world, "1/2").await, segments(&world, "1/4").await];
    assert_eq!(found, [first, 0, 1]);
    check_samples(&world, "merged again").await;

    let world = world.reopened();
    assert_eq!(world.ladder(), Ladder::Quarter);
    check_samples(&world, "opened again").await;
    world.run("ALTER TABLE points SET (ladder = '1/8')").await;
    world.run(&insert(36_000, 6_000)).await;
    world.organise(Stage::Merged);
    check_samples(&world, "as at first").await;
    assert_eq!(world.reopened().ladder(), Ladder::Eighth);
}

#[tokio::test(flavor = "multi_thread")]
async fn ladders_of_every_thickness_pass_a_check_and_a_restart() {
    for ladder in LADDERS {
        let world = World::laddered(ladder, Lie::Merged, 40_000).await;
        let parts = segments(&world, ladder).await;
        assert!(parts > 0);
        world.run(&insert(40_000, 2_000)).await;
        world.organise(Stage::Sorted);
        world.run(&insert(42_000, 500)).await;
        let world = world.reopened();
        assert_eq!((world.ladder().name(), segments(&world, ladder).await), (ladder, parts));
        check_samples(&world, &format!("from {ladder} on, opened again")).await;
    }
}

/// Large loads into a table without dimensions become merged segments as they are, ladders and all.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_staged_without_dimensions_has_its_ladder_at_once() {
    let world = World::new(Lie::Tail, 500).await;
    let create = "CREATE TABLE plain WITH (ladder = '1/2') AS SELECT value AS id, repeat('x' || value::text, 600) AS note \
                  FROM generate_series(1, 16000)";
    world.run(create).await;
    let staged = "SELECT count(*) FROM alluvia.segments WHERE table_name = 'plain' AND ladder = '1/2'";
    assert!(world.number(staged).await > 0, "50 MB are staged");
    world.organise(Stage::Merged);
    let plan = world.explained("SELECT /*+ sample_fraction(0.4) */ sum(id) FROM plain").await;
    let read = plan.metric("rows_read");
    assert!((7_000..9_000).contains(&read), "{read} of 16000 rows are read\n{}", plan.text);
    let own = world.number("SELECT /*+ sample_fraction(0.4) */ count(*) FROM plain").await;
    assert!((6_000..6_800).contains(&own), "{own} of 16000 rows are drawn");
    world.reopened();
}
