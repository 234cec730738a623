//! The caller: whose call is under way, told to the login for as long as the call lasts.

use crate::login::Login;
use crate::shared::Shared;
use alluvia_access::Busy;
use std::sync::Arc;

/// A call under way: whose it is, and that neither login nor connection is idle.
pub(crate) struct Caller {
    pub(crate) login: Arc<Login>,
    shared: Arc<Shared>,
    _busy: Busy,
}

impl Caller {
    /// A call begins.
    pub(crate) fn new(shared: &Arc<Shared>, login: Arc<Login>, busy: Busy) -> Arc<Caller> {
        login.call_begins(shared.now());
        Arc::new(Caller { login, shared: Arc::clone(shared), _busy: busy })
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.login.call_ends(self.shared.now());
    }
}
