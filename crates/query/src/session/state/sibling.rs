//! Several sessions of one client: for protocols whose transactions have names, of which several may be open at once.
//!
//! Invariants:
//! - A client never reads below what it has read or written, in any of its sessions.
//! - Siblings are for one client: the role by its number, whatever its name has become; and COPY may name the same
//!   files.
//! - Each has the temporary tables that the other had when it was made, and those that its kept transactions leave.
//! - A producer's batches are numbered by one session: a session that has a producer has no siblings.

use crate::session::state::scope::Scope;
use alluvia_settings::Settings;
use alluvia_types::{Error, ErrorKind, Result};

/// Makes a new session another one's sibling: with its settings, for whom it is for, and with what it has read and
/// written. It has no transaction and no cursors. Refused while a producer is set.
pub(crate) fn inherit(sibling: &Scope, own: &Scope) -> Result<()> {
    *sibling.entry.client.lock() = own.client();
    // Never both at once: two sessions of a client may be each other's siblings.
    let (settings, defaults, seen, unseen, who, is_served, (temporary, inherited)) = {
        let own = own.state();
        // Whether the own transaction only reads is its own.
        let settings = Settings { read_only: None, isolation: None, ..own.settings.clone() };
        let temporary = own.temporary.fork();
        (settings, own.defaults.clone(), own.seen, own.unseen, own.who.clone(), own.is_served, temporary)
    };
    if settings.producer_mark().is_some() {
        return Err(Error::new(
            ErrorKind::NotSupported,
            "batches of a producer within a transaction of the client are not supported: they would share a number",
        )
        .with_hint("SET producer = '', or send each batch on its own"));
    }
    {
        let mut state = sibling.state();
        state.inherited = Some(Box::new(settings.clone()));
        (state.settings, state.defaults, state.who, state.is_served) = (settings, defaults, who, is_served);
        (state.seen, state.unseen) = (seen, unseen);
        state.temporary.begin_with(temporary);
        state.inherited_temporary = inherited;
    }
    Ok(())
}

/// A session sees from now on what a sibling has read and written, and if that was kept, takes over what was set there.
pub(crate) fn follow(own: &Scope, sibling: &Scope, is_kept: bool) {
    let (settings, inherited, seen, unseen, temporary) = {
        let theirs = sibling.state();
        let temporary = is_kept.then(|| (theirs.temporary.fork(), theirs.inherited_temporary.clone()));
        (theirs.settings.clone(), theirs.inherited.clone(), theirs.seen, theirs.unseen, temporary)
    };
    let mut own = own.state();
    if let (Some(inherited), true) = (inherited, is_kept) {
        let is_changed = |name: &&str| settings.show(name).ok() != inherited.show(name).ok();
        Settings::names().filter(is_changed).for_each(|name| own.settings.copy(name, &settings));
    }
    if let Some(((tables, now), inherited)) = temporary {
        own.temporary.follow(tables, &now, &inherited);
    }
    own.seen = own.seen.max(seen);
    own.unseen = own.unseen.max(unseen);
}
