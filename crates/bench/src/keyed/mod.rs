//! Tables with keys, beside PostgreSQL, DuckDB and a store of keys and values (RocksDB): `upsert` and `point`.
//!
//! All have the same rows ([`rows`]), and take turns. [`peers`] are the others.

pub mod point;
pub mod upsert;

mod peers;
mod rows;
