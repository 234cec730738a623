//! Measured coverage: worlds with a known truth, drawn again and again with a fixed seed.
//!
//! Rung 1/64, then 1/8, then everything, stopping when the bound holds; the error asked for is the one that half of the
//! draws reach at the first look, where the choice to stop does most harm. Beside it the textbook's interval.

use super::*;

pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64) -> Rng {
        Rng(seed)
    }
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub(super) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }
    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (2.0 * std::f64::consts::PI * self.unit()).cos()
    }
}

pub(super) const RATES: [f64; 3] = [1.0 / 64.0, 1.0 / 8.0, 1.0];

/// How values are distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Values {
    LogNormal(f64),
    Pareto(f64),
    /// One value in twenty is not 0.
    MostlyZero,
    /// Around 0.
    Normal,
    /// Between 0 and 1.
    Uniform,
    /// About 1 in every other stratum, ten times as much in those between.
    Steps,
    /// Close together in each stratum, whose means are lognormal.
    Levels,
    /// 10 in every other stratum, exponential around it in those between.
    Alike,
    /// As [`Values::Steps`], but where they are large nine of ten are NULL.
    Sparse,
}

/// Which rows match.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Match {
    Share(f64),
    /// A share of its own for each block, from 0 to 1.
    Mixed,
    /// Twenty times likelier for a value above the median.
    Correlated(f64),
    /// One row in fifty, ten times as large as drawn; the others lie close together.
    Whales,
}

pub(super) struct World {
    /// By stratum: value, matches. Heavy rows are not here.
    pub rows: Vec<Vec<(f64, bool)>>,
    pub known: Vec<Known>,
    /// By stratum: values that are not NULL.
    pub values: Vec<u64>,
    pub exact: (u64, f64),
    pub truth: [f64; 3],
    pub skew: f64,
}

pub(super) fn world(values: Values, matching: Match, strata: usize, heavy: bool, rng: &mut Rng) -> World {
    let mut world =
        World { rows: Vec::new(), known: Vec::new(), values: Vec::new(), exact: (0, 0.0), truth: [0.0; 3], skew: 0.0 };
    let mut all = Vec::new();
    for stratum in 0..strata {
        let mixed = rng.unit();
        let level = rng.normal().exp();
        let mut nulls = 0;
        let block: Vec<(f64, bool)> = (0..8192)
            .map(|_| {
                let x = match values {
                    Values::LogNormal(sigma) => (sigma * rng.normal()).exp(),
                    Values::Pareto(shape) => rng.unit().powf(-1.0 / shape),
                    Values::MostlyZero => {
                        if rng.unit() < 0.05 {
                            rng.normal().exp()
                        } else {
                            0.0
                        }
                    }
                    Values::Normal => rng.normal(),
                    Values::Uniform => rng.unit(),
                    Values::Steps | Values::Sparse => [1.0, 10.0][stratum % 2] * (1.0 + 0.01 * rng.normal()),
                    Values::Levels => level * (1.0 + 0.1 * rng.normal()),
                    Values::Alike if stratum % 2 == 0 => 10.0,
                    Values::Alike => -10.0 * rng.unit().ln(),
                };
                if values == Values::Sparse && stratum % 2 == 1 && rng.unit() < 0.9 {
                    nulls += 1;
                    return (0.0, false);
                }
                let share = match matching {
                    Match::Share(share) => share,
                    Match::Mixed => mixed,
                    Match::Whales => 0.02,
                    Match::Correlated(share) => {
                        share * if rng_above(values, x) { 2.0 * 20.0 / 21.0 } else { 2.0 / 21.0 }
                    }
                };
                let matches = rng.unit() < share;
                let x = match (matching, matches) {
                    (Match::Whales, true) => 10.0 * x,
                    (Match::Whales, false) => 1.0 + rng.unit(),
                    _ => x,
                };
                (x, matches)
            })
            .collect();
        all.extend(block.iter().copied());
        world.rows.push(block);
        world.values.push(8192 - nulls);
    }
    let truth = all.iter().filter(|row| row.1).fold((0.0, 0.0), |(count, sum), row| (count + 1.0, sum + row.0));
    world.truth = [truth.0, truth.1, truth.1 / truth.0];
    let mean = all.iter().map(|row| row.0).sum::<f64>() / all.len() as f64;
    let central = |power| all.iter().map(|row| (row.0 - mean).powi(power)).sum::<f64>() / all.len() as f64;
    world.skew = central(3) / central(2).powf(1.5);
    if heavy {
        // The one row in 256 that is largest.
        let mut sorted: Vec<f64> = all.iter().map(|row| row.0.abs()).collect();
        sorted.sort_by(f64::total_cmp);
        let threshold = sorted[sorted.len() - sorted.len() / 256];
        for block in &mut world.rows {
            block.retain(|&(x, matches)| {
                let is_heavy = x.abs() >= threshold;
                if is_heavy && matches {
                    world.exact.0 += 1;
                    world.exact.1 += x;
                }
                !is_heavy
            });
        }
    }
    for block in &world.rows {
        world.known.push(Known {
            sum: block.iter().map(|row| row.0).sum(),
            squares: block.iter().map(|row| row.0 * row.0).sum(),
            min: block.iter().map(|row| row.0).fold(f64::INFINITY, f64::min),
            max: block.iter().map(|row| row.0).fold(f64::NEG_INFINITY, f64::max),
        });
    }
    world
}

fn rng_above(values: Values, x: f64) -> bool {
    match values {
        Values::LogNormal(_) => x > 1.0,
        Values::Pareto(shape) => x > 2f64.powf(1.0 / shape),
        Values::MostlyZero | Values::Normal => x > 0.0,
        Values::Uniform => x > 0.5,
        Values::Steps | Values::Levels | Values::Sparse => x > 1.0,
        Values::Alike => x > 10.0,
    }
}

/// One draw of all strata at the first two rungs.
pub(super) struct Draw {
    /// By rung and stratum: places of rows.
    places: [Vec<Vec<u32>>; 2],
}

impl Draw {
    pub(super) fn new(world: &World, rng: &mut Rng) -> Draw {
        let mut places = [Vec::new(), Vec::new()];
        for block in &world.rows {
            let (mut thin, mut thick) = (Vec::new(), Vec::new());
            let mut at = 0usize;
            loop {
                // The gap to the next row of rung 1 is geometric.
                at += (rng.unit().ln() / (1.0 - RATES[1]).ln()) as usize;
                if at >= block.len() {
                    break;
                }
                thick.push(at as u32);
                if rng.unit() < RATES[0] / RATES[1] {
                    thin.push(at as u32);
                }
                at += 1;
            }
            places[0].push(thin);
            places[1].push(thick);
        }
        Draw { places }
    }

    pub(super) fn look(&self, world: &World, rungs: &[u32]) -> (Frame, GroupSample) {
        let mut sample = GroupSample::default();
        sample.add_exact(world.exact.0, world.exact.1);
        let mut strata = Vec::new();
        for (h, &rung) in rungs.iter().enumerate() {
            let mut stratum = Stratum::new(world.rows[h].len() as u64, Some(world.known[h]));
            stratum.values = world.values[h].min(stratum.rows);
            stratum.restart(rung);
            let mut take = |row: (f64, bool)| {
                stratum.draw(row.0);
                if row.1 {
                    sample.add(h as u32, row.0);
                }
            };
            match rung {
                2 => world.rows[h].iter().for_each(|row| take(*row)),
                rung => self.places[rung as usize][h].iter().for_each(|at| take(world.rows[h][*at as usize])),
            }
            strata.push(stratum);
        }
        (Frame::new(strata), sample)
    }
}

/// Of a sum at one look: Johnson's (1978) correction for skew, and the empirical Bernstein bound of Maurer and Pontil
/// (2009), both with our error per look: (lower, upper) of each.
fn rivals(world: &World, draw: &Draw, rung: usize, alpha: f64) -> [(f64, f64); 2] {
    let (mut sum, mut variance, mut third, mut step) = (world.exact.1, 0.0, 0.0, 0.0f64);
    for (h, block) in world.rows.iter().enumerate() {
        let y: Vec<f64> =
            draw.places[rung][h].iter().map(|at| block[*at as usize]).map(|(x, m)| if m { x } else { 0.0 }).collect();
        let (rows, n) = (block.len() as f64, y.len() as f64);
        let mean = y.iter().sum::<f64>() / n;
        let central = |power| y.iter().map(|y| (y - mean).powi(power)).sum::<f64>() / n;
        let rest = 1.0 - n / rows;
        sum += rows * mean;
        variance += rows * rows / (n - 1.0) * rest * central(2);
        third += rows.powi(3) / (n * n) * rest * (1.0 - 2.0 * n / rows) * central(3);
        step = step.max(rows * world.known[h].max / (n - 1.0));
    }
    let z = -special::normal_quantile(alpha / 2.0);
    let middle = sum + if variance > 0.0 { third / (6.0 * variance) * (1.0 + 2.0 * z * z) } else { 0.0 };
    let log = (4.0 / alpha).ln();
    let half = (2.0 * variance * log).sqrt() + 7.0 / 3.0 * step * log;
    [(middle - z * variance.sqrt(), middle + z * variance.sqrt()), (sum - half, sum + half)]
}

pub(super) const AGGREGATES: [Aggregate; 3] = [Aggregate::Count, Aggregate::Sum, Aggregate::Avg];

/// Measured of one aggregate.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Measured {
    /// Covered through the path that stops when the bound holds: ours, and the textbook's.
    pub covered: f64,
    pub plain_covered: f64,
    /// Covered at each of the two looks.
    pub at: [f64; 2],
    pub plain_at: [f64; 2],
    /// Mean widths at each look.
    pub width: [f64; 2],
    pub plain_width: [f64; 2],
    /// Of sums: Johnson's and Bernstein's at the first look.
    pub rival_at: [f64; 2],
    pub rival_width: [f64; 2],
}

impl Measured {
    fn add(&mut self, other: &Measured, weight: f64) {
        self.covered += weight * other.covered;
        self.plain_covered += weight * other.plain_covered;
        for look in 0..2 {
            self.at[look] += weight * other.at[look];
            self.plain_at[look] += weight * other.plain_at[look];
            self.width[look] += weight * other.width[look];
            self.plain_width[look] += weight * other.plain_width[look];
            self.rival_at[look] += weight * other.rival_at[look];
            self.rival_width[look] += weight * other.rival_width[look];
        }
    }
}

/// Half of the draws could stop at the first look: there the choice to stop does most harm.
pub(super) fn measure(world: &World, plan: &Plan, draws: usize, rng: &mut Rng) -> [Measured; 3] {
    let strata = world.rows.len();
    let mut all: [Measured; 3] = Default::default();
    let mut errors: [Vec<f64>; 3] = Default::default();
    for _ in 0..41 {
        let (frame, sample) = Draw::new(world, rng).look(world, &vec![0; strata]);
        for (errors, aggregate) in errors.iter_mut().zip(AGGREGATES) {
            errors.push(interval(aggregate, &frame, &sample, plan).relative_error());
        }
    }
    errors.iter_mut().for_each(|errors| errors.sort_by(f64::total_cmp));
    for _ in 0..draws {
        let draw = Draw::new(world, rng);
        let looks = [draw.look(world, &vec![0; strata]), draw.look(world, &vec![1; strata])];
        for (i, rival) in rivals(world, &draw, 0, plan.alpha()).into_iter().enumerate() {
            let truth = world.truth[1];
            all[1].rival_at[i] += f64::from(rival.0 <= truth && truth <= rival.1) / draws as f64;
            all[1].rival_width[i] += (rival.1 - rival.0) / truth / draws as f64;
        }
        for (i, aggregate) in AGGREGATES.into_iter().enumerate() {
            let measured = &mut all[i];
            let truth = world.truth[i];
            let max_error = errors[i][20];
            let slack = 1e-9 * truth.abs();
            let share = 1.0 / draws as f64;
            let (mut stopped, mut plain_stopped) = (false, false);
            for (look, (frame, sample)) in looks.iter().enumerate() {
                let found = interval(aggregate, frame, sample, plan);
                assert!(
                    found.estimate.is_nan() || found.lower <= found.estimate && found.estimate <= found.upper,
                    "{found:?}"
                );
                let covers = found.lower <= truth + slack && truth <= found.upper + slack;
                let (middle, error) = textbook::standard_error(aggregate, frame, sample);
                let plain_covers = (middle - truth).abs() <= 1.96 * error;
                measured.at[look] += share * f64::from(covers);
                measured.plain_at[look] += share * f64::from(plain_covers);
                if error > 0.0 {
                    // As wide as the group's mean width, in units of the truth.
                    measured.width[look] += share * (found.upper - found.lower) / truth;
                    measured.plain_width[look] += share * 2.0 * 1.96 * error / truth;
                }
                if !stopped && found.is_good_enough(max_error) {
                    stopped = true;
                    measured.covered += share * f64::from(covers);
                }
                if !plain_stopped && 1.96 * error <= max_error * 0.87 * middle.abs() {
                    plain_stopped = true;
                    measured.plain_covered += share * f64::from(plain_covers);
                }
            }
            measured.covered += if stopped { 0.0 } else { share };
            measured.plain_covered += if plain_stopped { 0.0 } else { share };
        }
    }
    all
}

/// Worlds of which the coverage is measured: values, match, strata, whether heavy rows are apart.
const WORLDS: [(Values, Match, usize, bool); 28] = [
    (Values::LogNormal(1.0), Match::Share(0.005), 8, false),
    (Values::LogNormal(2.0), Match::Whales, 8, true),
    (Values::LogNormal(2.0), Match::Whales, 8, false),
    (Values::LogNormal(1.0), Match::Share(0.05), 8, false),
    (Values::LogNormal(1.0), Match::Mixed, 8, false),
    (Values::LogNormal(2.0), Match::Share(0.05), 1, false),
    (Values::LogNormal(2.0), Match::Share(0.05), 8, false),
    (Values::LogNormal(2.0), Match::Share(0.05), 8, true),
    (Values::LogNormal(2.0), Match::Mixed, 8, true),
    (Values::LogNormal(2.0), Match::Correlated(0.1), 8, true),
    (Values::Pareto(2.9), Match::Share(0.05), 8, false),
    (Values::Pareto(2.9), Match::Mixed, 8, false),
    (Values::Pareto(2.9), Match::Share(0.05), 8, true),
    (Values::MostlyZero, Match::Share(0.5), 8, false),
    (Values::MostlyZero, Match::Share(0.05), 8, true),
    (Values::MostlyZero, Match::Correlated(0.1), 8, false),
    (Values::Normal, Match::Share(0.5), 8, false),
    // Of which a row or a few are drawn.
    (Values::Uniform, Match::Share(0.0005), 8, false),
    (Values::Uniform, Match::Share(0.003), 8, false),
    (Values::LogNormal(1.0), Match::Share(0.0005), 8, false),
    // Of which rows of some strata alone are drawn, whose values are others than those of the rest.
    (Values::Steps, Match::Share(0.008), 2, false),
    (Values::Steps, Match::Share(0.016), 2, false),
    (Values::Steps, Match::Share(0.002), 8, false),
    (Values::Levels, Match::Share(0.002), 16, false),
    (Values::Alike, Match::Share(0.008), 2, false),
    (Values::Alike, Match::Share(0.002), 8, false),
    (Values::Sparse, Match::Share(0.03), 2, false),
    (Values::Sparse, Match::Share(0.01), 8, false),
];

/// `SIMULATION_DRAWS=2000 cargo test -p alluvia-tree simulation -- --nocapture` prints the table.
#[test]
fn intervals_cover_through_the_path_that_stops() {
    let asked = std::env::var("SIMULATION_DRAWS").ok().and_then(|draws| draws.parse().ok());
    let draws: usize = asked.unwrap_or(300);
    let plan = Plan::new(2, 0.95);
    println!(
        "{:14} {:15} {:>2} {:5} {:>4} agg   path plain  at0   at1  plain0 plain1 width0 width1",
        "values", "match", "H", "heavy", "skew"
    );
    for (values, matching, strata, heavy) in WORLDS {
        let mut rng = Rng::new(7);
        let worlds = 2;
        let mut mean = [Measured::default(); 3];
        let mut skew = 0.0;
        for _ in 0..worlds {
            let world = world(values, matching, strata, heavy, &mut rng);
            skew += world.skew / worlds as f64;
            for (mean, one) in mean.iter_mut().zip(measure(&world, &plan, draws / worlds, &mut rng)) {
                mean.add(&one, 1.0 / worlds as f64);
            }
        }
        for (measured, aggregate) in mean.iter().zip(AGGREGATES) {
            let percent = |share: f64| format!("{:5.1}", 100.0 * share);
            println!(
                "{:14} {:15} {strata:>2} {heavy:5} {skew:>4.0} {:5} {} {} {} {} {}  {}  {:5.2}  {:5.2}",
                format!("{values:?}"),
                format!("{matching:?}"),
                format!("{aggregate:?}"),
                percent(measured.covered),
                percent(measured.plain_covered),
                percent(measured.at[0]),
                percent(measured.at[1]),
                percent(measured.plain_at[0]),
                percent(measured.plain_at[1]),
                measured.width[0] / measured.plain_width[0],
                measured.width[1] / measured.plain_width[1],
            );
            if aggregate == Aggregate::Sum {
                let width = |i: usize| measured.rival_width[i] / measured.plain_width[0];
                println!(
                    "{:40}at0: Johnson{}, width {:.2}; Bernstein{}, width {:.1}",
                    "",
                    percent(measured.rival_at[0]),
                    width(0),
                    percent(measured.rival_at[1]),
                    width(1),
                );
            }
            assert!(measured.covered >= 0.94, "{values:?} {matching:?} {strata} {heavy} {aggregate:?}: {measured:?}");
        }
    }
}

/// Strata chosen by what was drawn in them are those that were lucky; ours are not.
#[test]
fn a_choice_of_strata_that_looks_at_their_draws_is_biased() {
    let mut rng = Rng::new(11);
    let world = world(Values::LogNormal(1.0), Match::Share(0.05), 40, false, &mut rng);
    let plan = Plan::new(2, 0.95);
    let (mut looking, mut ours, mut halves) = (0, 0, 0);
    let draws = 100;
    for _ in 0..draws {
        let draw = Draw::new(&world, &mut rng);
        let (frame, sample) = draw.look(&world, &[0; 40]);
        // Half of the strata, those with the most matches.
        let mut matches: Vec<(u64, usize)> = (0..40).map(|stratum| (0, stratum)).collect();
        sample.cells().iter().for_each(|cell| matches[cell.stratum as usize].0 = cell.matches);
        matches.sort();
        let mut rungs = [0; 40];
        matches[20..].iter().for_each(|(_, stratum)| rungs[*stratum] = 1);
        let covers = |rungs: &[u32]| {
            let (frame, sample) = draw.look(&world, rungs);
            let found = interval(Aggregate::Count, &frame, &sample, &plan);
            found.lower <= world.truth[0] && world.truth[0] <= found.upper
        };
        looking += usize::from(covers(&rungs));
        let mut rungs = [0; 40];
        let goal = 0.75 * interval(Aggregate::Count, &frame, &sample, &plan).relative_error();
        for read in next_allocation(&frame, &[(Aggregate::Count, &sample)], &RATES, &plan, goal) {
            rungs[read.stratum as usize] = read.rung;
        }
        halves += rungs.iter().filter(|rung| **rung == 1).count();
        ours += usize::from(covers(&rungs));
    }
    println!("covered: {looking} % looking, {ours} % not; {} strata of 40 read again", halves / draws);
    assert!(looking < 70 && ours >= 94, "{looking} {ours}");
    assert!((10..30).contains(&(halves / draws)));
}
