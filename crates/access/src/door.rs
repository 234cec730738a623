//! Logging in with a password that comes in the clear, in the one order that is safe; for every server that takes such.
//!
//! Invariants:
//! - An address that is refused cannot go on guessing: it is refused before anything tells a right password from a wrong one.
//! - A wrong password is in the audit log before its sender is told, and so is a log-in.

use crate::attempts::Attempts;
use crate::basic::Checked;
use crate::directory::LogIn;
use crate::passwords::Passwords;
use alluvia_types::{Error, ErrorKind, Result};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Passwords that are worked out at once. A client's first requests come together: they are not each worked out and counted.
const WORKED_OUT_AT_ONCE: usize = 2;

/// Where passwords in the clear are shown.
#[derive(Debug)]
pub struct Door {
    checked: Arc<Checked>,
    working_out: Semaphore,
}

/// Who stands there.
#[derive(Clone, Copy, Debug)]
pub struct Shown<'a> {
    /// The user's name.
    pub user: &'a str,
    /// And password.
    pub password: &'a str,
    /// What the audit log calls the protocol.
    pub protocol: &'static str,
    /// From where.
    pub peer: IpAddr,
    /// What for.
    pub kind: LogIn,
}

/// Why somebody is not let in.
#[derive(Debug)]
pub struct Turned {
    /// What they are told.
    pub error: Error,
    /// Whether it is for too many wrong passwords, whatever this one is.
    pub is_for_many: bool,
}

impl Door {
    /// With nobody known yet.
    pub fn new() -> Result<Door> {
        Ok(Door { checked: Arc::new(Checked::new()?), working_out: Semaphore::new(WORKED_OUT_AT_ONCE) })
    }

    /// Lets in whoever shows the right password and may log in. The rest wait, longer each time. `now` is monotonic.
    pub async fn let_in(
        &self,
        passwords: &Passwords,
        attempts: &Attempts,
        shown: Shown<'_>,
        now: &(dyn Fn() -> Duration + Sync),
    ) -> Result<(), Turned> {
        let Shown { user, password, protocol, peer, .. } = shown;
        let too_many = |error| Turned { error, is_for_many: true };
        attempts.check(peer, now()).map_err(too_many)?;
        if self.checked.is_known(user, password) {
            return admit(passwords, shown).await;
        }
        let wait = {
            let _turn = self.working_out.acquire().await;
            if self.checked.is_known(user, password) {
                return admit(passwords, shown).await;
            }
            let wait = attempts.admit(peer, user, now()).map_err(too_many)?;
            let (checked, all) = (Arc::clone(&self.checked), passwords.clone());
            let (name, secret) = (user.to_owned(), password.to_owned());
            let is_right = spawn_blocking(move || checked.check(&all, &name, &secret)).await;
            if is_right.unwrap_or(false) {
                attempts.right(peer, user);
                return admit(passwords, shown).await;
            }
            wait
        };
        let (all, name) = (passwords.clone(), user.to_owned());
        drop(spawn_blocking(move || all.refused(&name, protocol, peer, "wrong password")).await);
        tracing::warn!(%peer, user, "a wrong password");
        sleep(wait).await;
        let message = format!("password authentication failed for user {user:?}");
        Err(Turned { error: Error::new(ErrorKind::Authentication, message), is_for_many: false })
    }
}

/// Whether whoever has shown the right password may log in. Waits for the audit log, so where a thread may.
async fn admit(passwords: &Passwords, shown: Shown<'_>) -> Result<(), Turned> {
    let Shown { user, protocol, peer, kind, .. } = shown;
    let (passwords, user) = (passwords.clone(), user.to_owned());
    let admitted = spawn_blocking(move || passwords.admit(&user, protocol, peer, kind)).await;
    let admitted = admitted.unwrap_or_else(|error| Err(Error::internal(format!("a log-in failed: {error}"))));
    admitted.map_err(|error| Turned { error, is_for_many: false })
}
