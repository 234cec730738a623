//! `TABLESAMPLE BERNOULLI | SYSTEM (percent) [REPEATABLE (seed)]`, as PostgreSQL has it (SQL:2003, section 7.6).

use super::number::{Number, number_in, number_of};
use crate::dialect::not_supported;
use crate::table::Unit;
use alluvia_space::weight::weight_limit;
use alluvia_types::{Error, ErrorKind, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, TableSample, TableSampleKind, TableSampleMethod, TableSampleModifier, TableSampleSeedModifier,
};

/// A clause that was read.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Clause {
    pub unit: Unit,
    /// The percentage as it was written, for names.
    pub percent: f64,
    /// What weighs less is in the sample; `None` is everything.
    pub below: Option<u64>,
    /// What was given to repeat the sample by.
    pub seed: Option<f64>,
}

/// How it is written.
const FORM: &str = "write TABLESAMPLE BERNOULLI (10) or TABLESAMPLE SYSTEM (10), with REPEATABLE (seed) behind for the same \
                    sample every time; FROM thin(table, max_rows => 1000) gives a number of rows";

/// The clause, wherever it stands.
pub(super) fn sample_of(kind: &TableSampleKind) -> &TableSample {
    let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = kind;
    sample
}

/// Refuses forms that other databases have; what is left has a method, a percentage and perhaps a seed.
pub(crate) fn check(kind: &TableSampleKind) -> Result<()> {
    let TableSample { modifier, name, quantity, seed, bucket, offset } = sample_of(kind);
    let refused = |what: &str| Err(not_supported(what).with_hint(FORM));
    if *modifier == TableSampleModifier::Sample {
        return refused("SAMPLE after a table");
    }
    if bucket.is_some() {
        return refused("TABLESAMPLE (BUCKET ...)");
    }
    if offset.is_some() {
        return refused("OFFSET in TABLESAMPLE");
    }
    match name {
        Some(TableSampleMethod::Bernoulli | TableSampleMethod::System) => {}
        Some(other) => return refused(&format!("TABLESAMPLE {other}")),
        None => match quantity.as_ref().map(|quantity| &quantity.value) {
            // The parser knows other methods as functions.
            Some(Expr::Function(method)) if quantity.as_ref().is_some_and(|quantity| !quantity.parenthesized) => {
                return refused(&format!("TABLESAMPLE {}", method.name.to_string().to_uppercase()));
            }
            _ => return refused("TABLESAMPLE without a method"),
        },
    }
    let Some(quantity) = quantity.as_ref().filter(|quantity| quantity.parenthesized) else {
        return Err(Error::new(ErrorKind::Syntax, "TABLESAMPLE lacks its percentage in parentheses").with_hint(FORM));
    };
    if let Some(unit) = &quantity.unit {
        return refused(&format!("{unit} in TABLESAMPLE"));
    }
    match seed {
        Some(seed) if seed.modifier == TableSampleSeedModifier::Seed => refused("SEED in TABLESAMPLE"),
        _ => Ok(()),
    }
}

/// Reads a clause that passed [`check`]. Where `describes`, a parameter without a value stands for any.
pub(super) fn read(kind: &TableSampleKind, describes: bool) -> Result<Clause> {
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
