//! Answers from the index, without planning: the short path.
//!
//! A statement's tree is recognised ([`recognise`], [`predicate`], [`comparison`]), its conditions become sets of codes
//! ([`conditions`], [`bound`]), and the tree of summaries, the packed codes and the tail are asked ([`run`]); the
//! answer's columns are made as the planner would name and type them ([`schemas`], [`columns`]). Planning costs
//! milliseconds; this takes as long as the answer does.
//!
//! Invariant: the general way is always right, and this one gives the same rows or steps aside.

pub(crate) mod cached_statement;

mod bound;
mod boxes;
mod columns;
mod comparison;
mod conditions;
mod constants;
mod cuboids;
mod describe;
mod group_codes;
mod having;
mod mapped;
mod members;
mod names;
mod predicate;
mod recognise;
mod refine;
mod run;
mod sampled;
mod schemas;
mod statement;
mod tail;
#[cfg(test)]
mod testing;
mod texts;
mod times;
mod units;
mod verify;
mod years;

pub(crate) use crate::answer::cached_statement::{CachedStatement, CachedStatements, bind_at};
pub(crate) use bound::{Bound, bind};
pub(crate) use comparison::{Expressions, PredicateForm, Subject, condition_of};
pub(crate) use conditions::values_of;
pub(crate) use cuboids::{Cuboids, MEMO as CUBOIDS_MEMO, Pinned, Shape, check_memo as check_cuboids_memo};
pub(crate) use mapped::{Ordinals, Side};
pub(crate) use members::MemberPredicate;
pub(crate) use predicate::conjunction;
pub(crate) use recognise::{recognise, select_alone};
pub(crate) use refine::{Refined, Refining, may_refine, refine};
pub(crate) use run::{Asking, run};
pub(crate) use sampled::{Accuracy, Bounded, Missed, run_within};
pub(crate) use schemas::{SchemaKey, Schemas};
pub(crate) use statement::{Aggregate, Condition, Group, Item, Literal, Statement, Test, Values};
pub(crate) use units::Cut;
pub(crate) use verify::{Held, Verified, verify};

/// What is kept of tables between statements.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// Tails with their codes.
    pub(crate) tails: tail::CodedTails,
    /// Names that members share.
    pub(crate) names: names::Names,
}

impl Kept {
    /// Drops what is kept of tables that are gone.
    pub(crate) fn retain(&self, exists: impl Fn(alluvia_types::TableId) -> bool) {
        self.tails.retain(&exists);
        self.names.retain(exists);
    }
}
