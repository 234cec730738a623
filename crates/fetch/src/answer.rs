//! What a host answers: the file, or the way to it.
//!
//! Invariant: a body is taken whole or not at all: of the length that was announced, or up to its last chunk, and never beyond the bound.

use crate::fetcher::{Fetcher, shown};
use alluvia_types::{Error, ErrorKind, Result};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use hyper::header::{CONTENT_ENCODING, LOCATION, TRANSFER_ENCODING};
use hyper::{Response, StatusCode};
use std::io::Write;
use tokio::time::timeout;
use url::Url;

/// Where an answer leads, if it leads elsewhere.
pub(crate) fn redirect(url: &Url, answer: &Response<Incoming>) -> Result<Option<Url>> {
    let leads = matches!(
        answer.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    if !leads {
        return Ok(None);
    }
    let place = answer.headers().get(LOCATION).and_then(|place| place.to_str().ok());
    // Relative to where it stands.
    let next = place.and_then(|place| url.join(place).ok());
    next.map(Some).ok_or_else(|| {
        Error::new(
            ErrorKind::Io,
            format!("{} cannot be read: its host answers that it is elsewhere, and not where", shown(url)),
        )
    })
}

impl Fetcher {
    /// Writes the body of an answer; gives its length.
    pub(crate) async fn take(&self, url: &Url, answer: Response<Incoming>, into: &mut dyn Write) -> Result<u64> {
        let status = answer.status();
        if status != StatusCode::OK {
            return Err(Error::new(ErrorKind::Io, format!("{} cannot be read: its host answers {status}", shown(url))));
        }
        let header =
            |name| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_ascii_lowercase);
        // Packed files are recognised by their first bytes, whatever the host calls it.
        let coding = header(CONTENT_ENCODING).unwrap_or_default();
        if !matches!(coding.as_str(), "" | "identity" | "gzip" | "x-gzip" | "zstd") {
            return Err(Error::new(ErrorKind::NotSupported, format!("{} comes packed as {coding}", shown(url)))
                .with_hint("gzip and zstd are unpacked; have the host send the file as it is"));
        }
        let is_chunked = header(TRANSFER_ENCODING).is_some_and(|coding| coding.ends_with("chunked"));
        let stated = answer.body().size_hint().exact();
        if stated.is_none() && !is_chunked {
            return Err(Error::new(ErrorKind::Io, format!("the host of {} does not say how long it is", shown(url)))
                .with_hint("a file that was cut could not be told from a whole one; the host must send Content-Length, or chunks"));
        }
        let bytes_max = self.rules.bytes_max;
        if stated.is_some_and(|bytes| bytes > bytes_max) {
            return Err(too_large(url, bytes_max));
        }
        let (mut body, mut bytes) = (answer.into_body(), 0_u64);
        loop {
            let frame = timeout(self.rules.waits.silence, body.frame())
                .await
                .map_err(|_| Error::new(ErrorKind::Io, format!("{} stopped coming after {bytes} bytes", shown(url))))?;
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|error| {
                Error::new(ErrorKind::Io, format!("{} was cut after {bytes} bytes: {error}", shown(url)))
            })?;
            let Ok(data) = frame.into_data() else { continue };
            bytes += data.len() as u64;
            if bytes > bytes_max {
                return Err(too_large(url, bytes_max));
            }
            into.write_all(&data).map_err(|error| Error::io("a temporary file", "writing", &error))?;
        }
        match stated {
            Some(stated) if stated != bytes => {
                Err(Error::new(ErrorKind::Io, format!("{} was cut after {bytes} of {stated} bytes", shown(url))))
            }
            _ => Ok(bytes),
        }
    }
}

fn too_large(url: &Url, bytes_max: u64) -> Error {
    Error::new(ErrorKind::TooLarge, format!("{} has more than {bytes_max} bytes", shown(url)))
        .with_hint("the server's setting copy_url_bytes_max bounds what is read of a URL")
}
