//! Sessions: transactions and statements. [`Session`] is the only entrance to the database.
//!
//! Each folder is a part of a session. From the highest to the lowest; a part uses parts below it and no other:
//!
//! | Part | What it is |
//! |---|---|
//! | `door` | [`Session`]: what clients call |
//! | `prepared` | statements that are prepared, described, refined or verified |
//! | `statement` | from a text to an outcome: parsing, answers known by their texts, which part does what |
//! | `copy` | COPY, and rows that programs hand in |
//! | `define` | tables, roles and cuboids; what shows them; CALL |
//! | `change` | UPDATE, DELETE, TRUNCATE; INSERT with ON CONFLICT or RETURNING |
//! | `insert` | INSERT, and rows on their way into a transaction or a batch |
//! | `constraints` | locks and looks at rows for UNIQUE and foreign keys, and their actions |
//! | `rules` | what a definition does with rows that come: defaults, identity values, conditions |
//! | `select` | queries, from a tree to rows, on one snapshot; EXPLAIN, cursors |
//! | `settings` | SET, SHOW, RESET, DISCARD |
//! | `transaction` | BEGIN, COMMIT, ROLLBACK, savepoints; batches on their way to the store |
//! | `run` | one statement on its way: in turn, supervised, recorded, audited |
//! | `state` | what a session remembers between statements |
//!
//! A part is functions, and types of its own. What runs within a statement takes the statement, [`run::Run`]; what runs
//! without one takes what all statements of a session work with, [`state::scope::Scope`]; what runs a statement takes
//! [`run::runner::Runner`]. None takes a [`Session`].

mod change;
mod constraints;
mod copy;
mod define;
mod door;
mod insert;
mod prepared;
mod rules;
mod run;
mod select;
mod settings;
mod state;
mod statement;
mod transaction;

pub use copy::append::BatchBuilder;
pub use copy::body::{Ingest, Ingested};
pub use copy::stream_in::Appended;
pub use door::Session;
pub use prepared::Prepared;
pub use prepared::bounded::{Answer, BOUND_OF, BOUND_SIDE};
pub use prepared::describe::{Described, DescribedBy};
pub use prepared::refined::{Refinements, Refining};
pub use run::outcome::{Origin, Outcome};
pub use run::refinement::{Bounds, IntervalKind, Refinement};
pub use state::TransactionStatus;
