//! What a statement may name outside of the database: files of the machine, and URLs.
//!
//! Invariants:
//! - Whose session it is decides: the process's own may what the process may, a client's of a server only what the server was told.
//! - A URL is fetched as a whole into the directory where statements spill, whose bound holds for it as well, and then is a file as any
//!   other: a body that is cut applies nothing.
//! - Messages name a URL without its query, which may be a secret.

use crate::body::Bound;
use crate::progress::CancelToken;
use crate::roots::Roots;
use crate::spool::{Spool, Spooled};
use alluvia_syntax::copy::places::name_of;
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
    /// The directories that files may be in.
    pub roots: Roots,
    /// Gets URLs.
    pub fetch: Option<Arc<dyn Fetch>>,
    /// Where what they name is kept while it is read.
    pub spool: Spool,
    /// The most that a file or a URL may unpack to; `None` for no bound.
    pub unpacked_bytes_max: Option<u64>,
}

impl CopyPlaces {
    /// Files wherever the process may, and whatever URL is got.
    pub fn anywhere(fetch: Option<Arc<dyn Fetch>>, spool: Spool) -> CopyPlaces {
        CopyPlaces { roots: Roots::Anywhere, fetch, spool, unpacked_bytes_max: None }
    }

    /// Files wherever the process may, and no URL: for whoever has the files and not the table.
    pub fn files_of_process() -> Result<CopyPlaces> {
        Ok(CopyPlaces::anywhere(None, Spool::nowhere()?))
    }

    /// What the server was told.
    pub fn served(served: &ServedPlaces, spool: Spool) -> CopyPlaces {
        let ServedPlaces { roots, fetch, unpacked_bytes_max } = served.clone();
        CopyPlaces { roots: Roots::Below(roots), fetch, spool, unpacked_bytes_max }
    }

    /// Refuses a URL that may not be read, as far as it tells by itself.
    pub(crate) fn check_url(&self, url: &str) -> Result<()> {
        self.fetcher(url)?.check(url)
    }

    /// What a URL names, as a file that goes with what is returned.
    pub fn fetch(&self, url: &str, cancel: &CancelToken) -> Result<Spooled> {
        let fetcher = self.fetcher(url)?;
        self.spool.filled(&name_of(url), |out| fetcher.fetch(url, out, &|| cancel.is_cancelled()))
    }

    /// What a file or a URL may unpack to, as messages call it.
    pub fn bound(&self, name: &str) -> Bound {
        self.unpacked_bytes_max.map_or(Bound::None, |bytes_max| Bound::File(name.to_owned(), bytes_max))
    }

    fn fetcher(&self, url: &str) -> Result<&Arc<dyn Fetch>> {
        self.fetch.as_ref().ok_or_else(|| {
            Error::new(ErrorKind::Forbidden, format!("permission denied to read {}: no URL may be read", name_of(url)))
                .with_hint("the server's setting copy_hosts names the hosts that URLs may name")
        })
    }
}
