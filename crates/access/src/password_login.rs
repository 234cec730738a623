//! Log-ins with passwords that come in the clear, checked in the one order that is safe; for every server that takes such.
//!
//! Invariants:
//! - An address that is refused cannot go on guessing: it is refused before anything tells a right password from a wrong one.
//! - A wrong password is in the audit log before its sender is told, and so is a log-in.
//! - No more passwords than [`WORKED_OUT_AT_ONCE`] are worked out at once, also where those who sent them have gone: the work cannot be
//!   stopped, so it holds its turn itself.

use crate::attempts::Attempts;
use crate::basic_auth::Checked;
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

/// Checks passwords that come in the clear.
#[derive(Debug)]
pub struct PasswordLogin {
    checked: Arc<Checked>,
    working_out: Arc<Semaphore>,
}

/// Who wants to log in, and with which password.
#[derive(Clone, Copy, Debug)]
pub struct LogInAttempt<'a> {
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

/// Why a log-in is rejected.
#[derive(Debug)]
pub struct Rejected {
    /// What they are told.
    pub error: Error,
    /// Whether it is for too many wrong passwords, whatever this one is.
    pub is_for_many: bool,
}

impl PasswordLogin {
    /// With nobody known yet.
    pub fn new() -> Result<PasswordLogin> {
        Ok(PasswordLogin {
            checked: Arc::new(Checked::new()?),
            working_out: Arc::new(Semaphore::new(WORKED_OUT_AT_ONCE)),
        })
    }

    /// Lets in whoever shows the right password and may log in. The rest wait, longer each time. `now` is monotonic.
    pub async fn let_in(
        &self,
        passwords: &Passwords,
        attempts: &Attempts,
        attempt: LogInAttempt<'_>,
        now: &(dyn Fn() -> Duration + Sync),
    ) -> Result<(), Rejected> {
        let LogInAttempt { user, password, protocol, peer, .. } = attempt;
        let too_many = |error| Rejected { error, is_for_many: true };
        attempts.check(peer, now()).map_err(too_many)?;
        if self.checked.is_known(user, password) {
            return admit(passwords, attempt).await;
        }
        let turn = Arc::clone(&self.working_out).acquire_owned().await;
        if self.checked.is_known(user, password) {
            drop(turn);
            return admit(passwords, attempt).await;
        }
        let wait = attempts.admit(peer, user, now()).map_err(too_many)?;
        let (checked, all) = (Arc::clone(&self.checked), passwords.clone());
        let (name, secret) = (user.to_owned(), password.to_owned());
        let is_right = spawn_blocking(move || {
            let _turn = turn;
            checked.check(&all, &name, &secret)
        });
        if is_right.await.unwrap_or(false) {
            attempts.right(peer, user);
            return admit(passwords, attempt).await;
        }
        let (all, name) = (passwords.clone(), user.to_owned());
        drop(spawn_blocking(move || all.refused(&name, protocol, peer, "wrong password")).await);
        tracing::warn!(%peer, user, "a wrong password");
        sleep(wait).await;
        let message = format!("password authentication failed for user {user:?}");
        Err(Rejected { error: Error::new(ErrorKind::Authentication, message), is_for_many: false })
    }
}

/// Whether whoever has shown the right password may log in. Waits for the audit log, so where a thread may.
async fn admit(passwords: &Passwords, attempt: LogInAttempt<'_>) -> Result<(), Rejected> {
    let LogInAttempt { user, protocol, peer, kind, .. } = attempt;
    let (passwords, user) = (passwords.clone(), user.to_owned());
    let admitted = spawn_blocking(move || passwords.admit(&user, protocol, peer, kind)).await;
    let admitted = admitted.unwrap_or_else(|error| Err(Error::internal(format!("a log-in failed: {error}"))));
    admitted.map_err(|error| Rejected { error, is_for_many: false })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::directory::Directory;
    use crate::scram::Verifier;
    use parking_lot::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    /// Nobody is there, which takes until the gate opens to find out.
    #[derive(Debug)]
    struct Gated {
        inside: AtomicUsize,
        gate: Mutex<mpsc::Receiver<()>>,
    }

    impl Directory for Gated {
        fn verifier(&self, _: &str) -> Option<Verifier> {
            self.inside.fetch_add(1, Ordering::SeqCst);
            // It opens when whoever would send goes.
            let _ = self.gate.lock().recv();
            None
        }

        fn may_log_in(&self, _: &str) -> Result<()> {
            Ok(())
        }

        fn admit(&self, _: &str, _: &'static str, _: IpAddr, _: LogIn) -> Result<()> {
            Ok(())
        }

        fn refused(&self, _: &str, _: &'static str, _: IpAddr, _: &str) {}
    }

    #[tokio::test]
    async fn what_is_worked_out_holds_its_turn_also_when_its_client_has_gone() {
        let (opens, gate) = mpsc::channel();
        let roles = Arc::new(Gated { inside: AtomicUsize::new(0), gate: Mutex::new(gate) });
        let passwords = Passwords::default().with_directory(Arc::clone(&roles) as Arc<dyn Directory>);
        let (login, attempts) = (Arc::new(PasswordLogin::new().unwrap()), Arc::<Attempts>::default());
        let ask = || {
            let (login, passwords, attempts) = (Arc::clone(&login), passwords.clone(), Arc::clone(&attempts));
            tokio::spawn(async move {
                let (peer, kind) = (IpAddr::from([10, 0, 0, 1]), LogIn::Request);
                let attempt = LogInAttempt { user: "role", password: "word", protocol: "http", peer, kind };
                login.let_in(&passwords, &attempts, attempt, &|| Duration::ZERO).await
            })
        };
        let clients: Vec<_> = (0..5).map(|_| ask()).collect();
        while roles.inside.load(Ordering::SeqCst) < WORKED_OUT_AT_ONCE {
            tokio::task::yield_now().await;
        }
        for client in clients {
            client.abort();
            assert!(client.await.is_err(), "nobody was answered");
        }
        assert_eq!(login.working_out.available_permits(), 0, "the work goes on");
        let another = ask();
        drop(opens);
        let turned = another.await.unwrap().unwrap_err();
        assert_eq!((turned.error.kind(), turned.is_for_many), (ErrorKind::Authentication, false));
        assert_eq!(roles.inside.load(Ordering::SeqCst), WORKED_OUT_AT_ONCE + 1);
    }
}
