//! `thin`: which rows, that they stay, and at what cost.

use super::*;
use crate::support::Random;

const BOXES: [&str; 4] = [
    "",
    "WHERE x BETWEEN 10 AND 40 AND y < 50",
    "WHERE kind = 'kind 3'",
    "WHERE x + y > 60 AND id IN (SELECT id FROM points WHERE id % 7 < 5)",
];

#[tokio::test(flavor = "multi_thread")]
async fn thin_shows_the_lightest_of_the_box() {
    for lie in LIES {
        let world = World::new(lie, 24_000).await;
        let weights = world.weights(None).await;
        for condition in BOXES {
            let matching = world.id_set(&format!("SELECT id FROM points {condition}")).await;
            let mut light: Vec<(u64, i64)> = matching.iter().map(|id| (weights[id], *id)).collect();
            light.sort_unstable();
            for max_rows in [1, 7, 100, 1_000, 5_000, 23_999, 24_000, 1_000_000] {
                let told = format!("{lie:?}, {max_rows} rows {condition}");
                let sql =
                    format!("SELECT id, kind, weight_limit FROM thin(points, max_rows => {max_rows}) {condition}");
                let batches = world.rows(&sql).await;
                let found: BTreeSet<i64> = batches
                    .iter()
                    .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
                    .collect();
                let expected: BTreeSet<i64> = light.iter().take(max_rows).map(|(_, id)| *id).collect();
                assert_eq!(found, expected, "{told}");
                let limits = doubles(&batches, "weight_limit");
                assert_eq!(limits.len(), found.len(), "{told}: a row comes twice");
                let Some(&limit) = limits.first() else { continue };
                assert!(limits.iter().all(|other| *other == limit), "{told}");
                match light.get(max_rows) {
                    None => assert_eq!(limit, 1.0, "{told}"),
                    Some((next, _)) => {
                        let below = weight_limit(limit).expect("below 1");
                        assert!(below <= *next && below > next - (1 << 11), "{told}: {below} for {next}");
                    }
                }
                let again = format!("SELECT id FROM thin(points, fraction => {limit:?}) {condition}");
                assert_eq!(world.id_set(&again).await, expected, "{told}: {again}");
            }
            for fraction in [0.0, 0.001, 0.125, 0.4, 1.0] {
                let sql = format!("SELECT id FROM thin(points, fraction => {fraction}) {condition}");
                let expected: BTreeSet<i64> = lighter(&weights, fraction).intersection(&matching).copied().collect();
                assert_eq!(world.id_set(&sql).await, expected, "{lie:?}: {sql}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn zooming_in_and_panning_keep_what_was_shown() {
    let world = World::new(Lie::Mixed, 32_000).await;
    let inside = |(low, high): (f64, f64)| format!("x >= {low} AND x < {high} AND y >= {low} AND y < {high}");
    for max_rows in [50, 400, 3_000] {
        let mut area = (0.0, 64.0);
        let mut before: Option<(BTreeSet<i64>, f64)> = None;
        for _ in 0..7 {
            let sql =
                format!("SELECT id, weight_limit FROM thin(points, max_rows => {max_rows}) p WHERE {}", inside(area));
            let batches = world.rows(&sql).await;
            let shown: BTreeSet<i64> = batches
                .iter()
                .flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec())
                .collect();
            let limit = doubles(&batches, "weight_limit").first().copied().unwrap_or(1.0);
            let here = world.id_set(&format!("SELECT id FROM points WHERE {}", inside(area))).await;
            assert!(shown.len() == max_rows.min(here.len()), "{max_rows} in {area:?}: {}", shown.len());
            if let Some((before, limit_before)) = before {
                // Zooming in: what was shown of the smaller box is shown still, and the limit rises.
                let kept: BTreeSet<i64> = before.intersection(&here).copied().collect();
                assert!(kept.is_subset(&shown) && limit >= limit_before, "{max_rows} in {area:?}");
            }
            // Panning at the limit: what the two boxes share is shown of both alike.
            let moved = (area.0 + (area.1 - area.0) / 4.0, area.1 + (area.1 - area.0) / 4.0);
            let sql = format!("SELECT id FROM thin(points, fraction => {limit:?}) WHERE {}", inside(moved));
            let there = world.id_set(&sql).await;
            let both =
                world.id_set(&format!("SELECT id FROM points WHERE {} AND {}", inside(area), inside(moved))).await;
            let of = |set: &BTreeSet<i64>| -> BTreeSet<i64> { set.intersection(&both).copied().collect() };
            assert_eq!(of(&shown), of(&there), "{max_rows} in {area:?}");
            before = Some((shown, limit));
            area = (area.0 + (area.1 - area.0) * 0.1, area.1 - (area.1 - area.0) * 0.2);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_around_thin_sees_its_rows_alone() {
    let world = World::new(Lie::Mixed, 16_000).await;
    let thinned = world.id_set("SELECT id FROM thin(points, max_rows => 500) WHERE y < 30").await;
    assert_eq!(thinned.len(), 500);
    let inner = "SELECT * FROM thin(points, max_rows => 500) WHERE y < 30";
    let expect = |keep: fn(&i64) -> bool| thinned.iter().copied().filter(keep).collect::<BTreeSet<i64>>();
    for (sql, expected) in [
        // A condition outside chooses among the rows shown; within, it would make room for others.
        (format!("SELECT id FROM ({inner}) WHERE id % 2 = 0"), expect(|id| id % 2 == 0)),
        (
            format!("SELECT id FROM ({inner}) JOIN (SELECT 7 AS seven) ON id % 7 = 0 AND seven = 7"),
            expect(|id| id % 7 == 0),
        ),
        (
            format!("WITH t AS ({inner}) SELECT a.id FROM t a JOIN t b ON a.id = b.id WHERE a.id < 900"),
            expect(|id| *id < 900),
        ),
        ("SELECT id FROM thin(points, max_rows => 500) AS p WHERE p.y < 30".to_owned(), expect(|_| true)),
        (
            "SELECT points.id FROM thin(public.points, max_rows => 500) WHERE points.y < 30 ORDER BY 1".to_owned(),
            expect(|_| true),
        ),
        (
            "SELECT id FROM points WHERE id IN (SELECT id FROM thin(points, max_rows => 500) WHERE y < 30)".to_owned(),
            expect(|_| true),
        ),
    ] {
        assert_eq!(world.id_set(&sql).await, expected, "{sql}");
    }
    assert_eq!(world.number(&format!("SELECT count(*) FROM ({inner})")).await, 500);
    assert_eq!(world.number("SELECT count(*) FROM thin(points, max_rows => 500) WHERE y < 30").await, 500);
    assert_eq!(world.ids(&format!("SELECT id FROM ({inner}) LIMIT 3")).await.len(), 3);
    let groups = "SELECT sum(count)::bigint FROM (SELECT kind, count(*) AS count FROM thin(points, max_rows => 500) WHERE y < 30 GROUP BY kind)";
    assert_eq!(world.number(groups).await, 500);
    let all: Vec<i64> =
        world.ids("SELECT id FROM (SELECT * FROM thin(points, max_rows => 200)) WHERE random() < 2").await;
    assert_eq!(all.len(), 200, "what is not certain stays outside");
    // The session's sample is what is thinned.
    let weights = world.weights(None).await;
    world.run("SET sample_fraction = 0.05").await;
    let batches = world.rows("SELECT id, weight_limit FROM thin(points, max_rows => 100000)").await;
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), lighter(&weights, 0.05).len());
    assert!(doubles(&batches, "weight_limit").iter().all(|limit| *limit == 0.05));
    world.run("SET sample_fraction = 1").await;
    let sql = "SELECT id FROM thin(points, max_rows => $1) WHERE y < $2";
    let values = [ScalarValue::Int64(Some(500)), ScalarValue::Float64(Some(30.0))];
    assert_eq!(prepared_ids(&world.session, sql, &values).await, thinned);
    let statement = world.session.prepare(sql).expect("prepares");
    let described = world.session.describe(statement.statement(), &[]).await.expect("describes");
    assert_eq!(described.parameters[0].data_type(), &arrow::datatypes::DataType::Int64);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_thin_reads_is_in_proportion_to_what_it_shows() {
    let world = World::new(Lie::Merged, 200_000).await;
    for max_rows in [50, 400, 3_000] {
        let plan = world.explained(&format!("SELECT id, x FROM thin(points, max_rows => {max_rows})")).await;
        let read = plan.metric("rows_read");
        // The rung that holds enough has up to about twice as many, and as many again were read before it; blocks of thin rungs are
        // read whole.
        assert!(read <= 12 * max_rows + 4_000, "{max_rows}: {read} rows read\n{}", plan.text);
        assert!(plan.metric("rungs_read") > 0, "{}", plan.text);
    }
    // What the box leaves out is not read at the thicker rungs.
    let plan = world.explained("SELECT id FROM thin(points, max_rows => 300) WHERE x < 2").await;
    assert!(plan.metric("levels_read") > 1, "{}", plan.text);
}

/// A part of the map: bounds of x and of y.
type Area = [(f64, f64); 2];

/// What is shown of it, and below which weights.
async fn shown(world: &World, area: Area, max_rows: usize) -> (BTreeSet<i64>, f64) {
    let sql = format!("SELECT id, weight_limit FROM thin(points, max_rows => {max_rows}) WHERE {}", within(area));
    let batches = world.rows(&sql).await;
    let ids = batches.iter().flat_map(|batch| batch.column(0).as_primitive::<Int64Type>().values().to_vec());
    (ids.collect(), doubles(&batches, "weight_limit").first().copied().unwrap_or(1.0))
}

fn within([(left, right), (low, high)]: Area) -> String {
    format!("x >= {left} AND x < {right} AND y >= {low} AND y < {high}")
}

/// Zoomed in or out, or moved, by chance.
fn next(random: &mut Random, area: Area) -> Area {
    let mut unit = || random.below(1_000) as f64 / 1_000.0;
    let (zoom, shift) = (unit(), [unit(), unit()]);
    let mut moved = area;
    for ((low, high), shift) in moved.iter_mut().zip(shift) {
        let size = *high - *low;
        match zoom {
            zoom if zoom < 0.4 => {
                *low += size * shift * 0.5;
                *high = *low + size * 0.5;
            }
            zoom if zoom < 0.7 => {
                *low = (*low - size * shift).max(0.0);
                *high = (*low + 2.0 * size).min(64.0);
            }
            _ => {
                *low = (*low + size * (shift - 0.5)).min(64.0 - size).max(0.0);
                *high = *low + size;
            }
        }
    }
    moved
}

#[tokio::test(flavor = "multi_thread")]
async fn a_walk_over_the_map_keeps_what_was_shown_while_rows_are_organised() {
    let mut random = Random(24);
    let (mut shared, mut thinned) = (0, 0);
    for max_rows in [40, 700] {
        let world = World::new(Lie::Tail, 12_000).await;
        let mut area = [(0.0, 64.0); 2];
        let (mut ids, mut limit) = shown(&world, area, max_rows).await;
        for step in 0..24 {
            match step {
                8 => world.organise(Stage::Sorted),
                16 => world.organise(Stage::Merged),
                _ => {}
            }
            let moved = next(&mut random, area);
            let (new_ids, new_limit) = shown(&world, moved, max_rows).await;
            let both =
                world.id_set(&format!("SELECT id FROM points WHERE {} AND {}", within(area), within(moved))).await;
            // Of what both areas have, the thinner picture shows a part of what the other does.
            let (thin, thick) = if limit <= new_limit { (&ids, &new_ids) } else { (&new_ids, &ids) };
            let kept: BTreeSet<i64> = thin.intersection(&both).copied().collect();
            assert!(kept.is_subset(thick), "step {step}, {max_rows} rows: {area:?} to {moved:?}");
            // At the limit of the first the second is the same picture.
            let again = format!("SELECT id FROM thin(points, fraction => {limit:?}) WHERE {}", within(moved));
            let again = world.id_set(&again).await;
            let of = |set: &BTreeSet<i64>| -> BTreeSet<i64> { set.intersection(&both).copied().collect() };
            assert_eq!(of(&ids), of(&again), "step {step}, {max_rows} rows: {area:?} to {moved:?}");
            shared += usize::from(!kept.is_empty());
            thinned += usize::from(new_limit < 1.0);
            (area, ids, limit) = (moved, new_ids, new_limit);
        }
    }
    assert!(shared > 20 && thinned > 15, "{shared} steps had something in common, {thinned} were thinned");
}
