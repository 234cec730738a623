//! Passwords that come in the clear, as HTTP's Basic sends them (over TLS, or on loopback).
//!
//! Invariants:
//! - A user who does not exist costs the same work as one whose password is wrong.
//! - A right password is worked out once: after that its tag under a key of this process is compared, since a client sends it with
//!   every request. A tag tells nothing of the password without the key, and goes with the process.

use crate::passwords::Passwords;
use crate::scram::{Decoys, is_same, random_key, sign};
use alluvia_types::Result;
use parking_lot::Mutex;
use std::collections::HashMap;

/// Users whose right password is remembered; past that all are forgotten and worked out again.
const REMEMBERED_MAX: usize = 1_024;

/// Checks passwords, and remembers which were right.
pub struct Checked {
    key: [u8; 32],
    decoys: Decoys,
    right: Mutex<HashMap<String, [u8; 32]>>,
}

impl std::fmt::Debug for Checked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Checked(...)")
    }
}

impl Checked {
    /// With a key of its own.
    pub fn new() -> Result<Checked> {
        Ok(Checked { key: random_key()?, decoys: Decoys::new()?, right: Mutex::default() })
    }

    /// Whether the password was found right before; costs little.
    pub fn is_known(&self, user: &str, password: &str) -> bool {
        let tag = self.tag(user, password);
        self.right.lock().get(user).is_some_and(|known| is_same(known, &tag))
    }

    /// Whether it is the user's password. Takes a millisecond or more: call it where a thread may work.
    pub fn check(&self, passwords: &Passwords, user: &str, password: &str) -> bool {
        let known = passwords.get(user);
        let decoy = self.decoys.verifier(user);
        let is_right = known.unwrap_or(&decoy).is_of(password) && known.is_some();
        if is_right {
            let mut right = self.right.lock();
            if right.len() >= REMEMBERED_MAX {
                right.clear();
            }
            right.insert(user.to_owned(), self.tag(user, password));
        }
        is_right
    }

    fn tag(&self, user: &str, password: &str) -> [u8; 32] {
        sign(&self.key, format!("{}:{user}{password}", user.len()).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scram::Verifier;

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
