//! What all statements of one session work with: the engine, the session's state, its cursors, its line among the open
//! sessions.
//!
//! Invariants:
//! - Rights and definitions are asked anew with each call; an [`Authoriser`] is of the moment in which it was asked
//!   for.
//! - Nothing that outlives a session's last statement holds its scope: a stream of rows holds the state alone.

use crate::clients::{Client, Entry};
use crate::engine::Engine;
use crate::execution::blocking::blocking;
use crate::session::state::cursors::Cursors;
use crate::session::state::temporary::is_temporary;
use crate::session::state::transaction::Transaction;
use crate::session::state::{State, failed_transaction};
use alluvia_catalog::authoriser::{Authoriser, Need, Who};
use alluvia_catalog::rights::Privilege;
use alluvia_catalog::{RelationName, SearchPath, TableEntry, ViewEntry};
use alluvia_copy::Held;
use alluvia_settings::SettingsNow;
use alluvia_types::{Error, ErrorKind, Result};
use parking_lot::{Mutex, MutexGuard};
use std::sync::Arc;

/// The parts of a session that its statements work with.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) engine: Arc<Engine>,
    /// The number by which `alluvia.queries` knows the session.
    pub(crate) id: u64,
    pub(crate) state: Arc<Mutex<State>>,
    pub(crate) cursors: Cursors,
    /// The session's line in `alluvia.sessions`.
    pub(crate) entry: Arc<Entry>,
}

impl Scope {
    /// The session's state, locked.
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Who the session is for, to others.
    pub(crate) fn client(&self) -> Client {
        self.entry.client.lock().clone()
    }

    /// States who the session is for, and gives what they are here. From now on it is a server's for a client.
    pub(crate) fn introduce(&self, client: Client) -> Who {
        let who = self.who(&client.user);
        *self.entry.client.lock() = client;
        let mut state = self.state();
        (state.who, state.is_served) = (who.clone(), true);
        who
    }

    /// The role or trusted name that somebody is whom a server lets in under this name now.
    pub(crate) fn who(&self, user: &str) -> Who {
        self.engine.trust().who(user, &self.engine)
    }

    /// What the session may, now.
    pub(crate) fn authoriser(&self) -> Authoriser {
        let newest = self.engine.read().catalog();
        let mut state = self.state.lock();
        // That another session made the transaction's own impossible is told where they are looked at.
        let catalog = state.definitions(&newest).unwrap_or(newest);
        state.authoriser(catalog)
    }

    /// What the session may, to resolve tables by its definitions; refused if the open transaction's own can no longer
    /// be.
    pub(crate) fn resolver(&self) -> Result<Authoriser> {
        let newest = self.engine.read().catalog();
        let mut state = self.state.lock();
        let catalog = state.definitions(&newest)?;
        Ok(state.authoriser(catalog))
    }

    /// Where names without a schema are looked up, now.
    pub(crate) fn path(&self) -> Arc<SearchPath> {
        let (stated, has_temporary) = {
            let state = self.state.lock();
            (Arc::clone(&state.settings.search_path), !state.temporary.is_empty())
        };
        if stated.is_default() && !has_temporary { stated } else { Arc::clone(self.authoriser().path()) }
    }

    /// The newest visible definition of a user table, or the open transaction's own, with near names if there is none;
    /// refused if the session may not use it for this.
    pub(crate) fn table_for(&self, need: Need, name: &RelationName) -> Result<Arc<TableEntry>> {
        let authoriser = self.resolver()?;
        if let Some(view) = authoriser.catalog().view(name, authoriser.path()) {
            return Err(no_table(need, &view.def.name));
        }
        let entry = authoriser.relation(name)?;
        authoriser.table(need, entry)?;
        Ok(Arc::clone(entry))
    }

    /// Refuses a view for what needs a table.
    pub(crate) fn refuse_view(&self, need: Need, name: &RelationName) -> Result<()> {
        match self.view(name)? {
            Some(view) => Err(no_table(need, &view.def.name)),
            None => Ok(()),
        }
    }

    /// The newest visible definition of a view, or the open transaction's own; `None` if the name is none of a view.
    pub(crate) fn view(&self, name: &RelationName) -> Result<Option<Arc<ViewEntry>>> {
        let authoriser = self.resolver()?;
        Ok(authoriser.catalog().view(name, authoriser.path()).cloned())
    }

    /// Whether a name means a temporary table of the session.
    pub(crate) fn is_temporary(&self, name: &RelationName) -> bool {
        let is_empty = self.state.lock().temporary.is_empty();
        !is_empty && self.resolver().is_ok_and(|all| all.relation(name).is_ok_and(|entry| is_temporary(entry.def.id)))
    }

    /// Whether the session is between BEGIN and the end of its transaction.
    pub(crate) fn in_transaction(&self) -> bool {
        !matches!(self.state.lock().transaction, Transaction::None)
    }

    /// Refuses everything while the transaction has failed.
    pub(crate) fn check_usable(&self) -> Result<()> {
        match self.state.lock().transaction {
            Transaction::Failed(_) => Err(failed_transaction()),
            _ => Ok(()),
        }
    }

    /// Refuses what writes in a session, or a transaction, that only reads.
    pub(crate) fn check_writable(&self, command: &str) -> Result<()> {
        if !self.state.lock().settings.is_read_only() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::ReadOnlyTransaction, format!("cannot execute {command} in a read-only transaction"))
            .with_hint(
                "BEGIN READ WRITE begins one that writes; SHOW default_transaction_read_only tells what others are",
            ))
    }

    /// The session's settings beside the database's, for `alluvia.settings`.
    pub(crate) fn settings_now(&self) -> SettingsNow {
        let database = self.engine.database_settings();
        let state = self.state.lock();
        SettingsNow { now: state.settings.clone(), defaults: state.defaults.clone(), database }
    }

    /// Waits until what this session wrote with relaxed durability is visible.
    pub(crate) async fn await_own_writes(&self) -> Result<()> {
        let Some(version) = self.state.lock().unseen else { return Ok(()) };
        let store = Arc::clone(self.engine.read());
        blocking(move || store.wait_visible(version)).await?;
        let mut state = self.state.lock();
        if state.unseen == Some(version) {
            state.unseen = None;
        }
        Ok(())
    }

    /// What a transaction may hold in memory.
    pub(crate) fn pending_bytes_max(&self) -> u64 {
        self.engine.admin().info().tail_bytes_max / 4
    }

    /// Nothing yet, of what the open transaction may be given by one statement.
    pub(crate) fn held(&self) -> Held {
        Held::new(self.pending_bytes_max())
    }
}

/// What a view is refused for where a table is needed.
fn no_table(need: Need, view: &str) -> Error {
    let doing = match need {
        Need::Privilege(Privilege::Insert) => "insert into",
        Need::Privilege(Privilege::Update) => "update",
        Need::Privilege(Privilege::Delete) => "delete from",
        _ => {
            return Error::new(ErrorKind::WrongObject, format!("\"{view}\" is not a table"))
                .with_hint("Use DROP VIEW to remove a view: its rows are computed when they are read.");
        }
    };
    Error::new(ErrorKind::ObjectState, format!("cannot {doing} view \"{view}\""))
        .with_detail("Views are not updatable.")
        .with_hint("change the table that it reads")
}
