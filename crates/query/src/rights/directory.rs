//! The database's roles, as servers ask for them when clients log in.
//!
//! Invariants:
//! - Somebody of whom the servers' own file knows is trusted as that file says; of all others the database's roles are asked.
//! - A log-in that could not be written into the audit log is none.
//!
//! Protocols without connections show the password with every request: of these one line an hour is written for each user and address.

use crate::engine::Engine;
use crate::rights::{Audit, AuditEvent, Authoriser, Who, quoted};
use crate::session::Client;
use alluvia_access::{Directory, Verifier};
use alluvia_catalog::rights::{BOOTSTRAP, Object, Privilege};
use alluvia_types::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long the requests of one user and address are one log-in.
const LOG_IN_HOLDS: Duration = Duration::from_secs(3_600);
/// Log-ins that are remembered; past that all are forgotten, and written again.
const REMEMBERED_MAX: usize = 10_000;
/// The protocol whose log-ins are connections.
const WITH_CONNECTIONS: &str = "postgresql";

/// The names that servers trust, once there are any: until then everybody is trusted whom a server lets in.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    names: Mutex<Option<Arc<BTreeSet<String>>>>,
}

impl Trust {
    /// Whom a server lets in under this name.
    pub(crate) fn who(&self, name: &str, engine: &Engine) -> Who {
        let catalog = engine.store().catalog();
        let rights = catalog.rights();
        if let Some(role) = rights.named(name).filter(|role| role.id != BOOTSTRAP) {
            let may = role.login && rights.may(role.id, Privilege::Connect, Object::Database);
            return if may { Who::Role(role.id, name.into()) } else { Who::Nobody(name.into()) };
        }
        let names = self.names.lock().clone();
        match names {
            Some(names) if !names.contains(name) => Who::Nobody(name.into()),
            _ if name.is_empty() => Who::embedded(),
            _ => Who::Trusted(name.into()),
        }
    }
}

impl Engine {
    /// The database's roles for servers whose own users are `trusted`: superusers here. From now on nobody else is trusted but by a
    /// role.
    pub fn directory<'a>(self: &Arc<Engine>, trusted: impl IntoIterator<Item = &'a str>) -> Arc<dyn Directory> {
        let names: BTreeSet<String> = trusted.into_iter().map(str::to_owned).collect();
        *self.trust().names.lock() = Some(Arc::new(names));
        Arc::new(Roles { engine: Arc::downgrade(self), log_ins: Mutex::default() })
    }
}

/// See [`Directory`].
#[derive(Debug)]
struct Roles {
    /// Servers live as long as they like; the database ends when its owner says so.
    engine: Weak<Engine>,
    log_ins: Mutex<HashMap<(String, &'static str, IpAddr), Duration>>,
}

impl Roles {
    fn engine(&self) -> Result<Arc<Engine>> {
        self.engine.upgrade().ok_or_else(|| Error::new(ErrorKind::Shutdown, "the database is closed"))
    }

    fn allowed(&self, engine: &Engine, user: &str) -> Result<()> {
        let catalog = engine.store().catalog();
        let Some(role) = catalog.rights().named(user).filter(|role| role.id != BOOTSTRAP) else {
            let who = engine.trust().who(user, engine);
            return Authoriser::new(who, "".into(), Arc::clone(&catalog)).database(Privilege::Connect);
        };
        if !role.login {
            return Err(Error::new(ErrorKind::Authentication, format!("role {user:?} may not log in"))
                .with_hint(format!("a superuser can ALTER ROLE {} LOGIN", quoted(user))));
        }
        let who = Who::Role(role.id, user.into());
        Authoriser::new(who, "".into(), Arc::clone(&catalog)).database(Privilege::Connect)
    }

    /// Whether this log-in goes on one that was written.
    fn goes_on(&self, user: &str, protocol: &'static str, peer: IpAddr, now: Duration) -> bool {
        if protocol == WITH_CONNECTIONS {
            return false;
        }
        let log_ins = self.log_ins.lock();
        let last = log_ins.get(&(user.to_owned(), protocol, peer));
        last.is_some_and(|last| now.saturating_sub(*last) < LOG_IN_HOLDS)
    }

    fn remember(&self, user: &str, protocol: &'static str, peer: IpAddr, now: Duration) {
        let mut log_ins = self.log_ins.lock();
        if log_ins.len() >= REMEMBERED_MAX {
            log_ins.clear();
        }
        log_ins.insert((user.to_owned(), protocol, peer), now);
    }
}

fn audit(engine: &Engine, user: &str, protocol: &'static str, peer: IpAddr) -> Audit {
    let client = Client { user: user.to_owned(), protocol, address: peer.to_string() };
    Audit::new(engine.store(), AuditEvent::LogIn, &client)
}

impl Directory for Roles {
    fn verifier(&self, role: &str) -> Option<Verifier> {
        let engine = self.engine().ok()?;
        let catalog = engine.store().catalog();
        Verifier::parse(catalog.rights().named(role)?.verifier.as_ref()?.reveal())
    }

    fn admit(&self, user: &str, protocol: &'static str, peer: IpAddr) -> Result<()> {
        let engine = self.engine()?;
        let audit = audit(&engine, user, protocol, peer);
        if let Err(refused) = self.allowed(&engine, user) {
            audit.write("refused", None, Some(&refused))?;
            return Err(refused);
        }
        let now = engine.store().clock().monotonic();
        if !self.goes_on(user, protocol, peer, now) {
            audit.write("ok", None, None)?;
            self.remember(user, protocol, peer, now);
        }
        Ok(())
    }

    fn refused(&self, user: &str, protocol: &'static str, peer: IpAddr, reason: &str) {
        let Ok(engine) = self.engine() else { return };
        let error = Error::new(ErrorKind::Authentication, reason);
        if let Err(error) = audit(&engine, user, protocol, peer).write("refused", None, Some(&error)) {
            tracing::error!(%error, "a refused log-in could not be written into the audit log");
        }
    }
}
