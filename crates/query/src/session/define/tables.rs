//! CREATE, DROP and ALTER TABLE.
//!
//! A change is checked against the newest visible definitions and committed as a batch, or added to the open
//! transaction's; if another session changed the same table in between, the batch is refused with `Conflict` and
//! nothing has happened.

use crate::engine::Engine;
use crate::errors::from_datafusion;
use crate::errors::signatures::sql_name;
use crate::rights::Need;
use crate::session::define::roles::give_table;
use crate::session::insert::rows::{hold, mapping, read_all, stream_into};
use crate::session::rules::check_definition;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::pin::pin_newest;
use crate::session::select::planning::{plan, plan_later};
use crate::session::state::scope::Scope;
use crate::session::transaction::submit::{change, submit};
use alluvia_catalog::rights::{BOOTSTRAP, RightsChange};
use alluvia_catalog::{Change, TableEntry, alter};
use alluvia_change::conflict::key_name;
use alluvia_snapshot::{NewBatch, RowChange};
use alluvia_space::data_type::chars_of;
use alluvia_space::keywords::quoted;
use alluvia_space::{Check, ColumnType, DataType, Ladder, TableDef};
use alluvia_syntax::statements::definitions::{
    AlterTable, CreateTable, TableChange, WithOptions, checked_freshness, define,
};
use alluvia_syntax::statements::keys::{with_key, with_on_conflict};
use alluvia_syntax::statements::rules::{check_of, free_name, renamed, with_rules};
use alluvia_syntax::{Hints, Kind, parse};
use alluvia_types::{Error, ErrorKind, Result, TableId, Version};
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType as ArrowType, SchemaRef};
use datafusion::common::TableReference;
use futures::StreamExt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

/// CREATE TABLE, with or without AS.
pub(crate) async fn create_table(run: &Arc<Run>, create: CreateTable, hints: &Hints) -> Result<Outcome> {
    if run.scope.table_for(Need::Definition, &create.name).is_ok() {
        if create.if_not_exists {
            let notice = format!("table '{}' exists already, and is left as it is", create.name);
            return Ok(Outcome::done("CREATE TABLE").with_notice(notice));
        }
        return Err(Error::new(ErrorKind::DuplicateTable, format!("table '{}' already exists", create.name))
            .with_hint("choose another name, drop the table first, or write CREATE TABLE IF NOT EXISTS"));
    }
    let id = run.engine().ingest().new_table_id();
    let seed = seed(run.engine(), id);
    let Some(query) = create.query else {
        let columns = create.columns.iter().map(|column| match column.column_type {
            Some(column_type) => Ok((column.name.clone(), column_type, column.nullable)),
            None => Err(Error::internal(format!("column {} came without a type", column.name))),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let def = define(id, &create.name, &columns, &create.with, seed)?;
        let def = with_key(def, &create.key, create.with.on_conflict.as_deref(), secret())?;
        let mut def = with_rules(def, &create.columns, &create.checks)?;
        name_sequences(&run.scope, &mut def);
        check_definition(run, &def).await?;
        change(run, creating(&run.scope, def)?).await?;
        return Ok(Outcome::done("CREATE TABLE"));
    };
    let planned = plan(run, query, hints).await?;
    let names: Vec<String> = create.columns.into_iter().map(|column| column.name).collect();
    let columns = columns_of(&planned.schema(), &names)?;
    let def = define(id, &create.name, &columns, &create.with, seed)?;
    let def = with_key(def, &create.key, create.with.on_conflict.as_deref(), secret())?;
    let all: Vec<usize> = (0..def.columns.len()).collect();
    let mapping = mapping(&def, &all);
    if run.state().is_open()? {
        let rows = read_all(run, &planned, &def, &mapping, &None).await?;
        let count: usize = rows.iter().map(RecordBatch::num_rows).sum();
        run.progress.add_rows(count as u64);
        create_with(run, def, rows).await?;
        return Ok(Outcome::done(format!("SELECT {count}")).with_used(planned.used()));
    }
    let mut batch = NewBatch { changes: creating(&run.scope, def.clone())?, ..NewBatch::default() };
    // The version is ignored for a table that the same batch creates.
    let rows = stream_into(run, &planned, (&Arc::new(def), Version(0)), &mapping, &None, &mut batch).await?;
    let used = planned.used();
    drop(planned);
    submit(run, batch).await?;
    Ok(Outcome::done(format!("SELECT {rows}")).with_used(used))
}

/// Adds a new table and its rows to the open transaction.
pub(crate) async fn create_with(run: &Run, def: TableDef, rows: Vec<RecordBatch>) -> Result<()> {
    let name = def.name.clone();
    change(run, creating(&run.scope, def)?).await?;
    hold(run, &run.scope.table_for(Need::Definition, &name)?, RowChange::Insert, rows).await.map(|_| ())
}

/// A new table, which is whose it is that makes it.
pub(crate) fn creating(scope: &Scope, def: TableDef) -> Result<Vec<Change>> {
    let (table, owner) = (def.id, scope.authoriser().role()?);
    let mut changes = vec![Change::CreateTable { def }];
    if owner != BOOTSTRAP {
        changes.push(Change::Rights { change: RightsChange::Own { table, owner } });
    }
    Ok(changes)
}

/// Gives the sequences of a new table names that no other has, nor a table.
fn name_sequences(scope: &Scope, def: &mut TableDef) {
    let authoriser = scope.authoriser();
    let catalog = authoriser.catalog();
    let mut named: Vec<String> = vec![def.name.clone()];
    for identity in &mut def.rules.identities {
        let is_free = |name: &str| {
            catalog.table(name).is_err() && catalog.sequence(name).is_none() && named.iter().all(|known| known != name)
        };
        identity.name = free_name(&identity.name, is_free);
        named.push(identity.name.clone());
    }
}

/// Seed of a new table's weights. Any number will do, as long as tables differ.
pub(crate) fn seed(engine: &Engine, id: TableId) -> u64 {
    let mut mixed = (engine.read().clock().wall_micros() as u64) ^ (u64::from(id.0) << 40);
    // SplitMix64 (Steele et al. 2014).
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The secret of a new key: nobody who chooses keys may know it. A hasher of the standard library has the system's randomness.
fn secret() -> [u64; 2] {
    let random = || RandomState::new().build_hasher().finish();
    [random(), random()]
}

/// DROP TABLE, all in one batch.
pub(crate) async fn drop_tables(run: &Arc<Run>, names: Vec<String>, if_exists: bool) -> Result<Outcome> {
    let mut changes = Vec::new();
    let mut outcome = Outcome::done("DROP TABLE");
    for name in names {
        match run.scope.table_for(Need::Ownership, &name) {
            Ok(entry) => {
                let drop = Change::DropTable { id: entry.def.id };
                if !changes.contains(&drop) {
                    changes.push(drop);
                }
            }
            Err(error) if if_exists && error.kind() == ErrorKind::UndefinedTable => {
                outcome = outcome.with_notice(format!("there is no table '{name}' to drop"))
            }
            Err(error) => return Err(error),
        }
    }
    if !changes.is_empty() {
        change(run, changes).await?;
    }
    Ok(outcome)
}

/// DROP ... IF EXISTS of what is not built.
pub(crate) fn drop_none(scope: &Scope, command: &'static str, names: &[String]) -> Result<Outcome> {
    let kind = command.trim_start_matches("DROP ").to_lowercase();
    let mut outcome = Outcome::done(command);
    for name in names {
        if scope.table_for(Need::Definition, name).is_ok() {
            return Err(Error::new(ErrorKind::InvalidDefinition, format!("'{name}' is a table, and no {kind}"))
                .with_hint(format!("write DROP TABLE {}", quoted(name))));
        }
        outcome = outcome.with_notice(format!("there is no {kind} '{name}' to drop"));
    }
    Ok(outcome)
}

/// ALTER TABLE.
pub(crate) async fn alter_table(run: &Arc<Run>, statement: AlterTable) -> Result<Outcome> {
    let entry = match run.scope.table_for(Need::Ownership, &statement.name) {
        Ok(entry) => entry,
        Err(error) if statement.if_exists && error.kind() == ErrorKind::UndefinedTable => {
            let notice = format!("there is no table '{}' to alter", statement.name);
            return Ok(Outcome::done("ALTER TABLE").with_notice(notice));
        }
        Err(error) => return Err(error),
    };
    if let TableChange::Owner(owner) = &statement.change {
        return give_table(run, &entry, owner).await;
    }
    let is_of_rules = matches!(statement.change, TableChange::SetDefault { .. } | TableChange::AddCheck(_));
    let added = match &statement.change {
        TableChange::AddCheck(spec) => Some(check_of(&entry.def, spec)?),
        _ => None,
    };
    let def = match altered(&entry.def, statement.change)? {
        Altered::To(def) => *def,
        Altered::Nothing(notice) => return Ok(Outcome::done("ALTER TABLE").with_notice(notice)),
    };
    if is_of_rules {
        check_definition(run, &def).await?;
    }
    if let Some(check) = added {
        return add_check(run, &entry, def, &check).await;
    }
    if def.name != entry.def.name && run.scope.table_for(Need::Definition, &def.name).is_ok() {
        return Err(Error::new(ErrorKind::DuplicateTable, format!("table '{}' already exists", def.name)));
    }
    def.validate()?;
    let ladder = (def.options.ladder != entry.def.options.ladder).then_some(def.options.ladder);
    change(run, vec![Change::AlterTable { def, was: entry.changed_at }]).await?;
    let outcome = Outcome::done("ALTER TABLE");
    Ok(match ladder {
        Some(ladder) => outcome.with_notice(format!(
            "ladders begin at {} in what is merged from now on; merged segments keep theirs until they are merged again",
            ladder.name()
        )),
        None => outcome,
    })
}

/// Columns for the result of a query.
fn columns_of(schema: &SchemaRef, names: &[String]) -> Result<Vec<(String, ColumnType, bool)>> {
    if !names.is_empty() && names.len() != schema.fields().len() {
        return Err(Error::new(
            ErrorKind::InvalidDefinition,
            format!("{} column names are given, and the query has {} columns", names.len(), schema.fields().len()),
        ));
    }
    let column = |(at, field): (usize, &Arc<arrow::datatypes::Field>)| {
        let name = names.get(at).unwrap_or(field.name()).clone();
        let arrow = match field.data_type() {
            ArrowType::Dictionary(_, values) => values.as_ref(),
            other => other,
        };
        let plain = field.as_ref().clone().with_data_type(arrow.clone());
        match DataType::from_field(&plain) {
            Some(data_type) => Ok((name, ColumnType { data_type, chars_max: chars_of(&plain) }, true)),
            None => Err(Error::new(
                ErrorKind::DatatypeMismatch,
                format!("column {name} of the query is {}, which a table cannot hold", sql_name(arrow)),
            )
            .with_hint("cast it in the query: SELECT CAST(x AS TEXT) AS x")),
        }
    };
    schema.fields().iter().enumerate().map(column).collect()
}

/// Adds a condition, which must hold for the rows that are there.
///
/// They are looked at before, and once more when no row that breaks it can come any more: then the condition goes again
/// if one has come between.
async fn add_check(run: &Arc<Run>, entry: &Arc<TableEntry>, def: TableDef, check: &Check) -> Result<Outcome> {
    refuse_broken(run, &def, check).await?;
    let is_alone = !run.state().is_open()?;
    change(run, vec![Change::AlterTable { def: def.clone(), was: entry.changed_at }]).await?;
    if is_alone {
        run.scope.await_own_writes().await?;
        if let Err(error) = refuse_broken(run, &def, check).await {
            let now = run.scope.table_for(Need::Ownership, &def.name)?;
            let def = alter::drop_check(&now.def, &check.name)?;
            change(run, vec![Change::AlterTable { def, was: now.changed_at }]).await?;
            return Err(error);
        }
    }
    Ok(Outcome::done("ALTER TABLE"))
}

/// Refuses a condition that is false of a row which is there.
async fn refuse_broken(run: &Arc<Run>, def: &TableDef, check: &Check) -> Result<()> {
    let table = quoted(&def.name);
    let text = format!("SELECT 1 FROM {table} WHERE NOT ({}) LIMIT 1", check.sql);
    let query = match parse(&text)?.pop().map(|statement| statement.kind) {
        Some(Kind::Query(query)) => query,
        _ => return Err(Error::internal("a condition is no part of a query")),
    };
    let snapshot = pin_newest(run, &[TableReference::bare(def.name.as_str())]).await?;
    let hints = Hints { sample_fraction: Some("1".to_owned()), ..Hints::default() };
    let planned = plan_later(run, query, &snapshot, &hints)?.plan().await?;
    let mut rows = planned.execute()?;
    while let Some(batch) = rows.next().await {
        run.token.check()?;
        if batch.map_err(from_datafusion)?.num_rows() > 0 {
            let message =
                format!("check constraint \"{}\" of relation \"{}\" is violated by some row", check.name, def.name);
            return Err(Error::new(ErrorKind::CheckViolation, message)
                .with_hint(format!("SELECT * FROM {table} WHERE NOT ({}) gives them", check.sql)));
        }
    }
    Ok(())
}

enum Altered {
    To(Box<TableDef>),
    /// IF [NOT] EXISTS found that there is nothing to do.
    Nothing(String),
}

fn altered(def: &TableDef, change: TableChange) -> Result<Altered> {
    let has = |name: &str| def.columns.iter().any(|column| column.name == name);
    let to = match change {
        TableChange::AddColumn { column, if_not_exists } => {
            if if_not_exists && has(&column.name) {
                return Ok(Altered::Nothing(format!("column {} exists already", column.name)));
            }
            let column_type = column.column_type.ok_or_else(|| Error::internal("a column came without a type"))?;
            alter::add_column(def, &column.name, column_type, column.nullable)?
        }
        TableChange::DropColumn { name, if_exists } => {
            if if_exists && !has(&name) {
                return Ok(Altered::Nothing(format!("there is no column {name} to drop")));
            }
            alter::drop_column(def, &name)?
        }
        TableChange::SetDefault { column, sql } => alter::set_default(def, &column, sql)?,
        TableChange::AddCheck(spec) => alter::add_check(def, check_of(def, &spec)?)?,
        TableChange::DropConstraint { name, .. } if def.key.is_some() && name == key_name(def) => {
            return Err(Error::new(ErrorKind::NotSupported, "dropping a primary key is not supported")
                .with_hint("create the table anew without it: CREATE TABLE ... AS SELECT"));
        }
        TableChange::DropConstraint { name, if_exists } => match alter::drop_check(def, &name) {
            Err(error) if if_exists && error.kind() == ErrorKind::UndefinedObject => {
                return Ok(Altered::Nothing(format!("there is no constraint {name} to drop")));
            }
            dropped => dropped?,
        },
        TableChange::RenameColumn { from, to } => {
            alter::rename_column(def, &from, &to, |sql| renamed(sql, &from, &to))?
        }
        TableChange::Rename(name) => alter::rename_table(def, &name)?,
        TableChange::Set(WithOptions {
            dimensions: None,
            measures: None,
            curve: None,
            freshness,
            ladder,
            on_conflict,
        }) => {
            let mut options = def.options.clone();
            if let Some(freshness) = freshness {
                options.freshness = Some(checked_freshness(&freshness)?);
            }
            if let Some(ladder) = ladder {
                options.ladder = Ladder::parse(&ladder)?;
            }
            let def = alter::set_options(def, options)?;
            match on_conflict {
                Some(on_conflict) => with_on_conflict(def, &on_conflict)?,
                None => def,
            }
        }
        TableChange::Owner(_) => return Err(Error::internal("a table's owner is no part of its definition")),
        TableChange::Set(_) => {
            return Err(Error::new(ErrorKind::NotSupported, "changing dimensions, measures or curve is not supported")
                .with_hint("create a new table with CREATE TABLE ... WITH (...) AS SELECT * FROM the old one"));
        }
    };
    Ok(Altered::To(Box::new(to)))
}
