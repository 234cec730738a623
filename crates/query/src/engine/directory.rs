//! The database's roles, as servers ask for them when clients log in.
//!
//! [`LogIns`](alluvia_access::LogIns) and [`Refusals`](alluvia_access::Refusals) decide which log-ins have
//! lines in the audit log.
//!
//! Invariants:
//! - A user in the servers' own file is trusted as the file says; of every other user the database's roles are asked.
//! - A log-in with a password is refused if it cannot be written into the audit log.
//! - A log-in without a password is written likewise, and stands whether or not it can be written: it protects nothing.

use crate::engine::Engine;
use crate::engine::refused::{log_in_audit, write_left_out, write_log_in};
use crate::execution::blocking::blocking;
use alluvia_access::{Directory, LogIn, Verifier};
use alluvia_catalog::authoriser::{Authoriser, Who};
use alluvia_catalog::rights::{BOOTSTRAP, MONITOR, Object, Privilege};
use alluvia_space::keywords::quoted;
use alluvia_types::{Error, ErrorKind, Result};
use futures::future::{BoxFuture, ready};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

/// What the line of a log-in without a password says.
const TRUSTED: &str = "no password was asked for";

/// The names that servers trust, once there are any: until then everybody is trusted whom a server lets in.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    names: Mutex<Option<Arc<BTreeSet<String>>>>,
}

impl Trust {
    /// Whom a server lets in under this name.
    pub(crate) fn who(&self, name: &str, engine: &Engine) -> Who {
        let catalog = engine.read().catalog();
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
    /// The database's roles for servers whose own users are `trusted`: superusers here. From now on nobody else is
    /// trusted but by a role.
    pub fn directory<'a>(self: &Arc<Engine>, trusted: impl IntoIterator<Item = &'a str>) -> Arc<dyn Directory> {
        let names: BTreeSet<String> = trusted.into_iter().map(str::to_owned).collect();
        *self.trust().names.lock() = Some(Arc::new(names));
        Arc::new(Roles { engine: Arc::downgrade(self) })
    }

    /// Refuses whoever may not read what a server counts, by the name under which a server let them in.
    pub fn may_watch(&self, user: &str) -> Result<()> {
        let who = self.trust().who(user, self);
        Authoriser::new(who, "".into(), self.read().catalog()).membership(MONITOR, "read what the server counts")
    }

    /// Writes into the audit log that a server that asks for no password has let somebody in under this name, or that
    /// they may do nothing here.
    pub fn trusted(
        self: &Arc<Engine>,
        user: &str,
        protocol: &'static str,
        peer: IpAddr,
        kind: LogIn,
    ) -> BoxFuture<'static, ()> {
        if self.log_ins().goes_on(user, protocol, peer, kind, self.read().clock().monotonic()) {
            return Box::pin(ready(()));
        }
        let (engine, user) = (Arc::clone(self), user.to_owned());
        Box::pin(async move {
            let (there, name) = (Arc::clone(&engine), user.clone());
            let written = blocking(move || match allowed(&there, &name) {
                Ok(()) => write_admitted(&there, &name, protocol, peer, kind, Some(TRUSTED)),
                Err(refused) => write_log_in(&there, &name, protocol, peer, &refused),
            });
            if let Err(error) = written.await {
                tracing::error!(%error, "a log-in without a password could not be written into the audit log");
                // Not tried again with each of their requests.
                engine.log_ins().written(&user, protocol, peer, kind, engine.read().clock().monotonic());
            }
        })
    }
}

/// See [`Directory`].
#[derive(Debug)]
struct Roles {
    /// Servers live as long as they like; the database ends when its owner says so.
    engine: Weak<Engine>,
}

impl Roles {
    fn engine(&self) -> Result<Arc<Engine>> {
        self.engine.upgrade().ok_or_else(|| Error::new(ErrorKind::Shutdown, "the database is closed"))
    }
}

/// Whether they may log in.
fn allowed(engine: &Engine, user: &str) -> Result<()> {
    let catalog = engine.read().catalog();
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

/// Writes that somebody was let in, unless that goes on what was written.
fn write_admitted(
    engine: &Engine,
    user: &str,
    protocol: &'static str,
    peer: IpAddr,
    kind: LogIn,
    message: Option<&str>,
) -> Result<()> {
    let now = engine.read().clock().monotonic();
    write_left_out(engine, now)?;
    if !engine.log_ins().goes_on(user, protocol, peer, kind, now) {
        log_in_audit(engine, user, protocol, Some(peer)).saying(message).write("ok", None, None)?;
        engine.log_ins().written(user, protocol, peer, kind, now);
    }
    Ok(())
}

impl Directory for Roles {
    fn verifier(&self, role: &str) -> Option<Verifier> {
        let engine = self.engine().ok()?;
        let catalog = engine.read().catalog();
        Verifier::parse(catalog.rights().named(role)?.verifier.as_ref()?.reveal())
    }

    fn may_log_in(&self, user: &str) -> Result<()> {
        let engine = self.engine()?;
        allowed(&engine, user)
    }

    fn admit(&self, user: &str, protocol: &'static str, peer: IpAddr, kind: LogIn) -> Result<()> {
        let engine = self.engine()?;
        match allowed(&engine, user) {
            Ok(()) => write_admitted(&engine, user, protocol, peer, kind, None),
            Err(refused) => {
                write_log_in(&engine, user, protocol, peer, &refused)?;
                Err(refused)
            }
        }
    }

    fn refused(&self, user: &str, protocol: &'static str, peer: IpAddr, reason: &str) {
        let Ok(engine) = self.engine() else { return };
        let error = Error::new(ErrorKind::Authentication, reason);
        if let Err(error) = write_log_in(&engine, user, protocol, peer, &error) {
            tracing::error!(%error, "a refused log-in could not be written into the audit log");
        }
    }
}
