//! The database as a whole, in one binary: linking DataFusion into each of these modules would double a test run.

mod cancel;
mod check;
mod crash;
mod cuboids;
mod faults;
mod fuzz;
mod index_answers;
mod ingest;
mod kill;
mod slt;
mod sql;
mod stages;
mod support;
mod tour;
