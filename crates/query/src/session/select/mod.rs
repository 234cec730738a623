//! Queries: from a tree to a stream of rows, on one snapshot.
//!
//! A query is answered by the first of these that can: the index ([`indexed`]), an outline over drawn rows
//! ([`outlined`]), a plan ([`planning`]). A point read whose plan is kept comes before all of them ([`by_key`]). [`shown_names`] asks again where a query was refused for its columns' names.

pub(crate) mod advisory;
pub(crate) mod by_key;
pub(crate) mod calls;
pub(crate) mod cursor;
pub(crate) mod explain;
mod explained;
pub(crate) mod indexed;
mod joined_by_key;
pub(crate) mod origins;
pub(crate) mod outlined;
pub(crate) mod pin;
pub(crate) mod planning;
pub(crate) mod refine;
pub(crate) mod sequences;
pub(crate) mod shown_names;

use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::indexed::answer_by_index;
use crate::session::select::outlined::answer_by_outline;
use crate::session::select::planning::{accuracy_of, plan_tree};
use crate::session::select::refine::query_refined;
use alluvia_syntax::Hints;
use alluvia_types::Result;
use datafusion::sql::parser::Statement as Tree;
use datafusion::sql::sqlparser::ast::{self, Query};

/// SELECT, VALUES, WITH, under the names that its columns have.
pub(crate) async fn query_as_named(run: &Run, query: &Query, hints: &Hints) -> Result<Outcome> {
    match run.refining.get() {
        Some(slot) => query_refined(run, query, hints, slot).await,
        None => query_at_once(run, query, hints).await,
    }
}

/// Told where estimates are asked for that are not made.
const EXACT_ON_MACHINES: &str = "max_error has no effect on a database of several machines yet: the answer is exact";

/// A query whose answer is not refined.
pub(crate) async fn query_at_once(run: &Run, query: &Query, hints: &Hints) -> Result<Outcome> {
    if let Some(outcome) = answer_by_index(run, query, hints).await? {
        return Ok(outcome);
    }
    if let Some(outcome) = answer_by_outline(run, query, hints).await? {
        return Ok(outcome);
    }
    let tree = Tree::Statement(Box::new(ast::Statement::Query(Box::new(query.clone()))));
    let planned = plan_tree(run, tree, hints, accuracy_of(run)).await?;
    let outcome = Outcome::rows("SELECT", planned.execute()?).with_used(planned.used()).with_origins(planned.origins());
    let is_exact = accuracy_of(run).is_some() && run.engine().read().is_remote();
    Ok(is_exact.then_some(EXACT_ON_MACHINES.to_owned()).into_iter().fold(outcome, Outcome::with_notice))
}
