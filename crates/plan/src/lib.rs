//! Mends of DataFusion's analyzer, optimizer and operators. Knows nothing of tables, segments or sessions.
//!
//! A folder a phase, in the order in which a statement passes them; [`rules`] puts them in their places:
//! [`before_types`], [`after_types`], [`optimizer`], [`physical`].

pub mod after_types;
pub mod before_types;
pub mod described_types;
pub mod expressions;
#[cfg(test)]
mod function_tests;
pub mod optimizer;
pub mod physical;
pub mod pipelines;
pub mod planners;
pub mod rules;
pub mod table_functions;
#[cfg(test)]
pub mod testing;
mod wrapped_operator;
