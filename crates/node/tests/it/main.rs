//! The database as a whole, in one binary: linking DataFusion into each of these modules would double a test run.

mod append_stream;
mod cancel;
mod check;
mod crash;
mod cuboids;
mod estimates;
mod faults;
mod freshness;
mod fuzz;
mod held_merge;
mod index_answers;
mod kill;
mod near_misses;
mod nested;
mod predicates;
mod progressive;
mod rights;
mod samples;
mod schemas;
mod slt;
mod sql;
mod stages;
mod stars;
mod statements;
mod support;
mod tour;
