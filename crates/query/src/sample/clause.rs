//! `TABLESAMPLE BERNOULLI | SYSTEM (percent) [REPEATABLE (seed)]`, as PostgreSQL has it (SQL:2003, section 7.6).

use crate::table::Unit;
use alluvia_space::weight::weight_limit;
use alluvia_syntax::sample::clause::sample_of;
use alluvia_syntax::sample::number::{Number, number_in, number_of};
use alluvia_types::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{TableSample, TableSampleKind, TableSampleMethod};

/// A clause that was read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Clause {
    pub unit: Unit,
    /// The percentage as it was written, for names.
    pub percent: f64,
    /// What weighs less is in the sample; `None` is everything.
    pub below: Option<u64>,
    /// What was given to repeat the sample by.
    pub seed: Option<f64>,
}

/// Reads a clause that passed [`check`](alluvia_syntax::sample::clause::check). Where `describes`, a parameter without a value stands for any.
pub(crate) fn read(kind: &TableSampleKind, describes: bool) -> Result<Clause> {
    let TableSample { name, quantity, seed, .. } = sample_of(kind);
    let unit = match name {
        Some(TableSampleMethod::System) => Unit::Block,
        _ => Unit::Row,
    };
    let wrong = |what: &str| {
        Error::new(ErrorKind::InvalidSample, format!("the percentage of TABLESAMPLE {what}"))
            .with_hint("it takes a number from 0 to 100")
    };
    let percent = match quantity.as_ref().map_or(Number::Null, |quantity| number_of(&quantity.value)) {
        Number::Null | Number::Unbound if describes => 100.0,
        Number::Of(percent) if (0.0..=100.0).contains(&percent) => percent,
        Number::Of(percent) => return Err(wrong(&format!("cannot be {percent}"))),
        Number::Null => return Err(wrong("cannot be NULL")),
        Number::Unbound => return Err(wrong("is a parameter without a value")),
        Number::Other => return Err(wrong("is no constant")),
    };
    let seed = match seed.as_ref().map(|seed| number_in(&seed.value.value)) {
        None => None,
        Some(Some(Number::Null | Number::Unbound)) if describes => Some(0.0),
        // -0 is 0.
        Some(Some(Number::Of(seed))) if !seed.is_nan() => Some(seed + 0.0),
        Some(other) => {
            let what = if other == Some(Number::Null) { "NULL" } else { "anything but a number" };
            let message = format!("the seed of TABLESAMPLE REPEATABLE cannot be {what}");
            return Err(Error::new(ErrorKind::InvalidSampleSeed, message).with_hint("it takes a number"));
        }
    };
    Ok(Clause { unit, percent, below: weight_limit(percent / 100.0), seed })
}
