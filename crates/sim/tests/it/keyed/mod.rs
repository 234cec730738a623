//! Tables with keys: inserts, upserts and deletes through every stage, against a model that is obviously right.
//!
//! | Module | What it tests |
//! |---|---|
//! | `history` | random histories, at every version that may be asked for |
//! | `handover` | few rows, and every order of changes with sorts and merges |
//! | `bounded` | keys that have no more room in memory |
//! | `closed` | a table whose file is gone, and the other one |
//! | `crash` | power loss at every I/O call, and again during recovery |
//! | `dropped` | a table that is dropped while a stage is at work |
//! | `endless` | a merge that others bring rows to without end |
//! | `forgotten` | what else goes on while a segment is lost, mended or forgotten |
//! | `full` | a disk without room at every byte: what is taken back is taken out of the key index, too |
//! | `held` | a table whose file is gone, and what the log has of it |
//! | `idempotency` | batches with idempotency keys that are sent again after a power loss at every I/O call |
//! | `locked` | rows that sessions have locked, and batches that heed it |
//! | `lookups` | rows by their keys, wherever snapshots of the others are compared |
//! | `mended` | files that are damaged and made anew, and segments that are lost and forgotten |
//! | `purge` | what is deleted and purged is in no file, wherever the power goes meanwhile |
//! | `writers` | real threads: the last version of a key wins, and nothing is lost |
//! | `planted` | that these tests find what they are to find |
//!
//! `ALLUVIA_TEST_SEED` replays a history; `ALLUVIA_TEST_SECONDS` makes each test of histories go on for so long.

mod bounded;
pub(crate) mod boxes;
mod closed;
mod crash;
mod dropped;
mod endless;
mod followers;
mod forgotten;
mod full;
mod generate;
mod handover;
mod heaps;
mod held;
mod history;
mod idempotency;
mod locked;
mod lookups;
mod mended;
pub(crate) mod model;
mod planted;
mod purge;
pub(crate) mod tables;
pub(crate) mod world;
mod writers;
