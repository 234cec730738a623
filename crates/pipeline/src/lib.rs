//! The pipeline: sorts the tail into segments and merges them.
//!
//! Invariants:
//! - P1: only this room writes the manifest, under one lock, after everything it names is synced.
//! - P2: whatever the batching, sorting and merging, the multiset of rows is unchanged.
//! - P3: a file is deleted only after a manifest that does not name it is durable, and no reader holds it.
//! - P4: an aborted run leaves the database as it was; its files are removed, at the latest at the next open.
//!
//! Everything here is synchronous and owns no threads: work that can run in parallel goes to the [`Workers`] that
//! `node` hands in, and a simulation hands in [`Inline`].

mod ages;
mod chunk;
mod editor;
mod handover;
mod held;
mod load;
mod mend;
mod merge;
mod open;
mod options;
mod pipeline;
mod policy;
mod purge;
mod sort;
mod wide;
mod workers;

pub use ages::Ages;
pub use load::{Loader, discard};
pub use mend::{Lost, space_of};
pub use merge::Rewritten;
pub use open::{Opened, named_kills, named_segments, open, remove_orphans};
pub use options::PipelineOptions;
pub use pipeline::Pipeline;
pub use workers::{Inline, Job, Workers};
