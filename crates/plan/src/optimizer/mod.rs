//! Optimizer rules: DataFusion's that would change what a statement means, wrapped, and ours.

mod below_subqueries;
pub mod computed_lists;
pub mod functional_dependencies;
pub mod held_constants;
pub mod null_keys;
pub mod ordered_keys;
pub mod push_down_constants;
pub mod simplify;

use crate::after_types::signed_zero::EqualZeros;
use datafusion::optimizer::OptimizerRule;
use std::sync::Arc;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// DataFusion's rules in their order, with ours in the place of those that are mended, and in their places among the rest.
pub fn rules(mut rules: Vec<Rule>) -> Vec<Rule> {
    let mended: [Rule; 4] = [
        Arc::new(simplify::SimplifyKeepingNulls::default()),
        Arc::new(push_down_constants::PushDownKeepingConstants::default()),
        Arc::new(null_keys::JoinsKeepingNulls::default()),
        Arc::new(null_keys::KeysOfOneKind::default()),
    ];
    for rule in &mut rules {
        if let Some(mended) = mended.iter().find(|mended| mended.name() == rule.name()) {
            *rule = Arc::clone(mended);
        }
    }
    // Where plans are made whose keys are told anew.
    for before in ["replace_distinct_aggregate", "decorrelate_lateral_join"] {
        let at = rules.iter().position(|rule| rule.name() == before);
        rules.insert(at.map_or(0, |at| at + 1), Arc::new(functional_dependencies::NoFalseKeys));
    }
    // What `JoinsKeepingNulls` made of keys is keys again.
    rules.push(Arc::new(null_keys::KeysOfOneKind::default()));
    // What the simplifier made lists of are lists.
    rules.push(Arc::new(EqualZeros));
    rules.push(Arc::new(computed_lists::ComputedLists));
    rules.push(Arc::new(ordered_keys::OrderedKeys));
    // Last: a constant that is held is none to any other rule.
    rules.push(Arc::new(held_constants::HeldConstants));
    rules
}
