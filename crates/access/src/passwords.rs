//! Users who may connect: those of a passwords file, and roles of a database.
//!
//! Invariant: no verifier that must not be worked out ([`Verifier::check`]) gets any further than this. The file is read and written as
//! it is, and the database keeps what it was given; but whoever has such a verifier has no password.

use crate::directory::{Directory, LogIn};
use crate::scram::Verifier;
use alluvia_types::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

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
    directory: Option<Arc<dyn Directory>>,
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
        Ok(Passwords { users, directory: None })
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

    /// The same users, and the roles of a database beside them.
    #[must_use]
    pub fn with_directory(self, directory: Arc<dyn Directory>) -> Passwords {
        Passwords { directory: Some(directory), ..self }
    }

    /// The users of the file.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.users.keys().map(String::as_str)
    }

    /// What is known of the password of a user of the file, or else of a role.
    pub fn verifier(&self, user: &str) -> Option<Verifier> {
        let of_role = || self.directory.as_ref().and_then(|directory| directory.verifier(user));
        let verifier = self.get(user).cloned().or_else(of_role)?;
        match verifier.check() {
            Ok(()) => Some(verifier),
            Err(error) => {
                tracing::warn!(%error, user, "a user or role cannot log in");
                None
            }
        }
    }

    /// Refuses whoever would not be let in today as they were then, when `known` was what was known of their password.
    pub fn check_again(&self, user: &str, known: Option<&Verifier>) -> Result<()> {
        let verifier = self.verifier(user);
        if verifier.is_none() || verifier.as_ref() != known {
            let message = format!("user {user:?} has another password by now, or none");
            return Err(Error::new(ErrorKind::Authentication, message).with_hint("log in again"));
        }
        self.directory.as_ref().map_or(Ok(()), |directory| directory.may_log_in(user))
    }

    /// As [`Directory::admit`]; who is in the file and no role may always. May block.
    pub fn admit(&self, user: &str, protocol: &'static str, peer: IpAddr, kind: LogIn) -> Result<()> {
        self.directory.as_ref().map_or(Ok(()), |directory| directory.admit(user, protocol, peer, kind))
    }

    /// As [`Directory::refused`]. May block.
    pub fn refused(&self, user: &str, protocol: &'static str, peer: IpAddr, reason: &str) {
        if let Some(directory) = &self.directory {
            directory.refused(user, protocol, peer, reason);
        }
    }

    /// The verifier of a user of the file.
    pub(crate) fn get(&self, user: &str) -> Option<&Verifier> {
        self.users.get(user)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The golden file never changes: it is what this version writes, and every later one reads.
    const GOLDEN: &str = include_str!("../tests/golden/passwords-01");

    #[test]
    fn the_golden_file_is_read_and_is_what_is_written() {
        let passwords = Passwords::parse(GOLDEN).unwrap();
        assert_eq!(passwords.users().collect::<Vec<_>>(), ["alluvia", "reader two", "\u{fc}nal"]);
        for (user, password) in [("alluvia", "correct horse"), ("reader two", "p:a$s s"), ("\u{fc}nal", "\u{2168}")] {
            let verifier = passwords.get(user).unwrap();
            assert!(verifier.is_of(password) && !verifier.is_of("correct hors"), "{user}");
        }
        // A password is what it is normalised to, by SASLprep.
        assert!(passwords.get("\u{fc}nal").unwrap().is_of("IX"));
        assert_eq!(passwords.to_text(), GOLDEN);
        // With one iteration a password is guessed as fast as its verifier is had: it is kept, and lets nobody in.
        assert!(passwords.verifier("alluvia").is_some() && passwords.verifier("reader two").is_some());
        assert_eq!(passwords.verifier("\u{fc}nal"), None);
    }

    #[test]
    fn remarks_are_passed_over_and_a_bad_line_is_named_and_not_shown() {
        let remarked = format!("# users of the database\n\n  \n{}", GOLDEN.replace('\n', "\r\n"));
        assert_eq!(Passwords::parse(&remarked).unwrap().to_text(), GOLDEN);
        for bad in ["alluvia:secret", "alluvia", "alluvia:SCRAM-SHA-256$0:AA==$AA==:AA=="] {
            let error = Passwords::parse(&format!("{GOLDEN}{bad}\n")).unwrap_err();
            assert!(error.message().contains("line 4") && !error.to_string().contains("secret"), "{error}");
        }
    }
}
