//! Connections: what is kept for each one that is open. Which of them makes room is in [`alluvia_access::OpenConnections`].
//!
//! Invariant: a login is kept by its user's name, and is of the role that had the name when it was made. Once the name is another's, or may
//! not log in, nobody gets at it: the next call under the name ends it, once the calls that it has under way have ended, and what was open is
//! rolled back.

use crate::login::Login;
use alluvia_access::ConnectionSlot;
use alluvia_types::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// Users who may share a connection without tokens.
const LOGINS_MAX: usize = 16;

/// One connection.
pub(crate) struct Connection {
    pub(crate) slot: Arc<ConnectionSlot>,
    pub(crate) peer: SocketAddr,
    /// Logins of calls that come without a token, by user.
    logins: Mutex<HashMap<String, Arc<Login>>>,
}

/// All that are open.
pub(crate) type Connections = alluvia_access::OpenConnections<Arc<Connection>>;

impl Connection {
    /// In this slot.
    pub(crate) fn new(slot: Arc<ConnectionSlot>, peer: SocketAddr) -> Arc<Connection> {
        Arc::new(Connection { slot, peer, logins: Mutex::default() })
    }

    /// The login of calls of this user that come without a token.
    pub(crate) fn login(&self, user: &str, new: impl FnOnce() -> Result<Arc<Login>>) -> Result<Arc<Login>> {
        let is_anothers = |login: &Arc<Login>| !login.lane.session.is_still(user);
        let ended: Vec<_> =
            self.logins.lock().extract_if(|known, login| known.as_str() == user && is_anothers(login)).collect();
        // Without the lock: to end one takes its time.
        drop(ended);
        let mut logins = self.logins.lock();
        if let Some(login) = logins.get(user) {
            return Ok(Arc::clone(login));
        }
        if logins.len() >= LOGINS_MAX {
            let message = format!("{LOGINS_MAX} users share this connection, and no more may");
            return Err(Error::new(ErrorKind::Busy, message).with_hint("open another connection"));
        }
        let login = new()?;
        logins.insert(user.to_owned(), Arc::clone(&login));
        Ok(login)
    }

    /// Ends a login of this connection.
    pub(crate) fn end(&self, login: &Arc<Login>) {
        let ended: Vec<_> = self.logins.lock().extract_if(|_, known| Arc::ptr_eq(known, login)).collect();
        drop(ended);
    }
}

/// Logins that belong to connections.
pub(crate) fn logins(connections: &Connections) -> Vec<Arc<Login>> {
    connections
        .all()
        .iter()
        .flat_map(|connection| connection.logins.lock().values().cloned().collect::<Vec<_>>())
        .collect()
}
