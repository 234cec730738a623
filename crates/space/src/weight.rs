//! Weights: each row's fixed pseudo-random number, by which samples are drawn.
//!
//! Invariants:
//! - A weight is a function of the row's identity (version, ordinal) and the table's seed, so that every rung, replica and
//!   rewrite of a row agrees without storing it.
//! - It is never a function of the dimensions: weights made from the indexed columns give equal rows equal weights, and
//!   then a "1 % sample" is off by many standard deviations on real data.
//!
//! The identity is fed to xxh3, whose 64 bits pass as uniform also for consecutive ordinals; a plain multiply would
//! make neighbours in a batch evenly spread instead of independent.

use alluvia_types::Version;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The weight of a row: uniform over all 64-bit numbers. A row is in a sample of fraction f when it is below f * 2^64.
#[inline]
pub fn weight(version: Version, ordinal: u64, seed: u64) -> u64 {
    let mut identity = [0; 16];
    identity[..8].copy_from_slice(&version.0.to_le_bytes());
    identity[8..].copy_from_slice(&ordinal.to_le_bytes());
    xxh3_64_with_seed(&identity, seed)
}
