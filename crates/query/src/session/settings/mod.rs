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
use crate::session::transaction::set_modes;
use alluvia_catalog::authoriser::Authoriser;
use alluvia_settings::{DEFAULT_ISOLATION, DEFAULT_READ_ONLY, ISOLATION, ISOLATION_LEVELS, READ_ONLY, Settings};
use alluvia_syntax::statement::{Access, Discard, Isolation, Modes, SettingCommand, SettingValue};
use alluvia_syntax::units::parse_switch;
use alluvia_types::{Error, ErrorKind, Result};
use parking_lot::Mutex;

/// What `freshness` is to an open transaction whose statements read one version.
const PINNED: &str = "reads of a transaction are at its BEGIN; freshness takes effect after it";

fn not_reset(name: &str) -> Error {
    Error::new(ErrorKind::InvalidSetting, format!("{name} cannot be reset"))
        .with_hint("SET TRANSACTION sets it, before the first query")
}

/// Whether what the open transaction reads is settled.
fn is_pinned(state: &State) -> bool {
    matches!(&state.transaction, Transaction::Open(open) if open.version().is_some())
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
        SettingCommand::Reset(name) if [READ_ONLY, ISOLATION].contains(&name.as_str()) => Err(not_reset(&name)),
        SettingCommand::Reset(name) => {
            let mut state = scope.state.lock();
            let defaults = state.defaults.clone();
            let name = Settings::canonical(&name)?;
            state.settings.copy(name, &defaults);
            let is_pinned = name == "freshness" && is_pinned(&state);
            let outcome = Outcome::done("RESET");
            Ok(if is_pinned { outcome.with_notice(PINNED) } else { outcome })
        }
        SettingCommand::Modes { modes: Modes { access, isolation }, of_session: true } => {
            let access =
                access.map(|access| (DEFAULT_READ_ONLY, if access == Access::ReadOnly { "on" } else { "off" }));
            let isolation = isolation.map(|isolation| (DEFAULT_ISOLATION, isolation.name()));
            for (name, value) in access.into_iter().chain(isolation) {
                assign(&scope.engine, &scope.state, name, &SettingValue::Text(value.to_owned()), false)?;
            }
            Ok(Outcome::done("SET"))
        }
        SettingCommand::Modes { modes, of_session: false } => {
            let outcome = Outcome::done("SET");
            Ok(match set_modes(&scope.engine, &mut scope.state.lock(), modes)? {
                Some(notice) => outcome.with_notice(notice),
                None => outcome,
            })
        }
        SettingCommand::ResetAll => {
            let mut state = scope.state.lock();
            // As in PostgreSQL, the role stays, and what the open transaction is.
            let Settings { role, read_only, isolation, .. } = state.settings.clone();
            state.settings = Settings { role, read_only, isolation, ..state.defaults.clone() };
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

/// What a setting says of the open transaction, if it is one that does.
fn modes_of(name: &str, value: &SettingValue) -> Result<Option<Modes>> {
    let takes = match name {
        READ_ONLY => "on or off",
        ISOLATION => ISOLATION_LEVELS,
        _ => return Ok(None),
    };
    let SettingValue::Text(text) = value else { return Err(not_reset(name)) };
    let modes = match name {
        READ_ONLY => parse_switch(text.trim()).map(|is_read_only| {
            let access = if is_read_only { Access::ReadOnly } else { Access::ReadWrite };
            Modes { access: Some(access), ..Modes::default() }
        }),
        _ => Isolation::of_name(text.trim()).map(|isolation| Modes { isolation: Some(isolation), ..Modes::default() }),
    };
    modes.map(Some).ok_or_else(|| {
        Error::new(ErrorKind::InvalidSetting, format!("{name} cannot be {text:?}"))
            .with_hint(format!("it takes {takes}"))
    })
}

/// SET, and SET LOCAL.
pub(crate) fn assign(
    engine: &Engine,
    state: &Mutex<State>,
    name: &str,
    value: &SettingValue,
    local: bool,
) -> Result<Assigned> {
    if let Some(modes) = modes_of(name, value)? {
        let mut state = state.lock();
        let notice = set_modes(engine, &mut state, modes)?;
        return Ok(Assigned { shown: state.settings.show(name)?, notice });
    }
    check_role(engine, state, name, value)?;
    let mut state = state.lock();
    let name = Settings::canonical(name)?;
    let is_pinned = name == "freshness" && is_pinned(&state);
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
    state.defaults = Settings { read_only: None, isolation: None, ..changed.clone() };
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
