//! Rows of temporary tables: in memory as far as they may be there, else in files among what statements spill.
//!
//! Invariants:
//! - Rows are only ever added, and found dead: whoever reads has the rows and the dead ones of the moment in which it began
//!   ([`TemporaryRead`]), whatever comes later.
//! - Whatever changes rows gives what takes it back ([`Undo`]): taken back from the last change to the first, the rows are
//!   what they were, in their order.
//! - A row's place stands for it as long as nothing is folded ([`TemporaryRows::fold`]), which is done only where nothing
//!   can be taken back any more.
//! - What lies in memory is counted from when it is made until nobody has it any more ([`TemporaryMemory`]); a file goes with
//!   the last who reads it.
//! - Rows lie as they came. A column that was added later is in none of them, and one that was dropped is not asked for: names
//!   of storage say which is which.

mod chunk;
mod file;
mod memory;
mod read;
mod rows;
mod spill;
#[cfg(test)]
mod tests;

pub use chunk::{Place, TEMPORARY_VERSION};
pub use memory::{MemoryBound, TemporaryMemory};
pub use read::{Batches, Part, TemporaryRead};
pub use rows::{TemporaryRows, Undo};
pub use spill::{Coming, Spilled, Spilling, pieces};
