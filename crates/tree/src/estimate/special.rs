//! The few special functions that intervals need: quantiles of the normal, t, gamma and beta distributions.
//!
//! Accurate to about 1e-9, for large shapes to 1e-4, which is far beyond what sampling deserves. Where there is no
//! formula, quantiles are found by bisection on the distribution function: slow (tens of microseconds), monotone, and
//! without a region where it fails.

/// ln Γ(x) for x > 0: Lanczos' series with g = 7 and nine terms.
pub(super) fn ln_gamma(x: f64) -> f64 {
    const G: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        // Reflection, for the series converges from 1/2 on.
        return (std::f64::consts::PI / (std::f64::consts::PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let t = x + 7.5;
    let sum = G.iter().enumerate().skip(1).fold(G[0], |sum, (i, g)| sum + g / (x + i as f64));
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// The share of Gamma(shape, 1) below x.
pub(super) fn gamma_below(shape: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    let front = (shape * x.ln() - x - ln_gamma(shape)).exp();
    if x < shape + 1.0 {
        let (mut term, mut sum, mut a) = (1.0 / shape, 1.0 / shape, shape);
        while term > sum * 1e-15 {
            a += 1.0;
            term *= x / a;
            sum += term;
        }
        return (front * sum).min(1.0);
    }
    // The continued fraction of the upper tail (Lentz).
    let mut b = x + 1.0 - shape;
    let (mut c, mut d) = (1e300, 1.0 / b);
    let mut h = d;
    for i in 1..10_000 {
        let an = -(i as f64) * (i as f64 - shape);
        b += 2.0;
        d = 1.0 / away_from_zero(an * d + b);
        c = away_from_zero(b + an / c);
        h *= d * c;
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    (1.0 - front * h).max(0.0)
}

/// The share of Beta(a, b) below x.
pub(super) fn beta_below(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    // The fraction converges fast on this side of the mean only.
    if x < (a + 1.0) / (a + b + 2.0) {
        front * beta_fraction(a, b, x) / a
    } else {
        1.0 - front * beta_fraction(b, a, 1.0 - x) / b
    }
}

fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let (mut c, mut h) = (1.0, d);
    for m in 1..10_000 {
        let m = m as f64;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / away_from_zero(1.0 + even * d);
        c = away_from_zero(1.0 + even / c);
        h *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / away_from_zero(1.0 + odd * d);
        c = away_from_zero(1.0 + odd / c);
        h *= d * c;
        if (d * c - 1.0).abs() < 1e-15 {
            break;
        }
    }
    h
}

fn away_from_zero(x: f64) -> f64 {
    if x.abs() < 1e-300 { 1e-300 } else { x }
}

/// The point of Gamma(shape, 1) with `share` below it.
pub(super) fn gamma_quantile(shape: f64, share: f64) -> f64 {
    if shape > 1e3 {
        // Wilson and Hilferty (1931): off by less than a thousandth of a standard deviation here.
        let z = normal_quantile(share);
        return shape * (1.0 - 1.0 / (9.0 * shape) + z / (3.0 * shape.sqrt())).powi(3);
    }
    let mut high = shape + 1.0;
    while gamma_below(shape, high) < share {
        high *= 2.0;
    }
    bisect(0.0, high, |x| gamma_below(shape, x) < share)
}

/// The point of Beta(a, b) with `share` below it.
pub(super) fn beta_quantile(a: f64, b: f64, share: f64) -> f64 {
    bisect(0.0, 1.0, |x| beta_below(a, b, x) < share)
}

/// The point of the normal distribution with `share` below it: Acklam's rational functions, off by 1e-9 of it at most.
///
/// Without bisection, for it is asked for with every interval.
pub(super) fn normal_quantile(share: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 6] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
        1.0,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 5] =
        [7.784_695_709_041_462e-3, 3.224_671_290_700_398e-1, 2.445_134_137_142_996, 3.754_408_661_907_416, 1.0];
    let horner = |terms: &[f64], x: f64| terms.iter().fold(0.0, |sum, term| sum * x + term);
    if share > 0.5 {
        return -normal_quantile(1.0 - share);
    }
    if share < 0.024_25 {
        let q = (-2.0 * share.ln()).sqrt();
        return horner(&C, q) / horner(&D, q);
    }
    let q = share - 0.5;
    q * horner(&A, q * q) / horner(&B, q * q)
}

/// The point of Student's t with `share`, at least a half, below it.
pub(super) fn t_quantile(freedom: f64, share: f64) -> f64 {
    if freedom > 200.0 {
        // Fisher's expansion; the next term is below 1e-6.
        let z = normal_quantile(share);
        let (cube, fifth) = (z.powi(3), z.powi(5));
        return z + (cube + z) / (4.0 * freedom) + (5.0 * fifth + 16.0 * cube + 3.0 * z) / (96.0 * freedom * freedom);
    }
    // freedom / (freedom + t²) is a Beta(freedom / 2, 1/2).
    let x = beta_quantile(freedom / 2.0, 0.5, 2.0 * (1.0 - share));
    (freedom * (1.0 - x) / x).sqrt()
}

fn bisect(mut low: f64, mut high: f64, below: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high || high - low < 1e-13 * high {
            break;
        }
        if below(middle) { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() <= 1e-6 * wanted.abs().max(1.0), "{found} is not {wanted}");
    }

    #[test]
    fn quantiles_agree_with_printed_tables() {
        near(normal_quantile(0.975), 1.959_963_985);
        near(normal_quantile(0.9875), 2.241_402_728);
        near(normal_quantile(0.025), -1.959_963_985);
        near(t_quantile(1.0, 0.975), 12.706_204_736);
        near(t_quantile(5.0, 0.975), 2.570_581_836);
        near(t_quantile(29.0, 0.995), 2.756_385_904);
        near(2.0 * gamma_quantile(5.0, 0.95), 18.307_038_053); // chi-square of 10
        near(gamma_quantile(0.5, 0.1) * 2.0, 0.015_790_774);
        near(gamma_quantile(1.0, 0.975), 40.0f64.ln());
        near(beta_quantile(1.0, 10.0, 0.975), 1.0 - 0.025f64.powf(0.1));
        near(beta_quantile(3.0, 8.0, 0.025), 0.066_739_5);
    }

    #[test]
    fn the_wide_gamma_joins_the_exact_one() {
        for share in [0.001, 0.0125, 0.5, 0.9875, 0.999] {
            let (below, above) = (gamma_quantile(999.9, share), gamma_quantile(1000.1, share));
            assert!((above - below - 0.2).abs() < 0.03, "{below} {above}");
        }
        assert!((t_quantile(199.9, 0.9875) / t_quantile(200.1, 0.9875) - 1.0).abs() < 1e-5);
    }

    #[test]
    fn distribution_functions_are_monotone() {
        for shape in [0.01, 0.5, 1.0, 7.5, 300.0] {
            let mut last = 0.0;
            for step in 0..400 {
                let share = gamma_below(shape, shape * step as f64 / 100.0);
                assert!(share >= last - 1e-12 && share <= 1.0, "{shape} {step}");
                last = share;
            }
        }
    }
}
