//! The whole engine in one thread: log, commit, pipeline, snapshots and the index, under a scheduler, a clock and a disk
//! that follow from a seed, against a model.
//!
//! | Module | What it is |
//! |---|---|
//! | `history` | the seeds, and that a seed has one trace |
//! | `steps` | what happens: batches, loads, retries, stages, questions, faults, new starts |
//! | `world` | the database beside its model |
//! | `batches` | what became of each batch |
//! | `starts` | what a new start must find |
//! | `queries` | rows and boxes at some freshness, as the model has them at the version that the answer says |
//! | `estimates` | estimates: what is said to be certain is, and intervals hold as often as they say |
//! | `cuboids` | cuboids that follow the log |
//! | `ledger` | which batches were sent under which numbers, and when versions became visible |
//! | `disk` | a disk that fails once and for ever, is slow, and lets somebody come between |
//! | `trace` | what happened, line by line |
//! | `tables` | the tables |
//!
//! `make sim SEED=...` replays a seed with its trace; `ALLUVIA_TEST_SEEDS` and `ALLUVIA_TEST_SECONDS` run more.

mod batches;
mod cuboids;
mod disk;
mod estimates;
mod history;
mod ledger;
mod planted;
mod queries;
mod starts;
mod steps;
mod tables;
mod trace;
mod world;
