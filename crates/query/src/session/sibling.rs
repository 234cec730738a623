//! Several sessions of one client: for protocols whose transactions have names, of which several may be open at once.
//!
//! Invariant: a client never reads below what it has read or written, in whichever of its sessions.

use crate::session::core::Session;

impl Session {
    /// Another session for the same client, with this one's settings, which sees what this one has read and written. It has no
    /// transaction and no cursors.
    pub fn sibling(&self) -> Session {
        let sibling = self.engine.session();
        let client = self.place.entry.client.lock().clone();
        sibling.introduce(client);
        {
            // Never both at once: two sessions of a client may be each other's siblings.
            let (settings, defaults, seen, unseen) = {
                let own = self.state.lock();
                (own.settings.clone(), own.defaults.clone(), own.seen, own.unseen)
            };
            let mut state = sibling.state.lock();
            (state.settings, state.defaults, state.seen, state.unseen) = (settings, defaults, seen, unseen);
        }
        sibling
    }

    /// Takes over what a sibling was set to, and sees from now on what it has read and written. For the end of its transaction.
    pub fn follow(&self, sibling: &Session) {
        let (settings, seen, unseen) = {
            let theirs = sibling.state.lock();
            (theirs.settings.clone(), theirs.seen, theirs.unseen)
        };
        let mut own = self.state.lock();
        own.settings = settings;
        own.seen = own.seen.max(seen);
        own.unseen = own.unseen.max(unseen);
    }
}
