//! Basic authentication: passwords that come in the clear, as HTTP's Basic sends them (over TLS, or on loopback).
//!
//! Invariants:
//! - A user who does not exist costs the same work as one whose password is wrong, if their verifier is of our own making: one with more
//!   iterations costs more.
//! - A right password is worked out once: after that its tag under a key of this process is compared, since a client sends it with
//!   every request. A tag tells nothing of the password without the key, and goes with the process.
//! - What was right is so no longer once the user has another password, or none.

use crate::passwords::Passwords;
use crate::scram::{Decoys, Verifier, is_same, random_key, sign};
use alluvia_types::Result;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD as BASE64, STANDARD_NO_PAD as BASE64_NO_PAD};
use parking_lot::Mutex;
use std::collections::HashMap;

/// Users whose right password is remembered; past that all are forgotten and worked out again.
const REMEMBERED_MAX: usize = 1_024;
/// The longest name and password together.
const CREDENTIALS_BYTES_MAX: usize = 1_024;

/// User and password out of what comes after `Basic`: the base64 of `user:password` in UTF-8. The error says what is wrong with it.
pub fn credentials(coded: &str) -> Result<(String, String), &'static str> {
    let coded = coded.trim();
    if coded.len() > CREDENTIALS_BYTES_MAX * 4 / 3 + 4 {
        return Err("it is too long");
    }
    // Some clients leave the end of base64 out.
    let bytes = BASE64.decode(coded).or_else(|_| BASE64_NO_PAD.decode(coded)).map_err(|_| "it is no base64")?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8")?;
    let (user, password) = text.split_once(':').ok_or("it has no password")?;
    Ok((user.to_owned(), password.to_owned()))
}

/// Checks passwords, and remembers which were right.
pub(crate) struct Checked {
    key: [u8; 32],
    decoys: Decoys,
    right: Mutex<HashMap<String, Right>>,
}

/// A password that was right.
struct Right {
    tag: [u8; 32],
    /// Where it was right, and of what.
    passwords: Passwords,
    verifier: Verifier,
}

impl std::fmt::Debug for Checked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Checked(...)")
    }
}

impl Checked {
    /// With a key of its own.
    pub(crate) fn new() -> Result<Checked> {
        Ok(Checked { key: random_key()?, decoys: Decoys::new()?, right: Mutex::default() })
    }

    /// Whether the password was found right before; costs little.
    pub(crate) fn is_known(&self, user: &str, password: &str) -> bool {
        let tag = self.tag(user, password);
        let known =
            |known: &Right| is_same(&known.tag, &tag).then(|| (known.passwords.clone(), known.verifier.clone()));
        let known = self.right.lock().get(user).and_then(known);
        known.is_some_and(|(passwords, verifier)| passwords.verifier(user) == Some(verifier))
    }

    /// Whether it is the user's password. Takes a millisecond or more: call it where a thread may work.
    pub(crate) fn check(&self, passwords: &Passwords, user: &str, password: &str) -> bool {
        let known = passwords.verifier(user);
        let is_right = known.clone().unwrap_or_else(|| self.decoys.verifier(user)).is_of(password);
        match known {
            Some(verifier) if is_right => {
                let mut right = self.right.lock();
                if right.len() >= REMEMBERED_MAX {
                    right.clear();
                }
                let tag = self.tag(user, password);
                right.insert(user.to_owned(), Right { tag, passwords: passwords.clone(), verifier });
                true
            }
            _ => false,
        }
    }

    fn tag(&self, user: &str, password: &str) -> [u8; 32] {
        sign(&self.key, format!("{}:{user}{password}", user.len()).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::{Directory, LogIn};
    use alluvia_types::{Error, ErrorKind, Result};
    use std::net::IpAddr;
    use std::sync::Arc;

    /// One role, whose password changes.
    #[derive(Debug, Default)]
    struct Roles(Mutex<Option<Verifier>>);

    impl Directory for Roles {
        fn verifier(&self, role: &str) -> Option<Verifier> {
            (role == "role").then(|| self.0.lock().clone()).flatten()
        }

        fn may_log_in(&self, role: &str) -> Result<()> {
            match role {
                "role" => Ok(()),
                _ => Err(Error::new(ErrorKind::Authentication, "not them")),
            }
        }

        fn admit(&self, _: &str, _: &'static str, _: IpAddr, _: LogIn) -> Result<()> {
            Ok(())
        }

        fn refused(&self, _: &str, _: &'static str, _: IpAddr, _: &str) {}
    }

    #[test]
    fn the_password_of_a_role_is_right_until_it_has_another() {
        let roles = Arc::new(Roles::default());
        let mut passwords = Passwords::default().with_directory(Arc::clone(&roles) as Arc<dyn Directory>);
        passwords.set("me", Verifier::new("mine").unwrap());
        let checked = Checked::new().unwrap();
        assert!(!checked.check(&passwords, "role", "old"));
        *roles.0.lock() = Some(Verifier::new("old").unwrap());
        assert!(!checked.is_known("role", "old") && checked.check(&passwords, "role", "old"));
        assert!(checked.is_known("role", "old") && checked.check(&passwords, "me", "mine"));
        *roles.0.lock() = Some(Verifier::new("new").unwrap());
        assert!(!checked.is_known("role", "old") && !checked.check(&passwords, "role", "old"));
        assert!(checked.check(&passwords, "role", "new") && checked.is_known("me", "mine"));
        *roles.0.lock() = None;
        assert!(!checked.is_known("role", "new") && !checked.check(&passwords, "role", "new"));
    }

    #[test]
    fn a_verifier_that_costs_too_much_is_never_worked_out() {
        let roles = Arc::new(Roles::default());
        let passwords = Passwords::default().with_directory(Arc::clone(&roles) as Arc<dyn Directory>);
        let checked = Checked::new().unwrap();
        let good = Verifier::new("right").unwrap();
        let costly = good.to_string().replace("$4096:", "$4294967295:");
        *roles.0.lock() = Verifier::parse(&costly);
        assert!(roles.verifier("role").is_some() && passwords.verifier("role").is_none());
        // With these iterations it would take an hour.
        assert!(!checked.check(&passwords, "role", "right"));
        *roles.0.lock() = Some(good.clone());
        assert!(checked.check(&passwords, "role", "right"));
        passwords.check_again("role", Some(&good)).unwrap();
        *roles.0.lock() = Verifier::new("right").ok();
        // The same password, set again, is another.
        assert_eq!(passwords.check_again("role", Some(&good)).unwrap_err().kind(), ErrorKind::Authentication);
        assert!(
            passwords.check_again("nobody", Some(&good)).is_err() && passwords.check_again("nobody", None).is_err()
        );
    }

    #[test]
    fn users_and_passwords_are_read_and_what_is_wrong_is_said() {
        for (coded, wanted) in [
            ("bWU6YTpi", Ok(("me", "a:b"))),
            (" bWU6 ", Ok(("me", ""))),
            ("bWU6YQ==", Ok(("me", "a"))),
            ("bWU6YQ", Ok(("me", "a"))),
            ("bWU", Err("it has no password")),
            ("/////w==", Err("it is not UTF-8")),
            ("b W U", Err("it is no base64")),
            ("", Err("it has no password")),
        ] {
            let found = credentials(coded);
            assert_eq!(
                found.as_ref().map(|(user, password)| (user.as_str(), password.as_str())),
                wanted.as_ref().copied(),
                "{coded}"
            );
        }
        assert_eq!(credentials(&"A".repeat(4_000)), Err("it is too long"));
    }

    #[test]
    fn the_right_password_is_known_from_then_on() {
        let mut passwords = Passwords::default();
        passwords.set("me", Verifier::new("secret").unwrap());
        let checked = Checked::new().unwrap();
        assert!(!checked.is_known("me", "secret"));
        for (user, password) in [("me", "wrong"), ("you", "secret"), ("", ""), ("mes", "ecret")] {
            assert!(!checked.check(&passwords, user, password), "{user}");
        }
        assert!(checked.check(&passwords, "me", "secret") && checked.is_known("me", "secret"));
        assert!(!checked.is_known("me", "wrong") && !checked.is_known("mes", "ecret"));
    }
}
