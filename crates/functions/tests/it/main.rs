//! What the table's functions promise of their work; a binary of its own, since it counts every allocation.

mod allocations;
mod groups;
