//! The compiled half of the Python package: databases, sessions and results, without their conveniences, which are Python
//! (`python/alluvia`).
//!
//! Invariants:
//! - The interpreter is detached (the GIL is released) wherever the engine works or waits; while it waits, signals are looked at, so that
//!   Ctrl-C stops a statement.
//! - Nothing of the engine calls into Python: whatever comes from Python objects is read on the thread that called.
//! - A process that was forked off does not use, and does not end, what its parent opened.

mod answer;
mod backend;
mod database;
mod embedded;
mod errors;
mod exclusive;
mod from_python;
mod progress;
mod refinements;
mod remote;
mod row_reader;
mod rows;
mod session;
mod source;
mod to_python;
mod waiting;

use pyo3::prelude::*;

/// Databases, sessions and results of `alluvia`; use it through that package.
#[pymodule]
fn _alluvia(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<database::Database>()?;
    module.add_class::<session::Session>()?;
    module.add_class::<rows::Rows>()?;
    module.add_class::<refinements::Refinements>()?;
    Ok(())
}
