//! Errors as Python's: the classes are DB-API's, in `alluvia._errors`, chosen there by SQLSTATE.

use alluvia_types::{Error, ErrorKind};
use pyo3::prelude::*;

/// The exception of an error, with its `sqlstate` and `hint`.
pub(crate) fn to_py(py: Python<'_>, error: &Error) -> PyErr {
    let made = py
        .import("alluvia._errors")
        .and_then(|module| module.getattr("error_of"))
        .and_then(|make| make.call1((error.sqlstate(), error.message(), error.hint())));
    match made {
        Ok(exception) => PyErr::from_value(exception),
        Err(failed) => failed,
    }
}

/// `error` as an exception, where one is wanted at once.
pub(crate) trait OrRaise<T> {
    /// The value, or the exception.
    fn or_raise(self, py: Python<'_>) -> PyResult<T>;
}

impl<T> OrRaise<T> for Result<T, Error> {
    fn or_raise(self, py: Python<'_>) -> PyResult<T> {
        self.map_err(|error| to_py(py, &error))
    }
}

/// The error of a use that the interface does not allow.
pub(crate) fn misuse(message: impl Into<String>) -> Error {
    // DB-API's InterfaceError, in `alluvia._errors`.
    Error::new(ErrorKind::Protocol, message)
}
