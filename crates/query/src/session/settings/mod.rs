//! SET, SHOW, RESET, DISCARD: the settings of a session.
//!
//! Invariants:
//! - A setting is checked before it is taken; what is refused changes nothing.
//! - RESET goes back to what the session began with.

pub(crate) mod configured;

use crate::engine::Engine;
use crate::session::run::outcome::Outcome;
use crate::session::state::State;
use crate::session::state::scope::Scope;
use crate::session::state::transaction::Transaction;
use crate::session::transaction::set_access;
use crate::settings::{DEFAULT_READ_ONLY, READ_ONLY, Settings};
use alluvia_catalog::authoriser::Authoriser;
use alluvia_syntax::statement::{Access, Discard, SettingCommand, SettingValue};
use alluvia_syntax::units::parse_switch;
use alluvia_types::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::sync::Arc;

/// What `freshness` is to an open transaction.
const PINNED: &str = "reads of a transaction are at its BEGIN; freshness takes effect after it";

fn not_reset() -> Error {
    Error::new(ErrorKind::InvalidSetting, format!("{READ_ONLY} cannot be reset"))
        .with_hint("SET TRANSACTION READ ONLY sets it, and READ WRITE before the first query")
}

/// SET, SHOW, RESET.
pub(crate) fn setting(scope: &Scope, command: SettingCommand) -> Result<Outcome> {
    match command {
        SettingCommand::Show(name) => {
            let rows = shown_of(&scope.engine, &scope.state, &name)?;
            Ok(Outcome::table("SHOW", &[rows.0.as_str()], vec![vec![Some(rows.1)]]))
        }
        SettingCommand::ShowAll => {
            use alluvia_pg_catalog::SettingsView;
            let rows = scope.settings_now().settings();
            let rows = rows.into_iter().map(|row| vec![Some(row.name), Some(row.value), Some(row.description)]);
            Ok(Outcome::table("SHOW", &["name", "setting", "description"], rows.collect()))
        }
        SettingCommand::Set { name, value, local } => {
            let Assigned { notice, .. } = assign(&scope.engine, &scope.state, &name, &value, local)?;
            let outcome = Outcome::done("SET");
            Ok(match notice {
                Some(notice) => outcome.with_notice(notice),
                None => outcome,
            })
        }
        SettingCommand::Reset(name) if name == READ_ONLY => Err(not_reset()),
        SettingCommand::Reset(name) => {
            let mut state = scope.state.lock();
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
            setting(scope, SettingCommand::Set { name, value, local: false })
        }
        SettingCommand::Modes { access: Some(access), of_session: false } => {
            let outcome = Outcome::done("SET");
            Ok(match set_access(&mut scope.state.lock(), access)? {
                Some(notice) => outcome.with_notice(notice),
                None => outcome,
            })
        }
        SettingCommand::ResetAll => {
            let mut state = scope.state.lock();
            // As in PostgreSQL, the role stays, and what the open transaction is.
            let (role, read_only) = (Arc::clone(&state.settings.role), state.settings.read_only);
            state.settings = state.defaults.clone();
            (state.settings.role, state.settings.read_only) = (role, read_only);
            Ok(Outcome::done("RESET"))
        }
    }
}

/// What became of a setting.
pub(crate) struct Assigned {
    /// Its value, as SHOW prints it.
    shown: String,
    /// What the client is told.
    notice: Option<&'static str>,
}

/// SET, and SET LOCAL.
pub(crate) fn assign(
    engine: &Engine,
    state: &Mutex<State>,
    name: &str,
    value: &SettingValue,
    local: bool,
) -> Result<Assigned> {
    if name == READ_ONLY {
        let SettingValue::Text(text) = value else { return Err(not_reset()) };
        let access = match parse_switch(text.trim()) {
            Some(true) => Access::ReadOnly,
            Some(false) => Access::ReadWrite,
            None => {
                return Err(Error::new(ErrorKind::InvalidSetting, format!("{name} cannot be {text:?}"))
                    .with_hint("it takes on or off"));
            }
        };
        let mut state = state.lock();
        let notice = set_access(&mut state, access)?;
        return Ok(Assigned { shown: state.settings.show(name)?, notice });
    }
    check_role(engine, state, name, value)?;
    let mut state = state.lock();
    let name = Settings::canonical(name)?;
    let is_pinned = name == "freshness" && matches!(state.transaction, Transaction::Open(_));
    if is_pinned && local {
        return Err(Error::new(ErrorKind::NotSupported, "SET LOCAL freshness inside a transaction is not supported")
            .with_hint(PINNED));
    }
    let mut changed = state.settings.clone();
    changed.set(name, value, &state.defaults)?;
    let shown = changed.show(name)?;
    let before = std::mem::replace(&mut state.settings, changed);
    let Transaction::Open(open) = &mut state.transaction else {
        let notice = local.then_some("SET LOCAL has no effect outside of a transaction");
        if local {
            state.settings = before;
        }
        return Ok(Assigned { shown, notice });
    };
    let known = open.locals.iter().position(|(other, _)| *other == name);
    match (local, known) {
        (true, None) => open.locals.push((name, before)),
        (false, Some(known)) => drop(open.locals.remove(known)),
        _ => {}
    }
    Ok(Assigned { shown, notice: is_pinned.then_some(PINNED) })
}

/// Refuses to act as a role that the session is not in.
fn check_role(engine: &Engine, state: &Mutex<State>, name: &str, value: &SettingValue) -> Result<()> {
    match value {
        SettingValue::Text(role) if name.eq_ignore_ascii_case("role") => {
            authoriser_of(engine, state).acting_as(role.trim()).role().map(|_| ())
        }
        _ => Ok(()),
    }
}

/// What the session may, now.
fn authoriser_of(engine: &Engine, state: &Mutex<State>) -> Authoriser {
    let newest = engine.read().catalog();
    let mut state = state.lock();
    let catalog = state.definitions(&newest).unwrap_or(newest);
    state.authoriser(catalog)
}

/// What SHOW gives for a setting.
pub(crate) fn value(scope: &Scope, name: &str) -> Result<String> {
    Ok(shown_of(&scope.engine, &scope.state, name)?.1)
}

/// Sets a setting as the session begins: RESET goes back to this value.
pub(crate) fn start_with(scope: &Scope, name: &str, value: &str) -> Result<()> {
    check_role(&scope.engine, &scope.state, name, &SettingValue::Text(value.to_owned()))?;
    let mut state = scope.state.lock();
    let mut changed = state.settings.clone();
    changed.set(&name.to_ascii_lowercase(), &SettingValue::Text(value.to_owned()), &state.defaults)?;
    // Whether an open transaction only reads is no default.
    state.defaults = Settings { read_only: None, ..changed.clone() };
    state.settings = changed;
    Ok(())
}

/// DISCARD.
pub(crate) fn discard(scope: &Scope, what: Discard) -> Outcome {
    if what == Discard::All {
        scope.cursors.clear();
        scope.engine.sessions().locks().unlock_all(scope.id);
    }
    let mut state = scope.state.lock();
    if what == Discard::All {
        state.settings = state.defaults.clone();
    }
    if matches!(what, Discard::All | Discard::Sequences) {
        state.sequences.clear();
        state.last_sequence = None;
    }
    if matches!(what, Discard::All | Discard::Temporary) {
        state.temporary.drop_all();
    }
    Outcome::done(match what {
        Discard::All => "DISCARD ALL",
        Discard::Plans => "DISCARD PLANS",
        Discard::Sequences => "DISCARD SEQUENCES",
        Discard::Temporary => "DISCARD TEMP",
    })
}

/// A setting's canonical name and value; the database's own can be shown too.
pub(crate) fn shown_of(engine: &Engine, state: &Mutex<State>, name: &str) -> Result<(String, String)> {
    let known = Settings::canonical(name);
    match known {
        // What follows from who the session is for.
        Ok(canonical @ "is_superuser") => {
            let shown = if authoriser_of(engine, state).is_superuser() { "on" } else { "off" };
            Ok((canonical.to_owned(), shown.to_owned()))
        }
        Ok(canonical @ "session_authorization") => {
            Ok((canonical.to_owned(), authoriser_of(engine, state).session_user().to_owned()))
        }
        Ok(canonical) => Ok((canonical.to_owned(), state.lock().settings.show(canonical)?)),
        Err(error) => {
            let database = engine.database_settings().into_iter().find(|row| row.name == name);
            database.map(|row| (row.name, row.value)).ok_or(error)
        }
    }
}
