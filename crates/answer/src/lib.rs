//! Answers from the index, without planning: the short path. Knows nothing of sessions.
//!
//! A statement's tree is recognised ([`recognise`](mod@recognise), [`predicate`], [`comparison`]), its conditions become sets of codes
//! ([`conditions`], [`bound`]), and the tree of summaries, the packed codes and the tail are asked ([`run`](mod@run)); the
//! answer's columns are made as the planner would name and type them ([`schemas`], [`columns`]). Planning costs
//! milliseconds; this takes as long as the answer does.
//!
//! Beside that, what scans share with it: [`members`], the codes that a predicate can match, and [`used`], what a statement read.
//!
//! Invariant: the general way is always right, and this one gives the same rows or steps aside.

pub mod members;
pub mod used;

mod bound;
mod boxes;
mod cached_statement;
mod clocks;
mod columns;
mod comparison;
mod conditions;
mod constants;
mod cuboids;
mod damage;
mod declined;
mod describe;
mod explained;
mod group_codes;
mod having;
mod kept;
mod mapped;
mod member_predicate;
mod names;
mod predicate;
mod recognise;
mod refine;
mod run;
mod sampled;
mod schemas;
mod simple_views;
mod statement;
mod tail;
#[cfg(test)]
mod testing;
mod texts;
mod times;
mod units;
mod verify;
mod view;
mod years;

pub use bound::{Bound, bind};
pub use cached_statement::{CachedStatement, CachedStatements, bind_at};
pub use comparison::{Expressions, PredicateForm, Subject, condition_of};
pub use conditions::values_of;
pub use cuboids::{Cuboids, MEMO as CUBOIDS_MEMO, Pinned, Shape, check_memo as check_cuboids_memo};
pub use declined::Declined;
pub use explained::{IndexFigures, exact_text};
pub use kept::Kept;
pub use mapped::{Ordinals, Side};
pub use member_predicate::MemberPredicate;
pub use predicate::conjunction;
pub use recognise::{recognise, select_alone};
pub use refine::{Refined, Refining, may_refine, refine};
pub use run::{Asking, run};
pub use sampled::{Accuracy, Bounded, Missed, WhyExact, run_within};
pub use schemas::{SchemaKey, Schemas};
pub use simple_views::{simple_views, view_by_key};
pub use statement::{Aggregate, Condition, Group, Item, Literal, NamedView, Statement, Test, Values};
pub use units::Cut;
pub use verify::{Held, Verified, verify};
pub use view::SimpleView;
