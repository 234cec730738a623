//! UNIQUE, foreign keys and indexes in definitions: what they are called, what they refer to, and whether they hold for the rows that are
//! there.
//!
//! Invariants:
//! - A constraint is added only where it holds: rows are looked at, and the definition changes only if none was written since.
//! - Whoever refers to a table makes a new version of its definition, so that nobody goes by the old one: rows that wait for COMMIT are
//!   refused then, and statements are compiled anew.

use crate::errors::from_datafusion;
use crate::session::define::tables::is_free;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::pin::{pin_newest, reference_of};
use crate::session::select::planning::plan_later;
use crate::session::state::temporary::is_temporary;
use crate::session::transaction::submit::{change, change_unwritten};
use alluvia_catalog::authoriser::Need;
use alluvia_catalog::dependents::{Dependents, references_lost};
use alluvia_catalog::{Change, RelationName, TableEntry, alter};
use alluvia_change::conflict::key_name;
use alluvia_constraints::definition::{duplicates_sql, is_duplicate, is_orphan, orphans_sql};
use alluvia_space::{ForeignKey, Index, TableDef};
use alluvia_syntax::statements::alter::AlterTable;
use alluvia_syntax::statements::constraints::{ForeignKeySpec, UniqueSpec, foreign_key_of, index_of, unique_of};
use alluvia_syntax::statements::maintenance::{CreateIndex, DropIndex};
use alluvia_syntax::{Hints, Kind, parse};
use alluvia_types::{Error, ErrorKind, Result, TableId, Version};
use alluvia_values::errors::not_supported;
use arrow::array::RecordBatch;
use futures::StreamExt;
use std::sync::Arc;

/// How often rows are looked at anew where others have written some since.
const TRIES_MAX: u32 = 10;

/// A definition with constraints that were declared with it.
pub(crate) fn with_constraints(
    run: &Run,
    mut def: TableDef,
    uniques: &[UniqueSpec],
    foreign_keys: &[ForeignKeySpec],
) -> Result<TableDef> {
    if uniques.is_empty() && foreign_keys.is_empty() {
        return Ok(def);
    }
    check_kept(run, def.id, if uniques.is_empty() { "FOREIGN KEY" } else { "UNIQUE" })?;
    for spec in uniques {
        let index = unique_index(run, &def, spec)?;
        // As in PostgreSQL, one that says what another says is none.
        let is_key = def.key.as_ref().is_some_and(|key| key.columns == index.columns);
        if !is_key && def.indexes.iter().all(|known| known.columns != index.columns) {
            def.indexes.push(index);
        }
    }
    for spec in foreign_keys {
        let key = foreign_key(run, &def, spec)?;
        def.foreign_keys.push(key);
    }
    def.validate()?;
    Ok(def)
}

/// Refuses constraints where nobody could check them.
fn check_kept(run: &Run, table: TableId, what: &str) -> Result<()> {
    if is_temporary(table) {
        return Err(
            not_supported(format!("{what} in a temporary table")).with_hint("leave it out, or make a table that stays")
        );
    }
    if run.engine().read().is_remote() {
        return Err(not_supported(format!("{what} on a database of several machines"))
            .with_hint("a primary key is what is kept unique there"));
    }
    Ok(())
}

fn unique_index(run: &Run, def: &TableDef, spec: &UniqueSpec) -> Result<Index> {
    let authoriser = run.scope.resolver()?;
    let free = |name: &str| is_free(authoriser.catalog(), &def.schema, name);
    let index = unique_of(def, spec, free)?;
    match free(&index.name) && !def.has_constraint(&index.name) {
        true => Ok(index),
        false => Err(taken(&index.name)),
    }
}

fn taken(name: &str) -> Error {
    Error::new(ErrorKind::DuplicateTable, format!("relation \"{name}\" already exists"))
        .with_hint("choose another name for the index")
}

fn foreign_key(run: &Run, def: &TableDef, spec: &ForeignKeySpec) -> Result<ForeignKey> {
    let is_itself = spec.parent.name == def.name && spec.parent.schema().is_none_or(|schema| schema == def.schema);
    if is_itself {
        return refuse_keyless(foreign_key_of(def, spec, def)?, def);
    }
    run.scope.refuse_view(Need::Ownership, &spec.parent)?;
    let parent = run.scope.table_for(Need::Ownership, &spec.parent)?;
    if is_temporary(parent.def.id) {
        let message = "constraints on permanent tables may reference only permanent tables";
        return Err(Error::new(ErrorKind::InvalidDefinition, message));
    }
    refuse_keyless(foreign_key_of(def, spec, &parent.def)?, &parent.def)
}

/// Refuses a parent whose rows have no keys: what they were before they change is found by these.
fn refuse_keyless(key: ForeignKey, parent: &TableDef) -> Result<ForeignKey> {
    match &parent.key {
        Some(_) => Ok(key),
        None => Err(not_supported(format!(
            "a foreign key that refers to table {}, which has no primary key",
            parent.shown()
        ))
        .with_hint("create the parent with a PRIMARY KEY")),
    }
}

/// The changes by which the tables that a new or changed definition refers to are defined anew, as they are.
pub(crate) fn parents_anew(run: &Run, def: &TableDef, before: Option<&TableDef>) -> Result<Vec<Change>> {
    let mut parents: Vec<TableId> = Vec::new();
    for key in &def.foreign_keys {
        let is_known = before.is_some_and(|before| before.foreign_keys.contains(key));
        if !is_known && key.parent != def.id && !parents.contains(&key.parent) {
            parents.push(key.parent);
        }
    }
    let authoriser = run.scope.resolver()?;
    let anew = |parent: &TableId| {
        let entry = authoriser.catalog().by_id(*parent);
        let entry = entry.ok_or_else(|| Error::new(ErrorKind::Conflict, "a table that is referred to was dropped"))?;
        Ok(Change::AlterTable { def: TableDef::clone(&entry.def), was: entry.changed_at })
    };
    parents.iter().map(anew).collect()
}

/// ADD CONSTRAINT UNIQUE.
pub(crate) async fn add_unique(run: &Arc<Run>, entry: &Arc<TableEntry>, spec: &UniqueSpec) -> Result<()> {
    check_kept(run, entry.def.id, "UNIQUE")?;
    add_index(run, entry, unique_index(run, &entry.def, spec)?).await
}

async fn add_index(run: &Arc<Run>, entry: &Arc<TableEntry>, index: Index) -> Result<()> {
    let unique = index.unique.then(|| index.clone());
    let def = alter::add_index(&entry.def, index)?;
    let altered = vec![Change::AlterTable { def: def.clone(), was: entry.changed_at }];
    match unique {
        None => change(run, altered).await,
        Some(index) => {
            let sql = duplicates_sql(&entry.def, &index)?;
            add_checked(run, &[entry], &sql, altered, |row| is_duplicate(&def, &index, row)).await
        }
    }
}

/// ADD CONSTRAINT FOREIGN KEY.
pub(crate) async fn add_foreign_key(run: &Arc<Run>, entry: &Arc<TableEntry>, spec: &ForeignKeySpec) -> Result<()> {
    check_kept(run, entry.def.id, "FOREIGN KEY")?;
    let key = foreign_key(run, &entry.def, spec)?;
    let def = alter::add_foreign_key(&entry.def, key.clone())?;
    let mut changes = parents_anew(run, &def, Some(&entry.def))?;
    changes.push(Change::AlterTable { def: def.clone(), was: entry.changed_at });
    let parent = run.scope.resolver()?.catalog().by_id(key.parent).cloned();
    let parent = parent.ok_or_else(|| Error::internal("what is referred to is gone"))?;
    let sql = orphans_sql(&entry.def, &key, &parent.def)?;
    add_checked(run, &[entry, &parent], &sql, changes, |row| is_orphan(&def, &key, &parent.def, row)).await
}

/// Changes definitions if a query finds no row which `broken` makes an error of, and none of these tables was written since.
pub(super) async fn add_checked(
    run: &Arc<Run>,
    tables: &[&Arc<TableEntry>],
    sql: &str,
    changes: Vec<Change>,
    broken: impl Fn(&RecordBatch) -> Result<Error>,
) -> Result<()> {
    for tried in 1.. {
        run.scope.await_own_writes().await?;
        run.unpin();
        let version = refuse_found(run, tables, sql, &broken).await?;
        let unwritten = tables.iter().map(|entry| (entry.def.id, version)).collect();
        match change_unwritten(run, changes.clone(), unwritten).await {
            Err(error) if error.kind() == ErrorKind::Conflict && tried < TRIES_MAX && !run.scope.in_transaction() => {}
            done => return done,
        }
        run.token.check()?;
    }
    Ok(())
}

/// The version that a query read, which found nothing.
pub(super) async fn refuse_found(
    run: &Arc<Run>,
    tables: &[&Arc<TableEntry>],
    sql: &str,
    broken: impl Fn(&RecordBatch) -> Result<Error>,
) -> Result<Version> {
    let query = match parse(sql)?.pop().map(|statement| statement.kind) {
        Some(Kind::Query(query)) => query,
        _ => return Err(Error::internal("what looks for rows that break a constraint is no query")),
    };
    let named = |entry: &&Arc<TableEntry>| {
        reference_of(&RelationName::in_schema(entry.def.schema.as_str(), entry.def.name.as_str()))
    };
    let snapshot = pin_newest(run, &tables.iter().map(named).collect::<Vec<_>>()).await?;
    let hints = Hints { sample_fraction: Some("1".to_owned()), ..Hints::default() };
    let planned = plan_later(run, query, &snapshot, &hints)?.plan().await?;
    let mut rows = planned.execute()?;
    while let Some(batch) = rows.next().await {
        run.token.check()?;
        let batch = batch.map_err(from_datafusion)?;
        if batch.num_rows() > 0 {
            return Err(broken(&batch)?);
        }
    }
    Ok(snapshot.version)
}

/// What goes with the keys that a definition has no more: the foreign keys that refer by them.
pub(crate) fn without_keys(run: &Run, new: &TableDef, what: &str, cascade: bool) -> Result<Dependents> {
    references_lost(run.scope.resolver()?.catalog(), new, what, cascade)
}

/// CREATE INDEX on columns.
pub(crate) async fn create_index(run: &Arc<Run>, create: CreateIndex) -> Result<Outcome> {
    let CreateIndex { name, table, columns, unique, if_not_exists, idle } = create;
    if idle.is_alone && run.scope.in_transaction() {
        return Err(alone("CREATE INDEX"));
    }
    run.scope.refuse_view(Need::Ownership, &table)?;
    let entry = run.scope.table_for(Need::Ownership, &table)?;
    if unique {
        check_kept(run, entry.def.id, "CREATE UNIQUE INDEX")?;
    } else if entry.def.key.is_none() || is_temporary(entry.def.id) || run.engine().read().is_remote() {
        return crate::session::define::comments::idle(&run.scope, &idle);
    }
    let done = Outcome::done("CREATE INDEX");
    let index = {
        let authoriser = run.scope.resolver()?;
        let free = |name: &str| is_free(authoriser.catalog(), &entry.def.schema, name);
        let index = index_of(&entry.def, (&name, &columns, "idx"), unique, free)?;
        if !free(&index.name) || entry.def.has_constraint(&index.name) {
            return match if_not_exists {
                true => Ok(done.with_notice(format!("relation \"{}\" already exists, skipping", index.name))),
                false => Err(taken(&index.name)),
            };
        }
        index
    };
    add_index(run, &entry, index).await?;
    Ok(done)
}

/// DROP INDEX, all in one batch.
pub(crate) async fn drop_index(run: &Arc<Run>, drop: DropIndex) -> Result<Outcome> {
    if drop.is_alone && run.scope.in_transaction() {
        return Err(alone("DROP INDEX"));
    }
    let mut outcome = Outcome::done("DROP INDEX");
    let (mut changes, mut notices): (Vec<Change>, Vec<String>) = (Vec::new(), Vec::new());
    for name in &drop.names {
        let found = {
            let authoriser = run.scope.resolver()?;
            let found = authoriser.catalog().index(name, authoriser.path());
            found.map(|(entry, index)| (Arc::clone(entry), index.clone()))
        };
        let Some((entry, index)) = found else {
            refuse_other(run, name)?;
            if drop.if_exists {
                outcome = outcome.with_notice(format!("index \"{name}\" does not exist, skipping"));
                continue;
            }
            return Err(Error::new(ErrorKind::UndefinedObject, format!("index \"{name}\" does not exist"))
                .with_hint("SHOW CREATE TABLE tells the indexes of a table"));
        };
        run.scope.authoriser().table(Need::Ownership, &entry)?;
        if index.is_constraint {
            return Err(required(&index.name, &entry.def));
        }
        // Several of one table.
        let known = changes.iter_mut().find_map(|change| match change {
            Change::AlterTable { def, .. } if def.id == entry.def.id => Some(def),
            _ => None,
        });
        let def = alter::drop_index(known.as_deref().unwrap_or(&entry.def), &index.name);
        let with = without_keys(run, &def, &format!("index {}", index.name), drop.cascade)?;
        match known {
            Some(known) => *known = def,
            None => changes.push(Change::AlterTable { def, was: entry.changed_at }),
        }
        with.changes.into_iter().for_each(|change| without_lost(&mut changes, change));
        // What has gone with one index of a table is told again with the next.
        notices.extend(with.notices.into_iter().filter(|notice| !notices.contains(notice)).collect::<Vec<_>>());
    }
    change(run, changes).await?;
    outcome = notices.into_iter().fold(outcome, Outcome::with_notice);
    Ok(outcome)
}

/// Adds the change of a table that only loses foreign keys to others, which may change the same table.
fn without_lost(changes: &mut Vec<Change>, change: Change) {
    let Change::AlterTable { def: lost, .. } = &change else { return };
    let known = changes.iter_mut().find_map(|change| match change {
        Change::AlterTable { def, .. } if def.id == lost.id => Some(def),
        _ => None,
    });
    match known {
        Some(known) => known.foreign_keys.retain(|key| lost.foreign_keys.contains(key)),
        None => changes.push(change),
    }
}

/// ALTER INDEX ... RENAME TO.
pub(super) async fn rename_index(run: &Run, statement: &AlterTable, to: &str) -> Result<Outcome> {
    let (name, done) = (&statement.name, Outcome::done("ALTER INDEX"));
    let found = {
        let authoriser = run.scope.resolver()?;
        let found = authoriser.catalog().index(name, authoriser.path());
        found.map(|(entry, index)| (Arc::clone(entry), index.name.clone()))
    };
    let Some((entry, from)) = found else {
        let message = format!("relation \"{name}\" does not exist");
        return match statement.if_exists {
            true => Ok(done.with_notice(format!("{message}, skipping"))),
            false => Err(Error::new(ErrorKind::UndefinedTable, message)
                .with_hint("SHOW CREATE TABLE tells the indexes of a table; that of a primary key keeps its name")),
        };
    };
    run.scope.authoriser().table(Need::Ownership, &entry)?;
    if !is_free(run.scope.resolver()?.catalog(), &entry.def.schema, to) || entry.def.has_constraint(to) {
        return Err(taken(to));
    }
    let mut def = TableDef::clone(&entry.def);
    def.indexes.iter_mut().filter(|index| index.name == from).for_each(|index| index.name = to.to_owned());
    def.validate()?;
    change(run, vec![Change::AlterTable { def, was: entry.changed_at }]).await?;
    Ok(done)
}

/// Refuses the name of a table, and that of a key's index.
fn refuse_other(run: &Run, name: &RelationName) -> Result<()> {
    if run.scope.table_for(Need::Definition, name).is_ok() {
        return Err(Error::new(ErrorKind::WrongObject, format!("\"{name}\" is not an index"))
            .with_hint(format!("write DROP TABLE {name}")));
    }
    let authoriser = run.scope.resolver()?;
    let is_meant = |def: &TableDef| match name.schema() {
        Some(schema) => def.schema == schema,
        None => authoriser.path().schemas().any(|schema| schema == def.schema),
    };
    let mut tables = authoriser.catalog().tables();
    match tables.find(|entry| entry.def.key.is_some() && key_name(&entry.def) == name.name && is_meant(&entry.def)) {
        Some(entry) => Err(required(&name.name, &entry.def)),
        None => Ok(()),
    }
}

fn required(name: &str, def: &TableDef) -> Error {
    let on = format!("constraint {name} on table {}", def.shown());
    Error::new(ErrorKind::DependentObjects, format!("cannot drop index {name} because {on} requires it"))
        .with_hint(format!("You can drop {on} instead."))
}

fn alone(command: &str) -> Error {
    Error::new(ErrorKind::Transaction, format!("{command} CONCURRENTLY cannot run inside a transaction block"))
        .with_hint("COMMIT or ROLLBACK first")
}
