//! Weights: each row's fixed pseudo-random number, by which samples are drawn.
//!
//! Invariants:
//! - A weight is a function of the row's identity (version, ordinal) and the table's seed, so that every rung, replica and
//!   rewrite of a row agrees without storing it.
//! - The ordinal of a staged row says by itself which row it is ([`STAGED_ORDINAL_MIN`]), so its weight does not depend on its
//!   version: a load's ladder is written before the version is known.
//! - It is never a function of the dimensions: weights made from the indexed columns give equal rows equal weights, and
//!   then a "1 % sample" is off by many standard deviations on real data.
//!
//! The identity is fed to xxh3, whose 64 bits pass as uniform also for consecutive ordinals; a plain multiply would
//! make neighbours in a batch evenly spread instead of independent.

use alluvia_types::Version;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Ordinals from here on are of rows that were staged as segments: they are unique in the database, whatever the version. Those
/// below count the rows of one batch and table.
pub const STAGED_ORDINAL_MIN: u64 = 1 << 32;

/// The weight of a row: uniform over all 64-bit numbers. A row is in a sample of fraction f when it is below f * 2^64.
#[inline]
pub fn weight(version: Version, ordinal: u64, seed: u64) -> u64 {
    let version = if ordinal < STAGED_ORDINAL_MIN { version.0 } else { 0 };
    let mut identity = [0; 16];
    identity[..8].copy_from_slice(&version.to_le_bytes());
    identity[8..].copy_from_slice(&ordinal.to_le_bytes());
    xxh3_64_with_seed(&identity, seed)
}

/// The weight below which the rows of a sample of this fraction lie; `None` where all rows do.
pub fn weight_limit(fraction: f64) -> Option<u64> {
    // 2^64 as a float; the product is cut to whole numbers, and to 0 below.
    (fraction < 1.0).then_some((fraction * 18_446_744_073_709_551_616.0) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sum of squared deviations of counts from their expectations, in units of these.
    fn chi_square(counts: &[u64], expected: f64) -> f64 {
        counts.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum()
    }

    /// More than this for `freedom` degrees of freedom has probability below 1e-6 (Wilson and Hilferty 1931).
    fn limit(freedom: f64) -> f64 {
        let spread = 2.0 / (9.0 * freedom);
        freedom * (1.0 - spread + 4.75 * spread.sqrt()).powi(3)
    }

    #[test]
    fn weights_are_uniform_in_their_top_and_bottom_bits() {
        for (seed, version) in [(0, 0), (1, 1), (7, 1 << 40), (u64::MAX, 12)] {
            let (mut top, mut bottom) = ([0; 256], [0; 256]);
            for ordinal in 0..256_000 {
                let weight = weight(Version(version), ordinal, seed);
                top[(weight >> 56) as usize] += 1;
                bottom[weight as usize & 255] += 1;
            }
            for counts in [top, bottom] {
                let found = chi_square(&counts, 1000.0);
                assert!(found < limit(255.0), "seed {seed}, version {version}: {found}");
                // Too even is not random either: a low-discrepancy sequence would give nearly 0.
                assert!(found > 255.0 - (limit(255.0) - 255.0), "seed {seed}, version {version}: {found}");
            }
        }
    }

    #[test]
    fn samples_take_the_same_share_of_every_member() {
        // Members as data has them: periodic in arrival order, runs of it, and skewed; rungs as the ladder has them.
        let members: [fn(u64) -> usize; 4] = [
            |ordinal| (ordinal % 64) as usize,
            |ordinal| (ordinal / 4096 % 64) as usize,
            |ordinal| (ordinal * ordinal % 61) as usize,
            |ordinal| (ordinal % 8192).checked_ilog2().unwrap_or(0) as usize,
        ];
        for (kind, member) in members.into_iter().enumerate() {
            for rung in [8, 64] {
                let (mut rows, mut sampled) = ([0u64; 64], [0u64; 64]);
                for ordinal in 0..1 << 20 {
                    rows[member(ordinal)] += 1;
                    sampled[member(ordinal)] += u64::from(weight(Version(3), ordinal, 99) < u64::MAX / rung);
                }
                let share = 1.0 / rung as f64;
                let (mut found, mut cells) = (0.0, 0.0);
                for (&rows, &sampled) in rows.iter().zip(&sampled) {
                    let expected = rows as f64 * share;
                    if expected >= 10.0 {
                        found += (sampled as f64 - expected).powi(2) / (expected * (1.0 - share));
                        cells += 1.0;
                    }
                }
                assert!(found < limit(cells), "members {kind}, rung 1/{rung}: {found} over {cells} cells");
            }
        }
    }

    #[test]
    fn staged_rows_weigh_the_same_before_and_after_their_version_is_known() {
        let staged = STAGED_ORDINAL_MIN * 7 + 5;
        assert_eq!(weight(Version(0), staged, 3), weight(Version(9), staged, 3));
        assert_ne!(weight(Version(0), staged, 3), weight(Version(0), staged + 1, 3));
        assert_ne!(weight(Version(1), 5, 3), weight(Version(2), 5, 3));
    }

    #[test]
    fn limits_are_fractions_of_all_weights() {
        assert_eq!((weight_limit(0.0), weight_limit(0.125), weight_limit(1.0)), (Some(0), Some(1 << 61), None));
        assert_eq!(weight_limit(-1.0), Some(0));
    }

    #[test]
    fn neighbours_and_batches_and_seeds_are_independent() {
        let mut joint = [0; 256];
        let cell = |weight: u64| (weight >> 60) as usize;
        for ordinal in 0..256_000 {
            let here = weight(Version(5), ordinal, 1);
            for (kind, other) in
                [weight(Version(5), ordinal + 1, 1), weight(Version(6), ordinal, 1), weight(Version(5), ordinal, 2)]
                    .into_iter()
                    .enumerate()
            {
                assert_ne!(here, other, "kind {kind}");
                joint[cell(here) << 4 | cell(other)] += 1;
            }
        }
        assert!(chi_square(&joint, 3000.0) < limit(255.0) * 1.5);
    }
}
