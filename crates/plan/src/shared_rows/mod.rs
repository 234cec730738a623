//! Rows that several parts of a plan read, and that are computed once: those of a query in WITH that would give others each time.
//!
//! Invariants:
//! - All readers in a plan have the same rows, whichever of them comes first. Another plan of the same statement computes them anew.
//! - The rows count as memory of the statement as long as the plan lives; what does not fit fails.
//! - No condition of a reader is put below, and no column left out: each reader's part of the plan is the same.
//!
//! DataFusion puts such a query into the plan wherever it is named, and runs it there each time.
//!
//! Mends apache/datafusion#10337 (in 55.2).
//! Held by `slt/standard_forms.slt`.

mod exec;
mod node;

pub use exec::{Shared, SharedRowsExec};
pub use node::SharedRows;
