//! Answers of hosts: the file, the rest of it, or a redirect.
//!
//! Invariant: a body is whole or said to be cut: it has the length that was announced, or came up to its last chunk. It is never taken
//! beyond the bound.

use crate::fetcher::Fetcher;
use crate::partial_download::PartialDownload;
use crate::url_text::shown;
use alluvia_types::{Error, ErrorKind, Result};
use bytes::Buf;
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

/// What became of an answer's body.
pub(crate) enum Taken {
    /// The file is whole with it.
    Whole,
    /// It ended too early; the error says how.
    Cut(Error),
}

impl Fetcher {
    /// Writes what an answer has of a file, as far as it has not come yet.
    pub(crate) async fn take(
        &self,
        url: &Url,
        answer: Response<Incoming>,
        partial: &mut PartialDownload,
        into: &mut dyn Write,
    ) -> Result<Taken> {
        let status = answer.status();
        let mut passed = match status {
            StatusCode::OK => partial.whole(url, &answer)?,
            StatusCode::PARTIAL_CONTENT if partial.bytes > 0 => partial.part(url, &answer).map(|()| 0)?,
            StatusCode::RANGE_NOT_SATISFIABLE if partial.bytes > 0 => return Err(partial.changed(url)),
            status if passes(status) => return Ok(Taken::Cut(refused(url, status))),
            _ => return Err(refused(url, status)),
        };
        let header =
            |name| answer.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_ascii_lowercase);
        // Packed files are recognised by their first bytes, whatever the host calls it.
        let coding = header(CONTENT_ENCODING).unwrap_or_default();
        if !matches!(coding.as_str(), "" | "identity" | "gzip" | "x-gzip" | "zstd") {
            return Err(Error::new(ErrorKind::NotSupported, format!("{} comes packed as {coding}", shown(url)))
                .with_hint("gzip and zstd are unpacked; have the host send the file as it is"));
        }
        let is_chunked = header(TRANSFER_ENCODING).is_some_and(|coding| coding.ends_with("chunked"));
        if answer.body().size_hint().exact().is_none() && !is_chunked {
            return Err(Error::new(ErrorKind::Io, format!("the host of {} does not say how long it is", shown(url)))
                .with_hint("a file that was cut could not be told from a whole one; the host must send Content-Length, or chunks"));
        }
        let bytes_max = self.rules.bytes_max;
        if partial.total.is_some_and(|bytes| bytes > bytes_max) {
            return Err(too_large(url, bytes_max));
        }
        let mut body = answer.into_body();
        let cut = |what: String| Ok(Taken::Cut(Error::new(ErrorKind::Io, format!("{} {what}", shown(url)))));
        loop {
            let Ok(frame) = timeout(self.rules.waits.silence, body.frame()).await else {
                return cut(format!("stopped coming after {} bytes", partial.bytes));
            };
            let frame = match frame {
                None => break,
                Some(Err(error)) => return cut(format!("was cut after {} bytes: {error}", partial.bytes)),
                Some(Ok(frame)) => frame,
            };
            let Ok(mut data) = frame.into_data() else { continue };
            let known = passed.min(data.len() as u64);
            passed -= known;
            data.advance(known as usize);
            partial.bytes += data.len() as u64;
            if partial.bytes > bytes_max {
                return Err(too_large(url, bytes_max));
            }
            into.write_all(&data).map_err(|error| Error::io("a temporary file", "writing", &error))?;
        }
        match partial.total {
            Some(total) if partial.bytes < total => cut(format!("was cut after {} of {total} bytes", partial.bytes)),
            Some(total) if partial.bytes > total => Err(partial.changed(url)),
            // All of it is less than what came before.
            _ if passed > 0 => Err(partial.changed(url)),
            _ => Ok(Taken::Whole),
        }
    }
}

/// The error of a host that does not give the file.
pub(crate) fn refused(url: &Url, status: StatusCode) -> Error {
    Error::new(ErrorKind::Io, format!("{} cannot be read: its host answers {status}", shown(url)))
}

/// Whether a host that answers so may answer otherwise in a while.
fn passes(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::REQUEST_TIMEOUT
            | StatusCode::TOO_MANY_REQUESTS
            | StatusCode::INTERNAL_SERVER_ERROR
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT
    )
}

fn too_large(url: &Url, bytes_max: u64) -> Error {
    Error::new(ErrorKind::TooLarge, format!("{} has more than {bytes_max} bytes", shown(url)))
        .with_hint("the server's setting copy_url_bytes_max bounds what is read of a URL")
}
