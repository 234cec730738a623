//! Sessions: transactions and statements.
//!
//! Each folder is one part of a session. From the highest to the lowest; a part uses parts below it and no other:
//!
//! | Part | What it is |
//! |---|---|
//! | `door` | [`Session`]: what clients call |
//! | `prepared` | statements that are parsed once and run many times |
//! | `copy` | COPY, and rows that programs hand in |
//! | `define` | tables, roles, cuboids |
//! | `insert` | INSERT |
//! | `select` | queries, from a tree to rows |
//! | `settings` | SET, SHOW, RESET |
//! | `transaction` | BEGIN, COMMIT, savepoints; batches on their way to the store |
//! | `run` | one statement on its way: supervised, recorded, audited |
//! | `state` | what a session remembers between statements |

mod copy;
mod define;
mod door;
mod insert;
mod prepared;
mod run;
mod select;
mod settings;
mod state;
mod transaction;

pub use copy::append::BatchBuilder;
pub use copy::body::{Ingest, Ingested};
pub use copy::stream_in::Appended;
pub use door::{Session, TransactionStatus};
pub use prepared::Prepared;
pub use prepared::bounded::{Answer, BOUND_OF, BOUND_SIDE};
pub use prepared::describe::Described;
pub use run::outcome::Outcome;
pub use run::report::Report;
pub use select::refine::{Bounds, IntervalKind, Refinement, Refinements, Refining};
