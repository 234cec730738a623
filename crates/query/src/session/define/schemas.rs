//! CREATE, DROP and ALTER SCHEMA.
//!
//! Invariants:
//! - A schema is dropped with everything that is in it, or not at all.
//! - Who makes a schema owns it, and may drop whatever others put into it.
//! - Schema `public` stays, under its name; the system's own schemas are nobody's to change.

use crate::session::define::roles::role_of;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::transaction::submit::change;
use alluvia_catalog::authoriser::Authoriser;
use alluvia_catalog::dependents::{references_gone, shown};
use alluvia_catalog::rights::{BOOTSTRAP, Privilege, RightsChange, RoleId};
use alluvia_catalog::{
    Change, INFORMATION_SCHEMA, Needed, PG_CATALOG, PUBLIC_SCHEMA_ID, SYSTEM_SCHEMA, TEMPORARY_SCHEMA,
};
use alluvia_space::keywords::quoted;
use alluvia_space::{SCHEMA_NAME_BYTES_MAX, is_schema_name};
use alluvia_syntax::statements::roles::RoleName;
use alluvia_syntax::statements::schemas::SchemaStatement;
use alluvia_types::{Error, ErrorKind, Result, TableId};
use std::sync::Arc;

/// What begins the names of the system's schemas.
const RESERVED_PREFIX: &str = "pg_";

/// What statements about schemas do.
pub(crate) async fn schema_statement(run: &Arc<Run>, statement: SchemaStatement) -> Result<Outcome> {
    let command = statement.command();
    let authoriser = run.scope.resolver()?;
    let (changes, notices) = match statement {
        SchemaStatement::Create { name, owner, if_not_exists } => create(run, &authoriser, name, owner, if_not_exists)?,
        SchemaStatement::Drop { names, if_exists, cascade } => drop_all(&authoriser, &names, if_exists, cascade)?,
        SchemaStatement::Rename { name, to } => {
            let id = own(&authoriser, &name, "renamed")?;
            authoriser.database(Privilege::Create)?;
            check_name(&to)?;
            refuse_taken(&authoriser, &to)?;
            (vec![Change::RenameSchema { id, name: to }], Vec::new())
        }
        SchemaStatement::Owner { name, owner } => {
            let id = own(&authoriser, &name, "given to another")?;
            let owner = owner_of(&authoriser, &owner)?;
            let change = RightsChange::Own { table: id, owner };
            (vec![Change::Rights { change }], Vec::new())
        }
    };
    if !changes.is_empty() {
        change(run, changes).await?;
    }
    Ok(notices.into_iter().fold(Outcome::done(command), Outcome::with_notice))
}

fn create(
    run: &Run,
    authoriser: &Authoriser,
    name: Option<String>,
    owner: Option<RoleName>,
    if_not_exists: bool,
) -> Result<(Vec<Change>, Vec<String>)> {
    authoriser.database(Privilege::Create)?;
    let owner = match &owner {
        Some(owner) => owner_of(authoriser, owner)?,
        None => authoriser.role()?,
    };
    let name = name.unwrap_or_else(|| authoriser.catalog().rights().name(owner).to_owned());
    check_name(&name)?;
    if let Err(error) = refuse_taken(authoriser, &name) {
        return match if_not_exists {
            true => Ok((Vec::new(), vec![format!("schema \"{name}\" already exists, skipping")])),
            false => Err(error),
        };
    }
    let id = run.engine().ingest().new_table_id();
    let mut changes = vec![Change::CreateSchema { id, name }];
    if owner != BOOTSTRAP {
        changes.push(Change::Rights { change: RightsChange::Own { table: id, owner } });
    }
    Ok((changes, Vec::new()))
}

fn drop_all(
    authoriser: &Authoriser,
    names: &[String],
    if_exists: bool,
    cascade: bool,
) -> Result<(Vec<Change>, Vec<String>)> {
    let catalog = authoriser.catalog();
    let (mut changes, mut notices) = (Vec::new(), Vec::new());
    let (mut dropped, mut schemas, mut gone): (Vec<&str>, Vec<Change>, Vec<Needed>) = Default::default();
    // What goes with them, and why.
    let mut cascaded: Vec<(String, String)> = Vec::new();
    for name in names {
        let id = match own(authoriser, name, "dropped") {
            Err(error) if if_exists && error.kind() == ErrorKind::UndefinedSchema => {
                notices.push(format!("schema \"{name}\" does not exist, skipping"));
                continue;
            }
            id => id?,
        };
        if dropped.contains(&name.as_str()) {
            continue;
        }
        dropped.push(name);
        let needed = catalog.relations_in(name).map(Needed::Relation);
        for needed in needed {
            cascaded.push((shown(catalog, needed), format!("schema {}", quoted(name))));
            gone.push(needed);
        }
        for routine in catalog.routines_in(name) {
            cascaded.push((format!("procedure {}", routine.def.shown()), format!("schema {}", quoted(name))));
            changes.push(Change::DropRoutine { id: routine.def.id });
        }
        schemas.push(Change::DropSchema { id });
    }
    let elsewhere = catalog.dependents(&gone);
    cascaded.extend(
        elsewhere
            .iter()
            .map(|dependent| (format!("view {}", dependent.view.def.shown()), shown(catalog, dependent.on))),
    );
    let referring = references_gone(catalog, &gone);
    cascaded.extend(referring.shown);
    changes.extend(referring.changes);
    let is_gone = |id: TableId| {
        gone.contains(&Needed::Relation(id)) || elsewhere.iter().any(|dependent| dependent.view.def.id == id)
    };
    let views = catalog.views_in_order().into_iter().rev().filter(|view| is_gone(view.def.id));
    changes.extend(views.map(|view| Change::DropView { id: view.def.id }));
    let tables = catalog.tables().filter(|entry| is_gone(entry.def.id));
    changes.extend(tables.map(|entry| Change::DropTable { id: entry.def.id }));
    changes.extend(schemas);
    if cascaded.is_empty() {
        return Ok((changes, notices));
    }
    if !cascade {
        let what = match dropped.as_slice() {
            [one] => format!("cannot drop schema {one} because other objects depend on it"),
            _ => "cannot drop desired object(s) because other objects depend on them".to_owned(),
        };
        let line = |(dependent, on): &(String, String)| format!("{dependent} depends on {on}");
        let mut lines: Vec<String> = cascaded.iter().take(SHOWN_MAX).map(line).collect();
        if cascaded.len() > SHOWN_MAX {
            lines.push(format!("and {} other objects", cascaded.len() - SHOWN_MAX));
        }
        return Err(Error::new(ErrorKind::DependentObjects, what)
            .with_detail(lines.join("\n"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    notices.push(match cascaded.as_slice() {
        [(one, _)] => format!("drop cascades to {one}"),
        all => format!("drop cascades to {} other objects", all.len()),
    });
    Ok((changes, notices))
}

/// Objects that a message names, as PostgreSQL's.
const SHOWN_MAX: usize = 100;

/// A schema that is the session's to change.
fn own(authoriser: &Authoriser, name: &str, changed: &str) -> Result<TableId> {
    if is_of_system(name) {
        return Err(Error::new(
            ErrorKind::DependentObjects,
            format!("schema {name} cannot be {changed} because it is required by the database system"),
        ));
    }
    let id = authoriser.catalog().schema(name)?.id;
    authoriser.owns_schema(name, id)?;
    if id == PUBLIC_SCHEMA_ID {
        return Err(Error::new(
            ErrorKind::NotSupported,
            format!("schema public cannot be {changed}: that is not supported"),
        )
        .with_hint("leave it empty, and SET search_path to others"));
    }
    Ok(id)
}

fn is_of_system(name: &str) -> bool {
    [SYSTEM_SCHEMA, PG_CATALOG, INFORMATION_SCHEMA, TEMPORARY_SCHEMA].contains(&name)
}

fn check_name(name: &str) -> Result<()> {
    if name.starts_with(RESERVED_PREFIX) {
        return Err(Error::new(ErrorKind::ReservedName, format!("unacceptable schema name \"{name}\""))
            .with_hint(format!("the prefix \"{RESERVED_PREFIX}\" is reserved for system schemas")));
    }
    if name.is_empty() {
        return Err(Error::new(ErrorKind::Syntax, "zero-length delimited identifier at or near \"\"\"\""));
    }
    if !is_schema_name(name) {
        return Err(Error::new(ErrorKind::InvalidDefinition, format!("a schema cannot be called {name:?}"))
            .with_hint(format!("a name has 1 to {SCHEMA_NAME_BYTES_MAX} bytes, and no control characters")));
    }
    Ok(())
}

fn refuse_taken(authoriser: &Authoriser, name: &str) -> Result<()> {
    if authoriser.catalog().schema(name).is_err() && !is_of_system(name) {
        return Ok(());
    }
    Err(Error::new(ErrorKind::DuplicateSchema, format!("schema \"{name}\" already exists"))
        .with_hint("choose another name, or write CREATE SCHEMA IF NOT EXISTS"))
}

/// A role that a schema may be given to: one that the session's is in, unless it is a superuser's.
fn owner_of(authoriser: &Authoriser, owner: &RoleName) -> Result<RoleId> {
    let owner = role_of(authoriser, owner)?;
    if !authoriser.catalog().rights().is_in(authoriser.role()?, owner) {
        authoriser.superuser("give a schema to a role that one is not in")?;
    }
    Ok(owner)
}
