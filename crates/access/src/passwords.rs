//! Who may connect.

use crate::scram::Verifier;
use alluvia_types::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fmt;

/// Who may connect.
#[derive(Clone, Debug)]
pub enum Access {
    /// Anybody who reaches the socket: for loopback alone.
    Trust,
    /// Who knows a password.
    Passwords(Passwords),
}

/// Verifiers of passwords by user.
#[derive(Clone, Default)]
pub struct Passwords {
    users: BTreeMap<String, Verifier>,
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.users.keys()).finish()
    }
}

impl Passwords {
    /// Reads lines of `user:verifier`. Empty lines and those that begin with `#` are passed over.
    pub fn parse(text: &str) -> Result<Passwords> {
        let mut users = BTreeMap::new();
        for (at, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let entry = line.split_once(':').and_then(|(user, rest)| Some((user.to_owned(), Verifier::parse(rest)?)));
            let Some((user, verifier)) = entry else {
                // The line itself is a secret.
                return Err(Error::new(ErrorKind::InvalidSetting, format!("line {} is no user and verifier", at + 1))
                    .with_hint("a line is user:SCRAM-SHA-256$iterations:salt$stored:server"));
            };
            users.insert(user, verifier);
        }
        Ok(Passwords { users })
    }

    /// Adds a user, or changes their password.
    pub fn set(&mut self, user: &str, verifier: Verifier) {
        self.users.insert(user.to_owned(), verifier);
    }

    /// As [`Passwords::parse`] reads them.
    pub fn to_text(&self) -> String {
        self.users.iter().map(|(user, verifier)| format!("{user}:{verifier}\n")).collect()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.users.is_empty()
    }

    /// A user's verifier.
    pub fn get(&self, user: &str) -> Option<&Verifier> {
        self.users.get(user)
    }
}
