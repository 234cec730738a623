//! Mends of DataFusion's analyzer, optimizer and operators. Knows nothing of tables, segments or sessions.
//!
//! A folder a phase, in the order in which a statement passes them; [`rules`] puts them in their places:
//! [`before_types`], [`after_types`], [`optimizer`], [`physical`]. Beside them: [`planners`] of expressions, [`table_functions`],
//! [`described_types`] (what Describe tells before a statement runs), [`read_columns`] (what a view depends on), [`pipelines`] (how
//! far a plan is), [`explain`] (a plan that has run, for people), [`plan_check`] (what tests ask of plans), and what rules share
//! ([`expressions`], [`constants`], `wrapped_operator`). Which rule mends what upstream is in `upstream`, whose tests find the mends
//! that can go.
//!
//! Invariants:
//! - What a statement says does not depend on what its expressions are simplified to.
//! - Arithmetic of integers is exact, or the statement fails with SQLSTATE 22003; so are sums, whatever order and threads they were added in.
//! - A condition, a cast or a set operation means what PostgreSQL means by it, or is refused by name.
//! - Columns are called what they would be called without these rules.

pub mod after_types;
pub mod batch_rows;
pub mod before_types;
pub mod constants;
pub mod described_types;
pub mod explain;
pub mod expressions;
#[cfg(test)]
mod function_tests;
pub mod optimizer;
pub mod physical;
pub mod pipelines;
pub mod plan_check;
pub mod planners;
pub mod read_columns;
pub mod rules;
pub mod shared_rows;
pub mod table_functions;
#[cfg(test)]
mod testing;
pub mod threads;
#[cfg(test)]
mod upstream;
mod wrapped_operator;
