//! Analyzer rules that run after DataFusion's `type_coercion`: every expression has its type, and casts that nobody wrote are in the plan.

pub mod arithmetic;
pub mod bare_distinct;
pub mod byte_literals;
pub mod casts;
pub mod counted_rows;
pub mod decimals;
pub mod exact_aggregates;
pub mod multisets;
pub mod output_size;
pub mod session_zone;
pub mod signed_zero;
pub mod subqueries;
pub mod unions;

use datafusion::optimizer::analyzer::AnalyzerRule;
use std::sync::Arc;

/// The rules, in the order in which they run.
pub fn rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    vec![
        // It goes by the casts that were written and coerced, before others take them away.
        Arc::new(session_zone::SessionZone),
        // They take casts out that coercion has put in, so they come before whoever puts functions in the place of casts.
        Arc::new(exact_aggregates::ExactSpreads),
        Arc::new(decimals::CommonDecimalType),
        Arc::new(multisets::CountedMultisets),
        Arc::new(byte_literals::BytesOfLiterals),
        Arc::new(casts::LosslessCasts),
        Arc::new(signed_zero::EqualZeros),
        Arc::new(arithmetic::CheckedArithmetic),
        // It counts what functions give, those of the rules before it among them.
        Arc::new(output_size::CountedFunctions),
        // What it makes of subqueries has its types.
        Arc::new(subqueries::SubqueriesKeepingNulls),
        // They go by names and shapes that subqueries have only now.
        Arc::new(unions::NamesOfUnions),
        Arc::new(counted_rows::CountedRows),
        Arc::new(bare_distinct::BareDistinct),
    ]
}
