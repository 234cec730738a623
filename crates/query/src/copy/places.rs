//! What a statement may name outside of the database: files of the machine, and URLs.
//!
//! Invariants:
//! - Whose session it is decides: the process's own may what the process may, a client's of a server only what the server was told.
//! - A URL is fetched as a whole into the directory where statements spill, whose bound holds for it as well, and then is a file as any
//!   other: a body that is cut applies nothing.
//! - Messages name a URL without its query, which may be a secret.

use crate::copy::body::Bound;
use crate::copy::files::is_pattern;
use crate::copy::options::{CopyOptions, Format, OnError};
use crate::copy::roots::Roots;
use crate::copy::spool::{Spool, Spooled};
use crate::session::progress::CancelToken;
use alluvia_types::{Error, ErrorKind, Result};
use std::fmt;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

/// Gets what URLs name. It knows which may be asked.
pub trait Fetch: Send + Sync + fmt::Debug {
    /// Refuses a URL that may not be read, as far as it tells by itself.
    fn check(&self, url: &str) -> Result<()>;

    /// Writes what a URL names, and gives its length. Blocks, and ends soon after `stopped` says so. What it has written counts only if
    /// it succeeds.
    fn fetch(&self, url: &str, into: &mut dyn Write, stopped: &dyn Fn() -> bool) -> Result<u64>;
}

/// What COPY may name for the clients of servers. By default nothing.
#[derive(Clone, Debug, Default)]
pub struct ServedPlaces {
    /// The directories that files may be in.
    pub roots: Vec<PathBuf>,
    /// Gets URLs; `None` for none.
    pub fetch: Option<Arc<dyn Fetch>>,
    /// The most that a file or a URL may unpack to.
    pub unpacked_bytes_max: Option<u64>,
}

/// What one COPY may name.
#[derive(Clone, Debug)]
pub struct CopyPlaces {
    pub(crate) roots: Roots,
    /// Gets URLs.
    pub(crate) fetch: Option<Arc<dyn Fetch>>,
    /// Where what they name is kept while it is read.
    pub(crate) spool: Spool,
    /// The most that a file or a URL may unpack to; `None` for no bound.
    pub(crate) unpacked_bytes_max: Option<u64>,
}

impl CopyPlaces {
    /// Files wherever the process may, and whatever URL is got.
    pub(crate) fn anywhere(fetch: Option<Arc<dyn Fetch>>, spool: Spool) -> CopyPlaces {
        CopyPlaces { roots: Roots::Anywhere, fetch, spool, unpacked_bytes_max: None }
    }

    /// Files wherever the process may, and no URL: for whoever has the files and not the table.
    pub fn files_of_process() -> Result<CopyPlaces> {
        Ok(CopyPlaces::anywhere(None, Spool::nowhere()?))
    }

    /// What the server was told.
    pub(crate) fn served(served: &ServedPlaces, spool: Spool) -> CopyPlaces {
        let ServedPlaces { roots, fetch, unpacked_bytes_max } = served.clone();
        CopyPlaces { roots: Roots::Below(roots), fetch, spool, unpacked_bytes_max }
    }

    /// Refuses a URL that may not be read, as far as it tells by itself.
    pub(crate) fn check_url(&self, url: &str) -> Result<()> {
        self.fetcher(url)?.check(url)
    }

    /// What a URL names, as a file that goes with what is returned.
    pub(crate) fn fetch(&self, url: &str, cancel: &CancelToken) -> Result<Spooled> {
        let fetcher = self.fetcher(url)?;
        self.spool.filled(&name_of(url), |out| fetcher.fetch(url, out, &|| cancel.is_cancelled()))
    }

    /// What a file or a URL may unpack to, as messages call it.
    pub(crate) fn bound(&self, name: &str) -> Bound {
        self.unpacked_bytes_max.map_or(Bound::None, |bytes_max| Bound::File(name.to_owned(), bytes_max))
    }

    fn fetcher(&self, url: &str) -> Result<&Arc<dyn Fetch>> {
        self.fetch.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::Forbidden, format!("permission denied to read {}: no URL may be read", name_of(url)))
                .with_hint("the server's setting copy_hosts names the hosts that URLs may name")
        })
    }
}

/// Whether a statement names a URL, and not a file.
pub(crate) fn is_url(place: &str) -> bool {
    place.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    })
}

/// A place as messages call it and as its format follows from it: of a URL neither the query nor a user.
pub(crate) fn name_of(place: &str) -> String {
    let Some((scheme, rest)) = place.split_once("://").filter(|_| is_url(place)) else { return place.to_owned() };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}/{path}")
}

/// Whether the format of what a place names has to be seen by the files that it matches.
pub(crate) fn is_open(place: &str) -> bool {
    !is_url(place) && is_pattern(place) && Format::from_file_name(place).is_none()
}

/// Refuses what a URL does not go with, whichever it is.
pub(crate) fn check_url_options(url: &str, options: &CopyOptions) -> Result<()> {
    let scheme = url.split("://").next().unwrap_or_default().to_ascii_lowercase();
    if !matches!(scheme.as_str(), "http" | "https") {
        return Err(Error::new(ErrorKind::NotSupported, format!("URLs of {scheme} are not supported"))
            .with_hint("https and http are; a file is named by its path"));
    }
    if options.batch_rows.is_some() {
        return Err(Error::new(ErrorKind::NotSupported, "COPY option BATCH_ROWS is not supported from a URL").with_hint(
            "only files can be read again to go on where a load stopped: save what is there to a file, or leave the option out",
        ));
    }
    if options.on_error == OnError::Skip && options.rejects.is_none() {
        return Err(Error::new(ErrorKind::InvalidSetting, "ON_ERROR skip from a URL needs a file for bad rows")
            .with_hint("add REJECTS 'file'"));
    }
    Ok(())
}

/// Refuses to write to a URL.
pub(crate) fn refuse_url(what: &str, place: &str) -> Result<()> {
    if !is_url(place) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::NotSupported, format!("{what} a URL is not supported: {}", name_of(place)))
        .with_hint("write to a file"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_named_without_its_secrets() {
        for (url, want) in [
            ("https://data.example.org/a/b.csv.gz?signature=x#y", "https://data.example.org/a/b.csv.gz"),
            ("http://me:pw@example.org:8080/b.parquet", "http://example.org:8080/b.parquet"),
            ("https://example.csv", "https://example.csv/"),
            ("https://example.org?x=/a.csv", "https://example.org/"),
            ("/data/in/a?b.csv", "/data/in/a?b.csv"),
        ] {
            assert_eq!(name_of(url), want);
        }
        assert_eq!(Format::from_file_name(&name_of("https://example.csv")), None);
        assert_eq!(Format::from_file_name(&name_of("https://h/x.ndjson.zst?a=.csv")), Some(Format::JsonLines));
    }

    #[test]
    fn urls_are_told_from_files() {
        for url in ["http://h/a.csv", "HTTPS://h/a.csv", "s3://bucket/a.csv", "file:///etc/passwd"] {
            assert!(is_url(url) && !is_open(url), "{url}");
        }
        for file in ["/a/b.csv", "a.csv", "c:\\a.csv", "://x", "a b://c", "1a://b"] {
            assert!(!is_url(file), "{file}");
        }
        assert!(check_url_options("s3://bucket/a.csv", &CopyOptions::default()).is_err());
        check_url_options("HTTPS://h/a.csv", &CopyOptions::default()).unwrap();
    }
}
