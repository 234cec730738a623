//! `TABLESAMPLE BERNOULLI | SYSTEM (percent) [REPEATABLE (seed)]`: which forms are accepted (SQL:2003, section 7.6).

use alluvia_types::{Error, ErrorKind, Result};
use alluvia_values::errors::not_supported;
use sqlparser::ast::{
    Expr, TableSample, TableSampleKind, TableSampleMethod, TableSampleModifier, TableSampleSeedModifier,
};

/// How it is written.
const FORM: &str = "write TABLESAMPLE BERNOULLI (10) or TABLESAMPLE SYSTEM (10), with REPEATABLE (seed) behind for the same \
                    sample every time; FROM thin(table, max_rows => 1000) gives a number of rows";

/// The clause, wherever it stands.
pub fn sample_of(kind: &TableSampleKind) -> &TableSample {
    let (TableSampleKind::BeforeTableAlias(sample) | TableSampleKind::AfterTableAlias(sample)) = kind;
    sample
}

/// Refuses forms that other databases have; what is left has a method, a percentage and perhaps a seed.
pub fn check(kind: &TableSampleKind) -> Result<()> {
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
