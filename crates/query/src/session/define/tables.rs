//! CREATE TABLE and DROP TABLE.
//!
//! A change is checked against the newest visible definitions and committed as a batch, or added to the open
//! transaction's; if another session changed the same table in between, the batch is refused with `Conflict` and
//! nothing has happened.

use crate::engine::Engine;
use crate::errors::signatures::sql_name;
use crate::result_names::named_schema;
use crate::session::define::constraints::{parents_anew, with_constraints};
use crate::session::insert::rows::{hold, hold_query, mapping, read_all, stream_into};
use crate::session::rules::check_definition;
use crate::session::run::Run;
use crate::session::run::outcome::Outcome;
use crate::session::select::planning::plan;
use crate::session::state::scope::Scope;
use crate::session::transaction::submit::{change, submit};
use alluvia_catalog::authoriser::Need;
use alluvia_catalog::dependents::dependents;
use alluvia_catalog::rights::{BOOTSTRAP, Privilege, RightsChange};
use alluvia_catalog::{
    Catalog, Change, INFORMATION_SCHEMA, Needed, PG_CATALOG, RelationName, SYSTEM_SCHEMA, SearchPath, TEMPORARY_SCHEMA,
};
use alluvia_change::conflict::key_name;
use alluvia_snapshot::{NewBatch, RowChange};
use alluvia_space::data_type::chars_of;
use alluvia_space::{ColumnType, DataType, TableDef};
use alluvia_syntax::Hints;
use alluvia_syntax::statements::definitions::{CreateTable, OnCommit, WithOptions, define};
use alluvia_syntax::statements::keys::with_key;
use alluvia_syntax::statements::moment_defaults::fix_moments;
use alluvia_syntax::statements::rules::{free_name, with_rules};
use alluvia_types::{ColumnId, Error, ErrorKind, Result, TableId, Version};
use alluvia_values::errors::not_supported;
use arrow::array::RecordBatch;
use arrow::datatypes::{DataType as ArrowType, SchemaRef};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;

/// CREATE TABLE, with or without AS.
pub(crate) async fn create_table(run: &Arc<Run>, create: CreateTable, hints: &Hints) -> Result<Outcome> {
    let schema = schema_of_new(&run.scope, &create.name)?;
    let name = (schema.as_str(), create.name.name.as_str());
    let resolver = run.scope.resolver()?;
    if !is_free(resolver.catalog(), name.0, name.1) {
        let is_relation = resolver.catalog().id_in_schema(name.0, name.1).is_some();
        let kind = if is_relation { "table" } else { "relation" };
        if create.if_not_exists {
            let notice = format!("{kind} '{}' exists already, and is left as it is", create.name.name);
            return Ok(Outcome::done("CREATE TABLE").with_notice(notice));
        }
        return Err(Error::new(ErrorKind::DuplicateTable, format!("{kind} '{}' already exists", create.name.name))
            .with_hint("choose another name, drop the table first, or write CREATE TABLE IF NOT EXISTS"));
    }
    if create.with.placement.is_some() && create.temporary.is_none() && !run.engine().read().is_remote() {
        return Err(not_supported("placement of a table in a database of one process")
            .with_hint("its rows are all here; a database on several machines is made by `alluvia node`"));
    }
    let id = match create.temporary {
        Some(_) => run.new_temporary_id()?,
        None => run.engine().ingest().new_table_id(),
    };
    let seed = seed(run.engine(), id);
    let (with, notice) = match create.temporary {
        Some(_) => of_temporary(create.with),
        None => (create.with, None),
    };
    let unlogged = "UNLOGGED changes nothing here: the table is kept as others are";
    let meaningless = with.notice();
    let notices = notice.into_iter().chain(meaningless).chain(create.is_unlogged.then(|| unlogged.to_owned()));
    let told = |outcome: Outcome| notices.fold(outcome, Outcome::with_notice);
    let Some(query) = create.query else {
        let columns = create.columns.iter().map(|column| match column.column_type {
            Some(column_type) => Ok((column.name.clone(), column_type, column.nullable)),
            None => Err(Error::internal(format!("column {} came without a type", column.name))),
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let def = define(id, name, &columns, &with, seed)?;
        let def = with_key(def, &create.key, with.on_conflict.as_deref(), secret())?;
        let mut def = with_rules(def, &create.columns, &create.checks)?;
        let all: Vec<ColumnId> = def.columns.iter().map(|column| column.id).collect();
        fix_moments(&mut def, &all, &run.settings.time_zone)?;
        name_sequences(&run.scope, &mut def);
        check_definition(run, &def).await?;
        let def = with_constraints(run, def, &create.uniques, &create.foreign_keys)?;
        match create.temporary {
            Some(on_commit) => create_temporary(run, def, on_commit)?,
            None => {
                let parents = parents_anew(run, &def, None)?;
                change(run, creating(&run.scope, def)?.into_iter().chain(parents).collect()).await?;
            }
        }
        return Ok(told(Outcome::done("CREATE TABLE")));
    };
    let planned = plan(run, query, hints).await?;
    let names: Vec<String> = create.columns.into_iter().map(|column| column.name).collect();
    let columns = columns_of(&named_schema(&planned.schema(), run.names.get().map(AsRef::as_ref)), &names)?;
    let def = define(id, name, &columns, &with, seed)?;
    let def = with_key(def, &create.key, with.on_conflict.as_deref(), secret())?;
    let all: Vec<usize> = (0..def.columns.len()).collect();
    let mapping = mapping(&def, &all);
    if let Some(on_commit) = create.temporary {
        let name = whole_name(&def);
        create_temporary(run, def, on_commit)?;
        let entry = run.scope.table_for(Need::Definition, &name)?;
        let (rows, _) = hold_query(run, &planned, &entry, RowChange::Insert, &mapping, &None).await?;
        return Ok(told(Outcome::done(format!("SELECT {rows}")).with_used(planned.used())));
    }
    if run.state().is_open()? {
        let rows = read_all(run, &planned, &def, &mapping, &None).await?;
        let count: usize = rows.iter().map(RecordBatch::num_rows).sum();
        run.progress.add_rows(count as u64);
        create_with(run, def, rows).await?;
        return Ok(told(Outcome::done(format!("SELECT {count}")).with_used(planned.used())));
    }
    let mut batch = NewBatch { changes: creating(&run.scope, def.clone())?, ..NewBatch::default() };
    // The version is ignored for a table that the same batch creates.
    let rows = stream_into(run, &planned, (&Arc::new(def), Version(0)), &mapping, &None, &mut batch).await?;
    let used = planned.used();
    drop(planned);
    submit(run, batch).await?;
    Ok(told(Outcome::done(format!("SELECT {rows}")).with_used(used)))
}

/// Adds a temporary table to the session.
pub(crate) fn create_temporary(run: &Run, def: TableDef, on_commit: OnCommit) -> Result<()> {
    let owner = run.scope.authoriser().role()?;
    let version = run.engine().waiting_version();
    run.state().temporary_to_change()?.create(def, version, owner, on_commit);
    Ok(())
}

/// What is said of a table, as far as it means anything for a temporary one: no index is made of it. What means nothing is told.
fn of_temporary(with: WithOptions) -> (WithOptions, Option<String>) {
    let (on_conflict, meaningless) = (with.on_conflict.clone(), with.meaningless.clone());
    let kept = WithOptions { on_conflict, meaningless, ..WithOptions::default() };
    let notice = (with != kept).then(|| "a temporary table has no dimensions, and its options mean nothing".to_owned());
    (kept, notice)
}

/// Adds a new table and its rows to the open transaction.
pub(crate) async fn create_with(run: &Run, def: TableDef, rows: Vec<RecordBatch>) -> Result<()> {
    let name = RelationName::in_schema(def.schema.as_str(), def.name.as_str());
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
pub(crate) fn name_sequences(scope: &Scope, def: &mut TableDef) {
    let authoriser = scope.authoriser();
    let catalog = authoriser.catalog();
    let mut named: Vec<String> = vec![def.name.clone()];
    let schema = def.schema.clone();
    for identity in &mut def.rules.identities {
        let is_free = |name: &str| is_free(catalog, &schema, name) && named.iter().all(|known| known != name);
        identity.name = free_name(&identity.name, is_free);
        named.push(identity.name.clone());
    }
}

/// Whether no table, no sequence and no index of a schema is called so.
pub(crate) fn is_free(catalog: &Catalog, schema: &str, name: &str) -> bool {
    let named = RelationName::in_schema(schema, name);
    let path = SearchPath::default();
    catalog.id_in_schema(schema, name).is_none()
        && catalog.sequence(&named, &path).is_none()
        && catalog.index(&named, &path).is_none()
        && catalog.tables_in(schema).all(|entry| entry.def.key.is_none() || key_name(&entry.def) != name)
}

/// The schema that a new relation of this name comes into: the one that is written, or the first of the path.
pub(crate) fn schema_of_new(scope: &Scope, name: &RelationName) -> Result<String> {
    let authoriser = scope.resolver()?;
    let schema = match name.schema() {
        Some(schema) => schema,
        None => authoriser.path().schemas().find(|schema| *schema != TEMPORARY_SCHEMA).ok_or_else(|| {
            Error::new(ErrorKind::UndefinedSchema, "no schema has been selected to create in")
                .with_hint("name the schema: s.t, or SET search_path to one that exists")
        })?,
    };
    if matches!(schema, SYSTEM_SCHEMA | PG_CATALOG | INFORMATION_SCHEMA) {
        return Err(Error::new(ErrorKind::Forbidden, format!("permission denied for schema {schema}"))
            .with_hint("it is the system's: make tables in another schema"));
    }
    if schema == TEMPORARY_SCHEMA {
        return Ok(schema.to_owned());
    }
    authoriser.schema(Privilege::Create, schema, authoriser.catalog().schema(schema)?.id)?;
    Ok(schema.to_owned())
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
pub(crate) fn secret() -> [u64; 2] {
    let random = || RandomState::new().build_hasher().finish();
    [random(), random()]
}

/// DROP TABLE, all in one batch.
pub(crate) async fn drop_tables(
    run: &Arc<Run>,
    names: Vec<RelationName>,
    if_exists: bool,
    cascade: bool,
) -> Result<Outcome> {
    let mut changes = Vec::new();
    let mut gone = Vec::new();
    let mut outcome = Outcome::done("DROP TABLE");
    for name in names {
        if let Some(error) = missing_schema(&run.scope, &name)? {
            match if_exists {
                true => outcome = outcome.with_notice(format!("{}, skipping", error.message())),
                false => return Err(error),
            }
            continue;
        }
        match run.scope.table_for(Need::Dropping, &name) {
            Ok(entry) => {
                let drop = Change::DropTable { id: entry.def.id };
                if !changes.contains(&drop) {
                    changes.push(drop);
                    gone.push(entry);
                }
            }
            Err(error) if if_exists && error.kind() == ErrorKind::UndefinedTable => {
                outcome = outcome.with_notice(format!("there is no table '{}' to drop", name.name))
            }
            Err(error) => return Err(error),
        }
    }
    let Some(first) = gone.first() else { return Ok(outcome) };
    let needed: Vec<Needed> = gone.iter().map(|entry| Needed::Relation(entry.def.id)).collect();
    let what = format!("table {}", first.def.shown());
    let mut with = dependents(run.scope.resolver()?.catalog(), &needed, &what, cascade)?;
    with.changes.extend(changes);
    change(run, with.changes).await?;
    Ok(with.notices.into_iter().fold(outcome, Outcome::with_notice))
}

/// The error for a name whose schema does not exist.
pub(crate) fn missing_schema(scope: &Scope, name: &RelationName) -> Result<Option<Error>> {
    let Some(schema) = name.schema() else { return Ok(None) };
    let authoriser = scope.resolver()?;
    Ok(authoriser.catalog().schema(schema).err())
}

/// DROP ... IF EXISTS of what is not built.
pub(crate) fn drop_none(scope: &Scope, command: &'static str, names: &[RelationName]) -> Result<Outcome> {
    let kind = command.trim_start_matches("DROP ").to_lowercase();
    let mut outcome = Outcome::done(command);
    for name in names {
        if scope.table_for(Need::Definition, name).is_ok() {
            return Err(Error::new(ErrorKind::InvalidDefinition, format!("'{}' is a table, and no {kind}", name.name))
                .with_hint(format!("write DROP TABLE {name}")));
        }
        outcome = outcome.with_notice(format!("there is no {kind} '{}' to drop", name.name));
    }
    Ok(outcome)
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

/// A table's name with its schema.
pub(crate) fn whole_name(def: &TableDef) -> RelationName {
    RelationName::in_schema(def.schema.as_str(), def.name.as_str())
}
