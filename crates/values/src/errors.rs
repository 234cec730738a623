//! Errors of this database inside DataFusion's and Arrow's errors, there and back.
//!
//! Invariant: an error of ours that travelled through DataFusion arrives as it was.

use alluvia_types::{Error, ErrorKind};
use arrow::error::ArrowError;
use datafusion_common::DataFusionError;
use std::error::Error as StdError;
use std::io;

/// A batch that could not be made of its columns: a defect.
pub fn internal(error: ArrowError) -> Error {
    Error::internal(format!("a batch could not be assembled: {error}"))
}

/// The error for something that is understood and not built.
pub fn not_supported(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::NotSupported, format!("{what} is not supported"))
}

/// `error` in a form that travels through streams of DataFusion.
pub fn wrap(error: Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

/// Our error, if this one carries one, however deep it was wrapped on its way.
pub fn user_error(error: &DataFusionError) -> Option<Error> {
    fn find(error: &(dyn StdError + 'static)) -> Option<Error> {
        if let Some(ours) = error.downcast_ref::<Error>() {
            return Some(ours.clone());
        }
        // A collection has several sources; `source` tells only of the first.
        if let Some(DataFusionError::Collection(all)) = error.downcast_ref::<DataFusionError>() {
            return all.iter().find_map(|error| find(error));
        }
        find(error.source()?)
    }
    find(error)
}

/// The error of a file that a statement spills to: of the system, or that there is no room for it. Any other is a defect.
pub fn spill_error(error: &DataFusionError) -> Error {
    if let Some(ours) = user_error(error) {
        return ours;
    }
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => spill_error(inner),
        DataFusionError::Shared(inner) => spill_error(inner),
        DataFusionError::Collection(errors) => {
            errors.first().map_or_else(|| Error::internal(clean(&error.message())), spill_error)
        }
        DataFusionError::ResourcesExhausted(message) => exhausted(message),
        DataFusionError::IoError(error) => spill_io_error(error),
        other => Error::internal(clean(&other.message())),
    }
}

/// What the system says of such a file.
pub fn spill_io_error(error: &io::Error) -> Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(ours) => ours.clone(),
        None => Error::io("the spill directory", "using", error),
    }
}

/// The error for DataFusion's message that memory, or the room for spilled files, ran out.
pub fn exhausted(message: &str) -> Error {
    let text = clean(message);
    if text.contains("disk space") || text.contains("spill") && text.contains("limit") {
        return Error::new(ErrorKind::OutOfMemory, format!("the query spilled more than is allowed: {text}"))
            .with_hint("give the query more memory with SET memory_limit, or let it read less");
    }
    Error::new(ErrorKind::OutOfMemory, format!("the query needs more memory than it may have: {text}")).with_hint(
        "raise it with SET memory_limit (SHOW queries_memory_max tells the most), or let the query read less",
    )
}

/// Without backtraces, requests to report to others, and our catalog's name.
pub fn clean(message: &str) -> String {
    let message = message.split("\n\nbacktrace:").next().unwrap_or(message);
    let message = message.split("\nThis issue was likely caused by").next().unwrap_or(message);
    message.trim().trim_end_matches('.').replace("alluvia.public.", "")
}
