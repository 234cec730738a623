//! Several machines: a keeper, workers and gateways in one thread, on a network and disks that fail, against a model.
//!
//! | Module | What it is |
//! |---|---|
//! | `net` | the queue of events: packets that come late, twice or never, ticks, faults |
//! | `machines` | what runs on a machine, and what is left of it after a crash |
//! | `gateway` | a gateway: batches and reads of its clients, under way |
//! | `worker` | a worker: bodies, following, answers of a version |
//! | `clients` | what clients send, again and again until it is acknowledged, and what they read |
//! | `model` | what was decided, and which rows there are at each version; meant to be obviously right |
//! | `world` | all of that, and the faults |
//! | `history` | random histories |
//! | `looked` | batches that are refused because others have written since they looked |
//! | `planted` | that these tests find what they are to find |
//!
//! `ALLUVIA_TEST_SEED` replays a history; `ALLUVIA_TEST_SECONDS` makes the test go on for so long.

mod clients;
mod gateway;
mod history;
mod looked;
mod machines;
mod model;
mod net;
mod planted;
mod worker;
mod world;
