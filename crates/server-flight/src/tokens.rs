//! Tokens: a handshake gives one, and a call that shows it is of the login that the token was given for.
//!
//! Invariants:
//! - A token is good for as long as its user would be let in anew: with each call it is asked again whether their password is the one that
//!   was shown, and whether they may log in. So a new password, NOLOGIN, REVOKE CONNECT, another name and DROP ROLE end it.
//! - A token that is not used ends, and so does one that is, at the age that the server's options say: whoever got hold of one has it for
//!   that long at most.
//! - Calls under way are finished when a token ends; what its login holds goes with the last of them.

use crate::login::{Login, key};
use crate::server_options::ServerOptions;
use alluvia_access::{Access, Verifier};
use alluvia_types::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// What let somebody in.
#[derive(Clone)]
pub(crate) struct Entrance {
    pub(crate) user: String,
    /// What was known of their password then; `None` where none is asked for.
    pub(crate) known: Option<Verifier>,
}

impl Entrance {
    /// Refuses whoever would not be let in so today.
    fn check_again(&self, access: &Access) -> Result<()> {
        match access {
            Access::Trust => Ok(()),
            Access::Passwords(passwords) => passwords.check_again(&self.user, self.known.as_ref()),
        }
    }
}

#[derive(Clone)]
struct Token {
    login: Arc<Login>,
    entrance: Entrance,
    /// When it was given.
    since: Duration,
}

impl Token {
    /// Whether it has become too old.
    fn is_old(&self, now: Duration, options: &ServerOptions) -> bool {
        !options.token_lifetime.is_zero() && now.saturating_sub(self.since) >= options.token_lifetime
    }
}

/// All that are good.
#[derive(Default)]
pub(crate) struct Tokens {
    by_name: Mutex<HashMap<String, Token>>,
}

impl Tokens {
    /// A new one for a login. When there are enough, the one that has been idle for longest makes room.
    pub(crate) fn add(
        &self,
        login: Arc<Login>,
        entrance: Entrance,
        now: Duration,
        options: &ServerOptions,
    ) -> Result<String> {
        let name = key()?;
        let evicted = {
            let mut by_name = self.by_name.lock();
            let evicted = if by_name.len() >= options.connections_max {
                let idle = by_name.iter().filter_map(|(name, token)| Some((token.login.idle_since()?, name)));
                let Some(oldest) = idle.min().map(|(_, name)| name.clone()) else {
                    return Err(Error::new(ErrorKind::Busy, "all logins are busy").with_hint("try again later"));
                };
                by_name.remove(&oldest)
            } else {
                None
            };
            by_name.insert(name.clone(), Token { login, entrance, since: now });
            evicted
        };
        drop(evicted);
        Ok(name)
    }

    /// The login of a token, if that is still good.
    pub(crate) fn login(&self, name: &str, now: Duration, options: &ServerOptions) -> Result<Arc<Login>> {
        let again = "log in again: a handshake gives a new one";
        let unknown =
            || Error::new(ErrorKind::Authentication, "the token is not known, or has expired").with_hint(again);
        let token = self.by_name.lock().get(name).cloned().ok_or_else(unknown)?;
        // Without the lock: the database is asked.
        let good = match token.is_old(now, options) {
            true => Err(unknown()),
            false => token.entrance.check_again(&options.access),
        };
        match good {
            Ok(()) => Ok(token.login),
            Err(error) => {
                self.end(&token.login);
                tracing::info!(user = token.entrance.user, %error, "a token has ended");
                Err(error)
            }
        }
    }

    /// Ends a login: its token is no more.
    pub(crate) fn end(&self, login: &Arc<Login>) {
        let ended: Vec<_> = self.by_name.lock().extract_if(|_, token| Arc::ptr_eq(&token.login, login)).collect();
        drop(ended);
    }

    /// Ends those that are too old, or have been idle for longer than `session_timeout`, or than `transaction_idle_timeout` within a
    /// transaction that SQL began: it is rolled back with them, as a connection's is.
    pub(crate) fn expire(&self, now: Duration, options: &ServerOptions) {
        let is_late = |since: Duration| now.saturating_sub(since) > options.session_timeout;
        let has_ended = |token: &Token| {
            token.is_old(now, options)
                || token.login.idle_since().is_some_and(is_late)
                || token.login.is_idle_in_transaction(now, options.transaction_idle_timeout)
        };
        let late: Vec<_> = self.by_name.lock().extract_if(|_, token| has_ended(token)).collect();
        drop(late);
    }

    /// Drops what nobody has used in time of what these logins hold, which have no token, and all with one.
    pub(crate) fn expire_held(&self, others: Vec<Arc<Login>>, now: Duration, options: &ServerOptions) {
        others.iter().for_each(|login| login.abandon_if_idle(now, options.transaction_idle_timeout));
        let with_token: Vec<_> = self.by_name.lock().values().map(|token| Arc::clone(&token.login)).collect();
        with_token.iter().chain(&others).for_each(|login| login.expire(now, options));
    }
}
