//! Statements about the session itself: transactions, settings, procedures.

use crate::execution::blocking::blocking;
use crate::session::core::{Run, Session};
use crate::session::outcome::Outcome;
use crate::session::pending::conflict;
use crate::session::transaction::{OpenTransaction, Transaction};
use crate::settings::{DEFAULT_READ_ONLY, READ_ONLY, Settings};
use alluvia_snapshot::Want;
use alluvia_syntax::statement::{Access, Procedure, SettingCommand, SettingValue};
use alluvia_syntax::units::parse_switch;
use alluvia_types::{Error, ErrorKind, Freshness, Result, Stage};
use std::sync::Arc;
use std::time::Duration;

/// What `freshness` is to an open transaction.
const PINNED: &str = "reads of a transaction are at its BEGIN; freshness takes effect after it";

/// DEALLOCATE, in a session whose caller has prepared nothing.
pub(crate) fn deallocate(name: Option<&str>) -> Result<Outcome> {
    match name {
        None => Ok(Outcome::done("DEALLOCATE ALL")),
        Some(name) => Err(Error::new(ErrorKind::UndefinedStatement, format!("there is no prepared statement {name}"))),
    }
}

fn not_reset() -> Error {
    Error::new(ErrorKind::InvalidSetting, format!("{READ_ONLY} cannot be reset"))
        .with_hint("SET TRANSACTION READ ONLY sets it, and READ WRITE before the first query")
}

impl Session {
    /// BEGIN: pins the version that the transaction reads.
    pub(crate) async fn begin(&self, access: Option<Access>) -> Result<Outcome> {
        if self.in_transaction() {
            return Err(Error::new(ErrorKind::Transaction, "a transaction is open already")
                .with_hint("COMMIT or ROLLBACK it first; transactions do not nest"));
        }
        self.await_own_writes().await?;
        let (freshness, at_least) = {
            let state = self.state.lock();
            (state.settings.freshness.unwrap_or(Freshness::Within(Duration::ZERO)), state.seen)
        };
        let tables = Vec::new();
        let snapshot = self.engine.read().snapshot(&Want { freshness, at_least, exactly: None, tables })?;
        let mut state = self.state.lock();
        state.seen = state.seen.max(snapshot.version);
        let open = OpenTransaction::new(snapshot.version, state.settings.clone());
        state.transaction = Transaction::Open(Box::new(open));
        let is_read_only = access.map_or(state.settings.default_read_only, |access| access == Access::ReadOnly);
        state.settings.read_only = Some(is_read_only);
        Ok(Outcome::done("BEGIN"))
    }

    /// COMMIT: one batch. After an error, it is a ROLLBACK that says so.
    pub(crate) async fn commit(&self, run: &Arc<Run>) -> Result<Outcome> {
        let transaction = {
            let mut state = self.state.lock();
            state.settings.read_only = None;
            std::mem::take(&mut state.transaction)
        };
        self.cursors.end_transaction();
        match transaction {
            Transaction::None => {
                Err(Error::new(ErrorKind::Transaction, "there is no transaction to commit")
                    .with_hint("BEGIN opens one"))
            }
            Transaction::Failed(failed) if failed.is_abandoned => {
                self.state.lock().settings = failed.settings_before;
                Err(Error::new(
                    ErrorKind::FailedTransaction,
                    "the transaction was not used for too long, and has been rolled back",
                )
                .with_hint("begin another; the server's transaction_idle_timeout says how long it may wait"))
            }
            Transaction::Failed(failed) => {
                self.state.lock().settings = failed.settings_before;
                Ok(Outcome::done("ROLLBACK").with_notice("the transaction had failed, and was rolled back"))
            }
            Transaction::Open(mut open) => {
                let locals = std::mem::take(&mut open.locals);
                let settings_before = open.settings_before.clone();
                let result = self.commit_open(run, *open).await;
                let mut state = self.state.lock();
                match result {
                    Ok(()) => {
                        for (name, before) in locals {
                            state.settings.copy(name, &before);
                        }
                        Ok(Outcome::done("COMMIT"))
                    }
                    Err(error) => {
                        // Nothing of it was committed: the transaction is over.
                        state.settings = settings_before;
                        Err(error)
                    }
                }
            }
        }
    }

    /// Commits what there is in a transaction.
    async fn commit_open(&self, run: &Run, open: OpenTransaction) -> Result<()> {
        open.check_rights(&self.authoriser())?;
        let (batch, definers) = open.into_batch()?;
        if batch.rows.is_empty() && batch.changes.is_empty() {
            return Ok(());
        }
        self.submit_of(run, batch, &definers).await.map(|_| ()).map_err(conflict)
    }

    /// ROLLBACK: as if the transaction had not been, its SETs included.
    pub(crate) fn rollback(&self) -> Result<Outcome> {
        self.cursors.end_transaction();
        let mut state = self.state.lock();
        match std::mem::take(&mut state.transaction) {
            Transaction::None => {
                Err(Error::new(ErrorKind::Transaction, "there is no transaction to roll back")
                    .with_hint("BEGIN opens one"))
            }
            Transaction::Open(open) | Transaction::Failed(open) => {
                state.settings = open.settings_before;
                Ok(Outcome::done("ROLLBACK"))
            }
        }
    }

    /// Rolls back a transaction that nobody goes on with. It can only be ended then, and its COMMIT is an error: whoever comes back to it
    /// is told, and nothing that was meant for it is committed by itself.
    pub fn abandon_transaction(&self) {
        self.cursors.end_transaction();
        let mut state = self.state.lock();
        let open = match std::mem::take(&mut state.transaction) {
            Transaction::None => return,
            Transaction::Open(open) | Transaction::Failed(open) => open,
        };
        state.settings = open.settings_before.clone();
        state.transaction = Transaction::Failed(Box::new(open.abandoned()));
    }

    /// SET, SHOW, RESET.
    pub(crate) fn setting(&self, command: SettingCommand) -> Result<Outcome> {
        match command {
            SettingCommand::Show(name) => {
                let rows = self.shown(&name)?;
                Ok(Outcome::table("SHOW", &[rows.0.as_str()], vec![vec![Some(rows.1)]]))
            }
            SettingCommand::ShowAll => {
                use crate::system::SettingsView;
                let rows = self.settings_now().settings();
                let rows = rows.into_iter().map(|row| vec![Some(row.name), Some(row.value), Some(row.description)]);
                Ok(Outcome::table("SHOW", &["name", "setting", "description"], rows.collect()))
            }
            SettingCommand::Set { name, value, .. } if name == READ_ONLY => {
                let SettingValue::Text(text) = &value else { return Err(not_reset()) };
                let access = match parse_switch(text.trim()) {
                    Some(true) => Access::ReadOnly,
                    Some(false) => Access::ReadWrite,
                    None => {
                        return Err(Error::new(ErrorKind::InvalidSetting, format!("{name} cannot be {text:?}"))
                            .with_hint("it takes on or off"));
                    }
                };
                self.set_transaction(access)
            }
            SettingCommand::Set { name, value, local } => {
                self.check_role(&name, &value)?;
                let mut state = self.state.lock();
                let name = Settings::canonical(&name)?;
                let is_pinned = name == "freshness" && matches!(state.transaction, Transaction::Open(_));
                if is_pinned && local {
                    return Err(Error::new(
                        ErrorKind::NotSupported,
                        "SET LOCAL freshness inside a transaction is not supported",
                    )
                    .with_hint(PINNED));
                }
                let mut changed = state.settings.clone();
                changed.set(name, &value, &state.defaults)?;
                let before = std::mem::replace(&mut state.settings, changed);
                let Transaction::Open(open) = &mut state.transaction else {
                    return Ok(match local {
                        true => {
                            state.settings = before;
                            Outcome::done("SET").with_notice("SET LOCAL has no effect outside of a transaction")
                        }
                        false => Outcome::done("SET"),
                    });
                };
                let known = open.locals.iter().position(|(other, _)| *other == name);
                match (local, known) {
                    (true, None) => open.locals.push((name, before)),
                    (false, Some(known)) => drop(open.locals.remove(known)),
                    _ => {}
                }
                let outcome = Outcome::done("SET");
                Ok(if is_pinned { outcome.with_notice(PINNED) } else { outcome })
            }
            SettingCommand::Reset(name) if name == READ_ONLY => Err(not_reset()),
            SettingCommand::Reset(name) => {
                let mut state = self.state.lock();
                let defaults = state.defaults.clone();
                let name = Settings::canonical(&name)?;
                state.settings.copy(name, &defaults);
                let is_pinned = name == "freshness" && matches!(state.transaction, Transaction::Open(_));
                let outcome = Outcome::done("RESET");
                Ok(if is_pinned { outcome.with_notice(PINNED) } else { outcome })
            }
            SettingCommand::Modes { access: None, .. } => Ok(Outcome::done("SET")),
            SettingCommand::Modes { access: Some(access), of_session: true } => {
                let value = if access == Access::ReadOnly { "on" } else { "off" };
                let (name, value) = (DEFAULT_READ_ONLY.to_owned(), SettingValue::Text(value.to_owned()));
                self.setting(SettingCommand::Set { name, value, local: false })
            }
            SettingCommand::Modes { access: Some(access), of_session: false } => self.set_transaction(access),
            SettingCommand::ResetAll => {
                let mut state = self.state.lock();
                // As in PostgreSQL, the role stays, and what the open transaction is.
                let (role, read_only) = (Arc::clone(&state.settings.role), state.settings.read_only);
                state.settings = state.defaults.clone();
                (state.settings.role, state.settings.read_only) = (role, read_only);
                Ok(Outcome::done("RESET"))
            }
        }
    }

    /// SET TRANSACTION READ ONLY, READ WRITE: of the open transaction.
    fn set_transaction(&self, access: Access) -> Result<Outcome> {
        let mut state = self.state.lock();
        let Transaction::Open(open) = &state.transaction else {
            return Ok(Outcome::done("SET").with_notice("SET TRANSACTION has no effect outside of a transaction"));
        };
        // What it has read so far was asked for by who wanted nothing written.
        if access == Access::ReadWrite && open.has_run && state.settings.is_read_only() {
            return Err(Error::new(ErrorKind::Transaction, "READ WRITE must be set before the first query")
                .with_hint("COMMIT or ROLLBACK, and BEGIN READ WRITE"));
        }
        state.settings.read_only = Some(access == Access::ReadOnly);
        Ok(Outcome::done("SET"))
    }

    /// Refuses to act as a role that the session is not in.
    fn check_role(&self, name: &str, value: &SettingValue) -> Result<()> {
        match value {
            SettingValue::Text(role) if name.eq_ignore_ascii_case("role") => {
                self.authoriser().acting_as(role.trim()).role().map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// What SHOW gives for a setting.
    pub fn setting_value(&self, name: &str) -> Result<String> {
        Ok(self.shown(name)?.1)
    }

    /// Sets a setting as the session begins: RESET goes back to this value.
    pub fn start_with(&self, name: &str, value: &str) -> Result<()> {
        self.check_role(name, &SettingValue::Text(value.to_owned()))?;
        let mut state = self.state.lock();
        let mut changed = state.settings.clone();
        changed.set(&name.to_ascii_lowercase(), &SettingValue::Text(value.to_owned()), &state.defaults)?;
        // Whether an open transaction only reads is no default.
        state.defaults = Settings { read_only: None, ..changed.clone() };
        state.settings = changed;
        Ok(())
    }

    /// Limits statements, unless a role or the client states another limit later: RESET goes back to this one. Zero is none. For
    /// sessions of clients whom nobody watches.
    pub fn limit_statements(&self, statement_timeout: Duration) {
        let mut state = self.state.lock();
        state.settings.statement_timeout = statement_timeout;
        state.defaults.statement_timeout = statement_timeout;
    }

    /// What a statement that begins now may take; zero is no limit.
    pub fn statement_timeout(&self) -> Duration {
        self.state.lock().settings.statement_timeout
    }

    /// How long the session's transactions may wait for their next statement; zero is no limit. It is for whoever serves the session
    /// to end one that waits longer.
    pub fn idle_transaction_timeout(&self) -> Duration {
        self.state.lock().settings.idle_transaction_timeout
    }

    /// DISCARD ALL.
    pub(crate) fn discard(&self) -> Result<Outcome> {
        self.cursors.clear();
        let mut state = self.state.lock();
        state.settings = state.defaults.clone();
        Ok(Outcome::done("DISCARD ALL"))
    }

    /// A setting's canonical name and value; the database's own can be shown too.
    fn shown(&self, name: &str) -> Result<(String, String)> {
        let known = Settings::canonical(name);
        match known {
            // What follows from who the session is for.
            Ok(canonical @ "is_superuser") => {
                let shown = if self.authoriser().is_superuser() { "on" } else { "off" };
                Ok((canonical.to_owned(), shown.to_owned()))
            }
            Ok(canonical @ "session_authorization") => {
                Ok((canonical.to_owned(), self.authoriser().session_user().to_owned()))
            }
            Ok(canonical) => Ok((canonical.to_owned(), self.state.lock().settings.show(canonical)?)),
            Err(error) => {
                let database = self.engine.database_settings().into_iter().find(|row| row.name == name);
                database.map(|row| (row.name, row.value)).ok_or(error)
            }
        }
    }

    /// CALL.
    pub(crate) async fn call(&self, procedure: Procedure) -> Result<Outcome> {
        self.await_own_writes().await?;
        let stage = match procedure {
            Procedure::Flush => Stage::Sorted,
            Procedure::Merge => Stage::Merged,
            Procedure::BuildCuboids => {
                let engine = Arc::clone(&self.engine);
                blocking(move || {
                    while engine.tend_cuboids()? {}
                    Ok(())
                })
                .await?;
                return Ok(Outcome::done("CALL"));
            }
            Procedure::PinCuboid(name) => return self.pin_cuboid(name).await,
            Procedure::UnpinCuboid(name) => return self.unpin_cuboid(name, false).await,
            Procedure::Cancel(id) => {
                let authoriser = self.authoriser();
                self.engine.sessions().cancel(id, |who| match authoriser.sees(who) {
                    true => Ok(()),
                    false => authoriser.superuser("cancel another's statement"),
                })?;
                return Ok(Outcome::done("CALL"));
            }
            Procedure::DropCuboid(name) => return self.unpin_cuboid(name, true).await,
        };
        let admin = Arc::clone(self.engine.admin());
        blocking(move || admin.organise(stage)).await?;
        Ok(Outcome::done("CALL"))
    }
}
