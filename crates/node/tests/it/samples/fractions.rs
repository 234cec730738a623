//! `sample_fraction` and TABLESAMPLE: which rows, how many, at what cost.

use super::*;

const BOXES: [&str; 4] =
    ["true", "x BETWEEN 10 AND 40 AND y < 50", "kind = 'kind 3' AND z >= 5.25", "x + y > 60 AND id % 3 <> 1"];

#[tokio::test(flavor = "multi_thread")]
async fn every_sampled_scan_is_what_weights_say() {
    for lie in LIES {
        let world = World::new(lie, 24_000).await;
        let own = world.weights(None).await;
        assert_eq!(own.len(), 24_000, "{lie:?}");
        for fraction in [0.001, 0.01, 1.0 / 64.0, 0.05, 0.125, 0.25, 0.3, 0.99] {
            for condition in BOXES {
                world.run("SET sample_fraction = 1").await;
                let matching = world.id_set(&format!("SELECT id FROM points WHERE {condition}")).await;
                let expected = |weights: &BTreeMap<i64, u64>| -> BTreeSet<i64> {
                    lighter(weights, fraction).intersection(&matching).copied().collect()
                };
                let told = format!("{lie:?}, {fraction}, {condition}");
                let hinted = format!("SELECT /*+ sample_fraction({fraction}) */ id FROM points p WHERE {condition}");
                assert_eq!(world.id_set(&hinted).await, expected(&own), "hint: {told}");
                let seeded = world.weights(Some(17.5)).await;
                let percent = fraction * 100.0;
                let sql = format!(
                    "SELECT id FROM points TABLESAMPLE BERNOULLI ({percent}) REPEATABLE (17.5) WHERE {condition}"
                );
                // The percentage is divided again.
                let same: BTreeSet<i64> = lighter(&seeded, percent / 100.0).intersection(&matching).copied().collect();
                assert_eq!(world.id_set(&sql).await, same, "repeatable: {told}");
                world.run(&format!("SET sample_fraction = {fraction}")).await;
                assert_eq!(
                    world.id_set(&format!("SELECT id FROM points WHERE {condition}")).await,
                    expected(&own),
                    "setting: {told}"
                );
                let count = world.number(&format!("SELECT count(*) FROM points WHERE {condition}")).await;
                assert_eq!(count, expected(&own).len() as i64, "count: {told}");
                // Both at once: a sample of the sample.
                let both: BTreeSet<i64> = same.intersection(&expected(&own)).copied().collect();
                assert_eq!(world.id_set(&sql).await, both, "both: {told}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_sampled_rows_are_their_own() {
    for lie in LIES {
        let world = World::new(lie, 16_000).await;
        let columns = "id, y, kind, x + z AS sum";
        for sample in
            ["points TABLESAMPLE BERNOULLI (3) REPEATABLE (1)", "points TABLESAMPLE SYSTEM (60) REPEATABLE (4)"]
        {
            let sql =
                format!("SELECT count(*) FROM (SELECT {columns} FROM {sample} EXCEPT SELECT {columns} FROM points)");
            assert_eq!(world.number(&sql).await, 0, "{lie:?}: {sql}");
        }
        world.run("SET sample_fraction = 0.125").await;
        let sampled = world.rows(&format!("SELECT {columns} FROM points ORDER BY id")).await;
        let ids: Vec<String> = world.ids("SELECT id FROM points").await.iter().map(i64::to_string).collect();
        world.run("SET sample_fraction = 1").await;
        let all = format!("SELECT {columns} FROM points WHERE id IN ({}) ORDER BY id", ids.join(", "));
        let shown =
            |batches: &[RecordBatch]| arrow::util::pretty::pretty_format_batches(batches).expect("shows").to_string();
        assert_eq!(shown(&sampled), shown(&world.rows(&all).await), "{lie:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_row_is_in_with_the_probability_that_was_asked_for() {
    // One draw a fraction and seed; the clock stands still, so the same one on every run.
    let world = World::new(Lie::Merged, 40_000).await;
    let clusters = 40_000 / 500;
    for fraction in [0.001, 0.003, 0.01, 0.05, 0.1, 0.125, 0.25, 0.5, 0.75, 0.9, 0.99] {
        for (seed, sample) in [
            ("own".to_owned(), format!("SELECT /*+ sample_fraction({fraction}) */ id FROM points")),
            (
                "5".to_owned(),
                format!("SELECT id FROM points TABLESAMPLE BERNOULLI ({}) REPEATABLE (5)", fraction * 100.0),
            ),
        ] {
            let ids = world.ids(&sample).await;
            let within = |found: f64, rows: f64| {
                let sigma = (rows * fraction * (1.0 - fraction)).sqrt();
                (found - rows * fraction).abs() / sigma
            };
            let off = within(ids.len() as f64, 40_000.0);
            assert!(off < 4.0, "seed {seed}, fraction {fraction}: {} rows are {off} sigma off", ids.len());
            // Of every cluster, which lies together along the curve, as of all. Where few are expected the normal law says little.
            if 500.0 * fraction * (1.0 - fraction) < 4.0 {
                continue;
            }
            let mut squares = 0.0;
            for cluster in 0..clusters {
                let found = ids.iter().filter(|id| **id / 500 == cluster).count() as f64;
                let off = within(found, 500.0);
                assert!(
                    off < 4.0,
                    "seed {seed}, fraction {fraction}, cluster {cluster}: {found} rows are {off} sigma off"
                );
                squares += off * off;
            }
            // Chi-square of as many degrees of freedom: neither too far apart nor too even.
            let spread = (squares - clusters as f64) / (2.0 * clusters as f64).sqrt();
            assert!(spread.abs() < 4.0, "seed {seed}, fraction {fraction}: {squares} over {clusters} clusters");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn samples_of_one_seed_are_nested_and_those_of_others_are_others() {
    let world = World::new(Lie::Mixed, 16_000).await;
    let fractions = [0.001, 1.0 / 512.0, 0.01, 1.0 / 64.0, 0.1, 0.125, 0.126, 0.5, 0.99, 1.0];
    let mut last: [BTreeSet<i64>; 2] = Default::default();
    for fraction in fractions {
        let own = world.id_set(&format!("SELECT /*+ sample_fraction({fraction}) */ id FROM points")).await;
        let percent = fraction * 100.0;
        let sql = format!("SELECT id FROM points TABLESAMPLE BERNOULLI ({percent}) REPEATABLE (3)");
        let seeded = world.id_set(&sql).await;
        assert_eq!(seeded, world.id_set(&sql).await, "{sql}");
        for (last, now) in last.iter_mut().zip([own, seeded]) {
            assert!(last.is_subset(&now), "{fraction}");
            *last = now;
        }
    }
    assert_eq!(last[0].len(), 16_000);
    let half = |seed: &str| format!("SELECT id FROM points TABLESAMPLE BERNOULLI (50){seed}");
    let three = world.id_set(&half(" REPEATABLE (3)")).await;
    for other in [" REPEATABLE (4)", " REPEATABLE (3.5)", ""] {
        assert_ne!(three, world.id_set(&half(other)).await, "{other}");
    }
    assert_ne!(
        world.id_set(&half("")).await,
        world.id_set(&half("")).await,
        "without a seed every statement has its own"
    );
    // Two in one statement are two, also where the texts are the same.
    let pairs = "SELECT count(*) FROM points a TABLESAMPLE BERNOULLI (50) JOIN points b TABLESAMPLE BERNOULLI (50) ON a.id = b.id";
    let pairs = world.number(pairs).await;
    assert!((3_600..4_400).contains(&pairs), "{pairs} of 16000 rows are in both of two halves");
    let differences = "SELECT (SELECT sum(id) FROM points TABLESAMPLE BERNOULLI (50)) - (SELECT sum(id) FROM points TABLESAMPLE BERNOULLI (50))";
    assert_ne!(world.number(differences).await, 0);
    let plain = "SELECT (SELECT count(id) FROM points TABLESAMPLE BERNOULLI (50)) - (SELECT count(id) FROM points)";
    assert!(world.number(plain).await < -7_000);
    // SYSTEM, too.
    for percent in [0, 30, 100] {
        let sql = format!("SELECT id FROM points TABLESAMPLE SYSTEM ({percent}) REPEATABLE (9)");
        assert_eq!(world.id_set(&sql).await, world.id_set(&sql).await, "{sql}");
    }
    assert_eq!(world.number("SELECT count(*) FROM points TABLESAMPLE SYSTEM (100)").await, 16_000);
    assert_eq!(world.number("SELECT count(*) FROM points TABLESAMPLE SYSTEM (0)").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn system_draws_whole_blocks_and_reads_no_others() {
    let world = World::new(Lie::Merged, 100_000).await;
    let mut rows = 0;
    for seed in 1..=20 {
        let sample = format!("FROM points TABLESAMPLE SYSTEM (30) REPEATABLE ({seed})");
        let found = world.number(&format!("SELECT count(id) {sample}")).await;
        rows += found;
        let plan = world.explained(&format!("SELECT count(id) {sample}")).await;
        // Figures are shown with four digits.
        assert!(plan.metric("rows_read").abs_diff(found as u64) <= 50, "{found} rows found\n{}", plan.text);
    }
    let share = rows as f64 / 2_000_000.0;
    assert!((0.2..0.4).contains(&share), "30 % of the blocks have {share} of the rows");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_fraction_reads_rungs() {
    let world = World::new(Lie::Merged, 60_000).await;
    for (fraction, most) in [(0.125, 0.14), (0.01, 0.02), (0.001, 0.02)] {
        let sql = format!("SELECT /*+ sample_fraction({fraction}) */ sum(x) FROM points");
        let plan = world.explained(&sql).await;
        let read = plan.metric("rows_read");
        assert!(read > 0 && (read as f64) < 60_000.0 * most, "{fraction}: {read} rows read\n{}", plan.text);
        assert!(plan.metric("rungs_read") > 0, "{}", plan.text);
        assert!(!plan.text.contains("IndexAnswer"), "{}", plan.text);
    }
    let plan = world.explained("SELECT sum(x) FROM points").await;
    assert!(!plan.text.contains("rungs_read"), "{}", plan.text);
    let used = world.session.sql("SELECT /*+ sample_fraction(0.01) */ id FROM points").await.expect("samples");
    assert!(used.used().expect("reads").to_string().contains("rungs"), "{:?}", used.used());
}

#[tokio::test(flavor = "multi_thread")]
async fn identities_are_read_of_the_band_that_a_fraction_cuts_alone() {
    let world = World::new(Lie::Merged, 100_000).await;
    // Of each scan of segments, whether it reads identities, and how many rows.
    let read = |plan: &Plan| -> Vec<(bool, u64)> {
        let scans = plan.text.lines().filter(|line| line.contains("rows_read="));
        scans.map(|line| (line.contains("_ordinal"), Plan { text: line.to_owned() }.metric("rows_read"))).collect()
    };
    let explained = async |fraction: f64| {
        let sql = format!("SELECT /*+ sample_fraction({fraction}) */ sum(x) FROM points");
        world.explained(&sql).await
    };
    let blocks = world.explained("SELECT sum(x) FROM points").await.metric("blocks_read");
    for (fraction, sure, cut) in [(0.3, 4, 1), (0.25, 4, 0), (0.5, 8, 0), (0.14, 2, 1), (0.9, 14, 1)] {
        let plan = explained(fraction).await;
        let scans = read(&plan);
        let of =
            |identified: bool| -> u64 { scans.iter().filter(|scan| scan.0 == identified).map(|scan| scan.1).sum() };
        for (identified, sixteenths) in [(false, sure), (true, cut)] {
            let (found, expected) = (of(identified) as f64, 100_000.0 * f64::from(sixteenths) / 16.0);
            assert!(
                (found - expected).abs() <= 0.1 * expected,
                "{fraction}: {found} rows, not {expected}\n{}",
                plan.text
            );
        }
        assert_eq!(plan.metric("blocks_read"), blocks, "{fraction}: a block is counted once\n{}", plan.text);
    }
    // A sample of the sample needs the identities of all rows.
    let sql = "SELECT /*+ sample_fraction(0.3) */ sum(x) FROM points TABLESAMPLE BERNOULLI (50) REPEATABLE (1)";
    let plan = world.explained(sql).await;
    let scans = read(&plan);
    assert!(scans.len() == 1 && scans[0].0, "{}", plan.text);
}
