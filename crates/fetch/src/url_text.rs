//! Texts of URLs: read from statements, and shown in messages.
//!
//! Invariant: messages name a URL without its query, which may be a secret.

use alluvia_types::{Error, ErrorKind, Result};
use url::{Position, Url};

/// Reads the URL of a statement; refuses one that is never fetched.
pub(crate) fn parsed(text: &str) -> Result<Url> {
    let url = Url::parse(text.trim()).map_err(|error| {
        // The text itself may hold a secret.
        Error::new(ErrorKind::InvalidValue, format!("this is no URL: {error}")).with_hint("write https://host/path")
    })?;
    check_form(&url)?;
    Ok(url)
}

/// Refuses a URL of a scheme that is not fetched, or with a password in it.
pub(crate) fn check_form(url: &Url) -> Result<()> {
    if !matches!(url.scheme(), "http" | "https") {
        let message = format!("URLs of {} are not supported", url.scheme());
        return Err(Error::new(ErrorKind::NotSupported, message).with_hint("https and http are"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::new(ErrorKind::NotSupported, format!("{} has a user or a password in it", shown(url)))
            .with_hint("statements are logged: use a URL that needs none, or one that was signed for a while"));
    }
    Ok(())
}

/// The text by which messages name a URL.
pub(crate) fn shown(url: &Url) -> String {
    format!("{}://{}", url.scheme(), &url[Position::BeforeHost..Position::AfterPath])
}
