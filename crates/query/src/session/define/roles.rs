//! CREATE, ALTER and DROP ROLE, GRANT, REVOKE, ALTER TABLE ... OWNER TO.
//!
//! Names are looked up in the newest definitions, and the changes committed as a batch like any DDL; GRANT and REVOKE are
//! also part of a transaction. Who may:
//! superusers; beside them owners grant on their tables, and everybody changes their own password and settings.

use crate::engine::Engine;
use crate::execution::blocking::blocking;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::transaction::submit::change;
use alluvia_access::Verifier;
use alluvia_catalog::authoriser::{Authoriser, Need, role_named};
use alluvia_catalog::rights::{
    BOOTSTRAP, BUILT_IN, NewPassword, Object, PUBLIC, Privilege, Privileges, RightsChange, RoleId, Secret,
};
use alluvia_catalog::{Change, PUBLIC_SCHEMA_ID, TableEntry, ViewEntry};
use alluvia_settings::Settings;
use alluvia_space::PUBLIC_SCHEMA;
use alluvia_syntax::statement::SettingValue;
use alluvia_syntax::statements::roles::{Grant, GrantOn, RoleName, RoleOptions, RoleStatement};
use alluvia_types::{Error, ErrorKind, Result, TableId};
use std::sync::Arc;

/// Settings that a session must not begin with: they are about what it does next.
const NOT_FOR_ROLES: [&str; 4] = ["role", "producer", "producer_epoch", "producer_sequence"];
/// Names that mean something else.
const RESERVED: [&str; 5] = ["public", "none", "current_user", "current_role", "session_user"];
const ROLE_NAME_BYTES_MAX: usize = 63;

/// What statements about roles do.
pub(crate) async fn role_statement(run: &Arc<Run>, statement: RoleStatement) -> Result<Outcome> {
    let authoriser = run.scope.authoriser();
    let (tag, changes, notices) = match statement {
        RoleStatement::Create { name, options } => {
            authoriser.superuser("create a role")?;
            check_name(&name)?;
            let RoleOptions { login, superuser, password, member_of } = options;
            let verifier = match password.flatten() {
                Some(password) => Some(verifier(password).await?),
                None => None,
            };
            let member_of = member_of.iter().map(|role| group_of(&authoriser, role)).collect::<Result<_>>()?;
            let (login, superuser) = (login.unwrap_or(false), superuser.unwrap_or(false));
            ("CREATE ROLE", vec![RightsChange::CreateRole { name, login, superuser, verifier, member_of }], Vec::new())
        }
        RoleStatement::Alter { name, options } => {
            let id = role_of(&authoriser, &name)?;
            let RoleOptions { login, superuser, password, .. } = options;
            let only_password = login.is_none() && superuser.is_none();
            if !(only_password && authoriser.role()? == id) {
                authoriser.superuser("alter another role, or more of one's own than its password and settings")?;
            }
            refuse_built_in(id, "altered")?;
            let password = match password {
                None => None,
                Some(None) => Some(NewPassword::None),
                Some(Some(password)) => Some(NewPassword::Verifier(verifier(password).await?)),
            };
            ("ALTER ROLE", vec![RightsChange::AlterRole { id, name: None, login, superuser, password }], Vec::new())
        }
        RoleStatement::Rename { name, to } => {
            authoriser.superuser("rename a role")?;
            let id = role_of(&authoriser, &name)?;
            refuse_built_in(id, "renamed")?;
            check_name(&to)?;
            let (login, superuser, password) = (None, None, None);
            ("ALTER ROLE", vec![RightsChange::AlterRole { id, name: Some(to), login, superuser, password }], Vec::new())
        }
        RoleStatement::Set { name, setting, value } => {
            let id = own_or_any(&authoriser, &name)?;
            let setting = check_role_setting(run.engine(), &setting, value.as_deref())?.to_owned();
            ("ALTER ROLE", vec![RightsChange::SetForRole { id, name: setting, value }], Vec::new())
        }
        RoleStatement::ResetAll { name } => {
            ("ALTER ROLE", vec![RightsChange::ResetForRole { id: own_or_any(&authoriser, &name)? }], Vec::new())
        }
        RoleStatement::Drop { names, if_exists } => {
            authoriser.superuser("drop a role")?;
            let (mut changes, mut notices) = (Vec::new(), Vec::new());
            for name in names {
                match role_named(authoriser.catalog().rights(), &name) {
                    Ok(id) if id == authoriser.role()? => {
                        return Err(Error::new(ErrorKind::InvalidDefinition, "the current role cannot be dropped")
                            .with_hint("RESET ROLE, or let another superuser do it"));
                    }
                    Ok(id) if changes.contains(&RightsChange::DropRole { id }) => {}
                    Ok(id) => changes.push(RightsChange::DropRole { id }),
                    Err(_) if if_exists => notices.push(format!("there is no role '{name}' to drop")),
                    Err(error) => return Err(error),
                }
            }
            ("DROP ROLE", changes, notices)
        }
        RoleStatement::Join { roles, members } => {
            authoriser.superuser("grant a role")?;
            let join = |role, member| RightsChange::Join { role, member };
            ("GRANT ROLE", pairs(&authoriser, &roles, &members, join)?, Vec::new())
        }
        RoleStatement::Leave { roles, members } => {
            authoriser.superuser("revoke a role")?;
            let leave = |role, member| RightsChange::Leave { role, member };
            ("REVOKE ROLE", pairs(&authoriser, &roles, &members, leave)?, Vec::new())
        }
        RoleStatement::Grant { grant, to } => {
            let change = |(on, privileges), to| RightsChange::Grant { on, privileges, to };
            let changes = on_objects(&authoriser, &grant, &to, change)?;
            let notice = is_of_public(&grant).then(|| "schema public may be used by everybody".to_owned());
            ("GRANT", changes, notice.into_iter().collect())
        }
        RoleStatement::Revoke { grant, from } => {
            let usage = Privileges::NONE.with(Privilege::Usage);
            if is_of_public(&grant) && grant.privileges == usage {
                return Err(Error::new(ErrorKind::NotSupported, "REVOKE USAGE of schema public is not supported")
                    .with_hint("revoke what may be done with its tables, or put them into another schema"));
            }
            let revoke = |(on, privileges), from| RightsChange::Revoke { on, privileges, from };
            ("REVOKE", on_objects(&authoriser, &grant, &from, revoke)?, Vec::new())
        }
    };
    if !changes.is_empty() {
        change_rights(run, changes).await?;
    }
    Ok(notices.into_iter().fold(Outcome::done(tag), Outcome::with_notice))
}

async fn change_rights(run: &Arc<Run>, changes: Vec<RightsChange>) -> Result<()> {
    change(run, changes.into_iter().map(|change| Change::Rights { change }).collect()).await
}

/// ALTER TABLE or VIEW ... OWNER TO, of a relation that is the session's to change.
pub(crate) async fn give(run: &Arc<Run>, table: TableId, owner: &RoleName, tag: &'static str) -> Result<Outcome> {
    let authoriser = run.scope.authoriser();
    let owner = role_of(&authoriser, owner)?;
    // Else whoever gets it would answer for rows that somebody else wrote.
    if !authoriser.catalog().rights().is_in(authoriser.role()?, owner) {
        authoriser.superuser("give a table to a role that one is not in")?;
    }
    change_rights(run, vec![RightsChange::Own { table, owner }]).await?;
    Ok(Outcome::done(tag))
}

/// The setting's canonical name, if roles may have it, and that value.
fn check_role_setting(engine: &Engine, name: &str, value: Option<&str>) -> Result<&'static str> {
    let name = Settings::canonical(name)?;
    if NOT_FOR_ROLES.contains(&name) {
        return Err(Error::new(ErrorKind::InvalidSetting, format!("{name} cannot be set for a role"))
            .with_hint("a session sets it by itself"));
    }
    if let Some(value) = value {
        let defaults = engine.default_settings();
        defaults.clone().set(name, &SettingValue::Text(value.to_owned()), &defaults)?;
    }
    Ok(name)
}

/// What is kept of a password. One that comes as what would be kept is kept as it is, if it costs no more than ours do
/// by much: everybody sets their own.
async fn verifier(password: Secret) -> Result<Secret> {
    let text = password.reveal();
    if text.is_empty() {
        return Err(
            Error::new(ErrorKind::InvalidValue, "an empty password is none").with_hint("PASSWORD NULL takes it away")
        );
    }
    if let Some(known) = Verifier::given(text)? {
        return Ok(Secret::new(known.to_string()));
    }
    // Takes milliseconds, on purpose.
    blocking(move || Ok(Secret::new(Verifier::new(password.reveal())?.to_string()))).await
}

fn check_name(name: &str) -> Result<()> {
    let wrong = |what: &str| {
        Err(Error::new(ErrorKind::InvalidDefinition, format!("a role cannot be called {name:?}"))
            .with_hint(what.to_owned()))
    };
    match name {
        _ if RESERVED.contains(&name) => wrong("the word means something else"),
        _ if name.starts_with("pg_") => wrong("names that begin with pg_ are those of built-in roles"),
        _ if name.is_empty() || name.len() > ROLE_NAME_BYTES_MAX => wrong("a name has 1 to 63 bytes"),
        _ if name.chars().any(|c| c.is_control() || c == ':') => wrong("a name has no colon and no control characters"),
        _ => Ok(()),
    }
}

fn refuse_built_in(id: RoleId, what: &str) -> Result<()> {
    match BUILT_IN.iter().find(|(known, _)| *known == id) {
        Some((_, name)) => {
            Err(Error::new(ErrorKind::InvalidDefinition, format!("role '{name}' is built in, and cannot be {what}"))
                .with_hint("the password of the first user is set by alluvia serve --set-password"))
        }
        None => Ok(()),
    }
}

pub(crate) fn role_of(authoriser: &Authoriser, name: &RoleName) -> Result<RoleId> {
    match name {
        RoleName::Named(name) => role_named(authoriser.catalog().rights(), name),
        RoleName::Current => authoriser.role(),
        RoleName::Session => authoriser.acting_as("none").role(),
        RoleName::Everybody => Err(Error::new(ErrorKind::UndefinedObject, "PUBLIC is no role")
            .with_hint("privileges are granted to it, and nothing else")),
    }
}

fn grantee(authoriser: &Authoriser, name: &RoleName) -> Result<RoleId> {
    if *name == RoleName::Everybody { Ok(PUBLIC) } else { role_of(authoriser, name) }
}

/// The role, which must be the session's own unless a superuser asks.
fn own_or_any(authoriser: &Authoriser, name: &RoleName) -> Result<RoleId> {
    let id = role_of(authoriser, name)?;
    if authoriser.role()? != id {
        authoriser.superuser("change the settings of another role")?;
    }
    Ok(id)
}

/// A role that others can be in.
fn group_of(authoriser: &Authoriser, name: &RoleName) -> Result<RoleId> {
    match role_of(authoriser, name)? {
        BOOTSTRAP => Err(Error::new(ErrorKind::InvalidDefinition, "nobody can be in the first superuser")
            .with_hint("ALTER ROLE ... SUPERUSER makes another one")),
        role => Ok(role),
    }
}

fn pairs(
    authoriser: &Authoriser,
    roles: &[RoleName],
    members: &[RoleName],
    change: impl Fn(RoleId, RoleId) -> RightsChange,
) -> Result<Vec<RightsChange>> {
    let mut changes = Vec::new();
    for role in roles {
        let role = group_of(authoriser, role)?;
        for member in members {
            changes.push(change(role, role_of(authoriser, member)?));
        }
    }
    Ok(changes)
}

/// Whether USAGE of schema `public` is meant, which everybody has.
fn is_of_public(grant: &Grant) -> bool {
    let is_public =
        matches!(&grant.on, GrantOn::Schemas(schemas) if schemas.iter().any(|schema| schema == PUBLIC_SCHEMA));
    is_public && grant.privileges.has(Privilege::Usage)
}

fn on_objects(
    authoriser: &Authoriser,
    grant: &Grant,
    to: &[RoleName],
    change: impl Fn((Object, Privileges), RoleId) -> RightsChange,
) -> Result<Vec<RightsChange>> {
    let catalog = authoriser.catalog();
    let (mut entries, mut views): (Vec<&Arc<TableEntry>>, Vec<&Arc<ViewEntry>>) = (Vec::new(), Vec::new());
    match &grant.on {
        GrantOn::Tables(names) => {
            for name in names {
                match catalog.view(name, authoriser.path()) {
                    Some(view) => views.push(view),
                    None => entries.push(authoriser.relation(name)?),
                }
            }
        }
        GrantOn::AllTables(schemas) => {
            for schema in schemas {
                catalog.schema(schema)?;
                entries.extend(catalog.tables_in(schema));
                views.extend(catalog.views().filter(|view| view.def.schema == *schema));
            }
        }
        GrantOn::Schemas(_) | GrantOn::Database => {}
    }
    for entry in &entries {
        authoriser.table(Need::Ownership, entry)?;
    }
    for view in &views {
        authoriser.view(Need::Ownership, view)?;
    }
    let of_database = || -> Result<Object> {
        authoriser.superuser("change who may do what with the database")?;
        Ok(Object::Database)
    };
    let objects: Vec<(Object, Privileges)> = match &grant.on {
        GrantOn::Database => vec![(of_database()?, grant.privileges)],
        GrantOn::Schemas(schemas) => {
            let mut objects = Vec::new();
            for schema in schemas {
                let id = catalog.schema(schema)?.id;
                // Everybody may use it, and who may make tables in it, may in the database.
                if id == PUBLIC_SCHEMA_ID {
                    let privileges = grant.privileges.without(Privileges::NONE.with(Privilege::Usage));
                    if !privileges.is_empty() {
                        objects.push((of_database()?, privileges));
                    }
                    continue;
                }
                authoriser.owns_schema(schema, id)?;
                objects.push((Object::Table(id), grant.privileges));
            }
            objects
        }
        _ => {
            let ids = entries.iter().map(|entry| entry.def.id).chain(views.iter().map(|view| view.def.id));
            ids.map(|id| (Object::Table(id), grant.privileges)).collect()
        }
    };
    let mut changes = Vec::new();
    for on in objects {
        for role in to {
            changes.push(change(on, grantee(authoriser, role)?));
        }
    }
    Ok(changes)
}
