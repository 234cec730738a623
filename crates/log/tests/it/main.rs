//! The crate's tests from outside, in one binary.

mod closing;
mod common;
mod concurrency;
mod crash;
mod damage;
mod faults;
mod golden;
mod histories;
mod marks;
mod room;
