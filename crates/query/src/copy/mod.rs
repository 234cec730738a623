//! Data in and out: COPY, load, result formats.

mod assign;
mod columns;
mod options;
mod statement;
mod text;
mod values;
