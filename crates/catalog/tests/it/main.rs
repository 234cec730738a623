//! The crate's tests from outside, in one binary.

mod common;
mod definitions;
mod dictionary_crash;
mod dictionary_forgetting;
mod dictionary_golden;
mod dictionary_model;
mod rights;
mod schemas;
mod views;
