//! The door of a session: what clients call, and nothing else. Each method hands on to the part that does it.
//!
//! [`statements`] has what runs SQL, [`rows`] what takes rows of programs; who the session is for, its settings and how
//! its transaction stands are here.

mod rows;
mod statements;

use crate::clients::{Client, Registration};
use crate::engine::Engine;
use crate::report::Report;
use crate::session::prepared::describe::{self, DescribedBy};
use crate::session::run::runner::Runner;
use crate::session::settings;
use crate::session::state::cursors::Cursors;
use crate::session::state::scope::Scope;
use crate::session::state::sibling;
use crate::session::state::{State, TransactionStatus};
use crate::session::transaction::abandon;
use alluvia_access::LogIn;
use alluvia_catalog::authoriser::Who;
use alluvia_copy::progress::{CancelHandle, Progress};
use alluvia_types::Result;
use alluvia_values::time_zone::Zone;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A session. See the crate's documentation for an example.
#[derive(Debug)]
pub struct Session {
    runner: Runner,
    /// Lists the session as open until it is dropped.
    _place: Registration,
}

impl Engine {
    /// A new session. Cheap.
    pub fn session(self: &Arc<Engine>) -> Session {
        Session::new(Arc::clone(self), self.next_session_id())
    }
}

impl Session {
    fn new(engine: Arc<Engine>, id: u64) -> Session {
        let state = Arc::new(Mutex::new(State::new(&engine)));
        let cancel = CancelHandle::default();
        let start_micros = engine.read().clock().wall_micros();
        let place = engine.sessions().register(id, start_micros, cancel.clone(), Arc::clone(&state) as _);
        let scope = Scope { engine, id, state, cursors: Cursors::default(), entry: Arc::clone(&place.entry) };
        Session { runner: Runner::new(scope, cancel), _place: place }
    }

    fn scope(&self) -> &Scope {
        &self.runner.scope
    }

    /// The number by which `alluvia.queries` knows this session.
    pub fn id(&self) -> u64 {
        self.scope().id
    }

    /// States who the session is for: from now on it may what they may, and has the settings of their role. Whoever
    /// calls this has seen their password, or trusts them. Whoever it is, COPY names from now on only what servers'
    /// clients may ([`EngineOptions::served`](crate::EngineOptions::served)).
    pub fn introduce(&self, client: Client) {
        let who = self.scope().introduce(client);
        let catalog = self.scope().engine.read().catalog();
        let role = match who {
            Who::Role(id, _) => catalog.rights().role(id),
            who => catalog.rights().named(who.name()),
        };
        for (name, value) in role.iter().flat_map(|role| &role.settings) {
            // It was checked when it was set; a limit may have become lower since.
            if let Err(error) = self.start_with(name, value) {
                tracing::warn!(%error, name, "a setting of the role is left as it is");
            }
        }
    }

    /// Whether a server that lets somebody in under this name lets in whom the session is for: names go from role to
    /// role.
    pub fn is_still(&self, user: &str) -> bool {
        let now = self.scope().who(user);
        self.scope().state().who == now
    }

    /// As [`Engine::trusted`](crate::Engine::trusted), of whom the session was introduced to.
    pub fn trusted(&self, peer: IpAddr, kind: LogIn) -> BoxFuture<'static, ()> {
        let client = self.scope().client();
        self.scope().engine.trusted(&client.user, client.protocol, peer, kind)
    }

    /// Another session for the same client, with this one's settings, which sees what this one has read and written. It
    /// has no transaction and no cursors. Refused while a producer is set.
    pub fn sibling(&self) -> Result<Session> {
        let sibling = self.scope().engine.session();
        sibling::inherit(sibling.scope(), self.scope())?;
        Ok(sibling)
    }

    /// Sees from now on what a sibling has read and written, and if that was kept, takes over what was set there. For
    /// the end of its transaction.
    pub fn follow(&self, sibling: &Session, is_kept: bool) {
        sibling::follow(self.scope(), sibling.scope(), is_kept);
    }

    /// Where the session stands.
    pub fn transaction_status(&self) -> TransactionStatus {
        self.scope().state().transaction_status()
    }

    /// Whether the session is between BEGIN and the end of its transaction.
    pub fn in_transaction(&self) -> bool {
        self.scope().in_transaction()
    }

    /// Savepoints that the open transaction has, whether or not it has failed.
    pub fn savepoints(&self) -> usize {
        self.scope().state().savepoints()
    }

    /// Something outside of a statement went wrong (a protocol error, a value that cannot be read): an open transaction
    /// can only end, as after a statement's error.
    pub fn fail_transaction(&self) {
        self.scope().state().fail_transaction();
    }

    /// Rolls back a transaction that nobody goes on with. It can only be ended then, and its COMMIT is an error:
    /// whoever comes back to it is told, and nothing that was meant for it is committed by itself.
    pub fn abandon_transaction(&self) {
        abandon(self.scope());
    }

    /// What SHOW gives for a setting.
    pub fn setting_value(&self, name: &str) -> Result<String> {
        settings::value(self.scope(), name)
    }

    /// Sets a setting as the session begins: RESET goes back to this value.
    pub fn start_with(&self, name: &str, value: &str) -> Result<()> {
        settings::start_with(self.scope(), name, value)
    }

    /// Limits statements, unless a role or the client states another limit later: RESET goes back to this one. Zero is
    /// none. For sessions of clients whom nobody watches.
    pub fn limit_statements(&self, statement_timeout: Duration) {
        self.scope().state().limit_statements(statement_timeout);
    }

    /// What a statement that begins now may take; zero is no limit.
    pub fn statement_timeout(&self) -> Duration {
        self.scope().state().settings.statement_timeout
    }

    /// How long the session's transactions may wait for their next statement; zero is no limit. It is for whoever
    /// serves the session to end one that waits longer.
    pub fn idle_transaction_timeout(&self) -> Duration {
        self.scope().state().settings.idle_transaction_timeout
    }

    /// What descriptions of statements follow from now, beside their texts; `None` while the session has definitions of
    /// its own.
    pub fn described_by(&self) -> Option<DescribedBy> {
        describe::described_by(self.scope())
    }

    /// Whether they would follow from that now.
    pub fn describes_by(&self, by: &DescribedBy) -> bool {
        describe::describes_by(self.scope(), by)
    }

    /// What clocks of the session show: texts of moments are in this time zone.
    pub fn time_zone(&self) -> Zone {
        self.scope().state().settings.time_zone.clone()
    }

    /// Whether the session asks whoever shows answers to show refinements: the setting `progressive`.
    pub fn is_progressive(&self) -> bool {
        self.scope().state().settings.progressive
    }

    /// How often the client wants to be told how far a statement is; `None` if it does not.
    pub fn progress_interval(&self) -> Option<Duration> {
        let interval = self.scope().state().settings.progress;
        (!interval.is_zero()).then_some(interval)
    }

    /// Stops the running statement of this session from anywhere.
    pub fn cancel_handle(&self) -> CancelHandle {
        self.runner.cancel_handle()
    }

    /// What the running (or else the last) statement has done so far.
    pub fn progress(&self) -> Arc<Progress> {
        self.runner.progress()
    }

    /// How far the running statement is; `None` if none runs.
    pub fn report(&self) -> Option<Report> {
        self.runner.report()
    }
}
