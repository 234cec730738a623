//! Files and URLs as a COPY names them.

use crate::copy::options::{CopyOptions, Format, OnError};
use alluvia_types::{Error, ErrorKind, Result};

/// Whether a path may stand for several files.
pub fn is_pattern(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// Whether a statement names a URL, and not a file.
pub fn is_url(place: &str) -> bool {
    place.split_once("://").is_some_and(|(scheme, _)| {
        scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    })
}

/// A place as messages call it and as its format follows from it: of a URL neither the query nor a user.
pub fn name_of(place: &str) -> String {
    let Some((scheme, rest)) = place.split_once("://").filter(|_| is_url(place)) else { return place.to_owned() };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}://{host}/{path}")
}

/// Whether the format of what a place names has to be seen by the files that it matches.
pub fn is_open(place: &str) -> bool {
    !is_url(place) && is_pattern(place) && Format::from_file_name(place).is_none()
}

/// Refuses what a URL does not go with, whichever it is.
pub fn check_url_options(url: &str, options: &CopyOptions) -> Result<()> {
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
