//! Seeded simulation of the engine: everything below SQL, on a disk that fails and a clock that stands still.
//!
//! It is for tests alone: no program depends on it. It needs no planner, so it is built, and an edit in the engine is
//! tested, in seconds.
//!
//! Invariants:
//! - [`Engine`] is composed as `node::Core` is, of the same rooms in the same order: what holds here holds there.
//! - A run follows from its seed, but for the order in which real threads run. A failure names its seed, and
//!   `ALLUVIA_TEST_SEED` replays it.
//! - Nothing here believes the engine where the tests hold it against a model: rows are read as they lie, and whether
//!   one counts is decided row by row ([`rows`]).

mod engine;
mod gate;
mod random;
pub mod rows;

pub use engine::{DIR, Engine, EngineOptions};
pub use gate::{Gate, Stop};
pub use random::{Random, Seeds, variable};
