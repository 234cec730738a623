//! The database as a whole, in one binary: linking DataFusion into each of these modules would double a test run.

mod append_stream;
mod cancel;
mod check;
mod crash;
mod cuboids;
mod estimates;
mod faults;
mod fuzz;
mod index_answers;
mod kill;
mod nested;
mod places;
mod predicates;
mod progressive;
mod rights;
mod samples;
mod slt;
mod sql;
mod stages;
mod stars;
mod support;
mod tour;
