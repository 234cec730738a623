//! Extensions of Flight SQL: actions, headers and options of our own, for any client that asks for one by name.
//!
//! Invariant: a client that asks for none of it sees what the protocol has, and nothing else.

use crate::failure::malformed;
use alluvia_copy::progress::Phase;
use alluvia_query::Session;
use alluvia_types::{Error, ErrorKind, Result};
use bytes::Bytes;
use serde_json::json;
use tonic::metadata::MetadataMap;

/// How a session stands, and how far its statement is.
pub(crate) const STATE: &str = "alluvia.session";
/// Stops what a session runs.
pub(crate) const CANCEL: &str = "alluvia.cancel";
/// Tells the last batch of a producer.
pub(crate) const PRODUCER: &str = "alluvia.producer";
/// The header of an answer to DoPut that has the version of the batch, and the one that it has if that was there before.
pub(crate) const VERSION: &str = "alluvia-version";
pub(crate) const DUPLICATE: &str = "alluvia-duplicate";
/// Options of an ingest: the number that a producer gives its batch.
pub(crate) const PRODUCER_NAME: &str = "producer";
pub(crate) const PRODUCER_EPOCH: &str = "producer_epoch";
pub(crate) const PRODUCER_SEQUENCE: &str = "producer_sequence";
/// And what its rows do by key.
pub(crate) const ON_CONFLICT: &str = "on_conflict";
pub(crate) const OP: &str = "op";
/// The header of a call of GetFlightInfo that says how estimates and their bounds are wanted, and what it may say.
const BOUNDS: &str = "alluvia-bounds";
const AS_COLUMNS: &str = "columns";
const OF_REFINEMENTS: &str = "refinements";
const WITHOUT_ESTIMATES: &str = "exact";

/// How bounds of estimates are wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bounds {
    /// Not at all.
    None,
    /// As columns after those of the answer.
    Columns,
    /// Likewise, of every refinement on the way to the answer.
    Refinements,
    /// Nothing is estimated, so there are none.
    Exact,
}

/// How bounds of estimates are wanted.
pub(crate) fn wanted_bounds(metadata: &MetadataMap) -> Result<Bounds> {
    match metadata.get(BOUNDS).map(|asked| asked.to_str()) {
        None => Ok(Bounds::None),
        Some(Ok(AS_COLUMNS)) => Ok(Bounds::Columns),
        Some(Ok(OF_REFINEMENTS)) => Ok(Bounds::Refinements),
        Some(Ok(WITHOUT_ESTIMATES)) => Ok(Bounds::Exact),
        Some(_) => Err(Error::new(ErrorKind::NotSupported, format!("the header {BOUNDS} asks for what is not there"))
            .with_hint(format!("it is {AS_COLUMNS}, {OF_REFINEMENTS} or {WITHOUT_ESTIMATES}, or left out"))),
    }
}

/// How a session stands, as JSON.
pub(crate) fn state_of(session: &Session) -> Bytes {
    let report = session.report();
    // Where nothing runs, what the last statement did.
    let last = session.progress();
    let state = json!({
        "transaction": session.transaction_status().name(),
        "phase": report.map_or(Phase::Idle.name(), |report| report.doing()),
        "rows": report.map_or(last.rows(), |report| report.rows),
        "bytes_done": report.map_or(last.bytes_done(), |report| report.bytes),
        "bytes_total": last.bytes_total(),
        "elapsed_seconds": report.map(|report| report.elapsed.as_secs_f64()),
        "rows_per_second": report.map(|report| report.rows_per_second),
        "fraction": report.and_then(|report| report.fraction),
        "seconds_left": report.and_then(|report| report.left).map(|left| left.as_secs_f64()),
        "progressive": session.is_progressive(),
        "time_zone": session.time_zone().name(),
    });
    state.to_string().into()
}

/// The last batch of the producer that a body names, as JSON: nothing of one that has none.
pub(crate) fn producer_of(session: &Session, body: &[u8]) -> Result<Vec<Bytes>> {
    let name = std::str::from_utf8(body).map_err(|_| malformed("the name of a producer is no text"))?;
    let last = session.producer(name);
    let told = last.map(|(mark, version)| {
        json!({ "epoch": mark.epoch, "sequence": mark.sequence, "version": version.0 }).to_string().into()
    });
    Ok(told.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_asked_for_by_name() {
        let asked = |value: &'static str| {
            let mut metadata = MetadataMap::new();
            metadata.insert(BOUNDS, value.parse().unwrap());
            wanted_bounds(&metadata)
        };
        assert_eq!(wanted_bounds(&MetadataMap::new()).unwrap(), Bounds::None);
        assert_eq!(asked("columns").unwrap(), Bounds::Columns);
        assert_eq!(asked("refinements").unwrap(), Bounds::Refinements);
        assert_eq!(asked("exact").unwrap(), Bounds::Exact);
        assert_eq!(asked("rows").unwrap_err().kind(), ErrorKind::NotSupported);
    }
}
