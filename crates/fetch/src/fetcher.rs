//! Getting what a URL names, by rules.
//!
//! Invariant: messages name a URL without its query, which may be a secret.

use crate::answer::{Taken, redirect, refused};
use crate::certificates::SYSTEM_CERTIFICATES;
use crate::hosts::{Allowed, Hosts};
use crate::proxy::Proxy;
use crate::so_far::SoFar;
use alluvia_types::{Error, ErrorKind, Result};
use hyper::body::Incoming;
use hyper::{Response, StatusCode};
use std::fmt;
use std::io::{self, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use url::{Position, Url};

/// Answers in a row that lead elsewhere.
const REDIRECTS_MAX: usize = 5;
/// How soon it is noticed that a fetch is to stop.
const NOTICED_WITHIN: Duration = Duration::from_millis(50);

/// The addresses of a name, with a port. Blocks.
pub type Resolve = Arc<dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// What may be fetched.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The only hosts that may be asked; `None` for all, at all addresses.
    pub hosts: Option<Hosts>,
    /// Whether hosts that are allowed by their name may be at addresses that are not public.
    pub private_addresses: bool,
    /// The longest body.
    pub bytes_max: u64,
    /// File of the authorities that https believes, in PEM.
    pub certificates: PathBuf,
    /// How long what is waited for.
    pub waits: Waits,
    /// How often a file that was cut is gone on with.
    pub again: Again,
    /// Through whom hosts are asked; `None` asks them directly.
    pub proxy: Option<Proxy>,
}

impl Rules {
    /// Everything, at whatever length.
    pub fn free() -> Rules {
        Rules {
            hosts: None,
            private_addresses: true,
            bytes_max: u64::MAX,
            certificates: PathBuf::from(SYSTEM_CERTIFICATES),
            waits: Waits::default(),
            again: Again::default(),
            proxy: None,
        }
    }

    /// These hosts, at public addresses.
    pub fn only(hosts: Hosts, bytes_max: u64) -> Rules {
        Rules { hosts: Some(hosts), private_addresses: false, bytes_max, ..Rules::free() }
    }
}

/// How long what is waited for.
#[derive(Clone, Copy, Debug)]
pub struct Waits {
    /// The address of a name, a connection, the hand-shake of TLS; each.
    pub connect: Duration,
    /// The head of an answer.
    pub head: Duration,
    /// The next bytes of a body.
    pub silence: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        Waits { connect: Duration::from_secs(10), head: Duration::from_secs(60), silence: Duration::from_secs(60) }
    }
}

/// How often a file that was cut is gone on with, of one fetch in all.
#[derive(Clone, Copy, Debug)]
pub struct Again {
    /// Tries after the first.
    pub times: u32,
    /// The wait before the first of them; it doubles with each.
    pub first_wait: Duration,
    /// And never is longer.
    pub longest_wait: Duration,
}

impl Default for Again {
    /// Half a minute of waiting in all.
    fn default() -> Self {
        Again { times: 8, first_wait: Duration::from_millis(250), longest_wait: Duration::from_secs(8) }
    }
}

/// Gets what URLs name.
#[derive(Clone)]
pub struct Fetcher {
    pub(crate) rules: Rules,
    pub(crate) resolve: Resolve,
}

impl fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetcher").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl Fetcher {
    /// By rules, with names as the system knows them.
    pub fn new(rules: Rules) -> Fetcher {
        Fetcher::with_resolver(rules, Arc::new(|name, port| Ok((name, port).to_socket_addrs()?.collect())))
    }

    /// By rules, with names as somebody else knows them.
    pub fn with_resolver(rules: Rules, resolve: Resolve) -> Fetcher {
        Fetcher { rules, resolve }
    }

    /// Refuses a URL that may not be fetched, as far as it tells by itself: where its host is, and where that leads, is seen when it is
    /// fetched.
    pub fn check(&self, url: &str) -> Result<()> {
        let url = parsed(url)?;
        self.allowed(&url).map(|_| ())
    }

    /// Writes what a URL names; gives its length. Blocks, on a thread that no runtime drives; ends soon after `stopped` says so.
    pub fn get(&self, url: &str, into: &mut dyn Write, stopped: &dyn Fn() -> bool) -> Result<u64> {
        let url = parsed(url)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Error::new(ErrorKind::Io, format!("the machine refuses sockets: {error}")))?;
        let done = runtime.block_on(async {
            tokio::select! {
                biased;
                done = self.whole(&url, into) => done,
                () = noticed(stopped) => Err(Error::new(ErrorKind::Cancelled, "reading a URL was stopped")),
            }
        });
        // The system's look-up of a name cannot be stopped: it ends by itself, and nobody waits for it.
        runtime.shutdown_background();
        done
    }

    /// All of a file, in as many answers as it takes. What never began is not tried again: who wants that repeats the statement.
    async fn whole(&self, url: &Url, into: &mut dyn Write) -> Result<u64> {
        let mut so_far = SoFar::default();
        let Again { times, first_wait: mut wait, longest_wait } = self.rules.again;
        let (mut at, answer) = self.follow(url.clone(), &so_far).await?;
        if answer.status() != StatusCode::OK {
            return Err(refused(&at, answer.status()));
        }
        let mut taken = self.take(&at, answer, &mut so_far, into).await?;
        let mut tries = 0;
        while let Taken::Cut(error) = taken {
            if tries == times || !so_far.can_go_on() {
                return Err(given_up(error, tries, &so_far));
            }
            tries += 1;
            sleep(wait).await;
            wait = (wait * 2).min(longest_wait);
            // From the first URL on: where it led may have been for a while only.
            taken = match self.follow(url.clone(), &so_far).await {
                Ok((now, answer)) => {
                    // A tag tells states of one place apart: another place may give the same one to another file. Queries are left out,
                    // for they may be signatures that differ each time.
                    let is_elsewhere = now[..Position::AfterPath] != at[..Position::AfterPath];
                    if so_far.bytes > 0 && is_elsewhere && answer.status().is_success() {
                        return Err(so_far.changed(url));
                    }
                    at = now;
                    self.take(&at, answer, &mut so_far, into).await?
                }
                Err(error) if error.kind() == ErrorKind::Io => Taken::Cut(error),
                Err(error) => return Err(error),
            };
        }
        Ok(so_far.bytes)
    }

    /// The answer that does not lead elsewhere, and whose it is.
    async fn follow(&self, mut url: Url, so_far: &SoFar) -> Result<(Url, Response<Incoming>)> {
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.ask(&url, self.allowed(&url)?, so_far).await?;
            let Some(next) = redirect(&url, &answer)? else { return Ok((url, answer)) };
            self.check_step(&url, &next)?;
            url = next;
        }
        Err(Error::new(ErrorKind::Io, format!("{} leads on and on: {REDIRECTS_MAX} times elsewhere", shown(&url))))
    }

    /// Refuses to go where an answer leads, if that may not be fetched.
    fn check_step(&self, from: &Url, to: &Url) -> Result<()> {
        if from.scheme() == "https" && to.scheme() != "https" {
            let message = format!("{} leads to {}, which nothing protects on its way", shown(from), shown(to));
            return Err(
                Error::new(ErrorKind::Forbidden, message).with_hint("ask for that with http, if it may be read so")
            );
        }
        check_form(to)
            .and_then(|()| self.allowed(to))
            .map(|_| ())
            .map_err(|error| error.at(format!("{} leads on", shown(from))))
    }

    fn allowed(&self, url: &Url) -> Result<Allowed> {
        let Some(hosts) = &self.rules.hosts else { return Ok(Allowed::ByAddress) };
        hosts.allowed(url).ok_or_else(|| {
            let host = &url[Position::BeforeHost..Position::AfterPort];
            Error::new(
                ErrorKind::Forbidden,
                format!("permission denied to read {}: {host} is not among the hosts that may be read", shown(url)),
            )
            .with_hint(hosts.hint())
        })
    }
}

fn given_up(error: Error, tries: u32, so_far: &SoFar) -> Error {
    if !so_far.can_go_on() {
        return error.with_hint("its host gives no strong ETag, by which the rest would be known to be of the same file; run the statement again");
    }
    error.with_hint(format!("it was asked for the rest {tries} times; run the statement again once its host answers"))
}

fn parsed(text: &str) -> Result<Url> {
    let url = Url::parse(text.trim()).map_err(|error| {
        // The text itself may hold a secret.
        Error::new(ErrorKind::InvalidValue, format!("this is no URL: {error}")).with_hint("write https://host/path")
    })?;
    check_form(&url)?;
    Ok(url)
}

fn check_form(url: &Url) -> Result<()> {
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

/// As messages name it.
pub(crate) fn shown(url: &Url) -> String {
    format!("{}://{}", url.scheme(), &url[Position::BeforeHost..Position::AfterPath])
}

async fn noticed(stopped: &dyn Fn() -> bool) {
    while !stopped() {
        sleep(NOTICED_WITHIN).await;
    }
}
