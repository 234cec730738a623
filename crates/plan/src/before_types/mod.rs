//! Analyzer rules that run before DataFusion's `type_coercion`: only until then is known which casts and literals a user wrote.
//!
//! Also here: planners of expressions whose rule is about the same literals ([`crate::planners`]).

pub mod bytes;
pub mod common_type;
pub mod durations;
pub mod inner_orders;
mod json_keys;
mod kept_kinds;
pub mod literals;
pub mod outer_types;
pub mod peer_frames;
pub mod reals;
pub mod rounding;
mod span_keys;
pub mod timestamps;
pub mod unknown_literals;
mod window_lists;

use datafusion::optimizer::analyzer::AnalyzerRule;
use std::sync::Arc;

/// The rules, in the order in which they run.
pub fn rules() -> Vec<Arc<dyn AnalyzerRule + Send + Sync>> {
    vec![
        // Before all else: the others see the plan as if the orders had been written where they hold.
        Arc::new(inner_orders::InnerOrders),
        // First of those that look at expressions: the literals of a CASE or a UNION get their types, which all others look at.
        Arc::new(unknown_literals::UnknownTexts),
        Arc::new(literals::ListedText),
        // Texts beside them are intervals by now, or stay texts.
        Arc::new(durations::ComparedDurations),
        Arc::new(common_type::CommonTimestampType),
        Arc::new(bytes::WrittenBytes),
        // Behind all that changes which casts there are.
        Arc::new(rounding::RoundedFloats),
        Arc::new(peer_frames::FramesOfPeers),
        // Last: subqueries read the types that the others have given.
        Arc::new(outer_types::TypesFromAround),
    ]
}
