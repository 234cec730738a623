//! A partial download: how much of a file has come, and what its rest has to be like.
//!
//! Invariants:
//! - What is written is the beginning of one state of the file. More is added only out of an answer with the same strong entity tag
//!   (RFC 9110, section 8.8.3), from the very byte that is missing on; of a host that gives none, nothing is added to what has come.
//! - A length that was once stated for the whole file holds for all answers after it.

use crate::url_text::shown;
use alluvia_types::{Error, ErrorKind, Result};
use hyper::Response;
use hyper::body::Body;
use hyper::header::{CONTENT_RANGE, ETAG, HeaderMap, HeaderValue, IF_RANGE, RANGE};
use hyper::http::request::Builder;
use url::Url;

/// How much of one file has come.
#[derive(Default, Debug)]
pub(crate) struct PartialDownload {
    /// What is written.
    pub(crate) bytes: u64,
    /// The length of the whole file, once its host has said so.
    pub(crate) total: Option<u64>,
    /// By which its host tells one state of the file from another, byte by byte.
    tag: Option<HeaderValue>,
}

impl PartialDownload {
    /// Whether the rest could be known to be of the same file.
    pub(crate) fn can_go_on(&self) -> bool {
        self.bytes == 0 || self.tag.is_some()
    }

    /// Has a request ask for the rest alone; a host that cannot give that gives all.
    pub(crate) fn ask(&self, request: Builder) -> Builder {
        match &self.tag {
            Some(tag) if self.bytes > 0 => {
                request.header(RANGE, format!("bytes={}-", self.bytes)).header(IF_RANGE, tag.clone())
            }
            _ => request,
        }
    }

    /// An answer begins that has the file from its first byte on; gives how many bytes of it have come before.
    pub(crate) fn whole(&mut self, url: &Url, answer: &Response<impl Body>) -> Result<u64> {
        let (tag, stated) = (strong_tag(answer.headers()), answer.body().size_hint().exact());
        if self.bytes == 0 {
            (self.tag, self.total) = (tag, stated);
            return Ok(0);
        }
        if tag.is_none() || tag != self.tag || stated.is_some_and(|stated| self.total.is_some_and(|all| all != stated))
        {
            return Err(self.changed(url));
        }
        self.total = self.total.or(stated);
        Ok(self.bytes)
    }

    /// An answer begins that has the rest of the file, or the next part of it.
    pub(crate) fn part(&mut self, url: &Url, answer: &Response<impl Body>) -> Result<()> {
        let wrong = |what: &str| {
            Err(Error::new(
                ErrorKind::Io,
                format!("{} cannot be read on from byte {}: its host {what}", shown(url), self.bytes),
            ))
        };
        let range = answer.headers().get(CONTENT_RANGE).and_then(|range| range.to_str().ok()).and_then(parsed_range);
        let Some((first, last, total)) = range else {
            return wrong("answers a part, and does not say which, and of how many bytes");
        };
        let stated = answer.body().size_hint().exact();
        if first != self.bytes || stated.is_some_and(|stated| stated != last - first + 1) {
            return wrong("answers another part than it was asked for");
        }
        let tag = strong_tag(answer.headers());
        if tag.is_none() || tag != self.tag || self.total.is_some_and(|all| all != total) {
            return Err(self.changed(url));
        }
        self.total = Some(total);
        Ok(())
    }

    /// The error that the file is not what it was when its beginning came.
    pub(crate) fn changed(&self, url: &Url) -> Error {
        let message = format!("{} has changed since its first {} bytes came", shown(url), self.bytes);
        Error::new(ErrorKind::Io, message).with_hint("nothing was taken of it; run the statement again")
    }
}

/// The tag of an answer, if it tells states of the file apart byte by byte.
fn strong_tag(headers: &HeaderMap) -> Option<HeaderValue> {
    headers.get(ETAG).filter(|tag| tag.as_bytes().starts_with(b"\"")).cloned()
}

/// First and last byte of a part, and the length of the whole, of `bytes 0-9/100`; `None` if they are not all there, or fit not together.
fn parsed_range(text: &str) -> Option<(u64, u64, u64)> {
    let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let (first, last, total) = (number(first)?, number(last)?, number(total)?);
    (first <= last && last < total).then_some((first, last, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_with_all_that_they_have_to_say() {
        assert_eq!(parsed_range("bytes 10-99/100"), Some((10, 99, 100)));
        assert_eq!(parsed_range("bytes 0-0/1"), Some((0, 0, 1)));
        for wrong in
            ["bytes 10-99/*", "bytes */100", "10-99/100", "bytes 10-100/100", "bytes 10-9/100", "bytes -9/100", ""]
        {
            assert_eq!(parsed_range(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn only_a_strong_tag_lets_a_file_go_on() {
        let with = |tag: &str| {
            let headers = HeaderMap::from_iter([(ETAG, HeaderValue::from_str(tag).unwrap())]);
            PartialDownload { bytes: 1, total: None, tag: strong_tag(&headers) }.can_go_on()
        };
        assert!(with("\"a\"") && with("\"\""));
        assert!(!with("W/\"a\"") && !with("a") && !with(""));
        assert!(PartialDownload::default().can_go_on());
    }
}
