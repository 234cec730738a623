//! Cancel requests: one connection cancels the statement of another by the numbers of that one.
//!
//! Invariant: only who knows both numbers of a connection, which are told to its client alone, can cancel its statement.

use alluvia_copy::progress::CancelHandle;
use parking_lot::Mutex;
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::HashMap;
use std::sync::Arc;

/// The connections that can be cancelled.
#[derive(Default)]
pub(crate) struct Cancels {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    connections: HashMap<u32, (u32, CancelHandle)>,
}

/// A connection that can be cancelled, until this is dropped.
pub(crate) struct Registered {
    cancels: Arc<Cancels>,
    pub(crate) process: u32,
    pub(crate) secret: u32,
}

impl Cancels {
    /// Gives a connection its numbers; the first is its session's, as `pg_backend_pid` tells it.
    pub(crate) fn register(self: &Arc<Cancels>, handle: CancelHandle, session: u64) -> Registered {
        let mut bytes = [0; 4];
        // Without random numbers nobody can cancel: the secret is one that is never compared.
        let secret = SystemRandom::new().fill(&mut bytes).ok().map(|()| u32::from_be_bytes(bytes));
        let mut known = self.known.lock();
        let mut process = (session % i32::MAX as u64) as u32;
        while known.connections.contains_key(&process) {
            process = process % (i32::MAX as u32) + 1;
        }
        if let Some(secret) = secret {
            known.connections.insert(process, (secret, handle));
        }
        Registered { cancels: Arc::clone(self), process, secret: secret.unwrap_or(0) }
    }

    /// Cancels, if the secret is right. Nothing is told to who asks.
    pub(crate) fn cancel(&self, process: u32, secret: u32) {
        if let Some((known, handle)) = self.known.lock().connections.get(&process)
            && *known == secret
        {
            handle.cancel();
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.cancels.known.lock().connections.remove(&self.process);
    }
}
