//! Statements whose plan is known but for their rows, beside the plans of the same statements.

use super::*;
use crate::support::Random;
use arrow::datatypes::SchemaRef;
use arrow::util::pretty::pretty_format_batches;

/// What is around the rows, with `<rows>` for the call or the table and `<box>` for its WHERE. Values are exact in any order of rows.
const AROUND: [&str; 9] = [
    "SELECT id, x, kind FROM <rows> <box>",
    "SELECT * FROM <rows> <box>",
    "SELECT kind AS k, y + z AS yz, -id AS minus FROM <rows> p <box>",
    "SELECT p.id FROM <rows> AS p <box>",
    "SELECT count(*), min(x), max(y + z), sum(id), count(kind) FROM <rows> <box>",
    "SELECT kind, count(*) AS n, max(id) FROM <rows> <box> GROUP BY kind HAVING count(*) > 1",
    "SELECT id, z FROM <rows> <box> ORDER BY id DESC LIMIT 9 OFFSET 2",
    "SELECT id % 10 AS digit, max(x) FROM <rows> <box> GROUP BY id % 10 ORDER BY digit",
    "SELECT 7 AS seven FROM <rows> <box>",
];

/// Conditions that are filters at once, and at the end some that only the planner understands.
fn condition(random: &mut Random) -> String {
    let axis = ["x", "y", "z"][random.below(3) as usize];
    let (low, wide) = (random.below(640) as f64 / 10.0, 1 + random.below(50));
    match random.below(11) {
        0..=2 => format!("{axis} >= {low} AND {axis} < {}", low + wide as f64),
        3 => format!("{axis} BETWEEN {} AND {}", low.floor(), low.floor() + wide as f64),
        4 => format!("{low} < {axis}"),
        5 => format!("kind IN ('kind {}', 'kind {}', 'none')", random.below(6), random.below(6)),
        6 => format!("kind <> 'kind {}'", random.below(6)),
        7 => format!("id > {}", random.below(20_000)),
        8 => format!("({axis} > {low} OR id <= {})", random.below(9_000)),
        9 => format!("kind LIKE '%{}'", random.below(6)),
        _ => format!("id % 3 = 1 AND x + y > {low} AND id >= 2.5"),
    }
}

/// What is drawn: behind `points`, or as a call.
fn rows(random: &mut Random) -> (String, bool) {
    let fraction = [0.0, 0.001, 0.02, 0.125, 0.3, 1.0][random.below(6) as usize];
    match random.below(5) {
        0 | 1 => (format!("thin(points, max_rows => {})", [1, 5, 60, 900, 100_000][random.below(5) as usize]), true),
        2 | 3 => (format!("thin(points, fraction => {fraction})"), true),
        _ => {
            let method = ["BERNOULLI", "SYSTEM"][random.below(2) as usize];
            let seed = random.below(4);
            (format!("TABLESAMPLE {method} ({}) REPEATABLE ({seed})", 100.0 * fraction), false)
        }
    }
}

fn statement(random: &mut Random) -> String {
    let around = AROUND[random.below(AROUND.len() as u64) as usize];
    let conditions: Vec<String> = (0..random.below(4)).map(|_| condition(random)).collect();
    let within = if conditions.is_empty() { String::new() } else { format!("WHERE {}", conditions.join(" AND ")) };
    let (rows, is_call) = rows(random);
    let from = match is_call {
        true => around.replace("<rows>", &rows),
        // The sample stands behind the alias.
        false => around
            .replace("<rows> AS p", &format!("points AS p {rows}"))
            .replace("<rows> p", &format!("points p {rows}"))
            .replace("<rows>", &format!("points {rows}")),
    };
    from.replace("<box>", &within)
}

/// The columns, and the rows in the order of their texts.
async fn answer(world: &World, sql: &str) -> (SchemaRef, Vec<String>) {
    let outcome = world.session.sql(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let schema = outcome.rows.as_ref().expect("a query").schema();
    let batches = outcome.collect().await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    batches.iter().for_each(|batch| assert_eq!(batch.schema(), schema, "{sql}"));
    let shown = pretty_format_batches(&batches).expect("shows").to_string();
    let mut rows: Vec<String> = shown.lines().filter(|line| line.starts_with('|')).skip(1).map(str::to_owned).collect();
    // The widths of columns are those of their widest rows, which are the same rows.
    rows.sort_unstable();
    (schema, rows)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outline_over_rows_is_the_plan_over_rows() {
    let mut random = Random(0x0071);
    for lie in LIES {
        let world = World::new(lie, 20_000).await;
        let (mut outlined, mut some) = (0, 0);
        for _ in 0..120 {
            let sql = statement(&mut random);
            world.run("SET short_path = on").await;
            let before = world.db.engine().outlined();
            let first = answer(&world, &sql).await;
            // Its outline is known now, if it has one.
            let second = answer(&world, &sql).await;
            outlined += world.db.engine().outlined() - before;
            world.run("SET short_path = off").await;
            let before = world.db.engine().outlined();
            let planned = answer(&world, &sql).await;
            assert_eq!(world.db.engine().outlined(), before, "{sql}");
            assert_eq!(first, planned, "{lie:?}: {sql}");
            assert_eq!(second, planned, "{lie:?}: {sql}");
            some += u64::from(planned.1.len() > 1);
        }
        assert!(outlined > 100, "{lie:?}: only {outlined} of 240 answers were outlines over rows");
        assert!(some > 40, "{lie:?}: only {some} of 120 answers have rows");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outline_sees_what_came_and_what_changed() {
    let world = World::new(Lie::Merged, 8_000).await;
    let sql = "SELECT id FROM thin(points, max_rows => 100000) WHERE id >= 7990";
    let ids = |ids: std::ops::Range<i64>| ids.collect::<BTreeSet<i64>>();
    assert_eq!(world.id_set(sql).await, ids(7_990..8_000));
    let before = world.db.engine().outlined();
    world.run(&insert(8_000, 5)).await;
    assert_eq!(world.id_set(sql).await, ids(7_990..8_005));
    // Also in a transaction, and what is its own.
    world.run("BEGIN").await;
    world.run(&insert(8_005, 5)).await;
    assert_eq!(world.id_set(sql).await, ids(7_990..8_010));
    world.run("ROLLBACK").await;
    assert_eq!(world.id_set(sql).await, ids(7_990..8_005));
    assert_eq!(world.db.engine().outlined(), before + 3);
    // Another column of the name.
    world.run("ALTER TABLE points RENAME COLUMN id TO number").await;
    assert!(world.session.sql(sql).await.is_err());
    world.run("ALTER TABLE points RENAME COLUMN number TO id").await;
    assert_eq!(world.id_set(sql).await, ids(7_990..8_005));
    // Without a seed every statement has its own sample, by an outline too.
    let half = "SELECT id FROM points TABLESAMPLE BERNOULLI (50) WHERE id < 4000";
    let (one, other) = (world.id_set(half).await, world.id_set(half).await);
    assert!(one != other && one.len().abs_diff(2_000) < 300 && other.len().abs_diff(2_000) < 300);
    // The session's sample is what is thinned.
    let weights = world.weights(None).await;
    world.run("SET sample_fraction = 0.05").await;
    let few: BTreeSet<i64> = lighter(&weights, 0.05).into_iter().filter(|id| *id < 4_000).collect();
    let thin = |bound: &str| format!("SELECT id FROM thin(points, {bound}) WHERE id < 4000");
    for bound in ["max_rows => 100000", "fraction => 0.9"] {
        assert_eq!(world.id_set(&thin(bound)).await, few, "{bound}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outline_has_one_zero() {
    let world = World::new(Lie::Tail, 10).await;
    world.run("CREATE TABLE z (id BIGINT, x DOUBLE) WITH (dimensions = 'x(x: linear -1..1)')").await;
    world.run("INSERT INTO z VALUES (1, -0.0), (2, 0.0), (3, 1), (4, -1)").await;
    let before = world.db.engine().outlined();
    for (condition, expected) in [
        ("x IN (0, 1)", vec![1, 2, 3]),
        ("x IN (-0.0, 1)", vec![1, 2, 3]),
        ("x NOT IN (0, 1)", vec![4]),
        ("x = 0", vec![1, 2]),
        ("x <> 0", vec![3, 4]),
        ("x >= 0", vec![1, 2, 3]),
    ] {
        for from in ["thin(z, max_rows => 10)", "z TABLESAMPLE BERNOULLI (100)"] {
            let sql = format!("SELECT id FROM {from} WHERE {condition}");
            assert_eq!(world.id_set(&sql).await, expected.iter().copied().collect(), "{sql}");
        }
    }
    assert_eq!(world.db.engine().outlined(), before + 12);
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_of_a_box_share_an_outline() {
    let world = World::new(Lie::Merged, 8_000).await;
    let sql = "SELECT id FROM thin(points, max_rows => $1) WHERE x >= $2 AND x < $3";
    let before = world.db.engine().outlined();
    for (rows, low, high) in [(10, 0.0, 64.0), (400, 3.5, 20.0), (10_000, 20.25, 20.5)] {
        let values =
            [ScalarValue::Int64(Some(rows)), ScalarValue::Float64(Some(low)), ScalarValue::Float64(Some(high))];
        let found = prepared_ids(&world.session, sql, &values).await;
        world.run("SET short_path = off").await;
        let plain = format!("SELECT id FROM thin(points, max_rows => {rows}) WHERE x >= {low} AND x < {high}");
        assert_eq!(found, world.id_set(&plain).await, "{plain}");
        world.run("SET short_path = on").await;
    }
    assert_eq!(world.db.engine().outlined(), before + 3);
}

/// The parser writes both alike.
#[tokio::test(flavor = "multi_thread")]
async fn statements_that_are_written_alike_are_two() {
    let world = World::new(Lie::Merged, 100).await;
    for [one, other] in [
        [
            "SELECT 'a''b' AS s, id FROM thin(points, max_rows => 5)",
            "SELECT 'a''''b' AS s, id FROM thin(points, max_rows => 5)",
        ],
        [
            "SELECT id AS \"a\"\"b\" FROM points TABLESAMPLE BERNOULLI (100)",
            "SELECT id AS \"a\"\"\"\"b\" FROM points TABLESAMPLE BERNOULLI (100)",
        ],
        ["SELECT count(*) AS \"a\"\"b\" FROM points", "SELECT count(*) AS \"a\"\"\"\"b\" FROM points"],
    ] {
        for sql in [one, other, one, other] {
            let found = answer(&world, sql).await;
            world.run("SET short_path = off").await;
            assert_eq!(found, answer(&world, sql).await, "{sql}");
            world.run("SET short_path = on").await;
        }
    }
}
