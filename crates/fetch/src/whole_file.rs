//! A whole file of a URL: redirects are followed, and a file that was cut is gone on with.

use crate::answer::{Taken, redirect, refused};
use crate::fetcher::Fetcher;
use crate::partial_download::PartialDownload;
use crate::rules::Again;
use crate::url_text::{check_form, parsed, shown};
use alluvia_types::{Error, ErrorKind, Result};
use hyper::body::Incoming;
use hyper::{Response, StatusCode};
use std::io::Write;
use std::time::Duration;
use tokio::time::sleep;
use url::{Position, Url};

/// Answers in a row that lead elsewhere.
const REDIRECTS_MAX: usize = 5;
/// How soon it is noticed that a fetch is to stop.
const NOTICED_WITHIN: Duration = Duration::from_millis(50);

impl Fetcher {
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
        let mut partial = PartialDownload::default();
        let Again { times, first_wait: mut wait, longest_wait } = self.rules.again;
        let (mut at, answer) = self.follow(url.clone(), &partial).await?;
        if answer.status() != StatusCode::OK {
            return Err(refused(&at, answer.status()));
        }
        let mut taken = self.take(&at, answer, &mut partial, into).await?;
        let mut tries = 0;
        while let Taken::Cut(error) = taken {
            if tries == times || !partial.can_go_on() {
                return Err(given_up(error, tries, &partial));
            }
            tries += 1;
            sleep(wait).await;
            wait = (wait * 2).min(longest_wait);
            // From the first URL on: where it led may have been for a while only.
            taken = match self.follow(url.clone(), &partial).await {
                Ok((now, answer)) => {
                    // A tag tells states of one place apart: another place may give the same one to another file. Queries are left out,
                    // for they may be signatures that differ each time.
                    let is_elsewhere = now[..Position::AfterPath] != at[..Position::AfterPath];
                    if partial.bytes > 0 && is_elsewhere && answer.status().is_success() {
                        return Err(partial.changed(url));
                    }
                    at = now;
                    self.take(&at, answer, &mut partial, into).await?
                }
                Err(error) if error.kind() == ErrorKind::Io => Taken::Cut(error),
                Err(error) => return Err(error),
            };
        }
        Ok(partial.bytes)
    }

    /// The answer that does not lead elsewhere, and whose it is.
    async fn follow(&self, mut url: Url, partial: &PartialDownload) -> Result<(Url, Response<Incoming>)> {
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.ask(&url, self.allowed(&url)?, partial).await?;
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
}

fn given_up(error: Error, tries: u32, partial: &PartialDownload) -> Error {
    if !partial.can_go_on() {
        return error.with_hint("its host gives no strong ETag, by which the rest would be known to be of the same file; run the statement again");
    }
    error.with_hint(format!("it was asked for the rest {tries} times; run the statement again once its host answers"))
}

async fn noticed(stopped: &dyn Fn() -> bool) {
    while !stopped() {
        sleep(NOTICED_WITHIN).await;
    }
}
