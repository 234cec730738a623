//! Tables with keys, beside PostgreSQL, DuckDB and a store of keys and values (RocksDB): `upsert`, `partial`, `annihilation`, `scu` and
//! `point`.
//!
//! Peers have the same rows ([`rows`]), and take turns. [`peers`] and [`postgres`] are the others, [`ours`] what benches do with ours.

pub mod annihilation;
pub mod partial;
pub mod point;
pub mod scu;
pub mod upsert;

mod ours;
mod peers;
mod postgres;
mod rows;

/// Seconds of an option: some, and no more than a day.
fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().map_err(|_| "seconds are a number, such as 10 or 0.5".to_owned())?;
    match seconds > 0.0 && seconds <= 86_400.0 {
        true => Ok(seconds),
        false => Err("seconds are more than 0, and at most 86400".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::seconds;

    #[test]
    fn seconds_that_cannot_be_waited_are_refused() {
        assert_eq!(seconds("0.5"), Ok(0.5));
        assert!(["0", "-1", "nan", "inf", "1e9", "soon"].into_iter().all(|text| seconds(text).is_err()));
    }
}
